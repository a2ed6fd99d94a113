// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of enumeration: every function of a host, with its position in the tree.

use super::error::FirmwareError;
use super::vectors::Vectors;
use super::{Config, FoundBar, FoundFunction, HostMap, Path};
use crate::cpu::Cpu;
use config::{PortType, header};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tlp::{Bdf, Mps};

/// All functions that enumeration found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    pub(super) map: HostMap,
    pub(super) functions: BTreeMap<Bdf, Function>,
    pub(super) vectors: Vectors,
}

/// A function that was found and set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Data for its driver: IDs, BARs, interrupt vectors.
    pub found: FoundFunction,
    /// The bridge above the function; `None` on the root complex's own bus.
    pub parent: Option<Bdf>,
    /// The function's path, which does not depend on bus numbers.
    pub path: Path,
    /// Header Type bits 6:0: 0 or 1 (`PCIe 5.0 §7.5.1.1.9`).
    pub header_type: u8,
    /// Revision ID.
    pub revision: u8,
    /// Its capabilities, in the order of their list.
    pub capabilities: Vec<Capability>,
    /// Its extended capabilities, in the order of their list.
    pub extended: Vec<ExtendedCapability>,
    /// Contents of its PCI Express capability.
    pub pcie: Option<PcieFacts>,
    /// Its Expansion ROM, which has an address and is disabled.
    pub rom: Option<FoundBar>,
    /// Forwarding settings of a bridge.
    pub bridge: Option<FoundBridge>,
    /// SR-IOV capability of a physical function.
    pub sriov: Option<FoundSriov>,
    /// The physical function of a virtual function.
    pub vf_of: Option<Bdf>,
    /// Its interrupt mechanism.
    pub interrupt: Interrupt,
    /// Max_Payload_Size that was set; a virtual function has the value of its physical function.
    pub mps: Mps,
}

/// A capability of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capability {
    /// Capability ID.
    pub id: u8,
    /// DW number of its first register.
    pub at: u16,
}

/// An extended capability of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtendedCapability {
    /// Extended Capability ID.
    pub id: u16,
    /// Capability Version.
    pub version: u8,
    /// DW number of its first register.
    pub at: u16,
}

/// Fields of a PCI Express capability that enumeration uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcieFacts {
    /// DW number of the capability.
    pub at: u16,
    /// Device/Port Type; `None` if `config` does not know it.
    pub port: Option<PortType>,
    /// Device Capabilities.
    pub device_capabilities: u32,
    /// Device Capabilities 2.
    pub device_capabilities_2: u32,
    /// True for a port with a Hot-Plug Capable slot.
    pub hot_plug: bool,
}

/// Forwarding settings of a bridge (`PCIe 5.0 §7.5.1.3`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FoundBridge {
    /// Secondary Bus Number: the bus directly below.
    pub secondary: u8,
    /// Subordinate Bus Number: the last bus below.
    pub subordinate: u8,
    /// I/O window; empty if there is none.
    pub io: super::Window,
    /// Memory window, below 4 GiB.
    pub memory: super::Window,
    /// Prefetchable memory window, above 4 GiB.
    pub prefetchable: super::Window,
    /// True if the bridge has an I/O window at all.
    pub has_io: bool,
    /// True if its prefetchable window has 64-bit addresses.
    pub has_64_bit: bool,
    /// True if ARI Forwarding Enable is set.
    pub ari: bool,
}

/// The SR-IOV capability of a physical function (`PCIe 5.0 §9.3.3`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FoundSriov {
    /// DW number of the capability.
    pub at: u16,
    /// TotalVFs.
    pub total_vfs: u16,
    /// NumVFs: the number of enabled virtual functions; 0 if VF Enable is clear.
    pub num_vfs: u16,
    /// First VF Offset.
    pub first_offset: u16,
    /// VF Stride.
    pub stride: u16,
    /// VF Device ID.
    pub vf_device: u16,
    /// VF BARs: the address of the first VF's BAR, and the size of each VF's BAR.
    pub bars: [Option<FoundBar>; 6],
}

impl FoundSriov {
    /// Returns the ID of virtual function `index`, counted from zero, of the physical function `pf`; `None` beyond
    /// 16 bits.
    pub fn vf(&self, pf: Bdf, index: u16) -> Option<Bdf> {
        let beyond = u32::from(self.first_offset) + u32::from(self.stride) * u32::from(index);
        u16::try_from(u32::from(pf.bits()) + beyond).ok().map(Bdf::from_bits)
    }
}

/// The interrupt mechanism of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interrupt {
    /// No interrupts, or no vectors were left.
    #[default]
    None,
    /// Messages that assert and deassert a line; `pin` is 1 (INTA) to 4 (INTD).
    Intx {
        /// Interrupt Pin.
        pin: u8,
        /// The host's interrupt line, as in the register Interrupt Line.
        line: u8,
    },
    /// MSI.
    Msi,
    /// MSI-X.
    Msix,
}

impl Function {
    /// Bus, device and function.
    pub const fn bdf(&self) -> Bdf {
        self.found.bdf
    }

    /// DW number of the first capability with this ID.
    pub fn capability(&self, id: u8) -> Option<u16> {
        self.capabilities.iter().find(|c| c.id == id).map(|c| c.at)
    }

    /// DW number of the first extended capability with this ID.
    pub fn extended_capability(&self, id: u16) -> Option<u16> {
        self.extended.iter().find(|c| c.id == id).map(|c| c.at)
    }

    pub(super) fn port_type(&self) -> Option<PortType> {
        self.pcie.and_then(|p| p.port)
    }

    pub(super) fn hot_plug(&self) -> bool {
        self.pcie.is_some_and(|p| p.hot_plug)
    }
}

impl System {
    /// Returns the host map that enumeration used.
    pub const fn map(&self) -> &HostMap {
        &self.map
    }

    /// Returns all functions in the order of their IDs, which is depth first.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.values()
    }

    /// The number of functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// True if there are no functions.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function with this ID.
    pub fn get(&self, bdf: Bdf) -> Option<&Function> {
        self.functions.get(&bdf)
    }

    /// The function at this path.
    pub fn at_path(&self, path: &Path) -> Option<&Function> {
        self.functions().find(|f| f.path == *path)
    }

    /// Returns the first function below root port `port`, counted from zero, that is not a bridge. If there is a single
    /// device below, it is the one to drive.
    pub fn first_device(&self, port: usize) -> Option<&Function> {
        self.functions().find(|f| f.parent.is_some() && f.header_type == 0 && f.found.port == port)
    }

    /// Returns all functions below this bridge, on all levels, in the order of their IDs.
    pub fn under(&self, bridge: Bdf) -> impl Iterator<Item = &Function> {
        let buses = self.get(bridge).and_then(|f| f.bridge).map(|b| b.secondary..=b.subordinate);
        self.functions().filter(move |f| buses.as_ref().is_some_and(|b| b.contains(&f.bdf().bus())))
    }

    /// Returns the virtual functions of this physical function.
    pub fn vfs_of(&self, pf: Bdf) -> impl Iterator<Item = &Function> {
        self.functions().filter(move |f| f.vf_of == Some(pf))
    }

    /// Reads the configuration space of a function by configuration requests: 4 KiB, or 256 B without a PCI Express
    /// capability. A register whose read is rejected reads as ones.
    ///
    /// # Errors
    /// If `system` has no such function.
    pub async fn read_config(&self, cpu: &Cpu, bdf: Bdf) -> Result<Vec<u8>, FirmwareError> {
        let function = self.get(bdf).ok_or_else(|| format!("no function {bdf} was found"))?;
        let registers = if function.pcie.is_some() { 1024 } else { 64 };
        let config = Config { cpu, bdf };
        let mut bytes = Vec::with_capacity(usize::from(registers) * 4);
        for register_dw in 0..registers {
            bytes.extend_from_slice(&config.read(register_dw).await.unwrap_or(u32::MAX).to_le_bytes());
        }
        Ok(bytes)
    }

    /// Reads all configuration spaces by configuration requests, in the format of `lspci -F`.
    ///
    /// # Errors
    /// None at present.
    pub async fn hexdump(&self, cpu: &Cpu) -> Result<String, FirmwareError> {
        let mut text = String::new();
        for function in self.functions() {
            let bytes = self.read_config(cpu, function.bdf()).await?;
            dump(&mut text, function, &bytes);
        }
        Ok(text)
    }

    /// Draws the tree like `lspci -t`: buses in brackets, devices with their functions.
    pub fn tree(&self) -> String {
        self.tree_with(|_| String::new())
    }

    /// Like [`tree`](Self::tree), with the text of `name` after each function that is not a bridge.
    pub fn tree_with(&self, name: impl Fn(Bdf) -> String) -> String {
        let mut text = String::new();
        let head = format!("-[0000:{:02x}]-", self.map.first_bus);
        self.draw(&mut text, &head, self.map.first_bus, &name);
        text
    }

    /// Draws the functions on `bus` after the text `head`. Further lines have the same indentation.
    fn draw(&self, text: &mut String, head: &str, bus: u8, name: &dyn Fn(Bdf) -> String) {
        let on_bus: Vec<&Function> = self.functions().filter(|f| f.bdf().bus() == bus).collect();
        let indent = indent(head);
        for (i, function) in on_bus.iter().enumerate() {
            let last = i + 1 == on_bus.len();
            let branch = match (on_bus.len(), last) {
                (1, _) => "--",
                (_, true) => "\\-",
                (_, false) => "+-",
            };
            let start = if i == 0 { head } else { &indent };
            self.draw_function(text, &format!("{start}{branch}"), function, name);
        }
        if on_bus.is_empty() {
            let _ = writeln!(text, "{head}");
        }
    }

    fn draw_function(
        &self,
        text: &mut String,
        head: &str,
        function: &Function,
        name: &dyn Fn(Bdf) -> String,
    ) {
        let bdf = function.bdf();
        let head = format!("{head}{:02x}.{}", bdf.device(), bdf.function());
        let Some(FoundBridge { secondary, subordinate, .. }) = function.bridge else {
            let _ = writeln!(text, "{head}{}", name(bdf));
            return;
        };
        let buses = if secondary == subordinate {
            format!("[{secondary:02x}]")
        } else {
            format!("[{secondary:02x}-{subordinate:02x}]")
        };
        let head = format!("{head}-{buses}--");
        // Virtual functions may be on buses of their own, after their physical function's bus.
        let on_secondary = |f: &Function| f.vf_of.is_some_and(|pf| pf.bus() == secondary);
        let all = self.under(bdf).filter(|f| on_secondary(f)).map(|f| f.bdf().bus());
        let all: BTreeSet<u8> = all.chain([secondary]).collect();
        if all.len() == 1 {
            return self.draw(text, &head, secondary, name);
        }
        let indent = indent(&head);
        for (i, bus) in all.iter().enumerate() {
            let start = if i == 0 { &head } else { &indent };
            let branch = if i + 1 == all.len() { "\\-" } else { "+-" };
            self.draw(text, &format!("{start}{branch}[0000:{bus:02x}]-"), *bus, name);
        }
    }
}

/// Indentation below `head`: vertical lines continue if there are siblings.
fn indent(head: &str) -> String {
    head.chars().map(|c| if matches!(c, '+' | '|') { '|' } else { ' ' }).collect()
}

/// One function, in the format of `lspci -F`.
fn dump(text: &mut String, function: &Function, bytes: &[u8]) {
    let kind = match function.header_type {
        1 => "PCI bridge",
        _ => "Function",
    };
    let FoundFunction { bdf, vendor, device, .. } = function.found;
    *text += &config::lspci::hexdump(&format!("{bdf} {kind}: Device {vendor:04x}:{device:04x}"), bytes);
}

impl Config<'_> {
    /// Vendor ID of a function that may have been removed; `None` if it does not answer.
    pub(super) async fn answers(&self) -> Option<u32> {
        self.read(header::ID).await.ok().filter(|id| *id != u32::MAX)
    }
}
