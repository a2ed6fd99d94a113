// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drivers in Python: a coroutine on the simulated host.
//!
//! - [`cpu`]: its operations.
//! - [`function`]: functions found by enumeration.
//! - [`memory`]: host memory.

pub(crate) mod cpu;
pub(crate) mod function;
pub(crate) mod memory;

use crate::author::Author;
use crate::coroutine::Coroutine;
use crate::device::report;
use ::host::firmware::FoundFunction;
use cpu::Cpu;
use function::Function;
use plug::Report as _;
use pyo3::prelude::*;

/// Drives the functions of a device with the coroutine of its object. The physical function is the first one. If the
/// object has no driver, no coroutine runs.
pub(crate) async fn drive(author: Author, cpu: ::host::Cpu, found: Vec<FoundFunction>) -> Result<(), String> {
    let begun = Python::attach(|py| {
        let driver = author.device.bind(py).getattr("driver")?;
        if driver.is_none() {
            return Ok(None);
        }
        let handle = Cpu::new(py, cpu.clone(), author.clone())?;
        let function = Function::all(py, &found)?;
        Coroutine::new(&author.run, driver.call1((handle, function))?, "the result of driver()").map(Some)
    });
    let ended = match begun {
        Ok(None) => return Ok(()),
        Ok(Some(coroutine)) => coroutine.await.map(drop),
        Err(error) => Err(error),
    };
    ended.map_err(|error| {
        let text = Python::attach(|py| report::text(py, &error));
        author.fail(error, cpu.now());
        // The text has the place and time of the failure, and an earlier failure if there was one.
        author.report.get().failure().unwrap_or(text)
    })
}
