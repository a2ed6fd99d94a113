// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts lab keys to the virtual channels of a link's ports.

use crate::link_schema::{Arbitration, VirtualChannel};
use crate::schema::{Credits, Link};
use crate::tree::Tree;
use crate::wrong::LinkFault;
use config::{MAX_PHASES, VcLayout, VcSetting};
use fabric::LinkConfig;
use link::{CreditLimit, PhaseTable, PortConfig, VcArbitration, VcScheme};
use std::collections::BTreeMap;
use tlp::{Class, TcSet, TcVcMap, TrafficClass, Vc};

/// The virtual channels of a link, which both of its ports share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channels {
    pub(crate) map: TcVcMap,
    pub(crate) arbitration: VcArbitration,
}

/// The channels of `link`.
///
/// # Errors
/// The first illegal table, with the legal values.
pub(crate) fn of(link: &Link) -> Result<Channels, LinkFault> {
    let tables = link.vc.as_deref().unwrap_or_default();
    for (n, table) in tables.iter().enumerate() {
        if table.id > 7 {
            return Err(of_table(format!("virtual channel {}, expected 0 to 7", table.id)));
        }
        if tables[..n].iter().any(|earlier| earlier.id == table.id) {
            return Err(of_table(format!("a second table of VC{}: each has one", table.id)));
        }
        if let Some(phases) = table.phases.filter(|n| !(1..=128).contains(n)) {
            return Err(of_table(format!("{phases} phases of VC{}, expected 1 to 128", table.id)));
        }
    }
    Ok(Channels { map: map(tables)?, arbitration: arbitration(link, tables)? })
}

/// An error in the tables of the virtual channels.
fn of_table(error: impl ToString) -> LinkFault {
    LinkFault::new("vc", error.to_string())
}

fn map(tables: &[VirtualChannel]) -> Result<TcVcMap, LinkFault> {
    let mut classes = [TcSet::NONE; Vc::COUNT];
    for table in tables {
        let own = &mut classes[usize::from(table.id)];
        for tc in table.tcs.as_deref().unwrap_or(&[table.id]) {
            let tc = TrafficClass::new(*tc);
            let wrong = || of_table(format!("traffic classes of VC{}, expected 0 to 7", table.id));
            let tc = tc.ok_or_else(wrong)?;
            *own = own.or(TcSet::of(tc));
        }
        if own.is_empty() {
            return Err(of_table(format!("VC{} without traffic classes: leave its table out", table.id)));
        }
    }
    if !tables.iter().any(|table| table.id == 0 && table.tcs.is_some()) {
        classes[0] = classes[1..].iter().fold(TcSet::NONE, |all, set| all.or(*set)).complement();
    }
    TcVcMap::new(classes).map_err(of_table)
}

fn arbitration(link: &Link, tables: &[VirtualChannel]) -> Result<VcArbitration, LinkFault> {
    let kind = link.vc_arbitration.unwrap_or_default();
    let low = link.low_priority_vc.unwrap_or(if kind == Arbitration::Strict { 0 } else { 7 });
    let of_key = |message| LinkFault::new("low_priority_vc", message);
    let low_priority = Vc::new(low);
    let low_priority =
        low_priority.ok_or_else(|| of_key(format!("low_priority_vc {low}, expected 0 to 7")))?;
    if kind == Arbitration::Strict && low != 0 {
        return Err(of_key(format!("low_priority_vc {low}: with `strict` arbitration, only 0")));
    }
    let scheme = match kind {
        Arbitration::Strict | Arbitration::RoundRobin => VcScheme::RoundRobin,
        Arbitration::Weighted => {
            let mut weights = [0; Vc::COUNT];
            for table in tables.iter().filter(|table| table.id <= low) {
                weights[usize::from(table.id)] = table.phases.unwrap_or(0);
            }
            VcScheme::Weighted(PhaseTable::spread(weights).map_err(of_table)?)
        }
    };
    Ok(VcArbitration { low_priority, scheme })
}

/// Receive buffers of one end: `common` for VC0, with the credits of `own` for each other channel.
pub(crate) fn buffers(
    link: &Link,
    common: [CreditLimit; 3],
    own: impl Fn(&VirtualChannel) -> Option<Credits>,
) -> (BTreeMap<Vc, [CreditLimit; 3]>, [CreditLimit; 3]) {
    let mut others = BTreeMap::new();
    let mut first = common;
    for table in link.vc.as_deref().unwrap_or_default() {
        let credits = own(table).unwrap_or_default();
        match Vc::new(table.id) {
            Some(Vc::VC0) => apply_credits(&mut first, credits),
            Some(vc) => {
                let mut buffer = common;
                apply_credits(&mut buffer, credits);
                others.insert(vc, buffer);
            }
            None => {}
        }
    }
    (others, first)
}

/// Overrides the credits that are given in the file.
pub(crate) fn apply_credits(limits: &mut [CreditLimit; 3], credits: Credits) {
    apply(&mut limits[Class::Posted.index()], credits.posted_header, credits.posted_data);
    apply(&mut limits[Class::NonPosted.index()], credits.non_posted_header, credits.non_posted_data);
    apply(&mut limits[Class::Completion.index()], credits.completion_header, credits.completion_data);
}

/// Overrides the credits that are given in the file; zero means infinite.
fn apply(limit: &mut CreditLimit, header: Option<u16>, data: Option<u16>) {
    let credits = |n: u16| (n != 0).then_some(n);
    if let Some(header) = header {
        limit.header = credits(header);
    }
    if let Some(data) = data {
        limit.data = credits(data);
    }
}

/// Virtual Channel capability of the function at `end` of a link; `None` if all Traffic Classes share VC0.
pub(crate) fn layout(end: &PortConfig) -> Option<VcLayout> {
    let channels: Vec<Vc> = end.tc_vc.channels().collect();
    let mut layout = VcLayout { vcs: channels.len() as u8, ..VcLayout::default() };
    for (reset, vc) in layout.reset.iter_mut().zip(&channels) {
        *reset = VcSetting { enabled: true, id: vc.id(), tc_map: end.tc_vc.classes(*vc).bits() };
    }
    let low = channels.iter().filter(|vc| **vc <= end.arbitration.low_priority).count();
    layout.low_priority = (low - 1) as u8;
    match &end.arbitration.scheme {
        VcScheme::Weighted(table) => {
            let mut ids = [0; MAX_PHASES];
            ids.iter_mut().zip(table.phases()).for_each(|(id, vc)| *id = vc.id());
            (layout.phases, layout.table) = (table.phases().len() as u8, Some(ids));
        }
        // Software may select a table.
        VcScheme::RoundRobin if low > 1 => layout.phases = 32,
        VcScheme::RoundRobin => {}
    }
    (channels.len() > 1).then_some(layout)
}

/// Traffic Classes that every link on a slot's path maps to a virtual channel. `links` is from
/// [`all_links`](crate::bridges::all_links).
pub(crate) fn path_tcs(tree: &Tree, links: &[LinkConfig]) -> Vec<TcSet> {
    let mapped = |link: usize| links[link].root.tc_vc.mapped();
    let on_path = |slot| tree.way_up(slot).fold(TcSet::ALL, |all, link| all.and(mapped(link)));
    (0..tree.slots.len()).map(on_path).collect()
}
