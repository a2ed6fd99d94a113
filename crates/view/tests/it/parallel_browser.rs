// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parallel coordinates in headless Chromium: drawn lines, and selected ranges of axes. Without Chromium, these
//! tests are skipped and report this.

use crate::common::report::text_of;
use riser_view::report::{Coordinate, Figure, PageContent, Parallel, ReportError, Scale};
use serde_json::json;
use std::path::{Path, PathBuf};
use testkit::browser::Browser;

fn coordinate(label: &str, values: &[f64], scale: Scale) -> Coordinate {
    Coordinate { label: label.into(), values: values.to_vec(), names: Vec::new(), scale }
}

fn report() -> PageContent {
    let names = vec!["<b>ideal".to_owned(), "xeon".to_owned()];
    let axes = vec![
        coordinate("link.gen", &[3.0, 3.0, 4.0, 4.0], Scale::Linear),
        coordinate("bytes", &[64.0, 4096.0, 64.0, 4096.0], Scale::Bytes),
        Coordinate { names, ..coordinate("host.profile", &[0.0, 1.0, 0.0, 1.0], Scale::Linear) },
        coordinate("Gb/s", &[10.0, 20.0, 20.0, 40.0], Scale::Log),
    ];
    let parallel = Some(Parallel { axes, colour: 3 });
    let figure = Figure { key: "parallel".into(), title: "All".into(), parallel, ..Figure::default() };
    PageContent { title: "A sweep".into(), figures: vec![figure], ..PageContent::default() }
}

fn page(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("parallel-{name}.html"));
    std::fs::write(&path, text_of(&report())).unwrap();
    path
}

/// Drags along axis `axis` between two heights of the canvas. Returns the number of selected lines.
fn drag(browser: &mut Browser, axis: usize, from: f64, to: f64) -> serde_json::Value {
    let place = browser.eval(&format!(
        "(() => {{ const state = riser.app.parallels[0]; state.canvas.scrollIntoView({{ block: 'center' }});
           const b = state.canvas.getBoundingClientRect();
           return [b.x + 70 + (state.width - 140) * {axis} / 3, b.y]; }})()"
    ));
    let (x, y) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    for (kind, at) in [("mousePressed", from), ("mouseMoved", to), ("mouseReleased", to)] {
        let event =
            json!({"type": kind, "x": x, "y": y + at, "button": "left", "buttons": 1, "clickCount": 1});
        browser.call("Input.dispatchMouseEvent", event);
    }
    browser.eval("riser.app.parallels[0].lines")
}

#[test]
fn drags_select_ranges_and_clicks_remove_them() {
    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page("drag"), "");
    assert_eq!(browser.eval("riser.app.parallels[0].lines"), json!(4));
    let painted = "(() => { const c = riser.app.parallels[0].canvas; const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return d.filter((x, i) => i % 4 === 3 && x > 0).length; })()";
    assert!(browser.eval(painted).as_u64().unwrap() > 3_000);
    // From the top (46) to above the middle (the height is 420 minus margins): selects the larger generation.
    assert_eq!(drag(&mut browser, 0, 40.0, 150.0), json!(2));
    // Then selects the lower half of the bytes.
    assert_eq!(drag(&mut browser, 1, 395.0, 300.0), json!(1));
    assert_eq!(
        browser.eval("document.querySelector('.parallel p').textContent.split('.')[0]"),
        json!("1 of 4 points")
    );
    assert_eq!(drag(&mut browser, 0, 200.0, 200.0), json!(2), "let go");
    // On the logarithmic axis, 20 is in the middle between 10 and 40.
    assert_eq!(drag(&mut browser, 1, 200.0, 200.0), json!(4));
    assert_eq!(drag(&mut browser, 3, 180.0, 260.0), json!(2));
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn rejects_invalid_coordinates() {
    let error = |change: fn(&mut Parallel)| {
        let mut report = report();
        change(report.figures[0].parallel.as_mut().unwrap());
        report.check()
    };
    assert_eq!(error(|_| {}), Ok(()));
    assert_eq!(
        error(|p| p.axes[1].values.truncate(3)),
        Err(ReportError::Columns("bytes".into(), vec![4, 3, 4, 4]))
    );
    assert_eq!(error(|p| p.axes[3].values[0] = f64::NAN), Err(ReportError::Value("Gb/s".into())));
    assert_eq!(error(|p| p.axes[2].values[0] = 2.0), Err(ReportError::Value("host.profile".into())));
}
