// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts TLPs for the design to descriptors with their data: CQ and RC (PG023, PG156, PG213: "Completer Request Descriptor
//! Formats", "Requester Completion Descriptor Format"). Independent of beats.

use device::seam::Token;
use tlp::Tlp;

/// Request types in CQ and RQ descriptors.
pub(super) mod request_type {
    pub(crate) const MEMORY_READ: u32 = 0b0000;
    pub(crate) const MEMORY_WRITE: u32 = 0b0001;
    pub(crate) const IO_READ: u32 = 0b0010;
    pub(crate) const IO_WRITE: u32 = 0b0011;
    pub(crate) const FETCH_ADD: u32 = 0b0100;
    pub(crate) const SWAP: u32 = 0b0101;
    pub(crate) const COMPARE_SWAP: u32 = 0b0110;
    pub(crate) const READ_LOCKED: u32 = 0b0111;
}

/// Size of a CQ or RQ descriptor in double-words, and of an RC or CC descriptor.
pub(super) const REQUEST_DW: usize = 4;
pub(super) const COMPLETION_DW: usize = 3;

/// Error code of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum ErrorCode {
    Normal = 0b0000,
    Poisoned = 0b0001,
    BadStatus = 0b0010,
    BadLength = 0b0011,
    FunctionLevelReset = 0b1000,
    Timeout = 0b1001,
}

/// A packet for the design: descriptor, data, and the values of its user signals.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) words: Vec<u32>,
    /// Number of words before the data: the descriptor, and padding that aligns the data.
    pub(super) lead: usize,
    /// Byte enables of the first and last double-word of the data; if there is only one double-word, the first enables
    /// apply.
    pub(super) enables: [u8; 2],
    /// first_be and last_be of a request.
    pub(super) request_enables: [u8; 2],
    /// For a request: the token that is returned when the design has accepted it.
    pub(super) token: Option<Token>,
    pub(super) is_non_posted: bool,
    /// The first cycle in which the packet may be presented.
    pub(super) from: u64,
}

/// The part of a function that a request addresses, in the block's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTarget {
    pub(super) function: u8,
    pub(super) bar: u8,
    /// Base-2 logarithm of the BAR's size in bytes.
    pub(super) aperture: u8,
}

/// Header fields that both kinds of descriptors contain.
struct Header {
    words: [u32; 4],
}

impl Header {
    /// Reads the header of a TLP on the wire, without prefixes.
    fn of(bytes: &[u8]) -> Header {
        let word = |n: usize| {
            bytes.get(4 * n..4 * n + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
        };
        Header { words: std::array::from_fn(word) }
    }

    fn has_data(&self) -> bool {
        self.words[0] >> 30 & 1 == 1
    }

    fn has_four_words(&self) -> bool {
        self.words[0] >> 29 & 1 == 1
    }

    fn kind(&self) -> u32 {
        self.words[0] >> 24 & 0x1f
    }

    /// Returns Length in double-words: 1 to 1024.
    fn length(&self) -> u32 {
        (self.words[0].wrapping_sub(1) & 0x3ff) + 1
    }

    /// Returns Traffic Class and attributes, at their position in all descriptors.
    fn class_and_attributes(&self) -> u32 {
        let (tc, attr) = (self.words[0] >> 20 & 7, self.words[0] >> 12 & 3 | (self.words[0] >> 18 & 1) << 2);
        tc << 25 | attr << 28
    }

    /// Returns the request's type; `None` if CQ descriptors have no such type.
    fn request_type(&self) -> Option<u32> {
        use request_type::*;
        Some(match (self.kind(), self.has_data()) {
            (0b0_0000, false) => MEMORY_READ,
            (0b0_0000, true) => MEMORY_WRITE,
            (0b0_0001, false) => READ_LOCKED,
            (0b0_0010, false) => IO_READ,
            (0b0_0010, true) => IO_WRITE,
            (0b0_1100, true) => FETCH_ADD,
            (0b0_1101, true) => SWAP,
            (0b0_1110, true) => COMPARE_SWAP,
            _ => return None,
        })
    }
}

impl Packet {
    /// Makes the packet a request. Returns false if no descriptor has its type.
    pub(super) fn request(&mut self, tlp: &Tlp, place: RequestTarget, bytes: &mut Vec<u8>) -> bool {
        let header = emitted(tlp, bytes);
        let Some(kind) = header.request_type() else { return false };
        let [_, second, third, fourth] = header.words;
        let (upper, lower) = if header.has_four_words() { (third, fourth) } else { (0, third) };
        let at = header.words[0] >> 10 & 3;
        self.words.clear();
        self.words.extend([
            lower & !3 | at,
            upper,
            header.length() | kind << 11 | second >> 16 << 16,
            second >> 8 & 0xff
                | u32::from(place.function) << 8
                | u32::from(place.bar) << 16
                | u32::from(place.aperture) << 19
                | header.class_and_attributes(),
        ]);
        self.lead = REQUEST_DW;
        self.request_enables = [second as u8 & 0xf, second as u8 >> 4];
        self.enables = self.request_enables;
        if (request_type::FETCH_ADD..=request_type::COMPARE_SWAP).contains(&kind) {
            // In an atomic operation the byte enable fields are reserved: all bytes are enabled.
            (self.enables, self.request_enables) =
                ([0xf; 2], [0xf, if header.length() > 1 { 0xf } else { 0 }]);
        }
        self.is_non_posted = tlp.class() == tlp::Class::NonPosted;
        self.data(bytes);
        true
    }

    /// Makes the packet a completion of the request whose next byte is at `lower_address`, with the Requester ID of the request.
    pub(super) fn completion(
        &mut self,
        tlp: &Tlp,
        requester: u16,
        lower_address: u16,
        error: ErrorCode,
        is_last: bool,
        bytes: &mut Vec<u8>,
    ) {
        let header = emitted(tlp, bytes);
        let [_, second, third, _] = header.words;
        let length = if header.has_data() { header.length() } else { 0 };
        // A Byte Count of zero means 4096.
        let byte_count = (second & 0xfff).wrapping_sub(1) & 0xfff;
        let byte_count = byte_count + 1;
        let is_locked = header.kind() == 0b0_1011;
        self.words.clear();
        self.words.extend([
            u32::from(lower_address & 0xfff)
                | u32::from(error as u8) << 12
                | byte_count << 16
                | u32::from(is_locked) << 29
                | u32::from(is_last) << 30,
            length
                | (second >> 13 & 7) << 11
                | (header.words[0] >> 14 & 1) << 14
                | u32::from(requester) << 16,
            third >> 8 & 0xff | second >> 16 << 8 | header.class_and_attributes(),
        ]);
        self.lead = COMPLETION_DW;
        self.enables = completion_enables(lower_address, byte_count, length);
        self.data(bytes);
    }

    /// Makes the packet the end of a request that receives no completion.
    pub(super) fn lost(&mut self, requester: u16, tag: u8, error: ErrorCode) {
        self.words.clear();
        self.words.extend([
            u32::from(error as u8) << 12 | 1 << 30,
            u32::from(requester) << 16,
            u32::from(tag),
        ]);
        self.lead = COMPLETION_DW;
    }

    /// Adds the data of a TLP, in memory order.
    fn data(&mut self, bytes: &[u8]) {
        let header = 12 + 4 * usize::from(bytes.first().is_some_and(|first| first >> 5 & 1 == 1));
        let data = bytes.get(header..).unwrap_or_default();
        self.words.extend(data.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
    }

    /// Aligns the data for address-aligned mode: pads the descriptor to a multiple of `unit` words, then adds `offset` words.
    pub(super) fn align(&mut self, unit: usize, offset: usize) {
        if self.words.len() > self.lead {
            let end = self.lead.next_multiple_of(unit) + offset % unit;
            self.words.splice(self.lead..self.lead, std::iter::repeat_n(0, end - self.lead));
            self.lead = end;
        }
    }

    /// Returns the byte enables of a word.
    pub(super) fn enables_of(&self, word: usize) -> u32 {
        let last = self.words.len() - 1;
        match word {
            _ if word < self.lead => 0,
            _ if word == self.lead => self.enables[0].into(),
            _ if word == last => self.enables[1].into(),
            _ => 0xf,
        }
    }
}

/// Writes a TLP as on the wire, without prefixes and digest, and returns its header.
fn emitted(tlp: &Tlp, bytes: &mut Vec<u8>) -> Header {
    bytes.clear();
    bytes.resize(tlp.wire_len(), 0);
    tlp.emit(bytes);
    bytes.drain(..tlp.prefixes.wire_len());
    if tlp.repr.td {
        bytes.truncate(bytes.len() - 4);
    }
    Header::of(bytes)
}

/// Returns the byte enables of the first and last double-word of data.
fn completion_enables(lower_address: u16, byte_count: u32, length: u32) -> [u8; 2] {
    let (lead, bytes) = (u32::from(lower_address & 3), 4 * length);
    let first = 0xf << lead & 0xf;
    let end = (lead + byte_count).min(bytes);
    let last = 0xf >> ((4 - end % 4) % 4);
    if length == 1 { [first & last, 0] } else { [first, last] }
}
