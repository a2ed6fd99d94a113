// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device of a virtual function without one. It never has any output.

use device::seam::{Device, Input, Output, Ready, Token};
use device::shared::Notifier;
use tlp::{Class, Time};

/// Replaces a device that no longer exists.
pub(super) struct Absent;

impl Device for Absent {
    fn handle(&mut self, _now: Time, _input: Input) {}

    fn poll_output(&mut self, _now: Time, _class: Class) -> Option<Output> {
        None
    }

    fn ready(&self) -> Ready {
        Ready::NONE
    }

    fn poll_taken(&mut self) -> Option<Token> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn set_notifier(&mut self, _notifier: Notifier) -> bool {
        true
    }
}
