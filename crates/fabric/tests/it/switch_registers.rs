// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of bridges' writable registers that no other test here covers, observed in the TLPs that a switch receives
//! and sends. `register_witnesses.rs` names the test of each register. Uses no internals.

use crate::common::tlps::poisoned;
use crate::switch_rig::*;
use config::ext::{aer, dpc};
use config::{Builder, Identity, PcieLayout, PortType, SlotEvent, SlotLayout};
use link::Notice;
use riser_fabric::BridgeOwner as _;
use riser_fabric::switch::{Action, Forwarding, PortArbitration, Switch};
use tlp::*;

const HOST: u8 = 0;

fn function(bus: u8) -> Bdf {
    bdf(bus, 0, 0)
}

fn pcie(rig: &Rig, port: u8, dw: u16) -> u16 {
    rig.switch.space(usize::from(port)).pcie_capability().unwrap() + dw
}

/// Returns the TLPs sent because of a write to a register, other than its completion.
fn told_by_write(rig: &mut Rig, port: u8, dw: u16, first_be: u8, value: u32) -> Vec<String> {
    let kind = if port == 0 { ConfigKind::Type0 } else { ConfigKind::Type1 };
    let body = ConfigRequest { op: Access::Write, kind, ..config_to(Rig::id(port), dw, first_be) };
    let data = Data::Carried(PayloadPool::new().copy(&value.to_le_bytes()));
    let mut told = lines(&rig.arrive(0, &Tlp::new(Repr::new(Body::Config(body)), data)));
    told.retain(|line| *line != format!("0: Cpl SC of {}", Rig::id(port)));
    told
}

/// The rig with a wide upstream port: all I/O from 1000h on, and all prefetchable memory from 4 GiB on.
fn wide() -> Rig {
    let mut rig = Rig::new();
    for (dw, enables, value) in
        [(7, 0x3, 0xf010), (12, 0xf, 0xffff_0000), (9, 0xf, 0xfff0_0000), (10, 0xf, 1), (11, 0xf, 0xff)]
    {
        rig.set(0, dw, enables, value);
    }
    // The prefetchable window of port 1: 10_0000_0000 to 10_0fff_ffff.
    for (dw, value) in [(9, 0x0ff0_0000), (10, 0x10), (11, 0x10)] {
        rig.set(1, dw, 0xf, value);
    }
    rig
}

/// A read of memory by the host, to find its egress port.
fn to_memory(address: u64) -> Tlp {
    read(function(HOST), address, 4)
}

fn to_io(address: u32) -> Tlp {
    io_read(function(HOST), address)
}

fn to_bus(bus: u8) -> Tlp {
    config_read(ConfigKind::Type1, function(bus))
}

/// `PCIe 5.0 §7.5.1.3`: each register of bus numbers and windows of port 1 moves one end of the range that it claims.
/// Rows: the register, the value written to it; a request just at that end, and whether port 1 claims it before and
/// after the write.
#[test]
fn each_register_sets_one_end_of_a_window() {
    let rows: [(&str, u16, u8, u32, Tlp, bool, bool); 20] = [
        ("Secondary Bus Number", 6, 0b0010, 0x0700, to_bus(3), true, false),
        ("Subordinate Bus Number", 6, 0b0100, 0x0006_0000, to_bus(6), false, true),
        ("I/O Base, up", 7, 0b0001, 0x20, to_io(0x1ffc), true, false),
        ("I/O Base, it stays", 7, 0b0001, 0x10, to_io(0x1000), true, true),
        ("I/O Limit, up", 7, 0b0010, 0x4000, to_io(0x4ffc), false, true),
        ("I/O Limit, not beyond", 7, 0b0010, 0x4000, to_io(0x5000), false, false),
        ("I/O Base Upper", 12, 0b0011, 0x0001, to_io(0x1000), true, false),
        ("I/O Limit Upper", 12, 0b1100, 0x0001_0000, to_io(0x1_1ffc), false, true),
        ("I/O Limit Upper, not beyond", 12, 0b1100, 0x0001_0000, to_io(0x1_2000), false, false),
        ("Memory Base, up", 8, 0b0011, 0x1010, to_memory(0x100f_fffc), true, false),
        ("Memory Base, from there", 8, 0b0011, 0x1010, to_memory(0x1010_0000), true, true),
        ("Memory Limit, down", 8, 0b1100, 0x1fe0_0000, to_memory(0x1ff0_0000), true, false),
        ("Memory Limit, up to there", 8, 0b1100, 0x1fe0_0000, to_memory(0x1fef_fffc), true, true),
        ("Prefetchable Base", 9, 0b0011, 0x0010, to_memory(0x10_0000_0000), true, false),
        ("Prefetchable Base, from there", 9, 0b0011, 0x0010, to_memory(0x10_0010_0000), true, true),
        ("Prefetchable Limit", 9, 0b1100, 0x1000_0000, to_memory(0x10_1000_0000), false, true),
        ("Prefetchable Base Upper", 10, 0xf, 0x0f, to_memory(0xf_0000_0000), false, true),
        ("Prefetchable Base Upper, not below", 10, 0xf, 0x0f, to_memory(0xe_fff0_0000), false, false),
        ("Prefetchable Limit Upper", 11, 0xf, 0x11, to_memory(0x11_0fff_fffc), false, true),
        ("Prefetchable Limit Upper, not beyond", 11, 0xf, 0x11, to_memory(0x11_1000_0000), false, false),
    ];
    for (what, dw, enables, value, tlp, before, behind) in rows {
        let mut rig = wide();
        let has = |rig: &mut Rig| lines(&rig.arrive(0, &tlp)).iter().any(|line| line.starts_with("1: "));
        assert_eq!(has(&mut rig), before, "{what}: before");
        rig.set(1, dw, enables, value);
        assert_eq!(has(&mut rig), behind, "{what}: behind");
    }
}

/// `PCIe 5.0 §7.5.1.3.13`: ISA Enable (bit 18 of the DW) leaves the upper 768 bytes of each KiB out of the I/O window
/// below 64 KiB; VGA Enable (bit 19) claims A0000h to BFFFFh and the ports 3B0h to 3BBh and 3C0h to 3DFh, with all
/// their aliases of 10 address bits. With VGA 16-bit Decode (bit 20) it does not claim the aliases.
#[test]
fn isa_and_vga_enable_select_claimed_addresses() {
    let (isa, vga, vga_16) = (1 << 18, 1 << 19, 1 << 19 | 1 << 20);
    let rows = [
        (0, to_io(0x1100), true),
        (isa, to_io(0x1100), false),
        (isa, to_io(0x10fc), true),
        (0, to_memory(0xa_0000), false),
        (vga, to_memory(0xa_0000), true),
        (vga, to_memory(0xb_fffc), true),
        (vga, to_memory(0xc_0000), false),
        (0, to_io(0x3c0), false),
        (vga, to_io(0x3c0), true),
        (vga, to_io(0x3bc), false),
        (vga, to_io(0x7c0), true),
        (vga_16, to_io(0x3c0), true),
        (vga_16, to_io(0x7c0), false),
    ];
    for (control, tlp, claimed) in rows {
        let mut rig = Rig::new();
        // The upstream port claims the VGA addresses, and their aliases, in any case.
        rig.set(0, 15, 0x4, vga);
        rig.set(1, 15, 0x4, control);
        let out = lines(&rig.arrive(0, &tlp));
        assert_eq!(out.iter().any(|line| line.starts_with("1: ")), claimed, "{control:#x}, {tlp}: {out:?}");
    }
}

/// `PCIe 5.0 §7.5.1.1.4`, §7.5.1.3.7: the bits of Status (DW 1) and Secondary Status (DW 7) of port 1 that a TLP or
/// message sets. Writing ones clears them.
#[test]
fn events_set_primary_and_secondary_status() {
    let error = |code| message(MessageRouting::ToRootComplex, function(3), code);
    let (parity, system) = (1 << 31, 1 << 30);
    let config_write = {
        let body = ConfigRequest { op: Access::Write, ..config_to(Rig::id(1), 6, 0xf) };
        Tlp::new(Repr::new(Body::Config(body)), Data::Carried(PayloadPool::new().copy(&[9; 4])))
    };
    let rows = [
        // Not advisory: its ERR_NONFATAL is a Signaled System Error.
        ("poisoned, from above", 0, poisoned(config_write), (parity | system, 0)),
        ("poisoned, from below", 1, poisoned(write(function(3), 0x8000_0000, 4)), (0, parity)),
        ("ERR_NONFATAL from below", 1, error(0x31), (system, system)),
        ("ERR_COR from below", 1, error(0x30), (0, 0)),
    ];
    for (what, ingress, tlp, expected) in rows {
        let mut rig = Rig::new();
        rig.set(1, 1, 0x3, 0x0107);
        rig.arrive(ingress, &tlp);
        let events = |rig: &mut Rig| (rig.get(1, 1) & 0xf900_0000, rig.get(1, 7) & 0xf900_0000);
        assert_eq!(events(&mut rig), expected, "{what}");
        rig.set(1, 1, 0xc, 0xf900_0000);
        assert_eq!(events(&mut rig), (0, expected.1), "{what}: ones to Status");
        rig.set(1, 7, 0xc, 0xf900_0000);
        assert_eq!(events(&mut rig), (0, 0), "{what}: ones to Secondary Status");
    }
}

/// Returns a switch whose port 1 has a slot with all optional parts.
fn with_full_slot() -> Rig {
    let slot = SlotLayout {
        number: 1,
        hot_plug: true,
        attention_button: true,
        power_controller: true,
        mrl_sensor: true,
        occupied: true,
        ..SlotLayout::default()
    };
    let pcie = PcieLayout { slot: Some(slot), ..PcieLayout::port(PortType::Downstream) };
    let space = Builder::type1(Identity::default()).interrupt_pin(1).pcie(pcie).build().unwrap();
    let mut config = config(1, Forwarding::StoreAndForward, PortArbitration::RoundRobin);
    config.downstream[0].space = space;
    let mut rig = Rig { switch: Switch::new(config).unwrap(), now: Time::ZERO };
    for (port, lanes) in [(0, 16), (1, 8)] {
        rig.switch.handle_notice(port, rig.now, Notice::Up { rate: RATE, width: width(lanes) });
    }
    rig.set(0, 6, 0xf, 0x0003_0201);
    rig.drain();
    let events = pcie_of(&rig);
    rig.set(1, events, 0xc, 0x1ff << 16);
    rig
}

fn pcie_of(rig: &Rig) -> u16 {
    pcie(rig, 1, 6)
}

/// `PCIe 5.0 §6.7.3.4`, §7.5.3.10, §7.5.3.11: each event of a slot interrupts if its own enable bit and Hot-Plug
/// Interrupt Enable (bit 5 of Slot Control) are set. Writing a one to its bit of Slot Status ends the interrupt. The
/// event, its enable in Slot Control, its bit of the DW.
#[test]
fn each_slot_event_depends_on_its_enable_bit() {
    let rows = [
        (Some(SlotEvent::AttentionButton), 1 << 0, 16),
        (Some(SlotEvent::PowerFault), 1 << 1, 17),
        (Some(SlotEvent::MrlSensor { open: true }), 1 << 2, 18),
        (Some(SlotEvent::Presence { present: false }), 1 << 3, 19),
        // Each write to Slot Control is a command.
        (None, 1 << 4, 20),
        (Some(SlotEvent::LinkState), 1 << 12, 24),
    ];
    const HOT_PLUG_INTERRUPT: u32 = 1 << 5;
    const ALL: u32 = 0x103f;
    for (event, enable, bit) in rows {
        for (control, interrupts) in [
            (enable | HOT_PLUG_INTERRUPT, true),
            (enable, false),
            // All other fields, except the event that the write itself causes.
            (ALL & !enable & !(1 << 4), false),
        ] {
            let mut rig = with_full_slot();
            let slot = pcie_of(&rig);
            let mut told = told_by_write(&mut rig, 1, slot, 0x3, control);
            if let Some(event) = event {
                rig.switch.handle_slot(1, rig.now, event);
                told.extend(lines(&rig.drain()));
            }
            let expected = if interrupts { vec!["0: Assert_INTA of 01:00.0"] } else { vec![] };
            assert_eq!(told, expected, "{event:?}, Slot Control {control:#x}");
            assert_eq!(rig.get(1, slot) >> bit & 1, 1, "{event:?} is logged in any case");
            let told = told_by_write(&mut rig, 1, slot, 0xc, 1 << bit);
            let expected = if interrupts { vec!["0: Deassert_INTA of 01:00.0"] } else { vec![] };
            // Writing Slot Status is no command.
            assert_eq!(told, expected, "{event:?}, Slot Control {control:#x}: cleared");
            assert_eq!(rig.get(1, slot) >> bit & 1, 0, "{event:?} is cleared");
        }
    }
}

/// Link Training (bit 27 of the DW) is set while the link below is in Recovery. Then Link Bandwidth Management Status
/// (bit 30) is set, and interrupts if bit 10 of Link Control enables it (`PCIe 5.0 §7.5.3.7`, `§7.5.3.8`).
#[test]
fn retrained_link_interrupts_if_enabled() {
    for enabled in [false, true] {
        let mut rig = with_full_slot();
        let link = pcie_of(&rig) - 2;
        rig.set(1, link, 0x3, u32::from(enabled) << 10);
        let seen = |rig: &mut Rig| [27, 30].map(|bit| rig.get(1, link) >> bit & 1);
        let wire = |what: &str| if enabled { vec![format!("0: {what}_INTA of 01:00.0")] } else { vec![] };
        rig.switch.handle_training(1, rig.now, true);
        assert_eq!((lines(&rig.drain()), seen(&mut rig)), (vec![], [1, 0]));
        rig.switch.handle_training(1, rig.now, false);
        assert_eq!((lines(&rig.drain()), seen(&mut rig)), (wire("Assert"), [0, 1]));
        assert_eq!(told_by_write(&mut rig, 1, link, 0xc, 1 << 30), wire("Deassert"));
        assert_eq!(seen(&mut rig), [0, 0]);
    }
}

/// Interrupt Disable, bit 10 of Command (`PCIe 5.0 §7.5.1.1.3`): the wire of a bridge is deasserted, but Interrupt
/// Status (bit 19 of the DW) still shows the interrupt.
#[test]
fn interrupt_disable_deasserts_the_wire() {
    let mut rig = with_full_slot();
    let slot = pcie_of(&rig);
    rig.set(1, slot, 0x3, 1 | 1 << 5);
    rig.switch.handle_slot(1, rig.now, SlotEvent::AttentionButton);
    assert_eq!(lines(&rig.drain()), ["0: Assert_INTA of 01:00.0"]);
    assert_eq!(told_by_write(&mut rig, 1, 1, 0x3, 1 << 10), ["0: Deassert_INTA of 01:00.0"]);
    assert_eq!(rig.get(1, 1) >> 19 & 1, 1, "Interrupt Status");
    assert_eq!(told_by_write(&mut rig, 1, 1, 0x3, 0), ["0: Assert_INTA of 01:00.0"]);
}

/// DL_Active ERR_COR Enable, bit 23 of the DW of DPC Control (`PCIe 5.0 §6.2.10.5`): a link that comes up sends ERR_COR
/// if Device Control reports correctable errors.
#[test]
fn link_up_is_reported_if_enabled() {
    for (control, reporting, expected) in
        [(1 << 23, 1, vec!["0: ERR_COR of 02:01.0"]), (0, 1, vec![]), (1 << 23, 0, vec![])]
    {
        let mut rig = Rig::new();
        let device_control = pcie(&rig, 2, 2);
        rig.set(2, device_control, 0x1, reporting);
        rig.set_extended(2, dpc::ID, dpc::CONTROL, control);
        rig.switch.handle_notice(2, rig.now, Notice::Down { surprise: false });
        rig.drain();
        rig.switch.handle_notice(2, rig.now, Notice::Up { rate: RATE, width: width(8) });
        let mut told = lines(&rig.drain());
        told.retain(|line| line.starts_with("0: "));
        assert_eq!(told, expected, "DPC Control {control:#x}, Device Control {reporting:#x}");
    }
}

/// DPC Interrupt Status, bit 3 of DPC Status (`PCIe 5.0 §6.2.10.1`): clearing it ends the interrupt, but the port stays
/// contained. Clearing DPC Trigger Status, bit 0, ends containment.
#[test]
fn each_containment_status_bit_clears_its_own_effect() {
    let mut rig = Rig::new();
    // Trigger Enable 01b, Interrupt Enable; then Software Trigger.
    rig.set_extended(1, dpc::ID, dpc::CONTROL, 1 << 16 | 1 << 19);
    let at = rig.switch.space(1).extended_capability(dpc::ID).unwrap();
    let told = told_by_write(&mut rig, 1, at + dpc::CONTROL, 0xf, 1 << 16 | 1 << 19 | 1 << 22);
    assert_eq!(told, ["0: Assert_INTA of 01:00.0"]);
    assert_eq!(rig.actions(), [(1, Action::Disable)]);
    assert_eq!(told_by_write(&mut rig, 1, at + dpc::STATUS, 0x1, 1 << 3), ["0: Deassert_INTA of 01:00.0"]);
    assert_eq!((rig.actions(), rig.extended(1, dpc::ID, dpc::STATUS) & 0b1001), (vec![], 0b0001));
    assert_eq!(told_by_write(&mut rig, 1, at + dpc::STATUS, 0x1, 1 << 0), [""; 0]);
    assert_eq!(
        (rig.actions(), rig.extended(1, dpc::ID, dpc::STATUS) & 0b1001),
        (vec![(1, Action::Enable)], 0)
    );
}

/// ECRC Generation Enable, bit 6 of Advanced Error Capabilities and Control (`PCIe 5.0 §2.7.1`): TLPs of the function
/// of a port have an ECRC: completions, error messages, interrupts. Forwarded TLPs stay unchanged.
#[test]
fn ecrc_is_generated_if_enabled() {
    for (generating, td) in [(None, [false; 2]), (Some(0), [true, false]), (Some(1), [false, true])] {
        let mut rig = Rig::new();
        for (port, capability) in [(0, pcie(&rig, 0, 2)), (1, pcie(&rig, 1, 2))] {
            rig.set(port, capability, 0x1, 0x9);
            rig.set_extended(port, aer::ID, aer::CORRECTABLE_MASK, 0);
        }
        if let Some(port) = generating {
            rig.set_extended(port, aer::ID, aer::CONTROL, 1 << 6);
        }
        let to = |port: u8| {
            config_read(if port == 0 { ConfigKind::Type0 } else { ConfigKind::Type1 }, Rig::id(port))
        };
        for port in [0, 1] {
            let answer = rig.arrive(0, &to(port));
            assert_eq!(
                td_of(&answer),
                [td[usize::from(port)]],
                "a completion of port {port}, {generating:?}"
            );
        }
        // Refused by the upstream port: a completion, and ERR_COR.
        let refused = rig.arrive(0, &read(function(HOST), 0x3800_0000, 4));
        assert_eq!(td_of(&refused), [td[0]; 2], "{}", lines(&refused).join("; "));
        // A wire of port 1 leaves as the upstream port's.
        let slot = pcie_of(&rig);
        rig.set(1, slot, 0x3, 1 << 3 | 1 << 5);
        rig.switch.handle_slot(1, rig.now, SlotEvent::Presence { present: false });
        let wire = rig.drain();
        assert_eq!(td_of(&wire), [td[0]], "{}", lines(&wire).join("; "));
        let passed = rig.arrive(1, &write(function(3), 0x8000_0000, 4));
        assert_eq!(td_of(&passed), [false]);
    }
}

fn td_of(sent: &[(usize, Tlp)]) -> Vec<bool> {
    sent.iter().map(|(_, tlp)| tlp.repr.td).collect()
}

/// Header Log Overflow, bit 15 of Correctable Error Status (`PCIe 5.0 §6.2.4.2`): the log has no room for a second
/// header. Writing a one clears the bit, and the mask bit of the same name suppresses ERR_COR.
#[test]
fn error_without_room_in_the_header_log_is_reported() {
    for (mask, told) in [(0, 1), (1 << 15, 0)] {
        let mut rig = Rig::new();
        let control = pcie(&rig, 0, 2);
        rig.set(0, control, 0x1, 0x1);
        rig.set_extended(0, aer::ID, aer::CORRECTABLE_MASK, mask);
        let nobody = write(function(HOST), 0x3800_0000, 4);
        assert_eq!(lines(&rig.arrive(0, &nobody)), [""; 0]);
        assert_eq!(lines(&rig.arrive(0, &nobody)), vec!["0: ERR_COR of 01:00.0"; told], "mask {mask:#x}");
        assert_eq!(rig.extended(0, aer::ID, aer::CORRECTABLE_STATUS), 1 << 15);
        rig.set_extended(0, aer::ID, aer::CORRECTABLE_STATUS, 1 << 15);
        assert_eq!(rig.extended(0, aer::ID, aer::CORRECTABLE_STATUS), 0);
    }
}

/// PowerState (`PCIe 5.0 §5.3.1.4.1`): in D3hot a port claims no memory and no I/O, and forwards no requests upstream.
#[test]
fn a_port_in_d3hot_claims_and_forwards_no_memory_requests() {
    let rows = [
        (0, to_memory(0x1000_0000), false),
        (0, to_io(0x1000), false),
        (0, to_bus(3), true),
        (1, write(function(3), 0x8000_0000, 4), false),
    ];
    for (ingress, tlp, passes) in rows {
        let mut rig = Rig::new();
        let pm = rig.switch.space(1).capability(1).unwrap() + 1;
        for (state, passes) in [(0b11, passes), (0b00, true)] {
            rig.set(1, pm, 0x1, state);
            let out = lines(&rig.arrive(ingress, &tlp));
            let there = format!("{}: {}", 1 - ingress, tlp.repr.name().replace("CfgRd1", "CfgRd0"));
            assert_eq!(out.contains(&there), passes, "{tlp}, PowerState {state:#b}: {out:?}");
        }
    }
}

/// LTR Mechanism Enable, bit 10 of Device Control 2 (`PCIe 5.0 §6.18`): with it a downstream port takes LTR messages, to no effect.
#[test]
fn ltr_is_accepted_if_enabled() {
    for enabled in [true, false] {
        let pcie = PcieLayout { ltr: true, ..PcieLayout::port(PortType::Downstream) };
        let space = Builder::type1(Identity::default()).pcie(pcie).advanced_error_reporting();
        let mut config = config(1, Forwarding::StoreAndForward, PortArbitration::RoundRobin);
        config.downstream[0].space = space.build().unwrap();
        let mut rig = Rig { switch: Switch::new(config).unwrap(), now: Time::ZERO };
        for port in [0, 1] {
            rig.switch.handle_notice(port, rig.now, Notice::Up { rate: RATE, width: width(8) });
        }
        rig.set(0, 6, 0xf, 0x0003_0201);
        let control_2 = self::pcie(&rig, 1, 10);
        rig.set(1, control_2, 0x3, u32::from(enabled) << 10);
        rig.arrive(1, &message(MessageRouting::Local, function(3), 0x10));
        let unsupported = rig.extended(1, aer::ID, aer::UNCORRECTABLE_STATUS);
        assert_eq!(unsupported, if enabled { 0 } else { 1 << 20 });
    }
}

/// `PCIe 5.0 §6.2.5`, `§7.5.3.4`: a port sends messages about its own errors if Device Control or SERR# Enable of
/// Command enables them. Their bits of Device Status are set in any case. Writing ones clears them.
#[test]
fn own_errors_depend_on_their_enable_bits() {
    let (cor, non_fatal, fatal, unsupported) = (1 << 0, 1 << 1, 1 << 2, 1 << 3);
    let nobody = 0x3800_0000;
    let refused = || read(function(HOST), nobody, 4);
    let posted = || write(function(HOST), nobody, 4);
    let malformed = || write(function(HOST), nobody, 512);
    // Name, TLP that arrives, Device Control, SERR#, message, Device Status.
    type Row = (&'static str, Tlp, u32, bool, Option<&'static str>, u32);
    let rows: [Row; 9] = [
        ("a write, nothing enabled", posted(), 0, false, None, 0b1010),
        ("a write, without Non-Fatal", posted(), cor | fatal | unsupported, false, None, 0b1010),
        ("a write, without UR", posted(), cor | non_fatal | fatal, false, None, 0b1010),
        ("a write, by both", posted(), non_fatal | unsupported, false, Some("ERR_NONFATAL"), 0b1010),
        ("a write, by SERR#", posted(), 0, true, Some("ERR_NONFATAL"), 0b1010),
        ("malformed, without Fatal", malformed(), cor | non_fatal | unsupported, false, None, 0b0100),
        ("malformed, by Fatal", malformed(), fatal, false, Some("ERR_FATAL"), 0b0100),
        ("a read, without Correctable", refused(), non_fatal | fatal | unsupported, false, None, 0b1001),
        ("a read, by Correctable", refused(), cor | unsupported, false, Some("ERR_COR"), 0b1001),
    ];
    for (what, tlp, control, serr, told, device_status) in rows {
        let mut rig = Rig::new();
        rig.set_extended(0, aer::ID, aer::CORRECTABLE_MASK, 0);
        let device_control = pcie(&rig, 0, 2);
        rig.set(0, device_control, 0x1, control);
        rig.set(0, 1, 0x3, 0x0007 | u32::from(serr) << 8);
        let mut out = lines(&rig.arrive(0, &tlp));
        out.retain(|line| line.contains("ERR_"));
        assert_eq!(out, Vec::from_iter(told.map(|told| format!("0: {told} of 01:00.0"))), "{what}");
        assert_eq!(rig.get(0, device_control) >> 16 & 0xf, device_status, "{what}");
        rig.set(0, device_control, 0x4, device_status << 16);
        assert_eq!(rig.get(0, device_control) >> 16 & 0xf, 0, "{what}: cleared");
    }
}

/// Every error of the link of a port, and a wrong ECRC: its status, its mask, its severity (`PCIe 5.0 §7.8.4`).
#[test]
fn errors_follow_mask_and_severity() {
    let header = [0x6000_0001, 0x0300_000f, 0, 0];
    let (correctable, uncorrectable) = (aer::CORRECTABLE_STATUS, aer::UNCORRECTABLE_STATUS);
    let rows = [
        (Some(Notice::ReceiverError), correctable, 0, "ERR_COR"),
        (Some(Notice::BadTlp), correctable, 6, "ERR_COR"),
        (Some(Notice::BadDllp), correctable, 7, "ERR_COR"),
        (Some(Notice::ReplayRollover), correctable, 8, "ERR_COR"),
        (Some(Notice::ReplayTimeout), correctable, 12, "ERR_COR"),
        (Some(Notice::CorrectedInternal), correctable, 14, "ERR_COR"),
        (Some(Notice::DataLinkProtocol), uncorrectable, 4, "ERR_FATAL"),
        (Some(Notice::FlowControlProtocol), uncorrectable, 13, "ERR_FATAL"),
        (Some(Notice::ReceiverOverflow { header }), uncorrectable, 17, "ERR_FATAL"),
        (Some(Notice::MalformedTlp { header }), uncorrectable, 18, "ERR_FATAL"),
        (Some(Notice::UncorrectableInternal), uncorrectable, 22, "ERR_FATAL"),
        (None, uncorrectable, 19, "ERR_NONFATAL"),
    ];
    for (notice, status, bit, told) in rows {
        for (masked, turned) in [(false, false), (true, false), (false, true)] {
            let mut rig = Rig::new();
            let device_control = pcie(&rig, 0, 2);
            rig.set(0, device_control, 0x1, 0xf);
            let mask = if masked { 1 << bit } else { 0 };
            let of_status = |dw| if status == dw { mask } else { 0 };
            rig.set_extended(0, aer::ID, aer::CORRECTABLE_MASK, of_status(correctable));
            rig.set_extended(0, aer::ID, aer::UNCORRECTABLE_MASK, of_status(uncorrectable));
            rig.set_extended(0, aer::ID, aer::CONTROL, 1 << 8);
            if turned {
                let severity = rig.extended(0, aer::ID, aer::SEVERITY);
                rig.set_extended(0, aer::ID, aer::SEVERITY, severity ^ 1 << bit);
            }
            match notice {
                Some(notice) => rig.switch.handle_notice(0, rig.now, notice),
                None => {
                    let mut tlp = write(function(HOST), 0x3800_0000, 4);
                    (tlp.repr.td, tlp.flaw) = (true, Flaw::WrongEcrc);
                    rig.put(0, &tlp);
                }
            }
            let expected = match told {
                _ if masked => None,
                "ERR_FATAL" if turned => Some("ERR_NONFATAL"),
                "ERR_NONFATAL" if turned => Some("ERR_FATAL"),
                told => Some(told),
            };
            let out = lines(&rig.drain());
            let what = format!("{notice:?}, masked {masked}, turned {turned}");
            assert_eq!(out, Vec::from_iter(expected.map(|told| format!("0: {told} of 01:00.0"))), "{what}");
            assert_eq!(rig.extended(0, aer::ID, status) >> bit & 1, 1, "{what}: status");
            rig.set_extended(0, aer::ID, status, 1 << bit);
            assert_eq!(rig.extended(0, aer::ID, status) >> bit & 1, 0, "{what}: writing a one clears it");
        }
    }
}

/// Message Address, Message Upper Address and Message Data (`PCIe 5.0 §7.7.1`): the address and data of a port's own interrupt.
#[test]
fn port_msi_follows_its_registers() {
    for (low, high, data) in
        [(0xfee0_0000, 0, 0x41), (0xfee1_0004, 0, 0x41), (0xfee0_0000, 1, 0x41), (0xfee0_0000, 0, 2)]
    {
        let mut rig = Rig::new();
        let msi = rig.switch.space(1).msi_capability().unwrap();
        for (dw, value) in [(1, low), (2, high), (3, data), (0, 1 << 16)] {
            rig.set(1, msi + dw, 0xf, value);
        }
        let slot = pcie_of(&rig);
        rig.set(1, slot, 0x3, 1 << 3 | 1 << 5);
        rig.switch.handle_slot(1, rig.now, SlotEvent::Presence { present: false });
        let out = rig.drain();
        let Body::Memory(m) = out[0].1.repr.body else { panic!("an MSI is a write: {}", out[0].1) };
        assert_eq!(m.span.address(), u64::from(high) << 32 | u64::from(low));
        assert_eq!(out[0].1.data.bytes(), Some(&data.to_le_bytes()[..]));
    }
}
