// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A traffic generator as a model for labs, and its report.

use super::{Flow, FlowKind, Traffic, TrafficReport, TrafficSettings};
use endpoint::TlpPort;
use plug::{Fault, MemoryKind, Model, Plugged, RawEnd, Shared, Shown, Site, gbps, ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tlp::{Attributes, Duration, TcSet, Time, TrafficClass};

/// Flows of raw TLPs, each with its type, size, Traffic Class and rate; measures each of them. The generator is below the
/// transaction layer of an endpoint: it has no configuration space, and starts when its link is up.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Its flows, served round robin.
    #[schemars(length(min = 1, max = 64))]
    pub flow: Vec<FlowSettings>,
    /// Time from the start of the link to the first request in picoseconds. A flow to another function's BAR must wait until
    /// enumeration has assigned the BAR.
    #[serde(default)]
    pub start_ps: u64,
}

/// A flow: requests of one kind, one TLP each.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSettings {
    /// Name in reports, unique in its slot.
    pub name: String,
    /// Kind of its requests.
    pub kind: FlowKind,
    /// Size of each request in bytes: for a `write` up to Max_Payload_Size, for a `read` up to Max_Read_Request_Size, for an
    /// `atomic` 4 or 8, for a `message` a multiple of 4 up to Max_Payload_Size. Addresses are multiples of the next power of
    /// two.
    #[serde(default = "default_size")]
    #[schemars(range(min = 0, max = 4096))]
    pub size_bytes: u32,
    /// Traffic Class, which each link on the path maps to a virtual channel.
    #[serde(default)]
    #[schemars(range(min = 0, max = 7))]
    pub tc: u8,
    /// Relaxed Ordering.
    #[serde(default)]
    pub relaxed_ordering: bool,
    /// ID-based Ordering.
    #[serde(default)]
    pub id_based_ordering: bool,
    /// No Snoop.
    #[serde(default)]
    pub no_snoop: bool,
    /// Minimum interval between two requests in picoseconds. By default as fast as the link accepts them.
    #[serde(default)]
    pub interval_ps: u64,
    /// Total number of requests.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub count: u64,
    /// For reads and atomics: maximum number of outstanding requests; at most 1024 for all flows of a slot.
    #[serde(default = "default_outstanding")]
    #[schemars(range(min = 1, max = 1024))]
    pub outstanding: u16,
    /// Size of the window in host memory in bytes, a multiple of 4096.
    #[serde(default = "default_window")]
    #[schemars(range(min = 4096, max = 1_073_741_824), extend("multipleOf" = 4096))]
    pub window_bytes: u64,
    /// Memory for the window.
    #[serde(default = "default_memory")]
    pub memory: MemoryKind,
    /// Address of the window, a multiple of 4096, for example of another function's BAR. Default: in host memory.
    #[serde(default)]
    #[schemars(range(max = 9_223_372_036_854_771_712_u64), extend("multipleOf" = 4096))]
    pub address: Option<u64>,
}

fn default_size() -> u32 {
    256
}

fn default_count() -> u64 {
    10_000
}

fn default_outstanding() -> u16 {
    32
}

fn default_window() -> u64 {
    65_536
}

fn default_memory() -> MemoryKind {
    MemoryKind::High
}

impl Model for Flows {
    const NAME: &'static str = "traffic";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let flow = |(n, flow): (usize, &FlowSettings)| flow.at(n, site);
        let flows = self.flow.iter().enumerate().map(flow).collect::<Result<_, _>>()?;
        let delay = Duration::from_ps(self.start_ps);
        let settings = TrafficSettings { id: site.id, flows, delay, done_vector: Some(site.done_vector) };
        let report = Shared::default();
        let (pool, told) = (site.payloads.clone(), report.clone());
        let make = move || Traffic::new(&settings, &pool, &told);
        let first = Box::new(make().map_err(|e| e.to_string())?);
        let again = Box::new(move || Some(Box::new(make().ok()?) as Box<dyn TlpPort>));
        Ok(Plugged::raw(RawEnd { first, again }, site.done_vector).reporting(&report))
    }

    fn check_together(&self) -> Result<(), Fault> {
        let mut names = BTreeSet::new();
        let second = self.flow.iter().position(|flow| !names.insert(&flow.name));
        second.map_or(Ok(()), |n| {
            let message =
                format!("a second flow named `{}`, expected unique names in a slot", self.flow[n].name);
            Err(Fault::at(&format!("flow.{n}.name"), message))
        })
    }
}

impl FlowSettings {
    /// Returns flow number `n`, with its window in host memory.
    fn at(&self, n: usize, site: &Site<'_>) -> Result<Flow, Fault> {
        let FlowSettings { name, size_bytes, window_bytes, .. } = self;
        let most = match self.kind {
            FlowKind::Read => site.mrrs.bytes(),
            FlowKind::Write | FlowKind::Message => site.mps.bytes(),
            FlowKind::Atomic => 8,
        };
        if *size_bytes > most {
            let why = match self.kind {
                FlowKind::Write | FlowKind::Message => {
                    ", the smallest Max_Payload_Size below its root port, or 128 if a slot of a switch there is hot-plug capable"
                }
                FlowKind::Read | FlowKind::Atomic => "",
            };
            let message =
                format!("flow `{name}`: size_bytes of {size_bytes}, expected at most {most} in one TLP{why}");
            return Err(Fault::at(&format!("flow.{n}.size_bytes"), message));
        }
        self.check_tc(n, site.tcs)?;
        let allocated = || {
            self.memory.alloc(site.memory, *window_bytes, 4096).map_err(|e| {
                Fault::at(&format!("flow.{n}.window_bytes"), format!("flow `{name}`: window: {e}"))
            })
        };
        let address = self.address.map_or_else(allocated, Ok)?;
        let mut attr = Attributes::empty();
        attr.set(Attributes::RELAXED_ORDERING, self.relaxed_ordering);
        attr.set(Attributes::ID_BASED_ORDERING, self.id_based_ordering);
        attr.set(Attributes::NO_SNOOP, self.no_snoop);
        Ok(Flow {
            name: name.clone(),
            kind: self.kind,
            size_bytes: *size_bytes,
            tc: TrafficClass::from_bits(self.tc),
            attr,
            address,
            window_bytes: *window_bytes,
            interval: Duration::from_ps(self.interval_ps),
            count: self.count,
            outstanding: self.outstanding,
        })
    }

    /// Checks that requests of flow number `n` are not dropped: a receiver drops TLPs of an unmapped Traffic Class (`PCIe 5.0
    /// §2.5.3`).
    fn check_tc(&self, n: usize, mapped: TcSet) -> Result<(), Fault> {
        if mapped.contains(TrafficClass::from_bits(self.tc)) {
            return Ok(());
        }
        let legal = (0..8).filter(|tc| mapped.contains(TrafficClass::from_bits(*tc)));
        let legal: Vec<String> = legal.map(|tc| tc.to_string()).collect();
        let message = format!(
            "flow `{}`: tc of {}, expected one that each link of its path maps to a virtual channel: {} (PCIe 5.0 §2.5.2)",
            self.name,
            self.tc,
            legal.join(", ")
        );
        Err(Fault::at(&format!("flow.{n}.tc"), message))
    }
}

impl plug::Report for TrafficReport {
    /// Shows for each flow: requests sent, data rate up to its own end, rate and share while all flows ran, and for reads and
    /// atomics the latencies. A running flow counts up to now.
    fn shown(&self, now: Time) -> Shown {
        let all_shared: u64 = self.flows.iter().map(|f| f.shared_bytes).sum();
        let mut shown = Shown::new();
        for flow in &self.flows {
            let mut put = |what: &str, value: f64| shown.put(format!("{}.{what}", flow.name), value);
            put("gbps", gbps(flow.bytes, flow.end.unwrap_or(now).since(self.start)));
            put("shared_gbps", gbps(flow.shared_bytes, self.shared_time(now)));
            put("share", flow.shared_bytes as f64 / all_shared.max(1) as f64);
            let latencies = &flow.latencies;
            if let (Some(mean), Some((min, max))) = (latencies.mean(), latencies.range())
                && let Some([median, p99]) = latencies.percentiles([500, 990])
            {
                let rows = [("mean", mean), ("min", min), ("median", median), ("p99", p99), ("max", max)];
                rows.into_iter().for_each(|(what, d)| put(&format!("latency_ns_{what}"), ns(d)));
            }
            shown.put(format!("{}.requests", flow.name), flow.sent);
        }
        shown
    }

    fn transfers(&self) -> Option<(u64, u64)> {
        Some((self.flows.iter().map(|f| f.sent).sum(), self.requests))
    }
}
