// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds numbers, times and functions in text, and shortens words for messages.

/// Reads a hexadecimal number: `0x` and up to 8 digits, or exactly 8 digits without `0x`.
pub(super) fn dword(text: &str) -> Option<u32> {
    let digits = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if (1..=8).contains(&digits.len()) => digits,
        None if text.len() == 8 => text,
        _ => return None,
    };
    is_hex(digits).then(|| u32::from_str_radix(digits, 16).ok())?
}

pub(super) fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads decimal seconds such as `12.345678`. Returns picoseconds.
pub(super) fn seconds(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_decimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 15
        || fraction.len() > 15
        || !is_decimal(whole)
        || !is_decimal(fraction)
    {
        return None;
    }
    let ps: String = fraction.chars().chain(std::iter::repeat('0')).take(12).collect();
    Some(whole.parse::<u128>().ok()? * 1_000_000_000_000 + ps.parse::<u128>().ok()?)
}

/// Reads the time in brackets at the start of a line, as kernels print it. Returns picoseconds and the rest of the
/// line.
pub(super) fn bracketed_time(line: &str) -> Option<(u128, &str)> {
    let (inside, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((seconds(inside.trim())?, rest))
}

/// Finds the first function in a text, such as `0000:80:1b.4` or `80:1b.4`. Returns its start and end.
pub(super) fn function(text: &str) -> Option<(usize, usize)> {
    text.match_indices('.').find_map(|(dot, _)| {
        let is_function = text[dot + 1..].starts_with(|c: char| ('0'..='7').contains(&c));
        let after = text[dot + 1..].chars().nth(1);
        let ends = after.is_none_or(|c| !c.is_ascii_alphanumeric());
        let start = start_of_function(text.as_bytes().get(..dot)?)?;
        (is_function && ends).then_some((start, dot + 2))
    })
}

/// Returns the start of `[DDDD:]BB:DD` at the end of `text`. Domains have at least four digits.
fn start_of_function(text: &[u8]) -> Option<usize> {
    let digits_before = |end: usize| text[..end].iter().rev().take_while(|b| b.is_ascii_hexdigit()).count();
    let colon_before = |at: usize| at.checked_sub(1).filter(|at| text[*at] == b':');
    let device = text.len().checked_sub(2).filter(|_| digits_before(text.len()) == 2)?;
    let bus_end = colon_before(device)?;
    let bus = bus_end.checked_sub(2).filter(|_| digits_before(bus_end) == 2)?;
    match colon_before(bus) {
        None => Some(bus),
        Some(end) => {
            Some(digits_before(end)).filter(|digits| (4..=8).contains(digits)).map(|digits| end - digits)
        }
    }
}

/// Returns a word for messages, shortened if it is long.
pub(super) fn cut(word: &str) -> String {
    let start = cut_to(word, 20);
    format!("{start}{}", if start.len() < word.len() { "…" } else { "" })
}

/// Returns the first `characters` of a text.
pub(super) fn cut_to(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_functions_in_text() {
        let rows = [
            ("pcieport 0000:80:1b.4: AER:", Some("0000:80:1b.4")),
            ("pcieport 10003:00:00.0: AER", Some("10003:00:00.0")),
            ("31:00.0 Ethernet controller", Some("31:00.0")),
            ("at 09:59:09.7 o'clock: 02:1f.7", Some("02:1f.7")),
            ("version 1.2", None),
            ("01:00.8", None),
            ("01:00.", None),
            (".", None),
            ("é.0 é:00.0", None),
        ];
        for (text, found) in rows {
            let got = function(text).map(|(start, end)| &text[start..end]);
            assert_eq!(got, found, "{text}");
        }
    }

    #[test]
    fn parses_times_and_dwords_or_rejects_them() {
        assert_eq!(seconds("58.299822"), Some(58_299_822_000_000));
        assert_eq!(seconds("0.000000000001"), Some(1));
        assert_eq!([seconds("1.2.3"), seconds("-1"), seconds("")], [None; 3]);
        assert_eq!(bracketed_time("[   58.3] x"), Some((58_300_000_000_000, " x")));
        assert_eq!(bracketed_time("[Mon Sep 22 09:59:09 2025] x"), None);
        assert_eq!(
            [dword("0x1"), dword("4a004010"), dword("4a00"), dword("0x"), dword("0x123456789")],
            [Some(1), Some(0x4a00_4010), None, None, None]
        );
    }
}
