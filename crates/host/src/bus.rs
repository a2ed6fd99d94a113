// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bus above a root complex that is not riser's, such as one in RTL: the host's requests go down, its inputs come up.

use crate::memory::HostMemory;
use crate::{HostInput, HostOutput};
use tlp::Time;

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
}
