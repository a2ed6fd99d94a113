// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-lab`, one module per subject.

mod bad_labs;
mod draw;
mod errors_rig;
mod errors_table;
mod switch_links;
mod virtual_channels;
