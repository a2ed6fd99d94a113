// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layer between TLPs and a device.
//!
//! - [`port`]: the [`TlpPort`] trait, by which a fabric exchanges *TLPs* with all the types below and with peers.
//! - [`Endpoint`]: turns TLPs into transactions for a [`Device`](device::Device); to the fabric it is a [`TlpPort`].
//! - [`hard_block`]: the same front with a design of raw TLPs.
//! - [`frames`]: a data link layer that is not riser's, in place of the link's port and the endpoint.
//! - [`raw`]: a raw-TLP device, which replaces the endpoint; [`Gate`] holds it back until the host starts it.
//!
//! [`Endpoint`] and [`hard_block`] share the *front*, which does the work of a vendor's hard block before it hands TLPs to
//! a design: configuration space, decoding of BARs, gating, errors, interrupts, tracking of completions.
//!
//! This crate never reads a clock and never does I/O. It does not depend on hosts or fabrics. It uses only the notices of
//! a link.

mod channels;
mod endpoint;
pub mod frames;
mod front;
mod gate;
pub mod hard_block;
mod marks;
pub mod port;
pub mod raw;

pub use self::endpoint::{
    Counters, Endpoint, EndpointConfig, EndpointError, EndpointLimits, FunctionConfig, MAX_VIRTUAL_FUNCTIONS,
    TagsPer, VirtualFunctions,
};
pub use channels::channels_of;
pub use frames::{Credits, DataLink, FrameSlot, Joined};
pub use gate::{Gate, MakeRaw};
pub use hard_block::{HardBlock, TlpDesign};
pub use link::UnusedCredits;
pub use port::{
    Clocked, CreditReturn, FramePort, LinkCredits, LinkHolds, PhyEvent, PortStatus, TlpPort, detected_error,
};
pub use raw::RawDevice;
