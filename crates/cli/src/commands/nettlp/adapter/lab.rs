// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp adapter LAB.toml`: serves the host of a lab, from `riser-worlds`, to NetTLP peers. The lab itself never reads the
//! clock.

use super::Args;
use crate::commands::outside::{Opened, RecordFiles};
use crate::failure::Failure;
use crate::output;
use nettlp::adapter::{Adapter, AdapterSettings, Backend, Strangers};
use nettlp::allow::AllowList;
use nettlp::dropped::Dropped;
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, serve};
use plug::{Models, counted};
use serde::Serialize;
use session::SessionReport;
use session::external::{Driver, Lag, RecordSize};
use session::report::RefusalReport;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::Bdf;
use worlds::adapter::{AdapterPlace, AdapterSlot, LabBackend, Timing, Uplink, serve_all};
use worlds::tools::{Rows, strangers_line};

/// A lab that is to be served.
pub(super) struct LabRun<'a> {
    pub(super) args: &'a Args,
    /// The lab file.
    pub(super) lab: &'a Path,
    /// Options of the sockets of each adapter.
    pub(super) options: Vec<AdapterOptions>,
    /// Peers to serve.
    pub(super) allow: AllowList,
}

/// The report at the end.
#[derive(Serialize)]
struct LabReport {
    #[serde(flatten)]
    only: Option<AdapterReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    adapters: Vec<AdapterReport>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<LagReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordSize>,
    lab: SessionReport,
}

/// Counters of one adapter.
#[derive(Serialize)]
struct AdapterReport {
    /// The place of the adapter, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<String>,
    listen: IpAddr,
    peers: Vec<PeerReport>,
    strangers: Strangers,
    sockets: Rows,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drops: Vec<Dropped>,
    #[serde(skip)]
    refusals: Vec<RefusalReport>,
}

impl AdapterReport {
    fn new<B: Backend>(
        slot: Option<String>,
        listen: IpAddr,
        adapter: &Adapter<B>,
        sockets: &AdapterSockets,
    ) -> AdapterReport {
        let peers = adapter.peers().map(|(address, c)| {
            let counts = [
                ("datagrams", c.datagrams),
                ("reads", c.reads),
                ("writes", c.writes),
                ("refused", c.refused_reads + c.refused_writes),
                ("malformed", c.malformed),
                // Dropped because the lab had no room; sessions wait instead.
                ("no_room", c.no_room),
            ];
            PeerReport { address, counts: Rows::new(counts.into_iter()) }
        });
        let mut drops = adapter.drops();
        drops.extend_from(&sockets.session_drops(), None);
        let name =
            slot.as_ref().map_or("nettlp adapter".to_owned(), |slot| format!("nettlp adapter of {slot}"));
        AdapterReport {
            listen,
            peers: peers.collect(),
            strangers: adapter.strangers(),
            sockets: Rows::new(sockets.counters().rows()),
            drops: drops.iter().copied().collect(),
            refusals: RefusalReport::all(&name, &adapter.refusals()),
            slot,
        }
    }

    fn text(&self) -> Result<(), Failure> {
        if let Some(slot) = &self.slot {
            output::text(&format!("\n{slot}, at {}", self.listen))?;
        }
        let header = ["peer", "datagrams", "reads", "writes", "refused", "malformed", "no room"];
        let row = |p: &PeerReport| {
            std::iter::once(p.address.to_string())
                .chain(p.counts.iter().map(|(_, n)| n.to_string()))
                .collect()
        };
        output::table(&header, self.peers.iter().map(row))?;
        for dropped in &self.drops {
            output::text(&format!("nettlp adapter: {dropped}"))?;
        }
        strangers_line(&self.strangers).iter().try_for_each(|line| output::text(line))?;
        let drops = self.sockets.get("kernel_drops");
        if drops > 0 {
            output::text(&format!("\n{drops} datagrams dropped by the kernel before they were read"))?;
        }
        Ok(())
    }
}

/// Time by which the fabric fell behind real time.
#[derive(Serialize)]
struct LagReport {
    dropped_us: f64,
    times: u64,
}

impl LagReport {
    fn new(lag: Lag) -> LagReport {
        LagReport { dropped_us: lag.dropped.as_ps() as f64 / 1e6, times: lag.times }
    }
}

#[derive(Serialize)]
struct PeerReport {
    address: IpAddr,
    #[serde(flatten)]
    counts: Rows,
}

impl LabRun<'_> {
    fn timing(&self) -> Timing {
        self.args.timing.unwrap_or(Timing::On)
    }

    /// Serves until `stop` is set, or the lab fails.
    ///
    /// # Errors
    /// If a file or socket cannot be opened, read, written or served, or if the lab fails.
    pub(super) fn run(self, models: &Models, stop: &AtomicBool) -> Result<(), Failure> {
        let mut lab = self.args.opening.read(self.lab, models)?;
        self.args.key.iter().for_each(|key| lab.outputs.reads(key));
        lab.file.check_runs_alone().map_err(Failure::run)?;
        let Opened { driver, mut kept, .. } = lab.open(self.timing().into())?;
        let slots: Vec<String> = driver.handles::<AdapterSlot>().map(str::to_owned).collect();
        let devices = self.devices(&slots)?;
        match &slots[..] {
            [] | [_] => self.serve_one(driver, &mut kept, devices[0], stop),
            _ => self.serve_several(driver, &mut kept, (&slots, &devices), stop),
        }
    }

    /// Returns the peer that serves the host's requests to each adapter.
    fn devices(&self, slots: &[String]) -> Result<Vec<Option<IpAddr>>, Failure> {
        let (adapters, Args { listen, device, .. }) = (slots.len().max(1), self.args);
        let list = || format!("for each adapter, in the order of their slots: {}", slots.join(", "));
        for (name, given) in [("--listen", listen.len()), ("--device-peer", device.len())] {
            let is_default = name == "--device-peer" && given == 0;
            if given != adapters && !is_default {
                return Err(Failure::usage(format!(
                    "{name}: {}, expected one {}",
                    counted(given, "value"),
                    list()
                )));
            }
        }
        let named = |n| device.get(n).copied();
        let of = |(n, address): (usize, &IpAddr)| self.args.listening(*address).device(&self.allow, named(n));
        listen.iter().enumerate().map(of).collect()
    }

    fn settings(&self, device: Option<IpAddr>) -> AdapterSettings {
        let (allow, scheme) = (self.allow.clone(), self.args.scheme.ports());
        AdapterSettings { allow, id: Bdf::default(), device, scheme }
    }

    fn serve_one(
        &self,
        driver: Driver,
        kept: &mut RecordFiles,
        device: Option<IpAddr>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut backend = LabBackend::of(driver).map_err(Failure::run)?;
        if let Some(mps) = self.args.mps {
            backend.answer_in(mps);
        }
        let options = &self.options[0];
        let mut sockets = AdapterSockets::bind(options).map_err(Failure::run)?;
        let mut adapter = Adapter::new(self.settings(device), backend);
        self.args.listening(options.address).greet(&self.lab.display().to_string(), &self.allow, device);
        let (before, clock) = (session::cpu_seconds(), Clock::new());
        let served = serve(&mut sockets, &mut adapter, clock, self.args.busy_poll, |adapter, _, _| {
            self.goes_on(adapter.backend_mut().driver_mut(), stop)
        });
        let spent = session::cpu_seconds() - before;
        let seconds = clock.now().as_ps() as f64 / 1e12;
        let size = kept.finish(adapter.backend_mut().driver_mut(), clock.now())?;
        served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
        let report = AdapterReport::new(None, options.address, &adapter, &sockets);
        self.show(adapter.backend_mut().driver_mut(), vec![report], size, (seconds, spent))
    }

    fn serve_several(
        &self,
        mut driver: Driver,
        kept: &mut RecordFiles,
        (slots, devices): (&[String], &[Option<IpAddr>]),
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut uplinks = Vec::new();
        for ((slot, options), device) in slots.iter().zip(&self.options).zip(devices) {
            let place = AdapterPlace::named(&driver, slot).map_err(Failure::run)?;
            if let Some(mps) = self.args.mps {
                place.answer_in(mps);
            }
            let sockets = AdapterSockets::bind(options).map_err(Failure::run)?;
            uplinks.push(Uplink::new(sockets, self.settings(*device), place));
        }
        // All adapters listen before the first line says so.
        for ((slot, options), device) in slots.iter().zip(&self.options).zip(devices) {
            let what = format!("{slot} of {}", self.lab.display());
            self.args.listening(options.address).greet(&what, &self.allow, *device);
        }
        let (before, clock) = (session::cpu_seconds(), Clock::new());
        let served = serve_all(&mut driver, &mut uplinks, clock, self.args.busy_poll, |driver| {
            self.goes_on(driver, stop)
        });
        let spent = session::cpu_seconds() - before;
        let seconds = clock.now().as_ps() as f64 / 1e12;
        let size = kept.finish(&mut driver, clock.now())?;
        served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
        let mut reports = Vec::new();
        for ((slot, options), uplink) in slots.iter().zip(&self.options).zip(&mut uplinks) {
            reports.extend(uplink.join(&mut driver, |adapter, sockets| {
                AdapterReport::new(Some(slot.clone()), options.address, adapter, sockets)
            }));
        }
        self.show(&driver, reports, size, (seconds, spent))
    }

    fn goes_on(&self, lab: &Driver, stop: &AtomicBool) -> bool {
        let done = self.args.until_done && lab.session().fabric.host_outcome().is_some();
        !done && !stop.load(Ordering::Relaxed) && lab.failure().is_none()
    }

    /// Prints the report. Returns the failure of the lab, if it has failed.
    fn show(
        &self,
        driver: &Driver,
        adapters: Vec<AdapterReport>,
        size: Option<RecordSize>,
        (seconds, spent): (f64, f64),
    ) -> Result<(), Failure> {
        let stop = match (driver.failure(), driver.session().fabric.host_outcome()) {
            (Some(why), _) => fabric::Stop::Failed(why.to_owned()),
            (None, Some(_)) => fabric::Stop::Finished,
            (None, None) => fabric::Stop::TimeLimit,
        };
        let mut lab = driver.session().report(&self.lab.display().to_string(), &stop, spent);
        lab.refusals.extend(adapters.iter().flat_map(|adapter| adapter.refusals.clone()));
        let (mut only, mut adapters) = (None, adapters);
        if adapters.len() == 1 {
            only = adapters.pop();
        }
        let lag = (self.timing() == Timing::Lagging).then(|| LagReport::new(driver.lag()));
        let report = LabReport { only, adapters, seconds, lag, record: size, lab };
        if self.args.json { output::json(&report) } else { report.text() }?;
        driver.failure().map_or(Ok(()), |why| Err(Failure::Run(why.to_owned())))
    }
}

impl LabReport {
    fn text(&self) -> Result<(), Failure> {
        output::text(&format!(
            "{}: served {:.1} s, {:.3} s of CPU; {:.3} us simulated, {} TLP-hops",
            self.lab.lab,
            self.seconds,
            self.lab.cpu_seconds,
            self.lab.simulated_ns / 1_000.0,
            self.lab.tlp_hops
        ))?;
        self.only.iter().chain(&self.adapters).try_for_each(AdapterReport::text)?;
        RefusalReport::lines(&self.lab.refusals).try_for_each(|line| output::text(&line))?;
        for device in self.lab.devices.iter().filter(|d| !d.counters.is_empty()) {
            let plain = device.counters.iter().filter(|(_, value)| value.is_number());
            let counts: Vec<String> = plain.map(|(name, value)| format!("{name} {value}")).collect();
            output::text(&format!("\n{} ({}): {}", device.slot, device.model, counts.join(", ")))?;
        }
        if let Some(LagReport { dropped_us, times }) = &self.lag {
            output::text(&format!("\nbehind real time by {dropped_us:.3} us in total, in {times} steps"))?;
        }
        Ok(())
    }
}
