// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Switches that are not riser's: checks, and their ports. Some keys of a switch have no effect on them, and their downstream ports
//! have no slots.

use crate::design_links;
use crate::schema::{Forwarding, Lab, PortArbitration, Switch};
use crate::tree::Tree;
use crate::wrong::{Checked, Wrong};
use endpoint::TlpPort;
use plug::{End, Fault, Plugged};
use toml::Spanned;

/// Checks the keys of the lab that switches of other models exclude.
pub(crate) fn check(lab: &Lab, tree: &Tree) -> Checked {
    let mut switches = lab.switch.iter().enumerate();
    switches.try_for_each(|(n, switch)| match &switch.device {
        None => Ok(()),
        Some(model) => {
            check_keys(switch, model)?;
            check_links(lab, tree, n, model)
        }
    })
}

/// Refuses the keys that only riser's own switches have.
fn check_keys(switch: &Switch, model: &Spanned<String>) -> Checked {
    let without_effect = [
        ("latency_ns", !switch.latency_ns.span().is_empty()),
        ("forwarding", switch.forwarding != Forwarding::default()),
        ("arbitration", switch.arbitration != PortArbitration::default()),
        ("keep_places", switch.keep_places),
    ];
    let Some((key, _)) = without_effect.into_iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
    let (name, model_name) = (switch.name.get_ref(), model.get_ref());
    let message = format!(
        "{key} of switch `{name}` has no effect with device = \"{model_name}\"; expected no such key"
    );
    Err(Wrong { span: model.span(), message })
}

/// Refuses the keys of links that switch `n` cannot follow.
fn check_links(lab: &Lab, tree: &Tree, n: usize, model: &Spanned<String>) -> Checked {
    let name = model.get_ref();
    let below = (1..=tree.downstream_ports[n]).filter_map(|port| tree.below(n, port));
    for link in below.clone().chain([lab.slot.len() + n]) {
        let Some(own) = lab.hanging().nth(link) else { continue };
        design_links::check(lab, &own, name)?;
    }
    let hot = below.filter_map(|link| lab.hanging().nth(link)).find(|own| own.hot_plug);
    hot.map_or(Ok(()), |own| {
        let message = format!("{own}: hot_plug = true: the ports of {name} have no slots; expected false");
        Err(Wrong { span: own.name.span(), message })
    })
}

/// Returns the ports of the switch that a model has made, the upstream port first. The lab counts on `downstream` downstream ports.
pub(crate) fn ports(plugged: Plugged, downstream: usize) -> Result<Vec<Box<dyn TlpPort>>, Fault> {
    let End::Switch(ports) = plugged.end else {
        return Err(Fault::from(
            "the model does not build a switch; expected a model such as `rtl-switch`".to_owned(),
        ));
    };
    match ports.len() - 1 {
        count if count == downstream => Ok(ports),
        count => Err(Fault::from(format!(
            "downstream ports: {downstream} in the lab, {count} in its design; expected downstream_ports = {count}"
        ))),
    }
}
