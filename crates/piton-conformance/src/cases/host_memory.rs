//! Host memory that the device copies from and to.

use crate::{
    drive::{
        HostBuffer, admits_again, launch_in_place, send, send_pageable, unregister_stranger,
        with_admitted, with_registered,
    },
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{ErrorKind, Grid, HostMemoryOptions};

cases! { "host memory":
    host_sizes_of_zero_and_too_much_are_refused [HostMemory],
    host_allocations_are_zeroed_and_disjoint [HostMemory],
    freed_host_memory_comes_back_zeroed [HostMemory],
    pageable_memory_is_refused_in_copies [HostMemory],
    kernels_reach_host_memory_where_the_device_says_so [HostMemory],
    registered_memory_is_usable_until_unregistered [HostMemory],
    memory_that_is_not_registered_is_not_unregistered [HostMemory],
    admitted_memory_is_copied_and_nothing_else_until_it_is_dismissed [HostMemory],
}

fn host_sizes_of_zero_and_too_much_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let Some(host) = stage.device.host_memory() else {
        return Err(Failure::new(
            "facets do not change",
            "host memory went away",
        ));
    };
    for bytes in [0, usize::MAX, usize::MAX - 4095, isize::MAX as usize + 1] {
        let result = host.allocate(bytes, HostMemoryOptions::default());
        let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidSize { bytes: given, .. } if *given == bytes as u64);
        refused(result, is_reason, "impossible sizes are refused")?;
    }
    Ok(())
}

fn kernels_reach_host_memory_where_the_device_says_so(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let words = TestKernels::BLOCK as usize;
    let host = stage.host(&vec![1; words])?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let Some(launched) = launch_in_place(&queue, &add, Grid::linear(1), &host, 2) else {
        return Ok(());
    };
    accepted(launched)?;
    finish(&queue)?;
    ensure_eq(host.words()?, vec![3; words], "it is the same memory")
}

fn host_allocations_are_zeroed_and_disjoint(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    // Zeroes are checked as each is made.
    let buffers = [1, 1024, 1025, 5000].map(|words| stage.host(&vec![u32::MAX; words]));
    let mut extents = Vec::new();
    for buffer in &buffers {
        let buffer = buffer.as_ref().map_err(Clone::clone)?;
        extents.push(buffer.extent());
    }
    extents.sort_unstable();
    let is_apart = extents
        .windows(2)
        .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
    ensure(is_apart, "host allocations are disjoint")
}

fn freed_host_memory_comes_back_zeroed(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    for _ in 0..8 {
        // A stale byte would be noticed by the next one.
        HostBuffer::new(&stage.device, &[u32::MAX; 2048])?.free()?;
    }
    Ok(())
}

fn pageable_memory_is_refused_in_copies(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let words = [7; 16];
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::NotPageLocked { bytes: 64, .. });
    refused(
        send_pageable(&queue, &buffer, &words),
        is_reason,
        "pageable memory is refused",
    )?;
    let host = stage.host(&[0; 4])?;
    let past = host.extent().1 as u64 + 4;
    let large = stage.buffer(past)?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::NotPageLocked { .. });
    refused(
        send(&queue, &host, &large, 0, past),
        is_reason,
        "a copy ends where its memory does",
    )?;
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}

fn registered_memory_is_usable_until_unregistered(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(4096)?);
    let mut memory: Vec<u32> = (0..1024).collect();
    let expected = memory.clone();
    with_registered(&stage.device, &mut memory, |host| {
        accepted(send(&queue, host, &buffer, 0, 4096))?;
        finish(&queue)
    })?;
    ensure_eq(
        stage.words(&buffer, 1024)?,
        expected,
        "registered memory was copied",
    )?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::NotPageLocked { .. });
    let after = send_pageable(&queue, &buffer, &memory);
    refused(after, is_reason, "unregistered memory is pageable again")
}

fn memory_that_is_not_registered_is_not_unregistered(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::NotPageLocked { .. });
    let result = unregister_stranger(&*stage.device, &mut [0; 4]);
    refused(result, is_reason, "only registered memory is unregistered")
}

fn admitted_memory_is_copied_and_nothing_else_until_it_is_dismissed(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(4096)?);
    let mut memory: Vec<u32> = (0..1024).collect();
    let expected = memory.clone();
    let is_admitted = with_admitted(&stage.device, &mut memory, |host| {
        ensure(
            host.on_device().is_none(),
            "kernels do not reach admitted memory",
        )?;
        accepted(send(&queue, host, &buffer, 0, 4096))?;
        finish(&queue)
    })?;
    if is_admitted {
        ensure_eq(
            stage.words(&buffer, 1024)?,
            expected,
            "admitted memory was copied",
        )?;
    }
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::NotPageLocked { .. });
    let after = send_pageable(&queue, &buffer, &memory);
    refused(after, is_reason, "memory that is not admitted is pageable")?;
    let known = stage.host(&[0; 1024])?;
    ensure(
        !admits_again(&known)?,
        "memory that the device knows is not admitted",
    )
}
