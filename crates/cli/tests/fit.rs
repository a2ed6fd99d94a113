// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser fit` and `riser fidelity` as processes: on results that `riser bench` has written, and on what they refuse.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HSW: &str = "nfp6000-1.2GHz_hsw-Xeon-E5-2620v3_dell-t630-iommu";
const IB: &str = "nfp6000-1.2GHz_ib-Xeon-E5-2620v2_dell-t620-s0-s0-s0";

fn riser(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_riser")).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Results of one small experiment on `configuration`.
fn results(folder: &Path, configuration: &str) {
    let folder = folder.to_string_lossy();
    let suite = ["bench", "--format", "pcie-bench", "--only", "lat_cmd_sizes", "--host", configuration];
    let output = riser(&[&suite[..], &["-o", &folder]].concat());
    assert!(output.status.success(), "{}", said(&output));
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fit").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_profile_is_fitted_to_what_another_has_made() {
    let at = folder("fitted");
    let (data, profile) = (at.join("data"), at.join("my.toml"));
    results(&data, HSW);
    let (data, profile) = (data.to_string_lossy().into_owned(), profile.to_string_lossy().into_owned());
    let args = ["fit", &data, "-o", &profile, "--like", "xeon-e5-2637v3", "--json"];
    let output = riser(&args);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Host-warmed reads and write-then-reads of windows of 4 KiB are all there is.
    let figures = report["figures"].as_array().unwrap();
    let rows = |name: &str| figures.iter().find(|f| f["figure"] == name).unwrap()["rows"].as_u64().unwrap();
    assert!(rows("llc.core_snoop_latency_ps") > 0 && rows("memory_write_latency_ps") > 0, "{report}");
    assert_eq!(rows("iommu.page_walk_latency_ps"), 0, "{report}");
    let residual = report["residuals"]["families"][0]["mean_absolute_error_percent"].as_f64().unwrap();
    assert!(residual < 1.5, "{residual} %: a tick of the clock is 3 %");

    let again = riser(&args);
    assert_eq!(again.status.code(), Some(1), "it is there already");
    assert!(said(&again).contains("--force"), "{}", said(&again));
    // It says whose it is: nothing in it passes for a figure of the server that was measured and is of another.
    let text = fs::read_to_string(&profile).unwrap();
    let head = format!("description = \"{}, fitted\"\n", &HSW["nfp6000-1.2GHz_".len()..]);
    assert!(text.contains(&head) && !text.contains("supermicro"), "{text}");
    assert!(
        text.contains("source = \"fit: ") && text.contains("source = \"as xeon-e5-2637v3: hosts.json"),
        "{text}"
    );
    for line in text.lines().filter(|line| line.contains("source = \"")) {
        let own = ["fit: ", "as xeon-e5-2637v3: ", "the links of"];
        assert!(own.iter().any(|start| line.contains(&format!("source = \"{start}"))), "{line}");
    }
    // The profile is one: a lab runs on it.
    let bench =
        riser(&["bench", "--host", &profile, "--device", "nfp6000", "--suite", "LAT_RD", "--size", "64"]);
    assert!(bench.status.success(), "{}", said(&bench));

    let fidelity = riser(&["fidelity", &data]);
    assert!(fidelity.status.success(), "{}", said(&fidelity));
    let text = String::from_utf8_lossy(&fidelity.stdout).into_owned();
    assert!(text.contains("| LAT_CMD_SZ | 0.0 % |"), "its own results, with other samples: {text}");
}

/// A table of one's own says what its link was.
#[test]
fn a_table_is_fitted_and_its_link_is_used() {
    let at = folder("table");
    let (data, profile) = (at.join("mine"), at.join("mine.toml"));
    let (data, profile) = (data.to_string_lossy().into_owned(), profile.to_string_lossy().into_owned());
    let card = ["--device", "nfp6000", "--host", "xeon-gold-6342", "--gen", "4", "--lanes", "16"];
    let bench = ["bench", "--suite", "LAT_RD", "--size", "8", "64", "--transfers", "200", "-o", &data];
    assert!(riser(&[&bench[..], &card].concat()).status.success());
    let fit = riser(&["fit", &data, "-o", &profile, "--server", "My server", "--no-residuals"]);
    assert!(fit.status.success(), "{}", said(&fit));
    let text = fs::read_to_string(&profile).unwrap();
    assert!(text.contains("description = \"My server\"") && text.contains("gen = { value = 4,"), "{text}");
    assert!(text.contains("the results nfp6000_xeon-gold-6342_gen4x16,"), "{text}");

    let fidelity = riser(&["fidelity", &data]);
    assert_eq!(fidelity.status.code(), Some(1), "{}", said(&fidelity));
    assert!(said(&fidelity).contains("none of the published configurations"), "{}", said(&fidelity));
}

/// Figures of Gen3 links on a Gen5 one: said on standard error and in JSON, by whatever runs them.
#[test]
fn what_is_extrapolated_is_said() {
    let warning = "host profile `xeon-e5-2637v3` has figures of Gen3 links: on Gen5 they are extrapolated";
    let lab = folder("warned").join("lab.toml");
    let text = "version = 1\n[host]\nprofile = \"xeon-e5-2637v3\"\n[link]\ngen = 5\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n";
    fs::write(&lab, text).unwrap();
    let lab = lab.to_string_lossy().into_owned();
    let bench =
        ["bench", "--suite", "LAT_RD", "--size", "64", "--transfers", "20", "--warm-up", "1", "--json"];
    for args in
        [[&bench[..], &["--host", "xeon-e5-2637v3", "--gen", "5"]].concat(), vec!["run", &lab, "--json"]]
    {
        let output = riser(&args);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains(&format!("riser: warning: {warning}")), "{args:?}: {}", said(&output));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(json["warnings"][0].as_str().unwrap().starts_with(warning), "{args:?}: {json}");
    }
    // The link of the question is Gen3.
    let inflight = riser(&["model", "inflight", "--host", "xeon-gold-6342", "--json"]);
    let warning = "riser: warning: host profile `xeon-gold-6342` has figures of Gen4 links: on Gen3 they are";
    assert!(inflight.status.success() && said(&inflight).starts_with(warning), "{}", said(&inflight));
    let own = riser(&[&bench[..], &["--host", "xeon-e5-2637v3", "--gen", "3"]].concat());
    assert_eq!(said(&own), "");
    assert!(!String::from_utf8_lossy(&own.stdout).contains("warnings"));
}

/// What nobody can have measured is refused where it stands, by whatever reads it, and nothing is fitted to it.
#[test]
fn rows_that_cannot_be_are_named() {
    let at = folder("absurd");
    let (data, out) = (at.join("mine.csv"), at.join("x.toml"));
    let head = "host,device,gen,lanes,mps_bytes,mrrs_bytes,test,cache,pattern,host_offset_bytes,device_offset_bytes,\
                window_bytes,size_bytes,latency_ns_median\n";
    let (data, out) = (data.to_string_lossy().into_owned(), out.to_string_lossy().into_owned());
    for figure in ["0", "1e12", "1e300"] {
        let row = |figure: &str| format!("s,nic,3,8,256,512,LAT_RD,host-warm,random,0,0,8192,64,{figure}\n");
        fs::write(&data, [head, &row("600"), &row(figure)].concat()).unwrap();
        for args in [&["fit", &data, "-o", &out][..], &["compare", &data, &data]] {
            let output = riser(args);
            let expected =
                format!("riser: {data}:3: latency_ns_median `{figure}`: legal are 0.001 to 10^9 ns\n");
            assert_eq!((output.status.code(), said(&output)), (Some(1), expected), "{args:?}");
        }
        assert!(!Path::new(&out).exists());
    }
    // The longest latency that can be is no figure of a server, but it is one that a profile can hold.
    fs::write(&data, [head, "s,nic,3,8,256,512,LAT_RD,cold,random,0,0,8192,64,1e9\n"].concat()).unwrap();
    let fitted = riser(&["fit", &data, "-o", &out, "--no-residuals"]);
    assert!(fitted.status.success(), "{}", said(&fitted));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let (two, empty) = (folder("two"), folder("empty"));
    results(&two, HSW);
    results(&two, IB);
    let (two, empty) = (two.to_string_lossy().into_owned(), empty.to_string_lossy().into_owned());
    let one = format!("{two}/{IB}");
    let out = format!("{empty}/x.toml");
    for (args, status, message) in [
        (&["fit", &two, "-o", &out][..], 1, "results of two servers"),
        (&["fit", &empty, "-o", &out], 1, "no"),
        (&["fit", &two, "-o", &out, "--jobs", "0"], 2, "0 is not in 1..=256"),
        (&["fit", &two], 2, "--output"),
        (&["fit", &one, &one, "-o", &out], 1, "there are results of"),
        (&["fidelity", &two, "--only", "nothing-such"], 2, "leave nothing of"),
        (&["fidelity", &two, "--page", &out], 1, "x.toml"),
    ] {
        let output = riser(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{args:?}: {}", said(&output));
        assert!(!Path::new(&out).exists(), "{args:?}");
    }
}
