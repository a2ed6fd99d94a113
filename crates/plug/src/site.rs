// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slot into which a model is plugged, and what the lab around it is like.

use crate::RunContext;
use crate::file::Folder;
use config::PcieLayout;
use host::memory::HostMemory;
use tlp::{Bdf, Duration, Mps, Mrrs, PayloadPool, TcSet};

/// A slot of a lab, for the model that is plugged into it.
pub struct Site<'a> {
    /// What the PCI Express capability of its function says of the link.
    pub pcie: PcieLayout,
    /// Max_Payload_Size of the path, as enumeration will set it.
    pub mps: Mps,
    /// Max_Read_Request_Size that the host will set.
    pub mrrs: Mrrs,
    /// The Traffic Classes that each link of the path maps to a virtual channel (`PCIe 5.0 §2.5.2`).
    pub tcs: TcSet,
    /// Reads that a function may have under way at most: its tags, or those of all functions together.
    pub tags: u16,
    /// Completions whose Traffic Class or attributes differ from those of their request are taken.
    pub lenient_completions: bool,
    /// The ID that a function there has.
    pub id: Bdf,
    /// Interrupt vector by which a raw-TLP device, which no enumeration finds, says that it has ended.
    pub done_vector: u16,
    /// The time after which the host gives up a request.
    pub completion_timeout: Duration,
    /// The pool of payloads.
    pub payloads: &'a PayloadPool,
    /// The host's memory.
    pub memory: &'a HostMemory,
    /// The folder of files that settings name.
    pub folder: &'a Folder,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether native code from outside may run.
    pub native: NativeCode,
    /// The state of the run: what its caller gives to models, and what models share.
    pub context: &'a mut RunContext,
}

/// Whether a model may run machine code that is not of this program, such as a shared library that its settings name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NativeCode {
    /// It may not: a model that would is refused.
    #[default]
    Refused,
    /// It is not asked to: the model is only inspected, and its device never gets a request.
    NotLoaded,
    /// It may.
    Allowed,
}

impl NativeCode {
    /// Whether it may run, where somebody was asked for leave.
    pub const fn allowed(is_allowed: bool) -> NativeCode {
        if is_allowed { NativeCode::Allowed } else { NativeCode::Refused }
    }
}
