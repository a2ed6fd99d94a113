// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tasks of a simulated host share: the hierarchy that firmware has found, what hot-plug drivers have to tell, and what
//! has failed. Knows the tree by registers alone: it is never told what a lab does to it.

use crate::boot::Seat;
use crate::fate::{Fate, Loss, keep};
use crate::slot_port::{Reported, SlotPort};
use config::PortType;
use host::Cpu;
use host::cpu::AsyncProgram;
use host::firmware::{Function, Path, System};
use host::{HostInput, HostOutput, HostProgram};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::{Bdf, Duration, Time};

/// Events of one run that are kept.
const MAX_EVENTS: usize = 10_000;

/// Something that the hot-plug driver has seen or done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotPlugEvent {
    /// When.
    pub at: Time,
    /// Name of the slot or switch.
    pub slot: String,
    /// What, as a line.
    pub what: String,
}

/// What the hot-plug drivers of a lab have to tell: up to 10,000 events, in the order of time.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<HotPlugEvent>>>);

impl Log {
    pub(crate) fn note(&self, at: Time, slot: &str, what: String) {
        let mut events = self.0.borrow_mut();
        if events.len() < MAX_EVENTS {
            events.push(HotPlugEvent { at, slot: slot.to_owned(), what });
        }
    }

    pub(crate) fn events(&self) -> Vec<HotPlugEvent> {
        self.0.borrow().clone()
    }
}

/// What has failed, a line for each slot: one that fails ends by itself, and the others go on.
#[derive(Clone, Default)]
pub(crate) struct Failures(Rc<RefCell<Vec<String>>>);

impl Failures {
    pub(crate) fn add(&self, slot: &str, error: &str) {
        let line = format!("slot `{slot}`: {error}");
        let mut lines = self.0.borrow_mut();
        if !lines.contains(&line) && lines.len() < MAX_EVENTS {
            lines.push(line);
        }
    }

    /// All, in the order of time; `None` where nothing has failed.
    pub(crate) fn text(&self) -> Option<String> {
        let lines = self.0.borrow();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// The hierarchy that enumeration has found: one task at a time holds it.
pub(crate) struct Hierarchy {
    system: RefCell<System>,
    waiting: RefCell<Vec<Waker>>,
}

/// The hierarchy in the hands of a task, which gives it back when it lets go of this.
pub(crate) struct Taken<'a> {
    system: RefMut<'a, System>,
    waiting: &'a RefCell<Vec<Waker>>,
}

impl Hierarchy {
    fn new(system: System) -> Hierarchy {
        Hierarchy { system: RefCell::new(system), waiting: RefCell::default() }
    }

    /// Waits until no other task has it.
    pub(crate) async fn take(&self) -> Taken<'_> {
        poll_fn(|cx| match self.system.try_borrow_mut() {
            Ok(system) => Poll::Ready(Taken { system, waiting: &self.waiting }),
            Err(_) => {
                keep(&mut self.waiting.borrow_mut(), cx.waker());
                Poll::Pending
            }
        })
        .await
    }
}

impl Deref for Taken<'_> {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut System {
        &mut self.system
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Each tries again in its turn, and one of them gets it.
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// What the host program of a lab is given: the log and failures that it writes, and its limits.
#[derive(Clone, Default)]
pub(crate) struct Terms {
    pub(crate) log: Log,
    pub(crate) failures: Failures,
    /// How long a driver whose device is gone may go on: its requests end by then, at the latest by Completion Timeout.
    pub(crate) drain: Duration,
    /// Links may go down: it listens to what ports say of theirs, though no slot is hot-plug capable.
    pub(crate) links_go_down: bool,
}

/// What all tasks of the host share.
pub(crate) struct Services {
    pub(crate) cpu: Cpu,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) terms: Terms,
    /// Ports with a hot-plug driver.
    served: BTreeSet<Path>,
    /// The fate of the seat at each path; an entry stays until another seat enters at its path.
    seats: RefCell<Vec<(Path, Fate)>>,
}

impl Services {
    /// Of a host whose ports `served` have hot-plug drivers.
    pub(crate) fn new(cpu: &Cpu, system: System, terms: Terms, served: BTreeSet<Path>) -> Services {
        let hierarchy = Hierarchy::new(system);
        Services { cpu: cpu.clone(), hierarchy, terms, served, seats: RefCell::default() }
    }

    /// Whether it listens to what ports say of their links.
    pub(crate) fn listens(&self) -> bool {
        self.terms.links_go_down || !self.served.is_empty()
    }

    pub(crate) fn note(&self, name: &str, what: String) {
        self.terms.log.note(self.cpu.now(), name, what);
    }

    /// The task of `seat` hears of the ports above it by `fate` from now on.
    pub(crate) fn enter(&self, seat: &Seat, fate: &Fate) {
        let mut seats = self.seats.borrow_mut();
        seats.retain(|(path, _)| *path != seat.path);
        seats.push((seat.path.clone(), fate.clone()));
    }

    /// The task that calls this serves `seat` from now on.
    pub(crate) fn act_for(&self, seat: &Seat) {
        self.cpu.act_for(&format!("slot `{}`", seat.name));
    }

    /// Notes that a slot has failed, and which link or port of its path is down.
    pub(crate) async fn fail(&self, seat: &Seat, error: &str) {
        match self.broken_at(&seat.path).await {
            Some(place) => self.fail_as_told(seat, &format!("{error} ({place})")),
            None => self.fail_as_told(seat, error),
        }
    }

    /// Notes that a slot has failed, for a reason that says where.
    pub(crate) fn fail_as_told(&self, seat: &Seat, error: &str) {
        if self.listens() {
            self.note(&seat.name, format!("failed: {error}"));
        }
        self.terms.failures.add(&seat.name, error);
    }

    /// What has failed so far, as the end of a run says it.
    pub(crate) fn outcome(&self) -> Result<(), String> {
        self.terms.failures.text().map_or(Ok(()), Err)
    }

    /// The first port on a path that does not answer, or whose link is down.
    async fn broken_at(&self, path: &Path) -> Option<String> {
        let ports: Vec<Function> = {
            let system = self.hierarchy.take().await;
            let above = (1..path.0.len()).map(|levels| Path(path.0[..levels].to_vec()));
            above.map_while(|path| system.at_path(&path).cloned()).collect()
        };
        for port in ports.iter().filter(|p| is_above_link(p)) {
            let bdf = port.bdf();
            match SlotPort::new(&self.cpu, port).ok()?.look().await {
                Err(_) => return Some(format!("port {bdf} on its path does not answer")),
                Ok(look) if !look.link_active => return Some(format!("the link below {bdf} is down")),
                Ok(_) => {}
            }
        }
        None
    }

    /// Notes what a root port has been told. Where a link went down that no hot-plug driver looks after, nobody brings up again
    /// what was below it.
    pub(crate) async fn hear(&self, name: &str, errors: Vec<Reported>) {
        for error in errors {
            let source = error.source;
            self.note(name, error.line);
            if error.surprise_down {
                self.lose_below(source).await;
            }
        }
    }

    async fn lose_below(&self, port: Bdf) {
        let path = self.hierarchy.take().await.get(port).map(|f| f.path.clone());
        let Some(path) = path.filter(|path| !self.served.contains(path)) else { return };
        let why = format!(
            "the link below {port} went down, and {port} is not hot-plug capable: nobody brings it up again"
        );
        let seats = self.seats.borrow();
        let below = seats.iter().filter(|(seat, _)| seat.0.starts_with(&path.0));
        below.for_each(|(_, fate)| fate.tell(Loss::ForGood(why.clone())));
    }

    /// The upstream port at `switch` is gone, and with it all below.
    pub(crate) fn lose_all_below(&self, switch: &Path) {
        let seats = self.seats.borrow();
        let below =
            seats.iter().filter(|(seat, _)| seat.0.len() > switch.0.len() && seat.0.starts_with(&switch.0));
        below.for_each(|(_, fate)| fate.tell(Loss::ForNow));
    }

    /// Has the root ports that no hot-plug driver serves look after the errors below them.
    pub(crate) async fn watch_errors(self: &Rc<Self>) {
        let ports: Vec<Function> = {
            let system = self.hierarchy.take().await;
            let own = system.functions().filter(|f| f.parent.is_none() && !self.served.contains(&f.path));
            own.cloned().collect()
        };
        for port in ports {
            self.cpu.spawn(serve_errors(Rc::clone(self), port));
        }
    }
}

fn is_above_link(port: &Function) -> bool {
    port.pcie.and_then(|p| p.port).is_some_and(PortType::is_above_link)
}

/// Serves the error interrupts of a root port that has no such slot itself: what has become of links below its switch.
async fn serve_errors(host: Rc<Services>, function: Function) {
    let Ok(port) = SlotPort::new(&host.cpu, &function) else { return };
    let name = format!("root port {}", function.bdf());
    loop {
        host.cpu.interrupt(port.vector()).await;
        let errors = port.take_errors().await;
        host.hear(&name, errors).await;
    }
}

/// A host program whose configuration requests are counted as they leave, and that says what has failed already where it waits
/// for something that does not come.
pub(crate) struct Observed {
    pub(crate) program: AsyncProgram,
    pub(crate) failures: Failures,
    pub(crate) config_requests: Rc<Cell<u64>>,
}

impl HostProgram for Observed {
    fn handle(&mut self, now: Time, input: HostInput) {
        self.program.handle(now, input);
    }

    fn poll_output(&mut self, now: Time) -> Option<HostOutput> {
        let output = self.program.poll_output(now);
        if let Some(HostOutput::ConfigRead { .. } | HostOutput::ConfigWrite { .. }) = output {
            self.config_requests.set(self.config_requests.get() + 1);
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.program.poll_timeout()
    }

    fn outcome(&self) -> Option<Result<(), String>> {
        self.program.outcome()
    }

    fn waits_for(&self) -> Option<String> {
        let failed = self.failures.text().map(|lines| format!("has failed at {lines}"));
        let parts: Vec<String> = failed.into_iter().chain(self.program.waits_for()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
