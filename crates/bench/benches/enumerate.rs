// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of enumeration, as the median of several runs. The labs are trees of switches with a memory device in every
//! slot. The host enumerates them by configuration requests; the drivers have no further work. The tree is built outside the
//! measured time.

use lab::LabFile;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::path::Path;

const RUNS: usize = 9;

/// A switch on the only root port, `switches` switches below it, and `fan_out` memory devices below each of these.
#[derive(Clone, Copy)]
struct Shape {
    switches: usize,
    fan_out: usize,
}

impl Shape {
    /// Returns the number of functions: a root port, the upper switch, the other switches, and the devices in their slots.
    const fn functions(self) -> usize {
        let Shape { switches, fan_out } = self;
        1 + (1 + switches) + switches * (1 + fan_out) + switches * fan_out
    }

    fn file(self) -> LabFile {
        let mut text = "version = 1\n[[switch]]\nname = \"upper\"\n".to_owned();
        for switch in 0..self.switches {
            let _ = write!(text, "[[switch]]\nname = \"switch-{switch}\"\nparent = \"upper\"\n");
            for slot in 0..self.fan_out {
                let name = format!("name = \"memory-{switch}-{slot}\"\nparent = \"switch-{switch}\"\n");
                let _ = write!(text, "[[slot]]\n{name}device = \"memory\"\nmemory.exercise_bytes = 0\n");
            }
        }
        let path = Path::new("enumerate.toml");
        let lab = lab::parse(&devices::models(), path, &text).unwrap_or_else(|e| panic!("{e}"));
        LabFile { lab, base: ".".into() }
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns CPU seconds from the first event to the end, and the number of events.
fn run(file: &LabFile) -> (f64, u64) {
    let mut session = session::Session::new(file).expect("a lab that can be built");
    let start = cpu_seconds();
    let stop = session.fabric.run(fabric::Limits::default());
    let spent = cpu_seconds() - start;
    assert_eq!(stop, fabric::Stop::Finished);
    (spent, session.fabric.totals().events)
}

fn main() {
    for shape in [Shape { switches: 8, fan_out: 12 }, Shape { switches: 8, fan_out: 25 }] {
        let file = shape.file();
        let found = session::enumerate(&file).expect("a tree that can be enumerated");
        assert_eq!(found.functions.len(), shape.functions());
        let mut runs: Vec<(f64, u64)> = (0..RUNS).map(|_| run(&file)).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (seconds, events) = runs[RUNS / 2];
        println!(
            "{} functions, {} of them devices: {} configuration requests, {events} events, {} us of virtual time, \
             {seconds:.4} CPU-s (least {:.4})",
            shape.functions(),
            shape.switches * shape.fan_out,
            found.config_requests,
            found.took.as_ps() / 1_000_000,
            runs[0].0,
        );
    }
}
