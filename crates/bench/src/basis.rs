// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the figures of host and card are known that a test rests on.

use lab::profile::{Aspect, Basis, HostBasis};
use lab::schema::Host;
use lab::{Folder, Spanned};
use plug::transfers::Test;

/// The weakest of what the latencies of reads and writes rest on, on the host of this profile.
pub(crate) fn of_both_ways(host: &str) -> Basis {
    let host = Host { profile: Spanned::new(0..0, host.to_owned()), ..Host::default() };
    let host = HostBasis::of(&host, &Folder::default());
    host.get(Aspect::ReadLatency).max(host.get(Aspect::WriteLatency))
}

/// The weakest of what the test shows of the host, and of the card.
pub(crate) fn of(host: &HostBasis, card: Option<Basis>, test: Test) -> Basis {
    let aspects: &[Aspect] = match test {
        Test::LatRd => &[Aspect::ReadLatency],
        Test::LatWrRd => &[Aspect::ReadLatency, Aspect::WriteLatency],
        // A card has so many reads under way at most, so that their latency bounds their rate.
        Test::BwRd => &[Aspect::ReadLatency, Aspect::ReadRate],
        Test::BwWr => &[Aspect::WriteRate],
        Test::BwRdWr => &[Aspect::ReadLatency, Aspect::ReadRate, Aspect::WriteRate],
    };
    let of_host = aspects.iter().map(|aspect| host.get(*aspect));
    of_host.chain(card).max().unwrap_or(Basis::Assumed)
}
