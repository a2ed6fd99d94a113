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
use std::collections::BTreeSet;
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
    in_folder(kind, name, &Folder::from(base), rate)
}

fn in_folder(kind: &str, name: &str, base: &Folder, rate: Rate) -> Option<String> {
    let (_, text) = find(kind, name, base).ok()?;
    let Gen(measured) = toml::from_str::<Head>(&text).ok()?.generation?.value;
    let what = match kind {
        "host" => "latencies and service times, and how completions are cut and spaced",
        _ => "times of its stages, and how many transfers and requests are under way",
    };
    (measured != rate).then(|| {
        format!(
            "{kind} profile `{name}` has figures of Gen{} links: on a Gen{} link they are extrapolated: {what}",
            measured.generation(),
            rate.generation()
        )
    })
}

/// What of the profiles of a lab is extrapolated on its links, a line each.
#[must_use]
pub fn warnings(file: &LabFile) -> Vec<String> {
    let lab = &file.lab;
    let rate = |own: &Link| merge(&lab.link, own).generation.map_or(Rate::Gt8, |Gen(rate)| rate);
    let is_root = |parent: Option<&str>| parent.is_none_or(|parent| parent == "root");
    let slots = lab.slot.iter().map(|s| (s.parent.as_ref().map(|p| p.get_ref().as_str()), &s.link));
    let switches = lab.switch.iter().map(|s| (s.parent.as_ref().map(|p| p.get_ref().as_str()), &s.link));
    let of_host = slots.chain(switches).filter(|(parent, _)| is_root(*parent));
    let host = lab.host.profile.get_ref();
    let hosts = of_host.filter_map(|(_, link)| in_folder("host", host, &file.base, rate(link)));
    let cards = lab.slot.iter().filter_map(|slot| {
        let card = slot.pcie_bench.as_ref()?.profile.get_ref();
        in_folder("device", card, &file.base, rate(&slot.link))
    });
    hosts.chain(cards).collect::<BTreeSet<_>>().into_iter().collect()
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
            ("host", "xeon-e5-2637v3", Rate::Gt32, Some("Gen3 links: on a Gen5 link they are extrapolated")),
            ("host", "xeon-gold-6342", Rate::Gt32, Some("Gen4 links: on a Gen5 link they are extrapolated")),
            ("device", "nfp6000", Rate::Gt16, Some("Gen3 links: on a Gen4 link they are extrapolated")),
            ("device", "h100", Rate::Gt16, Some("Gen5 links: on a Gen4 link they are extrapolated")),
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
