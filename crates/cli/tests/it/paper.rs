// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser paper`: the verdict in text, JSON and HTML, and the list of experiments.

use crate::common::{command, finish, riser, riser_ok};
use crate::outputs::{signal, until};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Figure 9(d) of IISWC'18 is not reproduced: the first line says so, and which shape is missing.
#[test]
fn first_line_says_that_a_shape_is_not_reproduced() {
    let text = riser_ok(&["paper", "gem5-port-buffer"]);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("gem5-port-buffer: NOT REPRODUCED: a larger gain from 16 to 20"), "{first}");
    assert!(text.contains("timeouts, port buffer 20"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html").display().to_string();
    let json: Value =
        serde_json::from_str(&riser_ok(&["paper", "gem5-port-buffer", "--json", "--html", &page])).unwrap();
    let verdict = &json["experiments"][0]["verdict"];
    assert_eq!(verdict["outcome"], "not-reproduced");
    let missed = verdict["shapes"].as_array().unwrap().iter().filter(|s| s["reproduced"] == false);
    assert_eq!(missed.count(), 1, "{verdict}");
    let timeouts = &verdict["numbers"][0];
    assert_eq!((timeouts["paper"].as_f64(), &timeouts["within"]), (Some(27.0), &Value::Bool(true)));
    let html = std::fs::read_to_string(page).unwrap();
    let (lead, chart) = (html.find("NOT REPRODUCED").unwrap(), html.find("<svg").unwrap());
    assert!(lead < chart && html.contains("<td>timeouts, port buffer 16</td>"), "{html}");
}

#[test]
fn experiment_without_its_files_fails_with_the_reason() {
    let elsewhere = tempfile::tempdir().unwrap();
    let outcome = finish(command(&["paper", "gem5-dd"]).current_dir(elsewhere.path()));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));
    let reason = "gem5-dd: run: no file labs/papers/gem5-dd.toml here: run this in a checkout of riser";
    assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
}

/// `make` and the programs that it has started end with riser.
#[test]
fn signal_ends_the_programs_of_an_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let (programs, child) = (folder.path().join("bin"), folder.path().join("child"));
    fs::create_dir_all(folder.path().join("rtl/dma_engine")).unwrap();
    fs::create_dir(&programs).unwrap();
    let script =
        format!("#!/bin/sh\nsleep 1000 &\necho $! > {0}.part\nmv {0}.part {0}\nwait\n", child.display());
    for name in ["make", "yosys"] {
        let program = programs.join(name);
        fs::write(&program, &script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut riser = command(&["paper", "dma-engine-table1"]);
        let mut riser = riser.current_dir(folder.path()).env("PATH", &path).spawn().unwrap();
        until("the program has started", || child.exists());
        let id = fs::read_to_string(&child).unwrap();
        signal(&riser, name);
        assert_eq!(riser.wait().unwrap().code(), Some(status));
        // A process that has ended may stay as a zombie until its parent sees it.
        let state = || fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        until("the program has ended", || state().is_empty() || state().contains(") Z "));
        fs::remove_file(&child).unwrap();
    }
}

#[test]
fn unknown_experiment_lists_the_known_ones_by_paper() {
    let outcome = riser(&["paper", "gem5-figure-10"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("no experiment `gem5-figure-10`; known experiments:\n"),
        "{}",
        outcome.stderr
    );
    let list = riser_ok(&["paper"]);
    let mut of_paper = "";
    for line in list.lines() {
        match line.strip_prefix("  ") {
            None => of_paper = line,
            Some(entry) => {
                let name = entry.split_whitespace().next().unwrap();
                let known = outcome.stderr.lines().find(|l| l.trim_start().starts_with(of_paper)).unwrap();
                assert!(known.contains(name), "{known}: {name}");
            }
        }
    }
    assert_eq!(of_paper, "no paper");
}
