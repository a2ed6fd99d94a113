// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of events in RTL, which are bits of a port.

/// Names of the events of the data link layer of `rtl/pcie_stack`, by bit.
pub(crate) const DATA_LINK: &[&str] = &[
    "rtl_bad_lcrc",
    "rtl_sequence_gaps",
    "rtl_duplicates",
    "rtl_nullified",
    "rtl_receiver_errors",
    "rtl_bad_dllps",
    "rtl_unknown_dllps",
    "rtl_protocol_errors",
    "rtl_replay_timeouts",
    "rtl_replay_rollovers",
    "rtl_naks_received",
    "rtl_replays",
    "rtl_acks_sent",
    "rtl_naks_sent",
    "rtl_tx_nullified",
    "rtl_tx_overlong",
];

/// A counter for each bit of a port.
pub(crate) struct EventCounts {
    names: &'static [&'static str],
    counts: Vec<u64>,
}

impl EventCounts {
    pub(crate) fn new(names: &'static [&'static str]) -> EventCounts {
        EventCounts { names, counts: vec![0; names.len()] }
    }

    /// Counts the events of a cycle.
    pub(crate) fn add(&mut self, mut bits: u32) {
        while bits != 0 {
            self.counts[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
    }

    /// Returns the name and the count of each event.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.names.iter().copied().zip(self.counts.iter().copied())
    }
}
