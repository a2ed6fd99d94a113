// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl build` and the scripts in unusual environments: odd paths, read-only caches, variables of other tools, and a compiler
//! with messages in another language.

use crate::common::{Outcome, command, finish, has_verilator};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SCRATCH: &str = include_str!("../../../rtl/examples/scratch.v");
const DESIGN: &str = include_str!("../../../rtl/examples/scratch.toml");
const LAB: &str = include_str!("../../../rtl/examples/scratch-lab.toml");
/// A folder name with characters that are special to a shell or make. Verilator itself replaces `$(NAME)` and `${NAME}` in paths.
const ODD: &str = "a b'\"($b#:&;`*?!~%=,@[é\\";

/// Creates a folder with a design, and a lab that runs it.
fn design(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in [("scratch.v", SCRATCH), ("scratch.toml", DESIGN), ("lab.toml", LAB)] {
        fs::write(folder.join(name), text).unwrap();
    }
}

fn build(folder: &Path, variables: &[(&str, &str)]) -> Outcome {
    let mut command = command(&["rtl", "build", "scratch.toml"]);
    finish(command.current_dir(folder).envs(variables.iter().copied()))
}

fn builds(folder: &Path, variables: &[(&str, &str)]) {
    let built = build(folder, variables);
    assert_eq!((built.code, built.stderr.as_str()), (0, ""), "{}: {variables:?}", folder.display());
}

fn scratch() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    design(folder.path());
    folder
}

/// Creates a shell script in `folder`.
fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
#[ignore = "of .ci/long environments"]
fn builds_and_runs_below_odd_folder() {
    if !has_verilator() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join(ODD);
    design(&folder);
    // Empty variables count as unset.
    builds(&folder, &[("CXX", ""), ("VERILATOR", ""), ("MAKEFLAGS", "-n"), ("PYTHONHOME", "/none")]);
    let ran = finish(command(&["run", "lab.toml", "--allow-native"]).current_dir(&folder));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let design = folder.join("scratch.toml");
    let built = finish(&mut command(&["rtl", "build", text(&design)]));
    assert_eq!((built.code, built.stderr.as_str()), (0, ""));
}

#[test]
#[ignore = "slow: compiles Verilator's library twice"]
fn builds_without_writable_cache() {
    if !has_verilator() {
        return;
    }
    let folder = scratch();
    fs::write(folder.path().join("file"), "").unwrap();
    let here = folder.path().join("riser-rtl/scratch");
    let libraries = || {
        let entries = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.join("verilated.o").is_file()).count()
    };
    // A home that is not a folder fails like a read-only one, for root too.
    let file = folder.path().join("file");
    builds(folder.path(), &[("HOME", text(&file)), ("XDG_CACHE_HOME", "relative")]);
    assert_eq!(libraries(), 1);
    assert!(!folder.path().join("relative").exists());
    // The library goes into the cache, and the folder of the design does not change.
    let cache = folder.path().join("cache");
    builds(folder.path(), &[("XDG_CACHE_HOME", text(&cache)), ("CXX", "env MARK=1 c++")]);
    assert_eq!(libraries(), 1);
    assert_eq!(fs::read_dir(cache.join("riser/verilator")).unwrap().count(), 1);
}

#[test]
fn variables_may_name_programs_with_arguments() {
    if !has_verilator() {
        return;
    }
    let folder = scratch();
    let odd = folder.path().join("my tools");
    fs::create_dir(&odd).unwrap();
    let compiler = program(&odd, "c++", "echo \"the compiler has $1\"; exit 1");
    let verilator = odd.join("verilator");
    program(&odd, "verilator", "exec verilator \"$@\"");
    symlink(&compiler, folder.path().join("compiler")).unwrap();
    let failed = build(folder.path(), &[("CXX", "./compiler -m64"), ("VERILATOR", text(&verilator))]);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("the C++ compiler failed:"), "{}", failed.stderr);
    assert!(failed.stderr.contains("the compiler has -m64"), "{}", failed.stderr);
    let missing = build(folder.path(), &[("VERILATOR", "no-such-verilator -x")]);
    assert!(missing.stderr.contains("no-such-verilator -x cannot be run: "), "{}", missing.stderr);
}

#[test]
fn names_reason_of_failure_in_any_locale() {
    if !has_verilator() {
        return;
    }
    let folder = scratch();
    let german = [("LC_ALL", "de_DE.UTF-8"), ("LANGUAGE", "de")];
    let speaks = "[ \"$LC_ALL\" = C ] && echo 'a.cpp:1: error: x' || echo 'a.cpp:1: Fehler: x'; exit 1";
    for (script, reason) in
        [(speaks, "failed:\na.cpp:1: error: x"), ("echo 'unbekannt: Fehler'; exit 1", "unbekannt: Fehler")]
    {
        let compiler = program(folder.path(), "compiler", script);
        let variables = [&german[..], &[("CXX", text(&compiler))]].concat();
        let failed = build(folder.path(), &variables);
        assert!(failed.code == 1 && failed.stderr.contains(reason), "{}", failed.stderr);
    }
    let silent = program(folder.path(), "silent", "exit 3");
    let failed = build(folder.path(), &[("VERILATOR", text(&silent))]);
    assert!(failed.stderr.contains("verilator failed:\nexit status: 3"), "{}", failed.stderr);
    let failed = build(folder.path(), &[("VERILATOR_ROOT", "/none")]);
    let lines: Vec<&str> = failed.stderr.lines().collect();
    assert!(
        failed.code == 1 && lines.len() == 3 && lines[1].contains("/none/verilator_bin: not found"),
        "{lines:?}"
    );
}

/// Creates a crate without dependencies that builds a program named `riser`.
fn tiny_crate(folder: &Path) {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/main.rs"), "fn main() {}\n").unwrap();
    let manifest = "[package]\nname = \"riser\"\nversion = \"0.0.0\"\n[profile.quick]\ninherits = \"dev\"\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("Cargo.lock"), "version = 4\n[[package]]\nname = \"riser\"\nversion = \"0.0.0\"\n")
        .unwrap();
}

/// Returns the output of a script that runs in `folder`. Cargo has only the settings of the folder, and `target`.
fn script(folder: &Path, name: &str, args: &[&str], target: Option<&str>) -> PathBuf {
    let mut command = Command::new(testkit::root().join("scripts").join(name));
    command.args(args).current_dir(folder).env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET");
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    target.iter().for_each(|target| _ = command.env("CARGO_BUILD_TARGET", target));
    let outcome = finish(&mut command);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout.trim_end().into()
}

#[test]
fn scripts_find_what_cargo_built() {
    let rustc = finish(Command::new("rustc").arg("-vV")).stdout;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().canonicalize().unwrap().join("my crates");
    tiny_crate(&folder);
    fs::create_dir(folder.join(".cargo")).unwrap();
    let args = ["riser", "--profile", "quick", "--quiet"];
    for (directory, target) in
        [("target", None), ("target", Some(host)), ("else where", Some(host)), ("else where", None)]
    {
        let config = format!("[build]\ntarget-dir = \"{directory}\"\n");
        fs::write(folder.join(".cargo/config.toml"), config).unwrap();
        let built = script(&folder, "built.sh", &args, target);
        let expected = folder.join(directory).join(target.unwrap_or("")).join("quick/riser");
        assert!(built == expected && built.is_file(), "{}", built.display());
        let newest = script(&folder, "riser.sh", &[], target);
        assert_eq!(newest, expected);
    }
}

#[test]
#[ignore = "of .ci/long environments"]
fn python_runs_without_user_packages() {
    let scratch = tempfile::tempdir().unwrap();
    let wanted = scratch.path().join("requirements.txt");
    fs::write(&wanted, "").unwrap();
    let mut command = Command::new(testkit::root().join("scripts/python.sh"));
    command.args(["--with", text(&wanted), "-c", "import sys; print(sys.prefix, sys.path)"]);
    command.envs([
        ("PYTHONHOME", "/none"),
        ("PYTHONPATH", "/poison"),
        ("PIP_USER", "1"),
        ("PIP_TARGET", "/none"),
    ]);
    let ran = finish(&mut command);
    if ran.code == 77 {
        eprintln!("skipped: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("target/python/") && !ran.stdout.contains("/poison"), "{}", ran.stdout);
    let venv = ran.stdout.split(' ').next().unwrap();
    fs::remove_dir_all(venv).unwrap();
}

#[test]
fn reads_captures_with_any_name() {
    let scratch = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.pcapng");
    let lab = testkit::root().join("labs/ping.toml");
    let ran = finish(command(&["run", text(&lab), "--capture"]).arg(name).current_dir(scratch.path()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for more in [&["--stats"][..], &["--json"], &["--transactions"], &["--html", "page.html"]] {
        let traced = finish(command(&["trace"]).arg(name).args(more).current_dir(scratch.path()));
        assert_eq!((traced.code, traced.stderr.as_str()), (0, ""), "{more:?}");
    }
    let both = finish(command(&["trace", "--json"]).args([name, name]).current_dir(scratch.path()));
    assert!(both.code == 0 && both.stdout.contains("\"file\":\"caf\u{fffd}.pcapng\""), "{}", both.stderr);
}

#[test]
fn man_rejects_hyphen_as_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = finish(command(&["man", "-o", "-"]).current_dir(scratch.path()));
    assert!(refused.code == 2 && refused.stderr.contains("-o -: expected a folder"), "{}", refused.stderr);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}
