//! What is written below the drawing: which line is which link, and the traffic pair by pair.

use std::collections::BTreeSet;

use super::Highlight;
use super::element::{Line, Rect, text};
use super::layout::Layout;
use crate::id::DeviceId;
use crate::link::{Link, LinkKind};
use crate::machine::Machine;

const LEFT: i32 = 12;
const ROW: i32 = 20;
/// Room for the bar of a pair's weight.
const BAR: i32 = 90;
/// Natural width of the longest row.
const WIDTH: i32 = 460;
/// Pairs that are listed one by one; the rest is counted.
const MOST_PAIRS: usize = 32;

pub(super) struct Legend {
    pub(super) markup: String,
    pub(super) width: i32,
    pub(super) bottom: i32,
}

pub(super) fn draw(machine: &Machine, highlights: &[Highlight<'_>], layout: &Layout) -> Legend {
    let mut legend = Legend {
        markup: String::new(),
        width: WIDTH,
        bottom: layout.bottom + 12,
    };
    for (link, words) in link_words(machine) {
        let y = legend.next_row();
        let line = Line {
            path: format!("M{LEFT} {}L{} {}", y - 4, LEFT + 28, y - 4),
            class: link_class(link.kind),
            tenths_wide: tenths_wide(link),
            is_traffic: false,
        };
        legend.markup.push_str(&line.markup(&words));
        let words = text(LEFT + 38, y, "small", "start", &words);
        legend.markup.push_str(&words);
    }
    legend.pairs(machine, highlights);
    legend.bottom += 10;
    legend
}

impl Legend {
    fn next_row(&mut self) -> i32 {
        self.bottom += ROW;
        self.bottom
    }

    fn pairs(&mut self, machine: &Machine, highlights: &[Highlight<'_>]) {
        if !highlights.is_empty() {
            self.bottom += ROW / 2;
        }
        let most = highlights.iter().map(|one| one.weight).max().unwrap_or(0);
        for highlight in highlights.iter().take(MOST_PAIRS) {
            let y = self.next_row();
            self.markup.push_str(&bar(y, highlight.weight, most));
            let name = |device: DeviceId| {
                let node = machine.device(device);
                node.map_or_else(|| device.to_string(), |node| node.name.clone())
            };
            let pair = format!(
                "{} → {}: {}",
                name(highlight.from),
                name(highlight.to),
                highlight.label
            );
            self.width = self.width.max(LEFT + BAR + 20 + characters(&pair) * 7);
            self.markup
                .push_str(&text(LEFT + BAR + 10, y, "", "start", &pair));
        }
        if highlights.len() > MOST_PAIRS {
            let more = format!("and {} more", highlights.len() - MOST_PAIRS);
            let y = self.next_row();
            self.markup
                .push_str(&text(LEFT + BAR + 10, y, "small", "start", &more));
        }
    }
}

fn characters(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(0).min(200)
}

/// A bar as long as the pair's share of the largest weight, at least a sliver.
fn bar(y: i32, weight: u64, most: u64) -> String {
    let room = u128::from(BAR.unsigned_abs());
    let length = room * u128::from(weight) / u128::from(most.max(1));
    let Rect {
        x,
        y,
        width,
        height,
    } = Rect {
        x: LEFT,
        y: y - 9,
        width: i32::try_from(length).unwrap_or(BAR).max(2),
        height: 9,
    };
    format!(
        "<rect class=\"bar\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"2\"/>\n"
    )
}

/// Each kind of link in the machine, once, with what it carries.
fn link_words(machine: &Machine) -> Vec<(&Link, String)> {
    let mut seen = BTreeSet::new();
    let mut words = Vec::new();
    for link in machine.links() {
        if seen.insert((link.kind, link.lanes, link.up, link.down)) {
            words.push((link, words_of(link)));
        }
    }
    words
}

/// The width of a link's line: a little more each time it carries twice as much.
pub(super) fn tenths_wide(link: &Link) -> u64 {
    let gigabytes = link.up.get().max(link.down.get()) / 1_000_000_000;
    5 + 4 * u64::from((gigabytes + 1).ilog2())
}

/// The style of a link's line.
pub(super) const fn link_class(kind: LinkKind) -> &'static str {
    match kind {
        kind if kind.is_fabric() => "fabric",
        LinkKind::Smp => "smp",
        LinkKind::Unknown => "unknown",
        _ => "",
    }
}

fn words_of(link: &Link) -> String {
    let lanes = if link.lanes > 1 || matches!(link.kind, LinkKind::Pcie(_)) {
        format!(" x{}", link.lanes)
    } else {
        String::new()
    };
    if link.up == link.down {
        return format!("{}{lanes}, {} each way", link.kind, link.up);
    }
    format!("{}{lanes}, {} and {}", link.kind, link.up, link.down)
}
