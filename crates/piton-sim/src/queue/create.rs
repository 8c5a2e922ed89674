//! Making queues: priorities, cores, and the hardware queue each is placed on.

use super::{Consumer, PRIORITIES, QueueCore, SimQueue};
use crate::{
    device::SimDevice,
    front::FrontMark,
    graph::ReplayPlace,
    machine::{DEFAULT_COMMANDS, DeviceCore, HardwareLoad, MAX_QUEUES},
    parameters::ParameterRing,
    progress::Progress,
    ring::Ring,
    sequel::Sequel,
    stall::Stall,
    trouble::Trouble,
};
use piton_driver::{
    DriverError, ErrorKind, HardwareQueue, Operation, Placement, Queue, QueueId, QueueOptions,
    Queues, ResourceKind,
};
use piton_sync::{
    CachePadded, Mutex,
    atomic::{AtomicBool, AtomicU64},
};
use std::sync::Arc;

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
        let most = self.core().config.queue_commands;
        let commands = commands(options.commands, most).map_err(error)?;
        let hardware = place(self.core(), options.placement).map_err(error)?;
        let core = Arc::new(QueueCore {
            id: QueueId(self.machine().next_queue_id()),
            device: self.inside(),
            priority: options.priority,
            hardware,
            units: options.compute_units,
            label: options.label.clone(),
            on_failure: options.on_failure,
            ring: Ring::new(commands),
            progress: Progress::new(0),
            trouble: Trouble::default(),
            consumer: CachePadded::new(Consumer {
                front: FrontMark::default(),
                parameters: ParameterRing::new(commands),
                sequel: Sequel::default(),
            }),
            stall: Stall::default(),
            replay: ReplayPlace::default(),
            producer: CachePadded::default(),
            lift: AtomicU64::new(0),
            has_writer: AtomicBool::new(false),
            times: Mutex::default(),
        });
        self.core().queues.lock().push(Arc::downgrade(&core));
        Ok(Arc::new(SimQueue {
            core,
            _presence: self.presence(),
        }))
    }
}

/// How many commands a queue holds: what was asked for, rounded up to a power of two.
fn commands(wanted: Option<u32>, most: u32) -> Result<u32, ErrorKind> {
    match wanted {
        None => Ok(DEFAULT_COMMANDS.min(most).next_power_of_two()),
        Some(commands) if (1..=most).contains(&commands) => Ok(commands.next_power_of_two()),
        Some(commands) => Err(ErrorKind::InvalidSize {
            bytes: u64::from(commands),
            maximum: u64::from(most),
        }),
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
