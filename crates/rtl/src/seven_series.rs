// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 7-series block around a design (PG054): its streams, interrupts and status, edge by edge. Configuration space, decoding and credits are
//! the [`front`](endpoint::HardBlock)'s. Never knows a library, and what the design is.

use crate::block::{Driven, Read, Shape};
use crate::findings::{Rule, Told};
use crate::receive::Receive;
use crate::signals::{Inputs, Layout, Outputs};
use crate::status::Status;
use crate::transmit::{Came, Transmit};
use config::ConfigSpace;
use device::seam::{Ready, ResetKind, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, Target};
use plug::Shared;
use std::collections::VecDeque;
use tlp::{Bdf, Class, PayloadPool, Time, Tlp};

/// Packets of the design that wait for the link at most: as many buffers as tx_buf_av counts.
const TX_BUFFERS: usize = 32;
/// Cycles for which the user reset is held.
const RESET_CYCLES: u64 = 64;
/// Cycles behind that, before the design is given a packet: it has resets of its own, and between a reset and a link that is up are
/// milliseconds.
const TRAINING_CYCLES: u64 = 64;

/// Outputs of a class on their way.
type Queue = VecDeque<(u64, DesignOutput)>;

/// The block.
pub(crate) struct SevenSeries {
    layout: Layout,
    lanes: usize,
    link_lanes: u16,
    latency: u64,
    pool: PayloadPool,
    told: Shared<Told>,
    cycle: u64,
    now: Time,
    receive: Receive,
    transmit: Transmit,
    leaving: [Queue; 3],
    status: Status,
    /// What is driven, and whether the status in it is old.
    driven: Vec<u32>,
    is_old: bool,
    /// The cycle from which on the design is out of reset.
    ready_from: u64,
    is_ready: bool,
    interrupt_taken: bool,
    register_read: bool,
    flr: bool,
    /// The level that INTx was asked for.
    intx: bool,
    errors_before: u32,
}

/// Inputs by which a design reports errors, which riser's block does not.
const ERRORS: [(Read, &str); 9] = [
    (Read::ErrorCorrectable, "cfg_err_cor"),
    (Read::ErrorUnsupported, "cfg_err_ur"),
    (Read::ErrorEcrc, "cfg_err_ecrc"),
    (Read::ErrorTimeout, "cfg_err_cpl_timeout"),
    (Read::ErrorAbort, "cfg_err_cpl_abort"),
    (Read::ErrorUnexpected, "cfg_err_cpl_unexpect"),
    (Read::ErrorInternal, "cfg_err_internal_uncor"),
    (Read::ErrorMalformed, "cfg_err_malformed"),
    (Read::ErrorPoisoned, "cfg_err_poisoned"),
];

impl SevenSeries {
    pub(crate) fn new(shape: Shape, latency: u32, pool: PayloadPool, told: Shared<Told>) -> SevenSeries {
        SevenSeries {
            layout: Layout::of(shape),
            lanes: usize::from(shape.data_bits / 32),
            link_lanes: shape.lanes,
            latency: latency.into(),
            pool,
            told,
            cycle: 0,
            now: Time::ZERO,
            receive: Receive::default(),
            transmit: Transmit::default(),
            leaving: Default::default(),
            status: Status::default(),
            driven: Vec::new(),
            is_old: true,
            ready_from: RESET_CYCLES,
            is_ready: false,
            interrupt_taken: false,
            register_read: false,
            flr: false,
            intx: false,
            errors_before: 0,
        }
    }

    /// Words of both vectors of an edge.
    pub(crate) fn words(&self) -> [usize; 2] {
        self.layout.words
    }

    /// Follows what software has set.
    pub(crate) fn configured(&mut self, id: Bdf, config: &ConfigSpace) {
        self.status.follow(id, config);
        self.is_old = true;
    }

    pub(crate) fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Time is here from now on.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    // ---- the front ----

    /// Takes what the front has for the design, but timers.
    pub(crate) fn handle(&mut self, input: DesignInput) {
        let from = self.cycle + self.latency;
        match input {
            DesignInput::Request(request) => {
                let bar = match request.target {
                    Target::Bar { bar, .. } => Some(bar.0),
                    _ => None,
                };
                self.receive.push(&request.tlp, Some(request.token), bar, from);
            }
            DesignInput::Completion { tlp, .. } => self.receive.push(&tlp, None, None, from),
            DesignInput::Refused { tlp, why } => self.refused(&tlp, &why.to_string()),
            DesignInput::Reset { kind, .. } => self.reset(kind),
            // The design has a timer of its own for that.
            _ => {}
        }
    }

    fn refused(&mut self, tlp: &Tlp, why: &str) {
        let mut bytes = vec![0; tlp.wire_len()];
        tlp.emit(&mut bytes);
        self.found(&Rule::Refused(why.to_owned()), &bytes);
    }

    fn found(&self, rule: &Rule, bytes: &[u8]) {
        self.told.change(|told| told.found(self.now, self.cycle, rule, bytes));
    }

    fn reset(&mut self, kind: ResetKind) {
        self.receive.reset();
        self.transmit.reset();
        self.leaving.iter_mut().for_each(Queue::clear);
        self.intx = false;
        match kind {
            ResetKind::FunctionLevel => self.flr = true,
            _ => self.ready_from = self.cycle + RESET_CYCLES,
        }
    }

    pub(crate) fn next_taken(&mut self) -> Option<Token> {
        self.receive.next_taken()
    }

    /// What it has for the link.
    pub(crate) fn ready(&self) -> Ready {
        let of = |class: Class| Ready::when(self.due(class), Ready::output(class));
        let taken = Ready::when(self.receive.has_taken(), Ready::TAKEN);
        Class::ALL.iter().fold(taken, |all, class| all.or(of(*class)))
    }

    fn due(&self, class: Class) -> bool {
        self.leaving[class.index()].front().is_some_and(|(from, _)| *from <= self.cycle)
    }

    pub(crate) fn next_output(&mut self, class: Class) -> Option<DesignOutput> {
        if self.due(class) { self.leaving[class.index()].pop_front().map(|(_, output)| output) } else { None }
    }

    /// Whether nothing is on its way in either direction.
    pub(crate) fn is_idle(&self) -> bool {
        self.receive.is_empty() && self.transmit.is_empty() && self.leaving.iter().all(Queue::is_empty)
    }

    // ---- the design ----

    /// An edge of the user clock: what it reads, and drives from now on.
    pub(crate) fn edge(&mut self, read: &[u32], driven: &mut [u32]) {
        let (layout, mut words) = (std::mem::take(&mut self.layout), std::mem::take(&mut self.driven));
        words.resize(driven.len(), 0);
        let inputs = Inputs { layout: &layout, words: read };
        let mut outputs = Outputs { layout: &layout, words: &mut words };
        self.cycle += 1;
        let in_reset = self.cycle < self.ready_from || !inputs.is(Read::ResetN);
        outputs.set(Driven::Reset, in_reset.into());
        let is_up = self.is_up(in_reset);
        outputs.set(Driven::LinkUp, is_up.into());
        outputs.set(Driven::PhyUp, 1);
        outputs.set(Driven::AppReady, (!in_reset).into());
        if in_reset {
            self.interrupt_taken = false;
            outputs.set(Driven::InterruptReady, 0);
        } else {
            self.transmit(inputs);
            self.interrupt(inputs, &mut outputs);
            self.complaints(inputs);
        }
        self.receive(inputs, &mut outputs, is_up);
        self.manage(inputs, &mut outputs);
        self.is_ready = !in_reset && self.waiting() < TX_BUFFERS;
        outputs.set(Driven::TxReady, self.is_ready.into());
        outputs.set(Driven::TxBuffers, (TX_BUFFERS - self.waiting().min(TX_BUFFERS)) as u32);
        outputs.set(Driven::FunctionLevelReset, std::mem::take(&mut self.flr).into());
        if std::mem::take(&mut self.is_old) {
            self.status.drive(&mut outputs, self.link_lanes);
        }
        driven.copy_from_slice(&words);
        (self.layout, self.driven) = (layout, words);
    }

    /// Whether it has nothing to do by itself: an edge that reads and drives the same as the one before leaves it as it is.
    pub(crate) fn rests(&self) -> bool {
        self.is_up(false) && self.is_idle() && !self.is_old && !self.flr
    }

    /// So many edges at which it rested and the design drove the same.
    pub(crate) fn pass(&mut self, edges: u64) {
        self.cycle += edges;
    }

    fn is_up(&self, in_reset: bool) -> bool {
        !in_reset && self.cycle >= self.ready_from + TRAINING_CYCLES
    }

    fn waiting(&self) -> usize {
        self.leaving.iter().map(Queue::len).sum()
    }

    fn transmit(&mut self, inputs: Inputs<'_>) {
        if !self.transmit.is_kept(inputs, self.is_ready) {
            self.found(&Rule::Kept, &[]);
        }
        if !self.is_ready || !inputs.is(Read::TxValid) {
            return;
        }
        match self.transmit.take(inputs, &self.pool) {
            Came::Nothing => {}
            Came::Tlp(tlp) => self.leave(tlp.class(), DesignOutput::Tlp { function: 0, tlp: *tlp }),
            Came::Wrong(rule) => {
                self.found(&rule, self.transmit.bytes());
                self.transmit.forget();
            }
        }
    }

    fn leave(&mut self, class: Class, output: DesignOutput) {
        self.leaving[class.index()].push_back((self.cycle + self.latency, output));
    }

    fn receive(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>, is_up: bool) {
        let non_posted = inputs.is(Read::NonPostedOk) && inputs.is(Read::NonPostedRequested);
        let is_ready = is_up && inputs.is(Read::RxReady);
        let beat = is_up.then(|| self.receive.next(self.cycle, self.lanes, is_ready, non_posted)).flatten();
        outputs.set(Driven::RxValid, beat.is_some().into());
        let Some(beat) = beat else { return };
        outputs.set_lanes(&beat.lanes);
        outputs.set(Driven::RxKeep, beat.keep);
        outputs.set(Driven::RxLast, beat.is_last.into());
        outputs.set(Driven::RxUser, beat.user);
    }

    /// Interrupts are asked for until they are ready; ready is shown for one cycle.
    fn interrupt(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let asked = inputs.is(Read::Interrupt) && !self.interrupt_taken;
        self.interrupt_taken = asked && self.waiting() < TX_BUFFERS;
        outputs.set(Driven::InterruptReady, self.interrupt_taken.into());
        if !self.interrupt_taken {
            return;
        }
        let function = 0;
        match self.status.msi_vectors() {
            Some(vectors) => {
                let vector = inputs.get(Read::InterruptData) as u16 % vectors;
                self.told.change(|told| told.interrupts += 1);
                self.leave(Class::Posted, DesignOutput::Interrupt { function, vector });
            }
            None => {
                let asserted = inputs.is(Read::InterruptAssert);
                if asserted != self.intx {
                    self.intx = asserted;
                    self.leave(Class::Posted, DesignOutput::Intx { function, asserted });
                }
            }
        }
    }

    /// Registers as the design asks for them, a cycle later.
    fn manage(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let is_new = |port| inputs.is(port) && !self.register_read;
        let (asked, written) = (is_new(Read::ManagementGet), is_new(Read::ManagementPut));
        if written {
            self.found(&Rule::RegisterWrite, &[]);
        }
        self.register_read = asked || written;
        outputs.set(Driven::RegisterDone, self.register_read.into());
        if asked {
            outputs.set(Driven::RegisterValue, self.status.register(inputs.get(Read::Register)));
        }
    }

    /// What the design asks of the block that riser's has not.
    fn complaints(&mut self, inputs: Inputs<'_>) {
        let mut all = 0;
        for (n, (port, name)) in ERRORS.iter().enumerate() {
            let is = inputs.is(*port);
            all |= u32::from(is) << n;
            if is && self.errors_before >> n & 1 == 0 {
                self.found(&Rule::Error(name), &[]);
            }
        }
        self.errors_before = all;
    }

    /// Brings the report up to date.
    pub(crate) fn tell(&self) {
        self.told.change(|told| {
            told.cycles = self.cycle;
            (told.packets_in, told.packets_out) = (self.receive.packets, self.transmit.packets);
        });
    }
}
