// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine above a host of a lab, as a vfio-user client: what it does to its VMD becomes requests at the root complex, and
//! what comes up there becomes answers, interrupts and accesses to its memory.
//!
//! ```text
//!   QEMU ── guest::net ── guest::vfio_user::Session ── Guest: guest::vmd::Vmd ── HostPlace ── external::Driver ── fabric
//!                                                             guest::direct::Direct
//! ```
//!
//! Sans-IO like the rest of a lab, but for the memory that the machine has mapped and the descriptors that it gave for its
//! interrupts: both are the machine's, and `guest` reaches them.

mod assigned;
mod below;
mod client;
mod clock;
mod cords;
mod errand;
mod handover;
mod links;
mod messages;
mod placing;
mod seat;
mod serve;
mod spaces;
mod virtual_functions;

pub use cords::{Carrier, Cord, Wire};
pub use handover::Handover;
pub use links::LinkSocket;
pub use placing::Places;
pub use seat::{Guest, GuestCounters, GuestError, Socket, Told};
pub use serve::{Keeper, Pace, serve};
pub use spaces::config_spaces;

use guest::vmd::Layout;
use lab::{Hierarchy, LabFile};

/// Buses of the least VMD.
const LEAST_BUSES: u16 = 32;
/// What fits below 4 GiB beside the windows of QEMU's own devices, where its firmware places it.
const MEMORY_BYTES: u64 = 512 << 20;
/// What fits in the 40 bits of an address that QEMU's plainest CPU has.
const PREFETCHABLE_BYTES: u64 = 64 << 30;
/// More cost a guest interrupts that its other devices need.
const VECTORS: u16 = 64;

/// How large a VMD carries the hierarchy of the host whose place has this name: `host root`, or `host NAME`.
///
/// # Errors
/// There is no such host, or its tree is none.
pub fn layout(file: &LabFile, place: &str) -> Result<Layout, String> {
    let buses = Hierarchy::new(file, place)?.buses().next_power_of_two().clamp(LEAST_BUSES, 256);
    Ok(Layout { buses, prefetchable_bytes: PREFETCHABLE_BYTES, memory_bytes: MEMORY_BYTES, vectors: VECTORS })
}
