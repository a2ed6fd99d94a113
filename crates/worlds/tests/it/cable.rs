// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cable of a NIC in a lab leads to the outside: frames leave and arrive, and a record repeats them.

use devices::ethernet::{Arrival, Cable, EthernetPort, FrameFromWire, LinkInput, Modes, Peer, Station};
use lab::parse_in;
use riser_worlds::machine::{CableLink, Transport};
use session::external::{Clock, Driver, RecordedLab, Replay, Replayed};
use session::{CaptureHandle, CaptureOptions, Session};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::path::Path;
use testkit::Bytes;
use tlp::{Duration, Time};

const LAB: &str = "version = 1\n[[slot]]\nname = \"nic\"\ndevice = \"simple-nic\"\n\
    [slot.simple-nic]\ncable = \"outside\"\npings = 5\nping_bytes = 600\n";

fn capture(lab: &mut Session) -> (Bytes, CaptureHandle<Bytes>) {
    let bytes = Bytes::default();
    let handle = lab.capture(bytes.clone(), CaptureOptions::default()).unwrap();
    (bytes, handle)
}

/// A lab that is driven and recorded from the start.
fn recorded(text: &str) -> (Driver, Bytes) {
    let file = parse_in(&devices::models(), Path::new("nic.toml"), text, "".into()).unwrap();
    let (mut lab, record) = (Driver::new(Session::new(&file).unwrap(), Clock::Wall), Bytes::default());
    let (path, text) = ("nic.toml".to_owned(), text.to_owned());
    let recorded = RecordedLab { path, text, set: Vec::new(), seed: 0, files: Some([].into()) };
    lab.record(Box::new(record.clone()), &recorded, u64::MAX);
    (lab, record)
}

/// Ends a lab at `now`, and replays its record. The captures must be equal.
fn replayed(mut lab: Driver, now: Time, record: &Bytes, live: (Bytes, CaptureHandle<Bytes>)) -> Replayed {
    lab.finish(now).unwrap();
    lab.session_mut().fabric.take_tap();
    live.1.finish().unwrap();
    let record = record.0.take();
    let mut replay = Replay::new(&record, &devices::models()).unwrap();
    let (again, handle) = capture(replay.session_mut());
    let mut replayed = replay.run().unwrap();
    replayed.session.fabric.take_tap();
    handle.finish().unwrap();
    assert!(replayed.complete);
    assert!(*live.0.0.borrow() == *again.0.borrow(), "the captures differ");
    replayed
}

#[test]
fn frames_pass_and_replay_repeats_them() {
    let (mut lab, record) = recorded(LAB);
    let live = capture(lab.session_mut());
    let handle = lab.handle::<Cable>().unwrap();
    let station = Station { mac: [2, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(192, 0, 2, 2) };
    let mut peer = Peer { station, latency: Duration::from_us(33) };
    let (mut now, mut on_wire) = (Time::ZERO, VecDeque::<(Time, Vec<u8>)>::new());
    while lab.session().fabric.host_outcome().is_none() && now < Time::ZERO + Duration::from_ms(10) {
        now += Duration::from_ps(3_141_592);
        lab.drain(now, |_| {});
        while let Some(frame) = handle.place.frame_to_wire() {
            let answer = peer.transmit(&frame);
            on_wire.extend(answer.map(|Arrival { after, frame }| (now + after, frame)));
        }
        while let Some((at, frame)) = on_wire.pop_front_if(|(at, _)| *at <= now) {
            lab.inject(at, &handle, FrameFromWire(&frame));
        }
    }
    assert_eq!((lab.session().fabric.host_outcome(), lab.failure()), (Some(&Ok(())), None));
    // ARP and five echo requests, and their answers.
    let counters = handle.place.counters();
    assert_eq!((counters.from_wire, counters.to_wire, counters.from_wire_lost), (6, 6, 0));
    let replayed = replayed(lab, now, &record, live);
    assert_eq!(replayed.inputs, 6);
    let report = replayed.session.report("nic", &fabric::Stop::Finished, 0.0);
    assert_eq!(report.devices[0].counters["pings_answered"], 5);
}

/// Two NICs and their drivers, which bring the links up and send nothing. The first one's PCI Express link is cut after 10 ms.
const TWO: &str = "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"intel-82574\"\nhot_plug = true\n\
    [slot.intel-82574]\ncable = \"outside\"\npings = 0\n\
    [[slot]]\nname = \"b\"\ndevice = \"intel-82574\"\n[slot.intel-82574]\ncable = \"outside\"\npings = 0\nmac = \"02:00:00:00:00:02\"\n\
    [[outage]]\nslot = \"a\"\nat_us = 10_000\n";

/// Returns the modes that each NIC sees at the other end of its cable.
fn ends(lab: &Driver) -> [Modes; 2] {
    ["slot a", "slot b"].map(|name| lab.handle_named::<Cable>(name).unwrap().place.partner())
}

#[test]
fn far_end_of_a_cable_sees_the_link_change() {
    let (mut lab, record) = recorded(TWO);
    let live = capture(lab.session_mut());
    let handle = |lab: &Driver, name: &str| lab.handle_named::<Cable>(name).unwrap();
    let mut cord = CableLink::between(handle(&lab, "slot a"), handle(&lab, "slot b"));
    let mut now = Time::ZERO;
    let mut pass = |lab: &mut Driver, ms: u64| {
        for _ in 0..ms * 10 {
            now += Duration::from_us(100);
            lab.drain(now, |lab| cord.carry(lab));
        }
        now
    };
    pass(&mut lab, 5);
    assert_eq!((ends(&lab), lab.failure()), ([Modes::ALL; 2], None));
    // If a cable is unplugged at one end, the link goes down at both ends.
    for (is_plugged, expected) in [(false, Modes::NONE), (true, Modes::ALL)] {
        let (a, at) = (handle(&lab, "slot a"), pass(&mut lab, 0));
        lab.inject(at, &a, LinkInput::Plugged(is_plugged));
        pass(&mut lab, 1);
        assert_eq!(ends(&lab), [expected; 2], "plugged: {is_plugged}");
    }
    // A card whose link is cut is reset, and its end of the cable goes down.
    let end = pass(&mut lab, 4);
    assert_eq!(ends(&lab), [Modes::ALL, Modes::NONE]);
    replayed(lab, end, &record, live);
}
