// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser for Python: the compiled half of the package `riser`, as module `riser._riser`.
//!
//! - [`command`]: the `riser` command that the wheel carries.
//! - [`mod@lab`], [`run`]: labs, checked and run; [`progress`] is what is seen of one meanwhile.
//! - [`captures`]: captures as tables.
//! - [`table`], [`tables`]: what a run has shown, as Arrow.
//! - [`error`]: riser's exceptions.
//!
//! It converts and calls; what Python can say as well, the half in Python says. It never computes a result of its own, and
//! never holds the interpreter while the fabric runs.

mod captures;
mod command;
mod error;
mod lab;
mod progress;
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
    use crate::lab::{Lab, to_toml, to_toml_value};
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
