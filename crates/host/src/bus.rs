// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bus above a root complex that is not riser's, such as one in RTL: the host's requests go down, its inputs come up.

use crate::memory::HostMemory;
use crate::{HostInput, HostOutput};
use tlp::Time;

/// States in which registers of the root port hold the link below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkHolds {
    /// Secondary Bus Reset of Bridge Control (`PCIe 5.0 §7.5.1.3.13`).
    pub reset: bool,
    /// Link Disable of Link Control (`PCIe 5.0 §7.5.3.7`).
    pub disabled: bool,
}

/// A root complex that is not riser's, seen from the host.
///
/// Its root port is an `endpoint::FramePort` that shares its state.
pub trait HostBus {
    /// Connects the memory that DMA of devices reaches. Called once, before anything else.
    fn connect(&mut self, memory: HostMemory);

    /// Takes a request of the host.
    fn accept(&mut self, now: Time, request: HostOutput);

    /// Returns the next input for the host.
    fn poll_input(&mut self) -> Option<HostInput>;

    /// Whether `poll_input` would return an input now.
    fn has_input(&self) -> bool;

    /// Returns what it asks of the link now.
    fn link_holds(&self) -> LinkHolds;
}
