// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser for Python: the compiled half of the package `riser`, as module `riser._riser`.
//!
//! - [`command`]: the `riser` command that the wheel carries.
//! - [`mod@lab`], [`run`]: labs, checked and run; [`progress`] is what is seen of one meanwhile.
//! - [`captures`]: captures as tables.
//! - [`table`], [`tables`]: what a run has shown, as Arrow.
//! - [`functions`]: bench, compare, fit, the closed forms; [`rows`]: tables of dicts.
//! - [`error`]: riser's exceptions.
//!
//! It converts and calls; what Python can say as well, the half in Python says. It never computes a result of its own, and
//! never holds the interpreter while the fabric runs.

mod captures;
mod command;
mod error;
mod functions;
mod lab;
mod progress;
mod rows;
mod run;
mod table;
mod tables;

use pyo3::prelude::*;

/// The compiled half of riser.
#[pymodule]
mod _riser {
    #[pymodule_export]
    use crate::captures::Capture;
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::functions::measure::{bench_of, compare_of, fit_of};
    #[pymodule_export]
    use crate::functions::model::{model_bandwidth, model_nic, profile, profiles};
    #[pymodule_export]
    use crate::lab::{Lab, to_toml, to_toml_value};
    #[pymodule_export]
    use crate::rows::table;
    #[pymodule_export]
    use crate::run::RunResult;
    #[pymodule_export]
    use crate::table::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::error::add_to(module)
    }
}
