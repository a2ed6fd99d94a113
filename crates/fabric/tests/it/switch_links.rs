// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behaviour of a switch when links go down and come up, when errors are detected, and for the messages that it gathers.

use crate::switch_rig::*;
use config::SlotEvent;
use config::ext::{aer, dpc};
use link::Notice;
use riser_fabric::BridgeOwner as _;
use riser_fabric::switch::{
    Action, Forwarding, PortArbitration, Switch, SwitchConfig, SwitchError, SwitchPortConfig,
};
use tlp::*;

const HOST: u8 = 0;

fn function(bus: u8) -> Bdf {
    bdf(bus, 0, 0)
}

/// DW of a register of the PCI Express capability of `port`.
fn pcie(rig: &Rig, port: u8, dw: u16) -> u16 {
    rig.switch.space(usize::from(port)).pcie_capability().unwrap() + dw
}

/// Device Control of `port`: reports errors of all classes.
fn report_errors(rig: &mut Rig, port: u8) {
    let at = pcie(rig, port, 2);
    rig.set(port, at, 0x1, 0xf);
    rig.set_extended(port, aer::ID, aer::CORRECTABLE_MASK, 0);
}

fn notice(rig: &mut Rig, port: usize, notice: Notice) -> Vec<String> {
    rig.switch.handle_notice(port, rig.now, notice);
    lines(&rig.drain())
}

fn down(surprise: bool) -> Notice {
    Notice::Down { surprise }
}

fn up() -> Notice {
    Notice::Up { rate: RATE, width: width(8) }
}

/// `PCIe 5.0 Table 2-22`: INTx of device d of the internal bus becomes INT(x + d mod 4). Wires are joined by OR.
#[test]
fn interrupt_wires_are_merged_and_rotated() {
    let mut rig = Rig::new();
    let mut wire = |port: usize, code: u8| {
        let tlp = message(MessageRouting::Local, function([0, 3, 4, 6][port]), code);
        lines(&rig.arrive(port, &tlp))
    };
    let of_switch = |text: &str| vec![format!("0: {text} of 01:00.0")];
    // Port 1 is device 0: INTA stays INTA. Port 2 is device 1: INTD becomes INTA. Port 3 is device 2.
    assert_eq!(wire(1, 0x20), of_switch("Assert_INTA"));
    assert_eq!(wire(1, 0x20), [""; 0], "asserted already");
    assert_eq!(wire(2, 0x23), [""; 0], "INTA is asserted by port 1");
    assert_eq!(wire(2, 0x21), of_switch("Assert_INTC"));
    assert_eq!(wire(3, 0x20), [""; 0], "INTC is asserted by port 2");
    assert_eq!(wire(1, 0x24), [""; 0], "port 2 holds INTA");
    assert_eq!(wire(2, 0x27), of_switch("Deassert_INTA"));
    assert_eq!(wire(2, 0x25), [""; 0], "port 3 holds INTC");
    assert_eq!(wire(3, 0x24), of_switch("Deassert_INTC"));
    assert_eq!(wire(3, 0x24), [""; 0], "deasserted already");
}

/// An interrupt message pushes the writes before it, as an MSI would (`PCIe 5.0 §2.2.8.1`).
#[test]
fn interrupt_message_follows_earlier_writes() {
    let mut rig = Rig::new();
    rig.put(1, &write(function(3), 0x8000_0000, 64));
    rig.put(1, &message(MessageRouting::Local, function(3), 0x20));
    assert_eq!(lines(&rig.drain()), ["0: MWr", "0: Assert_INTA of 01:00.0"]);
}

/// `PCIe 5.0 §2.9.1`: a link that is down asserts no wire.
#[test]
fn interrupt_wires_of_a_lost_link_are_deasserted() {
    let mut rig = Rig::new();
    rig.arrive(2, &message(MessageRouting::Local, function(4), 0x20));
    assert_eq!(notice(&mut rig, 2, down(false)), ["0: Deassert_INTB of 01:00.0"]);
}

/// An Assert that was not sent before its link goes down has no effect, and leaves no wire asserted.
#[test]
fn interrupt_of_a_lost_link_has_no_effect() {
    let mut rig = Rig::new();
    rig.put(2, &message(MessageRouting::Local, function(4), 0x20));
    assert_eq!(notice(&mut rig, 2, down(false)), [""; 0]);
    assert!(rig.switch.is_empty());
}

/// `PCIe 5.0 §6.9`: the limit goes down when a link with a slot comes up, and is captured above. Value 7.5 W is 75 by
/// 0.1 (scale 1).
#[test]
fn slot_power_limit_is_sent_down_and_captured() {
    let mut rig = Rig::new();
    notice(&mut rig, 1, down(false));
    rig.switch.handle_notice(1, rig.now, up());
    let out = rig.drain();
    assert_eq!(lines(&out), ["1: Set_Slot_Power_Limit of 02:00.0"]);
    let (value, scale) = rig.switch.space(1).slot_power_limit().unwrap();
    assert_eq!(out[0].1.data.bytes(), Some(&[value, scale, 0, 0][..]));
    let mut limit = message(MessageRouting::Local, function(HOST), 0x50);
    if let Body::Message(m) = &mut limit.repr.body {
        m.length_dw = Some(1);
    }
    limit.data = Data::Carried(PayloadPool::new().copy(&[75, 1, 0, 0]));
    assert_eq!(lines(&rig.arrive(0, &limit)), [""; 0]);
    let at = pcie(&rig, 0, 1);
    assert_eq!(rig.get(0, at) >> 18 & 0x3ff, 1 << 8 | 75, "Device Capabilities 27:18");
}

/// `PCIe 5.0 §5.3.3.2.1`: PME_Turn_Off goes to all ports, and one PME_TO_Ack is sent for all.
#[test]
fn switch_sends_one_pme_to_ack_for_all_ports() {
    let turn_off = message(MessageRouting::Broadcast, function(HOST), 0x19);
    let ack = |bus| message(MessageRouting::Gathered, function(bus), 0x1b);
    let mut rig = Rig::new();
    assert_eq!(rig.arrive(0, &turn_off).len(), 3);
    assert_eq!(lines(&rig.arrive(1, &ack(3))), [""; 0]);
    assert_eq!(lines(&rig.arrive(1, &ack(3))), [""; 0], "twice is once");
    assert_eq!(lines(&rig.arrive(3, &ack(6))), [""; 0]);
    assert_eq!(lines(&rig.arrive(2, &ack(4))), ["0: PME_TO_Ack of 01:00.0"]);
    // The switch does not wait for links that are down or go down.
    rig.arrive(0, &turn_off);
    rig.arrive(1, &ack(3));
    rig.arrive(2, &ack(4));
    assert_eq!(notice(&mut rig, 3, down(true)).last().unwrap(), "0: PME_TO_Ack of 01:00.0");
    assert_eq!(rig.arrive(0, &turn_off).len(), 2);
    notice(&mut rig, 1, down(false));
    assert_eq!(notice(&mut rig, 2, down(false)), ["0: PME_TO_Ack of 01:00.0"]);
    assert_eq!(lines(&rig.arrive(0, &turn_off)), ["0: PME_TO_Ack of 01:00.0"], "nobody is left");
}

/// `PCIe 5.0 §2.9.1`: TLPs that wait for a link when it goes down, later TLPs for this link, and TLPs that the link had
/// not sent.
#[test]
fn requests_to_a_link_that_is_down_are_refused() {
    let mut rig = Rig::new();
    rig.credits(0);
    rig.credits(1);
    rig.put(0, &read(function(HOST), 0x2000_0000, 64));
    rig.put(0, &write(function(HOST), 0x2000_0000, 64));
    rig.put(1, &read(function(3), 0x2000_0000, 64));
    rig.put(1, &completion(function(3), function(4), 64));
    rig.put(0, &read(function(HOST), 0x1000_0000, 64));
    let mut out = notice(&mut rig, 2, down(true));
    out.sort();
    assert_eq!(out, ["0: Cpl UR of 02:01.0", "1: Cpl UR of 02:01.0", "1: MRd"]);
    assert_eq!((rig.credits(0), rig.credits(1)), ([1, 2, 0], [0, 1, 1]));
    assert_eq!(rig.extended(2, aer::ID, aer::UNCORRECTABLE_STATUS) & 1 << 5, 1 << 5, "Surprise Down");
    let late = [
        (read(function(HOST), 0x2000_0000, 64), vec!["0: Cpl UR of 02:01.0"]),
        (write(function(HOST), 0x2000_0000, 64), vec![]),
        (completion(function(HOST), function(4), 64), vec![]),
        (read(function(HOST), 0x1000_0000, 64), vec!["1: MRd"]),
    ];
    for (tlp, expected) in late {
        assert_eq!(lines(&rig.arrive(0, &tlp)), expected, "{tlp}");
    }
    rig.switch.handle_lost(2, rig.now, &read(function(HOST), 0x2000_0000, 64));
    rig.switch.handle_lost(2, rig.now, &read(function(3), 0x2000_0000, 64));
    rig.switch.handle_lost(2, rig.now, &write(function(3), 0x2000_0000, 64));
    assert_eq!(lines(&rig.drain()), ["0: Cpl UR of 02:01.0", "1: Cpl UR of 02:01.0"]);
    notice(&mut rig, 2, up());
    assert_eq!(lines(&rig.arrive(0, &read(function(HOST), 0x2000_0000, 64))), ["2: MRd"]);
}

/// A restarted link has all its credits: TLPs from before owe it none. TLPs that the link had carried are forwarded.
#[test]
fn restored_link_gets_no_old_credits() {
    let mut rig = Rig::new();
    rig.credits(1);
    rig.put(1, &write(function(3), 0x8000_0000, 64));
    notice(&mut rig, 1, down(false));
    assert_eq!(rig.credits(1), [0; 3]);
    rig.put(1, &write(function(3), 0x8000_0000, 64));
    rig.drain();
    assert_eq!(rig.credits(1), [1, 0, 0], "of the second write alone");
}

/// `PCIe 5.0 §6.6.1`: a reset from above reaches every register and every link.
#[test]
fn loss_of_upstream_link_resets_all_ports() {
    let mut rig = Rig::new();
    rig.put(1, &read(function(3), 0x8000_0000, 64));
    assert_eq!(notice(&mut rig, 0, down(false)), [""; 0]);
    assert!(rig.switch.is_empty(), "nothing is left");
    assert_eq!(rig.actions(), [1, 2, 3].map(|port| (port, Action::HoldReset)));
    for port in 1..4 {
        notice(&mut rig, port, down(false));
    }
    for port in 0..4 {
        assert_eq!(
            (rig.switch.space(port).read(6), rig.switch.space(port).read(1) & 7),
            (0, 0),
            "port {port}"
        );
    }
    notice(&mut rig, 0, up());
    assert_eq!(rig.actions(), [1, 2, 3].map(|port| (port, Action::ReleaseReset)));
}

/// Power Controller Control, bit 10 of Slot Control (`PCIe 5.0 §7.5.3.10`): each write of off or on has one effect. A
/// hot reset of the port restores the default, which is on.
#[test]
fn software_switches_slot_power() {
    let mut rig = Rig::new();
    let slot_control = pcie(&rig, 2, 6);
    for value in [1 << 10, 1 << 10 | 1, 0, 1 << 10] {
        rig.set(2, slot_control, 0x3, value);
    }
    assert_eq!(rig.actions(), [(2, Action::PowerOff), (2, Action::PowerOn), (2, Action::PowerOff)]);
    rig.set(0, 15, 0x4, 1 << 22);
    let mut actions = rig.actions();
    actions.retain(|(port, _)| *port == 2);
    assert_eq!(actions, [(2, Action::PowerOn), (2, Action::HoldReset)]);
}

/// `PCIe 5.0 §7.5.1.3.13`, bit 22 of the DW, and §7.5.3.7, bits 4 and 5 of Link Control.
#[test]
fn software_resets_disables_and_retrains_links() {
    let mut rig = Rig::new();
    rig.set(2, 15, 0x4, 1 << 22);
    assert_eq!(rig.actions(), [(2, Action::HoldReset)]);
    let refused = rig.arrive(0, &read(function(HOST), 0x2000_0000, 4));
    assert_eq!(lines(&refused), ["0: Cpl UR of 02:01.0"], "at once, before the link reports that it is down");
    rig.set(2, 15, 0x4, 0);
    assert_eq!(rig.actions(), [(2, Action::ReleaseReset)]);
    let link_control = pcie(&rig, 3, 4);
    rig.set(3, link_control, 0x1, 1 << 4);
    rig.set(3, link_control, 0x1, 0);
    rig.set(3, link_control, 0x1, 1 << 5);
    assert_eq!(rig.actions(), [(3, Action::Disable), (3, Action::Enable), (3, Action::Retrain)]);
    // Secondary Bus Reset of the upstream port resets the downstream ports.
    rig.set(0, 15, 0x4, 1 << 22);
    assert_eq!(rig.actions(), [1, 2, 3].map(|port| (port, Action::HoldReset)));
    assert_eq!(rig.switch.space(1).read(6), 0, "bus numbers of port 1 are reset");
    assert_eq!(rig.switch.space(0).read(6), 0x0006_0201, "those of port 0 are not");
    rig.set(0, 15, 0x4, 0);
    assert_eq!(rig.actions(), [1, 2, 3].map(|port| (port, Action::ReleaseReset)));
}

/// Link errors, `PCIe 5.0 Tables 6-3 to 6-5`: the bit of AER's status, and the message.
#[test]
fn link_errors_are_logged_and_reported() {
    let header = [0x6000_0001, 0x0300_000f, 0, 0];
    let rows = [
        (Notice::ReceiverError, aer::CORRECTABLE_STATUS, 0, "ERR_COR"),
        (Notice::BadTlp, aer::CORRECTABLE_STATUS, 6, "ERR_COR"),
        (Notice::BadDllp, aer::CORRECTABLE_STATUS, 7, "ERR_COR"),
        (Notice::ReplayRollover, aer::CORRECTABLE_STATUS, 8, "ERR_COR"),
        (Notice::ReplayTimeout, aer::CORRECTABLE_STATUS, 12, "ERR_COR"),
        (Notice::DataLinkProtocol, aer::UNCORRECTABLE_STATUS, 4, "ERR_FATAL"),
        (Notice::FlowControlProtocol, aer::UNCORRECTABLE_STATUS, 13, "ERR_FATAL"),
        (Notice::ReceiverOverflow { header }, aer::UNCORRECTABLE_STATUS, 17, "ERR_FATAL"),
        (Notice::MalformedTlp { header }, aer::UNCORRECTABLE_STATUS, 18, "ERR_FATAL"),
    ];
    for port in [0, 2] {
        let id = Rig::id(port);
        for (what, status, bit, text) in rows {
            let mut rig = Rig::new();
            report_errors(&mut rig, port);
            // At the upstream bridge, uncorrectable errors pass with SERR# Enable of its Command.
            rig.set(0, 1, 0x3, 0x0107);
            let told = notice(&mut rig, usize::from(port), what);
            assert_eq!(told, [format!("0: {text} of {id}")], "{what:?} at port {port}");
            assert_eq!(rig.extended(usize::from(port), aer::ID, status), 1 << bit, "{what:?} at port {port}");
        }
        let mut rig = Rig::new();
        notice(&mut rig, usize::from(port), Notice::MalformedTlp { header });
        assert_eq!(rig.extended(usize::from(port), aer::ID, aer::HEADER_LOG), header[0]);
    }
}

/// `PCIe 5.0 §6.2.3.2.4.1`: a request that a completion refuses is an advisory error; a posted one is not.
#[test]
fn refused_requests_are_logged_with_their_header() {
    let rows = [
        (read(function(HOST), 0x3800_0000, 4), "0: ERR_COR of 01:00.0", 1 << 13),
        (write(function(HOST), 0x3800_0000, 4), "0: ERR_NONFATAL of 01:00.0", 0),
    ];
    for (tlp, told, advisory) in rows {
        let mut rig = Rig::new();
        report_errors(&mut rig, 0);
        let out = lines(&rig.arrive(0, &tlp));
        assert!(out.contains(&told.to_string()), "{tlp}: {out:?}");
        assert_eq!(rig.extended(0, aer::ID, aer::UNCORRECTABLE_STATUS), 1 << 20, "{tlp}");
        assert_eq!(rig.extended(0, aer::ID, aer::CORRECTABLE_STATUS), advisory, "{tlp}");
        assert_eq!(rig.extended(0, aer::ID, aer::HEADER_LOG + 2), 0x3800_0000, "{tlp}: the address is DW 2");
    }
}

/// A poisoned TLP is forwarded, and reported as advisory (`PCIe 5.0 §6.2.3.2.4.3`); a poisoned configuration write does
/// nothing (§2.7.2.2).
#[test]
fn poisoned_tlps_are_forwarded_and_reported() {
    let poisoned = |tlp: Tlp| Tlp { repr: Repr { ep: true, ..tlp.repr }, ..tlp };
    let mut rig = Rig::new();
    report_errors(&mut rig, 1);
    let out = lines(&rig.arrive(1, &poisoned(write(function(3), 0x2000_0000, 4))));
    assert_eq!(out, ["0: ERR_COR of 02:00.0", "2: MWr"]);
    assert_eq!(rig.extended(1, aer::ID, aer::UNCORRECTABLE_STATUS), 1 << 12);
    let mut write = config_read(ConfigKind::Type1, Rig::id(2));
    if let Body::Config(c) = &mut write.repr.body {
        (c.op, c.register_dw) = (Access::Write, 6);
    }
    let write = Tlp { data: Data::Carried(PayloadPool::new().copy(&[9; 4])), ..write };
    assert_eq!(lines(&rig.arrive(0, &poisoned(write))), ["0: Cpl UR of 02:01.0"]);
    assert_eq!(rig.get(2, 6), 0x0005_0402, "the register is as it was");
}

/// `PCIe 5.0 §6.2.6`: error messages pass a bridge with SERR# Enable of Bridge Control (bit 17), uncorrectable ones with
/// SERR# Enable of Command (bit 8) as well.
#[test]
fn bridges_forward_error_messages() {
    let rows = [
        (0x30, 0x0002_0000, 0x0007, true),
        (0x30, 0, 0x0007, false),
        (0x31, 0x0002_0000, 0x0107, true),
        (0x31, 0x0002_0000, 0x0007, false),
        (0x33, 0, 0x0107, false),
    ];
    for (code, bridge_control, command, passes) in rows {
        let mut rig = Rig::new();
        for port in [0, 1] {
            rig.set(port, 15, 0x4, bridge_control);
            rig.set(port, 1, 0x3, command);
        }
        let out = rig.arrive(1, &message(MessageRouting::ToRootComplex, function(3), code));
        assert_eq!(out.len(), usize::from(passes), "code {code:#x}, {bridge_control:#x}, {command:#x}");
        assert_eq!(rig.credits(1)[0], 1);
    }
}

/// `PCIe 5.0 §6.2.10`: ERR_FATAL from below triggers containment; the link goes down and stays down until the status is
/// cleared; requests are completed according to DPC Completion Control. Control: 01b is ERR_FATAL, bit 18 is UR.
#[test]
fn fatal_message_triggers_containment() {
    for (control, completion_status) in [(1 << 16, "CA"), (1 << 16 | 1 << 18, "UR")] {
        let mut rig = Rig::new();
        rig.set_extended(2, dpc::ID, dpc::CONTROL, control);
        let fatal = message(MessageRouting::ToRootComplex, function(4), 0x33);
        assert_eq!(
            lines(&rig.arrive(2, &message(MessageRouting::ToRootComplex, function(4), 0x30))).len(),
            1
        );
        assert_eq!(lines(&rig.arrive(2, &fatal)), [""; 0], "it ends here");
        assert_eq!(rig.actions(), [(2, Action::Disable)]);
        // Reason 10b: ERR_FATAL; source 04:00.0.
        assert_eq!(rig.extended(2, dpc::ID, dpc::STATUS), 0x0400_0005);
        let read_b = read(function(HOST), 0x2000_0000, 4);
        let refused = [format!("0: Cpl {completion_status} of 02:01.0")];
        assert_eq!(lines(&rig.arrive(0, &read_b)), refused, "before the link is down");
        assert_eq!(
            lines(&rig.arrive(2, &write(function(4), 0x8000_0000, 4))),
            [""; 0],
            "from below: dropped"
        );
        notice(&mut rig, 2, down(false));
        assert_eq!(lines(&rig.arrive(0, &read_b)), refused, "while it is down");
        assert_eq!(rig.extended(2, aer::ID, aer::UNCORRECTABLE_STATUS), 0, "that is no error");
        rig.set_extended(2, dpc::ID, dpc::STATUS, 1);
        assert_eq!(rig.actions(), [(2, Action::Enable)]);
        notice(&mut rig, 2, up());
        assert_eq!(lines(&rig.arrive(0, &read_b)), ["2: MRd"]);
    }
}

/// An error that the port itself detects triggers containment too, and so does software. An interrupt and ERR_COR
/// report it. Control: bit 19 interrupt, 20 ERR_COR, 22 software trigger.
#[test]
fn port_errors_and_software_trigger_containment() {
    let mut rig = Rig::new();
    report_errors(&mut rig, 2);
    rig.set_extended(2, dpc::ID, dpc::CONTROL, 1 << 16 | 1 << 19 | 1 << 20);
    let told = notice(&mut rig, 2, Notice::DataLinkProtocol);
    assert_eq!(
        told,
        ["0: ERR_COR of 02:01.0", "0: Assert_INTB of 01:00.0"],
        "no ERR_FATAL; INTA of device 1"
    );
    assert_eq!(rig.actions(), [(2, Action::Disable)]);
    let mut rig = Rig::new();
    rig.set_extended(3, dpc::ID, dpc::CONTROL, 1 << 16);
    rig.set_extended(3, dpc::ID, dpc::CONTROL, 1 << 16 | 1 << 22);
    assert_eq!(rig.actions(), [(3, Action::Disable)]);
}

/// `PCIe 5.0 §6.7.3.4`: hot-plug events interrupt by wire, or by MSI if that is enabled. Slot Control: bit 3 presence,
/// 5 hot-plug interrupts, 12 link state.
#[test]
fn slot_events_interrupt() {
    let mut rig = Rig::new();
    let slot = pcie(&rig, 1, 6);
    rig.set(1, slot, 0x3, 1 << 3 | 1 << 5);
    let gone = SlotEvent::Presence { present: false };
    rig.switch.handle_slot(1, rig.now, gone);
    assert_eq!(lines(&rig.drain()), ["0: Assert_INTA of 01:00.0"]);
    // Presence Detect Changed is bit 19, Command Completed bit 20.
    let cleared = config_write_lines(&mut rig, 1, slot, 0xc, 1 << 19 | 1 << 20);
    assert_eq!(cleared, ["0: Deassert_INTA of 01:00.0", "0: Cpl SC of 02:00.0"]);
    let msi = rig.switch.space(1).msi_capability().unwrap();
    rig.set(1, msi + 1, 0xf, 0xfee0_0000);
    rig.set(1, msi + 3, 0x3, 0x0041);
    rig.set(1, msi, 0x4, 1 << 16);
    rig.switch.handle_slot(1, rig.now, gone);
    let out = rig.drain();
    let Body::Memory(m) = out[0].1.repr.body else { panic!("an MSI is a write: {}", out[0].1) };
    assert_eq!((m.requester, m.span.address(), m.op), (Rig::id(1), 0xfee0_0000, MemoryOp::Write));
    assert_eq!(out[0].1.data.bytes(), Some(&[0x41, 0, 0, 0][..]));
    rig.switch.handle_slot(1, rig.now, gone);
    assert_eq!(lines(&rig.drain()), [""; 0], "it is due already");
    // A surprise removal is such an event too.
    rig.set(1, slot, 0x3, 1 << 12 | 1 << 5);
    rig.set(1, slot, 0xc, 0x1ff << 16);
    assert_eq!(notice(&mut rig, 1, down(true)), ["0: MWr"]);
}

fn config_write_lines(rig: &mut Rig, port: u8, dw: u16, first_be: u8, value: u32) -> Vec<String> {
    let body = ConfigRequest { op: Access::Write, ..config_to(Rig::id(port), dw, first_be) };
    let data = Data::Carried(PayloadPool::new().copy(&value.to_le_bytes()));
    lines(&rig.arrive(0, &Tlp::new(Repr::new(Body::Config(body)), data)))
}

/// Link Status follows the link (`PCIe 5.0 §7.5.3.8`): speed 3 at x4.
#[test]
fn link_status_follows_the_link() {
    let mut rig = Rig::new();
    let at = pcie(&rig, 1, 4);
    notice(&mut rig, 1, Notice::Retrained { rate: Rate::Gt8, width: width(4) });
    assert_eq!(rig.get(1, at) >> 16 & 0x3ff, 0x043);
    let active = |rig: &mut Rig| rig.get(1, at) >> 29 & 1;
    assert_eq!(active(&mut rig), 1);
    notice(&mut rig, 1, down(false));
    assert_eq!(active(&mut rig), 0);
}

#[test]
fn rejects_invalid_switches() {
    let base = |ports| config(ports, Forwarding::StoreAndForward, PortArbitration::RoundRobin);
    let of = |config: SwitchConfig| Switch::new(config).err().map(|error| error.to_string());
    let ports = |n| SwitchConfig { downstream: vec![base(1).downstream.remove(0); n], ..base(1) };
    let endpoint = config::Builder::type0(config::Identity::default()).build().unwrap();
    let weights = |w: Vec<u16>| SwitchConfig { arbitration: PortArbitration::Weighted(w), ..base(2) };
    let mut no_bridge = base(2);
    no_bridge.downstream[1] = SwitchPortConfig { space: endpoint, ..no_bridge.downstream[1].clone() };
    let mut empty = base(1);
    empty.upstream.buffer_tlps[1] = 0;
    let rows = [
        (ports(0), "0 downstream ports; expected 1 to 31"),
        (ports(32), "32 downstream ports; expected 1 to 31"),
        (no_bridge, "port 2 of the switch has a type 0 header; expected type 1"),
        (empty, "port 0 of the switch holds no NonPosted TLPs; expected 1 or more of each class"),
        (
            weights(vec![1, 1]),
            "2 weights for a switch of 3 ports; expected one for each port, the upstream port first",
        ),
        (weights(vec![1, 0, 1]), "weight 0 of port 1; expected 1 to 65535 TLPs of a round"),
    ];
    for (config, text) in rows {
        assert_eq!(of(config).as_deref(), Some(text));
    }
    assert_eq!(of(ports(31)), None);
    assert_eq!(of(weights(vec![1, 2, 3])), None);
    let error = SwitchError::DownstreamPorts(0);
    assert_eq!(Switch::new(ports(0)).err(), Some(error));
}

/// The last port of the largest switch works as the first does.
#[test]
fn switch_supports_31_downstream_ports() {
    let mut rig = Rig::bare(31, Forwarding::StoreAndForward, PortArbitration::RoundRobin);
    rig.set(0, 6, 0xf, 0x0028_0201);
    rig.set(0, 1, 0x3, 0x7);
    for port in 1..=31u8 {
        let bus = u32::from(port) + 2;
        rig.set(port, 6, 0xf, bus << 16 | bus << 8 | 2);
        rig.set(port, 1, 0x3, 0x7);
    }
    for port in 1..=31u8 {
        let bus = port + 2;
        let out = rig.arrive(0, &config_read(ConfigKind::Type1, function(bus)));
        assert_eq!(lines(&out), [format!("{port}: CfgRd0")]);
        let out = rig.arrive(usize::from(port), &write(function(bus), 0x8000_0000, 64));
        assert_eq!(lines(&out), ["0: MWr"]);
    }
}
