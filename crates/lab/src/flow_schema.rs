// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of devices that are all traffic: counters and flows. The reference page in `docs/` is generated from these types
//! and their comments.

use crate::schema::MemoryKind;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A device that increments a counter in host memory.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Counter {
    /// How it increments.
    pub method: CounterMethod,
    /// How often.
    pub increments: u64,
    /// Increments under way at once; with `lock` there is one.
    #[schemars(with = "u16", range(min = 1, max = 256))]
    pub outstanding: Spanned<u16>,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter { method: CounterMethod::FetchAdd, increments: 1000, outstanding: Spanned::new(0..0, 4) }
    }
}

/// Ways to increment a counter that is shared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CounterMethod {
    /// A FetchAdd.
    FetchAdd,
    /// A CAS, again and again until nobody came between.
    CompareSwap,
    /// A read and a write behind a lock that is taken by CAS and released by Swap.
    Lock,
}

/// A traffic generator below the transaction layer of an endpoint: it has no configuration space, and begins when its
/// link is up.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Its flows, which take turns.
    #[schemars(length(min = 1, max = 64))]
    pub flow: Vec<Flow>,
}

/// A flow: requests of one kind, one TLP each.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// What reports call it, unique in its slot.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// What its requests are.
    pub kind: FlowKind,
    /// Bytes of each: of a `write` up to Max_Payload_Size, of a `read` up to Max_Read_Request_Size; of an `atomic` 4 or 8;
    /// of a `message` a multiple of 4, up to Max_Payload_Size. An address is a multiple of the next power of two.
    #[serde(default = "flow_size")]
    #[schemars(with = "u32", range(min = 0, max = 4096), extend("default" = 256))]
    pub size_bytes: Spanned<u32>,
    /// Traffic Class, which the link's map puts on a virtual channel.
    #[serde(default = "flow_tc")]
    #[schemars(with = "u8", range(min = 0, max = 7), extend("default" = 0))]
    pub tc: Spanned<u8>,
    /// Relaxed Ordering.
    #[serde(default)]
    pub relaxed_ordering: bool,
    /// ID-based Ordering.
    #[serde(default)]
    pub id_based_ordering: bool,
    /// No Snoop.
    #[serde(default)]
    pub no_snoop: bool,
    /// Picoseconds from one request to the next at least; without it, as fast as the link takes them.
    #[serde(default)]
    pub interval_ps: u64,
    /// Requests in all.
    #[serde(default = "flow_count")]
    #[schemars(with = "u64", range(min = 1, max = 1_000_000_000_000u64), extend("default" = 10_000))]
    pub count: Spanned<u64>,
    /// Of reads and atomics, requests under way at most; those of all flows of a slot are 1024 at most.
    #[serde(default = "flow_outstanding")]
    #[schemars(with = "u16", range(min = 1, max = 1024), extend("default" = 32))]
    pub outstanding: Spanned<u16>,
    /// Bytes of host memory that the requests go to, a multiple of 4096.
    #[serde(default = "flow_window")]
    #[schemars(with = "u64", range(min = 4096, max = 1_073_741_824), extend("default" = 65_536))]
    pub window_bytes: Spanned<u64>,
    /// Where that lies.
    #[serde(default = "flow_memory")]
    #[schemars(extend("default" = "high"))]
    pub memory: MemoryKind,
}

fn flow_size() -> Spanned<u32> {
    Spanned::new(0..0, 256)
}

fn flow_tc() -> Spanned<u8> {
    Spanned::new(0..0, 0)
}

fn flow_count() -> Spanned<u64> {
    Spanned::new(0..0, 10_000)
}

fn flow_outstanding() -> Spanned<u16> {
    Spanned::new(0..0, 32)
}

fn flow_window() -> Spanned<u64> {
    Spanned::new(0..0, 65_536)
}

fn flow_memory() -> MemoryKind {
    MemoryKind::High
}

/// What the requests of a flow are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// Memory reads.
    Read,
    /// Memory writes.
    Write,
    /// FetchAdds of one.
    Atomic,
    /// Vendor-defined messages to the root complex.
    Message,
}
