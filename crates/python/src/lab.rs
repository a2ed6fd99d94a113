// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab as text, checked and run. The half in Python makes the text of what it is given; what is legal is said here, at its
//! place.

use crate::error;
use crate::objects;
use crate::plain;
use crate::polls::{self, Polls};
use crate::run::{self, RunResult, Wanted};
use ::lab::{Folder, LabFile, Overrides};
use plug::site::NativeCode;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::path::PathBuf;

/// A lab: the text of a lab file, and what is set over it.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct Lab {
    /// What errors and reports call it.
    name: PathBuf,
    text: String,
    set: Vec<String>,
    /// The objects that its text names by their numbers.
    objects: Vec<Py<PyAny>>,
}

#[pymethods]
impl Lab {
    /// A lab of this text, which errors call `name`; relative paths in it start from the folder of `name`.
    #[new]
    #[pyo3(signature = (text, name, set, objects, /))]
    fn new(text: String, name: PathBuf, set: Vec<String>, objects: Vec<Py<PyAny>>) -> Lab {
        Lab { name, text, set, objects }
    }

    /// Checks the lab and puts it together; returns its drawing.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        self.detached(py, || {
            let file = self.file(NativeCode::NotLoaded)?;
            ::lab::build(&file).map_err(error::lab)?;
            Ok(::lab::draw(&file.lab))
        })
    }

    /// What enumeration finds: the JSON of `riser lspci`, and the configuration space of each function, in the same order.
    fn enumerate(&self, py: Python<'_>) -> PyResult<(String, Vec<Cow<'static, [u8]>>)> {
        self.detached(py, || {
            let file = self.file(NativeCode::NotLoaded)?;
            let found = ::lab::enumerate(&file).map_err(error::RunFailed::new_err)?;
            let all: Vec<_> = found.functions.iter().collect();
            let registers = crate::models().registers();
            let listing = ::lab::lspci::Listing::of(&self.name.to_string_lossy(), &found, &all, &registers);
            let text = serde_json::to_string(&listing).map_err(error::internal)?;
            Ok((text, found.functions.into_iter().map(|function| Cow::Owned(function.bytes)).collect()))
        })
    }

    /// Runs the lab to its end. `progress` is called now and then with what is done, and a share of it where that is known.
    #[pyo3(signature = (*, seed, capture, force, tap, dllps, transactions, allow_native, progress, polls))]
    #[expect(clippy::too_many_arguments, reason = "names in Python")]
    fn run(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        capture: Option<PathBuf>,
        force: bool,
        tap: &str,
        dllps: bool,
        transactions: bool,
        allow_native: bool,
        progress: Option<Py<PyAny>>,
        polls: &Polls,
    ) -> PyResult<RunResult> {
        let wanted = Wanted::new(capture, force, tap, dllps, transactions)?;
        self.detached(py, || {
            let mut file = self.file(NativeCode::allowed(allow_native))?;
            file.lab.seed = seed.unwrap_or(file.lab.seed);
            file.check_runs_alone().map_err(error::lab)?;
            let assembly = ::lab::build(&file).map_err(error::lab)?;
            let (name, limit_us) = (self.name.to_string_lossy(), file.lab.limit_us);
            polls::with(polls, || run::run(&name, limit_us, assembly, wanted, progress.as_ref()))
        })
    }
}

impl Lab {
    /// What `within` gives with the interpreter released and the objects of this lab at hand.
    fn detached<T: Send>(&self, py: Python<'_>, within: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
        let objects = self.objects.iter().map(|object| object.clone_ref(py)).collect();
        py.detach(|| objects::with(objects, within))
    }

    fn file(&self, native: NativeCode) -> PyResult<LabFile> {
        let models = crate::models();
        let overrides = Overrides::new(&self.set);
        let read = ::lab::parse_with(&models, &self.name, &self.text, Folder::of(&self.name), &overrides);
        let mut file = read.map_err(|errors| Python::attach(|py| error::of_files(py, &errors)))?;
        file.lab.native = native;
        Ok(file)
    }
}

/// `value`, a dict of what TOML can say, as a file of TOML.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub(crate) fn to_toml(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let table: toml::Table = plain::read(value).map_err(not_toml)?;
    toml::to_string(&table).map_err(not_toml)
}

/// `value` as a value within a line of TOML.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub(crate) fn to_toml_value(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let value: toml::Value = plain::read(value).map_err(not_toml)?;
    Ok(value.to_string())
}

fn not_toml(why: impl std::fmt::Display) -> PyErr {
    error::lab(format!("TOML cannot say this: {why}"))
}
