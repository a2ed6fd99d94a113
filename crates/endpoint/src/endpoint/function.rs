// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device of an endpoint's function, and its outstanding transfers by class. A transfer of one class never waits
//! for a transfer of another.

use super::absent::Absent;
use super::outbox::{MAX_PARKED, Outbox};
use super::reads::{Done, ReadEngine};
use crate::front::answers::Answer;
use crate::front::errors::LoggedTlp;
use crate::front::settings::FunctionSettings;
use crate::front::tag_pool::TagPool;
use crate::front::{Function, FunctionBackend, MAX_REFUSED_PER_POLL, Shared, earlier, memory_write};
use device::seam::{
    Device, DmaAtomic, DmaError, DmaOptions, DmaRead, DmaWrite, Input, Output, Ready, ResetKind,
};
use tlp::message::MessageCodes;
use tlp::split::request_piece;
use tlp::{AtomicRequest, Body, Class, Data, MemoryOp, Mps, Mrrs, Span, Tag, TcSet, Time, Tlp, TrafficClass};

/// A posted output that the device has handed over.
pub(super) enum Posted {
    Write(WriteCursor),
    /// A message, or the write of an interrupt.
    Tlp(Tlp),
}

/// Decision about a write from the device.
enum Begun {
    /// The write fits one TLP, which may be sent now.
    Whole(Span),
    /// The write is split, starting now or after earlier entries.
    Split { at_once: bool },
    /// The write is refused or dropped, and no TLP is sent.
    Refused,
}

/// A completion that the device has handed over.
pub(super) enum Answering {
    Data(Answer),
    /// A completion without data.
    Tlp(Tlp),
}

/// A DMA write that is being split.
pub(super) struct WriteCursor {
    address: u64,
    data: Data,
    sent: u32,
    options: DmaOptions,
}

/// A device and its outstanding transfers.
pub(crate) struct Work {
    pub(super) device: Box<dyn Device>,
    /// The device is new, and has not been given its notifier.
    pub(super) wants_notifier: bool,
    /// The sizes last passed to the device; `None` for a new device.
    told: Option<(Mps, Mrrs)>,
    told_bus_master: Option<bool>,
    pub(super) reads: ReadEngine,
    pub(super) posted: Outbox<Posted>,
    /// Another class was polled while posted TLPs waited that it may not pass. That class has to be polled again.
    pub(super) held_by_posted: bool,
    pub(super) answers: Outbox<Answering>,
}

impl FunctionBackend for Work {
    type Device = Box<dyn Device>;

    fn new(device: Option<Box<dyn Device>>) -> Work {
        Work {
            device: device.unwrap_or_else(|| Box::new(Absent)),
            wants_notifier: true,
            told: None,
            told_bus_master: None,
            reads: ReadEngine::new(),
            posted: Outbox::new(MAX_PARKED),
            held_by_posted: false,
            // Bounded by the number of requests whose last completion has not been sent.
            answers: Outbox::new(usize::MAX),
        }
    }

    fn replace(&mut self, device: Option<Box<dyn Device>>) {
        self.device = device.unwrap_or_else(|| Box::new(Absent));
        (self.wants_notifier, self.told) = (true, None);
    }

    fn set_vectors(&mut self, vectors: u16) {
        self.device.set_vectors(vectors);
    }

    fn messages(&self) -> MessageCodes {
        self.device.messages()
    }

    fn is_pending(&self) -> bool {
        self.reads.is_pending()
    }

    fn holds_tags(&self) -> bool {
        self.reads.tags.in_use() > 0
    }

    fn oldest_posted(&self, tc: TrafficClass) -> Option<u64> {
        self.posted.oldest(tc)
    }

    fn hold(&mut self) {
        self.held_by_posted = true;
    }

    fn park(&mut self, stamp: u64, tlp: Tlp) {
        self.posted.accept(stamp, tlp.repr.tc, Posted::Tlp(tlp), false);
    }

    fn follow(&mut self, settings: &FunctionSettings) {
        settings.give_tags(&mut self.reads.tags);
        let FunctionSettings { mps, mrrs, bus_master, .. } = *settings;
        if self.told.replace((mps, mrrs)) != Some((mps, mrrs)) {
            self.device.set_sizes(mps, mrrs);
        }
        if self.told_bus_master.replace(bus_master) != Some(bus_master) {
            self.device.set_bus_master(bus_master);
        }
    }

    fn return_tags(&mut self, pool: &mut TagPool) {
        pool.reclaim(&mut self.reads.tags);
    }

    fn reset(&mut self, now: Time, kind: ResetKind, until: Time, shared: &mut Shared) {
        self.posted.clear(|_| {});
        if std::mem::take(&mut self.held_by_posted) {
            shared.wake_at(now);
        }
        self.answers.clear(|tc| {
            shared.requests.answered(tc);
        });
        self.reads.void_all(until);
        self.device.handle(now, Input::Reset(kind));
    }

    fn link_down(&mut self, now: Time, shared: &mut Shared) {
        for done in self.reads.fail_all(DmaError::LinkDown) {
            self.done(now, shared, done);
        }
    }
}

impl Work {
    /// Reports the end of one of its reads or AtomicOps to the device.
    pub(super) fn done(&mut self, now: Time, shared: &mut Shared, (id, result): Done) {
        match result {
            Ok(_) => shared.counters.dma_reads_done += 1,
            Err(_) => shared.counters.dma_reads_failed += 1,
        }
        self.device.handle(now, Input::DmaDone { id, result });
    }
}

impl Function<Work> {
    /// Returns the polls that may return an output.
    pub(super) fn ready(&self, several_channels: bool) -> Ready {
        self.polls(self.behind.device.ready(), several_channels)
    }

    /// Returns the answers of [`ready`](Self::ready) and [`poll_timeout`](Self::poll_timeout).
    #[inline(always)]
    pub(super) fn status(&self, several_channels: bool) -> (Ready, Option<Time>) {
        let (ready, timeout) = self.behind.device.status();
        (self.polls(ready, several_channels), self.next_call(timeout))
    }

    /// Returns the polls that may return an output if the device is `ready`. Leaves out outputs that the endpoint does not
    /// take from the device now: with one channel, all outputs while posted TLPs wait; reads without a free tag. Whether
    /// the pool has a tag is checked elsewhere.
    #[inline(always)]
    fn polls(&self, mut ready: Ready, several_channels: bool) -> Ready {
        const READS: Ready = Ready::output(Class::NonPosted);
        let Work { posted, reads, answers, .. } = &self.behind;
        if !posted.is_empty() && !several_channels {
            ready = ready.without(Ready::OUTPUTS);
        } else if ready.contains(READS) && !self.may_have_tag() {
            ready = ready.without(READS);
        }
        ready
            .or(Ready::when(!posted.is_empty() || self.may_interrupt_late(), Ready::output(Class::Posted)))
            .or(Ready::when(!reads.outbox.is_empty(), READS))
            .or(Ready::when(!answers.is_empty(), Ready::output(Class::Completion)))
    }

    /// Returns whether a read of the device may be taken, for all that is known without the pool. A function that may not
    /// send takes it, and refuses it.
    fn may_have_tag(&self) -> bool {
        let FunctionSettings { bus_master, pooled, .. } = self.settings;
        !bus_master || pooled || self.behind.reads.tags.has_free()
    }

    /// True while posted TLPs wait.
    pub(super) fn holds_posted(&self) -> bool {
        !self.behind.posted.is_empty()
    }

    // ---- posted ----

    // One function per class, so that no class pays for the registers of the others.
    #[inline(never)]
    pub(crate) fn poll_posted(&mut self, now: Time, shared: &mut Shared, room: TcSet) -> Option<Tlp> {
        let mut refused = 0;
        while refused < MAX_REFUSED_PER_POLL {
            let idle = self.behind.posted.is_empty() && !self.settings.may_unmask;
            if !idle && self.behind.posted.select(room, |_, _| true) {
                if let Some(tlp) = self.next_posted(now, shared) {
                    return Some(tlp);
                }
                refused += 1;
                continue;
            }
            if !idle && let Some(tlp) = self.late_interrupt(shared, room) {
                return Some(tlp);
            }
            if !idle && !self.behind.posted.has_room() {
                return None;
            }
            match self.behind.device.poll_output(now, Class::Posted) {
                // The `Option` is matched directly: unpacking it first would move the output twice.
                Some(Output::Write(write)) => match self.begin_write(shared, &write, room) {
                    Begun::Whole(span) => {
                        let id = self.id(shared);
                        let DmaWrite { data, options, .. } = write;
                        let attr = options.attr & self.settings.attributes;
                        return Some(memory_write(id, span, data, attr, options));
                    }
                    Begun::Split { at_once } => {
                        self.split_write(shared, write, at_once);
                        if at_once && let Some(tlp) = self.next_posted(now, shared) {
                            return Some(tlp);
                        }
                    }
                    Begun::Refused => refused += 1,
                },
                None => return None,
                Some(other) => match self.begin_other(now, shared, other) {
                    Some(tlp) if self.goes_at_once(tlp.repr.tc, room) => return Some(tlp),
                    Some(tlp) => self.behind.park(shared.stamp(), tlp),
                    // The device's next output may not pass the message of an interrupt pin, which the endpoint sends at the next
                    // poll.
                    None if shared.own.pins.is_due() => return None,
                    None => refused += 1,
                },
            }
        }
        shared.pause(now);
        None
    }

    /// Begins an output other than a write. Returns `None` if there is no TLP to send.
    fn begin_other(&mut self, now: Time, shared: &mut Shared, output: Output) -> Option<Tlp> {
        match output {
            Output::Interrupt { vector } => self.interrupt(shared, vector),
            Output::Message(message) => self.message(shared, message),
            Output::Pme => self.pme(shared),
            Output::Intx { asserted } => {
                self.set_intx(now, shared, asserted);
                None
            }
            _ => shared.bad_output(),
        }
    }

    /// Decides whether a write is sent as one TLP, split or refused.
    fn begin_write(&mut self, shared: &mut Shared, write: &DmaWrite, room: TcSet) -> Begun {
        let len = write.data.len();
        let Some(last) = (len as u64).checked_sub(1) else { return Begun::Refused };
        if write.address.checked_add(last).is_none() {
            shared.counters.bad_outputs += 1;
            return Begun::Refused;
        }
        if !self.settings.bus_master {
            self.block_write(shared, write.address, len as u32);
            return Begun::Refused;
        }
        shared.counters.dma_writes += 1;
        let at_once = self.goes_at_once(write.options.tc, room);
        let piece = request_piece(write.address, len as u32, self.settings.mps.bytes());
        match Span::covering(write.address, piece) {
            Ok(span) if at_once && piece as usize == len => Begun::Whole(span),
            _ => Begun::Split { at_once },
        }
    }

    #[cold]
    fn block_write(&self, shared: &mut Shared, address: u64, len: u32) {
        let limit = self.settings.mps.bytes();
        self.blocked(shared, self.first_request(shared, MemoryOp::Write, (address, len), limit));
    }

    fn split_write(&mut self, shared: &mut Shared, write: DmaWrite, at_once: bool) {
        let DmaWrite { address, data, mut options, .. } = write;
        options.attr &= self.settings.attributes;
        let tc = options.tc;
        let cursor = WriteCursor { address, data, sent: 0, options };
        self.behind.posted.accept(shared.stamp(), tc, Posted::Write(cursor), at_once);
    }

    /// Returns the next TLP of the selected entry.
    fn next_posted(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        if matches!(self.behind.posted.current(), Some(Posted::Write(_))) {
            return self.next_write(now, shared);
        }
        match self.end_posted(now, shared)? {
            Posted::Tlp(tlp) => Some(tlp),
            Posted::Write(_) => None,
        }
    }

    fn next_write(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        if !self.settings.bus_master {
            if let Some(Posted::Write(cursor)) = self.end_posted(now, shared) {
                self.block_write(shared, cursor.address, cursor.data.len() as u32 - cursor.sent);
            }
            return None;
        }
        let requester = self.id(shared);
        let Posted::Write(cursor) = self.behind.posted.current()? else { return None };
        let remaining = cursor.data.len() as u32 - cursor.sent;
        let piece = request_piece(cursor.address, remaining, self.settings.mps.bytes());
        let span = Span::covering(cursor.address, piece).ok()?;
        let data = cursor.data.slice(cursor.sent as usize, piece as usize);
        let options = cursor.options.clone();
        let tlp = memory_write(requester, span, data, options.attr, options);
        cursor.address = cursor.address.wrapping_add(u64::from(piece));
        cursor.sent += piece;
        if piece == remaining {
            self.end_posted(now, shared);
        }
        Some(tlp)
    }

    fn end_posted(&mut self, now: Time, shared: &mut Shared) -> Option<Posted> {
        if std::mem::take(&mut self.behind.held_by_posted) {
            shared.wake_at(now);
        }
        self.behind.posted.finish()
    }

    // ---- non-posted ----

    #[inline(never)]
    pub(crate) fn poll_non_posted(&mut self, now: Time, shared: &mut Shared, room: TcSet) -> Option<Tlp> {
        let mut refused = 0;
        while refused < MAX_REFUSED_PER_POLL {
            let Work { reads, posted, held_by_posted, .. } = &mut self.behind;
            if reads.outbox.select_behind(room, posted, held_by_posted) {
                if !self.settings.bus_master {
                    self.stop_sending(now, shared);
                    refused += 1;
                    continue;
                }
                let id = self.id(shared);
                return self.behind.reads.next_request(now, id, &self.settings);
            }
            if self.waits_for_posted(shared) || !self.behind.reads.outbox.has_room() {
                return None;
            }
            if self.settings.bus_master && !self.behind.reads.tags.has_free() {
                return None;
            }
            match self.behind.device.poll_output(now, Class::NonPosted) {
                Some(Output::Read(read)) => {
                    let at_once = self.may_read(now, shared, &read, room);
                    if at_once == Some(true) && self.behind.reads.outbox.is_empty() {
                        let (id, stamp) = (self.id(shared), shared.stamp());
                        return self.behind.reads.begin_now(now, id, read, &self.settings, stamp);
                    }
                    match at_once {
                        Some(at_once) => {
                            self.behind.reads.begin(read, &self.settings, shared.stamp(), at_once)
                        }
                        None => refused += 1,
                    }
                }
                Some(Output::Atomic(atomic)) => {
                    refused += u32::from(!self.begin_atomic(now, shared, atomic, room));
                }
                None => return None,
                Some(_) => {
                    shared.counters.bad_outputs += 1;
                    refused += 1;
                }
            }
        }
        shared.pause(now);
        None
    }

    /// Returns whether new requests have to wait for posted TLPs. A request that the device issues after a write may
    /// not pass it (`PCIe 5.0 §2.4.1`, entries B2a and D2a), and only the device knows their order. With one channel,
    /// no new output is taken while a write is being split. With several channels, the endpoint takes all outputs. Each
    /// output waits for the posted TLPs of the same Traffic Class.
    pub(super) fn waits_for_posted(&mut self, shared: &Shared) -> bool {
        if self.behind.posted.is_empty() {
            return false;
        }
        self.behind.held_by_posted = true;
        !shared.several_channels
    }

    /// Returns whether the last accepted entry may be sent immediately.
    pub(super) fn goes_at_once(&self, tc: TrafficClass, room: TcSet) -> bool {
        room.contains(tc) && !self.behind.posted.holds(tc)
    }

    /// Returns whether a read may be sent immediately; `None` if it is refused.
    fn may_read(&mut self, now: Time, shared: &mut Shared, read: &DmaRead, room: TcSet) -> Option<bool> {
        shared.counters.dma_reads += 1;
        let end = u64::from(read.len.saturating_sub(1)).checked_add(read.address);
        let error = if read.len > shared.limits.max_dma_len || end.is_none() {
            DmaError::TooLong
        } else if !self.settings.bus_master {
            let limit = self.settings.mrrs.bytes();
            let first = self.first_request(shared, MemoryOp::Read, (read.address, read.len), limit);
            self.blocked(shared, first);
            self.settings.not_bus_master()
        } else {
            let tc = read.options.tc;
            return Some(self.goes_at_once(tc, room) && !self.behind.reads.outbox.holds(tc));
        };
        self.refuse_read(now, shared, (read.id, Err(error)));
        None
    }

    /// Takes an AtomicOp; returns false if it is refused.
    fn begin_atomic(&mut self, now: Time, shared: &mut Shared, atomic: DmaAtomic, room: TcSet) -> bool {
        shared.counters.dma_atomics += 1;
        let (id, len) = (atomic.id, atomic.operands.len() as u32);
        let operand = if len.is_multiple_of(4) { atomic.op.operand_of_length(len / 4) } else { None };
        let operand = operand.filter(|o| atomic.address.is_multiple_of(u64::from(o.bytes())));
        let error = match operand {
            _ if !self.settings.bus_master => self.settings.not_bus_master(),
            _ if !self.settings.atomic_requester => DmaError::AtomicsDisabled,
            None => DmaError::BadAtomic,
            Some(operand) => {
                let tc = atomic.options.tc;
                let at_once = self.goes_at_once(tc, room) && !self.behind.reads.outbox.holds(tc);
                let stamp = shared.stamp();
                self.behind.reads.begin_atomic(atomic, operand, &self.settings, stamp, at_once);
                return true;
            }
        };
        if !self.settings.bus_master {
            let (requester, tag, op, address) = (self.id(shared), Tag::default(), atomic.op, atomic.address);
            let request =
                operand.map(|operand| Body::Atomic(AtomicRequest { op, operand, requester, tag, address }));
            self.blocked(shared, request);
        }
        self.refuse_read(now, shared, (id, Err(error)));
        false
    }

    fn stop_sending(&mut self, now: Time, shared: &mut Shared) {
        self.blocked(shared, None);
        if let Some(done) = self.behind.reads.stop_sending(self.settings.not_bus_master()) {
            self.refuse_read(now, shared, done);
        }
    }

    /// Refuses a read. The device receives the result during its own poll, so the other classes have to be polled again.
    fn refuse_read(&mut self, now: Time, shared: &mut Shared, done: Done) {
        shared.wake_after_refusal(now);
        self.behind.done(now, shared, done);
    }

    // ---- time and reset ----

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.next_call(self.behind.device.poll_timeout())
    }

    /// Returns the earlier of the device's `timeout` and the next deadline of a tag.
    fn next_call(&self, timeout: Option<Time>) -> Option<Time> {
        earlier(timeout, self.behind.reads.tags.next_deadline())
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, shared: &mut Shared) {
        let quarantine = self.quarantine(shared);
        while let Some(expired) = self.behind.reads.expire(now, quarantine) {
            if expired.timed_out {
                let id = self.id(shared);
                let request = expired.request.map(|(sent, tag)| LoggedTlp::of_header(&sent.repr(id, tag)));
                self.timed_out(shared, request.unwrap_or_default());
            }
            if let Some(done) = expired.done {
                self.behind.done(now, shared, done);
            }
        }
        self.return_tags(shared);
        if self.behind.device.poll_timeout().is_some_and(|t| t <= now) {
            self.behind.device.handle(now, Input::Timer);
        }
    }

    /// Describes in one line why the function waits.
    pub(crate) fn waits_for(&self, shared: &Shared) -> Option<String> {
        let tags = &self.behind.reads.tags;
        let (untaken, unanswered) = shared.requests.waiting(self.number);
        let parts = [
            (tags.in_use() > 0).then(|| self.tag_report(shared)),
            (untaken > 0).then(|| format!("{untaken} requests not taken by the device")),
            (unanswered > 0).then(|| format!("{unanswered} requests not answered by the device")),
            (!self.settings.bus_master).then(|| "Bus Master Enable is clear".to_string()),
            self.behind.device.waits_for(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn tag_report(&self, shared: &Shared) -> String {
        let tags = &self.behind.reads.tags;
        let (reads, used, (_, all)) = (self.behind.reads.under_way(), tags.in_use(), self.settings.tags);
        let quarantined = match tags.resting() {
            0 => String::new(),
            n => format!(", {n} quarantined"),
        };
        let pool = shared.tags.as_ref();
        let has_free = pool.map_or(tags.has_free(), |pool| pool.offer(self.settings.tags).is_some());
        let what = if has_free { "completions" } else { "tags" };
        let pool = pool.map_or(String::new(), |pool| format!(", {} of all functions", pool.in_use()));
        format!("{reads} DMA reads wait for {what} ({used} of {all} tags in use{pool}{quarantined})")
    }
}
