// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An Intel Volume Management Device (VMD): one endpoint of a virtual machine that carries a whole hierarchy. The stock `vmd` driver
//! uses BAR0 as the ECAM window of a separate PCI domain (`10000:`), and BAR2 and BAR4 as its memory windows. The VMD's vectors
//! carry interrupts of the domain. Each access to a window becomes a request of a root complex. The VMD does not depend on the hierarchy.
//!
//! | region | contents | requests |
//! |---|---|---|
//! | BAR0, CFGBAR | 1 MiB for each bus: bus, device, function, register (`PCIe 5.0 §7.2.2`) | CfgRd, CfgWr |
//! | BAR2, MEMBAR1 | 64-bit, prefetchable | MRd, MWr at the same address |
//! | BAR4, MEMBAR2 | 32-bit; its first 8 KiB are the VMD's own MSI-X table and Pending Bit Array | MRd, MWr after them |
//! | configuration space | the VMD's own | |
//!
//! Layout and identity match the Linux driver (`drivers/pci/controller/vmd.c`). 8086:a77f is one of its devices for which QEMU has
//! no quirk.

use crate::accesses::{Accesses, Answer};
use crate::vfio_device::{self, Outcome, VfioDevice};
use crate::vfio_user::{Irq, IrqEvent, Region, Shape, region};
use config::{Bar, BuildError, Builder, ConfigSpace, Identity, MsixLayout, ResetScope};
use host::firmware::MSI_ADDRESS;
use host::{HostError, HostInterrupt, HostOutput, HostReadId};
use thiserror::Error;
use tlp::{Data, PayloadPool};

/// Vendor and Device ID.
const IDENTITY: Identity = Identity {
    vendor: 0x8086,
    device: 0xa77f,
    revision: 0,
    class: 0x01_0400,
    subsystem_vendor: 0x8086,
    subsystem: 0,
};
/// Registers 40h and 44h are zero, which means that the domain has no restrictions. Capabilities begin after these
/// registers.
const FIRST_CAPABILITY_DW: u16 = 0x50 / 4;
/// Bytes of BAR4 that belong to the VMD; the memory window begins after them.
pub const OWN_BYTES: u64 = 0x2000;
const PENDING_AT: u32 = 0x1000;
/// Bytes of CFGBAR per bus.
const BUS_BYTES: u64 = 1 << 20;
/// Bit position of the vector in the message address of devices in the domain.
const VECTOR_SHIFT: u32 = 12;

/// Region with the configuration space of all functions, as in ECAM: BAR0.
pub const CFGBAR: usize = 0;
/// BAR2.
const MEMBAR1: usize = 2;
/// BAR4.
const MEMBAR2: usize = 4;
/// Bytes of the VMD's own configuration space.
const CONFIG_BYTES: u64 = 256;

/// Sizes of a VMD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Number of buses of the domain: a power of two, 32 to 256.
    pub buses: u16,
    /// Size of the 64-bit prefetchable window in bytes: a power of two, 1 MiB to 2^62.
    pub prefetchable_bytes: u64,
    /// Size of the 32-bit window in bytes, including the VMD's own 8 KiB: a power of two, 1 MiB to 1 GiB.
    pub memory_bytes: u64,
    /// Number of vectors that interrupts of the domain are spread over: 2 to 128.
    pub vectors: u16,
}

/// Error in a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// Illegal number of buses.
    #[error("{0} buses, expected 32, 64, 128 or 256")]
    Buses(u16),
    /// Illegal size of the 64-bit window.
    #[error("a 64-bit window of {0} bytes, expected a power of two, 1 MiB to 2^62")]
    Prefetchable(u64),
    /// Illegal size of the 32-bit window.
    #[error("a 32-bit window of {0} bytes, expected a power of two, 1 MiB to 1 GiB")]
    Memory(u64),
    /// Illegal number of vectors.
    #[error("{0} vectors, expected 2 to 128")]
    Vectors(u16),
    /// The configuration space cannot be built.
    #[error("{0}")]
    Config(#[from] BuildError),
}

impl Layout {
    fn check(&self) -> Result<(), LayoutError> {
        let window = |bytes: u64, last: u64| bytes.is_power_of_two() && (BUS_BYTES..=last).contains(&bytes);
        match *self {
            Layout { buses, .. } if !(32..=256).contains(&buses) || !buses.is_power_of_two() => {
                Err(LayoutError::Buses(buses))
            }
            Layout { prefetchable_bytes: bytes, .. } if !window(bytes, 1 << 62) => {
                Err(LayoutError::Prefetchable(bytes))
            }
            Layout { memory_bytes: bytes, .. } if !window(bytes, 1 << 30) => Err(LayoutError::Memory(bytes)),
            Layout { vectors, .. } if !(2..=128).contains(&vectors) => Err(LayoutError::Vectors(vectors)),
            _ => Ok(()),
        }
    }

    fn cfgbar_bytes(&self) -> u64 {
        u64::from(self.buses) * BUS_BYTES
    }
}

/// A VMD. `T` identifies an access of the virtual machine.
pub struct Vmd<T> {
    layout: Layout,
    space: ConfigSpace,
    /// MSI-X table and Pending Bit Array. QEMU emulates these registers; other accesses here see plain memory.
    own: Vec<u8>,
    /// Accesses that the hierarchy answers.
    accesses: Accesses<T>,
}

impl<T> Vmd<T> {
    /// Creates a VMD in its state after reset.
    ///
    /// # Errors
    /// If the layout is illegal.
    pub fn new(layout: Layout, payloads: PayloadPool) -> Result<Vmd<T>, LayoutError> {
        layout.check()?;
        let msix = MsixLayout { vectors: layout.vectors, table: (4, 0), pending: (4, PENDING_AT) };
        let space = Builder::type0(IDENTITY)
            .bar(0, Bar::memory64(layout.cfgbar_bytes()).prefetchable())
            .bar(2, Bar::memory64(layout.prefetchable_bytes).prefetchable())
            .bar(4, Bar::memory32(layout.memory_bytes))
            .capabilities_at(FIRST_CAPABILITY_DW)
            .msix(msix)
            .build()?;
        Ok(Vmd { layout, space, own: vec![0; OWN_BYTES as usize], accesses: Accesses::new(payloads) })
    }

    fn target(&self, region: usize, offset: u64) -> Target {
        let base = |bar: u8| self.space.bar(bar).map_or(0, |window| window.address);
        match region {
            CFGBAR => Target::Function(offset),
            MEMBAR1 => Target::Memory(base(2).wrapping_add(offset)),
            MEMBAR2 if offset >= OWN_BYTES => Target::Memory(base(4).wrapping_add(offset)),
            MEMBAR2 => Target::Own(offset as usize),
            _ => Target::Config(offset as usize),
        }
    }

    fn write_config(&mut self, at: usize, bytes: &[u8]) {
        for (n, byte) in (at..).zip(bytes) {
            let lane = n % 4;
            self.space.write((n / 4) as u16, 1 << lane, u32::from(*byte) << (8 * lane));
        }
    }
}

impl<T> VfioDevice<T> for Vmd<T> {
    fn shape(&self) -> Shape {
        let mut shape = vfio_device::shape();
        shape.regions[CFGBAR] = Region::of(self.layout.cfgbar_bytes());
        shape.regions[MEMBAR1] = Region::of(self.layout.prefetchable_bytes);
        shape.regions[MEMBAR2] = Region::of(self.layout.memory_bytes);
        shape.regions[region::CONFIG] = Region::of(CONFIG_BYTES);
        shape.irqs[Irq::Msix as usize] = self.layout.vectors.into();
        shape
    }

    fn has_room(&self) -> bool {
        self.accesses.has_room()
    }

    fn poll_request(&mut self) -> Option<HostOutput> {
        self.accesses.poll_request()
    }

    fn handle(&mut self, id: HostReadId, result: &Result<Data, HostError>) -> Option<Outcome<T>> {
        self.accesses.handle(id, result).map(Outcome::Answer)
    }

    fn read(&mut self, token: T, region: usize, offset: u64, len: u32) -> Option<Outcome<T>> {
        let answer = match self.target(region, offset) {
            Target::Function(at) => self.accesses.read_config(token, at, len),
            Target::Memory(address) => self.accesses.read_memory(token, address, len),
            Target::Own(at) => {
                let byte = |n: usize| self.own.get(n).copied().unwrap_or_default();
                Some(Answer::at_once(token, (at..at + len as usize).map(byte)))
            }
            Target::Config(at) => {
                let (space, bytes) = (&self.space, at..at + len as usize);
                Some(Answer::at_once(token, bytes.map(|n| config_byte(space, n))))
            }
        };
        answer.map(Outcome::Answer)
    }

    fn write(&mut self, token: T, region: usize, offset: u64, bytes: &[u8]) -> Option<Outcome<T>> {
        let answer = match self.target(region, offset) {
            Target::Function(at) => self.accesses.write_config(token, at, bytes, |_| true),
            Target::Memory(address) => self.accesses.write_memory(token, address, bytes),
            Target::Own(at) => {
                for (to, from) in self.own.iter_mut().skip(at).zip(bytes) {
                    *to = *from;
                }
                Some(Answer::at_once(token, []))
            }
            Target::Config(at) => {
                self.write_config(at, bytes);
                Some(Answer::at_once(token, []))
            }
        };
        answer.map(Outcome::Answer)
    }

    fn irqs(&mut self, _: IrqEvent) {}

    /// Returns the vector in a message's address. INTx has no vector, nor does a message to an address that the driver
    /// never assigns.
    fn interrupt(&mut self, interrupt: &HostInterrupt) -> Option<(Irq, u32)> {
        let HostInterrupt::Message { address, .. } = *interrupt else { return None };
        let vector = (address.checked_sub(MSI_ADDRESS)? >> VECTOR_SHIFT) as u16;
        (vector < self.layout.vectors).then_some((Irq::Msix, vector.into()))
    }

    fn reset(&mut self) {
        self.space.reset(ResetScope::Fundamental);
        self.own.fill(0);
    }

    fn leave(&mut self) {
        self.accesses.abandon();
        self.reset();
    }
}

fn config_byte(space: &ConfigSpace, at: usize) -> u8 {
    space.read((at / 4) as u16).to_le_bytes()[at % 4]
}

/// The target of an offset in a region.
enum Target {
    /// An offset in CFGBAR.
    Function(u64),
    /// An address in the domain.
    Memory(u64),
    /// The VMD's own part of BAR4.
    Own(usize),
    /// The VMD's configuration space.
    Config(usize),
}
