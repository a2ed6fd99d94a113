// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects extrapolated figures of a host's profile: they were measured with links of another generation.

use super::HOSTS;
use crate::LabFile;
use crate::links::merge;
use crate::schema::Link;
use crate::tree::ROOT;
use plug::values::Gen;
use tlp::Rate;

/// Describes the extrapolated figures of the host's profile, for the links of a lab at its root complex.
pub(crate) fn of_host(file: &LabFile) -> Option<String> {
    let lab = &file.lab;
    let rate = |own: &Link| merge(&lab.link, own).generation.map_or(Rate::Gt8, |Gen(rate)| rate);
    let on_root = lab.hanging().filter(|h| h.parent.is_none_or(|parent| parent.get_ref() == ROOT));
    HOSTS.extrapolated(lab.host.profile.get_ref(), &file.base, on_root.map(|h| rate(h.link)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plug::file::Folder;

    #[test]
    fn reports_figures_of_other_generation() {
        for (name, rate, expected) in [
            ("xeon-e5-2637v3", Rate::Gt8, None),
            ("ideal", Rate::Gt32, None),
            ("xeon-platinum-8480", Rate::Gt32, None),
            ("xeon-e5-2637v3", Rate::Gt32, Some("Gen3 links: on Gen5 they are extrapolated")),
            ("xeon-gold-6342", Rate::Gt32, Some("Gen4 links: on Gen5 they are extrapolated")),
            ("no-such", Rate::Gt32, None),
        ] {
            let found = HOSTS.extrapolated(name, &Folder::from(""), [rate]);
            match expected {
                None => assert_eq!(found, None, "{name}"),
                Some(text) => assert!(found.as_ref().is_some_and(|f| f.contains(text)), "{name}: {found:?}"),
            }
        }
    }
}
