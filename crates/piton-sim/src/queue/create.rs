//! Making queues: priorities, cores, and the hardware queue each is placed on.

use super::{PRIORITIES, QueueCore, QueueState, SimQueue};
use crate::{
    device::SimDevice,
    machine::{DeviceCore, HardwareLoad, MAX_QUEUES},
    parameters::ParameterRing,
    progress::Progress,
    stall::Stall,
};
use piton_driver::{
    DriverError, ErrorKind, HardwareQueue, Operation, Placement, Queue, QueueId, QueueOptions,
    Queues, ResourceKind,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64},
};
use std::{collections::VecDeque, sync::Arc};

impl Queues for SimDevice {
    fn create(&self, options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        self.gate(Operation::CreateQueue)?;
        let error = |kind| self.error(kind, Operation::CreateQueue);
        if !PRIORITIES.contains(options.priority) {
            return Err(error(ErrorKind::InvalidPriority {
                given: options.priority.0,
                highest: PRIORITIES.highest.0,
                lowest: PRIORITIES.lowest.0,
            }));
        }
        self.check_units(options.compute_units).map_err(error)?;
        let hardware = place(self.core(), options.placement).map_err(error)?;
        let core = Arc::new(QueueCore {
            id: QueueId(self.machine().next_queue_id()),
            device: self.clone(),
            priority: options.priority,
            hardware,
            units: options.compute_units,
            label: options.label.clone(),
            submitted: AtomicU64::new(0),
            progress: Progress::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            state: Mutex::new(QueueState {
                ring: VecDeque::new(),
                parameters: ParameterRing::new(),
                is_scheduled: false,
                stall: Stall::default(),
                time: 0,
                ends: VecDeque::new(),
            }),
            replay: Mutex::new(None),
        });
        self.core().queues.lock().push(Arc::downgrade(&core));
        Ok(Arc::new(SimQueue { core }))
    }
}

/// Chooses a hardware queue and notes that one more queue is on it.
fn place(device: &DeviceCore, placement: Placement) -> Result<u32, ErrorKind> {
    let mut loads = device.loads.lock();
    let queues: u32 = loads.iter().map(|load| load.queues).sum();
    if queues >= MAX_QUEUES {
        let resource = ResourceKind::Queues;
        return Err(ErrorKind::OutOfResources {
            resource,
            limit: u64::from(MAX_QUEUES),
        });
    }
    let limit = loads.len() as u64;
    let exhausted = ErrorKind::OutOfResources {
        resource: ResourceKind::HardwareQueues,
        limit,
    };
    let at = choose_hardware(&loads, placement).ok_or(match placement {
        Placement::Explicit(HardwareQueue(index)) if u64::from(index) >= limit => {
            ErrorKind::InvalidIndex {
                index: u64::from(index),
                limit,
            }
        }
        _ => exhausted,
    })?;
    let load = loads.get_mut(at).ok_or(exhausted)?;
    load.queues += 1;
    load.is_exclusive = placement == Placement::Exclusive;
    u32::try_from(at).map_err(|_| exhausted)
}

fn choose_hardware(loads: &[HardwareLoad], placement: Placement) -> Option<usize> {
    let open = |at: &usize| !loads[*at].is_exclusive;
    match placement {
        Placement::LeastLoaded => (0..loads.len())
            .filter(open)
            .min_by_key(|at| loads[*at].queues),
        Placement::Exclusive => (0..loads.len()).find(|at| loads[*at].queues == 0),
        Placement::Explicit(HardwareQueue(at)) => Some(at as usize)
            .filter(|at| *at < loads.len())
            .filter(open),
    }
}
