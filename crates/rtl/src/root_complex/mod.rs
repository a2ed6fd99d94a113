// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A root complex in RTL below a host of a lab: its library, its clock, and `riser_root_complex` around it. The host's requests are
//! accesses of a CPU on AXI4, its DMA master reaches the host's memory, and its frames cross the link. All sides share one state. A design may
//! also have the CPU, its memory and its software; then the host only waits for the software's end.

mod block;
mod cpu;
mod memory;
mod model;
mod software;

pub use model::RtlRootComplex;

use crate::engine::Engine;
use crate::loader::{Answer, Edges};
use block::RootBlock;
use endpoint::{Clocked, FramePort, LinkCredits, LinkHolds, PhyEvent};
use host::{HostBus, HostInput, HostMemory, HostOutput};
use link::WireFrame;
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Rate, Time, Width};

/// A root complex in RTL.
struct RootRtl {
    engine: Engine,
    block: RootBlock,
    recovery_until: Time,
    /// The value of [`RootBlock::holds`] that the fabric has seen.
    holds: LinkHolds,
}

/// The block at an edge.
struct AtEdge<'a> {
    block: &'a mut RootBlock,
    reset_until: Time,
    recovery_until: Time,
    holds: LinkHolds,
}

impl Edges for AtEdge<'_> {
    fn pass(&mut self, edges: u64) {
        self.block.cycle += edges;
    }

    fn edge(&mut self, time: Time, read: &[u32], driven: &mut [u32]) -> Answer {
        self.block.recovery = time < self.recovery_until;
        let in_reset = time < self.reset_until;
        self.block.edge(read, driven, in_reset);
        let stops = self.block.has_output() || self.block.holds != self.holds;
        Answer { stops, rests: self.block.is_idle() && !self.block.recovery && !in_reset }
    }
}

impl RootRtl {
    fn pass_edges(&mut self, until: Time) -> bool {
        let words = self.block.words();
        let mut edges = AtEdge {
            block: &mut self.block,
            reset_until: self.engine.reset_until(),
            recovery_until: self.recovery_until,
            holds: self.holds,
        };
        self.engine.pass_edges(until, words, &mut edges)
    }

    fn has_output(&self) -> bool {
        self.block.has_output() || self.block.holds != self.holds
    }

    /// Evaluates all edges up to this time, so that later inputs come after them.
    fn run_to(&mut self, now: Time) {
        self.engine.join();
        while self.pass_edges(now + tlp::Duration::from_ps(1)) {}
        self.holds = self.block.holds;
    }

    fn set_speed(&mut self, rate: Rate, width: Width) {
        self.block.speed = [rate.generation().into(), width.lanes().into()];
        self.block.replay_timer = self.engine.replay_timer(rate);
    }
}

/// The root port of a root complex in RTL.
struct RootPort(Rc<RefCell<RootRtl>>);

impl FramePort for RootPort {
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        let mut rtl = self.0.borrow_mut();
        rtl.run_to(now);
        match event {
            PhyEvent::Up { rate, width } => {
                rtl.block.link_up = true;
                rtl.set_speed(rate, width);
            }
            PhyEvent::Down { .. } => {
                rtl.block.take_down();
                rtl.recovery_until = Time::ZERO;
            }
            PhyEvent::Recovery { until, rate, width } => {
                rtl.set_speed(rate, width);
                rtl.recovery_until = until;
            }
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        let mut rtl = self.0.borrow_mut();
        rtl.run_to(now);
        rtl.block.frames.push(frame);
    }

    fn poll_frame(&mut self, _now: Time) -> Option<WireFrame> {
        let mut rtl = self.0.borrow_mut();
        if rtl.engine.is_ahead() { None } else { rtl.block.frames.sent.pop_front() }
    }

    fn poll_retrain(&mut self) -> bool {
        let mut rtl = self.0.borrow_mut();
        !rtl.engine.is_ahead() && std::mem::take(&mut rtl.block.retrain)
    }

    fn link_holds(&self) -> LinkHolds {
        self.0.borrow().holds
    }

    fn poll_timeout(&self) -> Option<Time> {
        let rtl = self.0.borrow();
        rtl.engine.poll_timeout(rtl.has_output())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.borrow_mut().run_to(now);
    }

    fn is_ticking(&self) -> bool {
        self.0.borrow().block.is_ticking()
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        let runs = self.0.borrow().engine.runs();
        if runs { Some(self) } else { None }
    }

    fn power_on(&mut self, now: Time) {
        let mut rtl = self.0.borrow_mut();
        rtl.run_to(now);
        rtl.block.reset();
        rtl.engine.reset(now);
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let rtl = self.0.borrow();
        [vec![("rtl_cycles", rtl.block.cycle)], rtl.block.counts()].concat()
    }

    fn waits_for(&self) -> Option<String> {
        let rtl = self.0.borrow();
        rtl.engine.failure(rtl.block.cycle).or_else(|| rtl.block.cpu.dead().cloned())
    }
}

impl Clocked for RootPort {
    fn run_ahead(&mut self, until: Time) {
        let mut rtl = self.0.borrow_mut();
        let before = rtl.engine.at();
        while !rtl.has_output() && rtl.pass_edges(until) {}
        rtl.engine.note_ahead(before);
    }

    fn shows_credits(&mut self) -> bool {
        false
    }

    fn handle_credits(&mut self, _credits: &LinkCredits) {}
}

/// The bus above a root complex in RTL.
struct Bus(Rc<RefCell<RootRtl>>);

impl HostBus for Bus {
    fn connect(&mut self, memory: HostMemory) {
        self.0.borrow_mut().block.memory.connect(memory);
    }

    fn accept(&mut self, now: Time, request: HostOutput) {
        let mut rtl = self.0.borrow_mut();
        rtl.run_to(now);
        rtl.block.cpu.accept(request);
        let RootBlock { inputs, cpu, .. } = &mut rtl.block;
        inputs.append(&mut cpu.ends);
    }

    fn poll_input(&mut self) -> Option<HostInput> {
        let mut rtl = self.0.borrow_mut();
        if rtl.engine.is_ahead() { None } else { rtl.block.inputs.pop_front() }
    }

    fn has_input(&self) -> bool {
        let rtl = self.0.borrow();
        !rtl.engine.is_ahead() && !rtl.block.inputs.is_empty()
    }
}
