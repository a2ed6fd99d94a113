// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What firmware does before a driver may run, as host code: finds functions, gives their BARs addresses, sets up their
//! PCI Express and interrupt capabilities, and enables them (`PCIe 5.0 §7.5`, §6.1).
//!
//! [`enumerate_host`] does it for a whole tree of bridges by the [`Policy`] of a [`HostMap`], and returns the [`System`];
//! [`rescan`] does it again below one slot.
//!
//! The order of its work: functions and bus numbers, depth first, with the sizes of what each needs (`scan`,
//! `sizing`); addresses, from the leaves up and down again (`windows`); then, function by function, BARs and windows
//! (`program`), sizes, tags and reporting (`settings`), Command; interrupts (`interrupts`); and last virtual
//! functions (`virtual_functions`).
//!
//! All of it goes by real configuration requests, which take their time on the fabric and show in captures. Never
//! knows the fabric: it is told where the windows of root ports lie.

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
pub use host_map::{AcsPolicy, FixedPlace, HostMap, MpsPolicy, Path, PathError, Policy, Room, VfPolicy};
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

pub use crate::program::MSI_ADDRESS;

/// The first interrupt vector handed out: those below are the processor's own on x86 (Intel SDM vol. 3, §6.2).
pub const FIRST_VECTOR: u16 = 32;
/// How long firmware waits before it tries a function again that answered CRS.
pub const RETRY_PAUSE: Duration = Duration::from_ms(10);
/// Tries of a function that answers CRS: one second in all, as `PCIe 5.0 §6.6.1` grants a function after reset.
pub const MAX_TRIES: u32 = 100;

/// The most functions of a device without ARI (`PCIe 5.0 §7.5.1.1.9`).
const FUNCTIONS: u8 = 8;
/// The most capabilities that fit between 40h and FFh, a DW each: longer lists are loops.
const MAX_CAPABILITIES: usize = 48;
/// DWs of a configuration space.
const REGISTERS: u16 = 1024;
/// All four bytes of a register.
const ALL_BYTES: u8 = 0xf;
/// The low two bytes of a register: Command, Device Control, Link Control, leaving their status halves alone.
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
    /// True where all `size` bytes from `address` on lie in it.
    const fn holds(&self, address: u64, size: u64) -> bool {
        address >= self.base && size <= self.size && address - self.base <= self.size - size
    }
}

/// A function that was found and enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundFunction {
    /// Bus, device and function.
    pub bdf: Bdf,
    /// The root port above it, counted from zero.
    pub port: usize,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class Code, 24 bits.
    pub class: u32,
    /// Its memory BARs by number; a 64-bit one has its lower number.
    pub bars: [Option<FoundBar>; 6],
    /// Its I/O BARs by number.
    pub io_bars: [Option<FoundBar>; 6],
    /// DW number of its PCI Express capability.
    pub pcie: Option<u16>,
    /// Its first interrupt vector among all of the host.
    pub vector_base: u16,
    /// The number of vectors that it was given by MSI or MSI-X.
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
    /// Address of the byte `offset` of BAR `bar`.
    ///
    /// # Errors
    /// There is no such BAR, or `offset` lies beyond it.
    pub fn address(&self, bar: impl Into<BarIndex>, offset: u64) -> Result<u64, BarError> {
        self.place(false, &self.bars, bar.into(), offset)
    }

    /// I/O address of the byte `offset` of I/O BAR `bar`.
    ///
    /// # Errors
    /// There is no such BAR, or `offset` lies beyond it.
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

    /// Lets the function send AtomicOps: sets AtomicOp Requester Enable (`PCIe 5.0 §7.5.3.16`), as its driver does
    /// once it knows that the root complex completes them.
    ///
    /// # Errors
    /// The function has no PCI Express capability, or does not answer.
    pub async fn enable_atomics(&self, cpu: &Cpu) -> Result<(), FirmwareError> {
        let at = self.pcie.ok_or_else(|| format!("{self} has no PCI Express capability"))?;
        let config = Config { cpu, bdf: self.bdf };
        config.change(at + pcie::DEVICE_CONTROL_2, 0, device_control_2::ATOMIC_REQUESTER).await
    }

    /// The number among all vectors of the host of this function's vector `index`.
    pub fn vector(&self, index: u16) -> u16 {
        self.vector_base + index
    }
}

impl fmt::Display for FoundFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} [{:04x}:{:04x}]", self.bdf, self.vendor, self.device)
    }
}

/// Configuration space of one function, over the wire.
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

    /// Clears and sets bits of the low half of a register.
    async fn change(&self, register_dw: u16, clear: u32, set: u32) -> Result<(), FirmwareError> {
        let before = self.read(register_dw).await?;
        self.write(register_dw, LOW_HALF, before & !clear | set).await
    }

    /// Checks a register number: a capability may claim to reach beyond the end.
    fn check(&self, register_dw: u16) -> Result<(), FirmwareError> {
        if register_dw < REGISTERS {
            return Ok(());
        }
        Err(format!(
            "function {}: a capability reaches register {:#x}: legal are 0 to 0xffc",
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

    /// Device ID and Vendor ID; `None` where there is no function.
    async fn id(&self) -> Result<Option<u32>, FirmwareError> {
        use HostError::{Completion, ConfigRetry, NoDevice};
        for _ in 0..MAX_TRIES {
            match self.cpu.config_read(self.bdf, header::ID).await {
                Ok(id) if id & 0xffff == 0xffff => return Ok(None),
                // CRS as CRS Software Visibility shows it. A function with Vendor ID 0001h has another Device ID.
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
