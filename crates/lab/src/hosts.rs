// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the lab's choices for a host, and applies them to the host's profile.

use crate::schema::{Ecrc, Host, IommuPages};
use crate::wrong::{Checked, Wrong};
use fabric::HostProfile;
use fabric::profile::{HostSettings, PageSize};
use toml::Spanned;

/// Checks the lab's choices for a host against the host's profile.
pub(crate) fn check(host: &Host, profile: &HostProfile) -> Checked {
    let name = &profile.name;
    let sockets = [
        ("device_socket", &host.device_socket),
        ("memory_socket", &host.memory_socket),
        ("program_socket", &host.program_socket),
    ];
    for (key, socket) in sockets {
        match *socket.get_ref() {
            0 => {}
            1 if profile.numa.is_some() => {}
            1 => {
                let message = format!("{key} of 1: host profile `{name}` has one socket, 0");
                return Err(Wrong::at(socket.span(), message));
            }
            n => return Err(Wrong::at(socket.span(), format!("{key} of {n}, expected 0 or 1"))),
        }
    }
    let off = *host.iommu.get_ref() == IommuPages::Off;
    if !off && profile.iommu.is_none() {
        let message = format!("iommu: host profile `{name}` has none, expected \"off\"");
        return Err(Wrong::at(host.iommu.span(), message));
    }
    if off && let Some(shared) = &host.iotlb_shared {
        return Err(Wrong::at(shared.span(), "iotlb_shared: no effect, because iommu is \"off\""));
    }
    if off && let Some(window) = host.iommu_window.first() {
        return Err(Wrong::at(window.span(), "iommu_window: no effect, because iommu is \"off\""));
    }
    Ok(())
}

/// Applies the lab's choices to `profile`.
pub(crate) fn apply(host: &Host, profile: HostProfile) -> HostProfile {
    let settings = HostSettings {
        iommu: match *host.iommu.get_ref() {
            IommuPages::Off => None,
            IommuPages::Kib4 => Some(PageSize::Kib4),
            IommuPages::Mib2 => Some(PageSize::Mib2),
            IommuPages::Gib1 => Some(PageSize::Gib1),
        },
        device_socket: *host.device_socket.get_ref(),
        memory_socket: *host.memory_socket.get_ref(),
        program_socket: *host.program_socket.get_ref(),
    };
    let ecrc = host.ecrc.map_or(profile.ecrc, Ecrc::policy);
    let mut profile = HostProfile { settings, ecrc, ..profile };
    if let (Some(iommu), Some(shared)) = (&mut profile.iommu, &host.iotlb_shared) {
        iommu.shared = *shared.get_ref();
    }
    profile
}

/// The windows of functions: requester, first address, bytes.
pub(crate) fn windows(host: &Host) -> impl Iterator<Item = (tlp::Bdf, u64, u64)> + '_ {
    host.iommu_window
        .iter()
        .map(Spanned::get_ref)
        .map(|window| (window.function.0, window.address, window.bytes))
}
