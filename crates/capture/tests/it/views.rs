// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Series, credits and trace events, in captures that the tests write.

use crate::common;
use crate::common::{DAMAGED, Link, completion, read_and_answer, reader, sample, write};
use riser_capture::credits::{Available, Ledgers};
use riser_capture::matcher::Ack;
use riser_capture::series::{AUTOMATIC_ROWS, Series, SeriesReport, speed_bps};
use riser_capture::{Ecrc, Mark, Origin, Reader, Stats, Tracker, Writer, perfetto, render};
use serde_json::Value;
use tlp::{
    Class, Data, Dllp, FlowControl, FlowControlKind, Prefix, Prefixes, Scale, Status, Time, Tlp,
    TrafficClass, Vc,
};

const SOUND: Mark = Mark { damaged: false, dropped: false, place: None };

fn fc(kind: FlowControlKind, class: Class, vc: u8, header: u8, data: u16) -> Dllp {
    Dllp::FlowControl(FlowControl::new(kind, class, Vc::from_bits(vc), header, data))
}

/// InitFC1 and InitFC2 from the receiver of upstream TLPs.
fn init(link: &mut Link, class: Class, vc: u8, header: u8, data: u16) {
    for kind in [FlowControlKind::InitFc1, FlowControlKind::InitFc2] {
        link.dllp(false, fc(kind, class, vc, header, data), SOUND);
    }
}

/// Header and data credits before and after each TLP; `None` if they are unknown.
fn credits(capture: &[u8], mut ledgers: Ledgers) -> Vec<Option<[Available; 4]>> {
    let (mut reader, mut all) = (reader(capture), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        let took = ledgers.see(&record);
        if record.tlp().is_some() {
            all.push(took.map(|t| [t.header_before, t.header_after, t.data_before, t.data_after]));
        }
    }
    all
}

fn numbers(header: [i64; 2], data: [i64; 2]) -> Option<[Available; 4]> {
    Some([header[0], header[1], data[0], data[1]].map(Available::Credits))
}

/// `PCIe 5.0 §2.6.1`: a credit covers one header, or 16 B of data.
#[test]
fn counts_credits_before_and_after_each_tlp() {
    let mut link = Link::new();
    link.tlp(true, &write(0, 64), SOUND);
    init(&mut link, Class::Posted, 0, 4, 32);
    link.tlp(true, &write(0, 256), SOUND).tlp(true, &write(0, 20), SOUND);
    // A replay, and a damaged TLP that is retransmitted. Neither uses credits twice.
    link.again(true, &write(0, 20), 2, SOUND);
    link.tlp(true, &write(0, 64), DAMAGED).again(true, &write(0, 64), 3, SOUND);
    // Two header credits and 18 data credits are returned, so the running totals are 6 and 50.
    link.dllp(false, fc(FlowControlKind::UpdateFc, Class::Posted, 0, 6, 50), SOUND);
    link.dllp(false, fc(FlowControlKind::UpdateFc, Class::Posted, 0, 99, 99), DAMAGED);
    link.tlp(true, &write(0, 4), SOUND);
    let expected = [
        None,
        numbers([4, 3], [32, 16]),
        numbers([3, 2], [16, 14]),
        numbers([2, 2], [14, 14]),
        numbers([2, 1], [14, 10]),
        numbers([1, 1], [10, 10]),
        numbers([3, 2], [28, 27]),
    ];
    assert_eq!(credits(&link.finish(), Ledgers::new()), expected);
}

/// HdrFC wraps at 256 and DataFC at 4096 (`PCIe 5.0 §2.6.1.2`). A thousand TLPs, whose credits are returned at once.
#[test]
fn counts_credits_over_wraps_of_counters() {
    let mut link = Link::new();
    init(&mut link, Class::Posted, 0, 127, 2047);
    for n in 1..=1000u64 {
        link.tlp(true, &write(0, 256), SOUND);
        let (header, data) = ((127 + n) as u8, (2047 + 16 * n) as u16 & 0xfff);
        link.dllp(false, fc(FlowControlKind::UpdateFc, Class::Posted, 0, header, data), SOUND);
    }
    let all = credits(&link.finish(), Ledgers::new());
    assert!(all.iter().all(|took| *took == numbers([127, 126], [2047, 2031])), "{all:?}");
}

/// `PCIe 5.0 §3.4.2`: with scaled flow control, a unit of a field is 4 or 16 credits.
#[test]
fn counts_scaled_credits() {
    let scaled = |kind, header, data| {
        let (class, vc) = (Class::Posted, Vc::VC0);
        let plain = FlowControl::new(kind, class, vc, header, data);
        Dllp::FlowControl(FlowControl { header_scale: Scale::X4, data_scale: Scale::X16, ..plain })
    };
    let mut link = Link::new();
    link.dllp(false, scaled(FlowControlKind::InitFc1, 100, 1000), SOUND);
    link.tlp(true, &write(0, 256), SOUND);
    link.dllp(false, scaled(FlowControlKind::UpdateFc, 101, 1001), SOUND);
    link.tlp(true, &write(0, 16), SOUND);
    let expected = [numbers([400, 399], [16_000, 15_984]), numbers([403, 402], [16_000, 15_999])];
    assert_eq!(credits(&link.finish(), Ledgers::new()), expected);
}

/// 0 in an InitFC stands for infinite credits. Credits of TCs above 0 are known with one virtual channel, or with a
/// map.
#[test]
fn counts_infinite_credits_and_virtual_channels() {
    let of_class = |tc, mut tlp: Tlp| {
        tlp.repr.tc = TrafficClass::new(tc).unwrap();
        tlp
    };
    let capture = |channels: &[u8]| {
        let mut link = Link::new();
        for vc in channels {
            init(&mut link, Class::Posted, *vc, 10 * (vc + 1), 0);
        }
        link.tlp(true, &of_class(0, write(0, 16)), SOUND).tlp(true, &of_class(7, write(0, 16)), SOUND);
        link.finish()
    };
    let left = |header: i64| {
        Some([
            Available::Credits(header),
            Available::Credits(header - 1),
            Available::Infinite,
            Available::Infinite,
        ])
    };
    assert_eq!(credits(&capture(&[0]), Ledgers::new()), [left(10), left(9)]);
    assert_eq!(credits(&capture(&[0, 1]), Ledgers::new()), [left(10), None]);
    let map = [0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(credits(&capture(&[0, 1]), Ledgers::with_map(map)), [left(10), left(20)]);
}

fn series(capture: &[u8], interval_ps: Option<u64>, speed: Option<u64>) -> SeriesReport {
    let (mut reader, mut series) = (reader(capture), Series::new(interval_ps, Ledgers::new()));
    while let Some(record) = reader.next_record().unwrap() {
        series.add(&record).unwrap();
    }
    series.report(speed)
}

/// Frames at 1, 2, 13, 14, 15 ns: InitFC down, read up, completion down, write up, Ack down. Bytes on the wire: the
/// read has 12 B, the completion and the write below 4 GiB have 12 + 64 B, and each TLP has 8 B more. A DLLP has 8
/// B. 64 Gb/s transfer 80 B in 10 ns.
#[test]
fn series_counts_traffic_per_interval() {
    let (read, answer) = read_and_answer(1, 0x1000, 64);
    let mut link = Link::new();
    link.dllp(false, fc(FlowControlKind::InitFc1, Class::Posted, 0, 9, 99), SOUND).tlp(true, &read, SOUND);
    link.wait_ps(10_000).tlp(false, &answer, SOUND).tlp(true, &write(0, 64), SOUND).ack(false, 0);
    let report = series(&link.finish(), Some(10_000), None);
    let csv = report.csv();
    let rows: Vec<&str> =
        csv.lines().filter(|row| !row.ends_with(",0") && !row.ends_with("0.000000")).collect();
    assert_eq!(
        rows,
        [
            "start_ps,interval_ps,link,direction,of,measure,value",
            "0,10000,0,downstream,DLLP,packets,1",
            "0,10000,0,downstream,DLLP,wire_bytes,8",
            "0,10000,0,downstream,DLLP,utilization,0.100000",
            "0,10000,0,upstream,NP,packets,1",
            "0,10000,0,upstream,NP,wire_bytes,20",
            "0,10000,0,upstream,NP,utilization,0.250000",
            // One request is outstanding from 2 ns to 13 ns.
            "0,10000,0,,01:00.0,outstanding_max,1",
            "0,10000,0,,01:00.0,outstanding_mean,0.800000",
            "10000,10000,0,downstream,Cpl,packets,1",
            "10000,10000,0,downstream,Cpl,wire_bytes,84",
            "10000,10000,0,downstream,Cpl,utilization,1.050000",
            "10000,10000,0,downstream,DLLP,packets,1",
            "10000,10000,0,downstream,DLLP,wire_bytes,8",
            "10000,10000,0,downstream,DLLP,utilization,0.100000",
            "10000,10000,0,downstream,,payload_bytes,64",
            "10000,10000,0,upstream,P,packets,1",
            "10000,10000,0,upstream,P,wire_bytes,84",
            "10000,10000,0,upstream,P,utilization,1.050000",
            "10000,10000,0,upstream,,payload_bytes,64",
            "10000,10000,0,,01:00.0,outstanding_max,1",
            "10000,10000,0,,01:00.0,outstanding_mean,0.300000",
            "10000,10000,0,upstream,P:vc0,header_credits_min,8",
            "10000,10000,0,upstream,P:vc0,data_credits_min,95",
        ]
    );
}

/// The sums are the same with any interval. The automatic interval gives few enough rows.
#[test]
fn series_sums_do_not_depend_on_interval() {
    for gap_ps in [10, 1_000, 777_777, 1_000_000_000] {
        let mut link = Link::new();
        for n in 0..500u16 {
            let (read, answer) = read_and_answer(n % 32, 0x1000, 64);
            link.tlp(true, &read, SOUND).wait_ps(gap_ps).tlp(false, &answer, SOUND);
        }
        let capture = link.finish();
        let automatic = series(&capture, None, None);
        let rows = automatic.rows.len() as u64;
        assert!(rows <= AUTOMATIC_ROWS && rows > AUTOMATIC_ROWS / 3, "{gap_ps}: {rows}");
        let step = automatic.interval_ps / 10u128.pow(automatic.interval_ps.ilog10());
        assert!([1, 2, 5].contains(&step), "{}", automatic.interval_ps);
        for report in [automatic, series(&capture, Some(500 * (gap_ps + 2_000) / 7), None)] {
            let ways = report.rows.iter().flat_map(|row| &row.links);
            let sum = |of: fn(&riser_capture::series::WayRow) -> u64| ways.clone().map(of).sum::<u64>();
            assert_eq!((sum(|w| w.non_posted_tlps), sum(|w| w.completion_tlps)), (500, 500));
            assert_eq!((sum(|w| w.non_posted_bytes), sum(|w| w.completion_bytes)), (500 * 20, 500 * 84));
            // Each read is outstanding from its frame to the frame of its completion.
            let area: f64 = report.rows.iter().flat_map(|row| &row.outstanding).map(|o| o.mean).sum();
            let expected = 500.0 * (gap_ps as f64 + 1_000.0) / report.interval_ps as f64;
            assert!((area / expected - 1.0).abs() < 1e-9, "{area} of {expected}");
        }
    }
}

#[test]
fn rejects_too_short_interval() {
    let capture = sample();
    let (mut reader, mut series) = (reader(&capture), Series::new(Some(1), Ledgers::new()));
    let mut error = None;
    while let Some(record) = reader.next_record().unwrap() {
        error = error.or(series.add(&record).err());
    }
    assert_eq!(
        error.unwrap().to_string(),
        "interval of 1 ps: the capture needs more than 100000 rows; expected a longer interval"
    );
}

/// 8b/10b transfers 8 data bits in 10 bits, and 128b/130b transfers 128 in 130 (`PCIe 5.0 §4.2`).
#[test]
fn utilization_uses_data_rate_of_link() {
    let rows = [
        (1, 1, Some(2_000_000_000)),
        (2, 4, Some(16_000_000_000)),
        (3, 8, Some(63_015_384_615)),
        (5, 16, Some(504_123_076_923)),
        (3, 3, None),
        (6, 1, None),
    ];
    for (generation, lanes, speed) in rows {
        assert_eq!(speed_bps(generation, lanes), speed, "{generation} {lanes}");
    }
    // The caller gives the speed if the capture does not have it.
    let report = series(&sample(), Some(1_000_000_000_000), Some(8_000));
    let shares: Vec<Option<f64>> = report.rows[0].links.iter().map(|way| way.utilization).collect();
    // In the first second, 28 B down and 20 + 8 B up, of 1000 B each.
    assert_eq!(shares, [Some(0.028), Some(0.028)]);
}

fn events(capture: &[u8], filter: Option<&str>) -> Vec<Value> {
    let filter = filter.map(|text| text.parse().unwrap());
    let (mut reader, mut writer) = (reader(capture), perfetto::Writer::new(Vec::new(), filter).unwrap());
    while let Some(record) = reader.next_record().unwrap() {
        writer.see(&record).unwrap();
    }
    let trace: Value = serde_json::from_slice(&writer.finish().unwrap()).unwrap();
    assert_eq!(trace["displayTimeUnit"], "ns");
    trace["traceEvents"].as_array().unwrap().clone()
}

fn of_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// The trace-event format: slices with a duration, pairs of async events with the same ID, counters, and a name per
/// track.
#[test]
fn trace_events_show_transactions_and_credits() {
    let (read, answer) = read_and_answer(5, 0x1000, 64);
    let mut link = Link::new();
    link.dllp(false, fc(FlowControlKind::InitFc1, Class::NonPosted, 0, 9, 99), SOUND);
    link.wait_ps(999_000).tlp(true, &read, SOUND).wait_ps(500_000).tlp(false, &answer, SOUND);
    let capture = link.finish();
    let all = events(&capture, None);
    let names = |phase| {
        of_phase(&all, phase)
            .iter()
            .map(|e| e["args"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("M"), ["link0", "downstream", "link0", "upstream"]);
    let slices = of_phase(&all, "X");
    let slice = |n: usize| {
        (slices[n]["name"].as_str().unwrap(), slices[n]["ts"].to_string(), slices[n]["dur"].to_string())
    };
    // 20 B at 64 Gb/s take 2.5 ns.
    assert_eq!(slice(1), ("MRd", "0.9985".to_owned(), "0.0025".to_owned()));
    assert_eq!(slices.len(), 3);
    let (begin, end) = (of_phase(&all, "b"), of_phase(&all, "e"));
    assert_eq!((begin.len(), end.len()), (1, 1));
    assert_eq!((&begin[0]["id"], &begin[0]["cat"]), (&end[0]["id"], &end[0]["cat"]));
    assert_eq!(begin[0]["name"], "MRd 01:00.0 tag 0x05");
    assert_eq!((begin[0]["ts"].as_f64(), end[0]["ts"].as_f64()), (Some(1.001), Some(1.502)));
    assert_eq!(begin[0]["args"]["latency_ps"], 501_000);
    let counters = of_phase(&all, "C");
    let values: Vec<(&str, &Value)> =
        counters.iter().map(|c| (c["name"].as_str().unwrap(), &c["args"])).collect();
    assert_eq!(
        values,
        [
            ("credits upstream NP vc0", &serde_json::json!({"header": 9, "data": 99})),
            ("outstanding 01:00.0", &serde_json::json!({"requests": 1})),
            ("credits upstream NP vc0", &serde_json::json!({"header": 8, "data": 99})),
            ("outstanding 01:00.0", &serde_json::json!({"requests": 0})),
        ]
    );
    for event in &all {
        assert!(event["pid"] == 1 && event["ts"].is_number() && event["name"].is_string(), "{event}");
    }
    // A filter excludes records and transactions.
    let some = events(&capture, Some("type=CplD"));
    assert_eq!((of_phase(&some, "X").len(), of_phase(&some, "b").len()), (1, 1));
    assert_eq!(of_phase(&events(&capture, Some("tag=6")), "b").len(), 0);
}

/// If the speed is unknown, TLPs are instants.
#[test]
fn writes_instants_without_speed() {
    let all = events(&sample(), None);
    assert_eq!((of_phase(&all, "i").len(), of_phase(&all, "X").len()), (5, 0));
}

/// Prefixes and ECRC are decoded. The ECRC is checked if the TLP was captured completely (`PCIe 5.0 §2.2.10`,
/// §2.7.1).
#[test]
fn decodes_prefixes_and_checks_ecrc() {
    let pool = tlp::PayloadPool::new();
    let prefixes = [Prefix(0x8000_1234), Prefix::extended_tph(0x42), Prefix::pasid(0xabcde, true, false)];
    let mut tlp = common::memory(
        tlp::MemoryOp::Write,
        0x0100,
        1,
        0x1000,
        8,
        Data::Carried(pool.copy(&[1, 2, 3, 4, 5, 6, 7, 8])),
    );
    tlp.prefixes = Prefixes::new(&prefixes).unwrap();
    tlp.repr.td = true;
    let mut writer = Writer::new(Vec::new()).unwrap();
    let tap = writer.tap(0, riser_capture::Direction::Upstream, "").unwrap();
    writer.write_tlp(tap, Time::ZERO, &tlp, Origin::Device).unwrap();
    let counted = Tlp { data: Data::Counted(8), ..tlp.clone() };
    writer.write_tlp(tap, Time::ZERO, &counted, Origin::Device).unwrap();
    let capture = writer.finish().unwrap();
    // Flips a bit of the data: in the last byte before the digest of the first TLP.
    let mut bad = capture.clone();
    let at = capture.windows(8).position(|w| w == [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    bad[at + 7] ^= 1;
    for (capture, expected) in [(&capture, Ecrc::Good), (&bad, Ecrc::Bad)] {
        let mut reader = reader(capture);
        let record = reader.next_record().unwrap().unwrap();
        let read = record.tlp().unwrap();
        assert_eq!((read.ecrc, read.data.len(), read.wire_len), (Some(expected), 8, 12 + 12 + 8 + 4));
        assert_eq!(read.prefixes.as_slice(), prefixes);
        let mut line = String::new();
        render::json(&record, &mut line);
        let json: Value = serde_json::from_str(&line).unwrap();
        let name = if expected == Ecrc::Good { "good" } else { "bad" };
        assert_eq!((&json["ecrc"], &json["pasid"]), (&Value::from(name), &Value::from(0xabcde)));
        let names: Vec<&str> =
            json["prefixes"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["MR-IOV", "Extended TPH", "PASID"]);
        assert_eq!(json["prefixes"][0]["value"], 0x8000_1234u32);
        // The digest of counted data is unknown, but prefixes and header are captured.
        let record = reader.next_record().unwrap().unwrap();
        let read = record.tlp().unwrap();
        assert_eq!((read.ecrc, read.data.len(), read.prefixes.as_slice().len()), (None, 0, 3));
    }
}

/// An unexpected completion that failed has no data, and a poisoned one is marked as poisoned.
#[test]
fn unexpected_completions_count_in_the_summary() {
    let stray = Tlp::new(completion(0x0100, 1, 4, None, Status::UnsupportedRequest), Data::NONE);
    let mut link = Link::new();
    link.tlp(false, &stray, SOUND).tlp(false, &stray, SOUND);
    let (_, summary) = common::transaction_lines(&link.finish());
    assert!(summary.starts_with("2 transactions, 2 with errors\n"), "{summary}");
    assert!(
        summary
            .contains("error: UR                               2\nerror: unexpected completion            2"),
        "{summary}"
    );
}

/// A frame that is neither TLP nor DLLP, hours before or after the rest, makes no rows and no delay.
#[test]
fn foreign_frames_create_no_intervals() {
    let capture = std::fs::read(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/seeds/capture_read/late_other.pcap"),
    );
    let report = series(&capture.unwrap(), None, None);
    assert_eq!((report.rows.len(), report.rows[0].links[0].non_posted_tlps), (1, 1));
}

/// When a link comes up again, it numbers its TLPs from 0 (`PCIe 5.0 §3.6.2.1`). Statistics, transactions and
/// intervals count the TLPs before and after, and none as a replay or as out of order.
#[test]
fn sequence_numbers_restart_when_a_link_comes_up() {
    let (read, answer) = read_and_answer(1, 0x1000, 64);
    let mut link = Link::new();
    for _ in 0..2 {
        link.dllp(false, fc(FlowControlKind::InitFc1, Class::NonPosted, 0, 9, 99), SOUND);
        link.dllp(true, fc(FlowControlKind::InitFc1, Class::NonPosted, 0, 9, 99), SOUND);
        for place in 0..3u16 {
            link.again(true, &read, place.into(), SOUND).ack(false, place);
            link.again(false, &answer, place.into(), SOUND).ack(true, place);
        }
        // These TLPs are never acknowledged, because the link goes down.
        link.again(true, &read, 3, SOUND).again(false, &answer, 3, SOUND);
    }
    let capture = link.finish();
    let (mut stats, mut tracker) = (Stats::new(), Tracker::new());
    let mut reader = Reader::new(&capture[..]).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        stats.add(&record);
        tracker.see(&record, 0);
    }
    tracker.finish();
    let report = stats.report().to_string();
    assert!(!report.contains("out of order") && !report.contains("seen again"), "{report}");
    let ended: Vec<_> = std::iter::from_fn(|| tracker.next_ended()).collect();
    assert_eq!((ended.len(), tracker.again(), tracker.lost()), (8, 0, 0));
    let acked = ended.iter().filter(|t| matches!(t.ack, Ack::Seen { .. })).count();
    assert_eq!(acked, 6);
}
