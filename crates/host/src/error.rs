// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of drivers and of the operating system of a simulated host.

use crate::firmware::{BarError, FirmwareError};
use crate::memory::{MemoryError, OutOfRange};
use device::seam::CompletionError;
use exec::SpawnError;
use std::fmt::Display;
use thiserror::Error;

/// Reason why a host's request has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// The completer rejected the request.
    #[error("{0}")]
    Completion(CompletionError),
    /// CRS: the function is not ready, or defers a deferrable write.
    #[error("the function is not ready")]
    ConfigRetry,
    /// No completion arrived in time.
    #[error("no completion came in time")]
    CompletionTimeout,
    /// The completion was poisoned, or did not match the request.
    #[error("the completion does not match the request")]
    BadCompletion,
    /// No device answers at this address or ID.
    #[error("no device answers at this address or ID")]
    NoDevice,
    /// The root port may not issue AtomicOps (`PCIe 5.0 §7.5.3.16`).
    #[error(
        "AtomicOp Requester Enable or Bus Master Enable of the root port is clear; AtomicOps need both (§7.5.3.16)"
    )]
    AtomicsDisabled,
}

/// Reason why a driver or the host's other software has failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DriverError {
    /// A request to a device has failed.
    #[error(transparent)]
    Request(#[from] HostError),
    /// Host memory cannot be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An access to host memory is out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The function has no such BAR, or a shorter one.
    #[error(transparent)]
    Bar(#[from] BarError),
    /// Enumeration has failed.
    #[error(transparent)]
    Firmware(#[from] FirmwareError),
    /// A task of the driver has ended early.
    #[error(transparent)]
    Task(#[from] SpawnError),
    /// An error at a place: a function, a BAR, a queue.
    #[error("{place}: {error}")]
    At {
        /// The place.
        place: String,
        /// The error at this place.
        error: Box<DriverError>,
    },
    /// The device does not behave as its driver expects.
    #[error("{0}")]
    Unexpected(String),
}

impl DriverError {
    /// Adds the place of the error.
    #[must_use]
    pub fn at(self, place: impl Display) -> DriverError {
        DriverError::At { place: place.to_string(), error: Box::new(self) }
    }
}

impl From<String> for DriverError {
    fn from(text: String) -> DriverError {
        DriverError::Unexpected(text)
    }
}

/// Drivers may use errors of any type.
impl From<Box<dyn std::error::Error>> for DriverError {
    fn from(error: Box<dyn std::error::Error>) -> DriverError {
        DriverError::Unexpected(error.to_string())
    }
}

impl From<&str> for DriverError {
    fn from(text: &str) -> DriverError {
        DriverError::Unexpected(text.to_owned())
    }
}

impl From<DriverError> for String {
    fn from(error: DriverError) -> String {
        error.to_string()
    }
}
