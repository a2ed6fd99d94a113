// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended capabilities: their registers after reset, derived by hand from `PCIe 5.0 §7.7` to `§7.9`, `§9.3` and `§10.5`,
//! and the effects of software's writes.

use proptest::prelude::*;
use riser_config::ext::{acs, aer, ats, data_link_feature, pasid, resizable, secondary, sriov, vc, vendor};
use riser_config::register::Register;
use riser_config::*;
use testkit::cases;
use tlp::{Bdf, Rate, Width};

fn identity(class: u32) -> Identity {
    Identity {
        vendor: 0x1234,
        device: 0xabcd,
        class,
        subsystem_vendor: 0x5678,
        subsystem: 0x9abc,
        ..Identity::default()
    }
}

fn sriov_layout() -> SriovLayout {
    SriovLayout::new(256, 0xabce)
        .bar(0, Bar::memory64(2 << 10).prefetchable())
        .bar(4, Bar::memory32(16 << 10))
}

fn bare_endpoint() -> Builder {
    Builder::type0(identity(0x02_00_00)).bar(0, Bar::memory64(4 << 20).prefetchable()).pcie(PcieLayout {
        rate: Rate::Gt32,
        width: Width::ALL[1],
        ..PcieLayout::default()
    })
}

fn endpoint() -> ConfigSpace {
    bare_endpoint()
        .advanced_error_reporting_with(AerLayout {
            headers: 4,
            prefix_log: true,
            ..AerLayout::new(AerRole::Endpoint)
        })
        .serial_number(0x0011_22ff_fe33_4455)
        .alternative_routing(3)
        .single_root_virtualization(sriov_layout())
        .address_translation(AtsLayout { invalidate_queue_depth: 16, ..AtsLayout::default() })
        .page_request(64)
        .process_address_space(PasidLayout { width: 20, execute: true, privileged: false })
        .latency_tolerance()
        .l1_substates(40)
        .precision_time(PtmLayout { requester: true, responder: false, root: false, granularity_ns: 4 })
        .resizable_bars(&[ResizableBar::range(0, 1 << 20, 64 << 20)])
        .vendor_specific_extended(&VsecLayout { id: 0x77, revision: 2, registers: vec![Register::default()] })
        .link_capabilities()
        .build()
        .unwrap()
}

fn root_port() -> ConfigSpace {
    Builder::type1(identity(0x06_04_00))
        .pcie(PcieLayout { message_number: 2, ..PcieLayout::port(PortType::RootPort) })
        .advanced_error_reporting()
        .access_control(AcsLayout::port(40))
        .downstream_port_containment(DpcLayout { interrupt_message: 3, root_port: true })
        .precision_time(PtmLayout { requester: false, responder: true, root: true, granularity_ns: 10 })
        .virtual_channels(VcLayout {
            vcs: 3,
            low_priority: 1,
            phases: 32,
            weighted_ports: true,
            ..VcLayout::default()
        })
        .build()
        .unwrap()
}

fn word(space: &ConfigSpace, id: u16, dw: u16) -> u32 {
    space.read(space.extended_capability(id).unwrap() + dw)
}

fn write(space: &mut ConfigSpace, id: u16, dw: u16, byte_enables: u8, value: u32) -> Effects {
    let at = space.extended_capability(id).unwrap() + dw;
    space.write(at, byte_enables, value)
}

/// Checks the registers of a case in `cases/registers.txt`.
fn check(space: &ConfigSpace, name: &str) {
    let case = cases(include_str!("../cases/registers.txt")).find(|case| case.name() == name).unwrap();
    for row in case.input().lines() {
        let numbers = row.split(' ').take(4).map(|word| u32::from_str_radix(word, 16).unwrap());
        let [id, dw, reset, ones] = numbers.collect::<Vec<_>>()[..] else { panic!("{row}") };
        let (id, dw, mut space) = (id as u16, dw as u16, space.clone());
        let masked = if dw == 0 { 0x000f_ffff } else { !0 }; // the next pointer is a matter of the chain
        assert_eq!(word(&space, id, dw) & masked, reset, "after reset: {row}");
        write(&mut space, id, dw, 0xf, !0);
        assert_eq!(word(&space, id, dw) & masked, ones, "after all ones: {row}");
    }
}

#[test]
fn endpoint_has_reset_values_and_masks() {
    check(&endpoint(), "endpoint");
}

#[test]
fn root_port_has_reset_values_and_masks() {
    check(&root_port(), "root port");
}

#[test]
fn capability_chain_follows_declaration_order() {
    let space = root_port();
    let mut at = 0x100;
    let mut seen = Vec::new();
    while at != 0 {
        let header = space.read(at / 4);
        seen.push((header & 0xffff, at));
        at = (header >> 20) as u16;
    }
    // AER 56 B, ACS 16 B, DPC 68 B, PTM 12 B.
    assert_eq!(seen, [(0x01, 0x100), (0x0d, 0x138), (0x1d, 0x148), (0x1f, 0x18c), (0x02, 0x198)]);
}

#[test]
fn acs_control_enables_only_supported_bits() {
    let mut space = root_port();
    assert_eq!(space.access_control(), Acs::empty());
    assert_eq!(write(&mut space, acs::ID, 1, 0b0100, 0x0025_0000), Effects::ACS);
    assert_eq!(space.access_control(), Acs::SOURCE_VALIDATION | Acs::REQUEST_REDIRECT | Acs::EGRESS_CONTROL);
    assert_eq!(write(&mut space, acs::ID, 3, 0b0001, 0x81), Effects::ACS);
    let blocked: Vec<u8> = (0..=255).filter(|&n| space.egress_blocked(n)).collect();
    assert_eq!(blocked, [32, 39]);
    let some = AcsLayout { capable: Acs::SOURCE_VALIDATION | Acs::UPSTREAM_FORWARDING, egress_bits: 0 };
    let mut space = Builder::type1(identity(0x06_04_00)).access_control(some).build().unwrap();
    write(&mut space, acs::ID, 1, 0xf, !0);
    assert_eq!(word(&space, acs::ID, 1), 0x0011_0011, "what it is not capable of cannot be enabled");
    assert!(!space.egress_blocked(0));
}

#[test]
fn vf_enable_locks_registers_and_ari_sets_numbering() {
    let mut space = endpoint();
    let pf = Bdf::from_bits(0x0100);
    assert_eq!(write(&mut space, sriov::ID, 4, 0b0011, 4), Effects::SRIOV);
    write(&mut space, sriov::ID, 2, 0b0001, 0x10);
    assert_eq!(word(&space, sriov::ID, 5), 0x0001_0001, "with ARI: right behind the PF");
    write(&mut space, sriov::ID, 2, 0b0001, 0x19);
    for (dw, frozen) in [(4, 4), (8, 1)] {
        assert_eq!(write(&mut space, sriov::ID, dw, 0xf, !0), Effects::empty());
        assert_eq!(word(&space, sriov::ID, dw), frozen, "read-only while VF Enable is set");
    }
    let state = space.sriov().unwrap();
    assert_eq!((state.enabled, state.memory_enable, state.ari_hierarchy, state.vfs()), (true, true, true, 4));
    let ids: Vec<u16> = (0..4).map(|n| state.routing_id(pf, n).bits()).collect();
    assert_eq!(ids, [0x101, 0x102, 0x103, 0x104]);
    assert_eq!(state.index_of(pf, Bdf::from_bits(0x103)), Some(2));
    assert_eq!((state.index_of(pf, pf), state.index_of(pf, Bdf::from_bits(0x105))), (None, None));
    space.reset(ResetScope::FunctionLevel);
    assert_eq!((space.sriov().unwrap().vfs(), word(&space, sriov::ID, 5)), (0, 0x0001_0100));
    write(&mut space, sriov::ID, 4, 0b0011, 0xffff);
    assert_eq!(
        (space.sriov().unwrap().num_vfs, space.sriov().unwrap().vfs()),
        (256, 0),
        "no more than TotalVFs"
    );
}

/// Strides and offsets (`PCIe 5.0 §9.2.1.2`): layout, PF, index, Routing ID.
#[test]
fn routing_ids_are_modulo_two_to_the_sixteenth() {
    for (first_offset, stride, pf, index, id) in [
        (0x80, 2, 0x0100, 0, 0x0180),
        (0x80, 2, 0x0100, 7, 0x018e),
        (0x100, 1, 0x0100, 255, 0x02ff),
        (0xfffe, 1, 0x0010, 1, 0x000f),
    ] {
        let numbering = VfNumbering { first_offset, stride };
        let layout = SriovLayout { without_ari: numbering, ..sriov_layout() };
        let mut space = bare_endpoint().single_root_virtualization(layout).build().unwrap();
        write(&mut space, sriov::ID, 4, 0b0011, 256);
        write(&mut space, sriov::ID, 2, 0b0001, 1);
        let state = space.sriov().unwrap();
        assert_eq!(state.routing_id(Bdf::from_bits(pf), index).bits(), id);
        assert_eq!(state.index_of(Bdf::from_bits(pf), Bdf::from_bits(id)), Some(index));
        let between = Bdf::from_bits(id.wrapping_add(1));
        assert_eq!(state.index_of(Bdf::from_bits(pf), between).is_some(), stride == 1 && index < 255);
    }
}

/// `PCIe 5.0 §9.3.3.13, §9.3.3.14`: System Page Size, bytes of each VF in VF BAR0 (2 KiB) and VF BAR4 (16 KiB).
#[test]
fn vf_bars_are_whole_system_pages() {
    for (page, first, fourth) in
        [(0x1, 4 << 10, 16 << 10), (0x2, 8 << 10, 16 << 10), (0x10, 64 << 10, 64 << 10)]
    {
        let mut space = endpoint();
        write(&mut space, sriov::ID, 4, 0b0011, 3);
        write(&mut space, sriov::ID, 9, 0xf, 0x2345_f000);
        write(&mut space, sriov::ID, 10, 0xf, 0x12);
        assert_eq!(
            write(&mut space, sriov::ID, 8, 0xf, page),
            if page == 1 { Effects::empty() } else { Effects::SRIOV }
        );
        let (low, high) = (space.vf_bar(0).unwrap(), space.vf_bar(4).unwrap());
        assert_eq!((low.size, high.size), (first, fourth));
        assert_eq!(low.address, 0x12_2345_f000 & !(first - 1), "aligned to one VF's size");
        assert_eq!(low.offset_of(low.address + first + 8, 8), Some((1, 8)));
        assert_eq!(low.offset_of(low.address + first - 4, 8), None, "across two VFs");
        assert_eq!(low.offset_of(low.address + 3 * first, 1), None, "three VFs");
        assert_eq!(space.vf_bar(1), None);
    }
}

#[test]
fn virtual_function_implements_only_its_registers() {
    let space = Builder::virtual_function(identity(0x02_00_00))
        .pcie(PcieLayout { rate: Rate::Gt16, ..PcieLayout::default() })
        .msix(MsixLayout { vectors: 4, table: (0, 0), pending: (0, 0x800) })
        .advanced_error_reporting()
        .alternative_routing(0)
        .build()
        .unwrap();
    let pcie = space.pcie_capability().unwrap();
    let mut written = space.clone();
    for dw in 0..1024 {
        written.write(dw, 0xf, !0);
    }
    for (dw, reset, ones, what) in [
        (0, !0, !0, "Vendor ID and Device ID (§9.3.4.1.1)"),
        (1, 0x0010_0000, 0x0010_0004, "Command: Bus Master Enable alone (§9.3.4.1.3)"),
        (2, 0x0200_0000, 0x0200_0000, "Class Code: the PF's"),
        (4, 0, 0, "no BARs (§9.3.4.1.11)"),
        (0x2c / 4, 0x9abc_5678, 0x9abc_5678, "Subsystem: the PF's"),
        (pcie + 2, 0, 0, "Device Control: Initiate FLR alone, which reads zero (§9.3.5.4)"),
        (pcie + 4, 0, 0, "Link Control, Link Status (§9.3.5.6)"),
        (pcie + 10, 0, 0, "Device Control 2 (§9.3.5.8)"),
        (0x108 / 4, 0, 0, "Uncorrectable Error Mask: the PF's counts (§9.4.2)"),
        (0x10c / 4, 0, 0, "Uncorrectable Error Severity"),
        (0x114 / 4, 0, 0, "Correctable Error Mask"),
        (0x118 / 4, 0x10a0, 0x10a0, "AER control: no enables"),
    ] {
        assert_eq!((space.read(dw), written.read(dw)), (reset, ones), "{what}");
    }
    assert!(written.msix().enabled && written.is_virtual());
    assert_eq!(space.clone().write(pcie + 2, 0b0011, 1 << 15), Effects::FUNCTION_LEVEL_RESET);
}

/// BAR Size written, bytes of BAR 0 afterwards: 1 MiB to 64 MiB are supported.
#[test]
fn resizable_bars_follow_their_control_registers() {
    for (size, bytes) in
        [(0, 1 << 20), (2, 4 << 20), (6, 64 << 20), (7, 4 << 20), (43, 4 << 20), (63, 4 << 20)]
    {
        let mut space = endpoint();
        write(&mut space, resizable::ID, 2, 0b0010, size << 8);
        let bar = space.bar(0).unwrap();
        assert_eq!(bar.size, bytes, "BAR Size {size}");
        space.write(4, 0xf, !0);
        assert_eq!(u64::from(!(space.read(4) & !0xf)), bytes - 1, "sizing follows");
        assert_eq!(
            1_u64 << (20 + (word(&space, resizable::ID, 2) >> 8 & 0x3f)),
            bytes,
            "the control says so"
        );
        space.reset(ResetScope::Hot);
        assert_eq!(space.bar(0).unwrap().size, 4 << 20);
    }
}

#[test]
fn channel_registers_select_channels_and_tables() {
    let mut space = root_port();
    let first = space.virtual_channel(0).unwrap();
    assert_eq!((first.enabled, first.id, first.tc_map), (true, 0, 0xff));
    assert_eq!(write(&mut space, vc::ID, 8, 0xf, 0x8300_00f0), Effects::VIRTUAL_CHANNEL);
    space.set_negotiation_pending(1 << 3);
    let second = space.virtual_channel(1).unwrap();
    let expected = VcState {
        enabled: true,
        id: 3,
        tc_map: 0xf0,
        port_arbitration: Arbitration::Fixed,
        negotiation_pending: true,
    };
    assert_eq!((second, space.virtual_channel(3)), (expected, None));

    write(&mut space, vc::ID, 3, 0b0001, 0b111 << 1);
    assert_eq!(space.vc_arbitration(), Arbitration::Fixed, "not offered");
    write(&mut space, vc::ID, 3, 0b0001, 1 << 1);
    assert_eq!(space.vc_arbitration(), Arbitration::Weighted);
    write(&mut space, vc::ID, 17, 0xf, 0x1020_0100); // the table begins at DW 16: phases 8 to 15
    assert_eq!(word(&space, vc::ID, 3) >> 16, 1, "VC Arbitration Table Status: written, not loaded");
    assert_eq!(space.vc_phases(), [0; 32], "not loaded");
    write(&mut space, vc::ID, 3, 0b0001, 1 << 1 | 1);
    assert_eq!(word(&space, vc::ID, 3), 1 << 1, "loaded");
    assert_eq!((space.vc_phases().len(), &space.vc_phases()[8..16]), (32, &[0, 0, 1, 0, 0, 2, 0, 1][..]));

    write(&mut space, vc::ID, 28, 0xf, 0x0403_0201); // VC 1's table begins at DW 28
    assert_eq!(word(&space, vc::ID, 9) & 0x1_0000, 0x1_0000, "Port Arbitration Table Status");
    assert_eq!((0..5).map(|n| space.port_phase(1, n).unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 0]);
    write(&mut space, vc::ID, 8, 0b0100, 0x0003_0000);
    assert_eq!(word(&space, vc::ID, 9) & 0x1_0000, 0);
    assert_eq!(space.virtual_channel(1).unwrap().port_arbitration, Arbitration::Weighted);
}

/// Reset values of a port whose lab has three channels, TC3 and TC4 on VC4, and a table of 64 phases.
fn preset_channels() -> VcLayout {
    let mut layout = VcLayout { vcs: 3, low_priority: 2, phases: 64, ..VcLayout::default() };
    layout.reset[0].tc_map = 0x65;
    layout.reset[1] = VcSetting { enabled: true, id: 2, tc_map: 0x82 };
    layout.reset[2] = VcSetting { enabled: true, id: 4, tc_map: 0x18 };
    let mut table = [0; MAX_PHASES];
    table[9] = 2;
    table[63] = 4;
    layout.table = Some(table);
    layout
}

#[test]
fn channels_added_to_a_built_function_follow_its_last_capability() {
    let mut space = endpoint();
    let before = space.extended_capability(sriov::ID);
    space.add_virtual_channels(preset_channels()).unwrap();
    space.add_virtual_channels(VcLayout { vcs: 2, ..VcLayout::default() }).unwrap();
    assert_eq!(space.extended_capability(sriov::ID), before);
    let (mut at, mut ids) = (0x100, Vec::new());
    while at != 0 {
        let header = space.read(at / 4);
        ids.push(header as u16);
        at = (header >> 20) as u16;
    }
    assert_eq!((ids.last(), ids.iter().filter(|id| **id == vc::ID).count()), (Some(&vc::ID), 1));
    check(&space, "channels added to an endpoint");
    assert_eq!((space.vc_phases().len(), space.vc_phases()[9], space.vc_phases()[63]), (64, 2, 4));
    assert_eq!(space.vc_arbitration(), Arbitration::Weighted);
}

/// A Function Level Reset keeps the capability (`PCIe 5.0 §6.6.2`); a hot reset restores it.
#[test]
fn only_resets_of_the_link_reset_channels() {
    let mut space = endpoint();
    space.add_virtual_channels(preset_channels()).unwrap();
    write(&mut space, vc::ID, 8, 0xf, 0x8300_0002);
    write(&mut space, vc::ID, 16, 0xf, 0x2);
    write(&mut space, vc::ID, 3, 0b0001, 2 << 1 | 1);
    let set = (word(&space, vc::ID, 8), space.vc_phases()[0]);
    space.reset(ResetScope::FunctionLevel);
    assert_eq!((word(&space, vc::ID, 8), space.vc_phases()[0]), set);
    space.reset(ResetScope::Hot);
    assert_eq!((word(&space, vc::ID, 8), space.vc_phases()[0]), (0x8200_0082, 0));
}

#[test]
fn channels_without_tables_are_not_weighted() {
    let layout = VcLayout { vcs: 2, ..VcLayout::default() };
    let mut space = bare_endpoint().virtual_channels(layout).build().unwrap();
    write(&mut space, vc::ID, 3, 0b0001, 1 << 1);
    write(&mut space, vc::ID, 8, 0b0100, 1 << 17);
    assert_eq!(space.vc_arbitration(), Arbitration::Fixed);
    assert_eq!(space.virtual_channel(1).unwrap().port_arbitration, Arbitration::Fixed);
    assert_eq!((space.vc_phases().len(), space.port_phase(1, 0)), (0, None));
}

#[test]
fn hardware_sets_status_bits() {
    let mut space = endpoint();
    space.set_lane_error(1);
    space.set_lane_error(2); // the link has two lanes
    assert_eq!(word(&space, secondary::ID, 2), 0b10);
    write(&mut space, secondary::ID, 2, 0xf, !0);
    assert_eq!(word(&space, secondary::ID, 2), 0);
    space.set_remote_data_link_feature(Some(true));
    assert_eq!(word(&space, data_link_feature::ID, 2), 0x8000_0001);
    space.set_remote_data_link_feature(None);
    assert_eq!(word(&space, data_link_feature::ID, 2), 0);
    assert_eq!((space.next_function(), root_port().next_function()), (Some(3), None));
}

#[test]
fn rejects_impossible_declarations() {
    let at = |id| move |error: &BuildError| matches!(error, BuildError::Extended { id: it, .. } if *it == id);
    let refused = |builder: Builder, id: u16| {
        let error = builder.build().err().unwrap();
        assert!(at(id)(&error), "{error}");
    };
    let base = bare_endpoint;
    refused(base().single_root_virtualization(SriovLayout::new(0, 1)), sriov::ID);
    refused(base().single_root_virtualization(SriovLayout::new(257, 1)), sriov::ID);
    refused(base().single_root_virtualization(SriovLayout { page_sizes: 2, ..sriov_layout() }), sriov::ID);
    refused(base().single_root_virtualization(sriov_layout().bar(1, Bar::memory32(4096))), sriov::ID);
    refused(base().single_root_virtualization(sriov_layout().bar(5, Bar::memory64(4096))), sriov::ID);
    refused(base().single_root_virtualization(sriov_layout().bar(2, Bar::io(16))), sriov::ID);
    refused(base().single_root_virtualization(sriov_layout().bar(2, Bar::memory32(3000))), sriov::ID);
    refused(base().access_control(AcsLayout::port(0)), acs::ID);
    refused(base().access_control(AcsLayout::port(257)), acs::ID);
    refused(base().virtual_channels(VcLayout { vcs: 9, ..VcLayout::default() }), vc::ID);
    refused(base().virtual_channels(VcLayout { vcs: 2, low_priority: 2, ..VcLayout::default() }), vc::ID);
    refused(base().virtual_channels(VcLayout { vcs: 2, phases: 33, ..VcLayout::default() }), vc::ID);
    refused(
        base().address_translation(AtsLayout { invalidate_queue_depth: 33, ..AtsLayout::default() }),
        ats::ID,
    );
    refused(
        base().process_address_space(PasidLayout { width: 21, execute: false, privileged: false }),
        pasid::ID,
    );
    refused(base().resizable_bars(&[ResizableBar::range(1, 1 << 20, 1 << 21)]), resizable::ID);
    refused(base().resizable_bars(&[ResizableBar::range(0, 8 << 20, 16 << 20)]), resizable::ID);
    let aer = AerLayout { headers: 9, ..AerLayout::new(AerRole::Endpoint) };
    refused(base().advanced_error_reporting_with(aer), aer::ID);
    let long = VsecLayout { registers: vec![Register::default(); 1000], ..VsecLayout::default() };
    refused(base().vendor_specific_extended(&long), vendor::ID);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// After any writes by software, the capability list is intact, views agree with registers, and a fundamental reset
    /// restores everything.
    #[test]
    fn random_writes_keep_configuration_consistent(
        root in any::<bool>(),
        writes in prop::collection::vec((0x40u16..0x120, 1u8..16, any::<u32>()), 1..80),
    ) {
        let fresh = if root { root_port() } else { endpoint() };
        let mut space = fresh.clone();
        for (dw, byte_enables, value) in writes {
            space.write(dw, byte_enables, value);
        }
        let mut at = 0x40;
        while at != 0 {
            prop_assert_eq!(space.read(at), fresh.read(at), "a header");
            at = (space.read(at) >> 22) as u16;
        }
        if let Some(state) = space.sriov() {
            prop_assert!(state.num_vfs <= state.total_vfs && state.page_size >= 4096);
            for bar in (0..6).filter_map(|i| space.vf_bar(i)) {
                prop_assert!(bar.size >= state.page_size && bar.address % bar.size == 0);
            }
            prop_assert!(space.bar(0).unwrap().size <= 64 << 20);
        }
        space.reset(ResetScope::Fundamental);
        for dw in 0..1024 {
            prop_assert_eq!(space.read(dw), fresh.read(dw), "DW {:#x}", dw);
        }
    }
}
