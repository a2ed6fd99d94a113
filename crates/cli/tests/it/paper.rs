// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser paper`: the verdict in text, JSON and HTML, and the list of experiments.

use crate::common::{command, finish, riser, riser_ok};
use serde_json::Value;

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
