// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands write. Two outputs never share a file, and an output never overwrites an input. A file appears
//! when it is complete. Paths that are not files are written directly. Never uses riser's internals.

use crate::common::{Outcome, command};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns an empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outputs").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path.canonicalize().unwrap()
}

fn lab(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name).canonicalize().unwrap()
}

/// Command that runs one experiment of the suite, and the file of its rows.
const SUITE: &str = "bench --format pcie-bench --host ideal --suite lat_cmd_sizes";
const RESULT: &str = "a/nfp6000_ideal/lat_cmd_sizes.csv";

/// Creates a lab that runs for minutes.
fn endless(folder: &Path) -> PathBuf {
    let text = "version = 1\n[[slot]]\nname = \"card\"\ndevice = \"traffic\"\n[[slot.traffic.flow]]\nname = \"w\"\nkind = \"write\"\ncount = 1000000000000\n";
    let path = folder.join("endless.toml");
    fs::write(&path, text).unwrap();
    path
}

/// Runs riser in a folder.
fn riser_in(folder: &Path, line: &str) -> Outcome {
    let args: Vec<&str> = line.split_whitespace().collect();
    let output = command(&args).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

/// Names of unfinished files.
fn parts(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.ends_with(".part")).collect()
}

/// Waits until `is_so` returns true, at most a minute.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(super) fn signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Creates a folder with two names of one file, a link to a folder, results, and inputs of commands.
fn prepared(name: &str) -> PathBuf {
    let folder = folder(name);
    fs::copy(lab("ping.toml"), folder.join("ping.toml")).unwrap();
    assert_eq!(riser_in(&folder, "run ping.toml --capture in.pcapng").code, 0);
    fs::write(folder.join("one"), "mine").unwrap();
    fs::hard_link(folder.join("one"), folder.join("two")).unwrap();
    symlink("one", folder.join("link")).unwrap();
    symlink(".", folder.join("here")).unwrap();
    symlink("new", folder.join("dangling")).unwrap();
    let shown = riser_in(&folder, "model nic --show simple");
    fs::write(folder.join("nic.toml"), shown.stdout).unwrap();
    fs::copy(lab("nettlp/host.toml"), folder.join("nettlp.toml")).unwrap();
    let measured = riser_in(&folder, &format!("{SUITE} -o a"));
    assert_eq!(measured.code, 0, "{}", measured.stderr);
    folder
}

#[test]
fn rejects_shared_outputs_and_outputs_over_inputs() {
    let folder = prepared("refused");
    let before = names(&folder);
    let rows = [
        ("run ping.toml --capture z --transactions-json z", "two outputs to one file"),
        ("run ping.toml --capture z --transactions-json ./z --force", "two outputs to one file"),
        ("run ping.toml --capture z --transactions-json here/z", "two outputs to one file"),
        ("run ping.toml --capture none/z --transactions-json none/../none/z", "two outputs to one file"),
        ("run ping.toml --capture dangling --transactions-json new", "two outputs to one file"),
        ("run ping.toml --capture one --transactions-json two --force", "two outputs to one file"),
        ("run ping.toml --capture one --transactions-json link --force", "two outputs to one file"),
        ("run ping.toml --capture - --transactions-json -", "two outputs to one file"),
        ("run ping.toml --capture - --transactions-json /dev/stdout", "two outputs to one file"),
        ("run ping.toml --capture here/ping.toml --force", "the file is an input"),
        ("run ping.toml --transactions-json ping.toml --force", "the file is an input"),
        ("model nic --svg q --html q --force", "two outputs to one file"),
        ("model nic --device nic.toml --svg nic.toml --force", "the file is an input"),
        ("paper gem5-mmio --svg q --html ./q", "two outputs to one file"),
        ("trace in.pcapng --html in.pcapng --force", "the file is an input"),
        ("trace in.pcapng --perfetto here/in.pcapng --force", "the file is an input"),
        ("SUITE -o a --html RESULT --force", "two outputs to one file"),
        ("SUITE -o a --html a/nfp6000_ideal/riser.json --force", "two outputs to one file"),
        ("compare a a --html RESULT --force", "the file is an input"),
        ("fit a -o RESULT --force", "the file is an input"),
        (
            "nettlp adapter nettlp.toml --allow 127.0.0.2,all,rw --capture z --record ./z",
            "two outputs to one file",
        ),
        (
            "nettlp adapter nettlp.toml --allow 127.0.0.2,all,rw --record nettlp.toml --force",
            "the file is an input",
        ),
    ];
    for (line, why) in rows {
        let machine = names(&folder.join("a"));
        let line = line.replace("SUITE", SUITE).replace("RESULT", RESULT);
        let outcome = riser_in(&folder, &line);
        assert_ne!(outcome.code, 0, "{line}");
        assert!(
            outcome.stderr.contains(why) && outcome.stdout.is_empty(),
            "{line}: {}{}",
            outcome.stderr,
            outcome.stdout
        );
        assert_eq!((names(&folder), names(&folder.join("a"))), (before.clone(), machine), "{line}");
    }
    assert_eq!(fs::read(folder.join("one")).unwrap(), b"mine");
}

/// An overwritten file keeps its mode, and its links.
#[test]
fn overwritten_file_keeps_mode_and_links() {
    let folder = folder("overwritten");
    fs::copy(lab("ping.toml"), folder.join("ping.toml")).unwrap();
    fs::write(folder.join("old"), "mine").unwrap();
    fs::set_permissions(folder.join("old"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("old", folder.join("link")).unwrap();
    let refused = riser_in(&folder, "run ping.toml --capture link");
    assert!(
        refused.code == 1 && refused.stderr.contains("link exists: --force overwrites it"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read(folder.join("old")).unwrap(), b"mine");
    assert_eq!(riser_in(&folder, "run ping.toml --capture link --force").code, 0);
    assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
    assert!(fs::read(folder.join("old")).unwrap().starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
    assert_eq!(fs::metadata(folder.join("old")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&folder), ["link", "old", "ping.toml"]);
}

/// Starts an endless lab, and waits until its capture has this many bytes.
fn running(folder: &Path, args: &[&str], bytes: u64) -> Child {
    endless(folder);
    let mut child = command(&[&["run", "endless.toml"], args].concat());
    let child = child.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a capture grows", || {
        parts(folder)
            .iter()
            .any(|part| fs::metadata(folder.join(part)).is_ok_and(|about| about.len() > bytes))
    });
    child
}

#[test]
fn ctrl_c_ends_run_with_report_and_complete_files() {
    for name in ["INT", "TERM", "HUP"] {
        ends_a_run(name);
    }
}

fn ends_a_run(name: &str) {
    let folder = folder(&format!("ctrl-c-{name}"));
    let args = ["--capture", "z.pcapng", "--transactions-json", "z.jsonl", "--json"];
    let child = running(&folder, &args, 1 << 18);
    signal(&child, name);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.starts_with("riser: interrupted after ") && said.ends_with(" us of virtual time\n"),
        "{said}"
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["outcome"], "interrupted");
    assert!(report["links"][0]["directions"][1]["tlps"].as_u64() > Some(1000), "{report}");
    assert_eq!(names(&folder), ["endless.toml", "z.jsonl", "z.pcapng"]);
    let shown = riser_in(&folder, "trace z.pcapng --stats");
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    let lines = fs::read_to_string(folder.join("z.jsonl")).unwrap();
    assert!(lines.ends_with("}\n") && lines.lines().count() > 1000);
}

/// The file of a killed run has no name, but is readable up to its last complete record. A capture that was cut at any
/// byte is readable, too.
#[test]
fn cut_capture_is_readable_to_last_complete_record() {
    let folder = folder("killed");
    let mut child = running(&folder, &["--capture", "z.pcapng"], 1 << 18);
    child.kill().unwrap();
    child.wait().unwrap();
    let [part] = &parts(&folder)[..] else { panic!("{:?}", names(&folder)) };
    assert!(part.starts_with("z.pcapng."), "{part}");
    let shown = riser_in(&folder, &format!("trace {part}"));
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    // The kernel may have written a part of the last block.
    let (faults, records): (Vec<&str>, Vec<&str>) =
        shown.stdout.lines().partition(|line| line.contains("the file ends within a record"));
    let whole = records.len();
    assert!(whole > 1000 && faults.len() <= 1, "{whole} {faults:?}");
    let mut bytes = fs::read(folder.join(part)).unwrap();
    let end = faults.first().and_then(|line| line.split("at byte ").nth(1)?.split(':').next()?.parse().ok());
    bytes.truncate(end.unwrap_or(bytes.len()));
    for cut in [1, 3, 30, 100] {
        fs::write(folder.join("cut.pcapng"), &bytes[..bytes.len() - cut]).unwrap();
        let shown = riser_in(&folder, "trace cut.pcapng");
        assert_eq!(shown.code, 0);
        assert!(shown.stderr.contains("could not be read"), "{}", shown.stderr);
        let lines: Vec<&str> = shown.stdout.lines().collect();
        assert!(lines.last().unwrap().contains("the file ends within a record"), "{:?}", lines.last());
        let records = lines.len() - 1;
        assert!(records < whole && whole - records <= 2, "{records} of {whole}, cut by {cut}");
        let Ok(tshark) = Command::new("tshark").args(["-r", "cut.pcapng"]).current_dir(&folder).output()
        else {
            continue;
        };
        let said = String::from_utf8_lossy(&tshark.stderr);
        assert!(said.contains("cut short"), "{said}");
        assert_eq!(String::from_utf8_lossy(&tshark.stdout).lines().count(), records, "cut by {cut}");
    }
}

/// After errors and signals, there is no file, or the old file.
#[test]
fn failed_command_leaves_no_incomplete_file() {
    let folder = folder("limits");
    endless(&folder);
    fs::write(folder.join("old"), "mine").unwrap();
    // A limit of the file size replaces a full disk.
    for name in ["old", "new"] {
        let riser = env!("CARGO_BIN_EXE_riser");
        let line =
            format!("trap '' XFSZ; ulimit -f 256; exec {riser} run endless.toml --force --capture {name}");
        let output = Command::new("sh").args(["-c", &line]).current_dir(&folder).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(&format!("riser: {name}: File too large")), "{said}");
        assert_eq!(names(&folder), ["endless.toml", "old"]);
    }
    assert_eq!(fs::read(folder.join("old")).unwrap(), b"mine");
    let full = riser_in(&folder, "run endless.toml --capture /dev/full");
    assert!(full.code == 1 && full.stderr.starts_with("riser: /dev/full: No space left"), "{}", full.stderr);
    // A command that does not handle Ctrl-C, while it waits for more input.
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut child = command(&["trace", "-", "--perfetto", "z.json"]);
        let mut child = child.current_dir(&folder).stdin(Stdio::piped()).spawn().unwrap();
        let _open = child.stdin.take();
        until("a file without a name", || !parts(&folder).is_empty());
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert_eq!(names(&folder), ["endless.toml", "old"]);
    }
}

/// `nohup` is respected.
#[test]
fn ignored_hangup_stays_ignored() {
    let folder = folder("nohup");
    endless(&folder);
    let line = format!(
        "trap '' HUP; exec {} run endless.toml --capture z > report 2>&1",
        env!("CARGO_BIN_EXE_riser")
    );
    let mut child = Command::new("sh").args(["-c", &line]).current_dir(&folder).spawn().unwrap();
    until("a file without a name", || !parts(&folder).is_empty());
    thread::sleep(Duration::from_millis(500));
    signal(&child, "HUP");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None);
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&folder), ["endless.toml", "report", "z"]);
}

/// Errors name the path that the user gave, not the unfinished file.
#[test]
fn errors_name_paths_as_given() {
    let folder = folder("names");
    fs::copy(lab("ping.toml"), folder.join("ping.toml")).unwrap();
    // Not even root can create a file there.
    let refused = riser_in(&folder, "run ping.toml --capture /proc/1/z");
    assert_eq!(refused.stderr, "riser: /proc/1/z: No such file or directory (os error 2)\n");
    for bytes in [243, 244, 250, 255] {
        let name = "z".repeat(bytes);
        let outcome = riser_in(&folder, &format!("run ping.toml --capture {name}"));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{bytes}");
        assert_eq!(names(&folder), ["ping.toml", &name]);
        fs::remove_file(folder.join(name)).unwrap();
    }
    let outcome = riser_in(&folder, &format!("run ping.toml --capture {}", "z".repeat(256)));
    assert!(outcome.code == 1 && outcome.stderr.contains("z: File name too long"), "{}", outcome.stderr);
}

/// `--force` respects the mode of a file. Root may write all files, so this test runs as another user.
#[test]
fn force_keeps_files_without_write_access() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let riser = folder.path().join("riser");
    fs::copy(env!("CARGO_BIN_EXE_riser"), &riser).unwrap();
    fs::copy(lab("ping.toml"), folder.path().join("ping.toml")).unwrap();
    fs::set_permissions(folder.path().join("ping.toml"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::write(folder.path().join("theirs"), "theirs").unwrap();
    fs::set_permissions(folder.path().join("theirs"), fs::Permissions::from_mode(0o444)).unwrap();
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let run = |line: &str| {
        let mut command = Command::new(&riser);
        command.args(line.split_whitespace()).current_dir(folder.path());
        let output = if is_root { command.uid(NOBODY).gid(NOBODY) } else { &mut command }.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let why = "riser: theirs: Permission denied (os error 13): --force overwrites only writable files\n";
    let capture = "run ping.toml --force --capture";
    assert_eq!(run(&format!("{capture} theirs")), (Some(1), why.to_owned()));
    assert_eq!(fs::read(folder.path().join("theirs")).unwrap(), b"theirs");
    for _ in 0..2 {
        assert_eq!(run(&format!("{capture} own")), (Some(0), String::new()));
    }
    let suite = format!("{SUITE} --fresh --force -o a");
    assert_eq!(run(&suite), (Some(0), String::new()));
    fs::set_permissions(folder.path().join(RESULT), fs::Permissions::from_mode(0o444)).unwrap();
    let why = format!("riser: {RESULT}: Permission denied (os error 13)\n");
    assert_eq!(run(&suite), (Some(1), why));
}

/// A measurement that writes to a pipe without a reader reports it, and ends at the first Ctrl-C.
#[test]
fn waiting_for_pipe_reader_ends_at_ctrl_c() {
    let folder = folder("unread");
    fs::create_dir(folder.join("out")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("out/results.json")).status().unwrap().success());
    let args = ["bench", "--suite", "LAT_RD", "--size", "64", "--transfers", "10", "-o", "out"];
    let mut child = command(&args);
    let child = child.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "riser: out/results.json: waiting for a reader of this pipe; Ctrl-C ends it\n");
    signal(&child, "INT");
    line.clear();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "riser: interrupted: out/results.json: no process has opened it for reading\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8(output.stdout).unwrap().contains("LAT_RD"), "the table is shown");
    assert_eq!(names(&folder.join("out")), ["results.json"]);
}

/// A run that cannot write its results fails before it measures.
#[test]
fn outputs_are_claimed_before_measurement() {
    let folder = folder("claimed");
    fs::copy(lab("ping.toml"), folder.join("ping.toml")).unwrap();
    // Not even root can create a file there.
    for line in [
        "bench --suite LAT_RD --size 64 --transfers 10 -o /proc/1/z",
        "paper gem5-mmio --svg /proc/1/z",
        &format!("{SUITE} -o /proc/1/z"),
    ] {
        let refused = riser_in(&folder, line);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{line}");
        assert!(refused.stderr.starts_with("riser: /proc/1/z"), "{line}: {}", refused.stderr);
    }
    let mut first = running(&folder, &["--capture", "z.pcapng"], 1 << 18);
    for force in ["", "--force"] {
        let second = riser_in(&folder, &format!("run endless.toml --capture z.pcapng {force}"));
        assert_eq!(
            (second.code, second.stderr.as_str()),
            (1, "riser: z.pcapng: another run is writing this file\n")
        );
    }
    assert_eq!(riser_in(&folder, "run ping.toml --capture other.pcapng").code, 0);
    first.kill().unwrap();
    first.wait().unwrap();
    // The unfinished file of a killed run does not block the next run.
    assert_eq!(parts(&folder).len(), 1);
    assert_eq!(riser_in(&folder, "run ping.toml --capture z.pcapng").code, 0);
}

#[test]
fn second_ctrl_c_ends_immediately() {
    let folder = folder("twice");
    endless(&folder);
    // The capture has no reader, so the run hangs when the pipe is full.
    let args = ["run", "endless.toml", "--capture", "-", "--transactions-json", "z.jsonl"];
    let mut child = command(&args);
    let mut child = child.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("a file without a name", || !parts(&folder).is_empty());
    thread::sleep(Duration::from_millis(1000));
    signal(&child, "INT");
    thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the first Ctrl-C waits for the pipe");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&folder), ["endless.toml"]);
}

/// Pipes and `-` receive the bytes of the file. The report goes to standard error.
#[test]
fn pipes_are_written_directly() {
    let folder = folder("pipes");
    fs::copy(lab("ping.toml"), folder.join("ping.toml")).unwrap();
    let to_file = riser_in(&folder, "run ping.toml --json --capture z");
    let expected = fs::read(folder.join("z")).unwrap();
    for out in ["-", "/dev/stdout"] {
        let output =
            command(&["run", "ping.toml", "--json", "--capture", out]).current_dir(&folder).output().unwrap();
        assert!(output.status.success() && output.stdout == expected, "{out}");
        let report = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["links"].clone();
        assert_eq!(report(&String::from_utf8(output.stderr).unwrap()), report(&to_file.stdout), "{out}");
    }
    assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
    let path = folder.join("pipe");
    let reader = thread::spawn(move || fs::read(path).unwrap());
    let outcome = riser_in(&folder, "run ping.toml --json --capture pipe");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "no --force");
    assert!(reader.join().unwrap() == expected);
    assert_eq!(names(&folder), ["ping.toml", "pipe", "z"]);
    // A reader that closes the pipe ends the run without an error message.
    endless(&folder);
    let line = format!("{} run endless.toml --capture - | head -c 100 | wc -c", env!("CARGO_BIN_EXE_riser"));
    let output = Command::new("sh").args(["-c", &line]).current_dir(&folder).output().unwrap();
    assert_eq!((output.stdout, output.stderr), (b"100\n".to_vec(), Vec::new()));
}

/// Runs riser with these bytes on its standard input.
fn with_input(folder: &Path, line: &str, bytes: &[u8]) -> Outcome {
    let args: Vec<&str> = line.split_whitespace().collect();
    let mut child = command(&args);
    let child = child.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let (mut stdin, bytes) = (child.stdin.take().unwrap(), bytes.to_vec());
    let writer = thread::spawn(move || _ = stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn standard_input_counts_as_file() {
    let folder = folder("stdin");
    fs::copy(lab("ping.toml"), folder.join("ping.toml")).unwrap();
    assert_eq!(riser_in(&folder, "run ping.toml --capture z").code, 0);
    let capture = fs::read(folder.join("z")).unwrap();
    for view in ["", "--stats --json", "--transactions", "--stats --interval auto"] {
        let piped = with_input(&folder, &format!("trace {view} -"), &capture);
        assert_eq!((piped.code, piped.stderr.as_str()), (0, ""), "{view}");
        assert!(piped.stdout == riser_in(&folder, &format!("trace {view} z")).stdout, "{view}");
    }
    for (line, bytes) in [("trace - --html page", &capture[..]), ("trace - --perfetto events", &capture)] {
        let piped = with_input(&folder, line, bytes);
        assert_eq!((piped.code, piped.stderr.as_str()), (0, ""), "{line}");
    }
    assert_eq!(names(&folder), ["events", "page", "ping.toml", "z"]);
    for line in ["trace - -", "check - -", "check ping.toml - -"] {
        let twice = with_input(&folder, line, &capture);
        assert_eq!((twice.code, twice.stdout.as_str()), (2, ""), "{line}");
        assert_eq!(twice.stderr, "riser: -: standard input can be read only once\n", "{line}");
    }
    // A lab from standard input: its relative paths start from the current folder.
    let text = fs::read_to_string(folder.join("ping.toml")).unwrap();
    for line in ["run -", "check -", "lspci -"] {
        let (piped, named) =
            (with_input(&folder, line, text.as_bytes()), riser_in(&folder, &line.replace('-', "ping.toml")));
        assert_eq!((piped.code, piped.stderr.as_str()), (0, ""), "{line}");
        let steady =
            |text: &str| text.replace("<stdin>", "ping.toml").split(" in 0.").next().unwrap().to_owned();
        assert_eq!(steady(&piped.stdout), steady(&named.stdout), "{line}");
    }
    let replayed = fs::read_to_string(lab("replay.toml")).unwrap();
    let captured = replayed
        .lines()
        .find_map(|line| line.strip_prefix("capture = "))
        .unwrap()
        .trim_matches('"')
        .to_owned();
    let missing = with_input(&folder, "check -", replayed.as_bytes());
    assert!(missing.code == 1 && missing.stderr.starts_with("riser: <stdin>:"), "{}", missing.stderr);
    fs::copy(lab("replay.toml").with_file_name(&captured), folder.join("card.pcap")).unwrap();
    let there = with_input(&folder, "check -", replayed.replace(&captured, "card.pcap").as_bytes());
    assert_eq!((there.code, there.stderr.as_str()), (0, ""));
    // The files that the sweep names are inputs.
    let over = with_input(
        &folder,
        "run - --force --capture card.pcap",
        replayed.replace(&captured, "card.pcap").as_bytes(),
    );
    assert!(over.code == 2 && over.stderr.contains("the file is an input"), "{}", over.stderr);
}

/// Returns riser's output on a terminal, which `script` provides.
fn on_terminal(folder: &Path, line: &str) -> Option<String> {
    let line = format!("timeout --foreground -s INT 5 {} {line}", env!("CARGO_BIN_EXE_riser"));
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}

#[test]
fn long_run_shows_progress_on_terminal() {
    let folder = folder("progress");
    let text = fs::read_to_string(endless(&folder)).unwrap();
    fs::write(folder.join("limit.toml"), text.replace("version = 1", "version = 1\nlimit_us = 100000000"))
        .unwrap();
    let Some(shown) = on_terminal(&folder, "run limit.toml --json") else {
        eprintln!("skipped: `script` is not there");
        return;
    };
    for part in [
        " us simulated, ",
        " % of limit_us, ",
        " % of 1000000000000 transfers, ",
        " M events/s",
        "\"interrupted\"",
    ] {
        assert!(shown.contains(part), "`{part}` in {shown}");
    }
}

#[test]
fn ctrl_c_keeps_measured_rows() {
    let folder = folder("rows");
    let args =
        ["bench", "--suite", "LAT_RD", "BW_WR", "--size", "64", "--transfers", "2000", "-o", "out", "--json"];
    let whole = riser_in(&folder, &args.join(" "));
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let args = args.join(" ").replace("2000", "16000000") + " --force";
    let args: Vec<&str> = args.split_whitespace().collect();
    let child =
        command(&args).current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["tests"].as_array().unwrap().len();
    assert_eq!(said, format!("riser: interrupted: {rows} of 2 rows were measured\n"));
    assert_eq!(report["interrupted"], format!("interrupted: {rows} of 2 rows were measured"));
    let written: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("out/results.json")).unwrap()).unwrap();
    // Without any row, the old results are kept.
    let kept = if rows == 0 { serde_json::from_str(&whole.stdout).unwrap() } else { report };
    assert_eq!(written, kept);
}
