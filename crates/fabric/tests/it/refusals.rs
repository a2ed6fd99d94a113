// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons why switches and root complexes refuse TLPs: the rule, the value found and the expected value, one row each.

use crate::{root_rig, switch_rig};
use config::ext::{acs, dpc};
use riser_fabric::{BridgeOwner as _, PlacedRefusal};
use std::fs;
use std::path::{Path, PathBuf};
use tlp::*;

const HOST: u8 = 0;

fn function(bus: u8) -> Bdf {
    switch_rig::bdf(bus, 0, 0)
}

fn poisoned(tlp: Tlp) -> Tlp {
    Tlp { repr: Repr { ep: true, ..tlp.repr }, ..tlp }
}

fn with_pasid(tlp: Tlp) -> Tlp {
    Tlp { prefixes: Prefixes::new(&[Prefix::pasid(1, false, false)]).unwrap(), ..tlp }
}

/// A setting before the TLP arrives.
enum Set {
    Nothing,
    /// ACS Control of port 1.
    Acs(u32),
    /// Device Control 2 of port 2.
    DeviceControl2(u32),
    /// Command of port 1.
    Command(u32),
    /// The link of port 2 is down.
    Down,
}

/// Port 0 is the upstream port. Port 2 leads to bus 4, and to 2000_0000h to 2fff_ffffh.
#[test]
#[rustfmt::skip]
fn switch_names_violated_rule() {
    use switch_rig::{completion, config_read, fetch_add, message, message_to, read, write};
    let to_2 = || write(function(3), 0x2000_0000, 4);
    let bdf = |bus: u8| u64::from(function(bus).bits());
    let new = Violation::new;
    let rows = [
        ("no window", 0, Set::Nothing, read(function(HOST), 0x3800_0000, 4), 0, new(RuleId::UnclaimedAddress, 0x3800_0000)),
        ("back to its own link", 1, Set::Nothing, write(function(3), 0x1000_0000, 4), 1, new(RuleId::UnclaimedAddress, 0x1000_0000)),
        ("no Bus Master Enable", 1, Set::Command(0x2), read(function(3), 0x8000_0000, 4), 1, new(RuleId::BusMasterEnable, 0)),
        ("configuration from below", 1, Set::Nothing, config_read(ConfigKind::Type1, function(4)), 1, new(RuleId::RequestType, 0x05)),
        ("no such function", 0, Set::Nothing, config_read(ConfigKind::Type1, switch_rig::bdf(4, 3, 0)), 2, new(RuleId::UnclaimedId, bdf(4) | 3 << 3)),
        ("message by ID to no function", 0, Set::Nothing, message_to(function(0x77), function(HOST)), 0, new(RuleId::UnclaimedId, bdf(0x77))),
        ("message without a receiver", 1, Set::Nothing, message(MessageRouting::Local, function(3), 0x14), 1, new(RuleId::MessageSupported, 0x14)),
        ("completion for nobody", 0, Set::Nothing, completion(function(HOST), function(0x77), 4), 0, new(RuleId::UnexpectedCompletion, bdf(0x77) << 16 | 7)),
        ("foreign Requester ID", 1, Set::Acs(1), write(function(9), 0x2000_0000, 4), 1, new(RuleId::AcsSourceValidation, bdf(9))),
        ("AtomicOp to a port that blocks them", 1, Set::DeviceControl2(1 << 7), fetch_add(function(3), 0x2000_0000), 2, new(RuleId::AtomicEgressBlocking, 0x4c)),
        ("prefix to a port that blocks them", 1, Set::DeviceControl2(1 << 15), with_pasid(to_2()), 2, new(RuleId::PrefixEgressBlocking, 1)),
        ("longer than the egress port takes", 1, Set::Nothing, write(function(3), 0x2000_0000, 512), 1, Violation::expecting(RuleId::MaxPayloadSize, 512, 128)),
        ("link down", 1, Set::Down, to_2(), 2, new(RuleId::LinkUp, 0)),
        ("poisoned", 0, Set::Nothing, poisoned(config_read(ConfigKind::Type0, function(1))), 0, new(RuleId::Poisoned, 1)),
    ];
    for (what, ingress, set, tlp, by, why) in rows {
        let mut rig = switch_rig::Rig::new();
        match set {
            Set::Nothing => {}
            Set::Acs(value) => rig.set_extended(1, acs::ID, 1, value << 16),
            Set::DeviceControl2(value) => {
                let at = rig.switch.space(2).pcie_capability().unwrap() + 10;
                rig.set(2, at, 0x3, value);
            }
            Set::Command(value) => rig.set(1, 1, 0x3, value),
            Set::Down => rig.switch.handle_notice(2, rig.now, link::Notice::Down { surprise: false }),
        }
        (0..3).for_each(|_| _ = rig.arrive(ingress, &tlp));
        let found: Vec<_> = rig.switch.refusals().iter().map(|r| (r.violation, r.place, r.count)).collect();
        assert_eq!(found, [(why, Some(by), 3)], "{what}");
        assert_eq!(rig.switch.refusals()[0].tlp.to_string(), format!("{tlp}"), "{what}");
    }
    // The ingress port of a poisoned TLP reports it, and the egress port refuses it.
    let mut rig = switch_rig::Rig::new();
    rig.set_extended(2, dpc::ID, dpc::CONTROL, dpc::control::POISONED_EGRESS);
    rig.arrive(1, &poisoned(to_2()));
    let found: Vec<_> = rig.switch.refusals().iter().map(|r| (r.violation, r.place, r.count)).collect();
    assert_eq!(found, [(new(RuleId::Poisoned, 1), Some(1), 1), (new(RuleId::PoisonedEgressBlocking, 1), Some(2), 1)]);
}

/// Rows: the TLP or answer of the device below root port 0, and the rule that it breaks.
#[test]
#[rustfmt::skip]
fn root_complex_reports_violated_rule() {
    use root_rig::{below, completion, fetch_add, message, mrd, mwr};
    let tag = Tag::from_bits(9);
    let stray = completion(below(0), Bdf::default(), tag, Status::Success, 0);
    let locked = {
        let mut tlp = mrd(below(0), 0x1000, 4);
        if let Body::Memory(m) = &mut tlp.repr.body {
            m.op = MemoryOp::ReadLocked;
        }
        tlp
    };
    let new = Violation::new;
    let rows = [
        ("read of no memory", mrd(below(0), 0x7fff_0000_0000, 4), new(RuleId::UnclaimedAddress, 0x7fff_0000_0000)),
        ("write to no memory", mwr(below(0), 0x7fff_0000_0000, 4), new(RuleId::UnclaimedAddress, 0x7fff_0000_0000)),
        ("AtomicOp on no memory", fetch_add(below(0), 0x7fff_0000_0000), new(RuleId::UnclaimedAddress, 0x7fff_0000_0000)),
        ("locked read", locked, new(RuleId::RequestType, 0x01)),
        ("poisoned write", poisoned(mwr(below(0), 0x1000, 4)), new(RuleId::Poisoned, 1)),
        ("completion without request", stray, new(RuleId::UnexpectedCompletion, 9)),
        ("message without a receiver", message(MessageRouting::ToRootComplex, below(0), 0x14), new(RuleId::MessageSupported, 0x14)),
    ];
    for (what, tlp, why) in rows {
        let rig = root_rig::Rig::new();
        (0..2).for_each(|n| rig.ends[usize::from(n)].serve(below(n)));
        rig.ends[0].send(100_000, tlp.clone());
        let fabric = rig.run(|cpu| async move {
            cpu.sleep(Duration::from_us(200)).await;
            Ok(())
        });
        let found: Vec<_> = fabric.root().refusals().iter().map(|r| (r.violation, r.place, r.count)).collect();
        assert_eq!(found, [(why, Some(0), 1)], "{what}");
        let refusal = fabric.root().refusals()[0];
        assert_eq!(refusal.tlp.to_string(), format!("{tlp}"), "{what}");
        assert!(refusal.at > Time::ZERO + Duration::from_us(100), "{what}: {}", refusal.at);
        let [PlacedRefusal { place, .. }] = &fabric.refusals()[..] else { panic!("{what}: one refusal") };
        assert_eq!(place, "root complex, root port 0", "{what}");
    }
}

/// Requests of the host to addresses below no root port: 8 MiB, and I/O port 0x80. A configuration read of bus 9 is a probe.
#[test]
fn root_complex_names_unclaimed_host_requests() {
    let rig = root_rig::Rig::new();
    (0..2).for_each(|n| rig.ends[usize::from(n)].serve(root_rig::below(n)));
    let fabric = rig.run(|cpu| async move {
        for _ in 0..3 {
            assert!(cpu.read(0x80_0000, 4).await.is_err());
        }
        assert!(cpu.io_read(0x80, 1).await.is_err());
        assert!(cpu.config_read(Bdf::from_bits(0x0900), 0).await.is_err());
        Ok(())
    });
    let refusals = fabric.refusals();
    let found: Vec<_> = refusals
        .iter()
        .map(|r| (r.place.as_str(), r.refusal.violation, r.refusal.count, r.refusal.routine))
        .collect();
    let root = "root complex";
    assert_eq!(found, [(root, Violation::new(RuleId::UnclaimedAddress, 0x80_0000), 4, false),]);
    assert!(refusals[0].refusal.tlp.to_string().starts_with("MRd, "), "{refusals:?}");
    assert_eq!(
        refusals[0].note.as_deref(),
        Some(
            "no root port claims it, so a processor reads all ones; windows of root port 0: 0x90000000-0x9fffffff; root port 1: \
             0xa0000000-0xafffffff"
        )
    );
    assert_eq!(fabric.root().counters().unsupported_requests, 4);
}

/// Rows: how a completion of a read of 8 bytes at offset 4 is changed, and the rule that it breaks then.
#[test]
#[rustfmt::skip]
fn root_complex_names_rule_violated_by_a_completion() {
    type Change = fn(&mut Tlp, &mut Completion);
    let rows: [(&str, Change, Violation); 9] = [
        ("Lower Address", |_, c| c.lower_address = 0, Violation::expecting(RuleId::LowerAddress, 0, 4)),
        ("Byte Count", |_, c| c.byte_count = 16, Violation::expecting(RuleId::ByteCount, 16, 8)),
        ("Length", |_, c| c.length_dw = Some(3), Violation::new(RuleId::CompletionLength, 3)),
        ("no data", |_, c| c.length_dw = None, Violation::expecting(RuleId::CompletionType, 0b000, 0b010)),
        ("Traffic Class", |t, _| t.repr.tc = TrafficClass::from_bits(3), Violation::expecting(RuleId::CompletionTc, 3, 0)),
        ("attributes", |t, _| t.repr.attr = Attributes::NO_SNOOP, Violation::expecting(RuleId::CompletionAttr, 1, 0)),
        ("CplDLk", |_, c| c.locked = true, Violation::expecting(RuleId::CompletionLocked, 0x0b, 0x0a)),
        ("CRS", |_, c| (c.status, c.length_dw) = (Status::ConfigRetry, None), Violation::new(RuleId::CompletionRetry, 0b010)),
        ("poisoned", |t, _| t.repr.ep = true, Violation::new(RuleId::Poisoned, 1)),
    ];
    for (what, change, why) in rows {
        let rig = root_rig::Rig::new();
        rig.ends[1].serve(root_rig::below(1));
        rig.ends[0].answer(move |request| {
            let mut tlp = root_rig::served(request, root_rig::below(0))?;
            if let (Body::Memory(_), Body::Completion(mut c)) = (&request.repr.body, tlp.repr.body) {
                change(&mut tlp, &mut c);
                tlp.repr.body = Body::Completion(c);
                let dw = c.length_dw.map_or(0, usize::from);
                tlp.data = Data::Carried(PayloadPool::new().copy(&[0; 8][..(dw * 4).min(8)]));
            }
            Some(tlp)
        });
        let fabric = rig.run(|cpu| async move {
            let result = cpu.read(root_rig::window(0) + 4, 8).await;
            if result.is_ok() { Err("the read has not failed".into()) } else { Ok(()) }
        });
        let found: Vec<_> = fabric.root().refusals().iter().map(|r| (r.violation, r.count)).collect();
        assert_eq!(found, [(why, 1)], "{what}");
    }
}

/// Counters of refused TLPs by folder of the code. Only the function that also records the rule may increment them.
const COUNTERS: [(&str, &[&str]); 5] = [
    (
        "endpoint/src",
        &[
            "unsupported_requests",
            "unsupported_posted",
            "completer_aborts",
            "malformed",
            "poisoned_requests",
            "poisoned_completions",
            "unexpected_completions",
            "completion_timeouts",
            "received_unsupported",
            "received_abort",
            "request_overflows",
            "blocked_by_bus_master",
            "ecrc_errors",
        ],
    ),
    (
        "fabric/src",
        &[
            "unsupported_requests",
            "malformed",
            "ecrc_errors",
            "poisoned",
            "unexpected_completions",
            "completion_timeouts",
            "acs_violations",
            "link_down",
            "overflows",
        ],
    ),
    (
        "link/src",
        &[
            "bad_lcrc",
            "out_of_sequence",
            "receiver_overflows",
            "unmapped_tcs",
            "malformed_tlps",
            "full_buffer_drops",
        ],
    ),
    (
        "nettlp/src/completer",
        &[
            "reads_out_of_range",
            "writes_out_of_range",
            "writes_read_only",
            "poisoned",
            "unsupported",
            "stray_completions",
        ],
    ),
    ("worlds/src/adapter", &["strays", "host_timeouts", "nobody", "undeliverable"]),
];

/// Files that increment a counter without a rule, and how often. These are TLPs that count twice and have named their
/// rule before, outputs of a host program that are no TLPs, and NetTLP completions at a wrong UDP port, which no rule of PCI
/// Express covers.
const WITHOUT_RULE: [(&str, &str, usize); 8] = [
    ("endpoint/src/hard_block/mod.rs", "blocked_by_bus_master", 1),
    ("endpoint/src/hard_block/wrong.rs", "blocked_by_bus_master", 1),
    ("fabric/src/root/refusals.rs", "unsupported_requests", 1),
    ("fabric/src/root/requester.rs", "unsupported_requests", 2),
    ("fabric/src/root/requester/endings.rs", "unsupported_requests", 1),
    ("fabric/src/switch/inbound.rs", "unsupported_requests", 1),
    ("fabric/src/switch/links.rs", "unsupported_requests", 1),
    ("worlds/src/adapter/backend.rs", "strays", 1),
];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, out),
            false => out.push(path),
        }
    }
}

#[test]
fn every_refusal_names_a_rule() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for (name, counters) in COUNTERS {
        let mut files = Vec::new();
        sources(&crates.join(name), &mut files);
        assert!(!files.is_empty(), "{name}");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let short = file.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
            for counter in counters {
                let times = text.matches(&format!(".{counter} += ")).count();
                found.extend((times > 0).then(|| (short.clone(), *counter, times)));
            }
        }
    }
    found.sort();
    assert_eq!(found, WITHOUT_RULE.map(|(file, counter, times)| (file.to_owned(), counter, times)));
}
