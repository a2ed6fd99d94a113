// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One function of an endpoint: its configuration space, its device, and what it has under way, by class. A transfer
//! of one class never waits for one of another.

use super::answers::{Answer, without_data};
use super::msix::{Msix, Raised};
use super::reads::{Done, ReadEngine};
use super::requests::Question;
use super::settings::Settings;
use super::{Shared, earlier};
use crate::seam::{
    CompletionError, Device, DmaError, DmaRead, DmaWrite, Input, Output, Ready, ResetKind, Token,
};
use config::{ConfigSpace, ResetScope, Uncorrectable};
use tlp::split::request_piece;
use tlp::{
    Attributes, Bdf, Body, Class, Data, MemoryOp, MemoryRequest, Message, MessageRouting, Repr, Span, Status,
    Tag, Time, Tlp, TrafficClass,
};

/// Outputs refused in one poll; a device that goes on is asked again [`PAUSE`](super::PAUSE) later, so that time
/// passes and the run ends.
pub(super) const MAX_REFUSED_PER_POLL: u32 = 64;

/// A DMA write that is being split.
struct WriteCursor {
    address: u64,
    data: Data,
    sent: u32,
    attr: Attributes,
    tc: TrafficClass,
}

/// One function.
pub(crate) struct Function {
    pub(crate) number: u8,
    pub(crate) config: ConfigSpace,
    pub(crate) settings: Settings,
    pub(crate) device: Box<dyn Device>,
    pub(crate) reads: ReadEngine,
    pub(crate) msix: Option<Msix>,
    write: Option<WriteCursor>,
    /// Another class was polled while a write was split, and has to be polled again when it is done.
    held_by_write: bool,
    answer: Option<Answer>,
}

impl Function {
    pub(crate) fn new(number: u8, config: ConfigSpace, device: Box<dyn Device>, shared: &Shared) -> Function {
        let settings = Settings::read(&config, &shared.limits);
        let msix = config.msix_layout().map(Msix::new);
        let reads = ReadEngine::new();
        let mut function = Function {
            number,
            config,
            settings,
            device,
            reads,
            msix,
            write: None,
            held_by_write: false,
            answer: None,
        };
        function.refresh(shared);
        function
    }

    /// Reads the settings again.
    pub(crate) fn refresh(&mut self, shared: &Shared) {
        self.settings = Settings::read(&self.config, &shared.limits);
        let (first, count) = self.settings.tags;
        self.reads.tags.set_range(first, count);
    }

    /// Requester ID and Completer ID.
    #[inline]
    pub(crate) fn id(&self, shared: &Shared) -> Bdf {
        Bdf::from_bits(shared.bus_device | u16::from(self.number))
    }

    /// Logs an error, and queues its message.
    pub(crate) fn log(&mut self, shared: &mut Shared, error: Uncorrectable, advisory: bool) {
        if let Some(message) = self.config.log_error(error, advisory, [0; 4]) {
            shared.queue_error_message(self.id(shared), message);
        }
    }

    pub(crate) fn done(&mut self, now: Time, shared: &mut Shared, (id, result): Done) {
        match result {
            Ok(_) => shared.counters.dma_reads_done += 1,
            Err(_) => shared.counters.dma_reads_failed += 1,
        }
        self.device.handle(now, Input::DmaDone { id, result });
    }

    /// Which polls may find something that is under way here, whatever the device says. While a write is split, other
    /// polls must leave word that they were here.
    #[inline]
    pub(crate) fn ready(&self) -> Ready {
        Ready::when(self.write.is_some(), Ready::ALL)
            .or(Ready::when(self.settings.msix.enabled, Ready::output(Class::Posted)))
            .or(Ready::when(self.reads.is_splitting(), Ready::output(Class::NonPosted)))
            .or(Ready::when(self.answer.is_some(), Ready::output(Class::Completion)))
    }

    // ---- posted ----

    #[inline]
    pub(crate) fn poll_posted(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        for _ in 0..MAX_REFUSED_PER_POLL {
            if self.write.is_some() {
                match self.next_write(now, shared) {
                    Some(tlp) => return Some(tlp),
                    None => continue,
                }
            }
            if let Some(tlp) = self.unmasked_interrupt(shared) {
                return Some(tlp);
            }
            let tlp = match self.device.poll_output(now, Class::Posted)? {
                Output::Write(write) => self.begin_write(now, shared, write),
                Output::Interrupt { vector } => self.interrupt(shared, vector),
                Output::Message { code, data } => self.message(shared, code, data),
                Output::Read(_) | Output::Complete { .. } => shared.bad_output(),
            };
            if tlp.is_some() {
                return tlp;
            }
        }
        shared.pause(now);
        None
    }

    #[inline]
    fn begin_write(&mut self, now: Time, shared: &mut Shared, write: DmaWrite) -> Option<Tlp> {
        let DmaWrite { address, data, attr, tc } = write;
        let last = (data.len() as u64).checked_sub(1)?;
        if address.checked_add(last).is_none() {
            return shared.bad_output();
        }
        if !self.settings.bus_master {
            return shared.blocked();
        }
        shared.counters.dma_writes += 1;
        let attr = attr & self.settings.attributes;
        let piece = request_piece(address, data.len() as u32, self.settings.mps.bytes());
        if piece as usize == data.len() {
            let span = Span::covering(address, piece).ok()?;
            return Some(memory_write(self.id(shared), span, data, attr, tc));
        }
        self.write = Some(WriteCursor { address, data, sent: 0, attr, tc });
        self.next_write(now, shared)
    }

    fn next_write(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        if !self.settings.bus_master {
            self.end_write(now, shared);
            return shared.blocked();
        }
        let requester = self.id(shared);
        let cursor = self.write.as_mut()?;
        let remaining = cursor.data.len() as u32 - cursor.sent;
        let piece = request_piece(cursor.address, remaining, self.settings.mps.bytes());
        let span = Span::covering(cursor.address, piece).ok()?;
        let data = cursor.data.slice(cursor.sent as usize, piece as usize);
        let tlp = memory_write(requester, span, data, cursor.attr, cursor.tc);
        cursor.address = cursor.address.wrapping_add(u64::from(piece));
        cursor.sent += piece;
        if piece == remaining {
            self.end_write(now, shared);
        }
        Some(tlp)
    }

    fn end_write(&mut self, now: Time, shared: &mut Shared) {
        self.write = None;
        if std::mem::take(&mut self.held_by_write) {
            shared.wake_at(now);
        }
    }

    fn interrupt(&mut self, shared: &mut Shared, vector: u16) -> Option<Tlp> {
        if !self.settings.bus_master {
            return shared.blocked();
        }
        match &mut self.msix {
            Some(msix) if self.settings.msix.enabled => match msix.raise(vector, self.settings.msix) {
                Raised::Send(message) => Some(self.interrupt_write(shared, message.address, message.data)),
                Raised::Pending => None,
                Raised::OutOfRange => {
                    shared.counters.interrupts_out_of_range += 1;
                    None
                }
            },
            _ => self.msi(shared, vector),
        }
    }

    /// The data of an MSI: Message Data with the vector in its low bits, upper 16 bits zero (`PCIe 5.0 §6.1.4`).
    fn msi(&mut self, shared: &mut Shared, vector: u16) -> Option<Tlp> {
        let Some(msi) = self.settings.msi else {
            shared.counters.interrupts_not_enabled += 1;
            return None;
        };
        let granted = u16::from(msi.vectors);
        shared.counters.interrupts_out_of_range += u64::from(vector >= granted);
        let low = granted - 1;
        let data = u32::from(msi.data & !low | vector & low);
        Some(self.interrupt_write(shared, msi.address, data))
    }

    fn unmasked_interrupt(&mut self, shared: &mut Shared) -> Option<Tlp> {
        let control = self.settings.msix;
        if !control.enabled || !self.settings.bus_master {
            return None;
        }
        let message = self.msix.as_mut()?.next_unmasked(control)?;
        Some(self.interrupt_write(shared, message.address, message.data))
    }

    fn interrupt_write(&mut self, shared: &mut Shared, address: u64, data: u32) -> Tlp {
        shared.counters.interrupts += 1;
        let data = Data::Carried(shared.pool.copy(&data.to_le_bytes()));
        // The address is DW-aligned: one DW, all bytes enabled.
        let span = Span::covering(address & !3, 4).unwrap_or(Span::zero_length(address));
        memory_write(self.id(shared), span, data, Attributes::empty(), TrafficClass::default())
    }

    fn message(&mut self, shared: &mut Shared, code: u8, data: Data) -> Option<Tlp> {
        let len = data.len();
        if !len.is_multiple_of(4) || len > self.settings.mps.bytes() as usize {
            return shared.bad_output();
        }
        let mut tlp = root_message(self.id(shared), code);
        if let Body::Message(message) = &mut tlp.repr.body {
            message.length_dw = (len > 0).then_some((len / 4) as u16);
        }
        tlp.data = data;
        Some(tlp)
    }

    // ---- non-posted ----

    #[inline]
    pub(crate) fn poll_non_posted(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        for _ in 0..MAX_REFUSED_PER_POLL {
            if self.reads.is_splitting() {
                if !self.settings.bus_master {
                    self.stop_splitting(now, shared);
                    continue;
                }
                let id = self.id(shared);
                return self.reads.next_request(now, id, &self.settings);
            }
            // What the device does behind a write may not pass it (`PCIe 5.0 §2.4.1`, entry B2a), and only the device
            // knows what is behind: nothing new is taken while a write is split.
            if self.write.is_some() {
                self.held_by_write = true;
                return None;
            }
            if self.settings.bus_master && !self.reads.tags.has_free() {
                return None;
            }
            match self.device.poll_output(now, Class::NonPosted)? {
                Output::Read(read) => self.begin_read(now, shared, &read),
                _ => {
                    let _: Option<Tlp> = shared.bad_output();
                }
            }
        }
        shared.pause(now);
        None
    }

    fn begin_read(&mut self, now: Time, shared: &mut Shared, read: &DmaRead) {
        shared.counters.dma_reads += 1;
        let end = u64::from(read.len.saturating_sub(1)).checked_add(read.address);
        let too_long = read.len > shared.limits.max_dma_len || end.is_none();
        if too_long {
            return self.refuse_read(now, shared, (read.id, Err(DmaError::TooLong)));
        }
        if !self.settings.bus_master {
            shared.counters.blocked_by_bus_master += 1;
            return self.refuse_read(now, shared, (read.id, Err(DmaError::BusMasterDisabled)));
        }
        self.reads.begin(read, &self.settings);
    }

    fn stop_splitting(&mut self, now: Time, shared: &mut Shared) {
        shared.counters.blocked_by_bus_master += 1;
        if let Some(done) = self.reads.stop_splitting(DmaError::BusMasterDisabled) {
            self.refuse_read(now, shared, done);
        }
    }

    /// The device hears of it while it is being polled, so the other classes have to be polled again.
    fn refuse_read(&mut self, now: Time, shared: &mut Shared, done: Done) {
        shared.wake_at(now);
        self.done(now, shared, done);
    }

    // ---- completions ----

    #[inline]
    pub(crate) fn poll_completion(&mut self, now: Time, shared: &mut Shared) -> Option<Tlp> {
        for _ in 0..MAX_REFUSED_PER_POLL {
            if self.answer.is_some() {
                return self.next_answer(shared);
            }
            // As a read, a completion may not pass an earlier write (entry D2a).
            if self.write.is_some() {
                self.held_by_write = true;
                return None;
            }
            match self.device.poll_output(now, Class::Completion)? {
                Output::Complete { token, result } => {
                    if let Some(tlp) = self.begin_answer(now, shared, token, result) {
                        return Some(tlp);
                    }
                }
                _ => {
                    let _: Option<Tlp> = shared.bad_output();
                }
            }
        }
        shared.pause(now);
        None
    }

    fn begin_answer(
        &mut self,
        now: Time,
        shared: &mut Shared,
        token: Token,
        result: Result<Data, CompletionError>,
    ) -> Option<Tlp> {
        let Some((question, released)) = shared.requests.answer(self.number, token) else {
            shared.counters.stale_tokens += 1;
            return None;
        };
        if released {
            shared.wake_at(now); // the credits were perhaps polled before
        }
        let span = question.span;
        match result {
            Ok(data) if data.len() == span.byte_count() as usize || span.is_zero_length() => {
                let data = if span.is_zero_length() { shared.one_byte(question.carry) } else { data };
                self.answer = Some(Answer::new(question, data));
                self.next_answer(shared)
            }
            Ok(_) => {
                shared.counters.bad_answers += 1;
                Some(self.refusal(shared, &question, CompletionError::CompleterAbort))
            }
            Err(error) => Some(self.refusal(shared, &question, error)),
        }
    }

    fn next_answer(&mut self, shared: &Shared) -> Option<Tlp> {
        let completer = self.id(shared);
        let answer = self.answer.as_mut()?;
        let tlp = answer.next(completer, self.settings.mps, shared.limits.rcb);
        if answer.is_done() {
            self.answer = None;
        }
        Some(tlp)
    }

    /// A completion without data, and the log of why.
    pub(crate) fn refusal(
        &mut self,
        shared: &mut Shared,
        question: &Question,
        error: CompletionError,
    ) -> Tlp {
        match error {
            CompletionError::UnsupportedRequest => {
                shared.counters.unsupported_requests += 1;
                self.log(shared, Uncorrectable::UnsupportedRequest, true);
                without_data(self.id(shared), question, Status::UnsupportedRequest)
            }
            CompletionError::CompleterAbort => {
                shared.counters.completer_aborts += 1;
                self.config.set_status(config::header::status::SIGNALED_TARGET_ABORT);
                self.log(shared, Uncorrectable::CompleterAbort, true);
                without_data(self.id(shared), question, Status::CompleterAbort)
            }
        }
    }

    // ---- time and reset ----

    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        earlier(self.device.poll_timeout(), self.reads.tags.next_deadline())
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, shared: &mut Shared) {
        let quarantine = self.settings.completion_timeout.unwrap_or(shared.limits.completion_timeout);
        while let Some((timed_out, done)) = self.reads.expire(now, quarantine) {
            if timed_out {
                shared.counters.completion_timeouts += 1;
                self.log(shared, Uncorrectable::CompletionTimeout, false);
            }
            if let Some(done) = done {
                self.done(now, shared, done);
            }
        }
        if self.device.poll_timeout().is_some_and(|t| t <= now) {
            self.device.handle(now, Input::Timer);
        }
    }

    pub(crate) fn reset(&mut self, now: Time, shared: &mut Shared, kind: ResetKind) {
        let quarantine = self.settings.completion_timeout.unwrap_or(shared.limits.completion_timeout);
        self.config.reset(match kind {
            ResetKind::Fundamental => ResetScope::Fundamental,
            ResetKind::Hot => ResetScope::Hot,
            ResetKind::FunctionLevel => ResetScope::FunctionLevel,
        });
        self.refresh(shared);
        self.write = None;
        self.answer = None;
        self.reads.void_all(now + quarantine);
        if let Some(msix) = &mut self.msix {
            msix.reset();
        }
        shared.requests.void(self.number);
        self.device.handle(now, Input::Reset(kind));
    }

    /// What it waits for, in words.
    pub(crate) fn waits_for(&self, shared: &Shared) -> Option<String> {
        let tags = &self.reads.tags;
        let (untaken, unanswered) = shared.requests.waiting(self.number);
        let parts = [
            (tags.in_use() > 0).then(|| self.tag_report()),
            (untaken > 0).then(|| format!("{untaken} requests not taken by the device")),
            (unanswered > 0).then(|| format!("{unanswered} requests not answered by the device")),
            (!self.settings.bus_master).then(|| "Bus Master Enable is clear".to_string()),
            self.device.waits_for(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn tag_report(&self) -> String {
        let tags = &self.reads.tags;
        let (reads, used, all) = (self.reads.under_way(), tags.in_use(), tags.count());
        let quarantined = match tags.quarantined() {
            0 => String::new(),
            n => format!(", {n} quarantined"),
        };
        let what = if tags.has_free() { "completions" } else { "tags" };
        format!("{reads} DMA reads wait for {what} ({used} of {all} tags in use{quarantined})")
    }
}

#[inline]
fn memory_write(requester: Bdf, span: Span, data: Data, attr: Attributes, tc: TrafficClass) -> Tlp {
    let request = MemoryRequest { op: MemoryOp::Write, requester, tag: Tag::default(), span };
    Tlp::new(Repr { tc, attr, ..Repr::new(Body::Memory(request)) }, data)
}

/// A message to the root complex, without data.
pub(super) fn root_message(requester: Bdf, code: u8) -> Tlp {
    let routing = MessageRouting::ToRootComplex;
    let message = Message { routing, requester, tag: Tag::default(), code, header: [0; 8], length_dw: None };
    Tlp::new(Repr::new(Body::Message(message)), Data::NONE)
}
