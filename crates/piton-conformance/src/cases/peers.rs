//! Other devices' memory.

use crate::{
    drive::{DeviceBuffer, HostBuffer, copy_peer, fetch, fill_word},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{Device, DeviceId, ErrorKind, LinkClass, Peers, QueueOptions};
use std::sync::Arc;

cases! { "peers":
    links_say_what_lies_between [Peers],
    a_device_that_is_not_there_is_no_peer [Peers],
    access_that_is_not_enabled_is_refused [Peers],
    enabling_twice_changes_nothing [Peers HostMemory],
    copies_go_both_ways [Peers HostMemory],
    a_copy_to_the_same_device_is_no_peer_copy [Peers],
    a_peer_copy_needs_access_from_its_queues_device [Peers],
    peer_copies_of_wrong_sizes_are_refused [Peers],
    a_queue_waits_for_a_queue_of_another_device [Peers HostMemory],
}

const SECOND: DeviceId = DeviceId(1);

#[track_caller]
fn peers(device: &Arc<dyn Device>) -> Result<&dyn Peers, Failure> {
    let missing = || Failure::new("the case says it needs peers", "it does not");
    device.peers().ok_or_else(missing)
}

fn pair(subject: &Subject) -> Result<(Stage, Arc<dyn Device>), Failure> {
    let stage = Stage::open(subject)?;
    let second = stage.driver.open(SECOND)?;
    Ok((stage, second))
}

fn is_not_peers(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotPeers { .. })
}

/// Words of a buffer of the second device.
fn words_on(
    device: &Arc<dyn Device>,
    buffer: &DeviceBuffer,
    count: usize,
) -> Result<Vec<u32>, Failure> {
    let queue = device.queues().create(&QueueOptions::default())?;
    let host = HostBuffer::new(device, &vec![0; count])?;
    accepted(fetch(&queue, buffer, 0, &host, count as u64 * 4))?;
    finish(&queue)?;
    host.words()
}

fn links_say_what_lies_between(subject: &Subject) -> Checked {
    let (stage, _second) = pair(subject)?;
    let peers = peers(&stage.device)?;
    let own = peers.link(DeviceId(0)).map(|link| link.class);
    ensure_eq(own, Some(LinkClass::Local), "a device is at itself")?;
    let link = peers.link(SECOND);
    ensure(
        link.is_some_and(|link| link.class != LinkClass::Local),
        "the second is elsewhere",
    )
}

fn a_device_that_is_not_there_is_no_peer(subject: &Subject) -> Checked {
    let (stage, _second) = pair(subject)?;
    let peers = peers(&stage.device)?;
    for id in [stage.driver.device_count(), 64, u32::MAX].map(DeviceId) {
        ensure(peers.link(id).is_none(), "no link to what is not there")?;
        ensure(!peers.can_access(id), "no access to what is not there")?;
        refused(
            peers.enable(id),
            is_not_peers,
            "no enabling what is not there",
        )?;
    }
    Ok(())
}

fn access_that_is_not_enabled_is_refused(subject: &Subject) -> Checked {
    let (stage, second) = pair(subject)?;
    let (queue, own) = (stage.queue()?, stage.buffer(64)?);
    let other = DeviceBuffer::new(&second, 64)?;
    let to = copy_peer(&*stage.device, &queue, &other, &own, 64);
    refused(to, is_not_peers, "a peer is enabled before it is written")?;
    let from = copy_peer(&*stage.device, &queue, &own, &other, 64);
    refused(from, is_not_peers, "a peer is enabled before it is read")?;
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}

fn enabling_twice_changes_nothing(subject: &Subject) -> Checked {
    let (stage, second) = pair(subject)?;
    peers(&stage.device)?.enable(SECOND)?;
    peers(&stage.device)?.enable(SECOND)?;
    let (queue, own, other) = (
        stage.queue()?,
        stage.buffer(64)?,
        DeviceBuffer::new(&second, 64)?,
    );
    accepted(fill_word(&queue, &own, 3))?;
    accepted(copy_peer(&*stage.device, &queue, &other, &own, 64))?;
    finish(&queue)?;
    ensure_eq(
        words_on(&second, &other, 16)?,
        vec![3; 16],
        "the copy arrived",
    )
}

fn copies_go_both_ways(subject: &Subject) -> Checked {
    let (stage, second) = pair(subject)?;
    peers(&stage.device)?.enable(SECOND)?;
    let bytes = 1 << 16;
    let (a, b) = (stage.buffer(bytes)?, stage.buffer(bytes)?);
    let (other, queue) = (DeviceBuffer::new(&second, bytes)?, stage.queue()?);
    accepted(fill_word(&queue, &a, 0x0102_0304))?;
    accepted(fill_word(&queue, &b, 0))?;
    accepted(copy_peer(&*stage.device, &queue, &other, &a, bytes))?;
    accepted(copy_peer(&*stage.device, &queue, &b, &other, bytes))?;
    finish(&queue)?;
    let words = usize::try_from(bytes / 4).unwrap_or(0);
    ensure_eq(
        stage.words(&b, words)?,
        vec![0x0102_0304; words],
        "there and back",
    )
}

fn a_copy_to_the_same_device_is_no_peer_copy(subject: &Subject) -> Checked {
    let (stage, second) = pair(subject)?;
    peers(&stage.device)?.enable(SECOND)?;
    let (queue, a, b) = (stage.queue()?, stage.buffer(64)?, stage.buffer(64)?);
    let same = copy_peer(&*stage.device, &queue, &a, &b, 64);
    refused(same, is_not_peers, "a peer copy has two devices")?;
    let (c, d) = (
        DeviceBuffer::new(&second, 64)?,
        DeviceBuffer::new(&second, 64)?,
    );
    let elsewhere = copy_peer(&*stage.device, &queue, &c, &d, 64);
    refused(elsewhere, is_not_peers, "one of the two is this one")
}

fn a_peer_copy_needs_access_from_its_queues_device(subject: &Subject) -> Checked {
    let (stage, second) = pair(subject)?;
    peers(&stage.device)?.enable(SECOND)?;
    let queue = second.queues().create(&QueueOptions::default())?;
    let (own, other) = (stage.buffer(64)?, DeviceBuffer::new(&second, 64)?);
    let result = copy_peer(&*stage.device, &queue, &other, &own, 64);
    refused(
        result,
        |kind| matches!(kind, ErrorKind::NotPeers { from: SECOND, .. }),
        "access was enabled for the other device",
    )
}

fn peer_copies_of_wrong_sizes_are_refused(subject: &Subject) -> Checked {
    let (stage, second) = pair(subject)?;
    peers(&stage.device)?.enable(SECOND)?;
    let (queue, own, other) = (
        stage.queue()?,
        stage.buffer(64)?,
        DeviceBuffer::new(&second, 64)?,
    );
    let is_reason = |kind: &ErrorKind| {
        matches!(
            kind,
            ErrorKind::InvalidSize { .. } | ErrorKind::UnknownAddress { .. }
        )
    };
    for bytes in [0, stage.device.info().memory_bytes, u64::MAX] {
        let result = copy_peer(&*stage.device, &queue, &other, &own, bytes);
        refused(result, is_reason, "a peer copy stays in its memory")?;
    }
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}

fn a_queue_waits_for_a_queue_of_another_device(subject: &Subject) -> Checked {
    let (stage, second) = pair(subject)?;
    peers(&stage.device)?.enable(SECOND)?;
    let there = second.queues().create(&QueueOptions::default())?;
    let (here, own) = (stage.queue()?, stage.buffer(64)?);
    let other = DeviceBuffer::new(&second, 64)?;
    let mut free = piton_driver::Position::START;
    for word in 1..=20 {
        accepted(there.wait_for(&*here, free))?;
        let written = accepted(fill_word(&there, &other, word))?;
        accepted(here.wait_for(&*there, written))?;
        free = accepted(copy_peer(&*stage.device, &here, &own, &other, 64))?;
    }
    finish(&here)?;
    finish(&there)?;
    ensure_eq(
        stage.words(&own, 16)?,
        vec![20; 16],
        "the last copy saw the last fill",
    )
}
