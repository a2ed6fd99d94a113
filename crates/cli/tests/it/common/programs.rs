// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles C programs below `crates/` for tests of the command. Prints a line if the test is skipped because there is no C compiler.

use std::path::PathBuf;
use testkit::c;

/// Compiles one C file below `crates/` with the C library, once per run.
pub(crate) fn program(source: &str) -> Option<PathBuf> {
    let cc = c::compiler("cc")?;
    Some(c::program(cc, &testkit::root().join("crates").join(source), &["-std=gnu99"]))
}
