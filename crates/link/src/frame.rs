// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frames on the wire between two ports, and the effect of errors on them.
//!
//! A frame travels as a value. Only a damaged frame is converted to bytes, so that its real CRC detects the damage.

use tlp::{Dllp, Duration, Time, Tlp, crc};

/// Bytes that the wire adds to every TLP (`PCIe 5.0 §4.2.1.2`, §4.2.2.3): STP, sequence number, LCRC and END, or the
/// STP token with the sequence number, and LCRC.
pub const TLP_FRAMING_BYTES: u32 = 8;
/// Bytes of a DLLP on the wire: six, with SDP and END, or with the SDP token.
pub const DLLP_WIRE_BYTES: u32 = 8;

/// Bytes of the sequence number before a TLP.
pub(crate) const SEQUENCE_BYTES: usize = 2;
/// Bytes of the LCRC after a TLP.
pub(crate) const LCRC_BYTES: usize = 4;
const DLLP_BYTES: usize = 6;

/// A TLP with its sequence number, or a DLLP. `T` is the TLP itself, a borrowed TLP, or `()` if the TLP stays at its
/// sender ([`SentFrame`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<T = Tlp> {
    /// A TLP and its sequence number.
    Tlp {
        /// Sequence number, 0 to 4095.
        sequence: u16,
        /// The TLP itself.
        tlp: T,
    },
    /// A DLLP, which has no sequence number.
    Dllp(Dllp),
}

/// A frame that a port has sent. Its TLP stays in the replay buffer; [`Port::lend`](crate::Port::lend) returns a reference to it.
pub type SentFrame = Frame<()>;

impl<T> Frame<T> {
    /// Returns the TLP, or its stand-in; `None` for a DLLP.
    #[must_use]
    pub fn tlp(self) -> Option<T> {
        match self {
            Frame::Tlp { tlp, .. } => Some(tlp),
            Frame::Dllp(_) => None,
        }
    }
}

impl SentFrame {
    /// Returns the frame with its TLP; `None` if it is a TLP frame and `tlp` is missing.
    #[must_use]
    pub fn with<T>(self, tlp: Option<T>) -> Option<Frame<T>> {
        match self {
            Frame::Tlp { sequence, .. } => Some(Frame::Tlp { sequence, tlp: tlp? }),
            Frame::Dllp(dllp) => Some(Frame::Dllp(dllp)),
        }
    }
}

impl Frame {
    /// Returns the frame with its TLP borrowed.
    #[must_use]
    pub fn as_ref(&self) -> Frame<&Tlp> {
        match self {
            Frame::Tlp { sequence, tlp } => Frame::Tlp { sequence: *sequence, tlp },
            Frame::Dllp(dllp) => Frame::Dllp(*dllp),
        }
    }
}

impl Frame<&Tlp> {
    /// The frame with a copy of its TLP.
    #[must_use]
    pub fn cloned(self) -> Frame {
        match self {
            Frame::Tlp { sequence, tlp } => Frame::Tlp { sequence, tlp: tlp.clone() },
            Frame::Dllp(dllp) => Frame::Dllp(dllp),
        }
    }

    /// Returns the number of bits that can be damaged: bits of sequence number, TLP and LCRC, or of the DLLP with its
    /// CRC. Damage to framing symbols is not modelled; it would lose the frame as well.
    pub fn bit_len(self) -> u32 {
        8 * match self {
            Frame::Tlp { tlp, .. } => (SEQUENCE_BYTES + tlp.wire_len() + LCRC_BYTES) as u32,
            Frame::Dllp(_) => DLLP_BYTES as u32,
        }
    }

    /// Bytes on the wire, framing included.
    pub fn wire_bytes(self) -> u32 {
        match self {
            Frame::Tlp { tlp, .. } => tlp.wire_len() as u32 + TLP_FRAMING_BYTES,
            Frame::Dllp(_) => DLLP_WIRE_BYTES,
        }
    }

    /// Whether the receiver accepts this frame despite `damage`.
    #[cold]
    pub(crate) fn survives(self, damage: &Damage) -> bool {
        match self {
            Frame::Tlp { sequence, tlp } => tlp_survives(sequence, tlp, damage),
            Frame::Dllp(dllp) => dllp_survives(dllp, damage),
        }
    }
}

fn tlp_survives(sequence: u16, tlp: &Tlp, damage: &Damage) -> bool {
    let mut bytes = Frame::Tlp { sequence, tlp }.write();
    damage.apply(&mut bytes);
    let sequence = u16::from_be_bytes([bytes[0], bytes[1]]);
    let (tlp, lcrc) = bytes[SEQUENCE_BYTES..].split_at(tlp.wire_len());
    // The four bits before the sequence number are reserved at 8b/10b; at 128b/130b they belong to the STP token's
    // length, which has its own check. A receiver detects any change of them.
    sequence < 4096 && crc::lcrc(sequence, tlp).to_be_bytes() == lcrc
}

fn dllp_survives(dllp: Dllp, damage: &Damage) -> bool {
    let mut bytes = dllp.emit();
    damage.apply(&mut bytes);
    let [a, b, c, d, high, low] = bytes;
    crc::dllp([a, b, c, d]) == u16::from_be_bytes([high, low])
}

/// A frame that a port sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The frame.
    pub frame: SentFrame,
    /// When its first symbol is sent: at the time of the call, or after an SKP ordered set.
    pub start: Time,
    /// When its last symbol has been sent.
    pub end: Time,
    /// Wait of the TLP if this is its first transmission. Replays and DLLPs have no wait.
    pub wait: Option<QueueWait>,
}

/// Wait of a TLP in the transmit queue, from [`enqueue`](crate::Port::enqueue) until its first symbol was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueWait {
    /// Time when the TLP was queued.
    pub queued_at: Time,
    /// The part of the wait during which the TLP was the first of its class and had no credits, while the wire was
    /// free. The sum over all TLPs sent is [`Counters::credit_stall_ps`](crate::Counters::credit_stall_ps).
    pub credit_wait: Duration,
}

/// Bits of a frame that flipped on the way, numbered from 0 to [`Frame::bit_len`] minus one: byte by byte as sent, from
/// bit 0 of each. A bit that is listed twice flips back. A bit beyond the frame has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Damage(Vec<u32>);

impl Damage {
    /// No damage: the frame arrives unchanged.
    pub const fn none() -> Damage {
        Damage(Vec::new())
    }

    /// True if no bit flipped.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bits that flipped, in the order in which they were listed.
    pub fn bits(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Flips the bits in the bytes of a frame.
    pub fn apply(&self, bytes: &mut [u8]) {
        for bit in self.bits() {
            if let Some(byte) = bytes.get_mut(bit as usize / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}

impl FromIterator<u32> for Damage {
    fn from_iter<I: IntoIterator<Item = u32>>(bits: I) -> Damage {
        Damage(bits.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Bdf, Body, Data, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Tag};

    fn frames() -> [Frame; 4] {
        let write = |len: u32, data| {
            Tlp::new(
                Repr::new(Body::Memory(MemoryRequest {
                    op: MemoryOp::Write,
                    requester: Bdf::from_bits(0x100),
                    tag: Tag::from_bits(3),
                    span: Span::covering(0x1_2345_6000, len).unwrap(),
                })),
                data,
            )
        };
        let carried = Data::Carried(PayloadPool::new().copy(&[0x5a; 61]));
        [
            Frame::Tlp { sequence: 0xabc, tlp: write(61, carried) },
            Frame::Tlp { sequence: 0, tlp: write(64, Data::Counted(64)) },
            Frame::Dllp(Dllp::Ack { sequence: 0x123 }),
            Frame::Dllp(Dllp::FlowControl(tlp::FlowControl::new(
                tlp::FlowControlKind::UpdateFc,
                tlp::Class::NonPosted,
                tlp::Vc::VC0,
                0x21,
                0x345,
            ))),
        ]
    }

    /// Every single flip and every pair in a burst is detected, as CRC-32 and CRC-16 guarantee.
    #[test]
    fn crc_detects_single_flips_and_bursts() {
        for frame in frames() {
            let frame = frame.as_ref();
            for bit in 0..frame.bit_len() {
                assert!(!frame.survives(&[bit].into_iter().collect()), "{frame:?} bit {bit}");
                let burst: Damage = [bit, (bit + 7) % frame.bit_len()].into_iter().collect();
                assert!(!frame.survives(&burst), "{frame:?} burst at {bit}");
            }
        }
    }

    #[test]
    fn flipping_a_bit_twice_restores_the_frame() {
        for frame in frames() {
            assert!(frame.as_ref().survives(&[9, 9].into_iter().collect()));
        }
    }

    #[test]
    fn frames_have_specified_lengths() {
        let [write, ..] = frames();
        // The header has 16 B; 61 B of data are padded to 64.
        assert_eq!((write.as_ref().wire_bytes(), write.as_ref().bit_len()), (88, 8 * 86));
        let six: Damage = (0..6).collect();
        assert_eq!(six.bits().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
