// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A killed riser or QEMU leaves no process, socket or file behind, and who is left says what has happened.

use crate::common::command;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// A guest that sleeps, whose riser keeps what it needs in `folder`, and its QEMU.
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

/// What tells its QEMU from others.
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
fn a_killed_riser_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (mut riser, _) = sleeping(folder.path());
    kill(riser.id());
    riser.wait().unwrap();
    assert!(becomes_true(|| qemus(folder.path()).is_empty()), "QEMU lives on");
    assert!(is_empty(folder.path()), "{:?}", fs::read_dir(folder.path()).unwrap().collect::<Vec<_>>());
}

#[test]
fn a_killed_qemu_ends_riser_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (riser, qemu) = sleeping(folder.path());
    kill(qemu);
    let output = riser.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("QEMU") && said.contains("SIGKILL"), "{said}");
    assert!(qemus(folder.path()).is_empty() && is_empty(folder.path()));
}
