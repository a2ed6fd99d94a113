// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of a run with a guest, as `--json` prints it.

use super::seat::Seat;
use crate::commands::outside::Opened;
use crate::failure::Failure;
use crate::{interrupt, output};
use fabric::Stop;
use lab::Report as LabReport;
use lab::machine::GuestCounters;
use serde::Serialize;
use vm::machine::End;

/// The object.
#[derive(Serialize)]
pub(super) struct Report {
    /// Exit status of the guest's command; null where it did not end, or there was none. Of several guests, that of the first that failed.
    status: Option<u8>,
    /// CPU seconds of QEMU until the command began, and in all, of all guests.
    boot_cpu_seconds: Option<f64>,
    qemu_cpu_seconds: Option<f64>,
    /// Of all guests.
    guest: GuestCounters,
    /// Each guest, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guests: Vec<OfGuest>,
    lab: LabReport,
}

/// One of several guests.
#[derive(Serialize)]
struct OfGuest {
    /// The host whose place it has.
    host: String,
    status: Option<u8>,
    boot_cpu_seconds: Option<f64>,
    qemu_cpu_seconds: Option<f64>,
    guest: GuestCounters,
}

impl Report {
    /// Of a lab that machines have used for `cpu_seconds` of riser's; `machines` are what QEMU's say of themselves, if they are ours.
    pub(super) fn new(
        opened: &Opened,
        seats: &[Seat],
        machines: &[vm::machine::Report],
        cpu_seconds: f64,
    ) -> Report {
        let driver = &opened.driver;
        let have_ended = !machines.is_empty() && machines.iter().all(|m| matches!(m.end, End::Exited(_)));
        let end = if have_ended { Stop::Finished } else { Stop::TimeLimit };
        let stop = driver.failure().map_or(end, |why| Stop::Failed(why.to_owned()));
        let mut lab = driver.assembly().report(&opened.name, &stop, cpu_seconds);
        if interrupt::has_come() {
            lab.outcome = "interrupted";
        }
        let of = |(n, seat): (usize, &Seat)| {
            let machine = machines.get(n);
            let status = machine.and_then(|machine| match machine.end {
                End::Exited(status) => Some(status),
                _ => None,
            });
            OfGuest {
                host: seat.host.clone(),
                status,
                boot_cpu_seconds: machine.and_then(|machine| Some(machine.boot_cpu?.as_secs_f64())),
                qemu_cpu_seconds: machine.map(|machine| machine.cpu.as_secs_f64()),
                guest: seat.guest.counters(),
            }
        };
        let mut guests: Vec<OfGuest> = seats.iter().enumerate().map(of).collect();
        let failed = guests.iter().find(|guest| guest.status != Some(0)).or(guests.first());
        let sum = |of: fn(&OfGuest) -> Option<f64>| guests.iter().filter_map(of).reduce(|a, b| a + b);
        let report = Report {
            status: failed.and_then(|guest| guest.status),
            boot_cpu_seconds: sum(|guest| guest.boot_cpu_seconds),
            qemu_cpu_seconds: sum(|guest| guest.qemu_cpu_seconds),
            guest: guests.iter().fold(GuestCounters::default(), |sum, guest| sum + guest.guest),
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
        let GuestCounters { clients, reads, writes, interrupts, .. } = self.guest;
        output::text(&format!(
            "{}: {clients} machines, {reads} reads, {writes} writes, {interrupts} interrupts; {:.3} us simulated, {} TLP-hops in {:.3} s of CPU",
            self.lab.lab,
            self.lab.simulated_ns / 1_000.0,
            self.lab.tlp_hops,
            self.lab.cpu_seconds
        ))
    }
}
