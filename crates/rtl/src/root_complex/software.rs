// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host program of a design that has the CPU and its software: it issues no requests, and ends when the software ends.

use super::RootRtl;
use host::{DriverError, HostInput, HostOutput, HostProgram};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::Time;

/// Software of a design.
pub(super) struct Software {
    rtl: Rc<RefCell<RootRtl>>,
    /// Status with which it has ended.
    status: Option<u32>,
}

impl Software {
    pub(super) fn new(rtl: Rc<RefCell<RootRtl>>) -> Software {
        Software { rtl, status: None }
    }
}

impl HostProgram for Software {
    fn handle(&mut self, _now: Time, _input: HostInput) {
        self.status = self.rtl.borrow().block.software_status;
    }

    fn poll_output(&mut self, _now: Time) -> Option<HostOutput> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn outcome(&self) -> Option<Result<(), DriverError>> {
        self.status.map(|status| match status {
            0 => Ok(()),
            _ => Err(DriverError::Unexpected(format!(
                "software of the design ended with status {status}; expected 0"
            ))),
        })
    }

    fn waits_for(&self) -> Option<String> {
        self.status.is_none().then(|| "software of the design has not ended".to_owned())
    }
}
