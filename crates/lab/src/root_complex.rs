// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of a host with a foreign root complex. It has one root port. Keys that describe riser's own root complex are refused.

use crate::design_links;
use crate::host_schema::IommuPages;
use crate::schema::Lab;
use crate::tree::Tree;
use crate::wrong::{Checked, Wrong};
use fabric::{HostId, PeerToPeer};
use toml::Spanned;

/// Checks the keys of the lab that a root complex of this name excludes.
pub(crate) fn check(lab: &Lab, tree: &Tree) -> Checked {
    let Some(model) = &lab.host.root_complex else { return Ok(()) };
    let name = model.get_ref();
    let wrong = |at: &Spanned<String>, message: String| Err(Wrong { span: at.span(), message });
    let links: Vec<usize> = tree.root_links(HostId::FIRST).collect();
    let [link] = links[..] else {
        let count = links.len();
        let message = format!(
            "root_complex = \"{name}\": {count} slots and switches below it; expected 1, because it has one root port"
        );
        return wrong(model, message);
    };
    let host = &lab.host;
    let without_effect = [
        ("profile", host.profile.get_ref() != "ideal"),
        ("peer_to_peer", host.peer_to_peer != PeerToPeer::default()),
        ("root_port_interrupts", !host.root_port_interrupts),
        ("iommu", *host.iommu.get_ref() != IommuPages::Off),
    ];
    if let Some((key, _)) = without_effect.iter().find(|(_, is_set)| *is_set) {
        let message =
            format!("{key} of [host] has no effect with root_complex = \"{name}\"; expected no such key");
        return wrong(model, message);
    }
    let Some(below) = lab.hanging().nth(link) else { return Ok(()) };
    if below.hot_plug {
        let message =
            format!("{below}: hot_plug = true: the root port of {name} has no slot; expected false");
        return wrong(below.name, message);
    }
    design_links::check(lab, &below, name)
}
