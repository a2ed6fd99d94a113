// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of configuration spaces for any writes. The fuzz target and the tests of `riser-config` call them on
//! every seed and on random bytes. A failed check panics.
//!
//! The first byte selects a function. Each seven bytes after it are a step: register (two bytes, little-endian),
//! byte enables in bits 3:0 of the third byte, value (four bytes). If bits 7:4 of the third byte are all ones, the
//! step is a hardware event or a reset instead.

use riser_config::cap::pcie::SlotEvent;
use riser_config::register::Attribute;
use riser_config::{
    Acs, AcsLayout, AtsLayout, Bar, BarKind, Builder, ConfigSpace, DpcLayout, Identity, MsiLayout,
    MsiOptions, MsixLayout, PasidLayout, PcieLayout, PmLayout, PortType, PtmLayout, ResetScope, ResizableBar,
    SlotLayout, SriovLayout, Uncorrectable, VcLayout,
};

/// Number of DWs in a function's configuration space (4 KiB).
const REGISTERS: u16 = 1024;

fn identity(class: u32) -> Identity {
    Identity {
        vendor: 0x1234,
        device: 0x5678,
        revision: 1,
        class,
        subsystem_vendor: 0x9abc,
        subsystem: 0xdef0,
    }
}

fn endpoint() -> Builder {
    Builder::type0(identity(0x02_00_00))
        .bar(0, Bar::memory64(1 << 20).prefetchable())
        .bar(2, Bar::memory32(4096))
        .bar(3, Bar::io(64))
        .expansion_rom(64 << 10)
        .interrupt_pin(1)
        .power_management_with(PmLayout { no_soft_reset: false, pme: true })
        .msi(MsiLayout { vectors: 16 })
        .msi_options(MsiOptions { masking: true, address_32: false })
        .msix(MsixLayout { vectors: 65, table: (2, 0), pending: (2, 0x800) })
        .pcie(PcieLayout { ten_bit_tag: true, ltr: true, end_end_prefixes: 2, ..PcieLayout::default() })
        .vendor_specific(b"riser")
        .advanced_error_reporting()
        .alternative_routing(0)
        .single_root_virtualization(SriovLayout::new(64, 0x5679).bar(0, Bar::memory64(16 << 10)))
        .resizable_bars(&[ResizableBar::range(0, 1 << 20, 1 << 30)])
        .virtual_channels(VcLayout::default())
        .address_translation(AtsLayout::default())
        .page_request(32)
        .process_address_space(PasidLayout { width: 20, execute: true, privileged: true })
        .latency_tolerance()
        .l1_substates(10)
        .precision_time(PtmLayout { requester: true, responder: false, root: false, granularity_ns: 0 })
        .serial_number(0x0102_0304_0506_0708)
        .link_capabilities()
}

fn virtual_function() -> Builder {
    Builder::virtual_function(identity(0x02_00_00))
        .msix(MsixLayout { vectors: 4, table: (0, 0), pending: (0, 0x800) })
        .pcie(PcieLayout::default())
        .advanced_error_reporting()
        .alternative_routing(0)
}

fn bridge(port: PortType) -> Builder {
    let slot = SlotLayout { power_limit_value: 75, occupied: true, ..SlotLayout::with_all(7) };
    let slot = port.is_above_link().then_some(slot);
    Builder::type1(identity(0x06_04_00))
        .bar(0, Bar::memory64(16 << 10))
        .power_management()
        .msi(MsiLayout { vectors: 2 })
        .msi_options(MsiOptions { masking: true, address_32: true })
        .pcie(PcieLayout { slot, ltr: true, end_end_prefixes: 4, ..PcieLayout::port(port) })
        .advanced_error_reporting()
        .access_control(AcsLayout { capable: Acs::all(), egress_bits: 40 })
        .downstream_port_containment(DpcLayout {
            interrupt_message: 1,
            root_port: port == PortType::RootPort,
        })
        .virtual_channels(VcLayout::default())
        .link_capabilities()
}

/// Number of kinds of functions.
pub(crate) const KINDS: usize = 5;

/// Returns a function of the kind `kind` modulo [`KINDS`].
pub(crate) fn function(kind: usize) -> ConfigSpace {
    let builder = match kind % KINDS {
        0 => endpoint(),
        1 => bridge(PortType::RootPort),
        2 => bridge(PortType::Upstream),
        3 => bridge(PortType::Downstream),
        _ => virtual_function(),
    };
    builder.build().expect("a legal function")
}

/// Runs the steps, and checks the function against its initial state after each.
pub(crate) fn writes(bytes: &[u8]) {
    let Some((&choice, steps)) = bytes.split_first() else { return };
    let built = &function(usize::from(choice));
    let mut space = built.clone();
    for step in steps.chunks_exact(7).take(256) {
        let dw = u16::from_le_bytes([step[0], step[1]]) % (REGISTERS + 64);
        let value = u32::from_le_bytes([step[3], step[4], step[5], step[6]]);
        if step[2] >> 4 == 0xf {
            event(&mut space, dw, value);
        } else {
            space.write(dw, step[2] & 0xf, value);
        }
        consistent(built, &space);
    }
    every_fixed_bit_stays(built, &space);
    space.reset(ResetScope::Fundamental);
    for dw in 0..REGISTERS {
        let state = built.register(dw).access.state;
        assert_eq!(space.read(dw) & !state, built.read(dw) & !state, "DW {dw:#x} after a fundamental reset");
    }
}

fn event(space: &mut ConfigSpace, which: u16, value: u32) {
    match which % 12 {
        0 => space.reset(ResetScope::Hot),
        1 => space.reset(ResetScope::FunctionLevel),
        2 => drop(space.set_slot_event(SlotEvent::Presence { present: value & 1 == 1 })),
        3 => drop(space.set_slot_event(SlotEvent::AttentionButton)),
        4 => drop(space.set_slot_event(SlotEvent::CommandCompleted)),
        5 => drop(space.root_pme(value as u16)),
        6 => drop(space.set_pme()),
        7 => drop(space.set_bar_size((value & 7) as u8, 1 << (value >> 8 & 63))),
        8 => space.set_msi_pending(value),
        9 => {
            let error = Uncorrectable::ALL[value as usize % Uncorrectable::ALL.len()];
            let _ = space.log(riser_config::ErrorReport::new(error).header([value; 4]));
        }
        10 => space.set_transactions_pending(value & 1 == 1),
        _ => space.set_status(value),
    }
}

fn consistent(built: &ConfigSpace, space: &ConfigSpace) {
    for index in 0..6 {
        let (was, is) = (built.bar(index), space.bar(index));
        assert_eq!(was.map(|w| w.kind), is.map(|w| w.kind));
        if let Some(window) = is {
            assert!(
                window.size.is_power_of_two() && window.address.is_multiple_of(window.size),
                "{window:?}"
            );
            assert!(window.kind == BarKind::Memory64 || window.address >> 32 == 0);
        }
    }
    if let Some(rom) = space.expansion_rom() {
        assert!(rom.address.is_multiple_of(rom.size));
    }
    assert_eq!(built.bridge().is_some(), space.bridge().is_some());
    if let Some(windows) = space.bridge() {
        for (window, granule) in
            [(windows.io, 0x1000), (windows.memory, 1 << 20), (windows.prefetchable, 1 << 20)]
        {
            let Some((first, last)) = window else { continue };
            assert!(first <= last && first % granule == 0 && last % granule == granule - 1);
        }
    }
    assert!(space.msi().is_none_or(|m| m.vectors <= 16));
    assert!(space.mps() <= built.mps().max(riser_config::PcieLayout::default().mps_supported));
}

/// Checks that hardware-initialized fields, reserved bits and triggers still have their initial values.
fn every_fixed_bit_stays(built: &ConfigSpace, space: &ConfigSpace) {
    for dw in 0..REGISTERS {
        let register = built.register(dw);
        let named = register.fields.iter().fold(0, |all, f| all | f.bits);
        let fixed = register
            .fields
            .iter()
            .filter(|f| f.attribute == Attribute::HwInit)
            .fold(0, |all, f| all | f.bits);
        let fixed = fixed | register.access.trigger | if dw < 64 && named != 0 { !named } else { 0 };
        assert_eq!(space.read(dw) & fixed, built.read(dw) & fixed, "DW {dw:#x}");
    }
}
