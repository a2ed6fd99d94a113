// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates the report of a session.

use super::{DeviceReport, FaultReport, HotPlugReport, LinkReport, SessionReport, directions};
use crate::session::Session;
use crate::transactions::transactions;
use fabric::{HostId, LinkId, Stop, TransactionKind};
use lab::profile::{Aspect, Basis};
use lab::{LinkInfo, SlotInfo};
use plug::Shown;

impl Session {
    /// Returns the report of a run that ended with `stop` and took `cpu_seconds`.
    pub fn report(&self, lab: &str, stop: &Stop, cpu_seconds: f64) -> SessionReport {
        let totals = self.fabric.totals();
        let links: Vec<_> = (0..).zip(&self.links).map(|(n, link)| self.link_report(n, link)).collect();
        SessionReport {
            basis: self.basis(&links),
            lab: lab.to_owned(),
            set: self.set.clone(),
            seed: self.seed,
            warnings: self.warnings.clone(),
            outcome: stop.into(),
            reasons: reasons(stop),
            simulated_ns: self.fabric.now().as_ps() as f64 / 1_000.0,
            events: totals.events,
            tlp_hops: totals.tlp_hops,
            cpu_seconds,
            hot_plug: self.hot_plug.events().iter().map(HotPlugReport::new).collect(),
            faults: self.faults(),
            refusals: self.refusals(),
            links,
            root_complex: *self.fabric.root().counters(),
            memory_system: self.fabric.root().memory_counters().copied(),
            devices: (0..)
                .zip(&self.slots)
                .map(|(n, slot)| self.device_report(n, slot))
                .chain(self.root_complex_report())
                .chain(self.switch_reports())
                .collect(),
        }
    }

    fn faults(&self) -> Vec<FaultReport> {
        let slot =
            |link: LinkId| self.links.get(link.0 as usize).map_or_else(String::new, |l| l.name.clone());
        let counts = self.fabric.fault_counts();
        counts.iter().map(|counts| FaultReport::new(counts, slot(counts.rule.link))).collect()
    }

    fn link_report(&self, n: u32, link: &LinkInfo) -> LinkReport {
        LinkReport {
            slot: link.name.clone(),
            generation: link.generation,
            lanes: link.lanes,
            mps_bytes: link.mps_bytes,
            directions: directions(&self.fabric, n),
            transactions: transactions(&self.fabric, n, &self.host_basis),
        }
    }

    /// Returns the weakest basis of the report's transactions and devices. Without transactions, uses the basis of the host's
    /// latencies. Interrupts do not count, because no profile has measured them.
    fn basis(&self, links: &[LinkReport]) -> Basis {
        let kinds = links.iter().flat_map(|link| &link.transactions);
        let of_kinds = kinds.filter(|t| t.kind != TransactionKind::Interrupt.name()).map(|t| t.basis);
        let [read, write] =
            [Aspect::ReadLatency, Aspect::WriteLatency].map(|aspect| self.host_basis.get(aspect));
        let of_host = of_kinds.max().unwrap_or(read.max(write));
        self.slots.iter().filter_map(|slot| slot.basis).fold(of_host, Basis::max)
    }

    /// Returns the counters of the host's root complex if that is not riser's.
    fn root_complex_report(&self) -> Option<DeviceReport> {
        let counts = self.fabric.design_counts(HostId::FIRST)?;
        let counters = counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let (slot, model) = ("root".to_owned(), "root complex".to_owned());
        Some(DeviceReport { slot, model, basis: None, counters })
    }

    /// Returns the counters of switches that are not riser's.
    fn switch_reports(&self) -> impl Iterator<Item = DeviceReport> {
        let switches = self.links.iter().skip(self.slots.len()).enumerate();
        switches.filter_map(|(n, link)| {
            let counts = self.fabric.switch_counts(n)?;
            let counters = counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
            Some(DeviceReport { slot: link.name.clone(), model: "switch".to_owned(), basis: None, counters })
        })
    }

    fn device_report(&self, n: usize, slot: &SlotInfo) -> DeviceReport {
        let mut counters: serde_json::Map<_, _> = self
            .fabric
            .slot_counts(n)
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect();
        let shown = slot.report.as_ref().map(|report| report.shown(self.fabric.now()));
        counters.extend(shown.map(Shown::into_map).unwrap_or_default());
        DeviceReport { slot: slot.name.clone(), model: slot.model.clone(), basis: slot.basis, counters }
    }
}

fn reasons(stop: &Stop) -> Vec<String> {
    match stop {
        Stop::Failed(why) => vec![why.clone()],
        Stop::NoProgress(who) => who.clone(),
        _ => Vec::new(),
    }
}
