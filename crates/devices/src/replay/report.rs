// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a replay was served, beside how the capture's own fabric served the same requests. Numbers only.

use super::plan::Plan;
use tlp::{Body, Duration, Status, Tlp};

/// How a fabric served the requests.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// From request to last completion, of each non-posted request that was completed, in the order of their ends.
    pub latencies: Vec<Duration>,
    /// From the first request to the last one, or to the last completion.
    pub elapsed: Duration,
}

/// Of a replay.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests to play.
    pub requests: u64,
    /// Of these, sent.
    pub sent: u64,
    /// Of those, answered by completions: reads, and others that are non-posted.
    pub non_posted: u64,
    /// Bytes of data asked for by the non-posted ones sent.
    pub bytes_asked: u64,
    /// Bytes of data in completions.
    pub bytes_read: u64,
    /// Bytes of data sent.
    pub bytes_written: u64,
    /// Completions with another status than success.
    pub failed: u64,
    /// Completions that answer nothing that was open.
    pub unexpected_completions: u64,
    /// Most non-posted requests open at a time.
    pub max_open: usize,
    /// Requests of the capture that were seen twice and are played once.
    pub repeats: u64,
    /// What the capture shows.
    pub recorded: Service,
    /// What this fabric did.
    pub replayed: Service,
}

impl Report {
    /// Before anything is sent. Takes all memory that latencies need.
    pub(super) fn of(plan: &Plan) -> Report {
        let recorded = Service { latencies: plan.recorded.latencies.clone(), elapsed: plan.recorded.elapsed };
        let replayed = Service { latencies: Vec::with_capacity(plan.len()), elapsed: Duration::ZERO };
        let (requests, repeats) = (plan.len() as u64, plan.recorded.repeats);
        Report { requests, repeats, recorded, replayed, ..Report::default() }
    }

    pub(super) fn sent(&mut self, tlp: &Tlp, open: usize) {
        self.sent += 1;
        self.bytes_written += tlp.data.len() as u64;
        self.max_open = self.max_open.max(open);
        if tlp.class() == tlp::Class::NonPosted {
            self.non_posted += 1;
        }
        if let Body::Memory(m) = &tlp.repr.body
            && m.op.is_read()
        {
            self.bytes_asked += u64::from(m.span.byte_count());
        }
    }

    pub(super) fn answered(&mut self, status: Status, bytes: u32) {
        self.bytes_read += u64::from(bytes);
        self.failed += u64::from(status != Status::Success);
    }
}
