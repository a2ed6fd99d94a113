// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A transaction on several links counts as one, with a latency for each link. Different requests that look equal
//! stay separate.

use crate::common::{
    Links, completion, config_read, kept, lines, objects, read_and_answer, reader, report, transaction_lines,
    write,
};
use riser_capture::transactions::{Tracker, append_json};
use riser_capture::{Filter, Transaction};
use serde_json::{Value, json};
use tlp::{Bdf, Body, ConfigKind, Data, Message, MessageRouting, Repr, Status, Tlp};

const TREE: [&str; 3] = ["upper", "lower", "disk"];
/// The path from the disk to the root complex.
const UP: [(usize, bool); 3] = [(2, true), (1, true), (0, true)];

fn transactions(capture: &[u8], filter: Option<&Filter>) -> Vec<Transaction> {
    let (mut reader, mut tracker) = (reader(capture), Tracker::new());
    while let Some(record) = reader.next_record().unwrap() {
        tracker.see(&record, filter.map_or(0, |filter| filter.terms(&record)));
    }
    tracker.finish();
    std::iter::from_fn(|| tracker.next_ended()).collect()
}

fn read_through_the_tree() -> Vec<u8> {
    let (read, answer) = read_and_answer(5, 0x1000, 64);
    let mut links = Links::new(&TREE);
    links.exchange(&UP, &read, &answer);
    links.finish()
}

#[test]
fn read_over_three_links_is_one_transaction() {
    let capture = read_through_the_tree();
    let (lines, summary) = transaction_lines(&capture);
    let due = "0.000000001 MRd disk:upstream requester 01:00.0, tag 0x05, Addr 0x00001000, 64 bytes: 1 completion, success, \
               first data 5.000 ns, response 5.000 ns, 102.400 Gb/s, over disk 2.000 ns > lower 2.000 ns > upper 1.000 ns";
    assert_eq!(lines, [due]);
    assert!(summary.starts_with("1 transaction, 0 with errors\n"), "{summary}");
    assert!(
        summary.contains("MRd                    1             6             0            64            64"),
        "{summary}"
    );

    let mut line = String::new();
    append_json(&transactions(&capture, None)[0], &mut line);
    let object: Value = serde_json::from_str(&line).unwrap();
    let hop = |link, slot, number, since: u64, latency: u64| {
        json!({"link": link, "slot": slot, "direction": "upstream", "number": number,
               "since_start_ps": since, "latency_ps": latency})
    };
    let hops = [hop(2, "disk", 1, 0, 2000), hop(1, "lower", 2, 1000, 2000), hop(0, "upper", 3, 2000, 1000)];
    assert_eq!(object["hops"], json!(hops));
    assert_eq!((&object["slot"], &object["latency_ps"]), (&json!("disk"), &json!(5000)));
}

#[test]
fn statistics_count_a_forwarded_request_once() {
    let capture = read_through_the_tree();
    let report = report(reader(&capture));
    let counts = report.transactions;
    assert_eq!((counts.requests, counts.forwarded, counts.completed, report.waiting), (1, 2, 1, 0));
    assert!(
        report.to_string().contains("01:00.0  lower             1             1            1  5"),
        "{report}"
    );
}

/// Writes with equal headers keep their order on every link (`PCIe 5.0 §2.4.1`).
#[test]
fn follows_posted_requests_in_order() {
    let write = write(0x1000, 4);
    let mut links = Links::new(&TREE);
    for link in [2, 2, 1, 2, 1, 0, 0] {
        links.tlp(link, true, &write);
    }
    let numbers = |t: &Transaction| t.legs().iter().map(|leg| leg.hop.request_number).collect::<Vec<_>>();
    let all = transactions(&links.finish(), None);
    assert_eq!(all.iter().map(numbers).collect::<Vec<_>>(), [vec![1, 3, 6], vec![2, 5, 7], vec![4]]);
    assert_eq!(
        all[0].legs().iter().map(|leg| leg.latency_ps).collect::<Vec<_>>(),
        [Some(2000), Some(3000), None]
    );
}

/// A bridge turns a configuration request of Type 1 into one of Type 0 on its secondary bus (`PCIe 5.0 §7.3.3`).
#[test]
fn configuration_request_across_bridges_is_one_transaction() {
    let answer = Tlp::new(completion(0, 3, 4, None, Status::UnsupportedRequest), Data::NONE);
    let mut links = Links::new(&TREE);
    let [type_1, type_0] = [ConfigKind::Type1, ConfigKind::Type0].map(|kind| config_read(kind, 0x0400, 8, 3));
    links.tlp(0, false, &type_1).tlp(1, false, &type_1).tlp(2, false, &type_0);
    links.tlp(2, true, &answer).tlp(1, true, &answer).tlp(0, true, &answer);
    let (lines, summary) = transaction_lines(&links.finish());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(summary.starts_with("1 transaction, 1 with errors\n"), "{summary}");
}

#[test]
fn similar_requests_are_separate_transactions() {
    let (read, _) = read_and_answer(5, 0x1000, 64);
    let (other, _) = read_and_answer(5, 0x2000, 64);
    let local = Message::new(MessageRouting::Local, Bdf::default(), 0x20);
    let local = Tlp::new(Repr::new(Body::Message(local)), Data::NONE);
    let type_0 = config_read(ConfigKind::Type0, 0x0100, 0, 0);
    type Sights<'a> = [(usize, bool, &'a Tlp); 2];
    let rows: [(&str, Sights<'_>); 4] = [
        ("another address", [(2, true, &read), (1, true, &other)]),
        ("local messages end at their receiver", [(0, false, &local), (1, false, &local)]),
        ("Type 0 ends at its receiver", [(0, false, &type_0), (1, false, &type_0)]),
        ("nothing goes upstream again", [(0, false, &read), (1, true, &read)]),
    ];
    for (what, sights) in rows {
        let mut links = Links::new(&TREE);
        for (link, up, tlp) in sights {
            links.tlp(link, up, tlp);
        }
        assert_eq!(transactions(&links.finish(), None).len(), 2, "{what}");
    }
}

#[test]
fn limits_number_of_posted_requests_that_may_be_forwarded() {
    let mut links = Links::new(&TREE);
    links.tlp(0, true, &write(0, 4));
    for n in 0..5_000 {
        links.tlp(2, true, &write(0x1000 + 8 * n, 4));
    }
    let capture = links.finish();
    let (mut reader, mut tracker) = (reader(&capture), Tracker::new());
    let mut early = 0;
    while let Some(record) = reader.next_record().unwrap() {
        tracker.see(&record, 0);
        early += std::iter::from_fn(|| tracker.next_ended()).count();
    }
    assert_eq!(early, 5_001 - 4_096);
}

#[test]
fn shows_and_filters_records_by_slot_link_and_end() {
    let capture = read_through_the_tree();
    let begins = lines(&capture).into_iter().map(|line| line.split(' ').nth(1).unwrap().to_owned());
    let due = [
        "disk:upstream",
        "lower:upstream",
        "upper:upstream",
        "upper:downstream",
        "lower:downstream",
        "disk:downstream",
    ];
    assert_eq!(begins.collect::<Vec<_>>(), due);
    let object = &objects(&capture)[0];
    assert_eq!([&object["interface"], &object["slot"], &object["end"]], ["link2:upstream", "disk", "device"]);

    let rows: [(&str, &[u64], usize); 10] = [
        ("link=disk", &[1, 6], 1),
        ("link=2", &[1, 6], 1),
        ("link=0..2", &[2, 3, 4, 5], 1),
        ("link!=disk", &[2, 3, 4, 5], 1),
        ("slot=upper and dir=up", &[3], 1),
        ("slot=card", &[], 0),
        ("end=device", &[1, 2, 3, 4, 5, 6], 1),
        ("end=root", &[], 0),
        ("link>1", &[1, 6], 1),
        ("not slot=disk and dir=up", &[2, 3], 0),
    ];
    for (expression, numbers, whole) in rows {
        let filter: Filter = expression.parse().unwrap();
        assert_eq!(kept(&capture, expression), numbers, "{expression}");
        let held = transactions(&capture, Some(&filter)).iter().filter(|t| filter.holds_for(t)).count();
        assert_eq!(held, whole, "{expression}");
    }
}
