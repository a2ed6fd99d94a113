// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding rules of a bridge (type 1 header, `PCIe 5.0 §7.5.1.3`): its bus numbers and windows, as software has set
//! them. This module only decides; the caller forwards.

use crate::header::{bridge_control, command};

/// Width of a bridge's I/O window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoWindow {
    /// Absent: I/O Base and Limit are read-only zero.
    None,
    /// Within the first 64 KiB.
    Bits16,
    /// Anywhere in 4 GiB.
    Bits32,
}

/// Width of a bridge's prefetchable window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefetchableWindow {
    /// Absent: its registers are read-only zero.
    None,
    /// Below 4 GiB.
    Bits32,
    /// At any 64-bit address.
    Bits64,
}

/// The optional windows of a bridge. Every bridge also has bus numbers and the memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BridgeLayout {
    /// The I/O window.
    pub io: IoWindow,
    /// The prefetchable memory window.
    pub prefetchable: PrefetchableWindow,
}

impl Default for BridgeLayout {
    /// 32-bit I/O and 64-bit prefetchable memory.
    fn default() -> BridgeLayout {
        BridgeLayout { io: IoWindow::Bits32, prefetchable: PrefetchableWindow::Bits64 }
    }
}

/// A window: its first and its last address.
pub type Window = (u64, u64);

/// Forwarding rules of a bridge, read from its registers. Windows are byte addresses, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BridgeWindows {
    /// Primary Bus Number.
    pub primary: u8,
    /// Secondary Bus Number.
    pub secondary: u8,
    /// Subordinate Bus Number.
    pub subordinate: u8,
    /// The I/O window; `None` if it is closed (base above limit) or absent.
    pub io: Option<Window>,
    /// The memory window; `None` if it is closed.
    pub memory: Option<Window>,
    /// The prefetchable memory window; `None` if it is closed or absent.
    pub prefetchable: Option<Window>,
    /// I/O Space Enable of Command: forwards I/O downstream.
    pub io_enable: bool,
    /// Memory Space Enable of Command: forwards memory downstream.
    pub memory_enable: bool,
    /// Bus Master Enable of Command: forwards memory and I/O requests upstream.
    pub bus_master_enable: bool,
    /// Parity Error Response Enable of Bridge Control.
    pub parity_error_response: bool,
    /// SERR# Enable of Bridge Control: forwards error messages.
    pub serr_enable: bool,
    /// ISA Enable of Bridge Control.
    pub isa_enable: bool,
    /// VGA Enable of Bridge Control.
    pub vga_enable: bool,
    /// VGA 16-bit Decode of Bridge Control.
    pub vga_16_bit: bool,
    /// Secondary Bus Reset of Bridge Control.
    pub secondary_bus_reset: bool,
}

const VGA_MEMORY: Window = (0xa_0000, 0xb_ffff);
/// The I/O ports of VGA, within the first KiB (`PCI-to-PCI Bridge Architecture 1.2 §3.2.5.18`).
const VGA_PORTS: [Window; 2] = [(0x3b0, 0x3bb), (0x3c0, 0x3df)];

const fn within(window: Option<Window>, address: u64) -> bool {
    matches!(window, Some((first, last)) if first <= address && address <= last)
}

impl BridgeWindows {
    /// True if `bus` is below the bridge. A Secondary Bus Number of zero, its value after reset, claims no bus.
    pub const fn claims_bus(&self, bus: u8) -> bool {
        self.secondary != 0 && self.secondary <= bus && bus <= self.subordinate
    }

    /// True if the bridge forwards a memory request to `address` downstream: Memory Space Enable is set, and a window
    /// or VGA Enable claims the address.
    pub const fn claims_memory(&self, address: u64) -> bool {
        self.memory_enable && self.holds_memory(address)
    }

    /// True if `address` is in a memory window of the bridge (or claimed by VGA Enable), whether or not memory is
    /// enabled. A request from below to such an address is not forwarded upstream.
    pub const fn holds_memory(&self, address: u64) -> bool {
        within(self.memory, address)
            || within(self.prefetchable, address)
            || self.vga_enable && within(Some(VGA_MEMORY), address)
    }

    /// True if the bridge forwards an I/O request to `address` downstream: I/O Space Enable is set, and either the I/O
    /// window contains the address and ISA Enable does not exclude it, or VGA Enable claims it.
    pub const fn claims_io(&self, address: u64) -> bool {
        self.io_enable && self.holds_io(address)
    }

    /// True if the I/O `address` is below the bridge, whether or not I/O is enabled.
    pub const fn holds_io(&self, address: u64) -> bool {
        within(self.io, address) && !self.isa_leaves_out(address) || self.vga_claims(address)
    }

    /// True for the upper 768 bytes of each KiB below 64 KiB if ISA Enable is set (`PCIe 5.0 Table 7-12`).
    const fn isa_leaves_out(&self, address: u64) -> bool {
        self.isa_enable && address < 1 << 16 && address & 0x300 != 0
    }

    /// True if VGA Enable claims the port. Without 16-bit decode, address bits 15:10 are ignored.
    const fn vga_claims(&self, address: u64) -> bool {
        if !self.vga_enable || address >= 1 << 16 {
            return false;
        }
        let port = if self.vga_16_bit { address } else { address & 0x3ff };
        within(Some(VGA_PORTS[0]), port) || within(Some(VGA_PORTS[1]), port)
    }

    /// Reads the registers of a type 1 header.
    pub(crate) fn read(layout: BridgeLayout, word: impl Fn(u16) -> u32) -> BridgeWindows {
        use crate::header::{self, type1};
        let [primary, secondary, subordinate, _] = word(type1::BUS_NUMBERS).to_le_bytes();
        let command = word(header::COMMAND_STATUS);
        let control = word(header::INTERRUPT);
        BridgeWindows {
            primary,
            secondary,
            subordinate,
            io: io_window(layout.io, word(type1::IO_SECONDARY_STATUS), word(type1::IO_UPPER)),
            memory: memory_window(word(type1::MEMORY), 0, 0),
            prefetchable: match layout.prefetchable {
                PrefetchableWindow::None => None,
                _ => memory_window(
                    word(type1::PREFETCHABLE),
                    word(type1::PREFETCHABLE_BASE_UPPER),
                    word(type1::PREFETCHABLE_LIMIT_UPPER),
                ),
            },
            io_enable: command & command::IO_SPACE != 0,
            memory_enable: command & command::MEMORY_SPACE != 0,
            bus_master_enable: command & command::BUS_MASTER != 0,
            parity_error_response: control & bridge_control::PARITY_ERROR_RESPONSE != 0,
            serr_enable: control & bridge_control::SERR_ENABLE != 0,
            isa_enable: control & bridge_control::ISA_ENABLE != 0,
            vga_enable: control & bridge_control::VGA_ENABLE != 0,
            vga_16_bit: control & bridge_control::VGA_16_BIT != 0,
            secondary_bus_reset: control & bridge_control::SECONDARY_BUS_RESET != 0,
        }
    }
}

fn window(first: u64, last: u64) -> Option<Window> {
    (first <= last).then_some((first, last))
}

/// I/O window in granules of 4 KiB: bits 15:12 in each byte's upper half, bits 31:16 in the upper registers.
fn io_window(kind: IoWindow, low: u32, upper: u32) -> Option<Window> {
    let base = u64::from(low & 0xf0) << 8 | u64::from(upper & 0xffff) << 16;
    let limit = u64::from(low & 0xf000) | 0xfff | u64::from(upper >> 16) << 16;
    if kind == IoWindow::None { None } else { window(base, limit) }
}

/// Memory window in granules of 1 MiB: bits 31:20 in each half's upper 12 bits, bits 63:32 in the upper registers.
fn memory_window(low: u32, base_upper: u32, limit_upper: u32) -> Option<Window> {
    let base = u64::from(low & 0xfff0) << 16 | u64::from(base_upper) << 32;
    let limit = u64::from(low & 0xfff0_0000) | 0xf_ffff | u64::from(limit_upper) << 32;
    window(base, limit)
}
