// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a requester: sizes, tags, and timeouts. They are fixed when the requester is created.

use crate::carrier::Carrier;
use std::ops::RangeInclusive;
use tlp::{Bdf, Duration, Mps, Mrrs};

/// How long tags stay unused, so that no completion of an earlier request can match a later one.
///
/// This limits the rate of reads to `tags / duplicate`, and the rate of given-up reads to `tags / lost`: 256 tags
/// that rest for 1 ms allow at most 256,000 reads per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rest {
    /// Rest after a read was given up. Must be longer than a request and its completions can be in flight. The rest
    /// ends early if all completions have arrived, but not before `duplicate` has passed since the last completion.
    pub lost: Duration,
    /// Rest after the last completion. Must be longer than the possible delay of a duplicated completion, or of a
    /// duplicated request and its answer.
    pub duplicate: Duration,
}

impl Rest {
    /// No rest. A late completion can then be taken for the answer to another read. Used only by tests that
    /// demonstrate this.
    pub const OFF: Rest = Rest { lost: Duration::ZERO, duplicate: Duration::ZERO };
    /// Within one machine: the kernel drops datagrams on overrun, but does not duplicate or reorder them. 100 ms and 0.
    pub const LOOPBACK: Rest = Rest { lost: Duration::from_ms(100), duplicate: Duration::ZERO };
    /// Between machines on one network: 1 s and 1 ms.
    pub const NETWORK: Rest = Rest { lost: Duration::from_ms(1000), duplicate: Duration::from_ms(1) };
    /// For reliable carriers: a given-up tag waits for its completions, up to a minute; other tags do not rest.
    pub const RELIABLE: Rest = Rest { lost: Duration::from_ms(60_000), duplicate: Duration::ZERO };
}

/// Settings of a requester.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequesterSettings {
    /// Requester ID of every request. Completions for other IDs are strays.
    pub requester: Bdf,
    /// Maximum data of a write TLP.
    pub mps: Mps,
    /// Maximum size that one read TLP requests.
    pub mrrs: Mrrs,
    /// Tags of reads. All writes use the first tag, which only selects their port, so they stay in order.
    pub tags: RangeInclusive<u16>,
    /// Timeout of a read TLP until all its completions have arrived.
    pub timeout: Duration,
    /// Maximum number of retries of a read TLP, each under another tag. Then the read fails.
    pub retries: u8,
    /// How long tags rest.
    pub rest: Rest,
    /// Maximum number of requests in progress or waiting; [`read`](super::Requester::read) and
    /// [`write`](super::Requester::write) reject more.
    pub requests: usize,
}

impl RequesterSettings {
    /// Default of `requests`.
    pub const REQUESTS: usize = 4096;
    /// Default timeout of a read TLP on a lossy path.
    pub const TIMEOUT: Duration = Duration::from_ms(100);
    /// Default timeout on a reliable path: long, since only a slow completer can exceed it.
    pub const TIMEOUT_RELIABLE: Duration = Duration::from_ms(5000);

    /// Creates settings for a lossy path: sizes as in all upstream captures (MRRS 512, MPS 256), three retries.
    pub fn unreliable(requester: Bdf, tags: RangeInclusive<u16>, rest: Rest) -> RequesterSettings {
        RequesterSettings {
            requester,
            mps: Mps::from_encoding(1).unwrap_or_default(),
            mrrs: Mrrs::default(),
            tags,
            timeout: RequesterSettings::TIMEOUT,
            retries: 3,
            rest,
            requests: RequesterSettings::REQUESTS,
        }
    }

    /// Creates settings for a reliable path: no retries.
    pub fn reliable(requester: Bdf, tags: RangeInclusive<u16>) -> RequesterSettings {
        let settings = RequesterSettings::unreliable(requester, tags, Rest::RELIABLE);
        RequesterSettings { timeout: RequesterSettings::TIMEOUT_RELIABLE, retries: 0, ..settings }
    }

    /// Creates settings for `carrier`; `rest` is used only if it is not reliable.
    pub fn for_carrier(carrier: &impl Carrier, requester: Bdf, rest: Rest) -> RequesterSettings {
        match carrier.is_reliable() {
            true => RequesterSettings::reliable(requester, carrier.tags()),
            false => RequesterSettings::unreliable(requester, carrier.tags(), rest),
        }
    }
}
