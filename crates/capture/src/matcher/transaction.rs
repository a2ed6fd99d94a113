// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A request with its completions. This module handles each transaction by itself.

use super::{Hop, Packet, Root};
use crate::reader::Direction;
use crate::time::Timestamp;
use std::sync::Arc;
use tlp::{Bdf, Body, Class, Completion, Format, FormatId, Repr, Status, Tag};

/// A requester as seen on one link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Requester {
    /// Number of the link ([`Interface::link`](crate::Interface::link)).
    pub link: u16,
    /// Requester ID.
    pub id: Bdf,
}

bitflags::bitflags! {
    /// Errors of a transaction.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Errors: u16 {
        /// No completion until the end of the capture, or until the request was given up.
        const NO_COMPLETION = 1;
        /// Some data is missing.
        const INCOMPLETE = 1 << 1;
        /// Completed with Unsupported Request.
        const UNSUPPORTED_REQUEST = 1 << 2;
        /// Completed with Completer Abort.
        const COMPLETER_ABORT = 1 << 3;
        /// Completed with Configuration Request Retry Status.
        const CONFIG_RETRY = 1 << 4;
        /// A completion without an outstanding request.
        const UNEXPECTED_COMPLETION = 1 << 5;
        /// One of its TLPs is poisoned (EP).
        const POISONED = 1 << 6;
        /// One of its TLPs has a wrong ECRC.
        const BAD_ECRC = 1 << 7;
        /// Its tag was still in use by an earlier request.
        const DUPLICATE_TAG = 1 << 8;
        /// A completion's Byte Count differs from the remaining bytes.
        const BYTE_COUNT = 1 << 9;
        /// The matcher gave it up because too many requests were outstanding.
        const EXPIRED = 1 << 10;
    }
}

impl Errors {
    /// Returns the name of each error, in the order of the bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [&str; 11] = [
            "no completion",
            "incomplete",
            "UR",
            "CA",
            "CRS",
            "unexpected completion",
            "poisoned",
            "bad ECRC",
            "duplicate tag",
            "byte count",
            "expired",
        ];
        NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.bits() >> bit & 1 == 1)
            .map(|(_, name)| name)
    }

    const fn of_status(status: Status) -> Errors {
        match status {
            Status::Success => Errors::empty(),
            Status::UnsupportedRequest => Errors::UNSUPPORTED_REQUEST,
            Status::ConfigRetry => Errors::CONFIG_RETRY,
            Status::CompleterAbort => Errors::COMPLETER_ABORT,
        }
    }
}

/// The Ack or Nak that acknowledges a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ack {
    /// Unknown: the capture has no DLLPs of the link, or no sequence positions of its TLPs.
    #[default]
    Unknown,
    /// The capture shows Acks, but not yet one for this TLP.
    None,
    /// The first Ack or Nak that covers the TLP.
    Seen {
        /// Number of its record.
        number: u64,
        /// Time of the Ack or Nak.
        time: Timestamp,
    },
}

/// Target of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// Memory or I/O: address of the first byte. For an unexpected completion, its Lower Address.
    Address(u64),
    /// A register of a function's configuration space.
    Register {
        /// The function.
        function: Bdf,
        /// Offset in bytes, a multiple of 4.
        offset: u16,
    },
    /// A message.
    Message {
        /// Message Code.
        code: u8,
        /// Its name in the specification, if the code is defined.
        name: Option<&'static str>,
    },
}

/// A request with its completions so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Requester, and the link that showed the request first.
    pub requester: Requester,
    /// The slot or switch at the end of this link; empty if the capture does not name it.
    pub slot: Arc<str>,
    /// Tag of the request.
    pub tag: Tag,
    /// Type of the request; for an unexpected completion, type of the completion.
    pub format: FormatId,
    /// Direction of the request, if the capture has it.
    pub direction: Option<Direction>,
    /// Traffic Class of the request, 0 to 7.
    pub tc: u8,
    /// Target of the request.
    pub target: Target,
    /// Number of bytes that the request reads or writes; 0 if it accesses none.
    pub bytes: u32,
    /// Bytes of data still expected from completions.
    pub remaining: u32,
    /// Bytes of data received in completions.
    pub data_bytes: u32,
    /// Number of completions so far.
    pub completions: u32,
    /// Number of its TLPs that were seen again on a link, or retransmitted after a loss.
    pub retries: u32,
    /// Status of the last completion; `None` before the first.
    pub status: Option<Status>,
    /// Number of the request's record.
    pub request_number: u64,
    /// Line of the request in a text file.
    pub line: Option<u64>,
    /// Time when the request was seen first.
    pub start: Timestamp,
    /// True if the file has this time.
    pub has_start: bool,
    /// Time when the first completion with data was seen.
    pub first_data: Option<Timestamp>,
    /// Time of the last completion so far, or of the request before the first completion.
    pub end: Timestamp,
    /// True if the file has the times of the request and of all completions.
    pub has_times: bool,
    /// Errors of the transaction.
    pub errors: Errors,
    /// True if it is a bus probe, for which Unsupported Request is not an error: a read of the Vendor ID of a
    /// function that does not exist (`PCIe 5.0 §2.3.2`). Such a function has completed no configuration read
    /// successfully.
    pub is_probe: bool,
    /// Acknowledgment of the request.
    pub ack: Ack,
    /// Acknowledgment of the last completion.
    pub completion_ack: Ack,
    /// The transaction on further links, in the order in which they show the request.
    pub hops: Vec<Hop>,
    /// The transaction that this one is a hop of.
    pub(crate) hop_of: Option<Root>,
    /// Number of events that it waits for after completion: Acks of its TLPs, or the request on a further link.
    pub(crate) unacked: u32,
    /// Bits of the filter terms that match one of its TLPs.
    pub(crate) terms: u64,
    /// Byte Count of the last completion.
    latest_byte_count: Option<u16>,
}

impl Transaction {
    /// Time from the first request to the last completion, in picoseconds.
    pub const fn latency_ps(&self) -> u128 {
        self.end.since_ps(self.start)
    }

    /// Time from the first request to the first data, in picoseconds; `None` without data or without times.
    pub fn first_data_ps(&self) -> Option<u128> {
        self.first_data.filter(|_| self.has_times).map(|first| first.since_ps(self.start))
    }

    /// Time from the first request to the last completion, in picoseconds; `None` without completions or without
    /// times.
    pub const fn response_ps(&self) -> Option<u128> {
        if self.completions == 0 || !self.has_times { None } else { Some(self.latency_ps()) }
    }

    /// Time when the request was seen first; `None` if the file has no time for it.
    pub fn start_time(&self) -> Option<Timestamp> {
        self.has_start.then_some(self.start)
    }

    /// Returns true for requests without a completion: MWr, Msg, MsgD.
    pub fn is_posted(&self) -> bool {
        Format::get(self.format).class == Class::Posted
    }

    /// Number of its TLPs on all links, with retries.
    pub fn packets(&self) -> u32 {
        let request = u32::from(!self.errors.contains(Errors::UNEXPECTED_COMPLETION));
        let further: u32 = self.hops.iter().map(|hop| hop.packets).sum();
        request + self.completions + self.retries + further
    }

    /// Data per response time, in megabits per second; `None` without data, or if the response time is zero or
    /// unknown.
    pub fn throughput_mbps(&self) -> Option<u64> {
        let bits = u128::from(self.data_bytes) * 8;
        let ps = self.response_ps().filter(|ps| *ps > 0 && bits > 0)?;
        u64::try_from(bits * 1_000_000 / ps).ok()
    }

    pub(crate) fn of_request(packet: &Packet<'_>) -> Transaction {
        let bytes = named_bytes(packet.repr);
        let remaining = match &packet.repr.body {
            Body::Memory(m) if !m.op.is_read() => 0,
            Body::Io(_) | Body::Config(_) if packet.repr.data_dw() > 0 => 0,
            Body::Message(_) => 0,
            _ => bytes,
        };
        Transaction { remaining, ..Transaction::at_rest(packet, bytes) }
    }

    /// Returns an unexpected completion as a separate transaction.
    pub(crate) fn of_unexpected(packet: &Packet<'_>, completion: &Completion) -> Transaction {
        let data_bytes = completion.length_dw.map_or(0, |dw| answered_bytes(completion, dw));
        Transaction {
            data_bytes,
            completions: 1,
            status: Some(completion.status),
            errors: packet.errors | Errors::UNEXPECTED_COMPLETION | Errors::of_status(completion.status),
            ..Transaction::at_rest(packet, completion.byte_count.into())
        }
    }

    fn at_rest(packet: &Packet<'_>, bytes: u32) -> Transaction {
        let (id, tag) = packet.repr.transaction();
        Transaction {
            requester: Requester { link: packet.link, id },
            slot: packet.slot.cloned().unwrap_or_default(),
            tag,
            format: packet.repr.format().id,
            direction: packet.direction,
            tc: packet.repr.tc.bits(),
            target: Target::of(packet.repr),
            bytes,
            remaining: 0,
            data_bytes: 0,
            completions: 0,
            retries: packet.retries,
            status: None,
            request_number: packet.number,
            line: packet.line,
            start: packet.first_seen,
            has_start: packet.has_time,
            first_data: None,
            end: packet.time,
            has_times: packet.has_time,
            errors: packet.errors,
            is_probe: false,
            ack: Ack::Unknown,
            completion_ack: Ack::Unknown,
            hops: Vec::new(),
            hop_of: None,
            unacked: 0,
            terms: packet.terms,
            latest_byte_count: None,
        }
    }

    pub(super) fn is_repeated_by(&self, request: &Transaction) -> bool {
        self.completions == 0
            && (self.format, self.target, self.bytes) == (request.format, request.target, request.bytes)
    }

    /// Counts another sighting of one of its TLPs.
    pub(crate) fn seen_again(&mut self, packet: &Packet<'_>) {
        self.retries += 1;
        self.terms |= packet.terms;
        self.errors |= packet.errors;
    }

    /// Returns true if `completion` repeats the previous one: Byte Count decreases with each completion (`PCIe 5.0
    /// §2.3.1.1`).
    pub(super) fn is_answered_again_by(&self, completion: &Completion) -> bool {
        self.latest_byte_count == Some(completion.byte_count)
            && u32::from(completion.byte_count) > self.remaining
    }

    // Only data is counted: a completion without data or with an error ends the transaction. The completion of an
    // AtomicOp counts the original value that it returns.
    pub(super) fn expects(&self, completion: &Completion) -> bool {
        self.remaining == 0
            || completion.status != Status::Success
            || u32::from(completion.byte_count) == self.remaining
    }

    /// Counts a completion. Returns true if it is the last one: a completion without data, or with a status other
    /// than success, ends the transaction (`PCIe 5.0 §2.3.1.1`, §2.3.2).
    pub(super) fn is_ended_by(&mut self, packet: &Packet<'_>, completion: &Completion) -> bool {
        self.end = packet.time;
        self.has_times &= packet.has_time;
        self.completions += 1;
        self.retries += packet.retries;
        self.status = Some(completion.status);
        self.errors |= packet.errors | Errors::of_status(completion.status);
        self.terms |= packet.terms;
        self.latest_byte_count = Some(completion.byte_count);
        let Some(length_dw) = completion.length_dw else { return true };
        let bytes = answered_bytes(completion, length_dw);
        self.first_data.get_or_insert(packet.time);
        self.data_bytes = self.data_bytes.saturating_add(bytes);
        self.remaining = self.remaining.saturating_sub(bytes);
        self.remaining == 0 || completion.status != Status::Success
    }

    /// Function and offset of a configuration read; `None` for other requests.
    pub(super) const fn config_read(&self) -> Option<(Bdf, u16)> {
        match (self.format, self.target) {
            (FormatId::CfgRd0 | FormatId::CfgRd1, Target::Register { function, offset }) => {
                Some((function, offset))
            }
            _ => None,
        }
    }

    /// Marks a transaction that ended with Unsupported Request as a bus probe.
    pub(super) fn set_probe(&mut self) {
        self.is_probe = true;
        self.errors.remove(Errors::UNSUPPORTED_REQUEST);
    }

    /// Marks a transaction without its completions or data as failed.
    pub(crate) fn give_up(&mut self, why: Errors) {
        self.errors |= why;
        self.errors |= if self.completions == 0 { Errors::NO_COMPLETION } else { Errors::INCOMPLETE };
    }
}

impl Target {
    /// Returns the target of a TLP.
    pub fn of(repr: &Repr) -> Target {
        match &repr.body {
            Body::Memory(m) => Target::Address(m.span.first_byte()),
            Body::Io(io) => Target::Address(io.address.into()),
            Body::Atomic(a) => Target::Address(a.address),
            Body::Completion(c) => Target::Address(c.lower_address.into()),
            Body::Config(c) => Target::Register { function: c.completer, offset: c.register_dw * 4 },
            Body::Message(m) => Target::Message { code: m.code, name: tlp::message::name_of(m) },
        }
    }
}

/// Returns the number of bytes that a request accesses.
pub(crate) fn named_bytes(repr: &Repr) -> u32 {
    match &repr.body {
        Body::Memory(m) => m.span.byte_count(),
        Body::Config(_) | Body::Io(_) => 4,
        Body::Atomic(a) => a.operand.bytes(),
        Body::Message(_) => repr.data_dw() * 4,
        Body::Completion(_) => 0,
    }
}

/// Returns the number of bytes that a completion returns, without the padding of its first and last DW.
fn answered_bytes(completion: &Completion, length_dw: u16) -> u32 {
    let lanes = u32::from(length_dw) * 4 - u32::from(completion.lower_address & 3);
    lanes.min(u32::from(completion.byte_count))
}
