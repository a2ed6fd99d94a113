// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that do not run a lab. Each is a function of a dict of arguments from the Python half. Results are returned as the JSON
//! that the command prints, from which tables are made.
//!
//! - [`arguments`]: the contents of the dict of arguments.
//! - [`apart`]: long work on a separate thread.
//! - [`measure`]: bench, compare, fit.
//! - [`model`]: closed forms, profiles.

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
