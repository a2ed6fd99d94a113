// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects the virtual channel that sends next (`PCIe 5.0 §6.3.3.1`, §7.9.1): strict priority above a low-priority
//! group, round robin or weighted round robin within the group. The arbiter does not handle TLPs or credits.

use thiserror::Error;
use tlp::Vc;

/// VC arbitration: channels above `low_priority` go first, the highest number before the others. VC0 to `low_priority`,
/// the low-priority group, share the remaining bandwidth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VcArbitration {
    /// Low Priority Extended VC Count (`PCIe 5.0 §7.9.1.2`): the last channel of the group. VC0 makes all strict.
    pub low_priority: Vc,
    /// Rule by which the low-priority channels share the remaining bandwidth.
    pub scheme: VcScheme,
}

/// Rule by which the low-priority group shares the remaining bandwidth (`PCIe 5.0 §7.9.1.2`, VC Arbitration
/// Capability).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VcScheme {
    /// Channels send one TLP each, round robin.
    RoundRobin,
    /// Each channel sends as many TLPs as it has phases in the table.
    Weighted(PhaseTable),
}

/// A VC arbitration table (`PCIe 5.0 §7.9.1.10`): 32, 64 or 128 phases, each of which lets one channel send a TLP. The
/// arbiter skips the phase of a channel that has no TLP to send, or no credits for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PhaseTable(Box<[Vc]>);

/// The number of phases, which a VC arbitration table may not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a VC arbitration table of {0} phases; expected 32, 64 or 128")]
pub struct PhaseError(pub usize);

/// Legal numbers of phases (`PCIe 5.0 §7.9.1.2`).
const PHASES: [usize; 3] = [32, 64, 128];

impl PhaseTable {
    /// Makes a table with these phases.
    ///
    /// # Errors
    /// Fails if there are not 32, 64 or 128 phases.
    pub fn new(phases: &[Vc]) -> Result<PhaseTable, PhaseError> {
        if PHASES.contains(&phases.len()) {
            Ok(PhaseTable(phases.into()))
        } else {
            Err(PhaseError(phases.len()))
        }
    }

    /// Makes a table that gives each channel its weight in phases, by [`Vc::index`], spaced as evenly as possible.
    ///
    /// # Errors
    /// Fails if the weights do not add up to 32, 64 or 128.
    pub fn spread(weights: [u8; Vc::COUNT]) -> Result<PhaseTable, PhaseError> {
        let total: i32 = weights.iter().copied().map(i32::from).sum();
        // Each phase goes to the channel that is furthest behind its share.
        let mut behind = [0i32; Vc::COUNT];
        let mut next = || {
            for (lag, weight) in behind.iter_mut().zip(weights) {
                *lag += i32::from(weight);
            }
            let vc = Vc::all().rev().max_by_key(|vc| behind[vc.index()]).unwrap_or_default();
            behind[vc.index()] -= total;
            vc
        };
        let phases: Vec<Vc> = (0..total).map(|_| next()).collect();
        PhaseTable::new(&phases)
    }

    /// The phases.
    pub fn phases(&self) -> &[Vc] {
        &self.0
    }
}

impl Default for VcArbitration {
    /// Strict priority.
    fn default() -> VcArbitration {
        VcArbitration { low_priority: Vc::VC0, scheme: VcScheme::RoundRobin }
    }
}

impl VcArbitration {
    /// Returns a round-robin arbitration of all channels.
    pub fn round_robin() -> VcArbitration {
        VcArbitration { low_priority: Vc::from_bits(7), scheme: VcScheme::RoundRobin }
    }

    /// Returns an arbitration of all channels by their phases.
    pub fn weighted(table: PhaseTable) -> VcArbitration {
        VcArbitration { low_priority: Vc::from_bits(7), scheme: VcScheme::Weighted(table) }
    }

    /// Whether `vc` can ever send.
    pub(crate) fn serves(&self, vc: Vc) -> bool {
        match &self.scheme {
            VcScheme::Weighted(table) => vc > self.low_priority || table.phases().contains(&vc),
            VcScheme::RoundRobin => true,
        }
    }
}

/// The state of the arbitration. Sets of channels are bit masks by [`Vc::index`].
pub(crate) struct Arbiter {
    /// Channels of strict priority.
    strict: u8,
    /// For each phase, the number of phases until each channel's next phase; `None`: never.
    distance: Vec<[Option<u8>; Vc::COUNT]>,
    /// The next phase.
    phase: usize,
}

impl Arbiter {
    pub(crate) fn new(arbitration: &VcArbitration) -> Arbiter {
        let low = arbitration.low_priority;
        let in_turn: Vec<Vc>;
        let phases: &[Vc] = match &arbitration.scheme {
            VcScheme::RoundRobin => {
                in_turn = Vc::all().filter(|vc| *vc <= low).collect();
                &in_turn
            }
            VcScheme::Weighted(table) => table.phases(),
        };
        let from = |phase: usize, vc: Vc| {
            (0..phases.len()).find(|n| phases[(phase + n) % phases.len()] == vc).map(|n| n as u8)
        };
        let row = |phase| std::array::from_fn(|vc| from(phase, Vc::from_bits(vc as u8)));
        let strict = Vc::all().filter(|vc| *vc > low).map(|vc| 1 << vc.id()).sum();
        Arbiter { strict, distance: (0..phases.len()).map(row).collect(), phase: 0 }
    }

    /// Returns whether only VC0 is served, and phases do not matter.
    pub(crate) fn serves_only_vc0(&self) -> bool {
        self.strict & 1 == 0 && self.distance.len() == 1
    }

    /// Returns the channel of `ready` that sends now. `ready` must not be empty.
    #[inline]
    pub(crate) fn pick(&mut self, ready: u8) -> usize {
        let strict = ready & self.strict;
        if strict != 0 {
            return 7 - strict.leading_zeros() as usize;
        }
        // There is only one channel to serve.
        if ready == 1 && self.distance.len() == 1 {
            return 0;
        }
        self.pick_phase(ready)
    }

    fn pick_phase(&mut self, mut ready: u8) -> usize {
        let distance = &self.distance[self.phase];
        let mut best = (u8::MAX, ready.trailing_zeros() as usize);
        while ready != 0 {
            let vc = ready.trailing_zeros() as usize;
            ready &= ready - 1;
            best = best.min((distance[vc].unwrap_or(u8::MAX), vc));
        }
        let step = if best.0 == u8::MAX { 0 } else { usize::from(best.0) + 1 };
        self.phase = (self.phase + step) % self.distance.len();
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(arbitration: &VcArbitration, ready: &[u8]) -> Vec<usize> {
        let mut arbiter = Arbiter::new(arbitration);
        ready.iter().map(|ready| arbiter.pick(*ready)).collect()
    }

    #[test]
    fn highest_strict_channel_goes_first() {
        assert_eq!(picks(&VcArbitration::default(), &[0xff, 0x0f, 0x05, 1, 0x81]), [7, 3, 2, 0, 7]);
    }

    #[test]
    fn round_robin_skips_empty_channels() {
        let all = VcArbitration::round_robin();
        assert_eq!(picks(&all, &[0xff; 9]), [0, 1, 2, 3, 4, 5, 6, 7, 0]);
        assert_eq!(picks(&all, &[0b1010; 5]), [1, 3, 1, 3, 1]);
        assert_eq!(picks(&all, &[0b0001, 0b1001, 0b1001, 0b0100]), [0, 3, 0, 2]);
    }

    /// VC0 to VC2 use round robin; the channels above them go first.
    #[test]
    fn strict_channels_go_before_the_group() {
        let group = VcArbitration { low_priority: Vc::from_bits(2), scheme: VcScheme::RoundRobin };
        assert_eq!(picks(&group, &[0b111, 0b111, 0b1111, 0b11_0111, 0b111, 0b111]), [0, 1, 3, 5, 2, 0]);
    }

    /// Each channel gets its phases, even if another has no TLP to send.
    #[test]
    fn channels_get_their_share_of_phases() {
        let table = PhaseTable::spread([16, 8, 0, 4, 0, 0, 0, 4]).unwrap();
        assert_eq!(table.phases().len(), 32);
        let weighted = VcArbitration::weighted(table);
        let count = |ready: u8, n: usize| {
            let picked = picks(&weighted, &vec![ready; n]);
            [0, 1, 3, 7].map(|vc| picked.iter().filter(|p| **p == vc).count())
        };
        assert_eq!(count(0b1000_1011, 320), [160, 80, 40, 40]);
        assert_eq!(count(0b1000_1010, 160), [0, 80, 40, 40]);
    }

    /// No channel waits more than one phase longer than its share allows.
    #[test]
    fn phases_are_spread_evenly() {
        let table = PhaseTable::spread([32, 16, 8, 4, 2, 1, 1, 0]).unwrap();
        for (vc, weight) in [(0, 32), (1, 16), (2, 8), (3, 4), (4, 2)] {
            let at: Vec<usize> = (0..64).filter(|n| table.phases()[*n] == Vc::from_bits(vc)).collect();
            assert_eq!(at.len(), weight);
            let longest = at.windows(2).map(|w| w[1] - w[0]).max().unwrap();
            assert!(longest <= 64 / weight + 1, "VC{vc}: {longest} of {}", 64 / weight);
        }
    }

    #[test]
    fn rejects_tables_of_other_lengths() {
        assert_eq!(PhaseTable::spread([16, 16, 1, 0, 0, 0, 0, 0]), Err(PhaseError(33)));
        assert_eq!(
            PhaseTable::new(&[Vc::VC0; 16]).unwrap_err().to_string(),
            "a VC arbitration table of 16 phases; expected 32, 64 or 128"
        );
    }
}
