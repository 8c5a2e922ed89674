//! What is reported, and what is not, one case at a time.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_driver::{
    Comparison, DeviceId, DevicePtr, DeviceRange, MemoryWait, MemoryWord, Operation,
};
use piton_sanitizer::{
    Action, Author, Effect, Footprint, FunctionId, HandOut, Hazard, Report, Response, Sanitizer,
    SanitizerConfig, Space,
};
use piton_timeline::{Frontier, LaneId, Timepoint};
use std::{
    cell::Cell,
    panic::Location,
    sync::{Arc, Mutex},
};

const SPACE: Space = Space::Device(DeviceId(0));

struct Lane<'a> {
    sanitizer: &'a Sanitizer,
    now: Cell<Timepoint>,
}

impl<'a> Lane<'a> {
    fn new(sanitizer: &'a Sanitizer, index: u32, label: &str) -> Self {
        let lane = LaneId {
            index,
            generation: 0,
        };
        let base = Timepoint { lane, seq: 0 };
        sanitizer.open(base, Some(Arc::from(label)));
        Self {
            sanitizer,
            now: Cell::new(base),
        }
    }

    #[track_caller]
    fn submit(
        &self,
        by: Author,
        operation: Operation,
        effect: Effect,
    ) -> Result<Timepoint, Box<Report>> {
        let (last, origin) = (self.now.get(), Location::caller());
        let attempt = self
            .sanitizer
            .attempt(by, last, (operation, effect), origin)?;
        let seq = last.seq + 1;
        self.now.set(Timepoint { seq, ..last });
        attempt.accepted(self.now.get());
        Ok(self.now.get())
    }

    #[track_caller]
    fn write(&self, start: u64, bytes: u64) -> Timepoint {
        let footprint = Footprint::default().write(SPACE, DevicePtr::new(start), bytes);
        self.submit(Author::Host, Operation::Fill, Effect::Touches(footprint))
            .unwrap()
    }

    #[track_caller]
    fn read(&self, start: u64, bytes: u64) -> Timepoint {
        let footprint = Footprint::default().read(SPACE, DevicePtr::new(start), bytes);
        self.submit(Author::Host, Operation::Launch, Effect::Touches(footprint))
            .unwrap()
    }

    #[track_caller]
    fn order(&self, operation: Operation, effect: Effect) -> Timepoint {
        self.submit(Author::Host, operation, effect).unwrap()
    }

    fn wait(&self, point: Timepoint) {
        self.order(Operation::WaitQueue, Effect::Waits(point));
    }

    fn call(&self) -> FunctionId {
        let id = self.sanitizer.function();
        self.order(Operation::CallHost, Effect::Calls(id));
        id
    }
}

fn range(start: u64, bytes: u64) -> DeviceRange {
    DeviceRange {
        start: DevicePtr::new(start),
        bytes,
    }
}

fn hand_out(sanitizer: &Sanitizer, range: DeviceRange, point: Timepoint) {
    let memory = HandOut {
        space: SPACE,
        range,
        point: Some(point),
        origin: Some(Location::caller()),
    };
    sanitizer.hand_out(Author::Host, &memory);
}

fn take_back(sanitizer: &Sanitizer, range: DeviceRange, last_uses: impl Into<Frontier>) {
    sanitizer.take_back(Author::Host, SPACE, range, Some(&last_uses.into()));
}

fn kinds(sanitizer: &Sanitizer) -> Vec<Hazard> {
    sanitizer.check();
    sanitizer
        .reports()
        .into_iter()
        .map(|report| report.kind)
        .collect()
}

fn sanitizer() -> Sanitizer {
    Sanitizer::new(SanitizerConfig::default())
}

#[test]
fn a_missing_wait_is_reported_with_both_places() {
    let sanitizer = sanitizer();
    let (load, compute) = (
        Lane::new(&sanitizer, 0, "load"),
        Lane::new(&sanitizer, 1, "compute"),
    );
    load.write(0x1000, 256);
    let first_line = line!() - 1;
    compute.read(0x1080, 256);
    let second_line = line!() - 1;
    let [report] = &sanitizer.reports()[..] else {
        panic!("not one report");
    };
    assert_eq!(report.kind, Hazard::WriteRead);
    assert_eq!(report.overlap, range(0x1080, 128));
    assert_eq!(report.first.action, Action::Write(Operation::Fill));
    assert_eq!(report.first.origin.unwrap().line(), first_line);
    assert_eq!(report.second.origin.unwrap().line(), second_line);
    assert_eq!(report.ordered_up_to, None);
    let file = file!();
    let expected = format!(
        "a write and a read in no order: 128 bytes at 0x1080 of device 0
  first:  filling memory, which writes 256 bytes at 0x1000, stream `load` at seq 1, {file}:{first_line}:10
  second: launching a kernel, which reads 256 bytes at 0x1080, stream `compute` at seq 1, {file}:{second_line}:13
  order:  stream `compute` has waited for nothing of stream `load`
  hint:   record an event behind the first and let the second's stream wait for it"
    );
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_wait_or_a_host_that_waits_is_an_order() {
    let sanitizer = sanitizer();
    let (load, compute) = (
        Lane::new(&sanitizer, 0, "load"),
        Lane::new(&sanitizer, 1, "compute"),
    );
    compute.wait(load.write(0, 8));
    let read = compute.read(0, 8);
    sanitizer.saw(Author::Host, read);
    load.write(0, 8);
    assert_eq!(kinds(&sanitizer), []);
}

#[test]
fn a_wait_for_too_early_a_place_is_reported_with_how_far_it_reaches() {
    let sanitizer = sanitizer();
    let (load, compute) = (
        Lane::new(&sanitizer, 0, "load"),
        Lane::new(&sanitizer, 1, "compute"),
    );
    let early = load.write(64, 8);
    load.write(0, 8);
    compute.wait(early);
    compute.write(0, 8);
    let reports = sanitizer.reports();
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].ordered_up_to, Some(early.seq));
}

#[test]
fn what_another_stream_learnt_later_is_no_order() {
    let sanitizer = sanitizer();
    let lanes = [0, 1, 2].map(|index| Lane::new(&sanitizer, index, "lane"));
    let written = lanes[0].write(0, 8);
    let early = lanes[1].write(64, 8);
    lanes[1].wait(written);
    lanes[2].wait(early);
    lanes[2].write(0, 8);
    assert_eq!(kinds(&sanitizer), [Hazard::WriteWrite]);
}

#[test]
fn what_the_host_learns_orders_only_what_it_submits_afterwards() {
    let sanitizer = sanitizer();
    let (load, compute) = (
        Lane::new(&sanitizer, 0, "load"),
        Lane::new(&sanitizer, 1, "compute"),
    );
    let signal = sanitizer.signal(0);
    // Held, so that it is looked at only after the host has learnt.
    compute.order(Operation::WaitSemaphore, Effect::WaitsForSignal(signal, 1));
    compute.write(0, 8);
    let written = load.write(0, 8);
    assert_eq!(sanitizer.counts().put_by, 1);
    sanitizer.give(Author::Host, signal, 1);
    sanitizer.saw(Author::Host, written);
    assert_eq!(kinds(&sanitizer), [Hazard::WriteWrite]);
}

#[test]
fn what_a_host_function_waited_for_comes_before_the_rest_of_its_stream_and_of_no_other() {
    let sanitizer = sanitizer();
    let lanes = [0, 1, 2].map(|index| Lane::new(&sanitizer, index, "lane"));
    let written = lanes[0].write(0, 8);
    let function = lanes[1].call();
    lanes[1].write(0, 8);
    sanitizer.start(function);
    sanitizer.saw(Author::Function(function), written);
    sanitizer.end(function);
    assert_eq!(kinds(&sanitizer), []);
    lanes[2].write(0, 8);
    assert_eq!(kinds(&sanitizer), [Hazard::WriteWrite]);
}

#[test]
fn what_a_host_function_submits_comes_after_its_stream() {
    let sanitizer = sanitizer();
    let (load, compute) = (
        Lane::new(&sanitizer, 0, "load"),
        Lane::new(&sanitizer, 1, "compute"),
    );
    load.write(0, 8);
    let function = load.call();
    sanitizer.start(function);
    let footprint = Footprint::default().write(SPACE, DevicePtr::new(0), 8);
    let effect = Effect::Touches(footprint);
    compute
        .submit(Author::Function(function), Operation::Fill, effect)
        .unwrap();
    sanitizer.end(function);
    assert_eq!(kinds(&sanitizer), []);
}

#[test]
fn a_host_function_that_is_never_called_holds_nothing() {
    let sanitizer = sanitizer();
    let lane = Lane::new(&sanitizer, 0, "lane");
    let function = lane.call();
    lane.write(0, 8);
    assert_eq!(sanitizer.counts().put_by, 1);
    sanitizer.end(function);
    assert_eq!(sanitizer.counts().put_by, 0);
}

#[test]
fn a_mark_is_an_order_where_one_follows_it() {
    let sanitizer = sanitizer();
    let (load, compute) = (
        Lane::new(&sanitizer, 0, "load"),
        Lane::new(&sanitizer, 1, "compute"),
    );
    load.write(0, 8);
    let function = load.call();
    sanitizer.start(function);
    let mark = sanitizer.mark(Author::Function(function));
    sanitizer.end(function);
    sanitizer.follow(Author::Host, &mark);
    compute.write(0, 8);
    assert_eq!(kinds(&sanitizer), []);
}

#[test]
fn memory_that_was_given_back_is_not_to_be_used() {
    let sanitizer = sanitizer();
    let lane = Lane::new(&sanitizer, 0, "lane");
    hand_out(&sanitizer, range(0, 64), lane.now.get());
    let written = lane.write(0, 64);
    take_back(&sanitizer, range(0, 64), written);
    assert_eq!(kinds(&sanitizer), []);
    lane.read(32, 8);
    assert_eq!(kinds(&sanitizer), [Hazard::UseAfterFree]);
}

#[test]
fn memory_is_used_after_the_stream_it_was_handed_out_to() {
    let sanitizer = sanitizer();
    let (first, other) = (
        Lane::new(&sanitizer, 0, "first"),
        Lane::new(&sanitizer, 1, "other"),
    );
    let before = first.write(64, 8);
    hand_out(&sanitizer, range(0, 8), before);
    first.write(0, 8);
    other.wait(before);
    other.wait(first.now.get());
    other.write(0, 8);
    assert_eq!(kinds(&sanitizer), []);
    // Another tenant: the other stream's next use is late for the one and early for the other.
    take_back(&sanitizer, range(0, 8), other.now.get());
    hand_out(&sanitizer, range(0, 8), first.read(128, 8));
    other.write(0, 8);
    assert_eq!(kinds(&sanitizer), [Hazard::UseAfterFree]);
}

#[test]
fn memory_nobody_had_before_is_used_after_its_allocation_too() {
    let sanitizer = sanitizer();
    let (first, other) = (
        Lane::new(&sanitizer, 0, "first"),
        Lane::new(&sanitizer, 1, "other"),
    );
    hand_out(&sanitizer, range(0, 8), first.write(64, 8));
    other.write(0, 8);
    assert_eq!(kinds(&sanitizer), [Hazard::UseBeforeAllocation]);
}

#[test]
fn last_uses_that_leave_one_out_are_reported() {
    let sanitizer = sanitizer();
    let (one, two) = (
        Lane::new(&sanitizer, 0, "one"),
        Lane::new(&sanitizer, 1, "two"),
    );
    hand_out(&sanitizer, range(0, 8), one.now.get());
    let written = one.write(0, 8);
    two.wait(written);
    let read = two.read(0, 8);
    take_back(&sanitizer, range(0, 8), written);
    let [report] = &sanitizer.take_reports()[..] else {
        panic!("not one report");
    };
    assert_eq!(report.kind, Hazard::FreeWhileUsed);
    assert_eq!(report.first.point, Some(read));
    // The reader comes after the writer, so it says enough.
    hand_out(&sanitizer, range(0, 8), one.now.get());
    two.wait(one.write(0, 8));
    take_back(&sanitizer, range(0, 8), two.read(0, 8));
    assert_eq!(kinds(&sanitizer), []);
}

#[test]
fn memory_of_a_lane_that_ended_in_a_wait_is_given_back_before_it_is_handed_out_again() {
    let sanitizer = sanitizer();
    let (ended, next) = (
        Lane::new(&sanitizer, 0, "ended"),
        Lane::new(&sanitizer, 1, "next"),
    );
    hand_out(&sanitizer, range(0, 64), ended.now.get());
    let wait = MemoryWait {
        at: DevicePtr::new(128),
        comparison: Comparison::Equal,
        value: MemoryWord::U32(1),
    };
    ended.order(Operation::WaitMemory, Effect::WaitsForWord(SPACE, wait));
    let last = ended.write(0, 64);
    take_back(&sanitizer, range(0, 64), last);
    // The lane was aborted, which its pool has seen: no wait is needed.
    hand_out(&sanitizer, range(32, 64), next.now.get());
    next.write(32, 64);
    assert_eq!(kinds(&sanitizer), []);
    sanitizer.saw(Author::Host, last);
    assert_eq!(kinds(&sanitizer), []);
    sanitizer.check();
}

#[test]
fn memory_given_back_behind_what_is_not_looked_at_is_given_back_then() {
    let sanitizer = sanitizer();
    let (one, two) = (
        Lane::new(&sanitizer, 0, "one"),
        Lane::new(&sanitizer, 1, "two"),
    );
    let signal = sanitizer.signal(0);
    hand_out(&sanitizer, range(0, 8), one.now.get());
    one.order(Operation::WaitSemaphore, Effect::WaitsForSignal(signal, 1));
    let last: Frontier = [one.write(0, 8), two.write(64, 8)].into_iter().collect();
    take_back(&sanitizer, range(0, 8), last);
    two.wait(one.now.get());
    hand_out(&sanitizer, range(0, 8), two.now.get());
    two.write(0, 8);
    sanitizer.give(Author::Host, signal, 1);
    assert_eq!(kinds(&sanitizer), []);
    assert_eq!(sanitizer.counts().put_by, 0);
}

#[test]
fn memory_given_back_behind_a_place_does_not_wait_for_what_comes_after_the_place() {
    let sanitizer = sanitizer();
    let (one, two) = (
        Lane::new(&sanitizer, 0, "one"),
        Lane::new(&sanitizer, 1, "two"),
    );
    let signals = [sanitizer.signal(0), sanitizer.signal(0)];
    let wait = |n: usize| {
        one.order(
            Operation::WaitSemaphore,
            Effect::WaitsForSignal(signals[n], 1),
        )
    };
    hand_out(&sanitizer, range(0, 8), one.now.get());
    wait(0);
    let last = one.write(0, 8);
    wait(1);
    take_back(&sanitizer, range(0, 8), last);
    two.wait(last);
    hand_out(&sanitizer, range(0, 8), two.now.get());
    sanitizer.give(Author::Host, signals[0], 1);
    sanitizer.give(Author::Host, signals[1], 1);
    two.write(0, 8);
    assert_eq!(kinds(&sanitizer), []);
}

#[test]
fn a_signal_from_outside_lets_go_and_is_counted() {
    let sanitizer = sanitizer();
    let lane = Lane::new(&sanitizer, 0, "lane");
    let signal = sanitizer.signal(0);
    lane.order(Operation::WaitSemaphore, Effect::WaitsForSignal(signal, 1));
    let written = lane.write(0, 8);
    sanitizer.saw(Author::Host, written);
    assert_eq!(sanitizer.counts().put_by, 0);
    assert_eq!(sanitizer.counts().unseen_signals, 1);
}

#[test]
fn waits_that_hold_each_other_are_let_go_by_a_host_that_saw_them_end() {
    let sanitizer = sanitizer();
    let lanes = [0, 1].map(|index| Lane::new(&sanitizer, index, "lane"));
    let after = |lane: LaneId| Timepoint { lane, seq: 2 };
    lanes[0].wait(after(lanes[1].now.get().lane));
    lanes[1].wait(after(lanes[0].now.get().lane));
    let last = [lanes[0].write(0, 8), lanes[1].write(64, 8)];
    sanitizer.saw(Author::Host, last[0]);
    sanitizer.saw(Author::Host, last[1]);
    assert_eq!(sanitizer.counts().put_by, 0);
    assert_eq!(kinds(&sanitizer), []);
}

#[test]
fn the_same_two_places_are_one_report_and_the_kept_ones_are_bounded() {
    let told = Arc::new(Mutex::new(0));
    let listener = Arc::clone(&told);
    let sanitizer = Sanitizer::new(SanitizerConfig {
        most_reports: 1,
        listener: Some(Arc::new(move |_| *listener.lock().unwrap() += 1)),
        ..SanitizerConfig::default()
    });
    let (one, two) = (
        Lane::new(&sanitizer, 0, "one"),
        Lane::new(&sanitizer, 1, "two"),
    );
    for n in 0..10 {
        one.write(n * 8, 8);
        two.write(n * 8, 8);
    }
    assert_eq!(*told.lock().unwrap(), 1);
    assert_eq!(sanitizer.reports()[0].times, 10);
    one.write(800, 8);
    two.write(800, 8);
    let counts = sanitizer.counts();
    assert_eq!((counts.met, counts.not_kept), (11, 1));
    assert_eq!(sanitizer.reports().len(), 1);
}

#[test]
fn a_refused_command_leaves_no_trace_but_its_report() {
    let sanitizer = Sanitizer::new(SanitizerConfig {
        response: Response::Refuse,
        ..SanitizerConfig::default()
    });
    let (one, two) = (
        Lane::new(&sanitizer, 0, "one"),
        Lane::new(&sanitizer, 1, "two"),
    );
    let written = one.write(0, 8);
    let effect = || Effect::Touches(Footprint::default().write(SPACE, DevicePtr::new(0), 8));
    let refused = two
        .submit(Author::Host, Operation::Fill, effect())
        .unwrap_err();
    assert_eq!(refused.kind, Hazard::WriteWrite);
    assert_eq!(kinds(&sanitizer), [Hazard::WriteWrite]);
    two.wait(written);
    two.submit(Author::Host, Operation::Fill, effect()).unwrap();
    one.wait(two.now.get());
    one.submit(Author::Host, Operation::Fill, effect()).unwrap();
}

#[test]
fn a_command_that_found_no_room_has_not_been() {
    let sanitizer = sanitizer();
    let (one, two) = (
        Lane::new(&sanitizer, 0, "one"),
        Lane::new(&sanitizer, 1, "two"),
    );
    let effect = Effect::Touches(Footprint::default().write(SPACE, DevicePtr::new(0), 8));
    let step = (Operation::Fill, effect);
    drop(sanitizer.attempt(Author::Host, one.now.get(), step, Location::caller()));
    two.write(0, 8);
    assert_eq!(kinds(&sanitizer), []);
}

#[test]
fn streams_that_come_and_go_settle_where_the_host_waits_for_them() {
    let sanitizer = sanitizer();
    let keeper = Lane::new(&sanitizer, 0, "keeper");
    for index in 1..3000 {
        let lane = Lane::new(&sanitizer, index, "guest");
        lane.wait(keeper.write(0, 8));
        let written = lane.write(0, 8);
        sanitizer.retire(written.lane);
        sanitizer.saw(Author::Host, written);
    }
    assert_eq!(kinds(&sanitizer), []);
    // A run of bytes and two clocks a guest, of the last thousand commands at most.
    assert!(sanitizer.counts().held < 1024);
}

#[test]
fn words_of_memory_that_has_a_new_owner_are_forgotten() {
    let sanitizer = sanitizer();
    let lane = Lane::new(&sanitizer, 0, "lane");
    let at = |block: u64| DevicePtr::new(block * 64);
    let write = |block, value| {
        let effect = Effect::WritesWord(SPACE, at(block), MemoryWord::U32(value));
        lane.order(Operation::WriteMemory, effect);
    };
    let held = || sanitizer.counts().held;
    let none = held();
    for round in 0..10 {
        for block in 0..10 {
            hand_out(&sanitizer, range(block * 64, 64), lane.now.get());
            write(block, round);
        }
    }
    let all = held();
    hand_out(&sanitizer, range(64, 64), lane.now.get());
    assert_eq!(held(), all - 1, "one word less");
    sanitizer.forget(SPACE, range(0, 640));
    assert_eq!(held(), none);
    // Words elsewhere stay.
    write(10, 7);
    sanitizer.forget(SPACE, range(0, 640));
    let wait = MemoryWait {
        at: at(10),
        comparison: Comparison::Equal,
        value: MemoryWord::U32(7),
    };
    let other = Lane::new(&sanitizer, 1, "other");
    other.order(Operation::WaitMemory, Effect::WaitsForWord(SPACE, wait));
    assert_eq!(sanitizer.counts().put_by, 0);
    other.order(Operation::Fill, Effect::Nothing);
    assert_eq!(sanitizer.counts().put_by, 0);
}

#[test]
fn host_memory_and_devices_have_addresses_of_their_own() {
    let sanitizer = sanitizer();
    let (one, two) = (
        Lane::new(&sanitizer, 0, "one"),
        Lane::new(&sanitizer, 1, "two"),
    );
    let touch = |lane: &Lane<'_>, space| {
        let footprint = Footprint::default().write(space, DevicePtr::new(0), 8);
        let effect = Effect::Touches(footprint);
        lane.submit(Author::Host, Operation::CopyToHost, effect)
            .unwrap()
    };
    touch(&one, Space::Host);
    touch(&two, Space::Device(DeviceId(1)));
    touch(&two, SPACE);
    assert_eq!(kinds(&sanitizer), []);
    touch(&two, Space::Host);
    assert_eq!(kinds(&sanitizer), [Hazard::WriteWrite]);
}

#[test]
fn memory_gone_back_to_its_device_is_unknown() {
    let sanitizer = sanitizer();
    let lane = Lane::new(&sanitizer, 0, "lane");
    hand_out(&sanitizer, range(0, 64), lane.now.get());
    take_back(&sanitizer, range(0, 64), Frontier::new());
    sanitizer.forget(SPACE, range(0, 64));
    lane.write(0, 8);
    assert_eq!(kinds(&sanitizer), []);
}
