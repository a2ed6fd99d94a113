// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam above a root complex, for host programs: a program of a simulated host, such as a driver (straight-line
//! code with [`cpu`](crate::cpu)), a kernel, or another simulator.

use crate::error::{DriverError, HostError};
use device::seam::OutMessage;
use std::any::Any;
use tlp::message::{ASSERT_INTA, DEASSERT_INTA, MessageCodes};
use tlp::{AtomicOp, Bdf, Data, MessageRouting, Time};

/// A host above a root complex. The program issues configuration, memory, I/O and message requests, and gets their
/// results. It receives interrupts in the form of their TLPs. DMA accesses the [`Memory`](crate::memory::Memory) given
/// to its root complex, which may be the program's own memory.
///
/// Sans-IO and asynchronous: requests may be answered in any order, while others are issued. The code that runs the
/// program calls `poll_*` after every `handle` until each returns `None`, and again when the program reports input from
/// outside. If a root port has no room for an output, the outputs after it wait too.
pub trait HostProgram {
    /// Takes an input.
    fn handle(&mut self, now: Time, input: HostInput);

    /// Returns the next output, if any. A returned output counts as accepted.
    fn poll_output(&mut self, now: Time) -> Option<HostOutput>;

    /// Returns the time for the next [`HostInput::Timer`].
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns the result, if the program has ended.
    fn outcome(&self) -> Option<Result<(), DriverError>>;

    /// Describes in one line what the program waits for, if anything.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// ID of an outstanding request, chosen by the host program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostReadId(pub u32);

/// An input to a host program. More kinds may be added.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostInput {
    /// A non-posted request has ended.
    Done {
        /// The request.
        id: HostReadId,
        /// The bytes of a read, the value before an AtomicOp, or nothing for a write; or the error.
        result: Result<Data, HostError>,
    },
    /// An interrupt arrived.
    Interrupt(HostInterrupt),
    /// A device message arrived at the root complex that is not for the function of a root port.
    Message(HostMessage),
    /// The time of `poll_timeout` has come.
    Timer,
}

/// An interrupt in the form of its TLP. The host maps the pin to a vector, or to a line of an interrupt controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HostInterrupt {
    /// A write to the address of message-signalled interrupts: MSI, MSI-X (`PCIe 5.0 §6.1.4`).
    Message {
        /// The function that wrote.
        requester: Bdf,
        /// The address written.
        address: u64,
        /// The DW written; bytes that were not written are zero.
        data: u32,
    },
    /// A wire of a root port has changed its level: INTx (`PCIe 5.0 §2.2.8.1`).
    Wire {
        /// The root port.
        root_port: Bdf,
        /// Sender of the message that changed the wire: the port above the device, or the root port itself for its own
        /// interrupts.
        requester: Bdf,
        /// The wire.
        wire: Wire,
        /// The new level.
        asserted: bool,
    },
}

/// An interrupt wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wire {
    /// INTA.
    A,
    /// INTB.
    B,
    /// INTC.
    C,
    /// INTD.
    D,
}

impl Wire {
    /// INTA to INTD.
    pub const ALL: [Wire; 4] = [Wire::A, Wire::B, Wire::C, Wire::D];

    /// Message Code of Assert_INTx, or of Deassert_INTx (`PCIe 5.0 §2.2.8.1`).
    #[must_use]
    pub const fn message_code(self, asserted: bool) -> u8 {
        (if asserted { ASSERT_INTA } else { DEASSERT_INTA }) + self as u8
    }
}

/// A message that the host receives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostMessage {
    /// Requester ID of the sender.
    pub requester: Bdf,
    /// Routing of the message.
    pub routing: MessageRouting,
    /// Message Code.
    pub code: u8,
    /// Header bytes 8 to 15.
    pub header: [u8; 8],
    /// Data of the message.
    pub data: Data,
}

/// An output of a host program. More kinds may be added; a host counts unknown kinds as Unsupported Requests.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostOutput {
    /// Reads device memory; answered by [`HostInput::Done`].
    MmioRead {
        /// Chosen by the program, unique among its outstanding reads.
        id: HostReadId,
        /// Address of the first byte.
        address: u64,
        /// Bytes, 1 to 4096, not crossing 4 KiB.
        len: u32,
        /// True for an MRdLk: locks the path until an Unlock message (`PCIe 5.0 §6.5`).
        locked: bool,
    },
    /// Writes device memory; posted. 1 to 4096 bytes, not crossing 4 KiB; longer than Max_Payload_Size is split.
    MmioWrite {
        /// Address of the first byte.
        address: u64,
        /// The bytes.
        data: Data,
    },
    /// Writes device memory by a deferrable write (DMWr); answered by [`HostInput::Done`]. 1 to 128 bytes, not
    /// crossing 4 KiB, no more than Max_Payload_Size.
    WriteDeferrable {
        /// Chosen by the program.
        id: HostReadId,
        /// Address of the first byte.
        address: u64,
        /// The bytes.
        data: Data,
    },
    /// An AtomicOp on device memory; answered by [`HostInput::Done`] with the value before.
    Atomic {
        /// Chosen by the program.
        id: HostReadId,
        /// Address, a multiple of the operand's size.
        address: u64,
        /// The operation.
        op: AtomicOp,
        /// The operands, little-endian, in the format of [`DmaAtomic`](device::DmaAtomic).
        operands: Data,
    },
    /// Reads I/O space; answered by [`HostInput::Done`].
    IoRead {
        /// Chosen by the program.
        id: HostReadId,
        /// Address of the first byte.
        address: u32,
        /// Number of bytes: 1 to 4, within one DW.
        len: u32,
    },
    /// Writes I/O space; answered by [`HostInput::Done`].
    IoWrite {
        /// Chosen by the program.
        id: HostReadId,
        /// Address of the first byte.
        address: u32,
        /// The bytes, 1 to 4, within one DW.
        data: Data,
    },
    /// Sends a message; posted. Routing selects the links: `Broadcast` all downstream links, `ById` and `ByAddress`
    /// the link that leads to the target, `Local` the link to the bus of `toward`.
    Message {
        /// For a local message, a function at the other end of the link; otherwise unused.
        toward: Bdf,
        /// The message.
        message: OutMessage,
    },
    /// Reads a configuration register; answered by [`HostInput::Done`] with four bytes.
    ConfigRead {
        /// Chosen by the program.
        id: HostReadId,
        /// The function.
        function: Bdf,
        /// Register as a DW number, 0 to 1023.
        register_dw: u16,
        /// Byte Enables, bits 3:0: which of the four bytes are valid.
        byte_enables: u8,
    },
    /// Writes a configuration register; answered by [`HostInput::Done`].
    ConfigWrite {
        /// Chosen by the program.
        id: HostReadId,
        /// The function.
        function: Bdf,
        /// Register as a DW number, 0 to 1023.
        register_dw: u16,
        /// Byte Enables, bits 3:0.
        byte_enables: u8,
        /// The value.
        value: u32,
    },
    /// Delivers messages of these codes to the program from now on. The root complex always delivers interrupt wires of
    /// its root ports, PME_TO_Ack, Vendor_Defined Type 1, and errors and PMEs that no function handles. Takes no
    /// simulated time. Any other message is an Unsupported Request (`PCIe 5.0 §2.3.1`), except Ignored Messages, which
    /// are dropped.
    TakeMessages(MessageCodes),
    /// A request to the host's model, executed in order with the outputs and in no simulated time. An extension is not
    /// part of the seam: a host that does not know it counts it as an Unsupported Request.
    Extension(Box<dyn Any>),
}

impl HostOutput {
    /// Returns the ID of a non-posted request; `None` for outputs without an answer.
    pub fn id_mut(&mut self) -> Option<&mut HostReadId> {
        match self {
            HostOutput::MmioRead { id, .. }
            | HostOutput::WriteDeferrable { id, .. }
            | HostOutput::Atomic { id, .. }
            | HostOutput::IoRead { id, .. }
            | HostOutput::IoWrite { id, .. }
            | HostOutput::ConfigRead { id, .. }
            | HostOutput::ConfigWrite { id, .. } => Some(id),
            HostOutput::MmioWrite { .. }
            | HostOutput::Message { .. }
            | HostOutput::TakeMessages(_)
            | HostOutput::Extension(_) => None,
        }
    }
}
