// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens at the links of root ports: errors of the layers below, links that go and come. Never touches a link.

use super::{RootComplex, requester};
use crate::queue::SortedQueue;
use link::Notice;
use tlp::{Class, Time, Tlp};

impl RootComplex {
    /// The link of root port `port` has something to say.
    pub(crate) fn handle_notice(&mut self, port: usize, now: Time, notice: Notice, queue: &mut SortedQueue) {
        let _ = (port, now, notice, queue);
    }

    /// A TLP that root port `port` had queued and never sent is lost with its link: a request is refused, all else
    /// discarded (`PCIe 5.0 §2.9.1`).
    pub(crate) fn handle_lost(&mut self, port: usize, now: Time, tlp: &Tlp, queue: &mut SortedQueue) {
        if tlp.class() == Class::NonPosted {
            requester::refuse(self, port, now, tlp, queue);
        } else {
            self.ledger.drop(tlp.account);
        }
    }
}
