// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What belongs to the lab that is being checked or run on this thread: its objects, which its text names by their numbers, and what
//! became of the devices and drivers in Python that were plugged in.

use crate::device::report::Report;
use crate::error::RiserError;
use plug::Shared;
use pyo3::prelude::*;
use std::cell::RefCell;

/// Labs that are run within one another, by devices in Python: no stack is deep enough for any number of them.
const MAX_WITHIN: usize = 8;

struct Belongings {
    objects: Vec<Py<PyAny>>,
    reports: Vec<Shared<Report>>,
}

thread_local! {
    static LABS: RefCell<Vec<Belongings>> = const { RefCell::new(Vec::new()) };
}

/// Takes what belongs to a lab away again, as it is dropped.
struct Gone;

impl Drop for Gone {
    fn drop(&mut self) {
        // Objects run Python as they go: the list is free by then.
        let _gone = LABS.with_borrow_mut(Vec::pop);
    }
}

/// What `within` gives, for which these are the objects of the lab.
///
/// # Errors
/// Where it is run within too many others.
pub(crate) fn with<T>(objects: Vec<Py<PyAny>>, within: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let depth = LABS.with_borrow_mut(|labs| {
        labs.push(Belongings { objects, reports: Vec::new() });
        labs.len()
    });
    let _gone = Gone;
    if depth > MAX_WITHIN {
        let text = format!("more than {MAX_WITHIN} labs are run within one another");
        return Err(RiserError::new_err(text));
    }
    within()
}

/// The object with this number.
///
/// # Errors
/// Where the lab has none, as one of a file.
pub(crate) fn get(py: Python<'_>, number: u32) -> PyResult<Bound<'_, PyAny>> {
    let found = LABS.with_borrow(|labs| {
        labs.last().and_then(|lab| lab.objects.get(number as usize)).map(|object| object.clone_ref(py))
    });
    found.map(|object| object.into_bound(py)).ok_or_else(|| {
        RiserError::new_err(format!("object {number}: there is none; labs in files name a class"))
    })
}

/// Notes what is to become of a device or driver of the lab.
pub(crate) fn add_report(report: &Shared<Report>) {
    LABS.with_borrow_mut(|labs| {
        if let Some(lab) = labs.last_mut() {
            lab.reports.push(report.clone());
        }
    });
}

/// What became of the devices and drivers in Python, in the order of their slots.
pub(crate) fn reports() -> Vec<Shared<Report>> {
    LABS.with_borrow(|labs| labs.last().map_or_else(Vec::new, |lab| lab.reports.clone()))
}
