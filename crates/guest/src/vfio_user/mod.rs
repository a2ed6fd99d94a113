// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's side of vfio-user: a state machine that turns bytes into events.
//!
//! A [`Session`] serves one client. The caller passes it bytes from the socket ([`Session::receive`]), polls for events
//! ([`Session::poll`]), completes them in any order ([`Session::complete`]), and sends its replies
//! ([`Session::outgoing`]). The session itself answers commands that only concern the protocol. The session opens no
//! files and reads no clock.
//!
//! All commands that clients send are implemented, except migration and dirty pages, which are refused with `ENOTSUP`.
//! All input is checked. A wrong command is refused with the protocol's error and reported as [`Event::Refused`]. An
//! error that makes the stream itself unreliable (a wrong size or type, a reply to no request, an unsupported version)
//! ends the session: [`Event::HangUp`] comes once, as the last event.

mod check;
mod dma;
mod irqs;
mod maps;
mod refusal;
mod regions;
mod session;
mod stream;
mod version;
mod wire;

pub use dma::{Dma, DmaError, MAX_DMA};
pub use irqs::{IRQS, Irq, IrqChange, IrqEvent};
pub use maps::{DmaAccess, DmaMap};
pub use refusal::{HangUp, Legal, Refusal, VersionError};
pub use regions::{REGIONS, Region, region};
pub use rustix::io::Errno;
pub use session::{Event, MAX_PENDING, Session, Token};
pub use wire::{command, command_name};

/// Granularity of maps in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Maximum number of bytes that a client may map: several such clients fit into the address space of a
/// process.
pub const MAX_MAPPED_BYTES: u64 = 1 << 42;

/// Maximum number of descriptors per message: the limit of QEMU.
pub const MAX_FDS: usize = 16;

/// Regions, interrupts and limits of a device, as its client sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The regions, by their index: six BARs, ROM, configuration space, VGA ([`region`]).
    pub regions: [Region; REGIONS],
    /// Number of interrupts of each type, by [`Irq`].
    pub irqs: [u32; IRQS],
    /// Maximum number of bytes of one access or DMA message; at most [`Shape::MAX_TRANSFER`].
    pub max_transfer: u32,
    /// Maximum number of DMA maps; at most [`Shape::MAX_MAPS`].
    pub max_maps: u32,
}

impl Shape {
    /// Upper limit of `max_transfer`: 1 MiB.
    pub const MAX_TRANSFER: u32 = 1 << 20;
    /// Upper limit of `max_maps`: the limit of Linux clients (`dma_entry_limit`).
    pub const MAX_MAPS: u32 = 65535;
    /// Maximum number of interrupts of a type: the limit of MSI-X.
    pub const MAX_IRQS: u32 = 2048;

    /// Returns the shape of a device with neither regions nor interrupts, transfers of 1 MiB and 4096 maps.
    #[must_use]
    pub fn new() -> Shape {
        Shape {
            regions: [Region::default(); REGIONS],
            irqs: [0; IRQS],
            max_transfer: Shape::MAX_TRANSFER,
            max_maps: 4096,
        }
    }
}

impl Default for Shape {
    fn default() -> Shape {
        Shape::new()
    }
}
