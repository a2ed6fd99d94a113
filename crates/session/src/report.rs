// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a run as one object. `riser run --json` prints it as JSON, `Display` as text.

mod faults;
mod refusals;
mod session;
mod text;

pub use faults::FaultReport;
pub(crate) use refusals::refusals;
pub use refusals::{RefusalReport, SeenRefusals};

use crate::transactions::TransactionReport;
use fabric::{Direction, Fabric, Flow, LinkId, MemoryCounters, PortId, RootCounters, Side, Stop};
use host::os::HotPlugEvent;
use lab::profile::Basis;
use link::Counters;
use plug::{gbps, ns};
use serde::{Serialize, Serializer};
use tlp::Duration;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunOutcome {
    /// All devices and programs have ended.
    Finished,
    /// A device or a program failed.
    Failed,
    /// The lab's limit of virtual time was reached.
    TimeLimit,
    /// Devices or programs wait, and no event will end their wait.
    NoProgress,
    /// The run can continue.
    Paused,
    /// The user ended the run.
    Interrupted,
}

impl RunOutcome {
    /// Returns the name, as in the JSON object.
    pub const fn name(self) -> &'static str {
        match self {
            RunOutcome::Finished => "finished",
            RunOutcome::Failed => "failed",
            RunOutcome::TimeLimit => "time-limit",
            RunOutcome::NoProgress => "no-progress",
            RunOutcome::Paused => "paused",
            RunOutcome::Interrupted => "interrupted",
        }
    }
}

impl Serialize for RunOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl From<&Stop> for RunOutcome {
    fn from(stop: &Stop) -> RunOutcome {
        match stop {
            Stop::Finished => RunOutcome::Finished,
            Stop::Failed(_) => RunOutcome::Failed,
            Stop::TimeLimit => RunOutcome::TimeLimit,
            Stop::Paused => RunOutcome::Paused,
            Stop::NoProgress(_) => RunOutcome::NoProgress,
        }
    }
}

/// Report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct SessionReport {
    /// The lab file.
    pub lab: String,
    /// Settings that override the file, each as `KEY=VALUE`; omitted if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// How the run ended.
    pub outcome: RunOutcome,
    /// Extrapolated figures of the host's and the devices' profiles, one per line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Basis of the profile figures that the latencies and rates depend on: the weakest of them, without interrupts.
    /// Transactions and devices have their own basis.
    pub basis: Basis,
    /// Reasons of a failure or of missing progress, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Virtual time at the end, in nanoseconds.
    pub simulated_ns: f64,
    /// Events handled.
    pub events: u64,
    /// Link crossings of TLPs: one TLP over one link is one hop.
    pub tlp_hops: u64,
    /// CPU time of the process for the run, in seconds.
    pub cpu_seconds: f64,
    /// Events and failures of hot-plug capable slots; omitted if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hot_plug: Vec<HotPlugReport>,
    /// The faults of the lab and of commands, with the number of affected frames; omitted if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultReport>,
    /// Refused, dropped and timed-out TLPs by rule and place, and refused DLLPs: the first one, and their number. Omitted
    /// if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusalReport>,
    /// The links.
    pub links: Vec<LinkReport>,
    /// Counters of the root complex.
    pub root_complex: RootCounters,
    /// Counters of caches and IOMMU; omitted if the host profile has no such parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_system: Option<MemoryCounters>,
    /// Reports of the devices, then of the root complex `root` if it is not riser's.
    pub devices: Vec<DeviceReport>,
}

/// An event of a hot-plug capable slot.
#[derive(Clone, Debug, Serialize)]
pub struct HotPlugReport {
    /// Time of the event, in nanoseconds of virtual time.
    pub at_ns: f64,
    /// Name of the slot, or of the root port that has reported an error.
    pub slot: String,
    /// The event, in one line.
    pub event: String,
}

impl HotPlugReport {
    pub(crate) fn new(event: &HotPlugEvent) -> HotPlugReport {
        HotPlugReport {
            at_ns: event.at.as_ps() as f64 / 1_000.0,
            slot: event.slot.clone(),
            event: event.what.clone(),
        }
    }
}

/// A link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// Name of the slot below it.
    pub slot: String,
    /// Generation.
    #[serde(rename = "gen")]
    pub generation: u8,
    /// Lanes.
    pub lanes: u8,
    /// Max_Payload_Size.
    pub mps_bytes: u32,
    /// Both directions.
    pub directions: Vec<DirectionReport>,
    /// Latencies of transactions by kind; kinds without transactions are omitted.
    pub transactions: Vec<TransactionReport>,
}

/// A direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionReport {
    /// `downstream` (from the host) or `upstream` (from the device).
    pub direction: &'static str,
    /// TLPs, without replays.
    pub tlps: u64,
    /// DLLPs, all kinds.
    pub dllps: u64,
    /// Acks.
    pub acks: u64,
    /// Naks.
    pub naks: u64,
    /// UpdateFCs.
    pub update_fcs: u64,
    /// Data bytes, without replays.
    pub payload_bytes: u64,
    /// All bytes: the sum of `payload_bytes`, `header_bytes`, `digest_bytes`, `framing_bytes`, `replay_bytes`,
    /// `dllp_bytes` and `skp_bytes`.
    pub wire_bytes: u64,
    /// TLP headers.
    pub header_bytes: u64,
    /// ECRC digests.
    pub digest_bytes: u64,
    /// Framing, sequence numbers and LCRCs.
    pub framing_bytes: u64,
    /// Replayed TLPs, with header, data, digest and framing.
    pub replay_bytes: u64,
    /// DLLPs, with framing.
    pub dllp_bytes: u64,
    /// SKP ordered sets.
    pub skp_bytes: u64,
    /// Share of the run during which the wire carried anything but SKP ordered sets, 0 to 1.
    pub utilization: f64,
    /// Data rate over the whole run.
    pub payload_gbps: f64,
    /// Time in which data was transferred: from the first to the last TLP with data of memory requests, AtomicOps or
    /// their completions. Configuration and I/O are not included. 0 without such a TLP.
    pub active_ns: f64,
    /// Data rate in `active_ns`; 0 without data.
    pub active_gbps: f64,
    /// Replayed TLPs.
    pub replays: u64,
    /// Number of times that a TLP had to wait for credits, all classes.
    pub credit_stalls: u64,
    /// Total time of these waits, all classes.
    pub credit_stall_ns: f64,
    /// Number of times that a TLP had to wait for the replay buffer.
    pub replay_buffer_stalls: u64,
    /// Frames that arrived damaged.
    pub damaged_frames: u64,
    /// REPLAY_TIMER expiries.
    pub replay_timeouts: u64,
    /// Retrains after REPLAY_NUM rolled over.
    pub retrains: u64,
    /// Changes of the link's rate or width.
    pub link_changes: u64,
    /// TLPs that arrived with a Traffic Class that is not mapped to a virtual channel.
    pub unmapped_tcs: u64,
    /// TLPs that a receiver without flow control has dropped.
    pub full_buffer_drops: u64,
    /// TLPs beyond the credits that the receiver had advertised; they are dropped.
    pub receiver_overflows: u64,
    /// Acks and Naks for TLPs that were never sent.
    pub data_link_protocol_errors: u64,
    /// Damaged frames whose CRC was still correct, and that were accepted as intact.
    pub undetected_errors: u64,
    /// TLPs with a correct LCRC whose bytes are not a valid TLP.
    pub malformed_tlps: u64,
    /// UpdateFCs that break the rules of flow control.
    pub flow_control_protocol_errors: u64,
    /// Figures by virtual channel. Channels without a TLP are omitted.
    pub virtual_channels: Vec<VcReport>,
}

impl DirectionReport {
    /// Returns the error counts of the receiver that are not zero, with their names in JSON. Errors that the data link layer
    /// repairs, such as damaged frames, do not count.
    pub fn errors(&self) -> Vec<(&'static str, u64)> {
        let received = Counters {
            unmapped_tcs: self.unmapped_tcs,
            full_buffer_drops: self.full_buffer_drops,
            receiver_overflows: self.receiver_overflows,
            data_link_protocol_errors: self.data_link_protocol_errors,
            undetected_errors: self.undetected_errors,
            malformed_tlps: self.malformed_tlps,
            flow_control_protocol_errors: self.flow_control_protocol_errors,
            ..Counters::default()
        };
        received.errors().collect()
    }
}

impl SessionReport {
    /// Returns a warning for each fault that affected no frame.
    pub fn fault_warnings(&self) -> Vec<String> {
        self.faults.iter().filter_map(FaultReport::warning).collect()
    }

    /// Returns the error counts of the root complex that are not zero, with their names in JSON.
    pub fn root_errors(&self) -> Vec<(&'static str, u64)> {
        let faults = self.memory_system.map_or(0, |memory| memory.translation_faults);
        let faults = (faults > 0).then_some(("translation_faults", faults));
        self.root_complex.errors().chain(faults).collect()
    }
}

/// A virtual channel in one direction: its share of the figures of the same names.
#[derive(Clone, Debug, Serialize)]
pub struct VcReport {
    /// VC ID.
    pub vc: u8,
    /// TLPs, without replays.
    pub tlps: u64,
    /// Data bytes, without replays.
    pub payload_bytes: u64,
    /// Number of times that a TLP had to wait for credits, all classes.
    pub credit_stalls: u64,
    /// Total time of these waits, all classes.
    pub credit_stall_ns: f64,
}

/// A device: its slot, its model and its counters.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// Slot of the device.
    pub slot: String,
    /// Model of the device.
    pub model: String,
    /// Basis of its profile's figures; omitted without a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Counts by name.
    pub counters: serde_json::Map<String, serde_json::Value>,
}

/// Returns the two directions of link `n` in `fabric`.
pub fn directions(fabric: &Fabric, n: u32) -> Vec<DirectionReport> {
    let now = fabric.now().as_ps();
    [(Side::Root, Side::Device), (Side::Device, Side::Root)]
        .map(|sides| {
            let (sender, receiver) = (PortId::new(LinkId(n), sides.0), PortId::new(LinkId(n), sides.1));
            let counters = [fabric.port_counters(sender), fabric.port_counters(receiver)];
            direction(Direction::of_sender(sides.0), counters, fabric.flow(sender), now)
        })
        .to_vec()
}

fn direction(
    direction: Direction,
    [sent, received]: [&Counters; 2],
    flow: Flow,
    now_ps: u64,
) -> DirectionReport {
    DirectionReport {
        direction: direction.name(),
        tlps: sent.tlps,
        dllps: sent.dllps.total(),
        acks: sent.dllps.ack,
        naks: sent.dllps.nak,
        update_fcs: sent.dllps.update_fc,
        payload_bytes: sent.payload_bytes,
        wire_bytes: sent.wire_bytes,
        header_bytes: sent.header_bytes,
        digest_bytes: sent.digest_bytes,
        framing_bytes: sent.framing_bytes,
        replay_bytes: sent.replay_bytes,
        dllp_bytes: sent.dllp_bytes,
        skp_bytes: sent.skp_bytes,
        utilization: utilization(&Counters::default(), sent, now_ps),
        payload_gbps: gbps(sent.payload_bytes, Duration::from_ps(now_ps)),
        active_ns: ns(flow.active()),
        active_gbps: gbps(flow.bytes(), flow.active()),
        replays: sent.replayed_tlps,
        credit_stalls: sent.credit_stalls.iter().sum(),
        credit_stall_ns: sent.credit_stall_ps.iter().sum::<u64>() as f64 / 1_000.0,
        replay_buffer_stalls: sent.replay_buffer_stalls,
        damaged_frames: received.bad_lcrc + received.bad_dllp_crc,
        replay_timeouts: sent.replay_timeouts,
        retrains: sent.replay_num_rollovers,
        link_changes: sent.link_changes,
        unmapped_tcs: received.unmapped_tcs,
        full_buffer_drops: received.full_buffer_drops,
        receiver_overflows: received.receiver_overflows,
        data_link_protocol_errors: received.data_link_protocol_errors,
        undetected_errors: received.undetected_errors,
        malformed_tlps: received.malformed_tlps,
        flow_control_protocol_errors: received.flow_control_protocol_errors,
        virtual_channels: virtual_channels(sent),
    }
}

/// Returns the share of `elapsed_ps`, 0 to 1, in which a wire carried frames, without SKP ordered sets, between two
/// states of its sender's counters. A frame at the end counts in full, so a short time could give more than 1.
pub fn utilization(start: &Counters, end: &Counters, elapsed_ps: u64) -> f64 {
    if elapsed_ps == 0 {
        return 0.0;
    }
    // The serializer's busy time includes SKPs; subtract their share of the bytes.
    let wire = end.wire_bytes - start.wire_bytes;
    let useful = wire - (end.skp_bytes - start.skp_bytes);
    let busy = (end.busy_ps - start.busy_ps) as f64 * useful as f64 / wire.max(1) as f64;
    (busy / elapsed_ps as f64).min(1.0)
}

fn virtual_channels(sent: &Counters) -> Vec<VcReport> {
    let report = |(vc, of): (u8, &link::VcCounters)| VcReport {
        vc,
        tlps: of.tlps,
        payload_bytes: of.payload_bytes,
        credit_stalls: of.credit_stalls,
        credit_stall_ns: of.credit_stall_ps as f64 / 1_000.0,
    };
    (0..).zip(&sent.vcs).filter(|(_, of)| of.tlps > 0).map(report).collect()
}
