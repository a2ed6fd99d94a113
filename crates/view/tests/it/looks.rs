// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of the page in headless Chromium: widths, colours, and keys that change them. Without Chromium, these
//! tests are skipped and report this.

use crate::common;
use crate::common::{generate, page_file, types};
use serde_json::json;
use testkit::browser::Browser;

fn no_problems(browser: &mut Browser) {
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Resolves when panels, plots and lists have their final size.
const SETTLED: &str = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))\
                       .then(() => riser.idle())";

#[test]
#[ignore = "of .ci/long page"]
fn list_fills_the_space_of_hidden_plots() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("no-plots", &generate::generated(500));
    for width in [700, 1350] {
        browser.size(width, 850);
        browser.open(&page, "tab=latency");
        let list = "document.getElementById('list').getBoundingClientRect().height";
        let before = browser.eval(list).as_f64().unwrap();
        browser.key("g");
        browser.eval(SETTLED);
        let after = browser.eval(list).as_f64().unwrap();
        assert!(after > before + 200.0, "{width}: {before} to {after}");
        let rows = "document.querySelectorAll('.row:not([hidden])').length * 22";
        assert!(browser.eval(rows).as_f64().unwrap() >= after - 22.0, "{width}: rows fill the list");
        browser.key("g");
        browser.eval(SETTLED);
        assert_eq!(browser.eval(list).as_f64().unwrap(), before, "{width}: back again");
    }
    browser.size(0, 0);
    no_problems(&mut browser);
}

#[test]
#[ignore = "of .ci/long page"]
fn plots_fit_the_panel_in_any_order() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("fits", &generate::generated(2000));
    let sizes = "(() => { const { host } = riser.app; const svg = host.querySelector('svg.main-svg'); \
                 return [host.clientWidth, Number(svg.getAttribute('width'))]; })()";
    browser.open(&page, "tab=summary");
    for key in ["3", "1", "4", "2", "5", "1", "6"] {
        browser.key(key);
        browser.eval(SETTLED);
        let [panel, drawn] = [0, 1].map(|at| browser.eval(sizes)[at].as_f64().unwrap());
        assert_eq!(drawn, panel, "behind key {key}");
    }
    browser.size(900, 700);
    browser.eval(SETTLED);
    let narrow = browser.eval(sizes);
    assert_eq!(narrow, json!([900, 900]), "another size of the window");
    browser.size(0, 0);
    no_problems(&mut browser);
}

/// Tests captures with several links, with flow control and with every type, in windows of common sizes.
#[test]
#[ignore = "of .ci/long page"]
fn labels_of_plots_do_not_overlap_in_narrow_windows() {
    no_labels_overlap([(700, 600), (1400, 900)]);
}

#[test]
#[ignore = "of .ci/long page"]
fn labels_of_plots_do_not_overlap_in_higher_windows() {
    no_labels_overlap([(700, 700), (700, 900)]);
}

/// Panics if labels of a plot overlap in a window of one of these sizes.
fn no_labels_overlap(sizes: [(u32, u32); 2]) {
    let Some(mut browser) = Browser::take() else { return };
    let pages = [("lanes", generate::generated(2000)), ("types", types::every_type())];
    for (name, capture) in pages {
        let page = page_file(&format!("narrow-{name}"), &capture);
        browser.open(&page, "tab=summary");
        for (width, height) in sizes {
            browser.size(width, height);
            for tab in ["1", "2", "3", "4", "5", "6"] {
                browser.key(tab);
                browser.eval(SETTLED);
                let found = browser.overlapping_texts("#plot");
                assert_eq!(found, json!([]), "{name}: key {tab} at {width} x {height}");
            }
        }
    }
    browser.size(0, 0);
    no_problems(&mut browser);
}

#[test]
fn keys_work_after_the_filter_is_entered() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("filter-keys", &generate::generated(500));
    let state = "[document.activeElement.id, document.getElementById('expression').value, \
                 riser.app.filterText, document.documentElement.dataset.drawn]";
    let type_text = |browser: &mut Browser, text: &str| {
        browser.key("/");
        browser.call("Input.insertText", json!({"text": text}));
    };
    browser.open(&page, "tab=latency");
    type_text(&mut browser, "type=MRd");
    browser.key("Enter");
    browser.key("4");
    browser.eval(SETTLED);
    assert_eq!(browser.eval(state), json!(["list", "type=MRd", "type=MRd", "throughput"]));
    type_text(&mut browser, "type=MWr");
    browser.key("Escape");
    browser.key("3");
    browser.eval(SETTLED);
    assert_eq!(browser.eval(state), json!(["list", "", "", "tags"]));
    // An invalid filter keeps the focus for correction.
    type_text(&mut browser, "typ=MWr");
    browser.key("Enter");
    browser.key("1");
    assert_eq!(browser.eval(state), json!(["expression", "typ=MWr1", "", "tags"]));
    browser.key("Escape");
    no_problems(&mut browser);
}

#[test]
#[ignore = "of .ci/long page"]
fn kinds_have_one_colour_everywhere() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("colours", &types::every_type());
    for theme in ["light", "dark"] {
        browser.open(&page, &format!("tab=tags&theme={theme}"));
        // Types whose colour in the plot differs from their colour in the list.
        let strays = browser.eval(
            "(() => {
                const rgb = (text) => { const e = document.createElement('i'); e.style.color = text; document.body.append(e);
                    const c = getComputedStyle(e).color; e.remove(); return c; };
                const { app } = riser;
                const seen = new Map();
                for (const trace of app.host.data) if (trace.marker) seen.set(trace.name, rgb(trace.marker.color));
                const strays = [];
                for (const [name, colour] of seen) {
                    riser.setFilter(`type=${name}`);
                    for (const cell of ['type', 'way']) {
                        const shown = getComputedStyle(document.querySelector(`.row .${cell}`)).color;
                        if (shown !== colour) strays.push([name, cell, shown, colour]);
                    }
                }
                riser.setFilter('');
                return [strays, seen.size];
            })()",
        );
        assert_eq!(strays[0], json!([]), "{theme}");
        assert!(strays[1].as_u64().unwrap() >= 10, "{theme}: {strays}");
        // Reads, configuration writes and completions with data have different colours.
        let tints = browser.eval(
            "(() => { const all = riser.app.store.meta.formats.map((f) => f.name); const found = new Map();
               for (let row = 0; row < riser.app.store.count; row++) found.set(riser.app.headers.typeName(row), riser.app.headers.tint(row));
               return ['MRd', 'MWr', 'CfgRd0', 'CfgWr0', 'CplD', 'Cpl', 'Msg', 'CAS', 'IORd']
                 .map((n) => getComputedStyle(document.documentElement).getPropertyValue(`--${found.get(n)}`)); })()",
        );
        let tints: std::collections::BTreeSet<_> =
            tints.as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        assert_eq!(tints.len(), 9, "{theme}: {tints:?}");
        assert!(!tints.contains(""), "{theme}");
    }
    no_problems(&mut browser);
}

#[test]
fn long_paths_keep_the_file_name() {
    let Some(mut browser) = Browser::take() else { return };
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("long-path.html");
    let title = format!("/{}run-of-tuesday.pcapng", "a/very/long/way/down/".repeat(8));
    std::fs::write(&path, common::page(&title, &generate::generated(100))).unwrap();
    for width in [700, 1350] {
        browser.size(width, 850);
        browser.open(&path, "tab=summary");
        let name = "(() => { const e = document.querySelector('#title .name'); const b = e.getBoundingClientRect(); \
                    return [e.textContent, e.scrollWidth <= e.clientWidth, b.x >= 0 && b.right <= innerWidth]; })()";
        assert_eq!(browser.eval(name), json!(["run-of-tuesday.pcapng", true, true]), "{width}");
    }
    assert_eq!(browser.eval("document.title"), "run-of-tuesday.pcapng - riser trace");
    assert_eq!(browser.eval("document.getElementById('title').title"), title);
    browser.size(0, 0);
    no_problems(&mut browser);
}

#[test]
#[ignore = "of .ci/long page"]
fn columns_fit_at_every_width() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("columns", &generate::generated(100_000));
    for width in [700, 1000, 1350, 1920] {
        browser.size(width, 850);
        browser.open(&page, "tab=summary&select=90000");
        // Cells and headings whose text is cut off, except descriptions, which may end in an ellipsis. Also
        // elements outside the
        // window.
        let cut = browser.eval(
            "[...document.querySelectorAll('.head > *, .row:not([hidden]) > *, #tabs button, header button')]
                .filter((e) => e.offsetParent !== null || e.closest('header'))
                .filter((e) => (!e.matches('.info') && e.scrollWidth > e.clientWidth + 1) || e.getBoundingClientRect().right > innerWidth)
                .map((e) => `${e.className} ${e.textContent}`)",
        );
        assert_eq!(cut, json!([]), "{width}");
        let shown = browser
            .eval("[...document.querySelectorAll('.row.selected > *')].filter((e) => e.offsetParent).length");
        assert!(shown.as_u64().unwrap() >= 10, "{width}: {shown}");
    }
    browser.size(0, 0);
    no_problems(&mut browser);
}

#[test]
fn empty_plot_shows_the_command_that_records_data() {
    let Some(mut browser) = Browser::take() else { return };
    // Every type of TLP, but no DLLP.
    let page = page_file("nothing", &types::every_type());
    browser.open(&page, "tab=credits");
    let seen = "(() => { const e = document.getElementById('nothing'); const p = e.querySelector('p'); \
                return [parseFloat(getComputedStyle(p).fontSize) >= 18, p.textContent, e.querySelector('code')?.textContent ?? '']; })()";
    let how = "riser run LAB.toml --capture OUT.pcapng --dllps";
    let text = "This capture contains no flow-control DLLPs. Record them with the TLPs:";
    assert_eq!(browser.eval(seen), json!([true, text, how]));
    browser.eval("document.querySelectorAll('#tools button')[2].click(); riser.idle()");
    assert_eq!(
        browser.eval(seen),
        json!([true, "This capture contains no Acks. Record DLLPs with the TLPs:", how])
    );
    browser.eval("riser.showTab('tags')");
    assert_eq!(browser.eval("document.getElementById('nothing').hidden"), true);
    no_problems(&mut browser);
}
