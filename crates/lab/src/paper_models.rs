// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices that published experiments are made of, as a lab names them. Never measures: they do.

use crate::boot::{Driver, Task};
use crate::models::{End, Instrument, Plugged, gbps};
use crate::paper_schema::{Disk, DiskWrites, IceNic, Mmio, NicControl};
use config::PcieLayout;
use devices::shared::Shared;
use devices::{disk, ice_nic, mmio};
use serde_json::{Map, Value};
use tlp::{Duration, PayloadPool};
use toml::Spanned;

/// Refuses what is not `1..=most`.
fn legal<T: Into<u64> + Copy>(name: &str, value: &Spanned<T>, most: u64) -> Result<(), String> {
    let value: u64 = (*value.get_ref()).into();
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} of {value}: legal are 1 to {most}"))
    }
}

/// Answered writes take another end than posted ones.
pub(crate) fn disk(keys: Disk, layout: PcieLayout, payloads: &PayloadPool) -> Result<Plugged, String> {
    legal("sectors", &keys.sectors, 10_000_000)?;
    let settings = disk::Settings {
        writes: match keys.writes {
            DiskWrites::NonPosted => disk::Writes::NonPosted,
            DiskWrites::Posted => disk::Writes::Posted,
        },
        access_latency: Duration::from_ns(keys.access_latency_ns.into()),
        request_bytes: keys.request_bytes,
    };
    let report = Shared::default();
    let function = disk::function(settings, layout, payloads, &report).map_err(|e| e.to_string())?;
    let end = match keys.writes {
        DiskWrites::NonPosted => End::NonPosted(function),
        DiskWrites::Posted => End::Function(function),
    };
    let sectors = *keys.sectors.get_ref();
    let driver: Driver = Box::new(move |cpu, found| Box::pin(disk::driver(cpu, found, sectors)));
    Ok(Plugged { end, task: Task::Driver(driver), instrument: Instrument::Disk(report) })
}

pub(crate) fn mmio(keys: Mmio, layout: PcieLayout) -> Result<Plugged, String> {
    legal("reads", &keys.reads, 1_000_000)?;
    legal("bytes", &keys.bytes, 4096)?;
    let report: Shared<mmio::Report> = Shared::default();
    let function = mmio::function(layout).map_err(|e| e.to_string())?;
    let (reads, bytes, told) = (*keys.reads.get_ref(), *keys.bytes.get_ref(), report.clone());
    let driver: Driver =
        Box::new(move |cpu, found| Box::pin(mmio::driver(cpu, found, reads, bytes, told.clone())));
    Ok(Plugged::function(function, driver, Instrument::Mmio(report)))
}

pub(crate) fn ice_nic(keys: IceNic, layout: PcieLayout, payloads: &PayloadPool) -> Result<Plugged, String> {
    legal("frames", &keys.frames, 10_000_000)?;
    let run = ice_nic::Run {
        control: match keys.control {
            NicControl::Each => ice_nic::Control::Each,
            NicControl::Batched => ice_nic::Control::Batched,
        },
        frames: *keys.frames.get_ref(),
        frame_bytes: *keys.frame_bytes.get_ref(),
        batch: *keys.batch.get_ref(),
    };
    run.check()?;
    let settings = ice_nic::Settings {
        access_bytes: keys.access_bytes,
        outstanding: *keys.outstanding.get_ref(),
        loopback_latency: Duration::from_ns(keys.loopback_latency_ns.into()),
    };
    let report = Shared::default();
    let function = ice_nic::function(settings, layout, payloads, &report).map_err(|e| e.to_string())?;
    let driver: Driver = Box::new(move |cpu, found| Box::pin(ice_nic::driver(cpu, found, run)));
    Ok(Plugged::function(function, driver, Instrument::IceNic(report)))
}

fn ns(duration: Duration) -> f64 {
    duration.as_ps() as f64 / 1_000.0
}

fn named<const N: usize>(rows: [(&str, Value); N]) -> Map<String, Value> {
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn disk_results(report: &disk::Report) -> Map<String, Value> {
    let bytes = report.sectors * u64::from(disk::SECTOR_BYTES);
    named([
        ("sectors", report.sectors.into()),
        ("transfer_gbps", gbps(bytes, report.transferring).into()),
        ("disk_gbps", gbps(bytes, report.elapsed).into()),
    ])
}

pub(crate) fn mmio_results(report: &mmio::Report) -> Map<String, Value> {
    let sum: u64 = report.latencies.iter().map(|d| d.as_ps()).sum();
    let ends = || report.latencies.iter().copied();
    named([
        ("reads", report.latencies.len().into()),
        ("latency_ns_min", ends().min().map(ns).into()),
        ("latency_ns_mean", (sum as f64 / 1_000.0 / report.latencies.len().max(1) as f64).into()),
        ("latency_ns_max", ends().max().map(ns).into()),
    ])
}

pub(crate) fn ice_nic_results(report: &ice_nic::Report) -> Map<String, Value> {
    named([
        ("sent_frames", report.sent.into()),
        ("received_frames", report.received.into()),
        ("elapsed_ns", ns(report.elapsed).into()),
        ("sending_ns", ns(report.sending).into()),
        ("receiving_ns", ns(report.receiving).into()),
        ("waiting_ns", ns(report.waiting()).into()),
        ("received_gbps", gbps(report.bytes, report.elapsed).into()),
        ("refused_requests", report.refused.into()),
        ("failed_transfers", report.failed.into()),
    ])
}
