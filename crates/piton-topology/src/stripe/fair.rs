//! How the roads of one copy share links.
//!
//! A link divides what it carries evenly among the commands on it, whatever was planned for them. So a road that is to be
//! twice as fast as another on the same link has twice as many commands under way at once, and what each then gets is found by
//! filling: all roads get more in step until a link is full, and then those that do not cross it.

use std::collections::BTreeMap;

use super::carried::Carried;

/// Lanes of a leg that stops, so that one starts a chunk while the other carries one.
const LANES: u16 = 2;
/// Lanes of a leg at most.
const MOST_LANES: u16 = 12;
/// Of its rate, how many hundredths a road must get of a link when all lanes are under way; else it gets more lanes.
const ASSURED: u128 = 97;

/// Gives each road so many lanes that with all of them under way each link on it lets it have its rate.
///
/// A link that is not full would in the end give all roads theirs with fewer lanes, since those that are held up elsewhere do
/// not use what they could have. But they use it for a while, and what a road loses meanwhile it does not make up
/// for on a link that it fills.
///
/// Where the widest would need more than the most lanes, the narrowest begin with one.
pub(super) fn give_lanes(roads: &mut [Carried], free: &[u64]) {
    settle(roads, free, 0);
    let most = roads.iter().filter(|road| road.lanes == MOST_LANES);
    if let Some(widest) = most.map(|road| road.rate).max() {
        settle(roads, free, widest / u64::from(MOST_LANES / LANES));
    }
}

/// Finds the lanes; roads below the rate `narrow` begin with one.
fn settle(roads: &mut [Carried], free: &[u64], narrow: u64) {
    let mut on: BTreeMap<u32, u128> = BTreeMap::new();
    for road in roads.iter_mut() {
        let is_one = road.stops.is_empty() || road.rate < narrow;
        road.lanes = if is_one { 1 } else { LANES };
        for direction in &road.directions {
            *on.entry(*direction).or_default() += u128::from(road.lanes);
        }
    }
    let mut is_settled = false;
    while !is_settled {
        is_settled = true;
        for road in roads.iter_mut().filter(|road| road.lanes < MOST_LANES) {
            if !is_short(road, free, &on) {
                continue;
            }
            road.lanes += 1;
            for direction in &road.directions {
                *on.entry(*direction).or_default() += 1;
            }
            is_settled = false;
        }
    }
}

/// Whether a link on the road would let it have less than its rate, `on` being the lanes on each.
fn is_short(road: &Carried, free: &[u64], on: &BTreeMap<u32, u128>) -> bool {
    road.directions.iter().any(|direction| {
        let all = on.get(direction).copied().unwrap_or(0);
        let whole = u128::from(free[*direction as usize]);
        u128::from(road.lanes) * whole * 100 < u128::from(road.rate) * all * ASSURED
    })
}

/// Gives each road the rate at which links let it run, at most `limit`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are above zero, and a fraction of a byte is nothing"
)]
pub(super) fn share(roads: &mut [Carried], free: &[u64], limit: u64) {
    let mut used: Vec<u32> = roads
        .iter()
        .flat_map(|road| road.directions.clone())
        .collect();
    used.sort_unstable();
    used.dedup();
    let place = |direction: &u32| used.partition_point(|other| other < direction);
    let mut left: Vec<f64> = used
        .iter()
        .map(|direction| free[*direction as usize] as f64)
        .collect();
    let ways: Vec<Vec<usize>> = roads
        .iter()
        .map(|road| road.directions.iter().map(place).collect())
        .collect();
    let mut rates = vec![0.0; roads.len()];
    let mut open: Vec<usize> = (0..roads.len()).collect();
    while !open.is_empty() {
        let mut weights = vec![0.0; used.len()];
        for road in &open {
            for at in &ways[*road] {
                weights[*at] += f64::from(roads[*road].lanes);
            }
        }
        let room = |road: &usize| (limit as f64 - rates[*road]) / f64::from(roads[*road].lanes);
        let links = left
            .iter()
            .zip(&weights)
            .filter(|(_, weight)| **weight > 0.0);
        let step = links.map(|(left, weight)| left / weight);
        let step = step
            .chain(open.iter().map(room))
            .fold(f64::MAX, f64::min)
            .max(0.0);
        for (left, weight) in left.iter_mut().zip(&weights) {
            *left -= step * weight;
        }
        for road in &open {
            rates[*road] += step * f64::from(roads[*road].lanes);
        }
        let before = open.len();
        // What is less than a byte a second is full.
        open.retain(|road| {
            let is_full = ways[*road].iter().any(|at| left[*at] < weights[*at]);
            !is_full && (limit as f64 - rates[*road]) > 1.0
        });
        if open.len() == before {
            break;
        }
    }
    for (road, rate) in roads.iter_mut().zip(rates) {
        road.rate = rate as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn road(directions: &[u32], rate: u64) -> Carried {
        Carried {
            stops: vec![super::super::Stop::Device(crate::id::DeviceId::new(7))],
            directions: directions.to_vec(),
            rate,
            lanes: 1,
        }
    }

    #[test]
    fn a_road_gets_as_much_as_its_lanes_are_of_all() {
        // Two share the first link; the second also passes a narrow one.
        let mut roads = [road(&[0], 16), road(&[0, 2], 8), road(&[4], 24)];
        give_lanes(&mut roads, &[24, 0, 8, 0, 24]);
        assert_eq!(roads.each_ref().map(|road| road.lanes), [4, 2, 2]);
        let free = [24_000, 0, 24_000, 0, 24_000];
        share(&mut roads, &free, u64::MAX);
        assert_eq!(
            roads.each_ref().map(|road| road.rate),
            [16_000, 8_000, 24_000]
        );
        share(&mut roads, &[24_000, 0, 3_000, 0, 24_000], 20_000);
        assert_eq!(
            roads.each_ref().map(|road| road.rate),
            [20_000, 3_000, 20_000]
        );
    }

    #[test]
    fn a_road_that_stops_nowhere_and_shares_nothing_has_one_lane() {
        let mut roads = [road(&[0], 16), road(&[2], 8)];
        roads[0].stops.clear();
        give_lanes(&mut roads, &[16, 0, 8]);
        assert_eq!(roads.map(|road| road.lanes), [1, 2]);
    }

    #[test]
    fn a_road_on_a_link_with_room_is_not_crowded_out_by_those_with_many_lanes() {
        // The second has six lanes beside the third; the first shares another link with it, which is not full.
        let mut roads = [road(&[0], 36), road(&[0, 2], 36), road(&[2], 12)];
        give_lanes(&mut roads, &[96, 0, 48]);
        let [first, second, third] = roads.map(|road| road.lanes);
        assert_eq!((second, third), (6, 2));
        assert!(first * 96 >= 35 * (first + second), "{first} lanes");
    }

    #[test]
    fn a_narrow_road_has_one_lane_where_the_widest_would_need_too_many() {
        let mut roads = [road(&[0], 36), road(&[0], 4)];
        give_lanes(&mut roads, &[40]);
        assert_eq!(roads.map(|road| road.lanes), [7, 1]);
    }
}
