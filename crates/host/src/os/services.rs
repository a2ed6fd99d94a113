// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State that the tasks of a simulated host share: the hierarchy that firmware has found, and the state of each component.

use super::boot::Options;
use super::component::Component;
use super::loss::{Loss, LossSignal, keep};
use super::slot_port::{LoggedErrors, SlotPort};
use crate::firmware::{Function, Path, System};
use crate::{Cpu, DriverError};
use config::PortType;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::Bdf;

/// The hierarchy that enumeration has found. Only one task at a time can lock it.
pub(super) struct Hierarchy {
    system: RefCell<System>,
    waiting: RefCell<Vec<Waker>>,
}

/// A locked hierarchy, which is unlocked on drop.
pub(super) struct HierarchyGuard<'a> {
    system: RefMut<'a, System>,
    waiting: &'a RefCell<Vec<Waker>>,
}

impl Hierarchy {
    fn new(system: System) -> Hierarchy {
        Hierarchy { system: RefCell::new(system), waiting: RefCell::default() }
    }

    /// Waits until no other task has it locked.
    pub(super) async fn lock(&self) -> HierarchyGuard<'_> {
        poll_fn(|cx| match self.system.try_borrow_mut() {
            Ok(system) => Poll::Ready(HierarchyGuard { system, waiting: &self.waiting }),
            Err(_) => {
                keep(&mut self.waiting.borrow_mut(), cx.waker());
                Poll::Pending
            }
        })
        .await
    }
}

impl Deref for HierarchyGuard<'_> {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl DerefMut for HierarchyGuard<'_> {
    fn deref_mut(&mut self) -> &mut System {
        &mut self.system
    }
}

impl Drop for HierarchyGuard<'_> {
    fn drop(&mut self) {
        // All waiters try again in order, and one of them gets it.
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// State that all tasks of the host share.
pub(super) struct Services {
    pub(super) cpu: Cpu,
    pub(super) hierarchy: Hierarchy,
    pub(super) options: Options,
    /// Ports with a hot-plug driver.
    served: BTreeSet<Path>,
    /// The loss signal of the component at each path. An entry stays until another component is entered at its path.
    components: RefCell<Vec<(Path, LossSignal)>>,
}

impl Services {
    /// Creates the services of a host whose ports `served` have hot-plug drivers.
    pub(super) fn new(cpu: &Cpu, system: System, options: Options, served: BTreeSet<Path>) -> Services {
        let hierarchy = Hierarchy::new(system);
        Services { cpu: cpu.clone(), hierarchy, options, served, components: RefCell::default() }
    }

    /// Returns true if the host monitors ports whose links may go down.
    pub(super) fn listens(&self) -> bool {
        self.options.links_go_down || !self.served.is_empty()
    }

    pub(super) fn note(&self, name: &str, what: String) {
        self.options.log.note(self.cpu.now(), name, what);
    }

    /// Registers a component. Its task learns through `signal` if a port above it is lost.
    pub(super) fn enter(&self, component: &Component, signal: &LossSignal) {
        let mut components = self.components.borrow_mut();
        components.retain(|(path, _)| *path != component.path);
        components.push((component.path.clone(), signal.clone()));
    }

    /// Makes the calling task act for `component`.
    pub(super) fn act_for(&self, component: &Component) {
        self.cpu.act_for(&format!("slot `{}`", component.name));
    }

    /// Records that a slot has failed, and which link or port on its path is down.
    pub(super) async fn fail(&self, component: &Component, error: &DriverError) {
        match self.broken_at(&component.path).await {
            Some(place) => self.fail_with(component, &format!("{error} ({place})")),
            None => self.fail_with(component, &error.to_string()),
        }
    }

    /// Records that a slot has failed, with an error that already has the place.
    pub(super) fn fail_with(&self, component: &Component, error: &str) {
        if self.listens() {
            self.note(&component.name, format!("failed: {error}"));
        }
        self.options.failures.add(&component.name, error);
    }

    /// Returns the failures so far as the result of the run.
    pub(super) fn outcome(&self) -> Result<(), DriverError> {
        self.options.failures.text().map_or(Ok(()), |failures| Err(failures.into()))
    }

    /// Describes the first port on a path that does not answer, or whose link is down.
    async fn broken_at(&self, path: &Path) -> Option<String> {
        let ports: Vec<Function> = {
            let system = self.hierarchy.lock().await;
            let above = (1..path.0.len()).map(|levels| Path(path.0[..levels].to_vec()));
            above.map_while(|path| system.at_path(&path).cloned()).collect()
        };
        for port in ports.iter().filter(|p| is_above_link(p)) {
            let bdf = port.bdf();
            match SlotPort::new(&self.cpu, port).ok()?.status().await {
                Err(_) => return Some(format!("port {bdf} on its path does not answer")),
                Ok(status) if !status.link_active => return Some(format!("the link below {bdf} is down")),
                Ok(_) => {}
            }
        }
        None
    }

    /// Records the errors that a root port has received. Everything below a link that went down is lost for good, unless a hot-plug
    /// driver serves the port above that link.
    pub(super) async fn handle_errors(&self, name: &str, errors: Vec<LoggedErrors>) {
        for error in errors {
            let source = error.source;
            self.note(name, error.line);
            if error.surprise_down {
                self.lose_below(source).await;
            }
        }
    }

    async fn lose_below(&self, port: Bdf) {
        let path = self.hierarchy.lock().await.get(port).map(|f| f.path.clone());
        let Some(path) = path.filter(|path| !self.served.contains(path)) else { return };
        let why = format!(
            "the link below {port} went down, and {port} is not hot-plug capable: the operating system does not use what is below it again"
        );
        let components = self.components.borrow();
        let below = components.iter().filter(|(at, _)| at.0.starts_with(&path.0));
        below.for_each(|(_, signal)| signal.set(Loss::Permanent(why.clone())));
    }

    /// Signals the loss of all components below the upstream port at `switch`, which is gone.
    pub(super) fn lose_all_below(&self, switch: &Path) {
        let components = self.components.borrow();
        let below =
            components.iter().filter(|(at, _)| at.0.len() > switch.0.len() && at.0.starts_with(&switch.0));
        below.for_each(|(_, signal)| signal.set(Loss::Temporary));
    }

    /// Starts a task for each root port without a hot-plug driver, which handles the errors below it.
    pub(super) async fn watch_errors(self: &Rc<Self>) {
        let ports: Vec<Function> = {
            let system = self.hierarchy.lock().await;
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

/// Serves the error interrupts of a root port without a hot-plug driver: links below its switch may go down.
async fn serve_errors(host: Rc<Services>, function: Function) {
    let Ok(port) = SlotPort::new(&host.cpu, &function) else { return };
    let name = format!("root port {}", function.bdf());
    loop {
        host.cpu.interrupt(port.vector()).await;
        let errors = port.take_errors().await;
        host.handle_errors(&name, errors).await;
    }
}
