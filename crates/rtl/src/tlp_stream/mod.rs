// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser_tlp_stream` around a design, riser's own block: plain TLPs on one stream per direction, and the values set by software. The
//! [`front`](endpoint::HardBlock) handles configuration space, decoding and credits. Independent of the design and its library.

mod receive;
#[cfg(test)]
mod tests;

use crate::block::tlp_stream::{Driven, Read};
use crate::block::{Block, Shape};
use crate::common::{Common, Leaving, TX_BUFFERS, bar_of};
use crate::findings::{DesignStatus, Rule};
use crate::registers::Registers;
use crate::signals::{Inputs, Layout, Outputs};
use crate::transmit::{Beat, Came, STREAM, Transmit};
use config::ConfigSpace;
use device::seam::{Ready, ResetKind, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, RefusedTlp};
use plug::Shared;
use receive::Receive;
use tlp::{Bdf, Class, PayloadPool};

/// The block.
pub(crate) struct TlpStream {
    layout: Layout,
    lanes: usize,
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
    flr: bool,
    flr_shown: bool,
}

impl TlpStream {
    pub(crate) fn new(
        shape: Shape,
        latency: u32,
        pool: PayloadPool,
        status: Shared<DesignStatus>,
    ) -> TlpStream {
        TlpStream {
            layout: Layout::of(shape),
            lanes: usize::from(shape.data_bits / 32),
            pool,
            common: Common::new(latency, status),
            receive: Receive::default(),
            transmit: Transmit::default(),
            leaving: Leaving::default(),
            registers: Registers::default(),
            driven: Vec::new(),
            is_old: true,
            is_ready: false,
            flr: false,
            flr_shown: false,
        }
    }

    fn reset(&mut self, kind: ResetKind) {
        self.receive.reset();
        self.transmit.reset();
        self.leaving.clear();
        match kind {
            ResetKind::FunctionLevel => self.flr = true,
            _ => self.common.reset(),
        }
    }

    fn waiting(&self) -> usize {
        Class::ALL.iter().map(|class| self.leaving.waiting(*class)).sum()
    }

    fn transmit(&mut self, inputs: Inputs<'_>) {
        let keep = inputs.wide(Read::TxKeep);
        let (lanes, is_last) = (inputs.lanes(Read::TxData), inputs.is(Read::TxLast));
        let beat = Beat { lanes, keep, is_last, is_poisoned: false, is_given_up: false };
        if !self.transmit.is_kept(&beat, inputs.is(Read::TxValid), self.is_ready) {
            self.common.found(&Rule::PresentedBeat(STREAM), &[]);
        }
        if !self.is_ready || !inputs.is(Read::TxValid) {
            return;
        }
        let Came { tlp, rule } = self.transmit.take(&beat, u32::to_le_bytes, &self.pool);
        if let Some(rule) = rule {
            self.common.found(&rule, self.transmit.bytes());
            self.transmit.forget();
        }
        if let Some(tlp) = tlp {
            self.leaving.push(tlp.class(), self.common.from(), DesignOutput::Tlp { function: 0, tlp });
        }
    }

    fn receive(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>, is_up: bool) {
        let is_ready = is_up && inputs.is(Read::RxReady);
        let beat = is_up.then(|| self.receive.next(self.common.cycle, self.lanes, is_ready)).flatten();
        outputs.set(Driven::RxValid, beat.is_some().into());
        let Some(beat) = beat else { return };
        outputs.set_lanes(Driven::RxData, &beat.lanes);
        let keep = u64::MAX >> (64 - 4 * beat.kept);
        outputs.set_wide(Driven::RxKeep, &[keep as u32, (keep >> 32) as u32]);
        outputs.set(Driven::RxLast, beat.is_last.into());
        outputs.set(Driven::RxUser, beat.bars);
    }

    /// Drives the status outputs from the registers.
    fn show_registers(&self, outputs: &mut Outputs<'_>) {
        let registers = &self.registers;
        let id = u32::from(registers.id);
        let [device, device2] = [2, 10].map(|at| registers.pcie(at));
        let (msi, msix) = (registers.msi_control(), registers.msix_control());
        for (port, value) in [
            (Driven::Bus, id >> 8),
            (Driven::Device, id >> 3 & 0x1f),
            (Driven::Function, id & 0b111),
            (Driven::MaxPayload, device >> 5 & 0b111),
            (Driven::MaxReadRequest, device >> 12 & 0b111),
            (Driven::BusMaster, registers.command() >> 2 & 1),
            (Driven::ExtendedTag, device >> 8 & 1),
            (Driven::TenBitTag, device2 >> 12 & 1),
            (Driven::MsiEnable, msi & 1),
            (Driven::MultipleMessages, msi >> 4 & 0b111),
            (Driven::MsiData, registers.msi_data()),
            (Driven::MsiMask, registers.msi_mask()),
            (Driven::MsixEnable, msix >> 15 & 1),
            (Driven::MsixMask, msix >> 14 & 1),
        ] {
            outputs.set(port, value);
        }
        outputs.set_wide(Driven::MsiAddress, &registers.msi_address());
    }
}

impl Block for TlpStream {
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
            DesignInput::Refused { tlp, why } => self.common.refused(&tlp, &why),
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

    /// The block checks only that a TLP has the length that its header says.
    fn sends_wrong(&self, _: &RefusedTlp) -> bool {
        true
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
        outputs.set(Driven::Reset, in_reset.into());
        outputs.set(Driven::LinkUp, is_up.into());
        if !in_reset {
            self.transmit(inputs);
        }
        self.receive(inputs, &mut outputs, is_up);
        self.is_ready = !in_reset && self.waiting() < TX_BUFFERS;
        outputs.set(Driven::TxReady, self.is_ready.into());
        self.flr_shown = std::mem::take(&mut self.flr);
        outputs.set(Driven::FunctionLevelReset, self.flr_shown.into());
        if std::mem::take(&mut self.is_old) {
            self.show_registers(&mut outputs);
        }
        driven.copy_from_slice(&words);
        (self.layout, self.driven) = (layout, words);
    }

    fn rests(&self) -> bool {
        let is_up = self.common.is_up(self.common.in_reset());
        is_up && self.is_idle() && !self.is_old && !self.flr && !self.flr_shown
    }

    fn packets(&self) -> [u64; 2] {
        [self.receive.packets, self.transmit.packets]
    }
}
