// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A `replay` device of a lab: its capture, its window in host memory, and its figures beside the recorded ones. Never
//! sends anything itself.

use crate::gate::RawDevice;
use crate::models::{PlugError, Site};
use crate::schema::{Dependencies, MemoryKind, Pace, Replay};
use capture::Reader;
use device::TlpPort;
use devices::replay::{self, Plan, Report, Service, Settings};
use devices::shared::Shared;
use fabric::LinkConfig;
use serde_json::{Map, Value};
use tlp::{Bdf, Duration};

/// The device with this ID, which ends with `vector`.
///
/// # Errors
/// A capture that cannot be read or played on this link, or no room for its window: each at its value.
pub(crate) fn device(
    site: &Site<'_>,
    id: Bdf,
    vector: u16,
    replay: &Replay,
    link: &LinkConfig,
) -> Result<(RawDevice, Shared<Report>), PlugError> {
    let settings = settings(site, id, vector, replay)?;
    let folder = &site.file.base;
    let path = folder.path().join(replay.capture.get_ref());
    let unreadable =
        |e: &dyn std::fmt::Display| PlugError::at(&replay.capture, format!("{}: {e}", path.display()));
    let file = folder.open(replay.capture.get_ref()).map_err(|e| unreadable(&e))?;
    let mut reader = Reader::new(file).map_err(|e| unreadable(&e))?;
    let plan = Plan::read(&mut reader, &settings, link.root.mps.bytes()).map_err(|e| unreadable(&e))?;
    let report = Shared::default();
    let (pool, told) = (site.payloads.clone(), report.clone());
    let make = move || Box::new(replay::Replay::new(plan.clone(), settings, &pool, &told));
    let device = RawDevice { first: make(), again: Box::new(move || Some(make() as Box<dyn TlpPort>)) };
    Ok((device, report))
}

fn settings(site: &Site<'_>, id: Bdf, vector: u16, replay: &Replay) -> Result<Settings, PlugError> {
    let window_bytes = *replay.window_bytes.get_ref();
    let window_base = match replay.memory {
        MemoryKind::Low => site.memory.alloc_low(window_bytes, 4096),
        MemoryKind::High => site.memory.alloc_high(window_bytes, 4096),
    };
    Ok(Settings {
        id,
        done_vector: Some(vector),
        requester: replay.requester.map(|id| id.0),
        pace: match replay.pace {
            Pace::Fabric => replay::Pace::Fabric,
            Pace::Recorded => replay::Pace::Recorded,
        },
        dependencies: match replay.dependencies {
            Dependencies::Tags => replay::Dependencies::Tags,
            Dependencies::Completions => replay::Dependencies::Completions,
        },
        window_base: window_base
            .map_err(|e| PlugError::at(&replay.window_bytes, format!("window_bytes: {e}")))?,
        window_bytes,
    })
}

/// Counts, and then how the requests were served: as recorded, and here.
pub(crate) fn results(report: &Report) -> Map<String, Value> {
    let mut map = Map::new();
    let counts = [
        ("requests", report.requests),
        ("sent", report.sent),
        ("reads_and_atomics", report.non_posted),
        ("bytes_read", report.bytes_read),
        ("bytes_written", report.bytes_written),
        ("outstanding_max", report.max_open as u64),
        ("failed", report.failed),
        ("unexpected_completions", report.unexpected_completions),
        ("repeats_left_out", report.repeats),
    ];
    map.extend(counts.into_iter().map(|(name, n)| (name.to_owned(), n.into())));
    service(&mut map, "recorded", &report.recorded, report.bytes_asked + report.bytes_written);
    service(&mut map, "replayed", &report.replayed, report.bytes_read + report.bytes_written);
    map
}

fn service(map: &mut Map<String, Value>, name: &str, service: &Service, bytes: u64) {
    let ns = |d: Duration| d.as_ps() as f64 / 1_000.0;
    let mut put = |what: &str, value: f64| map.insert(format!("{name}.{what}"), value.into());
    put("elapsed_ns", ns(service.elapsed));
    if service.elapsed > Duration::ZERO {
        put("gbps", bytes as f64 * 8_000.0 / service.elapsed.as_ps() as f64);
    }
    let mut sorted = service.latencies.clone();
    sorted.sort_unstable();
    let Some(last) = sorted.len().checked_sub(1) else { return };
    // The nearest rank, as `riser bench` takes it.
    let rank = |per_mille: usize| sorted[(sorted.len() * per_mille).div_ceil(1000).clamp(1, last + 1) - 1];
    for (what, value) in
        [("min", sorted[0]), ("median", rank(500)), ("p99", rank(990)), ("max", sorted[last])]
    {
        put(&format!("latency_ns_{what}"), ns(value));
    }
}
