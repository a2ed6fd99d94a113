// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test rigs shared by several crates. A rig that only one crate uses is a module of that crate's tests. Never published and
//! never a dependency of anything but tests.

mod bench;
#[cfg(feature = "browser")]
pub mod browser;
mod bytes;
#[cfg(feature = "c")]
pub mod c;
mod cases;
mod data;
#[cfg(feature = "config")]
pub mod functions;
mod generated;
pub mod lspci;
mod seeds;
#[cfg(feature = "nettlp")]
pub mod served;
mod shared;

pub use bench::{cpu_ns, print_cost};
pub use bytes::Bytes;
pub use cases::{Case, cases};
pub use data::shared_data;
pub use generated::generated;
pub use seeds::seeds;
pub use shared::{once, runner};

use std::path::{Path, PathBuf};

/// Root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// Folder for the files of tests: `CARGO_TARGET_TMPDIR`, which Cargo does not give to libraries.
pub fn tmp() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its executable");
    let target = test.ancestors().nth(3).expect("tests are in target/PROFILE/deps");
    target.join("tmp")
}
