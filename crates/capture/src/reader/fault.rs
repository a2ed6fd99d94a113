// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in files: unreadable parts, and files with an unknown format.

use super::{LineError, MAX_BLOCK_LEN, MAX_FRAME_LEN, MAX_INTERFACES};
use std::io;

/// An unreadable part of a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The file ends within a record.
    #[error("at byte {offset}: the file ends within a record that needs {need} bytes; {have} are left")]
    Truncated {
        /// Byte offset of the record.
        offset: u64,
        /// Number of bytes that the record needs.
        need: usize,
        /// Number of bytes that are left.
        have: usize,
    },
    /// A record or block is inconsistent.
    #[error("at byte {offset}: {what}; {skipped} bytes skipped")]
    Corrupt {
        /// Byte offset where it starts.
        offset: u64,
        /// The defect.
        what: Defect,
        /// Number of skipped bytes, up to the next valid record or the end of the file.
        skipped: u64,
    },
    /// A block with valid lengths and an unreadable body.
    #[error("at byte {offset}: {what}")]
    Block {
        /// Byte offset where it starts.
        offset: u64,
        /// The defect.
        what: Defect,
    },
    /// An unreadable line of a text.
    #[error("line {line}: {what}")]
    Line {
        /// Byte offset where it starts.
        offset: u64,
        /// Line number, from 1.
        line: u64,
        /// The reason.
        what: LineError,
    },
}

/// The defect of a record or block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Defect {
    /// A pcap record with an invalid length.
    #[error(
        "record of {captured} bytes captured of {original}: expected at most {MAX_FRAME_LEN}, and at most the length on the wire"
    )]
    RecordLength {
        /// Bytes captured.
        captured: u32,
        /// Bytes on the wire.
        original: u32,
    },
    /// A pcap record whose fraction of a second is a second or more.
    #[error("record with {0} as the fraction of a second: expected less than a second")]
    Fraction(u32),
    /// A pcapng block with an invalid length.
    #[error("block of {0} bytes: expected a multiple of 4 from 12 to {MAX_BLOCK_LEN}")]
    BlockLength(u32),
    /// A pcapng block whose two lengths differ.
    #[error("block whose lengths disagree: {0} at its start, {1} at its end")]
    BlockTrailer(u32, u32),
    /// A pcapng section with an unknown byte order mark.
    #[error("section with byte-order magic {0:#010x}: expected 0x1a2b3c4d")]
    ByteOrder(u32),
    /// A pcapng section with a version other than 1.
    #[error("section of version {0}: expected 1")]
    Version(u16),
    /// A packet of an interface that no block describes.
    #[error("packet of interface {interface}, expected one of the {known} described")]
    UnknownInterface {
        /// Number of the interface.
        interface: u32,
        /// Number of described interfaces.
        known: usize,
    },
    /// A block too short for its type.
    #[error("block of type {0}: too short for its fields")]
    ShortBlock(u32),
    /// A block whose type is neither standard nor reserved for local use.
    #[error("block of unknown type {0:#x}")]
    UnknownBlock(u32),
    /// Too many interfaces.
    #[error("more than {MAX_INTERFACES} interfaces in a section")]
    TooManyInterfaces,
}

impl Fault {
    /// Byte offset in the file.
    pub const fn offset(&self) -> u64 {
        match self {
            Fault::Truncated { offset, .. }
            | Fault::Corrupt { offset, .. }
            | Fault::Block { offset, .. }
            | Fault::Line { offset, .. } => *offset,
        }
    }

    /// Short name of the kind of error, for statistics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Fault::Truncated { .. } => "truncated record",
            Fault::Corrupt { what, .. } | Fault::Block { what, .. } => what.kind(),
            Fault::Line { .. } => "line",
        }
    }
}

impl Defect {
    const fn kind(self) -> &'static str {
        match self {
            Defect::RecordLength { .. } => "record length",
            Defect::Fraction(_) => "record time",
            Defect::BlockLength(_) | Defect::BlockTrailer(..) => "block length",
            Defect::ByteOrder(_) | Defect::Version(_) => "section header",
            Defect::UnknownInterface { .. } => "unknown interface",
            Defect::ShortBlock(_) => "short block",
            Defect::UnknownBlock(_) => "unknown block",
            Defect::TooManyInterfaces => "too many interfaces",
        }
    }
}

/// Reason why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Error of the operating system.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The error.
        error: io::Error,
    },
    /// The file has no format that riser reads.
    #[error("{path}: not a capture: {what}")]
    NotACapture {
        /// The file.
        path: String,
        /// The first bytes of the file, and the list of the formats that riser reads.
        what: String,
    },
    /// An option does not match the file.
    #[error("{path}: {what}")]
    Option {
        /// The file.
        path: String,
        /// The option, and the format that it needs.
        what: String,
    },
}
