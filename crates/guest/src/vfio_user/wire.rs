// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encoding of vfio-user messages: header, commands, fields. Numbers have the byte order of the machine.

/// Bytes of the header that each message begins with.
pub(super) const HEADER_BYTES: usize = 16;

/// Bits of a header's flags with the message type.
pub(super) const TYPE: u32 = 0xf;
/// The type of a reply. A command has zero here.
pub(super) const REPLY: u32 = 1;
/// The sender wants no reply.
pub(super) const NO_REPLY: u32 = 0x10;
/// The reply is an error.
pub(super) const ERROR: u32 = 0x20;

/// Command numbers.
pub mod command {
    /// Negotiates version and capabilities; the first message of a client.
    pub const VERSION: u16 = 1;
    /// Allows DMA in a range of addresses.
    pub const DMA_MAP: u16 = 2;
    /// Removes a range of memory from the map.
    pub const DMA_UNMAP: u16 = 3;
    /// Queries the number of regions and interrupt types.
    pub const DEVICE_GET_INFO: u16 = 4;
    /// Queries a region.
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    /// Queries descriptors for accessing a region.
    pub const DEVICE_GET_REGION_IO_FDS: u16 = 6;
    /// Queries an interrupt type.
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    /// Sets up, masks or triggers interrupts.
    pub const DEVICE_SET_IRQS: u16 = 8;
    /// Reads a region.
    pub const REGION_READ: u16 = 9;
    /// Writes a region.
    pub const REGION_WRITE: u16 = 10;
    /// Reads memory of the client; sent by the server.
    pub const DMA_READ: u16 = 11;
    /// Writes memory of the client; sent by the server.
    pub const DMA_WRITE: u16 = 12;
    /// Resets the device.
    pub const DEVICE_RESET: u16 = 13;
    /// Dirty pages, in revisions without separate migration commands.
    pub const DIRTY_PAGES: u16 = 14;
    /// Several writes of regions in one message.
    pub const REGION_WRITE_MULTI: u16 = 15;
    /// Features of a device, for migration.
    pub const DEVICE_FEATURE: u16 = 16;
    /// Reads a device's state.
    pub const MIG_DATA_READ: u16 = 17;
    /// Writes a device's state.
    pub const MIG_DATA_WRITE: u16 = 18;
}

/// Returns the name of a command in the protocol.
#[must_use]
pub fn command_name(number: u16) -> &'static str {
    const NAMES: [&str; 19] = [
        "command 0",
        "VERSION",
        "DMA_MAP",
        "DMA_UNMAP",
        "DEVICE_GET_INFO",
        "DEVICE_GET_REGION_INFO",
        "DEVICE_GET_REGION_IO_FDS",
        "DEVICE_GET_IRQ_INFO",
        "DEVICE_SET_IRQS",
        "REGION_READ",
        "REGION_WRITE",
        "DMA_READ",
        "DMA_WRITE",
        "DEVICE_RESET",
        "DIRTY_PAGES",
        "REGION_WRITE_MULTI",
        "DEVICE_FEATURE",
        "MIG_DATA_READ",
        "MIG_DATA_WRITE",
    ];
    NAMES.get(usize::from(number)).unwrap_or(&"an unknown command")
}

/// Header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// Message ID chosen by the sender; a reply repeats it.
    pub(super) id: u16,
    pub(super) command: u16,
    /// Bytes of the message including the header.
    pub(super) size: u32,
    pub(super) flags: u32,
    /// Error number, in an error reply.
    pub(super) error: u32,
}

impl Header {
    /// Decodes a header; `None` if there are not enough bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        Some(Header {
            id: u16_at(bytes, 0)?,
            command: u16_at(bytes, 2)?,
            size: u32_at(bytes, 4)?,
            flags: u32_at(bytes, 8)?,
            error: u32_at(bytes, 12)?,
        })
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_ne_bytes());
        out.extend_from_slice(&self.command.to_ne_bytes());
        for field in [self.size, self.flags, self.error] {
            out.extend_from_slice(&field.to_ne_bytes());
        }
    }

    pub(super) fn wants_reply(self) -> bool {
        self.flags & NO_REPLY == 0
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the 32 bits at an offset; `None` if there are not enough bytes.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the 32-bit fields from an offset on; missing fields are zero.
pub(super) fn words<const N: usize>(bytes: &[u8], at: usize) -> [u32; N] {
    std::array::from_fn(|n| u32_at(bytes, at + 4 * n).unwrap_or_default())
}

/// Returns the 64-bit fields from an offset on; missing fields are zero.
pub(super) fn longs<const N: usize>(bytes: &[u8], at: usize) -> [u64; N] {
    std::array::from_fn(|n| u64_at(bytes, at + 8 * n).unwrap_or_default())
}

/// Returns the 64 bits at an offset; `None` if there are not enough bytes.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
