// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine as a host of a lab. The machine is a vfio-user client. Its accesses to its devices become requests at the root
//! complex.
//! TLPs that reach the root complex become answers, interrupts and accesses to its memory.
//!
//! ```text
//!   QEMU ── guest::net ── VmHost ── guest::vmd::Vmd, or guest::function::Function for each function
//!                           │
//!                           └────── external::Driver ── HostPlace ── fabric
//! ```
//!
//! Like the rest of a lab, the machine is sans-IO, except for the memory that the machine has mapped and the event
//! descriptors of its interrupts. `guest` reaches both.

mod assigned;
mod cable;
mod client;
mod counters;
mod error;
mod event;
mod guests;
mod links;
mod messages;
mod names;
mod open;
mod paced_clock;
mod placing;
mod qemu;
mod report;
mod root_ports;
mod run_on_host;
mod serve;
mod socket_folder;
mod spaces;
mod supervisor;
pub mod torture;
mod turn;
mod virtual_functions;
mod vm_host;
mod watch;

pub use cable::{CableLink, CableLinkError, Transport, cable_links};
pub use counters::VmCounters;
pub use error::{VmCommandError, VmError};
pub use event::{Supervisor, VmEvent};
pub use guests::{Guest, GuestPlan, Guests};
pub use links::LinkSocket;
pub use names::{AssignError, MachineNames, PerMachineError};
pub use open::{AssignedMachine, host_names};
pub use qemu::VmOptions;
pub use report::{MachineFigures, VmReport};
pub use serve::{Pace, serve};
pub use socket_folder::{GuestSockets, SocketFolderError, socket_folder};
pub use spaces::hexdump;
pub use supervisor::{Ended, GuestSupervisor, WatchUntil};
pub use vm_host::{DeviceSocket, VmHost, machines};
pub use watch::Watch;

use guest::vmd::Layout;
use lab::{BuildError, Hierarchy, LabFile};

/// Number of buses of the smallest VMD.
const LEAST_BUSES: u16 = 32;
/// Size of the 32-bit window. The window fits below 4 GiB, next to the windows of QEMU's own devices.
const MEMORY_BYTES: u64 = 512 << 20;
/// Size of the 64-bit window. The window fits into the 40-bit addresses of QEMU's simplest CPU.
const PREFETCHABLE_BYTES: u64 = 64 << 30;
/// Number of MSI-X vectors. More would take interrupts that other devices of the guest need.
const VECTORS: u16 = 64;

/// Returns the layout of a VMD for the hierarchy below the host of this name: `host root` or `host NAME`.
fn layout(file: &LabFile, place: &str) -> Result<Layout, BuildError> {
    let buses = Hierarchy::new(file, place)?.buses().next_power_of_two().clamp(LEAST_BUSES, 256);
    Ok(Layout { buses, prefetchable_bytes: PREFETCHABLE_BYTES, memory_bytes: MEMORY_BYTES, vectors: VECTORS })
}
