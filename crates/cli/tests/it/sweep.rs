// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser sweep` as a process: the shipped sweeps, and continuation of an interrupted one.

use crate::common::{command, riser, riser_ok};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn labs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/sweeps").canonicalize().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sweep").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&riser_ok(args)).unwrap()
}

#[test]
fn shipped_sweeps_give_expected_results() {
    let out = folder("ship");
    let link = json(&["sweep", text(&labs().join("link.toml")), "-o", text(&out.join("link")), "--json"]);
    assert_eq!((&link["recorded"], &link["outcomes"]["finished"]), (&126.into(), &126.into()));
    let of = |best: &Value, metric: &str| best["metrics"][metric].as_f64().unwrap();
    let best = link["best"].as_array().unwrap();
    assert!(!best.is_empty());
    for (a, b) in best.iter().flat_map(|a| best.iter().map(move |b| (a, b))) {
        let better = of(a, "read_gbps") > of(b, "read_gbps") && of(a, "lane_gts") < of(b, "lane_gts");
        assert!(!better, "{a} is better than {b}");
    }
    for name in ["results.parquet", "results.csv", "report.html", "journal.jsonl"] {
        assert!(fs::metadata(out.join("link").join(name)).unwrap().len() > 1_000, "{name}");
    }
    let page = fs::read_to_string(out.join("link/report.html")).unwrap();
    for word in
        ["\"parallel\":{\"axes\":[{\"label\":\"link.gen\"", "\"key\":\"pareto\"", "\"key\":\"response-0\""]
    {
        assert!(page.contains(word), "{word}");
    }
    // The host is fitted to Gen3 links; `riser run` warns about others.
    let warned = link["warnings"][0].as_str().unwrap();
    assert!(warned.contains("has figures of Gen3 links: on Gen4 they are extrapolated"), "{link}");
    // The number of points with warnings comes last.
    let last = link["warnings"].as_array().unwrap().last().unwrap();
    assert_eq!(last, "84 of 126 points have warnings", "{link}");
    assert!(page.contains(&format!("Warning: {warned}")), "{warned}");
    assert_eq!(link["basis"], "fitted", "{link}");
    let (file, folder) = (labs().join("link.toml"), out.join("link"));
    assert!(riser(&["sweep", text(&file), "-o", text(&folder), "--resume"]).stderr.contains(warned));
    // Halving finds the same best point as running all points with the full budget.
    let halving = labs().join("cheapest.toml");
    let file = fs::read_to_string(&halving).unwrap();
    let (head, rest) = file.split_once("[halving]").unwrap();
    let grid = format!(
        "{head}\"slot.card.pcie-bench.transfers\" = [4000]\n[metrics]{}",
        rest.split_once("[metrics]").unwrap().1
    );
    fs::copy(labs().join("read.toml"), out.join("read.toml")).unwrap();
    fs::write(out.join("grid.toml"), grid).unwrap();
    let halving = json(&["sweep", text(&halving), "-o", text(&out.join("halving")), "--json"]);
    let grid = json(&["sweep", text(&out.join("grid.toml")), "-o", text(&out.join("grid")), "--json"]);
    assert_eq!((&halving["points"], &grid["points"]), (&184.into(), &140.into()));
    let cost = |summary: &Value| -> Vec<f64> {
        let best = summary["best"].as_array().unwrap();
        assert!(!best.is_empty() && best.iter().all(|best| of(best, "read_gbps") >= 38.0), "{summary:#}");
        best.iter().map(|best| of(best, "cost")).collect()
    };
    let (by_halving, by_grid) = (cost(&halving), cost(&grid));
    assert!(by_halving.iter().chain(&by_grid).all(|cost| *cost == by_grid[0]), "{by_halving:?} {by_grid:?}");
}

const LAB: &str = "version = 1\n[[slot]]\nname = 'a'\ndevice = 'memory'\n";
const SWEEP: &str = "version = 1\nlab = 'lab.toml'\n[over]\n'link.gen' = [1, 2, 3, 4, 5]\n'slot.a.memory.exercise_bytes' = { from = 128, to = 16384, step = 128 }\n[metrics]\nns = { path = 'simulated_ns', aim = 'minimize' }\n";
const POINTS: usize = 640;

fn written(name: &str) -> PathBuf {
    let folder = folder(name);
    fs::write(folder.join("lab.toml"), LAB).unwrap();
    fs::write(folder.join("sweep.toml"), SWEEP).unwrap();
    folder
}

fn begin(folder: &Path, more: &[&str]) -> Child {
    let args = [&["sweep", "sweep.toml", "-o", "out"], more].concat();
    command(&args).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Points of the journal, in order of completion. An incomplete last line does not count.
fn journalled(folder: &Path) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("out/journal.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let point = |line: &str| serde_json::from_str::<Value>(&line[17..]).unwrap()["point"].as_u64().unwrap();
    whole.lines().skip(1).map(point).collect()
}

/// Names of the files in the sweep's folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder.join("out")).unwrap().map(name).collect();
    names.sort();
    names
}

/// Waits until the journal has 20 more records than `before`.
fn wait_for_records(folder: &Path, before: usize) {
    let begun = Instant::now();
    while journalled(folder).len() < before + 20 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no record comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, name: &str) {
    assert!(
        Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success()
    );
}

#[test]
fn continued_sweep_writes_same_bytes_as_uninterrupted_one() {
    let (straight, killed) = (written("straight"), written("killed"));
    assert!(begin(&straight, &["--workers", "1"]).wait_with_output().unwrap().status.success());
    let mut seen = BTreeSet::new();
    for (turn, with) in ["KILL", "INT", "TERM"].into_iter().enumerate() {
        let more: &[&str] = if turn == 0 { &["--workers", "3"] } else { &["--workers", "2", "--resume"] };
        let child = begin(&killed, more);
        wait_for_records(&killed, seen.len());
        signal(&child, with);
        let output = child.wait_with_output().unwrap();
        let now = journalled(&killed);
        let as_set: BTreeSet<u64> = now.iter().copied().collect();
        assert_eq!(as_set.len(), now.len(), "a point twice");
        assert!(as_set.is_superset(&seen) && as_set.len() < POINTS, "{turn}: {}", as_set.len());
        seen = as_set;
        if with != "KILL" {
            let told = String::from_utf8(output.stderr).unwrap();
            let says = format!(
                "riser: interrupted: {} of {POINTS} points are recorded; the same command with --resume continues\n",
                seen.len()
            );
            assert_eq!((output.status.code(), told), (Some(130), says));
        }
        assert!(!killed.join("out/results.parquet").exists());
        if with == "KILL" {
            assert!(files(&killed).iter().any(|name| name.ends_with(".part")));
        }
        if with == "INT" {
            let shown = String::from_utf8(output.stdout).unwrap();
            assert!(shown.ends_with("\n\nout/: journal.jsonl\n"), "{shown}");
            assert_eq!(
                files(&killed),
                ["journal.jsonl"],
                "a resumed sweep removes the files of the killed one"
            );
        }
    }
    let last = begin(&killed, &["--resume", "--json"]).wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&last.stdout).unwrap();
    assert_eq!((&summary["resumed"], &summary["recorded"]), (&seen.len().into(), &POINTS.into()));
    let mut all = journalled(&killed);
    all.sort_unstable();
    assert_eq!(all, (0..POINTS as u64).collect::<Vec<_>>());
    assert_eq!(files(&killed), ["journal.jsonl", "report.html", "results.csv", "results.parquet"]);
    let csv = fs::read_to_string(killed.join("out/results.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        (lines.len(), lines[0]),
        (POINTS + 1, "point,link.gen,slot.a.memory.exercise_bytes,ns,basis,outcome,error")
    );
    assert!(lines[1].starts_with("0,1,128,") && lines[1].ends_with(",finished,"), "{}", lines[1]);
    for name in ["results.parquet", "results.csv", "report.html"] {
        let read = |folder: &Path| fs::read(folder.join("out").join(name)).unwrap();
        assert!(read(&straight) == read(&killed), "{name} differs");
    }
}

#[test]
fn overwrites_nothing_without_force() {
    let folder = written("there");
    fs::write(folder.join("sweep.toml"), SWEEP.replace("to = 16384", "to = 256")).unwrap();
    let run = |more: &[&str]| {
        let output = begin(&folder, more).wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&[]), (0, String::new()));
    let before = fs::read(folder.join("out/journal.jsonl")).unwrap();
    assert_eq!(
        run(&[]),
        (1, "riser: out/journal.jsonl exists already: --resume continues it, --force replaces it\n".into())
    );
    assert_eq!(fs::read(folder.join("out/journal.jsonl")).unwrap(), before);
    // All points are recorded; only the results are written again.
    assert_eq!(run(&["--resume"]), (0, String::new()));
    assert_eq!(fs::read(folder.join("out/journal.jsonl")).unwrap(), before);
    fs::write(folder.join("lab.toml"), format!("{LAB}# changed\n")).unwrap();
    let (code, told) = run(&["--resume"]);
    assert!(
        code == 1
            && told.contains(
                "is of another sweep: this sweep, its lab, a file of the lab or riser has changed since"
            ),
        "{told}"
    );
    assert_eq!(run(&["--force"]), (0, String::new()));
    assert_eq!(run(&["--force", "--resume"]).0, 2);
}

#[test]
fn reports_invalid_sweeps() {
    let folder = written("wrong");
    for (file, code, says) in [
        (
            SWEEP.replace("'simulated_ns'", "'simulated'"),
            1,
            "riser: point 0: metric `ns`: no `simulated` in the report; known names: basis, cpu_seconds, devices, events, ",
        ),
        (
            SWEEP.replace("link.gen", "link.generation"),
            1,
            "riser: sweep.toml:4:1: unknown field `generation`, expected one of `gen`",
        ),
        (
            SWEEP.replace("[over]", "[ovr]"),
            1,
            "riser: sweep.toml:3:2: unknown field `ovr`, expected one of `version`, `lab`, `over`, `together`, `metrics`, `max_events`, \
             `sample`, `halving`; did you mean `over`?",
        ),
        (
            SWEEP.replace("lab.toml", "no.toml"),
            1,
            "riser: sweep.toml:2:7: lab `no.toml`: No such file or directory",
        ),
    ] {
        fs::write(folder.join("sweep.toml"), file).unwrap();
        let output = begin(&folder, &["--force"]).wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.starts_with(says), "{told}");
        assert_eq!(output.status.code(), Some(code));
    }
}

#[test]
fn sweep_with_rejected_points_writes_results_and_fails() {
    let folder = written("refused");
    let lab = "version = 1\n[[slot]]\nname = 'a'\ndevice = 'native'\nnative.library = 'lab.toml'\n";
    fs::write(folder.join("lab.toml"), lab).unwrap();
    let bytes = "'slot.a.memory.exercise_bytes' = { from = 128, to = 16384, step = 128 }\n";
    fs::write(folder.join("sweep.toml"), SWEEP.replace(bytes, "")).unwrap();
    let output = begin(&folder, &[]).wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("riser: no point was run: all 5 were refused, the first with: "), "{told}");
    assert!(told.contains("--allow-native"), "{told}");
    assert_eq!((output.status.code(), journalled(&folder).len()), (Some(1), 5));
    assert!(String::from_utf8(output.stdout).unwrap().contains("5 of 5 points: 5 refused"));
}
