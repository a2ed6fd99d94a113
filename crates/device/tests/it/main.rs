// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-device`, one module per subject.

mod both_forms;
mod device;
mod generator;
mod rig;
mod shared;
