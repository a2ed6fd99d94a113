// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messaging (UDP port 0x2fff): requests of device software to the driver of the adapter's host.
//!
//! Both directions are in the host's byte order, which is little endian:
//!
//! ```text
//! request   u32: 1 BAR4 start, 2 device id, 3 MSI-X table; from bit 16 on the function
//! reply 1   u64: address where BAR4 starts
//! reply 2   u16: bus << 8 | device << 3 | function
//! reply 3   16 x { u64 address, u32 data }, packed: 192 bytes
//! ```
//!
//! A reply does not name its request. The length of the reply identifies the request.
//!
//! Function 0 is the adapter's physical function, function n its n-th virtual function. Upstream has only function 0.

use thiserror::Error;
use tlp::Bdf;

/// Size of a request in bytes.
pub const REQUEST_LEN: usize = 4;
/// Number of MSI-X table entries in the reply.
pub const MSIX_ENTRIES: usize = 16;
/// Size of the longest reply in bytes.
pub const REPLY_MAX: usize = MSIX_ENTRIES * ENTRY_LEN;

const ENTRY_LEN: usize = 12;

/// Subject of a request of device software.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Request {
    /// Start address of BAR4.
    Bar4Start = 1,
    /// The adapter's bus, device and function.
    DeviceId = 2,
    /// The MSI-X table.
    MsixTable = 3,
}

/// Request of device software: a subject, and the function of the adapter that it is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Question {
    /// The subject.
    pub request: Request,
    /// 0 for the adapter's physical function, n for its n-th virtual function.
    pub function: u16,
}

/// An entry of the MSI-X table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MsixEntry {
    /// Address of the interrupt's MWr.
    pub address: u64,
    /// Data of the interrupt's MWr.
    pub data: u32,
}

/// Reply of the driver.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Start address of BAR4.
    Bar4Start(u64),
    /// The adapter's bus, device and function.
    DeviceId(Bdf),
    /// The first 16 entries of the MSI-X table.
    MsixTable([MsixEntry; MSIX_ENTRIES]),
}

/// Error of an invalid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MessagingError {
    /// Request of invalid length.
    #[error("messaging request of {0} bytes; expected {REQUEST_LEN}")]
    RequestLength(usize),
    /// Unknown request.
    #[error(
        "messaging request {0:#x}; expected 1 (BAR4 start), 2 (device id) or 3 (MSI-X table), and a function from bit 16 on"
    )]
    Unknown(u32),
    /// The length of the reply does not match the request.
    #[error("messaging reply of {have} bytes to {request:?}; expected {legal}")]
    ReplyLength {
        /// The request.
        request: Request,
        /// Size of the reply in bytes.
        have: usize,
        /// Expected size in bytes.
        legal: usize,
    },
}

impl Question {
    /// Parses a request.
    ///
    /// # Errors
    /// If the length is not four bytes, or the subject is not 1 to 3.
    pub fn parse(bytes: &[u8]) -> Result<Question, MessagingError> {
        let array = bytes.try_into().map_err(|_| MessagingError::RequestLength(bytes.len()))?;
        let number = u32::from_le_bytes(array);
        let all = [Request::Bar4Start, Request::DeviceId, Request::MsixTable];
        let request = all.into_iter().find(|request| *request as u32 == number & 0xffff);
        let request = request.ok_or(MessagingError::Unknown(number))?;
        Ok(Question { request, function: (number >> 16) as u16 })
    }

    /// Returns the request as bytes.
    #[must_use]
    pub const fn emit(self) -> [u8; REQUEST_LEN] {
        (self.request as u32 | (self.function as u32) << 16).to_le_bytes()
    }
}

impl Request {
    /// Returns the request about the adapter's physical function.
    #[must_use]
    pub const fn of_physical(self) -> Question {
        Question { request: self, function: 0 }
    }

    /// Returns the size of the reply in bytes.
    #[must_use]
    pub const fn reply_len(self) -> usize {
        match self {
            Request::Bar4Start => 8,
            Request::DeviceId => 2,
            Request::MsixTable => REPLY_MAX,
        }
    }
}

impl Reply {
    /// Parses the reply to `request`.
    ///
    /// # Errors
    /// If the length of the reply does not match the request.
    pub fn parse(request: Request, bytes: &[u8]) -> Result<Reply, MessagingError> {
        let legal = request.reply_len();
        if bytes.len() != legal {
            return Err(MessagingError::ReplyLength { request, have: bytes.len(), legal });
        }
        Ok(match request {
            Request::Bar4Start => Reply::Bar4Start(little(bytes)),
            Request::DeviceId => Reply::DeviceId(Bdf::from_bits(little(bytes) as u16)),
            Request::MsixTable => {
                let entry = |at| MsixEntry {
                    address: little(&bytes[at..at + 8]),
                    data: little(&bytes[at + 8..at + 12]) as u32,
                };
                Reply::MsixTable(std::array::from_fn(|n| entry(n * ENTRY_LEN)))
            }
        })
    }

    /// Writes the reply to the start of `out`, and returns its length.
    pub fn emit(&self, out: &mut [u8; REPLY_MAX]) -> usize {
        match self {
            Reply::Bar4Start(address) => out[..8].copy_from_slice(&address.to_le_bytes()),
            Reply::DeviceId(id) => out[..2].copy_from_slice(&id.bits().to_le_bytes()),
            Reply::MsixTable(entries) => {
                for (out, entry) in out.chunks_exact_mut(ENTRY_LEN).zip(entries) {
                    out[..8].copy_from_slice(&entry.address.to_le_bytes());
                    out[8..].copy_from_slice(&entry.data.to_le_bytes());
                }
            }
        }
        self.request().reply_len()
    }

    /// Returns the request that the reply answers.
    pub const fn request(&self) -> Request {
        match self {
            Reply::Bar4Start(_) => Request::Bar4Start,
            Reply::DeviceId(_) => Request::DeviceId,
            Reply::MsixTable(_) => Request::MsixTable,
        }
    }
}

// Parses a little-endian number of at most eight bytes.
fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Facts of the wire: numbers 1 to 3, u32 little endian.
    #[test]
    fn requests_are_four_bytes_little_endian() {
        for (bytes, request, function) in [
            ([1, 0, 0, 0], Request::Bar4Start, 0),
            ([2, 0, 0, 0], Request::DeviceId, 0),
            ([3, 0, 0, 0], Request::MsixTable, 0),
            ([3, 0, 2, 1], Request::MsixTable, 258),
        ] {
            let question = Question { request, function };
            assert_eq!(Question::parse(&bytes), Ok(question));
            assert_eq!(question.emit(), bytes);
        }
        for (bytes, error) in [
            (&[0, 0, 0, 1][..], MessagingError::Unknown(0x0100_0000)),
            (&[4, 0, 0, 0], MessagingError::Unknown(4)),
            (&[1, 0, 0], MessagingError::RequestLength(3)),
            (&[1, 0, 0, 0, 0], MessagingError::RequestLength(5)),
            (&[], MessagingError::RequestLength(0)),
        ] {
            assert_eq!(Question::parse(bytes), Err(error));
        }
    }

    #[test]
    fn replies_have_their_bytes() {
        let mut out = [0xee; REPLY_MAX];
        assert_eq!(Reply::Bar4Start(0x0000_0001_fe00_0000).emit(&mut out), 8);
        assert_eq!(out[..8], [0, 0, 0, 0xfe, 1, 0, 0, 0]);
        // Bus 1b, device 0, function 0: bus << 8 | devfn = 0x1b00.
        assert_eq!(Reply::DeviceId(Bdf::new(0x1b, 0, 0).unwrap()).emit(&mut out), 2);
        assert_eq!(out[..2], [0x00, 0x1b]);
        let mut table = [MsixEntry::default(); MSIX_ENTRIES];
        table[1] = MsixEntry { address: 0xfee0_1000, data: 0x4021 };
        assert_eq!(Reply::MsixTable(table).emit(&mut out), 192);
        assert_eq!(out[..12], [0; 12]);
        assert_eq!(out[12..24], [0, 0x10, 0xe0, 0xfe, 0, 0, 0, 0, 0x21, 0x40, 0, 0]);
        assert_eq!(Reply::parse(Request::MsixTable, &out), Ok(Reply::MsixTable(table)));
    }

    #[test]
    fn error_of_a_wrong_reply_length_names_the_expected_one() {
        for (request, have, legal) in
            [(Request::Bar4Start, 2, 8), (Request::DeviceId, 0, 2), (Request::MsixTable, 191, 192)]
        {
            let error = Reply::parse(request, &vec![0; have]).unwrap_err();
            assert_eq!(error, MessagingError::ReplyLength { request, have, legal });
            assert!(error.to_string().ends_with(&legal.to_string()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_of_the_expected_length_are_a_reply(bytes in proptest::array::uniform32(any::<[u8; 6]>())) {
            let bytes = bytes.concat();
            for request in [Request::Bar4Start, Request::DeviceId, Request::MsixTable] {
                let bytes = &bytes[..request.reply_len()];
                let mut out = [0; REPLY_MAX];
                let reply = Reply::parse(request, bytes).unwrap();
                let len = reply.emit(&mut out);
                prop_assert_eq!(&out[..len], bytes);
            }
        }
    }
}
