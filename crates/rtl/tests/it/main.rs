// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-rtl`, one module per subject.

// Names used by the checks of the fuzz targets.
extern crate riser_rtl as rtl;

#[path = "../../../../fuzz/checks_rtl.rs"]
mod checks_rtl;
mod reference;
mod source;
