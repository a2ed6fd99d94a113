// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp device`: runs any device model of labs as device software of an adapter, from `riser-nettlp`. This
//! module does not refer to models by name.

use super::target::TargetArgs;
use super::{report_attachment, report_lost_adapter};
use crate::commands::labs::{self, Native};
use crate::commands::sizes::{mps, whole};
use crate::{Failure, interrupt, output};
use nettlp::tools::{
    DeviceSoftware, ModelDevice, ModelFunction, ModelSettings, SoftwareError, SoftwareRun, run as run_device,
};
use plug::file::{FileErrors, Folder, Overrides, Source};
use plug::{Models, Plan};
use std::path::{Path, PathBuf};
use tlp::Mps;
use tlp::rules::Refusals;
use worlds::tools::SoftwareReport;

const EXAMPLE: &str = "\
Examples:
  riser nettlp adapter labs/nettlp/mmio.toml --allow 127.0.0.2,all,rw &
  riser nettlp device memory --set size_bytes=65536 --remote 127.0.0.1 --local 127.0.0.2
  riser nettlp adapter labs/nettlp/dma.toml --allow 127.0.0.2,all,rw &
  riser nettlp device dma-engine --set vfs=0 --remote 127.0.0.1 --local 127.0.0.2
  riser nettlp adapter labs/nettlp/functions.toml --allow 127.0.0.2,all,rw --until-done &
  riser nettlp device dma-engine --set vfs=2 --remote 127.0.0.1 --local 127.0.0.2

Runs a device model of labs, unchanged, as the device of an adapter. It answers accesses to the adapter's BAR4, accesses the memory of \
its host, and sends interrupts through the host's MSI-X table. The host needs a driver for the device; the host of \
`riser nettlp adapter LAB.toml` runs the driver of a model if the slot of the lab has `driver = \"MODEL\"`.
A model with virtual functions needs an adapter with at least as many (`vfs` of riser's adapter), and a session. Each virtual function \
has the ID, the BAR and the MSI-X table of the adapter's virtual function of the same number.
If the adapter goes away, the device waits for it and starts again from reset. Ctrl-C ends the command. \
--json prints one object: model, session (false: a port per tag), received_tlps, sent_tlps, malformed, unexpected_completions, not_carried, \
  interrupts, lost_interrupts; over LibTLP's ports also reads_asked_again, reads_timed_out, late_completions; came_back (how often the \
  adapter came back); counters (of the device, as in riser run); refusals (as in riser run; omitted if empty).";

/// Run any device model as the device of a remote host
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Name of the model, as in labs
    #[arg(value_name = "MODEL")]
    model: String,

    #[command(flatten)]
    target: TargetArgs,

    /// File with settings: the keys of the device's table in a lab
    #[arg(long, value_name = "FILE.toml")]
    settings: Option<PathBuf>,

    /// Set a key of the settings, in place of the file's; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// BAR of the device that the adapter's BAR4 maps to [default: its first memory BAR]
    #[arg(long, value_name = "BAR", value_parser = whole::<u8>(0..=5))]
    bar: Option<u8>,

    /// Max_Payload_Size in bytes: that of the adapter's path, limit of writes and of received completions
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = mps)]
    mps: Mps,

    #[command(flatten)]
    native: Native,

    /// Seed of random numbers: those of the device
    #[arg(long, default_value = "0", allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: u64,

    /// Print one JSON object, at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    let plan = args.plan(models)?;
    // Reports errors of the model before the adapter is contacted.
    let virtual_functions = args.function(&plan)?.virtual_functions;
    let (target, stop) = (args.target.target()?, interrupt::flag()?);
    let attach = || {
        let function = args.function(&plan)?;
        let attachment = target.attach(virtual_functions).map_err(Failure::run)?;
        let what = format!("{} is {} of {}", args.model, attachment.place.id, target.remote);
        report_attachment(&what, &format!("its BAR{}", function.bar), &attachment);
        ModelDevice::new(function, attachment).map_err(Failure::run)
    };
    let (mut last, mut refused) = (None, Refusals::default());
    let SoftwareRun { came_back, is_session, result } =
        run_device(attach()?, &target, &stop, attach, |device, now, has_gone| {
            last = Some((device.counters(), device.shown(now).into_map()));
            refused.extend(&device.refusals());
            device.carrier().drops().iter().for_each(output::note);
            report_lost_adapter(&target, has_gone);
        });
    let (counts, counters) = last.unwrap_or_default();
    let report = SoftwareReport::new("nettlp device", (is_session, came_back), counts, &refused);
    output::report(args.json, &report.with_model(args.model.clone(), counters))?;
    result.map_err(|error| match error {
        SoftwareError::Device(why) => Failure::Run(format!("{}: {why}", args.model)),
        SoftwareError::Carrier(error) => Failure::Run(format!("{}: {error}", target.remote)),
    })
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
            let why = format!("no model `{}`: expected {}", self.model, legal.join(", "));
            return Err(Failure::usage(why));
        };
        read.map_err(|unread| refused(unread.errors.into_iter().collect()))
    }

    /// The function of the model.
    fn function(&self, plan: &Plan) -> Result<ModelFunction, Failure> {
        let settings = ModelSettings {
            bar: self.bar,
            mps: self.mps,
            folder: self.settings.as_deref().map_or_else(Folder::default, Folder::of),
            seed: self.seed,
            native: self.native.leave(),
        };
        ModelFunction::new(plan, &settings).map_err(|why| Failure::usage(format!("{}: {why}", self.model)))
    }
}
