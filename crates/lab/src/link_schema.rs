// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a lab file that say how links work: their virtual channels, flow control and timers, and what changes while
//! they run. Plain data, as [`schema`](crate::schema), where the other keys are.

use crate::schema::Credits;
use plug::values::{Gen, Lanes};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A virtual channel of a link (`PCIe 5.0 §2.5`). Channels that no table names are not in use, but for VC0.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualChannel {
    /// VC ID.
    #[schemars(range(min = 0, max = 7))]
    pub id: u8,
    /// The Traffic Classes, 0 to 7, that travel on it; TC0 always on VC0. Default: the one of the same number; on VC0, all
    /// that are on no other channel. A TLP of a class that is on no channel is malformed.
    #[schemars(inner(range(min = 0, max = 7)))]
    pub tcs: Option<Vec<u8>>,
    /// With `weighted` arbitration, phases in the VC arbitration table: those of all channels in the low-priority group
    /// add up to 32, 64 or 128. Legal nowhere else.
    #[schemars(range(min = 1, max = 128))]
    pub phases: Option<u8>,
    /// Receive buffers of the root port for this channel, key by key over those of the link.
    pub root_credits: Option<Credits>,
    /// Receive buffers of the device for this channel, key by key over those of the link.
    pub device_credits: Option<Credits>,
}

/// Which virtual channel sends next (`PCIe 5.0 §6.3.3.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The highest that has something to send.
    #[default]
    Strict,
    /// Each in turn, a TLP at a time.
    RoundRobin,
    /// Each as many TLPs as it has phases in the VC arbitration table.
    Weighted,
}

/// What keeps a sender from sending more than its receiver can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowControl {
    /// Credits, as the specification has it.
    #[default]
    Credits,
    /// Nothing, as in gem5's links (IISWC'18): a receiver whose buffer is full drops what comes, and the sender's
    /// REPLAY_TIMER, three times the Ack latency, has it sent again.
    None,
}

/// The rule for REPLAY_TIMER (`PCIe 5.0 §3.6.2.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayTimer {
    /// Of revisions up to 3.x: three times the Ack latency limit of the table. Up to generation 3.
    Rev3,
    /// From revision 4.0: `replay_timer_symbols` at every rate.
    #[default]
    Rev4,
}

/// A change of a link while the lab runs: the link retrains and comes back with another rate or width.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkChange {
    /// When it begins, in microseconds of virtual time. The wire is then silent for `retrain_ns`.
    #[schemars(range(min = 0, max = 1_000_000_000_000_u64))]
    pub at_us: u64,
    /// Name of the slot whose link it is.
    #[schemars(with = "String")]
    pub slot: Spanned<String>,
    /// Generation from then on, no higher than that of the link, and than Target Link Speed of the port above allows. Default: that of
    /// the link.
    #[serde(rename = "gen")]
    #[schemars(with = "Option<Gen>")]
    pub generation: Option<Spanned<Gen>>,
    /// Lanes from then on, no more than those of the link. Default: those of the link.
    #[schemars(with = "Option<Lanes>")]
    pub lanes: Option<Spanned<Lanes>>,
}
