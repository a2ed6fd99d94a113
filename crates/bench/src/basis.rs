// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The basis (measured, fitted, assumed) of the profile figures that a test depends on.

use lab::profile::{Aspect, Basis, HostBasis};
use lab::schema::Host;
use lab::{Folder, Spanned};
use plug::transfers::Test;

/// Returns the weaker basis of the read and write latencies of a host profile.
pub(crate) fn of_both_ways(host: &str) -> Basis {
    let host = Host { profile: Spanned::new(0..0, host.to_owned()), ..Host::default() };
    let host = HostBasis::of(&host, &Folder::default());
    host.get(Aspect::ReadLatency).max(host.get(Aspect::WriteLatency))
}

/// Returns the weakest basis of the host and card figures that `test` depends on.
pub(crate) fn of(host: &HostBasis, card: Option<Basis>, test: Test) -> Basis {
    let aspects: &[Aspect] = match test {
        Test::LatRd => &[Aspect::ReadLatency],
        Test::LatWrRd | Test::LatLoop => &[Aspect::ReadLatency, Aspect::WriteLatency],
        // With a limited number of outstanding reads, their latency limits their rate.
        Test::BwRd => &[Aspect::ReadLatency, Aspect::ReadRate],
        Test::BwWr => &[Aspect::WriteRate],
        Test::BwRdWr | Test::BwLoop => &[Aspect::ReadLatency, Aspect::ReadRate, Aspect::WriteRate],
    };
    let of_host = aspects.iter().map(|aspect| host.get(*aspect));
    of_host.chain(card).max().unwrap_or(Basis::Assumed)
}
