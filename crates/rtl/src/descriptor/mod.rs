// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The blocks with descriptor streams around a design: Virtex-7 Gen3 (PG023), UltraScale (PG156), UltraScale+ (PG213). The
//! [`front`](endpoint::HardBlock) handles configuration space, decoding and credits. Independent of the design and its library.
//!
//! - `pack`, `unpack`: descriptors; `show`, `take`: beats.
//! - `functions`: numbers of functions, and their registers; `tags`: requests that wait for completions.
//! - `interrupts`, `resets`: the `cfg_interrupt_*` ports, and the `cfg_flr_*` ports.
//! - `requester`, `completer`: the four streams.

mod completer;
mod functions;
mod interrupts;
#[cfg(test)]
mod oracle;
mod pack;
mod requester;
mod resets;
mod show;
mod tags;
mod take;
#[cfg(test)]
mod tests;
mod unpack;

use crate::block::descriptor::{Driven, Read};
use crate::block::{Block, BlockKind, Shape};
use crate::common::{Common, Leaving};
use crate::findings::{DesignStatus, Rule, TagsOf};
use crate::signals::{Inputs, Layout, Outputs};
use completer::Completer;
use config::ConfigSpace;
use device::seam::{Ready, ResetKind, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, RefusedTlp};
use functions::Functions;
use interrupts::Interrupts;
use plug::Shared;
use requester::Requester;
use resets::Resets;
use tlp::{Bdf, Class, PayloadPool};

/// Settings of a block, as given to the vendor's tool.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) shape: Shape,
    pub(crate) latency: u32,
    /// True if the design chooses the tags.
    pub(crate) client_tags: bool,
    /// True if data starts at the lane of its address.
    pub(crate) address_aligned: bool,
    /// Maximum number of packets that may begin in a beat: RQ, RC, CQ, CC.
    pub(crate) packets: [usize; 4],
    /// Number of virtual functions of each physical function.
    pub(crate) virtual_functions: Vec<u16>,
    /// True if the block has the MSI-X tables.
    pub(crate) msix_inside: bool,
    /// Tags of all functions together, and their owners.
    pub(crate) tags: u16,
    pub(crate) tags_of: TagsOf,
}

/// An output that waits for the link, and the note that the design receives when it is sent. If its function is reset in the meantime,
/// the output is dropped, but the design still receives the note in order, because it may wait for a sequence number.
struct Sent {
    output: Option<DesignOutput>,
    note: Note,
}

impl Sent {
    /// Returns the front's index of the sending function.
    fn function(&self) -> Option<u16> {
        match self.output {
            Some(
                DesignOutput::Tlp { function, .. }
                | DesignOutput::Interrupt { function, .. }
                | DesignOutput::Intx { function, .. },
            ) => Some(function),
            _ => None,
        }
    }
}

/// Notification to the design when an output is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Note {
    Nothing,
    /// Sequence number of a request.
    Sequence(u8),
    Intx,
    Msi,
    Msix,
}

/// State shared by the parts of a block.
struct Inner {
    common: Common,
    pool: PayloadPool,
    functions: Functions,
    leaving: Leaving<Sent>,
    /// Buffer for the bytes of a TLP.
    bytes: Vec<u8>,
}

impl Inner {
    /// Reports a rule that a packet of these words breaks.
    fn found(&self, rule: &Rule, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.common.found(rule, &bytes);
    }
}

/// The block.
pub(crate) struct Descriptors {
    layout: Layout,
    inner: Inner,
    requester: Requester,
    completer: Completer,
    interrupts: Interrupts,
    resets: Resets,
    kind: BlockKind,
    link_lanes: u16,
    /// Driven outputs, and true if their status values are out of date.
    driven: Vec<u32>,
    is_old: bool,
    register_asked: bool,
    message_asked: bool,
}

impl Descriptors {
    pub(crate) fn new(options: &Options, pool: PayloadPool, status: Shared<DesignStatus>) -> Descriptors {
        let shape = options.shape;
        Descriptors {
            layout: Layout::of(shape),
            inner: Inner {
                common: Common::new(options.latency, status),
                pool,
                functions: Functions::new(shape.kind, &options.virtual_functions),
                leaving: Leaving::default(),
                bytes: Vec::new(),
            },
            requester: Requester::new(options),
            completer: Completer::new(options),
            interrupts: Interrupts::new(options),
            resets: Resets::new(shape.kind),
            kind: shape.kind,
            link_lanes: shape.lanes,
            driven: Vec::new(),
            is_old: true,
            register_asked: false,
            message_asked: false,
        }
    }

    fn reset(&mut self, function: u16, kind: ResetKind) {
        if kind == ResetKind::FunctionLevel {
            let Some(slot) = self.inner.functions.slot_of_index(function) else { return };
            self.requester.function_reset(&mut self.inner, slot);
            // The reset of a virtual function that no longer exists is not shown to the design.
            if self.inner.functions.is_enabled(slot) {
                self.resets.begin(slot);
            }
            return;
        }
        self.requester.reset();
        self.completer.reset();
        self.interrupts.reset();
        self.resets.reset();
        self.inner.leaving.clear();
        self.inner.common.reset();
    }

    /// Answers register reads of the design, one cycle later.
    fn manage(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let is_new = |port| inputs.is(port) && !self.register_asked;
        let (asked, written) = (is_new(Read::RegisterGet), is_new(Read::RegisterPut));
        if written {
            self.inner.common.found(&Rule::RegisterWrite, &[]);
        }
        self.register_asked = asked || written;
        outputs.set(Driven::RegisterDone, self.register_asked.into());
        if asked {
            let address = inputs.get(Read::Register);
            let number = match self.kind {
                BlockKind::UltraScalePlus => inputs.get(Read::RegisterFunction),
                _ => address >> 10 & 0xff,
            };
            let slot = self.inner.functions.slot_of_number(number as u8);
            let value = slot.map_or(0, |slot| self.inner.functions.registers(slot).get(address & 0x3ff));
            outputs.set(Driven::RegisterValue, value);
        }
    }

    /// Reports uses of ports that riser's block does not support.
    fn complaints(&mut self, inputs: Inputs<'_>, outputs: &mut Outputs<'_>) {
        let asked = inputs.is(Read::MessageSend);
        outputs.set(Driven::MessageSent, (asked && !self.message_asked).into());
        self.message_asked = asked;
        let all = [
            (Read::ErrorCorrectable, "cfg_err_cor_in"),
            (Read::ErrorUncorrectable, "cfg_err_uncor_in"),
            (Read::MessageSend, "cfg_msg_transmit"),
        ];
        self.inner.common.errors(all.iter().map(|(port, name)| (inputs.is(*port), *name)));
    }
}

impl Block for Descriptors {
    fn words(&self) -> [usize; 2] {
        self.layout.words
    }

    fn configured(&mut self, function: u16, id: Bdf, config: &ConfigSpace) {
        self.inner.functions.follow(function, id, config);
        if let Some(slot) = self.inner.functions.slot_of_index(function)
            && self.inner.functions.registers(slot).command() >> 2 & 1 == 1
        {
            self.requester.may_request(slot);
        }
        self.is_old = true;
    }

    fn common(&self) -> &Common {
        &self.inner.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.inner.common
    }

    fn handle(&mut self, input: DesignInput) {
        match input {
            DesignInput::Request(request) => self.completer.request(&mut self.inner, &request),
            DesignInput::Completion { tlp, .. } => self.requester.completion(&mut self.inner, &tlp),
            DesignInput::Lost { requester, tag, why, .. } => {
                self.requester.lost(&mut self.inner, requester, tag, why);
            }
            DesignInput::Refused { tlp, why } => {
                self.requester.refused(&mut self.inner, &tlp);
                self.inner.common.refused(&tlp, &why);
            }
            DesignInput::SentWrong { tlp, why } => self.inner.common.sent_wrong(&tlp, &why),
            DesignInput::Reset { function, kind } => self.reset(function, kind),
            _ => {}
        }
    }

    fn next_taken(&mut self) -> Option<Token> {
        self.completer.cq.next_taken()
    }

    fn ready(&self) -> Ready {
        let taken = Ready::when(self.completer.cq.has_taken(), Ready::TAKEN);
        self.inner.leaving.ready(self.inner.common.cycle).or(taken)
    }

    fn next_output(&mut self, class: Class) -> Option<DesignOutput> {
        loop {
            let Sent { output, note } = self.inner.leaving.pop(class, self.inner.common.cycle)?;
            match note {
                Note::Nothing => {}
                Note::Sequence(number) => self.requester.left(number),
                note => self.interrupts.left(note),
            }
            if output.is_some() {
                return output;
            }
        }
    }

    /// By the product guides the design must obey the rules, so wrong TLPs are sent. The exception is a tag that is
    /// already in use: it cannot be tracked.
    fn sends_wrong(&self, why: &RefusedTlp) -> bool {
        !matches!(why, RefusedTlp::Tag(_))
    }

    fn is_idle(&self) -> bool {
        self.requester.is_idle() && self.completer.is_idle() && self.inner.leaving.is_empty()
    }

    fn edge(&mut self, read: &[u32], driven: &mut [u32]) {
        let (layout, mut words) = (std::mem::take(&mut self.layout), std::mem::take(&mut self.driven));
        words.resize(driven.len(), 0);
        let inputs = Inputs { layout: &layout, words: read };
        let mut outputs = Outputs { layout: &layout, words: &mut words };
        self.inner.common.cycle += 1;
        let is_reset = match self.kind {
            BlockKind::Virtex7Gen3 => inputs.is(Read::ResetP),
            _ => !inputs.is(Read::ResetN),
        };
        let in_reset = self.inner.common.in_reset() || is_reset;
        let is_up = self.inner.common.is_up(in_reset);
        outputs.set(Driven::Reset, in_reset.into());
        outputs.set(Driven::LinkUp, is_up.into());
        self.requester.edge(&mut self.inner, inputs, &mut outputs, !in_reset, is_up);
        self.completer.edge(&mut self.inner, inputs, &mut outputs, !in_reset, is_up);
        self.interrupts.edge(&mut self.inner, inputs, &mut outputs, !in_reset);
        self.resets.edge(&self.inner.functions, inputs, &mut outputs, self.kind);
        self.manage(inputs, &mut outputs);
        if !in_reset {
            self.complaints(inputs, &mut outputs);
        }
        if std::mem::take(&mut self.is_old) {
            self.inner.functions.drive(&mut outputs, self.link_lanes);
        }
        driven.copy_from_slice(&words);
        (self.layout, self.driven) = (layout, words);
    }

    fn rests(&self) -> bool {
        let is_up = self.inner.common.is_up(self.inner.common.in_reset());
        is_up && self.is_idle() && !self.is_old && self.interrupts.rests() && self.resets.rests()
    }

    fn packets(&self) -> [u64; 2] {
        [
            self.completer.cq.packets + self.requester.rc.packets,
            self.completer.cc.packets + self.requester.rq.packets,
        ]
    }
}
