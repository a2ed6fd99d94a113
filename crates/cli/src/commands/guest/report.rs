// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of a run with a guest, as `--json` prints it.

use super::members::Member;
use super::seat::{Seat, machines};
use crate::commands::outside::Opened;
use crate::failure::Failure;
use crate::{interrupt, output};
use fabric::Stop;
use plug::counted;
use serde::Serialize;
use session::Report as LabReport;
use vm::machine::End;
use worlds::machine::VmCounters;

/// The object.
#[derive(Serialize)]
pub(super) struct Report {
    /// Exit status of the guest's command; null where it did not end, or there was none. Of several guests, that of the first in order that failed.
    status: Option<u8>,
    /// CPU seconds of QEMU until the command began, and in all, of all guests.
    boot_cpu_seconds: Option<f64>,
    qemu_cpu_seconds: Option<f64>,
    /// Of all guests.
    guest: VmCounters,
    /// Each guest, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guests: Vec<OfGuest>,
    lab: LabReport,
}

/// One of several guests.
#[derive(Serialize)]
struct OfGuest {
    /// The host whose place it has, or its name where it has virtual functions.
    host: String,
    status: Option<u8>,
    boot_cpu_seconds: Option<f64>,
    qemu_cpu_seconds: Option<f64>,
    guest: VmCounters,
}

impl Report {
    /// Of a lab that machines have used for `cpu_seconds` of riser's; `members` are those that were ours.
    pub(super) fn new(opened: &Opened, seats: &[Seat], members: &[Member], cpu_seconds: f64) -> Report {
        let driver = &opened.driver;
        let ends = |member: &Member| {
            matches!(member.report(), Some(vm::machine::Report { end: End::Exited(_), .. }))
        };
        let have_ended = !members.is_empty() && members.iter().all(ends);
        let end = if have_ended { Stop::Finished } else { Stop::TimeLimit };
        let stop = driver.failure().map_or(end, |why| Stop::Failed(why.to_owned()));
        let mut lab = driver.session().report(&opened.name, &stop, cpu_seconds);
        if interrupt::has_come() {
            lab.outcome = "interrupted";
        }
        let of = |(n, (seat, machine)): (usize, (&Seat, Option<&str>))| {
            let report = members.get(n).and_then(Member::report);
            let status = report.and_then(|report| match report.end {
                End::Exited(status) => Some(status),
                _ => None,
            });
            OfGuest {
                host: machine.unwrap_or(&seat.host).to_owned(),
                status,
                boot_cpu_seconds: report.and_then(|report| Some(report.boot_cpu?.as_secs_f64())),
                qemu_cpu_seconds: report.map(|report| report.cpu.as_secs_f64()),
                guest: seat.guest.counters_of(machine),
            }
        };
        let mut guests: Vec<OfGuest> = machines(seats).enumerate().map(of).collect();
        let failed = guests.iter().find(|guest| guest.status != Some(0)).or(guests.first());
        let sum = |of: fn(&OfGuest) -> Option<f64>| guests.iter().filter_map(of).reduce(|a, b| a + b);
        let report = Report {
            status: failed.and_then(|guest| guest.status),
            boot_cpu_seconds: sum(|guest| guest.boot_cpu_seconds),
            qemu_cpu_seconds: sum(|guest| guest.qemu_cpu_seconds),
            guest: guests.iter().fold(VmCounters::default(), |sum, guest| sum + guest.guest),
            guests: Vec::new(),
            lab,
        };
        if guests.len() == 1 {
            guests.clear();
        }
        Report { guests, ..report }
    }

    pub(super) fn json(&self) -> Result<(), Failure> {
        output::json(self)
    }

    pub(super) fn text(&self) -> Result<(), Failure> {
        let VmCounters { clients, reads, writes, interrupts, .. } = self.guest;
        output::text(&format!(
            "{}: {}, {}, {}, {}; {:.3} us simulated, {} TLP-hops in {:.3} s of CPU",
            self.lab.lab,
            counted(clients, "machine"),
            counted(reads, "read"),
            counted(writes, "write"),
            counted(interrupts, "interrupt"),
            self.lab.simulated_ns / 1_000.0,
            self.lab.tlp_hops,
            self.lab.cpu_seconds
        ))
    }
}
