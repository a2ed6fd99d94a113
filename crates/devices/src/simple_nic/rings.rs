// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings and buffers of a simple NIC in host memory, from the host's view. Does not decide when a frame is sent.

use super::{BUFFER_BYTES, DESCRIPTOR_BYTES, RING_ENTRIES, register};
use device::BarIndex;
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;

/// The host's side of the rings.
pub(super) struct Rings {
    pub(super) cpu: Cpu,
    pub(super) function: FoundFunction,
    bar: BarIndex,
    tx: u64,
    rx: u64,
    tx_buffer: u64,
    rx_buffers: u64,
}

impl Rings {
    /// Allocates host memory for both rings, one frame to send, and `rx_buffers` receive buffers.
    pub(super) fn alloc(
        cpu: Cpu,
        function: FoundFunction,
        bar: BarIndex,
        rx_buffers: u32,
    ) -> Result<Rings, DriverError> {
        let alloc = |bytes| cpu.memory().alloc(bytes, 4096);
        let ring_bytes = u64::from(RING_ENTRIES) * DESCRIPTOR_BYTES;
        let (tx, rx) = (alloc(ring_bytes)?, alloc(ring_bytes)?);
        let (tx_buffer, rx_buffers) = (alloc(BUFFER_BYTES)?, alloc(BUFFER_BYTES * u64::from(rx_buffers))?);
        Ok(Rings { cpu, function, bar, tx, rx, tx_buffer, rx_buffers })
    }

    /// Writes a 32-bit register.
    pub(super) async fn write(&self, register: u64, value: u32) -> Result<(), DriverError> {
        Ok(self.cpu.write_u32(self.function.address(self.bar, register)?, value).await?)
    }

    /// Writes the addresses of the rings to the NIC and enables it.
    pub(super) async fn enable(&self) -> Result<(), DriverError> {
        for (register, ring) in [(register::TX_RING, self.tx), (register::RX_RING, self.rx)] {
            self.cpu.write_u64(self.function.address(self.bar, register)?, ring).await?;
        }
        self.write(register::ENABLED, 1).await
    }

    /// Returns the address of receive buffer `index`.
    pub(super) fn rx_buffer(&self, index: u32) -> u64 {
        self.rx_buffers + BUFFER_BYTES * u64::from(index)
    }

    /// Returns address and length in receive descriptor `index`.
    pub(super) fn rx_descriptor(&self, index: u32) -> Result<(u64, u64), DriverError> {
        let (at, memory) = (self.rx + DESCRIPTOR_BYTES * u64::from(index), self.cpu.memory());
        Ok((memory.read_u64(at)?, memory.read_u64(at + 8)?))
    }

    /// Writes receive descriptor `index`.
    pub(super) fn describe_rx(&self, index: u32, address: u64, length: u64) -> Result<(), DriverError> {
        self.describe(self.rx, index, address, length)
    }

    fn describe(&self, ring: u64, index: u32, address: u64, length: u64) -> Result<(), DriverError> {
        let (at, memory) = (ring + DESCRIPTOR_BYTES * u64::from(index), self.cpu.memory());
        memory.write_u64(at, address)?;
        Ok(memory.write_u64(at + 8, length)?)
    }

    /// Posts receive buffer `index` to the NIC, with `length` in its descriptor.
    pub(super) async fn post(&self, index: u32, length: u64) -> Result<(), DriverError> {
        self.describe_rx(index, self.rx_buffer(index), length)?;
        self.write(register::RX_INDEX, index).await
    }

    /// Writes `frame` to the send buffer and the descriptors `indexes`, then rings the doorbell with `index`.
    pub(super) async fn send(&self, frame: &[u8], indexes: &[u32], index: u32) -> Result<(), DriverError> {
        self.cpu.memory().write(self.tx_buffer, frame)?;
        for at in indexes {
            self.describe(self.tx, *at, self.tx_buffer, frame.len() as u64)?;
        }
        self.write(register::TX_INDEX, index).await
    }
}
