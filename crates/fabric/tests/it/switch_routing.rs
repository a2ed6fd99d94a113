// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The destinations of TLPs in a switch: by address, by ID, by the routing of messages, and through Access Control Services.

use crate::switch_rig::*;
use config::ext::acs;
use tlp::*;

const HOST: (u8, u8, u8) = (0, 0, 0);
/// Functions below ports 1, 2 and 3.
const A: (u8, u8, u8) = (3, 0, 0);
const B: (u8, u8, u8) = (4, 0, 0);
const C: (u8, u8, u8) = (6, 0, 0);

fn id((bus, device, function): (u8, u8, u8)) -> Bdf {
    bdf(bus, device, function)
}

fn check(rows: Vec<(&str, usize, Tlp, &[&str])>) {
    for (source, port, tlp, expected) in rows {
        let mut rig = Rig::new();
        rig.credits(port);
        let out = rig.arrive(port, &tlp);
        assert_eq!(lines(&out), expected, "{source}: {tlp} into port {port}");
        let mut credit = [0; 3];
        credit[tlp.class().index()] = 1;
        assert_eq!(rig.credits(port), credit, "{source}: {tlp} returns its credits once");
        assert!(rig.switch.is_empty(), "{source}: nothing stays behind");
    }
}

/// `PCIe 5.0 §7.5.1.3.8` (windows), §7.5.1.1.3 (the port that answers unclaimed requests), §6.12 off.
#[test]
fn routes_requests_by_address() {
    check(vec![
        ("window of port 1", 0, write(id(HOST), 0x1000_0000, 64), &["1: MWr"]),
        ("last byte of it", 0, write(id(HOST), 0x1fff_fffc, 4), &["1: MWr"]),
        ("first byte after it", 0, read(id(HOST), 0x2000_0000, 4), &["2: MRd"]),
        ("window of port 0, of no port", 0, read(id(HOST), 0x3800_0000, 4), &["0: Cpl UR of 01:00.0"]),
        ("posted: no answer", 0, write(id(HOST), 0x3800_0000, 4), &[]),
        ("outside of port 0", 0, read(id(HOST), 0x4000_0000, 4), &["0: Cpl UR of 01:00.0"]),
        ("up", 1, read(id(A), 0x8000_0000, 64), &["0: MRd"]),
        ("up, above 4 GiB", 1, write(id(A), 0x1_1000_0000, 64), &["0: MWr"]),
        ("to a peer", 1, write(id(A), 0x2000_0000, 64), &["2: MWr"]),
        ("to a peer, with an answer", 3, read(id(C), 0x1000_0000, 64), &["1: MRd"]),
        ("back where it came from", 1, read(id(A), 0x1000_0000, 4), &["1: Cpl UR of 02:00.0"]),
        ("within port 0, of no port", 1, read(id(A), 0x3800_0000, 4), &["1: Cpl UR of 02:00.0"]),
        ("I/O", 0, io_read(id(HOST), 0x2ffc), &["2: IORd"]),
        ("I/O of no port", 0, io_read(id(HOST), 0x3000), &["0: Cpl UR of 01:00.0"]),
        ("I/O up", 2, io_read(id(B), 0x8000), &["0: IORd"]),
        ("AtomicOp", 0, fetch_add(id(HOST), 0x2000_0000), &["2: FetchAdd"]),
    ]);
}

/// `PCIe 5.0 §7.3.3`: type 1 becomes type 0 at the bridge of the bus.
#[test]
fn routes_configuration_requests_by_bus() {
    use ConfigKind::{Type0, Type1};
    check(vec![
        ("the upstream port", 0, config_read(Type0, bdf(1, 0, 0)), &["0: CplD"]),
        ("it has one function", 0, config_read(Type0, bdf(1, 0, 1)), &["0: Cpl UR of 01:00.0"]),
        ("a link has one device", 0, config_read(Type0, bdf(1, 1, 0)), &["0: Cpl UR of 01:00.0"]),
        ("a downstream port", 0, config_read(Type1, bdf(2, 2, 0)), &["0: CplD"]),
        ("no such port", 0, config_read(Type1, bdf(2, 3, 0)), &["0: Cpl UR of 01:00.0"]),
        ("no such function", 0, config_read(Type1, bdf(2, 0, 1)), &["0: Cpl UR of 01:00.0"]),
        ("the bus below port 1", 0, config_read(Type1, bdf(3, 0, 3)), &["1: CfgRd0"]),
        ("no device but 0 there", 0, config_read(Type1, bdf(3, 1, 0)), &["0: Cpl UR of 02:00.0"]),
        ("a bus further down", 0, config_read(Type1, bdf(5, 1, 0)), &["2: CfgRd1"]),
        ("no bus of the switch", 0, config_read(Type1, bdf(7, 0, 0)), &["0: Cpl UR of 01:00.0"]),
        ("never up", 1, config_read(Type1, bdf(0, 0, 0)), &["1: Cpl UR of 02:00.0"]),
    ]);
}

/// `PCIe 5.0 §7.5.3.16`, ARI Forwarding Enable: bit 5 of Device Control 2.
#[test]
fn ari_forwarding_accepts_any_device_number() {
    let mut rig = Rig::new();
    let at = rig.switch.space(1).pcie_capability().unwrap() + 10;
    rig.set(1, at, 0x1, 1 << 5);
    let out = rig.arrive(0, &config_read(ConfigKind::Type1, bdf(3, 31, 7)));
    assert_eq!(lines(&out), ["1: CfgRd0"]);
}

/// `PCIe 5.0 §2.2.9`: completions go by the bus of their requester.
#[test]
fn routes_completions_by_bus_of_requester() {
    check(vec![
        ("down", 0, completion(id(HOST), id(B), 64), &["2: CplD"]),
        ("down, a bus below another bridge", 0, completion(id(HOST), bdf(5, 3, 1), 64), &["2: CplD"]),
        ("up", 2, completion(id(B), id(HOST), 64), &["0: CplD"]),
        ("to a peer", 2, completion(id(B), id(A), 64), &["1: CplD"]),
        ("to the switch itself", 0, completion(id(HOST), bdf(2, 0, 0), 64), &[]),
        ("to the upstream port", 1, completion(id(A), bdf(1, 0, 0), 64), &[]),
        ("back where it came from", 1, completion(id(A), bdf(3, 1, 0), 64), &[]),
        ("to no bus of the switch", 0, completion(id(HOST), bdf(9, 0, 0), 64), &[]),
    ]);
}

/// `PCIe 5.0 §2.2.8`: messages follow their routing.
#[test]
fn routes_messages_by_their_routing_field() {
    use MessageRouting::*;
    check(vec![
        ("§2.2.8.3", 1, message(ToRootComplex, id(A), 0x30), &["0: ERR_COR of 03:00.0"]),
        ("§2.2.8.2", 3, message(ToRootComplex, id(C), 0x18), &["0: PM_PME of 06:00.0"]),
        ("to the root from above", 0, message(ToRootComplex, id(HOST), 0x18), &[]),
        (
            "§2.2.8.4",
            0,
            message(Broadcast, id(HOST), 0x00),
            &["1: Unlock of 00:00.0", "2: Unlock of 00:00.0", "3: Unlock of 00:00.0"],
        ),
        ("broadcast from below", 1, message(Broadcast, id(A), 0x00), &[]),
        ("§2.2.8.5, ends here", 0, message(Local, id(HOST), 0x14), &[]),
        ("§2.2.8.8, ends here", 1, message(Local, id(A), 0x14), &[]),
        ("§2.2.8.6, by ID", 0, message_to(id(B), id(HOST)), &["2: Vendor_Defined_Type_1 of 00:00.0"]),
        ("by ID to a peer", 1, message_to(id(C), id(A)), &["3: Vendor_Defined_Type_1 of 03:00.0"]),
        ("by ID up", 1, message_to(id(HOST), id(A)), &["0: Vendor_Defined_Type_1 of 03:00.0"]),
        ("by ID to the switch", 0, message_to(bdf(2, 1, 0), id(HOST)), &[]),
        ("INTx from above has no receiver", 0, message(Local, id(HOST), 0x20), &[]),
    ]);
}

/// `PCIe 5.0 §7.5.1.1.3`: the TLPs that bits of Command let through; bits 0 to 2 are I/O, memory, Bus Master.
#[test]
fn command_bits_gate_requests() {
    let rows = [
        ("memory of port 0", 0, 0b101, 0, read(id(HOST), 0x1000_0000, 4), "0: Cpl UR of 01:00.0"),
        ("memory of port 1", 1, 0b101, 0, read(id(HOST), 0x1000_0000, 4), "0: Cpl UR of 01:00.0"),
        ("I/O of port 1", 1, 0b110, 0, io_read(id(HOST), 0x1000), "0: Cpl UR of 01:00.0"),
        ("Bus Master of port 1", 1, 0b011, 1, read(id(A), 0x8000_0000, 4), "1: Cpl UR of 02:00.0"),
        ("Bus Master of port 1, to a peer", 1, 0b011, 1, read(id(A), 0x2000_0000, 4), "1: Cpl UR of 02:00.0"),
        ("Bus Master of port 0", 0, 0b011, 1, read(id(A), 0x8000_0000, 4), "1: Cpl UR of 01:00.0"),
        ("Bus Master of port 0, to a peer", 0, 0b011, 1, read(id(A), 0x2000_0000, 4), "2: MRd"),
        ("completions need no bit", 1, 0b000, 1, completion(id(A), id(HOST), 4), "0: CplD"),
        (
            "messages need no bit",
            1,
            0b000,
            1,
            message(MessageRouting::ToRootComplex, id(A), 0x18),
            "0: PM_PME of 03:00.0",
        ),
    ];
    for (what, port, command, ingress, tlp, expected) in rows {
        let mut rig = Rig::new();
        rig.set(port, 1, 0x3, command);
        assert_eq!(lines(&rig.arrive(ingress, &tlp)), [expected], "{what}");
    }
}

/// `PCIe 5.0 §6.15.2`, §2.2.10.2, §2.2.2: the TLPs that an egress port blocks. DW 10 of the capability is Device Control 2.
#[test]
fn egress_port_blocks_atomics_and_prefixes() {
    let pasid = Prefixes::new(&[Prefix::pasid(5, false, false)]).unwrap();
    let rows = [
        ("AtomicOp", 10, 1 << 7, fetch_add(id(HOST), 0x2000_0000), 24),
        ("prefix", 10, 1 << 15, Tlp { prefixes: pasid, ..read(id(HOST), 0x2000_0000, 4) }, 25),
    ];
    for (what, register, bit, tlp, error) in rows {
        let mut rig = Rig::new();
        let at = rig.switch.space(2).pcie_capability().unwrap() + register;
        assert_eq!(lines(&rig.arrive(0, &tlp)), [format!("2: {}", tlp.repr.name())], "{what} passes");
        // Advisory errors are logged if they are not masked: bit 13 of the correctable mask.
        rig.set_extended(2, 1, 5, 0);
        rig.set(2, at, 0xf, bit);
        assert_eq!(lines(&rig.arrive(0, &tlp)), ["0: Cpl UR of 02:01.0"], "{what} is blocked");
        assert_eq!(rig.extended(2, 1, 1), 1 << error, "{what} is logged as such");
    }
    let mut rig = Rig::new();
    let at = rig.switch.space(0).pcie_capability().unwrap() + 2;
    rig.set(0, at, 0x1, 1 << 5);
    let long = write(id(HOST), 0x2000_0000, 256);
    assert_eq!(lines(&rig.arrive(0, &long)), [""; 0], "Max_Payload_Size of port 2 is 128 B");
    assert_eq!(rig.extended(2, 1, 1), 1 << 18, "Malformed TLP, of the egress port");
    assert_eq!(rig.switch.counters().malformed, 1);
}

/// `PCIe 5.0 §6.12.1.1` and §6.12.3, Table 6-10, bit by bit, of port 1. Bits of ACS Control: 0 Source Validation,
/// 1 Translation Blocking, 2 Request Redirect, 3 Completion Redirect, 4 Upstream Forwarding, 5 Egress Control,
/// 6 Direct Translated. The vector names port 2.
#[test]
fn acs_bits_select_path_of_peer_requests() {
    let to_b = || write(id(A), 0x2000_0000, 4);
    let to_c = || write(id(A), 0x3000_0000, 4);
    let back = || write(id(A), 0x1000_0000, 4);
    let foreign = || read(id(B), 0x8000_0000, 4);
    let with_at = |at, tlp: Tlp| Tlp { repr: Repr { at, ..tlp.repr }, ..tlp };
    let translated = |tlp| with_at(AddressType::Translated, tlp);
    let to_peer = || completion(id(A), id(B), 4);
    let relaxed = || with_attributes(to_peer(), Attributes::RELAXED_ORDERING);
    const CA: &str = "1: Cpl CA of 02:00.0";
    let rows: Vec<(&str, u32, Tlp, &[&str])> = vec![
        ("off: direct", 0, to_b(), &["2: MWr"]),
        ("off: any source", 0, foreign(), &["0: MRd"]),
        ("SV: a foreign bus is refused", 1 << 0, foreign(), &[CA]),
        ("SV: its own bus passes", 1 << 0, to_b(), &["2: MWr"]),
        ("TB: translated is refused", 1 << 1, translated(read(id(A), 0x8000_0000, 4)), &[CA]),
        (
            "TB: so is a translation request",
            1 << 1,
            with_at(AddressType::TranslationRequest, read(id(A), 0x8000_0000, 8)),
            &[CA],
        ),
        ("TB: untranslated passes", 1 << 1, read(id(A), 0x8000_0000, 4), &["0: MRd"]),
        ("RR: up", 1 << 2, to_b(), &["0: MWr"]),
        ("RR: completions are not requests", 1 << 2, to_peer(), &["2: CplD"]),
        ("CR: up", 1 << 3, to_peer(), &["0: CplD"]),
        ("CR: not with Relaxed Ordering", 1 << 3, relaxed(), &["2: CplD"]),
        ("CR: requests are not completions", 1 << 3, to_b(), &["2: MWr"]),
        ("no UF: back is refused", 0, back(), &[]),
        ("UF: back goes up", 1 << 4, back(), &["0: MWr"]),
        ("EC, bit set: blocked", 1 << 5, to_b(), &[]),
        ("EC, bit set, with an answer", 1 << 5, read(id(A), 0x2000_0000, 4), &[CA]),
        ("EC, bit clear: direct", 1 << 5, to_c(), &["3: MWr"]),
        ("EC and RR, bit set: up", 1 << 5 | 1 << 2, to_b(), &["0: MWr"]),
        ("EC and RR, bit clear: direct", 1 << 5 | 1 << 2, to_c(), &["3: MWr"]),
        ("DT and RR: translated is direct", 1 << 6 | 1 << 2, translated(to_b()), &["2: MWr"]),
        ("DT and EC: translated is direct", 1 << 6 | 1 << 5, translated(to_b()), &["2: MWr"]),
        ("DT and RR: untranslated goes up", 1 << 6 | 1 << 2, to_b(), &["0: MWr"]),
    ];
    for (what, control, tlp, expected) in rows {
        let mut rig = Rig::new();
        rig.set_extended(1, acs::ID, acs::EGRESS_VECTOR, 1 << 2);
        rig.set_extended(1, acs::ID, acs::CONTROL, control << 16);
        assert_eq!(lines(&rig.arrive(1, &tlp)), expected, "{what}");
        let blocked = what.contains("refused") && !what.contains("UF") || what.starts_with("EC, bit set");
        assert_eq!(
            rig.switch.counters().acs_violations,
            u64::from(blocked) + u64::from(what.contains("so is")),
            "{what}"
        );
    }
}
