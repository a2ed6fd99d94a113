// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adapts a library's device to riser's endpoint and checks all its outputs. After an illegal output, the device fails with a
//! message and is not called again; its requests are completed with Completer Abort. Never panics because of a library's output.

use crate::abi;
use crate::loader::{Bytes, Handed, Handing, Instance};
use crate::misuse::{MAX_AT_ONCE, MAX_BYTES, MAX_MESSAGE_BYTES, MAX_ROUTING, Misuse};
use device::seam::{
    CompletionError, DmaAtomic, DmaError, DmaId, DmaOptions, DmaRead, DmaWrite, Input, OutMessage, Output,
    Request, RequestOp, ResetKind, Token,
};
use device::shared::Notifier;
use device::{BarIndex, Device};
use plug::{Report, Shared, Shown};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ptr;
use tlp::message::MessageCodes;
use tlp::{AtomicOp, Attributes, Class, Data, MessageRouting, PayloadPool, Time, TrafficClass};

/// Counters of a native device, and why it failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceStatus {
    inputs: u64,
    outputs: u64,
    failure: Option<String>,
}

impl Report for DeviceStatus {
    fn shown(&self, _: Time) -> Shown {
        let counts = Shown::new().with_counts([("inputs", self.inputs), ("outputs", self.outputs)]);
        match &self.failure {
            Some(why) => counts.with("failure", why.clone()),
            None => counts,
        }
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

/// A request that the device received.
struct ReceivedRequest {
    /// Number of bytes of the request's completion; `None` if the request needs no completion or already has one.
    answer: Option<u32>,
    /// Whether Retry is allowed as completion status.
    may_retry: bool,
    is_taken: bool,
}

/// Signals other than interrupt vectors that the function has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Signals {
    /// The pin INTA.
    pub(crate) intx: bool,
    pub(crate) pme: bool,
}

/// The device.
pub(crate) struct Guard {
    /// `None` if the library was not loaded or has failed.
    instance: Option<Instance>,
    pool: PayloadPool,
    codes: MessageCodes,
    vectors: u16,
    signals: Signals,
    told: Shared<DeviceStatus>,
    asked: BTreeMap<u32, ReceivedRequest>,
    /// IDs of outstanding DMA reads and atomics.
    under_way: BTreeSet<u32>,
    /// Completions that the guard itself has made. Bounded by the credits of requests.
    answers: VecDeque<Output>,
    /// Requests that the guard itself has taken. Bounded by the credits of requests.
    taken: VecDeque<Token>,
    /// The current instant, and the number of outputs and timer calls at this instant.
    at_once: (Time, u32),
}

impl Guard {
    /// Creates a device that receives messages with these codes and reports to `told`.
    pub(crate) fn new(
        instance: Option<Instance>,
        pool: PayloadPool,
        codes: MessageCodes,
        signals: Signals,
        told: Shared<DeviceStatus>,
    ) -> Guard {
        Guard {
            instance,
            pool,
            codes,
            vectors: 0,
            signals,
            told,
            asked: BTreeMap::new(),
            under_way: BTreeSet::new(),
            answers: VecDeque::new(),
            taken: VecDeque::new(),
            at_once: (Time::ZERO, 0),
        }
    }

    /// Fails the device because the library did something illegal. The device is not called again.
    fn fail(&mut self, why: String) {
        let why = match &self.instance {
            Some(instance) => format!("library {}: {why}", instance.path().display()),
            None => why,
        };
        self.told.change(|told| {
            told.failure.get_or_insert(why);
        });
        // The instance is dropped, and its outstanding requests are forgotten.
        self.instance = None;
        self.under_way.clear();
        for (token, asked) in std::mem::take(&mut self.asked) {
            if !asked.is_taken {
                self.taken.push_back(Token(token));
            }
            if asked.answer.is_some() {
                self.answers.push_back(Output::Complete {
                    token: Token(token),
                    result: Err(CompletionError::CompleterAbort),
                });
            }
        }
    }

    /// Counts an output or timer call. Returns false above [`MAX_AT_ONCE`].
    fn is_bounded(&mut self, now: Time) -> bool {
        self.at_once = if self.at_once.0 == now { (now, self.at_once.1 + 1) } else { (now, 1) };
        self.at_once.1 <= MAX_AT_ONCE
    }

    fn hand(&mut self, now: Time, what: &Handing<'_>) -> bool {
        self.told.change(|told| told.inputs += 1);
        self.instance.as_mut().is_some_and(|instance| instance.hand(now.as_ps(), what))
    }

    fn request(&mut self, now: Time, request: Request) {
        let (token, answer) = (request.token, answer_bytes(&request.op));
        let may_retry = matches!(request.op, RequestOp::WriteNonPosted { deferrable: true, .. });
        self.asked.insert(token.0, ReceivedRequest { answer, may_retry, is_taken: false });
        if !self.hand_request(now, &request) {
            // The device does not handle this kind of request, or has failed.
            let error = match self.told.get().failure {
                Some(_) => CompletionError::CompleterAbort,
                None => CompletionError::UnsupportedRequest,
            };
            self.asked.remove(&token.0);
            self.taken.push_back(token);
            if answer.is_some() {
                self.answers.push_back(Output::Complete { token, result: Err(error) });
            }
        }
    }

    fn hand_request(&mut self, now: Time, request: &Request) -> bool {
        let (token, tc, attr) = (request.token.0, request.tc.bits(), request.attr.bits());
        match &request.op {
            RequestOp::Read { bar: BarIndex(bar), offset, span, locked } => {
                let (offset, length, locked) = (*offset, span.byte_count(), u8::from(*locked));
                let read = abi::Read { token, bar: *bar, tc, attr, locked, offset, length, reserved: 0 };
                self.hand(now, &Handing::Read(&read))
            }
            RequestOp::Write { .. } => self.write(now, request, 0),
            RequestOp::WriteNonPosted { deferrable, .. } => {
                self.write(now, request, 1 | u8::from(*deferrable) << 1)
            }
            RequestOp::Atomic { bar: BarIndex(bar), offset, op, operands } => {
                let bytes = operands.bytes().unwrap_or_default();
                let length = operands.len() as u32;
                let value_bytes = value_bytes(*op, length);
                let (bar, op, offset, operands) = (*bar, op_number(*op), *offset, bytes.as_ptr());
                let atomic = abi::Atomic { token, bar, tc, attr, op, offset, value_bytes, length, operands };
                self.hand(now, &Handing::Atomic(&atomic))
            }
            RequestOp::ConfigRead { register_dw, byte_enables } => {
                let (register_dw, byte_enables) = (*register_dw, *byte_enables);
                let config = abi::Config { token, register_dw, byte_enables, is_write: 0, value: 0 };
                self.hand(now, &Handing::Config(&config))
            }
            RequestOp::ConfigWrite { register_dw, byte_enables, value } => {
                let (register_dw, byte_enables, value) = (*register_dw, *byte_enables, *value);
                let config = abi::Config { token, register_dw, byte_enables, is_write: 1, value };
                self.hand(now, &Handing::Config(&config))
            }
            RequestOp::Message { requester, routing, code, header, data } => {
                let bytes = data.bytes().unwrap_or_default();
                let (length, data) = (bytes.len() as u32, bytes.as_ptr());
                let (requester, routing) = (requester.bits(), routing.bits());
                let (code, header) = (*code, *header);
                let message =
                    abi::Message { token, requester, routing, code, header, length, reserved: 0, data };
                self.hand(now, &Handing::Message(&message))
            }
            _ => false,
        }
    }

    fn write(&mut self, now: Time, request: &Request, flags: u8) -> bool {
        let (RequestOp::Write { bar: BarIndex(bar), offset, span, data }
        | RequestOp::WriteNonPosted { bar: BarIndex(bar), offset, span, data, .. }) = &request.op
        else {
            return false;
        };
        let length = span.byte_count();
        let enables: Option<Vec<u8>> = (!span.is_contiguous())
            .then(|| (0..length).map(|index| u8::from(span.is_enabled(index))).collect());
        let write = abi::Write {
            token: request.token.0,
            bar: *bar,
            tc: request.tc.bits(),
            attr: request.attr.bits(),
            flags,
            offset: *offset,
            length,
            reserved: 0,
            data: data.bytes().map_or(ptr::null(), <[u8]>::as_ptr),
            enables: enables.as_ref().map_or(ptr::null(), |enables| enables.as_ptr()),
        };
        self.hand(now, &Handing::Write(&write))
    }

    fn dma_done(&mut self, now: Time, id: DmaId, result: &Result<Data, DmaError>) {
        self.under_way.remove(&id.0);
        let data = result.as_ref().ok();
        let bytes = data.and_then(Data::bytes);
        let done = abi::DmaDone {
            id: id.0,
            status: result.as_ref().err().map_or(0, |error| dma_status(*error)),
            length: data.map_or(0, Data::len) as u32,
            reserved: 0,
            data: bytes.map_or(ptr::null(), <[u8]>::as_ptr),
        };
        self.hand(now, &Handing::DmaDone(&done));
    }

    fn reset(&mut self, now: Time, kind: ResetKind) {
        self.asked.clear();
        self.under_way.clear();
        self.answers.clear();
        self.taken.clear();
        let kind = match kind {
            ResetKind::Fundamental => 0,
            ResetKind::Hot => 1,
            _ => 2,
        };
        self.hand(now, &Handing::Reset(kind));
    }

    /// Checks an output of the library and converts it to the endpoint's type.
    fn checked(&mut self, handed: Handed, class: Class) -> Result<Output, Misuse> {
        let of = match &handed {
            Handed::Read(_) | Handed::Atomic(..) => Class::NonPosted,
            Handed::Complete(..) | Handed::Abandon(_) => Class::Completion,
            _ => Class::Posted,
        };
        if of != class {
            return Err(Misuse::Class { output: name(&handed), class: class_name(class) });
        }
        match handed {
            Handed::Write(write, bytes) => {
                in_addresses("write", write.address, write.length)?;
                let options = options("write", write.tc, write.attr)?;
                Ok(Output::Write(DmaWrite::new(write.address, self.data(bytes)).with_options(options)))
            }
            Handed::Read(read) => {
                if read.length > MAX_BYTES {
                    return Err(Misuse::Length { what: "read", bytes: read.length });
                }
                in_addresses("read", read.address, read.length)?;
                self.begin(read.id)?;
                let asked = DmaRead::new(DmaId(read.id), read.address, read.length);
                let asked = asked.with_options(options("read", read.tc, read.attr)?);
                Ok(Output::Read(if read.counted != 0 { asked.counted() } else { asked }))
            }
            Handed::Atomic(atomic, bytes) => {
                let op = op_of(atomic.op)?;
                in_addresses("atomic", atomic.address, atomic.length)?;
                self.begin(atomic.id)?;
                let asked = DmaAtomic::new(DmaId(atomic.id), atomic.address, op, self.data(bytes));
                Ok(Output::Atomic(asked.with_options(options("atomic", atomic.tc, atomic.attr)?)))
            }
            Handed::Complete(completion, bytes) => self.complete(&completion, bytes),
            Handed::Abandon(token) => {
                self.waiting(token)?;
                self.answered(token);
                Ok(Output::Abandon { token: Token(token) })
            }
            Handed::Interrupt(vector) => match u16::try_from(vector).ok().filter(|v| *v < self.vectors) {
                Some(vector) => Ok(Output::Interrupt { vector }),
                None => Err(Misuse::Vector { vector, vectors: self.vectors }),
            },
            Handed::Intx(asserted) if self.signals.intx => Ok(Output::Intx { asserted }),
            Handed::Intx(_) => Err(Misuse::Signal { output: name(&handed), key: "intx" }),
            Handed::Pme if self.signals.pme => Ok(Output::Pme),
            Handed::Pme => Err(Misuse::Signal { output: name(&handed), key: "pme" }),
            Handed::Message(message, bytes) => {
                if message.length % 4 != 0 || message.length > MAX_MESSAGE_BYTES {
                    return Err(Misuse::MessageLength(message.length));
                }
                if message.routing > MAX_ROUTING {
                    return Err(Misuse::Routing(message.routing));
                }
                let out = OutMessage::new(MessageRouting::from_bits(message.routing), message.code);
                let out = out.with_header(message.header).with_data(self.data(bytes));
                Ok(Output::Message(out.with_options(options("message", message.tc, message.attr)?)))
            }
        }
    }

    fn complete(&mut self, completion: &abi::Completion, bytes: Bytes) -> Result<Output, Misuse> {
        let token = completion.token;
        let (expected, may_retry) = self.waiting(token)?;
        let result = match completion.status {
            0 if completion.length == expected => Ok(self.data(bytes)),
            0 => return Err(Misuse::CompletionLength { token, bytes: completion.length, expected }),
            1 => Err(CompletionError::UnsupportedRequest),
            2 => Err(CompletionError::CompleterAbort),
            3 if may_retry => Err(CompletionError::Retry),
            3 => return Err(Misuse::Retry(token)),
            status => return Err(Misuse::Status { token, status }),
        };
        self.answered(token);
        Ok(Output::Complete { token: Token(token), result })
    }

    /// Returns how many bytes must complete request `token`, and whether Retry is allowed. Returns an error if the
    /// request does not wait for a completion.
    fn waiting(&self, token: u32) -> Result<(u32, bool), Misuse> {
        let waiting = self.asked.get(&token).and_then(|asked| Some((asked.answer?, asked.may_retry)));
        waiting.ok_or(Misuse::NotWaiting(token))
    }

    fn answered(&mut self, token: u32) {
        if let Some(asked) = self.asked.get_mut(&token) {
            asked.answer = None;
        }
        self.forget(token);
    }

    /// Frees a token that was taken and needs no completion any more.
    fn forget(&mut self, token: u32) {
        if self.asked.get(&token).is_some_and(|asked| asked.is_taken && asked.answer.is_none()) {
            self.asked.remove(&token);
        }
    }

    fn begin(&mut self, id: u32) -> Result<(), Misuse> {
        match self.under_way.insert(id) {
            true => Ok(()),
            false => Err(Misuse::DmaId(id)),
        }
    }

    fn take(&mut self, token: u32) -> Result<Token, Misuse> {
        match self.asked.get_mut(&token) {
            Some(asked) if !asked.is_taken => asked.is_taken = true,
            Some(_) => return Err(Misuse::Taken(token)),
            None => return Err(Misuse::NoRequest(token)),
        }
        self.forget(token);
        Ok(Token(token))
    }

    fn data(&self, bytes: Bytes) -> Data {
        match bytes {
            Bytes::Carried(bytes) => Data::Carried(self.pool.copy(&bytes)),
            Bytes::Counted(count) => Data::Counted(count),
        }
    }
}

impl Device for Guard {
    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Request(request) => self.request(now, request),
            Input::DmaDone { id, result } => self.dma_done(now, id, &result),
            Input::Timer if self.is_bounded(now) => {
                self.hand(now, &Handing::Timer);
            }
            Input::Timer => self.fail(format!(
                "next_timer: {MAX_AT_ONCE} calls of timer at {now}, expected a later time of the next timer"
            )),
            Input::Reset(kind) => self.reset(now, kind),
            _ => {}
        }
    }

    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        if class == Class::Completion && !self.answers.is_empty() {
            return self.answers.pop_front();
        }
        let handed = match self.instance.as_mut()?.poll_output(now.as_ps(), class.index() as u32) {
            Ok(None) => return None,
            Ok(Some(handed)) if self.is_bounded(now) => self.checked(handed, class),
            Ok(Some(_)) => Err(Misuse::Endless(now)),
            Err(why) => Err(why),
        };
        match handed {
            Ok(output) => {
                self.told.change(|told| told.outputs += 1);
                Some(output)
            }
            Err(why) => {
                self.fail(format!("poll_output: {why}"));
                if class == Class::Completion { self.answers.pop_front() } else { None }
            }
        }
    }

    fn poll_taken(&mut self) -> Option<Token> {
        if let Some(token) = self.taken.pop_front() {
            return Some(token);
        }
        let token = match self.instance.as_mut()?.poll_taken() {
            Some(None) => return None,
            Some(Some(token)) => token,
            // Without poll_taken, each request is taken immediately.
            None => *self.asked.iter().find(|(_, asked)| !asked.is_taken)?.0,
        };
        match self.take(token) {
            Ok(token) => Some(token),
            Err(why) => {
                self.fail(why.to_string());
                self.taken.pop_front()
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.instance.as_ref()?.next_timer().map(Time::from_ps)
    }

    /// The device shares nothing with other functions, and needs no notifier.
    fn set_notifier(&mut self, _: Notifier) -> bool {
        true
    }

    fn set_vectors(&mut self, vectors: u16) {
        self.vectors = vectors;
    }

    fn messages(&self) -> MessageCodes {
        self.codes
    }

    fn waits_for(&self) -> Option<String> {
        self.told.get().failure.as_ref().map(|why| format!("the device has failed: {why}"))
    }
}

/// Returns the number of bytes of a request's completion; `None` if the request needs no completion.
fn answer_bytes(op: &RequestOp) -> Option<u32> {
    match op {
        RequestOp::Read { span, .. } => Some(span.byte_count()),
        RequestOp::Atomic { op, operands, .. } => Some(value_bytes(*op, operands.len() as u32)),
        RequestOp::ConfigRead { .. } => Some(4),
        op if op.is_posted() => None,
        _ => Some(0),
    }
}

/// Returns the size of the value for operands of this size.
const fn value_bytes(op: AtomicOp, operand_bytes: u32) -> u32 {
    match op {
        AtomicOp::CompareSwap => operand_bytes / 2,
        _ => operand_bytes,
    }
}

const fn op_number(op: AtomicOp) -> u8 {
    match op {
        AtomicOp::FetchAdd => 0,
        AtomicOp::Swap => 1,
        AtomicOp::CompareSwap => 2,
    }
}

fn op_of(number: u8) -> Result<AtomicOp, Misuse> {
    match number {
        0 => Ok(AtomicOp::FetchAdd),
        1 => Ok(AtomicOp::Swap),
        2 => Ok(AtomicOp::CompareSwap),
        other => Err(Misuse::AtomicOp(other)),
    }
}

/// Checks that a transfer does not wrap around the end of the address space.
fn in_addresses(what: &'static str, address: u64, length: u32) -> Result<(), Misuse> {
    match address.checked_add(u64::from(length)) {
        Some(_) => Ok(()),
        None => Err(Misuse::Address { what, bytes: length, address }),
    }
}

fn options(what: &'static str, tc: u8, attr: u8) -> Result<DmaOptions, Misuse> {
    let tc = TrafficClass::new(tc).ok_or(Misuse::TrafficClass { what, tc })?;
    let attr = Attributes::from_bits(attr).ok_or(Misuse::Attributes { what, attr })?;
    Ok(DmaOptions::tc(tc).with_attr(attr))
}

/// Name in the header.
const fn name(handed: &Handed) -> &'static str {
    match handed {
        Handed::Write(..) => "RISER_WRITE",
        Handed::Read(_) => "RISER_READ",
        Handed::Atomic(..) => "RISER_ATOMIC",
        Handed::Complete(..) => "RISER_COMPLETE",
        Handed::Abandon(_) => "RISER_ABANDON",
        Handed::Interrupt(_) => "RISER_INTERRUPT",
        Handed::Intx(_) => "RISER_INTX",
        Handed::Pme => "RISER_PME",
        Handed::Message(..) => "RISER_SEND_MESSAGE",
    }
}

/// Name in the header.
const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Posted => "RISER_POSTED",
        Class::NonPosted => "RISER_NON_POSTED",
        Class::Completion => "RISER_COMPLETION",
    }
}

/// Returns the `RISER_DMA_...` status of an error.
const fn dma_status(error: DmaError) -> u32 {
    match error {
        DmaError::UnsupportedRequest => 1,
        DmaError::CompleterAbort => 2,
        DmaError::Poisoned => 3,
        DmaError::CompletionTimeout => 4,
        DmaError::Malformed => 5,
        DmaError::BusMasterDisabled => 6,
        DmaError::TooLong => 7,
        DmaError::BadAtomic => 8,
        DmaError::AtomicsDisabled => 9,
        DmaError::LinkDown => 10,
        DmaError::NotInD0 => 11,
        _ => 255,
    }
}

#[cfg(test)]
mod tests;
