// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design with TLP streams, without a vendor's block.

use super::*;

const STREAM: &str = include_str!("../../../../rtl/examples/stream.v");
const STREAM_FILE: &str = include_str!("../../../../rtl/examples/stream.toml");
const IDENTITY: &str = "{ do = \"expect\", offset = 0, value = 0x07150001 },\n";

/// Builds the example with this width.
fn stream(bits: u16) -> TempDir {
    let design = STREAM_FILE
        .replace("\"stream.v\"", "\"scratch.v\"")
        .replace("\"64\"", &format!("\"{bits}\""))
        .replace("bits = 64", &format!("bits = {bits}"));
    let folder = folder(STREAM, &design);
    let built = build(&folder);
    assert_eq!((built.code, built.stderr.as_str()), (0, ""), "{bits}");
    folder
}

/// Runs these steps with a source and a destination. Returns the outcome and the report.
fn run_stream(folder: &TempDir, steps: &str, more: &[&str]) -> (Outcome, serde_json::Value) {
    let addresses =
        "{ do = \"write\", offset = 8, of = \"a\" }, { do = \"write\", offset = 16, of = \"b\" },\n";
    let lab = LAB.replace("gen = 2, lanes = 1", "gen = 3, lanes = 4");
    fs::write(
        folder.path().join("lab.toml"),
        format!("{lab}rtl.step = [\n{BUFFERS}{IDENTITY}{addresses}{steps}]\n"),
    )
    .unwrap();
    let outcome = riser(&[&["run", &path(folder, "lab.toml"), "--allow-native", "--json"], more].concat());
    let report = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    (outcome, report)
}

/// Returns a step that rings the doorbell.
fn ring(number: u32) -> String {
    format!("{{ do = \"write\", offset = 24, value = {number} }},\n")
}

#[test]
fn tlp_stream_has_registers_and_dma() {
    has_registers_and_dma([64, 512]);
}

#[test]
#[ignore = "of .ci/long rtl"]
fn registers_and_dma_work_at_128_and_256_bits() {
    has_registers_and_dma([128, 256]);
}

/// Checks registers and DMA of a stream with each of these widths.
fn has_registers_and_dma(widths: [u16; 2]) {
    if !has_verilator() {
        return;
    }
    for bits in widths {
        let folder = stream(bits);
        let copied =
            "{ do = \"interrupt\", vector = 0 }, { do = \"expect\", offset = 0x1c, value = 0x10000 },\n";
        let scratch = "{ do = \"write\", offset = 4, value = 0x89abcdef }, { do = \"expect\", offset = 4, value = 0x89abcdef },\n";
        let bytes = [(0, 0x0302_0100), (60, 0x3f3e_3d3c), (64, 0)].map(|(at, value)| {
            format!("{{ do = \"memory\", name = \"b\", offset = {at}, value = {value} }},\n")
        });
        let steps = format!("{scratch}{}{copied}{}", ring(1), bytes.concat());
        let (outcome, report) = run_stream(&folder, &steps, &[]);
        assert_eq!(outcome.code, 0, "{bits}: {}", outcome.stderr);
        let counters = &report["devices"][0]["counters"];
        // One read, and two writes: the data and the MSI message.
        assert_eq!((&counters["dma_reads"], &counters["dma_writes"]), (&1.into(), &2.into()), "{bits}");
        assert!(counters.get("wrong").is_none_or(|wrong| *wrong == 0), "{bits}: {counters}");
    }
}

#[test]
fn reports_errors_of_tlp_stream() {
    if !has_verilator() {
        return;
    }
    let folder = stream(64);
    for (number, left, why) in [
        (2, 1, "rule crosses-4k"),
        (3, 0, "a TLP of 76 B with a header for 80 B; the block drops it"),
        (
            4,
            1,
            "the TLP was sent unchanged: Tag 0x0, expected a tag that no outstanding request of the requester has (PCIe 5.0 §2.2.6.2, ",
        ),
        (5, 0, "rule tag-range); the function has tags 0x0 to 0x3f"),
        (6, 0, "s_axis_tx_tkeep of 0xf0"),
    ] {
        let steps = ring(number) + "{ do = \"sleep\", value = 2000 },\n" + IDENTITY;
        let (outcome, report) = run_stream(&folder, &steps, &["--set", "slot.fpga.tags=64"]);
        assert_eq!(outcome.code, 0, "{number}: {}", outcome.stderr);
        let counters = &report["devices"][0]["counters"];
        let finding = counters["finding_1"].as_str().unwrap_or_default();
        assert!(finding.starts_with("cycle ") && finding.contains(why), "`{why}` in {counters}");
        assert_eq!(counters["wrong_outputs"].as_u64().unwrap_or(0), left, "{number}: {counters}");
        let tag_range = ("tag-range".into(), "0xfe".into());
        let refusals = report["refusals"].as_array().map_or(&[][..], Vec::as_slice);
        let is_refused = refusals.iter().any(|r| (&r["rule"], &r["found"]) == (&tag_range.0, &tag_range.1));
        assert_eq!(is_refused, number == 5, "{number}: {refusals:?}");
    }
}
