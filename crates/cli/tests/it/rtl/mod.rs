// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rtl build`, and designs in slots: built designs run, and their errors are reported. Skipped, with a message, without
//! Verilator.

mod credits;
mod stream;

use crate::common::{Outcome, command, finish, has_verilator, riser};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const SCRATCH: &str = include_str!("../../../../rtl/examples/scratch.v");
const DESIGN: &str = include_str!("../../../../rtl/examples/scratch.toml");
const LAB: &str = "version = 1\nlimit_us = 100\n[[slot]]\nname = \"fpga\"\ndevice = \"rtl\"\nlink = { gen = 2, lanes = 1 }\nrtl.design = \"design.toml\"\n";

/// A design with descriptor streams, and the start of its design file.
const COPY: &str = include_str!("../../../../rtl/examples/copy.v");
const COPY_FILE: &str = "version = 1\ntop = \"copy\"\nsources = [\"scratch.v\"]\n";
const COPY_FUNCTION: &str = "[function]\nmsi_vectors = 0\nintx = false\nmsix = { vectors = 4, bar = 0, table = 0x1000, pending = 0x1800 }\nbars = [{ bar = 0, kind = \"memory64\", size_bytes = 0x10000 }]\n";
/// Steps that create a source and a destination.
const BUFFERS: &str = "{ do = \"buffer\", name = \"a\", bytes = 4096, fill = \"count\" }, { do = \"buffer\", name = \"b\", bytes = 4096 },\n";

/// Creates a folder with a design and its file.
fn folder(source: &str, design: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("scratch.v"), source).unwrap();
    fs::write(folder.path().join("design.toml"), design).unwrap();
    folder
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// Creates the descriptor design with a block of eight lanes and 256 bits.
fn copy_behind_ultrascale() -> TempDir {
    let design = format!(
        "{COPY_FILE}reset.active_low = [\"reset_n\"]\n[block]\nkind = \"ultrascale\"\ndata_width_bits = 256\nlanes = 8\nuser_clock_hz = 250_000_000\n{COPY_FUNCTION}"
    );
    folder(COPY, &design)
}

fn build(folder: &TempDir) -> Outcome {
    riser(&["rtl", "build", &path(folder, "design.toml")])
}

/// Runs a lab with these steps of the host: `do`, offset, value.
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
fn design_answers_and_its_errors_are_reported() {
    if !has_verilator() {
        return;
    }
    let folder = folder(SCRATCH, DESIGN);
    let not_built = run(&folder, &[], &[]);
    let needed = format!("design.so: not built; run `riser rtl build {}`", path(&folder, "design.toml"));
    assert!(not_built.stderr.contains(&needed), "{}", not_built.stderr);
    let checked = riser(&["check", &path(&folder, "lab.toml")]);
    assert!(checked.stderr.contains(&needed), "{}", checked.stderr);
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

    // A write with a Length of two double-words and data for one: the block drops it, and reports it.
    let wrong = run(&folder, &[("write", 28, 1), ("expect", 0, 0x1234_5670)], &[]);
    let report: serde_json::Value = serde_json::from_str(&wrong.stdout).unwrap();
    let finding = report["devices"][0]["counters"]["finding_1"].as_str().unwrap_or_default();
    assert_eq!(wrong.code, 0, "{}", wrong.stderr);
    assert!(
        finding.contains("cycle ") && finding.contains("16 B with a header for 20 B; the block drops it"),
        "{finding}"
    );

    // If the lab denies findings, the run completes, and fails.
    let denied = ["--set", "slot.fpga.rtl.deny_findings=true"];
    let wrong = run(&folder, &[("write", 28, 1), ("expect", 0, 0x1234_5670)], &denied);
    let report: serde_json::Value = serde_json::from_str(&wrong.stdout).unwrap();
    assert_eq!((wrong.code, &report["outcome"]), (1, &"failed".into()), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("1 error of the design (deny_findings): cycle "));
    assert_eq!(report["devices"][0]["counters"]["packets_out"], 2);
    assert_eq!(run(&folder, &steps, &denied).code, 0);
    // A link that the block does not support.
    for (set, is) in [("gen=3", "8 GT/s (link.gen = 3)"), ("lanes=16", "16 lanes")] {
        let other = run(&folder, &steps, &["--set", &format!("slot.fpga.link.{set}")]);
        let legal = "expected for \"7-series\" with block.lanes = 1: link.gen 1 to 2 and link.lanes 1 to 1";
        assert!(
            other.code == 1 && other.stderr.contains(is) && other.stderr.contains(legal),
            "{}",
            other.stderr
        );
    }

    let dead =
        run(&folder, &[("write", 24, 1), ("expect", 0, 0)], &["--capture", &path(&folder, "c.pcapng")]);
    assert_eq!(dead.code, 1);
    // Output of the design is not part of the JSON.
    assert!(serde_json::from_str::<serde_json::Value>(&dead.stdout).is_ok(), "{}", dead.stdout);
    assert!(
        dead.stderr.contains("scratch.v:") && dead.stderr.contains("the design ended in cycle"),
        "{}",
        dead.stderr
    );
    let read = riser(&["trace", &path(&folder, "c.pcapng"), "--stats"]);
    assert_eq!(read.code, 0, "the capture is whole: {}", read.stderr);

    // Native code runs only with permission, and the library must belong to this design.
    let refused = riser(&["run", &path(&folder, "lab.toml")]);
    assert!(refused.code == 1 && refused.stderr.contains("--allow-native"), "{}", refused.stderr);
    let checked = riser(&["check", &path(&folder, "lab.toml")]);
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""));
    for (name, text) in [
        ("scratch.v", SCRATCH.replace("1234567", "1234568")),
        ("design.toml", DESIGN.replace("62_500_000", "125_000_000")),
    ] {
        let before = fs::read(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        let other = run(&folder, &[], &[]);
        let is_told = other.stderr.contains("from another version of the design");
        assert!(other.code == 1 && is_told, "{name}: {}", other.stderr);
        let checked = riser(&["check", &path(&folder, "lab.toml")]);
        assert!(checked.stderr.contains("from another version of the design"), "{name}: {}", checked.stderr);
        fs::write(folder.path().join(name), before).unwrap();
    }
}

/// The block sends TLPs with format errors unchanged. The port above the slot drops them: a root port, or a switch, which would otherwise
/// start to forward them before their end.
#[test]
#[ignore = "of .ci/long rtl"]
fn receiving_port_drops_malformed_tlp() {
    if !has_verilator() {
        return;
    }
    // A write of one double-word with a last byte enable, and a read of two that crosses 4 KiB.
    let read = (
        "tx_data <= 64'h0000000000100000;\n            tx_last",
        "tx_data <= 64'h00000ffc;\n            {tx_keep, tx_last} <= {8'h0f, 1'b1};\n            if (0) tx_last",
    );
    for (header, end, rule) in
        [("40000001", ("", ""), "rule byte-enables"), ("00000002", read, "rule crosses-4k")]
    {
        let source = SCRATCH.replace("40000002", header).replace(end.0, end.1);
        let folder = folder(&source, DESIGN);
        assert_eq!(build(&folder).code, 0);
        for above in ["", "[[switch]]\nname = \"between\"\nforwarding = \"cut-through\"\n"] {
            let parent = if above.is_empty() { "" } else { "parent = \"between\"\n" };
            let lab = LAB.replace("[[slot]]\n", &format!("{above}[[slot]]\n{parent}"));
            let steps = "[[slot.rtl.step]]\ndo = \"write\"\noffset = 28\nvalue = 1\n[[slot.rtl.step]]\ndo = \"expect\"\noffset = 0\nvalue = 0x12345670\n";
            fs::write(folder.path().join("lab.toml"), format!("{lab}{steps}")).unwrap();
            let capture = path(&folder, "c.pcapng");
            let run = riser(&[
                "run",
                &path(&folder, "lab.toml"),
                "--allow-native",
                "--json",
                "--force",
                "--capture",
                &capture,
            ]);
            assert_eq!(run.code, 0, "{}", run.stderr);
            let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
            let counters = &report["devices"][0]["counters"];
            let finding = counters["finding_1"].as_str().unwrap_or_default();
            let is_told =
                finding.contains("was sent unchanged") && finding.contains(rule) && finding.contains(header);
            assert!(is_told && counters["wrong_outputs"] == 1, "{counters}");
            let links = report["links"].as_array().unwrap();
            let directions = links.iter().flat_map(|link| link["directions"].as_array().unwrap());
            let dropped = directions.filter(|direction| direction["malformed_tlps"] == 1).count();
            assert_eq!(dropped, 1, "{above}");
            let traced = riser(&["trace", &capture]);
            assert_eq!(traced.stdout.matches("error in TLP: malformed TLP").count(), 1, "{above}");
        }
    }
}

/// Each design ends only itself, with a message.
#[test]
#[ignore = "of .ci/long rtl"]
fn design_that_cannot_continue_ends_run() {
    if !has_verilator() {
        return;
    }
    let crash = SCRATCH
        .replace("localparam IDLE", "import \"DPI-C\" function void crash();\nlocalparam IDLE")
        .replace("$fatal(1, \"register 6\")", "crash()");
    let around = SCRATCH
        .replace("(* keep", "wire around;\nassign around = (registers[5] == 1) & ~around;\n(* keep")
        .replace("state == SECOND),", "state == SECOND || around),");
    let twice = format!(
        "{SCRATCH}module two (input wire sys_clk_p, input wire sys_clk_n, input wire reset_n);\n\
         scratch a (sys_clk_p, sys_clk_n, reset_n);\nscratch b (sys_clk_p, sys_clk_n, reset_n);\nendmodule\n"
    );
    let rows = [
        (twice, &[("write", 8, 1), ("expect", 0, 0)], "2 blocks are in the built design; expected one"),
        (crash, &[("write", 24, 1), ("expect", 0, 0)], "it has crashed: Segmentation fault"),
        (around, &[("write", 20, 1), ("expect", 0, 0)], "riser_design.around ("),
    ];
    for (source, steps, why) in rows {
        let top = if source.contains("module two") { "\"two\"" } else { "\"scratch\"" };
        let design = DESIGN.replace("\"scratch.v\"", "\"scratch.v\", \"crash.cpp\"");
        let design = design.replace("top = \"scratch\"", &format!("top = {top}"));
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

/// Building a design reports clocks without an edge if anything waits for them, with their locations.
#[test]
fn build_reports_clock_without_edges() {
    if !has_verilator() {
        return;
    }
    let clocks = "wire slow, fast, fb, nobody;\nreg half, a, b, c, d;\n\
        MMCME2_ADV #(.CLKIN1_PERIOD(10.0), .CLKFBOUT_MULT_F(10.0), .CLKOUT0_DIVIDE_F(10.0), .CLKOUT1_DIVIDE(30)) mmcm (\n\
        .CLKIN1(sys_clk_p), .CLKFBIN(fb), .CLKFBOUT(fb), .CLKOUT0(fast), .CLKOUT1(slow));\n\
        always @(posedge clk or posedge nobody) if (nobody) half <= 0; else half <= ~half;\n\
        always @(posedge slow) a <= up;\nalways @(posedge nobody) b <= up;\n\
        always @(posedge half) c <= up;\nalways @(posedge fast) d <= up;\n(* keep";
    let source = SCRATCH.replacen("(* keep", clocks, 1);
    let at = 1 + source.lines().position(|line| line.starts_with("wire slow")).unwrap();
    let folder = folder(&source, DESIGN);
    let built = build(&folder);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let lines: Vec<&str> = built.stderr.lines().collect();
    let [first, second] = lines[..] else { panic!("{lines:?}") };
    let place = |line: usize| format!("{}:{line}", path(&folder, "scratch.v"));
    for (line, parts) in [
        (
            first,
            [format!("{}: the clock `nobody` never has an edge: it has no driver", place(at)), place(at + 6)],
        ),
        (
            second,
            [
                format!(
                    "{}: the clock `slow` never has an edge: `mmcm.CLKOUT1` needs 33333333 Hz",
                    place(at)
                ),
                place(at + 5),
            ],
        ),
    ] {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
    }
    let with_clock = format!("{DESIGN}\n[[clock]]\nfrequency_hz = 33_333_333\n");
    fs::write(folder.path().join("design.toml"), with_clock).unwrap();
    let built = build(&folder);
    assert!(!built.stderr.contains("slow"), "{}", built.stderr);
}

#[test]
fn build_errors_have_location() {
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
            SCRATCH.replace("reg [7:0] tx_keep", "reg [3:0] tx_keep"),
            DESIGN.to_owned(),
            "scratch.v:32: Input port connection 's_axis_tx_tkeep' expects 8 bits",
        ),
        (
            SCRATCH.to_owned(),
            DESIGN.replace("= 64", "= 128").replace("\"scratch.v\"", "\"./scratch.v\""),
            "scratch.v:30: Output port connection 'm_axis_rx_tdata' expects 128 bits",
        ),
        (SCRATCH.to_owned(), format!("ties.sys_clk_n = \"no_such\"\n{DESIGN}"), "riser_design.no_such"),
        (twice, DESIGN.to_owned(), "second instance of `pcie_7x`; the first is at"),
        (SCRATCH.replace("wire clk,", "wire clk;;, "), DESIGN.to_owned(), "verilator failed:"),
        (SCRATCH.to_owned(), DESIGN.replace("\"reset_n\"", "\"no_such\""), "no_such"),
        (SCRATCH.to_owned(), DESIGN.replace("scratch.v", "none.v"), "none.v: No such file"),
        (SCRATCH.to_owned(), DESIGN.replace("= 64", "= 256"), "data_width_bits"),
        (SCRATCH.to_owned(), DESIGN.replace("= 64", "= 64\nstraddle = { rc = 2 }"), "block.straddle.rc"),
        (
            SCRATCH.to_owned(),
            format!("{DESIGN}[function]\nsriov = {{ vfs = 1, device_id = 1 }}\n"),
            "virtual functions",
        ),
        (
            SCRATCH.to_owned(),
            format!("{DESIGN}[[other_function]]\nmsi_vectors = 3\n"),
            "other_function.0.msi_vectors: expected a power of two",
        ),
        (
            SCRATCH.to_owned(),
            format!("{DESIGN}[function]\nmsix = {{ vectors = 2, bar = 0, table = 4, pending = 2048 }}\n"),
            "function.msix.table = 4: expected a multiple of 8 up to 4064",
        ),
        (
            SCRATCH.to_owned(),
            format!(
                "{DESIGN}[function.sriov]\nvfs = 1\ndevice_id = 1\nmsix = {{ vectors = 2, bar = 0, table = 0, pending = 2048 }}\n"
            ),
            "function.sriov.msix.bar = 0: expected an existing memory BAR",
        ),
        (SCRATCH.to_owned(), DESIGN.replace("7-series", "8-series"), "7-series"),
        (
            SCRATCH.to_owned(),
            DESIGN.replace("7-series", "tlp-stream").replace("= 64", "= 512\nstraddle = { rc = 2 }"),
            "block.straddle.rc = 2: expected 1 to 1",
        ),
        (
            SCRATCH.to_owned(),
            DESIGN.replace("7-series", "tlp-stream").replace("= 64", "= 64\nmsix_inside = true"),
            "block.msix_inside",
        ),
        (
            SCRATCH.replace("pcie_7x", "riser_tlp_stream"),
            DESIGN.replace("7-series", "tlp-stream"),
            "`riser_tlp_stream` has no port `user_clk_out`",
        ),
        (SCRATCH.to_owned(), DESIGN.replace("\"scratch\"", "\"a; b\""), "expected a Verilog name"),
    ];
    for (source, design, why) in rows {
        let folder = folder(&source, &design);
        let outcome = build(&folder);
        assert_eq!(outcome.code, 1, "{why}");
        assert!(outcome.stderr.contains(why), "`{why}` in {}", outcome.stderr);
    }
}

/// Runs the design in a lab with steps in TOML format; `settings` are additional settings of the slot.
fn copy(folder: &TempDir, settings: &str, steps: &str) -> (Outcome, serde_json::Value) {
    let lab = format!(
        "version = 1\nlimit_us = 200000\n[[slot]]\nname = \"fpga\"\ndevice = \"rtl\"\nlink = {{ gen = 3, lanes = 8 }}\n[slot.rtl]\ndesign = \"design.toml\"\n{settings}step = [\n{steps}]\n"
    );
    fs::write(folder.path().join("lab.toml"), lab).unwrap();
    let outcome = riser(&["run", &path(folder, "lab.toml"), "--allow-native", "--json"]);
    let report = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    (outcome, report)
}

/// Steps by which a function copies a page from `source`, the setting of a step.
fn page(function: u16, source: &str) -> String {
    let write = |offset: u32, what: &str| {
        format!("{{ do = \"write\", function = {function}, offset = {offset}, {what} }},\n")
    };
    [(8, source), (16, "of = \"b\""), (24, "value = 4096"), (28, "value = 1")]
        .iter()
        .map(|(offset, what)| write(*offset, what))
        .collect()
}

#[test]
#[ignore = "of .ci/long rtl"]
fn descriptor_designs_copy_memory_in_every_width() {
    if !has_verilator() {
        return;
    }
    let wide = "parameters = { WIDTH = \"512\", RQ = \"137\", RC = \"161\", CQ = \"183\", CC = \"81\" }\ndefines.PLUS = \"1\"\n";
    let low = "reset.active_low = [\"reset_n\"]\n";
    let rows = [
        ("ultrascale", 64, "parameters = { WIDTH = \"64\" }\n", low, "client_tags = false"),
        ("ultrascale", 256, "", low, "straddle = { rc = 2 }"),
        // The reset has the other polarity, and the ports are those of UltraScale.
        (
            "virtex7-gen3",
            128,
            "parameters = { WIDTH = \"128\" }\n",
            "reset.active_high = [\"reset_n\"]\n",
            "module = \"pcie3_ultrascale_0\"",
        ),
        (
            "ultrascale-plus",
            512,
            wide,
            low,
            "straddle = { rc = 4, rq = 2, cq = 2, cc = 2 }\nclient_tags = false",
        ),
    ];
    for (kind, bits, parameters, reset, block) in rows {
        let design = format!(
            "{COPY_FILE}{reset}{parameters}[block]\nkind = \"{kind}\"\ndata_width_bits = {bits}\nlanes = 8\nuser_clock_hz = 250_000_000\n{block}\n{COPY_FUNCTION}"
        );
        let folder = folder(COPY, &design);
        let built = build(&folder);
        assert_eq!((built.code, built.stderr.as_str()), (0, ""), "{kind} {bits}");
        let steps = format!(
            "{{ do = \"expect\", offset = 0, value = 0x0c0de001 }},\n{BUFFERS}{}{{ do = \"interrupt\", vector = 0 }}, {{ do = \"compare\", name = \"b\", of = \"a\" }},\n{{ do = \"expect\", offset = 0x24, value = 0x400000 }},\n{{ do = \"expect\", offset = 0x30, value = {} }},\n",
            page(0, "of = \"a\""),
            if block.contains("client_tags = false") { 64 } else { 0 },
        );
        let (outcome, report) = copy(&folder, "", &steps);
        assert_eq!(outcome.code, 0, "{kind} {bits}: {}", outcome.stderr);
        let counters = &report["devices"][0]["counters"];
        assert_eq!(
            (&counters["dma_reads"], &counters["dma_writes"]),
            (&64.into(), &33.into()),
            "{kind} {bits}"
        );
        assert!(counters.get("wrong").is_none_or(|wrong| *wrong == 0), "{kind} {bits}: {counters}");
    }
}

#[test]
fn reports_descriptor_errors_and_passes_completion_errors() {
    if !has_verilator() {
        return;
    }
    let folder = copy_behind_ultrascale();
    assert_eq!(build(&folder).code, 0);
    for (number, why) in [
        (2, "s_axis_rq: 32 double-words of data; the descriptor says 33"),
        (3, "rule crosses-4k"),
        (4, "tag 0 is in use"),
    ] {
        let steps = format!(
            "{BUFFERS}{{ do = \"write\", offset = 8, of = \"a\" }}, {{ do = \"write\", offset = 16, of = \"b\" }}, {{ do = \"write\", offset = 24, value = 256 }},\n{{ do = \"write\", offset = 32, value = {number} }}, {{ do = \"sleep\", value = 2000 }},\n"
        );
        let (outcome, report) = copy(&folder, "", &steps);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let finding = report["devices"][0]["counters"]["finding_1"].as_str().unwrap_or_default();
        assert!(finding.starts_with("cycle ") && finding.contains(why), "`{why}` in {finding}");
    }
    // Reads of memory that does not exist get an Unsupported Request, and the design gets error code 0010b.
    let steps = format!(
        "{BUFFERS}{{ do = \"write\", offset = 12, value = 0x7fff }},\n{}{{ do = \"sleep\", value = 5000 }},\n{{ do = \"expect\", offset = 0x24, value = 0x400200 }},\n",
        page(0, "value = 0")
    );
    let (outcome, report) = copy(&folder, "", &steps);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(report["devices"][0]["counters"]["received_unsupported"], 64);
}

/// A design that uses more tags than its slot has waits forever. The run ends, and reports why.
#[test]
fn reports_design_with_more_tags_than_slot() {
    if !has_verilator() {
        return;
    }
    let folder = copy_behind_ultrascale();
    assert_eq!(build(&folder).code, 0);
    let steps = format!("{BUFFERS}{}{{ do = \"interrupt\", vector = 0 }},\n", page(0, "of = \"a\""));
    let (outcome, _) = copy(&folder, "", &steps);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let with = |tags: &str| {
        let tags = format!("slot.fpga.tags={tags}");
        riser(&["run", &path(&folder, "lab.toml"), "--allow-native", "--json", "--set", &tags])
    };
    let few = with("16");
    let why = "48 errors of the design, the first: cycle ";
    let legal = "s_axis_rq: tag 16; expected 0 to 15, by `tags` of the slot";
    assert!(few.code != 0 && few.stderr.contains(why) && few.stderr.contains(legal), "{}", few.stderr);
    let many = with("257");
    let legal = "257 tags (tags of the slot); expected 1 to 256 for \"ultrascale\"";
    assert!(many.code == 1 && many.stderr.contains(legal), "{}", many.stderr);
}

/// `riser guest run` prints findings when they occur, and their number at the end.
#[test]
#[ignore = "of .ci/long rtl"]
fn guest_run_prints_findings() {
    if !has_verilator() {
        return;
    }
    let folder = folder(SCRATCH, DESIGN);
    assert_eq!(build(&folder).code, 0);
    let lab = path(&folder, "lab.toml");
    fs::write(&lab, LAB.replace("limit_us = 100\n", "")).unwrap();
    // A write to register 7 makes the design send a TLP with a wrong Length.
    let script =
        "d=/sys/bus/pci/devices/10000:01:00.0; echo 1 >$d/enable; bar=$(head -1 $d/resource | cut -d' ' -f1)
        for n in 1 2; do devmem $((bar + 28)) 32 1; usleep 300000; echo after $n >&2; done";
    let args = ["guest", "run", &lab, "--allow-native", "--time-limit", "200", "--", "sh", "-c", script];
    let run = finish(&mut command(&args));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let told: Vec<&str> =
        run.stderr.lines().filter(|line| line.contains("fpga") || line.starts_with("after")).collect();
    let [first, "after 1", second, "after 2", all] = told[..] else { panic!("{}", run.stderr) };
    for finding in [first, second] {
        assert!(finding.starts_with("riser: slot `fpga`: cycle "), "{finding}");
    }
    assert!(all.starts_with("riser: slot `fpga`: 2 errors of the design, the first: cycle "), "{all}");
}

/// A virtual function copies with its own requester ID, and raises interrupts. The clock is slow, because VFs are not accessed for 100 ms (PCIe 5.0 §9.3.3.3.1).
#[test]
fn virtual_function_copies_and_interrupts() {
    if !has_verilator() {
        return;
    }
    let design = format!(
        "{COPY_FILE}reset.active_low = [\"reset_n\"]\ndefines.PLUS = \"1\"\nparameters = {{ RQ = \"62\", CQ = \"88\" }}\n[block]\nkind = \"ultrascale-plus\"\ndata_width_bits = 256\nlanes = 8\nuser_clock_hz = 4_000_000\nstraddle = {{ rc = 2 }}\n{COPY_FUNCTION}[function.sriov]\nvfs = 8\ndevice_id = 0xa038\nbars = [{{ bar = 0, kind = \"memory64\", size_bytes = 0x4000 }}]\nmsix = {{ vectors = 4, bar = 0, table = 0x1000, pending = 0x1800 }}\n"
    );
    let folder = folder(COPY, &design);
    assert_eq!(build(&folder).code, 0);
    // Virtual function 4 is function 8 of the block. The design has one table for all functions, and the last written entry is used.
    let steps = format!(
        "{BUFFERS}{{ do = \"write\", offset = 44, value = 8 }},\n{}{{ do = \"expect\", offset = 0x28, value = 8 }}, {{ do = \"interrupt\", function = 5, vector = 0 }}, {{ do = \"compare\", name = \"b\", of = \"a\" }},\n",
        page(5, "of = \"a\"")
    );
    let (outcome, report) = copy(&folder, "vfs = 5\n", &steps);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let counters = &report["devices"][0]["counters"];
    assert_eq!((&counters["virtual_functions_enabled"], &counters["dma_reads"]), (&5.into(), &64.into()));
    let (outcome, _) = copy(&folder, "vfs = 9\n", "");
    assert!(outcome.code == 1 && outcome.stderr.contains("vfs of 9; expected 0 to 8"), "{}", outcome.stderr);
}

/// Waves contain the design's signals and the TLPs of the block, and begin at the time set in the lab.
#[test]
fn waves_contain_tlps_and_signals() {
    if !has_verilator() {
        return;
    }
    let folder = folder(SCRATCH, DESIGN);
    let built = riser(&["rtl", "build", &path(&folder, "design.toml"), "--waves"]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let sizes = ["0", "50"].map(|from| {
        let from = format!("slot.fpga.rtl.waves_from_us={from}");
        let steps = [("expect", 4, 0x1234_5671), ("write", 8, 1), ("expect", 8, 1)];
        let run = run(&folder, &steps, &["--set", "slot.fpga.rtl.waves=w.fst", "--set", &from]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        fs::metadata(folder.path().join("w.fst")).unwrap().len()
    });
    assert!(sizes[0] > sizes[1], "{sizes:?}");
    for other in ["design.toml", "scratch.v", "lab.toml"] {
        let waves = format!("slot.fpga.rtl.waves={other}");
        let refused = run(&folder, &[("expect", 4, 0x1234_5671)], &["--set", &waves]);
        assert_eq!(refused.code, 1);
        assert!(
            refused.stderr.contains("the file exists, and is not a waveform file (FST)"),
            "{other}: {}",
            refused.stderr
        );
        assert!(fs::read_to_string(folder.path().join(other)).is_ok_and(|text| !text.is_empty()), "{other}");
    }
    run(&folder, &[("expect", 4, 0x1234_5671)], &["--set", "slot.fpga.rtl.waves=w.fst"]);
    let Some(text) = dump(&folder, "w.fst") else { return };
    let id = |name: &str| {
        let line = text.lines().find(|line| line.contains(&format!(" {name} "))).unwrap_or_default();
        line.split(' ').nth(3).unwrap_or_default().to_owned()
    };
    let (count, keep) = (id("riser_in_count"), id("rx_keep"));
    let mut counts =
        text.lines().filter(|line| line.ends_with(&format!(" {count}")) && line.starts_with('b'));
    let last = counts.next_back().unwrap_or_default();
    assert!(last.starts_with("b00000000000000000000000000000001 ") && !keep.is_empty(), "{last}");
}

/// Returns a wave file as text; `None` if the tool for that is not installed.
fn dump(folder: &TempDir, name: &str) -> Option<String> {
    let read = Command::new("fst2vcd").arg(folder.path().join(name)).output();
    if read.is_err() {
        eprintln!("skipped: no fst2vcd");
    }
    read.ok().map(|read| String::from_utf8_lossy(&read.stdout).into_owned())
}

/// Waves around a TLP: the lab runs once to find the TLP, and again to record. The capture contains one run.
#[test]
#[ignore = "of .ci/long rtl"]
fn waves_begin_before_trigger_tlp() {
    if !has_verilator() {
        return;
    }
    let folder = folder(SCRATCH, DESIGN);
    assert_eq!(riser(&["rtl", "build", &path(&folder, "design.toml"), "--waves"]).code, 0);
    let steps = [("expect", 4, 0x1234_5671), ("write", 8, 1), ("expect", 8, 1)];
    let with = |when: &str, more: &[&str]| {
        let when = format!("slot.fpga.rtl.waves_when={when}");
        let waves = [
            "--set",
            "slot.fpga.rtl.waves=w.fst",
            "--set",
            &when,
            "--force",
            "--capture",
            &path(&folder, "c.pcapng"),
        ];
        run(&folder, &steps, &[&waves, more].concat())
    };
    let found = with(
        "type=MRd and addr=0x80000008",
        &["--set", "slot.fpga.rtl.waves_before_us=1", "--set", "slot.fpga.rtl.waves_after_us=2"],
    );
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    let traced =
        riser(&["trace", &path(&folder, "c.pcapng"), "--json", "--filter", "type=MRd and addr=0x80000008"]);
    let read: serde_json::Value = serde_json::from_str(traced.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(traced.stdout.lines().count(), 1);
    let Some(text) = dump(&folder, "w.fst") else { return };
    let times: Vec<u64> = text.lines().filter_map(|line| line.strip_prefix('#')?.parse().ok()).collect();
    let at = read["timestamp_ps"].as_u64().unwrap_or_else(|| panic!("{read}"));
    // The tap is at the device's end of the link, one clock before the block.
    let (first, last) = (times[0], *times.last().unwrap());
    assert!((at - 1_000_000..at - 900_000).contains(&first) && last < at + 2_100_000, "{first} {at} {last}");

    let never = with("status=UR", &[]);
    assert!(never.code == 0 && never.stderr.contains("no TLP matches `status=UR`"), "{}", never.stderr);
    for (when, more, why) in [
        ("statu=UR", &[][..], "filter, column 1"),
        ("time>1us", &[], "not of its transaction"),
        (
            "status=UR",
            &["--set", "slot.fpga.rtl.waves_from_us=1"],
            "expected either waves_when, or waves_from_us",
        ),
    ] {
        let wrong = with(when, more);
        assert!(wrong.code != 0 && wrong.stderr.contains(why), "`{why}` in {}", wrong.stderr);
    }
}

/// A register without a reset affects an answer: the report names the answer, the port with its line, and the register. If the register is
/// overwritten before it has an effect, all runs are the same.
#[test]
#[ignore = "of .ci/long rtl"]
fn finds_uninitialized_register_that_affects_output() {
    if !has_verilator() {
        return;
    }
    let source = SCRATCH
        .replacen(
            "reg is_write;",
            "reg is_write;\nreg [31:0] lost;\nwire [31:0] mixed = registers[5] ^ lost;",
            1,
        )
        .replacen("registers[at][7:0]", "at == 5 ? mixed[7:0] : registers[at][7:0]", 1)
        .replacen(
            "if (rx_data[4:2] == 6)",
            "if (rx_data[4:2] == 5) lost <= 0;\n            if (rx_data[4:2] == 6)",
            1,
        );
    let line = |of: &str| 1 + source.lines().position(|line| line.contains(of)).unwrap();
    let folder = folder(&source, DESIGN);
    assert_eq!(riser(&["rtl", "build", &path(&folder, "design.toml"), "--waves"]).code, 0);
    assert_eq!(build(&folder).code, 0);
    let seeds = |steps: &[(&str, u32, u32)]| {
        run(&folder, steps, &[]);
        riser(&["rtl", "seeds", &path(&folder, "lab.toml"), "--allow-native", "--json"])
    };
    let same = seeds(&[("expect", 16, 0x1234_5674), ("write", 20, 7), ("expect", 20, 7)]);
    assert_eq!(same.code, 0, "{}", same.stderr);
    let report: serde_json::Value = serde_json::from_str(&same.stdout).unwrap();
    assert_eq!((&report["seeds"], &report["parts"]), (&4.into(), &serde_json::Value::Null));

    let parts = seeds(&[("expect", 16, 0x1234_5674), ("expect", 20, 0)]);
    assert_eq!(parts.code, 1, "{}", parts.stderr);
    let report: serde_json::Value = serde_json::from_str(&parts.stdout).unwrap();
    let found = &report["parts"];
    let what = found["what"].as_str().unwrap();
    assert!(what.starts_with("output 2: with seed 1 CplD") && what.contains("in cycle "), "{what}");
    assert_eq!((&found["slot"], &found["seeds"]), (&"fpga".into(), &serde_json::json!([1, 2])));
    let place = |line: usize| format!("{}:{line}: ", path(&folder, "scratch.v"));
    let port = found["ports"][0].as_str().unwrap();
    assert!(
        port.starts_with(&format!("{}s_axis_tx_tdata of `block` in cycle ", place(line(".s_axis_tx_tdata")))),
        "{port}"
    );
    if Command::new("fst2vcd").arg("--help").output().is_err() {
        return eprintln!("skipped: no fst2vcd");
    }
    assert_eq!(
        found["registers"],
        serde_json::json!([format!("{}lost", place(line("reg [31:0] lost")))]),
        "{found}"
    );
}

/// FPGA resources of the DMA engine, as counted by Yosys, must not exceed their limits. Skipped, with a message, without Yosys or with a version
/// other than that of the limits.
#[test]
#[ignore = "of .ci/long rtl"]
fn engine_stays_within_fpga_resource_limits() {
    if Command::new("yosys").arg("-V").stdout(Stdio::null()).status().is_err() {
        return eprintln!("skipped: no yosys");
    }
    let out = tempfile::tempdir().unwrap();
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/dma_engine/synth/report.sh");
    let output = Command::new(report).env("OUT", out.path()).env_remove("PARAMETERS").output().unwrap();
    let [said, complaint] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said.contains("| 1 PF + 1 VF | "), "{said}{complaint}");
    eprint!("{said}{complaint}");
}
