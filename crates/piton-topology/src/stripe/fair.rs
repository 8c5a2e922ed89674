//! How the roads of one copy share links.
//!
//! A link divides what it carries evenly among the commands on it, whatever was planned for them. So a road that is to be
//! twice as fast as another on the same link has twice as many commands under way at once, and what each then gets is found by
//! filling: all roads get more in step until a link is full, and then those that do not cross it.

use super::carried::Carried;

/// Lanes of a leg that stops, so that one starts a chunk while the other carries one.
const LANES: u64 = 2;
/// Lanes of a leg at most.
const MOST_LANES: u64 = 12;

/// Gives each road the lanes that its rate asks for beside those it shares links with.
pub(super) fn give_lanes(roads: &mut [Carried]) {
    let lanes: Vec<u64> = roads.iter().map(|road| lanes(road, roads)).collect();
    for (road, lanes) in roads.iter_mut().zip(lanes) {
        road.lanes = u16::try_from(lanes).unwrap_or(1);
    }
}

fn lanes(road: &Carried, among: &[Carried]) -> u64 {
    let shares = |other: &&Carried| {
        let mut directions = road.directions.iter();
        directions.any(|direction| other.directions.contains(direction))
    };
    let others = among.iter().filter(shares);
    let (count, least) = others.fold((0, u64::MAX), |(count, least), other| {
        (count + 1, least.min(other.rate))
    });
    if count == 1 && road.stops.is_empty() {
        return 1;
    }
    let twice = road.rate.saturating_mul(2 * LANES) / least.max(1);
    twice.div_ceil(2).clamp(LANES, MOST_LANES)
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
        give_lanes(&mut roads);
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
        give_lanes(&mut roads);
        assert_eq!(roads.map(|road| road.lanes), [1, 2]);
    }
}
