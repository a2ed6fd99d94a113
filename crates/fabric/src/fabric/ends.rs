// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a run. If the run cannot continue, reports the reason for which each part waits.

use super::{Fabric, FabricSlot};
use crate::host_slot::HostSlot;
use crate::progress::{DRAIN_LIMIT, LULL, Limits, MAX_EVENTS_PER_INSTANT, STALL_LIMIT, Stop};
use crate::topology::PortId;
use crate::wire::PortState;
use tlp::Time;
use tlp::rules::Refusal;

/// A refusal with the name of the component.
#[derive(Clone, Debug)]
pub struct PlacedRefusal {
    /// The component, and the place in it.
    pub place: String,
    /// The refusal.
    pub refusal: Refusal,
    /// The windows of root ports, if none of them claims an address of the host.
    pub note: Option<String>,
}

impl Fabric {
    /// Returns whether anything other than the upkeep of links is still to come.
    fn is_live(&self) -> bool {
        self.now < self.stalls_at()
            || self.has_timers()
            || self.hosts.iter().any(|host| host.root.is_waiting(self.now))
    }

    /// Returns the time at which the run has been without progress for too long, if links are not silent for longer.
    pub(super) fn stalls_at(&self) -> Time {
        self.last_progress + STALL_LIMIT + self.silence.since(self.last_progress)
    }

    /// True if a device or program will act by itself.
    pub(super) fn has_timers(&self) -> bool {
        self.slots.iter().any(FabricSlot::is_to_act)
            || self.host_started && self.programs().any(|(_, program)| program.wakes_at().is_some())
    }

    /// Called before every event; usually no limit is near.
    pub(super) fn check_end(&mut self, limits: &Limits) -> Option<Stop> {
        let goes_on = !self.ends
            && self.now.since(self.last_progress) < LULL
            && self.at_this_instant < MAX_EVENTS_PER_INSTANT;
        if goes_on { None } else { self.look_closely(limits) }
    }

    #[cold]
    fn look_closely(&mut self, limits: &Limits) -> Option<Stop> {
        let stop = self.check_end_closely(limits.open_ended);
        if stop.is_none() {
            self.pass_quiet_time(limits);
        }
        stop
    }

    fn check_end_closely(&self, open_ended: bool) -> Option<Stop> {
        if let Some(line) = &self.never_sent {
            return Some(Stop::NoProgress(vec![line.clone()]));
        }
        match self.outcome() {
            Some(Err(why)) => Some(Stop::Failed(why.to_string())),
            _ if open_ended => {
                (self.at_this_instant >= MAX_EVENTS_PER_INSTANT).then(|| self.standing_still())
            }
            Some(Ok(())) => self.has_drained().then_some(Stop::Finished),
            None if self.now.since(self.last_progress) >= STALL_LIMIT && !self.is_live() => {
                Some(self.stalled())
            }
            None if self.at_this_instant >= MAX_EVENTS_PER_INSTANT => Some(self.standing_still()),
            None => None,
        }
    }

    /// The programs of hosts, each with the number of its host.
    fn programs(&self) -> impl Iterator<Item = (usize, &HostSlot)> {
        self.hosts.iter().enumerate().filter_map(|(n, host)| Some((n, host.program.as_ref()?)))
    }

    /// Returns whether all TLPs of the ended program have arrived, or had enough time to arrive.
    fn has_drained(&self) -> bool {
        let quiet = |state: &PortState| state.inbound.is_empty() && state.port.transmit_ready_at().is_none();
        self.now.since(self.ended_at) >= DRAIN_LIMIT || self.ports.iter().all(quiet)
    }

    /// Returns the outcome when no event is left: finished, if no part waits.
    pub(super) fn stalled(&self) -> Stop {
        let mut lines = self.waiting();
        if lines.is_empty() && self.programs().next().is_none() {
            return Stop::Finished;
        }
        lines.extend(self.errors());
        Stop::NoProgress(lines)
    }

    /// The name given to a part, or its number.
    fn named(&self, kind: &str, n: usize, at: usize) -> String {
        match self.names.get(at).filter(|name| !name.is_empty()) {
            Some(name) => format!("{kind} `{name}`"),
            None => format!("{kind} {n}"),
        }
    }

    fn slot_name(&self, n: usize) -> String {
        match self.switch_of_slot(n) {
            Some(switch) => self.switch_name(switch.number),
            None if n >= self.devices => "root complex".to_owned(),
            None => self.named("slot", n, n),
        }
    }

    fn switch_name(&self, n: usize) -> String {
        self.named("switch", n, self.slots.len() + n)
    }

    /// Names a port by its link's lower end; links of slots come before those of switches.
    pub(super) fn port_name(&self, id: PortId) -> String {
        let n = id.link().0 as usize;
        let switch = n.checked_sub(self.devices);
        if self.names.get(switch.map_or(n, |n| self.slots.len() + n)).is_none_or(String::is_empty) {
            return id.to_string();
        }
        let lower = switch.map_or_else(|| self.slot_name(n), |n| self.switch_name(n));
        format!("link of {lower} ({} side)", id.side().name())
    }

    /// Returns the report line of one waiting part; a device may put its own name first.
    fn waits(&self, who: String, what: &str) -> String {
        let own = what.split_once(": ").filter(|(name, _)| who.contains(&format!("`{name}`")));
        format!("{who}: {}", own.map_or(what, |(_, rest)| rest))
    }

    /// Returns one report line per waiting part.
    fn waiting(&self) -> Vec<String> {
        let waits = |(n, program): (usize, &HostSlot)| Some(self.of_host(n, &program.waits_for()?));
        let mut lines: Vec<String> = self.programs().filter_map(waits).collect();
        for (host, side) in self.hosts.iter().enumerate() {
            let ports = (0..side.root_ports.len()).filter_map(|n| Some((n, side.root.waits_for(n)?)));
            lines.extend(ports.map(|(n, what)| self.of_host(host, &format!("root port {n}: {what}"))));
        }
        for state in &self.switches {
            let name = self.switch_name(state.number);
            lines.extend(state.switch.waits_for().map(|t| self.waits(name, &t)));
        }
        for (n, slot) in self.slots.iter().enumerate() {
            lines.extend(slot.device.waits_for().map(|t| self.waits(self.slot_name(n), &t)));
        }
        for state in &self.ports {
            let line = state.port.state_line();
            if line != "idle" {
                lines.push(format!("{}: {line}", self.port_name(state.id)));
            }
        }
        lines
    }

    /// Returns one report line per part with counted errors, which are often the reason for a wait.
    fn errors(&self) -> Vec<String> {
        let line = |who: String, counts: Vec<(&str, u64)>| {
            let counts: Vec<String> = counts.into_iter().map(|(name, n)| format!("{name} {n}")).collect();
            (!counts.is_empty()).then(|| format!("errors, {who}: {}", counts.join(", ")))
        };
        let roots = self.hosts.iter().enumerate();
        let roots =
            roots.map(|(n, h)| line(self.of_host(n, "root complex"), h.root.counters().errors().collect()));
        let slots = self.slots.iter().enumerate();
        let slots = slots.map(|(n, s)| line(self.slot_name(n), s.device.errors()));
        let ports = self.ports.iter();
        let ports = ports.map(|p| line(self.port_name(p.id), p.port.counters().errors().collect()));
        roots.flatten().chain(slots.flatten()).chain(ports.flatten()).collect()
    }

    /// The number of [refusals](Self::refusals): of kinds, not of TLPs.
    pub fn refusal_kinds(&self) -> usize {
        let hosts = self.hosts.iter().map(|host| host.root.refusals().len());
        let switches = self.switches.iter().map(|state| state.switch.refusals().len());
        let slots = self.slots.iter().map(|slot| slot.device.refusals().len());
        let links = self.ports.iter().map(|state| state.port.refusals().len());
        hosts.chain(switches).chain(slots).chain(links).sum()
    }

    /// Why TLPs were refused, each with the name of the component.
    pub fn refusals(&self) -> Vec<PlacedRefusal> {
        let hosts = self.hosts.iter().enumerate().flat_map(|(n, host)| {
            let place = |at: u16| format!("root port {at}");
            let placed = placed(self.of_host(n, "root complex"), host.root.refusals().to_vec(), place);
            placed.map(|one| PlacedRefusal { note: host.root.windows_missed(&one.refusal), ..one })
        });
        let switches = self.switches.iter().flat_map(|state| {
            placed(self.switch_name(state.number), state.switch.refusals().to_vec(), |at| {
                format!("port {at}")
            })
        });
        let slots = self.slots.iter().enumerate().flat_map(|(n, slot)| {
            placed(self.slot_name(n), slot.device.refusals(), |at| format!("function {at}"))
        });
        let links = self.ports.iter().flat_map(|state| {
            placed(self.port_name(state.id), state.port.refusals().to_vec(), |_| String::new())
        });
        hosts.chain(switches).chain(slots).chain(links).collect()
    }

    /// Returns the outcome if a part requests an immediate call again and again.
    fn standing_still(&self) -> Stop {
        let mut lines =
            vec![format!("time stands still at {}: {MAX_EVENTS_PER_INSTANT} events there", self.now)];
        for (n, slot) in self.slots.iter().enumerate() {
            if slot.device.poll_timeout().is_some_and(|at| at <= self.now) {
                let what = slot.device.waits_for().unwrap_or_default();
                lines.push(format!("{}: wants to be called again at once: {what}", self.slot_name(n)));
            }
        }
        for (n, program) in self.programs().filter(|(_, program)| program.stands_still(self.now)) {
            let what = self.of_host(n, &program.waits_for().unwrap_or_else(|| "host program".into()));
            lines.push(format!("{what}; it issues requests or requests calls without waiting"));
        }
        lines.extend(self.errors());
        Stop::NoProgress(lines)
    }

    /// Ends a run: completes the counters of the ports up to now, including SKP ordered sets on idle wires. A run that
    /// has reached its time limit may go on.
    pub(super) fn end(&mut self, stop: Stop) -> Stop {
        for state in &mut self.ports {
            state.port.finish(self.now);
        }
        stop
    }
}

/// Adds to each refusal the name of the component and the place in it.
fn placed(
    who: String,
    refusals: Vec<Refusal>,
    name: impl Fn(u16) -> String,
) -> impl Iterator<Item = PlacedRefusal> {
    refusals.into_iter().map(move |refusal| {
        let place = match refusal.place {
            Some(place) => format!("{who}, {}", name(place)),
            None => who.clone(),
        };
        PlacedRefusal { place, refusal, note: None }
    })
}
