// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices in C and C++: a shared library, named by a lab, in one of its slots. `include/riser_device.h` is the interface of such
//! a library; docs/native.md describes how it is called.
//!
//! - [`abi`]: the header's structures
//! - [`loader`]: opens libraries and calls them; the only file with `unsafe`
//! - [`guard`]: checks all outputs of a library before the endpoint sees them
//! - [`model`]: the settings of such a device in a lab
//! - [`steps`]: the actions of the host's driver on the device
//!
//! Outputs of a library are never trusted: an unknown token or too few bytes fail the device with a message. The
//! library's code runs in riser's process, without protection: if the library crashes, riser crashes.

pub mod abi;
mod bars;
mod guard;
mod loader;
mod misuse;
mod model;
mod steps;

pub use bars::{BarKind, BarSettings};
pub use loader::{LoadError, check_whole};
pub use model::{Interrupts, Settings};
pub use steps::{Act, Fill, Parts, Step, check_steps, driver, functions_driver};
