// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-sweep`, one module per subject.

// Names that the checks of the fuzz targets use.
extern crate devices as riser_devices;
extern crate plug as riser_plug;

#[path = "../../../../fuzz/checks_sweep.rs"]
mod checks_sweep;
mod common;
mod journal;
mod points;
mod reference;
mod seeds;
