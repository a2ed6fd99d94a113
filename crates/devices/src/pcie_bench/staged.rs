// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card whose transfers go through stages that take time: see [`CardCosts`]. There is no allocation per transfer.

use super::costs::{CardCosts, FrameTime};
use super::settings::{BenchSettings, CardPath};
use super::slots::Slots;
use super::{Card, Phase, Test};
use device::io::{DmaOptions, DmaReadFuture};
use device::{DmaError, Io};
use exec::Sleep;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use tlp::{Data, Duration, Time};

/// Maximum number of read requests per transfer: 4096 B in 512 B each, plus one for an unaligned start.
const MAX_REQUESTS: usize = 9;
/// Bytes of a window of the command interface to the host.
const CHUNK_BYTES: u64 = 4 << 20;
/// Units start at a cache line, and writes are split at multiples of up to 256 B: the split depends on the line among four.
const LINES: u64 = 4;

/// The stages, shared by all transfers.
pub(super) struct Stages {
    costs: CardCosts,
    path: CardPath,
    size: u32,
    mps: u32,
    carry: bool,
    loop_time: Duration,
    pull_time: Duration,
    /// By the number of requests after the first, up to one.
    push_times: [Duration; 2],
    push_latency: Duration,
    /// By the line in which a write starts.
    frame_times: [FrameTime; LINES as usize],
    /// Time at which each stage is free for the next transfer.
    pull_free: Cell<Time>,
    frame_free: Cell<Time>,
    /// Held by the write whose TLPs the framer sends, so that those of another never come between them.
    framer: Slots,
    push_free: Cell<Time>,
    slots: Slots,
    /// Room for transfers that wait for their push with both ends within words.
    buffer: Slots,
    /// When the room of pushed ones is free.
    buffer_free: RefCell<VecDeque<Time>>,
    random: RefCell<Xoshiro256StarStar>,
}

impl Stages {
    /// Creates the stages of a card with checked `settings`; all are free.
    pub(super) fn new(settings: &BenchSettings, window: u64) -> Stages {
        let (size, mps) = (settings.size_bytes, settings.max_payload_bytes);
        let read = settings.costs.read.within(settings.max_read_request_bytes);
        let costs = CardCosts { read, ..settings.costs };
        let offset = settings.device_offset_bytes;
        let frame = |line: u64| {
            let begin = (window & !255) + line * 64 + u64::from(settings.host_offset_bytes);
            costs.write.frame_time(begin, size, mps, settings.digests)
        };
        Stages {
            costs,
            path: settings.path,
            size,
            mps,
            carry: settings.carry,
            loop_time: match (settings.path, settings.test) {
                (CardPath::Command, Test::LatWrRd) => {
                    costs.loop_time + costs.loop_written_byte * u64::from(size)
                }
                _ => costs.loop_time,
            },
            pull_time: costs.write.pull_time(size, offset),
            push_times: [1, 2].map(|requests| {
                let at = (u64::from(settings.host_offset_bytes), offset);
                costs.read.push_time(size, at, costs.write.burst_bytes, requests)
            }),
            push_latency: costs.read.push_latency(size, offset, costs.write.burst_bytes),
            frame_times: std::array::from_fn(|line| frame(line as u64)),
            pull_free: Cell::new(Time::ZERO),
            frame_free: Cell::new(Time::ZERO),
            framer: Slots::new(u16::from(costs.write.beat > Duration::ZERO)),
            push_free: Cell::new(Time::ZERO),
            slots: Slots::new(costs.read.slots),
            buffer: Slots::new(costs.read.buffered(size, offset)),
            buffer_free: RefCell::default(),
            random: RefCell::new(Xoshiro256StarStar::seed_from_u64(settings.seed)),
        }
    }

    /// Frees the room of a transfer in the buffer at `time`.
    fn free_buffer(&self, time: Time) {
        if self.buffer.is_limited() {
            self.buffer_free.borrow_mut().push_back(time);
            self.buffer.give(1);
        }
    }

    /// Returns the time of the framer for a write to `address`.
    fn frame_time(&self, address: u64) -> FrameTime {
        self.frame_times[(address / 64 % LINES) as usize]
    }

    /// Returns the pause of a latency test between two transfers. It varies, so that transfers do not synchronize with the ticks
    /// of the card's clock.
    fn pause(&self) -> Duration {
        let spread = u128::from(self.costs.loop_spread.as_ps());
        let part = (spread * u128::from(self.random.borrow_mut().next_u32())) >> 32;
        self.loop_time + Duration::from_ps(part as u64)
    }
}

/// Returns a sleep until `time`; `None` if it has passed.
fn until(io: &Io, time: Time) -> Option<Sleep> {
    (time > io.now()).then(|| io.sleep_until(time))
}

/// Reserves `time` at a stage that is free at `free`, not before `from`; returns the start.
fn turn(free: &Cell<Time>, from: Time, time: Duration) -> Time {
    let start = free.get().max(from);
    free.set(start + time);
    start
}

/// A worker: performs transfers until the last measured one has ended.
pub(super) async fn work(card: Rc<Card>, stages: Rc<Stages>) {
    let paced = card.settings.test.is_latency() && stages.costs.loop_time > Duration::ZERO;
    let mut chunk = None;
    while card.results.get().phase < Phase::Done {
        let (address, (writes, reads)) = card.next();
        if stages.path == CardPath::Command
            && chunk.replace(address / CHUNK_BYTES) != Some(address / CHUNK_BYTES)
            && let Some(change) = until(&card.io, card.io.now() + stages.costs.command_chunk)
        {
            change.await;
        }
        let start = card.io.now();
        let result = match stages.path {
            CardPath::Command => command(&card, &stages, address, writes, reads).await,
            CardPath::Dma => {
                let mut result = Ok(());
                if writes {
                    result = dma_write(&card, &stages, address).await;
                }
                if reads && result.is_ok() {
                    result = dma_read(&card.io, &stages, address).await;
                }
                result
            }
        };
        match result {
            Ok(()) => card.end(start, writes, reads),
            Err(error) => card.results.change(|r| r.fail(card.io.now(), error)),
        }
        if paced {
            card.io.sleep(stages.pause()).await;
        }
    }
}

/// Performs a transfer by the command interface. A read directly follows the write.
async fn command(
    card: &Card,
    stages: &Stages,
    address: u64,
    writes: bool,
    reads: bool,
) -> Result<(), DmaError> {
    let (io, costs) = (&card.io, &stages.costs);
    if let Some(issue) = until(io, io.now() + costs.command_issue) {
        issue.await;
    }
    if writes {
        io.dma_write(address, card.data.clone()).await?;
    }
    if reads {
        card.dma_read(address).await?;
    }
    let words = costs.command_word * u64::from(stages.size.div_ceil(8));
    if let Some(done) = until(io, io.now() + costs.command_done + words) {
        done.await;
    }
    Ok(())
}

/// Performs a write by the DMA interface. The write ends after its last chunk has gone to the wire and the worker has
/// received the notice.
async fn dma_write(card: &Card, stages: &Stages, address: u64) -> Result<(), DmaError> {
    let (io, costs) = (&card.io, &stages.costs);
    let begin = io.now() + costs.dma_issue;
    let frame = stages.frame_time(address);
    let pulled = turn(&stages.pull_free, begin, stages.pull_time) + stages.pull_time;
    if let Some(pull) = until(io, pulled) {
        pull.await;
    }
    if stages.framer.is_limited() {
        stages.framer.take(1).await;
    }
    let start = turn(&stages.frame_free, io.now(), frame.all);
    if let Some(framer) = until(io, start) {
        framer.await;
    }
    let sent = send_write(card, stages, address).await;
    stages.framer.give(1);
    sent?;
    let out = (start + frame.before_last).max(io.now());
    if let Some(done) = until(io, out + costs.dma_done) {
        done.await;
    }
    Ok(())
}

/// Sends the TLPs of a write, one after another.
async fn send_write(card: &Card, stages: &Stages, address: u64) -> Result<(), DmaError> {
    let mut at = 0;
    while at < stages.size {
        let to = address + u64::from(at);
        let bytes = stages.costs.write.tlp_bytes(to, stages.size - at, stages.mps);
        card.io.dma_write(to, card.data.slice(at as usize, bytes as usize)).await?;
        at += bytes.max(1);
    }
    Ok(())
}

/// Performs a read by the DMA interface.
async fn dma_read(io: &Io, stages: &Stages, address: u64) -> Result<(), DmaError> {
    let costs = &stages.costs;
    if let Some(issue) = until(io, io.now() + costs.dma_issue) {
        issue.await;
    }
    let requests = costs.read.requests(address, stages.size);
    stages.slots.take(requests).await;
    if stages.buffer.is_limited() {
        take_room(io, stages).await;
    }
    // Read requests are short and go between the chunks of writes. So writes wait for read requests, but read requests
    // do not wait for writes.
    turn(&stages.frame_free, io.now(), costs.read.frame * u64::from(requests));
    let result = read_and_push(io, stages, address, requests).await;
    if result.is_err() {
        stages.free_buffer(io.now());
    }
    stages.slots.give(requests);
    result
}

/// Takes room in the buffer, and waits until the transfer that had it has left it.
async fn take_room(io: &Io, stages: &Stages) {
    stages.buffer.take(1).await;
    let free = stages.buffer_free.borrow_mut().pop_front();
    if let Some(room) = free.and_then(|free| until(io, free)) {
        room.await;
    }
}

/// Performs the requests of a read, and waits until the worker has got the notice that its data are in the card's memory.
async fn read_and_push(io: &Io, stages: &Stages, address: u64, requests: u32) -> Result<(), DmaError> {
    let costs = &stages.costs;
    match requests {
        1 => _ = read_part(io, stages, address, 0, stages.size).await?,
        _ => read_parts(io, stages, address).await?,
    }
    let push_time = stages.push_times[usize::from(requests > 1)];
    let start = turn(&stages.push_free, io.now(), push_time);
    stages.free_buffer(start + push_time + costs.read.buffer_release);
    if let Some(done) = until(io, start + stages.push_latency + costs.dma_done) {
        done.await;
    }
    Ok(())
}

fn read_part(io: &Io, stages: &Stages, address: u64, at: u32, bytes: u32) -> DmaReadFuture<Data> {
    io.dma_read_data(address + u64::from(at), bytes, stages.carry, DmaOptions::default())
}

/// Performs all requests of a read with more than one.
async fn read_parts(io: &Io, stages: &Stages, address: u64) -> Result<(), DmaError> {
    let (size, most) = (stages.size, stages.costs.read.request_bytes);
    let before = (address % u64::from(most)) as u32;
    let mut parts: [Option<DmaReadFuture<Data>>; MAX_REQUESTS] = std::array::from_fn(|n| {
        let (at, end) = ((most * n as u32).saturating_sub(before), most * (n as u32 + 1) - before);
        (at < size).then(|| read_part(io, stages, address, at, end.min(size) - at))
    });
    let mut result = Ok(());
    poll_fn(|cx| {
        let mut open = false;
        for part in &mut parts {
            let Some(read) = part else { continue };
            match Pin::new(read).poll(cx) {
                Poll::Pending => open = true,
                Poll::Ready(ended) => {
                    *part = None;
                    result = result.and(ended.map(|_| ()));
                }
            }
        }
        if open { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    result
}
