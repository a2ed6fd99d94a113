// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser bench --format pcie-bench` as a process: invalid arguments, the files it writes, and the files left after Ctrl-C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn riser(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_riser"));
    command.args(["bench", "--format", "pcie-bench"]).args(args);
    command
}

/// Returns the path of a folder that does not exist, one for each test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The latencies of this host are fitted; the page walk of its IOMMU is assumed.
#[test]
fn iommu_and_basis_are_in_text_and_page() {
    let out = folder("iommu");
    let (path, page) = (out.to_string_lossy().into_owned(), out.join("page.html"));
    let host = ["--host", "xeon-e3-1226v3", "--iommu", "4k"];
    let files = ["-o", &path, "--experiments", "lat_cmd_sizes", "--html", page.to_str().unwrap()];
    let output = riser(&[&host[..], &files].concat()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(out.join("nfp6000_xeon-e3-1226v3-iommu-nosp/lat_cmd_sizes.csv").exists());
    let page = fs::read_to_string(page).unwrap();
    for says in ["Simulated: nfp6000_xeon-e3-1226v3-iommu-nosp.", "Basis of the figures: assumed."] {
        assert!(page.contains(says), "{says}");
    }
    let cold =
        ["--cache", "cold", "--suite", "LAT_RD", "--size", "64", "--transfers", "20", "--warm-up", "0"];
    let table =
        Command::new(env!("CARGO_BIN_EXE_riser")).arg("bench").args(host).args(cold).output().unwrap();
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.contains("IOMMU 4k, cache cold, ") && text.contains("basis: assumed"), "{text}");
}

/// Figures of Gen3 links on a Gen5 link cause warnings on standard error, in the page and in the record.
#[test]
fn extrapolated_figures_are_in_page_and_record() {
    let out = folder("extrapolated");
    let (path, page) = (out.to_string_lossy().into_owned(), out.join("page.html"));
    let host = ["--host", "xeon-platinum-8480", "--device", "nfp6000", "--experiments", "lat_cmd_sizes"];
    let output =
        riser(&[&host[..], &["-o", &path, "--html", page.to_str().unwrap()]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let record = fs::read_to_string(out.join("nfp6000_xeon-platinum-8480/riser.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let warned: Vec<&str> =
        record["warnings"].as_array().unwrap().iter().filter_map(|w| w.as_str()).collect();
    assert!(warned.iter().any(|line| line.starts_with("device profile `nfp6000` has figures of Gen3 links")));
    let page = fs::read_to_string(page).unwrap();
    for line in warned {
        assert!(said(&output).contains(&format!("riser: warning: {line}")), "{}", said(&output));
        assert!(page.contains(&format!("Warning: {line}.")), "{line}");
    }
    let table = Command::new(env!("CARGO_BIN_EXE_riser")).args(["bench", "--host", "all"]).output().unwrap();
    assert_eq!(table.status.code(), Some(2));
    assert_eq!(said(&table), "riser: --host all requires --format pcie-bench\n");
}

/// Sorted names of a folder's contents.
fn names(folder: &Path) -> Vec<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = fs::read_dir(folder).into_iter().flatten().map(name).collect();
    names.sort();
    names
}

#[test]
fn ctrl_c_keeps_complete_files_and_next_run_continues() {
    let out = folder("ctrl-c");
    let (path, files) = (out.to_string_lossy().into_owned(), out.join("nfp6000_ideal"));
    let all = [
        "--host",
        "ideal",
        "-o",
        &path,
        "--jobs",
        "1",
        "--experiments",
        "lat_cmd_sizes,bw_dma_off_rd,bw_dma_off_wr",
    ];
    let child = riser(&all).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !files.join("lat_cmd_sizes.csv").exists() {
        assert!(Instant::now() < deadline, "nothing was written");
        sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(
        said(&output).contains("experiments left: run the same command again to continue"),
        "{}",
        said(&output)
    );
    assert_eq!(names(&files), ["lat_cmd_sizes.csv", "riser.json"]);

    let rest = riser(&["--host", "ideal", "-o", &path, "--experiments", "lat_cmd_sizes", "--json"])
        .output()
        .unwrap();
    assert_eq!(rest.status.code(), Some(0), "{}", said(&rest));
    let summary: serde_json::Value = serde_json::from_slice(&rest.stdout).unwrap();
    assert_eq!((&summary["experiments_kept"], &summary["rows_measured"]), (&1.into(), &0.into()));
}
