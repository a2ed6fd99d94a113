// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser for Python: the compiled half of the package `riser`, as module `riser._riser`.
//!
//! - [`device`], [`driver`]: devices and drivers in Python. [`coroutine`], [`operation`] and [`task`] run them. [`held`] has values of a thread,
//!   [`run_state`] of a run; [`current`] is the current task; [`sight`] finds TLPs that are awaited.
//! - [`command`]: the `riser` command of the wheel.
//! - [`mod@lab`], [`run`]: labs, checked and run; [`progress`] reports how far a run is.
//! - [`mod@sweep`]: sweeps, driven from Python.
//! - [`captures`]: captures as tables.
//! - [`table`], [`tables`]: results of a run, as Arrow.
//! - [`functions`]: bench, compare, fit, the closed forms; [`rows`]: tables of dicts.
//! - [`packet`]: TLPs as bytes. [`plain`]: values that JSON and TOML can represent.
//! - [`error`]: riser's exceptions. [`interpreter`]: riser belongs to one interpreter.
//!
//! This half converts values and calls other crates. Code that can be Python is in the Python half. This crate
//! calculates no results, and never holds the interpreter while the fabric runs.

mod author;
mod captures;
mod command;
mod coroutine;
mod current;
mod device;
mod driver;
mod error;
mod functions;
mod held;
mod interpreter;
mod lab;
mod operation;
mod packet;
mod plain;
mod progress;
mod rows;
mod run;
mod run_state;
mod sight;
mod sweep;
mod table;
mod tables;
mod task;

use pyo3::prelude::*;

/// Returns the models of labs: those of the command, and devices in Python.
fn models() -> plug::Models {
    worlds::models().with::<device::Settings>()
}

/// The compiled half of riser.
#[pymodule]
mod _riser {
    #[pymodule_export]
    use crate::captures::Capture;
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::device::io::Io;
    #[pymodule_export]
    use crate::device::request::{
        AtomicRequest, ConfigRead, ConfigWrite, Message, ReadRequest, WriteRequest,
    };
    #[pymodule_export]
    use crate::driver::cpu::Cpu;
    #[pymodule_export]
    use crate::driver::function::Function;
    #[pymodule_export]
    use crate::driver::memory::Memory;
    #[pymodule_export]
    use crate::functions::measure::{bench_of, compare_of, fit_of};
    #[pymodule_export]
    use crate::functions::model::{model_bandwidth, model_nic, profile, profiles};
    #[pymodule_export]
    use crate::lab::{Lab, to_toml, to_toml_value};
    #[pymodule_export]
    use crate::operation::Operation;
    #[pymodule_export]
    use crate::packet::{emit_tlp, parse_tlp, tlp_text};
    #[pymodule_export]
    use crate::rows::table;
    #[pymodule_export]
    use crate::run::RunResult;
    #[pymodule_export]
    use crate::run_state::Polls;
    #[pymodule_export]
    use crate::sweep::{Sweep, SweepRun, SweepWorker};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::task::{Task, Tasks};
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::interpreter::refuse_others;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::refuse_others(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::error::add_to(module)
    }
}
