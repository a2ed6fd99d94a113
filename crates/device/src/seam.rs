// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam: what a device sees, and what it may do.
//!
//! A device sees transactions, not TLPs: requests come in, operations go out. The same device runs on every host
//! because nothing here says what carries the transactions. Five properties hold:
//!
//! 1. Output is polled **per class**, so that a read without a tag or credit never blocks a completion or an interrupt.
//! 2. Input is **consumed explicitly**: a request's credits return when the device hands its token to
//!    [`Device::poll_taken`], so a slow device pushes back through flow control.
//! 3. A request is answered once; a token that is never answered becomes a completion timeout at its requester.
//! 4. Functions are separate devices with their own requester IDs.
//! 5. Whether bytes are carried or only counted is chosen per transfer ([`Data`]).
//!
//! What passes it may grow: enums get further variants, structures further fields. So a `match` on them has a `_`, which
//! refuses a request that it does not know ([`CompletionError::UnsupportedRequest`]), and structures are made by their
//! functions.

use exec::Notifier;
use thiserror::Error;
use tlp::message::MessageCodes;
use tlp::{
    AtomicOp, Attributes, Bdf, Class, Data, Hint, MessageRouting, Mps, Mrrs, Prefix, Prefixes, Span, Time,
    TrafficClass,
};

/// A device: one function's behaviour. Sans-IO; whoever drives it calls `poll_*` after every `handle`.
pub trait Device {
    /// Takes an input. Never blocks; what it leads to is polled.
    fn handle(&mut self, now: Time, input: Input);

    /// The next output of `class`, if there is one. Polled again after every `handle`, and whenever the path of that
    /// class has room again; an output that is polled is accepted. `now` is the time of the poll: a device may go on at
    /// once where an output of its own was accepted.
    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output>;

    /// Which of [`poll_output`](Self::poll_output) and [`poll_taken`](Self::poll_taken) may find something now; what it
    /// leaves out would find nothing, and nothing is lost where it is not asked. For speed alone: whoever drives the
    /// device need not ask, and a device need not say. Changes only in calls of this device, and where the device has
    /// used its [`Notifier`].
    fn ready(&self) -> Ready {
        Ready::ALL
    }

    /// The next request that the device has taken: its receive-buffer space returns to the sender.
    fn poll_taken(&mut self) -> Option<Token>;

    /// When to hand it [`Input::Timer`] next; a time that has passed means at once. Asked after every other call, and
    /// when the device has used its [`Notifier`].
    fn poll_timeout(&self) -> Option<Time>;

    /// Hands it a notifier, in place of an earlier one. True if the device may be left alone until it notifies: it notifies
    /// whenever a call of another device may have changed its own answers, or shares nothing. A device that returns false is
    /// asked whenever another device was called, which costs time if there are many. Devices of
    /// [`shared`](crate::shared) and all of [`io`](crate::io) notify by themselves.
    fn set_notifier(&mut self, notifier: Notifier) -> bool {
        let _ = notifier;
        false
    }

    /// Tells it how many interrupt vectors its function has, from zero on: those of MSI or MSI-X, whichever has more.
    /// Called before anything else, as [`set_sizes`](Self::set_sizes) is.
    fn set_vectors(&mut self, vectors: u16) {
        let _ = vectors;
    }

    /// Tells it Max_Payload_Size and Max_Read_Request_Size of its function (`PCIe 5.0 §7.5.3.4`), in bytes: at which its
    /// writes and reads are split. Called before anything else, then whenever software or a reset has changed either, before
    /// the [`Input::Reset`]. A virtual function has those of its physical function.
    fn set_sizes(&mut self, mps: Mps, mrrs: Mrrs) {
        let _ = (mps, mrrs);
    }

    /// Tells it whether its function may send requests (Bus Master Enable, and D0): where not, its writes and interrupts are lost and
    /// counted, and its reads fail. Called as [`set_sizes`](Self::set_sizes) is.
    fn set_bus_master(&mut self, may_send: bool) {
        let _ = may_send;
    }

    /// The Message Codes that it takes, beside those that the endpoint deals with for it: Set_Slot_Power_Limit, PME_Turn_Off,
    /// PM_Active_State_Nak, and Unlock, which a legacy endpoint is handed. Any other message is an Unsupported Request
    /// (`PCIe 5.0 §2.3.1`), but for those that everybody may ignore ([`tlp::message::is_ignored`]).
    fn messages(&self) -> MessageCodes {
        MessageCodes::NONE
    }

    /// One line on what it waits for, if anything.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// A set of questions to a device: for output of each class, and for requests taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready(u8);

impl Ready {
    /// No question.
    pub const NONE: Ready = Ready(0);
    /// Every question.
    pub const ALL: Ready = Ready(0b1111);
    /// For output of every class.
    pub const OUTPUTS: Ready = Ready(0b0111);
    /// The question for requests taken, or for the credits that these return.
    pub const TAKEN: Ready = Ready(0b1000);

    /// The question for output of `class`.
    pub const fn output(class: Class) -> Ready {
        Ready(1 << class as u8)
    }

    /// The questions in either set.
    #[must_use]
    pub const fn or(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }

    /// The classes of output that are asked for: bits by [`Class::index`].
    #[must_use]
    pub const fn outputs(self) -> u8 {
        self.0 & 0b0111
    }

    /// True where all questions of `other` are among these.
    #[must_use]
    pub const fn contains(self, other: Ready) -> bool {
        self.0 & other.0 == other.0
    }

    /// True where any question of `other` is among these.
    pub const fn meets(self, other: Ready) -> bool {
        self.0 & other.0 != 0
    }

    /// These questions without those of `other`.
    pub const fn without(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }

    /// The questions of `other` where `condition` holds, else none.
    pub const fn when(condition: bool, other: Ready) -> Ready {
        if condition { other } else { Ready::NONE }
    }

    /// One bit for each question: outputs by [`Class::index`], then requests taken.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The questions of these [`bits`](Self::bits).
    pub const fn from_bits(bits: u8) -> Ready {
        Ready(bits & Ready::ALL.0)
    }
}

/// Names a request until it is answered. Unique among the requests of an endpoint that are under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u32);

/// Names a DMA read or atomic of a device until it ends; chosen by the device.
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
    /// The time that `poll_timeout` named has come.
    Timer,
    /// The function was reset: everything under way is void, and none of it will be heard of again.
    Reset(ResetKind),
}

/// A request to a function.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The token by which it is taken and answered.
    pub token: Token,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes.
    pub attr: Attributes,
    /// The operation that is asked for.
    pub op: RequestOp,
}

impl Request {
    /// A request of TC0 without attributes, for tests of devices.
    pub fn new(token: Token, op: RequestOp) -> Request {
        Request::with(token, TrafficClass::default(), Attributes::empty(), op)
    }

    /// A request of this Traffic Class, with these attributes.
    pub const fn with(token: Token, tc: TrafficClass, attr: Attributes, op: RequestOp) -> Request {
        Request { token, tc, attr, op }
    }
}

/// The operation of a request. [`Output::Complete`] answers all but `Write` and `Message`.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestOp {
    /// A read of a BAR: MRd, MRdLk, or IORd of an I/O BAR.
    Read {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR of the first enabled byte.
        offset: u64,
        /// The bytes asked for, as addressed on the wire (for byte enables and zero-length reads);
        /// `span.byte_count()` bytes answer it.
        span: Span,
        /// True for an MRdLk: the path is locked until an Unlock message comes (`PCIe 5.0 §6.5`). Only legacy
        /// endpoints see one.
        locked: bool,
    },
    /// A memory write of a BAR; posted, not answered.
    Write {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR of the first enabled byte.
        offset: u64,
        /// The bytes named, as addressed on the wire.
        span: Span,
        /// `span.byte_count()` bytes.
        data: Data,
    },
    /// A write of a BAR that is answered, by a completion without data: IOWr of an I/O BAR, or DMWr.
    WriteNonPosted {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR of the first enabled byte.
        offset: u64,
        /// The bytes named, as addressed on the wire.
        span: Span,
        /// `span.byte_count()` bytes.
        data: Data,
        /// True for a DMWr: [`CompletionError::Retry`] may answer it.
        deferrable: bool,
    },
    /// An AtomicOp on a BAR; the value that was there before answers it. Only functions whose configuration space says
    /// that they complete AtomicOps of this size see one.
    Atomic {
        /// BAR number.
        bar: BarIndex,
        /// Offset in the BAR, a multiple of the operand's size.
        offset: u64,
        /// The operation; [`AtomicOp::apply`] carries it out.
        op: AtomicOp,
        /// The operands, little-endian: as many as [`AtomicOp::operands`] says, all of one size.
        operands: Data,
    },
    /// A read of a configuration register that the function declares as its own ([`config::register::Register::of_device`]); four bytes
    /// answer it.
    ConfigRead {
        /// DW number of the register.
        register_dw: u16,
        /// Byte Enables of the bytes that are wanted, bits 3:0; all four are answered.
        byte_enables: u8,
    },
    /// A write of such a register, which is answered without data.
    ConfigWrite {
        /// DW number of the register.
        register_dw: u16,
        /// Byte Enables of the bytes that are written, bits 3:0.
        byte_enables: u8,
        /// The value, each byte in its lane.
        value: u32,
    },
    /// A message; posted, not answered.
    Message {
        /// Requester ID of its sender.
        requester: Bdf,
        /// Its routing.
        routing: MessageRouting,
        /// Message Code.
        code: u8,
        /// Header bytes 8 to 15.
        header: [u8; 8],
        /// Its data.
        data: Data,
    },
}

impl RequestOp {
    /// True for operations that nothing answers.
    pub const fn is_posted(&self) -> bool {
        matches!(self, RequestOp::Write { .. } | RequestOp::Message { .. })
    }
}

/// An output of a device. Posted are `Write`, `Interrupt`, `Intx`, `Pme` and `Message`; non-posted are `Read` and
/// `Atomic`; of class completion are `Complete`, and `Abandon` where there will be no completion.
// The tag has a word of its own: in a niche (a byte of a hint) it would cut each move of an output into pieces that
// do not line up with its fields, and reading these back stalls.
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
    /// Sets the level of the function's INTx, as its Interrupt Pin names it (`PCIe 5.0 §6.1.2`). A message is sent
    /// where that changes the level of the pin.
    Intx {
        /// True while the function asks for service.
        asserted: bool,
    },
    /// Asks for attention, such as to be woken (`PCIe 5.0 §5.3.3`): sets PME_Status, and sends a PM_PME message if
    /// PME_En is set, else when software sets it. The message is not sent again while PME_Status stays set. Has no
    /// effect in a function whose Power Management capability has no PME.
    Pme,
    /// Sends a message.
    Message(OutMessage),
    /// Reads host memory; answered by [`Input::DmaDone`].
    Read(DmaRead),
    /// An AtomicOp on host memory; answered by [`Input::DmaDone`] with the value that was there before.
    Atomic(DmaAtomic),
    /// Answers a request, once.
    Complete {
        /// The request.
        token: Token,
        /// `span.byte_count()` bytes for a read, the value before an AtomicOp, none for a write; or the error.
        result: Result<Data, CompletionError>,
    },
    /// A request that nobody will ever answer: its requester has timed out, and what it takes here is given back. Of class
    /// completion.
    Abandon {
        /// The request.
        token: Token,
    },
}

/// Options of a transfer, besides its address and bytes; by default none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DmaOptions {
    /// Attributes; those that the function may not set are left out.
    pub attr: Attributes,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Processing hint (TPH, `PCIe 5.0 §2.2.7.1`), of memory requests.
    pub hint: Option<Hint>,
    /// TLP prefixes, of every TLP of the transfer.
    pub prefixes: Prefixes,
}

impl DmaOptions {
    /// Nothing but a Traffic Class.
    pub fn tc(tc: TrafficClass) -> DmaOptions {
        DmaOptions { tc, ..DmaOptions::default() }
    }

    /// These options with other attributes.
    #[must_use]
    pub fn with_attr(self, attr: Attributes) -> DmaOptions {
        DmaOptions { attr, ..self }
    }

    /// These options with a processing hint.
    #[must_use]
    pub fn with_hint(self, hint: Hint) -> DmaOptions {
        DmaOptions { hint: Some(hint), ..self }
    }

    /// These options with these prefixes, and no others.
    #[must_use]
    pub fn with_prefixes(self, prefixes: Prefixes) -> DmaOptions {
        DmaOptions { prefixes, ..self }
    }

    /// These options in the address space of a process: with a PASID prefix (20 bits, `PCIe 5.0 §6.20`), and no others.
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
    /// Its options.
    pub options: DmaOptions,
}

impl DmaWrite {
    /// A write without options.
    pub fn new(address: u64, data: Data) -> DmaWrite {
        DmaWrite { address, data, options: DmaOptions::default() }
    }

    /// This write with these options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> DmaWrite {
        DmaWrite { options, ..self }
    }
}

/// A read of host memory, of any length; the endpoint splits and reassembles it.
#[derive(Debug)]
#[non_exhaustive]
pub struct DmaRead {
    /// Chosen by the device, unique among its reads and atomics under way.
    pub id: DmaId,
    /// Address of the first byte.
    pub address: u64,
    /// Bytes; zero is a zero-length read, which flushes posted writes.
    pub len: u32,
    /// True where the bytes are wanted, false where only their number is.
    pub carry: bool,
    /// Its options.
    pub options: DmaOptions,
}

impl DmaRead {
    /// A read of bytes, without options.
    pub fn new(id: DmaId, address: u64, len: u32) -> DmaRead {
        DmaRead { id, address, len, carry: true, options: DmaOptions::default() }
    }

    /// This read, of which only the number of bytes is wanted.
    #[must_use]
    pub fn counted(self) -> DmaRead {
        DmaRead { carry: false, ..self }
    }

    /// This read with these options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> DmaRead {
        DmaRead { options, ..self }
    }
}

/// An AtomicOp on host memory (`PCIe 5.0 §6.15`).
#[derive(Debug)]
#[non_exhaustive]
pub struct DmaAtomic {
    /// Chosen by the device, unique among its reads and atomics under way.
    pub id: DmaId,
    /// Address, a multiple of the operand's size.
    pub address: u64,
    /// The operation.
    pub op: AtomicOp,
    /// The operands, little-endian: one of 4 or 8 B, or two of 4, 8 or 16 B for a CAS (compare, then swap).
    pub operands: Data,
    /// Its options.
    pub options: DmaOptions,
}

impl DmaAtomic {
    /// An AtomicOp without options.
    pub fn new(id: DmaId, address: u64, op: AtomicOp, operands: Data) -> DmaAtomic {
        DmaAtomic { id, address, op, operands, options: DmaOptions::default() }
    }

    /// This AtomicOp with these options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> DmaAtomic {
        DmaAtomic { options, ..self }
    }
}

/// A message that a function or the host sends (`PCIe 5.0 §2.2.8`). The ID of its sender is put in by whoever sends it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OutMessage {
    /// Routing.
    pub routing: MessageRouting,
    /// Message Code.
    pub code: u8,
    /// Header bytes 8 to 15.
    pub header: [u8; 8],
    /// Its data, a multiple of 4 B and no more than Max_Payload_Size.
    pub data: Data,
    /// Its options; a hint has no meaning.
    pub options: DmaOptions,
}

impl OutMessage {
    /// A message without data, of this routing and Message Code.
    pub fn new(routing: MessageRouting, code: u8) -> OutMessage {
        OutMessage { routing, code, header: [0; 8], data: Data::NONE, options: DmaOptions::default() }
    }

    /// This message with these header bytes 8 to 15.
    #[must_use]
    pub fn with_header(self, header: [u8; 8]) -> OutMessage {
        OutMessage { header, ..self }
    }

    /// This message with data.
    #[must_use]
    pub fn with_data(self, data: Data) -> OutMessage {
        OutMessage { data, ..self }
    }

    /// This message with these options.
    #[must_use]
    pub fn with_options(self, options: DmaOptions) -> OutMessage {
        OutMessage { options, ..self }
    }
}

/// Why a request was not served (`PCIe 6.0 §2.2.9.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CompletionError {
    /// UR: the function does not know such a request.
    #[error("the device does not support the request")]
    UnsupportedRequest,
    /// CA: the function knows it and cannot serve it.
    #[error("the device aborted the request")]
    CompleterAbort,
    /// CRS: a deferrable write is to be tried again later; any other request is aborted (CA).
    #[error("the function is not ready")]
    Retry,
}

/// Why a DMA read or atomic has no bytes.
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
    #[error("the data came poisoned")]
    Poisoned,
    /// No completion came in time (`PCIe 5.0 §2.8`).
    #[error("no completion came in time")]
    CompletionTimeout,
    /// Completions did not fit the request.
    #[error("the completions do not fit the request")]
    Malformed,
    /// Bus Master Enable is clear: the function may not issue requests.
    #[error("Bus Master Enable is clear")]
    BusMasterDisabled,
    /// The transfer is longer than an endpoint allows.
    #[error("the transfer is longer than an endpoint takes")]
    TooLong,
    /// An atomic's operands are of no legal size, or its address is no multiple of it (`PCIe 5.0 §2.2.7`).
    #[error("the operand's size, or its address, is not legal")]
    BadAtomic,
    /// AtomicOp Requester Enable is clear (`PCIe 5.0 §7.5.3.16`).
    #[error("AtomicOp Requester Enable is clear")]
    AtomicsDisabled,
    /// The link went down while it was under way (`PCIe 5.0 §2.9.1`).
    #[error("the link went down")]
    LinkDown,
    /// The function is not in D0, the only state in which it may issue requests (`PCIe 5.0 §5.3.1`).
    #[error("the function is not in D0")]
    NotInD0,
    /// The function has no such interrupt vector, neither by MSI nor by MSI-X.
    #[error("the function has no such interrupt vector")]
    NoSuchVector,
}

/// How a function was reset (`PCIe 5.0 §6.6`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResetKind {
    /// Power-on or PERST#.
    Fundamental,
    /// Through the link.
    Hot,
    /// This function alone: Function Level Reset, or the way from D3hot to D0 of a function without No_Soft_Reset
    /// (`PCIe 5.0 §5.3.1.4`).
    FunctionLevel,
}
