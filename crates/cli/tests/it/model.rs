// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model bw`, `nic` and `inflight`: JSON, tables, charts, and rejected arguments. `riser-model` tests the
//! figures themselves. The tests here use only figures that are printed in the literature. Never calls the library.

use crate::common::{riser, riser_ok, riser_whose_reader_leaves};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn bw(args: &str) -> Value {
    let args: Vec<&str> = ["model", "bw", "--json"].into_iter().chain(args.split_whitespace()).collect();
    serde_json::from_str(&riser_ok(&args)).expect("JSON")
}

fn number(object: &Value, name: &str) -> f64 {
    object[name].as_f64().unwrap_or_else(|| panic!("{name} in {object}"))
}

/// 57.88: pcie-bench §3 (whose raw rate, 8 * 7.87 = 62.96, is 63.015 before rounding). 52.9: 57.88 * 256/280.
#[test]
fn published_form_has_published_figures() {
    let answer = bw("--form published --size 256 --gen 3 --lanes 8 --mps 256 --mrrs 512");
    assert_eq!(answer["form"], "published");
    assert!((number(&answer, "tlp_gbps") - 57.884_766).abs() < 1e-6);
    assert!((number(&answer, "raw_gbps") - 63.015_385).abs() < 1e-6);
    assert!((number(&answer, "write_gbps") - 52.923_215).abs() < 1e-6);
    assert_eq!(answer["equations"]["btx_write_bytes"], 280);
    let gen1 = bw("--form published --size 64 --gen 1 --lanes 1 --mps 128");
    assert!((number(&gen1, "tlp_gbps") - 1.859_777).abs() < 1e-6);
}

#[test]
fn lists_are_separated_by_spaces_or_commas() {
    let nettlp = |list: &[&str]| riser_ok(&[&["model", "nettlp", "--json", "--size"], list].concat());
    assert_eq!(nettlp(&["64,128", "1..4:3"]), nettlp(&["64", "128", "1", "4"]));
    for list in [&["lat_cmd_sizes,none"][..], &["lat_cmd_sizes", "none"]] {
        let bench = ["bench", "--format", "pcie-bench", "--host", "ideal", "-o", "none", "--experiments"];
        let outcome = riser(&[&bench, list].concat());
        assert!(outcome.code == 2 && outcome.stderr.contains("`none`"), "{list:?}: {}", outcome.stderr);
    }
}

#[test]
fn exact_form_is_default_and_lists_bytes() {
    let answer = bw("--size 256");
    assert_eq!(answer["form"], "exact");
    assert!((number(&answer, "write_gbps") - 57.456_527).abs() < 1e-6);
    assert_eq!(answer["write"]["up"]["overhead_bytes"], 24);
    assert_eq!(answer["read"]["bottleneck"], "down");
}

#[test]
fn json_output_repeats_the_arguments() {
    let question =
        "--gen 4 --lanes 16 --mps 512 --mrrs 1024 --rcb 128 --addr 32 --ecrc --offset 4 --size 100";
    let answer = bw(question);
    for (name, value) in [
        ("gen", 4),
        ("lanes", 16),
        ("mps_bytes", 512),
        ("mrrs_bytes", 1024),
        ("rcb_bytes", 128),
        ("addr_bits", 32),
        ("size_bytes", 100),
        ("offset_bytes", 4),
    ] {
        assert_eq!(answer[name], value, "{name}");
    }
    assert_eq!(answer["ecrc"], true);
    for name in ["raw_gbps", "tlp_gbps", "write_gbps", "read_gbps", "read_write_gbps"] {
        assert!(number(&answer, name) > 0.0, "{name}");
    }
}

#[test]
fn several_sizes_give_rows() {
    for (sizes, want) in [
        ("64 128 --size 1500", vec![64, 128, 1500]),
        ("8..64", vec![8, 16, 32, 64]),
        ("8..60", vec![8, 16, 32]),
        ("64..70:3", vec![64, 67, 70]),
    ] {
        let answer = bw(&format!("--size {sizes}"));
        let rows = answer["rows"].as_array().expect("rows");
        let got: Vec<u64> = rows.iter().filter_map(|row| row["size_bytes"].as_u64()).collect();
        assert_eq!(got, want, "{sizes}");
    }
}

/// Measured DLLPs replace the rule only for the kind that they name: 62.847344 * 256/(280 + 8).
#[test]
fn measured_dllps_replace_rule_of_their_kind() {
    let (with, without) = (bw("--size 256 --measured-dllps write=1,0"), bw("--size 256"));
    assert!((number(&with, "write_gbps") - 55.864_305).abs() < 1e-6);
    assert_eq!(with["read_gbps"], without["read_gbps"]);
}

#[test]
fn table_has_one_line_per_size() {
    let text = riser_ok(&["model", "bw", "--size", "256", "512"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0][..3], ["exact:", "Gen3", "x8,"]);
    assert_eq!(lines[2], ["256", "57.457", "57.761", "52.682"]);
}

#[test]
fn closed_reader_is_not_a_failure() {
    let (code, stderr) = riser_whose_reader_leaves(&["model", "bw", "--size", "1..20000:1", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
}

/// 472 of 512 Gb/s (236 of 256 B), 256 of 256 + 16 B. Every output states that these values are arithmetic.
#[test]
fn flit_mode_results_are_marked_as_arithmetic() {
    let answer = bw("--size 256 --gen 6");
    assert!((number(&answer, "write_gbps") - 472.0 * 256.0 / 272.0).abs() < 1e-6);
    let words = "specification's arithmetic, not simulation";
    assert_eq!(answer["basis"], words);
    for args in [
        &["model", "bw", "--size", "256", "--gen", "7"][..],
        &["model", "nic", "--gen", "6"],
        &["model", "nic", "--gen", "6", "--json"],
        &["model", "nic", "--gen", "6", "--format", "csv"],
    ] {
        assert!(riser_ok(args).contains(words), "{args:?}");
    }
    let out = out("flits");
    let (svg, html) = (out.join("f.svg"), out.join("f.html"));
    riser_ok(&["model", "nic", "--gen", "6", "--svg", text(&svg), "--html", text(&html)]);
    for path in [svg, html] {
        assert!(fs::read_to_string(&path).unwrap().contains(words), "{}", path.display());
    }
    assert!(!riser_ok(&["model", "nic"]).contains("arithmetic"));
}

fn nic(args: &str) -> String {
    let args: Vec<&str> = ["model", "nic"].into_iter().chain(args.split_whitespace()).collect();
    riser_ok(&args)
}

/// Returns an empty folder for one test.
fn out(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("model").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Figure 1 of pcie-bench: 57.884766 Gb/s for TLPs, times 512 of 752 B up for the simple NIC, of 584 B for bare packets;
/// 40 * 512/532 for the Ethernet. Tests of `riser-model` have the other sums.
#[test]
fn nic_prints_values_of_figure_1() {
    let table = nic("--form published --size 512");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["published:", "Gen3", "x8,"]);
    assert_eq!(lines[2], ["512", "50.748", "38.496", "39.411", "47.359", "47.556"]);
    for says in [
        "the header of the freelist's read is omitted",
        "Simple NIC keeps up with 40 Gb/s Ethernet from 580 B on",
    ] {
        assert!(table.contains(says), "{table}");
    }
    assert!(!nic("--size 512").contains("left out"), "the exact form leaves nothing out");
    let csv = nic("--form published --size 512 --device simple --format csv");
    assert_eq!(
        csv,
        "form,basis,gen,lanes,size_bytes,effective_gbps,ethernet_gbps,simple_gbps\n\
         published,closed form as published,3,8,512,50.748,38.496,39.411\n"
    );
}

#[test]
fn nic_json_has_expected_values() {
    let answer: Value =
        serde_json::from_str(&nic("--json --size 64 512 --traffic rx --ethernet 100")).unwrap();
    assert_eq!((&answer["traffic"], &answer["form"]), (&Value::from("rx"), &Value::from("exact")));
    assert_eq!(number(&answer, "ethernet_gbps"), 100.0);
    let series = answer["series"].as_array().unwrap();
    let names: Vec<&str> = series.iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["effective", "ethernet", "simple", "82599-kernel", "82599-dpdk"]);
    let simple = &series[2]["points"][1];
    assert_eq!((&simple["size_bytes"], &simple["bottleneck"]), (&Value::from(512), &Value::from("up")));
    // Only RX: MRd, 2 MWr of 256 and 252 B, MWr of 16 B, interrupt at a 32-bit address, CplD of the head pointer.
    assert_eq!(number(&simple["up"], "tlps"), 6.0);
    assert_eq!(number(&simple["up"], "overhead_bytes"), 24.0 * 4.0 + 20.0 + 20.0);
    assert_eq!(number(&simple["up"], "data_bytes"), 508.0 + 16.0 + 4.0 + 4.0);
}

/// IEEE 802.3 §3.2.8: 64 B include the FCS. 64 + 20 B at 40 Gb/s are 16.8 ns, in both commands; a NIC moves 60 B.
#[test]
fn frames_include_their_fcs_in_nic_and_inflight() {
    let nic: Value = serde_json::from_str(&nic("--json --size 64 --traffic rx --device 82599-dpdk")).unwrap();
    let [effective, ethernet, device] = [0, 1, 2].map(|at| &nic["series"][at]["points"][0]);
    let inflight = riser_ok(&["model", "inflight", "--json", "--size", "64", "--latency", "500"]);
    let inflight: Value = serde_json::from_str(&inflight).unwrap();
    let packet_ns = number(&inflight["rows"][0], "packet_ns");
    assert!((number(ethernet, "throughput_gbps") - 64.0 * 8.0 / packet_ns).abs() < 1e-9, "{ethernet}");
    assert!((packet_ns - 16.8).abs() < 1e-9);
    // One packet, and one descriptor of 16 B.
    assert_eq!(number(&device["up"], "data_bytes"), 60.0 + 16.0);
    let frames = |point: &Value| number(point, "throughput_gbps") / 64.0;
    assert!(frames(effective) > frames(device));
    for command in ["nic", "inflight"] {
        let help = riser_ok(&["model", command, "--help"]);
        assert!(help.contains("FCS included") && help.contains("IEEE 802.3 §3.2.8"), "{command}: {help}");
    }
}

/// The printed file of a shipped device can be read again, and describes the same device.
#[test]
fn reads_devices_from_files() {
    let path = out("devices").join("mine.toml");
    fs::write(&path, riser_ok(&["model", "nic", "--show", "simple"])).unwrap();
    let table = riser_ok(&["model", "nic", "--size", "512", "--device", text(&path), "simple"]);
    let row: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert!(table.lines().nth(1).unwrap().contains("mine") && row[3] == row[4], "{table}");
}

#[test]
fn charts_are_overwritten_only_with_force() {
    let out = out("pictures");
    let (svg, html) = (out.join("a.svg"), out.join("deeper/a.html"));
    let args = ["model", "nic", "--size", "64..1500:16", "--svg", text(&svg), "--html", text(&html)];
    riser_ok(&args);
    let (first, page) = (fs::read_to_string(&svg).unwrap(), fs::read_to_string(&html).unwrap());
    for says in
        ["Effective PCIe BW", "40G Ethernet", "Simple NIC", "Modern NIC (DPDK driver)", "packet size (B)"]
    {
        assert!(first.contains(says) && page.contains(says), "{says}");
    }
    for foreign in ["<script", "src=", "href=", "https:"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let again = riser(&args);
    assert!(again.code == 1 && again.stderr.contains("--force overwrites it"), "{}", again.stderr);
    riser_ok(&[&args[..], &["--force"]].concat());
    assert_eq!(fs::read_to_string(&svg).unwrap(), first, "the same question is the same bytes");
}

#[test]
fn nic_rejects_invalid_arguments() {
    let bad = out("refusals").join("bad.toml");
    let kind =
        "version = 1\nkind = \"packet-device\"\ndescription = \"x\"\n\n[[transactions]]\nwhat = \"w\"\n";
    fs::write(&bad, format!("{kind}direction = \"up\"\n")).unwrap();
    let sends = out("sends").join("sends.toml");
    let rest = "direction = \"tx\"\nkind = \"dma_read\"\nbytes = \"packet\"\nper = 1\nsource = \"s\"\n";
    fs::write(&sends, format!("{kind}{rest}")).unwrap();
    let bad_place = format!("{}:7:13: ", bad.display());
    for (args, code, says) in [
        (&["--gen", "8"][..], 2, "expected 1, 2, 3, 4, 5, 6, 7"),
        (&["--gen", "6", "--form", "published"], 2, "expected 1 to 5 in the published form"),
        (&["--size", "0"], 2, "frame of 0 B: expected 64 to 9216, FCS included"),
        (&["--size", "63"], 2, "frame of 63 B: expected 64 to 9216"),
        (&["--size", "99999"], 2, "frame of 99999 B: expected 64 to 9216"),
        (&["--size", "63", "--form", "published"], 2, "frame of 63 B: expected 64 to 9216"),
        (&["--size", "8..4"], 2, "expected N, A..B"),
        (&["--device", "simple", "simple"], 2, "two devices are called simple"),
        (&["--size", "20000000"], 2, "expected 64 to 9216"),
        (&["--size", "1..16777216:1"], 2, "more than 100000 sizes"),
        (&["--ethernet", "0"], 2, "expected 0.001 to 100000"),
        (&["--traffic", "up"], 2, "possible values: both, tx, rx"),
        (&["--format", "xml"], 2, "possible values: text, csv, json"),
        (&["--show", "nic"], 2, "expected one of simple, 82599-kernel, 82599-dpdk"),
        (&["--device", "no-such"], 1, "the shipped devices are simple, 82599-kernel, 82599-dpdk"),
        (&["--device", text(&bad)], 1, &bad_place),
        (&["--device", text(&bad)], 1, "expected `tx` or `rx`"),
        (&["--device", text(&sends), "--traffic", "rx"], 2, "sends: no transaction of the device serves"),
    ] {
        let outcome = riser(&[&["model", "nic"][..], args].concat());
        assert_eq!(outcome.code, code, "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(says), "{}", outcome.stderr);
    }
}

#[test]
fn inflight_rejects_invalid_arguments() {
    for (args, says) in [
        (&["--size", "1"][..], "frame of 1 B: expected 64 to 9216"),
        (&["--size", "9217"], "frame of 9217 B: expected 64 to 9216"),
        (&["--ethernet", "1e9"], "expected 0.001 to 100000"),
        (&["--ethernet", "0"], "expected 0.001 to 100000"),
    ] {
        let outcome = riser(&[&["model", "inflight"][..], args].concat());
        assert!(outcome.code == 2 && outcome.stderr.contains(says), "{args:?}: {}", outcome.stderr);
    }
}

#[test]
fn text_and_charts_contain_basis() {
    assert!(riser_ok(&["model", "bw", "--size", "256"]).contains("; basis: closed form"));
    assert!(riser_ok(&["model", "nic"]).contains("; basis: closed form"));
    let html = out("basis").join("nic.html");
    riser_ok(&["model", "nic", "--html", text(&html)]);
    assert!(fs::read_to_string(&html).unwrap().contains("; basis: closed form"));
}

#[test]
fn warnings_about_extrapolated_figures_are_in_json() {
    let args = ["model", "inflight", "--host", "xeon-e5-2637v3", "--gen", "5", "--json"];
    let outcome = riser(&args);
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let warned: Vec<&str> = answer["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(warned.iter().any(|line| line.contains("has figures of Gen3 links: on Gen5")), "{warned:?}");
    for line in warned {
        assert!(outcome.stderr.contains(&format!("riser: warning: {line}")), "{}", outcome.stderr);
    }
    assert!(!riser_ok(&["model", "inflight", "--json"]).contains("warnings"));
}

#[test]
fn help_has_examples() {
    for args in [&["model", "--help"][..], &["model", "bw", "--help"], &["model", "nic", "--help"]] {
        assert!(riser_ok(args).contains("Examples:\n  riser model "), "{args:?}");
    }
}

/// The three kinds of answers. SIGCOMM'18 §2 has 900 ns divided by 30 ns, §7 has 560 to 666 ns divided by 29.6 ns, and
/// a host is simulated.
#[test]
fn inflight_names_source_of_latency() {
    let ask = |more: &[&str]| -> Value {
        let args: Vec<&str> = ["model", "inflight", "--json"].iter().chain(more).copied().collect();
        serde_json::from_str(&riser_ok(&args)).expect("JSON")
    };
    let answer = ask(&[]);
    let rows = answer["rows"].as_array().unwrap();
    let needed = |row: &Value| (row["needed_min"].as_u64().unwrap(), row["needed_max"].as_u64().unwrap());
    assert_eq!(rows.iter().map(needed).collect::<Vec<_>>(), [(30, 30), (19, 23)]);
    assert!(
        rows[0]["source"].as_str().unwrap().contains("§2")
            && rows[1]["source"].as_str().unwrap().contains("§7")
    );
    assert!(rows[1]["note"].as_str().unwrap().contains("the paper gives 30"), "{answer}");
    // 64 + 20 B at 100 Gb/s: 6.72 ns. 330 more ns of an IOMMU: 1230 / 30 and 996 / 29.6.
    let given = ask(&["--size", "64", "--ethernet", "100", "--latency", "500"]);
    assert_eq!(needed(&given["rows"][0]), (75, 75));
    let miss = ask(&["--iommu-miss", "--latency", "section-2", "section-7"]);
    assert_eq!((needed(&miss["rows"][0]).1, needed(&miss["rows"][1]).1), (41, 34));
    let host = ask(&["--host", "ideal", "--device", "ideal"]);
    let (row, ns) = (&host["rows"][0], number(&host["rows"][0], "latency_ns_max"));
    assert!(row["source"].as_str().unwrap().contains("host profile ideal"), "{host}");
    assert_eq!(needed(row).0, (ns / 29.6).ceil() as u64);
    let text = riser_ok(&["model", "inflight"]);
    assert!(
        text.contains("30 under way: 900 ns / 30.0 ns = 30.0") && text.contains("19 to 23 under way"),
        "{text}"
    );
}

/// The link of `--host` comes from its profile or from the arguments, and is printed. Arguments about a host are rejected without one.
#[test]
fn host_is_measured_over_own_link() {
    let size = ["model", "inflight", "--size", "64", "--ethernet", "100"];
    let host = ["--host", "xeon-platinum-8480", "--device", "ideal"];
    let row = |more: &[&str]| -> (String, f64) {
        let text = riser_ok(&[&size[..], &host, more, &["--json"]].concat());
        let row = serde_json::from_str::<Value>(&text).unwrap()["rows"][0].clone();
        (row["source"].as_str().unwrap().to_owned(), number(&row, "latency_ns_min"))
    };
    let (own, narrow) = (row(&[]), row(&["--lanes", "4"]));
    assert!(own.0.ends_with("device profile ideal, Gen5 x16"), "{own:?}");
    // No measurement exists: the value is simulated with assumed latencies.
    assert!(own.0.starts_with("simulated: LAT_RD"), "{own:?}");
    let text = riser_ok(&[&size[..], &host].concat());
    assert!(text.contains("\n  basis: assumed\n") && !text.contains("measured"), "{text}");
    assert!(narrow.0.ends_with("Gen5 x4") && own.1 < narrow.1, "{own:?} {narrow:?}");
    let older = riser(&[&size[..], &host, &["--gen", "4"]].concat());
    assert!(
        older.stderr.contains("figures of Gen5 links: on Gen4 they are extrapolated"),
        "{}",
        older.stderr
    );
    for flag in [["--device", "ideal"], ["--gen", "4"], ["--lanes", "4"]] {
        let output = riser(&[&size[..], &flag].concat());
        assert_eq!(output.code, 2, "{flag:?}");
        assert!(output.stderr.contains("--host"), "{flag:?}: {}", output.stderr);
    }
}
