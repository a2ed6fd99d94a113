// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Complete transactions: their lines, Acks, retries and errors, in captures that the tests write.

use crate::common::{DAMAGED, DROPPED, Link, completion, memory, read_and_answer, transaction_lines, write};
use riser_capture::transactions::Tracker;
use riser_capture::{Mark, Reader, render};
use tlp::{
    Access, Bdf, Body, ConfigKind, ConfigRequest, Data, Dllp, MemoryOp, Message, MessageRouting, Repr,
    Status, Tag, Tlp,
};

const SOUND: Mark = Mark { damaged: false, dropped: false, place: None };

/// The lines without their common beginning.
fn lines(link: Link) -> Vec<String> {
    let (lines, _) = transaction_lines(&link.finish());
    lines
}

#[test]
fn lines_show_acks_retries_and_times() {
    let (read, answer) = read_and_answer(5, 0x1000, 64);
    let mut link = Link::new();
    // Acks before the first TLP show that the capture has Acks.
    link.ack(true, 4095).ack(false, 4095);
    link.tlp(true, &read, SOUND).ack(false, 0).wait_ps(10_000).tlp(false, &answer, SOUND).ack(true, 0);
    link.tlp(true, &write(0x2000, 256), SOUND).ack(false, 1);
    assert_eq!(
        lines(link),
        [
            "0.000000003 MRd link0:upstream requester 01:00.0, tag 0x05, Addr 0x00001000, 64 bytes: 1 completion, success, \
         first data 12.000 ns, response 12.000 ns, 42.666 Gb/s, Ack 1.000 ns",
            "0.000000017 MWr link0:upstream requester 01:00.0, tag 0x00, Addr 0x00002000, 256 bytes: posted, Ack 1.000 ns",
        ]
    );
}

fn message(code: u8) -> Tlp {
    let (routing, requester, tag) = (MessageRouting::Local, Bdf::from_bits(0x0008), Tag::default());
    let body = Message { routing, requester, tag, code, header: [0; 8], length_dw: None };
    Tlp::new(Repr::new(Body::Message(body)), Data::NONE)
}

/// A configuration request has a function and a register, and a message has a code. Neither has an address.
#[test]
fn lines_show_target_of_each_request() {
    let config = Tlp::new(
        Repr::new(Body::Config(ConfigRequest {
            kind: ConfigKind::Type1,
            ..ConfigRequest::new(
                Access::Read,
                Bdf::from_bits(0x0008),
                Tag::from_bits(3),
                Bdf::from_bits(0x021b),
                0x103,
            )
        })),
        Data::NONE,
    );
    let mut link = Link::new();
    for request in [&config, &message(0x19), &message(0x77), &write(0x1_2345_6789, 1)] {
        link.tlp(false, request, SOUND);
    }
    let capture = link.finish();
    let (lines, _) = transaction_lines(&capture);
    let said = |line: &String| line.split_once(", ").unwrap().1.to_owned();
    let due = [
        "tag 0x00, code 0x19 PME_Turn_Off, 0 bytes: posted",
        "tag 0x00, code 0x77, 0 bytes: posted",
        "tag 0x00, Addr 0x123456789, 1 bytes: posted",
        "tag 0x03, completer 02:03.3, register 0x40c, 4 bytes: 0 completions; error: no completion",
    ];
    assert_eq!(lines.iter().map(said).collect::<Vec<_>>(), due);
    let (mut reader, mut tracker) =
        (Reader::new(std::io::Cursor::new(&capture[..])).unwrap(), Tracker::new());
    while let Some(record) = reader.next_record().unwrap() {
        tracker.see(&record, 0);
    }
    tracker.finish();
    let mut of = Vec::new();
    while let Some(t) = tracker.next_ended() {
        let mut json = String::new();
        riser_capture::transactions::append_json(&t, &mut json);
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        let keys = ["address", "completer", "register", "message_code", "message_name"];
        of.push(serde_json::Value::from_iter(keys.map(|key| object[key].clone())));
    }
    let due = serde_json::json!([
        [null, null, null, 0x19, "PME_Turn_Off"],
        [null, null, null, 0x77, null],
        [0x1_2345_6789_u64, null, null, null, null],
        [null, "02:03.3", 0x40c, null, null],
    ]);
    assert_eq!(serde_json::Value::from(of), due);
}

/// `PCIe 5.0 §3.6.2.1`, §3.6.3.1: retransmissions after a Nak, after a lost Ack, and after a lost TLP.
#[test]
fn counts_replays_for_their_transaction() {
    let (first, first_answer) = read_and_answer(1, 0x1000, 64);
    let (second, second_answer) = read_and_answer(2, 0x2000, 64);
    let mut link = Link::new();
    link.ack(true, 4095).ack(false, 4095);
    // At 3 ns, the first read is damaged, and the second is discarded. After a Nak, both are retransmitted.
    link.tlp(true, &first, DAMAGED).tlp(true, &second, SOUND);
    link.dllp(false, Dllp::Nak { sequence: 4095 }, SOUND);
    link.again(true, &first, 0, SOUND).again(true, &second, 1, SOUND);
    // Their Ack is lost, so both are retransmitted again, and only then acknowledged.
    link.dllp(false, Dllp::Ack { sequence: 1 }, DAMAGED);
    link.again(true, &first, 0, SOUND).again(true, &second, 1, SOUND).ack(false, 1);
    link.tlp(false, &first_answer, SOUND).tlp(false, &second_answer, DROPPED);
    link.again(false, &second_answer, 1, SOUND).ack(true, 1);
    let (lines, summary) = transaction_lines(&link.finish());
    assert_eq!(
        lines,
        [
            "0.000000003 MRd link0:upstream requester 01:00.0, tag 0x01, Addr 0x00001000, 64 bytes: 1 completion, success, \
         first data 9.000 ns, response 9.000 ns, 56.888 Gb/s, Ack 8.000 ns, 2 retries",
            "0.000000004 MRd link0:upstream requester 01:00.0, tag 0x02, Addr 0x00002000, 64 bytes: 1 completion, success, \
         first data 10.000 ns, response 10.000 ns, 51.200 Gb/s, Ack 7.000 ns, 3 retries",
        ]
    );
    let expected = "\
2 transactions, 0 with errors
type        transactions          TLPs       retries         bytes    data bytes
MRd                    2             9             5           128           128
in ns                            min        median          mean          95 %          99 %           max
MRd       response             9.000         9.000         9.500        10.000        10.000        10.000
MRd       first data           9.000         9.000         9.500        10.000        10.000        10.000
MRd       Ack                  7.000         7.000         7.500         8.000         8.000         8.000
TLPs lost or out of order               3";
    assert_eq!(summary, expected);
}

#[test]
fn lines_show_names_of_errors() {
    let (read, answer) = read_and_answer(1, 0x1000, 64);
    let failed = |status| Tlp::new(completion(0x0100, 1, 4, None, status), Data::NONE);
    let poisoned = |mut tlp: Tlp| {
        tlp.repr.ep = true;
        tlp
    };
    let half = Tlp::new(completion(0x0100, 1, 64, Some(8), Status::Success), Data::Counted(32));
    let short = Tlp::new(completion(0x0100, 1, 32, Some(8), Status::Success), Data::Counted(32));
    let (other, _) = read_and_answer(1, 0x3000, 64);
    let rows: [(&[&Tlp], &[&str]); 10] = [
        (&[&read, &answer], &["1 completion, success, first data 1.000 ns, response 1.000 ns, 512.000 Gb/s"]),
        (&[&read], &["0 completions; error: no completion"]),
        (
            &[&read, &half],
            &[
                "1 completion, success, first data 1.000 ns, response 1.000 ns, 256.000 Gb/s; error: incomplete",
            ],
        ),
        (&[&read, &failed(Status::UnsupportedRequest)], &["1 completion, UR, response 1.000 ns; error: UR"]),
        (&[&read, &failed(Status::CompleterAbort)], &["1 completion, CA, response 1.000 ns; error: CA"]),
        (&[&read, &failed(Status::ConfigRetry)], &["1 completion, CRS, response 1.000 ns; error: CRS"]),
        (&[&answer], &["1 completion, success; error: unexpected completion"]),
        (
            &[&read, &poisoned(answer.clone())],
            &["1 completion, success, first data 1.000 ns, response 1.000 ns, 512.000 Gb/s; error: poisoned"],
        ),
        (
            &[&read, &other],
            &["0 completions; error: no completion", "0 completions; error: no completion, duplicate tag"],
        ),
        (
            &[&read, &short],
            &[
                "1 completion, success, first data 1.000 ns, response 1.000 ns, 256.000 Gb/s; error: incomplete, byte count",
            ],
        ),
    ];
    for (tlps, expected) in rows {
        let mut link = Link::new();
        for tlp in tlps {
            link.tlp(tlp.class() != tlp::Class::Completion, tlp, SOUND);
        }
        let got = lines(link);
        let tails: Vec<&str> = got.iter().map(|line| line.split_once("bytes: ").unwrap().1).collect();
        assert_eq!(tails, expected, "{tlps:?}");
    }
}

/// If the capture does not have the places of TLPs, their Acks are unknown.
#[test]
fn acks_are_unknown_if_tlps_have_no_sequence_numbers() {
    let mut writer = riser_capture::Writer::new(Vec::new()).unwrap();
    let up = writer.tap(0, riser_capture::Direction::Upstream, "").unwrap();
    let down = writer.tap(0, riser_capture::Direction::Downstream, "").unwrap();
    let at = tlp::Time::from_ps;
    writer.write_dllp(down, at(1), &Dllp::Ack { sequence: 4095 }).unwrap();
    writer.write_tlp(up, at(2), &write(0, 64), riser_capture::Origin::Device).unwrap();
    writer.write_dllp(down, at(3), &Dllp::Ack { sequence: 0 }).unwrap();
    let (lines, _) = transaction_lines(&writer.finish().unwrap());
    assert!(lines[0].ends_with("64 bytes: posted"), "{lines:?}");
}

/// A link without Acks: the oldest transactions are returned with the known facts, and memory stays bounded.
#[test]
fn limits_number_of_transactions_without_ack() {
    let mut link = Link::new();
    link.ack(false, 4095);
    for _ in 0..6_000 {
        link.tlp(true, &write(0, 64), SOUND);
    }
    let bytes = link.finish();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let (mut tracker, mut early) = (Tracker::new(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        tracker.see(&record, 0);
        early += std::iter::from_fn(|| tracker.next_ended()).count();
    }
    assert_eq!(early, 6_000 - riser_capture::sequence::MAX_UNACKED);
    tracker.finish();
    assert_eq!(std::iter::from_fn(|| tracker.next_ended()).count(), riser_capture::sequence::MAX_UNACKED);
}

/// Marks are written, read back, and shown in a record's line and JSON. Frames with an empty mark need no extra
/// bytes.
#[test]
fn capture_keeps_marks_of_damaged_and_lost_frames() {
    let (read, answer) = read_and_answer(5, 0x1000, 64);
    let mut link = Link::new();
    link.tlp(true, &read, DAMAGED).tlp(false, &answer, DROPPED).ack(true, 0);
    link.dllp(true, Dllp::Ack { sequence: 9 }, DAMAGED);
    let bytes = link.finish();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let (mut shown, mut line) = (Vec::new(), String::new());
    while let Some(record) = reader.next_record().unwrap() {
        line.clear();
        render::line(&record, &mut line);
        let behind = line.split_once('[').map_or(String::new(), |(_, mark)| format!("[{mark}"));
        line.clear();
        render::json(&record, &mut line);
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        let field = |name: &str| json[name].as_bool();
        shown.push((behind, field("damaged"), field("dropped"), json["tlp_sequence"].as_u64()));
    }
    let row = |text: &str, damaged, dropped, sequence| (text.to_owned(), damaged, dropped, sequence);
    assert_eq!(
        shown,
        [
            row("[damaged on the way]", Some(true), None, Some(0)),
            row("[dropped on the way]", None, Some(true), Some(0)),
            row("", None, None, None),
            row("[damaged on the way]", Some(true), None, None),
        ]
    );
}

/// AtomicOps, deferrable writes, posted messages and all other requests are transactions.
#[test]
fn every_type_of_request_is_a_transaction() {
    let deferrable = memory(MemoryOp::WriteDeferrable, 0x0100, 9, 0x1000, 64, Data::Counted(64));
    let done = Tlp::new(completion(0x0100, 9, 4, None, Status::Success), Data::NONE);
    let mut link = Link::new();
    link.tlp(true, &deferrable, SOUND).tlp(false, &done, SOUND);
    assert_eq!(
        lines(link),
        [
            "0.000000001 DMWr link0:upstream requester 01:00.0, tag 0x09, Addr 0x00001000, 64 bytes: 1 completion, success, \
         response 1.000 ns",
        ]
    );
}
