// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place where an outside program joins a lab: a peer on a network, RTL, another simulator or a kernel. This module
//! does not depend on a transport or a clock.

use std::any::Any;
use thiserror::Error;
use tlp::Time;

/// Reason why recorded bytes are not an input of a place.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum InputError {
    /// The bytes end early, or are no input at all. Has the legal form.
    #[error("{0}")]
    Form(&'static str),
    /// A field has an illegal value. Has the field, its value and the legal values.
    #[error("{0}")]
    Value(String),
    /// The bytes are a command that the place refuses. Has the reason.
    #[error("{0}")]
    Refused(String),
}

/// A place where an outside program joins. Inputs come from a carrier or from a record; outputs wait at the place
/// until they are fetched. Clones of an implementation are handles of the same place.
pub trait Attachment: Any {
    /// Takes an input in the format of a record, at the fabric's current time. Returns true if the device or host of
    /// the place must then be called.
    ///
    /// # Errors
    /// The bytes are not an input of this place.
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, InputError>;

    /// True while an outside program waits for the fabric. A clock that does not follow wall time then continues.
    fn awaits_fabric(&self) -> bool;

    /// True if an output is waiting.
    fn has_output(&self) -> bool;

    /// Announces that a record is replayed, in which outputs are not fetched: no part may wait for that.
    fn discard_outputs(&self);
}

/// An input from outside: a value at the place, bytes in a record.
pub trait Input<P> {
    /// Appends the bytes for [`Attachment::take_recorded`].
    fn emit(&self, out: &mut Vec<u8>);

    /// Delivers the input to `place`, like [`Attachment::take_recorded`].
    fn join(self, place: &P, now: Time) -> bool;
}
