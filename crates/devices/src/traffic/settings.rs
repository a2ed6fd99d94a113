// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flows a traffic generator plays. Never knows where the addresses lead.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tlp::{Attributes, Bdf, Class, Duration, TrafficClass};

/// Flows of one device at most.
pub const MAX_FLOWS: usize = 64;
/// Reads and AtomicOps that all flows of a device have under way at most: 10-bit tags, of which those whose bits 9:8 are
/// 00b serve 8-bit tags too (`PCIe 5.0 §2.2.6.2`).
pub const MAX_TAGS: u16 = 1024;

/// What the requests of a flow are.
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
    /// What reports call it.
    pub name: String,
    /// What its requests are.
    pub kind: FlowKind,
    /// Bytes of each: of a write or read 1 to 4096, of an AtomicOp 4 or 8, of a message a multiple of 4.
    pub size_bytes: u32,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes.
    pub attr: Attributes,
    /// Address of its window, a multiple of 4096.
    pub address: u64,
    /// Bytes of its window, through which its requests go in steps of the next power of two of their size.
    pub window_bytes: u64,
    /// From one request to the next at least; zero is as fast as the link takes them.
    pub interval: Duration,
    /// Requests in all.
    pub count: u64,
    /// Of reads and AtomicOps, under way at most.
    pub outstanding: u16,
}

/// What a traffic generator is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its Requester ID.
    pub id: Bdf,
    /// Its flows.
    pub flows: Vec<Flow>,
    /// The data of the interrupt message that says that all flows have ended; `None`: none is sent.
    pub done_vector: Option<u16>,
}

/// Why there is no such traffic.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    /// Number of flows.
    #[error("{0} flows: legal are 1 to {MAX_FLOWS}")]
    Flows(usize),
    /// The size of a request.
    #[error("flow `{0}`: {1} bytes: legal are {2}")]
    Size(String, u32, &'static str),
    /// The window.
    #[error("flow `{0}`: window of {1} bytes at {2:#x}: legal are multiples of 4096 of 4096 B and more")]
    Window(String, u64, u64),
    /// Nothing to do.
    #[error("flow `{0}`: count 0: legal is 1 and more")]
    Count(String),
    /// Requests under way.
    #[error("{0} reads and AtomicOps under way in all flows: legal are 1 to {MAX_TAGS}, at least 1 in each")]
    Outstanding(u32),
}

impl Flow {
    /// The class of its requests.
    pub const fn class(&self) -> Class {
        match self.kind {
            FlowKind::Write | FlowKind::Message => Class::Posted,
            FlowKind::Read | FlowKind::Atomic => Class::NonPosted,
        }
    }

    /// Tags that it needs.
    pub(super) const fn tags(&self) -> u16 {
        match self.class() {
            Class::NonPosted => self.outstanding,
            Class::Posted | Class::Completion => 0,
        }
    }

    /// Bytes that answer one of its requests.
    pub(super) const fn answer_bytes(&self) -> u32 {
        match self.kind {
            FlowKind::Read | FlowKind::Atomic => self.size_bytes,
            FlowKind::Write | FlowKind::Message => 0,
        }
    }

    fn check(&self) -> Result<(), SettingsError> {
        let (legal, text) = match self.kind {
            FlowKind::Read | FlowKind::Write => ((1..=4096).contains(&self.size_bytes), "1 to 4096"),
            FlowKind::Atomic => (matches!(self.size_bytes, 4 | 8), "4 and 8"),
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

impl Settings {
    /// # Errors
    /// The first setting that is not legal.
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
