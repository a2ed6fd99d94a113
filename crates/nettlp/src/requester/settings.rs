// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a requester is told once: sizes, tags, and how long it waits. Never changes while requests are under way.

use crate::carrier::Carrier;
use std::ops::RangeInclusive;
use tlp::{Bdf, Duration, Mps, Mrrs};

/// How long tags stay out of use, so that no completion of an earlier request can meet a later one.
///
/// The rate of reads is bounded by `tags / duplicate`, that of given-up reads by `tags / lost`: 256 tags that rest for
/// 1 ms make at most 256,000 reads a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rest {
    /// After a read was given up, counted from then: longer than a request and its completions can be under way.
    /// Ends early once all completions have come, but never before `duplicate` has passed behind them.
    pub lost: Duration,
    /// After the last completion has come, counted from then: longer than a copy of the request, or of a completion,
    /// and what answers it, can stay behind.
    pub duplicate: Duration,
}

impl Rest {
    /// Not at all: a late completion becomes the answer of another read. Only the test that shows this has a use for it.
    pub const OFF: Rest = Rest { lost: Duration::ZERO, duplicate: Duration::ZERO };
    /// Within one machine: the kernel loses what overruns, but neither doubles nor overtakes. 100 ms and 0.
    pub const LOOPBACK: Rest = Rest { lost: Duration::from_ms(100), duplicate: Duration::ZERO };
    /// Between machines on one network: 1 s and 1 ms.
    pub const NETWORK: Rest = Rest { lost: Duration::from_ms(1000), duplicate: Duration::from_ms(1) };
    /// Where every TLP arrives, once: a tag given up waits for its completions, up to a minute; no other rests.
    pub const RELIABLE: Rest = Rest { lost: Duration::from_ms(60_000), duplicate: Duration::ZERO };
}

/// How a requester asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Requester ID of every request; completions for others are strays.
    pub requester: Bdf,
    /// Most data of a write TLP.
    pub mps: Mps,
    /// Most that one read TLP asks for.
    pub mrrs: Mrrs,
    /// Tags of reads. Writes, to which tags mean nothing but a port, go out under the first, and so stay in order.
    pub tags: RangeInclusive<u16>,
    /// How long a read TLP may stay without all its completions.
    pub timeout: Duration,
    /// How often a read TLP is sent again, under another tag, before its read fails.
    pub retries: u8,
    /// How long tags rest.
    pub rest: Rest,
    /// Requests that may be under way or wait at once; [`read`](super::Requester::read) and
    /// [`write`](super::Requester::write) refuse more.
    pub requests: usize,
}

impl Settings {
    /// Requests at once, unless told otherwise.
    pub const REQUESTS: usize = 4096;
    /// How long a read TLP may stay unanswered on a path that loses, unless told otherwise.
    pub const TIMEOUT: Duration = Duration::from_ms(100);
    /// How long it may on one that does not: for the completer to be slow, since nothing is lost.
    pub const TIMEOUT_RELIABLE: Duration = Duration::from_ms(5000);

    /// For a path that loses: sizes as all upstream captures imply them (MRRS 512, MPS 256), three retries.
    pub fn unreliable(requester: Bdf, tags: RangeInclusive<u16>, rest: Rest) -> Settings {
        Settings {
            requester,
            mps: Mps::from_encoding(1).unwrap_or_default(),
            mrrs: Mrrs::default(),
            tags,
            timeout: Settings::TIMEOUT,
            retries: 3,
            rest,
            requests: Settings::REQUESTS,
        }
    }

    /// For a path on which every TLP arrives once: nothing is asked twice.
    pub fn reliable(requester: Bdf, tags: RangeInclusive<u16>) -> Settings {
        let settings = Settings::unreliable(requester, tags, Rest::RELIABLE);
        Settings { timeout: Settings::TIMEOUT_RELIABLE, retries: 0, ..settings }
    }

    /// What fits `carrier`; `rest` counts only where it is not reliable.
    pub fn for_carrier(carrier: &impl Carrier, requester: Bdf, rest: Rest) -> Settings {
        match carrier.is_reliable() {
            true => Settings::reliable(requester, carrier.tags()),
            false => Settings::unreliable(requester, carrier.tags(), rest),
        }
    }
}
