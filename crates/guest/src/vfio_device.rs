// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device of a virtual machine, between its client and a root complex. Converts accesses to requests, and the ends of
//! requests to answers and interrupts. This module opens no files and reads no clock.

use crate::accesses::Answer;
use crate::function::Function;
use crate::vfio_user::{Irq, IrqEvent, Shape};
use host::{HostError, HostInterrupt, HostOutput, HostReadId};
use tlp::Data;

/// Maximum bytes of one access. Each DW of configuration space is a separate request.
const MAX_TRANSFER: u32 = 1 << 16;

/// Result of an access or of the end of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<T> {
    /// An access has ended.
    Answer(Answer<T>),
    /// The device asserts INTx.
    Intx,
    /// The write resets the device. The caller resets the device, calls [`VfioDevice::reset`], and ends the access.
    Reset {
        /// The access.
        token: T,
    },
}

/// A device of a virtual machine. `T` identifies an access of the machine.
pub trait VfioDevice<T> {
    /// Returns the regions and interrupts that the client sees.
    fn shape(&self) -> Shape;

    /// Returns whether all requests of earlier accesses were issued. If not, issue them before the next access.
    fn has_room(&self) -> bool;

    /// Returns the next request to issue.
    fn poll_request(&mut self) -> Option<HostOutput>;

    /// Handles the end of a request.
    fn handle(&mut self, id: HostReadId, result: &Result<Data, HostError>) -> Option<Outcome<T>>;

    /// Reads `len` bytes at `offset` of a region, which lie within it.
    fn read(&mut self, token: T, region: usize, offset: u64, len: u32) -> Option<Outcome<T>>;

    /// Writes bytes at `offset` of a region, within it.
    fn write(&mut self, token: T, region: usize, offset: u64, bytes: &[u8]) -> Option<Outcome<T>>;

    /// Handles a change of the client's interrupts: they were set up, masked or unmasked.
    fn irqs(&mut self, event: IrqEvent);

    /// Returns which interrupt of this device `interrupt` is, if this is known immediately.
    fn interrupt(&mut self, interrupt: &HostInterrupt) -> Option<(Irq, u32)>;

    /// Resets the device's state. Accesses in progress are still answered.
    fn reset(&mut self);

    /// Handles the departure of the client.
    fn leave(&mut self);

    /// Returns the function of the hierarchy if this device is one.
    fn function(&self) -> Option<&Function<T>> {
        None
    }

    /// Returns the function of the hierarchy if this device is one.
    fn function_mut(&mut self) -> Option<&mut Function<T>> {
        None
    }
}

/// A device with neither regions nor interrupts.
pub(crate) fn shape() -> Shape {
    Shape { max_transfer: MAX_TRANSFER, ..Shape::new() }
}
