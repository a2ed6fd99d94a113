// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place of a lab where the outside joins it: somebody who is not simulated, such as a peer on a network, RTL, another
//! simulator or a kernel. Knows no transport, and no clock.

use std::any::Any;
use tlp::Time;

/// A place where the outside joins. What it is given comes from somebody who carries it there, or from a record; what leaves waits
/// at the place until it is fetched. Clones of what implements this are handles on the same place.
pub trait Place: Any {
    /// Takes an input as a record holds it, at the fabric's present time. True where the device or the host that the place
    /// belongs to is to be called then.
    ///
    /// # Errors
    /// Where the bytes are no input of this place: what is wrong, and what is legal.
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, String>;

    /// Whether somebody outside waits for the fabric: a clock that is not held to the wall goes on meanwhile.
    fn awaits_fabric(&self) -> bool;

    /// Whether something waits to leave.
    fn has_output(&self) -> bool;

    /// A record is run again: nobody fetches anything, so that nothing is to wait which only fetching takes away.
    fn nobody_fetches(&self);
}

/// An input of the outside: a value where it joins, bytes in a record.
pub trait Input<P> {
    /// Appends the bytes that [`Place::take_recorded`] takes.
    fn emit(&self, out: &mut Vec<u8>);

    /// Joins at `place`, as [`Place::take_recorded`] does.
    fn join(self, place: &P, now: Time) -> bool;
}
