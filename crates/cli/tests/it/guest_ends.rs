// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A killed riser or QEMU leaves no process, socket or file. The surviving process reports what happened.

use crate::common::command;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// Starts a guest that sleeps. Its riser keeps its files in `folder`. Also returns the process of QEMU.
fn sleeping(folder: &Path) -> (Child, u32) {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/clock.toml");
    let mut riser = command(&["guest", "run", "--time-limit", "120", "--append", &mark(folder)]);
    riser.arg(lab).args(["--", "sh", "-c", "echo up; sleep 100"]).env("TMPDIR", folder);
    let mut riser = riser.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(riser.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let qemu = qemus(folder);
    assert_eq!(qemu.len(), 1);
    (riser, qemu[0])
}

/// Text in the arguments that identifies its QEMU.
fn mark(folder: &Path) -> String {
    format!("mark={}", folder.display())
}

fn qemus(folder: &Path) -> Vec<u32> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|p| p.unwrap().file_name().to_str()?.parse().ok());
    let is_ours = |process: &u32| {
        let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments);
        arguments.contains("qemu-system") && arguments.contains(&mark(folder))
    };
    processes.filter(is_ours).collect()
}

fn kill(process: u32) {
    assert!(Command::new("kill").args(["-9", &process.to_string()]).status().unwrap().success());
}

fn becomes_true(what: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !what() && begun.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(50));
    }
    what()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn killed_riser_leaves_no_processes_or_files() {
    let folder = tempfile::tempdir().unwrap();
    let (mut riser, _) = sleeping(folder.path());
    kill(riser.id());
    riser.wait().unwrap();
    assert!(becomes_true(|| qemus(folder.path()).is_empty()), "QEMU lives on");
    assert!(is_empty(folder.path()), "{:?}", fs::read_dir(folder.path()).unwrap().collect::<Vec<_>>());
}

#[test]
fn killed_qemu_ends_riser_with_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (riser, qemu) = sleeping(folder.path());
    kill(qemu);
    let output = riser.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("QEMU") && said.contains("SIGKILL"), "{said}");
    assert!(qemus(folder.path()).is_empty() && is_empty(folder.path()));
}
