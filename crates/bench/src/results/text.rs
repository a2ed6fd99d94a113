// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as tables, for people. Computes nothing except shares and differences of figures.

use super::sheet::Entry;
use crate::configurations::Iommu;
use crate::{BenchError, DirectionDelta, MeasurementSettings, Plan, Row};
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

/// Returns the setup of the measured plans, and all tables of their results, without a newline at the end.
///
/// # Errors
/// A workload that the model cannot do.
pub fn text(plans: &[Plan], entries: &[Entry]) -> Result<String, BenchError> {
    let swept: Vec<Swept> = SWEPT.into_iter().filter(|swept| differs(entries, *swept)).collect();
    let mut parts = head(plans, entries, &swept)?;
    let bases: Vec<_> = entries.iter().map(|e| (e.row.test, e.basis)).collect();
    parts.push(format!("basis: {}", Basis::in_words(&bases)));
    let mut table = |title: &str, columns: &[&str], figures: fn(&Row) -> Option<Vec<String>>| {
        if entries.iter().any(|e| figures(&e.row).is_some()) {
            parts.push(format!("\n{title}\n{}", rows(&swept, columns, entries, figures)));
        }
    };
    let columns = ["simulated", "model exact", "off %", "published", "M transfers/s"];
    table("Bandwidth, payload of one direction in Gb/s", &columns, bandwidth);
    table("Latency in ns", &["min", "median", "mean", "p95", "p99", "p99.9", "max"], latency);
    let title = "Medians of a frame's latency, of which PCI Express and host: all but MAC and cable";
    table(title, &["ns", "PCIe ns", "PCIe %"], round_trip);
    let title =
        "Link: share of the time that it was busy, and stalls of TLPs for lack of credits or replay buffer";
    let columns = ["up busy %", "stalls", "stalled %", "down busy %", "stalls", "stalled %"];
    parts.push(format!("\n{title}\n{}", rows(&swept, &columns, entries, link)));
    parts.push("\nLatencies of requests by part, means in ns".to_owned());
    let heads: Vec<&str> = swept.iter().map(|s| s.0).chain(["test", "size B", "kind", "requests"]).collect();
    parts.extend(table::parts(&heads, entries.iter().flat_map(|e| part_rows(&swept, e)).collect()));
    Ok(parts.join("\n"))
}

/// True if the rows that have this setting have different values. Latency tests have no number of outstanding transfers.
fn differs(entries: &[Entry], (name, value): Swept) -> bool {
    let has = |e: &&Entry| name != "outstanding" || e.row.bandwidth.is_some();
    let mut values = entries.iter().filter(has).map(|e| value(&e.settings));
    values.next().is_some_and(|first| values.any(|other| other != first))
}

/// Returns the lines about the setup.
fn head(plans: &[Plan], entries: &[Entry], swept: &[Swept]) -> Result<Vec<String>, BenchError> {
    let (Some(plan), Some(Entry { settings, .. })) = (plans.first(), entries.last()) else {
        return Ok(Vec::new());
    };
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
                offers.collect::<Result<Vec<_>, _>>().map_err(|fault| BenchError::Run(fault.message))?;
            let each = offers.iter().map(|(test, offer)| (test.name(), offer.outstanding.to_string()));
            format!("; {} outstanding", by_test(each))
        }
    };
    let warm_up = plan.tests.iter().map(|test| plan.warm_up(*test)).min().unwrap_or_default();
    let longest = entries.iter().map(|e| e.row.warm_up).max().unwrap_or(0);
    let longer = if longest > warm_up { format!(" to {longest}") } else { String::new() };
    let setup = format!("{link}, RCB {rcb_bytes}, window {window_bytes} B{outstanding}");
    let rule = format!(
        "each row ends after its transfers: {} for latency, {} for bandwidth, after a warm-up of {warm_up}{longer}",
        plan.latency_transfers, plan.bandwidth_transfers
    );
    Ok(vec![setup, rule])
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

/// Returns a table of the rows that have these figures.
fn rows(
    swept: &[Swept],
    columns: &[&str],
    entries: &[Entry],
    figures: fn(&Row) -> Option<Vec<String>>,
) -> String {
    let header: Vec<&str> =
        swept.iter().map(|s| s.0).chain(["test", "size B"]).chain(columns.iter().copied()).collect();
    let line = |e: &Entry| Some([place(swept, e), figures(&e.row)?].concat());
    table::numbers(&header, entries.iter().filter_map(line))
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
fn link(row: &Row) -> Option<Vec<String>> {
    let of = |direction: &DirectionDelta| {
        let (stalls, share) = direction.stalls(row.link_ns);
        [format!("{:.1}", direction.utilization * 100.0), stalls.to_string(), format!("{:.1}", share * 100.0)]
    };
    Some([of(&row.upstream), of(&row.downstream)].concat())
}
