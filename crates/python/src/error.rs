// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser's exceptions. Each is a `RiserError`, and some also derive from Python's own class for such an error.

use ::lab::FileErrors;
use capture::{Fault, FilterError as Unmeant, OpenError};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyOSError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

create_exception!(riser, RiserError, PyException, "Base class of riser's errors.");
create_exception!(
    riser,
    LabError,
    RiserError,
    "A lab or another file is invalid. The text names the place and the expected values; `errors` has each error \
     as a tuple of path, line, column (both from 1; None without a place) and message."
);
create_exception!(
    riser,
    RunFailed,
    RiserError,
    "A run failed or made no progress, or every point of a sweep was refused. `result` has the results so far."
);
create_exception!(
    riser,
    CaptureError,
    RiserError,
    "A capture cannot be read. The text names the file and the place; `offset` is the place in bytes from the start of the file \
     (None without a place)."
);
create_exception!(
    riser,
    FilterError,
    RiserError,
    "A filter is invalid. The text shows the place and what was expected; `column` is the place, in characters from 1."
);
create_exception!(
    riser,
    Interrupted,
    PyKeyboardInterrupt,
    "Ctrl-C interrupted a run. `result` has the results so far."
);

create_exception!(
    riser,
    DmaError,
    RiserError,
    "A DMA read, write or atomic of a device failed. `reason` is the cause."
);
create_exception!(
    riser,
    HostError,
    RiserError,
    "An access of a host program to a device failed. `reason` is the cause."
);
create_exception!(riser, TimedOut, RiserError, "An awaitable did not end `within` its time.");

create_exception!(riser, Stuck, RiserError, "A coroutine did not yield for a long time of the wall clock.");

/// Returns the exception for a failed transfer, with the name of the reason: `unsupported-request`, `completer-abort`, `poisoned`,
/// `completion-timeout` and so on.
pub(crate) fn dma(error: ::device::DmaError) -> PyErr {
    reasoned(DmaError::new_err(error.to_string()), &format!("{error:?}"))
}

/// Returns the exception for a failed access.
pub(crate) fn host(error: ::host::HostError) -> PyErr {
    let reason = match error {
        ::host::HostError::Completion(error) => format!("{error:?}"),
        error => format!("{error:?}"),
    };
    reasoned(HostError::new_err(error.to_string()), &reason)
}

/// Adds the name of a variant to `error` as its reason, in lower case with hyphens.
fn reasoned(error: PyErr, variant: &str) -> PyErr {
    let letter = |(at, letter): (usize, char)| {
        let hyphen = (at > 0 && letter.is_uppercase()).then_some('-');
        hyphen.into_iter().chain(letter.to_lowercase())
    };
    let reason: String = variant.chars().enumerate().flat_map(letter).collect();
    Python::attach(|py| with_attribute(py, error, "reason", reason))
}

/// Created once, by hand: `create_exception` cannot add ValueError as a second base.
static ARGUMENT_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn argument_error(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let make = || {
        let bases = PyTuple::new(py, [py.get_type::<RiserError>(), py.get_type::<PyValueError>()])?;
        let of = PyDict::new(py);
        of.set_item("__module__", "riser")?;
        of.set_item("__doc__", "An argument is invalid. The text names it and the expected values.")?;
        let made = py.get_type::<PyType>().call1(("ArgumentError", bases, of))?;
        Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
    };
    Ok(ARGUMENT_ERROR.get_or_try_init(py, make)?.bind(py))
}

/// Options of the command that are `True` in Python.
const FLAGS: [&str; 3] = ["allow_native", "force", "resume"];

/// Replaces the options of the command in a text (`--allow-native`) by Python arguments.
pub(crate) fn in_python(text: impl Display) -> String {
    let text = text.to_string();
    let mut parts = text.split("--");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_option = part.starts_with(|c: char| c.is_ascii_lowercase());
        // Within a word, `--` is part of a name.
        if !is_option || !(out.is_empty() || out.ends_with([' ', '`', '(', '\n'])) {
            out.push_str("--");
            out.push_str(part);
            continue;
        }
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(part.len());
        let name = part[..end].replace('-', "_");
        out.push_str(&name);
        out.push_str(if FLAGS.contains(&name.as_str()) { "=True" } else { "" });
        out.push_str(&part[end..]);
    }
    out
}

/// Returns the exception for an invalid lab or another invalid file.
pub(crate) fn lab(why: impl Display) -> PyErr {
    LabError::new_err(in_python(why))
}

/// Returns the exception for an invalid argument.
pub(crate) fn argument(why: String) -> PyErr {
    Python::attach(|py| match argument_error(py) {
        Ok(kind) => PyErr::from_type(kind.clone(), in_python(why)),
        Err(error) => error,
    })
}

/// Describes why a value could not be converted to `T`.
pub(crate) fn unfit<T>(py: Python<'_>, why: &PyErr) -> String {
    let legal = match std::any::type_name::<T>() {
        "u8" => Some("0 to 255"),
        "u16" => Some("0 to 65535"),
        "u32" => Some("0 to 4294967295"),
        "u64" | "usize" => Some("0 to 18446744073709551615"),
        _ => None,
    };
    let legal = legal.filter(|_| why.is_instance_of::<PyOverflowError>(py));
    legal.map_or_else(|| why.value(py).to_string(), |legal| format!("not within {legal}"))
}

/// Adds the exceptions to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("RiserError", py.get_type::<RiserError>())?;
    module.add("LabError", py.get_type::<LabError>())?;
    module.add("RunFailed", py.get_type::<RunFailed>())?;
    module.add("DmaError", py.get_type::<DmaError>())?;
    module.add("HostError", py.get_type::<HostError>())?;
    module.add("Stuck", py.get_type::<Stuck>())?;
    module.add("TimedOut", py.get_type::<TimedOut>())?;
    module.add("CaptureError", py.get_type::<CaptureError>())?;
    module.add("FilterError", py.get_type::<FilterError>())?;
    module.add("ArgumentError", argument_error(py)?)?;
    module.add("Interrupted", py.get_type::<Interrupted>())
}

/// Returns the exception for errors in files.
pub(crate) fn of_files(py: Python<'_>, errors: &FileErrors) -> PyErr {
    let each = errors.all().iter().map(|error| {
        let place = error.place.map_or((None, None), |(line, column)| (Some(line), Some(column)));
        (PathBuf::from(in_python(error.path.display())), place.0, place.1, in_python(&error.message))
    });
    let each: Vec<_> = each.collect();
    with_attribute(py, lab(errors), "errors", each)
}

/// Returns the exception for a file that the system refuses.
pub(crate) fn in_file(path: &Path, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        // Python adds the code and the path.
        Some(code) => {
            let why = error.to_string();
            let why = why.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((code, why, path.display().to_string()))
        }
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// Returns the exception for a file that is not a capture, or that the system refuses.
pub(crate) fn of_opening(error: OpenError) -> PyErr {
    match error {
        OpenError::Io { path, error } => in_file(Path::new(&path), &error),
        OpenError::NotACapture { .. } | OpenError::Option { .. } => of_capture(error.to_string(), None),
    }
}

/// Returns the exception for an unreadable part of a capture.
pub(crate) fn of_fault(path: &Path, fault: &Fault) -> PyErr {
    of_capture(format!("{}: {fault}", path.display()), Some(fault.offset()))
}

fn of_capture(text: String, offset: Option<u64>) -> PyErr {
    Python::attach(|py| with_attribute(py, CaptureError::new_err(text), "offset", offset))
}

/// Returns the exception for an invalid filter.
pub(crate) fn of_filter(error: Unmeant) -> PyErr {
    Python::attach(|py| with_attribute(py, FilterError::new_err(error.to_string()), "column", error.column))
}

/// Returns the exception for a bug in riser.
pub(crate) fn internal(error: impl std::fmt::Display) -> PyErr {
    RiserError::new_err(format!("a bug in riser, please report it: {error}"))
}

/// Returns `error` with an attribute.
pub(crate) fn with_attribute<'py>(
    py: Python<'py>,
    error: PyErr,
    name: &str,
    value: impl IntoPyObject<'py>,
) -> PyErr {
    match error.value(py).setattr(name, value) {
        Ok(()) => error,
        Err(other) => other,
    }
}
