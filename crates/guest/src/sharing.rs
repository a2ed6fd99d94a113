// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the memory that a client hands over is what its machine sees. QEMU gives the file of memory that is not shared too
//! (`share=off`, which `memory-backend-file` is unless told otherwise); DMA would then change a file that nobody looks at.
//!
//! A message is answered from what the machine sees, so both are compared where they do not change for long: in the lowest KiB, in
//! which firmware has its interrupt vectors. Where they are alike, or that cannot be told, nothing is said.

use crate::vfio_user::{Dma, Errno, Session};

/// Bytes that are compared.
const BYTES: u64 = 1024;
/// Times that they must differ, since the machine may write there meanwhile.
const DIFFERENCES: u32 = 3;

/// Looks once whether a client's memory is shared.
#[derive(Debug, Default)]
pub struct Sharing {
    /// The question under way, and its address.
    asked: Option<(Dma, u64)>,
    differences: u32,
    is_known: bool,
}

impl Sharing {
    /// Asks, unless it has or knows. A client can answer when its device may do DMA: when its interrupts were set up, it can.
    pub fn ask(&mut self, session: &mut Session) {
        if self.is_known || self.asked.is_some() {
            return;
        }
        let lowest = session.maps().next().map(|map| map.address);
        self.asked = lowest.and_then(|address| Some((session.dma_read(address, BYTES).ok()?, address)));
    }

    /// Takes what came of DMA by message, and reads the same with `held`, which says whether it could. True, once, where the memory
    /// is not shared.
    pub fn answer(
        &mut self,
        session: &mut Session,
        dma: Dma,
        result: &Result<Vec<u8>, Errno>,
        held: impl FnOnce(u64, &mut [u8]) -> bool,
    ) -> bool {
        let Some((_, address)) = self.asked.take_if(|(asked, _)| *asked == dma) else { return false };
        let Ok(seen) = result else { return false };
        let mut ours = vec![0; seen.len()];
        let is_alike = !held(address, &mut ours) || ours == *seen;
        self.differences += u32::from(!is_alike);
        self.is_known = is_alike || self.differences == DIFFERENCES;
        self.ask(session);
        self.is_known && !is_alike
    }
}
