// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures of the documentation: `scripts/pictures.sh` makes each of them, from sources that have not changed since. Never opens a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::root;

/// Runs the check of the pictures below `folder`. Returns its messages if it fails, and `None` for a machine without its programs.
fn check(folder: &Path) -> Option<Result<(), String>> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: python3 is not installed");
        return None;
    }
    let script = folder.join("scripts/pictures.sh");
    let output =
        Command::new("bash").arg(script).args(["--check", env!("CARGO_BIN_EXE_riser")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(path, target).unwrap();
        }
    }
}

fn append(file: &Path, text: &str) {
    let before = fs::read(file).unwrap();
    fs::write(file, [&before, text.as_bytes()].concat()).unwrap();
}

/// A copy of the pictures, for the test `name`, with all that they are made from.
fn copied(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures").join(name);
    let _ = fs::remove_dir_all(&folder);
    for part in
        ["docs/pictures", "scripts", "labs", "gallery", "examples", "crates/native", "crates/libtlp/examples"]
    {
        copy(&root().join(part), &folder.join(part));
    }
    fs::create_dir_all(folder.join("crates/rtl/examples")).unwrap();
    for part in ["crates/rtl/examples/stream.toml", "crates/rtl/examples/stream.v"] {
        fs::copy(root().join(part), folder.join(part)).unwrap();
    }
    fs::copy(root().join("docs/architecture.md"), folder.join("docs/architecture.md")).unwrap();
    folder
}

#[test]
fn pictures_match_the_output_of_make_pictures() {
    if let Some(checked) = check(&root()) {
        checked.unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Foreign pictures, a missing one, a changed one, and changed sources of a drawing, of a screenshot and of examples.
#[test]
fn check_of_pictures_finds_what_differs() {
    let folder = copied("differs");
    fs::write(folder.join("docs/pictures/by-hand.svg"), "<svg/>").unwrap();
    fs::remove_file(folder.join("docs/pictures/layers.svg")).unwrap();
    append(&folder.join("scripts/pictures/rtl.toml"), "[[arrow]]\npath = [[0, 0], [9, 9]]\ntext = []\n");
    append(&folder.join("labs/nic/simple.toml"), "ethernet_gbps = 40\n");
    fs::write(folder.join("gallery/nvme/by-hand.svg"), "<svg/>").unwrap();
    append(&folder.join("gallery/sweep/picture.png"), "x");
    append(&folder.join("gallery/python-device/digest.py"), "pass\n");
    append(&folder.join("gallery/simple-nic/picture.svg"), "\n");
    let Some(checked) = check(&folder) else { return };
    let why = checked.expect_err("it differs");
    let differing = [
        "docs/pictures: by-hand.svg",
        "docs/pictures: layers.svg",
        "docs/pictures/rtl.svg",
        "docs/pictures/trace-page.sha256",
        "gallery/nvme: by-hand.svg",
        "gallery/python-device/picture.sha256",
        "gallery/simple-nic/picture.svg",
        "gallery/sweep/picture.sha256",
    ];
    for named in differing.into_iter().chain(["make pictures"]) {
        assert!(why.contains(named), "{named}: {why}");
    }
    assert_eq!(why.lines().count(), differing.len() + 1, "{why}");
}
