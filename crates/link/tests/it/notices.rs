// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notices of a port to its owner: one row for each kind of error, and the changes of the link.

use crate::common::{Fate, Joined, World, id_of, write};
use riser_link::{CreditLimit, Damage, Frame, Notice, Port, PortConfig, header_log};
use tlp::{
    Account, Attributes, Class, Dllp, Duration, FlowControl, FlowControlKind, Mps, Rate, TcSet, TcVcMap,
    Time, Tlp, TrafficClass, Vc, Width,
};

fn config(rate: Rate) -> PortConfig {
    PortConfig::new(rate, Width::new(8).unwrap(), Mps::new(256).unwrap())
}

fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn up(rate: Rate) -> Notice {
    Notice::Up { rate, width: Width::new(8).unwrap() }
}

fn drain(port: &mut Port) -> Vec<Notice> {
    std::iter::from_fn(|| port.poll_notice()).collect()
}

/// Lets the port send all that it can, and discards the frames.
fn talk(port: &mut Port) {
    while let Some(ready) = port.transmit_ready_at() {
        if port.poll_transmit(ready).is_none() {
            break;
        }
    }
}

fn hear(port: &mut Port, now: Time, dllp: Dllp) {
    assert!(!port.handle_frame(now, Frame::Dllp(dllp)));
}

/// A port in DL_Active whose sender and receiver have two credits of each class, 32 of data; at 8 GT/s.
fn active() -> Port {
    let mut config = config(Rate::Gt8);
    config.rx_buffer = [CreditLimit::finite(2, 32); 3];
    let mut port = Port::new(config);
    port.start(Time::ZERO);
    initialize(&mut port, Time::from_ps(1));
    assert_eq!(drain(&mut port), [up(Rate::Gt8)]);
    port
}

fn initialize(port: &mut Port, now: Time) {
    for kind in [FlowControlKind::InitFc1, FlowControlKind::InitFc2] {
        talk(port);
        for class in Class::ALL {
            hear(port, now, Dllp::FlowControl(FlowControl::new(kind, class, Vc::VC0, 2, 32)));
        }
    }
    talk(port);
    assert!(port.is_active());
}

fn tlp(sequence: u16) -> Frame {
    Frame::Tlp { sequence, tlp: write(sequence, 0x100, 256, Attributes::empty()) }
}

fn flipped() -> Damage {
    [99].into_iter().collect()
}

fn update(class: Class, header: u8, data: u16) -> Dllp {
    Dllp::FlowControl(FlowControl::new(FlowControlKind::UpdateFc, class, Vc::VC0, header, data))
}

/// Sends `count` TLPs, sequence numbers from zero.
fn send(port: &mut Port, count: u16) {
    for id in 0..count {
        port.enqueue(at(1), write(id, 0x100, 64, Attributes::empty()), Account::NONE);
        talk(port);
    }
}

/// REPLAY_TIMER expires `times` times without an Ack.
fn time_out(port: &mut Port, times: u32) {
    for _ in 0..times {
        let before = port.counters().replay_timeouts;
        while port.counters().replay_timeouts == before {
            let due = port.poll_timeout().unwrap();
            port.handle_timeout(due);
            talk(port);
        }
    }
}

/// Rows: the event; the notice to the owner, once (paragraphs of `PCIe 5.0`).
#[test]
fn each_error_is_reported_under_its_specification_name() {
    type Row = (&'static str, fn(&mut Port), &'static [Notice]);
    let rows: [Row; 21] = [
        ("§3.6.3.1: a good TLP", |p| assert!(p.handle_frame(at(1), tlp(0).as_ref())), &[]),
        (
            "§3.6.3.1: LCRC",
            |p| assert!(!p.handle_damaged(at(1), tlp(0).as_ref(), &flipped())),
            &[Notice::BadTlp],
        ),
        (
            "§3.6.3.1: a TLP is missing",
            |p| assert!(!p.handle_frame(at(1), tlp(1).as_ref())),
            &[Notice::BadTlp],
        ),
        (
            "§3.6.3.1: after a gap nothing is reported again",
            |p| {
                for n in 1..5 {
                    assert!(!p.handle_frame(at(1), tlp(n).as_ref()));
                    talk(p);
                    let told = drain(p);
                    assert_eq!(told.is_empty(), n > 1, "{told:?}");
                }
            },
            &[],
        ),
        (
            "§3.6.3.1: a duplicate is no error",
            |p| (0..2).for_each(|n| assert_eq!(p.handle_frame(at(1), tlp(0).as_ref()), n == 0)),
            &[],
        ),
        (
            "§3.6.2.2: CRC of a DLLP",
            |p| {
                let ack = Frame::Dllp(Dllp::Ack { sequence: 0 });
                assert!(!p.handle_damaged(at(1), ack, &[7].into_iter().collect()));
            },
            &[Notice::BadDllp],
        ),
        ("§4.2.2.3.3: framing of a DLLP", |p| p.receive_broken_frame(at(1), false), &[Notice::ReceiverError]),
        ("§6.2.9: corrected", |p| p.note_corrected_buffer(), &[Notice::CorrectedInternal]),
        ("§4.2.2.3.3: framing of a TLP", |p| p.receive_broken_frame(at(1), true), &[Notice::ReceiverError]),
        (
            "§3.6.2.2: Ack of a TLP that was never sent",
            |p| hear(p, at(1), Dllp::Ack { sequence: 5 }),
            &[Notice::DataLinkProtocol],
        ),
        (
            "§3.6.2.2: Nak of a TLP that was never sent",
            |p| hear(p, at(1), Dllp::Nak { sequence: 5 }),
            &[Notice::DataLinkProtocol],
        ),
        ("§3.6.2.2: Ack of before the first", |p| hear(p, at(1), Dllp::Ack { sequence: 4095 }), &[]),
        (
            "§3.6.2.1: REPLAY_TIMER",
            |p| {
                send(p, 1);
                time_out(p, 1);
            },
            &[Notice::ReplayTimeout],
        ),
        (
            "§3.6.2.1: REPLAY_NUM rolls over with the fourth",
            |p| {
                send(p, 1);
                time_out(p, 4);
            },
            &[Notice::ReplayTimeout, Notice::ReplayRollover],
        ),
        // Two credits were advertised and none are used. A limit of 129 would leave 129 unused, but 127 are allowed.
        (
            "§2.6.1: too many headers",
            |p| hear(p, at(1), update(Class::Posted, 129, 32)),
            &[Notice::FlowControlProtocol],
        ),
        ("§2.6.1: as many as may be", |p| hear(p, at(1), update(Class::Posted, 127, 2047)), &[]),
        (
            "§2.6.1: too much data",
            |p| hear(p, at(1), update(Class::NonPosted, 2, 2048)),
            &[Notice::FlowControlProtocol],
        ),
        (
            "§2.6.1: credits taken back",
            |p| {
                send(p, 2);
                hear(p, at(1), update(Class::Posted, 1, 32));
            },
            &[Notice::FlowControlProtocol],
        ),
        (
            "§3.6.2.2: an unknown channel is no error",
            |p| {
                let fc = FlowControl::new(FlowControlKind::UpdateFc, Class::Posted, Vc::from_bits(3), 200, 9);
                hear(p, at(1), Dllp::FlowControl(fc));
            },
            &[],
        ),
        (
            // MWr of 64 DW from 0x1_0000_2000: requester 01:00.0, tag 2.
            "§2.6.1.2: beyond the credits",
            |p| (0..3).for_each(|n| assert_eq!(p.handle_frame(at(1), tlp(n).as_ref()), n < 2)),
            &[Notice::ReceiverOverflow { header: [0x6000_0040, 0x0100_02ff, 1, 0x2000] }],
        ),
        (
            "§2.3: no TLP by its form",
            |p| {
                let header = [0x5f00_0001, 2, 3, 4];
                let sent = write(0, 0x100, 256, Attributes::empty());
                assert!(p.receive_malformed(at(1), 0, &sent, header));
                assert_eq!((p.poll_refused(), p.counters().malformed_tlps), (true, 1));
                // Its credits went back: both can be used.
                for n in 1..3 {
                    assert!(p.handle_frame(at(1), tlp(n).as_ref()));
                }
            },
            &[Notice::MalformedTlp { header: [0x5f00_0001, 2, 3, 4] }],
        ),
    ];
    for (what, happens, told) in rows {
        let mut port = active();
        happens(&mut port);
        assert_eq!(drain(&mut port), told, "{what}");
        assert_eq!(port.notices_lost(), 0);
    }
}

/// A Traffic Class that no channel carries (`PCIe 5.0 §2.5.2`).
#[test]
fn an_unmapped_traffic_class_is_malformed() {
    let mut classes = [TcSet::NONE; 8];
    classes[0] = TcSet::of(TrafficClass::default());
    let mut port = Port::new(PortConfig { tc_vc: TcVcMap::new(classes).unwrap(), ..config(Rate::Gt8) });
    port.start(Time::ZERO);
    initialize(&mut port, Time::from_ps(1));
    let mut sent = write(0, 0x100, 4, Attributes::empty());
    sent.repr.tc = TrafficClass::from_bits(5);
    let header = header_log(&sent);
    assert_eq!(header[0], 0x6050_0001, "TC in bits 22:20");
    assert!(!port.handle_frame(at(1), Frame::Tlp { sequence: 0, tlp: &sent }));
    assert_eq!(drain(&mut port), [up(Rate::Gt8), Notice::MalformedTlp { header }]);
}

/// With infinite credits the fields of an UpdateFC are zero (`PCIe 5.0 §2.6.1`).
#[test]
fn infinite_credits_reject_finite_updates() {
    let mut port = Port::new(config(Rate::Gt8));
    port.start(Time::ZERO);
    for kind in [FlowControlKind::InitFc1, FlowControlKind::InitFc2] {
        talk(&mut port);
        for class in Class::ALL {
            hear(
                &mut port,
                Time::from_ps(1),
                Dllp::FlowControl(FlowControl::new(kind, class, Vc::VC0, 0, 0)),
            );
        }
    }
    talk(&mut port);
    hear(&mut port, at(1), update(Class::Completion, 0, 0));
    assert_eq!(drain(&mut port), [up(Rate::Gt8)]);
    hear(&mut port, at(1), update(Class::Completion, 1, 0));
    assert_eq!(drain(&mut port), [Notice::FlowControlProtocol]);
}

/// A framing error sends a link with 128b/130b encoding into Recovery (`PCIe 5.0 §4.2.2.3.3`); a link with 8b/10b
/// encoding continues. Either way the TLP is replayed.
#[test]
fn broken_framing_retrains_links_with_128b130b() {
    for (rate, retrains) in [(Rate::Gt5, false), (Rate::Gt8, true)] {
        let mut port = Port::new(config(rate));
        port.start(Time::ZERO);
        initialize(&mut port, Time::from_ps(1));
        port.receive_broken_frame(at(1), true);
        assert_eq!(port.poll_retrain(), retrains.then(|| at(5)), "4 us at {rate:?}");
        let sent = port.poll_transmit(at(5)).unwrap();
        assert_eq!(sent.frame, Frame::Dllp(Dllp::Nak { sequence: 4095 }));
        assert_eq!(port.counters().receiver_errors, 1);
    }
}

/// One direction of writes, over a link that a test takes down and brings up.
#[derive(Default)]
struct Writes {
    next: u16,
    arrived: Vec<u16>,
}

impl World for Writes {
    fn next(&mut self, side: usize, class: Class) -> Option<Tlp> {
        if side != 0 || class != Class::Posted || self.next == 40 {
            return None;
        }
        self.next += 1;
        Some(write(self.next - 1, 0x100, 64, Attributes::empty()))
    }

    fn delivered(&mut self, _side: usize, _now: Time, tlp: Tlp) {
        self.arrived.push(id_of(&tlp));
    }

    fn fate(&mut self, _side: usize, _nth: u64, _frame: &Frame) -> Fate {
        Fate::Intact
    }
}

/// `PCIe 5.0 §2.9.1`, §3.2.1: TLPs that were queued or in flight are handed back, and the link moves no TLP while it is
/// down. It comes up with sequence number 0 and all credits, at the rate of its configuration.
#[test]
fn link_goes_down_and_comes_up() {
    let mut world = Writes::default();
    let mut link = Joined::new([config(Rate::Gt8), config(Rate::Gt8)], Duration::from_ns(20));
    while world.arrived.len() < 5 {
        assert!(link.step(&mut world, at(10)));
    }
    let now = link.now;
    let lost = link.cut(true);
    assert_eq!((drain(link.port_mut(0)), drain(link.port_mut(1))), {
        let told = vec![up(Rate::Gt8), Notice::Down { surprise: true }];
        (told.clone(), told)
    });
    for (tlp, sequence, received) in &lost[0] {
        assert_eq!(*received, usize::from(id_of(tlp)) < world.arrived.len());
        assert!(sequence.is_none_or(|sequence| sequence == id_of(tlp)), "numbered as sent");
    }
    let handed_back: Vec<u16> = lost[0].iter().map(|l| id_of(&l.0)).collect();
    assert_eq!(*handed_back.last().unwrap() + 1, world.next, "in order, to the last");
    assert!(handed_back.windows(2).all(|w| w[0] + 1 == w[1]));
    assert!(handed_back[0] <= 5, "all that did not arrive");
    let port = link.port(0);
    assert!(port.is_down() && !port.is_active() && !port.has_room(Class::Posted));
    assert_eq!(
        (port.transmit_ready_at(), port.poll_timeout(), port.state_line().as_str()),
        (None, None, "link down")
    );
    assert_eq!(link.port_mut(0).take_down(now, true), []);
    assert!(drain(link.port_mut(0)).is_empty(), "it was down");
    assert!(!link.step(&mut world, at(20)));
    link.restore();
    let before = world.arrived.len();
    assert!(link.run(&mut world, at(60), 100_000));
    assert_eq!(world.arrived.last(), Some(&39));
    assert!(world.arrived[before..].windows(2).all(|w| w[0] + 1 == w[1]));
    assert_eq!(drain(link.port_mut(1)), [up(Rate::Gt8)]);
    assert_eq!(link.port(0).state_line(), "idle");
}

/// Frames that arrive while the link is down are ignored, and cause no errors.
#[test]
fn port_of_a_down_link_receives_no_tlp() {
    let mut port = active();
    assert_eq!(port.take_down(at(1), false), []);
    hear(&mut port, at(1), Dllp::Ack { sequence: 5 });
    hear(&mut port, at(1), update(Class::Posted, 129, 0));
    assert!(!port.handle_frame(at(1), tlp(0).as_ref()));
    assert!(!port.handle_damaged(at(1), tlp(0).as_ref(), &flipped()));
    port.receive_broken_frame(at(1), true);
    assert_eq!(drain(&mut port), [Notice::Down { surprise: false }]);
    assert_eq!(port.transmit_ready_at(), None);
    port.bring_up(at(2));
    initialize(&mut port, at(2));
    assert_eq!(drain(&mut port), [up(Rate::Gt8)]);
    assert!(port.handle_frame(at(3), tlp(0).as_ref()), "sequence numbers restart");
}

/// Credits of TLPs from before the link went down no longer count. Credits of later TLPs count.
#[test]
fn credits_from_before_link_down_are_not_counted_again() {
    let mut port = active();
    for n in 0..2 {
        assert!(port.handle_frame(at(1), tlp(n).as_ref()));
    }
    let _ = port.take_down(at(1), true);
    port.bring_up(at(2));
    initialize(&mut port, at(2));
    let back = |port: &mut Port| port.return_credits(at(3), TrafficClass::default(), Class::Posted, 16);
    (0..2).for_each(|_| back(&mut port));
    for n in 0..2 {
        assert!(port.handle_frame(at(3), tlp(n).as_ref()));
    }
    assert!(!port.handle_frame(at(3), tlp(2).as_ref()), "two credits, as advertised");
    back(&mut port);
    assert!(port.handle_frame(at(3), tlp(3).as_ref()));
    // An owner that has dropped its TLPs returns no credits for them.
    let _ = port.take_down(at(4), true);
    port.forget_received();
    port.bring_up(at(5));
    initialize(&mut port, at(5));
    for n in 0..5 {
        assert!(port.handle_frame(at(6), tlp(n).as_ref()));
        back(&mut port);
    }
}

/// A change of speed is reported. A link that comes up again has its configured speed.
#[test]
fn speed_change_is_reported() {
    let mut port = active();
    let x4 = Width::new(4).unwrap();
    let until = port.retrained_at(at(1));
    port.retrain(at(1), until, Rate::Gt2_5, x4);
    assert_eq!(drain(&mut port), [Notice::Retrained { rate: Rate::Gt2_5, width: x4 }]);
    let _ = port.take_down(at(9), false);
    port.bring_up(at(10));
    initialize(&mut port, at(10));
    assert_eq!(drain(&mut port), [Notice::Down { surprise: false }, up(Rate::Gt8)]);
}

/// A TLP with more data than the other end ever has credits for: reported when it is queued, or when the credits become
/// known. In either case, earlier TLPs that can be sent are sent.
#[test]
fn tlp_beyond_all_credits_is_reported() {
    let needs = |needed| Notice::NeverAdmitted { vc: Vc::VC0, class: Class::Posted, needed, advertised: 32 };
    // 512 B are all of the 32 credits.
    for (bytes, told) in [(512, None), (528, Some(needs(33)))] {
        let mut port = active();
        port.enqueue(at(1), write(0, 0x100, bytes, Attributes::empty()), Account::NONE);
        talk(&mut port);
        assert_eq!(drain(&mut port), Vec::from_iter(told), "{bytes} B to an active port");
        assert!(!port.is_idle());
        let mut early = Port::new(config(Rate::Gt8));
        early.start(Time::ZERO);
        early.enqueue(Time::ZERO, write(0, 0x100, 16, Attributes::empty()), Account::NONE);
        early.enqueue(Time::ZERO, write(1, 0x100, bytes, Attributes::empty()), Account::NONE);
        initialize(&mut early, Time::from_ps(1));
        assert_eq!(
            drain(&mut early),
            Vec::from_iter(told.into_iter().chain([up(Rate::Gt8)])),
            "{bytes} B before"
        );
        assert!(early.lend(Frame::Tlp { sequence: 0, tlp: () }).is_some());
    }
}

/// A TLP without credits waits from the time when the wire is free for it. This holds whether it was queued before the
/// credits were known or after, and even if the port is not polled for a frame in between.
#[test]
fn stall_time_starts_when_the_wire_is_free() {
    let needs_more = || write(0, 0x100, 528, Attributes::empty());
    let update = FlowControl::new(FlowControlKind::UpdateFc, Class::Posted, Vc::VC0, 2, 33);
    let stalled = |port: &mut Port| {
        hear(port, at(7), Dllp::FlowControl(update));
        let counters = port.counters();
        (counters.credit_stalls[0], Duration::from_ps(counters.credit_stall_ps[0]))
    };
    let mut port = active();
    port.enqueue(at(3), needs_more(), Account::NONE);
    assert_eq!(stalled(&mut port), (1, Duration::from_us(4)));
    let mut early = Port::new(config(Rate::Gt8));
    early.start(Time::ZERO);
    early.enqueue(Time::ZERO, needs_more(), Account::NONE);
    initialize(&mut early, at(2));
    assert_eq!(stalled(&mut early), (1, Duration::from_us(5)), "since the credits are known");
}
