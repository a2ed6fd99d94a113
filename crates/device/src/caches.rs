// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Caches of a simulated host in a known state, as a program that measures wants them. No real host offers that, so it is no part of
//! the seam: such a program is given a [`CacheControl`] beside it, and whoever models the host obeys it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::Bdf;

/// Preparations that wait for the host at most.
pub const MAX_PREPARATIONS: usize = 64;

/// How caches and translation caches are prepared; the names are those of pcie-bench (SIGCOMM'18, section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CachePreparation {
    /// The host writes over much more memory than its caches hold: nothing of a benchmark's buffer is left in them.
    ThrashByHost,
    /// The host's program writes these bytes, line by line.
    WriteByHost {
        /// Address of the first byte.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// The device writes these bytes by full lines, in order.
    WriteByDevice {
        /// The function that writes.
        requester: Bdf,
        /// Address of the first byte.
        address: u64,
        /// How many.
        bytes: u64,
        /// How often it goes over them.
        passes: u32,
    },
    /// The device writes full lines at random places of these bytes, as many as they have lines.
    ThrashByDevice {
        /// The function that writes.
        requester: Bdf,
        /// Address of the first byte.
        address: u64,
        /// How many.
        bytes: u64,
        /// Of the places.
        seed: u64,
    },
}

/// A handle on the caches of a host; clones are handles on the same.
#[derive(Clone, Default)]
pub struct CacheControl {
    waiting: Rc<RefCell<VecDeque<CachePreparation>>>,
}

impl CacheControl {
    /// Puts the caches into a known state, in no simulated time: before anything that a device asks for later. Hosts that model
    /// no caches do nothing. False where [`MAX_PREPARATIONS`] wait already: no host obeys.
    #[must_use]
    pub fn prepare(&self, preparation: CachePreparation) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let has_room = waiting.len() < MAX_PREPARATIONS;
        if has_room {
            waiting.push_back(preparation);
        }
        has_room
    }

    /// The next preparation, for whoever models the host.
    #[must_use]
    pub fn poll(&self) -> Option<CachePreparation> {
        self.waiting.borrow_mut().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_obeys_is_refused_in_the_end() {
        let (control, host) = (CacheControl::default(), CacheControl::default());
        let preparation = CachePreparation::ThrashByHost;
        assert!((0..MAX_PREPARATIONS).all(|_| control.prepare(preparation)) && !control.prepare(preparation));
        assert_eq!((control.clone().poll(), control.prepare(preparation)), (Some(preparation), true));
        assert_eq!(host.poll(), None, "it is another's");
    }
}
