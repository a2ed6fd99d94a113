// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the lab's choices for a host, and applies them to the host's profile.

use crate::schema::{BufferPages, Ecrc, Host, IommuPages};
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
    let pages = *host.buffer_pages.get_ref();
    if off && pages != BufferPages::default() {
        let message = format!(
            "buffer_pages of {}: no effect, because iommu is \"off\"; expected \"{}\", or iommu \"4k\", \"2m\" or \"1g\"",
            pages.name(),
            BufferPages::default().name()
        );
        return Err(Wrong::at(host.buffer_pages.span(), message));
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
    let largest = match *host.iommu.get_ref() {
        IommuPages::Off => None,
        IommuPages::Kib4 => Some(PageSize::Kib4),
        IommuPages::Mib2 => Some(PageSize::Mib2),
        IommuPages::Gib1 => Some(PageSize::Gib1),
    };
    let settings = HostSettings {
        iommu: largest.map(|largest| largest.min(host.buffer_pages.get_ref().size())),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: largest page of the IOMMU, pages of the buffers, the IOMMU's pages.
    #[test]
    fn buffers_limit_pages_of_the_iommu() {
        use {BufferPages as Buffer, IommuPages as Iommu};
        let rows = [
            (Iommu::Off, Buffer::Gib1, None),
            (Iommu::Kib4, Buffer::Gib1, Some(PageSize::Kib4)),
            (Iommu::Gib1, Buffer::Kib4, Some(PageSize::Kib4)),
            (Iommu::Gib1, Buffer::Mib2, Some(PageSize::Mib2)),
            (Iommu::Mib2, Buffer::Gib1, Some(PageSize::Mib2)),
            (Iommu::Gib1, Buffer::Gib1, Some(PageSize::Gib1)),
        ];
        for (iommu, pages, expected) in rows {
            let (iommu, buffer_pages) = (Spanned::new(0..0, iommu), Spanned::new(0..0, pages));
            let host = Host { iommu, buffer_pages, ..Host::default() };
            let profile = apply(&host, HostProfile::ideal());
            assert_eq!(profile.settings.iommu, expected, "{pages:?}");
        }
    }
}
