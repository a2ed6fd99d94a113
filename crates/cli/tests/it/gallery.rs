// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gallery: each example has a README, a command and a picture, and is on the page of the documentation. Runs the examples that
//! need only riser and a C compiler; `.ci/long gallery` runs all others except the device in Python, which the tests of the Python
//! package run.

use crate::common::{Outcome, finish};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::root;

const README_LINES: usize = 40;
/// All pictures together, in bytes.
const PICTURES_LIMIT: u64 = 1_000_000;

fn examples() -> BTreeSet<String> {
    let all = fs::read_dir(root().join("gallery")).unwrap().map(Result::unwrap);
    all.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the file name of the picture that a page shows, from `![text](folder/file)`.
fn shown_picture(page: &str, folder: &str) -> String {
    let of_folder = page.split("](").skip(1).filter_map(|rest| rest.split(')').next()?.strip_prefix(folder));
    of_folder.filter(|name| name.starts_with("picture.")).collect()
}

#[test]
fn each_example_has_readme_command_and_picture_and_is_on_the_page() {
    let page = read("docs/gallery.md");
    let mut bytes = 0;
    for name in examples() {
        let command = format!("gallery/{name}/run");
        let mode =
            fs::metadata(root().join(&command)).unwrap_or_else(|e| panic!("{command}: {e}")).permissions();
        assert_eq!(mode.mode() & 0o111, 0o111, "{command} is not executable");
        let readme = read(&format!("gallery/{name}/README.md"));
        assert!(readme.lines().count() <= README_LINES, "{name}: {} lines", readme.lines().count());
        for text in [&readme, &page] {
            assert!(text.contains(&format!("```sh\n{command}\n```")), "{name}: no {command}");
        }
        let picture = shown_picture(&readme, "");
        assert_eq!(shown_picture(&page, &format!("../gallery/{name}/")), picture, "{name}");
        let file = root().join("gallery").join(&name).join(&picture);
        bytes += fs::metadata(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())).len();
        assert!(page.contains(&format!("](../gallery/{name}/README.md)")), "{name}: no link to its README");
    }
    assert!(bytes < PICTURES_LIMIT, "{bytes} bytes");
    assert_eq!(page.matches("```sh\ngallery/").count(), examples().len());
    assert_eq!(examples().len(), 10);
}

/// The command of an example, whose output goes to `out`.
fn command(name: &str, out: &Path) -> Command {
    let mut command = Command::new(root().join("gallery").join(name).join("run"));
    command.env("RISER", env!("CARGO_BIN_EXE_riser")).env("OUT", out);
    command
}

fn run(name: &str) -> (Outcome, PathBuf) {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gallery").join(name);
    let _ = fs::remove_dir_all(&out);
    let outcome = finish(&mut command(name, &out));
    assert_eq!(outcome.code, 0, "{name}: {}{}", outcome.stdout, outcome.stderr);
    (outcome, out)
}

#[test]
fn quick_examples_print_what_their_pages_describe() {
    for (name, lines) in [
        ("simple-nic", &["pings_answered 1", "4 bytes: posted", "|------------>|  1: MWr"][..]),
        ("nvme", &["bytes_read 4096000", " job      1000 ", "bytes_read 512,", "|<------------|  2: MRd"]),
        ("sweep", &["126 of 126 points: 126 finished", "Pareto front:"]),
    ] {
        let (outcome, _) = run(name);
        for line in lines {
            assert!(outcome.stdout.contains(line), "{name}: `{line}` in {}", outcome.stdout);
        }
    }
}

/// The requests between the two cards cross the switch, and never the link to the root complex.
#[test]
fn peer_requests_stay_below_the_switch() {
    let (outcome, out) = run("peer-to-peer");
    assert!(outcome.stdout.contains("interrupts 3"), "{}", outcome.stdout);
    let capture = out.join("copy.pcapng");
    let requests = |link: &str| {
        let filter = format!("link={link} and request and addr=0x80000000..0x80002000");
        let traced = crate::common::riser_ok(&["trace", capture.to_str().unwrap(), "--filter", &filter]);
        traced.lines().filter(|line| line.contains("requester 04:00.0")).count()
    };
    // Card to card: two reads and four writes. Host to card: four writes. Card to host: two reads.
    assert_eq!((requests("engine"), requests("card"), requests("switch")), (12, 12, 0));
}

#[test]
fn missing_program_has_a_next_step() {
    let out = tempfile::tempdir().unwrap();
    for (name, key, step) in [
        ("rtl-stream", "VERILATOR", "install Verilator"),
        ("litepcie", "VERILATOR", "install Verilator"),
        ("peer-to-peer", "CC", "install a C compiler"),
        ("nettlp-client", "CC", "install a C compiler"),
        ("dma-engine-linux", "CC", "install a C compiler"),
        ("python-device", "PYTHON", "pip install . pytest"),
    ] {
        let missing = finish(command(name, out.path()).env(key, "no-such-program"));
        assert_eq!(missing.code, 1, "{name}: {}", missing.stderr);
        assert!(missing.stderr.starts_with("gallery: no-such-program "), "{name}: {}", missing.stderr);
        assert!(
            missing.stderr.contains(step) && missing.stderr.lines().count() == 1,
            "{name}: {}",
            missing.stderr
        );
    }
}
