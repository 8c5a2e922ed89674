//! Graphs: what a description becomes, and how it runs as one command.
//!
//! # The idea
//! Instantiating turns the description into a [`Plan`]: the nodes in one list, the lists of bodies cut out of it as
//! *levels*, and one block that holds the arguments of all launches. The plan does not change while anybody runs
//! it: a replay holds the plan it was submitted with, and an update replaces the executable's plan (changing it in
//! place where no replay holds it). So submitting a replay is a lock and a reference, however large the graph.
//!
//! Running is a walk over the levels (`run`), one node a step of the queue's slice: queues beside it get their
//! turn, an abort is seen between nodes, and a loop is no different. Blocks of kernels spread over the workers as
//! ever. In virtual time nodes that no edge orders overlap, as far as cores and copy engines allow, and the seed
//! chooses among them.
//!
//! # Not here
//! In real time the nodes of one replay run one after the other, also those that no edge orders: a queue's front has one
//! owner. Independent work that should overlap goes to queues of its own.

mod front;
mod node;
mod plan;
mod run;

pub(crate) use front::{NodeReturn, Step, step};
pub(crate) use plan::Plan;
pub(crate) use run::ReplayPlace;

use crate::device::SimDevice;
use piton_driver::{
    DeviceId, DriverError, ErrorKind, ExecutableGraph, GraphDescription, GraphRefusal, Graphs,
    NodeWork, Operation,
};
use piton_sync::Mutex;
use std::{any::Any, sync::Arc};

/// An executable graph of a simulated device.
#[derive(Debug)]
pub(crate) struct SimGraph {
    device: SimDevice,
    plan: Mutex<Arc<Plan>>,
}

impl SimGraph {
    /// The plan that a replay submitted now runs.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.lock())
    }
}

impl Graphs for SimDevice {
    fn instantiate(
        &self,
        graph: GraphDescription,
    ) -> Result<Arc<dyn ExecutableGraph>, GraphRefusal> {
        self.gate(Operation::InstantiateGraph)
            .map_err(|error| GraphRefusal { node: 0, error })?;
        let plan = Plan::of(self, graph)?;
        Ok(Arc::new(SimGraph {
            device: self.inside(),
            plan: Mutex::new(Arc::new(plan)),
        }))
    }
}

#[expect(unsafe_code, reason = "implements the contract's executable")]
// SAFETY: a node is ready when the nodes it comes after have ended (`run`), so none starts earlier; a command in
// the ring holds the plan, and with it what the description keeps, until it has ended.
unsafe impl ExecutableGraph for SimGraph {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn node_count(&self) -> u32 {
        self.plan.lock().node_count()
    }

    fn update(&self, node: u32, work: &NodeWork) -> Result<(), DriverError> {
        self.device.gate(Operation::UpdateGraph)?;
        // Checked without the lock, so that whoever submits a replay meanwhile does not wait for it.
        let checked = plan::check(&self.device, work)?;
        let mut plan = self.plan.lock();
        Arc::make_mut(&mut plan)
            .replace(node, checked)
            .map_err(|kind| self.device.error(kind, Operation::UpdateGraph))
    }
}

impl SimDevice {
    /// The simulated executable behind `graph`, if it is one of this device's.
    pub(crate) fn own_graph(
        &self,
        graph: &Arc<dyn ExecutableGraph>,
    ) -> Result<Arc<Plan>, DriverError> {
        let given = graph.device();
        let any: &dyn Any = &**graph;
        let own = any.downcast_ref::<SimGraph>();
        match own.filter(|graph| graph.device.is(self)) {
            Some(graph) => Ok(graph.plan()),
            None => Err(self.error(ErrorKind::ForeignObject { given }, Operation::RunGraph)),
        }
    }
}
