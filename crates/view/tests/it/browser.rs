// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page in headless Chromium: rows, filters, links between list and plots, time to first paint. Without
//! Chromium, these tests are skipped and report this.

use crate::common::{count, for_each_record, generate, nettlp_captures, page_file, transactions, types};
use capture::{Transaction, render};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use testkit::browser::Browser;

/// Maximum time to the first paint of a million TLPs in milliseconds.
const FIRST_PAINT_MS: u64 = 3000;

/// Script that returns the records of the page as objects with the names of `riser trace --json`. A field that a
/// record does not have is null.
const RECORDS: &str = "(() => {
  const { store, headers: h } = riser.app;
  return Array.from({ length: store.count }, (_, row) => {
    const tlp = store.kind[row] === 0;
    const is = (...families) => families.includes(h.family(row));
    const when = (has, value) => (has ? value() : null);
    const id = (bits) => [bits >> 8, (bits >> 3) & 31].map((n) => n.toString(16).padStart(2, '0')).join(':') + '.' + (bits & 7);
    const two32 = 4294967296;
    return {
      type: store.kind[row] === 1 ? 'dllp' : h.typeName(row),
      number: store.number[row],
      requester: when(tlp, () => id(h.requester(row))),
      completer: when(tlp && h.hasCompleter(row), () => id(h.completer(row))),
      tag: when(tlp, () => h.tag(row)),
      address: when(is('memory', 'io', 'atomic'), () => h.addressHigh(row) * two32 + h.addressLow(row)),
      length_dw: when(tlp && !(is('completion', 'message') && !h.hasData(row)), () => h.lengthDw(row)),
      request_bytes: when(is('memory'), () => h.requestBytes(row)),
      first_be: when(is('memory', 'io', 'config'), () => h.firstBe(row)),
      last_be: when(is('memory'), () => h.lastBe(row)),
      status: when(is('completion'), () => store.meta.statuses[h.status(row)]),
      byte_count: when(is('completion'), () => h.byteCount(row)),
      lower_address: when(is('completion'), () => h.lowerAddress(row)),
      register: when(is('config'), () => h.register(row)),
      message_code: when(is('message'), () => h.code(row)),
      pasid: when(store.prefixed[row], () => parseInt(store.meta.texts[store.text[row] - 1], 16) & 0xfffff),
      payload_bytes: when(tlp && h.hasData(row), () => h.payload(row)),
      source_port: when(store.path[row] > 0, () => store.meta.paths[store.path[row] - 1].source_port),
      nettlp_sequence: when(store.path[row] > 0 && store.kind[row] < 2, () => store.sequence[row]),
      nettlp_timestamp: when(store.path[row] > 0 && store.kind[row] < 2, () => store.stamp[row]),
    };
  });
})()";

/// Filters with all fields of `riser trace`.
const FILTERS: [&str; 31] = [
    "type=MRd",
    "type!=mrd",
    "type=CplD and tag=0x3",
    "tag=2..5",
    "not tag<8",
    "requester=1b:00.0 or requester=01:00.0",
    "completer=00:00.0",
    "addr=0x2f001000",
    "addr=0x0..0x100000000 and type=MWr",
    "addr>=0x100000000",
    "status!=success",
    "status=SC",
    "error",
    "time>20us",
    "time<=2us and completion",
    "latency>600ns",
    "dir=up",
    "len>=4",
    "bytes=64..257",
    "class=P or (dllp=UpdateFC and vc=0)",
    "dllp and not dllp=Ack",
    "origin=host",
    "number=10..20",
    "tlp and !request && !(replay || lost)",
    "prefix",
    "pasid=5",
    "ecrc=good",
    "ecrc and poisoned",
    "tc=1..8",
    "code>=0x10",
    "link=1 and interface=\"link3:downstream\"",
];

/// Returns the completed transaction with the longest latency, and the first of equal ones.
fn worst(bytes: &[u8]) -> Transaction {
    let answered = transactions(bytes, None).into_iter().filter(|t| t.completions > 0 && t.remaining == 0);
    answered.max_by_key(|t| (t.latency_ps(), std::cmp::Reverse(t.request_number))).unwrap()
}

fn no_problems(browser: &mut Browser) {
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Compares every record of the page with the capture.
fn same_records(browser: &mut Browser, bytes: &[u8]) {
    let shown = browser.eval(RECORDS);
    let shown = shown.as_array().unwrap();
    let (mut place, mut line) = (0, String::new());
    for_each_record(bytes, |record| {
        line.clear();
        render::json(record, &mut line);
        let object: Value = serde_json::from_str(&line).unwrap();
        for (name, value) in shown[place].as_object().unwrap() {
            // JSON may return an integer as a float without a fraction.
            let (found, due) = (value, object.get(name).unwrap_or(&Value::Null));
            let same = found == due || found.as_f64().is_some_and(|found| due.as_f64() == Some(found));
            let fault =
                object["type"] == "error" && ["nettlp_sequence", "nettlp_timestamp"].contains(&name.as_str());
            let none = name == "number" && record.number == 0;
            assert!(same || fault || none, "{name} is {found}, not {due}, of {line}");
        }
        place += 1;
    });
    assert_eq!(place, shown.len());
}

fn same_filters(browser: &mut Browser, bytes: &[u8]) {
    let mut filters = FILTERS.map(str::to_owned).to_vec();
    let mut first = None;
    for_each_record(bytes, |record| {
        if record.number == 5 {
            first = Some(record.timestamp.as_ps());
        }
    });
    let seconds = |ps: u128| format!("{}.{:012}s", ps / 1_000_000_000_000, ps % 1_000_000_000_000);
    filters.extend(first.map(|ps| format!("timestamp>={}", seconds(ps))));
    let list = serde_json::to_string(&filters).unwrap();
    let script = format!(
        "{list}.map((text) => {{ riser.setFilter(text); const d = document.documentElement.dataset; \
         return d.filterError ?? Number(d.shown); }})"
    );
    let counts = browser.eval(&script);
    for (filter, shown) in filters.iter().zip(counts.as_array().unwrap()) {
        assert_eq!(*shown, count(bytes, filter), "{filter}");
    }
    browser.eval("riser.setFilter('')");
}

#[test]
#[ignore = "of .ci/long page"]
fn shows_every_record_of_real_captures() {
    // Only the longest of the many captures of p4600 and x520, and the other two captures.
    let is_chosen = |path: &PathBuf| {
        let len = std::fs::metadata(path).map_or(0, |file| file.len());
        len > 9_000
            || path.ends_with("root-complex/mrd-512byte-rc.pcap")
            || path.ends_with("simple-nic/simple-nic-ping.pcap")
    };
    let captures: Vec<PathBuf> = nettlp_captures().into_iter().filter(is_chosen).collect();
    let Some(mut browser) = Browser::take() else { return };
    for capture in captures {
        let bytes = std::fs::read(&capture).unwrap();
        let page = page_file("real", &bytes);
        browser.open(&page, "tab=summary");
        println!("{}", capture.display());
        same_records(&mut browser, &bytes);
        same_filters(&mut browser, &bytes);
        no_problems(&mut browser);
    }
}

#[test]
fn shows_every_record_of_generated_capture() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = types::every_type();
    let page = page_file("types", &bytes);
    browser.open(&page, "tab=summary");
    same_records(&mut browser, &bytes);
    let names = browser.eval("[...new Set(riser.app.store.meta.formats.map((f) => f.name))].filter((n) => { riser.setFilter(`type=${n}`); return document.documentElement.dataset.shown === '0'; })");
    assert_eq!(names, json!([]), "types that the capture lacks");
    for filter in ["prefix", "pasid=5", "ecrc=good", "poisoned", "tc=1..8", "code>=0x10", "link=1"] {
        assert!(count(&bytes, filter) > 0, "{filter}");
    }
    same_filters(&mut browser, &bytes);
    let bytes = generate::generated(2000);
    let page = page_file("generated", &bytes);
    browser.open(&page, "tab=summary");
    same_records(&mut browser, &bytes);
    same_filters(&mut browser, &bytes);
    no_problems(&mut browser);
}

#[test]
fn worst_latency_selects_its_packets() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = generate::generated(20_000);
    let worst = worst(&bytes);
    assert_eq!(worst.latency_ps(), u128::from(generate::WORST_PS));
    let page = page_file("worst", &bytes);
    let selected = "document.documentElement.dataset.selected";
    let number = worst.request_number.to_string();

    // Selects it in the list of the longest latencies.
    browser.open(&page, "tab=latency");
    browser.click_on("document.querySelector('#worst button')");
    assert_eq!(browser.eval(selected), number);
    let row = "document.querySelector('.row.selected').textContent";
    assert!(browser.eval(row).as_str().unwrap().starts_with(&number));
    let steps = "[...document.querySelectorAll('.steps button')].map((b) => b.textContent.split(' ')[1])";
    assert_eq!(browser.eval(steps), json!(["MRd", "CplD", "CplD"]));

    // Selects its point in the plot, which has too many points for elements.
    browser.open(&page, "tab=latency");
    let point = "(() => { const { host, store, worst } = riser.app; const l = host._fullLayout; \
                 const b = host.getBoundingClientRect(); const at = (axis, ps, unit) => axis.l2p(ps / unit); \
                 return [b.x + l._size.l + l.xaxis.l2p(riser.app.cloud.scale.x(store.time[worst[0]])), \
                 b.y + l._size.t + at(l.yaxis, store.response[worst[0]], riser.app.cloud.scale.y)]; })()";
    let point = browser.eval(point);
    browser.click(point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
    assert_eq!(browser.eval(selected), number);

    // Selects it by a key, and by the address.
    browser.open(&page, "");
    browser.key("w");
    assert_eq!(browser.eval(selected), number);
    browser.key("j");
    let answer = browser.eval(selected);
    assert!(answer.as_str().unwrap().parse::<u64>().unwrap() > worst.request_number);
    browser.open(&page, "select=worst&tab=tags&filter=tag%3C32");
    assert_eq!(browser.eval(selected), number);
    no_problems(&mut browser);
}

#[test]
fn keys_move_the_selection_and_scroll() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = generate::generated(70_000);
    let page = page_file("keys", &bytes);
    browser.open(&page, "tab=summary");
    let rows = browser.eval("riser.app.store.count").as_u64().unwrap();
    let selected = "Number(document.documentElement.dataset.selected)";
    for (key, number) in [("End", rows), ("ArrowUp", rows - 1), ("Home", 1), ("ArrowDown", 2)] {
        browser.key(key);
        assert_eq!(browser.eval(selected), number, "{key}");
        let text = browser.eval("document.querySelector('.row.selected .number').textContent");
        assert_eq!(text, number.to_string());
    }
    // The number of elements does not depend on the length of the list.
    assert!(browser.eval("document.querySelectorAll('.row').length").as_u64().unwrap() < 60);
    // The list is drawn in the next frames, which take longer on a busy machine.
    let last = browser.eval(&format!(
        "new Promise((done) => {{
            const began = performance.now();
            const look = () => {{
                document.querySelector('.bar').scrollTop = 1e9;
                const last = [...document.querySelectorAll('.row:not([hidden]) .number')].pop().textContent;
                if (last === '{rows}' || performance.now() - began > 10000) done(last);
                else requestAnimationFrame(look);
            }};
            look();
        }})"
    ));
    assert_eq!(last, rows.to_string());
    no_problems(&mut browser);
}

#[test]
fn plots_show_the_data_of_the_capture() {
    let Some(mut browser) = Browser::take() else { return };
    // 10 rounds of 32 reads, 64 completions and 16 writes.
    let bytes = generate::generated(1120);
    let page = page_file("plots", &bytes);
    let range = |name: &str| {
        format!(
            "(() => {{ const y = riser.app.host.data.filter((t) => t.name === '{name}' && t.y).flatMap((t) => t.y); \
                 return [Math.min(...y), Math.max(...y)]; }})()"
        )
    };
    browser.open(&page, "tab=credits");
    // InitFC1 grants 1024 units of 16 B. The 16 writes of 256 B in a round use 256 units, and an UpdateFC returns them.
    assert_eq!(browser.eval(&range("P")), json!([768 * 16, 1024 * 16]));
    browser.eval("document.querySelectorAll('#tools button')[1].click(); riser.idle()");
    assert_eq!(browser.eval(&range("NP")), json!([32, 64]), "headers");
    browser.eval("document.querySelectorAll('#tools button')[2].click(); riser.idle()");
    // 32 reads of 16 B and 16 writes of 16 + 256 B are sent before their Ack.
    assert_eq!(browser.eval(&range("TLPs")), json!([0, 32 * 16 + 16 * 272]));
    browser.eval("riser.showTab('outstanding')");
    assert_eq!(browser.eval(&range("01:00.0")), json!([0, 32]));
    browser.eval("riser.showTab('throughput')");
    let gigabits = browser.eval("riser.app.host.data.filter((t) => t.name === 'posted').flatMap((t) => t.y).reduce((a, b) => a + b, 0)");
    let bins =
        browser.eval("(() => { const x = riser.app.host.data[0].x; return [x.length, x[1] - x[0]]; })()");
    // Gb/s times ns are bits: 10 rounds of 16 writes; the axis is in µs.
    let bits = gigabits.as_f64().unwrap() * bins[1].as_f64().unwrap() * 1000.0;
    assert!((bits - 160.0 * 272.0 * 8.0).abs() < 1.0, "{bits}");
    no_problems(&mut browser);
}

#[test]
#[ignore = "of .ci/long page"]
fn theme_follows_system_and_button() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("themes", &generate::generated(500));
    let ground = "getComputedStyle(document.body).backgroundColor";
    for (hash, colour) in [("theme=light", "rgb(255, 255, 255)"), ("theme=dark", "rgb(15, 19, 24)")] {
        browser.open(&page, hash);
        assert_eq!(browser.eval(ground), colour, "{hash}");
    }
    browser.call(
        "Emulation.setEmulatedMedia",
        json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
    );
    browser.open(&page, "");
    assert_eq!(browser.eval(ground), "rgb(15, 19, 24)", "as the system");
    browser.click_on("document.getElementById('theme')");
    assert_eq!(browser.eval(ground), "rgb(255, 255, 255)", "switched");
    browser.call("Emulation.setEmulatedMedia", json!({"features": []}));
    no_problems(&mut browser);
}

#[test]
fn marks_broken_rules() {
    let Some(mut browser) = Browser::take() else { return };
    browser.open(&page_file("broken", &generate::wrong_lower_address()), "");
    let due = "Lower Address 0x0, expected 0x4 (PCIe 6.0 §2.2.9.1, rule lower-address)";
    let shown = browser.eval("document.querySelector('.row.broken .info').textContent");
    assert!(shown.as_str().unwrap().contains(due), "{shown}");
    assert_eq!(browser.eval("document.querySelectorAll('.row.broken').length"), 1);
    browser.key("v");
    browser.eval("riser.idle().then(() => 0)");
    assert_eq!(browser.eval("document.querySelector('#details .broken li').textContent"), due);
    let summary = browser.eval("document.getElementById('summary').textContent");
    assert!(summary.as_str().unwrap().contains("1 violation (v)"), "{summary}");
    no_problems(&mut browser);
}

#[test]
fn invalid_filter_shows_an_error() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("wrong", &generate::generated(500));
    browser.open(&page, "tab=summary");
    let all = browser.eval("document.documentElement.dataset.shown");
    let rows = [
        ("typ=MRd", "unknown field \"typ\": expected one of type, tag,"),
        ("type", "type needs a value: expected a type of TLP"),
        ("type<MRd", "type is not a number: expected = or !="),
        ("type=MRb", "\"MRb\" is not a value of type: expected a type of TLP"),
        ("(tag=1", "not closed"),
        ("tag=1 tag=2", "expected and, or"),
        ("tag=x", "\"x\" is not a value of tag: expected 0 to 1023"),
        ("requester=1", "bus:device.function such as 01:00.0"),
        ("", ""),
    ];
    for (filter, said) in rows {
        browser.eval(&format!("riser.setFilter({})", Value::from(filter)));
        let text = browser.eval("document.documentElement.dataset.filterError ?? ''");
        assert!(text.as_str().unwrap().contains(said), "{filter}: {text}");
        assert_eq!(browser.eval("document.documentElement.dataset.shown"), all, "{filter}");
    }
    no_problems(&mut browser);
}

#[test]
fn visible_time_range_becomes_filter() {
    let Some(mut browser) = Browser::take() else { return };
    let mut captures = vec![generate::generated(3000)];
    captures.extend(nettlp_captures().last().map(|path| std::fs::read(path).unwrap()));
    for bytes in captures {
        let page = page_file("range", &bytes);
        browser.open(&page, "tab=latency&filter=type%3DMRd+or+type%3DCplD");
        browser.eval("riser.setRange([riser.app.store.end * 0.25, riser.app.store.end * 0.5])");
        browser.click_on("document.querySelector('#tools button:last-child')");
        let expression = browser.eval("document.getElementById('expression').value");
        let shown = browser.eval("Number(document.documentElement.dataset.shown)");
        assert_eq!(shown, count(&bytes, expression.as_str().unwrap()), "{expression}");
        let all = count(&bytes, "type=MRd or type=CplD");
        assert!((1..all).contains(&shown.as_u64().unwrap()), "{shown} of {all}");
    }
    no_problems(&mut browser);
}

fn first_paint(browser: &mut Browser, page: &Path) -> u64 {
    browser.open_first(page, "tab=latency");
    let times = browser.eval(
        "['firstPaintMs', 'loadedMs', 'drawnMs'].map((n) => Number(document.documentElement.dataset[n]))",
    );
    println!("{}: first paint, all read, plot drawn after {times} ms", page.display());
    times[0].as_u64().unwrap()
}

#[test]
fn paints_first_rows_quickly() {
    let Some(mut browser) = Browser::take() else { return };
    let page = page_file("paint", &generate::generated(100_000));
    assert!(first_paint(&mut browser, &page) < FIRST_PAINT_MS);
    no_problems(&mut browser);
}

#[test]
fn data_adds_little_to_a_large_page() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = generate::noisy(100_000);
    assert!(bytes.len() > 25_000_000);
    let page = page_file("noise", &bytes);
    let size = std::fs::metadata(&page).unwrap().len();
    assert!(size < 13_000_000, "{size} bytes");
    assert!(first_paint(&mut browser, &page) < FIRST_PAINT_MS);
    // First all data, then only its start, then none. Each has its message.
    let said = "document.querySelector('#details .data .said').textContent.split(',')[0]";
    for (share, due) in
        [(0.01, ""), (0.5, "The first 64 of 256 B are in this page"), (0.99, "None of 256 B is in this page")]
    {
        browser.eval(&format!(
            "(() => {{ const {{ store, headers }} = riser.app; let row = Math.floor(store.count * {share}); \
             while (headers.payload(row) !== 256) row++; riser.select(store.number[row]); return riser.idle(); }})()"
        ));
        assert_eq!(browser.eval(said), due, "{share}");
    }
    no_problems(&mut browser);
}

#[test]
#[ignore = "a million TLPs; run with --release --ignored"]
fn paints_million_tlps_in_three_seconds() {
    let Some(mut browser) = Browser::take() else { return };
    let bytes = generate::generated(1_000_000);
    let page = page_file("million", &bytes);
    let size = std::fs::metadata(&page).unwrap().len();
    assert!(size < 25_000_000, "{size} bytes");
    assert!(first_paint(&mut browser, &page) < FIRST_PAINT_MS);
    for filter in ["type=MRd", "time>3us", "addr=0x100000000..0x110000000"] {
        browser.eval(&format!("riser.setFilter('{filter}')"));
        assert_eq!(
            browser.eval("Number(document.documentElement.dataset.shown)"),
            count(&bytes, filter),
            "{filter}"
        );
    }
    browser.eval("riser.setFilter('')");
    browser.key("w");
    let worst = worst(&bytes).request_number.to_string();
    assert_eq!(browser.eval("document.documentElement.dataset.selected"), worst);
    no_problems(&mut browser);
    std::fs::remove_file(page).unwrap();
}
