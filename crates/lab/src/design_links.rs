// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the links of designs that have their own data link layer: a root complex, a switch, or a device.

use crate::links;
use crate::schema::{FlowControl, Hanging, Lab};
use crate::wrong::{Checked, Wrong};

/// Checks the links of devices that have their own data link layer.
pub(crate) fn check_slots(lab: &Lab) -> Checked {
    let mut slots = lab.hanging().zip(&lab.slot).filter(|(_, slot)| slot.needs().own_link);
    slots.try_for_each(|(own, slot)| check(lab, &own, slot.device.get_ref()))
}

/// Refuses the keys of the link of `own` that a design of the model `name` cannot follow.
pub(crate) fn check(lab: &Lab, own: &Hanging<'_>, name: &str) -> Checked {
    let link = links::merge(&lab.link, own.link);
    let wrong = |what: String| Err(Wrong { span: own.name.span(), message: format!("{own}: {what}") });
    if link.flow_control == Some(FlowControl::None) {
        return wrong(format!("flow_control = \"none\"; expected credits at a link of {name}"));
    }
    if link.scaled_flow_control == Some(true) {
        return wrong(format!("scaled_flow_control = true; {name} does not offer it, expected false"));
    }
    let other = link.vc.iter().flatten().find(|channel| channel.id != 0);
    other.map_or(Ok(()), |channel| {
        wrong(format!(
            "a virtual channel with id = {}; {name} has one channel, expected only id = 0",
            channel.id
        ))
    })
}
