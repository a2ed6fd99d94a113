// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp device`: any model of a lab as device software behind an adapter, from `riser-nettlp`. Knows no model by name.

use super::bytes::mps;
use super::software::{self, Behind, Ended, LONGEST, Watch, carry};
use super::way::WayArgs;
use crate::commands::labs::{self, Native};
use crate::commands::sizes::seed;
use crate::failure::Failure;
use crate::{interrupt, output};
use config::PcieLayout;
use host::memory::HostMemory;
use nettlp::carrier::Wait;
use nettlp::device_host::{DeviceHost, Settings};
use nettlp::net::{AnyCarrier, Clock};
use plug::file::{FileErrors, Folder, Overrides, Source};
use plug::plugged::{AnyReport, FunctionEnd};
use plug::{End, Models, Plan, RunContext, Shown, Site};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tlp::{Mps, Mrrs, PayloadPool, TcSet, Time};

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter labs/nettlp/mmio.toml --allow 127.0.0.2,all,rw &
  riser nettlp device memory --set size_bytes=65536 --remote 127.0.0.1 --local 127.0.0.2
  riser nettlp adapter labs/nettlp/dma.toml --allow 127.0.0.2,all,rw &
  riser nettlp device dma-engine --set vfs=0 --remote 127.0.0.1 --local 127.0.0.2

The device that a lab would have in a slot, unchanged, behind an adapter: it answers the reads and writes of the adapter's BAR4, \
reads and writes the memory of its host, and interrupts as the host's MSI-X table says. What the host does with it is its own \
business; the host of `riser nettlp adapter LAB.toml` runs the driver of a model where the slot of the lab says `driver = \"MODEL\"`.
An adapter that goes is waited for; when one is there again, the device begins anew. Ctrl-C ends it. \
--json prints one object: model, session (false: a port per tag), received_tlps, sent_tlps, malformed, unexpected_completions, not_carried, \
  interrupts, lost_interrupts; over ports of upstream's also reads_asked_again, reads_timed_out, late_completions; came_back, how often the \
  adapter did; counters: what `riser run` reports of the device.";

/// Be any model of a lab, as the device of a remote host
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The model: what labs call the device
    #[arg(value_name = "MODEL")]
    model: String,

    #[command(flatten)]
    way: WayArgs,

    /// A file with its settings: the keys of its table in a lab
    #[arg(long, value_name = "FILE.toml")]
    settings: Option<PathBuf>,

    /// Set a key of its settings, over what the file says; again for further ones
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// The BAR of the device that the adapter's BAR4 shows [default: its first of memory]
    #[arg(long, value_name = "BAR", value_parser = clap::value_parser!(u8).range(0..=5))]
    bar: Option<u8>,

    /// Max_Payload_Size of the adapter's path: the longest write, and the longest completion that is taken
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = mps)]
    mps: Mps,

    #[command(flatten)]
    native: Native,

    /// Seed of all that the device draws
    #[arg(long, default_value = "0", allow_negative_numbers = true, value_parser = seed)]
    seed: u64,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    model: String,
    session: bool,
    #[serde(flatten)]
    counts: Counts,
    came_back: u64,
    counters: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize, Default)]
struct Counts {
    received_tlps: u64,
    sent_tlps: u64,
    malformed: u64,
    unexpected_completions: u64,
    not_carried: u64,
    interrupts: u64,
    lost_interrupts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads_asked_again: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads_timed_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late_completions: Option<u64>,
}

/// The device behind an adapter.
struct Software {
    host: DeviceHost<AnyCarrier>,
    report: Option<Box<dyn AnyReport>>,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    let plan = args.plan(models)?;
    // What is wrong with it is told before anybody is asked.
    args.function(&plan, &Surroundings::new()?)?;
    let stop = interrupt::flag()?;
    let mut device = args.plug_in(&plan)?;
    let (watch, mut came_back) = (Watch::start(args.way.clone()), 0);
    loop {
        let (session, clock) = (software::is_session(device.host.carrier()), Clock::new());
        let ended = carry(session, &watch, &stop, || device.turn(clock));
        if !matches!(ended, Ok(Ended::Gone)) {
            args.end(&args.report(&device, clock.now(), came_back))?;
            let place =
                if device.failure().is_some() { args.model.clone() } else { args.way.remote().to_string() };
            return ended.map(drop).map_err(|e| Failure::Run(format!("{place}: {e}")));
        }
        output::note(format_args!("the adapter at {} has gone; waiting until it is back", args.way.remote()));
        let last = args.report(&device, clock.now(), came_back);
        // The next one needs its ports.
        drop(device);
        let Some(again) = args.way.again(&stop, || args.plug_in(&plan)) else { return args.end(&last) };
        device = again;
        came_back += 1;
    }
}

impl Software {
    /// Carries what has come, or comes soon.
    fn turn(&mut self, clock: Clock) -> std::io::Result<()> {
        let due = self.host.poll_timeout().map_or(LONGEST, |at| at.since(clock.now()).min(LONGEST));
        let received = self.host.receive(Wait::AtMost(due));
        // Whatever was received, the device goes on.
        self.host.advance(clock.now())?;
        match self.failure() {
            Some(why) => Err(std::io::Error::other(why)),
            None => received.map(drop),
        }
    }

    /// Why the device can do nothing any more, if it cannot.
    fn failure(&self) -> Option<String> {
        self.report.as_ref()?.failure()
    }

    fn counts(&self) -> Counts {
        let (host, (interrupts, lost_interrupts)) = (self.host.counters(), self.host.vectors().counts());
        let reads = self.host.read_counters();
        Counts {
            received_tlps: host.received,
            sent_tlps: host.sent,
            malformed: host.malformed,
            unexpected_completions: host.unexpected,
            not_carried: host.not_carried,
            interrupts,
            lost_interrupts,
            reads_asked_again: reads.map(|r| r.retried),
            reads_timed_out: reads.map(|r| r.timed_out),
            late_completions: reads.map(|r| r.late),
        }
    }
}

/// The function of a model, the BAR that is shown, and what it reports.
struct Function {
    end: FunctionEnd,
    bar: u8,
    report: Option<Box<dyn AnyReport>>,
}

/// What a slot of a lab would have around the device. Its driver, and the memory that this works in, are elsewhere.
struct Surroundings {
    pool: PayloadPool,
    memory: HostMemory,
}

impl Surroundings {
    fn new() -> Result<Surroundings, Failure> {
        let memory = HostMemory::new(2 << 30, 64 << 30).map_err(|e| Failure::Run(e.to_string()))?;
        Ok(Surroundings { pool: PayloadPool::new(), memory })
    }
}

impl Args {
    /// The model with its settings.
    fn plan(&self, models: &Models) -> Result<Plan, Failure> {
        let overrides = Overrides::new(&self.set);
        let file = self.settings.as_deref().map(labs::text).transpose()?;
        let (path, text) = match &file {
            Some(file) => (file.name.as_path(), file.text.as_str()),
            None => (Path::new("settings"), ""),
        };
        let refused = |errors: FileErrors| match file {
            Some(_) => labs::refused(errors),
            None => Failure::usage(errors),
        };
        let source = Source { path, text, overrides: &overrides };
        let tree = source.tree().map_err(refused)?;
        let Some(read) = models.read(&self.model, &source, tree) else {
            let legal: Vec<&str> = models.names().collect();
            let why = format!("no model `{}`: legal are {}", self.model, legal.join(", "));
            return Err(Failure::usage(why));
        };
        read.map_err(|unread| refused(unread.errors.into_iter().collect()))
    }

    fn host_settings(&self, bar: u8) -> Settings {
        Settings { mps: self.mps, ..Settings::new(bar) }
    }

    /// Its function.
    fn function(&self, plan: &Plan, around: &Surroundings) -> Result<Function, Failure> {
        let settings = self.host_settings(0);
        let folder = self.settings.as_deref().map_or_else(Folder::default, Folder::of);
        let plugged = plan.plug(&mut Site {
            pcie: PcieLayout::default(),
            mps: settings.mps,
            mrrs: Mrrs::default(),
            tcs: TcSet::ALL,
            tags: settings.limits.max_outstanding_reads,
            lenient_completions: settings.limits.lenient_completions,
            id: tlp::Bdf::default(),
            done_vector: 0,
            completion_timeout: settings.limits.completion_timeout,
            payloads: &around.pool,
            memory: &around.memory,
            folder: &folder,
            seed: self.seed,
            native: self.native.leave(),
            context: &mut RunContext::default(),
        });
        let said = |why: String| Failure::usage(format!("{}: {why}", self.model));
        let plugged = plugged.map_err(|fault| said(fault.to_string()))?;
        let End::Function(end) = plugged.end else {
            return Err(said(
                "it is no device behind an endpoint, and no adapter can show it; legal are those that are"
                    .into(),
            ));
        };
        if end.virtual_functions.is_some() {
            let why = "an adapter shows one function, and this has virtual ones; legal is none, such as by --set vfs=0";
            return Err(said(why.into()));
        }
        let bar = self.bar.or_else(|| end.memory_bar());
        let bar = bar.ok_or_else(|| said("it has no BAR of memory that an adapter could show".into()))?;
        Ok(Function { end: *end, bar, report: plugged.report })
    }

    /// The device, where the adapter's host says that it is.
    fn plug_in(&self, plan: &Plan) -> Result<Software, Failure> {
        let around = Surroundings::new()?;
        let Function { end, bar, report } = self.function(plan, &around)?;
        let behind = self.way.behind()?;
        output::note(format_args!(
            "{} is {} of {}, its BAR{bar} at {:#x}, over {}; Ctrl-C ends it",
            self.model,
            behind.place.id,
            self.way.remote(),
            behind.place.address,
            behind.way()
        ));
        let Behind { carrier, place, rest } = behind;
        let settings = Settings { rest, ..self.host_settings(bar) };
        let host = DeviceHost::new(carrier, end.function, &place, settings, &around.pool);
        Ok(Software { host: host.map_err(|e| Failure::Run(e.to_string()))?, report })
    }

    fn report(&self, device: &Software, now: Time, came_back: u64) -> Report {
        let shown = device.report.as_ref().map(|report| report.shown(now));
        Report {
            model: self.model.clone(),
            session: software::is_session(device.host.carrier()),
            counts: device.counts(),
            came_back,
            counters: shown.map(Shown::into_map).unwrap_or_default(),
        }
    }

    fn end(&self, report: &Report) -> Result<(), Failure> {
        if self.json { output::json(report) } else { report.text() }
    }
}

impl Report {
    /// What is not zero, a line each.
    fn text(&self) -> Result<(), Failure> {
        let value = serde_json::to_value(self).unwrap_or_default();
        let rows = value.as_object().into_iter().flatten();
        let counted = rows.chain(&self.counters).filter(|(_, value)| value.as_u64().is_some_and(|n| n > 0));
        for (name, value) in counted {
            output::text(&format!("{name:20} {value:>10}"))?;
        }
        Ok(())
    }
}
