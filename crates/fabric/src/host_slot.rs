// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPU side of the simulated host: one host program that drives the root complex.

use crate::root::RootComplex;
use crate::timer::TimerEvents;
use host::{DriverError, HostBus, HostInput, HostOutput, HostProgram};
use tlp::Time;

/// Maximum number of requests that the program issues in one step. After that the program gets another step at the same
/// time, so that a program that never waits is detected.
const MAX_OUTPUTS_PER_STEP: u32 = 64;

/// The root complex below a host program.
pub(crate) trait BelowHost {
    /// Returns the next input for the program.
    fn poll_host_input(&mut self, now: Time) -> Option<HostInput>;

    /// Takes a request, and returns the root port that has something to send. Returns the request if there is no room.
    fn accept(&mut self, now: Time, output: HostOutput) -> Result<Option<usize>, HostOutput>;

    /// Returns the root port of a request.
    fn port_of(&self, output: Option<&HostOutput>) -> Option<usize>;
}

impl BelowHost for RootComplex {
    fn poll_host_input(&mut self, now: Time) -> Option<HostInput> {
        RootComplex::poll_host_input(self, now)
    }

    fn accept(&mut self, now: Time, output: HostOutput) -> Result<Option<usize>, HostOutput> {
        RootComplex::accept(self, now, output)
    }

    fn port_of(&self, output: Option<&HostOutput>) -> Option<usize> {
        RootComplex::port_of(self, output)
    }
}

impl BelowHost for dyn HostBus {
    fn poll_host_input(&mut self, _now: Time) -> Option<HostInput> {
        self.poll_input()
    }

    fn accept(&mut self, now: Time, output: HostOutput) -> Result<Option<usize>, HostOutput> {
        HostBus::accept(self, now, output);
        Ok(None)
    }

    fn port_of(&self, _output: Option<&HostOutput>) -> Option<usize> {
        None
    }
}

/// The host program, with a request for which the root complex had no room.
pub(crate) struct HostSlot {
    program: Box<dyn HostProgram>,
    pending: Option<HostOutput>,
    timer: TimerEvents,
    /// When the program last issued the maximum number of requests in a step.
    busy_at: Option<Time>,
    /// Whether the program has more to issue.
    goes_on: bool,
}

impl HostSlot {
    pub(crate) fn new(program: Box<dyn HostProgram>) -> HostSlot {
        HostSlot { program, pending: None, timer: TimerEvents::none(), busy_at: None, goes_on: false }
    }

    pub(crate) fn outcome(&self) -> Option<Result<(), DriverError>> {
        self.program.outcome()
    }

    /// When the program wakes by itself.
    pub(crate) fn wakes_at(&self) -> Option<Time> {
        self.program.poll_timeout().filter(|at| *at < Time::MAX)
    }

    pub(crate) fn waits_for(&self) -> Option<String> {
        let text = self.program.waits_for();
        match &self.pending {
            Some(output) => {
                let what = match output {
                    HostOutput::MmioWrite { address, .. } => format!("write to {address:#x}"),
                    HostOutput::MmioRead { address, .. } => format!("read of {address:#x}"),
                    HostOutput::WriteDeferrable { address, .. } => {
                        format!("deferrable write to {address:#x}")
                    }
                    HostOutput::Atomic { address, .. } => format!("atomic at {address:#x}"),
                    HostOutput::IoRead { address, .. } => format!("I/O read of {address:#x}"),
                    HostOutput::IoWrite { address, .. } => format!("I/O write to {address:#x}"),
                    HostOutput::TakeMessages(_) => "choice of messages".into(),
                    HostOutput::Message { message, .. } => format!("message of code {:#04x}", message.code),
                    HostOutput::ConfigRead { function, .. } => format!("configuration read of {function}"),
                    HostOutput::ConfigWrite { function, .. } => format!("configuration write to {function}"),
                    HostOutput::Extension(_) => "request of its host".into(),
                    _ => "request".into(),
                };
                Some(format!("host program: its {what} finds no room at the root port"))
            }
            None => text.map(|t| format!("host program: {t}")),
        }
    }

    /// Passes inputs to the program, and the program's requests to the root complex. Adds to `touched` the root ports
    /// that have something to send.
    pub(crate) fn step<R: BelowHost + ?Sized>(&mut self, now: Time, root: &mut R, touched: &mut Vec<usize>) {
        if self.program.poll_timeout().is_some_and(|at| at <= now) {
            self.program.handle(now, HostInput::Timer);
        }
        while let Some(input) = root.poll_host_input(now) {
            self.program.handle(now, input);
        }
        self.hand_on(now, root, touched);
    }

    fn hand_on<R: BelowHost + ?Sized>(&mut self, now: Time, root: &mut R, touched: &mut Vec<usize>) {
        for _ in 0..MAX_OUTPUTS_PER_STEP {
            let Some(output) = self.pending.take().or_else(|| self.program.poll_output(now)) else { return };
            match root.accept(now, output) {
                Ok(Some(port)) => touched.push(port),
                Ok(None) => {}
                Err(output) => {
                    self.pending = Some(output);
                    // Part of a long write may have left.
                    touched.extend(root.port_of(self.pending.as_ref()));
                    return;
                }
            }
        }
        self.busy_at = Some(now);
        self.goes_on = true;
    }

    /// Returns whether the program has more to do at this time.
    pub(crate) fn stands_still(&self, now: Time) -> bool {
        self.busy_at == Some(now) || self.wakes_at().is_some_and(|at| at <= now)
    }

    /// True if a request waits for room at a root port.
    pub(crate) fn is_stuck(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the time of the program's next step: now if it has more requests to issue, else the time of its timer.
    pub(crate) fn wakes(&mut self, now: Time) -> [Option<Time>; 2] {
        self.timer.come(now);
        let timer = self.program.poll_timeout().map(|at| at.max(now)).filter(|at| self.timer.request(*at));
        [std::mem::take(&mut self.goes_on).then_some(now), timer]
    }
}
