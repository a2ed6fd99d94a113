// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a lab that machines have used.

use super::counters::{self, VmCounters};
use super::guests::Guest;
use super::vm_host::{VmHost, machines};
use fabric::Stop;
use plug::counted;
use serde::Serialize;
use session::external::Driver;
use session::{RunOutcome, SessionReport};
use std::fmt::{self, Display, Formatter};

/// The report of a lab and its machines, as JSON.
#[derive(Serialize)]
pub struct VmReport {
    /// Figures of all machines together. `status` is the status of the first guest that failed.
    #[serde(flatten)]
    pub all: MachineFigures,
    /// The report of each machine, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guests: Vec<MachineReport>,
    /// The lab.
    pub lab: SessionReport,
}

/// The report of one of several machines.
#[derive(Serialize)]
struct MachineReport {
    /// The name of its host, or its own name if it has virtual functions.
    host: String,
    #[serde(flatten)]
    figures: MachineFigures,
}

/// Figures of one machine or all machines. Figures of guests are `None` if riser did not start them.
#[derive(Serialize)]
pub struct MachineFigures {
    /// Exit status of the guest's command, if it has ended.
    pub status: Option<u8>,
    /// CPU seconds of QEMU until the command began.
    pub boot_cpu_seconds: Option<f64>,
    /// CPU seconds of QEMU.
    pub qemu_cpu_seconds: Option<f64>,
    /// Counters of the machine.
    pub guest: VmCounters,
}

impl VmReport {
    /// Returns the report of the lab `name` after `cpu_seconds` of riser. `started` are the guests that riser has started, in the
    /// order of [`machines`].
    pub fn new(
        driver: &Driver,
        name: &str,
        hosts: &[VmHost],
        started: &[Guest],
        cpu_seconds: f64,
    ) -> VmReport {
        let have_ended = !started.is_empty() && started.iter().all(|guest| guest.status().is_some());
        let end = if have_ended { Stop::Finished } else { Stop::TimeLimit };
        let stop = driver.failure().map_or(end, |why| Stop::Failed(why.to_owned()));
        let of = |(n, (host, machine)): (usize, (&VmHost, Option<&str>))| {
            let guest = started.get(n);
            let report = guest.and_then(Guest::report);
            let figures = MachineFigures {
                status: guest.and_then(Guest::status),
                boot_cpu_seconds: report.and_then(|report| Some(report.boot_cpu?.as_secs_f64())),
                qemu_cpu_seconds: report.map(|report| report.cpu.as_secs_f64()),
                guest: host.counters_of(machine),
            };
            MachineReport { host: machine.unwrap_or(&host.name).to_owned(), figures }
        };
        let mut guests: Vec<MachineReport> = machines(hosts).enumerate().map(of).collect();
        let figures = || guests.iter().map(|machine| &machine.figures);
        let failed = figures().find(|figures| figures.status != Some(0)).or(figures().next());
        let sum = |of: fn(&MachineFigures) -> Option<f64>| figures().filter_map(of).reduce(|a, b| a + b);
        let all = MachineFigures {
            status: failed.and_then(|figures| figures.status),
            boot_cpu_seconds: sum(|figures| figures.boot_cpu_seconds),
            qemu_cpu_seconds: sum(|figures| figures.qemu_cpu_seconds),
            guest: counters::sum(figures().map(|figures| figures.guest)),
        };
        if guests.len() == 1 {
            guests.clear();
        }
        VmReport { all, guests, lab: driver.session().report(name, &stop, cpu_seconds) }
    }

    /// Records whether Ctrl-C has ended the run.
    #[must_use]
    pub fn interrupted(mut self, by_user: bool) -> VmReport {
        if by_user {
            self.lab.outcome = RunOutcome::Interrupted;
        }
        self
    }
}

/// One line with the most important counters.
impl Display for VmReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let VmCounters { clients, reads, writes, interrupts, .. } = self.all.guest;
        let counts = [(clients, "machine"), (reads, "read"), (writes, "write"), (interrupts, "interrupt")];
        let counts = counts.map(|(count, noun)| counted(count, noun)).join(", ");
        let SessionReport { lab, simulated_ns, tlp_hops, cpu_seconds, .. } = &self.lab;
        let us = simulated_ns / 1_000.0;
        write!(f, "{lab}: {counts}; {us:.3} us simulated, {tlp_hops} TLP-hops in {cpu_seconds:.3} s of CPU")
    }
}
