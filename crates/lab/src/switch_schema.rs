// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a lab file that say which switches there are and what hangs where. Plain data, as
//! [`schema`](crate::schema), where the other keys are.

use crate::schema::{Forwarding, Link};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A switch, on a root port of its own or below another switch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Its name, unique among slots and switches: at most 64 characters, and not `root`.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// What its upstream link hangs on: `root`, which is a root port of its own, or the name of another switch.
    #[schemars(with = "Option<String>", extend("default" = "root"))]
    pub parent: Option<Spanned<String>>,
    /// The downstream port of the parent that its upstream link hangs on. Default: the first that nothing else is given.
    #[schemars(with = "Option<u8>", range(min = 1, max = 31))]
    pub port: Option<Spanned<u8>>,
    /// Downstream ports. Default: as many as something hangs on.
    #[schemars(with = "Option<u8>", range(min = 1, max = 31))]
    pub downstream_ports: Option<Spanned<u8>>,
    /// The port above it is hot-plug capable: when its upstream link comes back after an `[[outage]]`, the host sets up the
    /// switch and all below it again. Without it, what is below a link that went down is lost. Default: false.
    #[serde(default)]
    pub hot_plug: bool,
    /// The hot-plug capable port above has an attention button, indicators and a power controller. Default: true.
    #[serde(default = "crate::schema::yes")]
    pub hot_plug_controls: bool,
    /// From the end of a TLP at the ingress, or of its header with `cut-through`, to its first symbol at the egress, in
    /// nanoseconds. The default is what measurements of Gen3 switches find (IISWC'18, §VI, cites 150 ns as typical).
    #[serde(default = "default_latency_ns")]
    #[schemars(with = "u64", range(min = 0, max = 1_000_000))]
    pub latency_ns: Spanned<u64>,
    /// When it sends on what comes in.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Who is next at an egress port.
    #[serde(default)]
    pub arbitration: PortArbitration,
    /// With `weighted` arbitration alone: TLPs of each ingress port in a round, the upstream port first.
    #[schemars(with = "Option<Vec<u16>>")]
    pub weights: Option<Spanned<Vec<u16>>>,
    /// Whether a request that is to be answered keeps its place in the receive buffer, and its credits, until its last
    /// completion has come back: as in gem5's bridges (IISWC'18, §V-A), which have room for the response of every request they
    /// let in. Without an answer the place is free when the link that the request left through goes down, or after the
    /// completion timeout of the host's profile, the longest of several. Default: false.
    #[serde(default)]
    pub keep_places: bool,
    /// What its upstream link has of its own. The receive buffers of downstream ports are the `root_credits` of the links
    /// that hang on them.
    #[serde(default)]
    pub link: Link,
}

fn default_latency_ns() -> Spanned<u64> {
    Spanned::new(0..0, 150)
}

/// Which ingress port of a switch an egress port serves next (`PCIe 5.0 §6.3.3.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortArbitration {
    /// Each in turn, a TLP at a time.
    #[default]
    RoundRobin,
    /// Each as many TLPs of a round as its weight says.
    Weighted,
}
