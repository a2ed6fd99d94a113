// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for any bytes as a lab file: called by the fuzz target, and by the tests of `riser-worlds` on every seed.
//! What is broken panics. No profile is read by path but those that stand beside a file that is nowhere.

use lab::{Folder, LabFile, draw, parse};
use session::Session;
use std::path::Path;

/// The models that ship, NetTLP's adapter among them.
fn models() -> plug::Models {
    devices::models().with::<riser_worlds::adapter::NettlpAdapter>()
}

/// A text is read, drawn and put together, or refused with messages that name the file and, where they have a place,
/// a line that is there. True where it is good.
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
