// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp adapter LAB.toml`: serves the host of a lab, from `riser-worlds`, to NetTLP peers.

use super::Args;
use crate::failure::Failure;
use crate::output;
use nettlp::adapter::AdapterSettings;
use nettlp::allow::AllowList;
use nettlp::net::AdapterOptions;
use plug::{Models, counted};
use std::fmt::Display;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tlp::Bdf;
use worlds::adapter::{AdapterSlot, Timing};
use worlds::opening::OpenedLab;
use worlds::tools::{LabAdapter, LabServing};

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

impl LabRun<'_> {
    /// Serves until `stop` is set, or the lab fails.
    ///
    /// # Errors
    /// If a file or socket cannot be opened, read, written or served, or if the lab fails.
    pub(super) fn run(self, models: &Models, stop: &AtomicBool) -> Result<(), Failure> {
        let Args { key, timing, until_done, mps, busy_poll, json, .. } = self.args;
        let mut lab = self.args.opening.read(self.lab, models)?;
        key.iter().for_each(|key| lab.outputs.reads(key));
        lab.file.check_runs_alone().map_err(Failure::run)?;
        let timing = timing.unwrap_or(Timing::On);
        let OpenedLab { driver, mut kept, .. } = lab.open(timing.into())?;
        let slots: Vec<String> = driver.handles::<AdapterSlot>().map(str::to_owned).collect();
        let devices = self.devices(&slots)?;
        let name = self.lab.display().to_string();
        let adapter = |(n, (options, device)): (usize, (AdapterOptions, Option<IpAddr>))| {
            let (allow, scheme) = (self.allow.clone(), self.args.scheme.ports());
            let settings = AdapterSettings { allow, id: Bdf::default(), device, scheme };
            LabAdapter { slot: slots.get(n).cloned().filter(|_| slots.len() > 1), options, settings }
        };
        let adapters = self.options.iter().cloned().zip(devices).enumerate().map(adapter).collect();
        let (mps, busy, until_done) = (*mps, *busy_poll, *until_done);
        let note = |line: &dyn Display| output::note(line);
        let serving = LabServing { name: name.clone(), adapters, mps, timing, busy, until_done, stop, note };
        let served = serving.run(driver, &mut kept, |LabAdapter { slot, options, settings }| {
            let what = slot.as_ref().map_or(name.clone(), |slot| format!("{slot} of {name}"));
            self.args.listening(options.address).greet(&what, &settings.allow, settings.device);
        });
        let (report, failure) = served?;
        output::report(*json, &report)?;
        failure.map_or(Ok(()), |why| Err(Failure::Run(why)))
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
}
