// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-introspect`, one module per subject.

#[path = "../../../../fuzz/checks_introspect.rs"]
mod checks_introspect;
mod kernel;
