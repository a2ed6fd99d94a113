// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the rule of a design's stream that a beat stays until it is accepted (AMBA 4 AXI4-Stream §2.2.1). Independent of ports.

/// A beat that was presented and not accepted.
#[derive(Default)]
pub(crate) struct PresentedBeat {
    is_shown: bool,
    words: Vec<u32>,
}

impl PresentedBeat {
    pub(crate) fn reset(&mut self) {
        self.is_shown = false;
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Returns false if a beat that was not accepted has changed or disappeared. `beat` returns the current
    /// words. `is_valid` tells whether they are valid, and `is_ready` whether they are accepted.
    pub(crate) fn check<B: Iterator<Item = u32>>(
        &mut self,
        is_valid: bool,
        is_ready: bool,
        beat: impl Fn() -> B,
    ) -> bool {
        let is_kept = !self.is_shown || (is_valid && self.words.iter().copied().eq(beat()));
        self.is_shown = is_valid && !is_ready;
        if self.is_shown {
            self.words.clear();
            self.words.extend(beat());
        }
        is_kept
    }
}
