// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint of `pci_endpoint_test`, command by command, and with arbitrary drivers.

use crate::checks_endpoint_test::{Bench, COMMAND, MEMORY, STATUS, driver};
use proptest::prelude::*;
use riser_devices::endpoint_test::{Counters, Settings};
use tlp::crc::crc32;

const INTX: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;
const READ: u32 = 1 << 3;
const WRITE: u32 = 1 << 4;
const COPY: u32 = 1 << 5;
const RAISED: u32 = 1 << 6;

fn bench() -> Bench {
    let mut bench =
        Bench::new(Settings { transfer_bytes: 1 << 20, sizes_bytes: Vec::new(), ..Settings::default() });
    bench.memory.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n ^ n >> 8) as u8);
    bench
}

/// Configures a transfer: source, destination, bytes, and the kind and number of its interrupt.
fn set_up(bench: &mut Bench, source: u64, destination: u64, bytes: u32, irq: (u32, u32)) {
    let halves = |address: u64| [address as u32, (address >> 32) as u32];
    let ([a, b], [c, d]) = (halves(source), halves(destination));
    let values = [(0x0c, a), (0x10, b), (0x14, c), (0x18, d), (0x1c, bytes), (0x24, irq.0), (0x28, irq.1)];
    values.into_iter().for_each(|(register, value)| bench.write(register, value));
}

/// BARs are separate memories with accesses of any width. Absent BARs and accesses past the end are refused.
#[test]
fn bars_accept_any_width_and_refuse_past_end() {
    let mut bench = bench();
    for bar in 0..6 {
        bench.write_bytes(bar, 0x40, &[bar; 13]);
    }
    for bar in 0..6 {
        assert_eq!(bench.read_bytes(bar, 0x3f, 15).unwrap(), [&[0][..], &[bar; 13], &[0]].concat());
    }
    assert_eq!(bench.read_bytes(1, 508, 4), Some(vec![0; 4]));
    assert_eq!((bench.read_bytes(1, 510, 4), bench.read_bytes(6, 0, 4)), (None, None));
    bench.write_bytes(1, 510, &[1; 4]);
    assert_eq!(bench.read_bytes(1, 508, 4), Some(vec![0, 0, 1, 1]));
}

/// The first and last vector of each kind, with its report in status and number. INTx is a level that ends when status is read.
#[test]
fn raises_first_and_last_vector_of_each_kind() {
    let mut bench = bench();
    for (kind, count) in [(MSI, 32), (MSIX, 64)] {
        bench.interrupts.clear();
        for number in 1..=count {
            set_up(&mut bench, 0, 0, 0, (kind, number));
            bench.write(COMMAND, 1 << kind);
            assert_eq!(bench.read(STATUS), RAISED);
        }
        assert_eq!(bench.interrupts, (0..count as u16).map(|vector| (vector, 1)).collect());
    }
    set_up(&mut bench, 0, 0, 0, (INTX, 0));
    bench.write(COMMAND, 1);
    assert!(bench.intx);
    bench.read(0);
    assert!(bench.intx, "of another register nobody learns it");
    assert_eq!((bench.read(STATUS), bench.intx, bench.read(STATUS)), (RAISED, false, RAISED));
    bench.write(COMMAND, 1);
    bench.write(COMMAND, 1);
    assert!(bench.intx, "it fell, and rose again");
    assert_eq!(bench.counters().interrupts, 32 + 64 + 3);
}

/// Transfers of all lengths around pages, from and to odd addresses: moved bytes, checksums, and untouched bytes.
#[test]
fn transfers_change_only_their_target() {
    for bytes in [1, 2, 3, 4, 5, 4095, 4096, 4097, 10_000] {
        for (source, destination) in [(0x1000, 0x8000), (0x1001, 0x8000), (0x1ffd, 0x8ffe), (0x1003, 0x8fff)]
        {
            let (mut bench, len) = (bench(), bytes as usize);
            let before = bench.memory.clone();
            set_up(&mut bench, source as u64, destination as u64, bytes, (MSIX, 1));
            let sum = crc32(u32::MAX, &before[source..source + len]);
            bench.write(0x20, sum);
            bench.write(COMMAND, READ);
            assert_eq!((bench.read(STATUS), bench.read(0x20)), (RAISED | 1, sum));
            bench.write(0x20, sum ^ 1);
            bench.write(COMMAND, READ);
            assert_eq!(bench.read(STATUS), RAISED | 1 << 1, "another sum");
            assert_eq!(bench.memory, before, "READ writes nothing");
            bench.write(COMMAND, WRITE);
            let written = bench.memory[destination..destination + len].to_vec();
            assert_eq!((bench.read(STATUS), bench.read(0x20)), (RAISED | 1 << 2, crc32(u32::MAX, &written)));
            bench.write(COMMAND, COPY);
            assert_eq!(bench.read(STATUS), RAISED | 1 << 4);
            let mut expected = before.clone();
            expected.copy_within(source..source + len, destination);
            assert!(bench.memory == expected, "{bytes} B of {source:#x} to {destination:#x}");
            assert_eq!(bench.interrupts, [(0, 4)].into());
        }
    }
}

/// CRC-32 as in the kernel's `crc32_le(~0, ...)`: the CRC of "123456789" is the complement of the well-known CBF43926h.
#[test]
fn checksum_matches_the_kernel() {
    let mut bench = bench();
    bench.memory[..9].copy_from_slice(b"123456789");
    set_up(&mut bench, 0, 0, 9, (MSI, 1));
    bench.write(0x20, !0xcbf4_3926);
    bench.write(COMMAND, READ);
    assert_eq!(bench.read(STATUS), RAISED | 1);
}

/// An impossible transfer fails with a status, and still interrupts, because the driver waits without a timeout.
#[test]
fn failed_transfers_report_status_and_interrupt() {
    let (ok, nowhere, end) = (0x1000, MEMORY as u64, MEMORY as u64 - 8);
    let top = u64::MAX - 7;
    let (source, destination) = (1 << 7, 1 << 8);
    let rows = [
        // Size 0, too large.
        (READ, ok, ok, 0, 0),
        (WRITE, ok, ok, 0, 0),
        (COPY, ok, ok, 0, 0),
        (READ, ok, ok, 1_048_577, source),
        (WRITE, ok, ok, u32::MAX, destination),
        (COPY, ok, ok, 1_048_577, source | destination),
        // No memory at the start or later in the range, or addresses that do not exist.
        (READ, nowhere, ok, 4, source),
        (READ, end, ok, 9, source),
        (READ, top, ok, 16, source),
        (WRITE, ok, nowhere, 4, destination),
        (WRITE, ok, end, 5000, destination),
        (WRITE, ok, top, 16, destination),
        (COPY, nowhere, ok, 4, source),
        (COPY, ok, nowhere, 4, destination),
        (COPY, top, top, 16, source | destination),
    ];
    for (command, from, to, bytes, why) in rows {
        let mut bench = bench();
        set_up(&mut bench, from, to, bytes, (MSI, 3));
        bench.write(COMMAND, command);
        // The failure bit is the next higher bit after the success bit.
        let failed =
            [(READ, 1 << 1), (WRITE, 1 << 3), (COPY, 1 << 5)].into_iter().find(|(c, _)| *c == command);
        let expected = RAISED | failed.unwrap().1 | why;
        assert_eq!(bench.read(STATUS), expected, "{command:#x} {from:#x} {to:#x} {bytes}");
        assert_eq!((bench.interrupts.clone(), bench.counters().failed), ([(2, 1)].into(), 1));
    }
}

/// Invalid commands, kinds and vectors have no effect, and are counted. The next command is executed.
#[test]
fn refuses_and_counts_invalid_commands() {
    for (command, kind, number) in [
        (1 << 6, MSI, 1),
        (READ | WRITE, MSI, 1),
        (u32::MAX, MSI, 1),
        (READ, 3, 1),
        (2, u32::MAX, 1),
        (2, MSI, 0),
        (2, MSI, 33),
        (2, MSI, 0x1_0001),
        (4, MSIX, 65),
        (4, MSIX, u32::MAX),
    ] {
        let mut bench = bench();
        bench.write(STATUS, u32::MAX);
        set_up(&mut bench, 0, 0, 4, (kind, number));
        bench.write(COMMAND, command);
        assert_eq!((bench.read(STATUS), bench.read(COMMAND)), (0, 0), "{command:#x} {kind} {number}");
        assert_eq!(bench.counters(), Counters { refused: 1, ..Counters::default() });
        assert!(bench.interrupts.is_empty() && !bench.intx);
        bench.write(0x24, MSI);
        bench.write(0x28, 1);
        bench.write(COMMAND, 2);
        assert_eq!(bench.interrupts, [(0, 1)].into());
    }
    // A transfer without its vector is still executed.
    let mut bench = bench();
    set_up(&mut bench, 0, 0x2000, 4, (MSI, 33));
    bench.write(COMMAND, COPY);
    assert_eq!((bench.read(STATUS), &bench.memory[0x2000..0x2004]), (1 << 4, &[0, 1, 2, 3][..]));
    let mut none = Bench::new(Settings { intx: false, msi: 0, msix: 0, ..Settings::default() });
    for kind in [INTX, MSI, MSIX] {
        set_up(&mut none, 0, 0, 0, (kind, 1));
        none.write(COMMAND, 1 << kind);
    }
    assert_eq!((none.counters().refused, none.interrupts.len(), none.intx), (3, 0, false));
}

/// Registers are memory: a command may be written in bytes, or together with other registers. A command written during another is executed
/// after it.
#[test]
fn accepts_partial_and_combined_accesses() {
    let mut bench = bench();
    set_up(&mut bench, 0, 0x2000, 4, (MSI, 1));
    bench.write_bytes(0, COMMAND, &[2]);
    bench.write_bytes(0, 2, &[0, 0, 2, 0, 0]);
    bench.write_bytes(0, 0, &[9, 9, 9, 9, 2, 0, 0, 0]);
    assert_eq!(bench.interrupts, [(0, 3)].into());
    bench.write_bytes(0, 7, &[0]);
    bench.write_bytes(0, COMMAND, &[0; 4]);
    assert_eq!((bench.interrupts[&0], bench.counters().refused), (3, 0), "no command was given");
    assert_eq!(bench.read_bytes(0, 1, 9), Some(vec![9, 9, 9, 0, 0, 0, 0, RAISED as u8, 0]));
    bench.meanwhile = Some(WRITE);
    bench.write(COMMAND, COPY);
    let Counters { copies, writes, interrupts, .. } = bench.counters();
    assert_eq!((copies, writes, interrupts, bench.read(STATUS)), (1, 1, 5, RAISED | 1 << 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_driver_does_not_break_the_model(script in prop::collection::vec(any::<u8>(), 0..400)) {
        driver(&script);
    }
}

/// The seed of the fuzz target does its transfers.
#[test]
fn fuzz_seed_transfers_data() {
    let counters = driver(include_bytes!("../../../../fuzz/seeds/endpoint_test_driver/transfers"));
    let expected = Counters { reads: 1, writes: 1, copies: 1, failed: 2, interrupts: 4, refused: 0 };
    assert_eq!(counters, expected);
}
