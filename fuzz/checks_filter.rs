// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for any text as a filter: called by the fuzz target, and by the tests of `riser-capture` on every seed.
//! What is broken panics.

use riser_capture::{Filter, Outcome, Reader, Sieve};

/// Any text is an expression or a message: an expression reads back from what it prints and prints the same, and says
/// something of every record; a message names a column of the text. Says whether it is an expression.
pub(crate) fn filter(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let filter = match text.parse::<Filter>() {
        Ok(filter) => filter,
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.column) && !error.what.is_empty());
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
    // Parentheses around every part may nest too deep to be read again.
    match filter.to_string().parse::<Filter>() {
        Ok(again) => assert_eq!(again.to_string(), filter.to_string()),
        Err(error) => assert!(error.what.contains("within one another"), "{error}"),
    }
    true
}
