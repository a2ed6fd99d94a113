// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outside hosts: each enumerates its own tree, takes interrupts, and owns the memory that DMA accesses. Their runs are replayed
//! without them, byte for byte.

use crate::external::machine::{APART, Card, Found, Machine, STEP};
use device::CompletionError;
use host::{HostError, HostInterrupt, HostOutput, HostReadId};
use lab::{LabFile, draw, parse, parse_in};
use plug::Models;
use riser_session::external::host::{HostRequest, MAX_WAITING_INPUTS, Map, MapAccess};
use riser_session::external::{Clock, Commands, Driver, Handle, RecordEnd, RecordedLab, Replay, ReplayError};
use riser_session::{CaptureHandle, CaptureOptions, Session, enumerate};
use std::path::Path;
use testkit::Bytes;
use tlp::{Bdf, Duration, Time};

/// Two hosts with a switch and two cards each, at the same addresses; the simulated host has none.
const PAIR: &str = "version = 1\n\
    [[external_host]]\nname = \"left\"\n[[external_host]]\nname = \"right\"\nprofile = \"xeon-e5-2637v3\"\n\
    [[switch]]\nname = \"a\"\nparent = \"left\"\n[[switch]]\nname = \"b\"\nparent = \"right\"\n\
    [[slot]]\nname = \"a1\"\ndevice = \"card\"\nparent = \"a\"\n\
    [[slot]]\nname = \"b1\"\ndevice = \"card\"\nparent = \"b\"\n\
    [[slot]]\nname = \"a2\"\ndevice = \"card\"\nparent = \"a\"\n\
    [[slot]]\nname = \"b2\"\ndevice = \"card\"\nparent = \"b\"\n";
/// Address at which the hosts map their memory.
const RAM: u64 = 0x10_0000;

fn models() -> Models {
    devices::models().with::<Card>()
}

fn file(text: &str) -> LabFile {
    parse_in(&models(), Path::new("pair.toml"), text, "".into()).unwrap()
}

fn driver(text: &str) -> Driver {
    Driver::new(Session::new(&file(text)).unwrap(), Clock::Virtual)
}

fn recorded() -> RecordedLab {
    let (path, text) = ("pair.toml".to_owned(), PAIR.to_owned());
    RecordedLab { path, text, set: Vec::new(), seed: 0, files: Some([].into()) }
}

fn us(us: u64) -> Time {
    Time::from_ps(us * 1_000_000)
}

/// The record and the capture of a run of both hosts.
struct Kept {
    record: Bytes,
    capture: Bytes,
    handle: CaptureHandle<Bytes>,
}

impl Kept {
    /// Starts a run with a record of at most `limit` bytes.
    fn begin(limit: u64) -> (Driver, Kept) {
        let (mut lab, record, capture) = (driver(PAIR), Bytes::default(), Bytes::default());
        lab.record(Box::new(record.clone()), &recorded(), limit);
        let handle = lab.session_mut().capture(capture.clone(), CaptureOptions::default()).unwrap();
        (lab, Kept { record, capture, handle })
    }

    /// Ends the run after some more time.
    fn end(self, lab: &mut Driver, after: Duration) -> (Vec<u8>, Vec<u8>) {
        let end = lab.now() + after;
        lab.finish(end).unwrap();
        assert_eq!(lab.failure(), None);
        lab.session_mut().fabric.take_tap();
        self.handle.finish().unwrap();
        (self.record.0.take(), self.capture.0.take())
    }
}

/// Both hosts come up, and both cards of each work at the same addresses.
fn run_pair(lab: &mut Driver) -> [Machine; 2] {
    let mut machines = [("left", 0x21), ("right", 0x42)].map(|(name, data)| Machine::new(lab, name, data));
    // The links come up.
    lab.drain(us(20), |_| {});
    let found = machines.each_mut().map(|machine| {
        machine.map(lab, RAM);
        machine.enumerate(lab, 0)
    });
    let expected = [(3, 0xc000_0000), (4, 0xc010_0000)]
        .map(|(bus, bar)| Found { id: Bdf::new(bus, 0, 0).unwrap(), bar });
    for ((host, machine), found) in (1..).zip(&mut machines).zip(found) {
        assert_eq!(found, expected, "what is there to the one is there to the other");
        for (n, card) in (0..).zip(found) {
            let at = n * 0x400;
            machine.put_u64(at, host << 32 | n);
            machine.put_u64(at + 2 * APART, 100);
            machine.ring(lab, card, RAM + at);
        }
    }
    machines
}

#[test]
fn two_hosts_with_equal_addresses_are_independent() {
    let mut lab = driver(PAIR);
    let machines = run_pair(&mut lab);
    for ((host, machine), data) in (1..).zip(&machines).zip([0x21, 0x42]) {
        for n in 0..2 {
            let at = n * 0x400;
            assert_eq!(machine.u64_at(at + APART), host << 32 | n);
            assert_eq!(machine.u64_at(at + 2 * APART), 100 + STEP);
            let interrupt = machine.interrupts[n as usize];
            let requester = Bdf::new(3 + n as u8, 0, 0).unwrap();
            assert_eq!(interrupt_of(interrupt), (requester, 0xfee0_0000, data));
        }
        assert_eq!(machine.interrupts.len(), 2);
    }
    assert_eq!(lab.failure(), None);
}

/// An outside program replaces firmware and drivers of the slots at `root`.
#[test]
fn simulated_host_can_be_outside() {
    let text = "version = 1\n[host]\noutside = true\n\
        [[switch]]\nname = \"a\"\n[[slot]]\nname = \"a1\"\ndevice = \"card\"\nparent = \"a\"\n";
    let refused = file(text).check_runs_alone().unwrap_err().to_string();
    assert!(refused.contains("host.outside = true"), "{refused}");
    let mut lab = driver(text);
    let mut machine = Machine::new(&lab, "root", 0x21);
    lab.drain(us(20), |_| {});
    machine.map(&mut lab, RAM);
    let [card] = machine.enumerate(&mut lab, 0)[..] else { panic!("one card") };
    machine.put_u64(0, 7);
    machine.ring(&mut lab, card, RAM);
    assert_eq!(machine.u64_at(APART), 7);
    assert_eq!(machine.interrupts.len(), 1);
}

/// An outside program cuts a card's link and injects a fault, by commands that are recorded.
#[test]
fn link_commands_are_recorded_and_replayed() {
    let (mut lab, kept) = Kept::begin(u64::MAX);
    let mut machines = run_pair(&mut lab);
    let links: Handle<Commands> = lab.handle_named("links").unwrap();
    let order = |lab: &mut Driver, text: &str| {
        let command = links.place.parse(text).unwrap();
        lab.inject(lab.now(), &links, command);
    };
    let id = |lab: &mut Driver, machine: &mut Machine, bus| {
        let function = Bdf::new(bus, 0, 0).unwrap();
        let read =
            machine.ask(lab, |id| HostOutput::ConfigRead { id, function, register_dw: 0, byte_enables: 0xf });
        read.map(|data| data.bytes().unwrap().to_vec())
    };
    let there = Ok(vec![0x69, 0x72, 0xfe, 0x7f]);
    assert_eq!(id(&mut lab, &mut machines[0], 3), there);
    order(&mut lab, "cut a1");
    assert_eq!(
        id(&mut lab, &mut machines[0], 3),
        Err(HostError::Completion(CompletionError::UnsupportedRequest))
    );
    assert_eq!(id(&mut lab, &mut machines[1], 3), there, "the other host's card at the same place");
    order(&mut lab, "restore a1");
    let end = lab.now() + Duration::from_us(30);
    lab.drain(end, |_| {});
    assert_eq!(id(&mut lab, &mut machines[0], 3), there);
    order(
        &mut lab,
        "fault slot = 'a2', direction = 'upstream', frames = 'completion', nth = 1, action = 'set-status', status = 'completer-abort'",
    );
    let aborted = Err(HostError::Completion(CompletionError::CompleterAbort));
    assert_eq!(id(&mut lab, &mut machines[0], 4), aborted);
    assert_eq!(id(&mut lab, &mut machines[0], 4), there);
    let (record, capture) = kept.end(&mut lab, Duration::ZERO);
    let (again, end, _) = again(&record).unwrap();
    assert_eq!((again == capture, end), (true, RecordEnd::Whole));
}

/// Faults of commands end after `count` frames, after `for_ms`, and by `clear`; so does their replay.
#[test]
fn outages_end_on_command_or_in_time() {
    let (mut lab, kept) = Kept::begin(u64::MAX);
    let mut machines = run_pair(&mut lab);
    let links: Handle<Commands> = lab.handle_named("links").unwrap();
    let order = |lab: &mut Driver, text: &str| {
        let command = links.place.parse(text).unwrap();
        lab.inject(lab.now(), &links, command);
    };
    let id = |lab: &mut Driver, machine: &mut Machine| {
        let function = Bdf::new(4, 0, 0).unwrap();
        let read =
            machine.ask(lab, |id| HostOutput::ConfigRead { id, function, register_dw: 0, byte_enables: 0xf });
        read.map(|value| value.bytes().unwrap().to_vec())
    };
    let there = Ok(vec![0x69, 0x72, 0xfe, 0x7f]);
    let aborted = Err(HostError::Completion(CompletionError::CompleterAbort));
    let fault = |more: &str| {
        format!(
            "fault slot = 'a2', direction = 'upstream', frames = 'completion', nth = 1, every = 1, action = 'set-status', status = 'completer-abort'{more}"
        )
    };
    order(&mut lab, &fault(", count = 2"));
    assert_eq!(
        [(); 3].map(|()| id(&mut lab, &mut machines[0])),
        [aborted.clone(), aborted.clone(), there.clone()]
    );
    order(&mut lab, &fault(", for_ms = 1"));
    assert_eq!(id(&mut lab, &mut machines[0]), aborted);
    let end = lab.now() + Duration::from_ms(2);
    lab.drain(end, |_| {});
    assert_eq!(id(&mut lab, &mut machines[0]), there);
    for clear in ["clear", "clear a2"] {
        order(&mut lab, &fault(""));
        assert_eq!([(); 3].map(|()| id(&mut lab, &mut machines[0])), [(); 3].map(|()| aborted.clone()));
        order(&mut lab, "clear a1");
        assert_eq!(id(&mut lab, &mut machines[0]), aborted, "another link's");
        order(&mut lab, clear);
        assert_eq!(id(&mut lab, &mut machines[0]), there);
    }
    let (record, capture) = kept.end(&mut lab, Duration::ZERO);
    let (again, end, _) = again(&record).unwrap();
    assert_eq!((again == capture, end), (true, RecordEnd::Whole));
}

/// A reset clears all settings of a host, and does not affect the other host; it is replayed from a record.
#[test]
fn restarted_host_finds_reset_devices() {
    let (mut lab, kept) = Kept::begin(u64::MAX);
    let mut machines = run_pair(&mut lab);
    let buses = |lab: &mut Driver, machine: &mut Machine| {
        let function = Bdf::new(0, 1, 0).unwrap();
        let read =
            machine.ask(lab, |id| HostOutput::ConfigRead { id, function, register_dw: 6, byte_enables: 0xf });
        read.unwrap().bytes().unwrap().to_vec()
    };
    assert_eq!(buses(&mut lab, &mut machines[0])[..3], [0, 1, 4]);
    lab.inject(lab.now(), &machines[0].handle, HostRequest::reset());
    let end = lab.now() + Duration::from_us(50);
    lab.drain(end, |_| {});
    assert_eq!(buses(&mut lab, &mut machines[0])[..3], [0; 3]);
    assert_eq!(buses(&mut lab, &mut machines[1])[..3], [0, 1, 4], "the other host's");
    // The same as the first time.
    let mut anew = Machine::new(&lab, "left", 0x21);
    let found = anew.enumerate(&mut lab, 0);
    assert_eq!(found.len(), 2);
    anew.ram = machines[0].ram.clone();
    anew.put_u64(0, 77);
    anew.ring(&mut lab, found[0], RAM);
    assert_eq!(anew.u64_at(APART), 77);
    let (record, capture) = kept.end(&mut lab, Duration::ZERO);
    let (again, end, _) = again(&record).unwrap();
    assert_eq!((again == capture, end), (true, RecordEnd::Whole));
}

#[test]
fn rejects_invalid_commands() {
    let lab = driver(PAIR);
    let links: Handle<Commands> = lab.handle_named("links").unwrap();
    for (text, why) in [
        (
            "",
            "no command ``, expected cut NAME [MICROSECONDS]; restore NAME; remove NAME; insert NAME; attention NAME; \
             speed NAME GEN LANES; fault KEY = VALUE, ...; clear [NAME]",
        ),
        ("clear c", "no slot or switch `c`, expected a1, b1, a2, b2, a, b"),
        ("cut", "cut without a name, expected a1, b1, a2, b2, a, b"),
        ("cut c", "no slot or switch `c`, expected a1, b1, a2, b2, a, b"),
        ("cut a1 soon", "cut a1 soon, expected microseconds up to 10^9, only with `cut`"),
        ("restore a1 5", "restore a1 5, expected microseconds up to 10^9, only with `cut`"),
        ("cut a1 5 us", "cut a1: unexpected argument `us`"),
        ("remove a1", "remove a1: the port above is not hot-plug capable (hot_plug = true)"),
        ("speed a1 3", "speed a1 3, expected a name, a generation and lanes"),
        ("speed a1 4 8", "speed a1: generation 4, expected 1 to 3"),
        ("speed a1 0 8", "speed a1: generation 0, expected 1 to 3"),
        ("speed a1 1 3", "speed a1: 3 lanes, expected a link width up to 8"),
        ("speed a1 1 16", "speed a1: 16 lanes, expected a link width up to 8"),
        ("fault slot = 'a1'", "fault: missing field `direction`, expected `upstream`, `downstream`"),
        ("fault slot = c", "fault: "),
        ("fault slot=1", "fault: slot is integer `1`, expected "),
        (
            "fault slot = 'a1', direction = 'upstream', frames = 'tlp', nth = 1, action = 'drop', count = -1",
            "fault: count is integer `-1`, expected 1 to ",
        ),
        (
            "fault slot = 'a1', direction = 'upstream', frames = 'tlp', every = 1, action = 'drop'",
            "fault: missing field `nth`, expected 1 to ",
        ),
        (
            "fault slot = 'a1', direction = 'upstream', frames = 'tlp', nth = 1, action = 'drop', count = 0",
            "fault: count of 0, expected 1 to ",
        ),
        (
            "fault slot = 'a1', direction = 'upstream', frames = 'tlp', nth = 0, action = 'drop'",
            "fault: nth of 0: frames are counted from 1",
        ),
    ] {
        let refused = links.place.parse(text).err().unwrap().to_string();
        assert!(refused.starts_with(why) && (refused == why || why.ends_with(' ')), "{text}: {refused}");
    }
    // The error for an unknown key has the list of keys, and the nearest key.
    let refused = links.place.parse("fault slot = 'a1', directoin = 'upstream'").err().unwrap().to_string();
    assert!(refused.starts_with("fault: unknown field `directoin`, expected one of `slot`, "), "{refused}");
    assert!(refused.ends_with("; did you mean `direction`?") && refused.len() < 600, "{refused}");
    // All keys, required ones first, with their legal values.
    let refused = links.place.parse("fault").err().unwrap().to_string();
    for legal in [
        "slot (a1, b1, a2, b2, a, b)",
        "direction (`upstream`, `downstream`)",
        "`corrected-internal`",
        "and optionally ",
        "for_ms (1 to 1000000000)",
    ] {
        assert!(refused.contains(legal), "{legal}: {refused}");
    }
    assert!(
        links.place.parse(&"x".repeat(5000)).err().unwrap().to_string().contains("expected at most 4096")
    );
}

fn interrupt_of(interrupt: HostInterrupt) -> (Bdf, u64, u32) {
    match interrupt {
        HostInterrupt::Message { requester, address, data, .. } => (requester, address, data),
        other => panic!("{other:?}"),
    }
}

/// A run of both hosts with its record and its capture.
fn live(limit: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut lab, kept) = Kept::begin(limit);
    let mut machines = run_pair(&mut lab);
    // Differences from the lab, and files that no longer exist.
    machines[0].put_u64(0, 7);
    let card = Found { id: Bdf::new(3, 0, 0).unwrap(), bar: 0xc000_0000 };
    machines[0].ring(&mut lab, card, RAM);
    lab.inject(lab.now(), &machines[0].handle, HostRequest::unmap(RAM, 0x2000));
    machines[0].ring(&mut lab, card, RAM);
    lab.inject(lab.now(), &machines[1].handle, HostRequest::end(Ok(())));
    kept.end(&mut lab, Duration::from_us(50))
}

/// The capture, the end, and the number of inputs of a replay.
fn again(record: &[u8]) -> Result<(Vec<u8>, RecordEnd, u64), ReplayError> {
    let capture = Bytes::default();
    let mut replay = Replay::new(record, &models())?;
    let handle = replay.session_mut().capture(capture.clone(), CaptureOptions::default()).unwrap();
    let mut replayed = replay.run()?;
    replayed.session.fabric.take_tap();
    handle.finish().unwrap();
    assert_eq!(replayed.failure, None);
    Ok((capture.0.take(), replayed.end, replayed.inputs))
}

#[test]
fn replays_record_without_hosts_and_memory() {
    let (record, capture) = live(u64::MAX);
    let (same, end, inputs) = again(&record).unwrap();
    assert!(inputs > 200 && capture.len() > 10_000);
    assert!((capture == same) && end == RecordEnd::Whole, "the captures differ");
    // A record that is cut in the middle is replayed up to the cut, which is reported.
    let (part, end, some) = again(&record[..record.len() - 300]).unwrap();
    assert!(some < inputs && capture.starts_with(&part[..part.len() / 2]));
    assert!(matches!(end, RecordEnd::Cut(_)), "{end:?}");
    // The caller can stop a replay.
    let mut looks = 0;
    let stopped = Replay::new(&record, &models()).unwrap().run_while(|_| {
        looks += 1;
        looks < 3
    });
    let stopped = stopped.unwrap();
    assert!(stopped.end == RecordEnd::Stopped && !stopped.complete && stopped.inputs < inputs);
}

/// Inputs that are taken in time do not pile up if no program takes more.
#[test]
fn replays_long_record_to_its_end() {
    let (mut lab, record) = (driver(PAIR), Bytes::default());
    lab.record(Box::new(record.clone()), &recorded(), u64::MAX);
    let mut machine = Machine::new(&lab, "left", 0);
    lab.drain(us(20), |_| {});
    let function = Bdf::new(0, 1, 0).unwrap();
    for _ in 0..MAX_WAITING_INPUTS / 64 + 1 {
        for _ in 0..64 {
            let id = machine.name();
            machine
                .post(&mut lab, HostOutput::ConfigRead { id, function, register_dw: 0, byte_enables: 0xf });
        }
        lab.drain(lab.now() + Duration::from_us(10), |_| {});
        machine.hear(0);
    }
    lab.finish(lab.now()).unwrap();
    assert_eq!(lab.failure(), None);
    let record = record.0.take();
    let replayed = Replay::new(&record, &models()).unwrap().run().unwrap();
    assert!(replayed.complete && replayed.inputs > MAX_WAITING_INPUTS as u64, "{:?}", replayed.failure);
}

/// A host that never takes inputs gets an error.
#[test]
fn rejects_host_that_takes_no_inputs() {
    let mut lab = driver(PAIR);
    let mut machine = Machine::new(&lab, "left", 0);
    lab.drain(us(20), |_| {});
    for _ in 0..=MAX_WAITING_INPUTS + 1 {
        let (id, function) = (machine.name(), Bdf::new(0, 1, 0).unwrap());
        machine.post(&mut lab, HostOutput::ConfigRead { id, function, register_dw: 0, byte_enables: 0xf });
        lab.drain(lab.now() + Duration::from_us(1), |_| {});
    }
    let why = lab.failure().unwrap_or_default();
    assert!(why.contains("65536 interrupts, messages and answers are not taken"), "{why}");
}

/// There are 1024 DWs, of four bytes each.
#[test]
fn rejects_missing_register() {
    let (id, function) = (HostReadId(0), Bdf::new(0, 1, 0).unwrap());
    for (register_dw, byte_enables, legal) in
        [(1023, 0xf, true), (1024, 0xf, false), (5000, 1, false), (3, 0x3f, false)]
    {
        let write = HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value: 0 };
        assert_eq!(HostRequest::issue(write).is_ok(), legal);
        let read = HostRequest::issue(HostOutput::ConfigRead { id, function, register_dw, byte_enables });
        assert_eq!(read.is_ok(), legal);
        let told = read.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(told.is_empty() || told.contains("expected 0 to 1023"), "{told}");
    }
}

#[test]
fn replays_full_record_to_its_limit() {
    let (whole, _) = live(u64::MAX);
    let limit = whole.len() as u64 / 2;
    let (record, capture) = live(limit);
    assert!(record.len() as u64 <= limit && whole.starts_with(&record[..record.len() - 1]));
    let (part, end, inputs) = again(&record).unwrap();
    assert!(end == RecordEnd::Full && inputs > 100 && part.len() < capture.len());
}

/// With the same inputs but other answers of memory, the run is different. The error has the position.
#[test]
fn reports_differences_from_record() {
    let (record, _) = live(u64::MAX);
    let read = [&[2, 0, 0, 0][..], &RAM.to_le_bytes(), &8_u32.to_le_bytes()].concat();
    let at = record.windows(read.len()).position(|bytes| bytes == read).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut record = record.clone();
        change(&mut record);
        again(&record).err().map(|error| error.to_string()).unwrap()
    };
    let other = with(&|record| record[at + 4] ^= 0x40);
    assert!(
        other.contains("8 bytes at 0x100000 of place 0 are requested, but the record has bytes read"),
        "{other}"
    );
    let none = with(&|record| drop(record.drain(at..at + 16 + 8)));
    assert!(none.contains("are requested, but the record has"), "{none}");
    let more = with(&|record| {
        let twice = record[at..at + 16 + 8].to_vec();
        drop(record.splice(at..at, twice));
    });
    assert!(more.starts_with("before byte ") && more.contains("the record has bytes read"), "{more}");
    let strange = with(&|record| {
        let end = record.len() - 9;
        let input = [&[1][..], &record[end + 1..], &[0, 0, 1, 0, 0, 0, 99]].concat();
        drop(record.splice(end..end, input));
    });
    assert!(strange.contains("expected a complete request of kind 1 to 18"), "{strange}");
}

#[test]
fn rejects_record_of_another_lab() {
    let (record, _) = live(u64::MAX);
    let lab = Replay::new(&record, &models()).unwrap().lab().clone();
    lab.check_same(&recorded()).unwrap();
    let other = RecordedLab { seed: 1, path: "other.toml".into(), ..recorded() };
    let why = lab.check_same(&other).unwrap_err().to_string();
    assert_eq!(why, "the record was made with another lab: its seed differs from other.toml");
    let at = record.windows(10).position(|bytes| bytes == b"host right").unwrap();
    let mut renamed = record;
    renamed[at + 5..at + 10].copy_from_slice(b"wrong");
    let why = Replay::new(&renamed, &models()).err().unwrap().to_string();
    assert_eq!(
        why,
        "the record was made with another lab: it uses the place `host wrong`, but this lab has the places host left, host right, links"
    );
}

/// Rows: illegal requests of a host, and the error. The run ends with this error.
#[test]
fn rejects_illegal_host_requests() {
    let map = |address, bytes| {
        let map = Map { address, bytes, access: MapAccess::Read };
        HostRequest::map(map, crate::external::machine::Ram(std::rc::Rc::default()))
    };
    let read = || {
        let id = host::HostReadId(9);
        HostRequest::issue(HostOutput::MmioRead { id, address: 0, len: 4, locked: false }).unwrap()
    };
    let rows: [(&dyn Fn() -> HostRequest, &str); 6] = [
        (&|| map(0x800, 0x1000), "map of 0x1000 bytes at 0x800, expected one or more multiples of 0x1000"),
        (&|| map(u64::MAX << 12, 0x2000), "expected one or more multiples of 0x1000"),
        (&|| map(RAM + 0x1000, 0x1000), "0x2000 bytes at 0x100000 are mapped already"),
        (&|| HostRequest::unmap(RAM, 0x1000), "expected a whole map: 0x2000 bytes at 0x100000"),
        (&read, "request 9 is under way already: ids are unique"),
        (&|| HostRequest::end(Err("out of patience".into())), "host 1: out of patience"),
    ];
    for (request, why) in rows {
        let mut lab = driver(PAIR);
        let machine = Machine::new(&lab, "left", 0);
        machine.map(&mut lab, RAM);
        lab.inject(lab.now(), &machine.handle, read());
        lab.inject(lab.now(), &machine.handle, request());
        lab.drain(us(20), |_| {});
        let failure = lab.failure().unwrap_or_default();
        assert!(failure.contains(why), "{failure}");
    }
    let extension = HostOutput::Extension(Box::new(0));
    assert!(HostRequest::issue(extension).is_err());
}

#[test]
fn lists_hosts_of_lab() {
    let picture = draw(&file(PAIR).lab);
    assert!(picture.contains("host right (external), xeon-e5-2637v3\n └─ root port 0"), "{picture}");
    assert!(picture.contains("b2: card   bus 04"), "{picture}");
    let why = enumerate(&file(PAIR)).unwrap_err().to_string();
    assert!(why.starts_with("host `left` is external, but no program is above it"), "{why}");
    for (from, to, why) in [
        ("parent = \"left\"", "parent = \"middle\"", "no parent `middle`, expected root, a, b, left, right"),
        ("parent = \"left\"", "", "external host `left` is unused; name it as a parent"),
        ("name = \"left\"", "name = \"root\"", "a external host named `root`"),
        ("name = \"left\"", "name = \"right\"", "a second external host named `right`"),
        ("xeon-e5-2637v3", "xeon", "xeon"),
        (
            "name = \"b1\"\ndevice = \"card\"",
            "name = \"b1\"\ndevice = \"traffic\"\ntraffic = { flow = [{ name = \"f\", kind = \"write\", count = 1 }] }",
            "`traffic`, which has no function",
        ),
        ("parent = \"b\"", "parent = \"b\"\nlink.mrrs_bytes = 512", "mrrs_bytes of slot `b1`: no effect"),
        ("parent = \"b\"", "parent = \"b\"\ndriver = \"memory\"", "driver of slot `b1`: no effect"),
        (
            "device = \"card\"\nparent = \"b\"",
            "device = \"memory\"\nparent = \"b\"\nmemory.address = 0x80000000",
            "address of slot `b1`: no effect, because its host is outside",
        ),
        ("parent = \"left\"", "parent = \"left\"\nport = 2", "port 2 of `left`: riser chooses root ports"),
    ] {
        let text = PAIR.replacen(from, to, 1);
        let error = parse(&models(), Path::new("pair.toml"), &text).unwrap_err().to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
}

mod any {
    use super::*;
    use device::{DmaOptions, OutMessage};
    use host::HostReadId;
    use proptest::prelude::*;
    use tlp::message::MessageCodes;
    use tlp::{AtomicOp, Attributes, Data, MessageRouting, PayloadPool, TrafficClass};

    fn data() -> impl Strategy<Value = Data> {
        let carried = proptest::collection::vec(any::<u8>(), 0..300);
        let carried = carried.prop_map(|bytes| Data::Carried(PayloadPool::new().copy(&bytes)));
        prop_oneof![carried, (0..9000_u32).prop_map(Data::Counted)]
    }

    /// Mostly existing addresses.
    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), (0..0x30_0000_u64).prop_map(|at| 0xc000_0000 + at), 0..0x20_0000_u64]
    }

    fn function() -> impl Strategy<Value = Bdf> {
        prop_oneof![any::<u16>(), (0..5_u16, 0..16_u16).prop_map(|(bus, f)| bus << 8 | f)]
            .prop_map(Bdf::from_bits)
    }

    fn message() -> impl Strategy<Value = HostOutput> {
        let header = proptest::array::uniform8(any::<u8>());
        (function(), 0..8_u8, any::<u8>(), header, data(), 0..8_u8, 0..8_u8).prop_map(
            |(toward, routing, code, header, data, tc, attr)| {
                let options = DmaOptions::tc(TrafficClass::from_bits(tc));
                let options = options.with_attr(Attributes::from_bits_truncate(attr));
                let message = OutMessage::new(MessageRouting::from_bits(routing), code).with_header(header);
                HostOutput::Message { toward, message: message.with_data(data).with_options(options) }
            },
        )
    }

    fn output(id: HostReadId) -> impl Strategy<Value = HostOutput> {
        let len = || prop_oneof![0..20_u32, any::<u32>()];
        let dw = || prop_oneof![0..70_u16, 0..1024_u16];
        let op = (0..3_usize).prop_map(|n| [AtomicOp::FetchAdd, AtomicOp::Swap, AtomicOp::CompareSwap][n]);
        let io = || prop_oneof![0..64_u32, any::<u32>()];
        prop_oneof![
            (address(), len(), any::<bool>()).prop_map(move |(address, len, locked)| HostOutput::MmioRead {
                id,
                address,
                len,
                locked
            }),
            (address(), data()).prop_map(|(address, data)| HostOutput::MmioWrite { address, data }),
            (address(), data()).prop_map(move |(address, data)| HostOutput::WriteDeferrable {
                id,
                address,
                data
            }),
            (address(), op, data()).prop_map(move |(address, op, operands)| HostOutput::Atomic {
                id,
                address,
                op,
                operands
            }),
            (io(), len()).prop_map(move |(address, len)| HostOutput::IoRead { id, address, len }),
            (io(), data()).prop_map(move |(address, data)| HostOutput::IoWrite { id, address, data }),
            message(),
            (function(), dw(), 0..16_u8).prop_map(move |(function, register_dw, byte_enables)| {
                HostOutput::ConfigRead { id, function, register_dw, byte_enables }
            }),
            (function(), dw(), 0..16_u8, any::<u32>()).prop_map(
                move |(function, register_dw, byte_enables, value)| HostOutput::ConfigWrite {
                    id,
                    function,
                    register_dw,
                    byte_enables,
                    value
                }
            ),
            proptest::collection::vec(any::<u8>(), 0..9)
                .prop_map(|codes| HostOutput::TakeMessages(MessageCodes::of(&codes))),
        ]
    }

    fn outputs() -> impl Strategy<Value = Vec<HostOutput>> {
        (0..12_u32)
            .prop_flat_map(|count| (1..=count).map(|n| output(HostReadId(1000 + n))).collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Every request of a host is answered, rejected or ends the host, without a panic, and the replay gives the same bytes.
        #[test]
        fn replays_any_host_requests(outputs in outputs(), is_up in any::<bool>()) {
            let (mut lab, record, capture) = (driver(PAIR), Bytes::default(), Bytes::default());
            lab.record(Box::new(record.clone()), &recorded(), u64::MAX);
            let handle = lab.session_mut().capture(capture.clone(), CaptureOptions::default()).unwrap();
            let mut machine = Machine::new(&lab, "left", 0x21);
            lab.drain(us(20), |_| {});
            if is_up {
                machine.map(&mut lab, 0);
                machine.enumerate(&mut lab, 0);
            }
            for output in outputs {
                machine.post(&mut lab, output);
            }
            // Longer than the host's own timeout.
            let end = lab.now() + Duration::from_ms(60);
            lab.finish(end).unwrap();
            while machine.handle.place.poll_input().is_some() {}
            prop_assert_eq!(lab.failure(), None);
            lab.session_mut().fabric.take_tap();
            handle.finish().unwrap();
            let (same, end, _) = again(&record.0.take()).unwrap();
            prop_assert!(same == *capture.0.borrow() && end == RecordEnd::Whole);
        }
    }
}
