// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What enumeration is told about a host: where its windows lie, and the policy by which functions are set up. Never
//! touches a register.

use super::{FIRST_VECTOR, MSI_ADDRESS, Window};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use tlp::{Duration, Mps, Mrrs, Rcb};

/// A host as its enumeration software knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostMap {
    /// Addresses below 4 GiB for BARs.
    pub mmio32: Window,
    /// Addresses from 4 GiB on for 64-bit BARs; empty where there are none.
    pub mmio64: Window,
    /// I/O addresses for BARs; empty where there are none.
    pub io: Window,
    /// The root complex's own bus.
    pub first_bus: u8,
    /// The last bus number that may be given.
    pub last_bus: u8,
    /// The address to which message-signalled interrupts are written.
    pub msi_address: u64,
    /// The first and the last interrupt vector that may be given.
    pub vectors: (u16, u16),
    /// The vectors that INTA, INTB, INTC and INTD of a root port raise, where it is device 0 of its bus; those of
    /// device n are rotated by n (`PCIe 5.0 §2.2.8.1`).
    pub intx_lines: [u8; 4],
    /// How functions are set up.
    pub policy: Policy,
    /// BARs that must be at given addresses.
    pub fixed: Vec<FixedPlace>,
}

impl Default for HostMap {
    /// A PC: BARs from 2 GiB to 4 GiB - 128 MiB and from 256 GiB to 512 GiB, I/O from 1000h on, interrupts as on x86,
    /// INTx on the lines 16 to 19 behind those of the ISA.
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

/// The rules by which functions are set up:
///
/// | setting | rule |
/// |---|---|
/// | Max_Payload_Size | the same in all functions below one root port: see [`MpsPolicy`] |
/// | Max_Read_Request_Size | `mrrs` in every function that `mrrs_of` does not name |
/// | Read Completion Boundary | in every endpoint what its root port's Link Control says, or `rcb` |
/// | Extended Tag Field Enable | where the function supports it |
/// | 10-Bit Tag Requester Enable | where the function supports it, and it, its root port and every port between them complete 10-bit tags; requests to peers elsewhere are not looked at |
/// | VF 10-Bit Tag Requester Enable | where the physical function has 10-bit tags enabled and its VFs support them |
/// | AtomicOp Requester Enable | in every root port; drivers set it in functions that ask for it |
/// | ARI Forwarding Enable | in a port that supports it above a device with ARI |
/// | Relaxed Ordering, No Snoop | in every function |
/// | Completion Timeout, LTR, IDO | left as after reset |
/// | error reporting | Device Control's four enables, SERR# Enable of Command and Bridge Control, Root Error Command |
/// | ACS | off, or redirection in every port that has it |
/// | interrupts | MSI-X with all vectors of its table, or else MSI with all vectors asked for, or else INTx |
/// | Memory, I/O Space, Bus Master Enable | in every function that has BARs or windows of the kind; Bus Master in all |
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How Max_Payload_Size is chosen.
    pub mps: MpsPolicy,
    /// Max_Read_Request_Size of every function.
    pub mrrs: Mrrs,
    /// Another Max_Read_Request_Size, for the functions at these paths.
    pub mrrs_of: BTreeMap<Path, Mrrs>,
    /// Read Completion Boundary to tell endpoints; `None`: that of their root port.
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
    /// Has errors reported by messages and, at root ports, by interrupts.
    pub error_reporting: bool,
    /// Access Control Services.
    pub acs: AcsPolicy,
    /// Prefers MSI-X to MSI.
    pub msix: bool,
    /// Prefers MSI to INTx.
    pub msi: bool,
    /// Which virtual functions are enabled.
    pub vfs: VfPolicy,
    /// How long VFs are left alone after VF Enable: 100 ms (`PCIe 5.0 §9.3.3.3.1`).
    pub vf_settle: Duration,
    /// Places 64-bit BARs that are not prefetchable in prefetchable windows above 4 GiB too, which is safe where
    /// everything between host and function is PCI Express (`PCIe 5.0 §7.5.1.2.1`, implementation note).
    pub all_64_bit_above: bool,
    /// Bus numbers kept below a hot-plug capable slot, besides its secondary bus.
    pub hot_plug_buses: u8,
    /// The least size of each memory window of a hot-plug capable slot, in bytes, where all such slots can have it.
    pub hot_plug_bytes: u64,
    /// What is kept below hot-plug capable ports, by path, in place of that.
    pub hot_plug_room: BTreeMap<Path, Room>,
}

/// The reserve that is kept below a hot-plug capable port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Bus numbers, besides the secondary bus.
    pub buses: u8,
    /// Bytes of each memory window, where all such ports can have theirs.
    pub bytes: u64,
}

impl Policy {
    /// The reserve below the hot-plug capable port at `path`.
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

/// How Max_Payload_Size is chosen. A port must accept what comes through it from any function, so all functions below
/// a root port have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MpsPolicy {
    /// The least that the root port or any function below it supports; 128 B where a slot of a switch is hot-plug
    /// capable, as any device may come there. Chosen again when a device comes into a root port's slot.
    #[default]
    Path,
    /// The least of all functions of the host, so that functions below different root ports may send to each other.
    Peer,
    /// This size; refused where a function supports less.
    Fixed(Mps),
}

/// How Access Control Services are set (`PCIe 5.0 §6.12`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AcsPolicy {
    /// Peers reach each other directly.
    #[default]
    Off,
    /// Source Validation, P2P Request and Completion Redirect and Upstream Forwarding, where a port has them: all
    /// peer traffic goes through the root complex, as an IOMMU needs it.
    Redirect,
}

/// Which virtual functions are enabled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum VfPolicy {
    /// None; addresses and bus numbers are kept for all.
    #[default]
    Off,
    /// TotalVFs of every physical function.
    All,
    /// This many of the physical functions at these paths.
    Listed(BTreeMap<Path, u16>),
}

/// A BAR that must stand at a given address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixedPlace {
    /// The function.
    pub path: Path,
    /// BAR number.
    pub bar: u8,
    /// Address.
    pub address: u64,
}

/// The place of a function in the tree, independent of bus numbers: the device and function number of each bridge
/// above it and its own, from the root complex on, such as `01.0/00.0/02.0/00.0`.
///
/// Each step is the low byte of a [`Bdf`](tlp::Bdf): device in bits 7:3, function in 2:0; with ARI a function number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Path(pub Vec<u8>);

impl Path {
    /// The path of what is at `step` below this bridge.
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

/// Text that is no path of a function.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("path \"{0}\": legal are devices and functions in hexadecimal, 00.0 to 1f.7, joined by /")]
pub struct PathError(String);

impl FromStr for Path {
    type Err = PathError;

    /// Reads what [`Display`](fmt::Display) prints.
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
