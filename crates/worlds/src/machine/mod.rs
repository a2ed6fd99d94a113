// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine as a host of a lab. The machine is a vfio-user client: what it does to its devices becomes requests at the root
//! complex, and what comes up there becomes answers, interrupts and accesses to its memory.
//!
//! ```text
//!   QEMU ── guest::net ── VmHost ── guest::vmd::Vmd, or guest::function::Function for each function
//!                           │
//!                           └────── external::Driver ── HostPlace ── fabric
//! ```
//!
//! Sans-IO like the rest of a lab, but for the memory that the machine has mapped and the descriptors that it gave for its
//! interrupts: both are the machine's, and `guest` reaches them.

mod assigned;
mod cable;
mod client;
mod counters;
mod event;
mod links;
mod messages;
mod paced_clock;
mod placing;
mod root_ports;
mod run_on_host;
mod serve;
mod spaces;
mod turn;
mod virtual_functions;
mod vm_host;

pub use cable::{CableLink, NetInterface, Transport};
pub use counters::VmCounters;
pub use event::VmEvent;
pub use links::LinkSocket;
pub use placing::FunctionPlacement;
pub use root_ports::RootPortSetup;
pub use serve::{Pace, Supervisor, serve};
pub use spaces::config_spaces;
pub use vm_host::{DeviceSocket, VmError, VmHost};

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
