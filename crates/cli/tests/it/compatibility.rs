// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that version 0.1 has read or written: later versions read, run and replay them with the same results, as
//! docs/compatibility.md promises. With `RISER_UPDATE_FIXTURES` set, the expected results are written; the inputs never change.

use crate::common::{riser, riser_ok};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fields of reports that a later version may change.
const FREE: [&str; 8] = [
    "cpu_seconds",
    "events",
    "folder",
    "lab",
    "simulation_cpu_seconds",
    "sweep",
    "wall_seconds",
    "workers_started",
];

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/0.1/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns an empty folder for the outputs of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compatibility").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the contents of the fixture. With `RISER_UPDATE_FIXTURES` set, writes `now` to it first.
fn expected(name: &str, now: &[u8]) -> Vec<u8> {
    if std::env::var_os("RISER_UPDATE_FIXTURES").is_some() {
        fs::write(fixture(name), now).unwrap();
    }
    fs::read(fixture(name)).unwrap()
}

/// Returns the JSON objects of a text as a list, without the fields in [`FREE`].
fn objects(text: &[u8]) -> Vec<Value> {
    let objects = serde_json::Deserializer::from_slice(text).into_iter();
    objects.map(|object| without_free(object.expect("JSON"))).collect()
}

fn without_free(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !FREE.contains(&name.as_str()));
            kept.map(|(name, value)| (name, without_free(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(without_free).collect(),
        value => value,
    }
}

/// Adds the paths of all values of `old` that `new` lacks or that differ. Fields that only `new` has are allowed.
fn compare(path: &str, old: &Value, new: &Value, lost: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, old) in fields {
                compare(&format!("{path}.{name}"), old, &new[name], lost);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{index}]"), old, new, lost);
            }
        }
        _ if old == new => {}
        _ => lost.push(format!("{path}: {old} became {new}")),
    }
}

/// Checks that the JSON objects of a text have all that those of the fixture have.
fn assert_keeps(name: &str, now: &str) {
    let now: String = objects(now.as_bytes()).iter().map(|object| format!("{object}\n")).collect();
    let old = expected(name, now.as_bytes());
    let mut lost = Vec::new();
    // Both are read from text, since reading a number may change its last digit.
    compare(name, &objects(&old).into(), &objects(now.as_bytes()).into(), &mut lost);
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn comparison_allows_new_fields_and_finds_lost_and_changed_ones() {
    let old = objects(br#"{"a": [{"b": 1, "c_ns": 2.5}], "cpu_seconds": 1}"#);
    let rows: [(&str, &[&str]); 5] = [
        (r#"{"a": [{"b": 1, "c_ns": 2.5, "new": true}], "cpu_seconds": 2}"#, &[]),
        (r#"{"a": [{"b": 1}]}"#, &["[0].a[0].c_ns: 2.5 became null"]),
        (r#"{"a": [{"b": "1", "c_ns": 2.5}]}"#, &[r#"[0].a[0].b: 1 became "1""#]),
        (r#"{"a": []}"#, &[r#"[0].a: [{"b":1,"c_ns":2.5}] became []"#]),
        ("", &[r#": [{"a":[{"b":1,"c_ns":2.5}]}] became []"#]),
    ];
    for (new, wanted) in rows {
        let mut lost = Vec::new();
        compare("", &old.clone().into(), &objects(new.as_bytes()).into(), &mut lost);
        assert_eq!(lost, wanted);
    }
}

/// Reports have all fields of 0.1 with the same values, so keys and defaults of labs and profiles have kept their meaning.
#[test]
fn labs_give_the_reports_of_0_1() {
    for lab in ["fabric", "devices", "bench", "replay"] {
        let report = riser_ok(&["run", &fixture(&format!("{lab}.toml")), "--json"]);
        assert_keeps(&format!("{lab}.json"), &report);
    }
}

#[test]
fn labs_with_hosts_and_designs_from_outside_are_valid() {
    let drawn = riser_ok(&["check", &fixture("external.toml")]);
    assert!(
        drawn.contains("host outside (external)") && drawn.contains("adapter: nettlp-adapter"),
        "{drawn}"
    );
    // The design is read, and only its library is missing.
    let checked = riser(&["check", &fixture("rtl.toml")]);
    let not_built = format!("not built; run `riser rtl build {}`", fixture("design.toml"));
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked.stdout.contains("design: rtl") && checked.stderr.contains(&not_built),
        "{}",
        checked.stderr
    );
}

/// A device that is compiled with the header of 0.1 runs.
#[test]
fn device_in_c_with_header_of_0_1_runs() {
    let folder = folder("native");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
        .arg(fixture("device.c"))
        .arg("-o")
        .arg(folder.join("device.so"))
        .output();
    let Ok(compiled) = compiled else {
        eprintln!("skipped: no cc");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let lab = folder.join("native.toml");
    fs::copy(fixture("native.toml"), &lab).unwrap();
    let report = riser_ok(&["run", lab.to_str().unwrap(), "--allow-native", "--json"]);
    assert_keeps("native.json", &report);
}

#[test]
fn sweep_of_0_1_runs_all_points() {
    let out = folder("sweep").join("out");
    let summary = riser_ok(&["sweep", &fixture("sweep.toml"), "-o", out.to_str().unwrap(), "--json"]);
    assert_keeps("sweep.json", &summary);
}

#[test]
fn capture_of_0_1_is_read() {
    let tlps = riser_ok(&["trace", &fixture("capture.pcapng"), "--filter", "dir=up", "--json"]);
    assert_keeps("capture.jsonl", &tlps);
}

#[test]
fn records_of_0_1_replay_to_the_same_bytes() {
    let folder = folder("records");
    for (world, name) in [("nettlp", "adapter"), ("guest", "guest")] {
        let capture = folder.join(format!("{name}.pcapng"));
        let record = fixture(&format!("{name}.rec"));
        riser_ok(&[world, "replay", &record, "--capture", capture.to_str().unwrap()]);
        let now = fs::read(capture).unwrap();
        assert!(now == expected(&format!("{name}.pcapng"), &now), "{name}.rec: the capture differs");
    }
}

/// All public names of the Python package in 0.1 are public names of the same module.
#[test]
fn python_package_has_the_names_of_0_1() {
    let names = fs::read_to_string(fixture("python.txt")).unwrap();
    let module = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/python/riser").join(name);
        let text = fs::read_to_string(file).unwrap();
        let (_, all) = text.split_once("__all__ = [").expect("a list of public names");
        all.split(']').next().unwrap().to_owned()
    };
    let lost: Vec<&str> = names
        .lines()
        .filter(|line| {
            let (file, name) = line.split_once(' ').expect("a file and a name");
            !module(file).contains(&format!("\"{name}\""))
        })
        .collect();
    assert!(lost.is_empty() && names.lines().count() > 50, "{lost:?}");
}
