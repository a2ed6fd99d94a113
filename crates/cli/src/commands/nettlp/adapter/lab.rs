// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp adapter LAB.toml`: serves the host of a lab, from `riser-lab`, to NetTLP peers. The lab itself never reads the
//! clock.

use super::Args;
use crate::commands::outside::Opened;
use crate::failure::Failure;
use crate::output;
use nettlp::adapter::{Adapter, Settings, Strangers};
use nettlp::allow::AllowList;
use nettlp::dropped::Dropped;
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, serve};
use plug::Models;
use serde::Serialize;
use session::Report;
use session::external::{Lag, RecordSize};
use session::report::RefusalReport;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::Bdf;
use worlds::adapter::{LabBackend, Timing};
use worlds::tools::{Rows, strangers_line};

/// A lab that is to be served.
pub(super) struct LabRun<'a> {
    pub(super) args: &'a Args,
    /// The lab file.
    pub(super) lab: &'a Path,
    /// Where to listen.
    pub(super) options: AdapterOptions,
    /// Peers to serve.
    pub(super) allow: AllowList,
}

/// The report at the end.
#[derive(Serialize)]
struct LabReport {
    listen: IpAddr,
    seconds: f64,
    peers: Vec<PeerReport>,
    strangers: Strangers,
    sockets: Rows,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<LagReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordSize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drops: Vec<Dropped>,
    lab: Report,
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
        let listening = self.args.listening();
        let device = listening.device(&self.allow, self.args.device)?;
        lab.file.check_runs_alone().map_err(Failure::run)?;
        let Opened { driver, mut kept, .. } = lab.open(self.timing().into())?;
        let mut backend = LabBackend::of(driver).map_err(Failure::run)?;
        if let Some(mps) = self.args.mps {
            backend.answer_in(mps);
        }
        let mut sockets = AdapterSockets::bind(&self.options).map_err(Failure::run)?;
        let settings = Settings {
            allow: self.allow.clone(),
            id: Bdf::default(),
            device,
            scheme: self.args.scheme.ports(),
        };
        let mut adapter = Adapter::new(settings, backend);
        listening.greet(&self.lab.display().to_string(), &self.allow, device);
        let (before, clock) = (session::cpu_seconds(), Clock::new());
        let served = serve(&mut sockets, &mut adapter, clock, self.args.busy_poll, |adapter, _, _| {
            let done = self.args.until_done && adapter.backend().host_outcome().is_some();
            !done && !stop.load(Ordering::Relaxed) && adapter.backend().failure().is_none()
        });
        let spent = session::cpu_seconds() - before;
        let seconds = clock.now().as_ps() as f64 / 1e12;
        let size = kept.finish(adapter.backend_mut().driver_mut(), clock.now())?;
        served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
        self.show(&adapter, &sockets, size, (seconds, spent))?;
        adapter.backend().failure().map_or(Ok(()), |why| Err(Failure::Run(why.to_owned())))
    }

    fn show(
        &self,
        adapter: &Adapter<LabBackend>,
        sockets: &AdapterSockets,
        size: Option<RecordSize>,
        (seconds, spent): (f64, f64),
    ) -> Result<(), Failure> {
        let backend = adapter.backend();
        let stop = match (backend.failure(), backend.host_outcome()) {
            (Some(why), _) => fabric::Stop::Failed(why.to_owned()),
            (None, Some(_)) => fabric::Stop::Finished,
            (None, None) => fabric::Stop::TimeLimit,
        };
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
        let mut lab = backend.session().report(&self.lab.display().to_string(), &stop, spent);
        lab.refusals.extend(RefusalReport::all("nettlp adapter", &adapter.refusals()));
        let mut drops = adapter.drops();
        drops.extend_from(&sockets.session_drops(), None);
        let report = LabReport {
            listen: self.options.address,
            seconds,
            peers: peers.collect(),
            strangers: adapter.strangers(),
            sockets: Rows::new(sockets.counters().rows()),
            lag: (self.timing() == Timing::Lagging).then(|| LagReport::new(backend.lag())),
            record: size,
            drops: drops.iter().copied().collect(),
            lab,
        };
        if self.args.json { output::json(&report) } else { report.text() }
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
        let header = ["peer", "datagrams", "reads", "writes", "refused", "malformed", "no room"];
        let row = |p: &PeerReport| {
            std::iter::once(p.address.to_string())
                .chain(p.counts.iter().map(|(_, n)| n.to_string()))
                .collect()
        };
        output::table(&header, self.peers.iter().map(row))?;
        RefusalReport::lines(&self.lab.refusals).try_for_each(|line| output::text(&line))?;
        for dropped in &self.drops {
            output::text(&format!("nettlp adapter: {dropped}"))?;
        }
        for device in self.lab.devices.iter().filter(|d| !d.counters.is_empty()) {
            let plain = device.counters.iter().filter(|(_, value)| value.is_number());
            let counts: Vec<String> = plain.map(|(name, value)| format!("{name} {value}")).collect();
            output::text(&format!("\n{} ({}): {}", device.slot, device.model, counts.join(", ")))?;
        }
        if let Some(LagReport { dropped_us, times }) = &self.lag {
            output::text(&format!("\nbehind real time by {dropped_us:.3} us in total, in {times} steps"))?;
        }
        strangers_line(&self.strangers).iter().try_for_each(|line| output::text(line))?;
        let drops = self.sockets.get("kernel_drops");
        if drops > 0 {
            output::text(&format!("\n{drops} datagrams dropped by the kernel before they were read"))?;
        }
        Ok(())
    }
}
