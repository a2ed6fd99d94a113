// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl build`, and designs in slots: what is built runs, and what a design does wrongly is told. Skipped, with a message, where there is no
//! Verilator.

mod common;

use common::{Outcome, riser};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const SCRATCH: &str = include_str!("../../rtl/examples/scratch.v");
const DESIGN: &str = include_str!("../../rtl/examples/scratch.toml");
const LAB: &str = "version = 1\nlimit_us = 100\n[[slot]]\nname = \"fpga\"\ndevice = \"rtl\"\nlink = { gen = 2, lanes = 1 }\nrtl.design = \"design.toml\"\n";

fn has_verilator() -> bool {
    let found = Command::new("verilator").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: no verilator");
    }
    found
}

/// A folder with a design and its file.
fn folder(source: &str, design: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("scratch.v"), source).unwrap();
    fs::write(folder.path().join("design.toml"), design).unwrap();
    folder
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn build(folder: &TempDir) -> Outcome {
    riser(&["rtl", "build", &path(folder, "design.toml")])
}

/// A lab with steps of the host: `do`, offset, value.
fn run(folder: &TempDir, steps: &[(&str, u32, u32)], more: &[&str]) -> Outcome {
    let step = |(act, offset, value): &(&str, u32, u32)| {
        format!("[[slot.rtl.step]]\ndo = \"{act}\"\noffset = {offset}\nvalue = {value}\n")
    };
    let steps: String = steps.iter().map(step).collect();
    fs::write(folder.path().join("lab.toml"), format!("{LAB}{steps}")).unwrap();
    let lab = path(folder, "lab.toml");
    riser(&[&["run", &lab, "--allow-native", "--json"], more].concat())
}

#[test]
fn a_design_answers_and_is_told_what_it_does_wrongly() {
    if !has_verilator() {
        return;
    }
    let folder = folder(SCRATCH, DESIGN);
    let not_built = run(&folder, &[], &[]);
    assert!(not_built.stderr.contains("`riser rtl build` makes it"), "{}", not_built.stderr);
    let built = build(&folder);
    assert_eq!((built.code, built.stderr.as_str()), (0, ""));
    assert!(Path::new(built.stdout.trim()).is_file(), "{}", built.stdout);

    let steps = [("expect", 4, 0x1234_5671), ("write", 8, 0xcafe_0102), ("expect", 8, 0xcafe_0102)];
    let runs: Vec<Outcome> = ["a.pcapng", "b.pcapng"]
        .map(|name| run(&folder, &steps, &["--capture", &path(&folder, name)]))
        .into();
    assert!(runs.iter().all(|run| run.code == 0), "{}", runs[0].stderr);
    let [first, second] = ["a.pcapng", "b.pcapng"].map(|name| fs::read(folder.path().join(name)).unwrap());
    assert!(first == second && !first.is_empty(), "the same bytes");
    let report: serde_json::Value = serde_json::from_str(&runs[0].stdout).unwrap();
    let counters = &report["devices"][0]["counters"];
    assert_eq!((&counters["packets_in"], &counters["packets_out"]), (&3.into(), &2.into()));

    // A write of two double-words that has one is sent by nobody, and said.
    let wrong = run(&folder, &[("write", 28, 1), ("expect", 0, 0x1234_5670)], &[]);
    let report: serde_json::Value = serde_json::from_str(&wrong.stdout).unwrap();
    let finding = report["devices"][0]["counters"]["finding_1"].as_str().unwrap_or_default();
    assert_eq!(wrong.code, 0, "{}", wrong.stderr);
    assert!(
        finding.contains("cycle ") && finding.contains("malformed") && finding.contains("40000002"),
        "{finding}"
    );

    let dead =
        run(&folder, &[("write", 24, 1), ("expect", 0, 0)], &["--capture", &path(&folder, "c.pcapng")]);
    assert_eq!(dead.code, 1);
    assert!(
        dead.stderr.contains("scratch.v:") && dead.stderr.contains("the design ended in cycle"),
        "{}",
        dead.stderr
    );
    let read = riser(&["trace", &path(&folder, "c.pcapng"), "--stats"]);
    assert_eq!(read.code, 0, "the capture is whole: {}", read.stderr);

    // Native code runs when that is said, and the library must be of this design.
    let refused = riser(&["run", &path(&folder, "lab.toml")]);
    assert!(refused.code == 1 && refused.stderr.contains("--allow-native"), "{}", refused.stderr);
    assert_eq!(riser(&["check", &path(&folder, "lab.toml")]).code, 0);
    fs::write(folder.path().join("design.toml"), DESIGN.replace("62_500_000", "125_000_000")).unwrap();
    let other = run(&folder, &[], &[]);
    assert!(other.code == 1 && other.stderr.contains("of another version of the design"), "{}", other.stderr);
}

/// Each ends the design alone, with what is known of it.
#[test]
fn a_design_that_cannot_go_on_ends_the_run() {
    if !has_verilator() {
        return;
    }
    let crash = SCRATCH
        .replace("localparam IDLE", "import \"DPI-C\" function void crash();\nlocalparam IDLE")
        .replace("$fatal(1, \"register 6\")", "crash()");
    let around = SCRATCH
        .replace("(* keep", "wire around;\nassign around = (registers[5] == 1) & ~around;\n(* keep")
        .replace("state == SECOND),", "state == SECOND || around),");
    let rows = [
        (crash, &[("write", 24, 1), ("expect", 0, 0)], "it has crashed: Segmentation fault"),
        (around, &[("write", 20, 1), ("expect", 0, 0)], "riser_design.around ("),
    ];
    for (source, steps, why) in rows {
        let design = DESIGN.replace("\"scratch.v\"", "\"scratch.v\", \"crash.cpp\"");
        let folder = folder(&source, &design);
        let crash = "extern \"C\" void crash() { *(volatile int*)8 = 1; }\n";
        fs::write(folder.path().join("crash.cpp"), crash).unwrap();
        let built = build(&folder);
        assert_eq!(built.code, 0, "{}", built.stderr);
        let capture = path(&folder, "c.pcapng");
        let ended = run(&folder, steps, &["--capture", &capture]);
        assert!(ended.code == 1 && ended.stderr.contains(why), "`{why}` in {}", ended.stderr);
        let read = riser(&["trace", &capture, "--stats"]);
        assert_eq!(read.code, 0, "the capture is whole: {}", read.stderr);
    }
}

#[test]
fn what_cannot_be_built_names_its_place() {
    if !has_verilator() {
        return;
    }
    let twice = format!("{SCRATCH}module again;\npcie_7x b (.user_clk_out());\nendmodule\n");
    let rows = [
        (SCRATCH.replace("pcie_7x", "pcie_8x"), DESIGN.to_owned(), "no instance of `pcie_7x` in 1 sources"),
        (
            SCRATCH.replace(".user_lnk_up", ".user_link"),
            DESIGN.to_owned(),
            "scratch.v:29: `pcie_7x` has no port `user_link`",
        ),
        (
            SCRATCH.replace("wire [7:0] rx_keep", "wire [3:0] rx_keep"),
            DESIGN.to_owned(),
            "scratch.v:30: Output port connection 'm_axis_rx_tkeep' expects 8 bits",
        ),
        (twice, DESIGN.to_owned(), "a second `pcie_7x`: the first is at"),
        (SCRATCH.replace("wire clk,", "wire clk;;, "), DESIGN.to_owned(), "verilator failed:"),
        (SCRATCH.to_owned(), DESIGN.replace("\"reset_n\"", "\"no_such\""), "no_such"),
        (SCRATCH.to_owned(), DESIGN.replace("scratch.v", "none.v"), "none.v: No such file"),
        (SCRATCH.to_owned(), DESIGN.replace("= 64", "= 256"), "data_width_bits"),
        (SCRATCH.to_owned(), DESIGN.replace("7-series", "8-series"), "7-series"),
        (SCRATCH.to_owned(), DESIGN.replace("\"scratch\"", "\"a; b\""), "legal is a name as Verilog has it"),
    ];
    for (source, design, why) in rows {
        let folder = folder(&source, &design);
        let outcome = build(&folder);
        assert_eq!(outcome.code, 1, "{why}");
        assert!(outcome.stderr.contains(why), "`{why}` in {}", outcome.stderr);
    }
}
