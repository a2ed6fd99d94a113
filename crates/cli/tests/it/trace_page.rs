// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the page of a lab's capture, in headless Chromium if installed, with `riser trace --json`: the meaning of
//! TLPs, and their data.

use crate::common::riser_ok;
use serde_json::{Value, json};
use std::path::Path;
use testkit::browser::Browser;

#[test]
fn page_uses_same_names_as_trace() {
    let text = |name: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).display().to_string();
    let (capture, page) = (text("trace-page.pcapng"), text("trace-page.html"));
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/ping.toml");
    riser_ok(&["run", lab, "--capture", &capture, "--dllps", "--force"]);
    riser_ok(&["trace", &capture, "--html", &page, "--force"]);
    let records = riser_ok(&["trace", "-x", "--json", &capture]);
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();

    let Some(mut browser) = Browser::take() else { return };
    browser.open(page.as_ref(), "tab=summary");
    let shown = browser.eval(
        "Promise.all(Array.from({ length: riser.app.store.count }, async (_, row) => [riser.means(row),
           [...await riser.payload(row)].map((b) => b.toString(16).padStart(2, '0')).join('')]))",
    );
    let due: Vec<Value> = records
        .iter()
        .map(|r| json!([r["means"].as_str().unwrap_or(""), r["data"].as_str().unwrap_or("")]))
        .collect();
    assert_eq!(shown, json!(due));

    // In the list, and in the details.
    for means in
        ["MSI of 01:00.0, vector 0", "TX index (doorbell) = 0x2", "Command: Memory Space Enable", "Vendor ID"]
    {
        let names = |r: &&Value| r["means"].as_str().is_some_and(|m| m.contains(means));
        let record = records.iter().find(names).unwrap_or_else(|| panic!("no {means}"));
        browser.eval(&format!("riser.select({}); riser.idle()", record["number"]));
        let seen = browser
            .eval("['.row.selected .info', '#details dd'].map((s) => document.querySelector(s).textContent)");
        let whole = record["means"].as_str().unwrap();
        assert!(seen[0].as_str().unwrap().ends_with(whole), "{seen}");
        assert_eq!(seen[1], whole);
    }
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}
