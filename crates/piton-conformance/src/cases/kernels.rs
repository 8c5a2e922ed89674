//! Modules, kernels, launches.

use crate::{
    drive::{fill_word, launch, launch_in_place, launch_packed, pack, send, with_registered},
    outcome::{Checked, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{DeviceId, ErrorKind, Grid, ModuleImage, Parameter};

cases! { "kernels":
    an_unknown_module_is_refused [],
    an_unknown_kernel_is_refused [],
    a_kernel_knows_its_name_device_and_signature [],
    a_grid_computes_what_a_loop_would [HostMemory],
    a_kernel_reads_one_buffer_and_writes_another [HostMemory],
    a_kernel_uses_registered_memory_in_place_that_has_an_address [HostMemory],
    arguments_are_copied_before_the_call_returns [HostMemory],
    arguments_of_another_size_are_refused [],
    extents_are_as_many_as_buffers [],
    grids_of_nothing_and_of_too_much_are_refused [],
    a_kernel_of_another_driver_is_foreign [],
    a_kernel_of_another_device_is_foreign [Peers],
}

fn an_unknown_module_is_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::UnknownModule);
    let images = [
        ModuleImage::Registered("no module has this name"),
        ModuleImage::Binary(&[0, 1, 2, 3]),
        ModuleImage::Binary(&[]),
    ];
    for image in images {
        let result = stage.device.kernels().load(image);
        refused(result, is_reason, "what is no module does not load")?;
    }
    Ok(())
}

fn an_unknown_kernel_is_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let module = subject.load(&*stage.device)?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::UnknownKernel);
    for name in ["", "no kernel has this name", "conformance_add\0"] {
        refused(
            module.kernel(name),
            is_reason,
            "the module has no such kernel",
        )?;
    }
    Ok(())
}

fn a_kernel_knows_its_name_device_and_signature(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (add, copies) = (
        stage.kernel(TestKernels::ADD)?,
        stage.kernel(TestKernels::COPY)?,
    );
    ensure_eq(add.name(), TestKernels::ADD, "a kernel knows its name")?;
    ensure_eq(add.device(), DeviceId(0), "a kernel knows its device")?;
    let takes = [Parameter::write::<u32>(), Parameter::value::<u32>()];
    ensure_eq(
        add.signature().parameters(),
        &takes,
        "a kernel knows what it takes",
    )?;
    ensure_eq(add.signature().packed_bytes(), 12, "packed as C packs it")?;
    ensure_eq(
        copies.signature().buffers(),
        2,
        "both parameters are buffers",
    )
}

fn a_grid_computes_what_a_loop_would(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    for blocks in [1, 2, 7, 64] {
        let words = TestKernels::BLOCK * blocks;
        let content: Vec<u32> = (0..words).collect();
        let (buffer, host) = (stage.buffer(u64::from(words) * 4)?, stage.host(&content)?);
        accepted(send(&queue, &host, &buffer, 0, u64::from(words) * 4))?;
        accepted(launch(
            &queue,
            &add,
            Grid::linear(blocks),
            &[&buffer],
            u32::MAX,
        ))?;
        finish(&queue)?;
        let expected: Vec<u32> = content.iter().map(|x| x.wrapping_add(u32::MAX)).collect();
        ensure_eq(
            stage.words(&buffer, words as usize)?,
            expected,
            "every block ran once",
        )?;
    }
    Ok(())
}

fn a_kernel_reads_one_buffer_and_writes_another(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, copies) = (stage.queue()?, stage.kernel(TestKernels::COPY)?);
    let words = TestKernels::BLOCK as usize * 4;
    let (dst, src) = (
        stage.buffer(words as u64 * 4)?,
        stage.buffer(words as u64 * 4)?,
    );
    accepted(fill_word(&queue, &src, 77))?;
    accepted(fill_word(&queue, &dst, 0))?;
    accepted(launch(&queue, &copies, Grid::linear(4), &[&dst, &src], 0))?;
    finish(&queue)?;
    ensure_eq(
        stage.words(&dst, words)?,
        vec![77; words],
        "the kernel copied",
    )
}

fn a_kernel_uses_registered_memory_in_place_that_has_an_address(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let mut registered: Vec<u32> = (0..TestKernels::BLOCK * 2).collect();
    let expected: Vec<u32> = registered.iter().map(|x| x + 5).collect();
    let mut is_reached = false;
    with_registered(&stage.device, &mut registered, |memory| {
        let launched = launch_in_place(&queue, &add, Grid::linear(2), memory, 5);
        is_reached = launched.is_some();
        launched.map(accepted).transpose()?;
        finish(&queue)
    })?;
    let is_right = !is_reached || registered == expected;
    ensure(is_right, "the kernel wrote memory that was registered")
}

fn arguments_are_copied_before_the_call_returns(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let words = TestKernels::BLOCK as usize;
    let buffer = stage.buffer(words as u64 * 4)?;
    accepted(fill_word(&queue, &buffer, 0))?;
    let mut expected = 0;
    let mut arguments = pack(&*add, &[&buffer], 0);
    for value in 1..=100_u32 {
        arguments[8..12].copy_from_slice(&value.to_ne_bytes());
        let grid = Grid::linear(1);
        accepted(launch_packed(
            &queue,
            &add,
            grid,
            &arguments,
            &[],
            &[&buffer],
        ))?;
        arguments[8..12].fill(0xff);
        expected += value;
    }
    finish(&queue)?;
    ensure_eq(
        stage.words(&buffer, words)?,
        vec![expected; words],
        "each launch kept its own",
    )
}

fn arguments_of_another_size_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    for size in [0, 8, 11, 13, 1 << 20] {
        let invalid = ErrorKind::InvalidArguments {
            expected: 12,
            given: size as u64,
        };
        let result = launch_packed(&queue, &add, Grid::linear(1), &vec![0; size], &[], &[]);
        refused(
            result,
            |kind| *kind == invalid,
            "arguments have the signature's size",
        )?;
    }
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}

fn extents_are_as_many_as_buffers(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let buffer = stage.buffer(u64::from(TestKernels::BLOCK) * 4)?;
    let arguments = pack(&*add, &[&buffer], 0);
    let (grid, extents) = (Grid::linear(1), [1024, 1024]);
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidArguments { .. });
    let result = launch_packed(&queue, &add, grid, &arguments, &extents, &[&buffer]);
    refused(result, is_reason, "one buffer has one extent")
}

fn grids_of_nothing_and_of_too_much_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let buffer = stage.buffer(64)?;
    let empty = [(0, 1, 1), (1, 0, 1), (1, 1, 0)].map(|(x, y, z)| Grid { x, y, z });
    let all = u32::MAX;
    let huge = [
        Grid {
            x: all,
            y: all,
            z: all,
        },
        Grid {
            x: all,
            y: all,
            z: 1,
        },
    ];
    for grid in empty.into_iter().chain(huge) {
        let blocks = grid.blocks().unwrap_or(u64::MAX);
        let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidGrid { blocks: given, .. } if *given == blocks);
        let result = launch(&queue, &add, grid, &[&buffer], 0);
        refused(
            result,
            is_reason,
            "a grid has one block to as many as the device says",
        )?;
    }
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}

fn a_kernel_of_another_driver_is_foreign(subject: &Subject) -> Checked {
    let (stage, other) = (Stage::open(subject)?, Stage::open(subject)?);
    let (queue, buffer) = (stage.queue()?, stage.buffer(1024)?);
    let foreign = other.kernel(TestKernels::ADD)?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::ForeignObject { .. });
    let result = launch(&queue, &foreign, Grid::linear(1), &[&buffer], 0);
    refused(result, is_reason, "another driver's kernel is foreign")
}

fn a_kernel_of_another_device_is_foreign(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let second = stage.driver.open(DeviceId(1))?;
    let foreign = subject.load(&*second)?.kernel(TestKernels::ADD)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(1024)?);
    let given = ErrorKind::ForeignObject { given: DeviceId(1) };
    let result = launch(&queue, &foreign, Grid::linear(1), &[&buffer], 0);
    refused(
        result,
        |kind| *kind == given,
        "another device's kernel is foreign",
    )
}
