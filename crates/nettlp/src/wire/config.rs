// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration (UDP port 0x5001; 0x4001 for adapters up to v0.21): reads and writes of the adapter's configuration
//! space, one DW each. This module defines only the format, not the effect of a write.
//!
//! ```text
//!   byte 0                     byte 1           bytes 2 to 5
//!  7   6 5         2 1      0
//! +-----+-----------+--------+----------------+---------------+
//! | cmd | byte mask | DW 9:8 |  DW address    | data, big     |   cmd: 0 read, 1 write
//! |     |           |        |       7:0      | endian        |
//! +-----+-----------+--------+----------------+---------------+
//! ```
//!
//! There is no NetTLP header. The answer to a read has the same format. A write has no answer. A real adapter pads its
//! reply to 18 bytes, the minimum of an Ethernet frame.

use thiserror::Error;
use tlp::Access;

/// Size of a request, and of an unpadded reply, in bytes.
pub const CONFIG_LEN: usize = 6;
/// Size of a real adapter's reply in bytes.
pub const PADDED_LEN: usize = 18;

/// A request, or the reply to a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigMessage {
    /// Read or write.
    pub command: Access,
    /// Bytes of the DW that a write changes, bits 3:0; bit 0 is the lowest byte.
    pub byte_enables: u8,
    /// Register as a DW number, 0 to 1023.
    pub register_dw: u16,
    /// Data of a write, or of the reply to a read. 0 in a read request.
    pub data: u32,
}

/// Error of an invalid configuration message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// Invalid length.
    #[error("configuration message of {0} bytes; expected {CONFIG_LEN} (replies: up to {PADDED_LEN})")]
    Length(usize),
    /// The command is neither read nor write.
    #[error("configuration command {0}; expected 0 (read) or 1 (write)")]
    Command(u8),
}

impl ConfigMessage {
    /// Creates a read of the whole register `register_dw`, 0 to 1023; higher bits are cut off.
    pub const fn read(register_dw: u16) -> ConfigMessage {
        let register_dw = register_dw & 0x3ff;
        ConfigMessage { command: Access::Read, byte_enables: 0xf, register_dw, data: 0 }
    }

    /// Creates a write to register `register_dw`, 0 to 1023; higher bits are cut off.
    pub const fn write(register_dw: u16, byte_enables: u8, data: u32) -> ConfigMessage {
        let (register_dw, byte_enables) = (register_dw & 0x3ff, byte_enables & 0xf);
        ConfigMessage { command: Access::Write, byte_enables, register_dw, data }
    }

    /// Parses a request of six bytes.
    ///
    /// # Errors
    /// If the length is not six bytes, or the command is invalid.
    pub fn parse(bytes: &[u8]) -> Result<ConfigMessage, ConfigError> {
        let &[head, low, d0, d1, d2, d3] = bytes else { return Err(ConfigError::Length(bytes.len())) };
        let command = match head >> 6 {
            0 => Access::Read,
            1 => Access::Write,
            other => return Err(ConfigError::Command(other)),
        };
        Ok(ConfigMessage {
            command,
            byte_enables: head >> 2 & 0xf,
            register_dw: u16::from(head & 3) << 8 | u16::from(low),
            data: u32::from_be_bytes([d0, d1, d2, d3]),
        })
    }

    /// Parses a reply: six bytes, and up to twelve bytes of padding, which are ignored.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn parse_reply(bytes: &[u8]) -> Result<ConfigMessage, ConfigError> {
        match bytes.get(..CONFIG_LEN) {
            Some(front) if bytes.len() <= PADDED_LEN => ConfigMessage::parse(front),
            _ => Err(ConfigError::Length(bytes.len())),
        }
    }

    /// Returns the message as bytes.
    pub const fn emit(&self) -> [u8; CONFIG_LEN] {
        let command = match self.command {
            Access::Read => 0,
            Access::Write => 1,
        };
        let [d0, d1, d2, d3] = self.data.to_be_bytes();
        let head = command << 6 | (self.byte_enables & 0xf) << 2 | (self.register_dw >> 8 & 3) as u8;
        [head, self.register_dw as u8, d0, d1, d2, d3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The first two rows are the examples in the facts about the wire.
    #[test]
    fn messages_have_their_bytes() {
        for (bytes, message) in [
            ([0x3c, 0, 0, 0, 0, 0], ConfigMessage::read(0)),
            ([0x4c, 1, 0, 0, 0, 7], ConfigMessage::write(1, 0x3, 7)),
            ([0x3f, 0xff, 0, 0, 0, 0], ConfigMessage::read(1023)),
            ([0x62, 0x80, 0x12, 0x34, 0x56, 0x78], ConfigMessage::write(0x280, 0x8, 0x1234_5678)),
        ] {
            assert_eq!(ConfigMessage::parse(&bytes), Ok(message));
            assert_eq!(message.emit(), bytes);
        }
    }

    #[test]
    fn error_of_an_invalid_message_lists_legal_values() {
        for (bytes, error) in [
            (&[][..], ConfigError::Length(0)),
            (&[0x3c, 0, 0, 0, 0], ConfigError::Length(5)),
            (&[0x3c, 0, 0, 0, 0, 0, 0], ConfigError::Length(7)),
            (&[0x80, 0, 0, 0, 0, 0], ConfigError::Command(2)),
            (&[0xc0, 0, 0, 0, 0, 0], ConfigError::Command(3)),
        ] {
            assert_eq!(ConfigMessage::parse(bytes), Err(error));
        }
    }

    // A real adapter pads to 18 bytes, riser does not.
    #[test]
    fn accepts_padded_replies() {
        let mut reply = [0; 19];
        reply[..6].copy_from_slice(&[0x3c, 0, 0x30, 0x11, 0x37, 0x76]);
        for (len, legal) in [(5, false), (6, true), (7, true), (18, true), (19, false)] {
            let parsed = ConfigMessage::parse_reply(&reply[..len]);
            assert_eq!(parsed.is_ok(), legal, "{len}");
            assert!(parsed.is_ok_and(|m| m.data == 0x3011_3776) || !legal);
        }
    }

    proptest! {
        #[test]
        fn any_six_bytes_round_trip(bytes in any::<[u8; 6]>()) {
            match ConfigMessage::parse(&bytes) {
                Ok(message) => prop_assert_eq!(message.emit(), bytes),
                Err(error) => prop_assert_eq!(error, ConfigError::Command(bytes[0] >> 6)),
            }
        }
    }
}
