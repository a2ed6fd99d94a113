// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-link`, one module per subject.

mod common;
mod errors;
mod notices;
mod random_cuts;
mod random_traffic;
mod wire_rate;
