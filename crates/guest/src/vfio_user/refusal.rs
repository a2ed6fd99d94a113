// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a message is refused, and why a peer is hung up on.

use super::maps::MAX_MAPPED_BYTES;
use super::wire::command_name;
use rustix::io::Errno;
use thiserror::Error;

/// Why a command was refused. The peer is told [`errno`](Refusal::errno), and the connection goes on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// No such command.
    #[error("command {0}: legal are 1 to 18")]
    Unknown(u16),
    /// A command that servers send.
    #[error("{}: it is the server's to send", command_name(*.0))]
    Direction(u16),
    /// A command of migration or dirty pages.
    #[error("{}: neither migration nor dirty pages are supported", command_name(*.0))]
    Migration(u16),
    /// The version was agreed on before.
    #[error("VERSION: it was agreed on already")]
    Again,
    /// Flags of the header that a command does not have.
    #[error("{}: flags {flags:#x} of the header: legal are 0 and 0x10", command_name(*.command))]
    HeaderFlags {
        /// Number of the command.
        command: u16,
        /// The flags.
        flags: u32,
    },
    /// The payload has another length than its command's.
    #[error("{}: {bytes} bytes of payload: legal are {legal}", command_name(*.command))]
    Length {
        /// Number of the command.
        command: u16,
        /// Bytes that came.
        bytes: usize,
        /// Bytes that are legal.
        legal: u64,
    },
    /// Descriptors that do not belong to the command, or too many of them.
    #[error("{}: {fds} descriptors: legal are at most {most}", command_name(*.command))]
    Descriptors {
        /// Number of the command.
        command: u16,
        /// Descriptors that came.
        fds: usize,
        /// Most that are legal.
        most: usize,
    },
    /// A field has a value that it must not have.
    #[error("{}: {field} {value:#x}: legal is {legal}", command_name(*.command))]
    Field {
        /// Number of the command.
        command: u16,
        /// Name of the field, as the protocol has it.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is legal.
        legal: Legal,
    },
    /// An access that does not lie within its region.
    #[error("{}: {count} bytes at {offset:#x} of region {region}, which has {size:#x} bytes", command_name(*.command))]
    Outside {
        /// Number of the command.
        command: u16,
        /// Index of the region.
        region: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        count: u32,
        /// Size of the region in bytes.
        size: u64,
    },
    /// An access that its region does not allow.
    #[error("{}: region {region} does not allow that", command_name(*.command))]
    Forbidden {
        /// Number of the command.
        command: u16,
        /// Index of the region.
        region: u32,
    },
    /// A map over another.
    #[error(
        "DMA_MAP: {size:#x} bytes at {address:#x}: {other_size:#x} bytes at {other:#x} are mapped already"
    )]
    Overlap {
        /// Address of the first byte.
        address: u64,
        /// Bytes.
        size: u64,
        /// Address of the map that there is.
        other: u64,
        /// Its bytes.
        other_size: u64,
    },
    /// Too many maps.
    #[error("DMA_MAP: more than {0} maps at a time")]
    Maps(u32),
    /// Too many bytes in all maps.
    #[error(
        "DMA_MAP: {size:#x} bytes beside {mapped:#x} that are mapped: legal are {MAX_MAPPED_BYTES:#x} in all"
    )]
    Mapped {
        /// Bytes of all that are there.
        mapped: u64,
        /// Bytes of the new one.
        size: u64,
    },
    /// What is to be unmapped begins or ends within a map.
    #[error("DMA_UNMAP: {size:#x} bytes at {address:#x} cut a map")]
    PartOfMap {
        /// Address of the first byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
}

/// What a field may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Legal {
    /// Nothing but zero.
    Zero,
    /// At least that.
    From(u64),
    /// At most that.
    To(u64),
    /// This value.
    Is(u64),
    /// What these words say.
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
    /// What the peer is told.
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

/// Why a connection ends.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum HangUp {
    /// The peer has gone, between two messages.
    #[error("the peer has closed the connection")]
    Closed,
    /// The peer has gone within a message.
    #[error("the peer has closed the connection within a message")]
    ClosedWithin,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(Errno),
    /// A message of an impossible size.
    #[error("{} of {bytes} bytes: legal are 16 to {most}", command_name(*.command))]
    Size {
        /// Number of the command.
        command: u16,
        /// Bytes that its header names.
        bytes: u32,
        /// Most that are legal.
        most: u32,
    },
    /// Neither a command nor a reply.
    #[error("{} with flags {flags:#x}: neither a command nor a reply", command_name(*.command))]
    Type {
        /// Number of the command.
        command: u16,
        /// The flags.
        flags: u32,
    },
    /// The system has dropped descriptors: the peer sent too many, or we have too many open files.
    #[error("descriptors were lost: more than {max} with one message, or too many open files", max = super::MAX_FDS)]
    Truncated,
    /// Too many descriptors with one message.
    #[error("{} with more than {max} descriptors", command_name(*.command), max = super::MAX_FDS)]
    Descriptors {
        /// Number of the command.
        command: u16,
    },
    /// The device is not there.
    #[error("the device is not there")]
    Absent,
    /// The peer has closed its receiving half. QEMU does so when an answer comes later than its timeout, and reads all ones from then on.
    #[error(
        "the peer takes no answers any more, as QEMU does after one that came later than its x-msg-timeout"
    )]
    Deaf,
    /// A descriptor for an interrupt that is none of `eventfd`.
    #[error("DEVICE_SET_IRQS with a descriptor that is no event descriptor")]
    NotAnEvent,
    /// Something else than VERSION came first.
    #[error("{} before VERSION", command_name(*.0))]
    NoVersion(u16),
    /// A version that cannot be agreed on.
    #[error("VERSION: {0}")]
    Version(VersionError),
    /// A reply to nothing that was asked.
    #[error("a reply to {} {id:#x}, which was not asked", command_name(*.command))]
    Reply {
        /// Number of the command.
        command: u16,
        /// Id of the message.
        id: u16,
    },
    /// A reply of another length, address or count than was asked for.
    #[error("a reply to {} that does not fit: {bytes} bytes of payload for {asked} at {address:#x}", command_name(*.command))]
    Misfit {
        /// Number of the command.
        command: u16,
        /// Bytes of its payload.
        bytes: usize,
        /// Bytes that were asked for.
        asked: usize,
        /// Where.
        address: u64,
    },
}

impl HangUp {
    /// Whether the peer may run on, without the device.
    #[must_use]
    pub fn leaves_peer(&self) -> bool {
        !matches!(self, HangUp::Closed | HangUp::ClosedWithin | HangUp::Failed(_) | HangUp::Absent)
    }
}

/// What is wrong with a VERSION.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum VersionError {
    /// Too short.
    #[error("{0} bytes of payload: legal are 4 or more")]
    Length(usize),
    /// Another major version.
    #[error("major version {0}: legal is 0")]
    Major(u16),
    /// The text does not end as it has to.
    #[error("the capabilities do not end with a NUL, or have one within")]
    Nul,
    /// The text is not JSON, or has a value of another type.
    #[error("the capabilities: {0}")]
    Json(String),
    /// It came with descriptors, or wants no reply.
    #[error("it has descriptors, or flags {0:#x}: legal are none, and 0")]
    Flags(u32),
}
