// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds keys of link tables that have no effect because of other keys. Such keys are errors, because their author
//! expects an effect. [`links::check`](crate::links::check) checks the other keys.

use crate::link_schema::Arbitration;
use crate::links::merge;
use crate::schema::{FlowControl, Link, ReplayCursor, ReplayTimer};
use crate::wrong::LinkFault;

/// The first key of the slot's `own` table that has no effect in combination with `common`, and the condition that this
/// key needs.
pub(crate) fn of_slot(common: &Link, own: &Link) -> Option<LinkFault> {
    all(&merge(common, own), own).into_iter().next().map(fault)
}

/// The first key of the table `common` that has no effect on any of the links `slots`, and the condition that it needs. A
/// key that every link overrides is an unused default, not an error.
pub(crate) fn of_all<'a>(common: &Link, slots: impl Iterator<Item = &'a Link> + Clone) -> Option<LinkFault> {
    let unused = |own: &Link| all(&merge(common, own), &inherited(common, own));
    let mut first = unused(slots.clone().next()?);
    first.retain(|(key, _)| slots.clone().all(|own| unused(own).iter().any(|(other, _)| other == key)));
    first.into_iter().next().map(fault)
}

/// Errors of a virtual channel are reported at its table.
fn fault((key, message): Unused) -> LinkFault {
    LinkFault::new(if key.starts_with("phases") { "vc" } else { key }, message)
}

/// The keys of `common` that the slot's `own` table does not override, as far as they are checked here.
fn inherited(common: &Link, own: &Link) -> Link {
    let mut link = common.clone();
    link.vc = link.vc.filter(|_| own.vc.is_none());
    link.root_credits = link.root_credits.filter(|_| own.root_credits.is_none());
    link.device_credits = link.device_credits.filter(|_| own.device_credits.is_none());
    link.port_buffer_tlps = link.port_buffer_tlps.filter(|_| own.port_buffer_tlps.is_none());
    link.replay_timer = link.replay_timer.filter(|_| own.replay_timer.is_none());
    link.replay_timer_symbols = link.replay_timer_symbols.filter(|_| own.replay_timer_symbols.is_none());
    link.scaled_flow_control = link.scaled_flow_control.filter(|_| own.scaled_flow_control.is_none());
    link.replay_cursor = link.replay_cursor.filter(|_| own.replay_cursor.is_none());
    link.ack_line_bytes =
        link.ack_line_bytes.filter(|_| own.ack_line_bytes.is_none() && own.ack_latency_symbols.is_none());
    link.ack_factor =
        link.ack_factor.filter(|_| own.ack_factor.is_none() && own.ack_latency_symbols.is_none());
    link.update_fc_symbols = link.update_fc_symbols.filter(|_| own.update_fc_symbols.is_none());
    link
}

/// A key, and its error.
type Unused = (&'static str, String);

/// The keys of `said` that have no effect on `link`.
fn all(link: &Link, said: &Link) -> Vec<Unused> {
    let mut found = Vec::new();
    phases(link, said, &mut found);
    if link.flow_control == Some(FlowControl::None) {
        without_flow_control(said, &mut found);
    } else {
        with_credits(said, &mut found);
    }
    ack_formula(link, said, &mut found);
    if let Some(symbols) = said.replay_timer_symbols.filter(|_| link.replay_timer == Some(ReplayTimer::Rev3))
    {
        let message = format!("replay_timer_symbols of {symbols}: legal only with replay_timer = \"rev4\"");
        found.push(("replay_timer_symbols", message));
    }
    found
}

fn phases(link: &Link, said: &Link, found: &mut Vec<Unused>) {
    let weighted = link.vc_arbitration == Some(Arbitration::Weighted);
    let low = link.low_priority_vc.unwrap_or(7);
    for vc in said.vc.iter().flatten() {
        let Some(phases) = vc.phases else { continue };
        if !weighted {
            let message =
                format!("{phases} phases of VC{}: legal only with vc_arbitration = \"weighted\"", vc.id);
            found.push(("phases", message));
        } else if vc.id > low {
            let message = format!(
                "{phases} phases of VC{}: it is above low_priority_vc {low} and has strict priority; legal up to VC{low}",
                vc.id
            );
            found.push(("phases above", message));
        }
    }
}

/// Keys of a link without flow control.
fn with_credits(said: &Link, found: &mut Vec<Unused>) {
    if let Some(tlps) = said.port_buffer_tlps {
        let message = format!("port_buffer_tlps of {tlps}: legal only with flow_control = \"none\"");
        found.push(("port_buffer_tlps", message));
    }
    if said.replay_cursor == Some(ReplayCursor::Position) {
        let message = "replay_cursor = \"position\": legal only with flow_control = \"none\"; with credits, \"sequence\" is legal";
        found.push(("replay_cursor", message.to_owned()));
    }
}

/// Keys of the formula for the Ack latency.
fn ack_formula(link: &Link, said: &Link, found: &mut Vec<Unused>) {
    match (link.ack_latency_symbols, said.ack_line_bytes) {
        (Some(symbols), Some(bytes)) => {
            let message = format!(
                "ack_line_bytes of {bytes}: legal only without ack_latency_symbols, which is {symbols}"
            );
            found.push(("ack_line_bytes", message));
        }
        _ if link.ack_line_bytes.is_some() => {}
        _ => {
            let message = |factor| format!("ack_factor of {factor}: legal only with ack_line_bytes");
            found.extend(said.ack_factor.map(|factor| ("ack_factor", message(factor))));
        }
    }
}

/// Keys of credits and of the specification's REPLAY_TIMER, which a link without flow control does not use.
fn without_flow_control(said: &Link, found: &mut Vec<Unused>) {
    let channels = || said.vc.iter().flatten();
    let root = said.root_credits.is_some() || channels().any(|vc| vc.root_credits.is_some());
    let device = said.device_credits.is_some() || channels().any(|vc| vc.device_credits.is_some());
    let keys = [
        ("root_credits", root),
        ("device_credits", device),
        ("scaled_flow_control", said.scaled_flow_control == Some(true)),
        ("update_fc_symbols", said.update_fc_symbols.is_some()),
        ("replay_timer", said.replay_timer.is_some()),
        ("replay_timer_symbols", said.replay_timer_symbols.is_some()),
    ];
    for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
        found.push((key, format!("{key}: legal only with flow_control = \"credits\"")));
    }
}
