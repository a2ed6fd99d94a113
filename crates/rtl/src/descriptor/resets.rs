// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Function Level Resets at the design's ports (PG023, PG156, PG213: "Configuration Control Interface"): each is in
//! process until the design reports it as done. The front does not wait for this report.

use super::functions::{FunctionIndex, Functions};
use crate::block::BlockKind;
use crate::block::descriptor::{Driven, Read};
use crate::signals::{Inputs, Outputs};

/// See the [module](self).
pub(super) struct Resets {
    in_process: Vec<bool>,
    physical: usize,
    /// True if the driven values are out of date.
    is_old: bool,
}

impl Resets {
    pub(super) fn new(kind: BlockKind) -> Resets {
        let [physical, virtuals] = kind.functions().map(usize::from);
        Resets { in_process: vec![false; physical + virtuals], physical, is_old: true }
    }

    pub(super) fn reset(&mut self) {
        self.in_process.fill(false);
        self.is_old = true;
    }

    pub(super) fn begin(&mut self, slot: FunctionIndex) {
        self.in_process[slot] = true;
        self.is_old = true;
    }

    /// Returns true if there is no new reset to show.
    pub(super) fn rests(&self) -> bool {
        !self.is_old
    }

    pub(super) fn edge(
        &mut self,
        functions: &Functions,
        inputs: Inputs<'_>,
        outputs: &mut Outputs<'_>,
        kind: BlockKind,
    ) {
        let [done, virtual_done] = [Read::FlrDone, Read::VfFlrDone].map(|port| inputs.get(port));
        if done != 0 || virtual_done != 0 {
            self.done(functions, inputs, kind);
        }
        if !std::mem::take(&mut self.is_old) {
            return;
        }
        for (slot, is) in self.in_process.iter().enumerate().take(functions.count()) {
            match functions.nth_virtual(slot) {
                None => outputs.set_field(Driven::FlrInProcess, slot as u16, 1, (*is).into()),
                Some(n) => outputs.set_field(Driven::VfFlrInProcess, n, 1, (*is).into()),
            }
        }
    }

    /// Ends the resets that the design reports as done.
    fn done(&mut self, functions: &Functions, inputs: Inputs<'_>, kind: BlockKind) {
        self.is_old = true;
        let done = inputs.get(Read::FlrDone);
        for slot in (0..self.physical).filter(|slot| done >> slot & 1 == 1) {
            self.in_process[slot] = false;
        }
        let done = inputs.get(Read::VfFlrDone);
        match kind {
            BlockKind::UltraScalePlus if done == 1 => {
                // The function's number, as in descriptors. The function may have been disabled in the meantime.
                let number = inputs.get(Read::VfFlrFunction) as usize;
                if let Some(is) = self.in_process.get_mut(number) {
                    *is = false;
                }
            }
            BlockKind::UltraScalePlus => {}
            _ => (0..8).filter(|n| done >> n & 1 == 1).for_each(|n| {
                if let Some(is) = self.in_process.get_mut(functions.slot_of_virtual(n)) {
                    *is = false;
                }
            }),
        }
    }
}
