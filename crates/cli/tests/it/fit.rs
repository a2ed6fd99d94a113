// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser fit` and `riser fidelity` as processes: on results of `riser bench`, and with inputs that they reject.

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

/// Writes results of one small experiment on `configuration`.
fn results(folder: &Path, configuration: &str) {
    let folder = folder.to_string_lossy();
    let suite =
        ["bench", "--format", "pcie-bench", "--experiments", "lat_cmd_sizes", "--host", configuration];
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
fn fits_profile_to_results_of_another() {
    let at = folder("fitted");
    let (data, profile) = (at.join("data"), at.join("my.toml"));
    results(&data, HSW);
    let (data, profile) = (data.to_string_lossy().into_owned(), profile.to_string_lossy().into_owned());
    let args = ["fit", &data, "-o", &profile, "--like", "xeon-e5-2637v3", "--json"];
    let output = riser(&args);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The data contain only host-warmed reads and write-then-reads of windows of 4 KiB.
    let figures = report["figures"].as_array().unwrap();
    let rows = |name: &str| figures.iter().find(|f| f["figure"] == name).unwrap()["rows"].as_u64().unwrap();
    assert!(rows("root_complex_latency_ps") > 0 && rows("memory_write_latency_ps") > 0, "{report}");
    assert_eq!(rows("iommu.page_walk_latency_ps"), 0, "{report}");
    let residual = report["residuals"]["families"][0]["mean_absolute_error_percent"].as_f64().unwrap();
    assert!(residual < 1.5, "{residual} %: a tick of the clock is 3 %");

    let again = riser(&args);
    assert_eq!(again.status.code(), Some(1), "it is there already");
    assert!(said(&again).contains("--force"), "{}", said(&again));
    // The profile names the origin of each figure, so figures of another server cannot be taken for figures of the
    // measured one.
    let text = fs::read_to_string(&profile).unwrap();
    let head = format!("description = \"{}, fitted\"\n", &HSW["nfp6000-1.2GHz_".len()..]);
    assert!(text.contains(&head) && !text.contains("supermicro"), "{text}");
    assert!(
        text.contains("source = \"fit: ") && text.contains("source = \"as xeon-e5-2637v3: hosts.json"),
        "{text}"
    );
    for line in text.lines().filter(|line| line.contains("source = \"")) {
        let own = ["fit: ", "as xeon-e5-2637v3: ", "the links of the results"];
        assert!(own.iter().any(|start| line.contains(&format!("source = \"{start}"))), "{line}");
    }
    // A lab can run on the profile.
    let bench =
        riser(&["bench", "--host", &profile, "--device", "nfp6000", "--suite", "LAT_RD", "--size", "64"]);
    assert!(bench.status.success(), "{}", said(&bench));

    let fidelity = riser(&["fidelity", &data]);
    assert!(fidelity.status.success(), "{}", said(&fidelity));
    let text = String::from_utf8_lossy(&fidelity.stdout).into_owned();
    assert!(text.contains("| LAT_CMD_SZ | 0."), "its own results, with other samples: {text}");
}

/// A table of `riser bench -o` names its link.
#[test]
fn uses_link_of_fitted_table() {
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
    assert!(said(&fidelity).contains("not a published configuration"), "{}", said(&fidelity));
}

/// The default card is the one that the table names. A fit with this profile finds the figures that made the results;
/// no figure settles at another value. Another card is used on request, with a warning.
#[test]
fn uses_card_named_by_table() {
    let at = folder("card");
    let path = |name: &str| at.join(name).to_string_lossy().into_owned();
    let (data, profile) = (path("mine"), path("mine.toml"));
    let bench = ["bench", "--host", "xeon-e5-2620v3", "--device", "ideal", "--gen", "3", "--lanes", "8"];
    let rows = ["--suite", "LAT_RD", "--size", "64", "--transfers", "200", "-o", &data];
    assert!(riser(&[&bench[..], &rows].concat()).status.success());
    let fit = ["fit", &data, "-o", &profile, "--like", "xeon-e5-2620v3", "--no-residuals", "--force"];

    let own = riser(&[&fit[..], &["--json"]].concat());
    assert!(own.status.success(), "{}", said(&own));
    assert!(!said(&own).contains("measured with device"), "{}", said(&own));
    let report: Value = serde_json::from_slice(&own.stdout).unwrap();
    assert_eq!(report["devices"], serde_json::json!(["ideal"]));
    let off = |report: &Value| {
        let figures = report["figures"].as_array().unwrap();
        let shown = figures.iter().filter(|f| f["rows"].as_u64() > Some(0));
        shown.map(|f| f["last_step_ns"].as_f64().unwrap().abs()).fold(0.0, f64::max)
    };
    assert!(off(&report) < 0.5, "{report}");
    assert!(fs::read_to_string(&profile).unwrap().contains("with device profile\n# ideal."));

    // The latencies of that card alone exceed the results, so no time remains for the server.
    let other = riser(&[&fit[..], &["--device", "nfp6000"]].concat());
    assert_eq!(other.status.code(), Some(1), "{}", said(&other));
    for part in ["measured with device `ideal`, fitted with `nfp6000`", "the rows give -", "expected 0 to"] {
        assert!(said(&other).contains(part), "{}", said(&other));
    }

    let table = Path::new(&data).join("results.csv");
    let text = fs::read_to_string(&table).unwrap().replace(",ideal,", ",My card,");
    fs::write(&table, text).unwrap();
    let unknown = riser(&fit);
    assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
    for part in ["no device profile `My card`: expected ideal, nfp6000", "use --device to name the card"] {
        assert!(said(&unknown).contains(part), "{}", said(&unknown));
    }
}

/// Fits measurements of a Gen5 server without reads of lines that the device wrote. The fit begins with the profile of a Gen5 server, and
/// the report lists what the data determine. Warnings go to standard error, JSON and the profile. If the fit begins with a Gen3 profile, it
/// warns of extrapolation, and so do later runs with the fitted profile.
#[test]
fn fit_reports_what_data_determine() {
    let at = folder("determined");
    let path = |name: &str| at.join(name).to_string_lossy().into_owned();
    let (data, profile, older) = (path("mine.csv"), path("mine.toml"), path("older.toml"));
    let head = "host,device,gen,lanes,mps_bytes,mrrs_bytes,test,cache,pattern,host_offset_bytes,device_offset_bytes,\
                window_bytes,size_bytes,latency_ns_median\n";
    let row = |cache: &str, window: u32, size: u32, ns: u32| {
        format!("s,ideal,5,16,256,512,LAT_RD,{cache},random,0,0,{window},{size},{ns}\n")
    };
    let rows =
        [row("cold", 67_108_864, 64, 812), row("host-warm", 8192, 8, 735), row("host-warm", 8192, 64, 741)];
    fs::write(&data, head.to_owned() + &rows.concat()).unwrap();
    let output = riser(&["fit", &data, "-o", &profile, "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = |report: &Value, name: &str| {
        report["figures"].as_array().unwrap().iter().find(|f| f["figure"] == name).unwrap().clone()
    };
    let [root, snoop] =
        ["root_complex_latency_ps", "llc.core_snoop_latency_ps"].map(|name| figure(&report, name));
    assert_eq!((&root["determined"], &root["basis"]), (&true.into(), &"fitted".into()), "{root}");
    assert_eq!((&snoop["determined"], &snoop["basis"]), (&false.into(), &"assumed".into()), "{snoop}");
    assert_eq!(snoop["value_ps"], 20_000, "as on xeon-platinum-8480: {snoop}");
    assert_eq!(figure(&report, "completions.short_gap_ps")["last_step_ns"], 0.0, "the profile has none");
    assert!(
        report["residuals"]["families"][0]["mean_absolute_error_percent"].as_f64().unwrap() < 3.0,
        "{report}"
    );
    let text = fs::read_to_string(&profile).unwrap();
    let warned: Vec<&str> =
        report["warnings"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    assert!(
        warned.iter().any(|line| line.starts_with("llc.core_snoop_latency_ps: not determined")),
        "{warned:?}"
    );
    for line in &warned {
        assert!(said(&output).contains(&format!("riser: warning: {line}")), "{}", said(&output));
        assert!(text.contains(&format!("# Warning: {line}\n")), "{line}: {text}");
    }
    assert!(text.contains("as xeon-platinum-8480: ") && !text.contains("kept_gen"), "{text}");

    let output = riser(&["fit", &data, "-o", &older, "--like", "xeon-e5-2637v3", "--no-residuals"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("has figures of Gen3 links: on Gen5 they are extrapolated"),
        "{}",
        said(&output)
    );
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        shown.contains("\ndetermined by the data: root_complex_latency_ps\nas before: llc.core_snoop"),
        "{shown}"
    );
    let text = fs::read_to_string(&older).unwrap();
    assert!(text.contains("kept_gen = { value = 3, source = \"the links of xeon-e5-2637v3\" }"), "{text}");
    let bench = ["bench", "--suite", "LAT_RD", "--size", "64", "--transfers", "20", "--warm-up", "1"];
    let used = riser(&[&bench[..], &["--host", &older]].concat());
    assert!(used.status.success(), "{}", said(&used));
    let kept =
        "has figures that a fit has kept from another profile, of Gen3 links: on Gen5 they are extrapolated";
    assert!(said(&used).contains(kept), "{}", said(&used));

    // Picoseconds instead of nanoseconds.
    let absurd = [row("host-warm", 8192, 64, 741_000), row("host-warm", 8192, 8, 735_000)].concat();
    fs::write(&data, head.to_owned() + &absurd).unwrap();
    let output = riser(&["fit", &data, "-o", &profile, "--force"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("expected 0 to"), "{}", said(&output));
    assert_eq!(
        fs::read_to_string(&profile).unwrap().lines().next(),
        text.lines().next(),
        "what was there stays"
    );
}

/// Results have their basis in the report, in JSON and in every row of the table.
#[test]
fn results_name_their_basis() {
    let out = folder("basis").to_string_lossy().into_owned();
    let few = ["bench", "--size", "64", "--transfers", "500", "--warm-up", "100"];
    for (more, expected, words) in [
        (&["--host", "xeon-platinum-8480", "--suite", "LAT_RD"][..], &["assumed"][..], "basis: assumed"),
        (
            &["--host", "xeon-e5-2620v3", "--device", "netfpga-sume", "--suite", "LAT_RD", "BW_RD"],
            &["fitted", "assumed"],
            "basis: fitted (LAT_RD), assumed (BW_RD)",
        ),
    ] {
        let args = [&few[..], more, &["-o", &out, "--force"]].concat();
        let text = riser(&args);
        assert!(text.status.success(), "{}", said(&text));
        assert!(String::from_utf8_lossy(&text.stdout).contains(&format!("\n{words}\n")), "{words}");
        let json: Value = serde_json::from_slice(&riser(&[&args[..], &["--json"]].concat()).stdout).unwrap();
        let bases = json["tests"].as_array().unwrap().iter().map(|test| test["basis"].as_str().unwrap());
        assert_eq!(bases.collect::<Vec<_>>(), expected);
        assert_eq!(json["basis"], "assumed", "the weakest");
        let table = fs::read_to_string(Path::new(&out).join("results.csv")).unwrap();
        let columns: Vec<&str> = table.lines().filter_map(|line| line.rsplit(',').next()).collect();
        assert_eq!(columns, [&["basis"], expected].concat(), "{table}");
        let compared = riser(&["compare", &out, &out, "--json"]);
        let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
        assert_eq!(compared["other_basis"], "assumed", "{compared}");
    }
}

/// Results that determine no figure make no profile. The profile does not copy `not_predicted` of the original.
#[test]
fn fit_of_undetermined_figures_writes_no_profile() {
    let at = folder("nothing");
    let path = |name: &str| at.join(name).to_string_lossy().into_owned();
    let (writes, reads, profile) = (path("writes"), path("reads"), path("mine.toml"));
    let bench =
        ["bench", "--host", "xeon-e5-2630", "--device", "nfp6000", "--transfers", "200", "--size", "64"];
    assert!(riser(&[&bench[..], &["--suite", "BW_WR", "-o", &writes]].concat()).status.success());
    let fit = ["-o", &profile, "--like", "xeon-e5-2630", "--no-residuals"];
    let output = riser(&[&["fit", &writes][..], &fit].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for part in [
        &writes,
        "no figure can be fitted",
        "dram.latency_ps: reads of cold windows above 16 KiB, up to 256 KiB; transfers of at most 64 B at offset 0 (riser bench --suite LAT_RD",
    ] {
        assert!(said(&output).contains(part), "{}", said(&output));
    }
    assert!(!Path::new(&profile).exists());

    assert!(riser(&[&bench[..], &["--suite", "LAT_RD", "-o", &reads]].concat()).status.success());
    let output = riser(&[&["fit", &reads][..], &fit].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert!(!fs::read_to_string(&profile).unwrap().contains("not_predicted"));
}

/// A bench without arguments uses the link of its host profile, and its columns show that link.
#[test]
fn bench_uses_link_of_host_profile() {
    let bench =
        ["bench", "--suite", "LAT_RD", "--size", "64", "--transfers", "20", "--warm-up", "1", "--json"];
    let link = |more: &[&str]| -> [u64; 4] {
        let output = riser(&[&bench[..], more].concat());
        assert!(output.status.success(), "{}", said(&output));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        ["gen", "lanes", "mps_bytes", "mrrs_bytes"].map(|key| json["tests"][0][key].as_u64().unwrap())
    };
    for (host, expected) in [
        (&[][..], [3, 8, 256, 512]),
        (&["--host", "xeon-e3-1226v3"], [3, 8, 128, 512]),
        (&["--host", "xeon-e5-2630v4"], [3, 8, 256, 4096]),
        (&["--host", "xeon-gold-6342"], [4, 16, 256, 512]),
        (&["--host", "xeon-platinum-8480"], [5, 16, 256, 512]),
        (&["--host", "xeon-platinum-8480", "--lanes", "8", "--mps", "512"], [5, 8, 512, 512]),
    ] {
        assert_eq!(link(host), expected, "{host:?}");
    }
}

/// If a row fails, the rows before it are kept, as with Ctrl-C. An impossible link is rejected before anything is measured.
#[test]
fn keeps_rows_before_failed_row() {
    let at = folder("kept").join("out").to_string_lossy().into_owned();
    let few = ["bench", "--size", "64", "--transfers", "1", "--warm-up", "0", "-o", &at];
    let output = riser(&[&few[..], &["--suite", "LAT_RD", "BW_WR", "--json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let why = "BW_WR of 64 bytes: a bandwidth test needs more than 1 transfers: 1 of 2 rows were measured";
    assert!(said(&output).contains(why), "{}", said(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["interrupted"], json["tests"].as_array().unwrap().len()), (&why.into(), 1), "{json}");
    let rows = fs::read_to_string(Path::new(&at).join("results.csv")).unwrap();
    assert_eq!(rows.lines().filter(|line| line.contains(",LAT_RD,")).count(), 1, "{rows}");

    let other = format!("{at}-none");
    let sweep = [
        "bench",
        "--suite",
        "LAT_RD",
        "--size",
        "64",
        "--root-credits",
        "default",
        "32:64:1:1",
        "-o",
        &other,
    ];
    let output = riser(&sweep);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("NonPosted data credits 1; expected 2 to 2047"), "{}", said(&output));
    assert!(output.stdout.is_empty() && !Path::new(&other).exists());
}

/// Figures of Gen3 links on a Gen5 link cause a warning on standard error and in JSON, in every command that runs them.
#[test]
fn warns_of_extrapolated_figures() {
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
    let inflight = riser(&["model", "inflight", "--host", "xeon-gold-6342", "--gen", "3", "--json"]);
    let warning = "riser: warning: host profile `xeon-gold-6342` has figures of Gen4 links: on Gen3 they are";
    assert!(inflight.status.success() && said(&inflight).starts_with(warning), "{}", said(&inflight));
    let own = riser(&[&bench[..], &["--host", "xeon-e5-2637v3", "--gen", "3"]].concat());
    assert_eq!(said(&own), "");
    assert!(!String::from_utf8_lossy(&own.stdout).contains("warnings"));
}

/// Every reader rejects impossible measurements with their line, and no figure is fitted to them.
#[test]
fn rejects_impossible_rows() {
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
                format!("riser: {data}:3: latency_ns_median `{figure}`: expected 0.001 to 10^9 ns\n");
            assert_eq!((output.status.code(), said(&output)), (Some(1), expected), "{args:?}");
        }
        assert!(!Path::new(&out).exists());
    }
    // The largest latency that can be read is not a figure of a server.
    fs::write(&data, [head, "s,nfp6000,3,8,256,512,LAT_RD,cold,random,0,0,65536,64,1e9\n"].concat()).unwrap();
    let fitted = riser(&["fit", &data, "-o", &out, "--no-residuals"]);
    assert_eq!(fitted.status.code(), Some(1), "{}", said(&fitted));
    assert!(said(&fitted).contains("root_complex_latency_ps: the rows give 4999997"), "{}", said(&fitted));
    assert!(!Path::new(&out).exists());
}

#[test]
fn help_shows_default_sockets_as_argument() {
    let help = riser(&["fit", "--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("[default: 0,0,0]"));
}

/// The command in a warning, run with `riser bench`, produces the missing rows.
#[test]
fn warning_names_command_for_missing_rows() {
    let at = folder("missing");
    let path = |name: &str| at.join(name).to_string_lossy().into_owned();
    let fit = |data: &str, out: &str| {
        let output = riser(&["fit", data, "-o", out, "--no-residuals", "--json"]);
        assert!(output.status.success(), "{}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let figures = report["figures"].as_array().unwrap().clone();
        figures.into_iter().find(|figure| figure["figure"] == "dram.latency_ps").unwrap()
    };
    let host = ["--host", "xeon-e5-2637v3", "--device", "nfp6000", "--transfers", "100"];
    let bench = |more: &str, out: &str| {
        let words: Vec<&str> = more.split_whitespace().collect();
        let output = riser(&[&words[..], &host, &["-o", out]].concat());
        assert!(output.status.success(), "{}", said(&output));
    };
    let (warm, small) = (path("warm"), path("small"));
    bench("bench --suite LAT_RD --size 64 --cache host-warm", &warm);
    let dram = fit(&warm, &path("warm.toml"));
    let reason = dram["reason"].as_str().unwrap();
    let (_, command) = reason.split_once("at offset 0 (riser ").unwrap();
    bench(command.trim_end_matches(')'), &small);
    // Cold reads alone determine only the sum of two figures.
    let merged = path("merged");
    fs::create_dir(&merged).unwrap();
    let sheets = [&warm, &small].map(|folder| fs::read_to_string(format!("{folder}/results.csv")).unwrap());
    fs::write(format!("{merged}/results.csv"), sheets.concat()).unwrap();
    let dram = fit(&merged, &path("merged.toml"));
    assert_eq!(dram["determined"], true, "{dram}");
}

#[test]
fn rejects_invalid_arguments() {
    let (two, empty) = (folder("two"), folder("empty"));
    results(&two, HSW);
    results(&two, IB);
    let (two, empty) = (two.to_string_lossy().into_owned(), empty.to_string_lossy().into_owned());
    let one = format!("{two}/{IB}");
    let out = format!("{empty}/x.toml");
    for (args, status, message) in [
        (&["fit", &two, "-o", &out][..], 1, "results of two servers"),
        (&["fit", &empty, "-o", &out], 1, "no"),
        (&["fit", &two, "-o", &out, "--jobs", "0"], 2, "expected a whole number from 1 to 256"),
        (&["fit", &two], 2, "--output"),
        (&["fit", &one, &one, "-o", &out], 1, "an earlier folder has results of"),
        // Invalid even for a known configuration.
        (&["fit", &one, "-o", &out, "--mps", "100"], 2, "'100' for '--mps <BYTES>': "),
        (&["fit", &one, "-o", &out, "--mrrs", "64"], 2, "'64' for '--mrrs <BYTES>': "),
        (&["fit", &one, "-o", &out, "--iommu", "3k"], 2, "--iommu 3k: expected off, 4k"),
        (&["fit", &one, "-o", &out, "--sockets", "0,2,0"], 2, "--sockets: expected three numbers"),
        (&["fidelity", &two, "--configurations", "nothing-such"], 2, "match nothing in"),
        (&["fidelity", &two, "--page", &out], 1, "x.toml"),
    ] {
        let output = riser(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{args:?}: {}", said(&output));
        assert!(!Path::new(&out).exists(), "{args:?}");
    }
}
