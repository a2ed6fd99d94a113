// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link rates and widths, and the time per byte on the wire.

use crate::Mps;
use core::fmt;

/// Signalling rate of a lane (`PCIe 5.0 §4.2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rate {
    /// 2.5 GT/s, generation 1, 8b/10b.
    Gt2_5,
    /// 5 GT/s, generation 2, 8b/10b.
    Gt5,
    /// 8 GT/s, generation 3, 128b/130b.
    Gt8,
    /// 16 GT/s, generation 4, 128b/130b.
    Gt16,
    /// 32 GT/s, generation 5, 128b/130b.
    Gt32,
}

/// An exact quotient of two integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    /// Numerator.
    pub num: u64,
    /// Denominator, never zero.
    pub den: u64,
}

impl Rate {
    /// Every rate, slowest first.
    pub const ALL: [Rate; 5] = [Rate::Gt2_5, Rate::Gt5, Rate::Gt8, Rate::Gt16, Rate::Gt32];

    /// The rate of a generation, 1 to 5; `None` for other numbers.
    pub const fn from_generation(generation: u8) -> Option<Rate> {
        if 1 <= generation && generation <= 5 { Some(Rate::ALL[generation as usize - 1]) } else { None }
    }

    /// The generation that introduced this rate, 1 to 5.
    #[must_use]
    pub const fn generation(self) -> u8 {
        self as u8 + 1
    }

    /// True at 2.5 and 5 GT/s (8b/10b), false above (128b/130b).
    #[must_use]
    pub const fn is_8b10b(self) -> bool {
        matches!(self, Rate::Gt2_5 | Rate::Gt5)
    }

    /// Transfer rate of a lane in units of 100 MT/s: 25 for 2.5 GT/s.
    #[must_use]
    pub const fn gigatransfers_x10(self) -> u64 {
        match self {
            Rate::Gt2_5 => 25,
            Rate::Gt5 => 50,
            Rate::Gt8 => 80,
            Rate::Gt16 => 160,
            Rate::Gt32 => 320,
        }
    }

    /// Symbol time (one byte on one lane) in picoseconds, with encoding: 10 unit intervals for 8b/10b, 8 x 130/128 for
    /// 128b/130b.
    #[must_use]
    pub const fn symbol_time_ps(self) -> Ratio {
        match self {
            Rate::Gt2_5 => Ratio { num: 4_000, den: 1 },
            Rate::Gt5 => Ratio { num: 2_000, den: 1 },
            Rate::Gt8 => Ratio { num: 16_250, den: 16 },
            Rate::Gt16 => Ratio { num: 16_250, den: 32 },
            Rate::Gt32 => Ratio { num: 16_250, den: 64 },
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x10 = self.gigatransfers_x10();
        if x10.is_multiple_of(10) {
            write!(f, "{} GT/s", x10 / 10)
        } else {
            write!(f, "{}.{} GT/s", x10 / 10, x10 % 10)
        }
    }
}

/// Number of lanes: 1, 2, 4, 8, 12, 16 or 32 (`PCIe 5.0 §4.2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Width(u8);

impl Width {
    /// Every width, narrowest first.
    pub const ALL: [Width; 7] = [Width(1), Width(2), Width(4), Width(8), Width(12), Width(16), Width(32)];

    /// The width of `lanes` lanes; `None` for other numbers of lanes.
    pub const fn new(lanes: u8) -> Option<Width> {
        match lanes {
            1 | 2 | 4 | 8 | 12 | 16 | 32 => Some(Width(lanes)),
            _ => None,
        }
    }

    /// The number of lanes.
    #[must_use]
    pub const fn lanes(self) -> u8 {
        self.0
    }
}

/// Ack latency limit in symbol times, which is also the UpdateFC interval (`PCIe 3.0 §3.5.3.1`, §2.6.1.2):
/// `(MPS + 28) * AckFactor / width + InternalDelay`, rounded down.
pub const fn ack_latency_limit(rate: Rate, width: Width, mps: Mps) -> u32 {
    let small = mps.bytes() <= 256;
    // Number of TLPs of maximum length per Ack, times 10.
    let ack_factor_x10 = match width.lanes() {
        1..=4 if small => 14,
        8 if small => 25,
        1..=8 => 10,
        _ if small => 30,
        _ => 20,
    };
    let internal_delay = match rate {
        Rate::Gt2_5 => 19,
        Rate::Gt5 => 70,
        Rate::Gt8 | Rate::Gt16 | Rate::Gt32 => 115,
    };
    // The delay is an integer, so rounding the quotient down is the same as rounding the sum down.
    (mps.bytes() + 28) * ack_factor_x10 / (10 * width.lanes() as u32) + internal_delay
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PCIe 5.0 Table 3-7` (2.5 GT/s), 3-8 (5 GT/s) and 3-9 (8 GT/s): one row per MPS, columns x1 to x32.
    #[test]
    fn ack_latency_limit_matches_tables() {
        let gt2_5 = [
            (128, [237, 128, 73, 67, 58, 48, 33]),
            (256, [416, 217, 118, 107, 90, 72, 45]),
            (512, [559, 289, 154, 86, 109, 86, 52]),
            (1024, [1071, 545, 282, 150, 194, 150, 84]),
            (2048, [2095, 1057, 538, 278, 365, 278, 148]),
            (4096, [4143, 2081, 1050, 534, 706, 534, 276]),
        ];
        for (mps, row) in gt2_5 {
            let mps = Mps::new(mps).unwrap();
            for (width, limit) in Width::ALL.into_iter().zip(row) {
                assert_eq!(ack_latency_limit(Rate::Gt2_5, width, mps), limit, "{width} {mps}");
                assert_eq!(ack_latency_limit(Rate::Gt5, width, mps), limit + 51, "{width} {mps}");
                assert_eq!(ack_latency_limit(Rate::Gt8, width, mps), limit + 96, "{width} {mps}");
            }
        }
        let limit =
            |lanes, mps| ack_latency_limit(Rate::Gt8, Width::new(lanes).unwrap(), Mps::new(mps).unwrap());
        assert_eq!((limit(8, 256), limit(16, 512), limit(1, 128)), (203, 182, 333));
    }
}
