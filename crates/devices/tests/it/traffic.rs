// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic generator alone: timing of requests, handling of answers, and refused settings.

use allocation_counter::measure;
use endpoint::TlpPort;
use plug::Shared;
use riser_devices::traffic::*;
use tlp::*;

fn flow(name: &str, kind: FlowKind, size_bytes: u32, tc: u8) -> Flow {
    Flow {
        name: name.into(),
        kind,
        size_bytes,
        tc: TrafficClass::from_bits(tc),
        attr: Attributes::RELAXED_ORDERING,
        address: 0x10_0000,
        window_bytes: 4096,
        interval: Duration::ZERO,
        count: 4,
        outstanding: 2,
    }
}

fn settings(flows: Vec<Flow>) -> TrafficSettings {
    TrafficSettings { id: Bdf::from_bits(0x0100), flows, delay: Duration::ZERO, done_vector: Some(0x8001) }
}

fn traffic(flows: Vec<Flow>) -> (Traffic, Shared<TrafficReport>) {
    let report = Shared::default();
    (Traffic::new(&settings(flows), &PayloadPool::new(), &report).unwrap(), report)
}

fn ns(n: u64) -> Time {
    Time::ZERO + Duration::from_ns(n)
}

fn poll(traffic: &mut Traffic, at: u64, class: Class) -> Option<Tlp> {
    traffic.poll_tlp(ns(at), class, TcSet::ALL)
}

/// A completion with all the data of `request`.
fn answer(request: &Tlp, status: Status) -> Tlp {
    let (requester, tag) = request.repr.transaction();
    let bytes = match request.repr.body {
        Body::Memory(m) => m.span.byte_count(),
        _ => 8,
    };
    let with_data = status == Status::Success;
    let body = Completion {
        status,
        byte_count: bytes as u16,
        length_dw: with_data.then_some((bytes / 4) as u16),
        ..Completion::new(Bdf::default(), requester, tag)
    };
    let data = if with_data { Data::Counted(bytes) } else { Data::NONE };
    Tlp::new(Repr::new(Body::Completion(body)), data)
}

#[test]
fn writes_cycle_through_the_window_with_their_class_and_attributes() {
    let mut f = flow("w", FlowKind::Write, 1500, 3);
    f.count = 5;
    let (mut traffic, report) = traffic(vec![f]);
    let mut seen = Vec::new();
    while let Some(tlp) = poll(&mut traffic, 7, Class::Posted) {
        let Body::Memory(m) = tlp.repr.body else { panic!("{tlp}") };
        if m.span.first_byte() == 0xfee0_0000 {
            assert_eq!((tlp.repr.tc.bits(), tlp.data.bytes()), (0, Some(&[0x01, 0x80, 0, 0][..])));
            break;
        }
        assert_eq!((tlp.repr.tc.bits(), tlp.repr.attr), (3, Attributes::RELAXED_ORDERING));
        assert_eq!((m.requester.bits(), m.span.byte_count(), tlp.data.len()), (0x0100, 1500, 1500));
        seen.push(m.span.first_byte() - 0x10_0000);
    }
    // Steps of 2 KiB; the window holds two.
    assert_eq!(seen, [0, 2048, 0, 2048, 0]);
    assert!(poll(&mut traffic, 8, Class::Posted).is_none(), "the interrupt comes once");
    let report = report.get();
    assert_eq!((report.flows[0].sent, report.flows[0].bytes, report.flows[0].end), (5, 7500, Some(ns(7))));
}

#[test]
fn reads_are_limited_by_tags_and_timed() {
    let (mut traffic, report) = traffic(vec![flow("r", FlowKind::Read, 64, 0)]);
    let first = poll(&mut traffic, 10, Class::NonPosted).unwrap();
    let second = poll(&mut traffic, 20, Class::NonPosted).unwrap();
    assert!(poll(&mut traffic, 20, Class::NonPosted).is_none(), "two under way");
    traffic.handle_tlp(ns(110), &answer(&second, Status::Success));
    let third = poll(&mut traffic, 110, Class::NonPosted).unwrap();
    assert_eq!(third.repr.transaction(), second.repr.transaction(), "the tag that is free");
    traffic.handle_tlp(ns(210), &answer(&first, Status::Success));
    traffic.handle_tlp(ns(220), &answer(&first, Status::Success));
    traffic.handle_tlp(ns(310), &answer(&third, Status::UnsupportedRequest));
    let last = poll(&mut traffic, 400, Class::NonPosted).unwrap();
    assert!(traffic.waits_for().is_some());
    traffic.handle_tlp(ns(450), &answer(&last, Status::Success));
    assert!(poll(&mut traffic, 450, Class::Posted).is_some(), "the interrupt");
    assert_eq!(traffic.waits_for(), None);
    let report = report.get();
    let flow = &report.flows[0];
    // 200, 90, 200 (refused) and 50 ns.
    let d = Duration::from_ns;
    assert_eq!(flow.latencies.range(), Some((d(50), d(200))));
    assert_eq!((flow.latencies.mean(), flow.latencies.count()), (Some(d(135)), 4));
    assert_eq!((flow.bytes, flow.failed, report.unexpected), (192, 1, 1));
}

#[test]
fn intervals_are_kept_and_reported() {
    let mut f = flow("m", FlowKind::Message, 8, 2);
    f.interval = Duration::from_ns(100);
    let (mut traffic, _) = traffic(vec![f]);
    assert!(poll(&mut traffic, 5, Class::Posted).is_some_and(|t| t.repr.name() == "MsgD"));
    assert!(poll(&mut traffic, 104, Class::Posted).is_none());
    assert_eq!(traffic.poll_timeout(), Some(ns(105)));
    // After a delay, it does not catch up.
    assert!(poll(&mut traffic, 350, Class::Posted).is_some());
    assert!(poll(&mut traffic, 350, Class::Posted).is_none());
    assert_eq!(traffic.poll_timeout(), Some(ns(450)));
}

#[test]
fn flows_alternate_and_blocked_ones_are_skipped() {
    let flows = (0..3).map(|n| flow("w", FlowKind::Write, 4, n)).collect();
    let (mut traffic, _) = traffic(flows);
    let tc = |t: Option<Tlp>| t.map(|t| t.repr.tc.bits());
    let turns: Vec<_> = (0..4).map(|_| tc(poll(&mut traffic, 0, Class::Posted))).collect();
    assert_eq!(turns, [Some(0), Some(1), Some(2), Some(0)]);
    let only = |n| TcSet::of(TrafficClass::from_bits(n));
    let passed = [2, 2, 1].map(|n| tc(traffic.poll_tlp(ns(0), Class::Posted, only(n))));
    assert_eq!(passed, [Some(2), Some(2), Some(1)]);
    assert_eq!(tc(traffic.poll_tlp(ns(0), Class::Posted, only(7))), None);
}

#[test]
fn requests_of_the_host_are_refused_and_their_credits_returned() {
    let (mut traffic, _) = traffic(vec![flow("w", FlowKind::Write, 4, 0)]);
    let (kind, op, requester) = (ConfigKind::Type0, Access::Read, Bdf::default());
    let (tag, completer) = (Tag::from_bits(3), Bdf::from_bits(0x0100));
    let body = ConfigRequest { op, kind, requester, tag, completer, register_dw: 0, first_be: 0xf };
    traffic.handle_tlp(ns(1), &Tlp::new(Repr::new(Body::Config(body)), Data::NONE));
    assert_eq!(traffic.poll_credits(), None, "with the answer");
    let tlp = poll(&mut traffic, 2, Class::Completion).unwrap();
    let Body::Completion(c) = tlp.repr.body else { panic!("{tlp}") };
    assert_eq!((c.status, c.tag, c.completer), (Status::UnsupportedRequest, tag, completer));
    assert!(traffic.poll_credits().is_some_and(|c| c.class == Class::NonPosted));
}

#[test]
fn impossible_flows_are_refused() {
    let with = |change: fn(&mut Flow)| {
        let mut f = flow("f", FlowKind::Read, 64, 0);
        change(&mut f);
        settings(vec![f]).check().unwrap_err().to_string()
    };
    let rows = [
        (with(|f| f.size_bytes = 4097), "flow `f`: 4097 bytes, expected 1 to 4096"),
        (with(|f| (f.kind, f.size_bytes) = (FlowKind::Atomic, 16)), "flow `f`: 16 bytes, expected 4 or 8"),
        (
            with(|f| (f.kind, f.size_bytes) = (FlowKind::Message, 6)),
            "flow `f`: 6 bytes, expected 0 to 4096, multiples of 4",
        ),
        (with(|f| f.count = 0), "flow `f`: count of 0, expected 1 or more"),
        (
            with(|f| f.window_bytes = 100),
            "flow `f`: window of 100 bytes at 0x100000, expected a size and address that are multiples of 4096, and at least 4096 B",
        ),
        (
            with(|f| f.outstanding = 1025),
            "1025 outstanding reads and AtomicOps in all flows, expected 1 to 1024, at least 1 per flow",
        ),
    ];
    for (got, expected) in rows {
        assert_eq!(got, expected);
    }
    assert_eq!(settings(Vec::new()).check().unwrap_err().to_string(), "0 flows, expected 1 to 64");
}

/// Allocations while `count` requests of each of four kinds are sent and answered.
fn allocations(count: u64) -> u64 {
    let kinds = [(FlowKind::Read, 64), (FlowKind::Write, 64), (FlowKind::Atomic, 8), (FlowKind::Message, 64)];
    let flows = kinds.map(|(kind, size)| Flow { count, ..flow("f", kind, size, 0) }).to_vec();
    let (mut traffic, _) = traffic(flows);
    let mut now = 0;
    let counted = measure(|| {
        for _ in 0..2 * count {
            now += 1;
            for class in [Class::Posted, Class::NonPosted] {
                if let Some(tlp) = poll(&mut traffic, now, class)
                    && class == Class::NonPosted
                {
                    traffic.handle_tlp(ns(now), &answer(&tlp, Status::Success));
                    assert!(traffic.poll_credits().is_some());
                }
            }
        }
    });
    assert_eq!(traffic.waits_for(), None);
    counted.count_total
}

#[test]
fn ten_times_the_requests_take_no_more_allocations() {
    let (few, many) = (allocations(100), allocations(1000));
    assert!(many <= few, "{few} for 100 of each kind, {many} for 1000");
}
