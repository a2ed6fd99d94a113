// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the lab parser for any bytes. The fuzz target and the tests of `riser-worlds` call them on every seed.
//! A failed check panics. The lab file's folder does not exist, so no profile is read from a path.

use lab::{Folder, LabFile, draw, parse};
use session::Session;
use std::path::Path;

/// Returns the models that ship with riser, including NetTLP's adapter.
fn models() -> plug::Models {
    devices::models().with::<riser_worlds::adapter::NettlpAdapter>()
}

/// Parses, draws and builds a lab. Errors must name the file, and an existing line if they have a place. Returns whether
/// the lab is valid.
pub(crate) fn lab(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let path = Path::new("/nowhere/fuzz.toml");
    match parse(&models(), path, text) {
        Ok(lab) => {
            assert!(draw(&lab).lines().count() > lab.slot.len());
            assert!(Session::new(&LabFile { lab, base: Folder::of(path) }).is_ok());
            true
        }
        Err(errors) => {
            assert!(!errors.all().is_empty());
            for error in errors.all() {
                assert!(error.to_string().starts_with("/nowhere/fuzz.toml"));
                assert!(!error.message.is_empty());
                if let Some((row, column)) = error.place {
                    assert!(row <= text.split('\n').count() && column <= text.chars().count() + 1);
                }
            }
            false
        }
    }
}
