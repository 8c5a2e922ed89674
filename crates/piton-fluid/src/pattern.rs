//! Patterns of copies between devices, and how fairly and how fast they go.

use piton_topology::DeviceId;

/// Which devices copy to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The first device to the second.
    Pair,
    /// Each to the next, the last to the first.
    Neighbour,
    /// Each to the one halfway round.
    Shift,
    /// All others to the first.
    Gather,
    /// Each to each other.
    AllToAll,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Self; 5] = [
        Self::Pair,
        Self::Neighbour,
        Self::Shift,
        Self::Gather,
        Self::AllToAll,
    ];

    /// Its name in one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Neighbour => "neighbour",
            Self::Shift => "shift",
            Self::Gather => "gather",
            Self::AllToAll => "all_to_all",
        }
    }

    /// The copies among `devices` devices: none from a device to itself, so none at all for one device.
    #[must_use]
    pub fn pairs(self, devices: u16) -> Vec<(DeviceId, DeviceId)> {
        let all = || 0..devices;
        let round = |by: u16| {
            all().map(move |from| (from, (u32::from(from) + u32::from(by)) % u32::from(devices)))
        };
        let numbers: Vec<(u16, u32)> = match self {
            Self::Pair => all().take(1).map(|from| (from, 1)).collect(),
            Self::Neighbour => round(1).collect(),
            Self::Shift => round(devices / 2).collect(),
            Self::Gather => all().map(|from| (from, 0)).collect(),
            Self::AllToAll => all()
                .flat_map(|from| all().map(move |to| (from, u32::from(to))))
                .collect(),
        };
        let ids = numbers.into_iter().filter_map(|(from, to)| {
            let to = u16::try_from(to).ok()?;
            (from != to && to < devices).then_some((DeviceId::new(from), DeviceId::new(to)))
        });
        ids.collect()
    }
}

/// Rates of copies that run at once, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of copies.
    pub copies: usize,
    /// The slowest rate.
    pub slowest: u64,
    /// The fastest rate.
    pub fastest: u64,
    /// The sum of all rates.
    pub aggregate: u64,
    /// Jain's index: 1 if all rates are equal, 1 over their number if one copy has everything.
    pub fairness: f64,
}

impl Summary {
    /// Summarises these rates.
    #[must_use]
    pub fn of(rates: &[u64]) -> Self {
        let aggregate = rates
            .iter()
            .fold(0_u64, |sum, rate| sum.saturating_add(*rate));
        let sum: f64 = rates.iter().map(|rate| *rate as f64).sum();
        let squares: f64 = rates.iter().map(|rate| (*rate as f64).powi(2)).sum();
        let all_equal = rates.len() as f64 * squares;
        Self {
            copies: rates.len(),
            slowest: rates.iter().copied().min().unwrap_or(0),
            fastest: rates.iter().copied().max().unwrap_or(0),
            aggregate,
            fairness: if all_equal > 0.0 {
                sum * sum / all_equal
            } else {
                1.0
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_copies_to_itself_and_small_machines_have_small_patterns() {
        for devices in 0..9 {
            for pattern in Pattern::ALL {
                let pairs = pattern.pairs(devices);
                assert!(
                    pairs
                        .iter()
                        .all(|(from, to)| from != to && to.get() < devices)
                );
                assert_eq!(pairs.is_empty(), devices < 2, "{pattern:?} of {devices}");
            }
        }
        assert_eq!(Pattern::AllToAll.pairs(8).len(), 56);
        assert_eq!(Pattern::Gather.pairs(8).len(), 7);
    }

    #[test]
    fn fairness_is_one_for_equals_and_the_inverse_of_their_number_for_one_alone() {
        assert_eq!(Summary::of(&[3, 3, 3]).fairness, 1.0);
        assert_eq!(Summary::of(&[0, 8, 0, 0]).fairness, 0.25);
        assert_eq!(Summary::of(&[]).aggregate, 0);
    }
}
