// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The error that a switch reports for a TLP, and the function that reports it: poisoned TLPs, refusals, links that are down.
//! Uses no internals.

use crate::common::tlps::poisoned;
use crate::switch_rig::*;
use config::PortType;
use config::ext::{acs, aer, dpc};
use config::register::put;
use link::Notice;
use riser_fabric::BridgeOwner as _;
use riser_fabric::switch::{Forwarding, PortArbitration, Switch};
use tlp::*;

const HOST: u8 = 0;
/// Bits of Uncorrectable Error Status.
const POISONED: u32 = 1 << 12;
const MALFORMED: u32 = 1 << 18;
const WRONG_ECRC: u32 = 1 << 19;
const UNSUPPORTED: u32 = 1 << 20;
const ACS_VIOLATION: u32 = 1 << 21;
const EGRESS_BLOCKED: u32 = 1 << 26;
/// Master Data Parity Error and Signaled Target Abort, of Status (DW 1) and Secondary Status (DW 7).
const MASTER_PARITY: u32 = 1 << 24;
const TARGET_ABORT: u32 = 1 << 27;

fn function(bus: u8) -> Bdf {
    bdf(bus, 0, 0)
}

/// Advisory errors are logged like others, and all are reported.
fn rig() -> Rig {
    let mut rig = Rig::new();
    for port in 0..4 {
        rig.set_extended(port, aer::ID, aer::CORRECTABLE_MASK, 0);
        rig.set_extended(port, aer::ID, aer::UNCORRECTABLE_MASK, 0);
        let control = rig.switch.space(usize::from(port)).pcie_capability().unwrap() + 2;
        rig.set(port, control, 0x1, 0xf);
    }
    // At the upstream bridge, uncorrectable errors pass with SERR# Enable of its Command.
    rig.set(0, 1, 0x3, 0x0107);
    rig
}

/// Uncorrectable Error Status of all ports.
fn logged(rig: &Rig) -> [u32; 4] {
    [0, 1, 2, 3].map(|port| rig.extended(port, aer::ID, aer::UNCORRECTABLE_STATUS))
}

/// Device Status, bits 3:0: correctable, non-fatal, fatal, unsupported request.
fn detected(rig: &Rig, port: usize) -> u32 {
    let space = rig.switch.space(port);
    space.read(space.pcie_capability().unwrap() + 2) >> 16 & 0xf
}

fn first_error(rig: &Rig, port: usize) -> u32 {
    rig.extended(port, aer::ID, aer::CONTROL) & 0x1f
}

fn config_write(port: u8) -> Tlp {
    let kind = if port == 0 { ConfigKind::Type0 } else { ConfigKind::Type1 };
    let body = ConfigRequest { op: Access::Write, kind, register_dw: 6, ..config_to(Rig::id(port), 6, 0xf) };
    let data = Data::Carried(PayloadPool::new().copy(&[9; 4]));
    Tlp::new(Repr::new(Body::Config(body)), data)
}

/// `PCIe 5.0 §6.2.3.2.3`: if a function detects several errors in a TLP, Unsupported Request, Completer Abort and ACS
/// Violation take precedence over Poisoned TLP Received. A function that receives the forwarded TLP detects its own
/// errors.
#[test]
fn a_function_logs_one_error_of_a_poisoned_tlp() {
    const VALIDATION: u32 = 1 << 0;
    // The TLP, its port, ACS Control of port 1; the logs of ports 0 to 2.
    let rows = [
        ("goes on", 1, poisoned(write(function(3), 0x2000_0000, 4)), 0, [0, POISONED, 0]),
        ("back to its own link", 1, poisoned(write(function(3), 0x1000_0000, 4)), 0, [0, UNSUPPORTED, 0]),
        ("of another", 1, poisoned(write(function(9), 0x2000_0000, 4)), VALIDATION, [0, ACS_VIOLATION, 0]),
        ("atomic of another", 1, poisoned(fetch_add(function(9), 0)), VALIDATION, [0, ACS_VIOLATION, 0]),
        ("nobody's", 0, poisoned(write(function(HOST), 0x3800_0000, 4)), 0, [UNSUPPORTED, 0, 0]),
        ("to port 0", 0, poisoned(config_write(0)), 0, [POISONED, 0, 0]),
        ("atomic, nobody's", 0, poisoned(fetch_add(function(HOST), 0x3800_0000)), 0, [UNSUPPORTED, 0, 0]),
        ("to port 2", 0, poisoned(config_write(2)), 0, [POISONED, 0, POISONED]),
    ];
    for (what, port, tlp, services, [up, one, two]) in rows {
        let mut rig = rig();
        rig.set_extended(1, acs::ID, 1, services << 16);
        rig.arrive(port, &tlp);
        assert_eq!(logged(&rig), [up, one, two, 0], "{what}");
        let error = [up, one, two, 0][port];
        assert_eq!(1 << first_error(&rig, port), error, "{what}");
        // The last function that logs the error: the TLP is forwarded, or ends there (`PCIe 5.0 §6.2.3.2.4.2`,
        // §2.7.2.2).
        let by = if two != 0 { 2 } else { port };
        let advisory = what == "goes on";
        assert_eq!(detected(&rig, by) & 0b111, if advisory { 0b001 } else { 0b010 }, "{what}");
        if two != 0 {
            assert_eq!(detected(&rig, 0) & 0b111, 0b001, "{what}: the port that passed it on");
        }
    }
    // Poisoned TLP Egress Blocking Enable of port 2: it refuses a TLP that port 1 has received.
    let mut rig = rig();
    rig.set_extended(2, dpc::ID, dpc::CONTROL, dpc::control::POISONED_EGRESS);
    rig.arrive(1, &poisoned(write(function(3), 0x2000_0000, 4)));
    assert_eq!(logged(&rig), [0, POISONED, EGRESS_BLOCKED, 0]);
}

/// Data of a poisoned message is not used (`PCIe 5.0 §2.7.2.2`).
#[test]
fn a_poisoned_power_limit_sets_nothing() {
    let mut rig = rig();
    let before = rig.switch.space(0).slot_power_limit();
    let mut limit = message(MessageRouting::Local, function(HOST), 0x50);
    if let Body::Message(m) = &mut limit.repr.body {
        m.length_dw = Some(1);
    }
    limit.data = Data::Carried(PayloadPool::new().copy(&[75, 1, 0, 0]));
    rig.arrive(0, &poisoned(limit));
    let capabilities = rig.switch.space(0).pcie_capability().unwrap() + 1;
    assert_eq!(rig.get(0, capabilities) >> 18 & 0x3ff, 0, "Captured Slot Power Limit");
    assert_eq!((rig.switch.space(0).slot_power_limit(), logged(&rig)[0]), (before, POISONED));
    assert_eq!(detected(&rig, 0), 0b010, "never advisory");
}

/// Messages that a port does not accept (`PCIe 5.0 §2.3.1`), from above and from below.
#[test]
fn messages_not_accepted_by_a_port_are_unsupported() {
    let all = [0x04, 0x10, 0x12, 0x52, 0x53, 0x60, 0x7e];
    let rows = [(0, &[0x14][..], &[][..]), (1, &[][..], &[0x14, 0x50][..])];
    for (port, taken, refused) in rows {
        let refused = all.iter().chain(refused).map(|code| (*code, true));
        let silent = taken.iter().chain(&[0x40, 0x48, 0x7f]).map(|code| (*code, false));
        for (code, unsupported) in refused.chain(silent) {
            let mut rig = rig();
            let mut tlp = message(MessageRouting::Local, function([HOST, 3][port]), code);
            if let (Body::Message(m), 0x50) = (&mut tlp.repr.body, code) {
                (m.length_dw, tlp.data) = (Some(1), Data::Counted(4));
            }
            rig.arrive(port, &tlp);
            let expected = if unsupported { (UNSUPPORTED, 0b1010) } else { (0, 0) };
            assert_eq!((logged(&rig)[port], detected(&rig, port)), expected, "{code:#x} at port {port}");
        }
    }
}

/// `PCIe 5.0 §7.5.1.1.4`, §7.5.1.3.7: Master Data Parity Error of the port that sends a poisoned request, in Status upwards and
/// in Secondary Status downwards, with Parity Error Response Enable of that side: Command bit 6, Bridge Control bit 0.
#[test]
fn forwarded_poisoned_request_is_logged() {
    let up = || write(function(3), 0x8000_0000, 4);
    let down = || write(function(HOST), 0x2000_0000, 4);
    let rows = [
        ("up", 0, (1, 0x3, 0x0147), 1, poisoned(up()), (MASTER_PARITY, 0)),
        ("up, disabled", 0, (1, 0x3, 0x0107), 1, poisoned(up()), (0, 0)),
        ("up, sound", 0, (1, 0x3, 0x0147), 1, up(), (0, 0)),
        ("down", 2, (15, 0x4, 0x0003_0000), 0, poisoned(down()), (0, MASTER_PARITY)),
        ("down, disabled", 2, (15, 0x4, 0x0002_0000), 0, poisoned(down()), (0, 0)),
        (
            "a completion",
            2,
            (15, 0x4, 0x0003_0000),
            0,
            poisoned(completion(function(HOST), function(4), 4)),
            (0, 0),
        ),
    ];
    for (what, egress, (register, enables, value), ingress, tlp, expected) in rows {
        let mut rig = rig();
        rig.set(egress, register, enables, value);
        rig.arrive(ingress, &tlp);
        let space = rig.switch.space(usize::from(egress));
        assert_eq!((space.read(1) & MASTER_PARITY, space.read(7) & MASTER_PARITY), expected, "{what}");
    }
}

/// `PCIe 5.0 §6.12.4`: Signaled Target Abort of the side from which a blocked request came, if it is completed with CA.
#[test]
fn a_blocked_request_signals_target_abort() {
    for (tlp, expected) in [
        (read(function(9), 0x2000_0000, 4), TARGET_ABORT),
        (fetch_add(function(9), 0x2000_0000), TARGET_ABORT),
        (write(function(9), 0x2000_0000, 4), 0),
    ] {
        let mut rig = rig();
        rig.set_extended(1, acs::ID, 1, 1 << 16);
        rig.arrive(1, &tlp);
        let space = rig.switch.space(1);
        assert_eq!((space.read(1) & TARGET_ABORT, space.read(7) & TARGET_ABORT), (0, expected), "{tlp}");
        assert_eq!(rig.switch.counters().acs_violations, 1, "{tlp}");
    }
}

/// Way in which a TLP is affected by a link that is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comes {
    /// The TLP arrives when the link is down.
    Late,
    /// The TLP waits in the switch when the link goes down.
    Waiting,
    /// The link had accepted the TLP, but not sent it.
    Lost,
}

/// `PCIe 5.0 §2.9.1`: one rule for all TLPs to a link that is down. Requests are unsupported, which is an advisory
/// error if their requester gets a completion. Completions, and messages to an implied receiver, are dropped. §2.9.3:
/// at a contained port these are no errors, and completions have the status of DPC Completion Control.
#[test]
fn down_link_refuses_requests_and_drops_completions() {
    let (cor, nonfatal) = ("0: ERR_COR of 02:01.0", "0: ERR_NONFATAL of 02:01.0");
    let (ur, ca) = ("0: Cpl UR of 02:01.0", "0: Cpl CA of 02:01.0");
    let ask = || read(function(HOST), 0x2000_0000, 64);
    let post = || write(function(HOST), 0x2000_0000, 64);
    let answer = || completion(function(HOST), function(4), 64);
    let named = || message_to(function(4), function(HOST));
    let rows: [(Tlp, bool, &[&str], u32); 7] = [
        (ask(), false, &[ur, cor], UNSUPPORTED),
        (post(), false, &[nonfatal], UNSUPPORTED),
        (named(), false, &[nonfatal], UNSUPPORTED),
        (answer(), false, &[], 0),
        (ask(), true, &[ca], 0),
        (post(), true, &[], 0),
        (answer(), true, &[], 0),
    ];
    for (tlp, contained, expected, error) in rows {
        for comes in [Comes::Late, Comes::Waiting, Comes::Lost] {
            let what = format!("{tlp}, {comes:?}, contained {contained}");
            let mut rig = rig();
            if comes == Comes::Waiting {
                rig.put(0, &tlp);
            }
            if contained {
                // Trigger Enable, Completion Control CA, Software Trigger. The switch sends no TLP in between.
                let at = rig.switch.space(2).extended_capability(dpc::ID).unwrap() + dpc::CONTROL;
                let body = ConfigRequest { op: Access::Write, ..config_to(Rig::id(2), at, 0xf) };
                let value = dpc::control::SOFTWARE_TRIGGER | put(dpc::control::TRIGGER, 1);
                let mut trigger = Tlp::new(Repr::new(Body::Config(body)), Data::NONE);
                trigger.data = Data::Carried(PayloadPool::new().copy(&value.to_le_bytes()));
                rig.put(0, &trigger);
            }
            rig.switch.handle_notice(2, rig.now, Notice::Down { surprise: false });
            match comes {
                Comes::Late => rig.put(0, &tlp),
                Comes::Lost => rig.switch.handle_lost(2, rig.now, &tlp),
                Comes::Waiting => {}
            }
            let mut told = lines(&rig.drain());
            told.retain(|line| line != "0: Cpl SC of 02:01.0");
            told.sort();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(told, expected, "{what}");
            assert_eq!(logged(&rig), [0, 0, error, 0], "{what}");
            let counters = rig.switch.counters();
            assert_eq!(counters.link_down, 1, "{what}");
            assert_eq!(counters.unsupported_requests, u64::from(error != 0), "{what}");
        }
    }
}

/// `PCIe 5.0 §7.5.1.1.3`, §7.5.1.3: a request within a window of a bridge does not go up, whether or not Memory Space
/// Enable and I/O Space Enable (bits 1 and 0 of Command) let requests down.
#[test]
fn requests_inside_a_bridge_window_are_not_sent_upstream() {
    let memory = |address| read(function(3), address, 4);
    let rows = [
        ("window of port 0", 0, 0b101, memory(0x3800_0000), "1: Cpl UR of 02:00.0"),
        ("window of port 0, I/O", 0, 0b110, io_read(function(3), 0x3000), "1: Cpl UR of 02:00.0"),
        ("window of its own port", 1, 0b101, memory(0x1000_0000), "1: Cpl UR of 02:00.0"),
        ("window of a peer", 2, 0b101, memory(0x2000_0000), "1: Cpl UR of 02:00.0"),
        ("of nobody", 0, 0b101, memory(0x8000_0000), "0: MRd"),
    ];
    for (what, port, command, tlp, expected) in rows {
        let mut rig = Rig::new();
        rig.set(port, 1, 0x3, command);
        assert_eq!(lines(&rig.arrive(1, &tlp)), [expected], "{what}");
    }
}

/// A configuration request, or a message for the switch itself.
fn to_the_switch(code: u8, length_dw: Option<u16>) -> Tlp {
    let mut tlp = message(MessageRouting::Local, function(HOST), code);
    if let Body::Message(m) = &mut tlp.repr.body {
        (m.length_dw, tlp.data) = (length_dw, length_dw.map_or(Data::NONE, |_| Data::Counted(4)));
    }
    tlp
}

/// `PCIe 5.0 §2.7.1`, §6.2.3.2.3: with ECRC Check Enable, the switch checks TLPs of which it is the final receiver. The
/// receiving port drops a TLP with a wrong ECRC before any other check. A forwarded TLP stays unchanged.
#[test]
fn ecrc_is_checked_only_for_tlps_that_end_in_the_switch() {
    let turn_off_ack = || message(MessageRouting::Gathered, function(3), 0x1b);
    // The TLP, its port, and the port that logs it, unless it goes on.
    let rows = [
        ("Set_Slot_Power_Limit", 0, to_the_switch(0x50, Some(1)), Some(0)),
        ("PM_Active_State_Nak", 0, to_the_switch(0x14, None), Some(0)),
        ("Vendor_Defined Type 0", 0, to_the_switch(0x7e, None), Some(0)),
        ("Assert_INTA", 1, message(MessageRouting::Local, function(3), 0x20), Some(1)),
        ("PME_TO_Ack", 1, turn_off_ack(), Some(1)),
        ("nobody's", 0, read(function(HOST), 0x3800_0000, 4), Some(0)),
        ("poisoned, nobody's", 1, poisoned(write(function(3), 0x1000_0000, 4)), Some(1)),
        ("of another", 2, write(function(9), 0x1000_0000, 4), Some(2)),
        ("completion to a port", 0, completion(function(9), function(1), 4), Some(0)),
        ("configuration of port 0", 0, config_write(0), Some(0)),
        ("poisoned configuration of port 2", 0, poisoned(config_write(2)), Some(2)),
        ("to a device", 0, write(function(HOST), 0x2000_0000, 4), None),
        ("to a peer", 1, write(function(3), 0x2000_0000, 4), None),
        ("ERR_COR", 1, message(MessageRouting::ToRootComplex, function(3), 0x30), None),
    ];
    for (what, ingress, tlp, by) in rows {
        for checks in [true, false] {
            let [mut rig, mut other] = [(); 2].map(|()| {
                let mut rig = rig();
                rig.set_extended(2, acs::ID, 1, 1 << 16);
                for port in 0..4 {
                    rig.set_extended(port, aer::ID, aer::CONTROL, u32::from(checks) << 8);
                }
                rig.credits(ingress);
                rig
            });
            let sound = lines(&other.arrive(ingress, &tlp));
            let wrong = Tlp { flaw: Flaw::WrongEcrc, repr: Repr { td: true, ..tlp.repr }, ..tlp.clone() };
            let out = lines(&rig.arrive(ingress, &wrong));
            let Some(by) = by.filter(|_| checks) else {
                assert_eq!(out, sound, "{what}, checked {checks}");
                assert!(logged(&rig).iter().all(|status| status & WRONG_ECRC == 0), "{what}");
                continue;
            };
            assert_eq!(out, [format!("0: ERR_NONFATAL of {}", Rig::id(by))], "{what}");
            let mut expected = [0; 4];
            expected[usize::from(by)] = WRONG_ECRC;
            assert_eq!(logged(&rig), expected, "{what}");
            assert_eq!(rig.credits(ingress)[tlp.class().index()], 1, "{what}");
            assert_eq!(rig.switch.counters().ecrc_errors, 1, "{what}");
        }
    }
    let mut rig = rig();
    rig.set_extended(0, aer::ID, aer::CONTROL, 1 << 8);
    let long = write(function(HOST), 0x2000_0000, 512);
    rig.arrive(0, &Tlp { flaw: Flaw::WrongEcrc, repr: Repr { td: true, ..long.repr }, ..long });
    assert_eq!(logged(&rig), [MALFORMED, 0, 0, 0], "malformed goes before");
}

fn prefixed(prefixes: &[u32], tlp: Tlp) -> Tlp {
    let prefixes: Vec<Prefix> = prefixes.iter().map(|dw| Prefix(*dw)).collect();
    Tlp { prefixes: Prefixes::new(&prefixes).unwrap(), ..tlp }
}

/// `PCIe 5.0 §2.2.10.2`: prefixes of reserved types are forwarded like others. With such a prefix, a TLP for the switch
/// itself is unsupported.
#[test]
fn switch_forwards_reserved_prefixes_but_does_not_accept_them() {
    const RESERVED: u32 = 0x9500_0000;
    let rows = [
        (read(function(HOST), 0x2000_0000, 4), "2: MRd", 0),
        (completion(function(HOST), function(4), 4), "2: CplD", 0),
        (config_read(ConfigKind::Type0, Rig::id(0)), "0: Cpl UR of 01:00.0", UNSUPPORTED),
        (to_the_switch(0x50, Some(1)), "0: ERR_NONFATAL of 01:00.0", UNSUPPORTED),
    ];
    for (tlp, expected, error) in rows {
        let mut rig = rig();
        let out = lines(&rig.arrive(0, &prefixed(&[RESERVED], tlp.clone())));
        assert!(out.iter().any(|line| line == expected), "{tlp}: {out:?}");
        assert_eq!(logged(&rig), [error, 0, 0, 0], "{tlp}");
    }
}

/// A port without End-End TLP Prefix Supported takes no prefix (`PCIe 5.0 §7.5.3.15`).
#[test]
fn unsupported_prefixes_are_malformed() {
    for (supported, error, answers) in [(0, MALFORMED, 0), (4, 0, 1)] {
        let mut config = config(1, Forwarding::StoreAndForward, PortArbitration::RoundRobin);
        config.upstream.space = space_with(PortType::Upstream, 0, supported);
        let mut rig = Rig { switch: Switch::new(config).unwrap(), now: Time::ZERO };
        let refused = rig.arrive(0, &prefixed(&[0x9100_0005], read(function(HOST), 0x1000, 4)));
        assert_eq!(refused.iter().filter(|(_, tlp)| status(tlp).is_some()).count(), answers);
        assert_eq!(rig.extended(0, aer::ID, aer::UNCORRECTABLE_STATUS), error, "{supported} supported");
    }
}
