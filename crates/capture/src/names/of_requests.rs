// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the meanings of requests until their transactions end. Keeps at most [`MAX_KEPT`], and then drops the
//! oldest.

use super::{DeviceRegisters, Meaning, Names};
use crate::decode::{Kind, Record};
use std::collections::BTreeMap;
use tlp::Class;

/// Maximum number of requests whose meaning is kept. The matcher keeps fewer outstanding requests.
const MAX_KEPT: usize = 262_144;

/// The meanings of requests, by the number of their record.
#[derive(Clone, Debug)]
pub struct OfRequests {
    names: Names,
    kept: BTreeMap<u64, Meaning>,
}

impl OfRequests {
    /// Knows only the registers of `devices`.
    pub fn new(devices: DeviceRegisters) -> OfRequests {
        OfRequests { names: Names::new(devices), kept: BTreeMap::new() }
    }

    /// Processes a record; call it for every record in order.
    pub fn see(&mut self, record: &Record<'_>) {
        let meaning = self.names.see(record);
        let is_request =
            matches!(&record.kind, Kind::Tlp(tlp) if tlp.repr.format().class != Class::Completion);
        if let Some(meaning) = meaning.filter(|_| is_request) {
            self.kept.insert(record.number, meaning);
            if self.kept.len() > MAX_KEPT {
                self.kept.pop_first();
            }
        }
    }

    /// Removes and returns the meaning of the request with this record number.
    pub fn take(&mut self, number: u64) -> Option<Meaning> {
        self.kept.remove(&number)
    }
}
