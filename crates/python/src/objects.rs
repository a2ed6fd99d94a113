// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The objects of the lab that is being checked or run on this thread. Its text names them by their numbers.

use crate::error::RiserError;
use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    static OBJECTS: RefCell<Vec<Vec<Py<PyAny>>>> = const { RefCell::new(Vec::new()) };
}

/// Takes the objects of a lab away again, as it is dropped.
struct Gone;

impl Drop for Gone {
    fn drop(&mut self) {
        OBJECTS.with_borrow_mut(Vec::pop);
    }
}

/// What `within` gives, for which these are the objects of the lab.
pub(crate) fn with<T>(objects: Vec<Py<PyAny>>, within: impl FnOnce() -> T) -> T {
    OBJECTS.with_borrow_mut(|labs| labs.push(objects));
    let _gone = Gone;
    within()
}

/// The object with this number.
///
/// # Errors
/// Where the lab has none, as one of a file.
pub(crate) fn get(py: Python<'_>, number: u32) -> PyResult<Bound<'_, PyAny>> {
    let found = OBJECTS.with_borrow(|labs| {
        labs.last().and_then(|objects| objects.get(number as usize)).map(|object| object.clone_ref(py))
    });
    found.map(|object| object.into_bound(py)).ok_or_else(|| {
        RiserError::new_err(format!("object {number}: there is none; labs in files name a class"))
    })
}
