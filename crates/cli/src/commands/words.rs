// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments that are one of a few words. Never says what a command does with one.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use model::Addressing;
use plug::MemoryKind;

/// A word, what help says of it, and what it means.
pub(super) type Word<T> = (&'static str, &'static str, T);

/// Address widths of requests in bits, by where the window lies.
pub(super) const MEMORIES: [Word<MemoryKind>; 2] = [
    ("32", "Below 4 GiB: three DW of header", MemoryKind::Low),
    ("64", "From 4 GiB on: four DW of header", MemoryKind::High),
];

/// The same, by the form of headers.
pub(super) const ADDRESSINGS: [Word<Addressing>; 2] =
    [("32", "Below 4 GiB: headers of 3 DW", Addressing::A32), ("64", "Headers of 4 DW", Addressing::A64)];

/// Reads one of these words.
pub(super) fn one_of<T>(words: &'static [Word<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let legal = words.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(legal).try_map(|text| {
        words.iter().find(|(word, ..)| *word == text).map(|(.., meaning)| *meaning).ok_or(text)
    })
}
