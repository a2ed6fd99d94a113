// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The datagrams of a session. The parser copies only numbers, and never panics.
//!
//! ```text
//!  0          2           6     7      8            16
//!  | low 16   | high 32   | TLP ...                          data: one TLP
//!  | low 16   | high 32   | ff  | kind | session id | body   control: Fmt 111b is no TLP's (PCIe 5.0 §2.2.1)
//! ```
//!
//! All fields are big endian. The six bytes take the place of the NetTLP header, and hold a number of 48 bits:
//! first the low 16 bits, then the high 32 bits. If bit 47 is clear, the number is the position of a TLP in the
//! stream of its direction. If bit 47 is set, the other bits are the count of a control record. If the session is
//! authenticated, all bytes after the six bytes are sealed, which makes them 16 bytes longer.
//!
//! | kind | body | meaning |
//! |---|---|---|
//! | 1 Hello | version u16, features u16, window u16, longest datagram u16, length of Noise u16, 0 to 128 bytes of Noise; zeros up to 192 in all | requests a session; the session id is the client's nonce |
//! | 2 HelloAck | as Hello, after the client's nonce u64 | accepts, with this session id |
//! | 3 Confirm | | the client has received the id, so its source address is genuine |
//! | 4 Ack | next u64, limit u64, bitmap | all TLPs before `next` have arrived, and TLPs below `limit` may be sent; bit 7 of the first byte: `next + 1` has arrived, and so on |
//! | 5 Probe | | requests an Ack even if no TLP arrived |
//! | 6 Reset | | there is no session with this peer; the number of the answered datagram replaces the session id |
//! | 7 Refused | client's nonce u64, reason u16 | refuses the session |
//! | 8 Bye | | the sender removes this session now |

use capture::encap::NETTLP_LEN;

/// Version of this format.
pub const VERSION: u16 = 1;
/// Maximum number of unacknowledged TLPs per direction.
pub const MAX_WINDOW: u16 = 1024;
/// Bit of the number that is set for control records and clear for TLPs.
pub const CONTROL_BIT: u64 = 1 << 47;
/// First byte of a control record, at the place of a TLP's Fmt and Type.
pub const CONTROL: u8 = 0xff;
/// Size of a Hello in bytes. No answer to a Hello is longer, so an adapter cannot be used to flood a third party.
pub const HELLO_BYTES: usize = 192;
/// Size of the longest control record in bytes, unsealed.
pub const MAX_RECORD_BYTES: usize = HELLO_BYTES;
/// Size of a Reset in bytes: less than an MRd.
pub const RESET_BYTES: usize = BODY;
/// Maximum number of Noise bytes in a Hello or a HelloAck.
pub const MAX_NOISE_BYTES: usize = 128;

const BODY: usize = NETTLP_LEN + 2 + 8;
const OFFER_BYTES: usize = 8;

/// Properties that each end announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Version of the format.
    pub version: u16,
    /// Feature bits: [`Offer::AUTHENTICATED`].
    pub features: u16,
    /// Number of TLPs that this side accepts unacknowledged, 1 to [`MAX_WINDOW`].
    pub window: u16,
    /// Size of the longest datagram that this side accepts, in bytes.
    pub longest: u16,
}

impl Offer {
    /// Feature: everything after the handshake is sealed.
    pub const AUTHENTICATED: u16 = 1;

    /// Returns true if the offer requires authentication.
    #[must_use]
    pub const fn is_authenticated(self) -> bool {
        self.features & Self::AUTHENTICATED != 0
    }
}

/// Reason why an adapter refuses a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[repr(u16)]
pub enum Refusal {
    /// The adapter uses another version.
    #[error("it uses another version of the session protocol")]
    Version = 1,
    /// The adapter has its maximum number of sessions.
    #[error("it has its maximum number of sessions")]
    Full = 2,
    /// The adapter requires authentication, but the client did not offer it.
    #[error("it requires a pre-shared key")]
    WantsKey = 3,
    /// The client offered authentication, but the adapter has no key.
    #[error("it has no pre-shared key")]
    NoKey = 4,
    /// The keys differ.
    #[error("the pre-shared keys differ")]
    WrongKey = 5,
    /// The window or the datagram length is invalid.
    #[error("it does not accept this window or this datagram length")]
    Offer = 6,
}

impl Refusal {
    fn from_u16(value: u16) -> Option<Refusal> {
        use Refusal::{Full, NoKey, Offer, Version, WantsKey, WrongKey};
        [Version, Full, WantsKey, NoKey, WrongKey, Offer].into_iter().find(|&r| r as u16 == value)
    }
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack<'a> {
    /// Number of the first TLP that has not arrived.
    pub next: u64,
    /// Number of the first TLP that may not be sent yet.
    pub limit: u64,
    /// TLPs received after `next`: bit 7 of the first byte is `next + 1`.
    pub bitmap: &'a [u8],
}

impl Ack<'_> {
    /// Returns true if TLP `next + 1 + index` has arrived.
    pub fn has(&self, index: usize) -> bool {
        self.bitmap.get(index / 8).is_some_and(|byte| byte & (0x80 >> (index % 8)) != 0)
    }
}

/// A control record, without its number and session id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A client requests a session.
    Hello {
        /// Properties of the client.
        offer: Offer,
        /// First message of the Noise handshake; empty without authentication.
        noise: &'a [u8],
    },
    /// The adapter accepts the session.
    HelloAck {
        /// Nonce of the Hello that it answers.
        nonce: u64,
        /// Properties of the adapter.
        offer: Offer,
        /// Second message of the Noise handshake; empty without authentication.
        noise: &'a [u8],
    },
    /// The client has the session id.
    Confirm,
    /// Received TLPs, and granted credits.
    Ack(Ack<'a>),
    /// Requests an Ack.
    Probe,
    /// There is no such session. The number of the answered datagram, including the control bit, replaces the
    /// session id.
    Reset,
    /// The adapter refuses the session.
    Refused {
        /// Nonce of the Hello that it answers.
        nonce: u64,
        /// Reason of the refusal.
        reason: Refusal,
    },
    /// The session ends.
    Bye,
}

/// A datagram of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagram<'a> {
    /// A TLP, or a sealed one.
    Data {
        /// Its position in the stream.
        sequence: u64,
        /// The TLP; not checked.
        tlp: &'a [u8],
    },
    /// A control record.
    Control {
        /// Count of the record, without the control bit.
        count: u64,
        /// The session id; in a Hello the nonce.
        session: u64,
        /// Content of the record.
        record: Record<'a>,
    },
}

/// Returns the number of a datagram, control bit included; `None` if the datagram is too short.
pub fn number(datagram: &[u8]) -> Option<u64> {
    let (head, _) = datagram.split_first_chunk::<NETTLP_LEN>()?;
    let low = u64::from(u16::from_be_bytes([head[0], head[1]]));
    let high = u64::from(u32::from_be_bytes([head[2], head[3], head[4], head[5]]));
    Some(high << 16 | low)
}

/// Writes a number into the first six bytes.
///
/// # Panics
/// If `out` is shorter.
pub fn put_number(out: &mut [u8], number: u64) {
    out[..2].copy_from_slice(&(number as u16).to_be_bytes());
    out[2..NETTLP_LEN].copy_from_slice(&((number >> 16) as u32).to_be_bytes());
}

/// Parses a datagram that is not sealed; `None` if it is malformed.
pub fn parse(datagram: &[u8]) -> Option<Datagram<'_>> {
    let number = number(datagram)?;
    let rest = &datagram[NETTLP_LEN..];
    if number & CONTROL_BIT == 0 {
        return if rest.is_empty() { None } else { Some(Datagram::Data { sequence: number, tlp: rest }) };
    }
    let count = number & !CONTROL_BIT;
    let (session, record) = parse_record(rest)?;
    Some(Datagram::Control { count, session, record })
}

/// Parses the part after the number of a control record: the session id, and the record.
pub fn parse_record(bytes: &[u8]) -> Option<(u64, Record<'_>)> {
    let (&[mark, kind], rest) = bytes.split_first_chunk()?;
    if mark != CONTROL {
        return None;
    }
    let (session, body) = take_u64(rest)?;
    let record = match kind {
        1 => parse_offer(body).map(|(offer, noise)| Record::Hello { offer, noise })?,
        2 => {
            let (nonce, body) = take_u64(body)?;
            let (offer, noise) = parse_offer(body)?;
            Record::HelloAck { nonce, offer, noise }
        }
        3 => Record::Confirm,
        4 => Record::Ack(parse_ack(body)?),
        5 => Record::Probe,
        6 => Record::Reset,
        7 => {
            let (nonce, body) = take_u64(body)?;
            Record::Refused { nonce, reason: Refusal::from_u16(take_u16(body)?.0)? }
        }
        8 => Record::Bye,
        _ => return None,
    };
    Some((session, record))
}

fn parse_offer(mut body: &[u8]) -> Option<(Offer, &[u8])> {
    let mut field = || {
        let (field, rest) = take_u16(body)?;
        body = rest;
        Some(field)
    };
    let offer = Offer { version: field()?, features: field()?, window: field()?, longest: field()? };
    let noise_len = usize::from(field()?);
    Some((offer, body.get(..noise_len).filter(|noise| noise.len() <= MAX_NOISE_BYTES)?))
}

fn parse_ack(body: &[u8]) -> Option<Ack<'_>> {
    let (next, body) = take_u64(body)?;
    let (limit, bitmap) = take_u64(body)?;
    let legal = next < CONTROL_BIT && limit < CONTROL_BIT && bitmap.len() <= usize::from(MAX_WINDOW) / 8;
    legal.then_some(Ack { next, limit, bitmap })
}

fn take_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*head), rest))
}

fn take_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*head), rest))
}

/// A control record as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordBytes {
    bytes: [u8; MAX_RECORD_BYTES],
    len: usize,
}

impl RecordBytes {
    /// Writes a record, unsealed.
    ///
    /// # Panics
    /// If a bitmap or a Noise message is longer than legal.
    pub fn new(count: u64, session: u64, record: &Record<'_>) -> RecordBytes {
        let mut out = RecordBytes { bytes: [0; MAX_RECORD_BYTES], len: NETTLP_LEN };
        put_number(&mut out.bytes, count | CONTROL_BIT);
        out.put(&[CONTROL, kind(record)]);
        out.put(&session.to_be_bytes());
        match record {
            Record::Hello { offer, noise } => {
                out.put_offer(offer, noise);
                out.len = HELLO_BYTES;
            }
            Record::HelloAck { nonce, offer, noise } => {
                out.put(&nonce.to_be_bytes());
                out.put_offer(offer, noise);
            }
            Record::Ack(ack) => {
                out.put(&ack.next.to_be_bytes());
                out.put(&ack.limit.to_be_bytes());
                out.put(ack.bitmap);
            }
            Record::Refused { nonce, reason } => {
                out.put(&nonce.to_be_bytes());
                out.put(&(*reason as u16).to_be_bytes());
            }
            Record::Confirm | Record::Probe | Record::Reset | Record::Bye => {}
        }
        out
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn put_offer(&mut self, offer: &Offer, noise: &[u8]) {
        for field in [offer.version, offer.features, offer.window, offer.longest, noise.len() as u16] {
            self.put(&field.to_be_bytes());
        }
        self.put(noise);
    }
}

impl std::ops::Deref for RecordBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn kind(record: &Record<'_>) -> u8 {
    match record {
        Record::Hello { .. } => 1,
        Record::HelloAck { .. } => 2,
        Record::Confirm => 3,
        Record::Ack(_) => 4,
        Record::Probe => 5,
        Record::Reset => 6,
        Record::Refused { .. } => 7,
        Record::Bye => 8,
    }
}

const _: () = assert!(BODY + 8 + OFFER_BYTES + 2 + MAX_NOISE_BYTES <= HELLO_BYTES);
const _: () = assert!(BODY + 16 + MAX_WINDOW as usize / 8 <= MAX_RECORD_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OFFER: Offer = Offer { version: 1, features: 1, window: 0x200, longest: 0x1036 };

    /// The layout in the module documentation, byte by byte.
    #[test]
    fn records_have_the_bytes_of_the_table() {
        let head = [0x00, 0x07, 0x80, 0, 0, 0, 0xff];
        let id = [0, 0, 0, 0, 0, 0, 0, 9];
        let rows: [(Record<'_>, u8, &[u8]); 7] = [
            (
                Record::HelloAck { nonce: 2, offer: OFFER, noise: &[0xaa] },
                2,
                &[0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 1, 2, 0, 0x10, 0x36, 0, 1, 0xaa],
            ),
            (Record::Confirm, 3, &[]),
            (
                Record::Ack(Ack { next: 0x0102, limit: 0x0502, bitmap: &[0x81] }),
                4,
                &[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 5, 2, 0x81],
            ),
            (Record::Probe, 5, &[]),
            (Record::Reset, 6, &[]),
            (Record::Refused { nonce: 2, reason: Refusal::Full }, 7, &[0, 0, 0, 0, 0, 0, 0, 2, 0, 2]),
            (Record::Bye, 8, &[]),
        ];
        for (record, kind, body) in rows {
            let bytes = RecordBytes::new(7, 9, &record);
            assert_eq!(*bytes, [&head[..], &[kind], &id, body].concat(), "{record:?}");
            assert_eq!(parse(&bytes), Some(Datagram::Control { count: 7, session: 9, record }));
        }
    }

    #[test]
    fn hello_is_as_long_as_the_longest_answer() {
        let longest = [0; MAX_NOISE_BYTES];
        let hello = RecordBytes::new(0, 5, &Record::Hello { offer: OFFER, noise: &[1, 2, 3] });
        let ack = RecordBytes::new(0, 6, &Record::HelloAck { nonce: 5, offer: OFFER, noise: &longest });
        assert_eq!(hello.len(), HELLO_BYTES);
        assert!(ack.len() <= hello.len());
        assert_eq!(hello[16..29], [0, 1, 0, 1, 2, 0, 0x10, 0x36, 0, 3, 1, 2, 3]);
    }

    #[test]
    fn number_has_low_16_bits_first_and_tlp_has_no_control_bit() {
        let datagram = [0x56, 0x78, 0x00, 0x00, 0x12, 0x34, 0x4a, 0x00];
        assert_eq!(parse(&datagram), Some(Datagram::Data { sequence: 0x1234_5678, tlp: &[0x4a, 0] }));
        let mut out = [0; 6];
        put_number(&mut out, 0x7fff_1234_5678);
        assert_eq!(out, [0x56, 0x78, 0x7f, 0xff, 0x12, 0x34]);
    }

    #[test]
    fn bitmap_begins_after_the_first_gap() {
        let ack = Ack { next: 10, limit: 99, bitmap: &[0x80, 0x01] };
        let has: Vec<usize> = (0..32).filter(|&i| ack.has(i)).collect();
        assert_eq!(has, [0, 15]);
    }

    proptest! {
        #[test]
        fn parser_accepts_or_rejects_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            if let Some(Datagram::Control { count, session, record }) = parse(&bytes) {
                let written = RecordBytes::new(count, session, &record);
                prop_assert_eq!(parse(&written), Some(Datagram::Control { count, session, record }));
            }
        }

        #[test]
        fn record_cut_short_anywhere_is_parsed_or_rejected(
            kind in 0u8..10, body in proptest::collection::vec(any::<u8>(), 0..180), cut in 0usize..200,
        ) {
            let mut bytes = vec![0, 0, 0x80, 0, 0, 0, 0xff, kind, 0, 0, 0, 0, 0, 0, 0, 1];
            bytes.extend(body);
            bytes.truncate(cut);
            if let Some(Datagram::Control { count, session, record }) = parse(&bytes) {
                let written = RecordBytes::new(count, session, &record);
                prop_assert_eq!(parse(&written), Some(Datagram::Control { count, session, record }));
            }
        }
    }
}
