// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether the memory that a client has passed is the memory that its machine sees. QEMU also passes the file of
//! memory that is not shared (`share=off`, the default of `memory-backend-file`). DMA would then change a file that the
//! machine does not use.
//!
//! DMA by message returns what the machine sees. Both are compared where memory rarely changes: in the lowest KiB,
//! which has the interrupt vectors of the firmware. There is no report if the contents are equal or cannot be compared.

use crate::vfio_user::{Dma, Errno, Session};

/// Number of bytes to compare.
const BYTES: u64 = 1024;
/// Number of comparisons that must differ before a report. One difference is not enough, because the machine may write
/// there at the same time.
const DIFFERENCES: u32 = 3;

/// Checks once whether a client's memory is shared.
#[derive(Debug, Default)]
pub struct Sharing {
    /// The outstanding DMA request and its address.
    asked: Option<(Dma, u64)>,
    differences: u32,
    is_known: bool,
}

impl Sharing {
    /// Starts a comparison, unless one is outstanding or the result is known. The client answers only if its device may do DMA,
    /// which is the case after its interrupts were set up.
    pub fn ask(&mut self, session: &mut Session) {
        if self.is_known || self.asked.is_some() {
            return;
        }
        let lowest = session.maps().next().map(|map| map.address);
        self.asked = lowest.and_then(|address| Some((session.dma_read(address, BYTES).ok()?, address)));
    }

    /// Handles the result of DMA by message. Reads the same bytes with `held`, which returns whether it was successful.
    /// Returns true, once, if the memory is not shared.
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
