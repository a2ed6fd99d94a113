// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet NICs as a lab names them, and what they have shown. Never measures: they do.

use crate::boot::Driver;
use crate::models::{Instrument, Plugged, gbps};
use crate::nic_schema::{NicKind, NicMode, NicSend, NicTraffic, PacketNic};
use crate::schema::MemoryKind;
use config::PcieLayout;
use devices::packet_nic::{self, Kind, Mode, Report, Send, Settings, Traffic, Way};
use devices::shared::Shared;
use serde_json::{Map, Value};
use tlp::{Duration, PayloadPool};

pub(crate) fn packet_nic(
    keys: &PacketNic,
    layout: PcieLayout,
    payloads: &PayloadPool,
) -> Result<Plugged, String> {
    let settings = settings(keys)?;
    let report: Shared<Report> = Shared::default();
    let function = packet_nic::function(settings, layout, payloads, &report).map_err(|e| e.to_string())?;
    let told = report.clone();
    let driver: Driver =
        Box::new(move |cpu, found| Box::pin(packet_nic::driver(cpu, found, settings, told.clone())));
    Ok(Plugged::function(function, driver, Instrument::PacketNic(report, settings.frame_bytes)))
}

fn settings(keys: &PacketNic) -> Result<Settings, String> {
    let send = match keys.send {
        NicSend::Ring => Send::Ring,
        NicSend::Pio if keys.mode == NicMode::RoundTrip => Send::Pio,
        NicSend::Pio => return Err("send \"pio\": legal with mode \"round-trip\"".into()),
    };
    Ok(Settings {
        kind: match keys.kind {
            NicKind::Simple => Kind::Simple,
            NicKind::Kernel => Kind::Kernel,
            NicKind::Dpdk => Kind::Dpdk,
        },
        mode: match keys.mode {
            NicMode::Throughput => Mode::Throughput,
            NicMode::RoundTrip => Mode::RoundTrip(send),
        },
        traffic: match keys.traffic {
            NicTraffic::Loop => Traffic::Loop,
            NicTraffic::Both => Traffic::Both,
            NicTraffic::Tx => Traffic::Tx,
            NicTraffic::Rx => Traffic::Rx,
        },
        frame_bytes: *keys.frame_bytes.get_ref(),
        frames: *keys.frames.get_ref(),
        warm_up: *keys.warm_up.get_ref(),
        reads: *keys.reads.get_ref(),
        workers: *keys.workers.get_ref(),
        poll: Duration::from_ns((*keys.poll_ns.get_ref()).into()),
        ethernet_gbps: keys.ethernet_gbps.as_ref().map(|gbps| *gbps.get_ref()),
        loop_latency: Duration::from_ns(keys.loop_latency_ns.into()),
        high_memory: keys.memory == MemoryKind::High,
    })
}

/// Frames and rates of each direction that has any, during warm-up those of it, which is said; of round trips the median of the whole, and of PCI Express's part.
pub(crate) fn results(report: &Report, frame_bytes: u32) -> Map<String, Value> {
    let mut map = Map::new();
    for (name, way) in [("tx", &report.tx), ("rx", &report.rx)].into_iter().filter(|(_, way)| way.frames > 0)
    {
        map.insert(format!("{name}_frames"), way.frames.into());
        map.insert(format!("{name}_gbps"), way_gbps(way, frame_bytes).into());
        if way.measured == 0 {
            map.insert(format!("{name}_measured_frames"), 0.into());
        }
    }
    map.insert("interrupts".into(), report.interrupts.into());
    map.insert("failed_transfers".into(), report.failed.into());
    let median = |of: fn(&packet_nic::Trip) -> Duration| {
        let mut all: Vec<u64> = report.trips.iter().map(|trip| of(trip).as_ps()).collect();
        all.sort_unstable();
        all.get(all.len() / 2).map(|ps| *ps as f64 / 1_000.0)
    };
    let medians = [
        ("round_trip_ns_median", median(packet_nic::Trip::total)),
        ("round_trip_pcie_ns_median", median(packet_nic::Trip::pcie)),
    ];
    map.extend(medians.into_iter().filter_map(|(name, ns)| Some((name.to_owned(), ns?.into()))));
    map
}

fn way_gbps(way: &Way, frame_bytes: u32) -> f64 {
    let (frames, time) = way.pace();
    gbps(frames * u64::from(frame_bytes), time)
}
