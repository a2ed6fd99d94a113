// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design in a slot: its library, its clocks, and the block around it, as a [`TlpDesign`] of a front. Its time
//! advances from edge to edge of the user clock. While no input can arrive, the design runs ahead of the fabric, up to
//! the first edge with an output.

use crate::block::Block;
use crate::clocks::Clocks;
use crate::design_record::DesignRecord;
use crate::findings::DesignStatus;
use crate::loader::{Answer, Edges, Instance};
use crate::recording::Recorder;
use crate::shown::{Shown, TlpDirection};
use crate::trigger::Trigger;
use config::ConfigSpace;
use device::seam::{Ready, ResetKind, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, DesignRequest, RefusedTlp, TlpDesign};
use endpoint::{Clocked, LinkCredits};
use plug::Shared;
use tlp::{Bdf, Class, Duration, Time, Tlp};

/// Duration of PERST#.
const RESET: Duration = Duration::from_ns(200);

/// The design, its block and its clocks.
pub(crate) struct Rtl {
    /// `None`: the design was not loaded, or has ended.
    instance: Option<Instance>,
    clocks: Clocks,
    block: Box<dyn Block>,
    status: Shared<DesignStatus>,
    /// PERST# is active before this time.
    reset_until: Time,
    /// Time of the last evaluated edges.
    at: Time,
    /// True if the fabric's time is before `at`: outputs must not be visible yet.
    is_ahead: bool,
    /// True if the block has new inputs since then.
    is_fresh: bool,
    /// Recorder of its inputs, for a measurement.
    recorder: Option<Shared<Recorder>>,
    /// Recorder of its outputs, for a comparison.
    design_record: Option<Shared<DesignRecord>>,
    /// Search for the TLP around which waves are written.
    trigger: Option<Box<Trigger>>,
    /// TLPs and credits that the waves show, if there are waves.
    shown: Option<Box<Shown>>,
}

/// The block at an edge, with its recorders.
struct AtEdge<'a> {
    block: &'a mut dyn Block,
    recorder: Option<&'a Shared<Recorder>>,
    design_record: Option<&'a Shared<DesignRecord>>,
}

impl Edges for AtEdge<'_> {
    fn pass(&mut self, edges: u64) {
        self.block.pass(edges);
    }

    fn edge(&mut self, time: Time, read: &[u32], driven: &mut [u32]) -> Answer {
        self.block.set_now(time);
        self.block.edge(read, driven);
        // Values driven in reset do not count.
        if let Some(design_record) = self.design_record.filter(|_| !self.block.in_reset()) {
            design_record.change(|design_record| design_record.edge(self.block.cycle(), time, read));
        }
        if let Some(recorder) = self.recorder {
            recorder.change(|recorder| recorder.edge(driven));
        }
        let rests = self.recorder.is_none() && self.block.rests();
        Answer { stops: self.block.ready() != Ready::NONE, rests }
    }
}

impl Rtl {
    pub(crate) fn new(
        instance: Option<Instance>,
        clocks: Clocks,
        block: Box<dyn Block>,
        status: Shared<DesignStatus>,
    ) -> Rtl {
        Rtl {
            instance,
            clocks,
            block,
            status,
            reset_until: Time::ZERO + RESET,
            at: Time::ZERO,
            is_ahead: false,
            is_fresh: true,
            recorder: None,
            design_record: None,
            trigger: None,
            shown: None,
        }
    }

    /// Records the inputs of the design.
    pub(crate) fn recorded(self, recorder: Option<Shared<Recorder>>) -> Rtl {
        Rtl { recorder, ..self }
    }

    /// Records the outputs of the design.
    pub(crate) fn watched(self, design_record: Option<Shared<DesignRecord>>) -> Rtl {
        Rtl { design_record, ..self }
    }

    /// Searches for a TLP.
    pub(crate) fn looking(self, trigger: Option<Box<Trigger>>) -> Rtl {
        Rtl { trigger, ..self }
    }

    /// Shows TLPs and credits in the waves, if there are waves.
    pub(crate) fn showing(self, waves: bool) -> Rtl {
        Rtl { shown: waves.then(Box::default), ..self }
    }

    fn see(&mut self, way: TlpDirection, now: Time, tlp: &Tlp) {
        if let Some(trigger) = &mut self.trigger {
            trigger.see(way, now, tlp);
        }
        if let (Some(shown), Some(instance)) = (&mut self.shown, &mut self.instance) {
            shown.see(way, tlp);
            instance.show(&shown.words);
        }
    }

    /// Evaluates edges before `until`, up to the first edge with an output. Returns false if no edge is left.
    fn pass_edges(&mut self, until: Time) -> bool {
        let evals = self.clocks.before(until);
        let (Some(instance), false) = (&mut self.instance, evals.is_empty()) else { return false };
        let words = self.block.words();
        let mut edges = AtEdge {
            block: &mut *self.block,
            recorder: self.recorder.as_ref(),
            design_record: self.design_record.as_ref(),
        };
        let fresh = std::mem::take(&mut self.is_fresh);
        match instance.run(evals, self.reset_until, words, &mut edges, fresh) {
            Ok(done) => {
                let evals = &evals[..done];
                self.at = evals.last().map_or(self.at, |last| Time::from_ps(last.time_ps));
                if let Some(recorder) = &self.recorder {
                    recorder.change(|recorder| recorder.evals(evals, self.reset_until));
                }
                self.clocks.pass(done);
            }
            Err(why) => self.fail(&why.to_string()),
        }
        true
    }

    /// Evaluates all edges up to this time, so that later inputs come after them.
    fn run_to(&mut self, now: Time) {
        self.is_ahead = false;
        if self.clocks.next() <= now {
            while self.pass_edges(now + Duration::from_ps(1)) {}
            self.block.tell();
        }
    }

    fn fail(&mut self, why: &str) {
        self.instance = None;
        let cycle = self.block.cycle();
        self.status
            .change(|status| status.failure = Some(format!("the design ended in cycle {cycle}: {why}")));
    }
}

impl TlpDesign for Rtl {
    fn handle(&mut self, now: Time, input: DesignInput) {
        self.run_to(now);
        if let DesignInput::Reset { kind: ResetKind::Fundamental, .. } = input {
            self.reset_until = now + RESET;
        }
        self.is_fresh = true;
        match &input {
            DesignInput::Request(DesignRequest { tlp, .. }) | DesignInput::Completion { tlp, .. } => {
                self.see(TlpDirection::In, now, tlp);
            }
            _ => {}
        }
        self.block.handle(input);
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        if self.instance.is_some() { Some(self) } else { None }
    }

    fn configured(&mut self, now: Time, function: u16, id: Bdf, config: &ConfigSpace) {
        self.run_to(now);
        self.is_fresh = true;
        self.block.configured(function, id, config);
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<DesignOutput> {
        if self.is_ahead {
            return None;
        }
        let output = self.block.next_output(class)?;
        if let Some(design_record) = &self.design_record {
            design_record.change(|design_record| design_record.leaves(self.block.cycle(), self.at, &output));
        }
        if let DesignOutput::Tlp { tlp, .. } | DesignOutput::Relayed { tlp, .. } = &output {
            self.see(TlpDirection::Out, self.at, tlp);
        }
        Some(output)
    }

    fn ready(&self) -> Ready {
        if self.is_ahead { Ready::NONE } else { self.block.ready() }
    }

    fn poll_taken(&mut self) -> Option<Token> {
        if self.is_ahead { None } else { self.block.next_taken() }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let has_output = self.is_ahead && self.block.ready() != Ready::NONE;
        self.instance.as_ref().map(|_| if has_output { self.at } else { self.clocks.next_rise() })
    }

    fn is_ticking(&self) -> bool {
        self.block.is_idle()
    }

    fn sends_wrong(&self, why: &RefusedTlp) -> bool {
        self.block.sends_wrong(why)
    }

    /// Also reports errors of the design, which are often the reason.
    fn waits_for(&self) -> Option<String> {
        let packets = || format!("packets of a design, in cycle {}", self.block.cycle());
        let parts = [(!self.block.is_idle()).then(packets), self.status.get().wrong()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl Clocked for Rtl {
    fn run_ahead(&mut self, until: Time) {
        let before = self.at;
        while self.block.ready() == Ready::NONE && self.pass_edges(until) {}
        self.is_ahead = self.at > before;
        self.block.tell();
    }

    fn shows_credits(&mut self) -> bool {
        self.shown.is_some()
    }

    fn handle_credits(&mut self, credits: &LinkCredits) {
        if let (Some(shown), Some(instance)) = (&mut self.shown, &mut self.instance)
            && shown.see_credits(credits)
        {
            instance.show(&shown.words);
        }
    }
}
