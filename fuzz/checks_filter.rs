// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the filter parser for any text. The fuzz target and the tests of `riser-capture` call them on every
//! seed. A failed check panics.

use riser_capture::{Filter, FilterErrorKind, Outcome, Reader, Sieve};

/// Parses any text as a filter. The printed form of an accepted expression parses again, and then prints the same. The
/// expression has a result for every record. An error message has a column of the text. Returns true for an expression.
pub(crate) fn filter(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let filter = match text.parse::<Filter>() {
        Ok(filter) => filter,
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.column));
            assert!(error.to_string().ends_with('^'));
            return false;
        }
    };
    let capture: &[u8] = include_bytes!("seeds/capture_read/riser.pcapng");
    let mut reader = Reader::new(capture).expect("a capture");
    let mut sieves = [Sieve::new(Some(filter.clone())), Sieve::new(None)];
    while let Some(record) = reader.next_record().expect("memory") {
        let [kept, all] = sieves.each_mut().map(|sieve| sieve.keeps(&record));
        let alone = filter.holds(&record, &Outcome::default());
        assert!(all && (filter.asks_for_outcome() || kept == alone), "{filter}: record {}", record.number);
    }
    // Printing adds parentheses, which may be nested too deeply to be parsed again.
    match filter.to_string().parse::<Filter>() {
        Ok(again) => assert_eq!(again.to_string(), filter.to_string()),
        Err(error) => assert_eq!(error.kind, FilterErrorKind::TooDeep, "{error}"),
    }
    true
}
