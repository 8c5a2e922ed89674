//! How copies travel: the parts of a plan, and where their bytes stop.

use std::sync::Arc;

use serde::Serialize;

use crate::id::{DeviceId, LinkId, NumaId};
use crate::quantity::{BytesPerSec, Nanos};
use crate::route::{RouteKind, as_list};

/// Where bytes stop on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// In the memory of a device, which forwards them.
    Device(DeviceId),
    /// In page-locked memory of a NUMA node.
    Memory(NumaId),
}

/// One part of a copy, and the route it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stripe {
    /// What the route passes through; of several devices, the first.
    pub kind: RouteKind,
    /// Its links in order.
    #[serde(serialize_with = "as_list")]
    pub hops: Arc<[LinkId]>,
    /// The devices that forward it, in order.
    pub relays: Box<[DeviceId]>,
    /// Where its bytes stop, in order: the devices that forward it, and host memory where a plan is made of commands.
    pub stops: Box<[Stop]>,
    /// How many commands of each of its legs should be under way at once. Links divide their rate evenly among
    /// commands, so of two parts on one link the faster has more.
    pub lanes: u16,
    /// The rate planned for it.
    pub rate: BytesPerSec,
    /// From submission until its first byte arrives: launches, latency, a chunk for each relay.
    pub delay: Nanos,
    /// Where in the copy its bytes begin.
    pub offset: u64,
    /// How many bytes it carries.
    pub bytes: u64,
}

/// How one copy travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StripePlan {
    /// Its parts, the widest first; together they are the copy.
    pub stripes: Vec<Stripe>,
    /// When the last of them ends, after submission, if nothing else comes.
    pub time: Nanos,
}

/// How copies that run at once travel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedPlan {
    /// The plan of each copy.
    pub copies: Vec<StripePlan>,
    /// What each copy gets, all its routes together, before routes too narrow to be worth it are left out.
    pub each: BytesPerSec,
    /// No plan gives each copy more than this.
    pub bound: BytesPerSec,
}
