// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The adapter's own registers (UDP port 0x5002), one DW each. This module defines only the format, not
//! the effect of a write.
//!
//! ```text
//!  0        1            2                6
//! +--------+------------+----------------+
//! | opcode | DW address | data           |   opcode: 0x10 read, 0x11 write; data big endian
//! +--------+------------+----------------+
//! ```
//!
//! LibTLP has no function for these registers. As with [configuration](super::config), the answer to a read has the
//! same format, and a write has no answer. The registers:
//!
//! | DW | register |
//! |---|---|
//! | 0 | magic, 0x01234567 |
//! | 1, 2 | MAC address of the peer: bytes 0 to 3, then 4 and 5 in bits 31:16 |
//! | 3, 4 | MAC address of the adapter, likewise |
//! | 5 | IPv4 address of the peer |
//! | 6 | IPv4 address of the adapter |
//! | 7, 8 | UDP ports: base of the device's requests, base of the host's |
//! | 0x10 | requester ID, in bits 15:0 |

use thiserror::Error;
use tlp::Access;

/// Size of a message in bytes.
pub const REGISTER_LEN: usize = 6;

/// DW 0: always [`MAGIC_VALUE`].
pub const MAGIC: u8 = 0;
/// Value of [`MAGIC`].
pub const MAGIC_VALUE: u32 = 0x0123_4567;
/// DWs 1 and 2: the peer's MAC address.
pub const PEER_MAC: u8 = 1;
/// DWs 3 and 4: the adapter's MAC address.
pub const ADAPTER_MAC: u8 = 3;
/// DW 5: the peer's IPv4 address.
pub const PEER_IP: u8 = 5;
/// DW 6: the adapter's IPv4 address.
pub const ADAPTER_IP: u8 = 6;
/// DW 7: the first UDP port of the device's requests.
pub const DEVICE_PORT: u8 = 7;
/// DW 8: the first UDP port of the host's requests.
pub const HOST_PORT: u8 = 8;
/// DW 10h: the adapter's requester ID.
pub const REQUESTER: u8 = 0x10;

const OPCODE_READ: u8 = 0x10;
const OPCODE_WRITE: u8 = 0x11;

/// A request, or the reply to a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterMessage {
    /// Read or write.
    pub opcode: Access,
    /// Register as a DW number.
    pub register_dw: u8,
    /// Data of a write, or of the reply to a read.
    pub data: u32,
}

/// Error of an invalid register message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RegisterError {
    /// Invalid length.
    #[error("adapter register message of {0} bytes; expected {REGISTER_LEN}")]
    Length(usize),
    /// The opcode is neither read nor write.
    #[error("adapter register opcode {0:#04x}; expected 0x10 (read) or 0x11 (write)")]
    Opcode(u8),
}

impl RegisterMessage {
    /// Parses a message.
    ///
    /// # Errors
    /// If the length is not six bytes, or the opcode is invalid.
    pub fn parse(bytes: &[u8]) -> Result<RegisterMessage, RegisterError> {
        let &[opcode, register_dw, d0, d1, d2, d3] = bytes else {
            return Err(RegisterError::Length(bytes.len()));
        };
        let opcode = match opcode {
            OPCODE_READ => Access::Read,
            OPCODE_WRITE => Access::Write,
            other => return Err(RegisterError::Opcode(other)),
        };
        Ok(RegisterMessage { opcode, register_dw, data: u32::from_be_bytes([d0, d1, d2, d3]) })
    }

    /// Returns the message as bytes.
    pub const fn emit(&self) -> [u8; REGISTER_LEN] {
        let opcode = match self.opcode {
            Access::Read => OPCODE_READ,
            Access::Write => OPCODE_WRITE,
        };
        let [d0, d1, d2, d3] = self.data.to_be_bytes();
        [opcode, self.register_dw, d0, d1, d2, d3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_have_their_bytes() {
        let read = RegisterMessage { opcode: Access::Read, register_dw: MAGIC, data: 0 };
        let magic = RegisterMessage { data: MAGIC_VALUE, ..read };
        let write = RegisterMessage { opcode: Access::Write, register_dw: REQUESTER, data: 0x1a00 };
        for (bytes, message) in [
            ([0x10, 0, 0, 0, 0, 0], read),
            ([0x10, 0, 0x01, 0x23, 0x45, 0x67], magic),
            ([0x11, 0x10, 0, 0, 0x1a, 0], write),
        ] {
            assert_eq!(RegisterMessage::parse(&bytes), Ok(message));
            assert_eq!(message.emit(), bytes);
        }
        assert_eq!(RegisterMessage::parse(&[0x12, 0, 0, 0, 0, 0]), Err(RegisterError::Opcode(0x12)));
        assert_eq!(RegisterMessage::parse(&[0x10, 0]), Err(RegisterError::Length(2)));
    }

    proptest! {
        #[test]
        fn any_six_bytes_round_trip(opcode in 0x0e_u8..0x14, rest in any::<[u8; 5]>()) {
            let [a, b, c, d, e] = rest;
            let bytes = [opcode, a, b, c, d, e];
            match RegisterMessage::parse(&bytes) {
                Ok(message) => prop_assert_eq!(message.emit(), bytes),
                Err(error) => prop_assert_eq!(error, RegisterError::Opcode(opcode)),
            }
        }
    }
}
