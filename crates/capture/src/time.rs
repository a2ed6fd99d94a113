// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of frames, and their resolution.

const PS_PER_SECOND: u128 = 1_000_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// Picoseconds since 1970-01-01 00:00 UTC; in riser's own captures since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Timestamp(u128);

/// As picoseconds.
impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Virtual times fit into 64 bits, which print much faster.
        match u64::try_from(self.0) {
            Ok(ps) => serializer.serialize_u64(ps),
            Err(_) => serializer.serialize_u128(self.0),
        }
    }
}

impl Timestamp {
    /// The epoch: 1970-01-01 00:00 UTC, or the start of the run.
    pub const ZERO: Timestamp = Timestamp(0);

    /// `ps` picoseconds after the epoch.
    pub const fn from_ps(ps: u128) -> Timestamp {
        Timestamp(ps)
    }

    /// Returns the time `offset_s` seconds plus `units` of `resolution` after the epoch. The result is limited to
    /// the range from the epoch to 2^128 - 1 ps.
    pub fn from_units(units: u64, resolution: Resolution, offset_s: i64) -> Timestamp {
        let ps = resolution.to_ps(units);
        if offset_s == 0 {
            return Timestamp(ps);
        }
        let offset = u128::from(offset_s.unsigned_abs()) * PS_PER_SECOND;
        Timestamp(if offset_s < 0 { ps.saturating_sub(offset) } else { ps.saturating_add(offset) })
    }

    /// Picoseconds since the epoch.
    #[must_use]
    pub const fn as_ps(self) -> u128 {
        self.0
    }

    /// Picoseconds since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since_ps(self, earlier: Timestamp) -> u128 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns whole seconds and the remaining picoseconds.
    #[must_use]
    pub fn split(self) -> (u128, u64) {
        // Virtual times fit into 64 bits, for which division is fast.
        match u64::try_from(self.0) {
            Ok(ps) => (u128::from(ps / 1_000_000_000_000), ps % 1_000_000_000_000),
            Err(_) => (self.0 / PS_PER_SECOND, (self.0 % PS_PER_SECOND) as u64),
        }
    }

    /// Returns true for times within 2^64 ps (213 days) after the epoch. Such times can only be virtual.
    #[must_use]
    pub const fn is_virtual(self) -> bool {
        self.0 <= u64::MAX as u128
    }

    /// Appends the time in seconds with twelve decimal places, without a day.
    pub(crate) fn append_seconds(self, out: &mut String) {
        let (seconds, ps) = self.split();
        append_decimal(out, u64::try_from(seconds).unwrap_or(u64::MAX), 1);
        out.push('.');
        append_decimal(out, ps, 12);
    }

    /// Appends the time in the format of the NetTLP paper's Figure 15: time of day in UTC, or for virtual time the
    /// seconds since the start of the run. `digits` is the number of decimal places, 1 to 12.
    pub fn append_to(self, out: &mut String, digits: u8) {
        let (seconds, ps) = self.split();
        let digits = digits.clamp(1, 12);
        if self.is_virtual() {
            append_decimal(out, seconds as u64, 1);
        } else {
            let of_day = (seconds % u128::from(SECONDS_PER_DAY)) as u64;
            append_decimal(out, of_day / 3600, 2);
            out.push(':');
            append_decimal(out, of_day / 60 % 60, 2);
            out.push(':');
            append_decimal(out, of_day % 60, 2);
        }
        out.push('.');
        append_decimal(out, ps / 10u64.pow(12 - u32::from(digits)), usize::from(digits));
    }
}

/// Appends `value` in decimal with at least `width` digits. Faster than `write!`, since each line has about a dozen
/// numbers.
pub(crate) fn append_decimal(out: &mut String, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    let at = at.min(digits.len() - width.min(digits.len()));
    out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

/// The unit of an interface's timestamps (pcapng `if_tsresol`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Resolution {
    /// 10^-n seconds, n up to 127.
    Decimal(u8),
    /// 2^-n seconds, n up to 127.
    Binary(u8),
}

impl Resolution {
    /// 10^-6 s, the default.
    pub const MICROSECONDS: Resolution = Resolution::Decimal(6);
    /// 10^-9 s.
    pub const NANOSECONDS: Resolution = Resolution::Decimal(9);
    /// 10^-12 s, used by riser.
    pub const PICOSECONDS: Resolution = Resolution::Decimal(12);

    /// Returns the resolution for the byte of the option. Bit 7 selects binary; bits 6:0 are the negative exponent.
    pub const fn from_byte(byte: u8) -> Resolution {
        if byte & 0x80 == 0 { Resolution::Decimal(byte) } else { Resolution::Binary(byte & 0x7f) }
    }

    /// Returns the number of decimal places of a second that show this resolution: 1 to 12.
    #[must_use]
    pub const fn digits(self) -> u8 {
        let digits = match self {
            Resolution::Decimal(n) => n,
            // 2^-10 s is about 10^-3 s.
            Resolution::Binary(n) => (n as u16 * 3 / 10) as u8 + 1,
        };
        if digits == 0 {
            1
        } else if digits > 12 {
            12
        } else {
            digits
        }
    }

    fn to_ps(self, units: u64) -> u128 {
        let wide = u128::from(units);
        match self {
            Resolution::Decimal(12) => wide,
            Resolution::Decimal(9) => wide * 1_000,
            Resolution::Decimal(6) => wide * 1_000_000,
            Resolution::Decimal(n @ 0..=12) => wide * 10u128.pow(u32::from(12 - n)),
            Resolution::Decimal(n) => 10u128.checked_pow(u32::from(n - 12)).map_or(0, |unit| wide / unit),
            Resolution::Binary(n) => (wide * PS_PER_SECOND) >> n,
        }
    }
}

/// Parses a number with an optional fraction and a unit (ps, ns, us, ms, s) as in `1.5us`. Returns picoseconds; `None`
/// for other text.
pub fn duration_ps(text: &str) -> Option<u128> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let digits: usize = match unit {
        "ps" => 0,
        "ns" => 3,
        "us" => 6,
        "ms" => 9,
        "s" => 12,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > digits {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let fraction: u128 = format!("{fraction:0<digits$}0").parse().ok()?;
    Some(u128::from(whole) * 10u128.pow(digits as u32) + fraction / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_units_to_picoseconds() {
        let rows = [
            (6, 3, 0, 3_000_000),
            (9, 3, 0, 3_000),
            (12, 3, 0, 3),
            (0, 3, 0, 3_000_000_000_000),
            (15, 3_999, 0, 3),
            (127, u64::MAX, 0, 0),
            (0x80 | 10, 1, 0, 976_562_500),
            (0x80, 2, 0, 2_000_000_000_000),
            (0xff, u64::MAX, 0, 0),
            (9, 0, 2, 2_000_000_000_000),
            (0, 5, -3, 2_000_000_000_000),
            (0, 5, -9, 0),
        ];
        for (byte, units, offset, ps) in rows {
            let got = Timestamp::from_units(units, Resolution::from_byte(byte), offset);
            assert_eq!(got.as_ps(), ps, "if_tsresol {byte:#x}, {units} units");
        }
        let far = Timestamp::from_units(u64::MAX, Resolution::Decimal(0), i64::MAX);
        assert!(far > Timestamp::from_units(u64::MAX, Resolution::Decimal(0), 0));
    }

    #[test]
    fn prints_times_of_day_and_virtual_times() {
        // The first line of the paper's Figure 15, on 2019-09-18.
        let epoch_us = 1_568_850_708_210_015u64;
        let rows = [
            (Timestamp::from_units(epoch_us, Resolution::MICROSECONDS, 0), 6, "23:51:48.210015"),
            (Timestamp::from_ps(1_000_000_000_001), 12, "1.000000000001"),
            (Timestamp::from_ps(999), 9, "0.000000000"),
            (Timestamp::ZERO, 0, "0.0"),
        ];
        for (time, digits, text) in rows {
            let mut out = String::new();
            time.append_to(&mut out, digits);
            assert_eq!(out, text);
        }
    }
}
