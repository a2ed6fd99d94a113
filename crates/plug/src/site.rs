// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slot that a model is plugged into, and its environment in the lab.

use crate::RunContext;
use crate::file::Folder;
use config::PcieLayout;
use host::memory::HostMemory;
use tlp::{Bdf, Duration, Mps, Mrrs, PayloadPool, TcSet};

/// A slot of a lab, for the model that is plugged into it.
pub struct Site<'a> {
    /// PCI Express capability of the function, with the link's properties.
    pub pcie: PcieLayout,
    /// Max_Payload_Size of the path, as enumeration will set it.
    pub mps: Mps,
    /// Max_Read_Request_Size that the host will set.
    pub mrrs: Mrrs,
    /// Traffic Classes that every link of the path maps to a virtual channel (`PCIe 5.0 §2.5.2`).
    pub tcs: TcSet,
    /// Maximum number of outstanding reads: the tags of a function, or of all functions together.
    pub tags: u16,
    /// Whether completions are accepted whose Traffic Class or attributes differ from their request's.
    pub lenient_completions: bool,
    /// ID of a function in the slot.
    pub id: Bdf,
    /// Interrupt vector by which a raw-TLP device reports its end. Enumeration does not find such a device.
    pub done_vector: u16,
    /// Time after which the host gives up a request.
    pub completion_timeout: Duration,
    /// Whether the host's firmware enables ECRC generation in devices, so that their TLPs have a digest.
    pub digests: bool,
    /// The pool of payloads.
    pub payloads: &'a PayloadPool,
    /// The host's memory.
    pub memory: &'a HostMemory,
    /// Folder of the files that settings name.
    pub folder: &'a Folder,
    /// Seed of all random choices.
    pub seed: u64,
    /// Permission to run native code.
    pub native: NativeCode,
    /// State of the run: values from the caller, and values that models share.
    pub context: &'a mut RunContext,
}

/// Permission of a model to run machine code from outside of this program, such as a shared library that its settings
/// name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NativeCode {
    /// Not permitted: a model that needs it is rejected.
    #[default]
    Refused,
    /// Not needed: the model is only inspected, and its device never gets a request.
    NotLoaded,
    /// Permitted.
    Allowed,
}

impl NativeCode {
    /// Returns `Allowed` or `Refused`, depending on whether the user gave permission.
    pub const fn allowed(is_allowed: bool) -> NativeCode {
        if is_allowed { NativeCode::Allowed } else { NativeCode::Refused }
    }
}
