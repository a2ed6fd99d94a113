// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch in RTL between links of a lab: its library, its clock, and `riser_switch` around it. Each port with a link is a slot of the
//! fabric, and all of them share one state. The upstream port runs the clock.

mod block;
mod model;

pub use model::RtlSwitch;

use crate::engine::Engine;
use crate::loader::{Answer, Edges};
use block::{LinkSide, SwitchBlock};
use endpoint::{Clocked, FramePort, LinkCredits, LinkHolds, PhyEvent};
use link::WireFrame;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use tlp::{Duration, Time};

/// The upstream link.
const UPSTREAM: usize = 0;

/// A switch in RTL.
struct SwitchRtl {
    engine: Engine,
    block: SwitchBlock,
    /// End of the last Recovery of each link.
    recovery_until: Vec<Time>,
}

/// The block at an edge.
struct AtEdge<'a> {
    block: &'a mut SwitchBlock,
    reset_until: Time,
    recovery_until: &'a [Time],
}

impl Edges for AtEdge<'_> {
    fn pass(&mut self, edges: u64) {
        self.block.cycle += edges;
    }

    fn edge(&mut self, time: Time, read: &[u32], driven: &mut [u32]) -> Answer {
        for (link, until) in self.block.links.iter_mut().zip(self.recovery_until) {
            link.recovery = time < *until;
        }
        let in_reset = time < self.reset_until;
        self.block.edge(read, driven, in_reset);
        let recovers = self.block.links.iter().any(|link| link.recovery);
        Answer { stops: self.block.has_output(), rests: self.block.is_idle() && !recovers && !in_reset }
    }
}

impl SwitchRtl {
    fn new(engine: Engine, block: SwitchBlock) -> SwitchRtl {
        let recovery_until = vec![Time::ZERO; block.links.len()];
        SwitchRtl { engine, block, recovery_until }
    }

    fn pass_edges(&mut self, until: Time) -> bool {
        let words = self.block.words();
        let reset_until = self.engine.reset_until();
        let mut edges = AtEdge { block: &mut self.block, reset_until, recovery_until: &self.recovery_until };
        self.engine.pass_edges(until, words, &mut edges)
    }

    /// Evaluates all edges up to this time, so that later inputs come after them.
    fn run_to(&mut self, now: Time) {
        self.engine.join();
        while self.pass_edges(now + Duration::from_ps(1)) {}
        self.block.links.iter_mut().for_each(LinkSide::see_holds);
    }
}

/// A port of a switch in RTL.
struct SwitchPort {
    rtl: Rc<RefCell<SwitchRtl>>,
    link: usize,
}

impl SwitchPort {
    /// The switch after all edges up to `now`.
    fn at(&self, now: Time) -> RefMut<'_, SwitchRtl> {
        let mut rtl = self.rtl.borrow_mut();
        rtl.run_to(now);
        rtl
    }
}

impl FramePort for SwitchPort {
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        let mut rtl = self.at(now);
        let SwitchRtl { engine, block, recovery_until } = &mut *rtl;
        let (link, recovery_until) = (&mut block.links[self.link], &mut recovery_until[self.link]);
        let (rate, width) = match event {
            PhyEvent::Up { rate, width } => {
                link.up = true;
                (rate, width)
            }
            PhyEvent::Recovery { until, rate, width } => {
                *recovery_until = until;
                (rate, width)
            }
            PhyEvent::Down { .. } => {
                link.take_down();
                *recovery_until = Time::ZERO;
                return;
            }
        };
        link.speed = [rate.generation().into(), width.lanes().into()];
        link.replay_timer = engine.replay_timer(rate);
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        self.at(now).block.links[self.link].frames.push(frame);
    }

    fn poll_frame(&mut self, _now: Time) -> Option<WireFrame> {
        let mut rtl = self.rtl.borrow_mut();
        if rtl.engine.is_ahead() { None } else { rtl.block.links[self.link].frames.sent.pop_front() }
    }

    fn poll_retrain(&mut self) -> bool {
        let mut rtl = self.rtl.borrow_mut();
        !rtl.engine.is_ahead() && std::mem::take(&mut rtl.block.links[self.link].retrain)
    }

    fn link_holds(&self) -> LinkHolds {
        self.rtl.borrow().block.links[self.link].seen_holds
    }

    fn poll_timeout(&self) -> Option<Time> {
        let rtl = self.rtl.borrow();
        match rtl.block.links[self.link].is_new {
            true => Some(rtl.engine.at()),
            false if self.link == UPSTREAM => rtl.engine.poll_timeout(rtl.block.has_output()),
            false => None,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.at(now).block.links[self.link].is_new = false;
    }

    fn is_ticking(&self) -> bool {
        self.rtl.borrow().block.is_idle()
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        let runs = self.link == UPSTREAM && self.rtl.borrow().engine.runs();
        if runs { Some(self) } else { None }
    }

    fn power_on(&mut self, now: Time) {
        let mut rtl = self.at(now);
        rtl.block.links.iter_mut().for_each(|link| link.frames.clear());
        rtl.engine.reset(now);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let rtl = self.rtl.borrow();
        [vec![("rtl_cycles", rtl.block.cycle)], rtl.block.counts()].concat()
    }

    fn waits_for(&self) -> Option<String> {
        let rtl = self.rtl.borrow();
        if self.link == UPSTREAM { rtl.engine.failure(rtl.block.cycle) } else { None }
    }
}

impl Clocked for SwitchPort {
    fn run_ahead(&mut self, until: Time) {
        let mut rtl = self.rtl.borrow_mut();
        let before = rtl.engine.at();
        while !rtl.block.has_output() && rtl.pass_edges(until) {}
        rtl.engine.note_ahead(before);
    }

    fn shows_credits(&mut self) -> bool {
        false
    }

    fn handle_credits(&mut self, _credits: &LinkCredits) {}
}
