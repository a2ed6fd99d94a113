// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shipped closed forms of NICs, as NICs of the simulated host.

use crate::BenchError;
use model::{Addressing, Description, Kind, Shipped};

/// Returns the shipped device of this name, with addresses of interrupts below 4 GiB, as on x86.
pub(crate) fn on_x86(name: &str) -> Result<Description, BenchError> {
    let shipped = Shipped::find(name);
    let shipped = shipped.ok_or_else(|| BenchError::Unknown(format!("no closed form `{name}`")))?;
    let mut description = Description::parse(shipped.text).map_err(|e| e.to_string())?;
    for interrupt in description.transactions.iter_mut().filter(|t| t.kind == Kind::Interrupt) {
        interrupt.addressing = Some(Addressing::A32);
    }
    Ok(description)
}
