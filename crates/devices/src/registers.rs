// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of the devices of this crate by their names, for whoever shows accesses to them. Never holds a value.

use crate::{VENDOR, counter, device_id, disk, dma_engine, ice_nic, packet_nic, pcie_bench, simple_nic};
use capture::DeviceRegister;

/// The registers of the device with these IDs, in rising order; none where it is not of this crate, or has none. It is what
/// [`capture::Names`] asks.
#[must_use]
pub fn registers(vendor: u16, device: u16) -> &'static [DeviceRegister] {
    if vendor != VENDOR {
        return &[];
    }
    match device {
        device_id::SIMPLE_NIC => simple_nic::REGISTERS,
        device_id::PCIE_BENCH => pcie_bench::REGISTERS,
        device_id::COUNTER => counter::REGISTERS,
        device_id::DISK => disk::REGISTERS,
        device_id::ICE_NIC => ice_nic::REGISTERS,
        device_id::DMA_ENGINE | device_id::DMA_ENGINE_VF => dma_engine::REGISTERS,
        device_id::PACKET_NIC => packet_nic::REGISTERS,
        _ => &[],
    }
}

/// A register of `bytes` bytes at `offset`; on `bar`, or on the only one.
pub(crate) const fn named(bar: Option<u8>, offset: u64, bytes: u64, name: &'static str) -> DeviceRegister {
    DeviceRegister { bar, offset, bytes, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each table is in rising order, and no register lies in another.
    #[test]
    fn registers_stand_one_behind_another() {
        let tables: Vec<_> = (0..=16).map(|device| registers(VENDOR, device)).collect();
        assert_eq!(tables.iter().filter(|table| !table.is_empty()).count(), 8);
        for table in tables {
            for pair in table.windows(2) {
                assert!(pair[0].offset + pair[0].bytes <= pair[1].offset, "{pair:?}");
            }
        }
        assert!(registers(VENDOR + 1, device_id::SIMPLE_NIC).is_empty());
    }
}
