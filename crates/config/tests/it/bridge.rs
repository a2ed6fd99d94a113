// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Type 1 headers (`PCIe 5.0 §7.5.1.3`): registers after reset, windows, and claimed addresses.

use riser_config::header::{self, bridge_control, command, status, type1};
use riser_config::*;

fn identity() -> Identity {
    Identity {
        vendor: 0x1b36,
        device: 0x000c,
        revision: 1,
        class: 0x06_04_00,
        subsystem_vendor: 0x1234,
        subsystem: 0x5678,
    }
}

fn builder() -> Builder {
    Builder::type1(identity()).bar(0, Bar::memory32(4096)).interrupt_pin(2)
}

fn space() -> ConfigSpace {
    builder().build().unwrap()
}

/// After reset, windows are closed: the base is above the limit.
#[test]
fn registers_have_reset_values() {
    let rows = [
        (0, 0x000c_1b36, "Device ID, Vendor ID"),
        (1, 0x0010_0000, "Status: Capabilities List"),
        (2, 0x0604_0001, "Class Code of a PCI-to-PCI bridge"),
        (3, 0x0001_0000, "Header Type 1"),
        (4, 0, "BAR 0"),
        (type1::BUS_NUMBERS, 0, "bus numbers"),
        (type1::IO_SECONDARY_STATUS, 0x0000_01f1, "I/O base F000h above limit 0FFFh, 32-bit"),
        (type1::MEMORY, 0x0000_fff0, "base FFF0_0000h above limit 000F_FFFFh"),
        (type1::PREFETCHABLE, 0x0001_fff1, "the same, 64-bit"),
        (type1::PREFETCHABLE_BASE_UPPER, 0, "upper"),
        (type1::IO_UPPER, 0, "upper"),
        (header::CAPABILITIES_POINTER, 0x40, "Subsystem ID capability"),
        (header::INTERRUPT, 0x0000_0200, "INTB, Bridge Control off"),
        (0x40 / 4, 0x0000_000d, "Subsystem ID capability, last"),
        (0x44 / 4, 0x5678_1234, "Subsystem ID, Subsystem Vendor ID"),
    ];
    let space = space();
    for (dw, value, what) in rows {
        assert_eq!(space.read(dw), value, "{what}: {:#x}", space.read(dw));
    }
    let windows = space.bridge().unwrap();
    assert_eq!((windows.io, windows.memory, windows.prefetchable), (None, None, None));
    assert!(!windows.claims_bus(0) && !windows.holds_memory(0) && !windows.holds_io(0));
}

/// Writable bits: DW, value read after all ones were written.
#[test]
fn only_writable_bits_keep_ones() {
    let rows = [
        (header::COMMAND_STATUS, 0x0010_0547),
        (header::MISC, 0x0001_00ff),
        (4, 0xffff_f000),
        (5, 0),
        (type1::BUS_NUMBERS, 0x00ff_ffff),
        (type1::IO_SECONDARY_STATUS, 0x0000_f1f1),
        (type1::MEMORY, 0xfff0_fff0),
        (type1::PREFETCHABLE, 0xfff1_fff1),
        (type1::PREFETCHABLE_BASE_UPPER, !0),
        (type1::PREFETCHABLE_LIMIT_UPPER, !0),
        (type1::IO_UPPER, !0),
        (type1::EXPANSION_ROM, 0),
        (header::INTERRUPT, 0x005f_02ff),
    ];
    let mut space = space();
    for (dw, value) in rows {
        space.write(dw, 0xf, !0);
        assert_eq!(space.read(dw), value, "DW {dw:#x}: {:#x}", space.read(dw));
    }
    let none = BridgeLayout { io: IoWindow::None, prefetchable: PrefetchableWindow::None };
    let mut none = builder().bridge(none).build().unwrap();
    let narrow = BridgeLayout { io: IoWindow::Bits16, prefetchable: PrefetchableWindow::Bits32 };
    let mut narrow = builder().bridge(narrow).build().unwrap();
    for dw in 4..16 {
        none.write(dw, 0xf, !0);
        narrow.write(dw, 0xf, !0);
    }
    let words = |s: &ConfigSpace| [7, 9, 10, 11, 12].map(|dw| s.read(dw));
    assert_eq!(words(&none), [0; 5]);
    assert_eq!(words(&narrow), [0xf0f0, 0xfff0_fff0, 0, 0, 0]);
    let windows = none.bridge().unwrap();
    assert_eq!((windows.io, windows.prefetchable), (None, None), "absent, not open at zero");
}

/// A port that is set up like by firmware: the effects of the writes, and the claimed addresses.
#[test]
fn port_claims_addresses_of_its_windows() {
    let mut space = space();
    for (dw, value, effects) in [
        (type1::BUS_NUMBERS, 0x0005_0302, Effects::BRIDGE),
        (type1::IO_SECONDARY_STATUS, 0x0000_2010, Effects::BRIDGE),
        (type1::IO_UPPER, 0x0001_0001, Effects::BRIDGE),
        (type1::MEMORY, 0xe010_e000, Effects::BRIDGE),
        (type1::PREFETCHABLE, 0x0001_0001, Effects::BRIDGE),
        (type1::PREFETCHABLE_BASE_UPPER, 0x8, Effects::BRIDGE),
        (type1::PREFETCHABLE_LIMIT_UPPER, 0x9, Effects::BRIDGE),
        (header::COMMAND_STATUS, command::MEMORY_SPACE, Effects::COMMAND),
        (header::INTERRUPT, bridge_control::SERR_ENABLE, Effects::BRIDGE),
    ] {
        assert_eq!(space.write(dw, 0xf, value), effects, "DW {dw:#x}");
    }
    let w = space.bridge().unwrap();
    assert_eq!((w.primary, w.secondary, w.subordinate), (2, 3, 5));
    assert_eq!(w.io, Some((0x1_1000, 0x1_2fff)));
    assert_eq!(w.memory, Some((0xe000_0000, 0xe01f_ffff)));
    assert_eq!(w.prefetchable, Some((0x8_0000_0000, 0x9_000f_ffff)));
    assert_eq!([2, 3, 4, 5, 6].map(|b| w.claims_bus(b)), [false, true, true, true, false]);
    let rows = [(0xdfff_ffff, false), (0xe000_0000, true), (0xe01f_ffff, true), (0xe020_0000, false)];
    for (address, claimed) in rows.into_iter().chain([(0x8_0000_0000, true), (0x9_0010_0000, false)]) {
        assert_eq!(w.claims_memory(address), claimed, "{address:#x}");
    }
    assert!(w.holds_io(0x1_1000) && !w.claims_io(0x1_1000), "I/O Space Enable is clear");
    assert!(w.serr_enable && !w.bus_master_enable && !w.secondary_bus_reset);
}

/// ISA Enable and VGA Enable (`PCIe 5.0 Table 7-12`): Bridge Control, port, claimed. The window is 0 to FFFFh.
#[test]
fn isa_and_vga_enable_select_claimed_addresses() {
    let rows = [
        (0, 0x1100, true),
        (bridge_control::ISA_ENABLE, 0x10ff, true),
        (bridge_control::ISA_ENABLE, 0x1100, false),
        (bridge_control::ISA_ENABLE, 0x13ff, false),
        (bridge_control::ISA_ENABLE | bridge_control::VGA_ENABLE, 0x03b0, true),
        (bridge_control::ISA_ENABLE | bridge_control::VGA_ENABLE, 0x03bc, false),
        (bridge_control::ISA_ENABLE | bridge_control::VGA_ENABLE, 0x07c5, true),
        (bridge_control::ISA_ENABLE | bridge_control::VGA_ENABLE | bridge_control::VGA_16_BIT, 0x07c5, false),
    ];
    for (control, port, claimed) in rows {
        let mut space = space();
        space.write(type1::IO_SECONDARY_STATUS, 0b11, 0xf000);
        space.write(header::COMMAND_STATUS, 1, command::IO_SPACE | command::MEMORY_SPACE);
        space.write(header::INTERRUPT, 0b1100, control);
        let windows = space.bridge().unwrap();
        assert_eq!(windows.claims_io(port), claimed, "{control:#x}, port {port:#x}");
        let vga = control & bridge_control::VGA_ENABLE != 0;
        assert_eq!((windows.claims_memory(0xa_0000), windows.claims_memory(0xc_0000)), (vga, false));
    }
}

#[test]
fn secondary_bus_reset_change_has_effect() {
    let mut space = space();
    let both = Effects::SECONDARY_BUS_RESET | Effects::BRIDGE;
    let reset = bridge_control::SECONDARY_BUS_RESET;
    assert_eq!(space.write(header::INTERRUPT, 0b1100, reset), both);
    assert!(space.bridge().unwrap().secondary_bus_reset);
    assert_eq!(space.write(header::INTERRUPT, 0b1100, reset), Effects::empty());
    assert_eq!(space.write(header::INTERRUPT, 0b1100, 0), both);
}

#[test]
fn secondary_status_is_set_and_cleared() {
    let mut space = space();
    space.set_status_of(Side::Secondary, !0);
    assert_eq!(space.read(type1::IO_SECONDARY_STATUS) & 0xffff_0000, status::RW1C);
    space.write(type1::IO_SECONDARY_STATUS, 0b1100, status::RECEIVED_MASTER_ABORT);
    let left = space.read(type1::IO_SECONDARY_STATUS) & 0xffff_0000;
    assert_eq!(left, status::RW1C & !status::RECEIVED_MASTER_ABORT);
    assert_eq!(space.read(header::COMMAND_STATUS) & status::RW1C, 0, "Status is another register");
}

#[test]
fn type_0_function_is_no_bridge() {
    let mut space = Builder::type0(identity()).build().unwrap();
    assert_eq!(space.bridge(), None);
    space.set_status_of(Side::Secondary, !0);
    assert_eq!(space.read(type1::IO_SECONDARY_STATUS), 0);
}

#[test]
fn rejects_impossible_bridges() {
    let base = || Builder::type1(identity());
    let slot = Some(SlotLayout::default());
    let rows = [
        (base().bar(2, Bar::memory32(4096)), BuildError::BarIndex(2)),
        (base().bar(1, Bar::memory64(4096)), BuildError::BarIndex(1)),
        (base().expansion_rom(1024), BuildError::RomSize(1024)),
        (base().expansion_rom(32 << 20), BuildError::RomSize(32 << 20)),
        (base().pcie(PcieLayout::default()), BuildError::PortType(PortType::Endpoint)),
        (
            Builder::type0(identity()).pcie(PcieLayout::port(PortType::RootPort)),
            BuildError::PortType(PortType::RootPort),
        ),
        (
            base().pcie(PcieLayout { slot, ..PcieLayout::port(PortType::Upstream) }),
            BuildError::Pcie(PortType::Upstream, "a slot; only root and downstream ports have one"),
        ),
        (
            base().pcie(PcieLayout { function_level_reset: true, ..PcieLayout::port(PortType::Downstream) }),
            BuildError::Pcie(PortType::Downstream, "function level reset; only endpoints have it"),
        ),
        (base().vendor_specific(&[0; 253]), BuildError::VendorBytes(253)),
        (
            base().vendor_specific(&[0; 120]).vendor_specific(&[0; 120]),
            BuildError::NoRoom { id: 9, at: 0x48 + 124, bytes: 124 },
        ),
    ];
    for (builder, error) in rows {
        assert_eq!(builder.build().err(), Some(error), "{error}");
    }
}

#[test]
fn extended_capabilities_are_chained_and_bounded() {
    use riser_config::register::Register;
    let words = |n: usize| vec![Register::default(); n];
    let space =
        builder().add_extended(0x1234, 3, words(4)).add_extended(0x000b, 1, words(2)).build().unwrap();
    assert_eq!((space.read(0x40), space.read(0x44)), (0x1103_1234, 0x0001_000b));
    assert_eq!((space.extended_capability(0x000b), space.extended_capability(1)), (Some(0x44), None));
    let rows = [
        (builder().add_extended(2, 1, words(1)).add_extended(2, 1, words(1)), BuildError::Twice(2)),
        (builder().add_extended(2, 1, words(0)), BuildError::Empty(2, 1)),
        (builder().add_extended(2, 16, words(1)), BuildError::Empty(2, 16)),
        (
            builder().add_extended(2, 1, words(900)).add_extended(3, 1, words(61)),
            BuildError::NoRoomExtended { id: 3, at: 0x100 + 3600, bytes: 244 },
        ),
    ];
    for (builder, error) in rows {
        assert_eq!(builder.build().err(), Some(error), "{error}");
    }
    assert!(builder().add_extended(2, 1, words(900)).add_extended(3, 1, words(60)).build().is_ok());
}
