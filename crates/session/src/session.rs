// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab that is running, or ready to run.

use crate::external::host::{HostPlace, OutsideMemory};
use crate::external::journal::Journal;
use crate::external::{Commands, LINKS};
use crate::report::{RefusalReport, refusals};
use crate::tap::{CaptureHandle, CaptureOptions, CaptureTap, TappedLink};
use crate::transactions::{TransactionLog, TransactionLogHandle};
use fabric::Fabric;
use host::memory::HostMemory;
use host::os::{EventLog, HotPlugEvent};
use lab::profile::HostBasis;
use lab::{Assembly, BuildError, BuildOptions, JoinPoint, LabFile, LinkInfo, OutsideHost, SlotInfo, Wakes};
use plug::plugged::AnyReport;
use plug::transfers::Transfers;
use plug::{Report as DeviceFigures, Shared};
use std::io::{self, Write};
use std::rc::Rc;
use tlp::{Duration, PayloadPool, Time};

/// A lab from its start to its report.
pub struct Session {
    /// The fabric.
    pub fabric: Fabric,
    /// The time limit of the lab; [`Time::MAX`] if it has none.
    pub limit: Time,
    pub(crate) seed: u64,
    pub(crate) set: Vec<String>,
    pub(crate) slots: Vec<SlotInfo>,
    pub(crate) links: Vec<LinkInfo>,
    pub(crate) hot_plug: EventLog,
    pub(crate) warnings: Vec<String>,
    pub(crate) host_basis: HostBasis,
    pub(crate) join_points: Vec<JoinPoint>,
    /// Commands of an outside world for links.
    pub(crate) commands: Commands,
    /// The record of inputs from outside, if there is one.
    pub(crate) journal: Journal,
}

impl From<Assembly> for Session {
    /// Returns a session without time limit and external hosts, as for a [`lab::OneSlot`].
    fn from(assembly: Assembly) -> Session {
        Session::of(assembly, None, Commands::default(), Journal::default())
    }
}

impl Session {
    /// Builds the lab, at virtual time 0.
    ///
    /// # Errors
    /// A part that cannot be built or joined, with the reason.
    pub fn new(file: &LabFile) -> Result<Session, BuildError> {
        Session::with(file, BuildOptions::default())
    }

    /// Like [`new`](Self::new), with `options`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(file: &LabFile, options: BuildOptions) -> Result<Session, BuildError> {
        let (journal, commands) = (Journal::default(), Commands::of(&file.lab));
        let mut outside = |number, payloads: &PayloadPool| {
            let memory = OutsideMemory::new(journal.clone(), number);
            let place = HostPlace::new(payloads.clone(), memory.clone());
            let program = Box::new(place.clone());
            OutsideHost { memory: HostMemory::of(memory), program, place: Rc::new(place) }
        };
        let mut assembly = lab::build(file, options, &mut outside)?;
        if file.lab.is_joined_by_hosts() {
            let place = Rc::new(commands.clone());
            assembly.join_points.push(JoinPoint { name: LINKS.to_owned(), place, wakes: Wakes::Links });
        }
        Ok(Session::of(assembly, file.lab.limit_us, commands, journal))
    }

    fn of(assembly: Assembly, limit_us: Option<u64>, commands: Commands, journal: Journal) -> Session {
        let Assembly { fabric, seed, set, slots, links, hot_plug, warnings, host_basis, join_points } =
            assembly;
        let limit = limit_us.map_or(Time::MAX, |us| Time::ZERO + Duration::from_us(us));
        Session {
            fabric,
            limit,
            seed,
            set,
            slots,
            links,
            hot_plug,
            warnings,
            host_basis,
            join_points,
            commands,
            journal,
        }
    }

    /// Captures the packets of every link to `out`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn capture<W: Write + 'static>(
        &mut self,
        out: W,
        options: CaptureOptions,
    ) -> io::Result<CaptureHandle<W>> {
        let links = self.tapped_links();
        let (tap, handle) = CaptureTap::new(out, &links, options)?;
        self.fabric.set_tap(Box::new(tap));
        Ok(handle)
    }

    /// Writes a JSON object per line to `out` for each transaction that ends: see [`crate::transactions`].
    pub fn log_transactions<W: Write + 'static>(&mut self, out: W) -> TransactionLogHandle<W> {
        let slots = self.links.iter().map(|l| l.name.clone()).collect();
        let (log, handle) = TransactionLog::new(out, slots);
        self.fabric.set_transaction_tap(Box::new(log));
        handle
    }

    /// Calls `what` on the report of each slot. Each answer starts with the slot's name.
    pub(crate) fn of_each_slot(
        &self,
        what: fn(&dyn AnyReport) -> Option<String>,
    ) -> impl Iterator<Item = String> {
        let of =
            move |slot: &SlotInfo| Some(format!("slot `{}`: {}", slot.name, what(&**slot.report.as_ref()?)?));
        self.slots.iter().filter_map(of)
    }

    /// Returns the findings on devices since the last call, one line each. `told` counts the findings that were
    /// already returned for each slot; pass an empty vector first.
    pub fn new_findings(&self, told: &mut Vec<usize>) -> Vec<String> {
        told.resize(self.slots.len(), 0);
        let mut lines = Vec::new();
        for (slot, told) in self.slots.iter().zip(told) {
            let new = slot.report.as_ref().map_or(Vec::new(), |report| report.findings(*told));
            *told += new.len();
            lines.extend(new.into_iter().map(|finding| format!("slot `{}`: {finding}", slot.name)));
        }
        lines
    }

    /// Returns the number of errors of devices, one line for each device with errors.
    pub fn wrong(&self) -> Vec<String> {
        self.of_each_slot(|report| report.wrong()).collect()
    }

    /// Returns the refused, dropped and timed-out TLPs: one entry for each rule and place.
    pub fn refusals(&self) -> Vec<RefusalReport> {
        refusals(&self.fabric)
    }

    /// Returns the finished and the total number of transfers, over the devices that count them; `None` if no device
    /// counts them.
    pub fn transfers(&self) -> Option<(u64, u64)> {
        let known = self.slots.iter().filter_map(|slot| slot.report.as_ref()?.transfers());
        known.reduce(|(done, all), (more, of)| (done + more, all + of))
    }

    /// Returns the first report of type `R`, with the number of its slot.
    pub fn find_report<R: DeviceFigures>(&self) -> Option<(usize, Shared<R>)> {
        self.slots.iter().enumerate().find_map(|(n, slot)| {
            Some((n, slot.report.as_ref()?.as_any().downcast_ref::<Shared<R>>()?.clone()))
        })
    }

    /// Like [`find_report`](Self::find_report), without the slot.
    pub fn report_of<R: DeviceFigures>(&self) -> Option<Shared<R>> {
        self.find_report().map(|(_, report)| report)
    }

    /// Returns the transfers of the first device that measures its transfers.
    pub fn measured(&self) -> Option<Shared<Transfers>> {
        self.slots.iter().find_map(|slot| slot.measured.clone())
    }

    /// Returns the links for captures: links to slots, then links to switches.
    pub fn tapped_links(&self) -> Vec<TappedLink> {
        self.links.iter().map(TappedLink::of).collect()
    }

    /// Returns warnings, one per line.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the basis of the host's figures.
    pub fn host_basis(&self) -> &HostBasis {
        &self.host_basis
    }

    /// Returns the events of the host's hot-plug drivers, in the order of time.
    pub fn hot_plug_events(&self) -> Vec<HotPlugEvent> {
        self.hot_plug.events()
    }
}
