// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of a run with a guest, as `--json` prints it.

use crate::commands::outside::Opened;
use crate::failure::Failure;
use crate::output;
use fabric::Stop;
use lab::Report as LabReport;
use lab::machine::{Guest, GuestCounters};
use serde::Serialize;

/// The object.
#[derive(Serialize)]
pub(super) struct Report {
    /// Exit status of the guest's command; null where it did not end, or there was none.
    status: Option<u8>,
    /// CPU seconds of QEMU until the command began, and in all.
    boot_cpu_seconds: Option<f64>,
    qemu_cpu_seconds: Option<f64>,
    guest: GuestCounters,
    lab: LabReport,
}

impl Report {
    /// Of a lab that a machine has used for `cpu_seconds` of riser's.
    pub(super) fn new(opened: &Opened, guest: &Guest, cpu_seconds: f64) -> Report {
        let driver = &opened.driver;
        let stop = driver.failure().map_or(Stop::TimeLimit, |why| Stop::Failed(why.to_owned()));
        let lab = driver.assembly().report(&opened.name, &stop, cpu_seconds);
        let (status, boot_cpu_seconds, qemu_cpu_seconds) = (None, None, None);
        Report { status, boot_cpu_seconds, qemu_cpu_seconds, guest: guest.counters(), lab }
    }

    /// The same with what the machine itself says.
    pub(super) fn with_machine(mut self, report: &vm::machine::Report) -> Report {
        if let vm::machine::End::Exited(status) = report.end {
            self.status = Some(status);
        }
        self.boot_cpu_seconds = report.boot_cpu.map(|cpu| cpu.as_secs_f64());
        self.qemu_cpu_seconds = Some(report.cpu.as_secs_f64());
        self
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
