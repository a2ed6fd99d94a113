// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the reader for records of labs with outside participants. Any bytes are passed to it as a record. The
//! fuzz target and the tests of `riser-session` call them on every seed. A failed check panics. The record is not
//! run.

use riser_session::external::Recording;

/// Reads a record to its end, or gets one error message. Returns the number of inputs of a valid record.
pub(crate) fn record(bytes: &[u8]) -> Option<u64> {
    match Recording::new(bytes).and_then(Recording::check) {
        // An input has at least nine bytes, in the earliest version.
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
