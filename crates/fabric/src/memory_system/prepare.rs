// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts caches into a known state in no simulated time, for benchmark programs. A preparation changes no counters.

use super::MemorySystem;
use super::llc::Writer;
use crate::profile::LINE_BYTES;
use host::caches::CachePreparation;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::Bdf;

/// Maximum number of bytes that one preparation covers. Bytes beyond stay as they are.
const MAX_BYTES: u64 = 1 << 32;

/// Maximum number of passes over them. A further pass would have no effect.
const MAX_PASSES: u32 = 4;

impl MemorySystem {
    /// Executes `preparation`. Writes of a device come through root port `port`.
    pub(crate) fn prepare(&mut self, preparation: &CachePreparation, port: usize) {
        match *preparation {
            CachePreparation::ThrashByHost => {
                if let Some(caches) = &mut self.caches {
                    caches.local.thrash();
                    caches.remote.iter_mut().for_each(|remote| remote.thrash());
                }
            }
            CachePreparation::WriteByHost { address, bytes } => {
                lines(address, bytes).for_each(|line| self.write_by_core(line));
            }
            CachePreparation::WriteByDevice { requester, address, bytes, passes } => {
                for _ in 0..passes.min(MAX_PASSES) {
                    lines(address, bytes).for_each(|line| self.write_by_device(port, requester, line));
                }
            }
            CachePreparation::ThrashByDevice { requester, address, bytes, seed } => {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                let count = bytes.min(MAX_BYTES) / LINE_BYTES;
                for _ in 0..count {
                    // As even as 32 bits over at most 2^26 lines allow.
                    let line = (u64::from(rng.next_u32()) * count) >> 32;
                    self.write_by_device(port, requester, address.wrapping_add(line * LINE_BYTES));
                }
            }
            CachePreparation::TransfersOfDevice { requester, bytes, ref places } => {
                for &(address, writes) in places {
                    lines(address, bytes.into()).for_each(|line| match writes {
                        true => self.write_by_device(port, requester, line),
                        false => self.read_by_device(port, requester, line),
                    });
                }
            }
        }
    }

    fn write_by_core(&mut self, line: u64) {
        let Some(caches) = &mut self.caches else { return };
        match &mut caches.remote {
            Some(remote) => {
                caches.local.forget(line);
                remote.write(line, Writer::Core);
            }
            None => {
                caches.local.write(line, Writer::Core);
            }
        }
    }

    fn read_by_device(&mut self, port: usize, requester: Bdf, line: u64) {
        self.translate_for_device(port, requester, line);
        let is_here = self.caches.as_mut().is_some_and(|caches| caches.local.look(line).is_some());
        if !is_here && !self.is_remote(line) {
            self.allocate_read(line);
        }
    }

    fn translate_for_device(&mut self, port: usize, requester: Bdf, line: u64) {
        if let Some(iommu) = &mut self.iommu {
            iommu.touch(port, requester, line, &mut self.rng);
        }
    }

    fn write_by_device(&mut self, port: usize, requester: Bdf, line: u64) {
        self.translate_for_device(port, requester, line);
        let Some(caches) = &mut self.caches else { return };
        if let Some(remote) = &mut caches.remote {
            remote.forget(line);
        }
        caches.local.write(line, Writer::Device);
    }
}

/// Addresses of the lines in this many bytes.
fn lines(address: u64, bytes: u64) -> impl Iterator<Item = u64> {
    let first = address / LINE_BYTES;
    let end = address.saturating_add(bytes.min(MAX_BYTES)).div_ceil(LINE_BYTES);
    (first..end).map(|line| line * LINE_BYTES)
}
