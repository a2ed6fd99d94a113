// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser model bw`: its JSON, its table and what it refuses. The figures themselves are tested in `riser-model`; here
//! stand those that are printed elsewhere. Never calls the library.

mod common;

use common::{riser, riser_ok, riser_whose_reader_leaves};
use serde_json::Value;

fn bw(args: &str) -> Value {
    let args: Vec<&str> = ["model", "bw", "--json"].into_iter().chain(args.split_whitespace()).collect();
    serde_json::from_str(&riser_ok(&args)).expect("JSON")
}

fn number(object: &Value, name: &str) -> f64 {
    object[name].as_f64().unwrap_or_else(|| panic!("{name} in {object}"))
}

/// 57.88: pcie-bench §3 (whose raw rate, 8 * 7.87 = 62.96, is 63.015 before rounding). 52.9: 57.88 * 256/280.
#[test]
fn published_figures() {
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
fn exact_is_the_default_and_says_where_bytes_go() {
    let answer = bw("--size 256");
    assert_eq!(answer["form"], "exact");
    assert!((number(&answer, "write_gbps") - 57.460_428).abs() < 1e-6);
    assert_eq!(answer["write"]["up"]["overhead_bytes"], 24);
    assert_eq!(answer["read"]["bottleneck"], "down");
}

#[test]
fn the_question_is_repeated() {
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
fn several_sizes_are_rows() {
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

/// Counted DLLPs replace the rule for the kind that they name only: 62.847344 * 256/(280 + 8).
#[test]
fn measured_dllps() {
    let (with, without) = (bw("--size 256 --dllps write=1,0"), bw("--size 256"));
    assert!((number(&with, "write_gbps") - 55.864_305).abs() < 1e-6);
    assert_eq!(with["read_gbps"], without["read_gbps"]);
}

#[test]
fn the_table_has_a_line_per_size() {
    let text = riser_ok(&["model", "bw", "--size", "256", "512"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0][..3], ["exact:", "Gen3", "x8,"]);
    assert_eq!(lines[2], ["256", "57.460", "57.717", "52.663"]);
}

#[test]
fn refusals_name_the_legal_values() {
    for (args, says) in [
        ("--size 0", "legal are 1 to 16777216"),
        ("--size 64 --gen 6", "legal are 1, 2, 3, 4, 5"),
        ("--size 64 --lanes 5", "legal are 1, 2, 4, 8, 12, 16, 32"),
        ("--size 64 --mps 100", "128, 256, 512"),
        ("--size 64 --rcb 32", "legal are 64, 128"),
        ("--size 64 --addr 16", "possible values: 32, 64"),
        ("--size 64 --form typo", "possible values: exact, published"),
        ("--size 64..8", "legal are N, A..B and A..B:STEP"),
        ("--size 1..16777216:1", "more than 100000 sizes"),
        ("--size 64 --offset 4096", "legal are 0 to 4095"),
        ("--size 64 --offset 4 --form published", "the exact form takes others"),
        ("--size 64 --dllps write=1", "legal are write, read or read_write"),
        ("--size 64 --dllps write=-1,0", "legal are finite numbers from 0 on"),
        ("--size 64 --dllps write=1,0 --form published", "only --form exact"),
    ] {
        let all: Vec<&str> = ["model", "bw"].into_iter().chain(args.split_whitespace()).collect();
        let outcome = riser(&all);
        assert_eq!(outcome.code, 2, "{args}");
        assert!(outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(says), "{}", outcome.stderr);
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let (code, stderr) = riser_whose_reader_leaves(&["model", "bw", "--size", "1..20000:1", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
}
