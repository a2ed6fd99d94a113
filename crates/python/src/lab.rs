// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab as text, checked and run. The Python half makes the text; this half checks it and reports errors with their place.

use crate::current;
use crate::error;
use crate::plain;
use crate::run::{self, RunResult, Wanted};
use crate::run_state::{Polls, RunState};
use ::lab::{BuildOptions, Folder, LabFile, Overrides, Reader};
use ::session::Session;
use plug::RunContext;
use plug::site::NativeCode;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::path::PathBuf;
use std::rc::Rc;

/// A lab: the text of a lab file, and settings over it.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct Lab {
    /// Name in errors and reports.
    name: PathBuf,
    text: String,
    set: Vec<String>,
    /// Objects to which the text refers by number.
    objects: Vec<Py<PyAny>>,
}

#[pymethods]
impl Lab {
    /// Returns a lab with this text. Errors call it `name`; relative paths in it start from the folder of `name`.
    #[new]
    #[pyo3(signature = (text, name, set, objects, /))]
    fn new(text: String, name: PathBuf, set: Vec<String>, objects: Vec<Py<PyAny>>) -> Lab {
        Lab { name, text, set, objects }
    }

    /// Checks and builds the lab. Returns its drawing.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        self.detached(py, |objects| {
            let state = Rc::new(RunState::new(objects));
            let file = self.file(&state)?;
            build(&file, &state, NativeCode::NotLoaded)?;
            Ok(::lab::draw(&file.lab))
        })
    }

    /// Returns the result of enumeration: the JSON of `riser lspci`, and the configuration space of each function, in the
    /// same order.
    fn enumerate(&self, py: Python<'_>) -> PyResult<(String, Vec<Cow<'static, [u8]>>)> {
        self.detached(py, |objects| {
            let state = Rc::new(RunState::new(objects));
            let file = self.file(&state)?;
            let found = ::session::enumerate_with(&file, NativeCode::NotLoaded, RunContext::with(state))
                .map_err(|e| error::RunFailed::new_err(e.to_string()))?;
            let all: Vec<_> = found.functions.iter().collect();
            let registers = crate::models().registers();
            let listing =
                ::session::lspci::Listing::of(&self.name.to_string_lossy(), &found, &all, &registers);
            let text = serde_json::to_string(&listing).map_err(error::internal)?;
            Ok((text, found.functions.into_iter().map(|function| Cow::Owned(function.bytes)).collect()))
        })
    }

    /// Runs the lab to its end. Calls `progress` from time to time with the current step, and its share if known.
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
        self.detached(py, |objects| {
            let state = Rc::new(RunState::with_clock(objects, polls));
            let mut file = self.file(&state)?;
            file.lab.seed = seed.unwrap_or(file.lab.seed);
            file.check_runs_alone().map_err(error::lab)?;
            let session = build(&file, &state, NativeCode::allowed(allow_native))?;
            let name = self.name.to_string_lossy();
            current::apart(|| run::run(&name, session, &state, wanted, progress.as_ref()))
        })
    }
}

impl Lab {
    /// Calls `work` with the objects of this lab, without the interpreter.
    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Vec<Py<PyAny>>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let objects = self.objects.iter().map(|object| object.clone_ref(py)).collect();
        py.detach(|| current::with_lab(|| work(objects)))
    }

    fn file(&self, state: &Rc<RunState>) -> PyResult<LabFile> {
        let (reader, overrides) = (Reader::new(&crate::models()), Overrides::new(&self.set));
        let mut context = RunContext::with(Rc::clone(state));
        let (folder, overrides) = (Folder::of(&self.name), &overrides);
        let read = reader.parse_in_context(&self.name, &self.text, folder, overrides, &mut context);
        read.map_err(|errors| Python::attach(|py| error::of_files(py, &errors)))
    }
}

/// Builds the lab for a run with this state.
fn build(file: &LabFile, state: &Rc<RunState>, native: NativeCode) -> PyResult<Session> {
    let context = RunContext::with(Rc::clone(state));
    let options = BuildOptions { native, context, ..BuildOptions::default() };
    Session::with(file, options).map_err(error::lab)
}

/// Converts `value`, a dict of TOML values, to a TOML file.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub(crate) fn to_toml(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let table: toml::Table = plain::read(value).map_err(not_toml)?;
    toml::to_string(&table).map_err(not_toml)
}

/// Converts `value` to a TOML value on one line.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub(crate) fn to_toml_value(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let value: toml::Value = plain::read(value).map_err(not_toml)?;
    Ok(value.to_string())
}

fn not_toml(why: impl std::fmt::Display) -> PyErr {
    error::lab(format!("TOML cannot represent this: {why}"))
}
