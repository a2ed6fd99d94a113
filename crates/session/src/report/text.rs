// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report as text: `riser run` prints it, and other callers can too.

use super::{
    DeviceReport, DirectionReport, FaultReport, HotPlugReport, LinkReport, RefusalReport, SessionReport,
};
use crate::table;
use lab::profile::Basis;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// The report as text: a line about the run, tables of links and transactions, and lines about the rest. There is no
/// newline at the end.
impl Display for SessionReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}: {} after {:.3} us; {} events, {} TLP-hops in {:.3} s of CPU\n\n{}",
            self.lab,
            self.set.iter().map(|set| format!(" --set {set}")).collect::<String>(),
            self.outcome.name(),
            self.simulated_ns / 1_000.0,
            self.events,
            self.tlp_hops,
            self.cpu_seconds,
            links(&self.links)
        )?;
        errors(self, f)?;
        refusals(&self.refusals, f)?;
        faults(&self.faults, f)?;
        hot_plug(&self.hot_plug, f)?;
        transactions(&self.links, f)?;
        self.devices.iter().filter(|d| !d.counters.is_empty()).try_for_each(|d| device(d, f))
    }
}

fn links(links: &[LinkReport]) -> String {
    let header = [
        "slot",
        "link",
        "direction",
        "TLPs",
        "DLLPs",
        "payload B",
        "wire B",
        "busy %",
        "run Gb/s",
        "active us",
        "active Gb/s",
        "replays",
        "stalls",
    ];
    let row = |link: &LinkReport, d: &DirectionReport| {
        vec![
            link.slot.clone(),
            format!("Gen{} x{}", link.generation, link.lanes),
            d.direction.to_owned(),
            d.tlps.to_string(),
            d.dllps.to_string(),
            d.payload_bytes.to_string(),
            d.wire_bytes.to_string(),
            format!("{:.1}", d.utilization * 100.0),
            format!("{:.3}", d.payload_gbps),
            format!("{:.3}", d.active_ns / 1_000.0),
            format!("{:.3}", d.active_gbps),
            d.replays.to_string(),
            d.credit_stalls.to_string(),
        ]
    };
    let rows = links.iter().flat_map(|link| link.directions.iter().map(move |d| row(link, d)));
    table::numbers(&header, rows)
}

/// Writes a line for each link, and for the root complex, that has error counts other than zero.
fn errors(report: &SessionReport, f: &mut Formatter<'_>) -> fmt::Result {
    let named = |prefix: &str, counts: &[(&str, u64)]| -> Vec<String> {
        counts.iter().map(|(name, n)| format!("{prefix}{name} {n}")).collect()
    };
    let of_link = |link: &LinkReport| {
        let ways = link.directions.iter().map(|d| named(&format!("{} ", d.direction), &d.errors()));
        (link.slot.clone(), ways.collect::<Vec<_>>().concat())
    };
    let root = ("root complex".to_owned(), named("", &report.root_errors()));
    let all = report.links.iter().map(of_link).chain([root]);
    for (n, (place, counts)) in all.filter(|(_, counts)| !counts.is_empty()).enumerate() {
        let gap = if n == 0 { "\n" } else { "" };
        write!(f, "\n{gap}errors, {place}: {}", counts.join(", "))?;
    }
    Ok(())
}

/// Writes a line for each kind of refused TLPs that is not routine.
fn refusals(refusals: &[RefusalReport], f: &mut Formatter<'_>) -> fmt::Result {
    for (n, refusal) in refusals.iter().filter(|refusal| !refusal.routine).enumerate() {
        write!(f, "{}\n{refusal}", if n == 0 { "\n" } else { "" })?;
    }
    Ok(())
}

/// Writes a line for each fault.
fn faults(faults: &[FaultReport], f: &mut Formatter<'_>) -> fmt::Result {
    for (n, fault) in faults.iter().enumerate() {
        write!(f, "{}\n{fault}", if n == 0 { "\n" } else { "" })?;
    }
    Ok(())
}

/// Writes a line for each event of hot-plug capable slots.
fn hot_plug(events: &[HotPlugReport], f: &mut Formatter<'_>) -> fmt::Result {
    if events.is_empty() {
        return Ok(());
    }
    let row = |e: &HotPlugReport| vec![format!("{:.3}", e.at_ns / 1_000.0), e.slot.clone(), e.event.clone()];
    let table = table::numbers(&["us", "slot", "event"], events.iter().map(row));
    write!(f, "\n\nHot-plug events\n{table}")
}

fn transactions(links: &[LinkReport], f: &mut Formatter<'_>) -> fmt::Result {
    let all = links.iter().flat_map(|link| link.transactions.iter().map(move |t| (&link.slot, t)));
    let rows = all.flat_map(|(slot, t)| {
        let head = move |which: &str| match which {
            "mean" => vec![slot.clone(), t.kind.to_owned(), t.requests.to_string(), which.to_owned()],
            _ => [vec![String::new(); 3], vec![which.to_owned()]].concat(),
        };
        t.rows().into_iter().map(move |(which, whole, parts)| (head(which), whole, parts))
    });
    match table::parts(&["slot", "kind", "requests", ""], rows.collect()) {
        Some(table) => {
            write!(f, "\n\nLatencies of transactions by part, in ns; basis: {}\n{table}", basis(links))
        }
        None => Ok(()),
    }
}

/// Basis of the figures that the latencies depend on.
fn basis(links: &[LinkReport]) -> String {
    let all = links.iter().flat_map(|link| &link.transactions).map(|t| (t.kind, t.basis));
    Basis::in_words(&all.collect::<Vec<_>>())
}

fn device(device: &DeviceReport, f: &mut Formatter<'_>) -> fmt::Result {
    let (parts, counts): (Vec<_>, Vec<_>) = device.counters.iter().partition(|(name, _)| name.contains('.'));
    let counts: Vec<String> =
        counts.into_iter().map(|(name, value)| format!("{name} {}", short(value))).collect();
    let line = format!("{} ({}): {}", device.slot, device.model, counts.join(", "));
    write!(f, "\n\n{}", line.trim_end_matches([' ', ':']))?;
    match of_parts(&parts) {
        Some(table) => write!(f, "\n{table}"),
        None => Ok(()),
    }
}

/// Formats a device's values for several parts, such as flows, named `part.value`: one row per part.
fn of_parts(parts: &[(&String, &Value)]) -> Option<String> {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, BTreeMap<&str, String>)> = Vec::new();
    for (name, value) in parts {
        let Some((thing, what)) = name.rsplit_once('.') else { continue };
        if !columns.contains(&what) {
            columns.push(what);
        }
        if rows.last().is_none_or(|(last, _)| *last != thing) {
            rows.push((thing, BTreeMap::new()));
        }
        if let Some((_, row)) = rows.last_mut() {
            row.insert(what, short(value));
        }
    }
    let cells = |(thing, row): (&str, BTreeMap<&str, String>)| {
        let cell = |what: &&str| row.get(what).cloned().unwrap_or_default();
        std::iter::once(thing.to_owned()).chain(columns.iter().map(cell)).collect()
    };
    let header: Vec<&str> = std::iter::once("").chain(columns.iter().copied()).collect();
    (!rows.is_empty()).then(|| table::numbers(&header, rows.into_iter().map(cells)))
}

/// Formats a number with at most three decimals; JSON has all of them.
fn short(value: &Value) -> String {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => format!("{number:.3}"),
        None => value.to_string(),
    }
}
