// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of root ports' writable registers that no other test here covers, observed by the host program and the
//! device below. `register_witnesses.rs` names the test of each register. Uses no internals.

use crate::root_rig::*;
use config::ext::{aer, dpc};
use device::CompletionError;
use device::io::OutMessage;
use device::seam::DmaOptions;
use host::{Cpu, HostError};
use riser_fabric::{Limits, Stop};
use tlp::*;

/// Root Status, DW 8 of the capability: PME Requester ID, PME Status (bit 16), PME Pending (bit 17).
const ROOT_STATUS: u16 = 8;
const PME_STATUS: u32 = 1 << 16;
const PME_PENDING: u32 = 1 << 17;
/// Message Code of PM_PME (`PCIe 5.0 §2.2.8.2`).
const PM_PME: u8 = 0x18;

/// PME Interrupt Enable, bit 3 of Root Control, and PME Status (`PCIe 5.0 §6.1.6`, §7.5.3.14): Root Status shows one
/// PME, and one waits. When software clears the first, the other replaces it and interrupts again.
#[test]
fn root_status_reports_one_pme_at_a_time() {
    for enable in [1 << 3, 0] {
        let rig = Rig::new();
        for (at, device) in [(50_000, 1), (51_000, 2)] {
            rig.ends[0].send(at, error(bdf(0x10, 0, device), PM_PME));
        }
        let fabric = rig.run(move |cpu| async move {
            let root_status = || async { read(&cpu, 0, pcie(0, ROOT_STATUS)).await };
            write(&cpu, 0, pcie(0, 7), 0x1, enable).await;
            cpu.sleep(Duration::from_us(60)).await;
            assert_eq!(root_status().await, PME_PENDING | PME_STATUS | 0x1001);
            write(&cpu, 0, pcie(0, ROOT_STATUS), 0x4, PME_STATUS).await;
            assert_eq!(root_status().await, PME_STATUS | 0x1002);
            write(&cpu, 0, pcie(0, ROOT_STATUS), 0x4, PME_STATUS).await;
            assert_eq!(root_status().await & (PME_STATUS | PME_PENDING), 0);
            cpu.sleep(Duration::from_us(1)).await;
            Ok(())
        });
        assert_eq!(fabric.root().counters().power_messages, 2);
        assert!(
            fabric.root().counters().interrupts <= u64::from(enable),
            "the level stays while it is handed on"
        );
        assert_eq!(fabric.root().counters().interrupts > 0, enable != 0);
    }
}

/// Root Error Status (`PCIe 5.0 §7.8.4.10`), bit by bit, as set by messages from below. Bits: 0 ERR_COR, 1 Multiple
/// ERR_COR, 2 ERR_FATAL/NONFATAL, 3 Multiple of these, 4 First Uncorrectable Fatal, 5 Non-Fatal, 6 Fatal. Writing ones
/// clears all bits. The next message then counts as the first, and its source is recorded.
#[test]
fn root_error_status_separates_first_and_further_messages() {
    const COR: u8 = 0x30;
    const NONFATAL: u8 = 0x31;
    const FATAL: u8 = 0x33;
    let rows: [(&[u8], u32); 7] = [
        (&[COR], 0b000_0001),
        (&[COR, COR], 0b000_0011),
        (&[NONFATAL], 0b010_0100),
        (&[NONFATAL, NONFATAL], 0b010_1100),
        (&[FATAL], 0b101_0100),
        (&[FATAL, NONFATAL], 0b111_1100),
        (&[NONFATAL, FATAL], 0b110_1100),
    ];
    for (codes, status) in rows {
        let rig = Rig::new();
        for (n, code) in (0..).zip(codes) {
            rig.ends[0].send(50_000 + u64::from(n) * 100, error(bdf(0x10, 0, n), *code));
        }
        rig.ends[0].send(70_000, error(bdf(0x10, 0, 7), codes[0]));
        rig.run(move |cpu| async move {
            let register = |dw: u16| read(&cpu, 0, extended(0, aer::ID, dw));
            cpu.sleep_until(Time::ZERO + Duration::from_us(60)).await;
            let shift = if codes[0] == COR { 0 } else { 16 };
            assert_eq!(register(aer::ROOT_STATUS).await & 0x7f, status, "{codes:x?}");
            assert_eq!(register(aer::ERROR_SOURCE).await, 0x1000 << shift, "{codes:x?}: the first");
            write(&cpu, 0, extended(0, aer::ID, aer::ROOT_STATUS), 0x1, status).await;
            assert_eq!(register(aer::ROOT_STATUS).await & 0x7f, 0, "{codes:x?}: cleared");
            cpu.sleep_until(Time::ZERO + Duration::from_us(80)).await;
            assert_eq!(register(aer::ROOT_STATUS).await & 0b1010, 0, "{codes:x?}: a first one again");
            assert_eq!(register(aer::ERROR_SOURCE).await >> shift & 0xffff, 0x1007, "{codes:x?}");
            Ok(())
        });
    }
}

/// A request of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asks {
    Configuration,
    Io,
    Memory,
}

async fn ask(cpu: &Cpu, what: Asks) {
    let failed = match what {
        Asks::Configuration => cpu.config_read(below(0), 0).await.is_err(),
        Asks::Io => cpu.io_read(0x1000, 4).await.is_err(),
        Asks::Memory => cpu.read_u32(window(0)).await.is_err(),
    };
    assert!(failed, "{what:?}");
}

/// RP PIO (`PCIe 5.0 §6.2.10.3`, §7.9.15.5 to .7): a request of the host that fails sets its bit of RP PIO Status: bits
/// 0 to 2 for configuration requests, 8 to 10 for I/O, 16 to 18 for memory: UR, CA, Completion Timeout. Unmasked, it is
/// logged with its header; with its bit of RP PIO Severity as well it triggers containment, with reason 11b. Writing a
/// one clears the status.
#[test]
fn failed_requests_are_logged_and_may_trigger_containment() {
    let kinds = [(Asks::Configuration, 0), (Asks::Io, 8), (Asks::Memory, 16)];
    let failures = [(Some(Status::UnsupportedRequest), 0), (Some(Status::CompleterAbort), 1), (None, 2)];
    for (asks, first) in kinds {
        for (answer, number) in failures {
            let bit = 1u32 << (first + number);
            for (masked, severe) in [(false, true), (false, false), (true, true)] {
                let what = format!("{asks:?}, {answer:?}, masked {masked}, severe {severe}");
                check_rp_pio(asks, answer, bit, masked, severe, &what);
            }
        }
    }
}

fn check_rp_pio(asks: Asks, answer: Option<Status>, bit: u32, masked: bool, severe: bool, what: &str) {
    let rig = Rig::new();
    rig.ends[0].answer(move |request| served_with(request, below(0), answer?));
    let what = what.to_owned();
    rig.run(move |cpu| async move {
        let at = |dw| extended(0, dpc::ID, dw);
        // All other bits are inverted, so that only this bit decides.
        let only = |set: bool| if set { bit } else { 0x0007_0707 & !bit };
        write(&cpu, 0, at(dpc::RP_PIO_MASK), 0xf, only(masked)).await;
        write(&cpu, 0, at(dpc::RP_PIO_SEVERITY), 0xf, only(severe)).await;
        // A Completion Timeout is an error of AER too, which would contain by itself.
        write(&cpu, 0, extended(0, aer::ID, aer::UNCORRECTABLE_MASK), 0xf, 1 << 14).await;
        write(&cpu, 0, at(dpc::CONTROL), 0xc, 0b01 << 16).await;
        ask(&cpu, asks).await;
        assert_eq!(read(&cpu, 0, at(dpc::RP_PIO_STATUS)).await, bit, "{what}");
        let status = read(&cpu, 0, at(dpc::STATUS)).await;
        let contained = severe && !masked;
        assert_eq!(status & 1, u32::from(contained), "{what}: DPC Trigger Status");
        assert_eq!(status >> 1 & 0b11, if contained { 0b11 } else { 0 }, "{what}: DPC Trigger Reason");
        let logged = read(&cpu, 0, at(dpc::RP_PIO_HEADER_LOG)).await;
        assert_eq!(logged != 0, !masked, "{what}: RP PIO Header Log {logged:#x}");
        write(&cpu, 0, at(dpc::RP_PIO_STATUS), 0xf, bit).await;
        assert_eq!(read(&cpu, 0, at(dpc::RP_PIO_STATUS)).await, 0, "{what}: cleared");
        Ok(())
    });
}

/// IDO Completion Enable, bit 9 of Device Control 2 (`PCIe 5.0 §2.2.6.4`): without it, completions copy only the
/// mandatory attributes of their requests.
#[test]
fn completions_have_ido_if_enabled() {
    let must = Attributes::NO_SNOOP | Attributes::RELAXED_ORDERING;
    for (control_2, expected) in [(0, must), (1 << 9, Attributes::all())] {
        let rig = Rig::new();
        for (at, address) in [(50_000, 0x1000), (51_000, 0xf000_0000)] {
            let mut tlp = mrd(below(0), address, 64);
            tlp.repr.attr = Attributes::all();
            rig.ends[0].send(at, tlp);
        }
        rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 10), 0x3, control_2).await;
            cpu.sleep(Duration::from_us(60)).await;
            Ok(())
        });
        let received = rig.ends[0].received();
        let completions = received.iter().filter(|tlp| tlp.class() == Class::Completion);
        assert_eq!(completions.map(|tlp| tlp.repr.attr).collect::<Vec<_>>(), [expected; 2], "{control_2:#x}");
    }
}

/// Bits of Device Control: the four that report errors, as [`set_up`] leaves it, with MPS 256 B; Extended Tag Field Enable.
const REPORTING: u32 = 0x2f;
const EXTENDED_TAG: u32 = 1 << 8;

/// Completion Timeout Value and Disable, bits 3:0 and 4 of Device Control 2 (`PCIe 5.0 §2.8`, Table 7-27): after reset
/// the profile's timeout, here 500 us. A value selects the upper end of its range. Disable means no timeout. Each root
/// port has its own.
#[test]
fn request_timeout_follows_device_control_2() {
    let rows = [
        (0b0_0000, Some(Duration::from_us(500))),
        (0b0_0001, Some(Duration::from_us(100))),
        (0b0_0010, Some(Duration::from_ms(10))),
        (0b0_0101, Some(Duration::from_ms(55))),
        (0b1_0001, None),
    ];
    for (control_2, timeout) in rows {
        let rig = Rig::new();
        // The first tag's completion, later than all of these.
        rig.ends[0].send(99_000_000, completion(below(0), bdf(0, 0, 0), Tag::default(), Status::Success, 4));
        let fabric = rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 10), 0x1, control_2).await;
            let start = cpu.now();
            let (here, there) = host::cpu::join(cpu.read_u32(window(0)), async {
                let other = cpu.read_u32(window(1)).await;
                (other, cpu.now().since(start))
            })
            .await;
            assert_eq!(there, (Err(HostError::CompletionTimeout), Duration::from_us(500)), "the other port");
            match timeout {
                None => assert_eq!(here, Ok(0), "{control_2:#b}"),
                Some(timeout) => {
                    assert_eq!(here, Err(HostError::CompletionTimeout), "{control_2:#b}");
                    let took = cpu.now().since(start);
                    assert_eq!(took, timeout.max(Duration::from_us(500)), "{control_2:#b}");
                }
            }
            Ok(())
        });
        let timeouts = fabric.root().counters().completion_timeouts;
        assert_eq!(timeouts, 1 + u64::from(timeout.is_some()), "{control_2:#b}");
    }
}

/// With Completion Timeout Disable, a request that is never answered stops the run, which names it.
#[test]
fn lost_request_without_timeout_ends_the_run() {
    let rig = Rig::new();
    let mut fabric = rig.fabric(|cpu| async move {
        set_up(&cpu).await;
        write(&cpu, 0, pcie(0, 10), 0x1, 1 << 4).await;
        cpu.read_u32(window(0)).await.map(|_| ()).map_err(|e| e.to_string())
    });
    let Stop::NoProgress(lines) = fabric.run(Limits::default()) else { panic!("nothing more can happen") };
    assert!(lines.iter().any(|line| line.contains("1 completions of host requests")), "{lines:?}");
}

/// Max_Read_Request_Size, bits 14:12 of Device Control (`PCIe 5.0 §7.5.3.4`): the size at which a read of the host is
/// split. All parts together form the answer. A refused part fails the read.
#[test]
fn reads_of_the_host_are_cut_at_max_read_request_size() {
    type Row = (u32, u64, u32, &'static [(u64, u32)]);
    let rows: [Row; 5] = [
        (0, 0, 128, &[(0, 128)]),
        (0, 0, 512, &[(0, 128), (128, 128), (256, 128), (384, 128)]),
        (0, 3, 260, &[(3, 125), (128, 128), (256, 7)]),
        (1, 0, 512, &[(0, 256), (256, 256)]),
        (1, 4, 256, &[(4, 256)]),
    ];
    for (encoding, offset, len, parts) in rows {
        for tags in [2, 32] {
            for refused in [false, true] {
                let mut rig = Rig::new();
                rig.host.max_host_requests_per_port = tags;
                let last = window(0) + parts.last().unwrap().0;
                rig.ends[0].answer(move |request| {
                    let is_last = matches!(request.repr.body, Body::Memory(m) if m.span.first_byte() == last);
                    let status =
                        if refused && is_last { Status::UnsupportedRequest } else { Status::Success };
                    served_with(request, below(0), status)
                });
                rig.run(move |cpu| async move {
                    let control = REPORTING | EXTENDED_TAG | encoding << 12;
                    write(&cpu, 0, pcie(0, 2), 0x3, control).await;
                    let (first, second) =
                        host::cpu::join(cpu.read(window(0) + offset, len), cpu.read(window(0) + offset, len))
                            .await;
                    for read in [first, second] {
                        if refused {
                            let unsupported = HostError::Completion(CompletionError::UnsupportedRequest);
                            assert_eq!(read.err(), Some(unsupported));
                        } else {
                            let bytes = (0..u64::from(len)).map(|n| ((window(0) + offset + n) % 251) as u8);
                            assert_eq!(read.unwrap()[..], bytes.collect::<Vec<_>>());
                        }
                    }
                    Ok(())
                });
                let mut asked: Vec<(u64, u32)> = Vec::new();
                for tlp in rig.ends[0].received() {
                    let Body::Memory(m) = tlp.repr.body else { continue };
                    asked.push((m.span.first_byte() - window(0), m.span.byte_count()));
                }
                let mut twice = [parts, parts].concat();
                asked.sort_unstable();
                twice.sort_unstable();
                assert_eq!(asked, twice, "{encoding}, {offset:#x} {len} B, {tags} tags");
            }
        }
    }
}

/// If the parts of a split read are not answered, the read ends with the timeout, and its tags rest.
#[test]
fn a_split_read_may_time_out() {
    let rig = Rig::new();
    let fabric = rig.run(|cpu| async move {
        let start = cpu.now();
        assert_eq!(cpu.read(window(0), 4096).await.err(), Some(HostError::CompletionTimeout));
        assert_eq!(cpu.now().since(start), Duration::from_us(500) + LATENCY);
        Ok(())
    });
    assert_eq!(fabric.root().counters().completion_timeouts, 8);
}

/// Extended Tag Field Enable, bit 8 of Device Control (`PCIe 5.0 §2.2.6.2`): without it a root port has only 32 tags,
/// even if its host allows more outstanding requests.
#[test]
fn host_has_32_tags_without_extended_tags() {
    for (enable, most) in [(EXTENDED_TAG, 48), (0, 32)] {
        let mut rig = Rig::new();
        rig.host.max_host_requests_per_port = 48;
        rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 2), 0x3, REPORTING | enable).await;
            for n in 0..60 {
                let own = cpu.clone();
                cpu.spawn(async move { own.read_u32(window(0) + n * 4).await });
            }
            cpu.sleep(Duration::from_us(400)).await;
            Ok(())
        });
        assert_eq!(rig.ends[0].lines().len(), most, "{enable:#x}");
    }
}

/// AtomicOp Requester Enable, bit 6 of Device Control 2 (`PCIe 5.0 §7.5.3.16`): AtomicOps of the host need it, and Bus
/// Master Enable. A preset port starts with both.
#[test]
fn host_atomics_need_their_enable_bit() {
    let rows = [(1 << 6, 0x7, true), (0, 0x7, false), (1 << 6, 0x3, false)];
    for (control_2, command, issued) in rows {
        let rig = Rig::new();
        rig.ends[0].serve(below(0));
        rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 10), 0x1, control_2).await;
            write(&cpu, 0, 1, 0x3, command).await;
            let expected = (!issued).then_some(HostError::AtomicsDisabled);
            assert_eq!(cpu.fetch_add(window(0), 1u32).await.err(), expected);
            Ok(())
        });
        assert_eq!(rig.ends[0].lines().len(), usize::from(issued), "{control_2:#x}, {command:#x}");
    }
    let preset = Rig { preset: true, ..Rig::new() };
    let fabric = preset.fabric(|_| async { Ok(()) });
    assert!(fabric.root().space(0).unwrap().atomic_requester_enable());
}

/// ECRC Generation Enable, bit 6 of Advanced Error Capabilities and Control (`PCIe 5.0 §2.7.1`): all that the root complex sends
/// through this port has an ECRC. TLPs of another port stay as they are.
#[test]
fn ecrc_is_generated_if_enabled() {
    for (control, td) in [(1 << 6, true), (0, false)] {
        let rig = Rig::new();
        rig.ends[0].serve(below(0));
        let peer = mwr(below(1), window(0), 4);
        for (at, end, tlp) in [
            (50_000, 0, mrd(below(0), 0x1000, 64)),
            (51_000, 0, mrd(below(0), 0xf000_0000, 64)),
            (52_000, 1, peer),
        ] {
            rig.ends[end].send(at, tlp);
        }
        rig.run(move |cpu| async move {
            write(&cpu, 0, extended(0, aer::ID, aer::CONTROL), 0xf, control).await;
            assert!(cpu.read_u32(window(0)).await.is_ok());
            cpu.write_u32(window(0), 1).await.unwrap();
            assert!(cpu.read(window(0), 1024).await.is_err(), "a completion that does not fit");
            cpu.send_message(below(0), OutMessage::new(MessageRouting::Local, 0x7f)).await;
            cpu.sleep(Duration::from_us(60)).await;
            Ok(())
        });
        let own = rig.ends[0].received();
        let (peers, own): (Vec<_>, Vec<_>) = own
            .iter()
            .filter(|tlp| !line(tlp).starts_with("Set_Slot_Power_Limit"))
            .partition(|tlp| tlp.repr.transaction().0 == below(1));
        assert_eq!(peers.iter().map(|tlp| tlp.repr.td).collect::<Vec<_>>(), [false]);
        assert!(own.len() >= 7, "{:?}", rig.ends[0].lines());
        for tlp in own {
            assert_eq!(tlp.repr.td, td, "{}", line(tlp));
        }
    }
}

/// Enable Relaxed Ordering and Enable No Snoop, bits 4 and 11 of Device Control, and IDO Request Enable, bit 8 of Device Control 2
/// (`PCIe 5.0 §2.2.6.4`): the attributes that messages of the host may have.
#[test]
fn host_messages_have_only_enabled_attributes() {
    let rows = [
        (0, 0, Attributes::empty()),
        (1 << 4, 0, Attributes::RELAXED_ORDERING),
        (1 << 11, 0, Attributes::NO_SNOOP),
        (0, 1 << 8, Attributes::ID_BASED_ORDERING),
    ];
    for (control, control_2, expected) in rows {
        let rig = Rig::new();
        rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 2), 0x3, control).await;
            write(&cpu, 0, pcie(0, 10), 0x3, control_2).await;
            let options = DmaOptions::default().with_attr(Attributes::all());
            let vendor = OutMessage::new(MessageRouting::Local, 0x7f).with_options(options);
            cpu.send_message(below(0), vendor).await;
            cpu.sleep(Duration::from_us(10)).await;
            Ok(())
        });
        let last = rig.ends[0].received().pop().unwrap();
        assert_eq!(last.repr.attr, expected, "{control:#x}, {control_2:#x}");
    }
}
