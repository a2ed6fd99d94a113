// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design in a slot: its library, its clocks, and the block around it, as a [`TlpDesign`] behind a front. Time passes for it from edge to
//! edge of the user clock.

use crate::block::Block;
use crate::clocks::Clocks;
use crate::findings::Told;
use crate::loader::Instance;
use config::ConfigSpace;
use device::seam::{Ready, ResetKind, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, TlpDesign};
use plug::Shared;
use tlp::{Bdf, Class, Duration, Time};

/// For how long PERST# is held.
const RESET: Duration = Duration::from_ns(200);

/// The design.
pub(crate) struct Rtl {
    /// `None`: it was not loaded, or has ended.
    instance: Option<Instance>,
    clocks: Clocks,
    block: Box<dyn Block>,
    told: Shared<Told>,
    /// PERST# is active before.
    reset_until: Time,
}

impl Rtl {
    pub(crate) fn new(
        instance: Option<Instance>,
        clocks: Clocks,
        block: Box<dyn Block>,
        told: Shared<Told>,
    ) -> Rtl {
        Rtl { instance, clocks, block, told, reset_until: Time::ZERO + RESET }
    }

    /// Passes all edges up to this time.
    fn run_to(&mut self, now: Time) {
        while let Some(instance) = &mut self.instance
            && self.clocks.next() <= now
        {
            let at = self.clocks.next();
            let levels = self.clocks.pass(at);
            self.block.set_now(at);
            let (words, block) = (self.block.words(), &mut self.block);
            let mut edge = |read: &[u32], driven: &mut [u32]| block.edge(read, driven);
            let evaluated = instance.eval(levels, at >= self.reset_until, at.as_ps(), words, &mut edge);
            if let Err(why) = evaluated {
                self.fail(&why);
            }
        }
        self.block.tell();
    }

    fn fail(&mut self, why: &str) {
        self.instance = None;
        let cycle = self.block.cycle();
        self.told.change(|told| told.failure = Some(format!("the design ended in cycle {cycle}: {why}")));
    }
}

impl TlpDesign for Rtl {
    fn handle(&mut self, now: Time, input: DesignInput) {
        match input {
            DesignInput::Timer => self.run_to(now),
            input => {
                if let DesignInput::Reset { kind: ResetKind::Fundamental, .. } = input {
                    self.reset_until = now + RESET;
                }
                self.block.handle(input);
            }
        }
    }

    fn configured(&mut self, function: u16, id: Bdf, config: &ConfigSpace) {
        self.block.configured(function, id, config);
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<DesignOutput> {
        self.block.next_output(class)
    }

    fn ready(&self) -> Ready {
        self.block.ready()
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.block.next_taken()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.instance.as_ref().map(|_| self.clocks.next_rise())
    }

    fn is_ticking(&self) -> bool {
        self.block.is_idle()
    }

    fn waits_for(&self) -> Option<String> {
        (!self.block.is_idle()).then(|| format!("packets of a design, in cycle {}", self.block.cycle()))
    }
}
