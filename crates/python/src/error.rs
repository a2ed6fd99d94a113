// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser's exceptions. Each is a `RiserError`, and what Python itself has for such an error too.

use ::lab::FileErrors;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;

create_exception!(riser, RiserError, PyException, "An error of riser: the base of all of them.");
create_exception!(
    riser,
    LabError,
    RiserError,
    "A lab or another file says what is not legal. The text names the place and the legal values; `errors` has each error by \
     itself, as a tuple of path, line, column (both from 1; None where it has no place) and message."
);
create_exception!(
    riser,
    RunFailed,
    RiserError,
    "A run has failed or made no progress. `result` is what it has shown up to there."
);
create_exception!(
    riser,
    Interrupted,
    PyKeyboardInterrupt,
    "A run was interrupted by Ctrl-C. `result` is what it has shown up to there."
);

create_exception!(
    riser,
    DmaError,
    RiserError,
    "A DMA read, write or atomic of a device has failed. `reason` says how."
);
create_exception!(
    riser,
    HostError,
    RiserError,
    "An access of a host program to a device has failed. `reason` says how."
);
create_exception!(
    riser,
    TimedOut,
    RiserError,
    "What was awaited `within` a span of time has not ended in it."
);

create_exception!(riser, Stuck, RiserError, "A coroutine has not yielded for a long time of the wall clock.");

/// The exception of a transfer that has failed, with the name of the reason: `unsupported-request`, `completer-abort`, `poisoned`,
/// `completion-timeout` and so on.
pub(crate) fn dma(error: ::device::DmaError) -> PyErr {
    reasoned(DmaError::new_err(error.to_string()), &format!("{error:?}"))
}

/// The exception of an access that has failed.
pub(crate) fn host(error: ::host::HostError) -> PyErr {
    let reason = match error {
        ::host::HostError::Completion(error) => format!("{error:?}"),
        error => format!("{error:?}"),
    };
    reasoned(HostError::new_err(error.to_string()), &reason)
}

/// `error` with the name of a variant as its reason, in small letters with hyphens.
fn reasoned(error: PyErr, variant: &str) -> PyErr {
    let letter = |(at, letter): (usize, char)| {
        let hyphen = (at > 0 && letter.is_uppercase()).then_some('-');
        hyphen.into_iter().chain(letter.to_lowercase())
    };
    let reason: String = variant.chars().enumerate().flat_map(letter).collect();
    Python::attach(|py| with_attribute(py, error, "reason", reason))
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
    module.add("Interrupted", py.get_type::<Interrupted>())
}

/// The exception for what is wrong with files.
pub(crate) fn of_files(py: Python<'_>, errors: &FileErrors) -> PyErr {
    let each = errors.all().iter().map(|error| {
        let place = error.place.map_or((None, None), |(line, column)| (Some(line), Some(column)));
        (error.path.clone(), place.0, place.1, error.message.clone())
    });
    let each: Vec<_> = each.collect();
    with_attribute(py, LabError::new_err(errors.to_string()), "errors", each)
}

/// The exception for what cannot happen unless riser is wrong.
pub(crate) fn internal(error: impl std::fmt::Display) -> PyErr {
    RiserError::new_err(format!("an error of riser itself, please report it: {error}"))
}

/// `error` with an attribute.
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
