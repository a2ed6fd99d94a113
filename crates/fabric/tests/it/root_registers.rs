// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What writable registers of root ports change, where no other test here is about it: seen by the host program and by the
//! device behind. Which test sees which register: `register_witnesses.rs`. Never looks inside.

use crate::root_rig::*;
use config::ext::{aer, dpc};
use host::Cpu;
use tlp::*;

/// Root Status, DW 8 of the capability: PME Requester ID, PME Status (bit 16), PME Pending (bit 17).
const ROOT_STATUS: u16 = 8;
const PME_STATUS: u32 = 1 << 16;
const PME_PENDING: u32 = 1 << 17;
/// Message Code of PM_PME (`PCIe 5.0 §2.2.8.2`).
const PM_PME: u8 = 0x18;

/// PME Interrupt Enable, bit 3 of Root Control, and PME Status (`PCIe 5.0 §6.1.6`, §7.5.3.14): one PME is shown and one waits;
/// when software clears the first, the other takes its place, and interrupts anew.
#[test]
fn pmes_are_shown_one_after_the_other() {
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

/// Root Error Status (`PCIe 5.0 §7.8.4.10`), bit by bit: what messages from below set. Bits: 0 ERR_COR, 1 Multiple ERR_COR,
/// 2 ERR_FATAL/NONFATAL, 3 Multiple of these, 4 First Uncorrectable Fatal, 5 Non-Fatal, 6 Fatal. Ones clear all of them; the next
/// message is a first one again, and leaves its source.
#[test]
fn root_error_status_tells_first_and_further_messages() {
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

/// RP PIO (`PCIe 5.0 §6.2.10.3`, §7.9.15.5 to .7): a request of the host that fails sets its bit of RP PIO Status: bits 0 to 2 for
/// configuration requests, 8 to 10 for I/O, 16 to 18 for memory: UR, CA, Completion Timeout. Unmasked, it is logged with its header;
/// with its bit of RP PIO Severity as well it triggers containment, with reason 11b. A one clears the status.
#[test]
fn requests_that_fail_are_logged_and_may_contain() {
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
        // All other bits the other way round, so that the one alone decides.
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

/// IDO Completion Enable, bit 9 of Device Control 2 (`PCIe 5.0 §2.2.6.4`): without it completions have of their requests'
/// attributes those that they must have.
#[test]
fn completions_have_ido_where_that_is_enabled() {
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
