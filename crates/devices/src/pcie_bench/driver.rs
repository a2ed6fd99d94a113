// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver of the benchmark device: allocates a window in host memory, prepares the caches, and starts the test.

use super::CacheState;
use super::registers::{ERROR, WINDOW};
use super::settings::{BUFFER_BYTES, BenchSettings};
use super::units::Units;
use super::{BAR, DONE_VECTOR, ERRORS, LAYOUT};
use crate::control;
use device::DmaError;
use host::DriverError;
use host::HostError;
use host::caches::CachePreparation;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::MemoryKind;

/// Size of the pieces of the buffers on the measured hosts (SIGCOMM'18, §5.3). A window starts at a multiple of this,
/// or at a multiple of its size if the size is smaller.
const CHUNK_BYTES: u64 = 4 << 20;
/// Number of passes of the device over a window that it warms.
const WARMING_PASSES: u32 = 2;

/// The window of a benchmark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Size in bytes.
    pub bytes: u64,
    /// Part of host memory.
    pub memory: MemoryKind,
    /// State of the caches at the start.
    pub cache: CacheState,
    /// Seed of the addresses with which the device thrashes caches.
    pub seed: u64,
    /// Size of a transfer in bytes.
    pub size_bytes: u32,
    /// Its address, if it is not in host memory.
    pub address: Option<u64>,
    /// Offsets of earlier transfers that the caches have seen, and whether they were writes.
    pub seen: Vec<(u64, bool)>,
}

impl Window {
    /// Returns the window of `settings`, in `memory`. `settings` must have been checked if `seen` is not 0.
    pub fn of(settings: &BenchSettings, memory: MemoryKind) -> Window {
        let BenchSettings { window_bytes: bytes, cache, seed, size_bytes, .. } = *settings;
        let offsets: Vec<u64> = if settings.seen == 0 { Vec::new() } else { Units::seen(settings).collect() };
        // The last of them directly precedes transfer 0, so reads and writes alternate backwards from there.
        let before = (1..=offsets.len() as u64).rev();
        let seen = offsets.into_iter().zip(before).map(|(offset, n)| (offset, settings.nth(n).0)).collect();
        Window { bytes, memory, cache, seed, size_bytes, address: None, seen }
    }

    /// Returns the bytes of host memory for the window; the whole buffer if the device thrashes the caches.
    pub fn memory_bytes(&self) -> u64 {
        match self.cache {
            CacheState::DeviceThrash => self.bytes.max(BUFFER_BYTES),
            _ => self.bytes,
        }
    }

    /// Returns the alignment of its address: 4 MiB, or its size if the size is less.
    pub fn alignment(&self) -> u64 {
        self.memory_bytes().checked_next_power_of_two().unwrap_or(CHUNK_BYTES).clamp(4096, CHUNK_BYTES)
    }

    /// Allocates the window and returns its address.
    fn alloc(&self, cpu: &Cpu, function: &FoundFunction) -> Result<u64, DriverError> {
        let window = self.memory.alloc(cpu.memory(), self.memory_bytes(), self.alignment());
        window.map_err(|e| DriverError::from(e).at(format_args!("{function}, window")))
    }
}

/// Allocates host memory for `window` and prepares the caches, unless the window has an address. Then starts the test and waits for its end.
///
/// # Errors
/// Why there is no window, or why the test failed.
pub async fn driver(cpu: Cpu, function: FoundFunction, window: Window) -> Result<(), DriverError> {
    let at_function = |e: HostError| DriverError::from(e).at(function);
    let address = window.address.map_or_else(|| window.alloc(&cpu, &function), Ok)?;
    cpu.write_u64(function.address(BAR, WINDOW)?, address).await.map_err(at_function)?;
    if window.address.is_none() {
        prepare(&cpu, &function, &window, address).await;
        show_transfers(&cpu, &function, window, address).await;
    }
    match control::run(&cpu, &function, LAYOUT, DONE_VECTOR).await? {
        control::DONE => Ok(()),
        control::FAILED => {
            let code = cpu.read_u32(function.address(BAR, ERROR)?).await.map_err(at_function)?;
            let error = (code as usize).checked_sub(1).and_then(|at| ERRORS.get(at));
            Err(format!(
                "{function}: a transfer failed: {}",
                error.map_or("no reason given".into(), DmaError::to_string)
            )
            .into())
        }
        status => Err(format!("{function}: status {status} at the end of the test").into()),
    }
}

/// Puts the caches into the state of `window`, starting from cold caches.
async fn prepare(cpu: &Cpu, function: &FoundFunction, window: &Window, address: u64) {
    cpu.extension(CachePreparation::ThrashByHost).await;
    let (requester, bytes) = (function.bdf, window.bytes);
    let further = match window.cache {
        CacheState::Cold => return,
        CacheState::HostWarm => CachePreparation::WriteByHost { address, bytes },
        CacheState::DeviceWarm => {
            CachePreparation::WriteByDevice { requester, address, bytes, passes: WARMING_PASSES }
        }
        CacheState::DeviceThrash => {
            let (bytes, seed) = (window.memory_bytes(), window.seed);
            CachePreparation::ThrashByDevice { requester, address, bytes, seed }
        }
    };
    cpu.extension(further).await;
}

/// Then changes the caches like the transfers before the first one would have.
async fn show_transfers(cpu: &Cpu, function: &FoundFunction, window: Window, address: u64) {
    if window.seen.is_empty() {
        return;
    }
    let places = window.seen.into_iter().map(|(offset, writes)| (address + offset, writes)).collect();
    let (requester, bytes) = (function.bdf, window.size_bytes);
    cpu.extension(CachePreparation::TransfersOfDevice { requester, bytes, places }).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use plug::transfers::{Pattern, Test};

    /// Rows: number of units, transfers seen, and for the last pass the unit of each transfer and whether it was written.
    /// Transfer 0 is a read of unit 0.
    #[test]
    fn reads_and_writes_alternate_up_to_the_first_transfer() {
        type Row<'a> = (u64, u64, &'a [(u64, bool)]);
        let rows: [Row<'_>; 4] = [
            (4, 3, &[(1, true), (2, false), (3, true)]),
            (4, 4, &[(0, false), (1, true), (2, false), (3, true)]),
            (3, 3, &[(0, true), (1, false), (2, true)]),
            (3, 100, &[(0, false), (1, true), (2, false), (0, true), (1, false), (2, true)]),
        ];
        for (units, seen, expected) in rows {
            let (test, pattern) = (Test::BwRdWr, Pattern::Sequential);
            let settings =
                BenchSettings { test, pattern, seen, window_bytes: units * 64, ..BenchSettings::default() };
            let expected: Vec<(u64, bool)> =
                expected.iter().map(|&(unit, writes)| (unit * 64, writes)).collect();
            assert_eq!(Window::of(&settings, MemoryKind::High).seen, expected, "{units} units, {seen} seen");
        }
    }
}
