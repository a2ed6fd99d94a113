// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A data link layer in RTL below a device of a lab: its library, its clock, and `riser_link_frames` around it, as a
//! [`DataLink`]. It runs ahead of the fabric while no input can arrive, up to the first edge with an output.

mod beats;
mod block;
mod model;
#[cfg(test)]
mod tests;

pub use model::RtlLink;

use crate::clocks::Clocks;
use crate::loader::{Answer, Edges, Instance};
use block::FrameBlock;
use endpoint::{Clocked, CreditReturn, DataLink, FramePort, LinkCredits, PhyEvent};
use link::{Notice, WireFrame, symbol_times};
use std::collections::VecDeque;
use tlp::{Class, Duration, Rate, TcSet, Time, Tlp, Vc, Width};

/// Duration of PERST#.
const RESET: Duration = Duration::from_ns(200);
/// REPLAY_TIMER in symbol times (`PCIe 5.0 §3.6.2.1`).
const REPLAY_SYMBOLS: u32 = 24_500;
/// Interval of UpdateFC, in case one was lost (`PCIe 5.0 §2.6.1.2`).
const REFRESH: Duration = Duration::from_us(25);

/// A data link layer in RTL.
struct DataLinkRtl {
    /// `None`: it was not loaded, or has ended.
    instance: Option<Instance>,
    clocks: Clocks,
    clock_hz: u64,
    block: FrameBlock,
    reset_until: Time,
    /// Time of the last evaluated edges.
    at: Time,
    /// Whether the fabric's time is before `at`: outputs must not be visible yet.
    is_ahead: bool,
    /// Whether the block has new inputs since then.
    is_fresh: bool,
    recovery_until: Time,
    refresh_at: Time,
    speed: Option<(Rate, Width)>,
    is_up: bool,
    notices: VecDeque<Notice>,
    failure: Option<String>,
}

/// The block at an edge.
struct AtEdge<'a> {
    block: &'a mut FrameBlock,
    reset_until: Time,
    recovery_until: Time,
    refresh_at: &'a mut Time,
}

impl Edges for AtEdge<'_> {
    fn edge(&mut self, time: Time, passed: u64, read: &[u32], driven: &mut [u32]) -> Answer {
        self.block.cycle += passed;
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
            instance,
            clocks: Clocks::new(&[clock_hz]),
            clock_hz,
            block,
            reset_until: Time::ZERO + RESET,
            at: Time::ZERO,
            is_ahead: false,
            is_fresh: true,
            recovery_until: Time::ZERO,
            refresh_at: Time::ZERO + REFRESH,
            speed: None,
            is_up: false,
            notices: VecDeque::new(),
            failure: None,
        }
    }

    /// Evaluates edges before `until`, up to one with an output. Returns false if no edge is left.
    fn pass_edges(&mut self, until: Time) -> bool {
        let evals = self.clocks.before(until);
        let (Some(instance), false) = (&mut self.instance, evals.is_empty()) else { return false };
        let words = self.block.words();
        let mut edges = AtEdge {
            block: &mut self.block,
            reset_until: self.reset_until,
            recovery_until: self.recovery_until,
            refresh_at: &mut self.refresh_at,
        };
        match instance.run(evals, self.reset_until, words, &mut edges, std::mem::take(&mut self.is_fresh)) {
            Ok(done) => {
                let last = evals[..done.evals].last();
                self.at = last.map_or(self.at, |last| Time::from_ps(last.time_ps));
                self.clocks.pass(done.evals);
            }
            Err(why) => {
                self.instance = None;
                self.failure = Some(format!("the design ended in cycle {}: {why}", self.block.cycle));
            }
        }
        true
    }

    /// Evaluates all edges up to this time, so that later inputs come after them.
    fn run_to(&mut self, now: Time) {
        self.is_ahead = false;
        self.is_fresh = true;
        while self.pass_edges(now + Duration::from_ps(1)) {}
    }

    /// Sets the rate, on which REPLAY_TIMER depends.
    fn set_speed(&mut self, rate: Rate, width: Width) {
        self.speed = Some((rate, width));
        let limit = u128::from(symbol_times(rate, REPLAY_SYMBOLS).as_ps());
        let cycles = limit * u128::from(self.clock_hz) / 1_000_000_000_000;
        self.block.replay_timer = cycles.min(u128::from(u16::MAX)) as u32;
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
        if self.is_ahead { None } else { self.block.frames_out.pop_front() }
    }

    fn poll_retrain(&mut self) -> bool {
        !self.is_ahead && std::mem::take(&mut self.block.retrain)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let has_output = self.is_ahead && self.block.has_output();
        self.instance.as_ref().map(|_| if has_output { self.at } else { self.clocks.next_rise() })
    }

    fn handle_timeout(&mut self, now: Time) {
        self.run_to(now);
    }

    fn is_ticking(&self) -> bool {
        self.block.is_idle()
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        if self.instance.is_some() { Some(self) } else { None }
    }

    fn power_on(&mut self, now: Time) {
        self.run_to(now);
        self.reset_until = now + RESET;
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        [vec![("rtl_cycles", self.block.cycle)], self.block.counts()].concat()
    }

    fn waits_for(&self) -> Option<String> {
        self.failure.clone().or_else(|| self.block.credits.waits_for())
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
        if self.is_ahead { None } else { self.block.tlps_in.pop_front() }
    }

    fn return_credits(&mut self, now: Time, credit: CreditReturn) {
        self.run_to(now);
        self.block.credits.free(credit);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        let is_news = !self.is_ahead && !self.is_up && self.block.credits.is_active(Vc::VC0);
        let Some((rate, width)) = self.speed.filter(|_| is_news) else { return self.notices.pop_front() };
        self.is_up = true;
        Some(Notice::Up { rate, width })
    }
}

impl Clocked for DataLinkRtl {
    fn run_ahead(&mut self, until: Time) {
        let before = self.at;
        while !self.block.has_output() && self.pass_edges(until) {}
        self.is_ahead = self.at > before;
    }

    fn shows_credits(&mut self) -> bool {
        false
    }

    fn handle_credits(&mut self, _credits: &LinkCredits) {}
}
