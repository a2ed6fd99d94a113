// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A data link layer in RTL below a device of a lab: its library, its clock, and `riser_link_frames` around it, as a
//! [`DataLink`]. It runs ahead of the fabric while no input can arrive, up to the first edge with an output.

mod block;
mod device;
mod model;
#[cfg(test)]
mod tests;

pub use device::RtlEndpoint;
pub use model::RtlLink;

use crate::engine::Engine;
use crate::loader::{Answer, Edges, Instance};
use block::FrameBlock;
use endpoint::{Clocked, CreditReturn, DataLink, FramePort, LinkCredits, PhyEvent};
use link::{Notice, WireFrame};
use std::collections::VecDeque;
use tlp::{Class, Duration, Rate, TcSet, Time, Tlp, Vc, Width};

/// Interval of UpdateFC, in case one was lost (`PCIe 5.0 §2.6.1.2`).
const REFRESH: Duration = Duration::from_us(25);

/// A data link layer in RTL.
struct DataLinkRtl {
    engine: Engine,
    block: FrameBlock,
    recovery_until: Time,
    refresh_at: Time,
    speed: Option<(Rate, Width)>,
    is_up: bool,
    notices: VecDeque<Notice>,
}

/// The block at an edge.
struct AtEdge<'a> {
    block: &'a mut FrameBlock,
    reset_until: Time,
    recovery_until: Time,
    refresh_at: &'a mut Time,
}

impl Edges for AtEdge<'_> {
    fn pass(&mut self, edges: u64) {
        self.block.cycle += edges;
    }

    fn edge(&mut self, time: Time, read: &[u32], driven: &mut [u32]) -> Answer {
        self.block.recovery = time < self.recovery_until;
        if time >= *self.refresh_at {
            self.block.credits.repeat();
            *self.refresh_at = time + REFRESH;
        }
        self.block.edge(read, driven, time < self.reset_until);
        Answer { stops: self.block.has_output(), rests: false }
    }
}

impl DataLinkRtl {
    fn new(instance: Option<Instance>, clock_hz: u64, block: FrameBlock) -> DataLinkRtl {
        DataLinkRtl {
            engine: Engine::new(instance, clock_hz),
            block,
            recovery_until: Time::ZERO,
            refresh_at: Time::ZERO + REFRESH,
            speed: None,
            is_up: false,
            notices: VecDeque::new(),
        }
    }

    /// Evaluates edges before `until`, up to one with an output. Returns false if no edge is left.
    fn pass_edges(&mut self, until: Time) -> bool {
        let words = self.block.words();
        let mut edges = AtEdge {
            block: &mut self.block,
            reset_until: self.engine.reset_until(),
            recovery_until: self.recovery_until,
            refresh_at: &mut self.refresh_at,
        };
        self.engine.pass_edges(until, words, &mut edges)
    }

    /// Evaluates all edges up to this time, so that later inputs come after them.
    fn run_to(&mut self, now: Time) {
        self.engine.join();
        while self.pass_edges(now + Duration::from_ps(1)) {}
    }

    /// Sets the rate, on which REPLAY_TIMER depends.
    fn set_speed(&mut self, rate: Rate, width: Width) {
        self.speed = Some((rate, width));
        self.block.replay_timer = self.engine.replay_timer(rate);
    }
}

impl FramePort for DataLinkRtl {
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        self.run_to(now);
        match event {
            PhyEvent::Up { rate, width } => {
                self.block.link_up = true;
                self.set_speed(rate, width);
            }
            PhyEvent::Down { surprise } => {
                self.block.take_down();
                (self.is_up, self.recovery_until) = (false, Time::ZERO);
                self.notices.push_back(Notice::Down { surprise });
            }
            PhyEvent::Recovery { until, rate, width } => {
                self.set_speed(rate, width);
                self.recovery_until = until;
            }
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        self.run_to(now);
        self.block.push_frame(frame);
    }

    fn poll_frame(&mut self, _now: Time) -> Option<WireFrame> {
        if self.engine.is_ahead() { None } else { self.block.frames.sent.pop_front() }
    }

    fn poll_retrain(&mut self) -> bool {
        !self.engine.is_ahead() && std::mem::take(&mut self.block.retrain)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.engine.poll_timeout(self.block.has_output())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.run_to(now);
    }

    fn is_ticking(&self) -> bool {
        self.block.is_idle()
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        if self.engine.runs() { Some(self) } else { None }
    }

    fn power_on(&mut self, now: Time) {
        self.run_to(now);
        self.engine.reset(now);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        [vec![("rtl_cycles", self.block.cycle)], self.block.counts()].concat()
    }

    fn waits_for(&self) -> Option<String> {
        self.engine.failure(self.block.cycle).or_else(|| self.block.credits.waits_for())
    }
}

impl DataLink for DataLinkRtl {
    fn room(&self, class: Class) -> TcSet {
        if self.is_up { self.block.credits.room(class) } else { TcSet::NONE }
    }

    fn send(&mut self, now: Time, tlp: Tlp) {
        self.run_to(now);
        self.block.credits.push(tlp);
    }

    fn poll_tlp(&mut self) -> Option<Tlp> {
        if self.engine.is_ahead() { None } else { self.block.tlps_in.pop_front() }
    }

    fn return_credits(&mut self, now: Time, credit: CreditReturn) {
        self.run_to(now);
        self.block.credits.free(credit);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        let is_news = !self.engine.is_ahead() && !self.is_up && self.block.credits.is_active(Vc::VC0);
        let Some((rate, width)) = self.speed.filter(|_| is_news) else { return self.notices.pop_front() };
        self.is_up = true;
        Some(Notice::Up { rate, width })
    }
}

impl Clocked for DataLinkRtl {
    fn run_ahead(&mut self, until: Time) {
        let before = self.engine.at();
        while !self.block.has_output() && self.pass_edges(until) {}
        self.engine.note_ahead(before);
    }

    fn shows_credits(&mut self) -> bool {
        false
    }

    fn handle_credits(&mut self, _credits: &LinkCredits) {}
}
