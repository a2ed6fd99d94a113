// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands between TLPs and a device.
//!
//! - [`port`]: what a fabric drives, as *TLPs*: the [`TlpPort`] trait, which all below implement, and peers.
//! - [`Endpoint`]: turns TLPs into transactions: [`TlpPort`] below, [`Device`](device::Device) above.
//! - [`hard_block`]: the same front with a design of raw TLPs behind it.
//! - [`raw`]: a raw-TLP device, which takes the endpoint's place.
//!
//! The *front* is what both have in common, and what a vendor's hard block does before it hands TLPs to a design: configuration
//! space, decoding of BARs, gating, errors, interrupts, tracking of completions.
//!
//! This crate never reads a clock, never does I/O, and knows no host and no fabric, and of a link only what it tells.

mod endpoint;
mod front;
pub mod hard_block;
pub mod port;
pub mod raw;

pub use self::endpoint::{
    Counters, Endpoint, EndpointConfig, EndpointError, EndpointLimits, FunctionConfig, MAX_VIRTUAL_FUNCTIONS,
    VirtualFunctions,
};
pub use hard_block::{HardBlock, TlpDesign};
pub use port::{CreditReturn, TlpPort, detected_error};
pub use raw::RawDevice;
