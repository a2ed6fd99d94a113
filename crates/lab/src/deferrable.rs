// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that each link above a device that sends deferrable writes has credits for one deferrable write. With fewer
//! credits the write could never be sent (ECN "Deferrable Memory Write"). Devices that replay a capture are not
//! checked.

use crate::links::{self, merge};
use crate::schema::{Hanging, Lab, Link};
use crate::tree::Tree;
use crate::wrong::{LinkFault, LocatedSource, Wrong};
use link::ConfigError;
use tlp::Vc;

/// Returns an error for each link with too few credits, at the key that sets them. Errors of the tree are reported elsewhere.
pub(crate) fn check(place: &LocatedSource<'_>, lab: &Lab) -> Vec<Wrong> {
    let Ok(tree) = Tree::of(lab) else { return Vec::new() };
    let all: Vec<Hanging<'_>> = lab.hanging().collect();
    let mut errors = Vec::new();
    for (n, slot) in lab.slot.iter().enumerate() {
        let Some(bytes) = slot.needs().deferrable_write_bytes else { continue };
        let what = format!("deferrable writes of {bytes} B of {}", all[n]);
        let fault = |n: usize| Some((n, too_few(&lab.link, all[n].link, bytes, &what)?));
        errors.extend(tree.way_up(n).filter_map(fault).map(|(n, fault)| place.link(&all[n], fault)));
    }
    errors
}

/// Error of a link whose upper end cannot hold non-posted requests of `bytes` in VC0, which the writes use.
fn too_few(common: &Link, own: &Link, bytes: u32, what: &str) -> Option<LinkFault> {
    let error = links::config(common, own).root.validate_non_posted(bytes).err()?;
    let ConfigError::DataCredits { vc: Vc::VC0, value, min, .. } = error else { return None };
    let keys = links::keys_of(&error, "root", &merge(common, own));
    let message =
        format!("root side: NonPosted data credits {value}, expected {min} or more, for the {what}");
    Some(LinkFault { keys, message })
}
