// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions with every capability that a configuration space can have, for tests of programs that read them. This
//! module never reads a configuration space.

use config::{
    AtsLayout, Bar, Builder, Identity, PasidLayout, PtmLayout, ResizableBar, SriovLayout, VcLayout,
    VsecLayout,
};

/// Returns an identity with this class code.
pub fn identity(class: u32) -> Identity {
    Identity {
        vendor: 0x1234,
        device: 0xabcd,
        revision: 7,
        class,
        subsystem_vendor: 0x5678,
        subsystem: 0x9abc,
    }
}

/// Adds every extended capability to an endpoint that has a prefetchable BAR 0 and a PCI Express capability.
pub fn with_all_extended(endpoint: Builder) -> Builder {
    let sriov = SriovLayout::new(16, 0xabce)
        .bar(0, Bar::memory64(8 << 10).prefetchable())
        .bar(4, Bar::memory32(4096));
    endpoint
        .advanced_error_reporting()
        .serial_number(0x0011_22ff_fe33_4455)
        .alternative_routing(3)
        .single_root_virtualization(sriov)
        .address_translation(AtsLayout::default())
        .page_request(64)
        .process_address_space(PasidLayout { width: 20, execute: true, privileged: true })
        .latency_tolerance()
        .l1_substates(40)
        .precision_time(PtmLayout { requester: true, responder: false, root: false, granularity_ns: 4 })
        .virtual_channels(VcLayout { vcs: 2, low_priority: 1, phases: 32, ..VcLayout::default() })
        .resizable_bars(&[ResizableBar::range(0, 1 << 20, 256 << 20)])
        .vendor_specific_extended(&VsecLayout {
            id: 0x77,
            revision: 2,
            registers: vec![Default::default(); 2],
        })
        .link_capabilities()
}
