// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs from one root port to another: forwarded, split or refused; Access Control Services; TLPs that wait for a link that goes
//! down.

use crate::root_rig::*;
use config::ext::aer;
use host::memory::HostMemory;
use link::CreditLimit;
use riser_fabric::{Fabric, HostId, LinkChange, LinkConfig, LinkEvent, LinkId, PeerToPeer};
use tlp::*;

/// Time at which devices send. Firmware has finished by then.
const AT_NS: u64 = 60_000;

fn check_accounts(fabric: &Fabric, open: u64) {
    let totals = fabric.account_totals();
    assert_eq!(totals.opened, totals.closed + totals.dropped + totals.given_up + totals.open);
    assert_eq!((totals.given_up, totals.open), (0, open));
}

/// Runs a system in which root port 0's device sends `tlps`, and the other one answers, after `acs` is set.
fn run(rig: &Rig, acs: u32, tlps: Vec<Tlp>) -> Fabric {
    rig.ends[1].serve(below(1));
    for tlp in tlps {
        rig.ends[0].send(AT_NS, tlp);
    }
    rig.run(move |cpu| async move {
        set_acs(&cpu, 0, acs).await;
        cpu.sleep(Duration::from_us(100)).await;
        Ok(())
    })
}

fn all_kinds() -> Vec<Tlp> {
    let at = window(1);
    vec![
        mwr(below(0), at, 128),
        mrd(below(0), at + 0x40, 128),
        fetch_add(below(0), at),
        // Host memory: not peer-to-peer.
        mwr(below(0), 0x1000, 64),
    ]
}

/// Requests and the returned completions keep requester and tag.
#[test]
fn forwarded_requests_keep_requester_and_tag() {
    let rig = Rig::new();
    let fabric = run(&rig, 0, all_kinds());
    assert_eq!(
        rig.ends[1].lines(),
        [
            "MWr 0xa0000000 128 B of 10:00.0 tag 7",
            "MRd 0xa0000040 128 B of 10:00.0 tag 7",
            "FetchAdd of 10:00.0 tag 7"
        ]
    );
    assert_eq!(
        rig.ends[0].lines(),
        [
            "CplD 128 B, bc 128, low 0x40, of 20:00.0 to 10:00.0 tag 7",
            "CplD 4 B, bc 4, low 0x0, of 20:00.0 to 10:00.0 tag 7"
        ]
    );
    assert_eq!(
        (fabric.root().function_counters().peer_to_peer, fabric.root().counters().memory_writes),
        (5, 1)
    );
    check_accounts(&fabric, 0);
}

#[test]
fn host_may_refuse_peer_requests() {
    let rig = Rig { mode: PeerToPeer::Refuse, ..Rig::new() };
    let fabric = run(&rig, 0, all_kinds());
    assert_eq!(rig.ends[1].lines(), [""; 0]);
    assert_eq!(rig.ends[0].lines(), ["Cpl UR of 00:00.0 to 10:00.0 tag 7"; 2]);
    assert_eq!(
        (fabric.root().counters().unsupported_requests, fabric.root().counters().memory_writes),
        (3, 1)
    );
    check_accounts(&fabric, 0);
}

/// Requests of a function with its own addresses are translated first, so they cannot reach the window of a peer. An
/// unmapped address is refused, but is no error of the root port, which others share. Without own addresses, requests
/// behave as before.
#[test]
fn remapped_function_cannot_reach_peers() {
    for (granted, passed, refused, logged) in [(true, 0, 5, 0), (false, 3, 1, 1 << 20)] {
        let rig = Rig::new();
        rig.ends[1].serve(below(1));
        let beyond = mwr(below(0), 0x2_0000_0000, 64);
        all_kinds().into_iter().chain([beyond]).for_each(|tlp| rig.ends[0].send(AT_NS, tlp));
        let mut fabric = rig.fabric(move |cpu| async move {
            set_up(&cpu).await;
            cpu.sleep(Duration::from_us(100)).await;
            let status = read(&cpu, 0, extended(0, aer::ID, aer::UNCORRECTABLE_STATUS)).await;
            assert_eq!(status, logged, "granted: {granted}");
            Ok(())
        });
        let empty = HostMemory::new(0, 0).unwrap();
        fabric.grant_memory(HostId::FIRST, below(0), empty.clone()).unwrap();
        if !granted {
            fabric.revoke_dma(HostId::FIRST, below(0)).unwrap();
        }
        finish(&mut fabric);
        let counters = fabric.root().counters();
        assert_eq!(
            (counters.unsupported_requests, counters.memory_writes),
            (refused, u64::from(!granted)),
            "granted: {granted}"
        );
        assert_eq!(rig.ends[1].lines().len(), passed);
        check_accounts(&fabric, 0);
    }
}

/// The capture `root-complex/mrd-512byte-rc.pcap` of NetTLP, line by line: the device 1a:00.0 reads 512 B at c0000000h,
/// with tag 0. The root complex reads with its own Requester ID, 64 B at a time, in order, with tags 0 to 7. The
/// completions arrive in the order 0 4 6 3 1 5 2 7. It answers as 00:00.0 when all have arrived.
#[test]
fn split_read_matches_the_capture() {
    /// For each part: address - c0000000h, tag, lower address of its completion.
    const ASKED: [(u64, u16, u8); 8] = [
        (0x000, 0, 0x00),
        (0x040, 1, 0x40),
        (0x080, 2, 0x00),
        (0x0c0, 3, 0x40),
        (0x100, 4, 0x00),
        (0x140, 5, 0x40),
        (0x180, 6, 0x00),
        (0x1c0, 7, 0x40),
    ];
    const ANSWERED: [usize; 8] = [0, 4, 6, 3, 1, 5, 2, 7];
    /// Bytes, Byte Count, Lower Address of the device's completions.
    const REBUILT: [(u32, u16, u8); 2] = [(256, 512, 0), (256, 256, 0)];

    let rig = Rig { mode: PeerToPeer::Split, ..Rig::new() };
    let mut parts = Vec::new();
    rig.ends[1].answer_many(move |request| {
        parts.extend(served(request, below(1)));
        if parts.len() < ASKED.len() { Vec::new() } else { ANSWERED.map(|n| parts[n].clone()).into() }
    });
    let mut request = mrd(below(0), window(1), 512);
    if let Body::Memory(m) = &mut request.repr.body {
        m.tag = Tag::from_bits(0);
    }
    rig.ends[0].send(AT_NS, request.with_carry(true));
    let fabric = rig.run(|cpu| async move {
        cpu.sleep(Duration::from_us(100)).await;
        Ok(())
    });
    // The host's own configuration requests have used none of the tags of this port.
    let expected: Vec<String> = ASKED
        .iter()
        .map(|(at, tag, _)| format!("MRd {:#x} 64 B of 00:00.0 tag {tag}", window(1) + at))
        .collect();
    assert_eq!(rig.ends[1].lines(), expected);
    let rebuilt: Vec<String> = REBUILT
        .iter()
        .map(|(len, bc, low)| format!("CplD {len} B, bc {bc}, low {low:#x}, of 00:00.0 to 10:00.0 tag 0"))
        .collect();
    assert_eq!(rig.ends[0].lines(), rebuilt);
    let received = rig.ends[0].received();
    let completions = received.iter().filter(|tlp| tlp.class() == Class::Completion);
    let bytes: Vec<u8> = completions.flat_map(|tlp| tlp.data.bytes().unwrap_or(&[]).to_vec()).collect();
    assert_eq!(bytes, (0..512).map(|n| ((window(1) + n) % 251) as u8).collect::<Vec<_>>());
    assert!(ASKED.iter().all(|(at, _, low)| (at & 0x7f) as u8 == *low));
    let counters = fabric.root().function_counters();
    assert_eq!((counters.split_reads, counters.split_parts), (1, 8));
    check_accounts(&fabric, 0);
}

/// Offset and length of a read, and its parts: each ends at a multiple of 64 B, or at the end of the read. 4 KiB have
/// 64 parts, more than the 32 tags, so the others wait.
#[test]
fn split_reads_end_at_multiples_of_64_bytes() {
    let rows: [(u64, u32, &[u32]); 5] = [
        (0x00, 64, &[64]),
        (0x3c, 8, &[4, 4]),
        (0x01, 1, &[1]),
        (0x20, 200, &[32, 64, 64, 40]),
        (0x00, 4096, &[64; 64]),
    ];
    for (offset, len, parts) in rows {
        let rig = Rig { mode: PeerToPeer::Split, ..Rig::new() };
        let fabric = run(&rig, 0, vec![mrd(below(0), window(1) + offset, len).with_carry(true)]);
        let asked: Vec<u32> =
            rig.ends[1].received().iter().filter_map(|tlp| len_of(&tlp.repr.body)).collect();
        assert_eq!(asked, parts, "{len} B at {offset:#x}");
        let received: Vec<Tlp> = rig.ends[0].received();
        let completions = received.iter().filter(|tlp| tlp.class() == Class::Completion);
        let answered: u32 = completions.map(|tlp| tlp.data.len() as u32).sum();
        assert_eq!(answered, len, "{len} B at {offset:#x}");
        check_accounts(&fabric, 0);
    }
}

/// Parts have the Traffic Class (`PCIe 5.0 §2.2.6.6`), attributes and prefixes of the read, but not ID-based Ordering,
/// which would let them pass writes of the read's requester. The completions of the read have the same.
#[test]
fn split_requests_keep_traffic_class_attributes_and_prefixes() {
    let rig = Rig { mode: PeerToPeer::Split, ..Rig::new() };
    let (tc, prefixes) =
        (TrafficClass::from_bits(3), Prefixes::new(&[Prefix::pasid(5, false, false)]).unwrap());
    let mut read = mrd(below(0), window(1), 128);
    (read.repr.tc, read.repr.attr, read.prefixes) = (tc, Attributes::all(), prefixes.clone());
    read.repr.th = Some(Hint { ph: ProcessingHint::Requester, st: 9 });
    let fabric = run(&rig, 0, vec![read.clone()]);
    let parts = rig.ends[1].received();
    let reads: Vec<&Tlp> = parts.iter().filter(|tlp| tlp.class() == Class::NonPosted).collect();
    assert_eq!(reads.len(), 2);
    for part in reads {
        assert_eq!((part.repr.tc, part.repr.attr), (tc, Attributes::COMPLETED));
        assert_eq!((part.repr.th, &part.prefixes), (read.repr.th, &prefixes));
    }
    let received = rig.ends[0].received();
    let answer = received.iter().find(|tlp| tlp.class() == Class::Completion).unwrap();
    assert_eq!((answer.repr.tc, answer.repr.attr), (tc, Attributes::COMPLETED));
    check_accounts(&fabric, 0);
}

/// A long link whose device takes one write at a time.
fn far_and_tight(mps: u32) -> LinkConfig {
    let mut config = link(mps);
    config.propagation = Duration::from_ns(500);
    config.device.rx_buffer[Class::Posted.index()] = CreditLimit::finite(1, 16);
    config
}

/// A read on TC1 stays behind the earlier writes on TC1 (`PCIe 5.0 §2.4.1`, entry B2a), even if these wait for credits.
#[test]
fn a_read_on_another_traffic_class_pushes_writes() {
    for mode in [PeerToPeer::Forward, PeerToPeer::Split] {
        let rig = Rig { mode, link: far_and_tight, ..Rig::new() };
        let on_tc1 = |mut tlp: Tlp| {
            tlp.repr.tc = TrafficClass::from_bits(1);
            tlp
        };
        let tlps = vec![
            mwr(below(0), window(1), 256),
            mwr(below(0), window(1) + 256, 256),
            mrd(below(0), window(1), 128),
        ];
        run(&rig, 0, tlps.into_iter().map(on_tc1).collect());
        let received = rig.ends[1].received();
        let read = received.iter().position(|tlp| tlp.class() == Class::NonPosted).unwrap();
        let writes = |tlp: &&Tlp| matches!(tlp.repr.body, Body::Memory(m) if m.op == MemoryOp::Write);
        assert_eq!(received[..read].iter().filter(writes).count(), 2, "{mode:?}");
    }
}

fn len_of(body: &Body) -> Option<u32> {
    match body {
        Body::Memory(m) => Some(m.span.byte_count()),
        _ => None,
    }
}

/// If a part is refused, the complete read is refused.
#[test]
fn one_failed_request_fails_the_split_read() {
    let rows = [(Status::UnsupportedRequest, "UR"), (Status::CompleterAbort, "CA")];
    for (status, name) in rows {
        let rig = Rig { mode: PeerToPeer::Split, ..Rig::new() };
        let mut n = 0;
        rig.ends[1].answer(move |request| {
            n += 1;
            served_with(request, below(1), if n == 2 { status } else { Status::Success })
        });
        rig.ends[0].send(AT_NS, mrd(below(0), window(1), 256));
        let fabric = rig.run(|cpu| async move {
            cpu.sleep(Duration::from_us(100)).await;
            Ok(())
        });
        assert_eq!(rig.ends[0].lines(), [format!("Cpl {name} of 00:00.0 to 10:00.0 tag 7")]);
        check_accounts(&fabric, 0);
    }
}

/// Writes longer than Max_Payload_Size of the other root port: split if the host splits, otherwise malformed there.
#[test]
fn writes_above_mps_of_peer_port_are_split_or_malformed() {
    for (mode, expected, malformed) in [
        (
            PeerToPeer::Split,
            vec!["MWr 0xa0000000 128 B of 10:00.0 tag 7", "MWr 0xa0000080 128 B of 10:00.0 tag 7"],
            0,
        ),
        (PeerToPeer::Forward, vec![], 1),
    ] {
        let rig = Rig { mode, ..Rig::new() };
        rig.ends[0].send(AT_NS, mwr(below(0), window(1), 256));
        let fabric = rig.run(move |cpu| async move {
            write(&cpu, 1, pcie(1, 2), 0x1, 0x0f).await;
            cpu.sleep(Duration::from_us(100)).await;
            let status = read(&cpu, 1, extended(1, aer::ID, aer::UNCORRECTABLE_STATUS)).await;
            assert_eq!(status, malformed << 18);
            Ok(())
        });
        assert_eq!(rig.ends[1].lines(), expected);
        check_accounts(&fabric, 0);
    }
}

/// Access Control Services of the root port that a request comes in through (`PCIe 5.0 §6.12.1.1`): bits of ACS
/// Control, the requester, and the result of a read of 64 B. A redirected request is validated, and goes on.
#[test]
fn acs_bits_select_path_of_peer_requests() {
    let (own, foreign) = (below(0), bdf(0x30, 0, 0));
    const VALIDATION: u32 = 1 << 0;
    const TRANSLATION_BLOCKING: u32 = 1 << 1;
    const REDIRECT: u32 = 1 << 2;
    const EGRESS_CONTROL: u32 = 1 << 5;
    const DIRECT_TRANSLATED: u32 = 1 << 6;
    let translated = |mut tlp: Tlp| {
        tlp.repr.at = AddressType::Translated;
        tlp
    };
    // Services, request, Egress Control Vector, whether the request arrives, ACS violations.
    let rows = [
        (0, mwr(own, window(1), 64), 0, 1, 0),
        (0, mwr(foreign, window(1), 64), 0, 1, 0),
        (VALIDATION, mwr(own, window(1), 64), 0, 1, 0),
        (VALIDATION, mwr(foreign, window(1), 64), 0, 0, 1),
        (VALIDATION, error(foreign, 0x7f), 0, 0, 1),
        (TRANSLATION_BLOCKING, translated(mwr(own, window(1), 64)), 0, 0, 1),
        (REDIRECT, mwr(own, window(1), 64), 0, 1, 0),
        (EGRESS_CONTROL, mwr(own, window(1), 64), 0b01, 1, 0),
        (EGRESS_CONTROL, mwr(own, window(1), 64), 0b10, 0, 1),
        (EGRESS_CONTROL | REDIRECT, mwr(own, window(1), 64), 0b10, 1, 0),
        (EGRESS_CONTROL, translated(mwr(own, window(1), 64)), 0b10, 0, 1),
        (EGRESS_CONTROL | DIRECT_TRANSLATED, translated(mwr(own, window(1), 64)), 0b10, 1, 0),
    ];
    for (services, tlp, vector, there, violations) in rows {
        let rig = Rig::new();
        let what = format!("services {services:#b}, vector {vector:#b}, {}", line(&tlp));
        rig.ends[0].send(AT_NS, tlp);
        let fabric = rig.run(move |cpu| async move {
            let at = extended(0, config::ext::acs::ID, config::ext::acs::EGRESS_VECTOR);
            write(&cpu, 0, at, 0xf, vector).await;
            set_acs(&cpu, 0, services).await;
            cpu.sleep(Duration::from_us(100)).await;
            // ACS Violation is bit 21.
            let status = read(&cpu, 0, extended(0, aer::ID, aer::UNCORRECTABLE_STATUS)).await;
            assert_eq!(status, violations << 21, "services {services:#b}");
            Ok(())
        });
        assert_eq!(rig.ends[1].lines().len(), there, "{what}");
        assert_eq!(fabric.root().function_counters().acs_violations, u64::from(violations), "{what}");
        check_accounts(&fabric, 0);
    }
}

/// A refused read is completed with CA (`PCIe 5.0 §6.12.1.1`).
#[test]
fn a_blocked_read_ends_with_completer_abort() {
    let rig = Rig::new();
    let fabric = run(&rig, 1, vec![mrd(bdf(0x30, 0, 0), window(1), 64)]);
    assert_eq!(rig.ends[0].lines(), ["Cpl CA of 00:00.0 to 30:00.0 tag 7"]);
    check_accounts(&fabric, 0);
}

/// With ACS Upstream Forwarding a request for the same root port goes back down; otherwise it is refused.
#[test]
fn upstream_forwarding_allows_return_to_the_same_port() {
    for (services, expected) in
        [(0, "Cpl UR of 00:00.0 to 10:00.0 tag 7"), (1 << 4, "MRd 0x90000000 64 B of 10:00.0 tag 7")]
    {
        let rig = Rig::new();
        let fabric = run(&rig, services, vec![mrd(below(0), window(0), 64)]);
        assert_eq!(rig.ends[0].lines(), [expected]);
        check_accounts(&fabric, u64::from(services != 0));
    }
}

/// AtomicOp Egress Blocking (Device Control 2 bit 7) and Poisoned TLP Egress Blocking (DPC Control bit 5): bits 24 and
/// 26 of Uncorrectable Error Status of the egress port.
#[test]
fn egress_port_blocks_atomics_and_poisoned_tlps() {
    let atomics = (pcie(1, 10), 0x1, 1 << 7);
    // Bits 31:16 of the DW, with DPC Trigger Enable off.
    let poison = (extended(1, config::ext::dpc::ID, config::ext::dpc::CONTROL), 0xc, 1 << 5 << 16);
    let rows =
        [(atomics, fetch_add(below(0), window(1)), 24), (poison, poisoned(mwr(below(0), window(1), 64)), 26)];
    for ((register, enables, value), tlp, bit) in rows {
        let rig = Rig::new();
        rig.ends[0].send(AT_NS, tlp);
        let fabric = rig.run(move |cpu| async move {
            write(&cpu, 1, register, enables, value).await;
            // Unmasked: both are masked after reset.
            write(&cpu, 1, extended(1, aer::ID, aer::UNCORRECTABLE_MASK), 0xf, 0).await;
            cpu.sleep(Duration::from_us(100)).await;
            let status = read(&cpu, 1, extended(1, aer::ID, aer::UNCORRECTABLE_STATUS)).await;
            assert_eq!(status, 1 << bit);
            Ok(())
        });
        assert_eq!(rig.ends[1].lines(), [""; 0]);
        check_accounts(&fabric, 0);
    }
}

/// The link of the other root port goes down: later reads are refused, as are parts; writes have no effect.
#[test]
fn requests_to_a_peer_below_a_down_link_fail() {
    for mode in [PeerToPeer::Forward, PeerToPeer::Split] {
        let rig = Rig { mode, ..Rig::new() };
        rig.ends[0].send(AT_NS, mwr(below(0), window(1), 64));
        rig.ends[0].send(AT_NS, mrd(below(0), window(1), 64));
        let mut fabric = rig.fabric(|cpu| async move {
            set_up(&cpu).await;
            cpu.sleep(Duration::from_us(100)).await;
            Ok(())
        });
        let at = Time::ZERO + Duration::from_ns(AT_NS - 1_000);
        fabric.schedule(LinkEvent { at, link: LinkId(1), change: LinkChange::Cut });
        finish(&mut fabric);
        assert_eq!(rig.ends[1].lines(), [""; 0]);
        assert_eq!(rig.ends[0].lines(), ["Cpl UR of 00:00.0 to 10:00.0 tag 7"]);
        assert_eq!(fabric.root().function_counters().link_down, 2);
        check_accounts(&fabric, 0);
    }
}

/// A part waits for the only tag. The tag is freed when its link has been cut, or when its request has timed out and
/// the same time has passed again. Then the read ends, once. Rows: whether the link is cut; parts that arrive; how the
/// read is completed: by the first of its parts that fails.
#[test]
fn split_request_without_tag_is_sent_later() {
    for (cut, parts, status) in [(true, 1, "UR"), (false, 4, "CA")] {
        let mut rig = Rig { mode: PeerToPeer::Split, ..Rig::new() };
        rig.host.max_host_requests_per_port = 1;
        let mut asked = 0;
        rig.ends[1].answer(move |request| {
            asked += 1;
            if asked == 1 { None } else { served(request, below(1)) }
        });
        rig.ends[0].send(AT_NS, mrd(below(0), window(1), 256));
        let mut fabric = rig.fabric(|cpu| async move {
            set_up(&cpu).await;
            cpu.sleep(Duration::from_us(1_500)).await;
            Ok(())
        });
        if cut {
            let at = Time::ZERO + Duration::from_ns(AT_NS + 5_000);
            fabric.schedule(LinkEvent { at, link: LinkId(1), change: LinkChange::Cut });
        }
        finish(&mut fabric);
        assert_eq!(rig.ends[1].lines().len(), parts, "cut {cut}");
        assert_eq!(rig.ends[0].lines(), [format!("Cpl {status} of 00:00.0 to 10:00.0 tag 7")], "cut {cut}");
        check_accounts(&fabric, 0);
    }
}

/// `PCIe 5.0 §7.5.1.3.7`: Master Data Parity Error (Secondary Status bit 8) of the root port that sends a poisoned request down, with
/// Parity Error Response Enable of Bridge Control.
#[test]
fn forwarded_poisoned_request_is_logged() {
    for (response, expected) in [(0, 0), (1 << 16, 1)] {
        let rig = Rig::new();
        rig.ends[0].send(AT_NS, poisoned(mwr(below(0), window(1), 64)));
        rig.run(move |cpu| async move {
            write(&cpu, 1, 15, 0x4, 0x0002_0000 | response).await;
            cpu.sleep(Duration::from_us(100)).await;
            assert_eq!(read(&cpu, 1, 7).await >> 24 & 1, expected);
            assert_eq!(read(&cpu, 0, 7).await >> 24 & 1, 0, "the other port has sent nothing");
            Ok(())
        });
        assert_eq!(rig.ends[1].lines(), ["MWr 0xa0000000 64 B of 10:00.0 tag 7"]);
    }
}

/// Writes of one device to the other stay in order, and a read does not pass them.
#[test]
fn posted_order_is_kept_between_root_ports() {
    let rig = Rig::new();
    let tlps: Vec<Tlp> = (0..40)
        .map(|n| match n % 4 {
            3 => mrd(below(0), window(1) + n * 64, 4),
            _ => mwr(below(0), window(1) + n * 64, 64),
        })
        .collect();
    let fabric = run(&rig, 0, tlps);
    let addresses: Vec<u64> = rig.ends[1]
        .received()
        .iter()
        .filter_map(|tlp| match tlp.repr.body {
            Body::Memory(m) => Some((m.span.first_byte() - window(1)) / 64),
            _ => None,
        })
        .collect();
    let writes: Vec<u64> = addresses.iter().copied().filter(|n| n % 4 != 3).collect();
    assert!(writes.is_sorted() && addresses.len() == 40, "{addresses:?}");
    // Each read arrives after the writes that were sent before it.
    for read in (3..40).step_by(4) {
        let at = addresses.iter().position(|n| *n == read);
        let before = addresses.iter().take(at.unwrap_or(0)).filter(|n| **n < read && **n % 4 != 3).count();
        assert_eq!(before as u64, read - read / 4, "read {read}");
    }
    check_accounts(&fabric, 0);
}
