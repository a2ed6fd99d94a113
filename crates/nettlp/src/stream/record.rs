// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The datagrams of a session. Parsing copies nothing but numbers, and never panics.
//!
//! ```text
//!  0          2           6     7      8            16
//!  | low 16   | high 32   | TLP ...                          data: one TLP
//!  | low 16   | high 32   | ff  | kind | session id | body   control: Fmt 111b is no TLP's (PCIe 5.0 §2.2.1)
//! ```
//!
//! All fields are big endian. The six bytes stand where the NetTLP header has its own, and hold a number of 48 bits, low
//! half first: the place of a TLP in its direction's stream, or with bit 47 set a control record's own count.
//! Where the session is authenticated, everything behind the six bytes is sealed, and 16 bytes longer.
//!
//! | kind | body | says |
//! |---|---|---|
//! | 1 Hello | version u16, features u16, window u16, longest datagram u16, length of Noise u16, 0 to 128 bytes of Noise; zeros up to 192 in all | may I? The session id is the client's nonce |
//! | 2 HelloAck | as Hello, behind the client's nonce u64 | yes, with this session id |
//! | 3 Confirm | | the client has the id: its address is its own |
//! | 4 Ack | next u64, limit u64, bitmap | all before `next` has come, what is below `limit` may; bit 7 of the first byte: `next + 1` has come, and so on |
//! | 5 Probe | | send an Ack, whatever you have |
//! | 6 Reset | | I know no session with you; in place of the session id: the number that it answers |
//! | 7 Refused | client's nonce u64, reason u16 | no |
//! | 8 Bye | | I forget this session now |

use capture::encap::NETTLP_LEN;

/// Version of this format.
pub const VERSION: u16 = 1;
/// Most TLPs of one direction that are not acknowledged.
pub const MAX_WINDOW: u16 = 1024;
/// Bit of the number that control records have and TLPs do not.
pub const CONTROL_BIT: u64 = 1 << 47;
/// First byte of a control record, where a TLP has Fmt and Type.
pub const CONTROL: u8 = 0xff;
/// Bytes of a Hello: no shorter than any answer to it, so that nobody is flooded through an adapter.
pub const HELLO_BYTES: usize = 192;
/// Bytes of the longest control record, unsealed.
pub const MAX_RECORD_BYTES: usize = HELLO_BYTES;
/// Bytes of a Reset: fewer than an MRd has.
pub const RESET_BYTES: usize = BODY;
/// Bytes of Noise that a Hello or a HelloAck may hold.
pub const MAX_NOISE_BYTES: usize = 128;

const BODY: usize = NETTLP_LEN + 2 + 8;
const OFFER_BYTES: usize = 8;

/// What the two ends tell each other of themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Version of the format.
    pub version: u16,
    /// [`Offer::AUTHENTICATED`].
    pub features: u16,
    /// TLPs that this side takes unacknowledged, 1 to [`MAX_WINDOW`].
    pub window: u16,
    /// Bytes of the longest datagram that this side takes.
    pub longest: u16,
}

impl Offer {
    /// Feature: everything behind the handshake is sealed.
    pub const AUTHENTICATED: u16 = 1;

    /// Whether it demands authentication.
    #[must_use]
    pub const fn is_authenticated(self) -> bool {
        self.features & Self::AUTHENTICATED != 0
    }
}

/// Why an adapter refuses a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[repr(u16)]
pub enum Refusal {
    /// It speaks another version.
    #[error("it speaks another version of the session protocol")]
    Version = 1,
    /// It has as many sessions as it may have.
    #[error("it has as many sessions as it may have")]
    Full = 2,
    /// It wants authentication, and was offered none.
    #[error("it demands a pre-shared key")]
    WantsKey = 3,
    /// It has no key, and was offered authentication.
    #[error("it has no pre-shared key")]
    NoKey = 4,
    /// The keys differ.
    #[error("the pre-shared keys differ")]
    WrongKey = 5,
    /// A window or a datagram length that cannot be.
    #[error("it does not take this window or this length of datagrams")]
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
    /// Number of the first TLP that has not come.
    pub next: u64,
    /// Number of the first TLP that may not be sent yet.
    pub limit: u64,
    /// What has come behind `next`: bit 7 of the first byte is `next + 1`.
    pub bitmap: &'a [u8],
}

impl Ack<'_> {
    /// Whether TLP `next + 1 + index` has come.
    pub fn has(&self, index: usize) -> bool {
        self.bitmap.get(index / 8).is_some_and(|byte| byte & (0x80 >> (index % 8)) != 0)
    }
}

/// A control record, without number and session id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A client wants a session.
    Hello {
        /// What it offers.
        offer: Offer,
        /// First message of the Noise handshake; empty without.
        noise: &'a [u8],
    },
    /// The adapter agrees.
    HelloAck {
        /// The nonce that it answers.
        nonce: u64,
        /// What it offers.
        offer: Offer,
        /// Second message of the Noise handshake; empty without.
        noise: &'a [u8],
    },
    /// The client has the session id.
    Confirm,
    /// What has come, and what may.
    Ack(Ack<'a>),
    /// Asks for an Ack.
    Probe,
    /// There is no such session; the number of the datagram that it answers, control bit included, stands for the session.
    Reset,
    /// There will be no session.
    Refused {
        /// The nonce that it answers.
        nonce: u64,
        /// Why.
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
        /// Its place in the stream.
        sequence: u64,
        /// The TLP; not checked.
        tlp: &'a [u8],
    },
    /// A control record.
    Control {
        /// Its own count, without the control bit.
        count: u64,
        /// The session; a Hello's nonce.
        session: u64,
        /// What it says.
        record: Record<'a>,
    },
}

/// The number of a datagram, control bit included; `None` where it is too short to have one.
pub fn number(datagram: &[u8]) -> Option<u64> {
    let (head, _) = datagram.split_first_chunk::<NETTLP_LEN>()?;
    let low = u64::from(u16::from_be_bytes([head[0], head[1]]));
    let high = u64::from(u32::from_be_bytes([head[2], head[3], head[4], head[5]]));
    Some(high << 16 | low)
}

/// Writes a number into the first six bytes.
///
/// # Panics
/// Where `out` is shorter.
pub fn put_number(out: &mut [u8], number: u64) {
    out[..2].copy_from_slice(&(number as u16).to_be_bytes());
    out[2..NETTLP_LEN].copy_from_slice(&((number >> 16) as u32).to_be_bytes());
}

/// Reads a datagram that is not sealed; `None` where it is malformed.
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

/// Reads what stands behind the number of a control record: the session id, and the record.
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
    /// Where a bitmap or a Noise message is longer than legal.
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

    /// The layout in the head of this file, byte by byte.
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
    fn a_hello_is_as_long_as_its_answer_may_be() {
        let longest = [0; MAX_NOISE_BYTES];
        let hello = RecordBytes::new(0, 5, &Record::Hello { offer: OFFER, noise: &[1, 2, 3] });
        let ack = RecordBytes::new(0, 6, &Record::HelloAck { nonce: 5, offer: OFFER, noise: &longest });
        assert_eq!(hello.len(), HELLO_BYTES);
        assert!(ack.len() <= hello.len());
        assert_eq!(hello[16..29], [0, 1, 0, 1, 2, 0, 0x10, 0x36, 0, 3, 1, 2, 3]);
    }

    #[test]
    fn numbers_are_low_half_first_and_tlps_have_the_control_bit_clear() {
        let datagram = [0x56, 0x78, 0x00, 0x00, 0x12, 0x34, 0x4a, 0x00];
        assert_eq!(parse(&datagram), Some(Datagram::Data { sequence: 0x1234_5678, tlp: &[0x4a, 0] }));
        let mut out = [0; 6];
        put_number(&mut out, 0x7fff_1234_5678);
        assert_eq!(out, [0x56, 0x78, 0x7f, 0xff, 0x12, 0x34]);
    }

    #[test]
    fn the_bitmap_begins_behind_the_first_gap() {
        let ack = Ack { next: 10, limit: 99, bitmap: &[0x80, 0x01] };
        let has: Vec<usize> = (0..32).filter(|&i| ack.has(i)).collect();
        assert_eq!(has, [0, 15]);
    }

    proptest! {
        #[test]
        fn whatever_bytes_come_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            if let Some(Datagram::Control { count, session, record }) = parse(&bytes) {
                let written = RecordBytes::new(count, session, &record);
                prop_assert_eq!(parse(&written), Some(Datagram::Control { count, session, record }));
            }
        }

        #[test]
        fn any_record_may_be_cut_short_anywhere(
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
