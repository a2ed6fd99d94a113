// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which figures of a profile are extrapolated: those of links of another generation than the one they were measured over. Never
//! changes a figure.

use super::{Figure, find};
use crate::LabFile;
use crate::folder::Folder;
use crate::links::merge;
use crate::schema::Link;
use crate::values::Gen;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tlp::Rate;

/// What of a profile matters here.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "gen")]
    generation: Option<Figure<Gen>>,
}

/// A line that says what of the profile `name` of `kind` (`host` or `device`) is extrapolated on a link of `rate`; `None` where nothing
/// is, or where there is no such profile.
#[must_use]
pub fn extrapolated(kind: &str, name: &str, base: &Path, rate: Rate) -> Option<String> {
    in_folder(kind, name, &Folder::from(base), [rate].into_iter())
}

fn in_folder(kind: &str, name: &str, base: &Folder, rates: impl Iterator<Item = Rate>) -> Option<String> {
    let (_, text) = find(kind, name, base).ok()?;
    let Gen(measured) = toml::from_str::<Head>(&text).ok()?.generation?.value;
    let others: BTreeSet<u8> = rates.filter(|rate| *rate != measured).map(Rate::generation).collect();
    let others: Vec<String> = others.iter().map(|generation| format!("Gen{generation}")).collect();
    let what = match kind {
        "host" => "latencies and service times, and how completions are cut and spaced",
        _ => "times of its stages, and how many transfers and requests are under way",
    };
    (!others.is_empty()).then(|| {
        format!(
            "{kind} profile `{name}` has figures of Gen{} links: on {} they are extrapolated: {what}",
            measured.generation(),
            others.join(", ")
        )
    })
}

/// What of the profiles of a lab is extrapolated on its links, a line for each profile.
#[must_use]
pub fn warnings(file: &LabFile) -> Vec<String> {
    let lab = &file.lab;
    let rate = |own: &Link| merge(&lab.link, own).generation.map_or(Rate::Gt8, |Gen(rate)| rate);
    let is_root = |parent: Option<&str>| parent.is_none_or(|parent| parent == "root");
    let slots = lab.slot.iter().map(|s| (s.parent.as_ref().map(|p| p.get_ref().as_str()), &s.link));
    let switches = lab.switch.iter().map(|s| (s.parent.as_ref().map(|p| p.get_ref().as_str()), &s.link));
    let of_host = slots.chain(switches).filter(|(parent, _)| is_root(*parent)).map(|(_, link)| rate(link));
    let host = in_folder("host", lab.host.profile.get_ref(), &file.base, of_host);
    let mut cards = BTreeMap::<&str, Vec<Rate>>::new();
    for slot in &lab.slot {
        if let Some(card) = &slot.pcie_bench {
            cards.entry(card.profile.get_ref()).or_default().push(rate(&slot.link));
        }
    }
    let cards = cards
        .into_iter()
        .filter_map(|(card, rates)| in_folder("device", card, &file.base, rates.into_iter()));
    host.into_iter().chain(cards).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_another_generation_are_named() {
        let said = |kind, name, rate| extrapolated(kind, name, Path::new(""), rate);
        for (kind, name, rate, expected) in [
            ("host", "xeon-e5-2637v3", Rate::Gt8, None),
            ("host", "ideal", Rate::Gt32, None),
            ("host", "xeon-platinum-8480", Rate::Gt32, None),
            ("host", "xeon-e5-2637v3", Rate::Gt32, Some("Gen3 links: on Gen5 they are extrapolated")),
            ("host", "xeon-gold-6342", Rate::Gt32, Some("Gen4 links: on Gen5 they are extrapolated")),
            ("device", "nfp6000", Rate::Gt16, Some("Gen3 links: on Gen4 they are extrapolated")),
            ("device", "h100", Rate::Gt16, Some("Gen5 links: on Gen4 they are extrapolated")),
            ("host", "no-such", Rate::Gt32, None),
        ] {
            let found = said(kind, name, rate);
            match expected {
                None => assert_eq!(found, None, "{name}"),
                Some(text) => assert!(found.as_ref().is_some_and(|f| f.contains(text)), "{name}: {found:?}"),
            }
        }
    }
}
