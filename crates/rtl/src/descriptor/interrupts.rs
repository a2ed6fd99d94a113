// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupt requests of a design (PG023, PG156, PG213: "Configuration Interrupt Controller Interface"): INTx by level,
//! MSI by vector, MSI-X by address and data, or by vector if the block has the table. Each request is answered: "sent"
//! when it leaves, or "failed".

use super::{Inner, Note, Options, Sent};
use crate::block::BlockKind;
use crate::block::descriptor::{Driven, Read};
use crate::findings::Rule;
use crate::signals::{Inputs, Outputs};
use endpoint::hard_block::DesignOutput;
use tlp::{Attributes, Bdf, Body, Class, Data, MemoryOp, MemoryRequest, Repr, Span, Tag, Tlp};

/// See the [module](self).
pub(super) struct Interrupts {
    kind: BlockKind,
    msix_inside: bool,
    /// Requests of the previous cycle.
    intx: u32,
    msi: u32,
    msix: bool,
    /// True if a request has not been answered yet.
    open: bool,
    /// Answers for the next cycle.
    sent: [bool; 3],
    failed: [bool; 3],
}

const INTX: usize = 0;
const MSI: usize = 1;
const MSIX: usize = 2;

impl Interrupts {
    pub(super) fn new(options: &Options) -> Interrupts {
        Interrupts {
            kind: options.shape.kind,
            msix_inside: options.msix_inside,
            intx: 0,
            msi: 0,
            msix: false,
            open: false,
            sent: [false; 3],
            failed: [false; 3],
        }
    }

    pub(super) fn reset(&mut self) {
        (self.intx, self.msi, self.msix, self.open) = (0, 0, false, false);
        (self.sent, self.failed) = ([false; 3], [false; 3]);
    }

    /// Records that an interrupt was sent.
    pub(super) fn left(&mut self, note: Note) {
        let which = match note {
            Note::Intx => INTX,
            Note::Msi => MSI,
            Note::Msix => MSIX,
            Note::Nothing | Note::Sequence(_) => return,
        };
        self.sent[which] = true;
        self.open &= which == INTX;
    }

    /// Returns true if there is nothing to answer.
    pub(super) fn rests(&self) -> bool {
        self.sent == [false; 3] && self.failed == [false; 3]
    }

    fn fail(&mut self, which: usize) {
        self.failed[which] = true;
        self.open = false;
    }

    pub(super) fn edge(
        &mut self,
        inner: &mut Inner,
        inputs: Inputs<'_>,
        outputs: &mut Outputs<'_>,
        runs: bool,
    ) {
        if runs {
            self.intx(inner, inputs);
            self.message(inner, inputs);
        }
        let (sent, failed) = (std::mem::take(&mut self.sent), std::mem::take(&mut self.failed));
        // UltraScale+ answers MSI-X on the ports of MSI.
        let both = self.kind == BlockKind::UltraScalePlus || self.msix_inside;
        for (port, is) in [
            (Driven::IntxSent, sent[INTX]),
            (Driven::InterruptSent, sent[MSI] || (both && sent[MSIX])),
            (Driven::InterruptFailed, failed[MSI] || (both && failed[MSIX])),
            (Driven::MsixSent, sent[MSIX]),
            (Driven::MsixFailed, failed[MSIX]),
        ] {
            outputs.set(port, is.into());
        }
        outputs.set(Driven::MsiMask, self.mask(inner, inputs));
    }

    fn mask(&self, inner: &Inner, inputs: Inputs<'_>) -> u32 {
        let slot = inner.functions.slot_of_interrupt(inputs.get(Read::MsiSelect));
        slot.map_or(0, |slot| inner.functions.registers(slot).msi_mask())
    }

    fn intx(&mut self, inner: &mut Inner, inputs: Inputs<'_>) {
        let now = inputs.get(Read::Intx);
        let changed = std::mem::replace(&mut self.intx, now) ^ now;
        for pin in (0..4).filter(|pin| changed >> pin & 1 == 1) {
            let Some(slot) = inner.functions.with_pin(pin + 1) else {
                inner.common.found(&Rule::InterruptFunction(pin), &[]);
                continue;
            };
            let function = slot as u16;
            let output = DesignOutput::Intx { function, asserted: now >> pin & 1 == 1 };
            self.send(inner, output, Note::Intx);
        }
    }

    fn send(&self, inner: &mut Inner, output: DesignOutput, note: Note) {
        inner.common.status.change(|status| status.interrupts += u64::from(note != Note::Intx));
        inner.leaving.push(Class::Posted, inner.common.from(), Sent { output: Some(output), note });
    }

    /// Handles a new request for MSI or MSI-X.
    fn message(&mut self, inner: &mut Inner, inputs: Inputs<'_>) {
        let (msi, msix) = (inputs.get(Read::Msi), inputs.is(Read::Msix));
        let new_msix = msix && !self.msix;
        self.msix = msix;
        let new_msi = if msix { 0 } else { msi & !self.msi };
        self.msi = msi;
        if !new_msix && new_msi == 0 {
            return;
        }
        if std::mem::replace(&mut self.open, true) {
            inner.common.found(&Rule::InterruptEarly, &[]);
        }
        let number = inputs.get(Read::InterruptFunction);
        let which = if new_msix { MSIX } else { MSI };
        let Some(slot) = inner.functions.slot_of_interrupt(number) else {
            inner.common.found(&Rule::InterruptFunction(number), &[]);
            return self.fail(which);
        };
        let Some(function) = inner.functions.index(slot) else { return self.fail(which) };
        let registers = inner.functions.registers(slot);
        let (vectors, is_msix) = (registers.msi_vectors(), registers.msix_control() >> 15 == 1);
        if !new_msix {
            if new_msi.count_ones() > 1 {
                inner.common.found(&Rule::Vectors(new_msi), &[]);
            }
            let vector = new_msi.trailing_zeros() as u16;
            if is_msix || vectors.is_none_or(|vectors| vector >= vectors) {
                return self.fail(MSI);
            }
            return self.send(inner, DesignOutput::Interrupt { function, vector }, Note::Msi);
        }
        if !is_msix {
            return self.fail(MSIX);
        }
        if self.msix_inside {
            let vector = msi as u16;
            return self.send(inner, DesignOutput::Interrupt { function, vector }, Note::Msix);
        }
        let tlp = write(inner, inputs);
        self.send(inner, DesignOutput::Tlp { function, tlp }, Note::Msix);
    }
}

/// Returns the write of an MSI-X vector from the design's own table.
fn write(inner: &Inner, inputs: Inputs<'_>) -> Tlp {
    let [low, high] = [0, 32].map(|at| u64::from(inputs.field(Read::MsixAddress, at, 32)));
    let address = (low & !3) | high << 32;
    let data = Data::Carried(inner.pool.copy(&inputs.get(Read::MsixData).to_le_bytes()));
    let span = Span::covering(address, 4).unwrap_or(Span::zero_length(address));
    let request = MemoryRequest { op: MemoryOp::Write, requester: Bdf::default(), tag: Tag::default(), span };
    let attr = Attributes::from_bits_truncate(inputs.get(Read::InterruptAttributes) as u8);
    Tlp::new(Repr { attr, ..Repr::new(Body::Memory(request)) }, data)
}
