// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a model makes: what stands at the end of a slot's link, and what the host does for it.

use crate::place::Place;
use crate::report::{Report, Shown};
use crate::shared::Shared;
use device::endpoint::{FunctionConfig, VirtualFunctions};
use device::firmware::FoundFunction;
use device::{Cpu, Endpoint, TlpPort};
use std::any::Any;
use std::fmt::Display;
use std::pin::Pin;
use std::rc::Rc;
use tlp::Time;

/// A driver that runs.
pub type DriverFuture = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// A driver, to be given its function; started again where the function comes again.
pub type Driver = Box<dyn Fn(Cpu, FoundFunction) -> DriverFuture>;

/// A driver, to be given its function and the virtual ones behind it, in their order.
pub type FunctionsDriver = Box<dyn Fn(Cpu, Vec<FoundFunction>) -> DriverFuture>;

/// What the host does for a device that no enumeration finds.
pub type HostTask = Box<dyn Fn(Cpu) -> DriverFuture>;

/// What the host does for a device.
pub enum Task {
    /// Runs the driver of the function found there.
    Driver(Driver),
    /// Runs the driver of all functions found there.
    Functions(FunctionsDriver),
    /// Something else, for what no enumeration finds.
    Host(HostTask),
}

/// Makes a raw-TLP device as it is after power-on; `None` where it cannot, so that the old one has to do.
pub type MakeRaw = Box<dyn Fn() -> Option<Box<dyn TlpPort>>>;

/// A raw-TLP device, and another one like it for each time that its link comes again.
pub struct RawEnd {
    /// The first.
    pub first: Box<dyn TlpPort>,
    /// Those that follow.
    pub again: MakeRaw,
}

/// Puts something around an endpoint.
pub type Wrap = Box<dyn FnOnce(Endpoint) -> Box<dyn TlpPort>>;

/// What stands at the end of a link.
pub enum End {
    /// A function behind an endpoint.
    Function(Box<FunctionEnd>),
    /// A raw-TLP device, in the endpoint's place.
    Raw(RawEnd),
}

/// A function behind an endpoint.
pub struct FunctionEnd {
    /// The function.
    pub function: FunctionConfig,
    /// Virtual functions behind it.
    pub virtual_functions: Option<VirtualFunctions>,
    /// What stands around the endpoint.
    pub wrap: Option<Wrap>,
}

/// A device and what belongs to it.
pub struct Plugged {
    /// What stands at the end of the link.
    pub end: End,
    /// What the host does for it.
    pub task: Task,
    /// What it shows.
    pub report: Option<Box<dyn AnyReport>>,
    /// Where the outside joins it.
    pub place: Option<Rc<dyn Place>>,
    /// What whoever runs it should know: a line each.
    pub warnings: Vec<String>,
}

/// What a device shows, whatever type it has.
pub trait AnyReport {
    /// See [`Report::shown`].
    fn shown(&self, now: Time) -> Shown;
    /// See [`Report::transfers`].
    fn transfers(&self) -> Option<(u64, u64)>;
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
        let task = Task::Driver(Box::new(move |cpu, found| {
            let driving = driver(cpu, found);
            Box::pin(async move { driving.await.map_err(|e| e.to_string()) })
        }));
        Plugged::of(function, None, task)
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
        let task = Task::Functions(Box::new(move |cpu, found| {
            let driving = driver(cpu, found);
            Box::pin(async move { driving.await.map_err(|e| e.to_string()) })
        }));
        Plugged::of(function, virtual_functions, task)
    }

    fn of(function: FunctionConfig, virtual_functions: Option<VirtualFunctions>, task: Task) -> Plugged {
        let end = End::Function(Box::new(FunctionEnd { function, virtual_functions, wrap: None }));
        Plugged { end, task, report: None, place: None, warnings: Vec::new() }
    }

    /// A raw-TLP device, whose end by interrupt `vector` the host waits for.
    #[must_use]
    pub fn raw(device: RawEnd, vector: u16) -> Plugged {
        let task = Task::Host(Box::new(move |cpu: Cpu| {
            Box::pin(async move {
                cpu.interrupt(vector).await;
                Ok(())
            })
        }));
        Plugged { end: End::Raw(device), task, report: None, place: None, warnings: Vec::new() }
    }

    /// With `wrap` around its endpoint.
    #[must_use]
    pub fn behind(mut self, around: impl FnOnce(Endpoint) -> Box<dyn TlpPort> + 'static) -> Plugged {
        if let End::Function(end) = &mut self.end {
            end.wrap = Some(Box::new(around));
        }
        self
    }

    /// With this to say to whoever runs it, where it is something.
    #[must_use]
    pub fn warning(mut self, line: Option<String>) -> Plugged {
        self.warnings.extend(line);
        self
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

impl End {
    /// Bytes of the longest non-posted request with data that it takes.
    #[must_use]
    pub fn longest_non_posted(&self) -> u32 {
        match self {
            End::Function(end) => end.function.config.longest_non_posted(),
            End::Raw(_) => 0,
        }
    }
}
