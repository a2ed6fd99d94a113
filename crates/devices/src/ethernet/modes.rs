// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speeds and duplex modes of a copper link, and the common modes of two ends. This module does not access PHY registers.

/// Speed and duplex of a link that is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Speed in Mb/s: 10, 100 or 1000.
    pub mbps: u32,
    /// True for full duplex.
    pub is_full_duplex: bool,
}

impl Mode {
    /// 1000BASE-T, full duplex.
    pub const GIGABIT: Mode = Mode { mbps: 1000, is_full_duplex: true };
}

/// The modes that one end of a link offers. An end that offers no modes is down.
///
/// Bits 0 to 3 are 10BASE-T and 100BASE-TX, half and full duplex each, in the order of the advertisement register (IEEE 802.3 §28.2.4.1.3);
/// bit 4 is 1000BASE-T full duplex.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Modes(u8);

impl Modes {
    /// The end is down.
    pub const NONE: Modes = Modes(0);
    /// All modes.
    pub const ALL: Modes = Modes(0x1f);

    /// Returns the set with these bits; `None` if a bit is not a mode.
    pub const fn from_bits(bits: u8) -> Option<Modes> {
        if bits & !Modes::ALL.0 == 0 { Some(Modes(bits)) } else { None }
    }

    /// Returns the bits of the set.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the modes that both ends offer.
    pub const fn common(self, other: Modes) -> Modes {
        Modes(self.0 & other.0)
    }

    /// Returns the mode with the highest priority (IEEE 802.3 annex 28B.3); `None` if the set is empty.
    pub fn best(self) -> Option<Mode> {
        let n = self.0.checked_ilog2()?;
        Some(Mode { mbps: [10, 100, 1000][n as usize / 2], is_full_duplex: n == 4 || n % 2 == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fastest_common_mode_wins() {
        let rows = [
            (0x1f, 0x1f, Some((1000, true))),
            (0x0f, 0x1f, Some((100, true))),
            (0x14, 0x0f, Some((100, false))),
            (0x03, 0x1f, Some((10, true))),
            (0x01, 0x01, Some((10, false))),
            (0x10, 0x0f, None),
            (0, 0x1f, None),
        ];
        for (one, other, expected) in rows {
            let best = Modes(one).common(Modes(other)).best();
            assert_eq!(best.map(|mode| (mode.mbps, mode.is_full_duplex)), expected, "{one:#x} {other:#x}");
        }
        assert_eq!(Modes::from_bits(0x20), None);
    }
}
