// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A slot that is a hundred times slower than real time, and an external host that is not: effects of the clocks. The wall clock of
//! these tests advances with the simulation.

use crate::external::machine::Machine;
use config::{Bar, Builder, Identity};
use device::{CompletionError, Device, Input, Output, Ready, RequestOp, Token};
use endpoint::FunctionConfig;
use host::{Cpu, HostOutput};
use lab::parse_in;
use plug::{Fault, Model, Models, Plugged, Site};
use riser_session::external::host::HostRequest;
use riser_session::external::{Clock, Driver, RecordedLab, Replay};
use riser_session::{CaptureOptions, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;
use testkit::Bytes;
use tlp::{Bdf, Class, Duration, Time};

const SLOWER: u64 = 100;
const BAR: u32 = 0xc000_0000;
const PERIOD: Duration = Duration::from_ns(8);
const LAB: &str = "version = 1\n[[external_host]]\nname = \"host\"\n\
    [[slot]]\nname = \"slow\"\ndevice = \"slow\"\nparent = \"host\"\n";

thread_local! {
    /// The wall clock.
    static WALL: Cell<Time> = const { Cell::new(Time::ZERO) };
}

fn wall() -> Time {
    WALL.get()
}

/// Works at each edge of its clock, like RTL in a simulator. Each edge takes the simulating machine a hundred times as long as in
/// reality.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Slow {}

impl Model for Slow {
    const NAME: &'static str = "slow";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let config = Builder::type0(Identity { vendor: 0x7269, device: 0x7ffd, ..Identity::default() })
            .bar(0, Bar::memory32(4096))
            .pcie(site.pcie)
            .usual()
            .build()?;
        let (work, taken, answers) = Default::default();
        let device = Box::new(Clocked { edge: Time::ZERO, work, taken, answers });
        Ok(Plugged::new(FunctionConfig { config, device }, |_: Cpu, _| async { Ok::<(), String>(()) }))
    }
}

struct Clocked {
    edge: Time,
    work: VecDeque<Token>,
    taken: VecDeque<Token>,
    answers: VecDeque<Token>,
}

impl Device for Clocked {
    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Request(request) if matches!(request.op, RequestOp::Read { .. }) => {
                self.taken.push_back(request.token);
                self.work.push_back(request.token);
            }
            Input::Timer => {
                self.edge = now + PERIOD;
                WALL.set(wall() + Duration::from_ps(PERIOD.as_ps() * SLOWER));
                self.answers.extend(self.work.pop_front());
            }
            _ => {}
        }
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<Output> {
        let token = if class == Class::Completion { self.answers.pop_front()? } else { return None };
        Some(Output::Complete { token, result: Err(CompletionError::CompleterAbort) })
    }

    fn ready(&self) -> Ready {
        Ready::ALL
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.edge)
    }
}

fn models() -> Models {
    Models::default().with::<Slow>()
}

/// The lab, and its host.
fn start(clock: Clock) -> (Driver, Machine) {
    WALL.set(Time::ZERO);
    let file = parse_in(&models(), Path::new("slow.toml"), LAB, "".into()).unwrap();
    let lab = Driver::new(Session::new(&file).unwrap(), clock);
    let machine = Machine::new(&lab, "host", 0);
    (lab, machine)
}

/// Answers the host's requests over time.
fn wait(lab: &mut Driver, machine: &mut Machine, name: u32) -> Time {
    loop {
        lab.drain(wall(), |_| {});
        assert_eq!(lab.failure(), None);
        assert!(lab.now() <= wall(), "virtual time never passes the wall");
        if machine.hear(name).is_some() {
            return wall();
        }
        WALL.set(wall() + Duration::from_us(1));
    }
}

/// Sets the root port and the slot up.
fn set_up(lab: &mut Driver, machine: &mut Machine) {
    let (bridge, slot) = (Bdf::new(0, 1, 0).unwrap(), Bdf::new(1, 0, 0).unwrap());
    let writes =
        [(bridge, 6, 0x01_0100), (bridge, 8, 0xc000_c000), (bridge, 1, 6), (slot, 4, BAR), (slot, 1, 6)];
    for (function, register_dw, value) in writes {
        let id = machine.name();
        machine.post(lab, HostOutput::ConfigWrite { id, function, register_dw, byte_enables: 0xf, value });
        wait(lab, machine, id.0);
    }
}

/// Reads the slot this many times, `apart` after each other. Returns the duration of each read by the wall clock.
fn read_often(lab: &mut Driver, machine: &mut Machine, apart: Duration, count: u64) -> Vec<u64> {
    let read = |_| {
        WALL.set(wall() + apart);
        let (since, id) = (wall(), machine.name());
        let read = HostOutput::MmioRead { id, address: BAR.into(), len: 4, locked: false };
        lab.inject(since, &machine.handle, HostRequest::issue(read).unwrap());
        wait(lab, machine, id.0).since(since).as_ps()
    };
    (0..count).map(read).collect()
}

#[test]
fn latency_stays_flat_if_fabric_may_lag() {
    let (mut lab, mut machine) = start(Clock::Lagging);
    let (record, capture) = (Bytes::default(), Bytes::default());
    let (path, text) = ("slow.toml".to_owned(), LAB.to_owned());
    let recorded = RecordedLab { path, text, set: Vec::new(), seed: 0, files: Some([].into()) };
    lab.record(Box::new(record.clone()), &recorded, u64::MAX);
    let handle = lab.session_mut().capture(capture.clone(), CaptureOptions::default()).unwrap();
    set_up(&mut lab, &mut machine);
    let latencies = read_often(&mut lab, &mut machine, Duration::from_ms(1), 50);
    let (least, most) = (latencies.iter().min().unwrap(), latencies.iter().max().unwrap());
    assert!(*most <= 3 * least, "{latencies:?}");
    // The rest of the wall clock's time was dropped, and counted.
    let (lag, behind) = (lab.lag(), wall().since(lab.now()));
    assert!(lag.times > 10 && behind >= lag.dropped, "{lag:?}, {behind} behind");
    assert!(lab.now().as_ps() * (SLOWER - 1) <= wall().as_ps() && lag.dropped.as_ps() > wall().as_ps() / 2);

    // Inputs that joined at the fabric's own times join at the same times in the replay.
    lab.finish(wall()).unwrap();
    lab.session_mut().fabric.take_tap();
    handle.finish().unwrap();
    let (again, record) = (Bytes::default(), record.0.take());
    let mut replay = Replay::new(&record, &models()).unwrap();
    let handle = replay.session_mut().capture(again.clone(), CaptureOptions::default()).unwrap();
    let mut replayed = replay.run().unwrap();
    replayed.session.fabric.take_tap();
    handle.finish().unwrap();
    assert!(replayed.complete && replayed.inputs == 55);
    assert!(*capture.0.borrow() == *again.0.borrow(), "the captures differ");
}

/// The same host with a fabric that follows the wall clock: each read waits for the fabric's delay.
#[test]
fn latency_grows_if_fabric_follows_wall_clock() {
    let (mut lab, mut machine) = start(Clock::Wall);
    let mut joined = Vec::new();
    for _ in 0..2 {
        WALL.set(wall() + Duration::from_us(10));
        let (since, id) = (wall(), machine.name());
        let read = HostOutput::MmioRead { id, address: BAR.into(), len: 4, locked: false };
        lab.inject(since, &machine.handle, HostRequest::issue(read).unwrap());
        joined.push(wall().since(since).as_ps());
    }
    assert!(joined[1] > 50 * joined[0], "{joined:?}");
    assert_eq!(lab.lag().times, 0);
}

/// A fast fabric drops no time. It follows the wall clock, except for idle periods.
#[test]
fn fast_fabric_drops_no_time() {
    WALL.set(Time::ZERO);
    let text = LAB.replace("\"slow\"", "\"memory\"");
    let file = parse_in(&devices::models(), Path::new("fast.toml"), &text, "".into()).unwrap();
    let mut lab = Driver::new(Session::new(&file).unwrap(), Clock::Lagging);
    for _ in 0..100 {
        WALL.set(wall() + Duration::from_us(300));
        lab.drain(wall(), |_| {});
        assert!(lab.now() == wall() || lab.poll_timeout().is_some_and(|due| due > wall()));
    }
    lab.finish(wall()).unwrap();
    assert_eq!((lab.now(), lab.lag().times), (wall(), 0));
}

/// In these labs, links only refresh credits, some ten million times. The fabric is rarely polled, and then runs few events.
#[test]
fn idle_lab_is_polled_rarely() {
    for name in ["clock.toml", "tree.toml", "seven.toml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let outside = "[host]\noutside = true\n";
        let text =
            if text.contains("[host]\n") { text.replace("[host]\n", outside) } else { text + "\n" + outside };
        let file = parse_in(&devices::models(), &path, &text, "".into()).unwrap();
        let mut lab = Driver::new(Session::new(&file).unwrap(), Clock::Virtual);
        let (mut now, mut looks) = (Time::ZERO, 0);
        while now < Time::ZERO + Duration::from_ms(10_000) {
            lab.drain(now, |_| {});
            now = lab.poll_timeout().unwrap().max(now + Duration::from_us(1));
            looks += 1;
        }
        let totals = lab.session().fabric.totals();
        let run = totals.events - totals.passed_over;
        assert!(totals.events > 4_000_000, "{name}: {totals:?}");
        assert!(run < totals.events / 200, "{name}: {run} of {} events", totals.events);
        assert!(looks < 400, "{name}: {looks} looks");
    }
}
