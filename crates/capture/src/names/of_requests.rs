// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What requests mean, kept until their transactions end. Never more than [`MAX_KEPT`]: beyond, the oldest is forgotten.

use super::{DeviceRegisters, Meaning, Names};
use crate::decode::{Kind, Record};
use std::collections::BTreeMap;
use tlp::Class;

/// Maximum number of requests whose meaning is kept; the matcher keeps fewer that wait.
const MAX_KEPT: usize = 262_144;

/// What requests mean, by the number of their record.
#[derive(Clone, Debug)]
pub struct OfRequests {
    names: Names,
    kept: BTreeMap<u64, Meaning>,
}

impl OfRequests {
    /// Nothing seen yet; `devices` knows the registers of devices.
    pub fn new(devices: DeviceRegisters) -> OfRequests {
        OfRequests { names: Names::new(devices), kept: BTreeMap::new() }
    }

    /// Sees a record, each in its order.
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

    /// What the request with this number means, once.
    pub fn take(&mut self, number: u64) -> Option<Meaning> {
        self.kept.remove(&number)
    }
}
