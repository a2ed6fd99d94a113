// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments whose value is one of a few words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use model::Addressing;
use plug::MemoryKind;

/// A word, its help text, and the value it stands for.
pub(super) type Word<T> = (&'static str, &'static str, T);

/// Address widths of requests in bits. The address of the window determines the width.
pub(super) const MEMORIES: [Word<MemoryKind>; 2] = [
    ("32", "Below 4 GiB: 3-DW headers", MemoryKind::Low),
    ("64", "At or above 4 GiB: 4-DW headers", MemoryKind::High),
];

/// Address widths of requests in bits, by header format.
pub(super) const ADDRESSINGS: [Word<Addressing>; 2] =
    [("32", "Below 4 GiB: 3-DW headers", Addressing::A32), ("64", "4-DW headers", Addressing::A64)];

/// Returns a parser that accepts one of these words.
pub(super) fn one_of<T>(words: &'static [Word<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let legal = words.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(legal).try_map(|text| {
        words.iter().find(|(word, ..)| *word == text).map(|(.., meaning)| *meaning).ok_or(text)
    })
}
