//! Roads take what links have left, one after the other.
//!
//! Whoever comes first takes all it can, and may so be in the way of two roads that have no other. So each road is asked to
//! give way once all are served, and does where the others carry more without it.

use super::carried::Carried;

/// Lets roads but for one have what is left, in their order; says how much that was.
pub(super) fn fill(roads: &mut [Carried], free: &mut [u64], but: Option<usize>) -> u64 {
    let mut carried = 0;
    for (_, road) in roads
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| Some(*at) != but)
    {
        let more = room(free, &road.directions);
        road.take(more, free);
        road.rate += more;
        carried += more;
    }
    carried
}

/// Lets each road in turn give way to the others, where they carry more without it: a short road may be in the way of two that
/// have no other.
pub(super) fn give_way(roads: &mut [Carried], free: &mut [u64], (mut carried, wanted): (u64, u64)) {
    for at in 0..roads.len() {
        if carried >= wanted {
            return;
        }
        let own = roads[at].rate;
        if own == 0 {
            continue;
        }
        let before: Vec<u64> = roads.iter().map(|road| road.rate).collect();
        let free_before = free.to_vec();
        roads[at].take_back(free);
        let without = carried - own + fill(roads, free, Some(at));
        let with = without + fill(roads, free, None);
        if with > carried {
            carried = with;
            continue;
        }
        for (road, rate) in roads.iter_mut().zip(before) {
            road.rate = rate;
        }
        free.copy_from_slice(&free_before);
    }
}

/// Of what all carry, how many thousandths may be lost with roads that are left out.
const MAY_BE_LOST: u128 = 5;

/// Leaves the narrowest roads out, which come last, while they are so many thousandths of what all carry; the others take what
/// those leave. Where they cannot, all stay.
pub(super) fn leave_out(roads: &mut Vec<Carried>, free: &[u64], thousandths: u128) {
    let all = carried_by(roads);
    let (mut gone, mut kept) = (0, roads.len());
    for road in roads.iter().rev() {
        gone += u128::from(road.rate) * 1_000;
        if gone > all * thousandths {
            break;
        }
        kept -= 1;
    }
    if kept == roads.len() {
        return;
    }
    let mut others = roads[..kept].to_vec();
    let mut left = free.to_vec();
    for road in &others {
        road.take(road.rate, &mut left);
    }
    fill(&mut others, &mut left, None);
    if carried_by(&others) * 1_000 >= all * (1_000 - MAY_BE_LOST) {
        *roads = others;
    }
}

fn carried_by(roads: &[Carried]) -> u128 {
    roads.iter().map(|road| u128::from(road.rate)).sum()
}

impl Carried {
    /// What it takes is free again.
    fn take_back(&mut self, free: &mut [u64]) {
        let rate = std::mem::take(&mut self.rate);
        for direction in &self.directions {
            free[*direction as usize] += rate;
        }
    }

    pub(super) fn take(&self, rate: u64, free: &mut [u64]) {
        for direction in &self.directions {
            let left = &mut free[*direction as usize];
            *left = left.saturating_sub(rate);
        }
    }
}

/// What is free on all of a road, which may use a link twice.
pub(super) fn room(free: &[u64], directions: &[u32]) -> u64 {
    let share = |direction: &u32| {
        let times = directions
            .iter()
            .filter(|other| *other == direction)
            .count();
        free[*direction as usize] / times.max(1) as u64
    };
    directions.iter().map(share).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn road(directions: &[u32]) -> Carried {
        Carried {
            stops: Vec::new(),
            directions: directions.to_vec(),
            rate: 0,
            lanes: 1,
        }
    }

    fn rates(roads: &[Carried]) -> Vec<u64> {
        roads.iter().map(|road| road.rate).collect()
    }

    #[test]
    fn a_road_gives_way_to_two_that_have_no_other() {
        // The first crosses both links, of which each of the others needs one.
        let mut roads = [road(&[0, 2]), road(&[0]), road(&[2])];
        let mut free = [24, 0, 24, 0];
        let carried = fill(&mut roads, &mut free, None);
        assert_eq!((carried, rates(&roads)), (24, vec![24, 0, 0]));
        give_way(&mut roads, &mut free, (carried, 48));
        assert_eq!(rates(&roads), [0, 24, 24]);
        assert_eq!(free, [0; 4]);
    }

    #[test]
    fn a_road_that_nobody_misses_stays() {
        let mut roads = [road(&[0, 2]), road(&[0])];
        let mut free = [24, 0, 10, 0];
        let carried = fill(&mut roads, &mut free, None);
        give_way(&mut roads, &mut free, (carried, 48));
        assert_eq!(rates(&roads), [10, 14]);
        assert_eq!(free, [0, 0, 0, 0]);
    }

    #[test]
    fn what_is_left_out_is_left_to_the_others_and_stays_where_they_cannot_take_it() {
        let mut roads = [road(&[0]), road(&[2]), road(&[4, 0]), road(&[6])];
        for (road, rate) in roads.iter_mut().zip([900, 80, 15, 5]) {
            road.rate = rate;
        }
        let mut roads = roads.to_vec();
        let free = [915, 0, 80, 0, 30, 0, 5];
        leave_out(&mut roads, &free, 4);
        assert_eq!(rates(&roads), [900, 80, 15, 5]);
        let narrow = [900, 0, 80, 0, 30, 0, 5];
        leave_out(&mut roads, &narrow, 20);
        assert_eq!(rates(&roads), [900, 80, 15, 5]);
        leave_out(&mut roads, &free, 20);
        assert_eq!(rates(&roads), [915, 80]);
    }

    #[test]
    fn a_road_that_crosses_a_link_twice_gets_half_of_it() {
        let mut roads = [road(&[0, 2, 0])];
        let mut free = [24, 0, 24];
        assert_eq!(fill(&mut roads, &mut free, None), 12);
        assert_eq!(free, [0, 0, 12]);
        roads[0].take_back(&mut free);
        assert_eq!(free, [24, 0, 24]);
    }
}
