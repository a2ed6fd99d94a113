// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule of a stream of the design's: what is shown stays until it is taken (AMBA 4 AXI4-Stream §2.2.1). Knows no ports.

/// A beat that was shown and not taken.
#[derive(Default)]
pub(crate) struct Kept {
    is_shown: bool,
    words: Vec<u32>,
}

impl Kept {
    pub(crate) fn reset(&mut self) {
        self.is_shown = false;
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Whether a beat that was not taken is still there, as it was. `beat` gives the words of what is shown now, which is valid or not,
    /// and taken or not.
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
