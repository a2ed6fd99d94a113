// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What firmware does before a driver may run, as host code: finds functions, gives their BARs addresses, sets up their
//! PCI Express and interrupt capabilities, and enables them (`PCIe 5.0 §7.5`, §6.1).
//!
//! [`enumerate_host`] does it for a whole tree of bridges by the [`Policy`] of a [`HostMap`], and returns the [`System`];
//! [`rescan`] does it again below one slot. [`enumerate`] does it for the devices below root ports that were set up by
//! other means.
//!
//! What it goes through, in this order: functions and bus numbers, depth first, with the sizes of what each needs
//! (`scan`, `sizing`); addresses, from the leaves up and down again (`windows`); then, function by function, BARs and
//! windows (`program`), sizes, tags and reporting (`settings`), Command; interrupts (`interrupts`); and last virtual
//! functions (`virtual_functions`).
//!
//! All of it goes over real configuration requests, so that it takes its time on the fabric and shows in captures.
//! Never knows the fabric: where the windows of a root port lie is told by whoever set it up.

mod host_map;
mod interrupts;
mod place;
mod program;
mod registers;
mod scan;
mod settings;
mod sizing;
mod system;
mod tree;
mod trouble;
mod vectors;
mod virtual_functions;
mod windows;

pub use host_map::{AcsPolicy, FixedPlace, HostMap, MpsPolicy, Path, PathError, Policy, VfPolicy};
pub use system::{
    Capability, ExtendedCapability, FoundBridge, FoundSriov, Function, Interrupt, PcieFacts, System,
};
pub use tree::{Rescan, enumerate_host, rescan};

use crate::cpu::Cpu;
use crate::host::HostError;
use crate::seam::CompletionError;
use config::cap::pcie::{device_control, device_control_2};
use config::cap::{msi, pcie};
use config::header::{self, command, status, type0};
use place::{BarNeed, Placer};
use std::fmt;
use tlp::{Bdf, Duration, Mps, Mrrs, Rcb};
use trouble::{Kind, Trouble};

/// Where the message address of x86 lies (Intel SDM vol. 3, §11.11.1): writes there are interrupts.
pub const MSI_ADDRESS: u64 = 0xfee0_0000;
/// The first interrupt vector handed out: those below are the processor's own on x86 (Intel SDM vol. 3, §6.2).
pub const FIRST_VECTOR: u16 = 32;
/// How long firmware waits between tries of a function that says CRS.
pub const RETRY_PAUSE: Duration = Duration::from_ms(10);
/// Tries of a function that says CRS: one second in all, as `PCIe 5.0 §6.6.1` grants a function after reset.
pub const MAX_TRIES: u32 = 100;

/// Functions of a device (`PCIe 5.0 §7.5.1.1.9`).
const FUNCTIONS: u8 = 8;
/// Capabilities that fit between 40h and FFh, a DW each: longer lists are loops.
const MAX_CAPABILITIES: usize = 48;
/// Registers of a configuration space.
const REGISTERS: u16 = 1024;
/// All four bytes of a register.
const ALL_BYTES: u8 = 0xf;
/// The low two bytes of a register: Command, Device Control, Link Control, leaving their status halves alone.
const LOW_HALF: u8 = 0b0011;

/// A root port as the host set it up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootPortWindows {
    /// Secondary bus number: the bus of the device below.
    pub bus: u8,
    /// Non-prefetchable window below 4 GiB.
    pub mmio32: Window,
    /// Window above 4 GiB; of no size where there is none.
    pub mmio64: Window,
    /// I/O window; of no size where there is none.
    pub io: Window,
    /// Max_Payload_Size of the path.
    pub mps: Mps,
    /// Max_Read_Request_Size to set.
    pub mrrs: Mrrs,
    /// Read Completion Boundary of the port.
    pub rcb: Rcb,
    /// Enables 10-bit tags where a function has them. 8-bit tags are always enabled.
    pub ten_bit_tags: bool,
    /// BARs whose address is not for firmware to choose.
    pub fixed: Vec<FixedBar>,
}

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Address of the first byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
}

/// A BAR that must stand at a given address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedBar {
    /// Function number.
    pub function: u8,
    /// BAR number.
    pub bar: u8,
    /// Address.
    pub address: u64,
}

/// A function that was found and enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundFunction {
    /// Bus, device and function.
    pub bdf: Bdf,
    /// Which of the root ports it is below, counted from zero.
    pub port: usize,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class Code, 24 bits.
    pub class: u32,
    /// Its memory BARs; a 64-bit one stands at its lower number.
    pub bars: [Option<FoundBar>; 6],
    /// Its I/O BARs.
    pub io_bars: [Option<FoundBar>; 6],
    /// DW number of its PCI Express capability.
    pub pcie: Option<u16>,
    /// Number of its first interrupt vector among all of the host.
    pub vector_base: u16,
    /// Vectors that it was given by MSI.
    pub vectors: u16,
}

/// A BAR with its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundBar {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl FoundFunction {
    /// Address of the byte `offset` of BAR `index`.
    ///
    /// # Errors
    /// A line that names the function and the BAR, where there is no such BAR or it is not as large.
    pub fn address(&self, index: u8, offset: u64) -> Result<u64, String> {
        match self.bars.get(usize::from(index)).copied().flatten() {
            None => Err(format!("{self} has no memory BAR {index}")),
            Some(bar) if offset >= bar.size => {
                Err(format!("{self}, BAR {index}: offset {offset:#x} is beyond its {:#x} bytes", bar.size))
            }
            Some(bar) => Ok(bar.address + offset),
        }
    }

    /// I/O address of the byte `offset` of I/O BAR `index`.
    ///
    /// # Errors
    /// A line that names the function and the BAR, where there is no such BAR or it is not as large.
    pub fn io_address(&self, index: u8, offset: u32) -> Result<u32, String> {
        match self.io_bars.get(usize::from(index)).copied().flatten() {
            None => Err(format!("{self} has no I/O BAR {index}")),
            Some(bar) if u64::from(offset) >= bar.size => Err(format!(
                "{self}, I/O BAR {index}: offset {offset:#x} is beyond its {:#x} bytes",
                bar.size
            )),
            // I/O space ends at 64 KiB.
            Some(bar) => Ok(bar.address as u32 + offset),
        }
    }

    /// Lets it send AtomicOps: sets AtomicOp Requester Enable (`PCIe 5.0 §7.5.3.16`), as its driver does once it knows
    /// that the root complex completes them.
    ///
    /// # Errors
    /// A line that names the function, where it has no PCI Express capability or does not answer.
    pub async fn enable_atomics(&self, cpu: &Cpu) -> Result<(), String> {
        let at = self.pcie.ok_or_else(|| format!("{self} has no PCI Express capability"))?;
        let config = Config { cpu, bdf: self.bdf };
        Ok(config.change(at + pcie::DEVICE_CONTROL_2, 0, device_control_2::ATOMIC_REQUESTER).await?)
    }

    /// The number among all vectors of the host of this function's vector `index`.
    #[must_use]
    pub fn vector(&self, index: u16) -> u16 {
        self.vector_base + index
    }
}

impl fmt::Display for FoundFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} [{:04x}:{:04x}]", self.bdf, self.vendor, self.device)
    }
}

/// A function as a scan found it, before it is set up.
struct Scanned {
    bdf: Bdf,
    id: u32,
    class: u32,
    bars: Vec<BarNeed>,
    msi: Option<u16>,
    pcie: Option<u16>,
}

/// Finds and enables all functions below `ports`, in the order of ports and function numbers.
///
/// # Errors
/// A line that names the function, and the BAR where it is about one.
pub async fn enumerate(cpu: &Cpu, ports: &[RootPortWindows]) -> Result<Vec<FoundFunction>, String> {
    let mut found = Vec::new();
    let mut next_vector = FIRST_VECTOR;
    for (index, port) in ports.iter().enumerate() {
        let mut functions = scan_port(cpu, port).await?;
        let mut placer = Placer::new(port);
        place_bars(&mut placer, &mut functions)?;
        for scanned in &functions {
            let setup = Setup { cpu, port, index, scanned };
            found.push(setup.run(&mut next_vector).await?);
        }
    }
    Ok(found)
}

fn place_bars(placer: &mut Placer<'_>, functions: &mut [Scanned]) -> Result<(), String> {
    let bdfs: Vec<Bdf> = functions.iter().map(|f| f.bdf).collect();
    let mut needs: Vec<&mut BarNeed> = functions.iter_mut().flat_map(|f| &mut f.bars).collect();
    placer.place(&bdfs, &mut needs)
}

async fn scan_port(cpu: &Cpu, port: &RootPortWindows) -> Result<Vec<Scanned>, String> {
    let mut functions = Vec::new();
    let mut multi_function = false;
    for number in 0..FUNCTIONS {
        if number > 0 && !multi_function {
            break;
        }
        // Below a root port there is one device, number 0 (`PCIe 5.0 §7.3.1`).
        let bdf = Bdf::from_bits(u16::from(port.bus) << 8 | u16::from(number));
        let config = Config { cpu, bdf };
        let Some(id) = config.id().await? else { continue };
        let misc = config.read(header::MISC).await?;
        multi_function |= number == 0 && misc & header::MULTI_FUNCTION != 0;
        if misc >> 16 & 0x7f != 0 {
            return Err(format!(
                "function {bdf} has a header of type {}: only type 0 is known",
                misc >> 16 & 0x7f
            ));
        }
        functions.push(config.scan(id).await?);
    }
    Ok(functions)
}

/// Configuration space of one function, over the wire.
#[derive(Clone, Copy)]
struct Config<'a> {
    cpu: &'a Cpu,
    bdf: Bdf,
}

impl Config<'_> {
    async fn read(&self, register_dw: u16) -> Result<u32, Trouble> {
        self.check(register_dw)?;
        self.cpu.config_read(self.bdf, register_dw).await.map_err(|e| self.error("read", register_dw, e))
    }

    async fn write(&self, register_dw: u16, byte_enables: u8, value: u32) -> Result<(), Trouble> {
        self.check(register_dw)?;
        let done = self.cpu.config_write(self.bdf, register_dw, byte_enables, value).await;
        done.map_err(|e| self.error("write", register_dw, e))
    }

    /// Clears and sets bits of the low half of a register.
    async fn change(&self, register_dw: u16, clear: u32, set: u32) -> Result<(), Trouble> {
        let before = self.read(register_dw).await?;
        self.write(register_dw, LOW_HALF, before & !clear | set).await
    }

    /// A capability may say that it reaches beyond the end.
    fn check(&self, register_dw: u16) -> Result<(), String> {
        if register_dw < REGISTERS {
            return Ok(());
        }
        Err(format!(
            "function {}: a capability reaches register {:#x}: legal are 0 to 0xffc",
            self.bdf,
            register_dw * 4
        ))
    }

    fn error(&self, what: &str, register_dw: u16, error: HostError) -> Trouble {
        let (bdf, byte) = (self.bdf, register_dw * 4);
        let text = format!("function {bdf}: configuration {what} of register {byte:#05x}: {error}");
        let kind = match error {
            HostError::CompletionTimeout => Kind::TimedOut,
            HostError::NoDevice | HostError::Completion(CompletionError::UnsupportedRequest) => Kind::Refused,
            _ => Kind::Wrong,
        };
        Trouble { text, kind }
    }

    /// Device ID and Vendor ID; `None` where there is no function.
    async fn id(&self) -> Result<Option<u32>, Trouble> {
        use HostError::{Completion, ConfigRetry, NoDevice};
        for _ in 0..MAX_TRIES {
            match self.cpu.config_read(self.bdf, header::ID).await {
                Ok(id) if id & 0xffff == 0xffff => return Ok(None),
                // CRS, as a root port with CRS Software Visibility says it (`PCIe 5.0 §2.3.2`).
                Ok(id) if id & 0xffff == 0x0001 => self.cpu.sleep(RETRY_PAUSE).await,
                Ok(id) => return Ok(Some(id)),
                Err(NoDevice | Completion(CompletionError::UnsupportedRequest)) => return Ok(None),
                Err(ConfigRetry) => self.cpu.sleep(RETRY_PAUSE).await,
                Err(error) => return Err(self.error("read", header::ID, error)),
            }
        }
        Err(format!("function {} is not ready after {MAX_TRIES} tries", self.bdf).into())
    }

    async fn scan(&self, id: u32) -> Result<Scanned, String> {
        let class = self.read(header::CLASS_REVISION).await? >> 8;
        let bars = self.size_bars().await?;
        let (msi, pcie) = self.find_capabilities().await?;
        Ok(Scanned { bdf: self.bdf, id, class, bars, msi, pcie })
    }

    /// Writes ones to each BAR and reads back which bits hold (`PCIe 5.0 §7.5.1.2.1`). Decoding is off meanwhile.
    async fn size_bars(&self) -> Result<Vec<BarNeed>, String> {
        self.write(header::COMMAND_STATUS, LOW_HALF, 0).await?;
        let mut bars = Vec::new();
        let mut index = 0;
        while index < type0::BARS {
            let low = self.probe(index).await?;
            let is_io = low & 1 != 0;
            let is_64 = !is_io && low >> 1 & 0b11 == 0b10 && index + 1 < type0::BARS;
            let high = if is_64 { self.probe(index + 1).await? } else { u32::MAX };
            // Of an I/O BAR bits 1:0 say what it is, of others bits 3:0.
            let mask = u64::from(high) << 32 | u64::from(low & if is_io { !0b11 } else { !0xf });
            let exists = mask as u32 != 0 || is_64 && high != 0;
            if exists {
                let size = mask & mask.wrapping_neg();
                bars.push(BarNeed { bdf: self.bdf, index, size, is_64, is_io, address: 0 });
            }
            index += if is_64 { 2 } else { 1 };
        }
        Ok(bars)
    }

    async fn probe(&self, bar: u8) -> Result<u32, String> {
        let register_dw = type0::BAR0 + u16::from(bar);
        self.write(register_dw, ALL_BYTES, u32::MAX).await?;
        Ok(self.read(register_dw).await?)
    }

    /// DW numbers of the MSI and the PCI Express capability.
    async fn find_capabilities(&self) -> Result<(Option<u16>, Option<u16>), String> {
        let (mut msi_at, mut pcie_at) = (None, None);
        if self.read(header::COMMAND_STATUS).await? & status::CAPABILITIES_LIST == 0 {
            return Ok((None, None));
        }
        let mut pointer = self.read(header::CAPABILITIES_POINTER).await? & 0xfc;
        for _ in 0..MAX_CAPABILITIES {
            if pointer == 0 {
                return Ok((msi_at, pcie_at));
            }
            let at = pointer as u16 / 4;
            let head = self.read(at).await?;
            match head as u8 {
                msi::ID => msi_at = Some(at),
                pcie::ID => pcie_at = Some(at),
                _ => {}
            }
            pointer = head >> 8 & 0xfc;
        }
        Err(format!("function {}: its list of capabilities is a loop", self.bdf))
    }
}

/// Sets up one function.
struct Setup<'a> {
    cpu: &'a Cpu,
    port: &'a RootPortWindows,
    index: usize,
    scanned: &'a Scanned,
}

impl Setup<'_> {
    async fn run(&self, next_vector: &mut u16) -> Result<FoundFunction, String> {
        let Scanned { bdf, id, class, msi, pcie, .. } = *self.scanned;
        let [bars, io_bars] = self.program_bars().await?;
        if let Some(at) = pcie {
            self.program_pcie(at).await?;
        }
        let (vector_base, vectors) = match msi {
            Some(at) => self.program_msi(at, next_vector).await?,
            None => (*next_vector, 0),
        };
        let has_io = io_bars.iter().any(Option::is_some);
        let io_space = if has_io { command::IO_SPACE } else { 0 };
        let enable = command::MEMORY_SPACE | command::BUS_MASTER | io_space;
        self.config().write(header::COMMAND_STATUS, LOW_HALF, enable).await?;
        let (vendor, device) = (id as u16, (id >> 16) as u16);
        let port = self.index;
        Ok(FoundFunction { bdf, port, vendor, device, class, bars, io_bars, pcie, vector_base, vectors })
    }

    fn config(&self) -> Config<'_> {
        Config { cpu: self.cpu, bdf: self.scanned.bdf }
    }

    /// Memory BARs, and I/O BARs.
    async fn program_bars(&self) -> Result<[[Option<FoundBar>; 6]; 2], String> {
        let mut bars = [[None; 6]; 2];
        for need in &self.scanned.bars {
            let at = type0::BAR0 + u16::from(need.index);
            self.config().write(at, ALL_BYTES, need.address as u32).await?;
            if need.is_64 {
                self.config().write(at + 1, ALL_BYTES, (need.address >> 32) as u32).await?;
            }
            bars[usize::from(need.is_io)][usize::from(need.index)] =
                Some(FoundBar { address: need.address, size: need.size });
        }
        Ok(bars)
    }

    async fn program_pcie(&self, at: u16) -> Result<(), String> {
        let capabilities = self.config().read(at + pcie::DEVICE_CAPABILITIES).await?;
        let (mps, supported) = (self.port.mps, (capabilities & 0b111) as u8);
        if mps.encoding() > supported {
            let most = Mps::from_encoding(supported).unwrap_or_default();
            return Err(format!(
                "function {}: Max_Payload_Size of {mps}: it supports {most}",
                self.scanned.bdf
            ));
        }
        let sizes = u32::from(mps.encoding()) << device_control::MPS_SHIFT
            | u32::from(self.port.mrrs.encoding()) << device_control::MRRS_SHIFT;
        let mask = 0b111 << device_control::MPS_SHIFT | 0b111 << device_control::MRRS_SHIFT;
        self.config().change(at + pcie::DEVICE_CONTROL, mask, sizes | device_control::EXTENDED_TAG).await?;
        let rcb = if self.port.rcb.bytes() == 128 { pcie::RCB_128 } else { 0 };
        self.config().change(at + pcie::LINK_CONTROL, pcie::RCB_128, rcb).await?;
        if self.port.ten_bit_tags {
            self.config().change(at + pcie::DEVICE_CONTROL_2, 0, device_control_2::TEN_BIT_TAG).await?;
        }
        Ok(())
    }

    /// Grants all vectors asked for. Their numbers are consecutive and aligned, as the function replaces the low bits.
    async fn program_msi(&self, at: u16, next_vector: &mut u16) -> Result<(u16, u16), String> {
        let control = self.config().read(at).await?;
        let asked = (control >> msi::CAPABLE_SHIFT & 0b111).min(5);
        let vectors = 1u16 << asked;
        let base = next_vector.checked_next_multiple_of(vectors).filter(|b| b.checked_add(vectors).is_some());
        let base =
            base.ok_or_else(|| format!("function {}: no interrupt vectors are left", self.scanned.bdf))?;
        *next_vector = base + vectors;
        self.config().write(at + 1, ALL_BYTES, MSI_ADDRESS as u32).await?;
        let mut data_at = at + 2;
        if control & msi::CAPABLE_64_BIT != 0 {
            self.config().write(data_at, ALL_BYTES, (MSI_ADDRESS >> 32) as u32).await?;
            data_at += 1;
        }
        self.config().write(data_at, LOW_HALF, u32::from(base)).await?;
        let enabled = control & !msi::MULTIPLE_ENABLE | asked << msi::ENABLE_SHIFT | msi::ENABLE;
        self.config().write(at, ALL_BYTES, enabled).await?;
        Ok((base, vectors))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod tree_tests;
