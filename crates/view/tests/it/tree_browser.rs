// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a capture of several links, and a page within a frame, in headless Chromium. Without Chromium, these
//! tests are skipped and report this.

use crate::common::exchange::exchange;
use crate::common::tree::{FAILED, READS, tree};
use crate::common::{count, page, page_file, transactions};
use serde_json::{Value, json};
use std::path::Path;
use testkit::browser::Browser;

/// The text of one column of the rows in view.
fn column(browser: &mut Browser, name: &str) -> Vec<String> {
    let cells =
        format!("[...document.querySelectorAll('.row:not([hidden]) .{name}')].map((e) => e.textContent)");
    serde_json::from_value(browser.eval(&cells)).unwrap()
}

#[test]
fn transaction_over_two_links_is_one_row() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = tree();
    browser.size(1400, 1400);
    browser.open(&page_file("tree", &bytes), "tab=outstanding");

    // The list of records shows links by name.
    assert_eq!(
        column(&mut browser, "link")[..7],
        ["switch", "switch", "disk", "disk", "disk", "disk", "switch"]
    );
    for filter in [
        "slot=disk",
        "link=switch and dir=up",
        "link!=1",
        "end=device",
        "end=root",
        "probe",
        "error",
        "type=DLLP",
    ] {
        let shown = browser
            .eval(&format!("(riser.setFilter('{filter}'), Number(document.documentElement.dataset.shown))"));
        assert_eq!(shown, count(&bytes, filter), "{filter}");
    }
    // The page has every field that the capture crate defines.
    let missing = "[...riser.fields().values()]
        .filter((f) => (f.is_flag && !f.flag) || (f.kind && f.kind !== 'address' && !f.of)).map((f) => f.name)";
    assert_eq!(browser.eval(missing), json!([]));
    browser.eval("riser.setFilter('')");
    // The next error is not a bus probe.
    browser.key("e");
    assert_eq!(browser.eval("document.documentElement.dataset.selected"), FAILED.to_string());

    // Each transaction counts once.
    let most = "riser.idle().then(() => Math.max(...riser.app.host.data.filter((t) => t.name === '02:00.0').flatMap((t) => t.y)))";
    assert_eq!(browser.eval(most), READS);
    browser.eval("riser.showTab('summary')");
    let summary = browser.eval("riser.idle().then(() => document.getElementById('summary-view').innerText)");
    let summary = summary.as_str().unwrap();
    assert!(summary.contains("02:00.0\t4\t4\t256\t"), "{summary}");
    assert!(summary.contains("requests\t6") && summary.contains("probes\t1"), "{summary}");
    browser.eval("riser.setMode('transactions')");
    let all = transactions(&bytes, None).len();
    assert_eq!(browser.eval("Number(document.documentElement.dataset.shown)"), all);

    // A transaction unfolds to its TLPs on each link, with times: 1,200 ns in total, of which 400 ns are after the
    // switch.
    browser.eval("riser.select(3)");
    browser.key("Enter");
    assert_eq!(column(&mut browser, "link")[1..6], ["disk", "disk", "switch", "switch", "disk"]);
    let infos = column(&mut browser, "info");
    assert!(infos[1].ends_with(", 1 completion, 2 links"), "{infos:?}");
    assert!(
        infos[2].ends_with(", 800 ns from here on") && infos[3].ends_with(", 400 ns from here on"),
        "{infos:?}"
    );
    let details = browser.eval("document.getElementById('details').innerText");
    assert!(details.as_str().unwrap().contains("From switch on\n400 ns"), "{details}");

    // Plots show the transactions in the list, or a note if the list is empty.
    browser.eval("riser.showTab('latency')");
    browser.eval("riser.setFilter('slot=disk and tag=2 and time>1us')");
    let shown =
        "riser.idle().then(() => [Number(document.documentElement.dataset.shown), riser.app.worst.length])";
    assert_eq!(browser.eval(shown), json!([1, 1]));
    for (mode, what) in [("transactions", "transaction"), ("records", "record")] {
        browser.eval(&format!("(riser.setMode('{mode}'), riser.setFilter('slot=nic'))"));
        let said = browser.eval("riser.idle().then(() => document.getElementById('nothing').innerText)");
        assert_eq!(said.as_str().unwrap().trim(), format!("The filter keeps no {what}."));
    }
    browser.size(0, 0);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

/// Script for the page in a frame. It waits until the page is ready, enters a filter, and reports to the outer page.
const IN_FRAME: &str = "<script>(async () => {
  const { dataset } = document.documentElement;
  while (!dataset.ready && performance.now() < 10000) await new Promise((done) => setTimeout(done, 20));
  const box = document.getElementById('expression');
  box.value = 'type=MWr';
  box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
  parent.postMessage({ errors: dataset.errors, shown: dataset.shown, forms: String(document.forms.length) }, '*');
})();</script>";

/// Notebooks show the page in a frame without an origin and without forms.
#[test]
fn page_works_in_a_sandboxed_frame() {
    let Some(mut browser) = Browser::take() else { return };
    let inner = String::from_utf8(page("frame", &exchange(1))).unwrap() + IN_FRAME;
    let outer = format!(
        "<!doctype html><html data-errors='0'><script>riser = {{ idle: async () => {{}} }};\
         addEventListener('message', ({{ data }}) => Object.assign(document.documentElement.dataset, data, {{ ready: 'true' }}));\
         </script><iframe sandbox='allow-scripts' width='1200' height='800' srcdoc=\"{}\"></iframe>",
        inner.replace('&', "&amp;").replace('"', "&quot;")
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("framed.html");
    std::fs::write(&file, outer).unwrap();
    browser.open(&file, "");
    let told = browser
        .eval("(({ errors, shown, forms }) => [errors, shown, forms])(document.documentElement.dataset)");
    assert_eq!(told, Value::from(["0", "1", "0"].map(str::to_owned).to_vec()));
    assert_eq!(browser.problems(), Vec::<String>::new());
}
