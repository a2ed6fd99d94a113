// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workers as processes: for any number of workers and any failure of workers, each point has one record and the file
//! is the same. This program is its own worker, with a device that ends its process on request, so it has its own
//! `main`.

#[path = "../it/common/mod.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod common;

use common::{GRID, LAB, finish, parquet, sweep_of};
use libtest_mimic::{Arguments, Trial};
use plug::{Fault, Model, Models, Plugged, Site};
use riser_sweep::pool::{self, Done, Workers};
use riser_sweep::{Outcome, Progress, RunningSweep, Start, Sweep, journal, worker};
use rustix::process::{Pid, Signal, kill_process};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A memory device that can end its process when it is plugged in.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Fatal {
    /// Action: 0 nothing, 1 aborts, 2 panics, 3 exits with status 7.
    #[schemars(range(min = 0, max = 9))]
    end: u32,
    /// Bytes that its driver writes.
    #[schemars(range(min = 0, max = 65_536))]
    bytes: u32,
}

impl Model for Fatal {
    const NAME: &'static str = "fatal";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        match self.end {
            1 => std::process::abort(),
            2 => panic!("a device that panics"),
            3 => std::process::exit(7),
            _ => {}
        }
        let memory = devices::memory::Settings { exercise_bytes: Some(self.bytes), ..Default::default() };
        memory.plug(site)
    }
}

fn models() -> Models {
    devices::models().with::<Fatal>()
}

fn main() {
    if std::env::args().any(|argument| argument == "--worker") {
        worker::prepare();
        worker::serve(&models(), std::io::stdin().lock(), std::io::stdout()).unwrap();
        return;
    }
    let tests: [(&str, fn()); 6] = [
        ("results_do_not_depend_on_the_number_of_workers", results_do_not_depend_on_the_number_of_workers),
        ("points_that_crash_workers_have_records", points_that_crash_workers_have_records),
        ("killed_workers_lose_and_repeat_no_point", killed_workers_lose_and_repeat_no_point),
        ("stopped_sweep_continues", stopped_sweep_continues),
        ("workers_halve_as_a_single_process_does", workers_halve_as_a_single_process_does),
        ("rejects_commands_that_are_not_workers", rejects_commands_that_are_not_workers),
    ];
    // Each test counts the workers of its process, so only one test runs in a process at a time.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.map(trial).into()).exit();
}

fn workers(count: usize) -> Workers {
    Workers { command: vec![std::env::current_exe().unwrap().into(), "--worker".into()], count }
}

fn straight(sweep: &Sweep) -> Vec<u8> {
    let mut run = RunningSweep::begin(sweep, None).unwrap();
    finish(&mut run, 100);
    parquet(&run)
}

fn drive(run: &mut RunningSweep<'_>, count: usize) -> Done {
    pool::run(run, &workers(count), || false, |_| {}).unwrap()
}

/// Returns the points of a journal, as often as they occur in it.
fn journalled(path: &Path) -> Vec<u64> {
    let contents = journal::read(&fs::read(path).unwrap()).unwrap();
    let mut points: Vec<u64> = contents.records.iter().map(|record| record.point).collect();
    points.sort_unstable();
    points
}

fn results_do_not_depend_on_the_number_of_workers() {
    let sweep = sweep_of(&models(), GRID, LAB).unwrap();
    let wanted = straight(&sweep);
    for count in [1, 2, 5] {
        let mut run = RunningSweep::begin(&sweep, None).unwrap();
        let done = drive(&mut run, count);
        assert_eq!(parquet(&run), wanted, "{count}");
        assert_eq!((done.died, done.stopped), (0, false));
        assert!(done.simulation <= done.cpu && done.simulation > Duration::ZERO);
    }
}

const FATAL: &str = "version = 1\n[[slot]]\nname = 'a'\ndevice = 'fatal'\n[slot.fatal]\nbytes = 64\n";

fn points_that_crash_workers_have_records() {
    // The master itself tries the first and the last value.
    let file = "version = 1\nlab = 'lab.toml'\n[over]\n'slot.a.fatal.bytes' = [4, 8, 12, 16]\n'slot.a.fatal.end' = [0, 1, 2, 3, 4]\n[metrics]\nhops = 'tlp_hops'\n";
    let sweep = sweep_of(&models(), file, FATAL).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut files = Vec::new();
    for count in [1, 3] {
        let mut run = RunningSweep::begin(&sweep, Some((&path, Start::Force))).unwrap();
        let done = drive(&mut run, count);
        for n in 0..20 {
            let record = run.record_of(n).unwrap();
            let why = record.error.as_deref();
            match n % 5 {
                0 | 4 => assert_eq!((record.outcome, why), (Outcome::Finished, None)),
                1 => assert_eq!(why, Some("the process was ended by signal 6, 3 times")),
                2 => assert_eq!(why, Some("riser panicked, which is a bug in riser: a device that panics")),
                _ => assert_eq!(why, Some("the process ended with status 7, 3 times")),
            }
            assert_eq!(record.outcome == Outcome::Crashed, ![0, 4].contains(&(n % 5)));
        }
        // Eight points crash their worker (two kinds of crash, four points each). Each point crashes three times alone,
        // and at most once more in an order that it shares with others.
        assert!((24..=32).contains(&done.died), "{done:?}");
        files.push(parquet(&run));
        assert_eq!(journalled(&path), (0..20).collect::<Vec<_>>());
    }
    assert_eq!(files[0], files[1]);
}

/// Returns the workers of this process.
fn children() -> Vec<i32> {
    let own = std::process::id().to_string();
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(own.as_str())
    };
    processes.filter(is_ours).collect()
}

fn killed_workers_lose_and_repeat_no_point() {
    if !Path::new("/proc/self/stat").exists() {
        println!("no /proc: skipped");
        return;
    }
    let file = GRID.replace("to = 160, step = 16", "to = 16384, step = 64").replace("[1, 3, 5]", "[3]");
    let sweep = sweep_of(&models(), &file, LAB).unwrap();
    let wanted = straight(&sweep);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut run = RunningSweep::begin(&sweep, Some((&path, Start::New))).unwrap();
    let (over, recorded, killed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU32::new(0));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
                // Points of a dead worker are run again first. With so many records between two kills, no point loses
                // its worker three times, on a busy machine either.
                let turn = killed.load(Ordering::Relaxed);
                if recorded.load(Ordering::Relaxed) < 24 * u64::from(turn + 1) {
                    continue;
                }
                let all = children();
                let victim = all.get(turn as usize % all.len().max(1)).and_then(|pid| Pid::from_raw(*pid));
                if victim.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()) {
                    killed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let watch = |progress: &Progress| recorded.store(progress.recorded, Ordering::Relaxed);
        let done = pool::run(&mut run, &workers(8), || false, watch).unwrap();
        over.store(true, Ordering::Relaxed);
        done
    });
    assert!(done.died > 0 && killed.load(Ordering::Relaxed) > 0, "{done:?}");
    assert_eq!(journalled(&path), (0..sweep.points()).collect::<Vec<_>>());
    assert_eq!(parquet(&run), wanted);
}

fn stopped_sweep_continues() {
    let sweep = sweep_of(&models(), GRID, LAB).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut turns = 0;
    loop {
        let start = if turns == 0 { Start::New } else { Start::Resume };
        let mut run = RunningSweep::begin(&sweep, Some((&path, start))).unwrap();
        let stop = AtomicBool::new(false);
        let before = run.progress().recorded;
        let done = pool::run(
            &mut run,
            &workers(2),
            || stop.load(Ordering::Relaxed),
            |at| {
                stop.store(at.recorded > before + 10, Ordering::Relaxed);
            },
        );
        turns += 1;
        if !done.unwrap().stopped {
            assert_eq!(parquet(&run), straight(&sweep));
            break;
        }
        assert!(children().is_empty(), "workers are left");
    }
    assert!(turns > 1);
    assert_eq!(journalled(&path), (0..60).collect::<Vec<_>>());
}

fn workers_halve_as_a_single_process_does() {
    let file = "version = 1\nlab = 'lab.toml'\n[sample]\nmethod = 'sobol'\npoints = 40\n[over]\n'link.gen' = [1, 2, 3, 4, 5]\n'link.lanes' = [1, 2, 4, 8]\n[halving]\nbudget = 'slot.a.memory.exercise_bytes'\nleast = 64\nmost = 4096\n[metrics]\nns = { path = 'simulated_ns', aim = 'minimize' }\n";
    let sweep = sweep_of(&models(), file, LAB).unwrap();
    let mut run = RunningSweep::begin(&sweep, None).unwrap();
    drive(&mut run, 3);
    assert_eq!(parquet(&run), straight(&sweep));
}

fn rejects_commands_that_are_not_workers() {
    let sweep = sweep_of(&models(), GRID, LAB).unwrap();
    let error = |command: &[&str]| {
        let command = command.iter().map(OsString::from).collect();
        let mut run = RunningSweep::begin(&sweep, None).unwrap();
        match pool::run(&mut run, &Workers { command, count: 2 }, || false, |_| {}) {
            Err(error) => error.to_string(),
            Ok(progress) => panic!("{progress:?}"),
        }
    };
    assert!(error(&["/no/such/program"]).starts_with("worker /no/such/program: No such file"));
    let dead = error(&["sh", "-c", "echo no module named riser >&2; exit 3"]);
    assert_eq!(
        dead,
        "10 consecutive workers ended before they were ready; the last one ended with status 3:\nno module named riser"
    );
    assert!(
        error(&["sh", "-c", "echo hello; exec cat"])
            .contains("the last one wrote `hello`, which is not a reply")
    );
    assert_eq!(error(&[]), "no command for workers");
}
