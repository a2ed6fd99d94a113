// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of a function, by name. The signatures in Python define them.

use crate::error;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// A dict of arguments. `None` if the argument is missing.
pub(super) struct Arguments<'a, 'py>(pub(super) &'a Bound<'py, PyDict>);

impl<'py> Arguments<'_, 'py> {
    fn value(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// Returns the argument; `None` if it is not given.
    ///
    /// # Errors
    /// The argument is of another type, or out of the type's range.
    pub(super) fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        self.value(name)?.map(|value| of(name, &value)).transpose()
    }

    /// Returns the argument, or `default`.
    pub(super) fn or<T: FromPyObjectOwned<'py>>(&self, name: &str, default: T) -> PyResult<T> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// Returns the argument, or its elements if it is a list.
    pub(super) fn list<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Vec<T>> {
        let Some(value) = self.value(name)? else { return Ok(Vec::new()) };
        if value.is_instance_of::<PyString>() {
            return Ok(vec![of(name, &value)?]);
        }
        match value.try_iter() {
            Ok(values) => values.map(|value| of(name, &value?)).collect(),
            Err(_) => Ok(vec![of(name, &value)?]),
        }
    }

    /// Converts a word to its value.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> PyResult<Option<T>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        let given = value.str()?.to_string();
        let meant = words.iter().find(|(word, _)| *word == given);
        meant.map(|(_, meaning)| Some(*meaning)).ok_or_else(|| {
            let legal = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            error::argument(format!("{name} {given}: expected {legal}"))
        })
    }
}

fn of<'py, T: FromPyObjectOwned<'py>>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T> {
    value.extract::<T>().map_err(|why| {
        let why: PyErr = why.into();
        let shown = value.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
        error::argument(format!("{name} {shown}: {}", error::unfit::<T>(value.py(), &why)))
    })
}
