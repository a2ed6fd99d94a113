// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The timed fabric: an event loop in integer picoseconds, a root complex with its root ports, links, and the ports
//! at their far ends.
//!
//! A [`Fabric`] joins three kinds of sans-IO parts. The fabric knows when each part must act, but not what the part
//! does.
//!
//! ```text
//!   host program ── root complex ──┬── root port 0 ══ link 0 ══ slot 0 (an endpoint, or any other TlpPort)
//!                    │             ├── root port 1 ══ link 1 ══ slot 1
//!                  memory          └── ...
//! ```
//!
//! There may be several hosts. Each has all of these parts, and no path leads to another host.
//!
//! - [`Fabric`]: the event loop and what it moves;
//! - [`root`]: the root complex: routing, completions, host memory with its timing ([`profile`]);
//! - [`fault`]: rules that damage or drop frames; [`tap`]: observers of frames;
//! - [`stages`], [`breakdown`]: time that transactions spend in each stage, one by one and by kind;
//! - [`queue`]: events ordered by `(time, sequence)`.
//!
//! This crate never reads a wall clock, never does I/O, and draws random numbers only from its seed.

pub mod breakdown;
mod fabric;
pub mod fault;
mod host_slot;
pub mod profile;
pub mod progress;
pub mod root;
pub mod stages;
pub mod switch;
pub mod tap;
pub mod topology;

mod bridge;
mod effects;
mod flow;
mod ledger;
mod memory_system;
mod queue;
mod timer;
mod wire;

pub use breakdown::Breakdown;
pub use bridge::BridgeOwner;
pub use effects::{Due, Effect};
pub use fabric::{
    Above, Fabric, FabricConfig, HostConfig, LinkName, MAX_HOSTS, NoHost, PlacedRefusal, RootDesign,
    RunTotals, SlotConfig, SwitchEnd, SwitchSlot, TopologyError,
};
pub use fault::{
    Alteration, FaultAction, FaultCounts, FaultLimit, FaultRule, FrameKind, InternalError, TlpFilter, TlpType,
};
pub use flow::Flow;
pub use ledger::{AccountTotals, MAX_ACCOUNTS, Note, Turn};
pub use memory_system::MemoryCounters;
pub use profile::HostProfile;
pub use progress::{Limits, Stop};
pub use root::{PeerToPeer, RootComplex, RootCounters, RootFunctionCounters, RootPortConfig};
pub use stages::{Parts, Stage, Transaction, TransactionKind, TransactionTap};
pub use switch::{
    Forwarding, PlaceUntil, PortArbitration, Switch, SwitchConfig, SwitchCounters, SwitchError,
    SwitchPortConfig, SwitchTiming,
};
pub use tap::{Direction, Tap, TapRecord};
pub use topology::{AddressMap, HostId, LinkChange, LinkConfig, LinkEvent, LinkId, PortId, Side, Window};
