// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page as a protocol analyzer, in headless Chromium: bytes, transactions that unfold, folded idle times, cursors,
//! bookmarks, sorting. Without Chromium, these tests are skipped and report this.

use crate::common::exchange::{exchange, sparse};
use crate::common::{count, for_each_record, generate, nettlp_captures, page_file, transactions};
use capture::matcher::Ack;
use capture::{Filter, Kind};
use serde_json::{Value, json};
use testkit::browser::Browser;

fn no_problems(browser: &mut Browser) {
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The lines of data in the details, by their title.
const DUMPS: &str = "Object.fromEntries([...document.querySelectorAll('#details .data')].map((s) => \
                     [s.querySelector('h3').textContent, s.querySelector('pre')?.textContent ?? '']))";

#[test]
fn shows_data_at_its_address() {
    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page_file("data", &exchange(1)), "tab=summary&select=1");
    // Three bytes before the first one are not enabled.
    let data = "100002000  00 00 00 72  69 73 65 72  ...riser\n";
    assert_eq!(browser.eval(DUMPS), json!({"Data": data}));
    let off = "[...document.querySelectorAll('.dump .off')].map((e) => e.textContent)";
    assert_eq!(browser.eval(off), json!(["00", "00", "00", ".", ".", "."]));
    // The data of both completions together, at the address of the read.
    browser.eval("riser.select(4); riser.idle()");
    let read = "103a  30 31 32 33  34 35 36 37  01234567\n1042  38 39                     89\n";
    assert_eq!(browser.eval(DUMPS), json!({"Data of the read": read}));
    browser.eval("riser.select(7); riser.idle()");
    assert_eq!(
        browser.eval(DUMPS),
        json!({"Data": "0000  36 37 38 39               6789\n", "Data of the read": read})
    );
    no_problems(&mut browser);
}

/// The page has every data byte of a capture if the limit allows it.
#[test]
fn page_has_every_data_byte() {
    let Some(mut browser) = Browser::take() else { return };
    let mut captures = vec![exchange(3)];
    captures.extend(nettlp_captures().first().map(|path| std::fs::read(path).unwrap()));
    for bytes in captures {
        browser.open(&page_file("bytes", &bytes), "tab=summary");
        let shown = browser.eval(
            "Promise.all(Array.from({ length: riser.app.store.count }, (_, row) => riser.payload(row)))
               .then((all) => all.map((bytes) => [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('')))",
        );
        let mut row = 0;
        for_each_record(&bytes, |record| {
            let due = match &record.kind {
                Kind::Tlp(tlp) => tlp.data.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => String::new(),
            };
            assert_eq!(shown[row], due, "record {}", record.number);
            row += 1;
        });
        assert_eq!(shown.as_array().map(Vec::len), Some(row));
    }
    no_problems(&mut browser);
}

#[test]
fn missing_data_is_explained() {
    let Some(mut browser) = Browser::take() else { return };
    // The capture has only the lengths of these data.
    browser.open(&page_file("lengths", &generate::generated(100)), "tab=summary");
    browser.eval(
        "riser.setFilter('type=MWr'); riser.select(riser.app.store.number[riser.app.rows[0]]); riser.idle()",
    );
    let said = "document.querySelector('#details .data .said').textContent";
    assert_eq!(browser.eval(said), "None of 256 B was captured.");
    // Imitates a page that has only the first bytes of data.
    browser.open(&page_file("part", &exchange(1)), "tab=summary");
    browser.eval("riser.app.store.meta.payloads[0].bytes = 4; riser.select(1); riser.idle()");
    let due =
        "The first 4 of 8 B are in this page, which keeps 6 MiB of packed data; riser trace -x shows all.";
    assert_eq!(browser.eval(said), due);
    no_problems(&mut browser);
}

/// Positions of the first and last record of both bursts in pixels, and the number of visible folds.
const BURSTS: &str = "(() => {
  const { app } = riser;
  const x = (number) => riser.pixelOf(app.store.time[app.store.number.indexOf(number)]);
  const last = app.store.count;
  const { shapes = [], annotations = [] } = app.host.layout;
  return [x(1), x(10), x(last - 9), x(last), shapes.length, annotations.map((a) => a.text).filter((t) => t.includes('idle'))];
})()";

#[test]
fn folds_and_unfolds_idle_time() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("folds", &exchange(2));
    browser.open(&page, "tab=summary");
    for tab in ["latency", "tags", "throughput", "outstanding", "credits"] {
        browser.eval(&format!("riser.showTab('{tab}').then(() => riser.idle())"));
        let folded = browser.eval(BURSTS);
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| folded[at].as_f64().unwrap());
        assert!(b - a > 300.0 && d - c > 300.0 && c > b, "{tab}: {folded}");
        assert_eq!((&folded[4], &folded[5]), (&json!(1), &json!(["100 ms idle"])), "{tab}");
        browser.key("f");
        browser.eval("riser.idle()");
        let plain = browser.eval(BURSTS);
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| plain[at].as_f64().unwrap());
        assert!(b - a < 1.0 && d - c < 1.0 && c - b > 500.0, "{tab}: {plain}");
        assert_eq!((&plain[4], &plain[5]), (&json!(0), &json!([])), "{tab}");
        assert!(browser.eval("location.hash").as_str().unwrap().contains("fold=off"), "{tab}");
        browser.click_on(
            "[...document.querySelectorAll('#tools button')].find((b) => b.textContent === 'Fold idle')",
        );
        browser.eval("riser.idle()");
        assert_eq!(browser.eval(BURSTS), folded, "{tab}: as before");
    }
    no_problems(&mut browser);
}

/// Picoseconds per nanosecond.
const NS: u64 = 1000;

/// The folds of a page: length of each in whole microseconds, and whether the page starts folded.
const FOLDS: &str = "(() => { const { folded, timeline } = riser.app;
  return [folded.folds.map((fold) => Math.round(fold.idle / 1e6)), timeline === folded]; })()";

/// Time of each TLP, and the response time of a read.
type Events = Vec<(u64, Option<u64>)>;

/// Rows: events in nanoseconds, and the expected folds in microseconds.
#[test]
#[ignore = "of .ci/long page"]
fn folds_only_long_idle_times() {
    let Some(mut browser) = Browser::take() else { return };
    let reads = |gap: u64, latency: u64, count: u64| -> Events {
        (0..count).map(|i| (i * (gap + latency), Some(latency))).collect()
    };
    let writes = |times: &[u64]| -> Events { times.iter().map(|&at| (at, None)).collect() };
    let rows: [(&str, Events, Value); 8] = [
        ("a read waits for 100 us", vec![(0, Some(100_000)), (101_000, Some(900))], json!([[], false])),
        ("reads after 4 us each, of 2 us", reads(4_000, 2_000, 5), json!([[], false])),
        (
            "reads after 1 ms each, of 2 us",
            reads(1_000_000, 2_000, 5),
            json!([[1000, 1000, 1000, 1000], true]),
        ),
        ("single writes", writes(&[0, 40_000, 80_000, 120_000]), json!([[], false])),
        ("and a longer gap", writes(&[0, 40_000, 80_000, 900_000]), json!([[820], true])),
        (
            "alike, but for the two at the end",
            writes(&[0, 40_000, 80_000, 120_000, 120_010]),
            json!([[], false]),
        ),
        ("half of what is left, but no longer than others", writes(&[0, 30_000, 60_000]), json!([[], false])),
        ("no more than half", vec![(0, Some(20_000)), (35_000, Some(9_000))], json!([[15], false])),
    ];
    for (name, events, due) in rows {
        let events: Vec<_> = events.iter().map(|&(at, waits)| (at * NS, waits.map(|ns| ns * NS))).collect();
        browser.open(&page_file("sparse", &sparse(&events)), "tab=latency");
        assert_eq!(browser.eval(FOLDS), due, "{name}");
    }
    // NetTLP's ping: for most of the 2.6 ms, the driver waits for the next packet.
    if let Some(ping) = nettlp_captures().into_iter().find(|path| path.ends_with("simple-nic-ping.pcap")) {
        browser.open(&page_file("sparse", &std::fs::read(ping).unwrap()), "tab=latency");
        assert_eq!(browser.eval(FOLDS), json!([[2461], true]));
    }
    no_problems(&mut browser);
}

/// A fold for a longer idle time is wider.
#[test]
fn longer_folds_are_wider() {
    let Some(mut browser) = Browser::take() else { return };
    let at = [0, 100_000, 100_000_000].map(|at| (at * NS, Some(1_000 * NS)));
    browser.open(&page_file("widths", &sparse(&at)), "tab=tags");
    let bands = "(() => { const { shapes, annotations, xaxis } = riser.app.host.layout;
                 return [shapes.map((s) => s.x1 - s.x0), annotations.map((a) => a.text), xaxis.title.text]; })()";
    let bands = browser.eval(bands);
    let [short, long] = [0, 1].map(|i| bands[0][i].as_f64().unwrap());
    assert!(long > 3.5 * short && long < 4.5 * short, "{bands}");
    assert_eq!(bands[1], json!(["99 µs idle", "99.9 ms idle"]));
    assert_eq!(bands[2], "Time since first frame, ns; 2 idle stretches folded, 100 ms");
    no_problems(&mut browser);
}

#[test]
fn folded_axis_shows_correct_times() {
    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page_file("folded-axis", &exchange(3)), "tab=throughput");
    // Converting each time to its position and back gives the same time, also within folds.
    let off = browser.eval(
        "(() => { const { timeline, store } = riser.app; let off = 0;
           for (let i = 0; i <= 1000; i++) { const ps = store.end * i / 1000; off = Math.max(off, Math.abs(timeline.toTime(timeline.toAxis(ps)) - ps)); }
           for (let row = 0; row < store.count; row++) off = Math.max(off, Math.abs(timeline.toTime(timeline.toAxis(store.time[row])) - store.time[row]));
           return [timeline.folds.length, off]; })()",
    );
    assert_eq!(off[0], 2, "{off}");
    assert!(off[1].as_f64().unwrap() < 1.0, "{off} ps");
    // Each tick has the time of its position.
    let wrong = browser.eval(
        "(() => { const { xaxis } = riser.app.host._fullLayout; const { time } = riser.app;
           const said = xaxis.ticktext.map((t) => Number(t.replaceAll(',', '')) * time.unit.ps);
           const wrong = said.filter((ps, i) => Math.abs(time.toTime(xaxis.tickvals[i]) - ps) > 1);
           return [wrong, said.filter((ps) => ps > 1e11).length > 0 && said.filter((ps) => ps < 1e9).length > 1]; })()",
    );
    assert_eq!(wrong, json!([[], true]));
    // Folding does not change the number of bits: 3 bursts of writes of 16 + 8 B (header of four DW), 24 B each.
    let bits = "(() => { const t = riser.app.host.data.find((t) => t.name === 'posted' && t.yaxis === 'y'); const { time } = riser.app;
                 return t.x.slice(0, -1).reduce((sum, x, i) => sum + t.y[i] * (time.toTime(t.x[i + 1]) - time.toTime(x)) / 1000, 0); })()";
    for key in ["", "f"] {
        if !key.is_empty() {
            browser.key(key);
            browser.eval("riser.idle()");
        }
        let bits = browser.eval(bits).as_f64().unwrap();
        assert!((bits - 3.0 * 24.0 * 8.0).abs() < 0.01, "{bits}");
    }
    no_problems(&mut browser);
}

/// A small time difference has as many digits as a latency.
#[test]
fn small_gaps_show_picoseconds() {
    let Some(mut browser) = Browser::take() else { return };
    let at = [(0, Some(3_046)), (1_002_500, Some(999_999)), (3_000_000_000, None)];
    browser.open(&page_file("gaps", &sparse(&at)), "tab=summary");
    let shown =
        browser.eval("[...document.querySelectorAll('.row:not([hidden]) .delta')].map((e) => e.textContent)");
    assert_eq!(shown, json!(["", "+3.046 ns", "+999.454 ns", "+999.999 ns", "+3 ms"]));
    no_problems(&mut browser);
}

#[test]
fn cursors_measure_time_tlps_and_data() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = exchange(1);
    let page = page_file("cursors", &bytes);
    browser.open(&page, "tab=tags");
    let text = "document.getElementById('cursor-text').textContent";
    browser.eval("riser.select(4)");
    browser.key("a");
    assert_eq!(browser.eval(text), "A 0.150000 µs");
    browser.eval("riser.select(7)");
    browser.key("b");
    // From record 4 at 150 ns to record 7 at 300 ns: a read and its completions of 2 and 1 DW.
    let due =
        "A 0.150000 µs   B 0.300000 µs   B − A 150 ns: 3 TLPs, 12 B of data, 640 Mb/s in both directions";
    assert_eq!(browser.eval(text), due);
    // The address restores the same view.
    let hash = browser.eval("location.hash").as_str().unwrap().trim_start_matches('#').to_owned();
    assert!(hash.contains("a=150000&b=300000"), "{hash}");
    browser.open(&page, &hash);
    assert_eq!(browser.eval(text), due);
    // The cursor is dragged near the first record, and snaps to it.
    let place = "(() => { const box = riser.app.host.getBoundingClientRect(); const { _size: s } = riser.app.host._fullLayout;
                  return [150000, 0].map((ps) => box.x + s.l + riser.pixelOf(ps)).concat(box.y + s.t + 40); })()";
    let place = browser.eval(place);
    let [from, to, y] = [0, 1, 2].map(|at| place[at].as_f64().unwrap());
    for (kind, x) in
        [("mouseMoved", from), ("mousePressed", from), ("mouseMoved", to + 3.0), ("mouseReleased", to + 3.0)]
    {
        let params = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
        browser.call("Input.dispatchMouseEvent", params);
    }
    browser.eval("riser.idle()");
    assert!(
        browser
            .eval(text)
            .as_str()
            .unwrap()
            .starts_with("A 0.000000 µs   B 0.300000 µs   B − A 300 ns: 5 TLPs")
    );
    // If the pointer is in the plot, a key sets a cursor there.
    browser.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": from + 1.0, "y": y}));
    browser.key("b");
    assert!(browser.eval(text).as_str().unwrap().contains("B 0.150000 µs   B − A 150 ns: 3 TLPs"));
    browser.click_on("document.getElementById('cursor-filter')");
    let filter = browser.eval("document.getElementById('expression').value");
    let shown = browser.eval("Number(document.documentElement.dataset.shown)");
    assert_eq!(shown, count(&bytes, filter.as_str().unwrap()), "{filter}");
    assert_eq!(shown, 4);
    browser.eval("riser.setFilter('')");
    browser.key("x");
    assert_eq!(browser.eval(text), "");
    no_problems(&mut browser);
}

#[test]
fn bookmarks_stay_in_the_address() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("bookmarks", &exchange(2));
    browser.open(&page, "tab=summary");
    for number in [7, 2] {
        browser.eval(&format!("riser.select({number})"));
        browser.key("m");
    }
    let note = "a, b: 100 % & <c>";
    browser.eval(&format!(
        "(() => {{ const field = document.querySelector('#marks li:nth-child(2) input'); field.value = {}; \
         field.dispatchEvent(new Event('change')); }})()",
        json!(note)
    ));
    let hash = browser.eval("location.hash").as_str().unwrap().trim_start_matches('#').to_owned();
    browser.open(&page, &hash);
    let marks = "[...riser.app.marks].map(([row, note]) => [riser.app.store.number[row], note])";
    assert_eq!(browser.eval(marks), json!([[2, ""], [7, note]]), "{hash}");
    assert_eq!(browser.eval("document.querySelector('#marks summary').textContent"), "Bookmarks (2)");
    let marked = "[...document.querySelectorAll('.row.marked .number')].map((e) => e.textContent)";
    assert_eq!(browser.eval(marked), json!(["2", "7"]));
    let selected = "document.documentElement.dataset.selected";
    for (key, number) in [("n", "7"), ("n", "2"), ("p", "7"), ("p", "2")] {
        browser.key(key);
        assert_eq!(browser.eval(selected), number, "{key}");
    }
    browser.key("m");
    assert_eq!(browser.eval(marks), json!([[7, note]]));
    // Invalid addresses do no harm.
    browser.open(&page, "marks=7:%25E0%25,99999,x,,-1,3:ok&a=x&sort=nothing&fold=maybe&list=all");
    assert_eq!(browser.eval(marks), json!([[3, "ok"], [7, "%E0%"]]));
    no_problems(&mut browser);
}

#[test]
fn click_on_a_column_sorts_rows() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = generate::generated(5000);
    browser.open(&page_file("sort", &bytes), "tab=summary&filter=tlp");
    // The values of a column from top to bottom. Rows without a value come last.
    let values = "(() => { const { app } = riser; const h = app.headers; const rows = [...app.shown.rows];
      const { store } = app; return { latency: rows.map((r) => store.response[r]), bytes: rows.map((r) => h.requestBytes(r)),
      type: rows.map((r) => h.typeName(r)), time: rows.map((r) => store.time[r]), tag: rows.map((r) => h.className(r) === 'P' ? null : h.tag(r)),
      info: rows.map((r) => h.hasAddress(r) ? h.addressHigh(r) * 4294967296 + h.addressLow(r) : null) }; })()";
    let plain = browser.eval(values);
    for (key, first_down) in [("latency", true), ("type", false), ("tag", false), ("info", false)] {
        for down in [first_down, !first_down] {
            browser.click_on(&format!("document.querySelector('.head .{key}')"));
            let sorted = browser.eval(values)[key].as_array().unwrap().clone();
            let place = sorted.iter().position(Value::is_null).unwrap_or(sorted.len());
            assert!(sorted[place..].iter().all(Value::is_null), "{key}: none last");
            let ordered = sorted[..place].windows(2).all(|pair| {
                if down { rank(&pair[0]) >= rank(&pair[1]) } else { rank(&pair[0]) <= rank(&pair[1]) }
            });
            assert!(ordered && place > 1, "{key}, down {down}");
            let hash = browser.eval("location.hash");
            assert!(
                hash.as_str().unwrap().contains(&format!("sort={}{key}", if down { "-" } else { "" })),
                "{hash}"
            );
        }
        browser.click_on(&format!("document.querySelector('.head .{key}')"));
        assert_eq!(browser.eval(values), plain, "{key}: as captured");
    }
    // The longest latency comes first, and keys move in this order.
    browser.click_on("document.querySelector('.head .latency')");
    browser.key("Home");
    let longest = "riser.app.store.response[riser.app.selected]";
    assert_eq!(browser.eval(longest), generate::WORST_PS);
    browser.key("ArrowDown");
    browser.key("ArrowDown");
    assert!(browser.eval(longest).as_u64().unwrap() < generate::WORST_PS);
    no_problems(&mut browser);
}

/// Returns a number or text to compare.
fn rank(value: &Value) -> (f64, &str) {
    value.as_str().map_or_else(|| (value.as_f64().unwrap(), ""), |text| (0.0, text))
}

/// Filters that select transactions.
const UNIT_FILTERS: [&str; 10] = [
    "type=MRd",
    "type=MRd and type=CplD",
    "not type=CplD",
    "type=MWr or len=1",
    "replay",
    "not replay and type=MRd",
    "error",
    "damaged",
    "time>100ns",
    "tag=7 and not completion",
];

#[test]
fn transactions_unfold_to_their_tlps_and_dllps() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = exchange(3);
    browser.open(&page_file("units", &bytes), "tab=summary&list=transactions");
    // Expected values from the capture's own tracker.
    let mut due: Vec<(u64, u64, u64, u64)> = transactions(&bytes, None)
        .iter()
        .map(|t| {
            let ack = |ack| if let Ack::Seen { number, .. } = ack { number } else { 0 };
            let packets = 1 + u64::from(t.completions) + u64::from(t.retries);
            (t.request_number, packets, ack(t.ack), ack(t.completion_ack))
        })
        .collect();
    due.sort_unstable();
    // The tracker knows only after the first Ack that the capture has Acks. The first write has ended before.
    due[0].2 = 3;
    let shown = browser.eval(
        "(() => { const { store } = riser.app; const units = riser.units(); const number = (row) => (row < 0 ? 0 : store.number[row]);
           return [...units.rows].map((unit) => { const last = store.lastAnswer[unit];
             return [number(unit), units.tlps(unit).length, number(units.ackOf(unit)), last < 0 ? 0 : number(units.ackOf(last))]; }); })()",
    );
    assert_eq!(shown, json!(due));
    // There is one line per transaction, which unfolds to the TLPs and DLLPs on the link in order.
    let lines = "[...document.querySelectorAll('.row:not([hidden])')].map((e) => [...e.querySelectorAll('.number, .type, .status')].map((c) => c.textContent).join(' ').trim())";
    let all = browser.eval(lines);
    assert_eq!(all.as_array().unwrap().len(), 9, "{all}");
    assert_eq!(all[0], "▸ 1 MWr");
    browser.click_on("document.querySelectorAll('.row')[1].querySelector('.number')");
    let opened = json!([
        "▸ 1 MWr",
        "▾ 4 MRd SC",
        "2 MRd damaged",
        "3 Nak",
        "4 MRd",
        "8 Ack",
        "5 CplD SC",
        "6 Ack",
        "7 CplD SC",
        "9 Ack",
        "▸ 10 MRd no answer"
    ]);
    assert_eq!(browser.eval(&format!("{lines}.slice(0, 11)")), opened);
    // Keys move into a transaction, out of it, and fold it.
    browser.key("ArrowDown");
    assert_eq!(browser.eval("document.documentElement.dataset.selected"), "2");
    browser.key("ArrowLeft");
    assert_eq!(browser.eval(&format!("{lines}.length")), 9);
    browser.key("Enter");
    assert_eq!(browser.eval(&format!("{lines}.slice(0, 11)")), opened);
    browser.click_on("document.getElementById('unfold-all')");
    assert_eq!(browser.eval(&format!("{lines}.length")), 9, "all folded");
    // Selecting a folded record unfolds its transaction. A DLLP without a transaction is in the list of records.
    browser.eval("riser.select(7)");
    assert_eq!(
        browser.eval("riser.app.mode + riser.app.shown.depths[riser.app.list.selected]"),
        "transactions1"
    );
    browser.eval("riser.select(20)");
    assert_eq!(browser.eval("riser.app.mode + riser.app.store.number[riser.app.selected]"), "records20");
    no_problems(&mut browser);
}

#[test]
fn filter_keeps_whole_transactions() {
    let Some(mut browser) = Browser::take() else { return };
    for bytes in [exchange(3), generate::generated(1000)] {
        browser.open(&page_file("unit-filters", &bytes), "tab=summary&list=transactions");
        for filter in UNIT_FILTERS {
            browser.eval(&format!("riser.setFilter({})", json!(filter)));
            let parsed: Filter = filter.parse().unwrap();
            let due = transactions(&bytes, Some(&parsed)).iter().filter(|t| parsed.holds_for(t)).count();
            assert_eq!(browser.eval("Number(document.documentElement.dataset.shown)"), due, "{filter}");
        }
    }
    no_problems(&mut browser);
}
