// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser new`: the created crate compiles outside of this repository, and has the same features as riser's own devices.

use crate::common::pages::{NEW_CRATE, Part, parts, rerun};
use crate::common::riser;
use serde_json::Value;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::root;

/// Returns an empty folder outside of the workspace. The path is always the same for a checkout, so that earlier builds
/// can be reused.
fn outside(name: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    root().hash(&mut hasher);
    let folder = std::env::temp_dir().join(format!("riser-new-{:x}-{name}", hasher.finish()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// True if the crate is built like by its author: riser's crates are compiled again, in a separate target folder and profile. Otherwise
/// it shares the crates that this workspace has built, which saves minutes.
fn alone() -> bool {
    std::env::var_os("RISER_NEW_ALONE").is_some()
}

fn target() -> PathBuf {
    let tmp = testkit::tmp();
    if alone() { tmp.join("outside") } else { tmp.parent().unwrap().to_owned() }
}

/// Makes the parent folder a workspace of this crate and the crates of riser, so that Cargo reuses their builds. Cargo
/// identifies a crate by its path below the root of the workspace and by its features.
fn share_workspace(copier: &Path) {
    let folder = copier.parent().unwrap();
    std::os::unix::fs::symlink(root().join("crates"), folder.join("crates")).unwrap();
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace.replace("\"templates/*\"", "\"copier\"");
    assert_ne!(members, workspace);
    fs::write(folder.join("Cargo.toml"), members).unwrap();
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let manifest = fs::read_to_string(copier.join("Cargo.toml")).unwrap();
    let (member, _) = manifest.split_once("# This crate is not part of another workspace").unwrap();
    let crates = |folder: &Path| folder.join("crates").display().to_string();
    fs::write(copier.join("Cargo.toml"), member.replace(&crates(&root()), &crates(folder))).unwrap();
}

/// A created crate, in which commands run as its author would run them.
struct Crate(PathBuf);

impl Crate {
    /// Runs its tests and builds its program.
    fn build(&self) {
        if alone() {
            // Use riser's dependency versions, independent of the registry.
            fs::copy(root().join("Cargo.lock"), self.0.join("Cargo.lock")).unwrap();
            self.cargo(&["test"]);
            self.cargo(&["build"]);
        } else {
            // `--workspace` gives riser's crates the features with which they were built. Only this crate has a test `lab`.
            share_workspace(&self.0);
            self.cargo(&["test", "--workspace", "--test", "lab"]);
        }
    }

    fn cargo(&self, args: &[&str]) {
        let mut cargo = Command::new(env!("CARGO"));
        // Cargo sets these variables for this test's own package. Build scripts would run again because of them.
        let is_own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_own(&name.to_string_lossy())) {
            cargo.env_remove(name);
        }
        if alone() {
            // The test checks that the crate compiles and runs, not how fast.
            cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        }
        let cargo = cargo
            .args(args)
            .args(["--offline", "--quiet"])
            .env("CARGO_TARGET_DIR", target())
            .current_dir(&self.0)
            .output()
            .unwrap();
        let (out, err) = (text(&cargo.stdout), text(&cargo.stderr));
        assert!(cargo.status.success(), "cargo {}:\n{out}\n{err}", args.join(" "));
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(target().join("debug/copier")).args(args).current_dir(&self.0).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert!(run.status.success() && run.stderr.is_empty(), "{args:?}: {}", text(&run.stderr));
        text(&run.stdout)
    }

    /// Returns the output of a command of a page; `None` for a command that is not run here.
    fn printed(&self, line: &str, commands: &mut usize) -> Option<String> {
        let Some(arguments) = line.strip_prefix("cargo run -q -- ") else {
            let known =
                ["cargo install --locked --path crates/cli", "riser new copier", "cd copier", "cargo test"];
            assert!(known.contains(&line) || line.starts_with("wireshark "), "no such command: {line}");
            return None;
        };
        *commands += 1;
        let line = format!("'{}' {arguments}", target().join("debug/copier").display());
        let output = Command::new("sh").args(["-c", &line]).current_dir(&self.0).output().unwrap();
        // A guest prints messages in addition to the output of its command.
        let is_silent = output.stderr.is_empty() || arguments.starts_with("guest ");
        assert!(output.status.success() && is_silent, "{line}: {}", text(&output.stderr));
        Some(text(&output.stdout))
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }
}

#[test]
#[ignore = "of .ci/long guest"]
fn created_crate_has_features_of_own_devices() {
    let folder = outside("crate");
    let path = folder.join("copier");
    let written = riser(&[
        "new",
        "copier",
        "--json",
        "--path",
        path.to_str().unwrap(),
        "--riser",
        root().to_str().unwrap(),
    ]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let written: Value = serde_json::from_str(&written.stdout).unwrap();
    let files: Vec<&str> = written["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(files.contains(&"labs/copier.toml") && files.len() == 16, "{files:?}");
    for file in &files {
        let text = fs::read_to_string(path.join(file)).unwrap();
        assert!(
            !text.contains("my-device") && !text.contains("my_device") && !text.contains("SPDX"),
            "{file}"
        );
    }
    let copier = Crate(path);
    copier.build();
    for (page, least) in NEW_CRATE.into_iter().zip([(50, 10), (3, 4)]) {
        let (lines, commands) = commands_of(page, &copier, &files);
        assert!(lines > least.0 && commands > least.1, "{page}: {lines} lines of code, {commands} commands");
    }
    lab_commands(&copier);
    captures(&copier);
    measurements(&copier);
    faults_and_hot_plug(&copier);
    bad_input(&copier);
    linux_driver(&copier, &files);
    fs::remove_dir_all(folder).unwrap();
}

/// Checks that the crate contains the code of a page, and that its commands print the output shown below them. Returns the numbers of lines of
/// code and of commands.
fn commands_of(page: &str, copier: &Crate, files: &[&str]) -> (usize, usize) {
    let sources: Vec<String> =
        files.iter().map(|file| fs::read_to_string(copier.0.join(file)).unwrap()).collect();
    let page = root().join(page);
    let text = fs::read_to_string(&page).unwrap();
    let (mut anew, mut lines, mut commands) = (text.clone(), 0, 0);
    for part in parts(&text) {
        match part {
            Part::Block { language: "rust", text } => {
                assert!(
                    sources.iter().any(|source| source.contains(text)),
                    "in no file of the crate:\n{text}"
                );
                lines += text.lines().count();
            }
            Part::Block { language: "console", text: block } => {
                anew = anew.replace(block, &rerun(block, |line| copier.printed(line, &mut commands)));
            }
            _ => {}
        }
    }
    testkit::generated(&page, &anew);
    (lines, commands)
}

const LAB: &str = "labs/copier.toml";

fn lab_commands(copier: &Crate) {
    assert!(copier.ok(&["check", LAB]).contains("card"));
    let report = copier.json(&["run", LAB, "--json"]);
    let device = &report["devices"][0];
    assert_eq!(
        (device["model"].as_str(), device["counters"]["bytes"].as_u64()),
        (Some("copier"), Some(262_144))
    );
    assert!(copier.ok(&["run", LAB]).contains("card (copier): "), "the report in text");
    let functions = copier.ok(&["lspci", LAB, "-vv", "--set", "slot.card.copier.vfs=2"]);
    assert_eq!(functions.matches("BAR 0 +0x14: doorbell, 4 B").count(), 3, "{functions}");
    let listed = copier.json(&["lspci", LAB, "--json"]);
    let registers = &listed["functions"][1]["registers"];
    assert_eq!(
        (registers[3]["name"].as_str(), registers[3]["offset"].as_u64()),
        (Some("doorbell"), Some(0x14))
    );
    // Two runs give the same result.
    let run = || {
        let mut report = copier.json(&["run", LAB, "--json", "--set", "slot.card.copier.vfs=2"]);
        report["cpu_seconds"] = Value::Null;
        report
    };
    assert_eq!(run(), run());
}

fn captures(copier: &Crate) {
    let capture = "out/all.pcapng";
    copier.ok(&["run", LAB, "--capture", capture]);
    let doorbell = copier.ok(&["trace", capture, "--filter", "type=MWr and dir=down"]);
    assert_eq!(doorbell.matches("doorbell").count(), 4, "{doorbell}");
    let ended = copier.ok(&["trace", capture, "--transactions", "--filter", "type=MRd and dir=down"]);
    assert_eq!((ended.matches("checksum").count(), ended.matches("status").count()), (4, 4), "{ended}");
    copier.ok(&["trace", capture, "--html", "out/all.html"]);
    let page = fs::read_to_string(copier.0.join("out/all.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.len() > 50_000);
    assert!(copier.ok(&["trace", capture, "--stats"]).contains("MRd"));
}

fn measurements(copier: &Crate) {
    let bench =
        ["bench", "--model", "copier", "--size", "256", "1024", "--transfers", "2000", "--warm-up", "500"];
    let results = copier.json(&[&bench[..], &["--json"]].concat());
    let rows = results["tests"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in rows {
        assert_eq!((row["device"].as_str(), row["test"].as_str()), (Some("copier"), Some("BW_RDWR")));
        let of = |key: &str| row[key].as_f64().unwrap();
        let share = of("bandwidth_gbps") / of("model_exact_gbps");
        assert!((0.5..1.01).contains(&share), "{row}");
    }
    copier.ok(&[&bench[..], &["-o", "out/bench"]].concat());
    copier.ok(&["compare", "out/bench", "out/bench"]);
    // riser's own models are available too.
    assert!(copier.ok(&["bench", "--suite", "LAT_RD", "--size", "64"]).contains("LAT_RD"));
}

fn faults_and_hot_plug(copier: &Crate) {
    let lab = fs::read_to_string(copier.0.join(LAB)).unwrap();
    let fault = "[[fault]]\nslot = \"card\"\ndirection = \"upstream\"\nframes = \"posted\"\nnth = 1\nevery = 5\naction = \"drop\"\n";
    fs::write(copier.0.join("labs/faults.toml"), format!("{lab}\n{fault}")).unwrap();
    let report = copier.json(&["run", "labs/faults.toml", "--json"]);
    let upstream = &report["links"][0]["directions"].as_array().unwrap()[1];
    assert!(upstream["replays"].as_u64() > Some(0), "{upstream}");
    assert_eq!(report["devices"][0]["counters"]["bytes"].as_u64(), Some(262_144));

    let outage = "[[outage]]\nslot = \"card\"\nkind = \"removal\"\nat_us = 20\nuntil_us = 200\n";
    let hot = lab.replace("device = \"copier\"", "device = \"copier\"\nhot_plug = true");
    fs::write(copier.0.join("labs/hotplug.toml"), format!("{hot}\n{outage}")).unwrap();
    let report = copier.json(&["run", "labs/hotplug.toml", "--json"]);
    let events = report["hot_plug"].to_string();
    assert!(report["outcome"] == "finished" && events.contains("card"), "{report}");
    // All four copies after the card's return are complete, and the copies before.
    assert!(report["devices"][0]["counters"]["copies"].as_u64() > Some(4), "{report}");
}

fn bad_input(copier: &Crate) {
    for (set, status, says) in [
        ("slot.card.copier.copies=0", 2, "copies of 0, expected 1 to 100000"),
        ("slot.card.copier.pieces=1", 2, "unknown field `pieces`, expected one of `copies`, `copy_bytes`"),
        ("slot.card.copier.copy_bytes=100", 1, "piece_bytes of 512, expected at most copy_bytes, 100"),
        ("slot.card.device=\"muver\"", 1, "unknown device `muver`, expected one of"),
    ] {
        let run = copier.run(&["run", LAB, "--set", set]);
        let error = text(&run.stderr);
        assert!(run.status.code() == Some(status) && error.contains(says), "{set}: {error}");
    }
    let run = copier.run(&["bench", "--model", "copier", "--size", "256", "--pattern", "random"]);
    assert!(text(&run.stderr).contains("pattern of random, expected sequential"), "{}", text(&run.stderr));
}

/// Runs the commands of the page on drivers, including those of the workflow. Torture takes a minute, and runs only if RISER_TORTURE is set.
fn linux_driver(copier: &Crate, files: &[&str]) {
    let page = fs::read_to_string(root().join("docs/drivers.md")).unwrap();
    let mut ran = Vec::new();
    for part in parts(&page) {
        match part {
            Part::Block { language: "c", text: code } => {
                let holds = |file: &&str| fs::read_to_string(copier.0.join(file)).unwrap().contains(code);
                assert!(files.iter().any(holds), "in no file of the crate:\n{code}");
            }
            Part::Block { language: "sh", text: block } => {
                for line in block.lines().filter(|line| line.starts_with("cargo run -q -- ")) {
                    if line.contains("torture") && std::env::var_os("RISER_TORTURE").is_none() {
                        ran.push((line.to_owned(), String::new()));
                        continue;
                    }
                    let printed = copier.printed(line, &mut 0).unwrap();
                    assert!(!printed.contains("FAILED"), "{line}:\n{printed}");
                    ran.push((line.to_owned(), printed));
                }
            }
            _ => {}
        }
    }
    let of = |command: &str| &ran.iter().find(|(line, _)| line.contains(command)).unwrap().1;
    assert_eq!(of("test.sh").matches("ok: ").count(), 8, "{}", of("test.sh"));
    assert!(of("trace").contains("BAR 0 doorbell = 0x1") && of("trace").contains("Bus Master Enable"));
    let workflow = fs::read_to_string(copier.0.join(".github/workflows/linux.yml")).unwrap();
    let commands: Vec<_> =
        workflow.lines().filter_map(|l| l.trim().strip_prefix("- run: cargo run")).collect();
    for command in &commands {
        assert!(ran.iter().any(|(line, _)| line.ends_with(command)), "not on the page: {command}");
    }
    assert_eq!(commands.len(), 3);
}

/// Names that no crate or model can have, and existing folders: `riser new` fails, and writes nothing.
#[test]
fn rejects_invalid_names_and_existing_folders() {
    let folder = outside("refused");
    let there = folder.join("there");
    fs::create_dir(&there).unwrap();
    fs::write(there.join("mine"), "mine").unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let riser_root = root().display().to_string();
    for (args, says) in [
        (
            vec!["My", "--path", &at("a")],
            "name `My`: expected at most 64 small letters, digits and single hyphens",
        ),
        (vec!["1st", "--path", &at("a")], "name `1st`: expected at most 64"),
        (vec!["a--b", "--path", &at("a")], "name `a--b`: expected at most 64"),
        (vec!["link", "--path", &at("a")], "not a key of a slot"),
        (vec!["match", "--path", &at("a")], "reserved by Rust, C, cargo or riser"),
        (
            vec!["memory", "--path", &at("a")],
            "riser has a model with this name: there are clock, counter, disk",
        ),
        (vec!["mine", "--path", &at("there")], "there exists, expected a new folder"),
        (vec!["mine", "--path", &at("none/mine")], "none/mine: "),
        (
            vec!["mine", "--path", &at("a"), "--riser", &at("there")],
            "not a checkout of riser: it has no crates/plug",
        ),
        (vec!["mine", "--path", &at("a"), "--riser", &at("none")], "No such file"),
    ] {
        let run = riser(&[&["new"], &args[..]].concat());
        assert!(run.code != 0 && run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["there"]);
    assert_eq!(fs::read_to_string(there.join("mine")).unwrap(), "mine");

    // Without a checkout, every crate of riser comes from the repository.
    assert_eq!(riser(&["new", "mine", "--path", &at("mine")]).code, 0);
    let manifest: toml::Table = fs::read_to_string(folder.join("mine/Cargo.toml")).unwrap().parse().unwrap();
    let ours: toml::Table =
        fs::read_to_string(Path::new(&riser_root).join("Cargo.toml")).unwrap().parse().unwrap();
    let repository = ours["workspace"]["package"]["repository"].as_str();
    for table in ["dependencies", "dev-dependencies"] {
        for (name, how) in manifest[table].as_table().unwrap() {
            let ours = !["serde", "schemars"].contains(&name.as_str());
            assert_eq!(how.get("git").and_then(toml::Value::as_str), repository.filter(|_| ours), "{name}");
            // The crate builds the version of riser that created it.
            let commit = Some(env!("RISER_COMMIT")).filter(|commit| ours && !commit.is_empty());
            assert_eq!(how.get("rev").and_then(toml::Value::as_str), commit, "{name}");
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
