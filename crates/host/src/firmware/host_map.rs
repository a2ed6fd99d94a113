// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Input of enumeration: the address windows of a host, and the policy by which functions are set up.

use super::{FIRST_VECTOR, MSI_ADDRESS, Window};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use tlp::{Duration, Mps, Mrrs, Rcb};

/// Properties of a host, as its enumeration software knows them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostMap {
    /// Addresses for BARs below 4 GiB.
    pub mmio32: Window,
    /// Addresses for 64-bit BARs from 4 GiB; empty without any.
    pub mmio64: Window,
    /// I/O addresses for BARs; empty without any.
    pub io: Window,
    /// Bus number of the root complex.
    pub first_bus: u8,
    /// The last bus number that may be assigned.
    pub last_bus: u8,
    /// The address to which message-signalled interrupts are written.
    pub msi_address: u64,
    /// The first and the last interrupt vector that may be assigned.
    pub vectors: (u16, u16),
    /// Vectors for INTA, INTB, INTC and INTD of a root port that is device 0 of its bus. The vectors of device n are
    /// rotated by n (`PCIe 5.0 §2.2.8.1`).
    pub intx_lines: [u8; 4],
    /// Rules for setting up functions.
    pub policy: Policy,
    /// BARs that must be at given addresses.
    pub fixed: Vec<FixedPlace>,
}

impl Default for HostMap {
    /// A PC: BARs from 2 GiB to 4 GiB - 128 MiB and from 256 GiB to 512 GiB, and I/O from 1000h. Interrupts as on x86,
    /// with INTx on lines 16 to 19, after the ISA lines.
    fn default() -> HostMap {
        HostMap {
            mmio32: Window { base: 0x8000_0000, size: 0x7800_0000 },
            mmio64: Window { base: 0x40_0000_0000, size: 0x40_0000_0000 },
            io: Window { base: 0x1000, size: 0xf000 },
            first_bus: 0,
            last_bus: 255,
            msi_address: MSI_ADDRESS,
            vectors: (FIRST_VECTOR, u16::MAX),
            intx_lines: [16, 17, 18, 19],
            policy: Policy::default(),
            fixed: Vec::new(),
        }
    }
}

/// Rules for setting up functions:
///
/// | setting | rule |
/// |---|---|
/// | Max_Payload_Size | the same in all functions below one root port: see [`MpsPolicy`] |
/// | Max_Read_Request_Size | `mrrs`, except in the functions of `mrrs_of` |
/// | Read Completion Boundary | in every endpoint, the value of its root port's Link Control, or `rcb` |
/// | Extended Tag Field Enable | if the function supports it |
/// | 10-Bit Tag Requester Enable | if the function supports it, and it, its root port and every port between them complete 10-bit tags; peers elsewhere are not checked |
/// | VF 10-Bit Tag Requester Enable | if the physical function has 10-bit tags enabled and its VFs support them |
/// | AtomicOp Requester Enable | in every root port; drivers set it in functions that need it |
/// | ARI Forwarding Enable | in a port that supports it above a device with ARI |
/// | Relaxed Ordering, No Snoop | in every function |
/// | Completion Timeout, LTR, IDO | unchanged after reset |
/// | error reporting | Device Control's four enables, SERR# Enable of Command and Bridge Control, Root Error Command |
/// | ACS | off, or redirection in every port that has it |
/// | ECRC Generation Enable | in root ports, in devices, in both or in none: see [`EcrcPolicy`] |
/// | interrupts | MSI-X with all vectors of its table, otherwise MSI with all requested vectors, otherwise INTx |
/// | Memory, I/O Space, Bus Master Enable | in every function with BARs or windows of the kind; Bus Master in all |
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How Max_Payload_Size is chosen.
    pub mps: MpsPolicy,
    /// Max_Read_Request_Size of every function.
    pub mrrs: Mrrs,
    /// Another Max_Read_Request_Size, for the functions at these paths.
    pub mrrs_of: BTreeMap<Path, Mrrs>,
    /// Read Completion Boundary set in endpoints; `None` for their root port's.
    pub rcb: Option<Rcb>,
    /// Enables 8-bit tags.
    pub extended_tags: bool,
    /// Enables 10-bit tags.
    pub ten_bit_tags: bool,
    /// Enables ARI forwarding.
    pub ari: bool,
    /// Enable Relaxed Ordering.
    pub relaxed_ordering: bool,
    /// Enable No Snoop.
    pub no_snoop: bool,
    /// Reports errors by messages and, at root ports, by interrupts.
    pub error_reporting: bool,
    /// Access Control Services.
    pub acs: AcsPolicy,
    /// Functions whose TLPs have an ECRC.
    pub ecrc: EcrcPolicy,
    /// Prefers MSI-X to MSI.
    pub msix: bool,
    /// Prefers MSI to INTx.
    pub msi: bool,
    /// Virtual functions to enable.
    pub vfs: VfPolicy,
    /// Time without accesses to VFs after VF Enable: 100 ms (`PCIe 5.0 §9.3.3.3.1`).
    pub vf_settle: Duration,
    /// Places 64-bit BARs that are not prefetchable in prefetchable windows above 4 GiB too. This is safe if
    /// everything between host and function is PCI Express (`PCIe 5.0 §7.5.1.2.1`, implementation note).
    pub all_64_bit_above: bool,
    /// Bus numbers reserved below a hot-plug capable slot, in addition to its secondary bus.
    pub hot_plug_buses: u8,
    /// Minimum size of each memory window of a hot-plug capable slot, in bytes, if all such slots can have it.
    pub hot_plug_bytes: u64,
    /// Reserve below single hot-plug capable ports, by path; the larger value counts.
    pub hot_plug_room: BTreeMap<Path, Room>,
}

/// The reserve below a hot-plug capable port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Bus numbers, in addition to the secondary bus.
    pub buses: u8,
    /// Bytes of each memory window, if all such ports can have theirs.
    pub bytes: u64,
}

impl Policy {
    /// Returns the reserve below the hot-plug capable port at `path`.
    pub fn room(&self, path: &Path) -> Room {
        let own = self.hot_plug_room.get(path).copied().unwrap_or_default();
        Room { buses: own.buses.max(self.hot_plug_buses), bytes: own.bytes.max(self.hot_plug_bytes) }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            mps: MpsPolicy::Path,
            mrrs: Mrrs::default(),
            mrrs_of: BTreeMap::new(),
            rcb: None,
            extended_tags: true,
            ten_bit_tags: true,
            ari: true,
            relaxed_ordering: true,
            no_snoop: true,
            error_reporting: true,
            acs: AcsPolicy::Off,
            ecrc: EcrcPolicy::default(),
            msix: true,
            msi: true,
            vfs: VfPolicy::Off,
            vf_settle: Duration::from_ms(100),
            all_64_bit_above: true,
            hot_plug_buses: 1,
            hot_plug_bytes: 2 << 20,
            hot_plug_room: BTreeMap::new(),
        }
    }
}

/// Choice of Max_Payload_Size. A port must accept TLPs of any function through it, so all functions below a root port
/// have the same size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MpsPolicy {
    /// The smallest size that the root port and all functions below it support; 128 B if a switch there has a hot-plug
    /// slot, which any device may be inserted into. Chosen again when a device is inserted into a root port's slot.
    #[default]
    Path,
    /// The smallest size of all functions of the host, so that functions below different root ports can send to each
    /// other.
    Peer,
    /// This size; an error if a function supports less.
    Fixed(Mps),
}

/// Setting of Access Control Services (`PCIe 5.0 §6.12`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AcsPolicy {
    /// Peers reach each other directly.
    #[default]
    Off,
    /// Source Validation, P2P Request and Completion Redirect and Upstream Forwarding, if a port has them. All peer
    /// traffic goes through the root complex, as an IOMMU needs it.
    Redirect,
}

/// Functions in which ECRC Generation Enable is set, so that their TLPs have a digest (`PCIe 5.0 §2.7.1`), if they are
/// capable of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcrcPolicy {
    /// Root ports.
    pub root_ports: bool,
    /// Functions of devices, but not switch ports.
    pub devices: bool,
}

/// Virtual functions to enable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum VfPolicy {
    /// None. Addresses and bus numbers are reserved for all of them.
    #[default]
    Off,
    /// TotalVFs of every physical function.
    All,
    /// The given number for the physical functions at these paths.
    Listed(BTreeMap<Path, u16>),
}

/// A BAR that must be at a given address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixedPlace {
    /// The function.
    pub path: Path,
    /// BAR number.
    pub bar: u8,
    /// Address.
    pub address: u64,
}

/// Position of a function in the tree, independent of bus numbers. It consists of the device and function numbers of
/// the bridges above the function, from the root complex down, and of the function itself, such as
/// `01.0/00.0/02.0/00.0`.
///
/// Each step is the low byte of a [`Bdf`](tlp::Bdf): device in bits 7:3, function in 2:0; with ARI a function number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Path(pub Vec<u8>);

impl Path {
    /// Returns the path of function `step` below this bridge.
    pub fn below(&self, step: u8) -> Path {
        let mut steps = self.0.clone();
        steps.push(step);
        Path(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            let slash = if i == 0 { "" } else { "/" };
            write!(f, "{slash}{:02x}.{}", step >> 3, step & 0x7)?;
        }
        Ok(())
    }
}

/// Error: a text is not a path of a function.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("path \"{0}\", expected devices and functions in hexadecimal, 00.0 to 1f.7, joined by /")]
pub struct PathError(String);

impl FromStr for Path {
    type Err = PathError;

    /// Parses the format of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Path, PathError> {
        let number = |text: &str, most: u8| {
            let number = u8::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
            number.filter(|n| *n <= most)
        };
        let step = |text: &str| {
            let (device, function) = text.split_once('.')?;
            Some(number(device, 31)? << 3 | number(function, 7)?)
        };
        text.split('/').map(step).collect::<Option<Vec<u8>>>().map(Path).ok_or_else(|| PathError(text.into()))
    }
}
