// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons to refuse a command and to end a connection.

use super::wire::command_name;
use super::{MAX_FDS, MAX_MAPPED_BYTES};
use rustix::io::Errno;
use thiserror::Error;

/// Why a command was refused. The peer gets [`errno`](Refusal::errno), and the connection continues.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// Unknown command.
    #[error("command {0}, expected 1 to 18")]
    Unknown(u16),
    /// A command that only servers send.
    #[error("{}: only the server sends this command", command_name(*.0))]
    Direction(u16),
    /// A command for migration or dirty pages.
    #[error("{}: neither migration nor dirty pages are supported", command_name(*.0))]
    Migration(u16),
    /// The version was already agreed.
    #[error("VERSION: already agreed")]
    Again,
    /// Flags of the header that commands must not have.
    #[error("{}: header flags {flags:#x}, expected 0 or 0x10", command_name(*.command))]
    HeaderFlags {
        /// Number of the command.
        command: u16,
        /// The flags.
        flags: u32,
    },
    /// The payload has a wrong length.
    #[error("{}: {bytes} bytes of payload, expected {legal}", command_name(*.command))]
    Length {
        /// Number of the command.
        command: u16,
        /// Bytes received.
        bytes: usize,
        /// Bytes expected.
        legal: u64,
    },
    /// Descriptors that the command does not accept, or too many of them.
    #[error("{}: {fds} descriptors, expected at most {most}", command_name(*.command))]
    Descriptors {
        /// Number of the command.
        command: u16,
        /// Descriptors received.
        fds: usize,
        /// Maximum number.
        most: usize,
    },
    /// A field has an illegal value.
    #[error("{}: {field} {value:#x}, expected {legal}", command_name(*.command))]
    Field {
        /// Number of the command.
        command: u16,
        /// Name of the field in the protocol.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Legal values.
        legal: Legal,
    },
    /// An access that is not within its region.
    #[error("{}: {count} bytes at {offset:#x} of region {region}, which has {size:#x} bytes", command_name(*.command))]
    Outside {
        /// Number of the command.
        command: u16,
        /// Index of the region.
        region: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        count: u32,
        /// Size of the region in bytes.
        size: u64,
    },
    /// An access that its region does not allow.
    #[error("{}: region {region} does not allow this access", command_name(*.command))]
    Forbidden {
        /// Number of the command.
        command: u16,
        /// Index of the region.
        region: u32,
    },
    /// A map that overlaps another.
    #[error("DMA_MAP: {size:#x} bytes at {address:#x}: overlaps {other_size:#x} mapped bytes at {other:#x}")]
    Overlap {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        size: u64,
        /// Address of the existing map.
        other: u64,
        /// Bytes of the existing map.
        other_size: u64,
    },
    /// Too many maps.
    #[error("DMA_MAP: too many maps, expected at most {0}")]
    Maps(u32),
    /// Too many bytes in all maps.
    #[error(
        "DMA_MAP: {size:#x} bytes in addition to {mapped:#x} mapped bytes, expected at most {MAX_MAPPED_BYTES:#x} in all"
    )]
    Mapped {
        /// Bytes of all existing maps.
        mapped: u64,
        /// Bytes of the new map.
        size: u64,
    },
    /// The range to unmap starts or ends within a map.
    #[error("DMA_UNMAP: {size:#x} bytes at {address:#x} cover only part of a map")]
    PartOfMap {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        size: u64,
    },
}

/// Legal values of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Legal {
    /// Only zero.
    Zero,
    /// At least this.
    From(u64),
    /// At most this.
    To(u64),
    /// Only this value.
    Is(u64),
    /// A description.
    Text(&'static str),
}

impl std::fmt::Display for Legal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Legal::Zero => write!(f, "0"),
            Legal::From(least) => write!(f, "{least:#x} or more"),
            Legal::To(most) => write!(f, "0 to {most:#x}"),
            Legal::Is(value) => write!(f, "{value:#x}"),
            Legal::Text(text) => write!(f, "{text}"),
        }
    }
}

impl Refusal {
    /// Returns the error number for the peer.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Refusal::Unknown(_) => Errno::NOSYS,
            Refusal::Migration(_) => Errno::NOTSUP,
            Refusal::Forbidden { .. } => Errno::PERM,
            Refusal::Overlap { .. } => Errno::EXIST,
            Refusal::Maps(_) | Refusal::Mapped { .. } => Errno::NOSPC,
            _ => Errno::INVAL,
        }
    }
}

/// Why a connection ended.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum HangUp {
    /// The peer closed the connection between two messages.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer closed the connection within a message.
    #[error("the peer closed the connection within a message")]
    ClosedWithin,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(Errno),
    /// A message of an illegal size.
    #[error("{} of {bytes} bytes, expected 16 to {most}", command_name(*.command))]
    Size {
        /// Number of the command.
        command: u16,
        /// Size in its header, in bytes.
        bytes: u32,
        /// Maximum size in bytes.
        most: u32,
    },
    /// A message that is neither a command nor a reply.
    #[error("{} with flags {flags:#x}: neither a command nor a reply", command_name(*.command))]
    Type {
        /// Number of the command.
        command: u16,
        /// The flags.
        flags: u32,
    },
    /// The system dropped descriptors: the peer sent too many, or we have too many open files.
    #[error("descriptors were lost: more than {max} with one message, or too many open files", max = MAX_FDS)]
    Truncated,
    /// Too many descriptors with one message.
    #[error("{} with more than {max} descriptors", command_name(*.command), max = MAX_FDS)]
    Descriptors {
        /// Number of the command.
        command: u16,
    },
    /// The device does not exist.
    #[error("the device is not there")]
    Absent,
    /// The peer closed its receiving half. QEMU does this after an answer that is later than its timeout. From then on,
    /// the machine reads all ones.
    #[error("the peer has stopped receiving, as QEMU does after an answer later than its x-msg-timeout")]
    Deaf,
    /// A descriptor for an interrupt is not an `eventfd`.
    #[error("DEVICE_SET_IRQS with a descriptor that is not an eventfd")]
    NotAnEvent,
    /// Another command arrived before VERSION.
    #[error("{} before VERSION", command_name(*.0))]
    NoVersion(u16),
    /// The VERSION is not acceptable.
    #[error("VERSION: {0}")]
    Version(VersionError),
    /// A reply to no outstanding request.
    #[error("a reply to {} {id:#x}, which is not outstanding", command_name(*.command))]
    Reply {
        /// Number of the command.
        command: u16,
        /// Id of the message.
        id: u16,
    },
    /// A reply whose length, address or count does not match the request.
    #[error("a reply to {} that does not match: {bytes} bytes of payload for a request of {asked} bytes at {address:#x}", command_name(*.command))]
    Misfit {
        /// Number of the command.
        command: u16,
        /// Bytes of its payload.
        bytes: usize,
        /// Bytes of the request.
        asked: usize,
        /// Address of the request.
        address: u64,
    },
}

impl HangUp {
    /// Returns whether the peer may keep running, without the device.
    #[must_use]
    pub fn leaves_peer(&self) -> bool {
        !matches!(self, HangUp::Closed | HangUp::ClosedWithin | HangUp::Failed(_) | HangUp::Absent)
    }
}

/// Why a VERSION is not acceptable.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum VersionError {
    /// Too short.
    #[error("{0} bytes of payload, expected 4 or more")]
    Length(usize),
    /// Another major version.
    #[error("major version {0}, expected 0")]
    Major(u16),
    /// The text does not end with its only NUL.
    #[error("the capabilities: expected text with one NUL, at its end")]
    Nul,
    /// The text is not JSON, or a value has a wrong type.
    #[error("the capabilities: {0}")]
    Json(String),
    /// The reply has descriptors or flags.
    #[error("descriptors, or flags {0:#x}, expected no descriptors and flags 0")]
    Flags(u32),
}
