// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Overrides of a lab's file: any key, by path. Errors of overrides are found like errors of the file, and name the
//! override.

use lab::{Overrides, read, read_with};
use riser_session::Session;
use std::fs;
use std::path::{Path, PathBuf};

const LAB: &str = "\
version = 1
[[slot]]
name = \"nic\"
device = \"simple-nic\"
[[slot]]
name = \"gen 3\"
device = \"traffic\"
[[slot.traffic.flow]]
name = \"f\"
kind = \"write\"
count = 10
";

/// A separate file for each test.
fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, LAB).unwrap();
    path
}

fn settings(given: &[&str]) -> Overrides {
    Overrides::new(&given.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
}

#[test]
fn overrides_any_key() {
    let given = [
        "seed = 7",
        "slot.nic.link.gen=5",
        "slot.0.link.lanes = 16",
        "slot.\"gen 3\".traffic.flow.f.count=20",
        "slot.1.traffic.flow.1={ name = \"g\", kind = \"read\" }",
        "slot.1.traffic.flow.1.count=30",
        "link.root_credits.posted_header=0x10",
        "host.profile=xeon-e5-2637v3",
        "fault.0.slot=nic",
        "fault.0.direction=upstream",
        "fault.0.frames=tlp",
        "fault.0.nth=1",
        "fault.0.action=drop",
        "slot.2.name=m",
        "slot.m.device=memory",
        // The later override counts.
        "seed=8",
    ];
    let path = file("settings-any.toml");
    let file = read_with(&devices::models(), &path, &settings(&given)).unwrap_or_else(|e| panic!("{e}"));
    let lab = &file.lab;
    assert_eq!(lab.seed, 8);
    let link = &lab.slot[0].link;
    assert_eq!(link.generation.map(|g| g.0.generation()), Some(5));
    assert_eq!(link.lanes.map(|l| l.0.lanes()), Some(16));
    let flows = lab.slot[1].plan.as_ref().unwrap().settings::<devices::traffic::Flows>().unwrap();
    let counts: Vec<(&str, u64)> = flows.flow.iter().map(|f| (f.name.as_str(), f.count)).collect();
    assert_eq!(counts, [("f", 20), ("g", 30)]);
    assert_eq!(lab.link.root_credits.unwrap().posted_header, Some(16));
    assert_eq!(lab.host.profile.get_ref(), "xeon-e5-2637v3");
    assert_eq!((lab.fault.len(), lab.fault[0].slot.get_ref().as_str()), (1, "nic"));
    assert_eq!(lab.slot[2].name.get_ref(), "m");
    assert_eq!(lab.set, given);
    // The file does not contain this key.
    assert_eq!(
        (read(&devices::models(), &path).unwrap().lab.seed, fs::read_to_string(&path).unwrap().as_str()),
        (0, LAB)
    );
}

#[test]
fn report_lists_overrides() {
    let set = settings(&["slot.1.traffic.flow.f.count=5", "slot.nic.simple-nic.pings=2"]);
    let mut lab =
        Session::new(&read_with(&devices::models(), &file("settings-report.toml"), &set).unwrap()).unwrap();
    let stop = lab.fabric.run(fabric::Limits::default());
    let report = lab.report("settings.toml", &stop, 0.0);
    assert_eq!(report.set, ["slot.1.traffic.flow.f.count=5", "slot.nic.simple-nic.pings=2"]);
    let first = report.to_string();
    let first = first.lines().next().unwrap();
    let begin = "settings.toml --set slot.1.traffic.flow.f.count=5 --set slot.nic.simple-nic.pings=2: finished after ";
    assert!(first.starts_with(begin), "{first}");
}

#[test]
fn errors_name_the_override() {
    let rows = [
        ("link.gen=9", "generation 9, expected 1, 2, 3, 4, 5"),
        ("slot.nic.link.gen='3'", "gen is string \"3\", expected 1, 2, 3, 4, 5"),
        ("slot.nic.tags=0", "tags of 0, expected 1 to 768"),
        ("slot.nic.colour=3", "unknown field `colour`"),
        ("colour.of.the=3", "unknown field `colour`"),
        ("link.root_credits.posted_header=128", "Posted header credits 128; expected 1 to 127"),
        ("host.profile=cray-1", "no host profile `cray-1`"),
        (
            "slot.gpu.tags=4",
            "`slot`: no element `gpu`, expected `nic`, `gen 3`, or 0 to 2, the last of which adds one",
        ),
        ("slot.3.tags=4", "`slot`: no element `3`"),
        ("version.is=4", "`version`: is a value, not a table with `is`"),
        ("seed", "expected KEY=VALUE"),
        ("=3", "key ``, expected keys separated by dots"),
        ("slot..tags=3", "key `slot..tags`, expected keys separated by dots"),
        ("fault.0.slot=nic", "missing field `direction`"),
        ("fault.0={ slot = \"nic\" }", "missing field `direction`"),
    ];
    for (setting, part) in rows {
        let error = read_with(&devices::models(), &file("settings-wrong.toml"), &settings(&[setting]))
            .unwrap_err()
            .to_string();
        assert!(
            read_with(&devices::models(), &file("settings-wrong.toml"), &settings(&[setting]))
                .unwrap_err()
                .is_of_settings()
        );
        assert!(
            error.starts_with(&format!("--set {setting}: ")) && error.contains(part),
            "{setting}: {error}"
        );
    }
    // Errors of overrides and of the file come together, each with its own place.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settings-bad.toml");
    fs::write(&path, LAB.replace("count = 10", "count = 0")).unwrap();
    let error = read_with(&devices::models(), &path, &settings(&["slot.nic.tags=0"])).unwrap_err();
    let told: Vec<String> = error.all().iter().map(|e| e.to_string()).collect();
    assert!(told.len() == 2 && !error.is_of_settings(), "{told:?}");
    assert!(told[0].contains("settings-bad.toml:11:9: count of 0"), "{told:?}");
    assert!(told[1].starts_with("--set slot.nic.tags=0: tags of 0"), "{told:?}");
}
