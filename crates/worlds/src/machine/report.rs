// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a lab that machines have used.

use super::counters::VmCounters;
use super::guests::Guest;
use super::vm_host::{VmHost, machines};
use fabric::Stop;
use serde::Serialize;
use session::Report;
use session::external::Driver;

/// The report of a lab and its machines, as JSON.
#[derive(Serialize)]
pub struct VmReport {
    /// Exit status of the guest's command. `None` if it did not end, or riser did not start the machine. Of several guests, that of the
    /// first that failed.
    pub status: Option<u8>,
    /// CPU seconds of QEMU until the command began, of all guests.
    pub boot_cpu_seconds: Option<f64>,
    /// CPU seconds of QEMU, of all guests.
    pub qemu_cpu_seconds: Option<f64>,
    /// Counters of all machines.
    pub guest: VmCounters,
    /// Each machine, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<MachineReport>,
    /// The lab.
    pub lab: Report,
}

/// The report of one of several machines.
#[derive(Serialize)]
pub struct MachineReport {
    /// The name of its host, or its own name if it has virtual functions.
    pub host: String,
    /// Exit status of the guest's command.
    pub status: Option<u8>,
    /// CPU seconds of QEMU until the command began.
    pub boot_cpu_seconds: Option<f64>,
    /// CPU seconds of QEMU.
    pub qemu_cpu_seconds: Option<f64>,
    /// Counters of the machine.
    pub guest: VmCounters,
}

impl VmReport {
    /// The report of the lab `name` after `cpu_seconds` of riser. `guests` are the machines that riser has started, in the order of
    /// [`machines`].
    pub fn new(
        driver: &Driver,
        name: &str,
        hosts: &[VmHost],
        guests: &[Guest],
        cpu_seconds: f64,
    ) -> VmReport {
        let have_ended = !guests.is_empty() && guests.iter().all(|guest| guest.status().is_some());
        let end = if have_ended { Stop::Finished } else { Stop::TimeLimit };
        let stop = driver.failure().map_or(end, |why| Stop::Failed(why.to_owned()));
        let of = |(n, (host, machine)): (usize, (&VmHost, Option<&str>))| {
            let guest = guests.get(n);
            let report = guest.and_then(Guest::report);
            MachineReport {
                host: machine.unwrap_or(&host.name).to_owned(),
                status: guest.and_then(Guest::status),
                boot_cpu_seconds: report.and_then(|report| Some(report.boot_cpu?.as_secs_f64())),
                qemu_cpu_seconds: report.map(|report| report.cpu.as_secs_f64()),
                guest: host.counters_of(machine),
            }
        };
        let mut all: Vec<MachineReport> = machines(hosts).enumerate().map(of).collect();
        let failed = all.iter().find(|machine| machine.status != Some(0)).or(all.first());
        let sum = |of: fn(&MachineReport) -> Option<f64>| all.iter().filter_map(of).reduce(|a, b| a + b);
        let report = VmReport {
            status: failed.and_then(|machine| machine.status),
            boot_cpu_seconds: sum(|machine| machine.boot_cpu_seconds),
            qemu_cpu_seconds: sum(|machine| machine.qemu_cpu_seconds),
            guest: all.iter().fold(VmCounters::default(), |sum, machine| sum + machine.guest),
            guests: Vec::new(),
            lab: driver.session().report(name, &stop, cpu_seconds),
        };
        if all.len() == 1 {
            all.clear();
        }
        VmReport { guests: all, ..report }
    }
}
