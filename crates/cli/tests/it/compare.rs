// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser compare` on small folders of results, and its page in headless Chromium if that is installed.

use crate::common::{riser, riser_ok};
use bench::experiments::{Experiment, Key};
use bench::results::{BandwidthFigures, Figures, LatencyFigures, ResultRow, Spread, write};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use testkit::browser::Browser;

const HSW: &str = "nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro";

/// Returns an empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compare").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn row(key: Key, factor: f64) -> ResultRow {
    let size = f64::from(key.size_bytes);
    let ns = Spread {
        median: factor * (500.0 + size),
        min: 480.0,
        p95: 700.0 + size,
        max: 900.0,
        ..Spread::default()
    };
    let figures = match key.test.is_latency() {
        true => Figures::Latency(LatencyFigures { cycles: ns, ns, outliers: 0, samples: 10 }),
        false => {
            Figures::Bandwidth(BandwidthFigures { gbps: factor * size / 40.0, ..BandwidthFigures::default() })
        }
    };
    ResultRow { key, figures }
}

/// Writes an experiment whose values are multiplied by `factor`.
fn put(folder: &Path, configuration: &str, experiment: &str, factor: f64) {
    let rows: Vec<ResultRow> =
        Experiment::named(experiment).unwrap().rows().into_iter().map(|key| row(key, factor)).collect();
    fs::create_dir_all(folder.join(configuration)).unwrap();
    fs::write(folder.join(configuration).join(format!("{experiment}.csv")), write::table(&rows)).unwrap();
}

/// Creates two folders. Values of B are 10 % higher than values of A, and B lacks one experiment.
fn pair(name: &str) -> [String; 2] {
    let at = folder(name);
    let (a, b) = (at.join("measured"), at.join("simulated"));
    for experiment in ["lat_dma_sizes", "bw_dma_sz_sweep"] {
        put(&a, HSW, experiment, 1.0);
        put(&b, HSW, experiment, 1.1);
    }
    put(&a, HSW, "lat_dma_sizes_byte_inc", 1.0);
    [a, b].map(|path| path.display().to_string())
}

/// Lines of a text, with single spaces between words.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn prints_tables_of_experiments_families_and_score() {
    let [a, b] = pair("tables");
    let printed = lines(&riser_ok(&["compare", &a, &b]));
    for line in [
        "By experiment",
        "configuration experiment rows missing error % bias % worst % A B unit worst row",
        "hsw-Xeon-E5-2637v3_supermicro bw_dma_sz_sweep 120 0 10.00 +10.00 +10.00 0.40 0.44 Gb/s BW_DMA_RD Rand HWarm HO 0 DO 0 window 8192 size 16",
        "hsw-Xeon-E5-2637v3_supermicro lat_dma_sizes 30 0 10.00 +10.00 +10.00 504.00 554.40 ns LAT_DMA_RD Seq HWarm HO 0 DO 0 window 8192 size 4",
        "By family",
        "E5 BW_SZ error 10.00",
        // The missing file does not count without --whole.
        "E5 LAT_DMA_SZ error 10.00",
        "Score of B as a prediction of A: 150 of A's 278 rows that B has too; --whole counts the others as errors of 100 %",
        "E5 edge right 100.00",
        &format!("B lacks 1 experiment: {HSW}/lat_dma_sizes_byte_inc."),
    ] {
        assert!(printed.iter().any(|l| l == line), "no line {line:?} in {printed:#?}");
    }
    // One file deviates by 10 %, and the other is missing.
    let whole = lines(&riser_ok(&["compare", &a, &b, "--whole"]));
    for line in [
        "E5 LAT_DMA_SZ error 55.00",
        "Score of B as a prediction of A: all 278 rows of A; rows that B lacks count as errors of 100 %",
    ] {
        assert!(whole.iter().any(|l| l == line), "no line {line:?} in {whole:#?}");
    }
    // With A and B exchanged, 10 % above becomes 9.09 % below.
    let turned = riser_ok(&["compare", &b, &a]);
    assert!(turned.contains("-9.09") && turned.contains("A lacks 1 experiment:"), "{turned}");
}

#[test]
fn json_output_is_one_object() {
    let [a, b] = pair("json");
    let json: Value = serde_json::from_str(&riser_ok(&["compare", &a, &b, "--json"])).unwrap();
    let first = &json["experiments"][0];
    assert_eq!(
        (&first["experiment"], &first["mean_absolute_error_percent"]),
        (&json!("bw_dma_sz_sweep"), &json!(10.0))
    );
    assert_eq!(json["missing"]["experiments"], json!([format!("{HSW}/lat_dma_sizes_byte_inc")]));
    assert_eq!(json["score"][0]["mape_percent"], json!({"BW_SZ": 10.0, "LAT_DMA_SZ": 10.0}));
    // Experiments that were used for calibration do not count.
    let seen = folder("seen");
    put(&seen, HSW, "lat_dma_sizes_byte_inc", 1.0);
    let skip = seen.display().to_string();
    let json: Value =
        serde_json::from_str(&riser_ok(&["compare", &a, &b, "--json", "--skip", &skip])).unwrap();
    assert_eq!(json["score"][0]["mape_percent"], json!({"BW_SZ": 10.0, "LAT_DMA_SZ": 10.0}));
}

#[test]
fn compares_folders_of_one_configuration() {
    let [a, b] = pair("single");
    let (a, b) = (format!("{a}/{HSW}"), format!("{b}/renamed"));
    fs::rename(b.replace("renamed", HSW), &b).unwrap();
    assert!(riser_ok(&["compare", &a, &b]).contains("bw_dma_sz_sweep"));
}

/// Results of `riser bench -o` for two link widths, each with two payload sizes; and concatenated files.
#[test]
fn compares_sweeps() {
    let at = folder("sweeps");
    let bench = |name: &str, rest: &[&str]| {
        let out = at.join(name).display().to_string();
        let sweep = ["bench", "--suite", "LAT_RD", "BW_WR", "--size", "64", "256", "--transfers", "500"];
        let more = ["--warm-up", "100", "--mps", "128", "256", "--outstanding", "8", "16", "-o", &out];
        riser_ok(&[&sweep[..], &more[..], rest].concat());
        out
    };
    let (wide, narrow) = (bench("wide", &[]), bench("narrow", &["--lanes", "4"]));
    let found: Value = serde_json::from_str(&riser_ok(&["compare", &wide, &narrow, "--json"])).unwrap();
    let names: Vec<&Value> =
        found["experiments"].as_array().unwrap().iter().map(|e| &e["configuration"]).collect();
    // Rows are paired by the settings that vary within a file, not by the lanes, which differ between the files. Latency tests have no outstanding.
    let due = [
        "mps128",
        "mps128_outstanding16",
        "mps128_outstanding8",
        "mps256",
        "mps256_outstanding16",
        "mps256_outstanding8",
    ]
    .map(|name| json!(format!("ideal_ideal_gen3x8_{name}")));
    assert_eq!(names, due.iter().collect::<Vec<_>>());
    assert_eq!(found["scored"], json!({"rows": 12, "reference_rows": 12, "missing_rows_count": false}));
    let error = found["score"][0]["mape_percent"]["BW_WR"].as_f64().unwrap();
    assert!((error - 50.0).abs() < 2.0, "half the lanes, half the bandwidth: {error}");

    // In the concatenated file, the lanes are another setting that varies.
    let both = at.join("both.csv");
    let text =
        [&wide, &narrow].map(|path| fs::read_to_string(format!("{path}/results.csv")).unwrap()).concat();
    fs::write(&both, text).unwrap();
    let both = both.display().to_string();
    let found: Value = serde_json::from_str(&riser_ok(&["compare", &both, &narrow, "--json"])).unwrap();
    assert_eq!(found["missing"]["configurations"].as_array().unwrap().len(), 6, "{}", found["missing"]);
    assert_eq!(found["score"][0]["mape_percent"]["BW_WR"], 0.0);

    // Compared with the public format, rows are paired by their keys: this experiment has writes of 64 and 256 B in 8 KiB, host-warmed.
    let published = at.join("published");
    put(&published, HSW, "bw_dma_sz_sweep", 1.0);
    let one = at.join("one").display().to_string();
    riser_ok(&["bench", "--suite", "BW_WR", "--size", "64", "256", "--transfers", "500", "-o", &one]);
    let found: Value =
        serde_json::from_str(&riser_ok(&["compare", &published.display().to_string(), &one, "--json"]))
            .unwrap();
    assert_eq!(found["experiments"][0]["experiment"], "bw_dma_sz_sweep");
    assert_eq!((&found["experiments"][0]["rows"], &found["scored"]["rows"]), (&json!(2), &json!(2)));
}

#[test]
fn reports_invalid_inputs() {
    let [a, b] = pair("wrong");
    let elsewhere = folder("wrong/elsewhere");
    put(&elsewhere, "one", "lat_cmd_sizes", 1.0);
    put(&elsewhere, "two", "lat_cmd_sizes", 1.0);
    let damaged = folder("wrong/damaged");
    put(&damaged, HSW, "lat_cmd_sizes", 1.0);
    let file = damaged.join(HSW).join("lat_cmd_sizes.csv");
    fs::write(&file, fs::read_to_string(&file).unwrap().replacen("HWarm", "Lukewarm", 2)).unwrap();
    let lacking = folder("wrong/lacking");
    fs::write(lacking.join("results.csv"), "host,device,gen,test,size_bytes\nx,y,3,BW_WR,64\n").unwrap();
    let object = lacking.join("results.json");
    fs::write(&object, "{}").unwrap();
    let page = folder("wrong/page").join("there.html");
    fs::write(&page, "mine").unwrap();
    let text = |path: &Path| path.display().to_string();
    for (args, code, says) in [
        (vec![a.clone(), text(&elsewhere)], 1, "have no row in common: one has nfp6000"),
        (vec![a.clone(), text(&damaged)], 1, "lat_cmd_sizes.csv:2: Cache `Lukewarm`: expected Cold"),
        (
            vec![a.clone(), text(&lacking)],
            1,
            "results.csv:1: missing columns `lanes`, `mps_bytes`, `mrrs_bytes`, `cache`, `pattern`",
        ),
        (
            vec![a.clone(), text(&object)],
            1,
            "results.json: JSON, expected a table: give the folder, or its results.csv",
        ),
        (vec![a.clone(), text(&folder("wrong/empty"))], 1, "no results: looked for"),
        (vec![a.clone(), "no-such".to_owned()], 1, "no-such: "),
        (vec![a.clone(), b.clone(), "--html".to_owned(), text(&page)], 1, "exists: --force overwrites it"),
        (vec![a.clone()], 2, "<B>"),
    ] {
        let args: Vec<&str> = std::iter::once("compare").chain(args.iter().map(String::as_str)).collect();
        let outcome = riser(&args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (code, ""), "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(says),
            "{args:?}: {}",
            outcome.stderr
        );
    }
    assert_eq!(fs::read_to_string(&page).unwrap(), "mine");
}

/// The page for results of `riser bench -o` draws each test by its swept setting, and loads nothing from a network.
#[test]
fn page_draws_swept_tests() {
    let at = folder("page-tables");
    let bench = |name: &str, lanes: &str| {
        let out = at.join(name).display().to_string();
        let sweep = ["bench", "--suite", "LAT_RD", "BW_WR", "--size", "64", "256", "--transfers", "500"];
        riser_ok(&[&sweep[..], &["--mps", "128", "256", "--lanes", lanes, "-o", &out]].concat());
        out
    };
    let (a, b) = (bench("wide", "8"), bench("narrow", "4"));
    let page = at.join("report.html");
    riser_ok(&["compare", &a, &b, "--html", page.to_str().unwrap()]);
    let text = fs::read_to_string(&page).unwrap();
    let (_, rest) = text.split_once("<script type=\"application/json\" id=\"report\">").unwrap();
    let report: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let figures = report["figures"].as_array().unwrap();
    let titles =
        |f: &Value| f["plots"].as_array().unwrap().iter().map(|p| p["title"].clone()).collect::<Vec<_>>();
    let shown: Vec<Value> = figures.iter().map(|f| json!([f["key"], titles(f), f["notes"]])).collect();
    let plots = [
        "By transfer size",
        "Difference from wide by transfer size",
        "By mps_bytes",
        "Difference from wide by mps_bytes",
    ];
    assert_eq!(json!(shown), json!([["lat-rd", plots, []], ["bw-wr", plots, []]]));
    let half = &figures[1]["plots"][1]["series"][1];
    assert_eq!((&half["name"], &half["x"]), (&json!("mps_bytes 256"), &json!([64.0, 256.0])));
    let difference = half["y"][1].as_f64().unwrap();
    assert!((difference + 50.0).abs() < 2.0, "half the lanes, half the bandwidth: {difference}");
}

#[test]
fn page_draws_both_sets() {
    let [a, b] = pair("page");
    let page = folder("page-out").join("report.html");
    riser_ok(&["compare", &a, &b, "--html", page.to_str().unwrap()]);
    let again = page.with_file_name("again.html");
    riser_ok(&["compare", &a, &b, "--html", again.to_str().unwrap()]);
    assert!(fs::read(&page).unwrap() == fs::read(&again).unwrap(), "the same results make the same bytes");

    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page, "");
    let figures = browser.eval("riser.app.report.figures.map((f) => [f.key, f.plots.length])");
    let due = json!([
        ["figure4", 3],
        ["figure5", 1],
        ["figure1", 1],
        ["figure6", 0],
        ["figure7", 0],
        ["figure8", 0],
        ["figure9", 0]
    ]);
    assert_eq!(figures, due);
    let drawn = browser
        .eval("riser.app.hosts.map(({ host }) => host.querySelectorAll('.scatterlayer .trace').length)");
    // Lines, points, closed form and Ethernet of Figure 4; both latencies of both sets; curves of Figure 1.
    assert_eq!(drawn, json!([4, 4, 4, 4, 5]));
    let names =
        browser.eval("riser.app.hosts[3].plot.series.map((s) => [s.name, s.look, s.y[0].toFixed(1)])");
    let due = json!([
        ["LAT_DMA_RD", "line", "554.4"],
        ["LAT_DMA_RD, measured", "points", "504.0"],
        ["LAT_DMA_WRRD", "line", "554.4"],
        ["LAT_DMA_WRRD, measured", "points", "504.0"]
    ]);
    assert_eq!(names, due);
    let notes =
        browser.eval("[...document.querySelectorAll('#figure9 .lacks li')].map((e) => e.textContent)");
    assert!(notes[0].as_str().unwrap().starts_with("Needs bw_dma_win_sweep_rd_rnd_64"), "{notes}");
    let rows = browser.eval(
        "[...document.querySelectorAll('#tables section')].map((s) => s.querySelectorAll('tbody tr').length)",
    );
    assert_eq!(rows, json!([6, 2, 2, 1]));
    // Missing items are counted above, and listed in a folded table.
    let notes = browser.eval("riser.app.report.notes.slice(1)");
    assert_eq!(notes, json!([format!("{b} lacks 1 experiment: see the last table.")]));
    let listed = browser.eval(
        "(() => { const t = [...document.querySelectorAll('#tables section')].pop();
           return [t.querySelector('details').open, [...t.querySelectorAll('td')].map((e) => e.textContent)]; })()",
    );
    assert_eq!(listed, json!([false, [b, "experiment", format!("{HSW}/lat_dma_sizes_byte_inc")]]));
    assert!(browser.eval("riser.csv().split('\\r\\n').length").as_u64().unwrap() > 7000);
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}
