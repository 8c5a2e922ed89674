//! A command behind places of other lanes, taken with all the waits it needs or not at all.

#![expect(unsafe_code, reason = "submits commands")]

use super::{Run, submit::Answer};
use crate::{
    books::{Clock, Place, Task},
    program::Form,
    wakers::CountingWaker,
};
use piton_driver::Command;
use piton_stream::{StreamError, Submission, WhenFull};
use piton_timeline::Frontier;
use std::{
    collections::{BTreeMap, BTreeSet},
    task::Poll,
};

/// Whether a wait is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Need {
    Not,
    Perhaps,
    Sure,
}

/// A place that the command comes behind.
struct Awaited {
    place: Place,
    clock: Clock,
    /// Whether it had ended, and failed, before the command was offered.
    was_done: bool,
    had_failed: bool,
}

impl Run<'_> {
    pub(super) fn behind(&mut self, lane: usize, events: [usize; 3], form: Form) {
        let Some((block, user)) = self.take(lane) else {
            return;
        };
        let capacity = self.books[self.lanes[lane].queue].commands;
        // So few that they and the command are taken at once.
        let most = usize::try_from(capacity - 1).unwrap();
        let events: Vec<usize> = events
            .iter()
            .filter_map(|event| event.checked_rem(self.events.len()))
            .take(most)
            .collect();
        let awaited: Vec<Awaited> = events.iter().map(|event| self.awaited(*event)).collect();
        let after: Vec<Frontier> = events
            .iter()
            .map(|event| {
                let event = &self.events[*event].event;
                self.stream(lane).place_of(event).unwrap().into()
            })
            .collect();
        let (task, tag, words) = self.kernel((block, user), false);
        let world = self.world;
        let taken = world.with_launch((block, tag), words, (false, false), |launch| {
            self.offer_behind(lane, &after, launch, form)
        });
        if self.behind_answered(lane, (task, &awaited), form, taken) {
            let point = self.stream(lane).now();
            self.pool[block].uses.insert(point);
        }
    }

    fn awaited(&self, event: usize) -> Awaited {
        let recorded = &self.events[event];
        Awaited {
            place: recorded.place,
            clock: recorded.clock.clone(),
            was_done: self.has_ended(recorded.place),
            had_failed: self.has_failed(recorded.place),
        }
    }

    /// Whether the stream was dropped. Once another has its slot, a place says that it has ended and no more.
    fn is_gone(&self, (queue, _): Place) -> bool {
        self.lanes.iter().all(|lane| lane.queue != queue)
    }

    fn has_failed(&self, (queue, position): Place) -> bool {
        self.books[queue].is_spoilt(position)
    }

    fn has_ended(&self, (queue, position): Place) -> bool {
        self.books[queue].queue.completed().get() >= position
    }

    fn offer_behind(
        &self,
        lane: usize,
        after: &[Frontier],
        launch: &Command<'_>,
        form: Form,
    ) -> Result<Submission, StreamError> {
        let stream = self.stream(lane);
        match form {
            Form::Blocking => {
                // SAFETY: the block is the lane's, and memory lives until everything has ended.
                let taken = unsafe { stream.submit_behind(after, launch) };
                taken.map(Submission::Accepted)
            }
            Form::Future { .. } => {
                // SAFETY: as above.
                let mut future = unsafe { stream.submit_behind_async(after, *launch) };
                match CountingWaker::new().poll(&mut future) {
                    Poll::Ready(taken) => taken.map(Submission::Accepted),
                    // Dropped, it has submitted nothing.
                    Poll::Pending => Ok(Submission::Full),
                }
            }
            // SAFETY: as above.
            _ => unsafe { stream.try_submit_behind(after, launch) },
        }
    }

    /// Writes the waits that were made into the books, and then what came behind them.
    fn behind_answered(
        &mut self,
        lane: usize,
        (task, awaited): (Task, &[Awaited]),
        form: Form,
        taken: Result<Submission, StreamError>,
    ) -> bool {
        let own = self.lanes[lane].queue;
        let now = self.stream(lane).now();
        let before = self.books[own].submitted();
        if let Ok(Submission::Accepted(point)) = taken {
            let (_, position) = self.place(point);
            let waits = usize::try_from(position - before - 1).unwrap();
            for wait in self.waits_made(own, awaited, waits) {
                self.books[own].tasks.push(wait);
                let made = self.books[own].submitted();
                self.issued.push((own, made));
            }
            for Awaited {
                place,
                clock,
                was_done,
                ..
            } in awaited
            {
                if *was_done && self.is_gone(*place) {
                    self.learns(own, *place, clock);
                } else {
                    self.comes_after(own, position, *place, clock);
                }
            }
        } else if matches!(taken, Err(StreamError::Poisoned(_))) {
            let is_spoilt =
                |awaited: &Awaited| self.books[awaited.place.0].is_spoilt(awaited.place.1);
            assert!(awaited.iter().any(is_spoilt), "nothing failed");
            assert_eq!(
                now.seq,
                self.books[own].base + before,
                "nothing has changed"
            );
            return false;
        }
        let may_park = self.stream(lane).when_full() == WhenFull::Park;
        let must_be_taken = form == Form::Blocking && may_park && !self.world.is_lost.get();
        let is_taken = self.answered(lane, task, Answer { taken, now });
        assert!(is_taken || !must_be_taken, "it parks and is never refused");
        is_taken
    }

    /// Which waits the `count` were that were made.
    fn waits_made(&self, own: usize, awaited: &[Awaited], count: usize) -> Vec<Task> {
        let failed_now = |awaited: &Awaited| self.has_failed(awaited.place);
        let had_failed = |awaited: &Awaited| awaited.had_failed;
        let choices = self.choices(own, awaited);
        let made = choices.iter().flat_map(|choice| {
            [
                later_of_each(choice, failed_now),
                later_of_each(choice, had_failed),
            ]
        });
        let made: Vec<Vec<Place>> = made.collect();
        let least = made.iter().map(Vec::len).min().unwrap_or(0);
        // A place may have failed while the command was offered, between two looks even.
        let seen = |awaited: &Awaited| [had_failed(awaited), failed_now(awaited)];
        let most = choices
            .iter()
            .map(|choice| most_of_each(choice, seen))
            .max();
        assert!(
            least <= count && Some(count) <= most,
            "{count} waits: {made:?}"
        );
        // Those that fit may be others, or the same in another order: then it is not known which stands where.
        let mut fitting = made.into_iter().filter(|made| made.len() == count);
        match fitting.next() {
            Some(made) if fitting.all(|other| other == made) => {
                made.into_iter().map(Task::WaitQueue).collect()
            }
            _ => vec![Task::WaitSome; count],
        }
    }

    /// Every choice of places that there may have been waits for.
    fn choices<'a>(&self, own: usize, awaited: &'a [Awaited]) -> Vec<Vec<&'a Awaited>> {
        let mut choices = vec![Vec::new()];
        for awaited in awaited {
            let need = self.need(own, awaited);
            if need == Need::Not {
                continue;
            }
            let with = |choice: &Vec<_>| [&choice[..], &[awaited]].concat();
            let with: Vec<_> = choices.iter().map(with).collect();
            if need == Need::Sure {
                choices.clear();
            }
            choices.extend(with);
        }
        choices
    }

    /// What was pending all the time is waited for, and what had failed before; not what had ended well, or comes before
    /// by a wait of the lane's own. By waits of others the clock may know it or not, and a lane that a wait has failed
    /// may be told of the failure again or not.
    fn need(&self, own: usize, awaited: &Awaited) -> Need {
        let place = awaited.place;
        let book = &self.books[own];
        let is_known = book.clock.get(&place.0) >= Some(&place.1);
        let direct =
            |(_, (queue, position)): &(u64, Place)| *queue == place.0 && *position >= place.1;
        let is_well = !self.books[place.0].is_spoilt(place.1);
        if place.0 == own || place.1 == 0 || (awaited.was_done && is_well) {
            return Need::Not;
        }
        match (awaited.was_done, self.has_ended(place)) {
            (true, _) if is_known || self.is_gone(place) => Need::Perhaps,
            (true, _) => Need::Sure,
            (false, true) => Need::Perhaps,
            (false, false) if book.after.iter().any(direct) => Need::Not,
            (false, false) if is_known => Need::Perhaps,
            (false, false) => Need::Sure,
        }
    }
}

/// As many waits as there may be where places fail between one look and the next: of each queue one for those that are seen to have
/// failed and one for those that are not.
fn most_of_each(awaited: &[&Awaited], seen: impl Fn(&Awaited) -> [bool; 2]) -> usize {
    let mut of_queues: BTreeMap<usize, (usize, BTreeSet<bool>)> = BTreeMap::new();
    for awaited in awaited {
        let (places, statuses) = of_queues.entry(awaited.place.0).or_default();
        *places += 1;
        statuses.extend(seen(awaited));
    }
    let most = |(places, statuses): &(usize, BTreeSet<bool>)| (*places).min(statuses.len());
    of_queues.values().map(most).sum()
}

/// Of two places of one queue one wait is enough, but where one alone has failed.
fn later_of_each(awaited: &[&Awaited], has_failed: impl Fn(&Awaited) -> bool) -> Vec<Place> {
    let mut made: Vec<(Place, bool)> = Vec::new();
    for awaited in awaited {
        let (place, has_failed) = (awaited.place, has_failed(awaited));
        let mut known = made.iter_mut();
        match known.find(|(made, failed)| made.0 == place.0 && *failed == has_failed) {
            Some((made, _)) => made.1 = made.1.max(place.1),
            None => made.push((place, has_failed)),
        }
    }
    made.into_iter().map(|(place, _)| place).collect()
}
