// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a replay was served, next to how the recorded fabric served the same requests. Numbers only.

use super::plan::Plan;
use tlp::{Body, Duration, Status, Tlp};

/// How a fabric served the requests.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Time from request to last completion of each completed non-posted request, in the order of their ends.
    pub latencies: Vec<Duration>,
    /// Time from the first request to the last one, or to the last completion.
    pub elapsed: Duration,
}

/// Report of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Requests to replay.
    pub requests: u64,
    /// Requests sent.
    pub sent: u64,
    /// Non-posted requests sent: reads, and others with completions.
    pub non_posted: u64,
    /// Bytes of data requested by them.
    pub bytes_asked: u64,
    /// Bytes of data in completions.
    pub bytes_read: u64,
    /// Bytes of data sent.
    pub bytes_written: u64,
    /// Completions with a status other than success.
    pub failed: u64,
    /// Completions that match no open request.
    pub unexpected_completions: u64,
    /// Maximum number of open non-posted requests.
    pub max_open: usize,
    /// Requests that the capture has twice and that are replayed once.
    pub repeats: u64,
    /// As recorded in the capture.
    pub recorded: Service,
    /// As measured in this fabric.
    pub replayed: Service,
}

impl ReplayReport {
    /// Returns the initial report. Allocates all memory for latencies.
    pub(super) fn of(plan: &Plan) -> ReplayReport {
        let recorded = Service { latencies: plan.recorded.latencies.clone(), elapsed: plan.recorded.elapsed };
        let replayed = Service { latencies: Vec::with_capacity(plan.len()), elapsed: Duration::ZERO };
        let (requests, repeats) = (plan.len() as u64, plan.recorded.repeats);
        ReplayReport { requests, repeats, recorded, replayed, ..ReplayReport::default() }
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
