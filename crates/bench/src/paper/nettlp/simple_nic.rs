// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 15: the TLPs with which a NIC in software sends an echo request of 98 B and receives the reply.

use super::super::report::ExperimentReport;
use super::super::setup::Setup;
use super::super::table::{Cell, Column, Table};
use super::super::verdict::{Kind, Shape, Verdict};
use super::super::{Effort, PaperError};
use super::loopback::{Loopback, failed, machine};
use super::served::run_served;
use capture::encap::Origin;
use devices::ethernet::{EthernetPort, PEER, Peer};
use nettlp::carrier::{Arrival, Carrier, SendError, Wait};
use nettlp::net::{AnyCarrier, Clock};
use nettlp::snic::Snic;
use nettlp::tools::{Attachment, Target};
use std::cell::RefCell;
use std::io;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::{Body, Duration, MemoryOp, Repr, Tag};
use worlds::adapter::LabBackend;

const PATH: &str = "labs/nettlp/station.toml";
const LAB: &str = include_str!("../../../labs/nettlp/station.toml");
/// Number of echo requests that must be answered. The run ends with the answer to the last one, so its TLPs may be incomplete.
const PINGS: usize = 3;
/// Milliseconds from one echo request to the next, so that their TLPs do not mix on a machine with other load.
const INTERVAL_MS: i64 = 100;
/// Longest wait of the NIC for a TLP.
const TURN: Duration = Duration::from_ms(1);

/// The TLPs of Figure 15(a), in order: sender, type, and data in DW.
const SENT: [Step; 6] = [
    Step { by: By::Host, kind: "MWr", dw: 1 },
    Step { by: By::Device, kind: "MRd", dw: 4 },
    Step { by: By::Host, kind: "CplD", dw: 4 },
    Step { by: By::Device, kind: "MRd", dw: 25 },
    Step { by: By::Host, kind: "CplD", dw: 25 },
    Step { by: By::Device, kind: "MWr", dw: 1 },
];
/// The TLPs of Figure 15(b).
const RECEIVED: [Step; 6] = [
    Step { by: By::Device, kind: "MWr", dw: 25 },
    Step { by: By::Device, kind: "MWr", dw: 4 },
    Step { by: By::Device, kind: "MWr", dw: 1 },
    Step { by: By::Host, kind: "MWr", dw: 1 },
    Step { by: By::Device, kind: "MRd", dw: 4 },
    Step { by: By::Host, kind: "CplD", dw: 4 },
];

/// Sender of a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Host,
    Device,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Host => "host",
            By::Device => "device",
        }
    }
}

/// A TLP of the figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    by: By,
    kind: &'static str,
    dw: u32,
}

impl Step {
    fn of(by: By, tlp: &[u8]) -> Option<Step> {
        let repr = Repr::parse(tlp).ok()?.repr;
        let (kind, dw) = match repr.body {
            Body::Memory(m) if m.op == MemoryOp::Write => ("MWr", m.span.length_dw()),
            Body::Memory(m) => ("MRd", m.span.length_dw()),
            Body::Completion(c) => ("CplD", c.length_dw?.into()),
            _ => return None,
        };
        Some(Step { by, kind, dw })
    }

    fn text(self) -> String {
        format!("{} {} {}", self.by.name(), self.kind, self.dw)
    }
}

/// A carrier that keeps the steps of all TLPs.
struct StepRecorder {
    inner: AnyCarrier,
    steps: Rc<RefCell<Vec<Step>>>,
}

impl Carrier for StepRecorder {
    fn is_reliable(&self) -> bool {
        self.inner.is_reliable()
    }

    fn tags(&self) -> RangeInclusive<u16> {
        self.inner.tags()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn send(
        &mut self,
        origin: Origin,
        tag: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        let steps = &self.steps;
        self.inner.send(origin, tag, len, |bytes| {
            fill(bytes);
            steps.borrow_mut().extend(Step::of(By::Device, bytes));
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn receive(&mut self, wait: Wait, mut take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let steps = &self.steps;
        self.inner.receive(wait, |arrival| {
            steps.borrow_mut().extend(Step::of(By::Host, arrival.tlp));
            take(arrival);
        })
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }
}

/// Runs the NIC until `stop` is set. Its cable leads to a station that answers echo requests. Returns the steps of all TLPs.
fn run_nic(target: &Target, stop: &AtomicBool) -> Result<Vec<Step>, PaperError> {
    let Some(Attachment { carrier, place, rest, .. }) = attach(target, stop) else { return Ok(Vec::new()) };
    let steps = Rc::new(RefCell::new(Vec::new()));
    let kept = StepRecorder { inner: carrier, steps: Rc::clone(&steps) };
    let mut nic = Snic::with_rest(kept, &place, rest).map_err(failed)?;
    let mut peer = Peer { station: PEER, latency: Duration::ZERO };
    let (clock, mut replies) = (Clock::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let due = nic.host.poll_timeout().map_or(TURN, |at| at.since(clock.now()).min(TURN));
        let received = nic.host.receive(Wait::AtMost(due)).map_err(failed)?;
        // The reply comes after the TLPs of the request, as over a network.
        if received == 0 {
            replies.drain(..).for_each(|frame: Vec<u8>| _ = nic.cable.frame_from_wire(&frame));
        }
        nic.host.advance(clock.now()).map_err(failed)?;
        while let Some(frame) = nic.cable.frame_to_wire() {
            replies.extend(peer.transmit(&frame).map(|arrival| arrival.frame));
        }
    }
    Ok(steps.take())
}

/// Attaches to the adapter as soon as its host has enabled it. Returns `None` if `stop` is set before.
fn attach(target: &Target, stop: &AtomicBool) -> Option<Attachment> {
    while !stop.load(Ordering::Relaxed) {
        if target.is_present()
            && let Ok(attachment) = target.attach(0)
        {
            return Some(attachment);
        }
    }
    None
}

/// Returns the shape "`what`: these TLPs in this order": whether they are a part of `all`. If not, riser's value is the part that
/// begins like them and is followed by the longest agreement.
fn sequence(what: &str, expected: &[Step], all: &[Step]) -> Shape {
    let agreement = |from: usize| all[from..].iter().zip(expected).take_while(|(a, b)| a == b).count();
    let best = (0..all.len()).max_by_key(|&from| (agreement(from), from)).unwrap_or(0);
    let text = |steps: &[Step]| steps.iter().map(|step| step.text()).collect::<Vec<_>>().join(", ");
    Shape {
        kind: Kind::Order,
        paper: format!("{what}: {}", text(expected)),
        riser: text(&all[best..all.len().min(best + expected.len())]),
        reproduced: all.windows(expected.len()).any(|part| part == expected),
    }
}

const STEPS: &[Column] = &[
    Column { key: "sender", head: "sender" },
    Column { key: "tlp", head: "TLP" },
    Column { key: "length_dw", head: "data DW" },
];

/// Figure 15: the TLPs of an echo request and its reply.
pub(in super::super) fn tlps(_: &Effort) -> Result<ExperimentReport, PaperError> {
    let at = Loopback::new();
    let lab = Setup::new(PATH, LAB).set("slot.0.nettlp-adapter.ping_interval_ms", INTERVAL_MS);
    let target = at.target();
    let device = |stop: &AtomicBool| run_nic(&target, stop);
    let is_done = |lab: &LabBackend| lab.slot().station().round_trips.len() >= PINGS;
    let (_, steps) = run_served(lab.build()?, at, device, is_done)?;
    let shapes = vec![sequence("sending 98 B", &SENT, &steps), sequence("receiving 98 B", &RECEIVED, &steps)];
    let row = |step: &Step| {
        vec![Cell::Text(step.by.name().into()), Cell::Text(step.kind.into()), Cell::integer(step.dw)]
    };
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, Vec::new()),
        labs: vec![PATH],
        tables: vec![Table {
            title: format!("All TLPs of {PINGS} echo requests and their replies, at the device software"),
            columns: STEPS,
            rows: steps.iter().map(row).collect(),
        }],
        notes: vec![
            machine(),
            "The host is a simulated station that sends echo requests. The figure shows a host with a Linux driver.".into(),
        ],
        ..ExperimentReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_must_be_complete_and_in_order() {
        let all = [&[RECEIVED[2]][..], &SENT].concat();
        assert!(sequence("sending", &SENT, &all).reproduced);
        let mut swapped = all.clone();
        swapped.swap(3, 4);
        let shape = sequence("sending", &SENT, &swapped);
        assert!(!shape.reproduced && shape.riser.starts_with("host MWr 1, device MRd 4"), "{shape:?}");
        assert!(!sequence("sending", &SENT, &all[..6]).reproduced);
    }
}
