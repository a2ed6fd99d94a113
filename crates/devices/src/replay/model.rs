// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A replay as a model for labs: its capture, its window in host memory, and its figures next to the recorded ones.

use super::{Dependencies, Pace, Plan, Replay, ReplayReport, ReplaySettings, Service};
use capture::Reader;
use endpoint::TlpPort;
use plug::{
    Fault, FunctionId, MemoryKind, Model, Plugged, RawEnd, Shared, Shown, Site, gbps, nearest_rank, ns,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use tlp::{Duration, Time};

/// Replay of the requests of a capture's devices, with their sizes, tags and attributes. The device is below the transaction
/// layer of an endpoint: it has no configuration space, and starts when its link is up. A request waits until its tag is
/// free. Recorded addresses are folded into host memory. The data of writes is not carried, only counted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Playback {
    /// The capture, pcap or pcapng: a path relative to the lab file.
    pub capture: String,
    /// Replay only the requests of this requester, written as `19:00.0`. Default: requests of all devices.
    pub requester: Option<FunctionId>,
    /// When to send requests.
    #[serde(default)]
    pub pace: Pace,
    /// Condition for sending a request, in addition to its order and its time.
    #[serde(default)]
    pub dependencies: Dependencies,
    /// Size in bytes of the host memory into which addresses are folded, modulo this size: a power of two.
    #[serde(default = "default_window")]
    #[schemars(range(min = 4096, max = 1_073_741_824), extend("powerOfTwo" = true))]
    pub window_bytes: u64,
    /// Memory for the window. In high memory, requests with a header of three DW get a header of four DW.
    #[serde(default = "default_memory")]
    pub memory: MemoryKind,
}

fn default_memory() -> MemoryKind {
    MemoryKind::Low
}

fn default_window() -> u64 {
    16 << 20
}

impl Model for Playback {
    const NAME: &'static str = "replay";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let settings = self.settings(site)?;
        let path = site.folder.path().join(&self.capture);
        let unreadable = |e: &dyn Display| Fault::at("capture", format!("{}: {e}", path.display()));
        let file = site.folder.open(&self.capture).map_err(|e| unreadable(&e))?;
        let mut reader = Reader::new(file).map_err(|e| unreadable(&e))?;
        let plan = Plan::read(&mut reader, &settings, site.mps.bytes()).map_err(|e| unreadable(&e))?;
        let report = Shared::default();
        let (pool, told) = (site.payloads.clone(), report.clone());
        let make = move || Box::new(Replay::new(plan.clone(), settings, &pool, &told)) as Box<dyn TlpPort>;
        let device = RawEnd { first: make(), again: Box::new(move || Some(make())) };
        Ok(Plugged::raw(device, site.done_vector).reporting(&report))
    }
}

impl Playback {
    fn settings(&self, site: &Site<'_>) -> Result<ReplaySettings, Fault> {
        let window_base = self.memory.alloc(site.memory, self.window_bytes, 4096);
        Ok(ReplaySettings {
            id: site.id,
            done_vector: Some(site.done_vector),
            requester: self.requester.map(|id| id.0),
            pace: self.pace,
            dependencies: self.dependencies,
            window_base: window_base.map_err(|e| Fault::at("window_bytes", format!("window_bytes: {e}")))?,
            window_bytes: self.window_bytes,
        })
    }
}

impl plug::Report for ReplayReport {
    /// Shows counts, then the service of the requests: in the recording, and in this run.
    fn shown(&self, _: Time) -> Shown {
        let mut shown = Shown::new()
            .with("requests", self.requests)
            .with("sent", self.sent)
            .with("reads_and_atomics", self.non_posted)
            .with("bytes_read", self.bytes_read)
            .with("bytes_written", self.bytes_written)
            .with("outstanding_max", self.max_open)
            .with("failed", self.failed)
            .with("unexpected_completions", self.unexpected_completions)
            .with("repeats_left_out", self.repeats);
        self.recorded.show(&mut shown, "recorded", self.bytes_asked + self.bytes_written);
        self.replayed.show(&mut shown, "replayed", self.bytes_read + self.bytes_written);
        shown
    }
}

impl Service {
    fn show(&self, shown: &mut Shown, name: &str, bytes: u64) {
        let mut put = |what: &str, value: f64| shown.put(format!("{name}.{what}"), value);
        put("elapsed_ns", ns(self.elapsed));
        if self.elapsed > Duration::ZERO {
            put("gbps", gbps(bytes, self.elapsed));
        }
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        for (what, per_mille) in [("min", 0), ("median", 500), ("p99", 990), ("max", 1_000)] {
            let Some(value) = nearest_rank(&sorted, per_mille) else { return };
            put(&format!("latency_ns_{what}"), ns(value));
        }
    }
}
