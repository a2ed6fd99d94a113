// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The basis of results: how reliably the figures of the host's profile that affect a result are known.

use super::HOSTS;
use crate::schema::{Host, IommuPages};
use fabric::TransactionKind;
use plug::file::Folder;
use plug::profile::Basis;

/// A property of a host that results show. Each aspect depends on its own set of figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aspect {
    /// Latency of a device's read.
    ReadLatency,
    /// Time until a device's write is visible.
    WriteLatency,
    /// Read throughput of devices.
    ReadRate,
    /// Write throughput of devices.
    WriteRate,
    /// Latency of an interrupt.
    Interrupt,
    /// Latency of a host request or a message.
    Access,
}

/// Table (or "") and key of a figure.
type FigureKey = (&'static str, &'static str);

const ROOT_COMPLEX: FigureKey = ("", "root_complex_latency_ps");
const READ_LATENCY: [FigureKey; 6] = [
    ROOT_COMPLEX,
    ("", "memory_read_latency_ps"),
    ("", "read_request_service_ps"),
    ("", "read_line_service_ps"),
    ("llc", "core_snoop_latency_ps"),
    ("dram", "latency_ps"),
];
const WRITE_LATENCY: [FigureKey; 5] = [
    ROOT_COMPLEX,
    ("", "memory_write_latency_ps"),
    ("", "write_request_service_ps"),
    ("", "write_line_service_ps"),
    ("llc", "eviction_latency_ps"),
];
const READ_RATE: [FigureKey; 7] = [
    ("", "read_request_service_ps"),
    ("", "read_line_service_ps"),
    ("completions", "short_gap_ps"),
    ("completions", "middle_gap_ps"),
    ("completions", "long_gap_ps"),
    ("completions", "further_gap_ps"),
    ("retraining", "idle_ppm"),
];
const WRITE_RATE: [FigureKey; 3] =
    [("", "write_request_service_ps"), ("", "write_line_service_ps"), ("retraining", "write_ppm")];
const INTERRUPT: [FigureKey; 2] = [ROOT_COMPLEX, ("", "interrupt_latency_ps")];
/// Figures of the IOMMU, for labs in which it is on.
const IOMMU: [FigureKey; 4] = [
    ("iommu", "hit_latency_ps"),
    ("iommu", "page_walk_latency_ps"),
    ("iommu", "miss_service_ps"),
    ("iommu", "read_service_ps"),
];
/// Figures of the other socket, for labs that use it.
const NUMA: [FigureKey; 3] = [
    ("numa", "remote_snoop_latency_ps"),
    ("numa", "remote_memory_latency_ps"),
    ("numa", "remote_eviction_latency_ps"),
];

impl Aspect {
    /// All aspects, in the order of [`HostBasis`].
    const ALL: [Aspect; 6] = [
        Aspect::ReadLatency,
        Aspect::WriteLatency,
        Aspect::ReadRate,
        Aspect::WriteRate,
        Aspect::Interrupt,
        Aspect::Access,
    ];

    const fn places(self) -> &'static [FigureKey] {
        match self {
            Aspect::ReadLatency => &READ_LATENCY,
            Aspect::WriteLatency => &WRITE_LATENCY,
            Aspect::ReadRate => &READ_RATE,
            Aspect::WriteRate => &WRITE_RATE,
            Aspect::Interrupt => &INTERRUPT,
            Aspect::Access => &[ROOT_COMPLEX],
        }
    }

    /// Returns the aspect for the latency of a transaction of this kind.
    #[must_use]
    pub const fn of(kind: TransactionKind) -> Aspect {
        use TransactionKind as K;
        match kind {
            K::DmaRead | K::DmaAtomic => Aspect::ReadLatency,
            K::DmaWrite | K::DmaDeferrableWrite => Aspect::WriteLatency,
            K::Interrupt => Aspect::Interrupt,
            _ => Aspect::Access,
        }
    }
}

/// The basis of each aspect of a host: the basis of the weakest figure that the aspect depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostBasis([Basis; Aspect::ALL.len()]);

impl HostBasis {
    /// The basis of a host without a profile.
    pub(crate) const ASSUMED: HostBasis = HostBasis([Basis::Assumed; Aspect::ALL.len()]);

    /// Returns the basis of the host of a lab in `folder`.
    pub fn of(host: &Host, folder: &Folder) -> HostBasis {
        let sockets = [&host.device_socket, &host.memory_socket, &host.program_socket].map(|s| *s.get_ref());
        let has_far = sockets.iter().any(|socket| *socket != sockets[0]);
        let has_iommu = *host.iommu.get_ref() != IommuPages::Off;
        // An unreadable profile is reported where it is used.
        let Some(bases) = HOSTS.bases(host.profile.get_ref(), folder) else { return HostBasis::ASSUMED };
        HostBasis(Aspect::ALL.map(|aspect| {
            let mut places = aspect.places().to_vec();
            let is_dma = !matches!(aspect, Aspect::Interrupt | Aspect::Access);
            places.extend(IOMMU.iter().filter(|_| is_dma && has_iommu));
            places.extend(NUMA.iter().filter(|_| is_dma && has_far));
            bases.weakest(&places).unwrap_or(Basis::Assumed)
        }))
    }

    /// Returns the basis of this aspect.
    #[must_use]
    pub const fn get(&self, aspect: Aspect) -> Basis {
        self.0[aspect as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::Spanned;

    /// Rows: profile, IOMMU, aspect, basis.
    #[test]
    fn profiles_have_the_basis_of_their_weakest_figure() {
        use Basis::{Assumed, Fitted};
        for (profile, iommu, aspect, basis) in [
            ("ideal", IommuPages::Off, Aspect::ReadLatency, Assumed),
            ("xeon-platinum-8480", IommuPages::Off, Aspect::ReadLatency, Assumed),
            ("xeon-gold-6342", IommuPages::Off, Aspect::WriteRate, Assumed),
            ("xeon-e5-2637v3", IommuPages::Off, Aspect::ReadLatency, Fitted),
            ("xeon-e5-2637v3", IommuPages::Off, Aspect::ReadRate, Fitted),
            ("xeon-e5-2637v3", IommuPages::Off, Aspect::Interrupt, Assumed),
            ("xeon-e5-2620v3", IommuPages::Off, Aspect::ReadLatency, Fitted),
            // Its gaps are those of all E5 servers.
            ("xeon-e5-2620v3", IommuPages::Off, Aspect::ReadRate, Fitted),
            // Its page walk is a guess.
            ("xeon-e3-1226v3", IommuPages::Off, Aspect::ReadLatency, Fitted),
            ("xeon-e3-1226v3", IommuPages::Kib4, Aspect::ReadLatency, Assumed),
        ] {
            let host = Host {
                profile: Spanned::new(0..0, profile.to_owned()),
                iommu: Spanned::new(0..0, iommu),
                ..Host::default()
            };
            let found = HostBasis::of(&host, &Folder::from("")).get(aspect);
            assert_eq!(found, basis, "{profile}, {iommu:?}, {aspect:?}");
        }
    }
}
