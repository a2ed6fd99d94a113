// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of `riser bench`. Computes nothing except shares and differences of figures that it prints.

use crate::failure::Failure;
use crate::output;
use bench::configurations::Iommu;
use bench::results::sheet::Entry;
use bench::{MeasurementSettings, Plan, Row};
use lab::profile::Basis;
use lab::schema::BufferPages;
use session::table::{self, PartsRow};

/// A setting that a sweep can vary: its column heading, and a function that returns its value.
type Swept = (&'static str, fn(&MeasurementSettings) -> String);

/// Settings whose arguments take lists.
const SWEPT: [Swept; 4] = [
    ("MPS", |s| s.mps_bytes.to_string()),
    ("MRRS", |s| s.mrrs_bytes.to_string()),
    ("credits", |s| {
        let MeasurementSettings { posted_header_credits: ph, posted_data_credits: pd, .. } = s;
        format!("{ph}:{pd}:{}:{}", s.non_posted_header_credits, s.non_posted_data_credits)
    }),
    ("outstanding", |s| s.outstanding.to_string()),
];

/// Prints the setup, and all tables.
pub(super) fn all(plans: &[Plan], entries: &[Entry]) -> Result<(), Failure> {
    let swept: Vec<Swept> = SWEPT.into_iter().filter(|swept| differs(entries, *swept)).collect();
    head(plans, entries, &swept)?;
    let bases: Vec<_> = entries.iter().map(|e| (e.row.test, e.basis)).collect();
    output::text(&format!("basis: {}", Basis::in_words(&bases)))?;
    if entries.iter().any(|e| e.row.bandwidth.is_some()) {
        output::text("\nBandwidth, payload of one direction in Gb/s")?;
        let columns = ["simulated", "model exact", "off %", "published", "M transfers/s"];
        rows(&swept, &columns, entries, bandwidth)?;
    }
    if entries.iter().any(|e| e.row.latency.is_some()) {
        output::text("\nLatency in ns")?;
        rows(&swept, &["min", "median", "mean", "p95", "p99", "p99.9", "max"], entries, latency)?;
    }
    if entries.iter().any(|e| e.row.round_trip.is_some()) {
        output::text("\nMedians of a frame's latency, of which PCI Express and host: all but MAC and cable")?;
        rows(&swept, &["ns", "PCIe ns", "PCIe %"], entries, round_trip)?;
    }
    output::text(
        "\nLink: share of the time that it was busy, and stalls of TLPs for lack of credits or replay buffer",
    )?;
    let columns = ["up busy %", "stalls", "stalled %", "down busy %", "stalls", "stalled %"];
    rows(&swept, &columns, entries, |row| Some(link(row)))?;
    output::text("\nLatencies of requests by part, means in ns")?;
    let heads: Vec<&str> = swept.iter().map(|s| s.0).chain(["test", "size B", "kind", "requests"]).collect();
    match table::parts(&heads, entries.iter().flat_map(|e| part_rows(&swept, e)).collect()) {
        Some(table) => output::text(&table),
        None => Ok(()),
    }
}

/// True if the rows that have this setting have different values. Latency tests have no number of outstanding transfers.
fn differs(entries: &[Entry], (name, value): Swept) -> bool {
    let has = |e: &&Entry| name != "outstanding" || e.row.bandwidth.is_some();
    let mut values = entries.iter().filter(has).map(|e| value(&e.settings));
    values.next().is_some_and(|first| values.any(|other| other != first))
}

fn head(plans: &[Plan], entries: &[Entry], swept: &[Swept]) -> Result<(), Failure> {
    let (Some(plan), Some(Entry { settings, .. })) = (plans.first(), entries.last()) else { return Ok(()) };
    let MeasurementSettings { host, generation, lanes, rcb_bytes, window_bytes, .. } = settings;
    let device = by_test(entries.iter().map(|e| (e.row.test, e.settings.device.clone())));
    let mut link = format!("host {host}, device {device}, Gen{generation} x{lanes}");
    for (name, value) in SWEPT.into_iter().take(2) {
        let value = value(settings);
        let is_swept = swept.iter().any(|(other, _)| *other == name);
        link += &format!(", {name} {}", if is_swept { "as in the tables" } else { &value });
    }
    if settings.iommu != Iommu::Off {
        link += &format!(", IOMMU {}", settings.iommu);
    }
    if settings.buffer_pages != BufferPages::default() {
        link += &format!(", buffers of {} pages", settings.buffer_pages.name());
    }
    if let Some(cache) = plan.cache {
        link += &format!(", cache {}", cache.name());
    }
    let outstanding = match swept.iter().any(|(name, _)| *name == "outstanding") {
        true => String::new(),
        false => {
            let size = plan.sizes.first().copied().unwrap_or_default();
            let offers = plan.tests.iter().map(|test| plan.offer(*test, size, 0).map(|offer| (*test, offer)));
            let offers =
                offers.collect::<Result<Vec<_>, _>>().map_err(|fault| Failure::Run(fault.message))?;
            let each = offers.iter().map(|(test, offer)| (test.name(), offer.outstanding.to_string()));
            format!("; {} outstanding", by_test(each))
        }
    };
    output::text(&format!("{link}, RCB {rcb_bytes}, window {window_bytes} B{outstanding}"))?;
    let warm_up = plan.tests.iter().map(|test| plan.warm_up(*test)).min().unwrap_or_default();
    let longest = entries.iter().map(|e| e.row.warm_up).max().unwrap_or(0);
    let longer = if longest > warm_up { format!(" to {longest}") } else { String::new() };
    output::text(&format!(
        "each row ends after its transfers: {} for latency, {} for bandwidth, after a warm-up of {warm_up}{longer}",
        plan.latency_transfers, plan.bandwidth_transfers
    ))
}

/// Returns the value of all tests, or each one if they differ: `pio (LAT_LOOP), dpdk (BW_LOOP)`.
fn by_test(values: impl Iterator<Item = (&'static str, String)>) -> String {
    let mut each: Vec<(&str, String)> = Vec::new();
    for value in values {
        if !each.contains(&value) {
            each.push(value);
        }
    }
    match &each[..] {
        [(_, first), rest @ ..] if rest.iter().all(|(_, value)| value == first) => first.clone(),
        _ => each.iter().map(|(test, value)| format!("{value} ({test})")).collect::<Vec<_>>().join(", "),
    }
}

/// Prints a table of the rows that have these figures.
fn rows(
    swept: &[Swept],
    columns: &[&str],
    entries: &[Entry],
    figures: impl Fn(&Row) -> Option<Vec<String>>,
) -> Result<(), Failure> {
    let header: Vec<&str> =
        swept.iter().map(|s| s.0).chain(["test", "size B"]).chain(columns.iter().copied()).collect();
    let line = |e: &Entry| Some([place(swept, e), figures(&e.row)?].concat());
    output::table(&header, entries.iter().filter_map(line))
}

/// Swept settings, test and size of a row.
fn place(swept: &[Swept], entry: &Entry) -> Vec<String> {
    let values = swept.iter().map(|(_, value)| value(&entry.settings));
    values.chain([entry.row.test.to_owned(), entry.row.size_bytes.to_string()]).collect()
}

fn part_rows(swept: &[Swept], entry: &Entry) -> impl Iterator<Item = PartsRow> {
    let head = place(swept, entry);
    entry.row.transactions.iter().map(move |t| {
        let head = head.iter().cloned().chain([t.kind.to_owned(), t.requests.to_string()]);
        (head.collect(), t.latency_ns_mean, t.mean)
    })
}

fn bandwidth(row: &Row) -> Option<Vec<String>> {
    let b = row.bandwidth?;
    let off = (b.bandwidth_gbps / b.model_exact_gbps - 1.0) * 100.0;
    Some(vec![
        format!("{:.3}", b.bandwidth_gbps),
        format!("{:.3}", b.model_exact_gbps),
        format!("{off:+.3}"),
        b.model_published_gbps.map_or("-".to_owned(), |gbps| format!("{gbps:.3}")),
        format!("{:.3}", b.transactions_per_s / 1e6),
    ])
}

fn latency(row: &Row) -> Option<Vec<String>> {
    let l = row.latency?;
    let figures = [
        l.latency_ns_min,
        l.latency_ns_median,
        l.latency_ns_mean,
        l.latency_ns_p95,
        l.latency_ns_p99,
        l.latency_ns_p999,
        l.latency_ns_max,
    ];
    Some(figures.iter().map(|ns| format!("{ns:.1}")).collect())
}

fn round_trip(row: &Row) -> Option<Vec<String>> {
    let (latency, trip) = (row.latency?, row.round_trip?);
    let figures = [latency.latency_ns_median, trip.pcie_ns_median, trip.pcie_percent_median];
    Some(figures.iter().map(|figure| format!("{figure:.1}")).collect())
}

/// For each direction: its busy share, its stalls, and the share of time spent in them.
fn link(row: &Row) -> Vec<String> {
    let of = |direction: &bench::DirectionDelta| {
        let (stalls, share) = direction.stalls(row.link_ns);
        [format!("{:.1}", direction.utilization * 100.0), stalls.to_string(), format!("{:.1}", share * 100.0)]
    };
    [of(&row.upstream), of(&row.downstream)].concat()
}
