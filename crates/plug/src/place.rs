// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the outside joins a lab: somebody who is not simulated, such as a peer on a network, RTL, another simulator
//! or a kernel. Knows no transport and no clock.

use std::any::Any;
use tlp::Time;

/// A place where the outside joins. Inputs are brought by a carrier, or come from a record; outputs wait at the place
/// until they are fetched. Clones of an implementation are handles on the same place.
pub trait Place: Any {
    /// Takes an input in the form of a record, at the fabric's present time. True where the device or host that the
    /// place belongs to is to be called then.
    ///
    /// # Errors
    /// Where the bytes are no input of this place: what is wrong, and what is legal.
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, String>;

    /// True while somebody outside waits for the fabric: a clock that does not follow wall time goes on meanwhile.
    fn awaits_fabric(&self) -> bool;

    /// True where an output waits to leave.
    fn has_output(&self) -> bool;

    /// Tells that a record is run again, in which nobody fetches outputs: nothing may wait for that.
    fn nobody_fetches(&self);
}

/// An input from outside: a value where it joins, bytes in a record.
pub trait Input<P> {
    /// Appends the bytes that [`Place::take_recorded`] takes.
    fn emit(&self, out: &mut Vec<u8>);

    /// Joins at `place`, as [`Place::take_recorded`] does.
    fn join(self, place: &P, now: Time) -> bool;
}
