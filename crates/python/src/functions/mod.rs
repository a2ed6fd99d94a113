// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What commands do beside running a lab: each a function of a dict of arguments, as the half in Python hands them on. What they find goes
//! up as the JSON that the command prints; tables are made of that.
//!
//! - [`arguments`]: what such a dict holds. - [`apart`]: long work on a thread of its own.
//! - [`measure`]: bench, compare, fit. - [`model`]: closed forms, profiles.

mod apart;
mod arguments;
pub(crate) mod measure;
pub(crate) mod model;

use crate::error;
use pyo3::PyResult;
use serde::Serialize;

fn json(of: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(of).map_err(error::internal)
}
