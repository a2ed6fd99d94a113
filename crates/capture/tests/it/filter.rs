// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter: the records that each term matches, the errors of expressions, and robustness.

use crate::checks_filter as checks;
use crate::common::{DAMAGED, Link, completion, kept, memory, read_and_answer, reader, sample, write};
use proptest::prelude::*;
use riser_capture::filter::terms::{FIELDS, Field};
use riser_capture::transactions::Tracker;
use riser_capture::{Filter, Mark, Outcome};
use tlp::{Data, MemoryOp, Prefix, Prefixes, Status, Tlp};

/// Record 1: MRd of 8 B at 0x1000 by 01:00.0, tag 5, upstream. 2: its CplD, downstream. 3: UpdateFC-P, upstream. 4:
/// MWr of the host, 00:00.0, tag 0x13, 4 B at 0xa0000010, downstream. 5: MWr of 256 B at 0x2_0000_0000, tag 6,
/// upstream.
#[test]
fn terms_match_records_of_sample() {
    let rows: [(&str, &[u64]); 66] = [
        ("type=MRd", &[1]),
        ("type=mwr", &[4, 5]),
        ("type!=MWr", &[1, 2, 3]),
        ("type=dllp", &[3]),
        ("type=error", &[]),
        ("tag=5", &[1, 2]),
        ("tag=0x13", &[4]),
        ("tag!=5", &[4, 5]),
        ("not tag=5", &[3, 4, 5]),
        ("tag=5..7", &[1, 2, 5]),
        ("tag>=6", &[4, 5]),
        ("tag<6", &[1, 2]),
        ("requester=01:00.0", &[1, 2, 5]),
        ("requester!=01:00.0", &[4]),
        ("completer=00:00.0", &[2]),
        ("addr=0x1000..0x2000", &[1]),
        ("addr=0x1007", &[1]),
        ("addr=0x1008", &[]),
        ("addr=0xfff..0x1001", &[1]),
        ("addr=0x2000000ff", &[5]),
        ("addr>=0xa0000010", &[4, 5]),
        ("addr!=0x1000..0x2000", &[4, 5]),
        ("status=success", &[2]),
        ("status=SC", &[2]),
        ("status!=success", &[]),
        ("error", &[]),
        ("time>=500.001ns", &[2]),
        ("time>500001ps", &[]),
        ("time<1us", &[2]),
        ("latency=500.001ns", &[2]),
        ("timestamp<1.6us", &[1, 2]),
        ("timestamp=1us..2us", &[1, 2, 3]),
        ("timestamp>1s", &[4, 5]),
        ("dir=up", &[1, 3, 5]),
        ("dir=downstream", &[2, 4]),
        ("len=2", &[1, 2]),
        ("len>2", &[5]),
        ("bytes=8", &[1, 2]),
        ("bytes>=256", &[5]),
        ("bytes=4..9", &[1, 2, 4]),
        ("tc=0", &[1, 2, 4, 5]),
        ("vc=0", &[3]),
        ("class=P", &[3, 4, 5]),
        ("class=NP", &[1]),
        ("class=Cpl", &[2]),
        ("origin=host", &[4]),
        ("interface=link0:upstream", &[1, 3, 5]),
        ("interface=\"link0:upstream\"", &[1, 3, 5]),
        ("interface!=link0:upstream", &[2, 4]),
        ("link=0", &[1, 2, 3, 4, 5]),
        ("number=2..4", &[2, 3]),
        ("number<=2", &[1, 2]),
        ("dllp", &[3]),
        ("dllp=UpdateFC", &[3]),
        ("dllp=ack", &[]),
        ("tlp", &[1, 2, 4, 5]),
        ("request", &[1, 4, 5]),
        ("completion", &[2]),
        ("poisoned or ecrc or prefix or lost or replay", &[]),
        ("pasid=0..1048576", &[]),
        ("not type=MRd and tag=5", &[2]),
        ("!(type=MRd && tag=5)", &[2, 3, 4, 5]),
        ("type=MRd or type=CplD and tag=6", &[1]),
        ("(type=MRd || type=CplD) and tag=6", &[]),
        ("not not type=MRd", &[1]),
        ("type==MRd", &[1]),
    ];
    let capture = sample();
    for (expression, numbers) in rows {
        assert_eq!(kept(&capture, expression), numbers, "{expression}");
    }
}

/// Replays, damage, prefixes and failures on a link.
#[test]
fn terms_match_lost_and_retransmitted_records() {
    let (read, answer) = read_and_answer(1, 0x1000, 64);
    let failed = Tlp::new(completion(0x0100, 2, 4, None, Status::UnsupportedRequest), Data::NONE);
    let mut poisoned = write(0x4000, 64);
    poisoned.repr.ep = true;
    let with_pasid =
        Tlp { prefixes: Prefixes::new(&[Prefix::pasid(0x12345, false, false)]).unwrap(), ..write(0, 4) };
    let sound = Mark::default();
    let mut link = Link::new();
    link.tlp(true, &read, DAMAGED).again(true, &read, 0, sound).again(true, &read, 0, sound); // 1 to 3
    link.tlp(false, &answer, sound).tlp(false, &failed, sound); // 4, 5
    link.tlp(true, &poisoned, sound).tlp(true, &with_pasid, sound).ack(true, 1); // 6 to 8
    let capture = link.finish();
    let rows: [(&str, &[u64]); 11] = [
        ("damaged", &[1]),
        ("dropped", &[]),
        ("lost", &[1]),
        ("replay", &[3]),
        ("error", &[1, 5, 6]),
        ("status!=success", &[5]),
        ("status=UR", &[5]),
        ("poisoned", &[6]),
        ("prefix", &[7]),
        ("pasid=0x12345", &[7]),
        ("time=3ns", &[4]),
    ];
    for (expression, numbers) in rows {
        assert_eq!(kept(&capture, expression), numbers, "{expression}");
    }
}

/// A term matches a transaction if it matches one of its TLPs. Times refer to the whole transaction.
#[test]
fn terms_match_transactions() {
    let (read, answer) = read_and_answer(1, 0x1000, 64);
    let other = memory(MemoryOp::Read, 0x0200, 1, 0x5000, 4, Data::NONE);
    let failed = Tlp::new(completion(0x0200, 1, 4, None, Status::CompleterAbort), Data::NONE);
    let mut link = Link::new();
    let sound = Mark::default();
    link.tlp(true, &read, sound).tlp(true, &other, sound).tlp(true, &write(0x9000, 4), sound);
    link.tlp(false, &failed, sound).wait_ps(5_000).tlp(false, &answer, sound);
    let capture = link.finish();
    // Transaction 1: the first read, 9 ns. 2: the second read, 2 ns, failed. 3: the write.
    let rows: [(&str, &[u64]); 12] = [
        ("type=MRd", &[1, 2]),
        ("type=MRd and status=success", &[1]),
        ("completion", &[1, 2]),
        ("status!=success", &[2]),
        ("not completion", &[3]),
        ("error", &[2]),
        ("time>2ns", &[1]),
        ("time=2ns", &[2]),
        ("latency>0ns", &[1]),
        ("time!=2ns", &[1]),
        ("dir=down", &[1, 2]),
        ("addr=0x9000 or number=5", &[1, 3]),
    ];
    for (expression, numbers) in rows {
        let filter: Filter = expression.parse().unwrap();
        let (mut reader, mut tracker) = (reader(&capture), Tracker::new());
        while let Some(record) = reader.next_record().unwrap() {
            tracker.see(&record, filter.terms(&record));
        }
        tracker.finish();
        let ended = std::iter::from_fn(|| tracker.next_ended()).filter(|t| filter.holds_for(t));
        let mut got: Vec<u64> = ended.map(|t| t.request_number).collect();
        got.sort_unstable();
        assert_eq!(got, numbers, "{expression}");
    }
}

#[test]
fn reports_filter_errors_with_column() {
    let nots = "!".repeat(65) + "tlp";
    let terms = vec!["tlp"; 65].join(" or ");
    let rows = [
        ("", 1, "expected a term: type, tag,"),
        ("tpe=MRd", 1, "unknown field \"tpe\": expected type, tag,"),
        ("direction=up", 1, "replay; did you mean dir?"),
        ("address=5", 1, "replay; did you mean addr?"),
        ("tpye=MWr", 1, "replay; did you mean type?"),
        ("size>64", 1, "replay; did you mean bytes?"),
        (
            "type",
            1,
            "type needs a value: expected a type of TLP such as MRd, MWr or CplD, or dllp, other or error",
        ),
        ("type=", 6, "expected a value for type: a type of TLP"),
        ("type=Foo", 6, "\"Foo\" is not a value of type: expected a type of TLP"),
        ("type<MRd", 5, "type is not a number: expected = or !="),
        ("tag=1024", 5, "\"1024\" is not a value of tag: expected 0 to 1023, or a range"),
        ("tag=7..5", 5, "\"7..5\" is not a value of tag"),
        ("tag=0x", 5, "\"0x\" is not a value of tag"),
        ("requester=1:2", 11, "is not a value of requester: expected bus:device.function such as 01:00.0"),
        ("requester=01:20.0", 11, "is not a value of requester"),
        ("time>1", 6, "\"1\" is not a value of time: expected a duration such as 1us: ps, ns, us, ms or s"),
        ("time>0.0001ns", 6, "is not a value of time"),
        ("time>1 us", 6, "is not a value of time"),
        ("status=bad", 8, "expected success, SC, UR, CRS or CA"),
        ("dir=left", 5, "expected up or down"),
        ("tlp=1", 1, "tlp is a flag: it has no value"),
        ("type=MRd tag=5", 10, "expected and, or, && or ||"),
        ("(type=MRd", 10, "expected and, or, or a closing parenthesis"),
        ("type=MRd)", 9, "expected and, or, && or ||"),
        ("type=MRd and", 13, "expected a term"),
        ("type=MRd & tag=5", 10, "unexpected '&'"),
        ("interface=\"link0", 11, "a quotation mark is not closed"),
        ("ä=1", 1, "unexpected 'ä'"),
        (nots.as_str(), 65, "more than 64 nested parentheses and nots"),
        (terms.as_str(), 449, "more than 64 terms"),
    ];
    for (expression, column, what) in rows {
        let error = expression.parse::<Filter>().unwrap_err();
        assert!(error.column == column && error.kind.to_string().contains(what), "{expression}: {error:?}");
    }
    let text = "type=MRd and tag=5x".parse::<Filter>().unwrap_err().to_string();
    let expected = "filter, column 18: \"5x\" is not a value of tag: expected 0 to 1023, or a range such as 0..32\n  \
                    type=MRd and tag=5x\n                   ^";
    assert_eq!(text, expected);
}

/// Each entry of the list is a field, and its legal values or its name alone parse.
#[test]
fn every_listed_field_parses() {
    let values = [
        "=MRd", "=5", "=01:00.0", "=0x1000", "=UR", ">1us", "=up", "=P", "=host", "=x", "=Ack", "=good",
        "=root", "",
    ];
    for Field { name: field, legal, what, .. } in FIELDS {
        let forms: Vec<&str> =
            values.into_iter().filter(|value| format!("{field}{value}").parse::<Filter>().is_ok()).collect();
        assert!(!forms.is_empty() && !what.is_empty(), "{field}");
        assert_eq!(forms == [""], legal.is_empty(), "{field}: {forms:?}");
    }
}

#[test]
fn seeds_pass_checks() {
    let parsed = testkit::seeds("filter_parse").iter().filter(|(_, seed)| checks::filter(seed)).count();
    assert!(parsed >= 10, "{parsed}");
}

/// An expression, and whether it matches each of the five records of the sample.
fn expression() -> impl Strategy<Value = (String, [bool; 5])> {
    let leaves = [
        ("type=MRd", [true, false, false, false, false]),
        ("tag>=6", [false, false, false, true, true]),
        ("dllp", [false, false, true, false, false]),
        ("dir=up", [true, false, true, false, true]),
        ("addr=0x1000..0xa0000011", [true, false, false, true, false]),
    ];
    let leaf = prop::sample::select(leaves.to_vec()).prop_map(|(text, holds)| (text.to_owned(), holds));
    leaf.prop_recursive(5, 24, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        let join = |word: &'static str, op: fn(bool, bool) -> bool| {
            move |((a, x), (b, y)): ((String, [bool; 5]), (String, [bool; 5]))| {
                (format!("({a}) {word} ({b})"), std::array::from_fn(|n| op(x[n], y[n])))
            }
        };
        prop_oneof![
            pair.clone().prop_map(join("and", |a, b| a && b)),
            pair.prop_map(join("||", |a, b| a || b)),
            inner.prop_map(|(a, x)| (format!("not ({a})"), x.map(|holds| !holds))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn and_or_not_combine_results_of_terms((expression, holds) in expression()) {
        let numbers: Vec<u64> = (1..=5).zip(holds).filter(|(_, holds)| *holds).map(|(n, _)| n).collect();
        prop_assert_eq!(kept(&sample(), &expression), numbers, "{}", expression);
        let filter: Filter = expression.parse().unwrap();
        prop_assert_eq!(kept(&sample(), &filter.to_string()), kept(&sample(), &expression));
    }

    #[test]
    fn any_text_parses_or_fails_with_message(
        text in prop::collection::vec(
            prop::sample::select(vec![
                "type", "=", "MRd", " ", "(", ")", "and", "or", "not", "!", "tag", ">", "0x12", "..", "time", "1us",
                "\"", "ä", "&", "||", "addr", "dllp", "999999999999999999999", "requester", "01:00.0", "\n",
            ]),
            0..12,
        ),
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        checks::filter(text.concat().as_bytes());
        checks::filter(&bytes);
    }
}

/// The caller must pass the outcome. Without it, terms about transactions match no record.
#[test]
fn terms_of_transactions_match_no_record_without_outcome() {
    let filter: Filter = "time<1s or latency<1s or replay".parse().unwrap();
    assert!(filter.asks_for_outcome());
    let capture = sample();
    let mut reader = reader(&capture);
    while let Some(record) = reader.next_record().unwrap() {
        assert!(!filter.holds(&record, &Outcome::default()));
    }
    assert!(!"type=MRd".parse::<Filter>().unwrap().asks_for_outcome());
}
