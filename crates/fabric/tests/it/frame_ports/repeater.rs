// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch that is not riser's, with one downstream port: it passes each frame on as it is, so that the data link layers of the host and the
//! device meet through it. Its two ports share their state.

use super::{at_us, copier, copy, protocol_errors};
use crate::common::link;
use crate::common::system::{System, enumerate, window};
use endpoint::{FramePort, FrameSlot, LinkHolds, PhyEvent, TlpPort};
use host::AsyncProgram;
use link::{Counters, WireFrame};
use riser_fabric::{
    Above, Fabric, FabricConfig, HostId, Limits, LinkChange, LinkEvent, LinkId, PortId, Side, Stop,
    SwitchEnd, SwitchSlot,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::{Rate, Time};

const UPSTREAM: usize = 0;
const DOWNSTREAM: usize = 1;

#[derive(Default)]
struct Shared {
    /// Frames that wait for each port's wire.
    frames: [VecDeque<WireFrame>; 2],
    /// The time of an output of each port that the fabric does not know.
    news: [Option<Time>; 2],
    is_up: bool,
}

/// A port.
struct Port {
    shared: Rc<RefCell<Shared>>,
    number: usize,
}

impl FramePort for Port {
    /// The link below is held in reset while the link above is down.
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        let mut shared = self.shared.borrow_mut();
        let is_up = match event {
            PhyEvent::Up { .. } => true,
            PhyEvent::Down { .. } => false,
            PhyEvent::Recovery { .. } => return,
        };
        shared.frames[self.number].clear();
        if self.number == UPSTREAM {
            shared.is_up = is_up;
            shared.news[DOWNSTREAM] = Some(now);
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        let (mut shared, other) = (self.shared.borrow_mut(), 1 - self.number);
        shared.frames[other].push_back(frame.clone());
        shared.news[other] = Some(now);
    }

    fn poll_frame(&mut self, _now: Time) -> Option<WireFrame> {
        self.shared.borrow_mut().frames[self.number].pop_front()
    }

    fn link_holds(&self) -> LinkHolds {
        LinkHolds { reset: self.number == DOWNSTREAM && !self.shared.borrow().is_up, disabled: false }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.shared.borrow().news[self.number]
    }

    fn handle_timeout(&mut self, _now: Time) {
        self.shared.borrow_mut().news[self.number] = None;
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("ups", self.shared.borrow().is_up.into())]
    }
}

/// The copier below the repeater; the host lets it copy `rounds` times. Link 0 leads to the copier, link 1 to the repeater.
fn copies(rounds: u64) -> Fabric {
    let mut system: System = copier(link(Rate::Gt8, 8, 256));
    system.slots[0].above = Above::Switch { switch: 0, port: 1 };
    let shared = Rc::<RefCell<Shared>>::default();
    let port = |number: usize| -> Box<dyn TlpPort> {
        Box::new(FrameSlot::new(Port { shared: Rc::clone(&shared), number }))
    };
    let switch = SwitchEnd::Design(vec![port(UPSTREAM), port(DOWNSTREAM)]);
    let (link, above) = (link(Rate::Gt8, 8, 256), Above::RootPort(HostId::FIRST));
    let program = AsyncProgram::with_pool(system.payloads.clone(), system.memory.clone(), |cpu| async move {
        let found = enumerate(&cpu, &[window(0, 256)]).await?;
        copy(cpu, found, rounds).await
    });
    let switches = vec![SwitchSlot { link, above, switch }];
    Fabric::new(FabricConfig { switches, ..system.config(Some(Box::new(program))) }).unwrap()
}

fn counters(fabric: &Fabric, link: u32, side: Side) -> Counters {
    *fabric.port_counters(PortId::new(LinkId(link), side))
}

#[test]
fn copies_cross_two_links_whose_ports_share_their_state() {
    let mut fabric = copies(20);
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let [root, device] = [counters(&fabric, 1, Side::Root), counters(&fabric, 0, Side::Device)];
    for own in [root, device] {
        assert_eq!((protocol_errors(&own), own.replayed_tlps, own.bad_lcrc), ([0; 6], 0, 0));
    }
    // Each TLP crosses both links.
    assert!(device.tlps > 400 && root.tlps > 40);
    assert_eq!(counters(&fabric, 1, Side::Device).tlps, device.tlps);
    assert_eq!(counters(&fabric, 0, Side::Root).tlps, root.tlps);
    assert_eq!(fabric.switch_counts(0).unwrap()[0], ("ups", 1));
}

#[test]
fn link_below_is_held_in_reset_while_the_link_above_is_down() {
    let mut fabric = copies(1);
    let downs = |fabric: &Fabric| counters(fabric, 0, Side::Device).link_downs;
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let before = downs(&fabric);
    let cut = fabric.now();
    for (after, change) in [(10, LinkChange::Cut), (50, LinkChange::Restore)] {
        let at = cut + at_us(after).since(Time::ZERO);
        fabric.schedule(LinkEvent { at, link: LinkId(1), change });
    }
    let until =
        |us: u64| Limits { until: cut + at_us(us).since(Time::ZERO), open_ended: true, ..Limits::default() };
    fabric.run(until(40));
    assert_eq!(downs(&fabric), before + 1);
    let dllps = counters(&fabric, 0, Side::Device).dllps;
    fabric.run(until(120));
    // The link below is up again: its ends initialize flow control once more.
    assert!(counters(&fabric, 0, Side::Device).dllps != dllps && downs(&fabric) == before + 1);
}
