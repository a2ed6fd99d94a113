// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types of drivers, which the host runs on the functions that enumeration finds.

use crate::firmware::FoundFunction;
use crate::{Cpu, DriverError};
use std::fmt::Display;
use std::pin::Pin;

/// A running driver.
pub type DriverFuture = Pin<Box<dyn Future<Output = Result<(), DriverError>>>>;

/// A driver, called with its function. The driver is started again each time its function is added.
pub type Driver = Box<dyn Fn(Cpu, FoundFunction) -> DriverFuture>;

/// A driver, called with its function and that function's virtual functions, in order.
pub type FunctionsDriver = Box<dyn Fn(Cpu, Vec<FoundFunction>) -> DriverFuture>;

/// The host's work for a device that enumeration does not find.
pub type HostTask = Box<dyn Fn(Cpu) -> DriverFuture>;

/// The host's work for a device.
pub enum Task {
    /// Runs the driver of the function that was found in the slot.
    Driver(Driver),
    /// Runs the driver of all functions that were found in the slot.
    Functions(FunctionsDriver),
    /// Runs a task for a device that enumeration does not find.
    Host(HostTask),
}

/// Boxes a driver whose error can be displayed.
pub fn boxed<Found, F, E>(
    driver: impl Fn(Cpu, Found) -> F + 'static,
) -> Box<dyn Fn(Cpu, Found) -> DriverFuture>
where
    F: Future<Output = Result<(), E>> + 'static,
    E: Display,
{
    Box::new(move |cpu, found| {
        let driving = driver(cpu, found);
        Box::pin(async move { driving.await.map_err(|e| e.to_string().into()) })
    })
}
