// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of registers: fields do not overlap, and every writable bit has an effect or a reason for having
//! none.

use riser_config::reference::{bit_ranges, markdown};
use riser_config::register::Attribute;
use riser_config::{inert, structures};

#[test]
fn fields_do_not_overlap_and_words_are_sorted() {
    for structure in structures() {
        let mut last = None;
        for word in structure.words {
            assert!(last < Some(word.dw), "{}: DW {}", structure.name, word.dw);
            last = Some(word.dw);
            let mut taken = 0;
            for field in word.fields {
                assert_ne!(field.bits, 0, "{}: {}", word.name, field.name);
                assert_eq!(taken & field.bits, 0, "{}: {} overlaps", word.name, field.name);
                taken |= field.bits;
            }
        }
    }
}

/// The rule of the reference: every writable bit has an effect, or a reason for having none.
#[test]
fn every_writable_field_is_explained() {
    let mut writable = 0;
    for structure in structures() {
        for field in structure.words.iter().flat_map(|w| w.fields) {
            let explained = field.does.is_empty() == field.inert.is_some();
            if field.attribute.is_writable() {
                assert!(explained, "{}: {}", structure.name, field.name);
                writable += 1;
            } else {
                assert!(
                    field.inert.is_none() && field.effects.is_empty(),
                    "{}: {}",
                    structure.name,
                    field.name
                );
            }
        }
    }
    assert!(writable > 100, "{writable} writable fields");
}

#[test]
fn inert_bits_have_reasons() {
    let all = inert();
    let cache_line = all.iter().find(|i| i.field == "Cache Line Size").unwrap();
    assert_eq!((cache_line.bits, cache_line.capability), (0xff, "Type 0 configuration header"));
    assert!(all.iter().all(|i| i.why.len() > 10));
}

#[test]
fn bits_are_written_as_ranges() {
    for (bits, text) in [(0x8000_0001, "31, 0"), (0xff00, "15:8"), (!0, "31:0"), (0b1011, "3, 1:0"), (0, "")]
    {
        assert_eq!(bit_ranges(bits), text, "{bits:#x}");
    }
}

#[test]
fn page_lists_every_field() {
    let page = markdown();
    let fields: usize = structures().iter().flat_map(|s| s.words).map(|w| w.fields.len()).sum();
    let rows = page.lines().filter(|l| l.starts_with("| ") && l.contains("h | ")).count();
    assert_eq!(rows, fields);
    assert!(page.contains(
        "| 3ch | Interrupt Line, Interrupt Pin, Bridge Control | 22 | Secondary Bus Reset | RW | S, R | hot"
    ));
    assert!(page.contains(
        "| Max_Read_Request_Size | RW | E, S, R | maximum size of read requests; inert in switch ports: a switch port sends"
    ));
    assert_eq!(Attribute::Rw1cs.to_string(), "RW1CS");
}
