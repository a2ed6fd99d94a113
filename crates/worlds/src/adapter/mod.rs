// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP's adapter (NSDI'20) in a slot of a lab. Peers on the network are its device.
//!
//! ```text
//!   sockets ── nettlp::adapter ── Backend: LabBackend ── external::Driver ── the bridge in the slot ── fabric
//! ```
//!
//! - [`schema`]: the keys of the slot;
//! - [`AdapterSlot`]: a handle on the adapter of a lab; [`BridgeCounters`]: its counters;
//! - [`LabBackend`]: the lab as [`nettlp::adapter::Backend`], with or without its timing.
//!
//! Like the rest of a lab, all these parts are sans-IO. `nettlp::net` has the sockets, and the caller provides the
//! clock.

pub mod schema;

mod backend;
mod bridge;
mod egress;
mod host_side;
mod input;
mod slot;
mod uplink;

pub use backend::{AdapterPlace, LabBackend, NoAdapter, Timing};
pub use bridge::{BridgeCounters, MAX_PEER_READS, MAX_PEER_WRITES};
pub use egress::MAX_EGRESS_REQUESTS;
pub use host_side::MAX_HOST_READS;
pub use schema::NettlpAdapter;
pub use slot::AdapterSlot;
pub use uplink::{Joined, Uplink, serve_all};

use plug::{Report, Shown, ns};
use tlp::Time;

impl Report for AdapterSlot {
    fn shown(&self, _: Time) -> Shown {
        let station = self.station();
        let shown = Shown::new().with_counts(self.counters().rows()).with_counts([
            ("open_host_reads", self.open_host_reads()),
            ("station_opened", station.opened),
            ("tx_frames", station.tx_frames),
            ("rx_frames", station.rx_frames),
            ("arp_answered", station.arp_answered),
            ("echo_answered", station.echo_answered),
            ("pings_sent", station.pings_sent),
            ("pings_answered", station.round_trips.len() as u64),
            ("not_understood", station.not_understood),
            ("lost_frames", station.lost),
            ("tx_timeouts", station.tx_timeouts),
        ]);
        let trips: Vec<f64> = station.round_trips.iter().copied().map(ns).collect();
        if trips.is_empty() { shown } else { shown.with("ping_round_trips_ns", trips) }
    }
}
