// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C programs, compiled with the library of `crates/libtlp` and under the sanitizers where the compiler has them. Never skips
//! silently: says so where there is no C compiler.

#[allow(dead_code, reason = "the library's own tests use the rest")]
#[path = "../../../libtlp/tests/common/build.rs"]
mod build;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The program of one C file below `crates/`; tests side by side compile it once.
pub(crate) fn program(source: &'static str) -> Option<PathBuf> {
    static ALL: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let cc = build::compiler("cc")?;
    let compiled = || build::program(cc, &crates.join(source), &["-std=gnu99"]);
    Some(all.entry(source).or_insert_with(compiled).clone())
}
