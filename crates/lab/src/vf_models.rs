// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device with virtual functions, as a lab names it, and what a run shows of each function. Never measures: the device
//! does.

use crate::boot::{FunctionsDriver, Task};
use crate::models::{End, Instrument, PlugError, Plugged, Site, gbps};
use crate::schema::{Lab, Model, Slot};
use crate::vf_schema::DmaEngine;
use config::PcieLayout;
use device::firmware::{Path, VfPolicy};
use devices::dma_engine::{self, Direction, FunctionReport, Load, Report, Settings};
use devices::shared::Shared;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tlp::{Duration, Time};
use toml::Spanned;

/// Refuses what is not `1..=most`.
fn legal(name: &str, value: &Spanned<u32>, most: u32) -> Result<(), PlugError> {
    match *value.get_ref() {
        n if (1..=most).contains(&n) => Ok(()),
        n => Err(PlugError::at(value, format!("{name} of {n}: legal are 1 to {most}"))),
    }
}

pub(crate) fn dma_engine(
    site: &Site<'_>,
    keys: &DmaEngine,
    layout: PcieLayout,
) -> Result<Plugged, PlugError> {
    legal("transfers", &keys.transfers, 10_000_000)?;
    let settings = Settings { vfs: *keys.vfs.get_ref(), window: *keys.window.get_ref() };
    let load = Load {
        transfers: *keys.transfers.get_ref(),
        size_bytes: *keys.size_bytes.get_ref(),
        ring_entries: *keys.ring_entries.get_ref(),
    };
    load.check()?;
    let report = Shared::default();
    let made = dma_engine::functions(settings, layout, site.payloads, &report).map_err(|e| e.to_string())?;
    let (needed, there) = (host_bytes(settings, load), site.memory.size());
    if needed > there {
        let message = format!("its rings and buffers need {needed} B of host memory: there are {there}");
        return Err(PlugError::at(&keys.ring_entries, message));
    }
    let told = report.clone();
    let driver: FunctionsDriver =
        Box::new(move |cpu, found| Box::pin(dma_engine::driver(cpu, found, load, told.clone())));
    let end = match made.virtual_functions {
        None => End::Function(made.physical),
        Some(vfs) => End::VirtualFunctions(made.physical, Box::new(vfs)),
    };
    Ok(Plugged { end, task: Task::Functions(driver), instrument: Instrument::DmaEngine(report) })
}

/// Host memory that the drivers of all functions ask for, by page.
fn host_bytes(settings: Settings, load: Load) -> u64 {
    let pages = |bytes: u64| bytes.next_multiple_of(4096);
    let entries = u64::from(load.ring_entries);
    let ring = pages(entries * dma_engine::DESCRIPTOR_BYTES)
        + pages(entries * u64::from(load.size_bytes))
        + pages(8);
    2 * ring * (u64::from(settings.vfs) + 1)
}

/// The virtual functions that the host is to enable: all that slots name.
pub(crate) fn policy(lab: &Lab, paths: &[Path]) -> VfPolicy {
    let of_slot = |(slot, path): (&Slot, &Path)| {
        let keys = slot.dma_engine.clone().unwrap_or_default();
        let vfs = if slot.device == Model::DmaEngine { *keys.vfs.get_ref() } else { 0 };
        (vfs > 0).then(|| (path.clone(), vfs))
    };
    let all: BTreeMap<Path, u16> = lab.slot.iter().zip(paths).filter_map(of_slot).collect();
    if all.is_empty() { VfPolicy::Off } else { VfPolicy::Listed(all) }
}

/// Buses behind that of a slot that virtual functions of its device stand on: the physical function is function 0, the first
/// virtual one function 1, and 256 functions have room on a bus (`PCIe 5.0 §9.3.3.9`, `§9.3.3.10`).
pub(crate) fn buses_behind(slot: &Slot) -> u8 {
    let default = DmaEngine::default();
    let keys = slot.dma_engine.as_ref().unwrap_or(&default);
    if slot.device == Model::DmaEngine { (*keys.vfs.get_ref() / 256) as u8 } else { 0 }
}

/// The rates of all, the spread of the shares of the virtual functions, and a row for each function. A driver that still runs
/// ends now.
pub(crate) fn results(report: &Report, now: Time) -> Map<String, Value> {
    let all_shared: u64 = report.functions.iter().map(|f| report.shared_bytes(f)).sum();
    let mut map = Map::new();
    map.insert("functions".to_owned(), report.functions.len().into());
    map.insert("shared_gbps".to_owned(), gbps(all_shared, report.shared_time(now)).into());
    map.insert("elapsed_ns".to_owned(), elapsed_ns(report, now).into());
    if let Some(spread) = spread(report) {
        map.insert("vf_share_spread".to_owned(), spread.into());
    }
    for (n, function) in report.functions.iter().enumerate() {
        // In the order of names, which is that of numbers.
        let name = n.checked_sub(1).map_or("pf".to_owned(), |vf| format!("vf{vf:03}"));
        let share = report.shared_bytes(function) as f64 / all_shared.max(1) as f64;
        for (what, value) in row(function, report.elapsed(n, now), share) {
            map.insert(format!("{name}.{what}"), value);
        }
    }
    map
}

/// From the start to the end of the last driver.
fn elapsed_ns(report: &Report, now: Time) -> f64 {
    let last = (0..report.functions.len()).map(|n| report.elapsed(n, now)).max();
    last.map_or(0.0, |d| d.as_ps() as f64 / 1_000.0)
}

/// How much less than the most the least of the virtual functions has got, of the most.
fn spread(report: &Report) -> Option<f64> {
    let shares = || report.functions.iter().skip(1).map(|f| report.shared_bytes(f));
    let (least, most) = (shares().min()?, shares().max()?);
    Some((most - least) as f64 / most.max(1) as f64)
}

fn row(function: &FunctionReport, elapsed: Duration, share: f64) -> Vec<(&'static str, Value)> {
    let ring = |direction: Direction| function.rings[direction.index()];
    let (h2d, d2h) = (ring(Direction::H2d), ring(Direction::D2h));
    vec![
        ("transfers", (h2d.done + d2h.done).into()),
        ("failed", (h2d.failed + d2h.failed).into()),
        ("h2d_gbps", gbps(h2d.bytes, elapsed).into()),
        ("d2h_gbps", gbps(d2h.bytes, elapsed).into()),
        ("share", share.into()),
    ]
}
