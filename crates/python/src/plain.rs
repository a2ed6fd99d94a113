// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of Python that JSON and TOML can say, as Rust has them.

use crate::error::RiserError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::de::DeserializeOwned;

/// Lists and dicts within one another: one that holds itself would never end.
const MAX_DEPTH: u32 = 64;

/// `value` as Rust has it.
///
/// # Errors
/// Where it, or something in it, is nothing that JSON can say, or lies too deep.
pub(crate) fn read<T: DeserializeOwned>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    check(value, MAX_DEPTH)?;
    pythonize::depythonize(value).map_err(|error| RiserError::new_err(error.to_string()))
}

fn check(value: &Bound<'_, PyAny>, depth: u32) -> PyResult<()> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(RiserError::new_err(format!(
            "lists and dicts more than {MAX_DEPTH} deep within one another"
        )));
    };
    if let Ok(dict) = value.cast::<PyDict>() {
        return dict.values().iter().try_for_each(|value| check(&value, depth));
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().try_for_each(|value| check(&value, depth));
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return tuple.iter().try_for_each(|value| check(&value, depth));
    }
    let is_plain = value.is_none()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBool>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>();
    if is_plain {
        return Ok(());
    }
    let kind = value.get_type();
    Err(RiserError::new_err(format!(
        "a value of type {kind}: legal are dict, list, tuple, str, int, float, bool and None"
    )))
}
