// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seam from the other side: programs that run on a host, and the memory they share with devices.

use crate::seam::CompletionError;
use std::fmt;
use tlp::{Bdf, Data, Time};

/// A program on a host, such as a driver. Sans-IO; whoever drives it calls `poll_*` after every `handle`, until each
/// says `None`.
pub trait HostProgram {
    /// Takes an input.
    fn handle(&mut self, now: Time, input: HostInput);

    /// The next output, if there is one; an output that is polled is accepted.
    #[must_use]
    fn poll_output(&mut self, now: Time) -> Option<HostOutput>;

    /// When to hand it [`HostInput::Timer`] next.
    #[must_use]
    fn poll_timeout(&self) -> Option<Time>;

    /// How it ended, once it has.
    #[must_use]
    fn outcome(&self) -> Option<Result<(), String>>;

    /// One line on what it waits for, where it waits for anything.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// Names a read of a host program until it ends; chosen by the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostReadId(pub u32);

/// What comes in to a host program.
#[derive(Debug)]
pub enum HostInput {
    /// An MMIO or configuration read, or a configuration write, has ended.
    Done {
        /// The read.
        id: HostReadId,
        /// Its bytes (none after a write), or why there are none.
        result: Result<Data, HostError>,
    },
    /// A message-signalled interrupt arrived.
    Interrupt {
        /// The data of the MSI write: the vector.
        vector: u16,
    },
    /// The time that `poll_timeout` named has come.
    Timer,
}

/// What a host program does.
#[derive(Debug)]
pub enum HostOutput {
    /// Reads device memory; answered by [`HostInput::Done`].
    MmioRead {
        /// Chosen by the program, unique among its reads under way.
        id: HostReadId,
        /// Address of the first byte.
        address: u64,
        /// Bytes, 1 to 4096, not crossing 4 KiB.
        len: u32,
    },
    /// Writes device memory; posted. 1 to 4096 bytes, not crossing 4 KiB; longer than Max_Payload_Size is split.
    MmioWrite {
        /// Address of the first byte.
        address: u64,
        /// The bytes.
        data: Data,
    },
    /// Reads a configuration register; answered by [`HostInput::Done`] with four bytes.
    ConfigRead {
        /// Chosen by the program.
        id: HostReadId,
        /// The function.
        function: Bdf,
        /// Register as a DW number, 0 to 1023.
        register_dw: u16,
    },
    /// Writes a configuration register; answered by [`HostInput::Done`].
    ConfigWrite {
        /// Chosen by the program.
        id: HostReadId,
        /// The function.
        function: Bdf,
        /// Register as a DW number, 0 to 1023.
        register_dw: u16,
        /// Byte Enables, bits 3:0.
        byte_enables: u8,
        /// The value.
        value: u32,
    },
}

/// Why a host's request was not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostError {
    /// The completer refused.
    Completion(CompletionError),
    /// CRS: the function is not ready yet.
    ConfigRetry,
    /// No completion came in time.
    CompletionTimeout,
    /// The completion was poisoned, or did not fit the request.
    BadCompletion,
    /// No device answers at this address or ID.
    NoDevice,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostError::Completion(CompletionError::UnsupportedRequest) => {
                "the device does not support the request"
            }
            HostError::Completion(CompletionError::CompleterAbort) => "the device aborted the request",
            HostError::ConfigRetry => "the function is not ready",
            HostError::CompletionTimeout => "no completion came in time",
            HostError::BadCompletion => "the completion does not fit the request",
            HostError::NoDevice => "no device answers there",
        })
    }
}

impl std::error::Error for HostError {}
