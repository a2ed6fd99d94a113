// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes, masks, vectors and throttling (82574 datasheet, §7.4, §10.2.4). IVAR determines whether there is one interrupt or a vector
//! for each of five causes: software makes its entries valid only for MSI-X.

use super::nic::Nic;
use super::registers::{self as r, cause, ctrl_ext};
use device::io::{Either, select};
use std::cell::Cell;
use std::rc::Rc;
use tlp::{Duration, Time};

/// Number of MSI-X vectors.
pub(super) const VECTORS: u16 = 5;
/// Causes with vectors, in the order of IVAR's entries: both receive queues, both transmit queues, all others.
const MAPPED: [u32; 5] = [1 << 20, 1 << 21, 1 << 22, 1 << 23, cause::OTHER];
/// Valid bit of a 4-bit entry of IVAR.
const VALID: u32 = 1 << 3;
/// Unit of ITR and EITR.
const THROTTLE: Duration = Duration::from_ns(256);

/// State of interrupts.
#[derive(Default)]
pub(super) struct Lines {
    /// Causes, as in ICR without INT_ASSERTED.
    causes: Cell<u32>,
    /// Enabled causes, as in IMS.
    mask: Cell<u32>,
    /// Mapped causes that have been signalled since they occurred; bit 0 for a single interrupt.
    told: Cell<u32>,
    /// Level of INTx.
    level: Cell<bool>,
    /// Time of the last message per vector; the first element for a single interrupt.
    last: Cell<[Option<Time>; VECTORS as usize]>,
}

impl Lines {
    pub(super) fn reset(&self) {
        self.causes.set(0);
        self.mask.set(0);
        self.told.set(0);
    }
}

impl Nic {
    /// Adds causes.
    pub(super) fn raise(&self, causes: u32) {
        let others = if causes & cause::OTHERS != 0 && self.is_mapped() { cause::OTHER } else { 0 };
        self.lines.causes.update(|before| before | (causes | others) & cause::ALL);
        self.ring();
    }

    /// Wakes the task that sends interrupts.
    fn ring(&self) {
        self.interrupts.push(());
    }

    fn is_mapped(&self) -> bool {
        (0..MAPPED.len()).any(|n| self.entry(n) & VALID != 0)
    }

    fn entry(&self, n: usize) -> u32 {
        self.u32(r::IVAR) >> (4 * n)
    }

    fn pending(&self) -> u32 {
        self.lines.causes.get() & self.lines.mask.get()
    }

    /// Reads ICR, which is cleared if all causes are masked or an interrupt is asserted (§10.2.4.1).
    pub(super) fn read_icr(&self) -> u32 {
        let (causes, pending) = (self.lines.causes.get(), self.pending());
        let asserted = if pending != 0 { cause::INT_ASSERTED } else { 0 };
        if self.lines.mask.get() == 0 || pending != 0 {
            self.lines.causes.set(0);
        }
        if pending != 0 && self.u32(r::CTRL_EXT) & ctrl_ext::IAME != 0 {
            self.unmask(0, self.u32(r::IAM));
        }
        self.ring();
        causes | asserted
    }

    pub(super) fn clear_causes(&self, causes: u32) {
        self.lines.causes.update(|before| before & !causes);
        self.ring();
    }

    /// Enables and disables causes.
    pub(super) fn unmask(&self, through: u32, not: u32) {
        self.lines.mask.update(|before| (before | through & cause::ALL) & !not);
        self.ring();
    }

    pub(super) fn mask(&self) -> u32 {
        self.lines.mask.get()
    }

    /// Sends interrupts.
    pub(super) async fn interrupter(self: Rc<Nic>) {
        loop {
            let next = self.tell().await;
            match next {
                None => self.interrupts.pop().await,
                Some(at) => match select(self.interrupts.pop(), self.io.sleep_until(at)).await {
                    Either::Left(()) | Either::Right(()) => {}
                },
            }
        }
    }

    /// Signals all causes that may be signalled now. Returns when to check again if an interrupt is throttled.
    async fn tell(&self) -> Option<Time> {
        if self.is_mapped() { self.tell_mapped().await } else { self.tell_single().await }
    }

    async fn tell_mapped(&self) -> Option<Time> {
        let pending = self.pending();
        self.lines.told.update(|told| told & pending);
        let mut next: Option<Time> = None;
        for (n, bit) in MAPPED.into_iter().enumerate() {
            let entry = self.entry(n);
            if pending & bit & !self.lines.told.get() == 0 || entry & VALID == 0 {
                continue;
            }
            let vector = (entry & 0b111) as u16;
            let throttle = r::EITR + 4 * u64::from(vector);
            match self.due(vector.min(VECTORS - 1), throttle) {
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => self.tell_cause(bit, vector).await,
            }
        }
        next
    }

    /// Sends the vector of a mapped cause. EIAC and IAM define whether this clears and masks the cause.
    async fn tell_cause(&self, bit: u32, vector: u16) {
        self.lines.told.update(|told| told | bit);
        self.clear_causes(bit & self.u32(r::EIAC));
        if self.u32(r::CTRL_EXT) & ctrl_ext::EIAME != 0 {
            self.unmask(0, bit & self.u32(r::IAM));
        }
        self.sent(vector).await;
    }

    async fn tell_single(&self) -> Option<Time> {
        let is_pending = self.pending() != 0;
        if !is_pending {
            self.lines.told.set(0);
            self.set_level(false).await;
            return None;
        }
        if self.lines.told.get() != 0 {
            return None;
        }
        if let Some(at) = self.due(0, r::ITR) {
            return Some(at);
        }
        self.lines.told.set(1);
        self.set_level(true).await;
        self.sent(0).await;
        None
    }

    async fn set_level(&self, asserted: bool) {
        if self.lines.level.replace(asserted) != asserted {
            // Fails only if the function may not send interrupts.
            let _ = self.io.intx(asserted).await;
        }
    }

    /// Returns when an interrupt may be sent, if not now.
    fn due(&self, vector: u16, throttle: u64) -> Option<Time> {
        let last = self.lines.last.get()[usize::from(vector)]?;
        let at = last + THROTTLE * u64::from(self.u32(throttle) & 0xffff);
        (at > self.io.now()).then_some(at)
    }

    async fn sent(&self, vector: u16) {
        let mut last = self.lines.last.get();
        if let Some(last) = last.get_mut(usize::from(vector)) {
            *last = Some(self.io.now());
        }
        self.lines.last.set(last);
        self.counters.change(|c| c.interrupts += 1);
        // A vector after the last one is an error of software.
        let _ = self.io.interrupt(vector).await;
    }
}
