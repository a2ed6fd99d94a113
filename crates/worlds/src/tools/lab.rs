// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves the host of a lab to NetTLP peers, for the command that runs an adapter with a lab. The lab itself never reads the clock.

use super::{Rows, strangers_line};
use crate::adapter::{AdapterPlace, LabBackend, Timing, Uplink, serve_all};
use crate::opening::RecordFiles;
use fabric::Stop;
use files::{Error, Note};
use nettlp::adapter::{Adapter, AdapterSettings, Backend, Strangers};
use nettlp::dropped::Dropped;
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, serve};
use serde::Serialize;
use session::SessionReport;
use session::external::{Driver, Lag, RecordSize};
use session::report::{RefusalReport, SeenRefusals};
use session::table::numbers;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::rules::Refusal;
use tlp::{Duration, Mps, Time};

/// Time between two checks for refused TLPs.
const WATCH: Duration = Duration::from_ms(20);

/// An adapter of a lab.
pub struct LabAdapter {
    /// Slot of the adapter, if the lab has several.
    pub slot: Option<String>,
    /// Options of its sockets.
    pub options: AdapterOptions,
    /// Its peers.
    pub settings: AdapterSettings,
}

/// How a lab is served.
pub struct LabServing<'a> {
    /// Name of the lab in the report.
    pub name: String,
    /// The adapters.
    pub adapters: Vec<LabAdapter>,
    /// Limit of the data of a completion to a peer, in place of the lab's.
    pub mps: Option<Mps>,
    /// Delay of answers.
    pub timing: Timing,
    /// Poll instead of sleeping.
    pub busy: bool,
    /// End when the program of the lab's host ends.
    pub until_done: bool,
    /// Ends the run.
    pub stop: &'a AtomicBool,
    /// Takes a line for the first refused TLP of each kind, at once.
    pub note: Note,
}

/// The report, and the failure of the lab, if it has failed.
type Served = (LabReport, Option<String>);

/// The report at the end.
#[derive(Serialize)]
pub struct LabReport {
    #[serde(flatten)]
    only: Option<AdapterRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    adapters: Vec<AdapterRow>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<LagReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordSize>,
    lab: SessionReport,
}

/// Reports the first refused TLP of each kind.
#[derive(Default)]
struct RefusalWatch {
    seen: SeenRefusals,
    next: Time,
}

impl RefusalWatch {
    /// Returns true if it is time to call [`observe`](Self::observe).
    fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + WATCH;
        }
        is_due
    }

    /// Reports the new kinds of the lab and of its adapters, each with its slot.
    fn observe<'a>(
        &mut self,
        lab: &Driver,
        adapters: impl Iterator<Item = (Option<&'a str>, &'a [Refusal])> + Clone,
        note: Note,
    ) {
        let session = lab.session();
        let kinds = adapters.clone().map(|(_, refusals)| refusals.len()).sum::<usize>();
        let new = self.seen.new_kinds(kinds + session.fabric.refusal_kinds(), || {
            let of_adapters =
                adapters.flat_map(|(slot, refusals)| RefusalReport::all(&place(slot), refusals));
            session.refusals().into_iter().chain(of_adapters).collect()
        });
        new.iter().for_each(|refusal| note(refusal));
    }
}

/// Returns the name of an adapter in reports.
fn place(slot: Option<&str>) -> String {
    slot.map_or("nettlp adapter".to_owned(), |slot| format!("nettlp adapter of {slot}"))
}

/// Counters of one adapter.
#[derive(Serialize)]
struct AdapterRow {
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

impl AdapterRow {
    fn new<B: Backend>(
        slot: Option<String>,
        listen: IpAddr,
        adapter: &Adapter<B>,
        sockets: &AdapterSockets,
    ) -> AdapterRow {
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
        AdapterRow {
            listen,
            peers: peers.collect(),
            strangers: adapter.strangers(),
            sockets: Rows::new(sockets.counters().rows()),
            drops: drops.iter().copied().collect(),
            refusals: RefusalReport::all(&place(slot.as_deref()), &adapter.refusals()),
            slot,
        }
    }
}

impl Display for AdapterRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(slot) = &self.slot {
            write!(f, "\n\n{slot}, at {}", self.listen)?;
        }
        let header = ["peer", "datagrams", "reads", "writes", "refused", "malformed", "no room"];
        let row = |p: &PeerReport| {
            std::iter::once(p.address.to_string())
                .chain(p.counts.iter().map(|(_, n)| n.to_string()))
                .collect()
        };
        write!(f, "\n{}", numbers(&header, self.peers.iter().map(row)))?;
        self.drops.iter().try_for_each(|dropped| write!(f, "\nnettlp adapter: {dropped}"))?;
        strangers_line(&self.strangers).iter().try_for_each(|line| write!(f, "\n{line}"))?;
        match self.sockets.get("kernel_drops") {
            0 => Ok(()),
            drops => write!(f, "\n\n{drops} datagrams dropped by the kernel before they were read"),
        }
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

impl LabServing<'_> {
    /// Serves until the end. Calls `listening` for each adapter when all of them listen.
    ///
    /// # Errors
    /// A file or socket that cannot be opened, read, written or served.
    pub fn run(
        &self,
        driver: Driver,
        kept: &mut RecordFiles,
        listening: impl FnMut(&LabAdapter),
    ) -> Result<Served, Error> {
        match &self.adapters[..] {
            [only] => self.serve_one(only, driver, kept, listening),
            _ => self.serve_several(driver, kept, listening),
        }
    }

    fn serve_one(
        &self,
        only: &LabAdapter,
        driver: Driver,
        kept: &mut RecordFiles,
        listening: impl FnMut(&LabAdapter),
    ) -> Result<Served, Error> {
        let mut backend = LabBackend::of(driver).map_err(failed)?;
        if let Some(mps) = self.mps {
            backend.answer_in(mps);
        }
        let mut sockets = AdapterSockets::bind(&only.options).map_err(failed)?;
        let mut adapter = Adapter::new(only.settings.clone(), backend);
        self.adapters.iter().for_each(listening);
        let (before, clock) = (session::cpu_seconds(), Clock::new());
        let mut watch = RefusalWatch::default();
        let served = serve(&mut sockets, &mut adapter, clock, self.busy, |adapter, _, now| {
            let goes_on = self.goes_on(adapter.backend().driver());
            if watch.is_due(now) || !goes_on {
                let own = std::iter::once((None, adapter.own_refusals()));
                watch.observe(adapter.backend().driver(), own, self.note);
            }
            goes_on
        });
        let spent = (clock.now(), session::cpu_seconds() - before);
        let size = kept.finish(adapter.backend_mut().driver_mut(), spent.0)?;
        served.map_err(serving)?;
        let report = AdapterRow::new(None, only.options.address, &adapter, &sockets);
        Ok(self.report(adapter.backend_mut().driver_mut(), vec![report], size, spent))
    }

    fn serve_several(
        &self,
        mut driver: Driver,
        kept: &mut RecordFiles,
        listening: impl FnMut(&LabAdapter),
    ) -> Result<Served, Error> {
        let mut uplinks = Vec::new();
        for LabAdapter { slot, options, settings } in &self.adapters {
            let place = AdapterPlace::named(&driver, slot.as_deref().unwrap_or_default()).map_err(failed)?;
            if let Some(mps) = self.mps {
                place.answer_in(mps);
            }
            let sockets = AdapterSockets::bind(options).map_err(failed)?;
            uplinks.push(Uplink::new(sockets, settings.clone(), place));
        }
        // All adapters listen before the first line says so.
        self.adapters.iter().for_each(listening);
        let (before, clock) = (session::cpu_seconds(), Clock::new());
        let mut watch = RefusalWatch::default();
        let served = serve_all(&mut driver, &mut uplinks, clock, self.busy, |driver, uplinks| {
            let goes_on = self.goes_on(driver);
            if watch.is_due(clock.now()) || !goes_on {
                let slots = self.adapters.iter().map(|adapter| adapter.slot.as_deref());
                let own = slots.zip(uplinks.iter().map(Uplink::refusals));
                watch.observe(driver, own, self.note);
            }
            goes_on
        });
        let spent = (clock.now(), session::cpu_seconds() - before);
        let size = kept.finish(&mut driver, spent.0)?;
        served.map_err(serving)?;
        let mut reports = Vec::new();
        for (LabAdapter { slot, options, .. }, uplink) in self.adapters.iter().zip(&mut uplinks) {
            reports.extend(uplink.join(&mut driver, |adapter, sockets| {
                AdapterRow::new(slot.clone(), options.address, adapter, sockets)
            }));
        }
        Ok(self.report(&driver, reports, size, spent))
    }

    fn goes_on(&self, lab: &Driver) -> bool {
        let done = self.until_done && lab.session().fabric.host_outcome().is_some();
        !done && !self.stop.load(Ordering::Relaxed) && lab.failure().is_none()
    }

    fn report(
        &self,
        driver: &Driver,
        mut adapters: Vec<AdapterRow>,
        record: Option<RecordSize>,
        (ended, spent): (Time, f64),
    ) -> Served {
        let seconds = ended.as_ps() as f64 / 1e12;
        let stop = match (driver.failure(), driver.session().fabric.host_outcome()) {
            (Some(why), _) => Stop::Failed(why.to_owned()),
            (None, Some(_)) => Stop::Finished,
            (None, None) => Stop::TimeLimit,
        };
        let mut lab = driver.session().report(&self.name, &stop, spent);
        lab.refusals.extend(adapters.iter().flat_map(|adapter| adapter.refusals.clone()));
        let only = if adapters.len() == 1 { adapters.pop() } else { None };
        let lag = (self.timing == Timing::Lagging).then(|| LagReport::new(driver.lag()));
        (LabReport { only, adapters, seconds, lag, record, lab }, driver.failure().map(str::to_owned))
    }
}

fn failed(error: impl Display) -> Error {
    Error::File(error.to_string())
}

fn serving(error: std::io::Error) -> Error {
    Error::File(format!("serving: {error}"))
}

impl Display for LabReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: served {:.1} s, {:.3} s of CPU; {:.3} us simulated, {} TLP-hops",
            self.lab.lab,
            self.seconds,
            self.lab.cpu_seconds,
            self.lab.simulated_ns / 1_000.0,
            self.lab.tlp_hops
        )?;
        self.only.iter().chain(&self.adapters).try_for_each(|adapter| write!(f, "{adapter}"))?;
        RefusalReport::lines(&self.lab.refusals).try_for_each(|line| write!(f, "\n{line}"))?;
        for device in self.lab.devices.iter().filter(|d| !d.counters.is_empty()) {
            let plain = device.counters.iter().filter(|(_, value)| value.is_number());
            let counts: Vec<String> = plain.map(|(name, value)| format!("{name} {value}")).collect();
            write!(f, "\n\n{} ({}): {}", device.slot, device.model, counts.join(", "))?;
        }
        match &self.lag {
            Some(LagReport { dropped_us, times }) => {
                write!(f, "\n\nbehind real time by {dropped_us:.3} us in total, in {times} steps")
            }
            None => Ok(()),
        }
    }
}
