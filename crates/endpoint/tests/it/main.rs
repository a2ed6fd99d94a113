// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-endpoint`, one module per subject.

mod allocations;
mod endpoint;
mod load;
