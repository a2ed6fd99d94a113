// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boot of a simulated host: enumeration first, then all drivers, each in its own task.

use super::component::Component;
use super::hot_plug::HotPlug;
use super::log::{EventLog, Failures};
use super::loss::{Loss, LossSignal};
use super::services::Services;
use crate::cpu::{Either, JoinHandle, select};
use crate::firmware::{self, HostMap, Path, System};
use crate::{Cpu, DriverError};
use std::collections::BTreeSet;
use std::rc::Rc;
use tlp::Duration;

/// Options of a simulated host.
#[derive(Clone, Default)]
pub struct Options {
    /// Receives the events of the hot-plug drivers.
    pub log: EventLog,
    /// Receives the failures.
    pub failures: Failures,
    /// How long a driver may continue after its device is gone. All its requests have ended by then, the last of them
    /// by Completion Timeout.
    pub drain: Duration,
    /// Links may go down: the host monitors its ports even if no slot is hot-plug capable.
    pub links_go_down: bool,
}

/// Enumerates, then runs the driver of each slot on its function, starts devices that enumeration does not find, and serves the
/// hot-plug capable slots. If a slot fails, the others continue.
///
/// # Errors
/// The failures, after all slots have ended.
pub async fn boot(
    cpu: Cpu,
    map: HostMap,
    components: Vec<Rc<Component>>,
    options: Options,
) -> Result<(), DriverError> {
    let system = firmware::enumerate_host(&cpu, &map).await?;
    let all = components.iter().flat_map(|component| component.all());
    let served: BTreeSet<Path> = all.filter(|c| c.hot_plug.is_some()).map(Component::port).collect();
    let host = Rc::new(Services::new(&cpu, system.clone(), options, served));
    if host.listens() {
        host.watch_errors().await;
        ComponentTasks::start(&host, &components, &system).ended().await?;
    } else {
        run_drivers(&host, &components, &system).await?;
    }
    host.outcome()
}

/// Runs the drivers of a system whose links all stay up, so that no task has to watch the ports.
async fn run_drivers(
    host: &Rc<Services>,
    components: &[Rc<Component>],
    system: &System,
) -> Result<(), DriverError> {
    let mut running = Vec::new();
    for component in components {
        let driver = component.start(host, system).await;
        let (host, component) = (Rc::clone(host), Rc::clone(component));
        let cpu = host.cpu.clone();
        running.push(cpu.spawn(async move {
            host.act_for(&component);
            let result = match driver {
                Ok(driver) => driver.await,
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                host.fail(&component, &error).await;
            }
        }));
    }
    for task in running {
        task.await?;
    }
    Ok(())
}

/// The components below one switch or the root complex, each served by its own task.
pub(super) struct ComponentTasks {
    running: Vec<JoinHandle<()>>,
    stopped: LossSignal,
}

impl ComponentTasks {
    pub(super) fn start(
        host: &Rc<Services>,
        components: &[Rc<Component>],
        system: &System,
    ) -> ComponentTasks {
        let (stopped, found) = (LossSignal::default(), Rc::new(system.clone()));
        let task = |component: &Rc<Component>| {
            let signal = LossSignal::default();
            host.enter(component, &signal);
            let (host, component, found) = (Rc::clone(host), Rc::clone(component), Rc::clone(&found));
            let stopped = stopped.clone();
            let cpu = host.cpu.clone();
            cpu.spawn(async move {
                host.act_for(&component);
                // The task ends when `ComponentTasks` is dropped.
                select(stopped.lost(), serve(host, component, signal, found)).await;
            })
        };
        ComponentTasks { running: components.iter().map(task).collect(), stopped }
    }

    /// Waits until all tasks have ended.
    pub(super) async fn ended(mut self) -> Result<(), DriverError> {
        for task in std::mem::take(&mut self.running) {
            task.await?;
        }
        Ok(())
    }
}

impl Drop for ComponentTasks {
    fn drop(&mut self) {
        self.stopped.set(Loss::Temporary);
    }
}

/// Serves a component until nothing is left to do for it. A failure is reported at the end of the run.
async fn serve(host: Rc<Services>, component: Rc<Component>, signal: LossSignal, found: Rc<System>) {
    let served = match component.hot_plug {
        Some(last_event) => HotPlug::serve(&host, &component, last_event, &signal, &found).await,
        None => serve_driver(&host, &component, &signal, &found).await,
    };
    if let Err(error) = served {
        host.fail(&component, &error).await;
    }
}

/// Runs the driver of a slot that is not hot-plug capable, until a port above it is gone.
async fn serve_driver(
    host: &Rc<Services>,
    component: &Component,
    signal: &LossSignal,
    found: &System,
) -> Result<(), DriverError> {
    let started = match component.start(host, found).await {
        Ok(driver) if component.is_as_found(host, found).await => Ok(driver),
        Ok(_) => Err("its link went down while the host enumerated".into()),
        Err(error) => Err(error),
    };
    let result = match started {
        Err(error) => Err(error),
        Ok(mut driver) => match select(signal.lost(), &mut driver).await {
            Either::Right(result) => result,
            Either::Left(_) => match select(driver, host.cpu.sleep(host.options.drain)).await {
                Either::Left(result) => result,
                Either::Right(()) => Err("its driver is stopped".into()),
            },
        },
    };
    let Err(error) = result else { return Ok(()) };
    match signal.lost_within(&host.cpu, host.options.drain).await {
        None => return Err(error),
        Some(Loss::Permanent(why)) => host.fail_with(component, &format!("{error}: {why}")),
        Some(Loss::Temporary) => host.note(&component.name, format!("removed with a port above it: {error}")),
    }
    Ok(())
}
