//! Any sequence of flows that begin, end and are taken away, and of resources that change.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

use std::collections::BTreeMap;

use piton_fluid::{Class, FlowId, FlowSpec, Fluid, FluidError, ResourceId, Use};
use proptest::prelude::*;

const RESOURCES: u32 = 5;

#[derive(Clone, Debug)]
enum Step {
    Start(FlowSpec),
    Cancel(prop::sample::Index),
    Capacity(u32, u64),
    Raise(prop::sample::Index),
    Pass(u64),
    NextEnd,
}

fn flows() -> impl Strategy<Value = FlowSpec> {
    let uses = prop::collection::vec((0..RESOURCES, 500..2_000_u32), 1..4);
    let class = prop::sample::select(Class::ALL.to_vec());
    (uses, 1..1_000_000_u64, 0..1_000_u64, class, 1..4_u32).prop_map(
        |(uses, bytes, delay, class, weight)| {
            let uses: Vec<Use> = uses
                .into_iter()
                .map(|(id, thousandths)| Use {
                    resource: ResourceId(id),
                    thousandths,
                })
                .collect();
            FlowSpec {
                delay,
                class,
                weight,
                ..FlowSpec::new(uses, bytes)
            }
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => flows().prop_map(Step::Start),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (0..RESOURCES, 0..2_000_000_000_u64).prop_map(|(id, rate)| Step::Capacity(id, rate)),
        1 => any::<prop::sample::Index>().prop_map(Step::Raise),
        2 => (0..5_000_u64).prop_map(Step::Pass),
        2 => Just(Step::NextEnd),
    ];
    prop::collection::vec(step, 1..40)
}

/// What the sequence did, for comparing two runs.
fn run(steps: &[Step], ageing: Option<u64>) -> Result<Vec<(FlowId, u64)>, TestCaseError> {
    let capacities = vec![1_000_000_000; RESOURCES as usize];
    let mut fluid = match ageing {
        Some(nanos) => Fluid::with_ageing(capacities, nanos),
        None => Fluid::new(capacities),
    };
    let mut under_way: BTreeMap<FlowId, u64> = BTreeMap::new();
    let mut ends = Vec::new();
    for step in steps {
        let before = fluid.now();
        let nth = |under_way: &BTreeMap<FlowId, u64>, index: &prop::sample::Index| {
            let at = index.index(under_way.len().max(1));
            under_way.keys().nth(at).copied()
        };
        match step {
            Step::Start(spec) => {
                let flow = fluid.start(spec.clone()).unwrap();
                prop_assert!(under_way.insert(flow, spec.bytes).is_none());
            }
            Step::Cancel(index) => {
                if let Some(flow) = nth(&under_way, index) {
                    let bytes = under_way.remove(&flow).unwrap();
                    prop_assert!(fluid.cancel(flow).unwrap() <= bytes);
                    prop_assert_eq!(fluid.rate(flow), Err(FluidError::UnknownFlow { flow }));
                }
            }
            Step::Capacity(id, rate) => fluid.set_capacity(ResourceId(*id), *rate).unwrap(),
            Step::Raise(index) => {
                if let Some(flow) = nth(&under_way, index) {
                    fluid.set_class(flow, Class::High).unwrap();
                }
            }
            Step::Pass(nanos) => {
                let until = before + nanos;
                while let Some(ended) = fluid.ended_until(until) {
                    prop_assert!(ended.at <= until && under_way.remove(&ended.flow).is_some());
                    ends.push((ended.flow, ended.at));
                }
                prop_assert_eq!(fluid.now(), until);
            }
            Step::NextEnd => match fluid.next_ended() {
                Ok(Some(ended)) => {
                    prop_assert!(under_way.remove(&ended.flow).is_some());
                    ends.push((ended.flow, ended.at));
                }
                Ok(None) => prop_assert!(under_way.is_empty()),
                Err(error) => {
                    let FluidError::Stalled { flows, .. } = error else {
                        panic!("{error}");
                    };
                    prop_assert_eq!(flows, under_way.len());
                }
            },
        }
        prop_assert!(fluid.now() >= before);
        prop_assert_eq!(fluid.flows(), under_way.len());
        fluid.check();
    }
    Ok(ends)
}

proptest! {
    #[test]
    fn no_resource_carries_too_much_and_no_flow_could_have_more(
        steps in steps(),
        ageing in prop::option::of(0..3_000_u64),
    ) {
        let ends = run(&steps, ageing)?;
        prop_assert!(ends.is_sorted_by_key(|(_, at)| *at));
        // The same again: nothing depends on anything else.
        prop_assert_eq!(run(&steps, ageing)?, ends);
    }

    #[test]
    fn with_ageing_nobody_gets_nothing_for_long(
        flows in prop::collection::vec(flows(), 1..8),
        until in 1_000..40_000_u64,
    ) {
        const AGEING: u64 = 1_000;
        let mut fluid = Fluid::with_ageing(vec![1_000_000_000; RESOURCES as usize], AGEING);
        let ids: Vec<FlowId> = flows.iter().map(|spec| fluid.start(spec.clone()).unwrap()).collect();
        // Every delay is over then.
        while fluid.ended_until(until).is_some() {}
        for id in ids {
            if fluid.rate(id) != Ok(0) {
                continue;
            }
            prop_assert!(fluid.class(id).unwrap() != Class::High, "{} is of the highest class", id);
            let rises = fluid.next_change(id).unwrap();
            prop_assert!(rises.is_some_and(|at| at <= until + AGEING), "{} waits for ever", id);
        }
    }

    #[test]
    fn a_flow_alone_takes_its_delay_and_its_bytes_over_the_narrowest(spec in flows()) {
        let mut fluid = Fluid::new(vec![1_000_000_000; RESOURCES as usize]);
        let flow = fluid.start(spec.clone()).unwrap();
        let ended = fluid.next_ended().unwrap().unwrap();
        prop_assert_eq!(ended.flow, flow);
        let mut load = [0_u64; RESOURCES as usize];
        for used in &spec.uses {
            load[used.resource.0 as usize] += u64::from(used.thousandths);
        }
        let rate = u128::from(1_000_000_000_000 / load.into_iter().max().unwrap());
        let wire = (u128::from(spec.bytes) * 1_000_000_000).div_ceil(rate);
        prop_assert_eq!(u128::from(ended.at), u128::from(spec.delay) + wire);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut fluid = Fluid::new(vec![100]);
    let through = [Use::whole(ResourceId(0))];
    let spec = FlowSpec::new(through, 1);
    let mut start = |change: fn(&mut FlowSpec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        fluid.start(spec)
    };
    assert_eq!(start(|spec| spec.bytes = 0), Err(FluidError::NoBytes));
    assert_eq!(start(|spec| spec.weight = 0), Err(FluidError::NoWeight));
    assert_eq!(
        start(|spec| spec.uses = Box::default()),
        Err(FluidError::NoResource)
    );
    let elsewhere = FluidError::UnknownResource {
        resource: ResourceId(1),
        resources: 1,
    };
    assert_eq!(
        start(|spec| spec.uses[0].resource = ResourceId(1)),
        Err(elsewhere)
    );
}

#[test]
fn a_dead_link_stalls_its_flow_until_it_is_back() {
    let mut fluid = Fluid::new(vec![1_000_000_000]);
    let flow = fluid
        .start(FlowSpec::new([Use::whole(ResourceId(0))], 1_000))
        .unwrap();
    assert_eq!(fluid.ended_until(400), None);
    fluid.set_capacity(ResourceId(0), 0).unwrap();
    assert_eq!(
        fluid.next_ended(),
        Err(FluidError::Stalled { flows: 1, flow })
    );
    assert_eq!(fluid.ended_until(1_000), None);
    fluid.set_capacity(ResourceId(0), 100_000_000).unwrap();
    // 600 bytes at a tenth of the rate.
    assert_eq!(fluid.next_ended().unwrap().unwrap().at, 7_000);
}

#[test]
fn a_low_flow_moves_up_a_class_each_time_it_has_waited_and_then_shares() {
    let mut fluid = Fluid::with_ageing(vec![1_000_000_000], 10_000);
    let through = [Use::whole(ResourceId(0))];
    let of = |class| FlowSpec {
        class,
        ..FlowSpec::new(through, 100_000)
    };
    let high = fluid.start(of(Class::High)).unwrap();
    let low = fluid.start(of(Class::Low)).unwrap();
    assert_eq!(fluid.ended_until(9_999), None);
    assert_eq!((fluid.rate(low), fluid.class(low)), (Ok(0), Ok(Class::Low)));
    assert_eq!(fluid.next_change(low), Ok(Some(10_000)));
    assert_eq!(fluid.ended_until(10_000), None);
    assert_eq!(fluid.class(low), Ok(Class::Normal));
    assert_eq!(fluid.ended_until(20_000), None);
    assert_eq!(fluid.class(low), Ok(Class::High));
    assert_eq!(fluid.rate(low), Ok(500_000_000));
    // 80 thousand bytes at half the rate, then the rest alone.
    let ended = |fluid: &mut Fluid| {
        fluid
            .next_ended()
            .unwrap()
            .map(|ended| (ended.flow, ended.at))
    };
    assert_eq!(ended(&mut fluid), Some((high, 180_000)));
    assert_eq!(ended(&mut fluid), Some((low, 200_000)));
}
