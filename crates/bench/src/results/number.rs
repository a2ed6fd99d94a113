// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers in the form of the public files: integers without a point, all others like Python's floats. Numbers are
//! never rounded.

/// Returns the shortest text that reads back as the same number, in the form of Python's `repr`: with a point or an exponent. Exponents below -4 and from 16 on
/// are written, with at least two digits.
pub(super) fn float(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-4..1e16).contains(&size) {
        let text = format!("{value:?}");
        let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
        return nearest(text, format!("{value:.digits$}"), value);
    }
    let text = format!("{value:e}");
    let digits =
        text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    let text = nearest(text, format!("{value:.digits$e}"), value);
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// Returns the text that is nearer to the number, of two of the same length. On a tie it returns the even one, as Python does: `1.0728836059570312e-06`, not
/// `...13e-06`.
fn nearest(shortest: String, rounded: String, value: f64) -> String {
    if rounded.parse() == Ok(value) { rounded } else { shortest }
}

/// Parses a finite number that is not negative.
pub(super) fn parse(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

/// Largest integer of a file. Above it, floats cannot hold every integer.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Parses an integer, which may be written as a float: `1572864.0`.
pub(super) fn parse_integer(text: &str) -> Option<u64> {
    let text = text.trim();
    let whole = |n: &f64| n.fract() == 0.0 && *n <= MAX_INTEGER;
    text.parse().ok().or_else(|| parse(text).filter(whole).map(|n| n as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the published files.
    #[test]
    fn prints_floats_as_python_does() {
        for (value, text) in [
            (2267.5, "2267.5"),
            (464.0, "464.0"),
            (2488.8094577789307, "2488.8094577789307"),
            (464.0 / 1.2, "386.6666666666667"),
            (1.0728836059570312e-6, "1.0728836059570312e-06"),
            (0.0001, "0.0001"),
            (0.0, "0.0"),
            (1e16, "1e+16"),
            (1234567890123456.0, "1234567890123456.0"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn parses_only_finite_non_negative_numbers() {
        assert_eq!(parse_integer("1572864.0"), Some(1_572_864));
        assert_eq!(parse_integer("67108864"), Some(67_108_864));
        for text in ["", "-1", "1.5", "nan", "inf", "1e300", "0x10", "eight"] {
            assert_eq!(parse_integer(text), None, "{text}");
        }
        assert_eq!(parse("1.07e-06"), Some(1.07e-6));
        assert_eq!(parse("-0.5"), None);
    }
}
