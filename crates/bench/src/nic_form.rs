// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shipped closed forms of NICs.

use crate::BenchError;
use model::{Description, Shipped};

/// Returns the shipped device of this name.
pub(crate) fn shipped(name: &str) -> Result<Description, BenchError> {
    let shipped = Shipped::find(name);
    let shipped = shipped.ok_or_else(|| BenchError::Unknown(format!("no closed form `{name}`")))?;
    Ok(Description::parse(shipped.text).map_err(|e| e.to_string())?)
}
