// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab behind NetTLP's protocol (NSDI'20): a slot whose device is an adapter, and peers on the network that are
//! its device.
//!
//! ```text
//!   sockets ── nettlp::adapter ── Backend: LabBackend ── the bridge in the slot ── fabric: link, root complex, memory
//!                                     └ record
//! ```
//!
//! - [`schema`]: the keys of the slot;
//! - [`AdapterSlot`]: a handle on the adapter that a lab has; [`BridgeCounters`]: what it has counted;
//! - [`LabBackend`]: the lab as [`nettlp::adapter::Backend`], with or without its timing;
//! - [`Recording`], [`Replay`]: every input from outside, and the same run again without sockets.
//!
//! All of it is sans-IO like the rest of a lab: sockets and clocks are `nettlp::net`'s and the faces'.

pub mod schema;

mod backend;
mod bridge;
mod egress;
mod host_side;
mod record;
mod replay;
mod slot;

pub use backend::{LabBackend, Timing};
pub use bridge::{BridgeCounters, MAX_PEER_READS, MAX_PEER_WRITES};
pub use egress::MAX_EGRESS_REQUESTS;
pub use host_side::MAX_HOST_READS;
pub use record::{RecordError, RecordedLab, Recording};
pub use replay::{Replay, ReplayError, Replayed};
pub use slot::AdapterSlot;

use crate::boot::Task;
use crate::models::{End, Instrument, PlugError, Plugged};
use crate::schema::{Lab, Model};
use config::PcieLayout;
use fabric::HostProfile;
use schema::NettlpAdapter;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use tlp::{Duration, Mps, PayloadPool};
use toml::Spanned;

/// How long a host waits for device software at least, in the time of the wall: the end of range C of Completion Timeout
/// Value (`PCIe 5.0 §7.5.3.16`). Two machines and their schedulers are between a question and its answer.
const HOST_PATIENCE: Duration = Duration::from_ms(900);

/// The host of a lab that has an adapter waits for it.
pub(crate) fn patient(lab: &Lab, host: HostProfile) -> HostProfile {
    let adapter = lab.slot.iter().any(|slot| slot.device == Model::NettlpAdapter);
    let least = if adapter { HOST_PATIENCE } else { Duration::ZERO };
    HostProfile { completion_timeout: host.completion_timeout.max(least), ..host }
}

/// Refuses what is not legal.
fn legal<T: Copy + Into<u64>>(
    name: &str,
    value: &Spanned<T>,
    range: RangeInclusive<u64>,
) -> Result<(), PlugError> {
    let n = (*value.get_ref()).into();
    if range.contains(&n) {
        return Ok(());
    }
    Err(PlugError::at(value, format!("{name} of {n}: legal are {} to {}", range.start(), range.end())))
}

/// The adapter that a slot names; `mps` is that of its path.
pub(crate) fn plug(
    keys: &NettlpAdapter,
    layout: PcieLayout,
    mps: Mps,
    payloads: &PayloadPool,
) -> Result<Plugged, PlugError> {
    legal("bar", &keys.bar, 3..=5)?;
    legal("bar_bytes", &keys.bar_bytes, 128..=128 << 20)?;
    legal("vectors", &keys.vectors, 1..=128)?;
    legal("ping_bytes", &keys.ping_bytes, 0..=1472)?;
    let buffers = devices::simple_nic::RX_BUFFERS;
    legal("rx_buffers", &keys.rx_buffers, u64::from(*buffers.start())..=u64::from(*buffers.end()))?;
    legal("ping_interval_ms", &keys.ping_interval_ms, 1..=60_000)?;
    if keys.exercise_bytes.span() != (0..0) {
        legal("exercise_bytes", &keys.exercise_bytes, 0..=*keys.bar_bytes.get_ref())?;
    }
    if let Some(ms) = &keys.start_after_ms {
        legal("start_after_ms", ms, 0..=3_600_000)?;
    }
    if !keys.bar_bytes.get_ref().is_power_of_two() {
        let message = format!("bar_bytes of {}: legal are powers of two", keys.bar_bytes.get_ref());
        return Err(PlugError::at(&keys.bar_bytes, message));
    }
    let (function, slot) = slot::function(keys, layout, mps, payloads).map_err(|e| e.to_string())?;
    let task = Task::Driver(slot.driver(keys));
    Ok(Plugged { end: End::Adapter(function, slot.clone()), task, instrument: Instrument::Nettlp(slot) })
}

impl AdapterSlot {
    /// What it shows in a report.
    pub(crate) fn results(&self) -> Map<String, Value> {
        let station = self.station();
        let counts = [
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
        ];
        let counted = self.counters().rows().chain(counts).filter(|(_, n)| *n > 0);
        let mut map: Map<_, _> = counted.map(|(name, n)| (name.to_owned(), n.into())).collect();
        if !station.round_trips.is_empty() {
            let trips = station.round_trips.iter().map(|d| d.as_ps() as f64 / 1_000.0);
            map.insert("ping_round_trips_ns".to_owned(), trips.collect::<Vec<f64>>().into());
        }
        map
    }
}
