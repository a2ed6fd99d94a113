// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures CPU time for benchmarks. Never used by tests: machines are noisy.

use std::fs;

/// CPU time of one repetition in nanoseconds.
const REPETITION_NS: f64 = 100e6;
const REPETITIONS: u32 = 5;

/// CPU time of this thread in nanoseconds, from `/proc/self/schedstat`. NaN on systems other than Linux.
pub fn cpu_ns() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN)
}

/// Calls `round`, which handles `items` items, for five times 100 ms. Prints the least CPU time per item.
pub fn print_cost(name: &str, items: u64, mut round: impl FnMut()) {
    round();
    let mut repetition = || {
        let (start, mut rounds) = (cpu_ns(), 0);
        loop {
            round();
            rounds += 1;
            let spent = cpu_ns() - start;
            if spent >= REPETITION_NS || spent.is_nan() {
                return spent / (rounds * items) as f64;
            }
        }
    };
    let best = (0..REPETITIONS).map(|_| repetition()).fold(f64::INFINITY, f64::min);
    println!("{name:<40} {best:6.1} ns");
}
