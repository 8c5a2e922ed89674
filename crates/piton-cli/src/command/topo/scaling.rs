//! How far copies between ever more devices add up, beside what the machine's cuts allow.

use piton_fluid::{Pattern, Policy, Scaled, scaling};
use piton_topology::{BytesPerSec, Machine};

/// Counts of devices that people compare.
const COUNTS: [u16; 5] = [2, 4, 8, 16, 64];

const PATTERNS: [Pattern; 4] = [
    Pattern::Neighbour,
    Pattern::Shift,
    Pattern::AllToAll,
    Pattern::Gather,
];

/// With more devices, patterns of all pairs are left out: planning them takes minutes.
const MAX_ALL_TO_ALL: u16 = 16;

pub(super) fn text(machine: &Machine) -> String {
    let mut text =
        "scaling, all copies of a pattern at once, each as fast as the slowest:".to_owned();
    text.push_str(&format!(
        "\n  {:<8}{:<12}{:>12}{:>12}{:>12}{:>12}{:>12}  striped is",
        "devices",
        "pattern",
        Policy::Nearest.word(),
        Policy::Widest.word(),
        Policy::Striped.word(),
        "linear",
        "the cut"
    ));
    let mut counts: Vec<u16> = COUNTS.to_vec();
    counts.extend(u16::try_from(machine.device_count()).ok());
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let is_asked =
            |pattern: &&Pattern| **pattern != Pattern::AllToAll || count <= MAX_ALL_TO_ALL;
        let patterns: Vec<Pattern> = PATTERNS.iter().filter(is_asked).copied().collect();
        for scaled in scaling(machine, &patterns, &[count]) {
            text.push_str(&line(&scaled));
        }
    }
    text
}

fn line(scaled: &Scaled) -> String {
    let rate = |rate: u64| BytesPerSec::new(rate).to_string();
    let [nearest, widest, striped] = scaled.together.map(rate);
    format!(
        "\n  {:<8}{:<12}{nearest:>12}{widest:>12}{striped:>12}{:>12}{:>12}  {:.2} of linear, {:.2} of what is possible",
        scaled.devices,
        scaled.pattern.word(),
        rate(scaled.linear),
        rate(scaled.cut),
        scaled.of_linear(),
        scaled.of_possible(),
    )
}
