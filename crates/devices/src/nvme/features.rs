// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Features, which are settings of a controller that the host changes (NVMe 1.4 §5.21). A reset restores the defaults.
//! Plain data.

use super::identify::{TEMPERATURE, WARNING_TEMPERATURE};
use super::queue::Coalescing;
use super::spec::{ALL_NAMESPACES, Outcome, Status};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use tlp::Duration;

const ARBITRATION: u8 = 0x01;
const POWER: u8 = 0x02;
const TEMPERATURE_THRESHOLD: u8 = 0x04;
const ERROR_RECOVERY: u8 = 0x05;
const WRITE_CACHE: u8 = 0x06;
pub(super) const QUEUES: u8 = 0x07;
const COALESCING: u8 = 0x08;
const VECTOR: u8 = 0x09;
const ATOMICITY: u8 = 0x0a;
const EVENTS: u8 = 0x0b;

/// Capability of a feature: changeable.
pub(super) const CHANGEABLE: u32 = 0b100;
/// Supported bits of Asynchronous Event Configuration: health warnings.
const EVENT_BITS: u32 = 0x0000_001f;
/// TMPSEL for all sensors. The only sensor is the composite temperature, 0.
const ALL_SENSORS: u32 = 0xf;

#[derive(Default)]
pub(super) struct Features {
    has_cache: bool,
    namespaces: u32,
    /// Number of interrupt vectors of the function.
    vectors: u32,
    /// Values by feature and part (vector, threshold, namespace).
    set: BTreeMap<(u8, u32), u32>,
}

impl Features {
    pub(super) fn new(has_cache: bool, namespaces: u32, vectors: u16) -> Features {
        Features { has_cache, namespaces, vectors: vectors.into(), ..Features::default() }
    }

    /// The part of a feature that a command addresses: a vector, a threshold, a namespace.
    fn part(feature: u8, dw11: u32, nsid: u32) -> u32 {
        match feature {
            TEMPERATURE_THRESHOLD => dw11 >> 16 & 0x3f,
            ERROR_RECOVERY => nsid,
            VECTOR => dw11 & 0xffff,
            _ => 0,
        }
    }

    fn default_of(&self, feature: u8, part: u32) -> Option<u32> {
        Some(match feature {
            ARBITRATION | POWER | ERROR_RECOVERY | COALESCING | ATOMICITY => 0,
            WRITE_CACHE if self.has_cache => 1,
            // TMPSEL 0: the composite temperature; THSEL in bits 5:4.
            TEMPERATURE_THRESHOLD if part == 0 => WARNING_TEMPERATURE.into(),
            TEMPERATURE_THRESHOLD if part == 0x10 => 0,
            VECTOR if part < self.vectors => part,
            EVENTS => 0,
            _ => return None,
        })
    }

    fn current(&self, feature: u8, part: u32) -> Option<u32> {
        let default = self.default_of(feature, part)?;
        Some(self.set.get(&(feature, part)).copied().unwrap_or(default))
    }

    /// Get Features: `select` is 0 for the current value, 1 for the default, 2 for the saved value, 3 for the
    /// capabilities.
    pub(super) fn get(&self, feature: u8, select: u32, dw11: u32, nsid: u32) -> Outcome {
        if feature == ERROR_RECOVERY && !(1..=self.namespaces).contains(&nsid) {
            return Err(Status::INVALID_NAMESPACE);
        }
        let part = Features::part(feature, dw11, nsid);
        let default = self.default_of(feature, part).ok_or(Status::INVALID_FIELD)?;
        match select {
            0 => self.current(feature, part).ok_or(Status::INVALID_FIELD),
            1 | 2 => Ok(default),
            // Changeable, and specific to a namespace.
            3 => Ok(CHANGEABLE | u32::from(feature == ERROR_RECOVERY) << 1),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Set Features.
    pub(super) fn set(&mut self, feature: u8, dw11: u32, nsid: u32) -> Outcome {
        let all_sensors = feature == TEMPERATURE_THRESHOLD && dw11 >> 16 & 0xf == ALL_SENSORS;
        let dw11 = if all_sensors { dw11 & !(ALL_SENSORS << 16) } else { dw11 };
        let part = Features::part(feature, dw11, nsid);
        self.default_of(feature, part).ok_or(Status::INVALID_FIELD)?;
        let value = match feature {
            POWER if dw11 & 0x1f != 0 => return Err(Status::INVALID_FIELD),
            EVENTS if dw11 & !EVENT_BITS != 0 => return Err(Status::INVALID_FIELD),
            TEMPERATURE_THRESHOLD => dw11 & 0xffff,
            _ => dw11,
        };
        for part in self.meant(feature, part, nsid)? {
            self.set.insert((feature, part), value);
        }
        Ok(0)
    }

    /// The addressed parts of a feature. One NSID addresses all namespaces; features of the controller have none.
    fn meant(&self, feature: u8, part: u32, nsid: u32) -> Result<RangeInclusive<u32>, Status> {
        let is_one = (1..=self.namespaces).contains(&nsid);
        match (feature, nsid) {
            (ERROR_RECOVERY, ALL_NAMESPACES) => Ok(1..=self.namespaces),
            (ERROR_RECOVERY, _) if is_one => Ok(nsid..=nsid),
            (ERROR_RECOVERY, _) => Err(Status::INVALID_NAMESPACE),
            (_, 0 | ALL_NAMESPACES) => Ok(part..=part),
            _ if is_one => Err(Status::NOT_OF_NAMESPACE),
            _ => Err(Status::INVALID_NAMESPACE),
        }
    }

    /// The critical warnings of the health page: whether the temperature has passed a threshold.
    pub(super) fn warning(&self) -> u8 {
        let threshold = |part| self.current(TEMPERATURE_THRESHOLD, part).unwrap_or_default();
        let is = u32::from(TEMPERATURE);
        u8::from(is >= threshold(0) || is <= threshold(0x10)) << 1
    }

    /// Whether to report an event for a critical warning.
    pub(super) fn tells_warning(&self) -> bool {
        self.current(EVENTS, 0).unwrap_or_default() as u8 & self.warning() != 0
    }

    /// The interrupt coalescing of a vector, if there is any. The admin queue has none.
    pub(super) fn coalescing(&self, vector: u16) -> Option<Coalescing> {
        let all = self.current(COALESCING, 0)?;
        let (threshold, time) = (all & 0xff, all >> 8 & 0xff);
        let is_disabled = self.current(VECTOR, vector.into())? & 1 << 16 != 0;
        (vector > 0 && !is_disabled && threshold > 0 && time > 0)
            .then(|| Coalescing { threshold, time: Duration::from_us(u64::from(time) * 100) })
    }

    /// Whether writes may stay in the cache.
    pub(super) fn caches(&self) -> bool {
        self.current(WRITE_CACHE, 0).is_some_and(|value| value & 1 != 0)
    }
}
