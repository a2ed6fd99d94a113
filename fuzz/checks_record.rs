// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for any bytes as a record of a lab that the outside has joined: called by the fuzz target, and by the tests of `riser-session`
//! on every seed. What is broken panics. Nothing is run.

use riser_session::external::Recording;

/// A record is read to its end, or refused with one message; how many inputs it has, where it is good.
pub(crate) fn record(bytes: &[u8]) -> Option<u64> {
    match Recording::new(bytes).and_then(Recording::check) {
        // An input takes nine bytes at least, in the earliest version.
        Ok(inputs) => {
            assert!(inputs <= bytes.len() as u64 / 9);
            Some(inputs)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}
