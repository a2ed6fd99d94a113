// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of enumeration and of access to BARs.

use thiserror::Error;

/// An error of firmware at a function.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{text}")]
pub struct FirmwareError {
    pub(super) text: String,
    /// Says whether the function is still there.
    pub kind: FirmwareErrorKind,
}

/// Whether a function is still there after an error of firmware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirmwareErrorKind {
    /// The function is inconsistent, or its needs cannot be met.
    Wrong,
    /// The function is absent or has changed: a request was rejected.
    Refused,
    /// The function did not answer: it was absent or reset at that time, even if it answers now.
    TimedOut,
}

impl From<String> for FirmwareError {
    fn from(text: String) -> FirmwareError {
        FirmwareError { text, kind: FirmwareErrorKind::Wrong }
    }
}

impl From<FirmwareError> for String {
    fn from(error: FirmwareError) -> String {
        error.text
    }
}

/// Reason why a BAR has no such address.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BarError {
    /// The function has no such BAR.
    #[error("{function} has no {space} BAR {bar}", space = if *is_io { "I/O" } else { "memory" })]
    Missing {
        /// Name of the function.
        function: String,
        /// True for an I/O BAR.
        is_io: bool,
        /// The BAR.
        bar: u8,
    },
    /// The offset is beyond the end.
    #[error("{function}, {space}BAR {bar}: offset {offset:#x} is beyond its {size:#x} bytes", space = if *is_io { "I/O " } else { "" })]
    Beyond {
        /// Name of the function.
        function: String,
        /// True for an I/O BAR.
        is_io: bool,
        /// The BAR.
        bar: u8,
        /// The offset, in bytes.
        offset: u64,
        /// The size of the BAR, in bytes.
        size: u64,
    },
}

impl From<BarError> for String {
    fn from(error: BarError) -> String {
        error.to_string()
    }
}
