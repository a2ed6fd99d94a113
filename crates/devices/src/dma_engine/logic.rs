// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user logic of engines: the sink of data that were read, and the source of data to write. User logic does not see
//! addresses.

use super::Stream;
use super::registers::LogicKind;
use crate::queue::wake;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// User logic of one engine, from its ENABLE on.
pub trait Logic {
    /// Accepts data in order. Returns false if the data are wrong.
    fn take(&mut self, data: &[u8]) -> bool;

    /// Produces the next bytes.
    fn give(&mut self, bytes: &mut [u8]);

    /// Skips bytes of a failed descriptor, which never arrive or are not needed.
    fn skip(&mut self, bytes: u64);
}

/// Integers that count up without a gap (ReConFig'15, §IV-E).
struct Integers(Stream);

impl Logic for Integers {
    fn take(&mut self, data: &[u8]) -> bool {
        self.0.check(data)
    }

    fn give(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn skip(&mut self, bytes: u64) {
        self.0.skip(bytes);
    }
}

/// Size of the FIFO of a loop-back in bytes.
pub(super) const FIFO_BYTES: usize = 64 << 10;

/// Bytes in transit from an H2D engine to the D2H engine with the same index. One task puts them in, and one task takes
/// them out.
#[derive(Default)]
pub(super) struct Fifo {
    bytes: RefCell<VecDeque<u8>>,
    putter: RefCell<Option<Waker>>,
    taker: RefCell<Option<Waker>>,
}

impl Fifo {
    /// Puts all data into the FIFO; waits for room.
    pub(super) async fn put(&self, mut data: &[u8]) {
        poll_fn(|cx| {
            let room = FIFO_BYTES - self.bytes.borrow().len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.bytes.borrow_mut().extend(now);
            data = later;
            if !now.is_empty() {
                wake(&self.taker);
            }
            if data.is_empty() {
                return Poll::Ready(());
            }
            *self.putter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until there are at least `bytes` bytes; at most the FIFO's size.
    pub(super) async fn wait(&self, bytes: usize) {
        poll_fn(|cx| {
            if self.bytes.borrow().len() >= bytes {
                return Poll::Ready(());
            }
            *self.taker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Takes available bytes.
    pub(super) fn take(&self, to: &mut [u8]) {
        let mut bytes = self.bytes.borrow_mut();
        let taken = to.len().min(bytes.len());
        to.iter_mut().zip(bytes.drain(..taken)).for_each(|(to, byte)| *to = byte);
        drop(bytes);
        wake(&self.putter);
    }

    /// Drops all bytes.
    pub(super) fn clear(&self) {
        self.bytes.borrow_mut().clear();
        wake(&self.putter);
    }
}

/// Creates the logic of an engine, from function, engine, CONTROL.LOGIC and SEED. `None` for the built-in logic.
pub type MakeLogic = Rc<dyn Fn(u16, u16, LogicKind, u64) -> Option<Box<dyn Logic>>>;

/// User logic of an engine.
pub(super) enum LogicState {
    /// Accepts all data, and produces zeros.
    Plain,
    Logic(Box<dyn Logic>),
    /// The other end is another engine.
    Fifo(Rc<Fifo>),
}

impl LogicState {
    pub(super) fn of(kind: LogicKind, seed: u64, fifo: &Rc<Fifo>) -> LogicState {
        match kind {
            LogicKind::Integers => LogicState::Logic(Box::new(Integers(Stream::new(seed)))),
            LogicKind::Plain => LogicState::Plain,
            LogicKind::LoopBack => LogicState::Fifo(Rc::clone(fifo)),
        }
    }

    pub(super) fn skip(&mut self, bytes: u64) {
        if let LogicState::Logic(logic) = self {
            logic.skip(bytes);
        }
    }
}
