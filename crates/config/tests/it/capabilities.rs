// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities below 100h: power management, MSI with masks, PCI Express of every port type, slots, root ports.

use riser_config::cap::pcie::{self, slot_control};
use riser_config::*;
use tlp::{Rate, Rcb, Width};

fn type0() -> Builder {
    Builder::type0(Identity { vendor: 1, ..Identity::default() })
}

fn type1() -> Builder {
    Builder::type1(Identity { vendor: 1, class: 0x06_04_00, ..Identity::default() })
}

/// Written values, and the resulting PMCSR (`PCIe 5.0 Table 7-10`); D1 and D2 are discarded.
#[test]
fn power_state_writes_have_specified_effects() {
    let layout = PmLayout { no_soft_reset: false, pme: true };
    let mut space = type0().power_management_with(layout).build().unwrap();
    assert_eq!(space.read(0x40 / 4), 0x4803_0001, "PME from D0 and D3hot, version 3");
    let rows = [
        (0x0001, 0x0000, PowerState::D0, Effects::empty()),
        (0x0003, 0x0003, PowerState::D3Hot, Effects::POWER),
        (0x0002, 0x0003, PowerState::D3Hot, Effects::empty()),
        (0x0103, 0x0103, PowerState::D3Hot, Effects::PME),
        (0x0000, 0x0000, PowerState::D0, Effects::POWER | Effects::PME),
    ];
    for (write, read, state, effects) in rows {
        assert_eq!(space.write(0x44 / 4, 0b0011, write), effects, "{write:#x}");
        assert_eq!((space.read(0x44 / 4), space.power_state()), (read, state), "{write:#x}");
    }
    assert!(!space.no_soft_reset());
    assert!(type0().power_management().build().unwrap().no_soft_reset());
}

#[test]
fn pme_is_sent_once_and_is_sticky() {
    let layout = PmLayout { pme: true, ..PmLayout::default() };
    let mut space = type0().power_management_with(layout).build().unwrap();
    assert!(!space.set_pme(), "PME_En is clear");
    space.write(0x44 / 4, 0b0011, 0x8100);
    assert!(space.set_pme() && !space.set_pme());
    space.reset(ResetScope::Hot);
    assert_eq!(space.read(0x44 / 4), 0x8108);
    space.reset(ResetScope::Fundamental);
    assert_eq!(space.read(0x44 / 4), 0x0008);
    let mut without = type0().power_management().build().unwrap();
    without.write(0x44 / 4, 0b0011, 0x8100);
    assert!(!without.set_pme() && without.read(0x44 / 4) == 8);
}

/// The four forms of MSI (`PCIe 5.0 §7.7.1`): options, Message Control, next capability, DWs that store all ones.
#[test]
fn each_msi_form_has_its_registers() {
    let rows: [(bool, bool, u32, [u32; 6]); 4] = [
        (false, false, 0x0086_0005, [0x00f7_0005, !3, !0, 0xffff, 0, 0]),
        (false, true, 0x0006_0005, [0x0077_0005, !3, 0xffff, 0, 0, 0]),
        (true, false, 0x0186_0005, [0x01f7_0005, !3, !0, 0xffff, 0xff, 0]),
        (true, true, 0x0106_0005, [0x0177_0005, !3, 0xffff, 0xff, 0, 0]),
    ];
    for (masking, address_32, control, ones) in rows {
        let options = MsiOptions { masking, address_32 };
        let mut space = type0().msi(MsiLayout { vectors: 8 }).msi_options(options).build().unwrap();
        assert_eq!(space.read(0x10), control, "{options:?}");
        for dw in 0x10..0x16 {
            space.write(dw, 0xf, !0);
        }
        assert_eq!([0, 1, 2, 3, 4, 5].map(|i| space.read(0x10 + i)), ones, "{options:?}");
        let address = if address_32 { 0xffff_fffc } else { !3 };
        assert_eq!(space.msi(), Some(MsiConfig { address, data: 0xffff, vectors: 8 }));
        assert_eq!(space.msi_mask(), if masking { 0xff } else { 0 });
        space.set_msi_pending(0x21);
        assert_eq!(space.msi_pending(), if masking { 0x21 } else { 0 });
    }
}

#[test]
fn msi_mask_write_has_effect() {
    let options = MsiOptions { masking: true, ..MsiOptions::default() };
    let mut space = type0().msi(MsiLayout { vectors: 32 }).msi_options(options).build().unwrap();
    assert_eq!(space.write(0x14, 0b0001, 0x81), Effects::MSI);
    assert_eq!(space.msi_mask(), 0x81);
    assert_eq!(space.write(0x15, 0xf, !0), Effects::empty(), "Pending Bits are read-only");
}

/// Registers of each port type (`PCIe 5.0 §7.5.3`): PCI Express Capabilities, then the values after all ones were
/// written to Device Control, Link Control, Slot Control, Root Control, Device Control 2 (low halves).
#[test]
fn each_port_type_has_its_registers() {
    let rows = [
        (PortType::Endpoint, 0x0002_0010, [0x79ff, 0xcb, 0, 0, 0x035f]),
        (PortType::RootPort, 0x0042_0010, [0x79ff, 0xcd3, 0, 0x1f, 0x03ff]),
        (PortType::Upstream, 0x0052_0010, [0x79ff, 0xc3, 0, 0, 0x0080]),
        (PortType::Downstream, 0x0062_0010, [0x79ff, 0xcd3, 0, 0, 0x00a0]),
        (PortType::RootComplexIntegrated, 0x0092_0010, [0x79ff, 0, 0, 0, 0x035f]),
    ];
    for (port, capabilities, controls) in rows {
        let builder = if port.is_bridge() { type1() } else { type0() };
        let mut space = builder.pcie(PcieLayout::port(port)).build().unwrap();
        assert_eq!(space.read(0x10), capabilities, "{port:?}");
        for dw in 0x10..0x1f {
            space.write(dw, 0xf, !0);
        }
        let got = [2, 4, 6, 7, 10].map(|dw| space.read(0x10 + dw) & 0xffff);
        assert_eq!(got, controls, "{port:?}: {got:#x?}");
        assert_eq!(space.port_type(), Some(port));
    }
}

/// Device Capabilities, Link Capabilities and the "2" registers of a root port and a downstream port.
#[test]
fn ports_show_configured_capabilities() {
    let layout = PcieLayout {
        rate: Rate::Gt16,
        width: Width::new(4).unwrap(),
        port_number: 3,
        rcb: Rcb::new(128).unwrap(),
        ltr: true,
        end_end_prefixes: 4,
        message_number: 1,
        ..PcieLayout::port(PortType::RootPort)
    };
    let root = type1().pcie(layout).build().unwrap();
    let rows = [
        (0, 0x0242_0010, "message number 1, root port, version 2"),
        (pcie::DEVICE_CAPABILITIES, 0x0000_8022, "role-based, extended tag, MPS 512; no FLR"),
        (
            pcie::LINK_CAPABILITIES,
            0x0378_0044,
            "port 3, ASPM optionality, bandwidth notification, link active, surprise down, x4, 16 GT/s",
        ),
        (pcie::LINK_CONTROL, 0x0044_0008, "x4, 16 GT/s, RCB 128 B"),
        (pcie::ROOT_CONTROL, 0x0001_0000, "CRS Software Visibility"),
        (
            pcie::DEVICE_CAPABILITIES_2,
            0x0031_087f,
            "4 prefixes, 10-bit completer, LTR, AtomicOp routing, ARI forwarding, timeouts",
        ),
        (pcie::LINK_CAPABILITIES_2, 0x1e, "2.5 to 16 GT/s"),
        (pcie::LINK_CONTROL_2, 4, "target 16 GT/s"),
    ];
    for (dw, value, what) in rows {
        assert_eq!(root.read(0x10 + dw), value, "{what}: {:#x}", root.read(0x10 + dw));
    }
    assert_eq!(root.end_end_prefixes(), 4);
    for end_end_prefixes in 0..4 {
        let layout = PcieLayout { end_end_prefixes, ..PcieLayout::default() };
        assert_eq!(type0().pcie(layout).build().unwrap().end_end_prefixes(), end_end_prefixes);
    }
    let down = type1().pcie(PcieLayout::port(PortType::Downstream)).build().unwrap();
    assert_eq!(down.read(0x10 + pcie::DEVICE_CAPABILITIES_2), 0x0001_0060, "no timeouts");
    assert_eq!(root.rcb().bytes(), 128);
}

#[test]
fn link_control_write_has_effects() {
    let mut space = type1().pcie(PcieLayout::port(PortType::Downstream)).build().unwrap();
    let at = 0x10 + pcie::LINK_CONTROL;
    assert_eq!(space.write(at, 0b0001, 1 << 5), Effects::RETRAIN_LINK);
    assert_eq!(space.read(at) & 0xffff, 0, "Retrain Link reads zero");
    let both = Effects::LINK_CONTROL | Effects::LINK_DISABLE;
    assert_eq!(space.write(at, 0b0001, 1 << 4), both);
    assert!(space.link_disable());
    assert_eq!(space.write(at, 0b0001, 0), both);
    let mut endpoint = type0().pcie(PcieLayout::default()).build().unwrap();
    assert_eq!(endpoint.write(at, 0b0001, 0x30), Effects::empty());
}

/// Link Status is a state outside configuration space: no reset changes it. Endpoints do not report Link Active.
#[test]
fn link_status_survives_resets() {
    let at = 0x10 + pcie::LINK_CONTROL;
    let width = Width::new(8).unwrap();
    for (port, active) in [(PortType::Downstream, 1), (PortType::Endpoint, 0)] {
        let builder = if port.is_bridge() { type1() } else { type0() };
        let mut space = builder.pcie(PcieLayout::port(port)).build().unwrap();
        space.set_link_status(Rate::Gt5, width, true, false);
        assert_eq!(space.read(at) >> 16, 0x0082 | active << 13);
        assert_eq!(space.link_active(), active == 1);
        space.reset(ResetScope::Hot);
        assert_eq!(space.read(at) >> 16, 0x0082 | active << 13);
        space.set_link_status(Rate::Gt5, width, false, true);
        assert_eq!(space.read(at) >> 16, 0x0882);
    }
}

fn hot_plug() -> SlotLayout {
    SlotLayout { power_limit_value: 25, ..SlotLayout::with_all(5) }
}

fn port(slot: SlotLayout) -> ConfigSpace {
    let layout = PcieLayout { slot: Some(slot), ..PcieLayout::port(PortType::RootPort) };
    type1().pcie(layout).build().unwrap()
}

const SLOT: u16 = 0x10 + pcie::SLOT_CONTROL;

#[test]
fn slot_registers_follow_the_layout() {
    let space = port(hot_plug());
    assert_eq!(space.read(0x10) >> 16, 0x0142, "Slot Implemented");
    assert_eq!(space.read(0x15), 5 << 19 | 25 << 7 | 0x7f, "all but interlock");
    assert_eq!(space.read(SLOT), 0x03c0, "indicators off, empty");
    assert_eq!(space.slot_power_limit(), Some((25, 0)));
    let state = space.slot().unwrap();
    assert_eq!((state.present, state.powered, state.attention_indicator), (false, true, 3));
    let plain = port(SlotLayout { number: 1, occupied: true, ..SlotLayout::default() });
    assert_eq!((plain.read(0x15), plain.read(SLOT)), (1 << 19, 1 << 22));
}

/// Event, its status bit, its enable bit, state bits after it (`PCIe 5.0 Table 7-22, 7-23`).
#[test]
fn slot_events_set_status_and_interrupt_if_enabled() {
    use SlotEvent::*;
    let rows = [
        (AttentionButton, 16, 0, 0),
        (PowerFault, 17, 1, 0),
        (MrlSensor { open: true }, 18, 2, 1 << 21),
        (Presence { present: true }, 19, 3, 1 << 22),
        (CommandCompleted, 20, 4, 0),
        (LinkState, 24, 12, 0),
    ];
    for (event, status, enable, state) in rows {
        let mut space = port(hot_plug());
        assert!(!space.set_slot_event(event), "{event:?}: nothing is enabled");
        assert_eq!(space.read(SLOT) & 0xffff_0000, 1 << status | state, "{event:?}");
        assert_eq!(space.write(SLOT, 0b1100, !0), Effects::SLOT_STATUS);
        assert_eq!(space.read(SLOT) & 0xffff_0000, state, "{event:?}: cleared");
        space.write(SLOT, 0b0011, 1 << enable);
        assert!(!space.set_slot_event(event), "{event:?}: no Hot-Plug Interrupt Enable");
        space.write(SLOT, 0b1111, 1 << enable | slot_control::HOT_PLUG_INTERRUPT_ENABLE | 1 << status);
        assert!(space.set_slot_event(event), "{event:?}");
        assert!(!space.set_slot_event(event), "{event:?}: it is due already");
        assert!(space.slot().unwrap().interrupt);
    }
}

/// A write may make an interrupt due, and every write is a command.
#[test]
fn each_slot_control_write_is_a_command() {
    let mut space = port(hot_plug());
    space.set_slot_event(SlotEvent::Presence { present: true });
    assert!(!space.slot().unwrap().interrupt);
    assert_eq!(space.write(SLOT, 0b0011, 0x03c0), Effects::SLOT_CONTROL, "what it held");
    assert_eq!(space.write(SLOT, 0b0011, 0x07e8), Effects::SLOT_CONTROL);
    let state = space.slot().unwrap();
    assert!(state.interrupt && !state.powered && state.present);
    assert!(space.completes_slot_commands());
    assert_eq!(space.write(SLOT, 0b1100, 0), Effects::empty(), "Slot Status is no command");
}

/// Absent features of a slot are neither writable nor logged.
#[test]
fn slot_without_hot_plug_has_no_events() {
    let mut space = port(SlotLayout { number: 1, no_command_completed: true, ..SlotLayout::default() });
    space.write(SLOT, 0b0011, 0xffff);
    assert_eq!(space.read(SLOT), 0);
    for event in [SlotEvent::AttentionButton, SlotEvent::PowerFault, SlotEvent::CommandCompleted] {
        assert!(!space.set_slot_event(event));
    }
    assert_eq!(space.read(SLOT), 0);
    let mut none = type1().pcie(PcieLayout::port(PortType::RootPort)).build().unwrap();
    assert_eq!((none.slot(), none.set_slot_event(SlotEvent::LinkState)), (None, false));
}

/// Root Status holds one PME and keeps one more (`PCIe 5.0 §7.5.3.14`).
#[test]
fn root_ports_log_pme() {
    let status = 0x10 + pcie::ROOT_STATUS;
    let mut space = port(SlotLayout::default());
    assert!(!space.root_pme(0x0100), "PME Interrupt Enable is clear");
    assert_eq!(space.read(status), 0x0001_0100);
    assert!(!space.root_pme(0x0200) && !space.root_pme(0x0300));
    assert_eq!(space.read(status), 0x0003_0100, "one is pending");
    assert_eq!(space.write(0x10 + pcie::ROOT_CONTROL, 0b0001, 1 << 3), Effects::ROOT_CONTROL);
    assert!(space.root_pme_interrupt());
    assert_eq!(space.write(status, 0b0100, 1 << 16), Effects::PME);
    assert_eq!(space.read(status), 0x0001_0200, "the pending one follows");
    space.write(status, 0b0100, 1 << 16);
    assert_eq!(space.read(status), 0x0000_0200);
    assert!(space.root_pme(0x0400));
    let mut endpoint = type0().pcie(PcieLayout::default()).build().unwrap();
    assert!(!endpoint.root_pme(1) && endpoint.read(status) == 0);
}

#[test]
fn vendor_specific_capability_contains_given_bytes() {
    let space = type0().vendor_specific(b"riser").vendor_specific(&[]).build().unwrap();
    assert_eq!(space.read(0x10), u32::from_le_bytes([0x09, 0x48, 8, b'r']));
    assert_eq!(space.read(0x11), u32::from_le_bytes(*b"iser"));
    assert_eq!(space.read(0x12), u32::from_le_bytes([0x09, 0, 3, 0]));
}

/// The ROM: sizing, enable (`PCIe 5.0 §7.5.1.2.4`).
#[test]
fn expansion_rom_is_sized_and_enabled_like_a_bar() {
    let mut space = type0().expansion_rom(64 << 10).build().unwrap();
    assert_eq!(space.write(0x30 / 4, 0xf, 0xffff_fffe), Effects::BAR);
    assert_eq!((space.read(0x30 / 4), space.expansion_rom()), (0xffff_0000, None), "not enabled");
    space.write(0x30 / 4, 0xf, 0xe00f_1235);
    let window = space.expansion_rom().unwrap();
    assert_eq!((window.address, window.size), (0xe00f_0000, 0x1_0000));
}

/// A larger BAR clears the address bits below its size; a reset restores its original size.
#[test]
fn resizable_bars_change_size() {
    let mut space = type0().bar(0, Bar::memory64(1 << 20)).bar(2, Bar::memory32(4096)).build().unwrap();
    space.write(4, 0xf, 0x1234_5678);
    space.write(5, 0xf, 0x9);
    assert!(space.set_bar_size(0, 1 << 28));
    let window = space.bar(0).unwrap();
    assert_eq!((window.address, window.size), (0x9_1000_0000, 1 << 28));
    assert!(space.set_bar_size(0, 1 << 33));
    assert_eq!((space.read(4), space.read(5)), (4, 8));
    for (bar, size) in [(1, 1 << 20), (2, 1 << 32), (2, 100), (6, 4096), (0, 64)] {
        assert!(!space.set_bar_size(bar, size), "BAR {bar}, {size}");
    }
    space.reset(ResetScope::Hot);
    assert_eq!(space.bar(0).map(|w| (w.address, w.size)), Some((0, 1 << 20)));
    space.write(4, 0xf, !0);
    assert_eq!(space.read(4), 0xfff0_0004);
}

#[test]
fn dump_has_16_bytes_per_line() {
    let space = type0().bar(0, Bar::io(16)).build().unwrap();
    let dump = space.hexdump("00:01.0", "Thing");
    let lines: Vec<&str> = dump.lines().collect();
    assert_eq!(lines.len(), 1 + 16 + 1);
    assert_eq!(lines[0], "00:01.0 Thing");
    assert_eq!(lines[1], "00: 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    assert_eq!(lines[2], "10: 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    let extended = type0().advanced_error_reporting().build().unwrap().hexdump("00:01.0", "");
    assert_eq!(extended.lines().count(), 1 + 256 + 1);
    assert!(extended.contains("\nff0: 00"));
}
