// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of the report's page: required and forbidden content, and rejected reports. Needs no browser.

use crate::common::report::{report, text_of};
use proptest::prelude::*;
use riser_view::report::{Figure, PageContent, Plot, Series, Table};
use serde_json::{Value, json};

fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"report\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn page_contains_the_report() {
    let page = text_of(&report());
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<title>Bandwidths &amp; &lt;latencies&gt; - riser report</title>"));
    let data = data(&page);
    assert_eq!(data, serde_json::to_value(report()).unwrap());
    assert_eq!(data["figures"][0]["plots"][0]["x"], json!({"label": "Window", "unit": "", "scale": "bytes"}));
    let series = &data["figures"][0]["plots"][0]["series"];
    assert_eq!(series[0]["bars"]["low"], json!([480.0, 480.0, 540.5]));
    assert_eq!((&series[1]["look"], series[1].get("bars")), (&json!("points"), None));
}

#[test]
fn equal_reports_give_equal_bytes() {
    assert_eq!(text_of(&report()), text_of(&report()));
}

#[test]
fn page_makes_no_network_requests() {
    let page = text_of(&report());
    assert!(page.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"));
    for asks in ["http://", "https://", " src=", "<link", "@import", "url("] {
        assert!(!page.contains(asks), "the page has {asks}");
    }
}

#[test]
fn rejects_invalid_reports_before_writing() {
    type Change = fn(&mut PageContent);
    let series = |r: &mut PageContent, change: fn(&mut Series)| change(&mut r.figures[0].plots[0].series[0]);
    let rows: [(Change, &str); 7] = [
        (
            |r| r.tables[0].rows[1].push(String::new()),
            "table \"Errors\" has a row of 3 cells: expected as many as its",
        ),
        (
            |r| r.figures[1].key = "figure7".into(),
            "figure key \"figure7\": expected a unique key of letters, digits and hyphens",
        ),
        (|r| r.figures[1].key = "a b".into(), "figure key \"a b\""),
        (|r| r.figures[1].key.clear(), "figure key \"\""),
        (
            |r| r.figures[0].plots[0].series[0].y[1] = f64::NAN,
            "series \"cold\" has a value that is not finite",
        ),
        (
            |r| r.figures[0].plots[0].series[1].x.clear(),
            "series \"<b>warm\" has columns of [0, 3] values: expected equal",
        ),
        (
            |r| r.figures[0].plots[0].series[0].bars.as_mut().unwrap().high.push(1.0),
            "series \"cold\" has columns of [3, 3, 3, 4] values",
        ),
    ];
    for (change, says) in rows {
        let mut report = report();
        change(&mut report);
        let mut out = Vec::new();
        let error = report.write(&mut out).unwrap_err();
        assert!(error.to_string().starts_with(says), "{error}");
        assert_eq!((error.kind(), out.len()), (std::io::ErrorKind::InvalidInput, 0));
    }
    let mut infinite = report();
    series(&mut infinite, |s| s.bars.as_mut().unwrap().low[0] = f64::NEG_INFINITY);
    assert!(infinite.check().is_err());
}

prop_compose! {
    fn any_series()(name in ".{0,20}", points in prop::collection::vec(any::<(i32, i32)>(), 0..5)) -> Series {
        // Multiples of 1/8, which JSON represents exactly.
        let (x, y) = points.into_iter().map(|(x, y)| (f64::from(x) / 8.0, f64::from(y) / 8.0)).unzip();
        Series { name, x, y, ..Series::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any untrusted text stays text.
    #[test]
    fn any_text_stays_text(
        title in ".{0,30}", note in ".{0,30}", cell in "[<>/a-z\"'&]{0,20}",
        series in prop::collection::vec(any_series(), 0..3),
    ) {
        let report = PageContent {
            title: format!("{title}</script><script>alert(1)</script>"),
            notes: vec![note],
            tables: vec![Table { title: "t".into(), columns: vec!["c".into()], rows: vec![vec![cell]], folded: false }],
            figures: vec![Figure { key: "f".into(), plots: vec![Plot { series, ..Plot::default() }], ..Figure::default() }],
        };
        let page = text_of(&report);
        prop_assert!(!page.contains("<script>alert"));
        prop_assert_eq!(data(&page), serde_json::to_value(&report).unwrap());
    }
}
