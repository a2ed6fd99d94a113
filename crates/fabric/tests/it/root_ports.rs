// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Root ports as functions: configuration requests, windows, errors, interrupts, links. Expected values are from the
//! specification if a row names it.

use crate::root_rig::*;
use config::ext::{aer, dpc};
use device::CompletionError;
use host::{Cpu, HostError};
use riser_fabric::{Fabric, LinkChange, LinkEvent, LinkId};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::message::MessageCodes;
use tlp::*;

const UR: HostError = HostError::Completion(CompletionError::UnsupportedRequest);

/// Notes of a program.
type Notes = Rc<RefCell<Vec<String>>>;

async fn aer(cpu: &Cpu, n: u8, dw: u16) -> u32 {
    read(cpu, n, extended(n, aer::ID, dw)).await
}

/// Checks that every transaction is accounted for.
fn check_accounts(fabric: &Fabric) {
    let totals = fabric.account_totals();
    assert_eq!(totals.opened, totals.closed + totals.dropped + totals.given_up + totals.open);
    assert_eq!(totals.given_up, 0);
}

/// `PCIe 5.0 §7.3.3`: the root complex answers for bus 0; the bus directly below a root port gets type 0, those further
/// below type 1; absent functions are UR.
#[test]
fn configuration_requests_reach_their_bus() {
    let rows = [
        (bdf(0, 1, 0), Ok(0x5678_1234), None),
        (bdf(0, 2, 0), Ok(0x5678_1234), None),
        (bdf(0, 0, 0), Err(HostError::NoDevice), None),
        (bdf(0, 3, 0), Err(HostError::NoDevice), None),
        (bdf(0, 1, 1), Err(HostError::NoDevice), None),
        (bdf(0x10, 0, 0), Ok(0x0302_0100), Some((0, "CfgRd0 10:00.0 register 0x0"))),
        (bdf(0x10, 0, 5), Ok(0x0302_0100), Some((0, "CfgRd0 10:00.5 register 0x0"))),
        (bdf(0x10, 1, 0), Err(HostError::NoDevice), None),
        (bdf(0x11, 3, 0), Ok(0x0302_0100), Some((0, "CfgRd1 11:03.0 register 0x0"))),
        (bdf(0x1f, 0, 0), Ok(0x0302_0100), Some((0, "CfgRd1 1f:00.0 register 0x0"))),
        (bdf(0x20, 0, 0), Ok(0x0302_0100), Some((1, "CfgRd0 20:00.0 register 0x0"))),
        (bdf(0x30, 0, 0), Err(HostError::NoDevice), None),
    ];
    let rig = Rig::new();
    (0..2).for_each(|n| rig.ends[usize::from(n)].serve(below(n)));
    rig.run(move |cpu| async move {
        for (function, expected, _) in rows {
            let read = cpu.config_read(function, 0).await;
            assert_eq!(read, expected, "{function}");
        }
        Ok(())
    });
    for n in 0..2 {
        let expected: Vec<&str> =
            rows.iter().filter_map(|row| row.2).filter(|row| row.0 == n).map(|row| row.1).collect();
        assert_eq!(rig.ends[n].lines(), expected);
    }
}

/// ARI Forwarding Enable: any device number of the secondary bus goes down as type 0 (`PCIe 5.0 §7.5.3.16`).
#[test]
fn ari_forwarding_opens_the_secondary_bus() {
    let rig = Rig::new();
    rig.ends[0].serve(below(0));
    rig.run(|cpu| async move {
        write(&cpu, 0, pcie(0, 10), 0x1, 1 << 5).await;
        assert_eq!(cpu.config_read(bdf(0x10, 1, 0), 0).await, Ok(0x0302_0100));
        Ok(())
    });
    assert_eq!(rig.ends[0].lines(), ["CfgRd0 10:01.0 register 0x0"]);
}

/// An answer of a function of bus 0 takes the root complex latency twice, and crosses no link.
#[test]
fn functions_of_bus_0_answer_after_two_root_complex_latencies() {
    let rig = Rig::new();
    let fabric = rig.run(|cpu| async move {
        let before = cpu.now();
        read(&cpu, 0, 0).await;
        assert_eq!(cpu.now().since(before), LATENCY * 2);
        Ok(())
    });
    assert_eq!(fabric.root().function_counters().config_requests, 2 * 13 + 1);
    assert_eq!(rig.ends[0].lines(), [""; 0]);
}

/// Windows and the enables of Command determine where memory and I/O requests go (`PCIe 5.0 §7.5.1.3`).
#[test]
fn windows_and_enables_route_requests() {
    let rig = Rig::new();
    (0..2).for_each(|n| rig.ends[usize::from(n)].serve(below(n)));
    let fabric = rig.run(|cpu| async move {
        let no_device = Some(HostError::NoDevice);
        let rows = [
            (0x9000_0000, None),
            (0x9fff_fffc, None),
            (0xa000_0000, None),
            (0xafff_fffc, None),
            (0xb000_0000, no_device),
            (0x8fff_fffc, no_device),
        ];
        for (address, expected) in rows {
            assert_eq!(cpu.read_u32(address).await.err(), expected, "{address:#x}");
        }
        assert!(cpu.io_read(0x1ffc, 4).await.is_ok());
        assert!(cpu.io_read(0x2000, 4).await.is_ok());
        assert_eq!(cpu.io_read(0x3000, 4).await, Err(HostError::NoDevice));
        // Memory Space and I/O Space Enable of root port 0 cleared.
        write(&cpu, 0, 1, 0x1, 0x04).await;
        assert_eq!(cpu.read_u32(0x9000_0000).await, Err(HostError::NoDevice));
        assert_eq!(cpu.io_read(0x1ffc, 4).await, Err(HostError::NoDevice));
        cpu.write(0x9000_0000, vec![0; 4]).await.unwrap();
        // A prefetchable window of 64-bit addresses: 40_0000_0000 to 40_000f_ffff.
        for (register, value) in [(9, 0x0000_0000), (10, 0x40), (11, 0x40)] {
            write(&cpu, 1, register, 0xf, value).await;
        }
        assert!(cpu.read_u32(0x40_000f_fffc).await.is_ok());
        assert_eq!(cpu.read_u32(0x40_0010_0000).await, Err(HostError::NoDevice));
        Ok(())
    });
    assert_eq!(rig.ends[0].received().iter().filter(|t| matches!(t.repr.body, Body::Io(_))).count(), 1);
    assert_eq!(rig.ends[1].lines().len(), 4);
    check_accounts(&fabric);
}

/// Without Bus Master Enable nothing goes up: UR (`PCIe 5.0 §7.5.1.1.3`). Preset ports start with Bus Master Enable
/// set, and with the Max_Payload_Size of their link.
#[test]
fn bus_master_enable_gates_requests() {
    for (preset, answer) in [(false, "Cpl UR of 00:00.0 to 10:00.0 tag 7"), (true, "CplD 64 B, bc 64")] {
        let rig = Rig { preset, ..Rig::new() };
        rig.ends[0].send(5_000, mrd(below(0), 0x1000, 64));
        rig.ends[0].send(5_000, mwr(below(0), 0x1000, 256));
        let mut fabric = rig.fabric(|cpu| async move {
            cpu.sleep(Duration::from_us(10)).await;
            Ok(())
        });
        finish(&mut fabric);
        assert!(rig.ends[0].lines()[0].starts_with(answer), "{:?}", rig.ends[0].lines());
        let counters = fabric.root().counters();
        let (good, malformed) = if preset { (1, 0) } else { (0, 1) };
        assert_eq!((counters.memory_reads, counters.memory_writes), (good, good));
        // 256 B are more than Max_Payload_Size after reset, 128 B.
        assert_eq!(counters.malformed, malformed);
        let status = fabric.root().space(0).map(|s| s.read(s.aer_capability().unwrap() + 1)).unwrap();
        // UR is advisory here, and advisory errors are masked after reset.
        assert_eq!(status, if preset { 0 } else { 1 << 18 });
        check_accounts(&fabric);
    }
}

/// The bit of Uncorrectable Error Status that an error sets (`PCIe 5.0 Figure 7-123`), whether its header is logged,
/// and the device's answer.
#[test]
fn errors_of_downstream_tlps_are_logged() {
    let unknown = Tag::from_bits(0x1f);
    let foreign = completion(below(0), bdf(0, 0, 0), unknown, Status::Success, 4);
    let mut wrong = mwr(below(0), 0x1000, 64);
    (wrong.repr.td, wrong.flaw) = (true, Flaw::WrongEcrc);
    let mut long = mwr(below(0), 0x1000, 512);
    (long.repr.td, long.flaw) = (true, Flaw::WrongEcrc);
    let refused = Some("Cpl UR of 00:00.0 to 10:00.0 tag 7");
    let local = |code| message(MessageRouting::Local, below(0), code);
    // Root Error Status of the resulting message (`PCIe 5.0 §7.8.4.10`).
    let (cor, non_fatal, fatal) = (0x01, 0x24, 0x54);
    let rows: [(&str, Tlp, u32, u32, Option<&str>); 22] = [
        // The target of poisoned data never gets it, and only this error reports it (§6.2.3.2.4.3, §2.7.2.2).
        ("poisoned write", poisoned(mwr(below(0), 0x1000, 64)), 12, non_fatal, None),
        ("poisoned interrupt", poisoned(mwr(below(0), 0xfee0_0000, 4)), 12, non_fatal, None),
        ("poisoned AtomicOp", poisoned(fetch_add(below(0), 0x1000)), 12, non_fatal, refused),
        ("poisoned deferrable write", poisoned(deferrable(0x1000)), 12, non_fatal, refused),
        ("poisoned AtomicOp to nowhere", poisoned(fetch_add(below(0), 0xf000_0000)), 20, non_fatal, refused),
        ("AtomicOp to nowhere", fetch_add(below(0), 0xf000_0000), 20, cor, refused),
        ("write to nowhere", mwr(below(0), 0xf000_0000, 64), 20, non_fatal, None),
        ("read of nowhere", mrd(below(0), 0xf000_0000, 64), 20, cor, refused),
        ("more than MPS", mwr(below(0), 0x1000, 512), 18, fatal, None),
        ("wrong ECRC", wrong, 19, non_fatal, None),
        ("more than MPS, wrong ECRC (§6.2.3.2.3)", long, 18, fatal, None),
        ("unexpected completion", foreign, 16, cor, None),
        ("own window", mrd(below(0), window(0), 64), 20, cor, refused),
        ("poisoned message", poisoned(error(below(0), 0x7f)), 12, non_fatal, None),
        // Messages that a root port does not accept (§2.3.1).
        ("PTM_Request", local(0x52), 20, non_fatal, None),
        ("unknown code", local(0x60), 20, non_fatal, None),
        ("Vendor_Defined Type 0", error(below(0), 0x7e), 20, non_fatal, None),
        ("Page_Request", error(below(0), 0x04), 20, non_fatal, None),
        ("LTR", local(0x10), 20, non_fatal, None),
        ("OBFF", local(0x12), 20, non_fatal, None),
        ("Set_Slot_Power_Limit", power_limit(), 20, non_fatal, None),
        ("PM_Active_State_Nak", local(0x14), 20, non_fatal, None),
    ];
    for (what, tlp, bit, told, answer) in rows {
        let rig = Rig::new();
        let header = link::header_log(&tlp);
        rig.ends[0].send(50_000, tlp);
        let fabric = rig.run(move |cpu| async move {
            cpu.sleep(Duration::from_us(60)).await;
            assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await, 1 << bit, "{what}");
            for (dw, word) in header.into_iter().enumerate() {
                assert_eq!(aer(&cpu, 0, aer::HEADER_LOG + dw as u16).await, word, "{what}: header DW {dw}");
            }
            assert_eq!(aer(&cpu, 1, aer::UNCORRECTABLE_STATUS).await, 0, "{what}: the other port");
            // The port has reported the error to itself: Root Error Status has its own ID as the source.
            assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 0x7f, told, "{what}");
            let source = aer(&cpu, 0, aer::ERROR_SOURCE).await;
            assert!([0x0008, 0x0008 << 16].contains(&source), "{what}: {source:#x}");
            Ok(())
        });
        assert_eq!(rig.ends[0].lines(), answer.into_iter().collect::<Vec<_>>(), "{what}");
        check_accounts(&fabric);
    }
}

/// Prefixes at a root port (`PCIe 5.0 §2.2.10.2`): more prefixes than supported are malformed. A prefix of a reserved
/// type makes a request unsupported, and a completion unexpected.
#[test]
fn port_accepts_only_supported_prefixes() {
    const PASID: u32 = 0x9100_0005;
    const RESERVED: u32 = 0x9500_0000;
    let refused = Some("Cpl UR of 00:00.0 to 10:00.0 tag 7");
    let answered = Some("CplD 64 B, bc 64, low 0x0, of 00:00.0 to 10:00.0 tag 7");
    let foreign = completion(below(0), bdf(0, 0, 0), Tag::from_bits(0x1f), Status::Success, 4);
    let vendor = message(MessageRouting::ToRootComplex, below(0), 0x18);
    let peer = mrd(below(0), window(1), 64);
    let rows = [
        ("PASID", 4, &[PASID][..], mrd(below(0), 0x1000, 64), 0, answered),
        ("PASID, one supported", 1, &[PASID], mrd(below(0), 0x1000, 64), 0, answered),
        ("two, one supported", 1, &[PASID, 0x9e00_0000], mrd(below(0), 0x1000, 64), 1 << 18, None),
        ("PASID, none supported", 0, &[PASID], mrd(below(0), 0x1000, 64), 1 << 18, None),
        ("PASID on a write, none supported", 0, &[PASID], mwr(below(0), 0x1000, 64), 1 << 18, None),
        ("reserved", 4, &[RESERVED], mrd(below(0), 0x1000, 64), 1 << 20, refused),
        ("reserved on an AtomicOp", 4, &[RESERVED], fetch_add(below(0), 0x1000), 1 << 20, refused),
        ("reserved on a write", 4, &[RESERVED], mwr(below(0), 0x1000, 64), 1 << 20, None),
        ("reserved on an interrupt", 4, &[RESERVED], mwr(below(0), 0xfee0_0000, 4), 1 << 20, None),
        ("reserved on a message", 4, &[RESERVED], vendor, 1 << 20, None),
        ("reserved on a completion", 4, &[RESERVED], foreign, 1 << 16, None),
        ("reserved, to a peer", 4, &[RESERVED], peer, 0, None),
    ];
    for (what, supported, prefixes, tlp, error, answer) in rows {
        let rig = Rig { end_end_prefixes: supported, ..Rig::new() };
        let prefixes: Vec<Prefix> = prefixes.iter().map(|dw| Prefix(*dw)).collect();
        rig.ends[0].send(50_000, Tlp { prefixes: Prefixes::new(&prefixes).unwrap(), ..tlp });
        let fabric = rig.run(move |cpu| async move {
            cpu.sleep(Duration::from_us(60)).await;
            assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await, error, "{what}");
            Ok(())
        });
        assert_eq!(rig.ends[0].lines(), Vec::from_iter(answer), "{what}");
        assert_eq!(rig.ends[1].lines().len(), usize::from(what.ends_with("peer")), "{what}");
        assert_eq!(fabric.root().counters().memory_writes, 0, "{what}");
        assert_eq!(fabric.root().counters().interrupts, 0, "{what}");
    }
}

fn deferrable(address: u64) -> Tlp {
    let (op, span) = (MemoryOp::WriteDeferrable, Span::covering(address, 64).unwrap());
    let body = MemoryRequest { op, requester: below(0), tag: Tag::from_bits(7), span };
    Tlp::new(Repr::new(Body::Memory(body)), Data::Counted(64))
}

fn power_limit() -> Tlp {
    let mut tlp = message(MessageRouting::Local, below(0), 0x50);
    if let Body::Message(m) = &mut tlp.repr.body {
        m.length_dw = Some(1);
    }
    Tlp { data: Data::Counted(4), ..tlp }
}

/// Messages that are silently dropped (`PCIe 5.0 §2.2.8.6`, §2.2.8.7), and messages to which the host program
/// subscribes.
#[test]
fn messages_are_dropped_or_passed_to_subscribers() {
    let rig = Rig::new();
    let codes = [0x41, 0x48, 0x7e, 0x04, 0x7f];
    for (at, code) in (50..).zip(codes) {
        rig.ends[0].send(at * 1_000, error(below(0), code));
    }
    let fabric = rig.run(|cpu| async move {
        cpu.take_messages(MessageCodes::of(&[0x7e, 0x04])).await;
        for expected in [0x7e, 0x04, 0x7f] {
            assert_eq!(cpu.next_message().await.code, expected);
        }
        assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await, 0);
        Ok(())
    });
    let counters = fabric.root().counters();
    assert_eq!((counters.messages, counters.vendor_messages, counters.unsupported_requests), (5, 2, 0));
}

/// LTR Mechanism Enable, bit 10 of Device Control 2 (`PCIe 5.0 §6.18`): with it a root port takes LTR messages, to no effect.
#[test]
fn ltr_is_accepted_if_enabled() {
    for enabled in [true, false] {
        let rig = Rig::new();
        rig.ends[0].send(50_000, message(MessageRouting::Local, below(0), 0x10));
        rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 10), 0x3, u32::from(enabled) << 10).await;
            cpu.sleep(Duration::from_us(60)).await;
            let unsupported = aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await;
            assert_eq!(unsupported, if enabled { 0 } else { 1 << 20 });
            Ok(())
        });
    }
}

/// Completion Timeout is bit 14; a completion that arrives too late is unexpected, bit 16.
#[test]
fn a_completion_timeout_is_logged() {
    let rig = Rig::new();
    rig.run(|cpu| async move {
        assert_eq!(cpu.read_u32(window(0)).await, Err(HostError::CompletionTimeout));
        assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await, 1 << 14);
        Ok(())
    });
}

/// A request that the other end refuses shows in Secondary Status (`PCIe 5.0 §7.5.1.3.7`): bit 29 of the DW for UR, bit 28 for
/// CA.
#[test]
fn refused_requests_set_secondary_status() {
    for (status, bit) in [(Status::UnsupportedRequest, 29), (Status::CompleterAbort, 28)] {
        let rig = Rig::new();
        rig.ends[0].answer(move |request| served_with(request, below(0), status));
        rig.run(move |cpu| async move {
            assert!(cpu.read_u32(window(0)).await.is_err());
            assert_eq!(read(&cpu, 0, 7).await >> 28 & 0b11, 1 << (bit - 28));
            Ok(())
        });
    }
}

/// ERR_* messages: Root Error Status, Error Source Identification, an interrupt if Root Error Command enables it (`PCIe
/// 5.0 §6.2.4.1.2`, §7.8.4.9 to .11).
#[test]
fn error_messages_reach_the_root_registers() {
    // Code, Root Error Status, shift of the source, enable in Root Error Command.
    let rows = [(0x30, 0x01, 0, 1 << 0), (0x31, 0x24, 16, 1 << 1), (0x33, 0x54, 16, 1 << 2)];
    for (code, status, shift, enable) in rows {
        for enabled in [true, false] {
            let rig = Rig::new();
            rig.ends[1].send(50_000, error(bdf(0x21, 2, 3), code));
            let fabric = rig.run(move |cpu| async move {
                let command = if enabled { enable } else { !enable & 7 };
                write(&cpu, 1, extended(1, aer::ID, aer::ROOT_COMMAND), 0xf, command).await;
                if enabled {
                    cpu.interrupt(VECTOR + 1).await;
                } else {
                    cpu.sleep(Duration::from_us(60)).await;
                }
                assert_eq!(aer(&cpu, 1, aer::ROOT_STATUS).await & 0x7f, status);
                assert_eq!(aer(&cpu, 1, aer::ERROR_SOURCE).await, 0x2113 << shift);
                Ok(())
            });
            assert_eq!(fabric.root().counters().interrupts, u64::from(enabled));
        }
    }
}

/// Without SERR# Enable of Bridge Control the message does not reach the root port's registers (`PCIe 5.0 §6.2.6`).
#[test]
fn serr_enable_gates_error_messages() {
    let rig = Rig::new();
    rig.ends[0].send(50_000, error(below(0), 0x33));
    rig.run(|cpu| async move {
        write(&cpu, 0, 15, 0x4, 0).await;
        cpu.sleep(Duration::from_us(60)).await;
        assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 0x7f, 0);
        Ok(())
    });
}

/// PM_PME: Root Status with the requester, and an interrupt (`PCIe 5.0 §6.1.6`, §7.5.3.14).
#[test]
fn pme_raises_an_interrupt() {
    let rig = Rig::new();
    rig.ends[0].send(50_000, error(bdf(0x10, 0, 1), 0x18));
    rig.run(|cpu| async move {
        write(&cpu, 0, pcie(0, 7), 0x1, 1 << 3).await;
        cpu.interrupt(VECTOR).await;
        assert_eq!(read(&cpu, 0, pcie(0, 8)).await, 0x0001_1001);
        Ok(())
    });
}

/// CRS (`PCIe 5.0 §2.3.2`): with CRS Software Visibility a read of Vendor ID returns ffff0001h. Otherwise the root
/// complex repeats the request by itself until the function is ready or the retry time is over.
#[test]
fn crs_is_returned_to_software_or_retried() {
    // Visible, register, CRS completions before the answer, the value that the program reads, number of requests.
    let rows: [(bool, u16, u32, u32, usize); 5] = [
        (true, 0, 3, 0xffff_0001, 1),
        (true, 1, 3, 0x0605_0403, 4),
        (false, 0, 3, 0x0605_0403, 4),
        (false, 0, 0, 0x0605_0403, 1),
        // Every 10 us and the way there and back, 0.13 us, until 500 us have passed.
        (false, 0, u32::MAX, u32::MAX, 51),
    ];
    for (visible, register, times, value, asked) in rows {
        let rig = Rig::new();
        let mut left = times;
        rig.ends[0].answer(move |request| {
            if left > 0 {
                left -= 1;
                return served_with(request, below(0), Status::ConfigRetry);
            }
            let mut answer = served(request, below(0))?;
            answer.data = Data::Carried(PayloadPool::new().copy(&[3, 4, 5, 6]));
            Some(answer)
        });
        let fabric = rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 7), 0x1, u32::from(visible) << 4).await;
            assert_eq!(cpu.config_read(below(0), register).await, Ok(value));
            Ok(())
        });
        let sent = rig.ends[0].lines().len();
        assert_eq!(sent, asked, "visible: {visible}, {times} times");
        assert_eq!(fabric.root().function_counters().config_retries, asked as u64 - 1);
        check_accounts(&fabric);
    }
}

/// A write is repeated with its data.
#[test]
fn configuration_write_is_retried() {
    let rig = Rig::new();
    let mut first = true;
    rig.ends[0].answer(move |request| {
        let status = if std::mem::take(&mut first) { Status::ConfigRetry } else { Status::Success };
        served_with(request, below(0), status)
    });
    rig.run(
        |cpu| async move { cpu.config_write(below(0), 4, 0xf, 0xdead_beef).await.map_err(|e| e.to_string()) },
    );
    let written: Vec<_> = rig.ends[0]
        .received()
        .iter()
        .filter(|tlp| matches!(tlp.repr.body, Body::Config(_)))
        .map(|tlp| tlp.data.bytes().map(<[u8]>::to_vec))
        .collect();
    assert_eq!(written, [Some(vec![0xef, 0xbe, 0xad, 0xde]), Some(vec![0xef, 0xbe, 0xad, 0xde])]);
}

/// INTx messages are levels: the host receives changes, and a link that is down asserts no wire (`PCIe 5.0 §2.2.8.1`).
#[test]
fn interrupt_wires_are_reported_as_levels() {
    let rig = Rig::new();
    let codes = [0x20, 0x20, 0x22, 0x24, 0x24];
    for (at, code) in (40..).step_by(10).zip(codes) {
        rig.ends[0].send(at * 1_000, message(MessageRouting::Local, below(0), code));
    }
    let notes = Notes::default();
    let told = notes.clone();
    let mut fabric = rig.fabric(move |cpu| async move {
        set_up(&cpu).await;
        for _ in 0..4 {
            let m = cpu.next_message().await;
            told.borrow_mut().push(format!("{:#x} of {}", m.code, m.requester));
        }
        Ok(())
    });
    let at = Time::ZERO + Duration::from_us(100);
    fabric.schedule(LinkEvent { at, link: LinkId(0), change: LinkChange::Cut });
    finish(&mut fabric);
    assert_eq!(*notes.borrow(), ["0x20 of 10:00.0", "0x22 of 10:00.0", "0x24 of 10:00.0", "0x26 of 00:01.0"]);
    assert_eq!(fabric.root().wires(0), 0);
}

/// Without MSI the root port's own interrupts use its own wire, INTA by its Interrupt Pin (`PCIe 5.0 §6.1.2`).
#[test]
fn port_interrupts_may_use_intx() {
    let rig = Rig::new();
    rig.ends[0].send(50_000, error(below(0), 0x33));
    rig.run(|cpu| async move {
        write(&cpu, 0, space(0).msi_capability().unwrap(), 0x4, 0).await;
        write(&cpu, 0, extended(0, aer::ID, aer::ROOT_COMMAND), 0xf, 4).await;
        let m = cpu.next_message().await;
        assert_eq!((m.code, m.requester), (0x20, root_port(0)));
        assert_eq!(read(&cpu, 0, 1).await >> 19 & 1, 1, "Interrupt Status");
        // Root Error Status is cleared, and the wire with it.
        write(&cpu, 0, extended(0, aer::ID, aer::ROOT_STATUS), 0xf, 0x7f).await;
        let m = cpu.next_message().await;
        assert_eq!((m.code, m.requester), (0x24, root_port(0)));
        Ok(())
    });
}

/// Downstream Port Containment (`PCIe 5.0 §6.2.10`): ERR_FATAL from below triggers it and is not forwarded. The link
/// goes down, requests end immediately, and an interrupt reports it. When software clears the status, the link comes
/// up.
#[test]
fn containment_lasts_until_released() {
    let rig = Rig::new();
    rig.ends[0].serve(below(0));
    rig.ends[0].send(50_000, error(bdf(0x10, 0, 2), 0x33));
    let fabric = rig.run(|cpu| async move {
        let control = extended(0, dpc::ID, dpc::CONTROL);
        // Trigger Enable 01b: fatal; Completion Control 1: UR; Interrupt Enable.
        write(&cpu, 0, control, 0xc, (0b01 | 1 << 2 | 1 << 3) << 16).await;
        cpu.interrupt(VECTOR).await;
        let status = read(&cpu, 0, extended(0, dpc::ID, dpc::STATUS)).await;
        // Triggered, reason 10b (ERR_FATAL), interrupt; DPC Error Source ID.
        assert_eq!((status & 0xf, status >> 16), (0b1101, 0x1002));
        assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 0x7f, 0, "the message went no further");
        assert_eq!(cpu.read_u32(window(0)).await, Err(UR));
        assert_eq!(read(&cpu, 0, pcie(0, 4)).await >> 29 & 1, 0, "Data Link Layer Link Active");
        write(&cpu, 0, extended(0, dpc::ID, dpc::STATUS), 0x1, 0b1001).await;
        cpu.sleep(Duration::from_us(50)).await;
        assert_eq!(read(&cpu, 0, pcie(0, 4)).await >> 29 & 1, 1);
        assert!(cpu.read_u32(window(0)).await.is_ok());
        Ok(())
    });
    check_accounts(&fabric);
}

/// DPC RP Busy (`PCIe 5.0 §7.9.15.4`, bit 4 of DPC Status), is set from the trigger until the outstanding request has
/// ended, here by its completion timeout of 500 us. Without an outstanding request, the bit is never set.
#[test]
fn containment_is_busy_until_requests_complete() {
    for asks in [true, false] {
        let rig = Rig::new();
        rig.run(move |cpu| async move {
            let busy = || async { read(&cpu, 0, extended(0, dpc::ID, dpc::STATUS)).await >> 4 & 1 };
            if asks {
                let other = cpu.clone();
                drop(cpu.spawn(async move { other.read_u32(window(0)).await }));
            }
            cpu.sleep(Duration::from_us(20)).await;
            assert_eq!(busy().await, 0);
            // Trigger Enable 01b, Software Trigger.
            write(&cpu, 0, extended(0, dpc::ID, dpc::CONTROL), 0xc, (0b01 | 1 << 6) << 16).await;
            assert_eq!(busy().await, u32::from(asks));
            cpu.sleep(Duration::from_us(400)).await;
            assert_eq!(busy().await, u32::from(asks));
            cpu.sleep(Duration::from_us(100)).await;
            assert_eq!(busy().await, 0);
            Ok(())
        });
    }
}

/// A posted write that was not sent before its link is cut is unsupported, like a later one (`PCIe 5.0 §2.9.1`). It
/// sets bit 20. The error is not advisory, so it sets Non-Fatal Error Detected (bit 17 of Device Status).
#[test]
fn a_posted_write_to_a_cut_link_is_an_error() {
    let at_ns = 80_000;
    for late in [false, true] {
        let rig = Rig::new();
        let mut fabric = rig.fabric(move |cpu| async move {
            set_up(&cpu).await;
            let at = at_ns + if late { 5_000 } else { 0 };
            cpu.sleep_until(Time::ZERO + Duration::from_ns(at)).await;
            assert_eq!(cpu.write(window(0), &[0; 4]).await, Ok(()));
            cpu.sleep(Duration::from_us(20)).await;
            assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await & 1 << 20, 1 << 20, "late {late}");
            assert_eq!(read(&cpu, 0, pcie(0, 2)).await >> 17 & 1, 1, "late {late}");
            Ok(())
        });
        // The write is in transit through the root complex.
        let at = Time::ZERO + Duration::from_ns(at_ns) + Duration::from_ns(50);
        fabric.schedule(LinkEvent { at, link: LinkId(0), change: LinkChange::Cut });
        finish(&mut fabric);
        assert_eq!(rig.ends[0].lines(), [""; 0]);
        assert_eq!(fabric.root().function_counters().link_down, 1, "late {late}");
        check_accounts(&fabric);
    }
}

/// Secondary Bus Reset and Link Disable take the link down as long as they are set. The device is notified (`PCIe 5.0
/// §6.6.1`, §7.5.3.7).
#[test]
fn reset_and_link_disable_take_the_link_down() {
    // Register, enables, set, cleared.
    let reset = (15, 0x4, 0x0042_0000, 0x0002_0000);
    let disable = (pcie(0, 4), 0x1, 1 << 4, 0);
    for (register, enables, on, off) in [reset, disable] {
        let rig = Rig::new();
        rig.ends[0].serve(below(0));
        let fabric = rig.run(move |cpu| async move {
            let active = || async { read(&cpu, 0, pcie(0, 4)).await >> 29 & 1 };
            assert_eq!(active().await, 1);
            write(&cpu, 0, register, enables, on).await;
            assert_eq!(active().await, 0);
            assert_eq!(cpu.read_u32(window(0)).await, Err(UR));
            assert_eq!(cpu.config_read(below(0), 0).await, Err(UR));
            write(&cpu, 0, register, enables, off).await;
            cpu.sleep(Duration::from_us(50)).await;
            assert_eq!(active().await, 1);
            assert!(cpu.read_u32(window(0)).await.is_ok());
            // This is not Surprise Down: only the requests to the link were errors, which are advisory.
            assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await, 1 << 20);
            Ok(())
        });
        check_accounts(&fabric);
    }
}

/// Retrain Link (bit 5 of Link Control) sends the link through Recovery: Link Training (bit 27) during it, Link
/// Bandwidth Management Status (bit 30) after it. It comes back at the rate that Target Link Speed allows and that both
/// ends support (`PCIe 5.0 §7.5.3.7`, `§7.5.3.8`, `§7.5.3.19`). Each row: Target Link Speed, Current Link Speed.
#[test]
fn a_link_retrains_at_the_target_link_speed() {
    let rig = Rig::new();
    rig.ends[0].serve(below(0));
    rig.run(move |cpu| async move {
        let status = || async { read(&cpu, 0, pcie(0, 4)).await };
        let best = status().await >> 16 & 0xf;
        assert!(best > 1);
        for (target, speed) in [(1, 1), (2, 2), (5, best), (0, best), (1, 1), (best, best)] {
            write(&cpu, 0, pcie(0, 12), 0x1, target).await;
            write(&cpu, 0, pcie(0, 4), 0x1, 1 << 5).await;
            let during = status().await;
            assert_eq!([during >> 27 & 1, during >> 30 & 1], [1, 0], "target {target}");
            cpu.sleep(Duration::from_us(10)).await;
            let after = status().await;
            assert_eq!(
                [after >> 16 & 0xf, after >> 27 & 1, after >> 30 & 1],
                [speed, 0, 1],
                "target {target}"
            );
            write(&cpu, 0, pcie(0, 4), 0x8, 1 << 30).await;
            assert_eq!(status().await >> 30 & 1, 0);
            assert!(cpu.read_u32(window(0)).await.is_ok());
        }
        Ok(())
    });
}

/// A card cannot be put into an occupied slot, or taken out of an empty one: both attempts cause no event and do not
/// affect the link. Each row: time, action, Presence Detect Changed (bit 19 of the DW of Slot Control), Presence Detect
/// State (bit 22), and whether the link is up 20 us later; the event is cleared then.
#[test]
fn rejects_insert_into_full_and_removal_from_empty_slot() {
    use LinkChange::{Insert, Remove};
    let rows = [
        (100, Insert, 0, 1, 1),
        (150, Remove, 1, 0, 0),
        (200, Remove, 0, 0, 0),
        (250, Insert, 1, 1, 1),
        (300, Insert, 0, 1, 1),
    ];
    let rig = Rig::new();
    rig.ends[0].serve(below(0));
    let mut fabric = rig.fabric(move |cpu| async move {
        set_up(&cpu).await;
        for (at, change, changed, present, up) in rows {
            cpu.sleep_until(Time::ZERO + Duration::from_us(at + 20)).await;
            let slot = read(&cpu, 0, pcie(0, 6)).await;
            assert_eq!((slot >> 19 & 1, slot >> 22 & 1), (changed, present), "{change:?} at {at} us");
            assert_eq!(read(&cpu, 0, pcie(0, 4)).await >> 29 & 1, up, "{change:?} at {at} us: Link Active");
            write(&cpu, 0, pcie(0, 6), 0xc, 1 << 19).await;
        }
        Ok(())
    });
    for (at, change, ..) in rows {
        let at = Time::ZERO + Duration::from_us(at);
        fabric.schedule(LinkEvent { at, link: LinkId(0), change });
    }
    finish(&mut fabric);
    check_accounts(&fabric);
}

/// A link that is cut while requests of both sides are outstanding. Unsent requests are refused, and sent requests time
/// out. Surprise Down (bit 5) is logged, and the slot's interrupt reports it (`PCIe 5.0 §2.9.1`, §6.7.3).
#[test]
fn cut_link_refuses_unsent_and_times_out_sent_requests() {
    let rig = Rig::new();
    rig.ends[0].send(80_000, mrd(below(0), 0x1000, 4096));
    let mut fabric = rig.fabric(|cpu| async move {
        set_up(&cpu).await;
        // Hot-Plug Interrupt Enable, Data Link Layer State Changed Enable; the first change is cleared.
        write(&cpu, 0, pcie(0, 6), 0xf, 1 << 24 | 1 << 12 | 1 << 5).await;
        let read = cpu.read_u32(window(0)).await;
        assert_eq!(read, Err(HostError::CompletionTimeout));
        Ok(())
    });
    let at = Time::ZERO + Duration::from_us(81);
    fabric.schedule(LinkEvent { at, link: LinkId(0), change: LinkChange::Cut });
    finish(&mut fabric);
    let space = fabric.root().space(0).unwrap();
    assert_eq!(space.read(space.aer_capability().unwrap() + 1) & 1 << 5, 1 << 5);
    assert_eq!(space.slot().map(|s| s.interrupt), Some(true));
    assert_eq!(fabric.root().counters().interrupts, 1);
    check_accounts(&fabric);
}
