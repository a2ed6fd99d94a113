// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device on a host with DMA reads of 500 ns and writes without delay.

use crate::common::{Event, Loopback, found};
use config::PcieLayout;
use host::AsyncProgram;
use host::caches::CachePreparation;
use plug::MemoryKind;
use riser_devices::pcie_bench::*;
use std::collections::BTreeMap;
use tlp::{Duration, PayloadPool};

/// Runs a benchmark, and returns the measurements and transactions.
fn run(settings: &BenchSettings) -> (Result<(), String>, Transfers, Loopback) {
    run_on(settings, |_| {})
}

fn run_on(
    settings: &BenchSettings,
    prepare: impl FnOnce(&mut Loopback),
) -> (Result<(), String>, Transfers, Loopback) {
    let results = plug::Shared::default();
    let bench = function(settings.clone(), PcieLayout::default(), &PayloadPool::new(), &results).unwrap();
    let mut host = Loopback::new(bench);
    prepare(&mut host);
    let window = Window::of(settings, MemoryKind::High);
    let start = |cpu| driver(cpu, found(0, BAR_BYTES), window);
    let mut program = AsyncProgram::new(host.memory.clone(), start);
    let outcome = host.run(&mut program);
    (outcome, results.take(), host)
}

fn settings(test: Test) -> BenchSettings {
    BenchSettings { test, transfers: 200, warm_up: 10, outstanding: 8, ..BenchSettings::default() }
}

fn reads(host: &Loopback) -> Vec<u64> {
    let address = |e: &Event| if let Event::DmaRead(address, _) = e { Some(*address) } else { None };
    host.log.iter().filter_map(address).collect()
}

fn writes(host: &Loopback) -> Vec<u64> {
    let address = |e: &Event| if let Event::DmaWrite(address, _) = e { Some(*address) } else { None };
    host.log.iter().filter_map(address).collect()
}

#[test]
fn lat_rd_times_one_read_at_a_time() {
    let (outcome, results, host) = run(&settings(Test::LatRd));
    assert_eq!(outcome, Ok(()));
    assert_eq!(results.latencies_ps, vec![500_000; 200]);
    assert_eq!(
        (results.transfers, results.ended, results.bytes_read, results.bytes_written),
        (200, 210, 12_800, 0)
    );
    assert_eq!(results.elapsed(), Duration::from_us(100));
    assert_eq!((host.most_reads, results.phase), (1, Phase::Done));
    assert_eq!(host.log.iter().filter(|e| **e == Event::Interrupt(0)).count(), 1);
}

#[test]
fn lat_wrrd_reads_where_it_wrote() {
    let (outcome, results, host) = run(&BenchSettings { carry: true, ..settings(Test::LatWrRd) });
    assert_eq!(outcome, Ok(()));
    assert_eq!((results.bytes_read, results.bytes_written), (12_800, 12_800));
    assert_eq!(results.latencies_ps.len(), 200);
    let dma: Vec<&Event> =
        host.log.iter().filter(|e| matches!(e, Event::DmaRead(..) | Event::DmaWrite(..))).collect();
    assert_eq!(dma.len(), 420);
    for pair in dma.chunks(2) {
        let [Event::DmaWrite(written, bytes), Event::DmaRead(read, 64)] = pair else { panic!("{pair:?}") };
        assert_eq!((written, bytes.len()), (read, 64));
    }
}

#[test]
fn bw_rd_keeps_the_set_number_of_reads_in_flight() {
    for outstanding in [1, 8, 32] {
        let (outcome, results, host) = run(&BenchSettings { outstanding, ..settings(Test::BwRd) });
        assert_eq!(outcome, Ok(()));
        assert_eq!(host.most_reads, usize::from(outstanding));
        assert!(results.latencies_ps.is_empty());
        assert_eq!((results.transfers, results.bytes_read), (200, 12_800));
        // The load continues until the last counted transfer has ended.
        let issued = reads(&host).len() as u64;
        assert!((210..210 + 2 * u64::from(outstanding)).contains(&issued), "{issued}");
        assert_eq!(results.ended, issued);
    }
    let one = run(&BenchSettings { outstanding: 1, ..settings(Test::BwRd) }).1;
    assert_eq!(one.elapsed(), Duration::from_us(100), "200 times 500 ns");
}

#[test]
fn bw_wr_only_writes_and_bw_rdwr_alternates() {
    let (outcome, results, host) = run(&BenchSettings { carry: true, ..settings(Test::BwWr) });
    assert_eq!((outcome, results.bytes_read, results.bytes_written), (Ok(()), 0, 12_800));
    assert_eq!(reads(&host).len(), 0);

    let both = BenchSettings { transfers: 2_000, ..settings(Test::BwRdWr) };
    let (outcome, results, host) = run(&both);
    assert_eq!(outcome, Ok(()));
    assert_eq!(results.bytes_read + results.bytes_written, 2_000 * 64);
    let (reads, writes) = (reads(&host).len(), writes(&host).len());
    assert!(reads.abs_diff(writes) <= 1, "{reads} reads, {writes} writes");
}

#[test]
fn transfers_stay_in_the_window_at_their_offset() {
    let odd =
        BenchSettings { host_offset_bytes: 5, size_bytes: 100, window_bytes: 8192, ..settings(Test::BwRd) };
    let (_, _, host) = run(&odd);
    // The window is the first allocation from high memory, with 32 units of 128 B per 4 KiB.
    let mut seen = BTreeMap::new();
    for address in reads(&host) {
        let offset = address - (4 << 30);
        assert!(offset + 100 <= 8192 && offset % 128 == 5);
        *seen.entry(offset).or_insert(0) += 1;
    }
    assert!(seen.len() > 40 && seen.len() <= 64, "random: {} of 64 units in 210 draws", seen.len());
    let sequential = BenchSettings { pattern: Pattern::Sequential, ..odd };
    let expected: Vec<u64> = (0..64).map(|n| (4 << 30) + n * 128 + 5).collect();
    assert_eq!(reads(&run(&sequential).2)[..64], expected);
}

#[test]
fn same_seed_gives_same_run() {
    let run = |seed| run(&BenchSettings { seed, ..settings(Test::BwRdWr) }).2.log;
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn run_without_warm_up_is_measured_from_the_start() {
    let (_, results, _) = run(&BenchSettings { warm_up: 0, ..settings(Test::LatRd) });
    assert_eq!((results.transfers, results.ended), (200, 200));
    assert_eq!(results.elapsed(), Duration::from_us(100));
}

/// Latency figures of the card, and the resulting latency with 500 ns for the host, in ns: read, write and read.
#[test]
fn card_costs_are_added_to_latency() {
    let ns = Duration::from_ns;
    let write = WriteCosts { pull: ns(40), ..WriteCosts::default() };
    let read = ReadCosts { push: ns(7), push_burst: ns(8), ..ReadCosts::default() };
    let rows = [
        (CardCosts { dma_issue: ns(100), ..CardCosts::default() }, CardPath::Dma, 600, 700),
        (CardCosts { dma_issue: ns(100), dma_done: ns(50), ..CardCosts::default() }, CardPath::Dma, 650, 800),
        (CardCosts { write, ..CardCosts::default() }, CardPath::Dma, 500, 540),
        (CardCosts { read, ..CardCosts::default() }, CardPath::Dma, 515, 515),
        (CardCosts { dma_issue: ns(100), write, read, ..CardCosts::default() }, CardPath::Command, 500, 500),
        (
            CardCosts { command_issue: ns(60), command_done: ns(40), ..CardCosts::default() },
            CardPath::Command,
            600,
            600,
        ),
        (CardCosts { command_word: ns(1), ..CardCosts::default() }, CardPath::Command, 508, 508),
    ];
    for (costs, path, alone, behind) in rows {
        let timed = |test| run(&BenchSettings { costs, path, ..settings(test) }).1.latencies_ps;
        assert_eq!(timed(Test::LatRd), vec![alone * 1_000; 200], "{costs:?}");
        assert_eq!(timed(Test::LatWrRd), vec![behind * 1_000; 200], "{costs:?}");
    }
}

/// Stages process one transfer at a time: figures, test, ns between transfers of 64 B.
#[test]
fn stages_limit_the_bandwidth() {
    let ns = Duration::from_ns;
    let none = CardCosts::default();
    let rows = [
        (CardCosts { write: WriteCosts { pull: ns(100), ..none.write }, ..none }, Test::BwWr, 100),
        (CardCosts { read: ReadCosts { push: ns(100), ..none.read }, ..none }, Test::BwRd, 100),
        (CardCosts { read: ReadCosts { slots: 4, ..none.read }, ..none }, Test::BwRd, 125),
        // A slot is held until the notice.
        (CardCosts { dma_done: ns(100), read: ReadCosts { slots: 4, ..none.read }, ..none }, Test::BwRd, 150),
    ];
    for (costs, test, between) in rows {
        let (_, results, host) = run(&BenchSettings { costs, outstanding: 32, ..settings(test) });
        assert_eq!(results.elapsed(), ns(between) * 200, "{costs:?}");
        assert!(costs.read.slots == 0 || host.most_reads == 4, "{}", host.most_reads);
    }
}

/// Data with both ends within words have their room in the buffer until some time after their push: two transfers of 64 B at
/// offset 1 share 128 bytes.
#[test]
fn ragged_reads_wait_for_room_in_the_buffer() {
    let ns = Duration::from_ns;
    let read = ReadCosts { buffer_bytes: 128, buffer_release: ns(60), ..ReadCosts::default() };
    let costs = CardCosts { read, ..CardCosts::default() };
    for (device_offset_bytes, between, most) in [(0, None, 32), (1, Some(280), 2)] {
        let (outcome, results, host) =
            run(&BenchSettings { costs, device_offset_bytes, outstanding: 32, ..settings(Test::BwRd) });
        assert_eq!((outcome, host.most_reads), (Ok(()), most));
        if let Some(between) = between {
            assert_eq!(results.elapsed(), ns(between) * 200);
        }
    }
}

/// Commands wait for another 4 MiB, and longer for each byte written. Rows: window, test, ns for 200 transfers in order.
#[test]
fn commands_pause_between_chunks_and_for_written_bytes() {
    let ns = Duration::from_ns;
    let costs = CardCosts {
        command_chunk: ns(133),
        loop_time: ns(190),
        loop_written_byte: ns(1),
        ..CardCosts::default()
    };
    let elapsed = |test, path| {
        let pattern = Pattern::Sequential;
        run(&BenchSettings { costs, path, pattern, ..settings(test) }).1.elapsed()
    };
    let reads = elapsed(Test::LatRd, CardPath::Command);
    assert_eq!(reads, elapsed(Test::LatRd, CardPath::Dma), "one chunk");
    let pauses =
        elapsed(Test::LatWrRd, CardPath::Command).as_ps() - elapsed(Test::LatWrRd, CardPath::Dma).as_ps();
    assert_eq!(pauses, 64_000 * 200, "64 ns after each of 200 writes of 64 B");
}

/// A read of four requests takes four slots and returns each one: six slots allow one read at a time.
#[test]
fn long_reads_are_split_and_share_slots() {
    let read = ReadCosts { slots: 6, request_bytes: 512, ..ReadCosts::default() };
    let costs = CardCosts { read, ..CardCosts::default() };
    let long =
        BenchSettings { costs, size_bytes: 2048, outstanding: 88, carry: true, ..settings(Test::BwRd) };
    let (outcome, results, host) = run(&long);
    assert_eq!((outcome, results.bytes_read), (Ok(()), 200 * 2048));
    assert_eq!(results.elapsed(), Duration::from_ns(500) * 200, "one after the other");
    let lengths: Vec<u32> =
        host.log.iter().filter_map(|e| if let Event::DmaRead(_, n) = e { Some(*n) } else { None }).collect();
    assert!(lengths.iter().all(|n| *n == 512) && host.most_reads == 4, "{}", host.most_reads);
}

/// Read requests end at multiples of Max_Read_Request_Size, with at most the card's request size. Rows: the card's
/// figure, Max_Read_Request_Size, and the requests for 2048 B at offset 64 of a multiple of both.
#[test]
fn requests_end_at_multiples_of_max_read_request_size() {
    let rows: [(u32, u32, &[u32]); 4] = [
        (4096, 512, &[448, 512, 512, 512, 64]),
        (4096, 1024, &[960, 1024, 64]),
        (4096, 4096, &[2048]),
        (512, 4096, &[448, 512, 512, 512, 64]),
    ];
    for (request_bytes, max_read_request_bytes, expected) in rows {
        let read = ReadCosts { slots: 20, request_bytes, ..ReadCosts::default() };
        let costs = CardCosts { read, ..CardCosts::default() };
        let one = BenchSettings {
            costs,
            max_read_request_bytes,
            size_bytes: 2048,
            window_bytes: 4096,
            host_offset_bytes: 63,
            outstanding: 1,
            pattern: Pattern::Sequential,
            ..settings(Test::BwRd)
        };
        let (_, _, host) = run(&one);
        let lengths =
            host.log.iter().filter_map(|e| if let Event::DmaRead(_, n) = e { Some(*n) } else { None });
        // At offset 63, the first is a byte longer, and the last is shorter.
        let mut expected = expected.to_vec();
        if expected.len() > 1 {
            expected[0] += 1;
            *expected.last_mut().unwrap() -= 1;
        }
        assert_eq!(lengths.take(expected.len()).collect::<Vec<_>>(), expected, "{max_read_request_bytes}");
    }
}

#[test]
fn writes_are_split_by_the_cards_rules() {
    let write = WriteCosts { boundary_bytes: 128, full_bytes: 256, ..WriteCosts::default() };
    let costs = CardCosts { dma_done: Duration::from_ns(1), write, ..CardCosts::default() };
    let odd =
        BenchSettings { costs, size_bytes: 300, host_offset_bytes: 1, carry: true, ..settings(Test::BwWr) };
    let sequential = BenchSettings { pattern: Pattern::Sequential, outstanding: 1, ..odd };
    let (_, _, host) = run(&sequential);
    let cut: Vec<(u64, usize)> = host
        .log
        .iter()
        .filter_map(|e| {
            if let Event::DmaWrite(at, data) = e { Some((*at - (4 << 30), data.len())) } else { None }
        })
        .collect();
    assert_eq!(cut[..5], [(1, 127), (128, 128), (256, 45), (321, 63), (384, 128)]);
}

/// The card's clock reads multiples of its tick, and transfers start at any time between two ticks: the mean is right.
#[test]
fn latencies_are_measured_with_the_cards_clock() {
    let costs = CardCosts {
        clock: CardClock { mhz: 1200, tick_cycles: 16 },
        loop_time: Duration::from_ns(190),
        loop_spread: Duration::from_ns(20),
        ..CardCosts::default()
    };
    let (_, results, _) = run(&BenchSettings { costs, transfers: 4_000, ..settings(Test::LatRd) });
    let legal = [493_333, 506_667];
    assert!(results.latencies_ps.iter().all(|ps| legal.contains(ps)));
    let mean = results.latencies_ps.iter().sum::<u64>() / 4_000;
    assert!((499_500..500_500).contains(&mean), "{mean}");
    let each = results.elapsed().as_ps() / 4_000;
    assert!((699_000..701_000).contains(&each), "500 ns and a loop of 190 to 210: {each}");
}

#[test]
fn driver_prepares_the_caches() {
    use CachePreparation::*;
    let (address, requester, bytes) = (4 << 30, found(0, BAR_BYTES).bdf, 8192);
    let rows = [
        (CacheState::Cold, vec![ThrashByHost]),
        (CacheState::HostWarm, vec![ThrashByHost, WriteByHost { address, bytes }]),
        (CacheState::DeviceWarm, vec![ThrashByHost, WriteByDevice { requester, address, bytes, passes: 2 }]),
    ];
    for (cache, prepared) in rows {
        let (outcome, _, host) = run(&BenchSettings { cache, ..settings(Test::BwRd) });
        assert_eq!((outcome, host.prepared), (Ok(()), prepared));
    }
    let (outcome, _, host) =
        run_on(&BenchSettings { cache: CacheState::DeviceThrash, ..settings(Test::BwRd) }, |host| {
            host.memory = host::HostMemory::new(16 << 20, 64 << 20).unwrap();
        });
    let thrash = ThrashByDevice { requester, address, bytes: 64 << 20, seed: 1 };
    assert_eq!((outcome, host.prepared), (Ok(()), vec![ThrashByHost, thrash]));
}

#[test]
fn a_failed_transfer_ends_the_test() {
    for error in ERRORS {
        let (outcome, results, host) = run_on(&settings(Test::BwRd), |host| host.fail_reads = Some(error));
        let message = format!("function 01:00.0 [7269:0000]: a transfer failed: {error}");
        assert_eq!(outcome, Err(message));
        assert_eq!((results.failure, results.phase, results.transfers), (Some(error), Phase::Done, 0));
        assert!(reads(&host).len() <= 8, "the workers stop");
    }
    let beyond = BenchSettings { window_bytes: 1 << 30, ..settings(Test::BwRd) };
    assert!(
        run(&beyond).0.unwrap_err().starts_with("function 01:00.0 [7269:0000], window: 1073741824 bytes")
    );
}

/// The window may be written in halves; status is read-only; a second start during a test does not change the test, but is reported;
/// and a test may be repeated.
#[test]
fn registers_accept_halves_and_report_second_start() {
    let results = plug::Shared::default();
    let slow = settings(Test::LatRd);
    let bench = function(slow, PcieLayout::default(), &PayloadPool::new(), &results).unwrap();
    let mut host = Loopback::new(bench);
    let mut program = AsyncProgram::new(host.memory.clone(), async |cpu| {
        let base = found(0, BAR_BYTES).address(0, 0)?;
        let text = |e: host::HostError| e.to_string();
        let (status, idle, running, done, failed) = (base + registers::STATUS, 0, 1, 2, 3);
        assert_eq!(cpu.read_u32(status).await, Ok(idle));
        cpu.write_u32(base, 0x1000).await.map_err(text)?;
        cpu.write_u32(base + 4, 0x1).await.map_err(text)?;
        assert_eq!(cpu.read_u64(base).await, Ok(0x1_0000_1000));
        cpu.write(status, [0xffu8; 12]).await.map_err(text)?;
        cpu.write_u32(status, done).await.map_err(text)?;
        assert_eq!((cpu.read_u64(base).await, cpu.read_u32(status).await), (Ok(0x1_0000_1000), Ok(idle)));
        for (starts, end, error) in [(2, failed, registers::Error::Busy), (1, done, registers::Error::None)] {
            for _ in 0..starts {
                cpu.write_u32(base + registers::CONTROL, 1).await.map_err(text)?;
                assert_eq!(cpu.read_u32(status).await, Ok(running));
            }
            cpu.interrupt(32).await;
            assert_eq!(cpu.read_u32(status).await, Ok(end));
            assert_eq!(cpu.read_u32(base + registers::ERROR).await, Ok(error as u32));
        }
        assert_eq!(cpu.read_u32(base + registers::VERSION).await, Ok(registers::VERSION_VALUE));
        Ok::<(), String>(())
    });
    host.run(&mut program).unwrap();
    assert_eq!(reads(&host).len(), 420, "two runs");
    assert_eq!(results.get().transfers, 200, "of the second run");
}

/// Refused settings and their errors.
#[test]
fn rejects_invalid_settings() {
    let ok = BenchSettings::default;
    let rows = [
        (
            BenchSettings { size_bytes: 0, ..ok() },
            "transfers of 0 bytes at host offset 0, expected sizes from 1 and offsets 0 to 63, together at most 4096",
        ),
        (
            BenchSettings { size_bytes: 4096, host_offset_bytes: 1, ..ok() },
            "transfers of 4096 bytes at host offset 1, expected sizes from 1 and offsets 0 to 63, together at most 4096",
        ),
        (
            BenchSettings { host_offset_bytes: 64, ..ok() },
            "transfers of 64 bytes at host offset 64, expected sizes from 1 and offsets 0 to 63, together at most 4096",
        ),
        (
            BenchSettings { window_bytes: 127, size_bytes: 65, ..ok() },
            "window of 127 bytes, expected 128 (one unit) to 274877906944",
        ),
        (BenchSettings { outstanding: 0, ..ok() }, "0 transfers in flight, expected 1 to 1024"),
        (
            BenchSettings { transfers: 0, ..ok() },
            "0 transfers, expected 1 to 16777216 in a latency test, 1 or more in a bandwidth test",
        ),
        (
            BenchSettings { transfers: 1 << 25, test: Test::LatRd, ..ok() },
            "33554432 transfers, expected 1 to 16777216 in a latency test, 1 or more in a bandwidth test",
        ),
        (BenchSettings { device_offset_bytes: 64, ..ok() }, "device offset of 64 bytes, expected 0 to 63"),
        (
            BenchSettings { path: CardPath::Command, size_bytes: 129, ..ok() },
            "transfers of 129 bytes by the command interface, expected 1 to 128",
        ),
    ];
    for (settings, message) in rows {
        assert_eq!(settings.check().unwrap_err().to_string(), message);
    }
}
