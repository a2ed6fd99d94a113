// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables in `docs/reference/trace.md` are generated, and contain every field of the JSON objects.

use crate::common::{DAMAGED, Link, objects, read_and_answer, sample, write};
use riser_capture::filter::terms::{FIELDS, Field};
use riser_capture::transactions::{Tracker, append_json};
use riser_capture::{Mark, Reader};
use std::fs;

const PAGE: &str = "docs/reference/trace.md";
const RECORD: &str = include_str!("../../src/render/json.rs");
const VIOLATION: &str = include_str!("../../src/check/render.rs");
const TRANSACTION: &str = include_str!("../../src/transactions/render.rs");

/// The table in the module documentation of a source file.
fn table_of(source: &str) -> String {
    let rows =
        source.lines().map_while(|line| line.strip_prefix("//").map(|rest| rest.trim_start_matches('!')));
    let text = |row: &str| row.trim().replace("[`Errors::names`](crate::matcher::Errors::names)", "above");
    rows.map(text).filter(|row| row.starts_with('|')).map(|row| row + "\n").collect()
}

fn table_of_filter() -> String {
    let head = "| term | values | holds for, or is |\n|---|---|---|\n".to_owned();
    FIELDS.iter().fold(head, |table, Field { name, legal, what, .. }| {
        table + &format!("| `{name}` | {legal} | {what} |\n")
    })
}

/// The page with `table` inserted between the markers of `name`.
fn with_table(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (before, rest) = page.split_once(&begin).unwrap();
    let (_, behind) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{table}{end}{behind}")
}

#[test]
fn page_matches_tables_of_code() {
    let old = fs::read_to_string(testkit::root().join(PAGE)).unwrap();
    let tables = [
        ("filter", table_of_filter()),
        ("record", table_of(RECORD)),
        ("transaction", table_of(TRANSACTION)),
        ("violation", table_of(VIOLATION)),
    ];
    let new = tables.iter().fold(old, |page, (name, table)| with_table(&page, name, table));
    testkit::generated(PAGE, &new);
}

/// The words in backquotes in the first column.
fn names(table: &str) -> Vec<&str> {
    let cells = table.lines().filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn tables_have_every_field() {
    let (read, answer) = read_and_answer(1, 0x1000, 64);
    let mut link = Link::new();
    link.ack(false, 4095).ack(true, 4095).tlp(true, &read, DAMAGED).again(true, &read, 0, Mark::default());
    link.ack(false, 0).tlp(false, &answer, Mark::default()).ack(true, 0).tlp(
        true,
        &write(0, 64),
        Mark::default(),
    );
    link.tlp(false, &answer, Mark::default());
    let capture = link.finish();
    let table = table_of(RECORD);
    let known = names(&table);
    let mut count = 0;
    for object in [objects(&sample()), objects(&capture), objects(&sample()[..600])].concat() {
        for field in object.as_object().unwrap().keys() {
            assert!(known.contains(&field.as_str()), "{field}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");

    let table = table_of(TRANSACTION);
    let known = names(&table);
    let (mut reader, mut tracker, mut fields) = (Reader::new(&capture[..]).unwrap(), Tracker::new(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        tracker.see(&record, 0);
    }
    tracker.finish();
    while let Some(t) = tracker.next_ended() {
        let mut line = String::new();
        append_json(&t, &mut line);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        for field in object.as_object().unwrap().keys() {
            assert!(known.contains(&field.as_str()), "{field}");
            fields += 1;
        }
    }
    assert!(fields > 40, "{fields}");
}
