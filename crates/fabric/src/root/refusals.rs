// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs that root ports refuse, and requests of the host that are not completed: counted with the rule that each breaks.
//! Never logs an error.

use super::{Base, RootComplex, RootPort};
use crate::topology::{AddressMap, Window};
use tlp::rules::{Head, Reason, Refusal};
use tlp::{Repr, RuleId, Time, Tlp, Violation};

impl Base {
    /// Counts a TLP that root port `port` refuses, or a request that it abandons, and stores the reason.
    #[cold]
    pub(super) fn refused(
        &mut self,
        counter: fn(&mut Base) -> &mut u64,
        port: usize,
        now: Time,
        why: impl Into<Reason>,
        tlp: &Tlp,
    ) {
        *counter(self) += 1;
        self.refusals.record(now, Some(port as u16), why, Head::of(tlp));
    }

    /// Counts a request of the host that no root port claims.
    #[cold]
    pub(super) fn nowhere(&mut self, now: Time, repr: Repr, why: Violation) {
        self.counters.unsupported_requests += 1;
        self.refusals.record(now, None, why, Head::of_header(&repr));
    }
}

impl RootPort {
    // Its windows of memory or I/O, both ends included.
    fn windows(&self, number: usize, is_io: bool) -> impl Iterator<Item = (u64, u64)> {
        let bare = |window: Window| Some((window.base, window.base + window.size - 1));
        let windows = match (&self.function, is_io) {
            (Some(function), true) => {
                [function.routes.windows.io.filter(|_| function.routes.windows.io_enable), None]
            }
            (Some(function), false) if !function.routes.windows.memory_enable => [None, None],
            (Some(function), false) => [function.routes.windows.memory, function.routes.windows.prefetchable],
            (None, true) => [bare(AddressMap.io(number)), None],
            (None, false) => [bare(AddressMap.mmio32(number)), bare(AddressMap.mmio64(number))],
        };
        windows.into_iter().flatten()
    }
}

impl RootComplex {
    /// The windows of root ports, if `refusal` is about an address of the host that none of them claims.
    pub(crate) fn windows_missed(&self, refusal: &Refusal) -> Option<String> {
        if (refusal.place, refusal.violation.rule) != (None, RuleId::UnclaimedAddress) {
            return None;
        }
        // IORd and IOWr have Type 0 0010b (`PCIe 5.0 §2.2.1`, table 2-3).
        let is_io = refusal.tlp.bytes().first().is_some_and(|byte| byte & 0x1f == 0x02);
        let ports = self.base.ports.iter().enumerate().map(|(number, port)| {
            let windows: Vec<String> =
                port.windows(number, is_io).map(|(first, last)| format!("{first:#x}-{last:#x}")).collect();
            let windows = if windows.is_empty() { "none".to_owned() } else { windows.join(", ") };
            format!("root port {number}: {windows}")
        });
        let ports: Vec<String> = ports.collect();
        Some(format!(
            "no root port claims it, so a processor reads all ones; windows of {}",
            ports.join("; ")
        ))
    }

    /// Reasons why TLPs were refused. Places are numbers of root ports.
    pub fn refusals(&self) -> &[Refusal] {
        self.base.refusals.kinds()
    }
}
