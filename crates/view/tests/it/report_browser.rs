// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report in headless Chromium: figures, values under the pointer, themes, downloaded files. Without Chromium,
//! these tests are skipped and report this.

use crate::common::report::{report, text_of};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::browser::Browser;

fn page(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}.html"));
    std::fs::write(&path, text_of(&report())).unwrap();
    path
}

fn no_problems(browser: &mut Browser) {
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Returns the middle of the `nth` mark of a series, scrolled into view.
fn mark_at(browser: &mut Browser, plot: usize, trace: usize, nth: usize) -> (f64, f64) {
    let place = browser.eval(&format!(
        "(() => {{ const host = riser.app.hosts[{plot}].host; host.scrollIntoView({{ block: 'center' }});
           const {{ xaxis, yaxis, _size: s }} = host._fullLayout; const t = host.data[{trace}];
           const b = host.getBoundingClientRect();
           return [b.x + s.l + xaxis.d2p(t.x[{nth}]), b.y + s.t + yaxis.d2p(t.y[{nth}])]; }})()"
    ));
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

/// Waits for the text under the pointer, and returns it.
fn hovered(browser: &mut Browser, (x, y): (f64, f64)) -> String {
    let moved = |browser: &mut Browser, x: f64| {
        browser.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    };
    let look = "[...document.querySelectorAll('.hoverlayer .hovertext')].map((e) => e.textContent).join('|')";
    let began = Instant::now();
    loop {
        moved(browser, x - 1.0);
        moved(browser, x);
        let text = browser.eval(&format!("new Promise((done) => setTimeout(() => done({look}), 60))"));
        match text.as_str() {
            Some(text) if !text.is_empty() => return text.to_owned(),
            _ => assert!(began.elapsed() < Duration::from_secs(20), "nothing under the pointer"),
        }
    }
}

/// Names of series as in `riser bench --html`, which are too long for one line of the legend.
#[test]
fn labels_of_figures_do_not_overlap_in_narrow_windows() {
    let Some(mut browser) = Browser::take() else { return };
    let mut narrow = report();
    let names = ["BW_DMA_RD", "Model (published form), Gen3 x8, MPS 256, MRRS 512", "40G Ethernet"];
    for plot in narrow.figures.iter_mut().flat_map(|figure| &mut figure.plots) {
        let first = plot.series[0].clone();
        plot.series =
            names.map(|name| riser_view::report::Series { name: name.into(), ..first.clone() }).into();
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-narrow.html");
    std::fs::write(&path, text_of(&narrow)).unwrap();
    for width in [700, 1000] {
        browser.size(width, 700);
        browser.open(&path, "");
        assert_eq!(browser.overlapping_texts(".plot"), json!([]), "{width}");
    }
    browser.size(0, 0);
    no_problems(&mut browser);
}

#[test]
fn draws_figures_and_lists_missing_data() {
    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page("drawn"), "");
    let drawn = "riser.app.hosts.map(({ host }) => host.querySelectorAll('.scatterlayer .trace').length)";
    assert_eq!(browser.eval(drawn), json!([2, 2]));
    // The first plot has one mark and one bar per point.
    let first = "(() => { const h = riser.app.hosts[0].host; return ['.points path', '.errorbar'].map((s) => h.querySelectorAll(s).length); })()";
    assert_eq!(browser.eval(first), json!([6, 3]));
    let ticks = browser
        .eval("[...riser.app.hosts[0].host.querySelectorAll('.xtick text')].map((e) => e.textContent)");
    let ticks: Vec<&str> = ticks.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(ticks.contains(&"4 KiB") && ticks.contains(&"1 MiB"), "{ticks:?}");
    let text =
        |selector: &str| format!("[...document.querySelectorAll('{selector}')].map((e) => e.textContent)");
    assert_eq!(
        browser.eval(&text(".figure h2")),
        json!(["Figure 7: Caches", "Figure 6: Tails", "Figure 8: NUMA"])
    );
    assert_eq!(browser.eval(&text(".lacks li")), json!(["An <E5> is missing.", "Needs two."]));
    assert_eq!(browser.eval(&text("#notes p")), json!(["a < b", "second"]));
    assert_eq!(browser.eval(&text("td")), json!(["BW_SZ", "1.25", "<i>LAT", "-3.10"]));
    assert_eq!(browser.eval(&text("td.number")), json!(["1.25", "-3.10"]));
    let legends = browser.eval(&text(".legendtext"));
    assert_eq!(legends, json!(["cold", "<b>warm", "E3, \"tail\"", "mark"]), "text, not markup");
    no_problems(&mut browser);
}

#[test]
fn figures_come_before_tables() {
    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page("order"), "");
    let tops = browser.eval(
        "['.figure .area', '#tables h2'].map((s) => document.querySelector(s).getBoundingClientRect().top + scrollY)",
    );
    let [figure, table] = [0, 1].map(|at| tops[at].as_f64().unwrap());
    assert!(figure < 450.0 && table > figure, "{tops}");
    // A click leads to the tables.
    let last = "[...document.querySelectorAll('#contents a')].pop()";
    assert_eq!(browser.eval(&format!("{last}.textContent")), "Tables");
    browser.click_on(last);
    let seen = "(() => { const b = document.querySelector('#tables h2').getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight; })()";
    assert_eq!(browser.eval(seen), true);
    no_problems(&mut browser);
}

#[test]
fn pointer_shows_values() {
    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page("hover"), "");
    // The text has a window, a value with its unit, and the ends of its bar.
    let place = mark_at(&mut browser, 0, 0, 2);
    let text = hovered(&mut browser, place);
    assert!(
        text.contains("1.5 MiB: 560 ns") && text.contains("minimum to 95th percentile: 540.5 ns to 600 ns"),
        "{text}"
    );
    assert!(text.contains("cold"), "{text}");
    let place = mark_at(&mut browser, 0, 1, 0);
    let text = hovered(&mut browser, place);
    assert!(text.contains("4 KiB: 430 ns") && text.contains("<b>warm"), "{text}");
    let place = mark_at(&mut browser, 1, 0, 1);
    let text = hovered(&mut browser, place);
    assert!(text.contains("1213 ns: 0.5"), "{text}");
    no_problems(&mut browser);
}

#[test]
fn theme_follows_system_and_button() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page("themes");
    let seen = "[getComputedStyle(document.body).backgroundColor, \
                riser.app.hosts[0].host.querySelector('.scatterlayer .trace .lines path').style.stroke]";
    let light = json!(["rgb(255, 255, 255)", "rgb(0, 114, 178)"]);
    let dark = json!(["rgb(15, 19, 24)", "rgb(86, 180, 233)"]);
    let system = |theme: &str| json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
    browser.call("Emulation.setEmulatedMedia", system("light"));
    browser.open(&page, "");
    assert_eq!(browser.eval(seen), light, "as the system");
    browser.click_on("document.getElementById('theme')");
    assert_eq!(browser.eval(&format!("riser.idle().then(() => {seen})")), dark, "switched");
    browser.open(&page, "theme=dark");
    assert_eq!(browser.eval(seen), dark);
    browser.call("Emulation.setEmulatedMedia", system("dark"));
    browser.open(&page, "theme=light");
    assert_eq!(browser.eval(seen), light);
    browser.open(&page, "");
    assert_eq!(browser.eval(seen), dark, "as the system");
    browser.call("Emulation.setEmulatedMedia", json!({"features": []}));
    no_problems(&mut browser);
}

/// Returns the JSON with all numbers as floats, because a page writes 506.0 as 506.
fn numbers(value: Value) -> Value {
    match value {
        Value::Number(n) => json!(n.as_f64()),
        Value::Array(all) => all.into_iter().map(numbers).collect(),
        Value::Object(all) => all.into_iter().map(|(key, value)| (key, numbers(value))).collect(),
        other => other,
    }
}

/// Waits for the download of a file to `folder`, and returns its text.
fn downloaded(folder: &Path, name: &str) -> String {
    let began = Instant::now();
    loop {
        match std::fs::read_to_string(folder.join(name)) {
            Ok(text) if !text.is_empty() => return text,
            _ => assert!(began.elapsed() < Duration::from_secs(20), "{name} does not come"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn downloads_data_as_csv_and_json() {
    let Some(mut browser) = Browser::take() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-downloads");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    browser.open(&page("download"), "");
    browser.call("Page.setDownloadBehavior", json!({"behavior": "allow", "downloadPath": folder}));
    browser.click_on("document.getElementById('download-json')");
    let json: Value = serde_json::from_str(&downloaded(&folder, "riser-report.json")).unwrap();
    assert_eq!(numbers(json), numbers(serde_json::to_value(report()).unwrap()));
    browser.click_on("document.getElementById('download-csv')");
    let csv = downloaded(&folder, "riser-report.csv");
    let lines: Vec<&str> = csv.split_terminator("\r\n").collect();
    // One line per point: 3 for each series, and 2 for the mark.
    assert_eq!(lines.len(), 1 + 3 + 3 + 3 + 2, "{csv}");
    assert_eq!(lines[0], "figure,plot,series,x_label,y_label,x,y,low,high");
    assert_eq!(lines[3], "figure7,Latency,cold,Window,\"Latency, ns\",1572864,560,540.5,600");
    assert_eq!(lines[4], "figure7,Latency,<b>warm,Window,\"Latency, ns\",4096,430,,");
    assert_eq!(lines[9], "figure6,Shares,\"E3, \"\"tail\"\"\",\"Latency, ns\",Share,5800000,1,,");
    // The data of one figure, from the button below its values.
    browser.eval("document.querySelectorAll('#figure6 details')[0].open = true");
    browser.eval("new Promise((done) => setTimeout(done, 100))");
    assert_eq!(browser.eval("document.querySelectorAll('#figure6 tbody tr').length"), 5);
    browser.eval("document.querySelector('#figure6 details button').click()");
    assert_eq!(downloaded(&folder, "riser-report-figure6.csv").lines().count(), 1 + 5);
    no_problems(&mut browser);
}
