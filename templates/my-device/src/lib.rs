// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A copier: it copies host memory by DMA, sums the bytes, and raises an interrupt when it is done.
//!
//! [`Settings`] is the only type that other code needs: through it, a lab file selects the device.

mod device;
mod driver;
mod model;

pub use model::{Report, Settings};

use plug::{ModelError, Models};

/// Returns the models that a lab can name: riser's own and this one.
///
/// # Errors
/// If riser already has a model of this name, or one with registers at these IDs.
pub fn models() -> Result<Models, ModelError> {
    let mut models = riser_cli::models();
    models.add::<Settings>()?;
    Ok(models)
}
