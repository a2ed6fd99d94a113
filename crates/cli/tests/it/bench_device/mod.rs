// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device of pcie-bench: the model and the RTL have the same registers, and one host program measures the
//! same with both. Without Verilator, only the model is tested.

pub(crate) mod rig;

use crate::common::has_verilator;
use devices::pcie_bench::registers::{self as r, Error, Path, Pattern, Status, Test};
use rig::{Measured, Run, Which, built, measure};

/// Devices that this machine can run.
fn devices() -> Vec<Which> {
    let mut devices = vec![Which::Model];
    if has_verilator() {
        built();
        devices.push(Which::Rtl);
    }
    devices
}

fn assert_done(measured: &Measured, transfers: u64) {
    assert_eq!(
        (measured.status, measured.error, measured.ended),
        (Status::Done as u32, 0, transfers),
        "{measured:?}"
    );
}

/// Beats of 256 bits of the last part of a transfer on a stream. Completions and writes have at most 256 B; their descriptors have
/// `descriptor` bytes.
fn beats(size: u64, descriptor: u64) -> f64 {
    (size.min(256) + descriptor).div_ceil(32) as f64
}

/// Panics unless the RTL takes longer than the model by three parts: the beats of the last completion, the beats of the last write,
/// and 10 to 24 ns of the block and of the RTL's own stages.
fn assert_latency(test: Test, size: u64, model: f64, rtl: f64) {
    let write = if test == Test::LatWrrd { beats(size, 16) } else { 0.0 };
    let own = rtl - model - 4.0 * (beats(size, 12) + write);
    println!("{test:?} {size} B: model {model:.1} ns, RTL {rtl:.1} ns, of which {own:.1} ns are its own");
    assert!((10.0..24.0).contains(&own), "{test:?} {size} B: {own}");
}

/// Panics unless the RTL has the model's rate. The stream RQ limits writes: a descriptor of 16 B and the data take whole beats of
/// 4 ns.
fn assert_rate(test: Test, size: u64, model: f64, rtl: f64) {
    println!("{test:?} {size} B: model {model:.2} Gb/s, RTL {rtl:.2} Gb/s");
    let of_rq = (size.min(256) * 8) as f64 / (4.0 * beats(size, 16));
    let (expected, tolerance) = match test {
        Test::BwWr => (model.min(of_rq), 0.01),
        // The order of reads and writes on the link differs.
        Test::BwRdwr => (model, 0.1),
        _ => (model, 0.01),
    };
    assert!((rtl / expected - 1.0).abs() < tolerance, "{test:?} {size} B: {expected}");
}

#[test]
fn rtl_measures_like_model() {
    if !has_verilator() {
        return;
    }
    built();
    let latencies =
        [Test::LatRd, Test::LatWrrd].into_iter().flat_map(|test| [8, 64, 512, 2048].map(|size| (test, size)));
    let rates = [Test::BwRd, Test::BwWr, Test::BwRdwr]
        .into_iter()
        .flat_map(|test| [64, 256, 1024].map(|size| (test, size)));
    let tests: Vec<(Test, u64)> = latencies.chain(rates).collect();
    let run = |&(test, size): &(Test, u64)| Run::new(test, &[(r::SIZE, size)]);
    let runs: Vec<Run> = tests.iter().map(run).collect();
    let [model, rtl] = [Which::Model, Which::Rtl].map(|which| measure(which, runs.clone()));
    for (&(test, size), (model, rtl)) in tests.iter().zip(model.iter().zip(&rtl)) {
        assert_done(model, 200);
        assert_done(rtl, 200);
        if test <= Test::LatWrrd {
            assert_latency(test, size, model.median_ns(), rtl.median_ns());
        } else {
            assert_rate(test, size, model.gbps(size), rtl.gbps(size));
        }
    }
}

/// Registers with a setting that is not legal, and its error.
fn refused() -> Vec<(Vec<(u64, u64)>, Error)> {
    vec![
        (vec![(r::TEST, 5)], Error::Test),
        (vec![(r::SIZE, 0)], Error::Size),
        (vec![(r::SIZE, 4097)], Error::Size),
        (vec![(r::SIZE, 4096), (r::OFFSET, 1)], Error::Size),
        (vec![(r::SIZE, 129), (r::PATH, 1)], Error::Size),
        (vec![(r::WINDOW_BYTES, 0)], Error::WindowBytes),
        (vec![(r::WINDOW_BYTES, 64), (r::SIZE, 65)], Error::WindowBytes),
        (vec![(r::WINDOW_BYTES, 1 << 39)], Error::WindowBytes),
        (vec![(r::OFFSET, 64)], Error::Offset),
        (vec![(r::PATTERN, 2)], Error::Pattern),
        (vec![(r::PATH, 2)], Error::Path),
        (vec![(r::OUTSTANDING, 0)], Error::Outstanding),
        (vec![(r::OUTSTANDING, 1025)], Error::Outstanding),
        (vec![(r::OUTSTANDING, 0x1_0001)], Error::Outstanding),
        (vec![(r::TRANSFERS, 0)], Error::Transfers),
        (vec![(r::TRANSFERS, (1 << 24) + 1)], Error::Transfers),
        (vec![(r::TRANSFERS, 1), (r::WARM_UP, u64::MAX)], Error::Transfers),
        (vec![(r::WINDOW, 2048)], Error::Window),
        (vec![(r::WINDOW, u64::MAX - 4095)], Error::Window),
        // No memory there.
        (vec![(r::WINDOW, 1 << 45)], Error::UnsupportedRequest),
    ]
}

/// After each error, a legal test works.
#[test]
fn error_register_names_illegal_setting() {
    for which in devices() {
        let mut refused = refused();
        if which == Which::Rtl {
            refused.push((vec![(r::WINDOW_BYTES, 8191)], Error::WindowBytes));
            refused.push((vec![(r::WINDOW_BYTES, 3 << 12)], Error::WindowBytes));
            refused.push((vec![(r::OUTSTANDING, 65)], Error::Outstanding));
        }
        let legal = Run::new(Test::LatRd, &[(r::TRANSFERS, 3), (r::WARM_UP, 0)]);
        let runs = refused.iter().flat_map(|(set, _)| [Run::new(Test::LatRd, set), legal.clone()]);
        let measured = measure(which, runs.collect());
        for ((set, error), pair) in refused.iter().zip(measured.chunks(2)) {
            let expected = (Status::Failed as u32, *error as u32, 0);
            assert_eq!(
                (pair[0].status, pair[0].error, pair[0].ended),
                expected,
                "{which:?} {set:x?}: {error:?}"
            );
            assert_done(&pair[1], 3);
        }
    }
}

#[test]
fn start_during_test_is_reported_and_stop_ends_it() {
    for which in devices() {
        let busy = Run { control: Some(r::control::START), ..Run::new(Test::BwRd, &[(r::TRANSFERS, 500)]) };
        let stopped =
            Run { control: Some(r::control::STOP), ..Run::new(Test::BwWr, &[(r::TRANSFERS, 1 << 40)]) };
        let after = Run::new(Test::LatWrrd, &[(r::TRANSFERS, 20)]);
        let measured = measure(which, vec![busy, stopped, after]);
        let seen: Vec<_> = measured.iter().map(|m| (m.status, m.error)).collect();
        let failed = |error: Error| (Status::Failed as u32, error as u32);
        assert_eq!(seen[..2], [failed(Error::Busy), failed(Error::Stopped)], "{which:?}");
        assert_eq!(measured[0].ended, 500, "{which:?}: the test was not changed");
        assert!(measured[1].ended < 1 << 20, "{which:?}: {}", measured[1].ended);
        assert_done(&measured[2], 20);
    }
}

/// The journal keeps the first latencies: all in the model, 1024 in the RTL.
#[test]
fn journal_keeps_first_latencies_of_test() {
    for which in devices() {
        let kept = if which == Which::Rtl { 1024 } else { 1100 };
        let run = Run::new(Test::LatRd, &[(r::TRANSFERS, 1100), (r::WARM_UP, 0), (r::SIZE, 8)]);
        let measured = &measure(which, vec![run])[0];
        assert_done(measured, 1100);
        assert_eq!(measured.latencies_ns.len(), kept, "{which:?}");
        assert!(measured.latencies_ns.iter().all(|ns| (300.0..1000.0).contains(ns)), "{which:?}");
        // One transfer at a time: together they take nearly the whole time.
        let sum = measured.latencies_ns.iter().sum::<f64>() * 1100.0 / kept as f64;
        assert!((0.97..=1.001).contains(&(sum / measured.elapsed_ns)), "{sum} of {}", measured.elapsed_ns);
    }
}

/// Bytes of the first 4 KiB that transfers of `size` bytes at `offset` write. Each has words of 8 bytes that count up from 0.
fn written(size: usize, offset: usize) -> Vec<u8> {
    let unit = (size + offset).next_multiple_of(64);
    let words: Vec<u8> = (0u64..512).flat_map(u64::to_le_bytes).collect();
    let mut page = vec![0; 4096];
    for start in (0..4096 / unit).map(|n| n * unit + offset) {
        page[start..start + size].copy_from_slice(&words[..size]);
    }
    page
}

/// The RTL writes each unit of the window, and nothing else.
#[test]
fn rtl_writes_units_of_the_window() {
    if !has_verilator() {
        return;
    }
    built();
    let shapes = [(64, 0), (60, 8), (100, 63), (1025, 1)];
    for (size, offset) in shapes {
        let [all, some] = [(Pattern::Sequential, 200), (Pattern::Random, 800)].map(|(pattern, transfers)| {
            let set = [
                (r::SIZE, size as u64),
                (r::OFFSET, offset as u64),
                (r::WINDOW_BYTES, 4096),
                (r::PATTERN, pattern as u64),
                (r::TRANSFERS, transfers),
                (r::PATH, Path::Dma as u64),
            ];
            let measured = measure(Which::Rtl, vec![Run::new(Test::BwWr, &set)]).remove(0);
            assert_done(&measured, transfers);
            measured.bytes
        });
        assert!(all == written(size, offset), "{size} B at {offset}, sequential");
        assert!(some == all, "{size} B at {offset}, random: 850 draws of 64 units at most");
    }
}
