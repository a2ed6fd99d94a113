// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of a run. Inputs, and answers of memory that riser does not own, are written to it. In a replay, the
//! answers are read from it. This module does not interpret inputs.

use super::record::{Answer, Answered, RecordSize, Recorder};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use tlp::Time;

/// A handle of the record. Clones are handles of the same record.
#[derive(Clone, Default)]
pub(crate) struct Journal(Rc<RefCell<Mode>>);

#[derive(Default)]
enum Mode {
    /// Recording is off.
    #[default]
    Off,
    Recording(Recorder),
    Replaying(Replaying),
}

/// Recorded answers of memory for a replay.
#[derive(Default)]
struct Replaying {
    answers: VecDeque<Answer>,
    /// First difference from the recorded run.
    differs: Option<String>,
}

impl Journal {
    pub(crate) fn record(&self, recorder: Recorder) {
        *self.0.borrow_mut() = Mode::Recording(recorder);
    }

    pub(crate) fn replay(&self) {
        *self.0.borrow_mut() = Mode::Replaying(Replaying::default());
    }

    pub(crate) fn input(&self, time: Time, place: u16, emit: impl FnOnce(&mut Vec<u8>)) {
        if let Mode::Recording(recorder) = &mut *self.0.borrow_mut() {
            recorder.input(time, place, emit);
        }
    }

    pub(crate) fn answer(&self, place: u16, what: Answered, address: u64, bytes: &[u8]) {
        if let Mode::Recording(recorder) = &mut *self.0.borrow_mut() {
            recorder.answer(place, what, address, bytes);
        }
    }

    /// Ends the record, if there is one.
    pub(crate) fn finish(&self, end: Time) -> io::Result<Option<RecordSize>> {
        match std::mem::take(&mut *self.0.borrow_mut()) {
            Mode::Recording(recorder) => recorder.finish(end).map(Some),
            _ => Ok(None),
        }
    }

    /// Queues an answer that memory must repeat.
    pub(crate) fn expect(&self, answer: Answer) {
        if let Mode::Replaying(replaying) = &mut *self.0.borrow_mut() {
            replaying.answers.push_back(answer);
        }
    }

    /// Returns the recorded answer of memory to this request for bytes; `None` if memory could not answer. `done` is
    /// the answer with bytes, `failed` the answer without. `awaited` is set if the answer was not known yet.
    pub(crate) fn answered(
        &self,
        place: u16,
        [done, failed]: [Answered; 2],
        address: u64,
        to: &mut [u8],
        awaited: &Cell<bool>,
    ) -> bool {
        let Mode::Replaying(replaying) = &mut *self.0.borrow_mut() else { return false };
        if replaying.differs.is_some() {
            return false;
        }
        match replaying.answers.pop_front() {
            Some(a)
                if a.what == done
                    && (a.place, a.address) == (place, address)
                    && a.bytes.len() == to.len() =>
            {
                to.copy_from_slice(&a.bytes);
                true
            }
            Some(a) if a.what == failed && (a.place, a.address) == (place, address) => false,
            Some(a) if a.what == Answered::Awaited && (a.place, a.address) == (place, address) => {
                awaited.set(true);
                false
            }
            other => {
                let asked = format!("{} bytes at {address:#x} of place {place} are requested", to.len());
                replaying.differs = Some(match other {
                    Some(a) => format!("{asked}, but the record has {}", told(&a)),
                    None => format!("{asked}, but the record has no answer of memory"),
                });
                false
            }
        }
    }

    /// True if a write failed in the record.
    pub(crate) fn write_failed(&self, place: u16, address: u64) -> bool {
        let Mode::Replaying(replaying) = &mut *self.0.borrow_mut() else { return false };
        let next = replaying.answers.front();
        let failed =
            next.is_some_and(|a| a.what == Answered::WriteFailed && (a.place, a.address) == (place, address));
        if failed {
            replaying.answers.pop_front();
        }
        failed
    }

    /// Describes how the replay differs from the recorded run. Called when all answers so far should have been used.
    pub(crate) fn difference(&self) -> Option<String> {
        let Mode::Replaying(replaying) = &*self.0.borrow() else { return None };
        let left = replaying.answers.front();
        let left = left.map(|a| format!("the record has {}, which this run did not request", told(a)));
        replaying.differs.clone().or(left)
    }
}

fn told(a: &Answer) -> String {
    let what = match a.what {
        Answered::Read => "bytes read",
        Answered::ReadFailed => "a read that failed",
        Answered::WriteFailed => "a write that failed",
        Answered::Atomic => "the value before an AtomicOp",
        Answered::AtomicFailed => "an AtomicOp that failed",
        Answered::Awaited => "bytes that another program must provide",
    };
    format!("{what}, {} bytes at {:#x} of place {}", a.bytes.len(), a.address, a.place)
}
