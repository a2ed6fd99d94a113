// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons why a line of a text, or a packet with a descriptor in it, cannot be read.

use crate::count::counted;
use crate::reader::MAX_FRAME_LEN;
use crate::settings::SettingError;
use tlp::{ParseError, SpanError};

/// Maximum length of a line in bytes, with its end. Longer lines are skipped.
pub const MAX_LINE: usize = 64 << 10;

/// Reason why a line of a text cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line is too long.
    #[error("line of more than {MAX_LINE} bytes")]
    TooLong,
    /// The line, or the row of a table, has no TLP.
    #[error("{0} without a TLP")]
    NoTlp(&'static str),
    /// A cell that should have a TLP is empty.
    #[error("empty cell: expected a TLP")]
    EmptyCell,
    /// A word or the value of a signal is not as expected.
    #[error("{signal}`{text}`: expected {expected}")]
    Value {
        /// Name of the signal with a blank; empty for a word.
        signal: &'static str,
        /// The word or value, shortened if it is long.
        text: String,
        /// The legal values.
        expected: String,
    },
    /// A cell is not a time.
    #[error("`{0}` is not a time")]
    Time(String),
    /// A cell is not a direction.
    #[error("`{0}` is not a direction")]
    Direction(String),
    /// A number has the wrong number of digits.
    #[error("`{number}` has {}, expected {expected}", counted(*.digits, "digit"))]
    Digits {
        /// The number, shortened if it is long.
        number: String,
        /// Its number of digits.
        digits: u64,
        /// The legal numbers of digits.
        expected: &'static str,
    },
    /// The line is part of a hexadecimal dump: it has an offset and the bytes at the offset.
    #[error("`{0}:`: offsets of hexadecimal dumps are not supported")]
    Dump(String),
    /// The TLP has too many bytes.
    #[error("TLP of {0} bytes: expected at most {MAX_FRAME_LEN}")]
    TlpLength(usize),
    /// A comment has an illegal setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A stream has too many beats without `tlast`.
    #[error("TLP without an end after {MAX_FRAME_LEN} bytes")]
    Endless,
    /// A stream has `tlast` without a byte.
    #[error("TLP without a byte")]
    NoBytes,
    /// The first TLP of a stream has no valid header.
    #[error("TLP that may have begun before the file: {0}")]
    Begun(ParseError),
    /// A packet of a stream does not match its descriptor.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The rest of the TLP is skipped after an error.
    #[error("{0}; TLP skipped")]
    Skipped(Box<LineError>),
    /// The file ends before the last beat of a TLP.
    #[error("the stream ends before tlast; TLP of line {line} skipped")]
    NoTlast {
        /// Line of the first beat.
        line: u64,
    },
    /// A header log has a word that is not a DW.
    #[error("header log `{log}`: `{word}` is not a dword of 8 hexadecimal digits")]
    LogWord {
        /// The header log, shortened if it is long.
        log: String,
        /// The word, shortened if it is long.
        word: String,
    },
    /// A header log has the wrong number of DWs.
    #[error("header log `{log}` has {dwords} dwords, expected {}", if *.is_flit { "1 to 14" } else { "4" })]
    LogLength {
        /// The header log, shortened if it is long.
        log: String,
        /// Its number of DWs.
        dwords: usize,
        /// True for a log in flit mode.
        is_flit: bool,
    },
    /// All bits of a header log are set.
    #[error("header log of ones: the function did not answer when its log was read")]
    LogOfOnes,
    /// A line of mmiotrace about a device has not all fields.
    #[error("PCIDEV line: expected function, addresses and sizes")]
    Device,
    /// An access that mmiotrace does not know.
    #[error("access with an operation unknown to mmiotrace")]
    UnknownAccess,
    /// An access of mmiotrace has not all fields.
    #[error("access: expected width, time, map, 0xADDRESS and 0xVALUE")]
    Access,
    /// An access of mmiotrace has an illegal width.
    #[error("access of {0} bytes: expected 1, 2, 4 or 8")]
    AccessWidth(u32),
    /// An access of mmiotrace is not possible as a TLP.
    #[error("access of {bytes} bytes at {address:#x}: {error}")]
    AccessSpan {
        /// Number of bytes.
        bytes: u32,
        /// Address of the first byte.
        address: u64,
        /// The error.
        error: SpanError,
    },
    /// A line of a dump has another offset than expected.
    #[error("bytes at offset {offset:#06x}: expected {expected:#06x}")]
    Offset {
        /// The offset in the line.
        offset: usize,
        /// Number of bytes before the line.
        expected: usize,
    },
    /// A dump does not begin with the head of a TLP.
    #[error("bytes without a line with `TX:` or `RX:`, a type and `Len:` before them")]
    NoHead,
    /// The head of a TLP has not all fields.
    #[error("{}`{line}`: expected `TX:` or `RX:`, a type and `Len:`", .before.as_ref().map_or_else(String::new, |error| format!("{error}; ")))]
    Head {
        /// Error of the TLP before this line.
        before: Option<Box<LineError>>,
        /// The line, shortened if it is long.
        line: String,
    },
    /// A line of a dump has illegal bytes.
    #[error("expected an offset and up to 16 bytes of two digits")]
    DumpLine,
    /// The head of a TLP has no dump.
    #[error("no bytes after the head in line {0}")]
    NoDump(u64),
}

impl LineError {
    /// A word that is not as expected.
    pub(super) fn word(text: impl Into<String>, expected: impl Into<String>) -> LineError {
        LineError::signal("", text, expected)
    }

    /// A value of a signal that is not as expected. The name of the signal ends with a blank.
    pub(super) fn signal(
        signal: &'static str,
        text: impl Into<String>,
        expected: impl Into<String>,
    ) -> LineError {
        LineError::Value { signal, text: text.into(), expected: expected.into() }
    }
}

/// Reason why a packet does not match its descriptor. The first field of each is the name of the stream.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The packet is shorter than a descriptor: its DWs, and those of a descriptor.
    #[error("{0} packet of {1} dwords, expected {2} by its descriptor")]
    TooShort(&'static str, usize, usize),
    /// The packet has another number of DWs of data than its descriptor has: data in the packet, in the descriptor.
    #[error(
        "{0} packet with {1} dwords of data, expected {2} by its descriptor; address-aligned and straddled packets are not supported"
    )]
    Data(&'static str, usize, u32),
    /// The request type is reserved.
    #[error("{0} packet with request type {1:04b}b: expected 0000b to 0111b")]
    RequestType(&'static str, u32),
    /// The dword count is illegal. The last field is the smallest legal one.
    #[error("{0} packet with a dword count of {1}: expected {2} to 1024")]
    DwordCount(&'static str, u32, u32),
    /// The packet is not a completion.
    #[error("{0} packet with error code {1:04b}b: no completion, or one that does not match its request")]
    ErrorCode(&'static str, u32),
}
