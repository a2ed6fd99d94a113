// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a protocol analyzer has, in headless Chromium: bytes, transactions that unfold, time without what is idle,
//! cursors, bookmarks, order. Without Chromium these tests say that they skip.

mod common;

use capture::Kind;
use common::browser::{Browser, Turn};
use common::exchange::exchange;
use common::{for_each_record, generate, nettlp_captures, page_file};
use serde_json::json;

fn no_problems(browser: &mut Browser) {
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The lines of data that are shown, under their head.
const DUMPS: &str = "Object.fromEntries([...document.querySelectorAll('#details .data')].map((s) => \
                     [s.querySelector('h3').textContent, s.querySelector('pre')?.textContent ?? '']))";

#[test]
fn data_are_shown_where_they_stand() {
    let Some(mut browser) = Turn::take() else { return };
    browser.open(&page_file("data", &exchange(1)), "tab=summary&select=1");
    // Three bytes before the first one are not enabled.
    let data = "100002000  00 00 00 72  69 73 65 72  ...riser\n";
    assert_eq!(browser.eval(DUMPS), json!({"Data": data}));
    let off = "[...document.querySelectorAll('.dump .off')].map((e) => e.textContent)";
    assert_eq!(browser.eval(off), json!(["00", "00", "00", ".", ".", "."]));
    // Both completions together, at the read's address.
    browser.eval("riser.select(4); riser.idle()");
    let read = "103a  30 31 32 33  34 35 36 37  01234567\n1042  38 39                     89\n";
    assert_eq!(browser.eval(DUMPS), json!({"Data of the read": read}));
    browser.eval("riser.select(7); riser.idle()");
    assert_eq!(
        browser.eval(DUMPS),
        json!({"Data": "0000  36 37 38 39               6789\n", "Data of the read": read})
    );
    no_problems(&mut browser);
}

/// Every byte that a capture has, as long as the page keeps all.
#[test]
fn every_byte_is_in_the_page() {
    let Some(mut browser) = Turn::take() else { return };
    let mut captures = vec![exchange(3)];
    captures.extend(nettlp_captures().first().map(|path| std::fs::read(path).unwrap()));
    for bytes in captures {
        browser.open(&page_file("bytes", &bytes), "tab=summary");
        let shown = browser.eval(
            "Promise.all(Array.from({ length: riser.app.store.count }, (_, row) => riser.payload(row)))
               .then((all) => all.map((bytes) => [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('')))",
        );
        let mut row = 0;
        for_each_record(&bytes, |record| {
            let due = match &record.kind {
                Kind::Tlp(tlp) => tlp.data.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => String::new(),
            };
            assert_eq!(shown[row], due, "record {}", record.number);
            row += 1;
        });
        assert_eq!(shown.as_array().map(Vec::len), Some(row));
    }
    no_problems(&mut browser);
}

#[test]
fn what_is_not_in_the_page_is_said() {
    let Some(mut browser) = Turn::take() else { return };
    // Of these only lengths were captured.
    browser.open(&page_file("lengths", &generate::generated(100)), "tab=summary");
    browser.eval(
        "riser.setFilter('type=MWr'); riser.select(riser.app.store.number[riser.app.rows[0]]); riser.idle()",
    );
    let said = "document.querySelector('#details .data .said').textContent";
    assert_eq!(browser.eval(said), "None of 256 B was captured.");
    // A page that kept the beginning of data alone.
    browser.open(&page_file("part", &exchange(1)), "tab=summary");
    browser.eval("riser.app.store.meta.payloads[0].bytes = 4; riser.select(1); riser.idle()");
    let due =
        "The first 4 of 8 B are in this page, which keeps 6 MiB of packed data; riser trace -x shows all.";
    assert_eq!(browser.eval(said), due);
    no_problems(&mut browser);
}
