// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows of a traffic generator. This module does not depend on the targets of the addresses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tlp::{Attributes, Bdf, Class, Duration, TrafficClass};

/// Maximum number of flows of one device.
pub const MAX_FLOWS: usize = 64;
/// Maximum number of outstanding reads and AtomicOps of all flows of a device: 10-bit tags. Tags with bits 9:8 of 00b
/// also serve as 8-bit tags (`PCIe 5.0 §2.2.6.2`).
pub const MAX_TAGS: u16 = 1024;

/// Kind of the requests of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// Memory reads.
    Read,
    /// Memory writes.
    Write,
    /// FetchAdds of one.
    Atomic,
    /// Vendor-defined messages (Type 1) to the root complex.
    Message,
}

/// A flow: requests of one kind, one TLP each.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Name in reports.
    pub name: String,
    /// Kind of its requests.
    pub kind: FlowKind,
    /// Size of each request in bytes: for a write or read 1 to 4096, for an AtomicOp 4 or 8, for a message a multiple of
    /// 4.
    pub size_bytes: u32,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes.
    pub attr: Attributes,
    /// Address of its window, a multiple of 4096.
    pub address: u64,
    /// Size of its window in bytes. Requests go through it in steps of the next power of two of their size.
    pub window_bytes: u64,
    /// Minimum interval between two requests; zero for as fast as the link accepts them.
    pub interval: Duration,
    /// Total number of requests.
    pub count: u64,
    /// For reads and AtomicOps: maximum number of outstanding requests.
    pub outstanding: u16,
}

/// Settings of a traffic generator.
#[derive(Clone, Debug)]
pub struct TrafficSettings {
    /// Its Requester ID.
    pub id: Bdf,
    /// Its flows.
    pub flows: Vec<Flow>,
    /// From the start of its link to its first request.
    pub delay: Duration,
    /// Data of the interrupt message that signals the end of all flows; `None` to send none.
    pub done_vector: Option<u16>,
}

/// Error in the settings.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    /// Number of flows.
    #[error("{0} flows, expected 1 to {MAX_FLOWS}")]
    Flows(usize),
    /// Size of a request.
    #[error("flow `{0}`: {1} bytes, expected {2}")]
    Size(String, u32, &'static str),
    /// Size and address of the window.
    #[error(
        "flow `{0}`: window of {1} bytes at {2:#x}, expected a size and address that are multiples of 4096, and at least 4096 B"
    )]
    Window(String, u64, u64),
    /// No requests.
    #[error("flow `{0}`: count of 0, expected 1 or more")]
    Count(String),
    /// Outstanding requests.
    #[error(
        "{0} outstanding reads and AtomicOps in all flows, expected 1 to {MAX_TAGS}, at least 1 per flow"
    )]
    Outstanding(u32),
}

impl Flow {
    /// Returns the class of its requests.
    pub const fn class(&self) -> Class {
        match self.kind {
            FlowKind::Write | FlowKind::Message => Class::Posted,
            FlowKind::Read | FlowKind::Atomic => Class::NonPosted,
        }
    }

    /// Returns the number of tags that it needs.
    pub(super) const fn tags(&self) -> u16 {
        match self.class() {
            Class::NonPosted => self.outstanding,
            Class::Posted | Class::Completion => 0,
        }
    }

    /// Returns the number of data bytes that complete one of its requests.
    pub(super) const fn answer_bytes(&self) -> u32 {
        match self.kind {
            FlowKind::Read | FlowKind::Atomic => self.size_bytes,
            FlowKind::Write | FlowKind::Message => 0,
        }
    }

    fn check(&self) -> Result<(), SettingsError> {
        let (legal, text) = match self.kind {
            FlowKind::Read | FlowKind::Write => ((1..=4096).contains(&self.size_bytes), "1 to 4096"),
            FlowKind::Atomic => (matches!(self.size_bytes, 4 | 8), "4 or 8"),
            FlowKind::Message => {
                (self.size_bytes <= 4096 && self.size_bytes.is_multiple_of(4), "0 to 4096, multiples of 4")
            }
        };
        if !legal {
            return Err(SettingsError::Size(self.name.clone(), self.size_bytes, text));
        }
        let aligned = self.address.is_multiple_of(4096) && self.window_bytes.is_multiple_of(4096);
        if !aligned || self.window_bytes == 0 {
            return Err(SettingsError::Window(self.name.clone(), self.window_bytes, self.address));
        }
        if self.count == 0 {
            return Err(SettingsError::Count(self.name.clone()));
        }
        Ok(())
    }
}

impl TrafficSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), SettingsError> {
        if !(1..=MAX_FLOWS).contains(&self.flows.len()) {
            return Err(SettingsError::Flows(self.flows.len()));
        }
        self.flows.iter().try_for_each(Flow::check)?;
        let asks = || self.flows.iter().filter(|f| f.class() == Class::NonPosted);
        let tags = asks().map(|f| u32::from(f.outstanding)).sum();
        if tags > u32::from(MAX_TAGS) || asks().any(|f| f.outstanding == 0) {
            return Err(SettingsError::Outstanding(tags));
        }
        Ok(())
    }
}
