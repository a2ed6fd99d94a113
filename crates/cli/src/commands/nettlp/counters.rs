// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a client has counted, as JSON.

use nettlp::requester;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
pub(super) struct Counters {
    pub(super) read_tlps: u64,
    pub(super) write_tlps: u64,
    pub(super) retried: u64,
    pub(super) timed_out: u64,
    pub(super) late: u64,
    pub(super) copies: u64,
    /// By kind; kinds that did not come are left out.
    pub(super) strays: BTreeMap<&'static str, u64>,
}

impl From<&requester::Counters> for Counters {
    fn from(counters: &requester::Counters) -> Counters {
        let strays = requester::Stray::ALL.iter().map(|kind| (kind.name(), counters.strays.of(*kind)));
        Counters {
            read_tlps: counters.read_tlps,
            write_tlps: counters.write_tlps,
            retried: counters.retried,
            timed_out: counters.timed_out,
            late: counters.late,
            copies: counters.copies,
            strays: strays.filter(|(_, count)| *count > 0).collect(),
        }
    }
}
