// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam: the interface of a device.
//!
//! A device handles transactions, not TLPs: requests come in, operations go out. The same device runs on every host,
//! because the interface does not depend on how transactions are transported. It has five properties:
//!
//! 1. Output is polled **per class**, so that a read without a tag or credit never blocks a completion or an interrupt.
//! 2. Input is **consumed explicitly**: a request's credits return when the device returns its token from
//!    [`Device::poll_taken`]. A slow device therefore stops its sender through flow control.
//! 3. A request is answered once; a token that is never answered becomes a completion timeout at its requester.
//! 4. Functions are separate devices with their own requester IDs.
//! 5. Each transfer selects whether bytes are carried or only counted ([`Data`]).
//!
//! Enums may get further variants, and structures further fields. So a `match` on these types needs a `_` arm, which
//! rejects unknown requests ([`CompletionError::UnsupportedRequest`]), and structures are created by their functions.

use exec::Notifier;
use thiserror::Error;
use tlp::message::MessageCodes;
use tlp::{
    AtomicOp, Attributes, Bdf, Class, Data, Hint, MessageRouting, Mps, Mrrs, Prefix, Prefixes, Span, Time,
    TrafficClass,
};

/// The behaviour of one function. Sans-IO; the driver of the device calls `poll_*` after every `handle`.
pub trait Device {
    /// Takes an input. This call never blocks. The resulting outputs are polled.
    fn handle(&mut self, now: Time, input: Input);

    /// Returns the next output of `class`, if any. A returned output counts as accepted. Polled again after every `handle`,
    /// and whenever the path of the class has room again. `now` is the time of the poll: a device may continue immediately
    /// when one of its outputs was accepted.
    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output>;

    /// Returns which of [`poll_output`](Self::poll_output) and [`poll_taken`](Self::poll_taken) may return something
    /// now; the others would return nothing. This is only an optimization: the driver of the device need not ask, and a
    /// device need not implement it. The answer changes only in calls of this device, and when the device has used its
    /// [`Notifier`].
    fn ready(&self) -> Ready {
        Ready::ALL
    }

    /// Returns the next request that the device has taken: its receive-buffer space returns to the sender.
    fn poll_taken(&mut self) -> Option<Token>;

    /// Returns the time for the next [`Input::Timer`]; a time in the past means immediately. The driver asks this after
    /// every other call, and when the device has used its [`Notifier`].
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns the answers of [`ready`](Self::ready) and [`poll_timeout`](Self::poll_timeout). Only for speed: one call in
    /// place of two. A device need not implement it.
    fn status(&self) -> (Ready, Option<Time>) {
        (self.ready(), self.poll_timeout())
    }

    /// Sets a notifier, which replaces an earlier one. Returns true if the device need not be polled until it notifies.
    /// Such a device shares nothing, or notifies whenever a call of another device may have changed its answers. A
    /// device that returns false is polled whenever another device was called, which costs time if there are many.
    /// Devices of [`shared`](crate::shared) and of [`io`](crate::io) notify automatically.
    fn set_notifier(&mut self, notifier: Notifier) -> bool {
        let _ = notifier;
        false
    }

    /// Sets the number of interrupt vectors of the function, the larger of MSI and MSI-X. This is called before all
    /// other calls, like [`set_sizes`](Self::set_sizes).
    fn set_vectors(&mut self, vectors: u16) {
        let _ = vectors;
    }

    /// Sets Max_Payload_Size and Max_Read_Request_Size of the function (`PCIe 5.0 §7.5.3.4`), at which its writes and
    /// reads are split. This is called before all other calls, and then whenever software or a reset has changed one of
    /// the values. After a reset, this call is before the [`Input::Reset`]. A virtual function has the sizes of its
    /// physical function.
    fn set_sizes(&mut self, mps: Mps, mrrs: Mrrs) {
        let _ = (mps, mrrs);
    }

    /// Sets whether the function may send requests (Bus Master Enable, and D0). If not, its writes and interrupts are
    /// dropped and counted, and its reads fail. Called like [`set_sizes`](Self::set_sizes).
    fn set_bus_master(&mut self, may_send: bool) {
        let _ = may_send;
    }

    /// Returns the Message Codes that the device accepts. The endpoint itself handles Set_Slot_Power_Limit, PME_Turn_Off,
    /// PM_Active_State_Nak and, for a legacy endpoint, Unlock. Any other message is an Unsupported Request (`PCIe 5.0
    /// §2.3.1`), except messages that may be ignored ([`tlp::message::is_ignored`]).
    fn messages(&self) -> MessageCodes {
        MessageCodes::NONE
    }

    /// Describes in one line what the device waits for, if anything.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// A set of polls: for output of each class, and for taken requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready(u8);

impl Ready {
    /// No poll.
    pub const NONE: Ready = Ready(0);
    /// Every poll.
    pub const ALL: Ready = Ready(0b1111);
    /// The polls for output of every class.
    pub const OUTPUTS: Ready = Ready(0b0111);
    /// The poll for taken requests, and for the credits that they return.
    pub const TAKEN: Ready = Ready(0b1000);

    /// The poll for output of `class`.
    pub const fn output(class: Class) -> Ready {
        Ready(1 << class as u8)
    }

    /// The polls in either set.
    #[must_use]
    pub const fn or(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }

    /// The polls for output: bits by [`Class::index`].
    #[must_use]
    pub const fn outputs(self) -> u8 {
        self.0 & 0b0111
    }

    /// True if all polls of `other` are in this set.
    #[must_use]
    pub const fn contains(self, other: Ready) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any poll of `other` is in this set.
    pub const fn meets(self, other: Ready) -> bool {
        self.0 & other.0 != 0
    }

    /// This set without the polls of `other`.
    pub const fn without(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }

    /// The polls of `other` if `condition` holds, otherwise the empty set.
    pub const fn when(condition: bool, other: Ready) -> Ready {
        if condition { other } else { Ready::NONE }
    }

    /// One bit for each poll: outputs by [`Class::index`], then taken requests.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with these [`bits`](Self::bits).
    pub const fn from_bits(bits: u8) -> Ready {
        Ready(bits & Ready::ALL.0)
    }
}

/// ID of a request until it is answered. Unique among the outstanding requests of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u32);

/// ID of a DMA read or atomic of a device until it ends; chosen by the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DmaId(pub u32);

pub use config::BarIndex;

/// An input to a device.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// A request to this function.
    Request(Request),
    /// A DMA read or atomic has ended.
    DmaDone {
        /// The read or AtomicOp that has ended.
        id: DmaId,
        /// All bytes of a read in order, the value before an AtomicOp, or the error.
        result: Result<Data, DmaError>,
    },
    /// The time of `poll_timeout` has come.
    Timer,
    /// The function was reset: all outstanding transactions are void, and produce no further input.
    Reset(ResetKind),
}

/// A request to a function.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The token to take and answer the request.
    pub token: Token,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes.
    pub attr: Attributes,
    /// The requested operation.
    pub op: RequestOp,
}

impl Request {
    /// Returns a request of TC0 without attributes, for tests of devices.
    pub fn new(token: Token, op: RequestOp) -> Request {
        Request::with(token, TrafficClass::default(), Attributes::empty(), op)
    }

    /// Returns a request of this Traffic Class, with these attributes.
    pub const fn with(token: Token, tc: TrafficClass, attr: Attributes, op: RequestOp) -> Request {
        Request { token, tc, attr, op }
    }
}

/// The operation of a request. All except `Write` and `Message` are answered by [`Output::Complete`].
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestOp {
    /// A read of a BAR: MRd, MRdLk, or IORd of an I/O BAR.
    Read {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR of the first enabled byte.
        offset: u64,
        /// The requested bytes, as addressed on the wire (for byte enables and zero-length reads). The answer has
        /// `span.byte_count()` bytes.
        span: Span,
        /// True for an MRdLk: the path is locked until an Unlock message arrives (`PCIe 5.0 §6.5`). Only legacy
        /// endpoints get this request.
        locked: bool,
    },
    /// A memory write of a BAR; posted, not answered.
    Write {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR of the first enabled byte.
        offset: u64,
        /// The written bytes, as addressed on the wire.
        span: Span,
        /// `span.byte_count()` bytes.
        data: Data,
    },
    /// A non-posted write of a BAR, answered by a completion without data: IOWr of an I/O BAR, or DMWr.
    WriteNonPosted {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR of the first enabled byte.
        offset: u64,
        /// The written bytes, as addressed on the wire.
        span: Span,
        /// `span.byte_count()` bytes.
        data: Data,
        /// True for a DMWr, which may be answered with [`CompletionError::Retry`].
        deferrable: bool,
    },
    /// An AtomicOp on a BAR, answered with the value before. Only functions that declare in configuration space that
    /// they complete AtomicOps of this size get this request.
    Atomic {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR, a multiple of the operand's size.
        offset: u64,
        /// The operation; [`AtomicOp::apply`] executes it.
        op: AtomicOp,
        /// The operands, little-endian, all of one size; [`AtomicOp::operands`] is their number.
        operands: Data,
    },
    /// A read of one of the function's own configuration registers ([`config::register::Register::of_device`]), answered
    /// with four bytes.
    ConfigRead {
        /// DW number of the register.
        register_dw: u16,
        /// Byte Enables of the requested bytes, bits 3:0; the answer has all four bytes.
        byte_enables: u8,
    },
    /// A write of one of the function's own configuration registers, answered without data.
    ConfigWrite {
        /// DW number of the register.
        register_dw: u16,
        /// Byte Enables of the written bytes, bits 3:0.
        byte_enables: u8,
        /// The value, each byte in its lane.
        value: u32,
    },
    /// A message; posted, not answered.
    Message {
        /// Requester ID of the sender.
        requester: Bdf,
        /// Routing of the message.
        routing: MessageRouting,
        /// Message Code.
        code: u8,
        /// Header bytes 8 to 15.
        header: [u8; 8],
        /// Data of the message.
        data: Data,
    },
}

impl RequestOp {
    /// True for posted operations, which are not answered.
    pub const fn is_posted(&self) -> bool {
        matches!(self, RequestOp::Write { .. } | RequestOp::Message { .. })
    }
}

/// An output of a device. `Write`, `Interrupt`, `Intx`, `Pme` and `Message` are posted; `Read` and `Atomic` are
/// non-posted. `Complete` is of class completion. `Abandon` is also of this class; it means that there will be no
/// completion.
// The tag has its own word. If the tag were in a niche (a byte of a hint), each move of an output would be split into
// pieces that are not aligned with its fields, and reading these fields would stall.
#[derive(Debug)]
#[non_exhaustive]
#[repr(u64)]
pub enum Output {
    /// Writes host memory.
    Write(DmaWrite),
    /// Raises an interrupt vector.
    Interrupt {
        /// Vector number, from zero.
        vector: u16,
    },
    /// Sets the level of the function's INTx, on the pin of Interrupt Pin (`PCIe 5.0 §6.1.2`). A message is sent if this
    /// changes the level of the pin.
    Intx {
        /// True while the function requests service.
        asserted: bool,
    },
    /// Requests attention, for example to be woken (`PCIe 5.0 §5.3.3`): sets PME_Status, and sends a PM_PME message if
    /// PME_En is set, otherwise when software sets it. The message is not repeated while PME_Status stays set. Has no
    /// effect in a function whose Power Management capability has no PME.
    Pme,
    /// Sends a message.
    Message(OutMessage),
    /// Reads host memory; answered by [`Input::DmaDone`].
    Read(DmaRead),
    /// An AtomicOp on host memory; answered by [`Input::DmaDone`] with the value before.
    Atomic(DmaAtomic),
    /// Answers a request, once.
    Complete {
        /// The request.
        token: Token,
        /// `span.byte_count()` bytes for a read, the value before an AtomicOp, empty for a write; or the error.
        result: Result<Data, CompletionError>,
    },
    /// Abandons a request that will never be answered, because its requester has timed out. Its resources are released.
    /// Of class completion.
    Abandon {
        /// The request.
        token: Token,
    },
}

/// Options of a transfer in addition to its address and bytes; empty by default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DmaOptions {
    /// Attributes; attributes that the function may not set are cleared.
    pub attr: Attributes,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Processing hint (TPH, `PCIe 5.0 §2.2.7.1`), for memory requests.
    pub hint: Option<Hint>,
    /// TLP prefixes for every TLP of the transfer.
    pub prefixes: Prefixes,
}

impl DmaOptions {
    /// Returns options with only a Traffic Class.
    pub fn tc(tc: TrafficClass) -> DmaOptions {
        DmaOptions { tc, ..DmaOptions::default() }
    }

    /// Sets the attributes.
    #[must_use]
    pub fn with_attr(self, attr: Attributes) -> DmaOptions {
        DmaOptions { attr, ..self }
    }

    /// Sets a processing hint.
    #[must_use]
    pub fn with_hint(self, hint: Hint) -> DmaOptions {
        DmaOptions { hint: Some(hint), ..self }
    }

    /// Replaces the prefixes.
    #[must_use]
    pub fn with_prefixes(self, prefixes: Prefixes) -> DmaOptions {
        DmaOptions { prefixes, ..self }
    }

    /// Replaces the prefixes by a PASID prefix (20 bits, `PCIe 5.0 §6.20`), which selects the address space of a process.
    #[must_use]
    pub fn with_pasid(self, pasid: u32) -> DmaOptions {
        let prefixes = Prefixes::new(&[Prefix::pasid(pasid, false, false)]).unwrap_or_default();
        DmaOptions { prefixes, ..self }
    }
}

/// A write of host memory, of any length; the endpoint splits it.
#[derive(Debug)]
#[non_exhaustive]
pub struct DmaWrite {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes.
    pub data: Data,
    /// Options of the write.
    pub options: DmaOptions,
}

impl DmaWrite {
    /// Returns a write without options.
    pub fn new(address: u64, data: Data) -> DmaWrite {
        DmaWrite { address, data, options: DmaOptions::default() }
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> DmaWrite {
        DmaWrite { options, ..self }
    }
}

/// A read of host memory, of any length; the endpoint splits and reassembles it.
#[derive(Debug)]
#[non_exhaustive]
pub struct DmaRead {
    /// Chosen by the device, unique among its outstanding reads and atomics.
    pub id: DmaId,
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes; zero is a zero-length read, which flushes posted writes.
    pub len: u32,
    /// True if the bytes are requested, false if only their number is.
    pub carry: bool,
    /// Options of the read.
    pub options: DmaOptions,
}

impl DmaRead {
    /// Returns a read of bytes, without options.
    pub fn new(id: DmaId, address: u64, len: u32) -> DmaRead {
        DmaRead { id, address, len, carry: true, options: DmaOptions::default() }
    }

    /// Requests only the number of bytes.
    #[must_use]
    pub fn counted(self) -> DmaRead {
        DmaRead { carry: false, ..self }
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> DmaRead {
        DmaRead { options, ..self }
    }
}

/// An AtomicOp on host memory (`PCIe 5.0 §6.15`).
#[derive(Debug)]
#[non_exhaustive]
pub struct DmaAtomic {
    /// Chosen by the device, unique among its outstanding reads and atomics.
    pub id: DmaId,
    /// Address, a multiple of the operand's size.
    pub address: u64,
    /// The operation.
    pub op: AtomicOp,
    /// The operands, little-endian: one of 4 or 8 B, or two of 4, 8 or 16 B for a CAS (compare, then swap).
    pub operands: Data,
    /// Options of the AtomicOp.
    pub options: DmaOptions,
}

impl DmaAtomic {
    /// Returns an AtomicOp without options.
    pub fn new(id: DmaId, address: u64, op: AtomicOp, operands: Data) -> DmaAtomic {
        DmaAtomic { id, address, op, operands, options: DmaOptions::default() }
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> DmaAtomic {
        DmaAtomic { options, ..self }
    }
}

/// A message that a function or the host sends (`PCIe 5.0 §2.2.8`). The sender's endpoint or root complex fills in its ID.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OutMessage {
    /// Routing.
    pub routing: MessageRouting,
    /// Message Code.
    pub code: u8,
    /// Header bytes 8 to 15.
    pub header: [u8; 8],
    /// Data of the message, a multiple of 4 B, at most Max_Payload_Size.
    pub data: Data,
    /// Options of the message; a hint is ignored.
    pub options: DmaOptions,
}

impl OutMessage {
    /// Returns a message without data, with this routing and Message Code.
    pub fn new(routing: MessageRouting, code: u8) -> OutMessage {
        OutMessage { routing, code, header: [0; 8], data: Data::NONE, options: DmaOptions::default() }
    }

    /// Sets header bytes 8 to 15.
    #[must_use]
    pub fn with_header(self, header: [u8; 8]) -> OutMessage {
        OutMessage { header, ..self }
    }

    /// Sets the data.
    #[must_use]
    pub fn with_data(self, data: Data) -> OutMessage {
        OutMessage { data, ..self }
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> OutMessage {
        OutMessage { options, ..self }
    }
}

/// Error of a request (`PCIe 6.0 §2.2.9.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CompletionError {
    /// UR: the function does not support the request.
    #[error("the device does not support the request")]
    UnsupportedRequest,
    /// CA: the function supports the request, but cannot execute it.
    #[error("the device aborted the request")]
    CompleterAbort,
    /// CRS: a deferrable write must be retried later; any other request is aborted (CA).
    #[error("the function is not ready")]
    Retry,
}

/// Error of a DMA read or atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DmaError {
    /// Completed with UR.
    #[error("the completer does not support the request")]
    UnsupportedRequest,
    /// Completed with CA.
    #[error("the completer aborted the request")]
    CompleterAbort,
    /// A completion was poisoned (EP).
    #[error("the data arrived poisoned (EP is set)")]
    Poisoned,
    /// No completion arrived in time (`PCIe 5.0 §2.8`).
    #[error("no completion came in time")]
    CompletionTimeout,
    /// Completions did not match the request.
    #[error("a completion does not match the request")]
    Malformed,
    /// Bus Master Enable is clear: the function may not issue requests.
    #[error("Bus Master Enable is clear")]
    BusMasterDisabled,
    /// The transfer is longer than an endpoint allows.
    #[error("the transfer is longer than the endpoint's limit")]
    TooLong,
    /// An atomic's operands have an illegal size, or its address is not a multiple of it (`PCIe 5.0 §2.2.7`).
    #[error("invalid operand size, or an address that is not a multiple of it")]
    BadAtomic,
    /// AtomicOp Requester Enable is clear (`PCIe 5.0 §7.5.3.16`).
    #[error("AtomicOp Requester Enable is clear")]
    AtomicsDisabled,
    /// The link went down before the request was completed (`PCIe 5.0 §2.9.1`).
    #[error("the link went down")]
    LinkDown,
    /// The function is not in D0, the only state in which it may issue requests (`PCIe 5.0 §5.3.1`).
    #[error("the function is not in D0")]
    NotInD0,
    /// The function has no such interrupt vector, neither by MSI nor by MSI-X.
    #[error("the function has no such interrupt vector")]
    NoSuchVector,
}

/// Kind of a function's reset (`PCIe 5.0 §6.6`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResetKind {
    /// Power-on or PERST#.
    Fundamental,
    /// Hot reset through the link.
    Hot,
    /// Reset of this function only: Function Level Reset, or the transition from D3hot to D0 of a function without
    /// No_Soft_Reset (`PCIe 5.0 §5.3.1.4`).
    FunctionLevel,
}
