// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a model makes: the device at the end of a slot's link, and what the host does for it.

use crate::model::Fault;
use crate::place::Place;
use crate::profile::Basis;
use crate::report::{Report, Shown};
use crate::shared::Shared;
use crate::transfers::Transfers;
use capture::OwnRegisters;
use config::BarKind;
use endpoint::{Endpoint, FunctionConfig, MakeRaw, TlpPort, VirtualFunctions};
use host::Cpu;
use host::firmware::FoundFunction;
use host::os::driver::{DriverFuture, HostTask, Task, boxed};
use std::any::Any;
use std::fmt::Display;
use std::rc::Rc;
use tlp::Time;

/// A raw-TLP device, and how to make another for each time that its link comes up again.
pub struct RawEnd {
    /// The first device.
    pub first: Box<dyn TlpPort>,
    /// Makes the devices after it.
    pub again: MakeRaw,
}

/// Wraps an endpoint.
pub type Wrap = Box<dyn FnOnce(Endpoint) -> Box<dyn TlpPort>>;

/// How a device that stands for one elsewhere serves the driver of that one.
pub struct StandIn {
    /// The BAR through which a BAR of the other device is reached.
    pub bar: u8,
    /// What the host awaits before the driver begins: the arrival of the other device.
    pub arrival: HostTask,
}

/// What stands at the end of a link.
pub enum End {
    /// A function behind an endpoint.
    Function(Box<FunctionEnd>),
    /// A hard block with a design of raw TLPs, or whatever else has a configuration space of its own.
    Block(Box<dyn TlpPort>),
    /// A raw-TLP device, in the endpoint's place, which no enumeration finds.
    Raw(RawEnd),
}

/// A function behind an endpoint.
pub struct FunctionEnd {
    /// The function.
    pub function: FunctionConfig,
    /// Virtual functions behind it.
    pub virtual_functions: Option<VirtualFunctions>,
    /// What wraps the endpoint.
    pub wrap: Option<Wrap>,
}

/// A device, with its driver, report and the like.
pub struct Plugged {
    /// What stands at the end of the link.
    pub end: End,
    /// What the host does for it.
    pub task: Task,
    /// Its report.
    pub report: Option<Box<dyn AnyReport>>,
    /// Where the outside joins it.
    pub place: Option<Rc<dyn Place>>,
    /// How it serves other drivers, if it stands for another device.
    pub stand_in: Option<StandIn>,
    /// The transfers that it measures, if it does.
    pub measured: Option<Shared<Transfers>>,
    /// Warnings to whoever runs it, a line each.
    pub warnings: Vec<String>,
    /// How the figures of its profile are known, if it has one.
    pub basis: Option<Basis>,
    /// Registers that the device brings along, for captures. Those of a model are in [`Model::REGISTERS`](crate::Model::REGISTERS).
    pub registers: OwnRegisters,
}

/// The report of a device, whatever its type.
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
    /// The [`Shared`] itself.
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
    /// A function behind an endpoint, with `driver` on the host.
    pub fn new<F, E>(function: FunctionConfig, driver: impl Fn(Cpu, FoundFunction) -> F + 'static) -> Plugged
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        Plugged::of(function, None, Task::Driver(boxed(driver)))
    }

    /// A hard block with its design, whose first function `driver` drives on the host.
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

    /// A hard block with its design, whose first function and its virtual ones `driver` drives on the host, the physical one first.
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

    /// A function with virtual ones, where it has any, with `driver` for all of them on the host.
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
            registers: OwnRegisters::default(),
        }
    }

    /// A raw-TLP device; the host waits for interrupt `vector`, by which it says that it has ended.
    pub fn raw(device: RawEnd, vector: u16) -> Plugged {
        let task = Task::Host(Box::new(move |cpu: Cpu| {
            Box::pin(async move {
                cpu.interrupt(vector).await;
                Ok(())
            })
        }));
        Plugged::at(End::Raw(device), task)
    }

    /// With `wrap` around its endpoint.
    #[must_use]
    pub fn behind(mut self, around: impl FnOnce(Endpoint) -> Box<dyn TlpPort> + 'static) -> Plugged {
        if let End::Function(end) = &mut self.end {
            end.wrap = Some(Box::new(around));
        }
        self
    }

    /// Names its registers in captures.
    #[must_use]
    pub fn naming(self, registers: OwnRegisters) -> Plugged {
        Plugged { registers, ..self }
    }

    /// Adds a warning to whoever runs it, if there is one.
    #[must_use]
    pub fn warning(mut self, line: Option<String>) -> Plugged {
        self.warnings.extend(line);
        self
    }

    /// Sets the basis of the figures of its profile.
    #[must_use]
    pub fn resting_on(self, basis: Option<Basis>) -> Plugged {
        Plugged { basis, ..self }
    }

    /// With transfers that are measured here.
    #[must_use]
    pub fn measuring(mut self, transfers: &Shared<Transfers>) -> Plugged {
        self.measured = Some(transfers.clone());
        self
    }

    /// Standing for a device elsewhere.
    #[must_use]
    pub fn standing_in(self, stand_in: StandIn) -> Plugged {
        Plugged { stand_in: Some(stand_in), ..self }
    }

    /// This device with the driver of `other`, whose device is elsewhere. Of its BARs the driver sees the first
    /// memory BAR, at the place where this device's BAR leads to it.
    ///
    /// # Errors
    /// Where this device stands for no other, or the driver of `other` drives no function.
    pub fn driven_as(mut self, other: Plugged) -> Result<Plugged, Fault> {
        let stand_in = self.stand_in.take();
        let StandIn { bar, arrival } = stand_in.ok_or_else(|| {
            Fault::at("driver", "the device has a driver of its own: legal are devices that stand for others")
        })?;
        let shown = if let End::Function(end) = &other.end { end.memory_bar() } else { None };
        let shown = shown.ok_or_else(|| {
            Fault::at(
                "driver",
                "that model has no function with a BAR of memory: legal are models that have one",
            )
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
            // A device with virtual functions shows them to the driver of one that has some.
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

    /// With a place where the outside joins it.
    #[must_use]
    pub fn joined_at(mut self, place: impl Place) -> Plugged {
        self.place = Some(Rc::new(place));
        self
    }

    /// With this report.
    #[must_use]
    pub fn reporting<R: Report>(mut self, report: &Shared<R>) -> Plugged {
        self.report = Some(Box::new(report.clone()));
        self
    }
}

impl FunctionEnd {
    /// Its first memory BAR: the one that is shown where it is reached through another device.
    pub fn memory_bar(&self) -> Option<u8> {
        let config = &self.function.config;
        (0..6).find(|n| config.bar(*n).is_some_and(|bar| bar.kind != BarKind::Io))
    }
}

impl End {
    /// Bytes of the longest non-posted request with data that it accepts.
    pub fn longest_non_posted(&self) -> u32 {
        match self {
            End::Function(end) => end.function.config.longest_non_posted(),
            End::Block(block) => block.longest_non_posted(),
            End::Raw(_) => 0,
        }
    }
}
