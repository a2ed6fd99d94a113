// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host code at the place of a virtual machine, such as firmware: run to its end while the machine waits. Its requests travel the fabric
//! as the machine's own do.

use host::cpu::AsyncProgram;
use host::memory::HostMemory;
use host::{Cpu, HostInput, HostProgram};
use plug::Place;
use session::external::host::{HostPlace, HostRequest};
use session::external::{Door, Driver};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::Duration;

/// What tells its requests from those of the machine.
const OURS: u32 = 1 << 31;
/// How far the fabric goes on where nothing else says it.
const STEP: Duration = Duration::from_us(10);

/// Runs `code` to its end, and returns its result. What else is heard meanwhile goes to `others`.
///
/// # Errors
/// Those of the code; the lab has failed; or the code waits for what never comes.
pub(super) fn run_on_host<R, F>(
    lab: &mut Driver,
    door: &Door<HostPlace>,
    code: impl FnOnce(Cpu) -> F,
    mut others: impl FnMut(HostInput),
) -> Result<R, String>
where
    R: 'static,
    F: Future<Output = Result<R, String>> + 'static,
{
    let memory = HostMemory::new(0, 0).map_err(|e| e.to_string())?;
    let kept = Rc::<RefCell<Option<R>>>::default();
    let put = Rc::clone(&kept);
    let mut program = AsyncProgram::new(memory, move |cpu| {
        let code = code(cpu);
        async move {
            *put.borrow_mut() = Some(code.await?);
            Ok::<(), String>(())
        }
    });
    while program.outcome().is_none() {
        step(lab, door, &mut program, &mut others)?;
    }
    program.outcome().unwrap_or(Ok(()))?;
    kept.take().ok_or_else(|| "it has ended without a result".to_owned())
}

/// Issues what the program asks for, and lets the fabric go on to what it waits for.
fn step(
    lab: &mut Driver,
    door: &Door<HostPlace>,
    program: &mut AsyncProgram,
    others: &mut impl FnMut(HostInput),
) -> Result<(), String> {
    while door.place.has_room()
        && let Some(mut output) = program.poll_output(lab.now())
    {
        if let Some(id) = output.id_mut() {
            id.0 |= OURS;
        }
        let request = HostRequest::issue(output).map_err(|e| e.to_string())?;
        lab.inject(lab.now(), door, request);
    }
    if program.outcome().is_some() {
        return Ok(());
    }
    if let Some(why) = lab.failure() {
        return Err(why.to_owned());
    }
    let until = match (door.place.awaits_fabric(), program.poll_timeout()) {
        (true, _) => lab.now() + STEP,
        (false, Some(at)) => at,
        (false, None) => return Err(program.waits_for().unwrap_or_default()),
    };
    // Nobody else moves the time on meanwhile: no nap.
    lab.come_to(until);
    lab.drain(until, |_| {});
    while let Some((at, heard)) = door.place.hear() {
        match heard {
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
