// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design in a slot: its library, its clocks, and the block around it, as a [`TlpDesign`] behind a front. Time passes for it from edge to
//! edge of the user clock. While nothing can reach it, it runs ahead of the fabric, up to the first edge of which something comes.

use crate::clocks::Clocks;
use crate::findings::Told;
use crate::loader::Instance;
use crate::seven_series::SevenSeries;
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
    block: SevenSeries,
    told: Shared<Told>,
    /// PERST# is active before.
    reset_until: Time,
    /// The last edge that was passed.
    at: Time,
    /// The fabric's time is before that edge, whose outputs are not to be seen yet.
    is_ahead: bool,
    rest: Rest,
}

/// The last edge of the user clock, for those behind it that are the same.
#[derive(Default)]
struct Rest {
    read: Vec<u32>,
    driven: Vec<u32>,
    /// An edge that reads the same changes nothing.
    holds: bool,
}

impl Rest {
    /// An edge: the block is not asked again while the design drives the same and the block has nothing to do.
    fn edge(&mut self, block: &mut SevenSeries, read: &[u32], driven: &mut [u32]) {
        let same = self.read == read;
        if self.holds && same {
            block.pass();
            return driven.copy_from_slice(&self.driven);
        }
        block.edge(read, driven);
        self.holds = same && self.driven == driven && block.rests();
        if !self.holds {
            self.read.clear();
            self.read.extend_from_slice(read);
            self.driven.clear();
            self.driven.extend_from_slice(driven);
        }
    }
}

impl Rtl {
    pub(crate) fn new(
        instance: Option<Instance>,
        clocks: Clocks,
        block: SevenSeries,
        told: Shared<Told>,
    ) -> Rtl {
        Rtl {
            instance,
            clocks,
            block,
            told,
            reset_until: Time::ZERO + RESET,
            at: Time::ZERO,
            is_ahead: false,
            rest: Rest::default(),
        }
    }

    /// Passes the edges of the next time that has any.
    fn pass_edges(&mut self) {
        let Some(instance) = &mut self.instance else { return };
        let at = self.clocks.next();
        let levels = self.clocks.pass(at);
        self.at = at;
        self.block.set_now(at);
        let (words, block, rest) = (self.block.words(), &mut self.block, &mut self.rest);
        let mut edge = |read: &[u32], driven: &mut [u32]| rest.edge(block, read, driven);
        let evaluated = instance.eval(levels, at >= self.reset_until, at.as_ps(), words, &mut edge);
        if let Err(why) = evaluated {
            self.fail(&why);
        }
    }

    /// Passes all edges up to this time, so that whatever comes then is behind them.
    fn run_to(&mut self, now: Time) {
        self.is_ahead = false;
        if self.clocks.next() > now {
            return;
        }
        while self.instance.is_some() && self.clocks.next() <= now {
            self.pass_edges();
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
        self.run_to(now);
        if let DesignInput::Reset { kind: ResetKind::Fundamental, .. } = input {
            self.reset_until = now + RESET;
        }
        self.rest.holds = false;
        self.block.handle(input);
    }

    fn run_ahead(&mut self, until: Time) {
        let before = self.at;
        while self.instance.is_some() && self.clocks.next() < until && self.block.ready() == Ready::NONE {
            self.pass_edges();
        }
        self.is_ahead = self.at > before;
        self.block.tell();
    }

    fn configured(&mut self, now: Time, _: u16, id: Bdf, config: &ConfigSpace) {
        self.run_to(now);
        self.rest.holds = false;
        self.block.configured(id, config);
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<DesignOutput> {
        if self.is_ahead { None } else { self.block.next_output(class) }
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

    fn waits_for(&self) -> Option<String> {
        (!self.block.is_idle()).then(|| format!("packets of a design, in cycle {}", self.block.cycle()))
    }
}
