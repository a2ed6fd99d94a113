// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A copier: it moves host memory by DMA, adds up what it moves, and says by an interrupt that it is done.
//!
//! [`Settings`] is all that others need: by it, a lab file names the device.

mod device;
mod driver;
mod model;

pub use model::{Report, Settings};

use plug::{ModelError, Models};

/// The models that labs may name: riser's own, and this one.
///
/// # Errors
/// Where riser has a model of this name, or one with registers at these IDs.
pub fn models() -> Result<Models, ModelError> {
    let mut models = riser_cli::models();
    models.add::<Settings>()?;
    Ok(models)
}
