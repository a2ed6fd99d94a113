// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-host`, one module per subject.

mod allocations;
mod program;
