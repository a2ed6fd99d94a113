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
        if path.is_dir() { copy(&path, &target) } else { drop(fs::copy(path, target).unwrap()) }
    }
}

/// A copy of the pictures with all that they are made from.
fn copied() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    let _ = fs::remove_dir_all(&folder);
    for part in ["docs/pictures", "scripts", "labs/nic"] {
        copy(&root().join(part), &folder.join(part));
    }
    fs::copy(root().join("docs/architecture.md"), folder.join("docs/architecture.md")).unwrap();
    folder
}

#[test]
fn pictures_are_those_that_make_pictures_makes() {
    if let Some(checked) = check(&root()) {
        checked.unwrap_or_else(|why| panic!("{why}"));
    }
}

/// A foreign picture, a changed source of each kind, a changed screenshot and a missing picture.
#[test]
fn check_of_pictures_finds_what_differs() {
    let folder = copied();
    let Some(unchanged) = check(&folder) else { return };
    assert_eq!(unchanged, Ok(()));
    for (file, change, named) in [
        ("docs/pictures/by-hand.svg", "<svg/>", "by-hand.svg"),
        ("scripts/pictures/guest.toml", "[[box]]\nat = [0, 0]\nsize = [9, 9]\ntext = []\nkind = \"riser\"\n", "guest.svg"),
        ("labs/nic/simple.toml", "ethernet_gbps = 40\n", "trace-page.sha256"),
        ("docs/pictures/trace-page.png", "x", "trace-page.sha256"),
    ] {
        let path = folder.join(file);
        let before = fs::read(&path).ok();
        fs::write(&path, [before.clone().unwrap_or_default(), change.into()].concat()).unwrap();
        let why = check(&folder).unwrap().expect_err(file);
        assert!(why.contains(named) && why.contains("make pictures"), "{file}: {why}");
        before.map_or_else(|| fs::remove_file(&path), |bytes| fs::write(&path, bytes)).unwrap();
    }
    fs::remove_file(folder.join("docs/pictures/layers.svg")).unwrap();
    let why = check(&folder).unwrap().expect_err("a missing picture");
    assert!(why.contains("layers.svg"), "{why}");
}
