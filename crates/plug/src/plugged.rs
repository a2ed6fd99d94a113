// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of plugging in a model: the device at the end of a slot's link, and the host's work for it.

use crate::model::Fault;
use crate::place::Attachment;
use crate::profile::Basis;
use crate::report::{Report, Shown};
use crate::shared::Shared;
use crate::transfers::Transfers;
use capture::OwnRegisters;
use config::BarKind;
use endpoint::{Endpoint, FunctionConfig, MakeRaw, TlpPort, VirtualFunctions};
use host::firmware::{FoundFunction, Window};
use host::os::driver::{DriverFuture, HostTask, Task, boxed};
use host::{Cpu, HostBus, HostProgram};
use link::PortConfig;
use std::any::Any;
use std::fmt::Display;
use std::rc::Rc;
use tlp::{Duration, Time};

/// A raw-TLP device, and a function that creates another one each time the link comes up again.
pub struct RawEnd {
    /// The first device.
    pub first: Box<dyn TlpPort>,
    /// Makes the devices after the first one.
    pub again: MakeRaw,
}

/// Puts a data link layer below a device, which is the device side of a link with these settings.
pub type LinkLayer = Box<dyn FnOnce(Box<dyn TlpPort>, PortConfig) -> Box<dyn TlpPort>>;

/// Wraps an endpoint.
pub type Wrap = Box<dyn FnOnce(Endpoint) -> Box<dyn TlpPort>>;

/// Service of a device that represents a device elsewhere, for that device's driver.
pub struct StandIn {
    /// The BAR through which the other device's BAR is accessed.
    pub bar: u8,
    /// Task that the host completes before the driver starts: it waits for the other device.
    pub arrival: HostTask,
}

/// The component at the end of a link.
pub enum End {
    /// A function with an endpoint.
    Function(Box<FunctionEnd>),
    /// A hard block with a raw-TLP design, or another component that has its own configuration space.
    Block(Box<dyn TlpPort>),
    /// A raw-TLP device in place of the endpoint; enumeration does not find it.
    Raw(RawEnd),
    /// A data link layer, to be put below a device.
    DataLink(LinkLayer),
    /// A root complex.
    RootComplex(RootComplexEnd),
    /// A switch: a slot with its own data link layer for each port, the upstream port first.
    Switch(Vec<Box<dyn TlpPort>>),
}

/// A root complex that is not riser's, below a host.
pub struct RootComplexEnd {
    /// Its root port: a slot with its own data link layer.
    pub frames: Box<dyn TlpPort>,
    /// The bus above it.
    pub bus: Box<dyn HostBus>,
    /// Replaces firmware and drivers of the host, if the design has a CPU with software.
    pub software: Option<Box<dyn HostProgram>>,
    /// Addresses below 4 GiB that it forwards to devices.
    pub memory32: Window,
    /// Addresses from 4 GiB that it forwards to devices.
    pub memory64: Window,
}

/// A function with an endpoint.
pub struct FunctionEnd {
    /// The function.
    pub function: FunctionConfig,
    /// Its virtual functions.
    pub virtual_functions: Option<VirtualFunctions>,
    /// Wrapper around the endpoint.
    pub wrap: Option<Wrap>,
}

/// A device, with its driver, report and the like.
pub struct Plugged {
    /// The component at the end of the link.
    pub end: End,
    /// The host's work for the device.
    pub task: Task,
    /// Report of the device.
    pub report: Option<Box<dyn AnyReport>>,
    /// Place where an outside program joins the device.
    pub place: Option<Rc<dyn Attachment>>,
    /// Service for other drivers, if the device represents another device.
    pub stand_in: Option<StandIn>,
    /// Measured transfers, if any.
    pub measured: Option<Shared<Transfers>>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
    /// Basis of the figures of the device profile; `None` without a profile.
    pub basis: Option<Basis>,
    /// Data link layer below the device, if it is not riser's.
    pub data_link: Option<LinkLayer>,
    /// Whether the gaps after reads in a host's profile (`completions.short_gap_ps` and others) apply to the device.
    pub has_read_gaps: bool,
    /// Time of the wire that each line of the device's writes takes from the completions to it.
    pub write_line_gap: Duration,
    /// Registers of the device itself, for captures. A model's registers are in [`Model::REGISTERS`](crate::Model::REGISTERS).
    pub registers: OwnRegisters,
}

/// The report of a device of any type.
pub trait AnyReport {
    /// See [`Report::shown`].
    fn shown(&self, now: Time) -> Shown;
    /// See [`Report::transfers`].
    fn transfers(&self) -> Option<(u64, u64)>;
    /// See [`Report::failure`].
    fn failure(&self) -> Option<String>;
    /// See [`Report::findings`].
    fn findings(&self, told: usize) -> Vec<String>;
    /// See [`Report::wrong`].
    fn wrong(&self) -> Option<String>;
    /// See [`Report::verdict`].
    fn verdict(&self) -> Option<String>;
    /// Returns the [`Shared`] itself.
    fn as_any(&self) -> &dyn Any;
}

impl<R: Report> AnyReport for Shared<R> {
    fn shown(&self, now: Time) -> Shown {
        self.get().shown(now)
    }

    fn transfers(&self) -> Option<(u64, u64)> {
        self.get().transfers()
    }

    fn failure(&self) -> Option<String> {
        self.get().failure()
    }

    fn findings(&self, told: usize) -> Vec<String> {
        self.get().findings(told)
    }

    fn wrong(&self) -> Option<String> {
        self.get().wrong()
    }

    fn verdict(&self) -> Option<String> {
        self.get().verdict()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Plugged {
    /// Returns a function with an endpoint, and `driver` on the host.
    pub fn new<F, E>(function: FunctionConfig, driver: impl Fn(Cpu, FoundFunction) -> F + 'static) -> Plugged
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        Plugged::of(function, None, Task::Driver(boxed(driver)))
    }

    /// Returns a hard block with its design. `driver` on the host drives its first function.
    pub fn block<F, E>(
        block: impl TlpPort + 'static,
        driver: impl Fn(Cpu, FoundFunction) -> F + 'static,
    ) -> Plugged
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        Plugged::at(End::Block(Box::new(block)), Task::Driver(boxed(driver)))
    }

    /// Returns a hard block with its design. `driver` on the host drives its first function and its virtual functions, the physical
    /// function first.
    pub fn block_with_virtual_functions<F, E>(
        block: impl TlpPort + 'static,
        driver: impl Fn(Cpu, Vec<FoundFunction>) -> F + 'static,
    ) -> Plugged
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        Plugged::at(End::Block(Box::new(block)), Task::Functions(boxed(driver)))
    }

    /// Returns a function with its virtual functions, if any, and a `driver` on the host for all of them.
    pub fn with_virtual_functions<F, E>(
        function: FunctionConfig,
        virtual_functions: Option<VirtualFunctions>,
        driver: impl Fn(Cpu, Vec<FoundFunction>) -> F + 'static,
    ) -> Plugged
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        Plugged::of(function, virtual_functions, Task::Functions(boxed(driver)))
    }

    fn of(function: FunctionConfig, virtual_functions: Option<VirtualFunctions>, task: Task) -> Plugged {
        Plugged::at(End::Function(Box::new(FunctionEnd { function, virtual_functions, wrap: None })), task)
    }

    fn at(end: End, task: Task) -> Plugged {
        let warnings = Vec::new();
        Plugged {
            end,
            task,
            report: None,
            measured: None,
            place: None,
            stand_in: None,
            warnings,
            basis: None,
            data_link: None,
            has_read_gaps: true,
            write_line_gap: Duration::ZERO,
            registers: OwnRegisters::default(),
        }
    }

    /// Returns a raw-TLP device, which reports its end by interrupt `vector` to the host.
    pub fn raw(device: RawEnd, vector: u16) -> Plugged {
        let task = Task::Host(Box::new(move |cpu: Cpu| {
            Box::pin(async move {
                cpu.interrupt(vector).await;
                Ok(())
            })
        }));
        Plugged::at(End::Raw(device), task)
    }

    /// Returns a data link layer that is not riser's. A slot names it as its `data_link`, and has another model as its device.
    pub fn data_link(
        join: impl FnOnce(Box<dyn TlpPort>, PortConfig) -> Box<dyn TlpPort> + 'static,
    ) -> Plugged {
        let task = Task::Host(Box::new(|_| Box::pin(std::future::ready(Ok(())))));
        Plugged::at(End::DataLink(Box::new(join)), task)
    }

    /// Returns a root complex that is not riser's. A host names it as its `root_complex`.
    pub fn root_complex(end: RootComplexEnd) -> Plugged {
        let task = Task::Host(Box::new(|_| Box::pin(std::future::ready(Ok(())))));
        Plugged::at(End::RootComplex(end), task)
    }

    /// Returns a switch that is not riser's, by its ports, the upstream port first. A switch of the lab names it as its `device`.
    pub fn switch(ports: Vec<Box<dyn TlpPort>>) -> Plugged {
        let task = Task::Host(Box::new(|_| Box::pin(std::future::ready(Ok(())))));
        Plugged::at(End::Switch(ports), task)
    }

    /// Puts `link` below this device, with its warnings.
    ///
    /// # Errors
    /// If `link` is not a data link layer, or this device is one.
    pub fn above(mut self, link: Plugged) -> Result<Plugged, Fault> {
        let End::DataLink(join) = link.end else {
            return Err(Fault::at("data_link", "the model is a device, expected a data link layer"));
        };
        self.data_link = Some(join);
        self.warnings.extend(link.warnings);
        Ok(self)
    }

    /// Wraps the endpoint with `around`.
    #[must_use]
    pub fn behind(mut self, around: impl FnOnce(Endpoint) -> Box<dyn TlpPort> + 'static) -> Plugged {
        if let End::Function(end) = &mut self.end {
            end.wrap = Some(Box::new(around));
        }
        self
    }

    /// Sets the names of the registers in captures.
    #[must_use]
    pub fn naming(self, registers: OwnRegisters) -> Plugged {
        Plugged { registers, ..self }
    }

    /// Adds a warning for the user, if there is one.
    #[must_use]
    pub fn warning(mut self, line: Option<String>) -> Plugged {
        self.warnings.extend(line);
        self
    }

    /// Sets the basis of the device profile's figures.
    #[must_use]
    pub fn resting_on(self, basis: Option<Basis>) -> Plugged {
        Plugged { basis, ..self }
    }

    /// Sets whether the gaps after reads in a host's profile apply to the device.
    #[must_use]
    pub fn with_read_gaps(self, has_read_gaps: bool) -> Plugged {
        Plugged { has_read_gaps, ..self }
    }

    /// Sets the time of the wire that each line of the device's writes takes from the completions to it.
    #[must_use]
    pub fn with_write_line_gap(self, write_line_gap: Duration) -> Plugged {
        Plugged { write_line_gap, ..self }
    }

    /// Sets the measured transfers.
    #[must_use]
    pub fn measuring(mut self, transfers: &Shared<Transfers>) -> Plugged {
        self.measured = Some(transfers.clone());
        self
    }

    /// Makes the device represent a device elsewhere.
    #[must_use]
    pub fn standing_in(self, stand_in: StandIn) -> Plugged {
        Plugged { stand_in: Some(stand_in), ..self }
    }

    /// Returns this device with the driver of `other`, whose device is elsewhere. The driver sees only the first memory BAR of its
    /// device, at the address where this device's BAR provides it.
    ///
    /// # Errors
    /// If this device does not represent another one, or the driver of `other` drives no function.
    pub fn driven_as(mut self, other: Plugged) -> Result<Plugged, Fault> {
        let stand_in = self.stand_in.take();
        let StandIn { bar, arrival } = stand_in.ok_or_else(|| {
            Fault::at(
                "driver",
                "the device has its own driver, expected a device that represents another one",
            )
        })?;
        let shown = if let End::Function(end) = &other.end { end.memory_bar() } else { None };
        let shown = shown.ok_or_else(|| {
            Fault::at("driver", "the model has no function with a memory BAR, expected a model that has one")
        })?;
        let moved = move |found: FoundFunction| {
            let mut bars = [None; 6];
            bars[usize::from(shown)] = found.bars[usize::from(bar)];
            FoundFunction { bars, ..found }
        };
        let behind = move |cpu: Cpu, driver: DriverFuture| -> DriverFuture {
            let arrived = arrival(cpu);
            Box::pin(async move {
                arrived.await?;
                driver.await
            })
        };
        self.task = match other.task {
            // A device with virtual functions passes them to the driver if it drives virtual functions.
            Task::Functions(driver) if matches!(self.task, Task::Functions(_)) => {
                Task::Functions(Box::new(move |cpu, found| {
                    let found = found.into_iter().map(&moved).collect();
                    behind(cpu.clone(), driver(cpu, found))
                }))
            }
            Task::Driver(driver) => {
                Task::Driver(Box::new(move |cpu, found| behind(cpu.clone(), driver(cpu, moved(found)))))
            }
            Task::Functions(driver) => {
                Task::Driver(Box::new(move |cpu, found| behind(cpu.clone(), driver(cpu, vec![moved(found)]))))
            }
            task @ Task::Host(_) => task,
        };
        Ok(self)
    }

    /// Sets the place where an outside program joins the device.
    #[must_use]
    pub fn joined_at(mut self, place: impl Attachment) -> Plugged {
        self.place = Some(Rc::new(place));
        self
    }

    /// Sets the report.
    #[must_use]
    pub fn reporting<R: Report>(mut self, report: &Shared<R>) -> Plugged {
        self.report = Some(Box::new(report.clone()));
        self
    }
}

impl FunctionEnd {
    /// Returns the first memory BAR, which is the accessible one if the device is accessed through another one.
    pub fn memory_bar(&self) -> Option<u8> {
        let config = &self.function.config;
        (0..6).find(|n| config.bar(*n).is_some_and(|bar| bar.kind != BarKind::Io))
    }
}

impl End {
    /// Returns the number of bytes of the longest non-posted request with data that the device accepts.
    pub fn longest_non_posted(&self) -> u32 {
        match self {
            End::Function(end) => end.function.config.longest_non_posted(),
            End::Block(block) => block.longest_non_posted(),
            End::Raw(_) | End::DataLink(_) | End::RootComplex(_) | End::Switch(_) => 0,
        }
    }
}
