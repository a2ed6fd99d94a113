// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware, as a host program: finds functions, assigns addresses to their BARs, sets up their PCI Express and
//! interrupt capabilities, and enables them (`PCIe 5.0 §7.5`, §6.1).
//!
//! [`enumerate_host`] does this for a whole tree of bridges, according to the [`Policy`] of a [`HostMap`], and returns
//! the [`System`]. [`rescan`] repeats the enumeration below one slot.
//!
//! The steps are:
//!
//! 1. Find functions, assign bus numbers depth first, and measure what each function needs (`scan`, `sizing`).
//! 2. Assign addresses, from the leaves up and down again (`windows`).
//! 3. Function by function: write BARs and windows (`program`), set sizes, tags and reporting (`settings`), write
//!    Command.
//! 4. Assign interrupts (`interrupts`).
//! 5. Enable virtual functions (`virtual_functions`).
//!
//! All accesses are real configuration requests, which take time on the fabric and appear in captures. The windows of
//! the root ports are part of the [`HostMap`].

mod error;
mod host_map;
mod interrupts;
mod need;
mod program;
mod registers;
mod removed;
mod scan;
mod settings;
mod sizing;
mod system;
mod tree;
mod vectors;
mod virtual_functions;
mod windows;

pub use error::{BarError, FirmwareError, FirmwareErrorKind};
pub use host_map::{
    AcsPolicy, EcrcPolicy, FixedPlace, HostMap, MpsPolicy, Path, PathError, Policy, Room, VfPolicy,
};
pub use system::{
    Capability, ExtendedCapability, FoundBridge, FoundSriov, Function, Interrupt, PcieFacts, System,
};
pub use tree::{Rescan, enumerate_host, rescan};

use crate::HostError;
use crate::cpu::Cpu;
use config::cap::pcie::{self, device_control_2};
use config::header;
use device::seam::{BarIndex, CompletionError};
use std::fmt;
use tlp::{Bdf, Duration};

pub use crate::cpu::MSI_ADDRESS;

/// The first interrupt vector that is assigned. Lower vectors belong to the processor on x86 (Intel SDM vol. 3, §6.2).
pub const FIRST_VECTOR: u16 = 32;
/// Pause before firmware accesses a function again that answered CRS.
pub const RETRY_PAUSE: Duration = Duration::from_ms(10);
/// Maximum number of tries of a function that answers CRS: one second in total, the time that a function has after
/// reset (`PCIe 5.0 §6.6.1`).
pub const MAX_TRIES: u32 = 100;

/// Maximum number of functions of a device without ARI (`PCIe 5.0 §7.5.1.1.9`).
const FUNCTIONS: u8 = 8;
/// Maximum number of capabilities between 40h and FFh, one DW each. A longer list is a loop.
const MAX_CAPABILITIES: usize = 48;
/// Number of DWs of a configuration space.
const REGISTERS: u16 = 1024;
/// All four bytes of a register.
const ALL_BYTES: u8 = 0xf;
/// The low two bytes of a register: Command, Device Control, Link Control. Their status halves are not written.
const LOW_HALF: u8 = 0b0011;

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Address of the first byte.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Window {
    /// True if all `size` bytes from `address` lie in the window.
    const fn holds(&self, address: u64, size: u64) -> bool {
        address >= self.base && size <= self.size && address - self.base <= self.size - size
    }
}

/// A function that was found and enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundFunction {
    /// Bus, device and function.
    pub bdf: Bdf,
    /// The root port above the function, counted from zero.
    pub port: usize,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class Code, 24 bits.
    pub class: u32,
    /// Memory BARs by number; a 64-bit BAR has the number of its lower half.
    pub bars: [Option<FoundBar>; 6],
    /// I/O BARs by number.
    pub io_bars: [Option<FoundBar>; 6],
    /// DW number of the PCI Express capability.
    pub pcie: Option<u16>,
    /// The function's first interrupt vector among those of the host.
    pub vector_base: u16,
    /// Number of MSI or MSI-X vectors that are assigned to the function.
    pub vectors: u16,
}

/// A BAR with its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundBar {
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
}

impl FoundFunction {
    /// Returns the address of byte `offset` of BAR `bar`.
    ///
    /// # Errors
    /// There is no such BAR, or `offset` is beyond its end.
    pub fn address(&self, bar: impl Into<BarIndex>, offset: u64) -> Result<u64, BarError> {
        self.place(false, &self.bars, bar.into(), offset)
    }

    /// Returns the I/O address of byte `offset` of I/O BAR `bar`.
    ///
    /// # Errors
    /// There is no such BAR, or `offset` is beyond its end.
    pub fn io_address(&self, bar: impl Into<BarIndex>, offset: u32) -> Result<u32, BarError> {
        // I/O space ends at 64 KiB.
        self.place(true, &self.io_bars, bar.into(), offset.into()).map(|address| address as u32)
    }

    fn place(
        &self,
        is_io: bool,
        bars: &[Option<FoundBar>; 6],
        BarIndex(bar): BarIndex,
        offset: u64,
    ) -> Result<u64, BarError> {
        match bars.get(usize::from(bar)).copied().flatten() {
            None => Err(BarError::Missing { function: self.to_string(), is_io, bar }),
            Some(FoundBar { size, .. }) if offset >= size => {
                Err(BarError::Beyond { function: self.to_string(), is_io, bar, offset, size })
            }
            Some(bar) => Ok(bar.address + offset),
        }
    }

    /// Allows the function to send AtomicOps: sets AtomicOp Requester Enable (`PCIe 5.0 §7.5.3.16`). A driver does this
    /// if the root complex completes AtomicOps.
    ///
    /// # Errors
    /// The function has no PCI Express capability, or does not answer.
    pub async fn enable_atomics(&self, cpu: &Cpu) -> Result<(), FirmwareError> {
        let at = self.pcie.ok_or_else(|| format!("{self} has no PCI Express capability"))?;
        let config = Config { cpu, bdf: self.bdf };
        config.change(at + pcie::DEVICE_CONTROL_2, 0, device_control_2::ATOMIC_REQUESTER).await
    }

    /// Returns the host's number of this function's vector `index`.
    pub fn vector(&self, index: u16) -> u16 {
        self.vector_base + index
    }
}

impl fmt::Display for FoundFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} [{:04x}:{:04x}]", self.bdf, self.vendor, self.device)
    }
}

/// Configuration space of one function, accessed by requests.
#[derive(Clone, Copy)]
struct Config<'a> {
    cpu: &'a Cpu,
    bdf: Bdf,
}

impl Config<'_> {
    async fn read(&self, register_dw: u16) -> Result<u32, FirmwareError> {
        self.check(register_dw)?;
        self.cpu.config_read(self.bdf, register_dw).await.map_err(|e| self.error("read", register_dw, e))
    }

    async fn write(&self, register_dw: u16, byte_enables: u8, value: u32) -> Result<(), FirmwareError> {
        self.check(register_dw)?;
        let done = self.cpu.config_write(self.bdf, register_dw, byte_enables, value).await;
        done.map_err(|e| self.error("write", register_dw, e))
    }

    /// Clears and sets bits in the low half of a register.
    async fn change(&self, register_dw: u16, clear: u32, set: u32) -> Result<(), FirmwareError> {
        let before = self.read(register_dw).await?;
        self.write(register_dw, LOW_HALF, before & !clear | set).await
    }

    /// Checks a register number: a broken capability may extend beyond the end.
    fn check(&self, register_dw: u16) -> Result<(), FirmwareError> {
        if register_dw < REGISTERS {
            return Ok(());
        }
        Err(format!(
            "function {}: a capability reaches register {:#x}, expected 0 to 0xffc",
            self.bdf,
            register_dw * 4
        )
        .into())
    }

    fn error(&self, what: &str, register_dw: u16, error: HostError) -> FirmwareError {
        let (bdf, byte) = (self.bdf, register_dw * 4);
        let text = format!("function {bdf}: configuration {what} of register {byte:#05x}: {error}");
        let kind = match error {
            HostError::CompletionTimeout => FirmwareErrorKind::TimedOut,
            HostError::NoDevice | HostError::Completion(CompletionError::UnsupportedRequest) => {
                FirmwareErrorKind::Refused
            }
            _ => FirmwareErrorKind::Wrong,
        };
        FirmwareError { text, kind }
    }

    /// Returns Device ID (upper half) and Vendor ID; `None` if there is no function.
    async fn id(&self) -> Result<Option<u32>, FirmwareError> {
        use HostError::{Completion, ConfigRetry, NoDevice};
        for _ in 0..MAX_TRIES {
            match self.cpu.config_read(self.bdf, header::ID).await {
                Ok(id) if id & 0xffff == 0xffff => return Ok(None),
                // CRS, as CRS Software Visibility reports it. A function with Vendor ID 0001h has another Device ID.
                Ok(header::NOT_READY) => self.cpu.sleep(RETRY_PAUSE).await,
                Ok(id) => return Ok(Some(id)),
                Err(NoDevice | Completion(CompletionError::UnsupportedRequest)) => return Ok(None),
                Err(ConfigRetry) => self.cpu.sleep(RETRY_PAUSE).await,
                Err(error) => return Err(self.error("read", header::ID, error)),
            }
        }
        Err(format!("function {} is not ready after {MAX_TRIES} tries", self.bdf).into())
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod tree_tests;
