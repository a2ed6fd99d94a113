// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of Python values that JSON and TOML can represent.

use crate::error::RiserError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyRange, PyString, PyTuple, PyType};
use serde::de::DeserializeOwned;

/// Deepest nesting of lists and dicts. The conversion of an object that contains itself would never end.
const MAX_DEPTH: u32 = 64;

/// Most values of a range. A much longer range is a mistake, and would use all memory.
const MAX_RANGE: usize = 1 << 20;

/// Converts `value`. A range becomes the list of its values. An object with `tolist()` also becomes its values, such as
/// arrays and scalars of numpy.
///
/// # Errors
/// A part that JSON cannot represent, or a nesting that is too deep.
pub(crate) fn read<T: DeserializeOwned>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    pythonize::depythonize(&plain(value, MAX_DEPTH)?).map_err(|error| RiserError::new_err(error.to_string()))
}

/// Converts `value` to Python's own types.
fn plain<'py>(value: &Bound<'py, PyAny>, depth: u32) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let Some(depth) = depth.checked_sub(1) else {
        return Err(RiserError::new_err(format!("lists and dicts nested more than {MAX_DEPTH} deep")));
    };
    if let Ok(dict) = value.cast::<PyDict>() {
        let made = PyDict::new(py);
        dict.iter().try_for_each(|(key, value)| made.set_item(key, plain(&value, depth)?))?;
        return Ok(made.into_any());
    }
    if let Ok(range) = value.cast::<PyRange>()
        && !range.len().is_ok_and(|len| len <= MAX_RANGE)
    {
        return Err(RiserError::new_err(format!("{range}: expected ranges of up to {MAX_RANGE} values")));
    }
    if value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyRange>()
    {
        let values: Vec<_> = value.try_iter()?.map(|value| plain(&value?, depth)).collect::<PyResult<_>>()?;
        return Ok(PyList::new(py, values)?.into_any());
    }
    let is_plain = value.is_none()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBool>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>();
    if is_plain {
        return Ok(value.clone());
    }
    let kind = value.get_type();
    if !value.is_instance_of::<PyType>() && value.hasattr(intern!(py, "tolist"))? {
        return plain(&value.call_method0(intern!(py, "tolist"))?, depth);
    }
    Err(RiserError::new_err(format!(
        "a value of type {kind}: expected None, dict, list, tuple, range, str, int, float, bool, or arrays and scalars of numpy"
    )))
}
