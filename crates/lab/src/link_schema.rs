// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link keys of a lab file: virtual channels, flow control, timers, and changes during the run. Plain data like
//! [`schema`](crate::schema), which has the other keys.

use crate::schema::Credits;
use plug::values::{Gen, Lanes};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A virtual channel of a link (`PCIe 5.0 §2.5`). Channels without a table are not used, except VC0.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualChannel {
    /// VC ID.
    #[schemars(range(min = 0, max = 7))]
    pub id: u8,
    /// Traffic Classes, 0 to 7, of the channel. TC0 is always on VC0. Default: the class with the channel's number; for VC0, all
    /// classes that no other channel has. A TLP of a class without a channel is malformed.
    #[schemars(inner(range(min = 0, max = 7)))]
    pub tcs: Option<Vec<u8>>,
    /// With `weighted` arbitration: phases in the VC arbitration table. The phases of all channels in the low-priority group add up to
    /// 32, 64 or 128. Not allowed otherwise.
    #[schemars(range(min = 1, max = 128))]
    pub phases: Option<u8>,
    /// Receive buffers of the root port for this channel. Each key overrides that key of the link.
    pub root_credits: Option<Credits>,
    /// Receive buffers of the device for this channel. Each key overrides that key of the link.
    pub device_credits: Option<Credits>,
}

/// Which virtual channel sends next (`PCIe 5.0 §6.3.3.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The highest channel with a TLP to send.
    #[default]
    Strict,
    /// Round robin, one TLP at a time.
    RoundRobin,
    /// Weighted round robin: as many TLPs per round as the channel has phases in the VC arbitration table.
    Weighted,
}

/// Mechanism that prevents a sender from overflowing its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowControl {
    /// Credits, as in the specification.
    #[default]
    Credits,
    /// No mechanism, as in gem5's links (IISWC'18). A receiver with a full buffer drops the TLP, and the sender replays it after
    /// REPLAY_TIMER, three times the Ack latency.
    None,
}

/// How a port finds the next TLP of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayCursor {
    /// By its sequence number, as in the specification: a replay resends every unacknowledged TLP.
    #[default]
    Sequence,
    /// By its position in the replay buffer, as in gem5's links (IISWC'18, §V-C). An Ack shortens the buffer and leaves the
    /// position, so each TLP that it removes makes the replay skip one; so does each Ack that the port itself sends. The receiver
    /// drops the TLPs after a skipped one. A TLP out of sequence draws another Ack, every Ack restarts REPLAY_TIMER, and a
    /// timeout is not reported as an error.
    Position,
}

/// The rule for REPLAY_TIMER (`PCIe 5.0 §3.6.2.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayTimer {
    /// Revisions up to 3.x: three times the Ack latency limit of the table. Up to generation 3.
    Rev3,
    /// Revision 4.0 and later: `replay_timer_symbols` at every rate.
    #[default]
    Rev4,
}

/// A link event: the link retrains to another rate or width while the lab runs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkChange {
    /// Start, in microseconds of virtual time. The wire is then silent for `retrain_ns`.
    #[schemars(range(min = 0, max = 1_000_000_000_000_u64))]
    pub at_us: u64,
    /// Name of the slot below the link.
    #[schemars(with = "String")]
    pub slot: Spanned<String>,
    /// New generation, at most the link's own and at most Target Link Speed of the port above. Default: the link's.
    #[serde(rename = "gen")]
    #[schemars(with = "Option<Gen>")]
    pub generation: Option<Spanned<Gen>>,
    /// New number of lanes, at most the link's own. Default: the lanes of the link.
    #[schemars(with = "Option<Lanes>")]
    pub lanes: Option<Spanned<Lanes>>,
}
