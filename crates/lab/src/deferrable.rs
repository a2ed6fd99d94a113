// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deferrable writes of a lab's devices beside the credits of the links on their way up: a receiver whose limit is below one write
//! never lets it in (ECN "Deferrable Memory Write"). Never looks at devices that are told by a capture what to send.

use crate::links::{self, LinkFault, merge};
use crate::read::Place;
use crate::schema::{Lab, Link, Slot};
use crate::tree::Tree;
use fabric::Above;
use link::ConfigError;
use plug::file::FileError;
use tlp::Vc;

/// What is wrong, at the credits that are too few. A tree that is wrong is reported elsewhere.
pub(crate) fn check(place: &Place<'_>, lab: &Lab) -> Vec<FileError> {
    let Ok(tree) = Tree::of(lab) else { return Vec::new() };
    let slots = lab.slot.iter().enumerate();
    let writing = slots.filter_map(|(n, slot)| Some((n, slot, slot.needs().deferrable_write_bytes?)));
    writing.flat_map(|(n, slot, bytes)| check_way(place, lab, &tree, n, slot, bytes)).collect()
}

/// The links from slot `n` to the root complex.
fn check_way(place: &Place<'_>, lab: &Lab, tree: &Tree, n: usize, slot: &Slot, bytes: u32) -> Vec<FileError> {
    let fault = |own: &Link| {
        let what = format!("deferrable writes of {bytes} B of slot `{}`", slot.name.get_ref());
        too_few(&lab.link, own, bytes, &what)
    };
    let at = |owner: [&str; 2], name: &toml::Spanned<String>, own: &Link| {
        let what = format!("{} `{}`", owner[0], name.get_ref());
        place.link(&owner, name.span(), &what, fault(own)?).err()
    };
    let mut errors: Vec<FileError> =
        at(["slot", &n.to_string()], &slot.name, &slot.link).into_iter().collect();
    let mut above = tree.slots[n];
    while let Above::Switch { switch, .. } = above {
        let of = &lab.switch[switch];
        errors.extend(at(["switch", &switch.to_string()], &of.name, &of.link));
        above = tree.switches[switch];
    }
    errors
}

/// The fault of a link whose upper end has no room for non-posted requests of `bytes` in VC0, by which the writes go.
fn too_few(common: &Link, own: &Link, bytes: u32, what: &str) -> Option<LinkFault> {
    let error = links::config(common, own).root.validate_non_posted(bytes).err()?;
    let ConfigError::DataCredits { vc: Vc::VC0, value, min, .. } = error else { return None };
    let keys = links::keys_of(&error, "root", &merge(common, own));
    let message =
        format!("root side: NonPosted data credits {value}: legal are {min} or more, for the {what}");
    Some(LinkFault { keys, message })
}
