// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The switch keys of a lab file. Plain data like [`schema`](crate::schema), which has the other keys.

use crate::schema::{Forwarding, Link, PlaceUntil};
use plug::Plan;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A switch, below its own root port or below another switch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Name of the switch, unique among slots and switches: at most 64 characters, and not `root`.
    #[schemars(with = "String", length(min = 1, max = 64), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub name: Spanned<String>,
    /// Switch that is not riser's: `rtl-switch`, with its settings in the table of that name. It excludes `latency_ns`, `forwarding`, `arbitration`
    /// and `keep_places`. Default: riser's own.
    #[schemars(with = "Option<String>")]
    pub device: Option<Spanned<String>>,
    /// The model of `device` with its settings.
    #[serde(skip)]
    #[schemars(skip)]
    pub plan: Option<Plan>,
    /// The component above the upstream link: `root` for its own root port, or the name of another switch.
    #[schemars(with = "Option<String>", extend("default" = "root"))]
    pub parent: Option<Spanned<String>>,
    /// The downstream port of the parent. Default: the first free port.
    #[schemars(with = "Option<u8>", range(min = 1, max = 31))]
    pub port: Option<Spanned<u8>>,
    /// Number of downstream ports. Default: as many as the lab uses.
    #[schemars(with = "Option<u8>", range(min = 1, max = 31))]
    pub downstream_ports: Option<Spanned<u8>>,
    /// The port above is hot-plug capable: when the upstream link returns after an `[[outage]]`, the host sets up the
    /// switch and everything below it again. Without hot-plug, everything below a link that went down is lost. Default:
    /// false.
    #[serde(default)]
    pub hot_plug: bool,
    /// The hot-plug capable port above has an attention button, indicators and a power controller. Default: true.
    #[serde(default = "crate::schema::yes")]
    pub hot_plug_controls: bool,
    /// Time from the end of a TLP at the ingress port to its first symbol at the egress port, in nanoseconds. With
    /// `cut-through`, the time starts at the end of the TLP's header. The default is typical of measured Gen3 switches
    /// (IISWC'18, §VI, cites 150 ns).
    #[serde(default = "default_latency_ns")]
    #[schemars(with = "u64", range(min = 0, max = 1_000_000))]
    pub latency_ns: Spanned<u64>,
    /// When the switch forwards a TLP.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Arbitration between ingress ports at an egress port.
    #[serde(default)]
    pub arbitration: PortArbitration,
    /// Only with `weighted` arbitration: TLPs of each ingress port per round, the upstream port first.
    #[schemars(with = "Option<Vec<u16>>")]
    pub weights: Option<Spanned<Vec<u16>>>,
    /// Whether a non-posted request keeps its place in the receive buffer, and its credits, until its last completion
    /// is in the switch (see `keep_places_until`). The bridges of gem5 (IISWC'18, §V-A) reserve room for the response of every request that
    /// they accept. Without a response, the place becomes free when the egress link of the request goes down, or after
    /// the completion timeout of the host's profile (the longest, if there are several). Default: false.
    #[serde(default)]
    pub keep_places: bool,
    /// Only with `keep_places = true`: the stage of the last completion at which the place becomes free.
    #[schemars(with = "Option<PlaceUntil>", extend("default" = "received"))]
    pub keep_places_until: Option<Spanned<PlaceUntil>>,
    /// Settings of the upstream link. The receive buffers of downstream ports are the `root_credits` of the links below them.
    #[serde(default)]
    pub link: Link,
}

fn default_latency_ns() -> Spanned<u64> {
    Spanned::new(0..0, 150)
}

/// Arbitration at an egress port: which ingress port is served next (`PCIe 5.0 §6.3.3.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortArbitration {
    /// Round robin, one TLP at a time.
    #[default]
    RoundRobin,
    /// Weighted round robin: as many TLPs per round as the port's weight.
    Weighted,
}
