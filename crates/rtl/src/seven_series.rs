// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 7-series block around a design (PG054): its streams, interrupts and status, edge by edge. The [`front`](endpoint::HardBlock) handles
//! configuration space, decoding and credits. Independent of the design and its library.

use crate::block::seven_series::{Driven, Read};
use crate::block::{Block, Shape};
use crate::common::{Common, Leaving, TX_BUFFERS, bar_of};
use crate::findings::{DesignStatus, Rule};
use crate::receive::Receive;
use crate::registers::Registers;
use crate::signals::{Inputs, Layout, Outputs, Ports};
use crate::status;
use crate::transmit::{Beat, Came, STREAM, Transmit};
use config::ConfigSpace;
use device::seam::{Ready, ResetKind, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, RefusedTlp};
use plug::Shared;
use tlp::{Bdf, Class, PayloadPool, RuleId};

/// The block.
pub(crate) struct SevenSeries {
    layout: Layout,
    /// Ports for requests of the design outside the streams, and whether any was active at the last edge.
    asking: Ports,
    has_asked: bool,
    /// Link state that is shown to the design (in reset; up); `None` before the first cycle.
    shown: Option<(bool, bool)>,
    lanes: usize,
    link_lanes: u16,
    pool: PayloadPool,
    common: Common,
    receive: Receive,
    transmit: Transmit,
    leaving: Leaving<DesignOutput>,
    registers: Registers,
    /// Driven outputs, and true if their status values are out of date.
    driven: Vec<u32>,
    is_old: bool,
    is_ready: bool,
    interrupt_taken: bool,
    register_read: bool,
    /// True if a packet was dropped because of its length, and true if that is presented.
    dropped: bool,
    dropped_shown: bool,
    flr: bool,
    flr_shown: bool,
    /// Last requested level of INTx.
    intx: bool,
}

/// s_axis_tx_tuser: the packet is poisoned; the packet must be discarded.
const ERR_FWD: u32 = 1 << 1;
const DISCONTINUE: u32 = 1 << 3;
/// Inputs for errors of a design, which riser's block does not support.
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
/// Inputs for interrupt and register requests.
const ASKED: [Read; 3] = [Read::Interrupt, Read::ManagementGet, Read::ManagementPut];

impl SevenSeries {
    pub(crate) fn new(
        shape: Shape,
        latency: u32,
        pool: PayloadPool,
        status: Shared<DesignStatus>,
    ) -> SevenSeries {
        let layout = Layout::of(shape);
        SevenSeries {
            asking: Ports::of(&layout, ERRORS.iter().map(|(port, _)| *port).chain(ASKED)),
            has_asked: false,
            shown: None,
            layout,
            lanes: usize::from(shape.data_bits / 32),
            link_lanes: shape.lanes,
            pool,
            common: Common::new(latency, status),
            receive: Receive::default(),
            transmit: Transmit::default(),
            leaving: Leaving::default(),
            registers: Registers::default(),
            driven: Vec::new(),
            is_old: true,
            is_ready: false,
            interrupt_taken: false,
            register_read: false,
            dropped: false,
            dropped_shown: false,
            flr: false,
            flr_shown: false,
            intx: false,
        }
    }

    fn reset(&mut self, kind: ResetKind) {
        self.receive.reset();
        self.transmit.reset();
        self.leaving.clear();
        self.intx = false;
        match kind {
            ResetKind::FunctionLevel => self.flr = true,
            _ => self.common.reset(),
        }
    }

    fn waiting(&self) -> usize {
        Class::ALL.iter().map(|class| self.leaving.waiting(*class)).sum()
    }

    fn transmit(&mut self, inputs: Inputs<'_>) {
        let user = inputs.get(Read::TxUser);
        let beat = Beat {
            lanes: inputs.lanes(Read::TxData),
            keep: inputs.get(Read::TxKeep).into(),
            is_last: inputs.is(Read::TxLast),
            is_poisoned: user & ERR_FWD != 0,
            is_given_up: user & DISCONTINUE != 0,
        };
        let is_valid = inputs.is(Read::TxValid);
        if !self.transmit.is_kept(&beat, is_valid, self.is_ready) {
            self.common.found(&Rule::PresentedBeat(STREAM), &[]);
        }
        if !self.is_ready || !is_valid {
            return;
        }
        let Came { tlp, rule } = self.transmit.take(&beat, u32::to_be_bytes, &self.pool);
        if let Some(rule) = rule {
            self.dropped |= matches!(rule, Rule::Length { .. } | Rule::Header | Rule::TooLong(_));
            self.common.found(&rule, self.transmit.bytes());
            self.transmit.forget();
        }
        if let Some(tlp) = tlp {
            self.leave(tlp.class(), DesignOutput::Tlp { function: 0, tlp });
        }
    }

    fn leave(&mut self, class: Class, output: DesignOutput) {
        self.leaving.push(class, self.common.from(), output);
    }

    fn receive(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>, is_up: bool) {
        let non_posted = inputs.is(Read::NonPostedOk) && inputs.is(Read::NonPostedRequested);
        let is_ready = is_up && inputs.is(Read::RxReady);
        let beat =
            is_up.then(|| self.receive.next(self.common.cycle, self.lanes, is_ready, non_posted)).flatten();
        outputs.set(Driven::RxValid, beat.is_some().into());
        let Some(beat) = beat else { return };
        outputs.set_lanes(Driven::RxData, &beat.lanes);
        outputs.set(Driven::RxKeep, beat.keep);
        outputs.set(Driven::RxLast, beat.is_last.into());
        outputs.set(Driven::RxUser, beat.user);
    }

    /// Drives the state of the link if it has changed.
    fn show_link(&mut self, outputs: &mut Outputs<'_>, (in_reset, is_up): (bool, bool)) {
        if self.shown.replace((in_reset, is_up)) == Some((in_reset, is_up)) {
            return;
        }
        outputs.set(Driven::Reset, in_reset.into());
        outputs.set(Driven::LinkUp, is_up.into());
        outputs.set(Driven::PhyUp, 1);
        outputs.set(Driven::AppReady, (!in_reset).into());
    }

    /// Answers requests outside the streams.
    fn answer(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>, in_reset: bool) {
        if in_reset {
            self.interrupt_taken = false;
            outputs.set(Driven::InterruptReady, 0);
        } else {
            self.interrupt(inputs, outputs);
            self.common.errors(ERRORS.iter().map(|(port, name)| (inputs.is(*port), *name)));
        }
        self.manage(inputs, outputs);
    }

    /// Handles interrupt requests. A request stays active until ready, which is presented for one cycle.
    fn interrupt(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let asked = inputs.is(Read::Interrupt) && !self.interrupt_taken;
        self.interrupt_taken = asked && self.waiting() < TX_BUFFERS;
        outputs.set(Driven::InterruptReady, self.interrupt_taken.into());
        if !self.interrupt_taken {
            return;
        }
        let function = 0;
        match self.registers.msi_vectors() {
            Some(vectors) => {
                let vector = inputs.get(Read::InterruptData) as u16 % vectors;
                self.common.status.change(|status| status.interrupts += 1);
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

    /// Answers register reads of the design, one cycle later.
    fn manage(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let is_new = |port| inputs.is(port) && !self.register_read;
        let (asked, written) = (is_new(Read::ManagementGet), is_new(Read::ManagementPut));
        if written {
            self.common.found(&Rule::RegisterWrite, &[]);
        }
        self.register_read = asked || written;
        outputs.set(Driven::RegisterDone, self.register_read.into());
        if asked {
            outputs.set(Driven::RegisterValue, self.registers.get(inputs.get(Read::Register)));
        }
    }
}

/// Returns true if the TLP exceeds Max_Payload_Size.
fn is_length(why: &RefusedTlp) -> bool {
    matches!(why, RefusedTlp::Malformed(malformed) if malformed.rule == RuleId::MaxPayloadSize)
}

impl Block for SevenSeries {
    fn words(&self) -> [usize; 2] {
        self.layout.words
    }

    fn configured(&mut self, _: u16, id: Bdf, config: &ConfigSpace) {
        self.registers.follow(id, config);
        self.is_old = true;
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn handle(&mut self, input: DesignInput) {
        let from = self.common.from();
        match input {
            DesignInput::Request(request) => {
                self.receive.push(&request.tlp, Some(request.token), bar_of(&request), from);
            }
            DesignInput::Completion { tlp, .. } => self.receive.push(&tlp, None, None, from),
            DesignInput::Refused { tlp, why } => {
                self.dropped |= is_length(&why);
                self.common.refused(&tlp, &why);
            }
            DesignInput::SentWrong { tlp, why } => self.common.sent_wrong(&tlp, &why),
            DesignInput::Reset { kind, .. } => self.reset(kind),
            // The design has its own timer for completions that do not arrive.
            _ => {}
        }
    }

    fn next_taken(&mut self) -> Option<Token> {
        self.receive.next_taken()
    }

    fn ready(&self) -> Ready {
        self.leaving.ready(self.common.cycle).or(Ready::when(self.receive.has_taken(), Ready::TAKEN))
    }

    fn next_output(&mut self, class: Class) -> Option<DesignOutput> {
        self.leaving.pop(class, self.common.cycle)
    }

    /// The block checks only lengths (PG054: tx_err_drop).
    fn sends_wrong(&self, why: &RefusedTlp) -> bool {
        !is_length(why)
    }

    fn is_idle(&self) -> bool {
        self.receive.is_empty() && self.transmit.is_empty() && self.leaving.is_empty()
    }

    fn edge(&mut self, read: &[u32], driven: &mut [u32]) {
        let (layout, mut words) = (std::mem::take(&mut self.layout), std::mem::take(&mut self.driven));
        words.resize(driven.len(), 0);
        let inputs = Inputs { layout: &layout, words: read };
        let mut outputs = Outputs { layout: &layout, words: &mut words };
        self.common.cycle += 1;
        let in_reset = self.common.in_reset() || !inputs.is(Read::ResetN);
        let is_up = self.common.is_up(in_reset);
        self.show_link(&mut outputs, (in_reset, is_up));
        if !in_reset {
            self.transmit(inputs);
        }
        // Called once more after the last request, when the answers end.
        let asks = inputs.any(&self.asking);
        if std::mem::replace(&mut self.has_asked, asks) || asks {
            self.answer(inputs, &mut outputs, in_reset);
        }
        self.receive(inputs, &mut outputs, is_up);
        let waiting = self.waiting();
        self.is_ready = !in_reset && waiting < TX_BUFFERS;
        outputs.set(Driven::TxReady, self.is_ready.into());
        outputs.set(Driven::TxBuffers, (TX_BUFFERS - waiting.min(TX_BUFFERS)) as u32);
        if std::mem::replace(&mut self.dropped_shown, std::mem::take(&mut self.dropped)) || self.dropped_shown
        {
            outputs.set(Driven::TxDropped, self.dropped_shown.into());
        }
        if std::mem::replace(&mut self.flr_shown, std::mem::take(&mut self.flr)) || self.flr_shown {
            outputs.set(Driven::FunctionLevelReset, self.flr_shown.into());
        }
        if std::mem::take(&mut self.is_old) {
            status::drive(&self.registers, &mut outputs, self.link_lanes);
        }
        driven.copy_from_slice(&words);
        (self.layout, self.driven) = (layout, words);
    }

    fn rests(&self) -> bool {
        self.common.is_up(self.common.in_reset())
            && self.is_idle()
            && !self.is_old
            && !(self.dropped || self.dropped_shown || self.flr)
            && !self.flr_shown
    }

    fn packets(&self) -> [u64; 2] {
        [self.receive.packets, self.transmit.packets]
    }
}
