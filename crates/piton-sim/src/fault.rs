//! Faults on demand: which call fails, when the device is lost.
//!
//! A plan is a list of triggers. Calls are counted from 1 while a plan is set; setting a plan starts the
//! counts again, so a test can walk n = 1, 2, 3, … until nothing fires any more.

use piton_driver::{DeviceId, Operation};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::collections::BTreeMap;

/// One fault.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The n-th driver call of any kind fails, n from 1.
    Call(u64),
    /// The n-th call of this kind fails, n from 1.
    CallOf(Operation, u64),
    /// The n-th kernel to start, on any device, traps with this code.
    TrapKernel(u64, u32),
    /// The n-th kernel to start, on any device, never ends: its queue stands still until it is aborted or the device is lost.
    HangKernel(u64),
    /// Copies between these two devices fail.
    CutLink(DeviceId, DeviceId),
    /// Copies between these two devices never end, until they are aborted or a device is lost.
    HangLink(DeviceId, DeviceId),
    /// Copies between these two devices end well and arrive changed: the first byte of each is another.
    CorruptLink(DeviceId, DeviceId),
    /// Copies between these two devices take so many times as long, in virtual time.
    SlowLink(DeviceId, DeviceId, u32),
    /// This device is lost at the n-th driver call of any kind.
    LoseDevice(DeviceId, u64),
}

/// What goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    triggers: Vec<Trigger>,
}

impl FaultPlan {
    /// Nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// This goes wrong too.
    #[must_use]
    pub fn with(mut self, trigger: Trigger) -> Self {
        self.triggers.push(trigger);
        self
    }
}

/// How a kernel is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelFate {
    Runs,
    Traps(u32),
    Hangs,
}

/// What a copy between two devices meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFate {
    Carries,
    Fails,
    Hangs,
    Corrupts,
}

/// What a driver call meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFate {
    Proceeds,
    Fails { call: u64 },
    LosesDevice(DeviceId),
}

#[derive(Debug, Default)]
struct Counts {
    plan: FaultPlan,
    calls: u64,
    by_operation: BTreeMap<Operation, u64>,
    kernels: u64,
    fired: u64,
}

/// The plan in force and the counts so far.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Whether anything may go wrong at all: the one thing the launch path looks at.
    is_armed: AtomicBool,
    counts: Mutex<Counts>,
}

/// Commands, and what is asked about them: made too often to be counted for nothing.
fn is_frequent(operation: Operation) -> bool {
    use Operation as Op;
    matches!(
        operation,
        Op::Launch
            | Op::CopyToDevice
            | Op::CopyToHost
            | Op::CopyOnDevice
            | Op::CopyPeer
            | Op::Fill
            | Op::WaitQueue
            | Op::CallHost
            | Op::WaitSemaphore
            | Op::SignalSemaphore
            | Op::WriteTimestamp
            | Op::WaitMemory
            | Op::WriteMemory
            | Op::Flush
            | Op::Wait
            | Op::Notify
    )
}

impl Faults {
    pub(crate) fn set(&self, plan: FaultPlan) {
        let mut counts = self.counts.lock();
        self.is_armed
            .store(!plan.triggers.is_empty(), Ordering::Release);
        *counts = Counts {
            plan,
            ..Counts::default()
        };
    }

    fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Acquire)
    }

    /// How often the plan in force has made something fail.
    pub(crate) fn fired(&self) -> u64 {
        self.counts.lock().fired
    }

    /// How many driver calls of each kind there were since the plan was set; commands are counted only while something
    /// may go wrong.
    pub(crate) fn calls(&self) -> BTreeMap<Operation, u64> {
        self.counts.lock().by_operation.clone()
    }

    pub(crate) fn call(&self, operation: Operation) -> CallFate {
        if !self.is_armed() && is_frequent(operation) {
            return CallFate::Proceeds;
        }
        let mut counts = self.counts.lock();
        counts.calls += 1;
        let calls = counts.calls;
        let count = counts.by_operation.entry(operation).or_default();
        *count += 1;
        let of_kind = *count;
        let fate = counts
            .plan
            .triggers
            .iter()
            .find_map(|trigger| match *trigger {
                Trigger::Call(n) if n == calls => Some(CallFate::Fails { call: n }),
                Trigger::CallOf(op, n) if op == operation && n == of_kind => {
                    Some(CallFate::Fails { call: n })
                }
                Trigger::LoseDevice(device, n) if n == calls => Some(CallFate::LosesDevice(device)),
                _ => None,
            });
        counts.fired += u64::from(fate.is_some());
        fate.unwrap_or(CallFate::Proceeds)
    }

    pub(crate) fn kernel(&self) -> KernelFate {
        if !self.is_armed() {
            return KernelFate::Runs;
        }
        let mut counts = self.counts.lock();
        counts.kernels += 1;
        let kernels = counts.kernels;
        let fate = counts
            .plan
            .triggers
            .iter()
            .find_map(|trigger| match *trigger {
                Trigger::TrapKernel(n, code) if n == kernels => Some(KernelFate::Traps(code)),
                Trigger::HangKernel(n) if n == kernels => Some(KernelFate::Hangs),
                _ => None,
            });
        counts.fired += u64::from(fate.is_some());
        fate.unwrap_or(KernelFate::Runs)
    }

    /// What becomes of a copy between two devices.
    pub(crate) fn link(&self, a: DeviceId, b: DeviceId) -> LinkFate {
        if !self.is_armed() {
            return LinkFate::Carries;
        }
        let is_it = |x, y| (x, y) == (a, b) || (x, y) == (b, a);
        let mut counts = self.counts.lock();
        let fate = counts
            .plan
            .triggers
            .iter()
            .find_map(|trigger| match *trigger {
                Trigger::CutLink(x, y) if is_it(x, y) => Some(LinkFate::Fails),
                Trigger::HangLink(x, y) if is_it(x, y) => Some(LinkFate::Hangs),
                Trigger::CorruptLink(x, y) if is_it(x, y) => Some(LinkFate::Corrupts),
                _ => None,
            });
        counts.fired += u64::from(fate.is_some());
        fate.unwrap_or(LinkFate::Carries)
    }

    /// How many times as long copies between two devices take.
    pub(crate) fn slowness(&self, a: DeviceId, b: DeviceId) -> u64 {
        if !self.is_armed() {
            return 1;
        }
        let counts = self.counts.lock();
        let slow = counts
            .plan
            .triggers
            .iter()
            .find_map(|trigger| match *trigger {
                Trigger::SlowLink(x, y, times) if (x, y) == (a, b) || (x, y) == (b, a) => {
                    Some(times.into())
                }
                _ => None,
            });
        slow.unwrap_or(1).max(1)
    }
}
