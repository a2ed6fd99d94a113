// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sequence numbers of 12 bits, and their order (`PCIe 5.0 §3.6.1`). This module holds no state of a link.

const MODULUS: u16 = 4096;

/// Maximum distance before the next TLP at which a sequence number counts as past: a duplicate at the receiver, or an
/// Ack of a sent TLP (`PCIe 5.0 §3.6.2.2`, §3.6.3.1).
pub(crate) const PAST: u16 = MODULUS / 2;

/// Maximum number of unacknowledged TLPs. The port sends no TLP while `(NEXT_TRANSMIT_SEQ - ACKD_SEQ) mod 4096 >= 2048`
/// (`PCIe 5.0 §3.6.2.1`, Equation 3-1). ACKD_SEQ is the last acknowledged sequence number.
pub(crate) const MAX_UNACKNOWLEDGED: u16 = MODULUS / 2 - 1;

/// A sequence number, modulo 4096.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sequence(u16);

impl Sequence {
    pub(crate) const ZERO: Sequence = Sequence(0);
    /// The number before the first one: ACKD_SEQ after reset.
    pub(crate) const BEFORE_ZERO: Sequence = Sequence(MODULUS - 1);

    /// The low 12 bits of `bits`.
    pub(crate) const fn from_bits(bits: u16) -> Sequence {
        Sequence(bits % MODULUS)
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    pub(crate) const fn next(self) -> Sequence {
        Sequence((self.0 + 1) % MODULUS)
    }

    pub(crate) const fn previous(self) -> Sequence {
        Sequence((self.0 + MODULUS - 1) % MODULUS)
    }

    /// `(self - earlier) mod 4096`.
    pub(crate) const fn since(self, earlier: Sequence) -> u16 {
        (self.0 + MODULUS - earlier.0) % MODULUS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_wraps_at_4096() {
        assert_eq!(Sequence::from_bits(4095).next(), Sequence::ZERO);
        assert_eq!(Sequence::ZERO.previous(), Sequence::BEFORE_ZERO);
        assert_eq!(Sequence::from_bits(2).since(Sequence::from_bits(4094)), 4);
        assert_eq!(Sequence::from_bits(4094).since(Sequence::from_bits(2)), 4092);
        assert_eq!(Sequence::from_bits(0xf123).bits(), 0x123);
    }
}
