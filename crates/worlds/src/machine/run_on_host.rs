// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs host code, such as firmware, in place of a virtual machine. The machine waits until it ends. Requests of the
//! code cross the fabric like those of the machine.

use host::cpu::AsyncProgram;
use host::memory::HostMemory;
use host::{Cpu, DriverError, HostInput, HostProgram};
use plug::Attachment;
use session::external::host::{HostPlace, HostRequest};
use session::external::{Driver, Handle};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::Duration;

/// Bit that is set in the IDs of the code's requests, and is clear in those of the machine.
const OURS: u32 = 1 << 31;
/// Step of the fabric while requests are outstanding.
const STEP: Duration = Duration::from_us(10);

/// Runs `code` to its end, and returns its result. Inputs of the host that belong to other requests go to `others`.
///
/// # Errors
/// The code fails, the lab has failed, or the code waits for an event that never comes.
pub(super) fn run_on_host<R, F>(
    lab: &mut Driver,
    handle: &Handle<HostPlace>,
    code: impl FnOnce(Cpu) -> F,
    mut others: impl FnMut(HostInput),
) -> Result<R, DriverError>
where
    R: 'static,
    F: Future<Output = Result<R, DriverError>> + 'static,
{
    let memory = HostMemory::new(0, 0)?;
    let kept = Rc::<RefCell<Option<R>>>::default();
    let put = Rc::clone(&kept);
    let mut program = AsyncProgram::new(memory, move |cpu| {
        let code = code(cpu);
        async move {
            *put.borrow_mut() = Some(code.await?);
            Ok::<(), DriverError>(())
        }
    });
    while program.outcome().is_none() {
        step(lab, handle, &mut program, &mut others)?;
    }
    program.outcome().unwrap_or(Ok(()))?;
    kept.take().ok_or_else(|| "host code ended without a result".into())
}

/// Issues the program's requests, and runs the fabric until an event for which it waits.
fn step(
    lab: &mut Driver,
    handle: &Handle<HostPlace>,
    program: &mut AsyncProgram,
    others: &mut impl FnMut(HostInput),
) -> Result<(), DriverError> {
    while handle.place.has_room()
        && let Some(mut output) = program.poll_output(lab.now())
    {
        if let Some(id) = output.id_mut() {
            id.0 |= OURS;
        }
        let request = HostRequest::issue(output).map_err(|e| e.to_string())?;
        lab.inject(lab.now(), handle, request);
    }
    if program.outcome().is_some() {
        return Ok(());
    }
    if let Some(why) = lab.failure() {
        return Err(why.into());
    }
    let until = match (handle.place.awaits_fabric(), program.poll_timeout()) {
        (true, _) => lab.now() + STEP,
        (false, Some(at)) => at,
        (false, None) => return Err(program.waits_for().unwrap_or_default().into()),
    };
    // The outside clock does not advance the time now, so the fabric must not nap.
    lab.come_to(until);
    lab.drain(until, |_| {});
    while let Some((at, input)) = handle.place.poll_input() {
        match input {
            HostInput::Done { mut id, result } if id.0 & OURS != 0 => {
                id.0 &= !OURS;
                program.handle(at, HostInput::Done { id, result });
            }
            other => others(other),
        }
    }
    if program.poll_timeout().is_some_and(|at| at <= lab.now()) {
        program.handle(lab.now(), HostInput::Timer);
    }
    Ok(())
}
