// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's side of vfio-user: a state machine between bytes and events.
//!
//! A [`Session`] is one client. It is given what the socket brings ([`Session::receive`]), says what that means
//! ([`Session::poll`]), is told the answers ([`Session::complete`]) in any order, and says what is to be sent ([`Session::outgoing`]).
//! What only concerns the protocol it answers itself. It opens nothing and reads no clock.
//!
//! Done are all commands that clients send, but migration and dirty pages, which are refused with `ENOTSUP`. What a client sends is
//! checked: a command that is wrong is refused with the protocol's error, and told as [`Event::Refused`]; after what makes the stream
//! itself unsure (sizes, types, replies to nothing, a version that is not ours) comes [`Event::HangUp`], once and last.

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
pub use maps::{DmaAccess, DmaMap, MAX_MAPPED_BYTES};
pub use refusal::{HangUp, Legal, Refusal, VersionError};
pub use regions::{REGIONS, Region, region};
pub use rustix::io::Errno;
pub use session::{Event, MAX_PENDING, Session, Token};
pub use stream::MAX_FDS;
pub use wire::{command, command_name};

/// Granularity of maps in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// What a device is, as far as its client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The regions, by their index: six BARs, ROM, configuration space, VGA ([`region`]).
    pub regions: [Region; REGIONS],
    /// How many interrupts there are of each type, by [`Irq`].
    pub irqs: [u32; IRQS],
    /// Most bytes of one access or DMA message; at most [`Shape::MAX_TRANSFER`].
    pub max_transfer: u32,
    /// Most DMA maps at a time; at most [`Shape::MAX_MAPS`].
    pub max_maps: u32,
}

impl Shape {
    /// Most bytes that `max_transfer` may be: 1 MiB.
    pub const MAX_TRANSFER: u32 = 1 << 20;
    /// Most maps that `max_maps` may be: what clients take (`dma_entry_limit` of Linux).
    pub const MAX_MAPS: u32 = 65535;
    /// Most interrupts of a type: what MSI-X can have.
    pub const MAX_IRQS: u32 = 2048;

    /// A device with neither regions nor interrupts, transfers of 1 MiB and 4096 maps.
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
