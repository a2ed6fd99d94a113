// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices that ship, as a lab names them: each with its driver and what it shows.

use crate::boot::Driver;
use crate::read::LabFile;
use crate::schema::{Memory, MemoryKind, Model, Pattern, PcieBench, SimpleNic, Slot};
use crate::values::Picoseconds;
use crate::{links, profile};
use config::PcieLayout;
use device::endpoint::FunctionConfig;
use devices::shared::Shared;
use devices::simple_nic::{Counters, Peer, PingReport, PingSettings, Station};
use devices::{memory, pcie_bench, simple_nic};
use serde_json::{Map, Value};
use std::net::Ipv4Addr;
use tlp::{Duration, PayloadPool};

/// A device and what belongs to it on the host's side.
pub(crate) struct Plugged {
    pub(crate) function: FunctionConfig,
    pub(crate) driver: Driver,
    pub(crate) instrument: Instrument,
}

/// What a device shows beside its packets.
pub(crate) enum Instrument {
    None,
    Nic(Shared<Counters>, PingReport),
    Bench(pcie_bench::ResultsHandle),
}

/// The host of a lab's NICs, and who answers it. The Ethernet addresses are locally administered (IEEE 802, bit 1 of the
/// first byte), the IPv4 addresses for documentation (RFC 5737).
const HOST: Station = Station { mac: [0x02, 0, 0, 0, 0, 1], ip: Ipv4Addr::new(192, 0, 2, 1) };
const PEER: Station = Station { mac: [0x02, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(192, 0, 2, 2) };

/// How long the NIC's driver waits for an answer, beside the peer's own latency.
const PING_PATIENCE: Duration = Duration::from_ms(100);

/// The device that `slot` names.
pub(crate) fn plug(file: &LabFile, slot: &Slot, payloads: &PayloadPool) -> Result<Plugged, String> {
    let layout = links::layout(&links::config(&file.lab.link, &slot.link));
    let plugged = match slot.device {
        Model::Memory => plug_memory(slot.memory.clone().unwrap_or_default(), layout),
        Model::SimpleNic => plug_nic(slot.simple_nic.clone().unwrap_or_default(), layout, payloads),
        Model::PcieBench => plug_bench(file, slot.pcie_bench.clone().unwrap_or_default(), layout, payloads),
    };
    plugged.map_err(|e| format!("slot `{}`: {e}", slot.name.get_ref()))
}

fn plug_memory(settings: Memory, layout: PcieLayout) -> Result<Plugged, String> {
    let own = memory::Settings { bar: 0, size_bytes: *settings.size_bytes.get_ref() };
    let exercise = &settings.exercise_bytes;
    let given = exercise.span() != (0..0);
    if given && u64::from(*exercise.get_ref()) > own.size_bytes {
        return Err(format!(
            "exercise_bytes of {}: at most the {} of the BAR",
            exercise.get_ref(),
            own.size_bytes
        ));
    }
    let function = memory::function(own, layout).map_err(|e| e.to_string())?;
    let driver: Driver = Box::new(move |cpu, found| {
        Box::pin(memory::driver(cpu, found, own.bar, *settings.exercise_bytes.get_ref()))
    });
    Ok(Plugged { function, driver, instrument: Instrument::None })
}

fn plug_nic(settings: SimpleNic, layout: PcieLayout, payloads: &PayloadPool) -> Result<Plugged, String> {
    let (counters, report) = (Shared::default(), PingReport::default());
    let latency = Duration::from_ns(settings.peer_latency_ns);
    let peer = Peer { station: PEER, latency };
    let bar = *settings.bar.get_ref();
    let function = simple_nic::function(bar, layout, payloads, peer, &counters).map_err(|e| e.to_string())?;
    let pings = PingSettings {
        bar,
        local: HOST,
        peer: PEER.ip,
        count: settings.pings,
        bytes: *settings.ping_bytes.get_ref(),
        timeout: latency + PING_PATIENCE,
    };
    let told = report.clone();
    let driver: Driver = Box::new(move |cpu, found| Box::pin(simple_nic::driver(cpu, found, pings, told)));
    Ok(Plugged { function, driver, instrument: Instrument::Nic(counters, report) })
}

fn plug_bench(
    file: &LabFile,
    settings: PcieBench,
    layout: PcieLayout,
    payloads: &PayloadPool,
) -> Result<Plugged, String> {
    let card = profile::device(settings.profile.get_ref(), &file.base)?;
    let ps = |f: &profile::Figure<Picoseconds>| Duration::from_ps(f.value.0);
    let own = pcie_bench::Settings {
        test: settings.test.into(),
        size_bytes: *settings.size_bytes.get_ref(),
        window_bytes: *settings.window_bytes.get_ref(),
        host_offset_bytes: *settings.host_offset_bytes.get_ref(),
        pattern: match settings.pattern {
            Pattern::Sequential => pcie_bench::Pattern::Sequential,
            Pattern::Random => pcie_bench::Pattern::Random,
        },
        outstanding: settings.outstanding.map_or(card.outstanding.value, |n| *n.get_ref()),
        transfers: settings.transfers,
        warm_up: settings.warm_up,
        carry: settings.carry,
        issue_latency: ps(&card.issue_latency_ps),
        done_latency: ps(&card.done_latency_ps),
        transfer_service: ps(&card.transfer_service_ps),
        seed: file.lab.seed,
    };
    let placement = match settings.memory {
        MemoryKind::Low => pcie_bench::Placement::Low,
        MemoryKind::High => pcie_bench::Placement::High,
    };
    let (results, window) = (pcie_bench::ResultsHandle::new(), own.window_bytes);
    let function = pcie_bench::function(own, layout, payloads, &results).map_err(|e| e.to_string())?;
    let driver: Driver =
        Box::new(move |cpu, found| Box::pin(pcie_bench::driver(cpu, found, window, placement)));
    Ok(Plugged { function, driver, instrument: Instrument::Bench(results) })
}

impl Instrument {
    /// What the device shows, by name.
    pub(crate) fn results(&self) -> Map<String, Value> {
        match self {
            Instrument::None => Map::new(),
            Instrument::Nic(counters, report) => nic_results(&counters.get(), &report.get()),
            Instrument::Bench(results) => bench_results(&results.get()),
        }
    }
}

fn nic_results(counters: &Counters, pings: &simple_nic::Pings) -> Map<String, Value> {
    let trips: Vec<f64> = pings.round_trips.iter().map(|d| d.as_ps() as f64 / 1_000.0).collect();
    let counts = [
        ("tx_frames", counters.tx_frames),
        ("rx_frames", counters.rx_frames),
        ("refused_doorbells", counters.refused_doorbells),
        ("refused_descriptors", counters.refused_descriptors),
        ("no_buffer", counters.no_buffer),
        ("lost_frames", counters.lost),
        ("dma_errors", counters.dma_errors),
        ("pings_answered", trips.len() as u64),
    ];
    let counts = counts.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n.into()));
    counts.chain([("ping_round_trips_ns".to_owned(), trips.into())]).collect()
}

fn bench_results(results: &pcie_bench::Results) -> Map<String, Value> {
    let ps = results.elapsed().as_ps();
    let gbps = |bytes: u64| if ps == 0 { 0.0 } else { bytes as f64 * 8_000.0 / ps as f64 };
    let rows: [(&str, Value); 4] = [
        ("transfers", results.transfers.into()),
        ("measured_ns", (ps as f64 / 1_000.0).into()),
        ("read_gbps", gbps(results.bytes_read).into()),
        ("write_gbps", gbps(results.bytes_written).into()),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
