// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enumerates a lab. The host enumerates as before the start of drivers, then reads every configuration space, and
//! ends. All results come from configuration requests, except the names of the lab.

use crate::Session;
use config::lspci::Selection;
use fabric::{Limits, Stop};
use host::cpu::AsyncProgram;
use host::firmware::{Function, HostMap, Path, System, enumerate_host};
use host::os::{Failures, ObservedProgram};
use host::{Cpu, DriverError};
use lab::schema::{Hanging, Lab};
use lab::{BuildError, BuildOptions, Hierarchy, LabFile, OwnProgram};
use plug::RunContext;
use plug::site::NativeCode;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use thiserror::Error;
use tlp::{Bdf, Duration, Time};

/// Reason why a lab was not enumerated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnumerateError {
    /// The lab cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A part of the lab is a design that answers configuration requests by native code, which may not run.
    #[error(
        "{0} has a design, which answers only if its code runs; expected --allow-native of `riser lspci`"
    )]
    Design(String),
    /// Enumeration has failed.
    #[error("{0}")]
    Failed(String),
    /// The run has ended early.
    #[error("{0}")]
    Stopped(Stop),
}

/// The hierarchy that enumeration has found.
#[derive(Clone, Debug)]
pub struct Enumerated {
    /// The tree that the enumeration software has found.
    pub system: System,
    /// Every function, in the order of their IDs.
    pub functions: Vec<EnumeratedFunction>,
    /// Duration of enumeration, without reading configuration spaces after it.
    pub took: Duration,
    /// Configuration requests of the enumeration.
    pub config_requests: u64,
}

/// No function is selected.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no function {0}: {1}")]
pub struct NoFunction(Selection, String);

impl Enumerated {
    /// Returns the functions of a selection; `None` selects all.
    ///
    /// # Errors
    /// The selection has no function.
    pub fn select(&self, selection: Option<Selection>) -> Result<Vec<&EnumeratedFunction>, NoFunction> {
        let Some(selection) = selection else { return Ok(self.functions.iter().collect()) };
        let chosen: Vec<_> = self.functions.iter().filter(|f| selection.takes(f.bdf)).collect();
        let there = match (self.functions.first(), self.functions.last()) {
            _ if !chosen.is_empty() => return Ok(chosen),
            (Some(first), Some(last)) => {
                format!("there are {} functions, {} to {}", self.functions.len(), first.bdf, last.bdf)
            }
            _ => "the lab has no functions".to_owned(),
        };
        Err(NoFunction(selection, there))
    }
}

/// A function with its configuration space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumeratedFunction {
    /// Bus, device and function.
    pub bdf: Bdf,
    /// The function's path, which does not depend on bus numbers.
    pub path: Path,
    /// The function's place, with the names of the lab.
    pub place: TreePosition,
    /// The configuration space: 4096 bytes, or 256 without a PCI Express capability. Rejected reads are all ones.
    pub bytes: Vec<u8>,
}

/// A place in the tree, with the lab's names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreePosition {
    /// A root port.
    RootPort {
        /// The slot or switch below it.
        to: Option<String>,
    },
    /// The upstream port of a switch.
    Upstream {
        /// The switch.
        switch: String,
    },
    /// A downstream port of a switch.
    Downstream {
        /// The switch.
        switch: String,
        /// The number of the port, from 1.
        port: u8,
        /// The slot or switch below it.
        to: Option<String>,
    },
    /// A function of the device in a slot.
    Slot {
        /// The slot.
        slot: String,
        /// The device's model, by its name in the lab.
        model: String,
        /// The physical function, if this is a virtual function.
        vf_of: Option<Bdf>,
    },
    /// A place without a name in the lab.
    Unnamed,
}

/// Builds the lab, lets its host enumerate and read all configuration spaces, and runs it until this is done. No driver
/// runs; faults, outages and limits of links are as in the lab.
///
/// # Errors
/// A part that cannot be built, an error of enumeration, or the waiting parts if the run makes no progress.
pub fn enumerate(file: &LabFile) -> Result<Enumerated, EnumerateError> {
    enumerate_with(file, NativeCode::NotLoaded, RunContext::default())
}

/// Like [`enumerate`]; models can use `context` when they are plugged in. With [`NativeCode::Allowed`], native code runs.
///
/// # Errors
/// As [`enumerate`].
pub fn enumerate_with(
    file: &LabFile,
    native: NativeCode,
    context: RunContext,
) -> Result<Enumerated, EnumerateError> {
    file.check_runs_alone()?;
    if let (NativeCode::NotLoaded, Some(part)) = (native, file.design()) {
        return Err(EnumerateError::Design(part));
    }
    let ports = Hierarchy::port_paths(file)?;
    let result: Rc<RefCell<Option<Found>>> = Rc::default();
    let kept = Rc::clone(&result);
    let program: OwnProgram = Box::new(move |payloads, memory, map| {
        let requests = Rc::new(Cell::new(0));
        let config_requests = Rc::clone(&requests);
        let program = |cpu: Cpu| async move {
            let found = look(&cpu, &map, &requests).await?;
            *kept.borrow_mut() = Some(found);
            Ok::<(), DriverError>(())
        };
        let program = AsyncProgram::with_pool(payloads, memory, program);
        Box::new(ObservedProgram { program, failures: Failures::default(), config_requests })
    });
    let options = BuildOptions { native, context, program: Some(program), ..BuildOptions::default() };
    let stop = Session::with(file, options)?.fabric.run(Limits::default());
    let found = result.take();
    match (found, stop) {
        (Some(found), Stop::Finished) => Ok(named(&file.lab, ports, found)),
        (_, Stop::Failed(why)) => Err(EnumerateError::Failed(why)),
        (_, stop) => Err(EnumerateError::Stopped(stop)),
    }
}

/// The result of the host program.
struct Found {
    system: System,
    spaces: Vec<Vec<u8>>,
    took: Duration,
    config_requests: u64,
}

async fn look(cpu: &Cpu, map: &HostMap, requests: &Cell<u64>) -> Result<Found, DriverError> {
    let system = enumerate_host(cpu, map).await?;
    let took = cpu.now().since(Time::ZERO);
    let config_requests = requests.get();
    let mut spaces = Vec::with_capacity(system.len());
    for function in system.functions() {
        spaces.push(system.read_config(cpu, function.bdf()).await?);
    }
    Ok(Found { system, spaces, took, config_requests })
}

fn named(lab: &Lab, ports: Vec<Path>, found: Found) -> Enumerated {
    let Found { system, spaces, took, config_requests } = found;
    let names = Names { lab, all: lab.hanging().collect(), ports };
    let function = |(function, bytes): (&Function, Vec<u8>)| EnumeratedFunction {
        bdf: function.bdf(),
        path: function.path.clone(),
        place: names.place(&system, function),
        bytes,
    };
    let functions = system.functions().zip(spaces).map(function).collect();
    Enumerated { system, functions, took, config_requests }
}

/// The ports of a lab, and the slots and switches below them.
struct Names<'a> {
    lab: &'a Lab,
    /// Slots, then switches.
    all: Vec<Hanging<'a>>,
    /// The port above each of them.
    ports: Vec<Path>,
}

impl Names<'_> {
    fn name(&self, link: usize) -> String {
        self.all[link].name.get_ref().clone()
    }

    /// Returns the slot or switch below the port at `path`.
    fn below(&self, path: &Path) -> Option<usize> {
        self.ports.iter().position(|port| port == path)
    }

    fn place(&self, system: &System, function: &Function) -> TreePosition {
        let to = self.below(&function.path).map(|link| self.name(link));
        // A virtual function is at the place of its physical function.
        let owner = function.vf_of.and_then(|pf| system.get(pf)).unwrap_or(function);
        let Some(parent) = owner.parent.and_then(|bdf| system.get(bdf)) else {
            return if function.bridge.is_some() {
                TreePosition::RootPort { to }
            } else {
                TreePosition::Unnamed
            };
        };
        match (self.below(&parent.path), self.switch_of(system, parent)) {
            (Some(link), _) if link < self.lab.slot.len() => {
                let slot = &self.lab.slot[link];
                let (slot, model) = (slot.name.get_ref().clone(), slot.device.get_ref().clone());
                TreePosition::Slot { slot, model, vf_of: function.vf_of }
            }
            (Some(link), _) => TreePosition::Upstream { switch: self.name(link) },
            (None, Some(link)) => {
                let step = function.path.0.last().copied().unwrap_or_default();
                TreePosition::Downstream { switch: self.name(link), port: (step >> 3) + 1, to }
            }
            (None, None) => TreePosition::Unnamed,
        }
    }

    /// The link of the switch that has this upstream port.
    fn switch_of(&self, system: &System, upstream: &Function) -> Option<usize> {
        let above = system.get(upstream.parent?)?;
        self.below(&above.path).filter(|link| *link >= self.lab.slot.len())
    }
}
