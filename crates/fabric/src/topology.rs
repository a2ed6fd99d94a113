// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The topology: which parts are joined, and where addresses lead.
//!
//! A link has two ports; each port has an owner. The owner at the root side is a root port of the root complex or a
//! downstream port of a switch. The owner at the device side is a slot or the upstream port of a switch.

use link::PortConfig;
use std::fmt;
use tlp::{Bdf, Duration, Rate, Rcb, Time, Width};

/// A link. Link `n` leads to slot `n`; after the links of all slots come the links of the switches, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u32);

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// Towards the root complex.
    Root,
    /// Towards the device.
    Device,
}

impl Side {
    /// Name of the side: `root` or `device`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Side::Root => "root",
            Side::Device => "device",
        }
    }
}

/// A port: one end of one link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PortId(u32);

impl PortId {
    /// The port at `side` of `link`.
    pub const fn new(link: LinkId, side: Side) -> PortId {
        PortId(link.0 * 2 + side as u32)
    }

    /// The link of this port.
    #[must_use]
    pub const fn link(self) -> LinkId {
        LinkId(self.0 / 2)
    }

    /// The side of the link.
    #[must_use]
    pub const fn side(self) -> Side {
        if self.0.is_multiple_of(2) { Side::Root } else { Side::Device }
    }

    /// The port at the other end.
    #[must_use]
    pub const fn peer(self) -> PortId {
        PortId(self.0 ^ 1)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host, by its place in [`FabricConfig::hosts`](crate::FabricConfig::hosts).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub u32);

impl HostId {
    /// The first host.
    pub const FIRST: HostId = HostId(0);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host and another number, such as a root port's, in one word. With two words, events would not fit in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfHost(u32);

impl OfHost {
    /// Bits of the number, which bounds the outstanding jobs.
    const BITS: u32 = 26;
    /// Maximum number of hosts.
    pub(crate) const HOSTS: usize = 1 << (u32::BITS - OfHost::BITS);

    pub(crate) const fn new(host: HostId, number: u32) -> OfHost {
        OfHost(host.0 << OfHost::BITS | number)
    }

    pub(crate) const fn host(self) -> HostId {
        HostId(self.0 >> OfHost::BITS)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0 & ((1 << OfHost::BITS) - 1)
    }
}

/// The owner of a port: it takes arriving TLPs, and supplies TLPs to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A root port of a host.
    Root(HostId, u32),
    /// The device in this slot.
    Slot(u32),
    /// A port of this switch; port 0 is the upstream port.
    Switch {
        /// Index of the switch.
        switch: u32,
        /// Number of its port.
        port: u32,
    },
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} ({} side)", self.link().0, self.side().name())
    }
}

/// A link: its two ports, time of flight and errors.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The port towards the root complex.
    pub root: PortConfig,
    /// The port towards the device.
    pub device: PortConfig,
    /// Time of flight of a symbol, one way, over board and connector.
    pub propagation: Duration,
    /// Read Completion Boundary of the root port; `None`: as in the host profile.
    pub rcb: Option<Rcb>,
    /// Probability that a bit arrives flipped, as a multiple of 2^-64. Zero is a perfect link.
    pub bit_error_rate: u64,
}

/// A scheduled change of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkEvent {
    /// When the change begins.
    pub at: Time,
    /// The link that changes.
    pub link: LinkId,
    /// The kind of change.
    pub change: LinkChange,
}

/// Kinds of changes of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkChange {
    /// The link retrains, and comes back with another rate or width.
    Speed {
        /// Rate after the change.
        rate: Rate,
        /// Width after the change.
        width: Width,
    },
    /// The link is cut, unexpectedly for both ends.
    Cut,
    /// A cut link is restored.
    Restore,
    /// The device at the far end is pulled out of its slot while it runs.
    Remove,
    /// The device is put back, in its state after power-on.
    Insert,
    /// A user presses the attention button of the slot.
    PressAttention,
}

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First address.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Window {
    /// Returns whether all `len` bytes from `address` on lie inside.
    pub const fn contains(&self, address: u64, len: u64) -> bool {
        address >= self.base && len <= self.size && address - self.base <= self.size - len
    }

    /// True if the two ranges share an address.
    pub const fn overlaps(&self, other: &Window) -> bool {
        self.base < other.base.saturating_add(other.size) && other.base < self.base.saturating_add(self.size)
    }
}

/// The addresses of message-signalled interrupts on x86 hosts (Intel SDM volume 3, §11.11.1).
pub const MSI_WINDOW: Window = Window { base: 0xfee0_0000, size: 0x10_0000 };

/// The addresses of each root port.
///
/// The map of bare root ports is fixed: bus `n + 1` and the windows of index `n` lie below root port `n`. For a root
/// port with a configuration space ([`RootPortConfig::space`](crate::RootPortConfig::space)), its registers determine
/// the addresses below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressMap;

impl AddressMap {
    /// Maximum number of root ports for which the map has windows.
    pub const MAX_ROOT_PORTS: usize = 8;
    /// End of low host memory, and start of the 32-bit windows.
    pub const MMIO32_BASE: u64 = 0x8000_0000;
    /// Distance from one 32-bit window to the next, which is also the size of each window but the last: 256 MiB.
    pub const MMIO32_SIZE: u64 = 0x1000_0000;
    /// Bytes of the 32-bit window of the last root port: the addresses of interrupts and firmware follow it.
    pub const MMIO32_LAST_SIZE: u64 = 0x0800_0000;
    /// Start of the I/O windows, after the fixed addresses of x86 boards: 4 KiB.
    pub const IO_BASE: u32 = 0x1000;
    /// Bytes of I/O window per root port, the least that a bridge can forward: 4 KiB.
    pub const IO_SIZE: u32 = 0x1000;
    /// Start of the 64-bit windows, beyond all host memory: 256 GiB.
    pub const MMIO64_BASE: u64 = 0x40_0000_0000;
    /// Bytes of 64-bit window per root port: 32 GiB.
    pub const MMIO64_SIZE: u64 = 0x8_0000_0000;

    /// Returns the bus below root port `port`.
    #[must_use]
    pub const fn bus(self, port: usize) -> u8 {
        port as u8 + 1
    }

    /// Returns the function at device 0 below root port `port`.
    #[must_use]
    pub const fn function(self, port: usize, function: u8) -> Bdf {
        Bdf::from_bits((self.bus(port) as u16) << 8 | (function & 7) as u16)
    }

    /// The 32-bit window of root port `port`.
    #[must_use]
    pub const fn mmio32(self, port: usize) -> Window {
        let last = port + 1 == Self::MAX_ROOT_PORTS;
        let size = if last { Self::MMIO32_LAST_SIZE } else { Self::MMIO32_SIZE };
        Window { base: Self::MMIO32_BASE + port as u64 * Self::MMIO32_SIZE, size }
    }

    /// The I/O window of root port `port`.
    #[must_use]
    pub const fn io(self, port: usize) -> Window {
        let base = Self::IO_BASE as u64 + port as u64 * Self::IO_SIZE as u64;
        Window { base, size: Self::IO_SIZE as u64 }
    }

    /// Returns the root port, of `ports`, whose I/O window holds `address`.
    #[must_use]
    pub const fn port_of_io(self, address: u32, ports: usize) -> Option<usize> {
        if address < Self::IO_BASE {
            return None;
        }
        let port = ((address - Self::IO_BASE) / Self::IO_SIZE) as usize;
        if port < ports { Some(port) } else { None }
    }

    /// The 64-bit window of root port `port`.
    #[must_use]
    pub const fn mmio64(self, port: usize) -> Window {
        Window { base: Self::MMIO64_BASE + port as u64 * Self::MMIO64_SIZE, size: Self::MMIO64_SIZE }
    }

    /// Returns the root port, of `ports`, whose windows hold `address`.
    #[must_use]
    pub const fn port_of_address(self, address: u64, ports: usize) -> Option<usize> {
        let port = if address >= Self::MMIO64_BASE {
            (address - Self::MMIO64_BASE) / Self::MMIO64_SIZE
        } else if address >= Self::MMIO32_BASE && address <= u32::MAX as u64 {
            (address - Self::MMIO32_BASE) / Self::MMIO32_SIZE
        } else {
            return None;
        };
        let last_end = self.mmio32(Self::MAX_ROOT_PORTS - 1);
        let beyond = address >= last_end.base + last_end.size && address < Self::MMIO64_BASE;
        if port < ports as u64 && !beyond { Some(port as usize) } else { None }
    }

    /// Returns the root port, of `ports`, that leads to `bus`.
    #[must_use]
    pub const fn port_of_bus(self, bus: u8, ports: usize) -> Option<usize> {
        if bus >= 1 && bus as usize <= ports { Some(bus as usize - 1) } else { None }
    }
}
