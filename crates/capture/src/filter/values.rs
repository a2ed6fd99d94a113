// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the values of a filter. Each function returns `None` for an invalid value, and never panics.

use std::collections::BTreeSet;
use std::ops::Range;
use tlp::FORMATS;

/// Parses a decimal number, or a hexadecimal one after 0x.
pub(super) fn integer(text: &str) -> Option<u128> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    let legal = digits.chars().all(|c| c.is_ascii_alphanumeric());
    u64::from_str_radix(digits, radix).ok().filter(|_| legal).map(u128::from)
}

/// Parses a range; its end is exclusive.
pub(super) fn range(text: &str) -> Option<Range<u128>> {
    let (first, end) = text.split_once("..")?;
    let (first, end) = (integer(first)?, integer(end)?);
    (first < end).then_some(first..end)
}

/// The names of the types of records.
pub(super) fn types() -> impl Iterator<Item = &'static str> {
    let tlps: BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    tlps.into_iter().chain(["dllp", "other", "error"])
}

/// Returns true if the text may be the name of a DLLP.
pub(super) fn is_dllp(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}
