// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tasks of an engine that move the data of descriptors.

use super::engine::{Descriptor, Ended, EngineRun};
use super::logic::LogicState;
use super::registers::ErrorCode;
use super::turns::TurnPermit;
use super::{Direction, WRITE_BYTES};
use crate::group::Group;
use device::Channel;
use device::io::DmaReadFuture;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::{Data, Time};

/// Maximum number of reads and ends of descriptors that wait for earlier ones.
const MAX_WAITING: usize = 1024;
/// Minimum size that a piece or a descriptor takes in an engine's buffer.
const LEAST_BYTES: u32 = 64;

/// A data read; it carries no bytes if the logic does not use them.
type Reading = DmaReadFuture<Data>;

/// A step of a descriptor in an H2D engine, in data order.
enum Step<T> {
    Begin(Descriptor),
    /// A piece of that descriptor, and its size in bytes.
    Piece(T, u32),
    End,
}

/// An outstanding read with its place in the window, and the time since which it has it.
type Begun = Step<(Reading, TurnPermit, Time)>;
/// Received data, or `None` if they could not be read.
type Arrived = Step<Option<Data>>;

/// Starts the tasks that move the data of `descriptors`.
pub(super) fn spawn(run: &Rc<EngineRun>, group: &Group, descriptors: Channel<Descriptor>) {
    let io = &run.function.io;
    let this = Rc::clone(run);
    if run.direction == Direction::D2h {
        io.spawn(group.member(async move { write_all(&this, &descriptors).await }));
        return;
    }
    let buffer_bytes = run.function.buffer_bytes();
    let (room, begun) = (Rc::new(Room::new(buffer_bytes)), Channel::new(MAX_WAITING));
    // All its items have room in the buffer, so sending never waits.
    let arrived = Channel::new(3 * (buffer_bytes / u64::from(LEAST_BYTES)) as usize);
    let (arriver, taker, given) = (Rc::clone(run), Rc::clone(run), Rc::clone(&room));
    let (to_arrive, to_take) = (begun.clone(), arrived.clone());
    io.spawn(group.member(async move { read_all(&this, &descriptors, &begun, &room).await }));
    io.spawn(group.member(async move { arrive_all(&arriver, &to_arrive, &arrived).await }));
    io.spawn(group.member(async move { take_all(&taker, &to_take, &given).await }));
}

/// Returns the error of a descriptor that does not start: its own error, or the error of its chain.
fn not_begun(run: &EngineRun, descriptor: &Descriptor) -> Option<ErrorCode> {
    let failed = run.chain_failed.get().then_some(ErrorCode::Aborted);
    // A descriptor that could not be fetched has no STATUS to write.
    descriptor.fault.filter(|fault| *fault == ErrorCode::Fetch).or(failed).or(descriptor.fault)
}

async fn end(run: &EngineRun, descriptor: &Descriptor, code: ErrorCode, moved: u64) {
    run.chain_failed.set(descriptor.more && code != ErrorCode::Ok);
    run.end(Ended { code, moved, interrupts: descriptor.interrupts }).await;
}

// ---- H2D ----

/// Room for data that were requested and that the logic has not taken yet.
struct Room {
    free: Cell<u64>,
    waiter: Cell<Option<Waker>>,
}

impl Room {
    fn new(bytes: u64) -> Room {
        Room { free: Cell::new(bytes), waiter: Cell::default() }
    }

    async fn take(&self, bytes: u32) {
        poll_fn(|cx| match self.free.get().checked_sub(bytes.into()) {
            Some(free) => {
                self.free.set(free);
                Poll::Ready(())
            }
            None => {
                self.waiter.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
    }

    fn give(&self, bytes: u32) {
        self.free.set(self.free.get() + u64::from(bytes));
        if let Some(waker) = self.waiter.take() {
            waker.wake();
        }
    }
}

/// Reads the data of one descriptor after another, as window and room allow.
async fn read_all(run: &EngineRun, descriptors: &Channel<Descriptor>, begun: &Channel<Begun>, room: &Room) {
    loop {
        let descriptor = descriptors.receive().await;
        room.take(LEAST_BYTES).await;
        begun.send(Step::Begin(descriptor)).await;
        if descriptor.fault.is_none() {
            for (address, len) in pieces(descriptor.address, descriptor.bytes, run.function.read_bytes()) {
                room.take(len.max(LEAST_BYTES)).await;
                let place = run.function.place_to_read(run.number, len).await;
                let since = run.function.io.now();
                let reading = read(run, address, len).begin().await;
                begun.send(Step::Piece((reading, place, since), len)).await;
            }
        }
        begun.send(Step::End).await;
    }
}

fn read(run: &EngineRun, address: u64, len: u32) -> Reading {
    let is_looked_at = !matches!(*run.behind.borrow(), LogicState::Plain);
    run.function.io.dma_read_data(address, len, is_looked_at, Default::default())
}

/// Puts data into the buffer in order, for any order of completions. Then frees their places in the window.
async fn arrive_all(run: &EngineRun, begun: &Channel<Begun>, arrived: &Channel<Arrived>) {
    loop {
        let step = match begun.receive().await {
            Step::Begin(descriptor) => Step::Begin(descriptor),
            Step::Piece((reading, place, since), len) => {
                let data = reading.await.ok();
                if data.is_some() {
                    run.function.arrived(since);
                }
                drop(place);
                Step::Piece(data, len)
            }
            Step::End => Step::End,
        };
        arrived.send(step).await;
    }
}

/// Passes the data of one descriptor after another to the logic.
async fn take_all(run: &EngineRun, arrived: &Channel<Arrived>, room: &Room) {
    loop {
        let Step::Begin(descriptor) = arrived.receive().await else { continue };
        let skipped = not_begun(run, &descriptor);
        let (mut code, mut moved) = (skipped.unwrap_or(ErrorCode::Ok), 0u64);
        while let Step::Piece(data, len) = arrived.receive().await {
            let is_whole = matches!(code, ErrorCode::Ok | ErrorCode::Data);
            match data {
                Some(data) if is_whole => {
                    moved += u64::from(len);
                    if !take(run, &data).await {
                        code = ErrorCode::Data;
                    }
                }
                _ if is_whole => code = ErrorCode::Read,
                _ => {}
            }
            room.give(len.max(LEAST_BYTES));
        }
        room.give(LEAST_BYTES);
        if descriptor.fault.is_none() {
            run.behind.borrow_mut().skip(descriptor.bytes - moved);
        }
        end(run, &descriptor, code, moved).await;
    }
}

/// Passes data to the logic; returns false if they are wrong.
async fn take(run: &EngineRun, data: &Data) -> bool {
    run.moved(data.len() as u64);
    // Data that the logic does not use are read without bytes.
    let Some(bytes) = data.bytes() else { return true };
    let fifo = match &mut *run.behind.borrow_mut() {
        LogicState::Logic(logic) => return logic.take(bytes),
        LogicState::Fifo(fifo) => Rc::clone(fifo),
        LogicState::Plain => return true,
    };
    fifo.put(bytes).await;
    true
}

// ---- D2H ----

async fn write_all(run: &EngineRun, descriptors: &Channel<Descriptor>) {
    loop {
        let descriptor = descriptors.receive().await;
        let (code, moved) = match not_begun(run, &descriptor) {
            Some(code) => (code, 0),
            None => write_one(run, &descriptor).await,
        };
        if descriptor.fault.is_none() {
            run.behind.borrow_mut().skip(descriptor.bytes - moved);
        }
        end(run, &descriptor, code, moved).await;
    }
}

async fn write_one(run: &EngineRun, descriptor: &Descriptor) -> (ErrorCode, u64) {
    let mut moved = 0;
    for (address, len) in write_pieces(descriptor.address, descriptor.bytes, run.function.io.mps().bytes()) {
        let fifo = match &*run.behind.borrow() {
            LogicState::Fifo(fifo) => Some(Rc::clone(fifo)),
            LogicState::Logic(_) | LogicState::Plain => None,
        };
        if let Some(fifo) = fifo {
            fifo.wait(len as usize).await;
        }
        let place = run.function.place_to_write(run.number, len).await;
        if !run.function.io.is_bus_master() {
            return (ErrorCode::Write, moved);
        }
        let data =
            run.function.io.payloads().fill(len as usize, |bytes| match &mut *run.behind.borrow_mut() {
                LogicState::Logic(logic) => logic.give(bytes),
                LogicState::Fifo(fifo) => fifo.take(bytes),
                LogicState::Plain => bytes.fill(0),
            });
        let written = run.function.io.dma_write(address, data).await;
        drop(place);
        if written.is_err() {
            return (ErrorCode::Write, moved);
        }
        moved += u64::from(len);
        run.moved(len.into());
    }
    (ErrorCode::Ok, moved)
}

/// Splits a transfer of `bytes` at `address` at multiples of `most`, a power of two. Returns address and size of each piece.
pub(super) fn pieces(address: u64, bytes: u64, most: u32) -> impl Iterator<Item = (u64, u32)> {
    let (mut at, mut left) = (address, bytes);
    std::iter::from_fn(move || {
        let start = at;
        let len = u64::from(most - (at as u32 & (most - 1))).min(left);
        (at, left) = (at.wrapping_add(len), left - len);
        (len > 0).then_some((start, len as u32))
    })
}

/// Splits a transfer to the host at multiples of [`WRITE_BYTES`], and before that at the first multiple of
/// Max_Payload_Size, so that all of its TLPs end at multiples of Max_Payload_Size.
pub(super) fn write_pieces(address: u64, bytes: u64, mps: u32) -> impl Iterator<Item = (u64, u32)> {
    let most = u64::from(mps.min(WRITE_BYTES));
    let head = ((most - address % most) % most).min(bytes);
    let rest = pieces(address.wrapping_add(head), bytes - head, WRITE_BYTES);
    (head > 0).then_some((address, head as u32)).into_iter().chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_transfers_at_address_multiples() {
        let pieces = |address, bytes| pieces(address, bytes, 512).collect::<Vec<_>>();
        assert_eq!(pieces(0x1000, 512), [(0x1000, 512)]);
        assert_eq!(pieces(0x11f8, 1024), [(0x11f8, 8), (0x1200, 512), (0x1400, 504)]);
        assert_eq!(pieces(0x1000, 0), []);
        assert_eq!(pieces(u64::MAX, 1), [(u64::MAX, 1)]);
    }

    #[test]
    fn writes_end_at_multiples_of_a_payload() {
        let pieces = |address, bytes, mps| write_pieces(address, bytes, mps).collect::<Vec<_>>();
        assert_eq!(pieces(0x1000, 1024, 256), [(0x1000, 512), (0x1200, 512)]);
        assert_eq!(pieces(0x100c, 800, 256), [(0x100c, 244), (0x1100, 256), (0x1200, 300)]);
        assert_eq!(pieces(0x100c, 800, 1024), [(0x100c, 500), (0x1200, 300)]);
        assert_eq!(pieces(0x10ff, 1, 128), [(0x10ff, 1)]);
        assert_eq!(pieces(0x1000, 0, 128), []);
    }
}
