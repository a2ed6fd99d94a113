// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLP headers as plain values (`PCIe 5.0 §2.2`).
//!
//! A [`Repr`] holds only legal values, because its types exclude illegal ones.

use crate::{AtomicRequest, Bdf, Span, Tag};
use bitflags::bitflags;
use core::ops::Range;

/// Traffic Class, 0 to 7 (`PCIe 5.0 §2.2.6.6`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// The class with this number; `None` above 7.
    pub const fn new(tc: u8) -> Option<TrafficClass> {
        if tc < 8 { Some(TrafficClass(tc)) } else { None }
    }

    /// The class in the low three bits.
    pub const fn from_bits(bits: u8) -> TrafficClass {
        TrafficClass(bits & 7)
    }

    /// The number, 0 to 7.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

bitflags! {
    /// Attributes (`PCIe 5.0 §2.2.6.3`): bit 2 (IDO) joined with bits 1:0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Attributes: u8 {
        /// No Snoop.
        const NO_SNOOP = 1;
        /// Relaxed Ordering.
        const RELAXED_ORDERING = 2;
        /// ID-based Ordering.
        const ID_BASED_ORDERING = 4;
    }
}

impl Attributes {
    /// The attributes that a completion always copies from its request (`PCIe 5.0 §2.2.9`). ID-based Ordering is
    /// not among them: a completer may set it if IDO Completion Enable is set (§2.2.6.4).
    pub const COMPLETED: Attributes = Attributes::NO_SNOOP.union(Attributes::RELAXED_ORDERING);
}

/// Address Type of a memory request (`PCIe 5.0 §10.2.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddressType {
    /// 00b: untranslated, or unspecified.
    #[default]
    Untranslated,
    /// 01b: a translation request.
    TranslationRequest,
    /// 10b: translated.
    Translated,
    /// 11b: reserved. Kept, so that captures can show it.
    Reserved,
}

impl AddressType {
    /// The address type in the low two bits.
    pub const fn from_bits(bits: u8) -> AddressType {
        match bits & 3 {
            0b00 => AddressType::Untranslated,
            0b01 => AddressType::TranslationRequest,
            0b10 => AddressType::Translated,
            _ => AddressType::Reserved,
        }
    }

    /// The field's two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// PH\[1:0\] of a request with TH (`PCIe 5.0 §2.2.7.1`): which side accesses the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProcessingHint {
    /// 00b: both host and device.
    #[default]
    Bidirectional,
    /// 01b: the device.
    Requester,
    /// 10b: the host.
    Target,
    /// 11b: the host, with high temporal locality.
    TargetWithPriority,
}

impl ProcessingHint {
    /// The hint in the low two bits.
    pub const fn from_bits(bits: u8) -> ProcessingHint {
        match bits & 3 {
            0b00 => ProcessingHint::Bidirectional,
            0b01 => ProcessingHint::Requester,
            0b10 => ProcessingHint::Target,
            _ => ProcessingHint::TargetWithPriority,
        }
    }

    /// The field's two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

impl From<ProcessingHint> for u64 {
    fn from(hint: ProcessingHint) -> u64 {
        u64::from(hint.bits())
    }
}

/// Processing hint of a memory request or AtomicOp (`PCIe 5.0 §2.2.7.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hint {
    /// PH\[1:0\]: the kind of use.
    pub ph: ProcessingHint,
    /// ST\[7:0\]: the steering tag. In a write, it replaces the Tag on the wire. In a read, it replaces the Byte
    /// Enables, and all bytes then count as enabled.
    pub st: u8,
}

/// A TLP header: the common fields, and the [`Body`] with the fields of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes.
    pub attr: Attributes,
    /// Address Type; `Untranslated` except in memory requests and AtomicOps.
    pub at: AddressType,
    /// TH: a processing hint; `None` except in memory requests and AtomicOps.
    pub th: Option<Hint>,
    /// LN: lightweight notification (`PCIe 5.0 §6.21`); false except in MRd, MWr, Cpl and CplD.
    pub ln: bool,
    /// TD: an ECRC digest follows the data.
    pub td: bool,
    /// EP: the data is poisoned.
    pub ep: bool,
    /// The fields of the type.
    pub body: Body,
}

/// The fields of one TLP type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// MRd, MRdLk, MWr, DMWr.
    Memory(MemoryRequest),
    /// IORd, IOWr.
    Io(IoRequest),
    /// FetchAdd, Swap, CAS.
    Atomic(AtomicRequest),
    /// Cpl, CplD, CplLk, CplDLk.
    Completion(Completion),
    /// CfgRd0, CfgWr0, CfgRd1, CfgWr1.
    Config(ConfigRequest),
    /// Msg, MsgD.
    Message(Message),
}

/// The operation of a memory request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryOp {
    /// MRd: reads; non-posted.
    Read,
    /// MRdLk: reads, and locks the path until an Unlock message (`PCIe 5.0 §6.5`); non-posted.
    ReadLocked,
    /// MWr: writes; posted.
    Write,
    /// DMWr: a deferrable write, completed with a Cpl; non-posted (ECN "Deferrable Memory Write" to 5.0).
    WriteDeferrable,
}

impl MemoryOp {
    /// True for MRd and MRdLk, whose completions have data.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, MemoryOp::Read | MemoryOp::ReadLocked)
    }

    /// Returns true if the request has no completion.
    #[must_use]
    pub const fn is_posted(self) -> bool {
        matches!(self, MemoryOp::Write)
    }
}

/// The operation of an I/O or configuration request; both are non-posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads one DW.
    Read,
    /// Writes one DW.
    Write,
}

/// IORd and IOWr (`PCIe 5.0 §2.2.7`): transfer one DW, with a header of 3 DW.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoRequest {
    /// Read or write.
    pub op: Access,
    /// Requester ID.
    pub requester: Bdf,
    /// Tag.
    pub tag: Tag,
    /// Address of the DW in I/O space, a multiple of 4.
    pub address: u32,
    /// Byte Enables, bits 3:0.
    pub first_be: u8,
}

/// MRd, MRdLk, MWr and DMWr (`PCIe 5.0 §2.2.7`). The header has 4 DW for addresses from 4 GiB on, and 3 DW below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRequest {
    /// The operation.
    pub op: MemoryOp,
    /// Requester ID.
    pub requester: Bdf,
    /// Tag; not used in a write.
    pub tag: Tag,
    /// The bytes that the request accesses.
    pub span: Span,
}

/// Completion Status (`PCIe 5.0 Table 2-34`). Reserved values are read as Unsupported Request (§2.2.9.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// 000b SC.
    Success,
    /// 001b UR.
    UnsupportedRequest,
    /// 010b CRS.
    ConfigRetry,
    /// 100b CA.
    CompleterAbort,
}

impl Status {
    /// The status in the low three bits of `bits`. Reserved values are read as Unsupported Request.
    pub const fn from_bits(bits: u8) -> Status {
        match bits & 7 {
            0b000 => Status::Success,
            0b010 => Status::ConfigRetry,
            0b100 => Status::CompleterAbort,
            _ => Status::UnsupportedRequest,
        }
    }

    /// The field's three bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Status::Success => 0b000,
            Status::UnsupportedRequest => 0b001,
            Status::ConfigRetry => 0b010,
            Status::CompleterAbort => 0b100,
        }
    }
}

/// Cpl, CplD, CplLk and CplDLk (`PCIe 5.0 §2.2.9`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// True for CplLk and CplDLk, the completions of an MRdLk.
    pub locked: bool,
    /// Completer ID.
    pub completer: Bdf,
    /// Requester ID of the request.
    pub requester: Bdf,
    /// Tag of the request.
    pub tag: Tag,
    /// Completion Status.
    pub status: Status,
    /// BCM, set only by PCI-X completers.
    pub bcm: bool,
    /// Bytes that remain, including this completion's: 1 to 4096 (0 on the wire stands for 4096).
    pub byte_count: u16,
    /// Low seven bits of the address of the completion's first byte.
    pub lower_address: u8,
    /// Length of the data in DW, 1 to 1024; `None` for a completion without data.
    pub length_dw: Option<u16>,
}

impl Completion {
    /// Returns a successful completion without data, with Byte Count 4 as for all requests but reads and AtomicOps.
    pub const fn new(completer: Bdf, requester: Bdf, tag: Tag) -> Completion {
        Completion {
            locked: false,
            completer,
            requester,
            tag,
            status: Status::Success,
            bcm: false,
            byte_count: 4,
            lower_address: 0,
            length_dw: None,
        }
    }

    /// Returns true if this is the last completion of its request (`PCIe 5.0 §2.3.1.1`): it reports an error, has
    /// no data, or has all remaining bytes.
    pub const fn is_last(&self) -> bool {
        let Some(dw) = self.length_dw else { return true };
        let failed = !matches!(self.status, Status::Success);
        failed || dw as u32 * 4 >= (self.lower_address & 3) as u32 + self.byte_count as u32
    }
}

/// The type of a configuration request: type 0 goes to a function on this link, type 1 is routed further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigKind {
    /// Type 0.
    Type0,
    /// Type 1.
    Type1,
}

/// CfgRd and CfgWr (`PCIe 5.0 §2.2.7`): transfer one DW.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigRequest {
    /// Read or write.
    pub op: Access,
    /// Type 0 or type 1.
    pub kind: ConfigKind,
    /// Requester ID.
    pub requester: Bdf,
    /// Tag.
    pub tag: Tag,
    /// The function that the request is for.
    pub completer: Bdf,
    /// Register as a DW number, 0 to 1023 (Extended Register Number and Register Number).
    pub register_dw: u16,
    /// Byte Enables, bits 3:0.
    pub first_be: u8,
}

impl ConfigRequest {
    /// Returns a type 0 request for all four bytes of a register.
    pub const fn new(
        op: Access,
        requester: Bdf,
        tag: Tag,
        completer: Bdf,
        register_dw: u16,
    ) -> ConfigRequest {
        ConfigRequest { op, kind: ConfigKind::Type0, requester, tag, completer, register_dw, first_be: 0xf }
    }
}

/// Routing of a message (`PCIe 5.0 §2.2.8`), the low three bits of Type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageRouting {
    /// 000b: to the root complex.
    ToRootComplex,
    /// 001b: by the address in the header.
    ByAddress,
    /// 010b: by the ID in the header.
    ById,
    /// 011b: broadcast from the root complex.
    Broadcast,
    /// 100b: local, ends at the receiver.
    Local,
    /// 101b: gathered and routed to the root complex.
    Gathered,
    /// 110b, 111b: reserved, ends at the receiver.
    Reserved(u8),
}

impl MessageRouting {
    /// The routing of the low three bits of Type.
    pub const fn from_bits(bits: u8) -> MessageRouting {
        match bits & 7 {
            0b000 => MessageRouting::ToRootComplex,
            0b001 => MessageRouting::ByAddress,
            0b010 => MessageRouting::ById,
            0b011 => MessageRouting::Broadcast,
            0b100 => MessageRouting::Local,
            0b101 => MessageRouting::Gathered,
            reserved => MessageRouting::Reserved(reserved),
        }
    }

    /// The low three bits of Type.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            MessageRouting::ToRootComplex => 0b000,
            MessageRouting::ByAddress => 0b001,
            MessageRouting::ById => 0b010,
            MessageRouting::Broadcast => 0b011,
            MessageRouting::Local => 0b100,
            MessageRouting::Gathered => 0b101,
            MessageRouting::Reserved(bits) => bits & 7,
        }
    }
}

/// Msg and MsgD (`PCIe 5.0 §2.2.8`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Routing.
    pub routing: MessageRouting,
    /// Requester ID.
    pub requester: Bdf,
    /// Tag; not used except in some vendor-defined messages.
    pub tag: Tag,
    /// Message Code (`PCIe 5.0 Appendix F`).
    pub code: u8,
    /// Header bytes 8 to 15: an address, an ID, or what the code defines.
    pub header: [u8; 8],
    /// Length of the data in DW, 1 to 1024; `None` for a message without data.
    pub length_dw: Option<u16>,
}

impl Repr {
    /// A header with default values in the common fields.
    pub const fn new(body: Body) -> Repr {
        Repr {
            tc: TrafficClass(0),
            attr: Attributes::empty(),
            at: AddressType::Untranslated,
            th: None,
            ln: false,
            td: false,
            ep: false,
            body,
        }
    }

    /// Length of the header in bytes: 12 or 16.
    pub const fn header_len(&self) -> usize {
        self.format().header_len()
    }

    /// Number of DWs of data after the header; 0 if the type has no data.
    pub const fn data_dw(&self) -> u32 {
        match &self.body {
            Body::Memory(m) if m.op.is_read() => 0,
            Body::Memory(m) => m.span.length_dw(),
            Body::Atomic(a) => a.length_dw(),
            Body::Completion(c) => opt_dw(c.length_dw),
            Body::Io(IoRequest { op: Access::Read, .. })
            | Body::Config(ConfigRequest { op: Access::Read, .. }) => 0,
            Body::Io(_) | Body::Config(_) => 1,
            Body::Message(m) => opt_dw(m.length_dw),
        }
    }

    /// The bytes that a [`Tlp`](crate::Tlp) keeps, as a range of the [`data_dw`](Self::data_dw) DWs on the wire.
    /// For a write: from the first to the last enabled byte, or one byte if none is enabled. For a completion: the
    /// bytes that it returns. For a message: all bytes.
    pub fn data_lanes(&self) -> Range<usize> {
        let whole = self.data_dw() as usize * 4;
        match &self.body {
            Body::Memory(m) if whole > 0 => {
                let lead = m.span.lead() as usize;
                lead..lead + m.span.byte_count() as usize
            }
            Body::Config(c) if whole > 0 => lanes_of_dw(c.first_be),
            Body::Io(io) if whole > 0 => lanes_of_dw(io.first_be),
            Body::Completion(c) if whole > 0 => {
                // Lower Address determines the byte of the first DW in which the data begins (`PCIe 5.0 §2.3.1.1`).
                let lead = (c.lower_address & 3) as usize;
                lead..whole.min(lead + c.byte_count as usize)
            }
            _ => 0..whole,
        }
    }

    /// Length of the TLP in the transaction layer in bytes: header, data and digest. Prefixes, framing, sequence
    /// number and LCRC do not count.
    pub const fn tlp_len(&self) -> usize {
        self.header_len() + self.data_dw() as usize * 4 + if self.td { 4 } else { 0 }
    }

    /// Requester ID and tag of the transaction that this TLP starts or completes.
    pub const fn transaction(&self) -> (Bdf, Tag) {
        match &self.body {
            Body::Memory(m) => (m.requester, m.tag),
            Body::Io(io) => (io.requester, io.tag),
            Body::Atomic(a) => (a.requester, a.tag),
            Body::Completion(c) => (c.requester, c.tag),
            Body::Config(c) => (c.requester, c.tag),
            Body::Message(m) => (m.requester, m.tag),
        }
    }

    /// Sets the Requester ID and tag of the transaction.
    pub const fn set_transaction(&mut self, requester: Bdf, tag: Tag) {
        let (of, with) = match &mut self.body {
            Body::Memory(m) => (&mut m.requester, &mut m.tag),
            Body::Io(io) => (&mut io.requester, &mut io.tag),
            Body::Atomic(a) => (&mut a.requester, &mut a.tag),
            Body::Completion(c) => (&mut c.requester, &mut c.tag),
            Body::Config(c) => (&mut c.requester, &mut c.tag),
            Body::Message(m) => (&mut m.requester, &mut m.tag),
        };
        (*of, *with) = (requester, tag);
    }
}

fn lanes_of_dw(byte_enables: u8) -> Range<usize> {
    let span = Span::in_dw(0, byte_enables);
    let lead = span.lead() as usize;
    lead..lead + span.byte_count() as usize
}

const fn opt_dw(length: Option<u16>) -> u32 {
    match length {
        Some(dw) => dw as u32,
        None => 0,
    }
}
