// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices in C and C++: a shared library, which a lab names, in one of its slots. `include/riser_device.h` is what such a library
//! sees; docs/native.md says how it is called.
//!
//! - [`abi`]: the header's structures; [`loader`], the one file with `unsafe`: opens libraries and calls them;
//! - [`guard`]: looks at all that a library hands over, before the endpoint sees it;
//! - [`model`]: what a lab says of such a device; [`steps`]: what the host does with it.
//!
//! What a library says is never believed: a token that it does not have, or too few bytes, end the device with a message. What it
//! does to the memory of the process is its own affair: code that crashes takes riser with it.

pub mod abi;
mod bars;
mod guard;
mod loader;
mod model;
mod steps;

pub use bars::{BarKind, BarSettings};
pub use loader::{LoadError, check_whole};
pub use model::{Interrupts, Settings};
pub use steps::{Act, Fill, Parts, Step, check_steps, driver, functions_driver};
