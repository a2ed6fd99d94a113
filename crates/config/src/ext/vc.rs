// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual Channel extended capability (`PCIe 5.0 §7.9.1`). Never moves a TLP from channel to channel.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0002h
//! +4   Port VC Capability 1: 11:10 Port Arbitration Table Entry Size, 6:4 Low Priority Extended VC Count,
//!      2:0 Extended VC Count
//! +8   Port VC Capability 2: 31:24 VC Arbitration Table Offset (16 B), 7:0 VC Arbitration Capability
//! +c   Port VC Status: 16 VC Arbitration Table Status;  Port VC Control: 3:1 VC Arbitration Select, 0 Load Table
//! +10 + 12 n  VC Resource Capability: 31:24 Port Arbitration Table Offset (16 B), 7:0 Port Arbitration Capability
//! +14 + 12 n  VC Resource Control: 31 VC Enable, 26:24 VC ID, 19:17 Port Arbitration Select, 16 Load Table,
//!             7:0 TC/VC Map
//! +18 + 12 n  VC Resource Status: 17 VC Negotiation Pending, 16 Port Arbitration Table Status
//! then the VC Arbitration Table, 32 phases of 4 bits, and for each VC a Port Arbitration Table, 32 phases of 8 bits
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0002;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of Port VC Capability 1.
pub const CAPABILITY_1: u16 = 1;
/// DW of Port VC Capability 2.
pub const CAPABILITY_2: u16 = 2;
/// DW of Port VC Control (15:0) and Port VC Status (31:16).
pub const CONTROL: u16 = 3;
/// DW of VC 0's Resource Capability; three DWs for each channel.
pub const RESOURCE: u16 = 4;

/// Phases of the arbitration tables.
pub const PHASES: u8 = 32;
/// DWs of the VC Arbitration Table, and of a Port Arbitration Table.
const VC_TABLE: u16 = 4;
const PORT_TABLE: u16 = 8;

/// Bits of a VC Resource Control and Status (`PCIe 5.0 Table 7-180, 7-181`).
pub mod resource {
    /// TC/VC Map.
    pub const TC_MAP: u32 = 0xff;
    /// Load Port Arbitration Table.
    pub const LOAD_TABLE: u32 = 1 << 16;
    /// Port Arbitration Select, a shift.
    pub const SELECT_SHIFT: u32 = 17;
    /// VC ID, a shift.
    pub const ID_SHIFT: u32 = 24;
    /// VC Enable.
    pub const ENABLE: u32 = 1 << 31;
    /// Port Arbitration Table Status.
    pub const TABLE_STATUS: u32 = 1 << 16;
    /// VC Negotiation Pending.
    pub const NEGOTIATION_PENDING: u32 = 1 << 17;
}

const NO_SOFTWARE: &str = "labs set channels up and say how they are shared; no register is asked";

const LOAD_TABLE: u32 = 1 << 0;
const TABLE_STATUS: u32 = 1 << 16;
const HARDWARE_FIXED: u32 = 1 << 0;
const WRR_32_PHASES: u32 = 1 << 1;

const fn load(bits: u32, name: &'static str) -> Field {
    Field { inert: Some(NO_SOFTWARE), ..Field::trigger(bits, name, "") }
}

const CONTROL_FIELDS: &[Field] = &[
    load(LOAD_TABLE, "Load VC Arbitration Table").tells(Effects::VIRTUAL_CHANNEL),
    Field::inert(0b111 << 1, "VC Arbitration Select", NO_SOFTWARE).tells(Effects::VIRTUAL_CHANNEL),
    Field::ro(TABLE_STATUS, "VC Arbitration Table Status"),
];
const RESOURCE_CAPABILITY_FIELDS: &[Field] =
    &[Field::ro(0xff, "Port Arbitration Capability"), Field::ro(0xff << 24, "Port Arbitration Table Offset")];
const RESOURCE_CONTROL_FIELDS: &[Field] = &[
    Field::inert(resource::TC_MAP, "TC/VC Map", NO_SOFTWARE).tells(Effects::VIRTUAL_CHANNEL),
    load(resource::LOAD_TABLE, "Load Port Arbitration Table").tells(Effects::VIRTUAL_CHANNEL),
    Field::inert(0b111 << resource::SELECT_SHIFT, "Port Arbitration Select", NO_SOFTWARE)
        .tells(Effects::VIRTUAL_CHANNEL),
    Field::inert(0b111 << resource::ID_SHIFT, "VC ID", NO_SOFTWARE).tells(Effects::VIRTUAL_CHANNEL),
    Field::inert(resource::ENABLE, "VC Enable", NO_SOFTWARE).tells(Effects::VIRTUAL_CHANNEL),
];
const RESOURCE_STATUS_FIELDS: &[Field] = &[
    Field::ro(resource::TABLE_STATUS, "Port Arbitration Table Status"),
    Field::ro(resource::NEGOTIATION_PENDING, "VC Negotiation Pending"),
];
const TABLE_FIELDS: &[Field] =
    &[Field::inert(!0, "Arbitration Table Phases", NO_SOFTWARE).tells(Effects::VIRTUAL_CHANNEL)];

/// The registers; those from VC Resource Capability on repeat for each channel.
pub const TABLE: Structure = Structure {
    name: "Virtual Channel",
    source: "PCIe 5.0 §7.9.1",
    words: &[
        HEADER,
        Word {
            dw: CAPABILITY_1,
            name: "Port VC Capability 1",
            fields: &[
                Field::ro(0b111, "Extended VC Count"),
                Field::ro(0b111 << 4, "Low Priority Extended VC Count"),
                Field::ro(0b11 << 10, "Port Arbitration Table Entry Size"),
            ],
        },
        Word {
            dw: CAPABILITY_2,
            name: "Port VC Capability 2",
            fields: &[
                Field::ro(0xff, "VC Arbitration Capability"),
                Field::ro(0xff << 24, "VC Arbitration Table Offset"),
            ],
        },
        Word { dw: CONTROL, name: "Port VC Control, Port VC Status", fields: CONTROL_FIELDS },
        Word { dw: RESOURCE, name: "VC Resource Capability", fields: RESOURCE_CAPABILITY_FIELDS },
        Word { dw: RESOURCE + 1, name: "VC Resource Control", fields: RESOURCE_CONTROL_FIELDS },
        Word { dw: RESOURCE + 2, name: "VC Resource Status", fields: RESOURCE_STATUS_FIELDS },
        Word { dw: RESOURCE + 4, name: "VC and Port Arbitration Tables", fields: TABLE_FIELDS },
    ],
};

/// Virtual channels as a port wants them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VcLayout {
    /// Channels, 1 to 8.
    pub vcs: u8,
    /// Of these how many, beside VC 0, are of the low-priority group; the others go before them, in strict order.
    pub low_priority: u8,
    /// Weighted round robin with 32 phases within the low-priority group, by a table.
    pub weighted: bool,
    /// Weighted round robin with 32 phases between ports, by a table for each channel.
    pub weighted_ports: bool,
}

impl Default for VcLayout {
    /// One channel.
    fn default() -> VcLayout {
        VcLayout { vcs: 1, low_priority: 0, weighted: false, weighted_ports: false }
    }
}

impl VcLayout {
    /// True where there are 1 to 8 channels, and no more of low priority than beside VC 0.
    #[must_use]
    pub const fn is_legal(&self) -> bool {
        self.vcs >= 1 && self.vcs <= 8 && self.low_priority < self.vcs
    }

    /// DW of the first table: behind the channels, on 16 B.
    const fn tables(&self) -> u16 {
        (RESOURCE + 3 * self.vcs as u16).next_multiple_of(4)
    }

    const fn vc_table(&self) -> Option<u16> {
        if self.weighted { Some(self.tables()) } else { None }
    }

    const fn port_table(&self, vc: u8) -> Option<u16> {
        let first = self.tables() + if self.weighted { VC_TABLE } else { 0 };
        if self.weighted_ports { Some(first + PORT_TABLE * vc as u16) } else { None }
    }

    fn len(&self) -> u16 {
        let after_vc = self.vc_table().map_or(self.tables(), |at| at + VC_TABLE);
        self.port_table(self.vcs).unwrap_or(after_vc)
    }

    /// The capability's registers.
    pub(crate) fn registers(&self) -> Vec<Register> {
        /// Port Arbitration Table Entry Size: 8 bits.
        const ENTRY_8_BITS: u32 = 0b11 << 10;
        let entries = if self.weighted_ports { ENTRY_8_BITS } else { 0 };
        let count = u32::from(self.vcs - 1) | u32::from(self.low_priority) << 4 | entries;
        let mut all = TABLE.registers(&[(CAPABILITY_1, count), (CAPABILITY_2, capability(self.vc_table()))]);
        all.truncate(usize::from(RESOURCE));
        for vc in 0..self.vcs {
            all.push(Register::of(RESOURCE_CAPABILITY_FIELDS, capability(self.port_table(vc))));
            all.push(resource_control(vc));
            all.push(Register::of(RESOURCE_STATUS_FIELDS, 0));
        }
        all.resize(usize::from(self.tables()), Register::default());
        all.resize(usize::from(self.len()), Register::of(TABLE_FIELDS, 0));
        all
    }

    /// Obeys a write: one to a table says so in the table's status, until the table is loaded.
    pub(crate) fn follow(&self, words: &mut [Register], written: u16, changed: u32) {
        if changed == 0 {
            return;
        }
        if written == CONTROL && changed & LOAD_TABLE != 0 {
            words[usize::from(CONTROL)].set(TABLE_STATUS, 0);
        }
        if self.vc_table().is_some_and(|at| (at..at + VC_TABLE).contains(&written)) {
            words[usize::from(CONTROL)].set(TABLE_STATUS, TABLE_STATUS);
        }
        for vc in 0..self.vcs {
            let control = RESOURCE + 3 * u16::from(vc) + 1;
            let status = &mut words[usize::from(control) + 1];
            if written == control && changed & resource::LOAD_TABLE != 0 {
                status.set(resource::TABLE_STATUS, 0);
            }
            if self.port_table(vc).is_some_and(|at| (at..at + PORT_TABLE).contains(&written)) {
                status.set(resource::TABLE_STATUS, !0);
            }
        }
    }

    /// What channel `vc`'s registers say.
    pub(crate) fn state(&self, vc: u8, read: impl Fn(u16) -> u32) -> Option<VcState> {
        if vc >= self.vcs {
            return None;
        }
        let at = RESOURCE + 3 * u16::from(vc);
        let control = read(at + 1);
        Some(VcState {
            enabled: control & resource::ENABLE != 0,
            id: (control >> resource::ID_SHIFT & 0b111) as u8,
            tc_map: (control & resource::TC_MAP) as u8,
            port_arbitration: arbitration(control >> resource::SELECT_SHIFT, self.weighted_ports),
            negotiation_pending: read(at + 2) & resource::NEGOTIATION_PENDING != 0,
        })
    }

    /// What Port VC Control selects.
    pub(crate) fn arbitration(&self, control: u32) -> Arbitration {
        arbitration(control >> 1, self.weighted)
    }

    /// DW of channel `vc`'s status.
    pub(crate) fn status_of(&self, vc: u8) -> Option<u16> {
        (vc < self.vcs).then(|| RESOURCE + 3 * u16::from(vc) + 2)
    }

    /// The channel that has this phase of the VC Arbitration Table.
    pub(crate) fn vc_phase(&self, phase: u8, read: impl Fn(u16) -> u32) -> Option<u8> {
        let at = self.vc_table().filter(|_| phase < PHASES)?;
        Some((read(at + u16::from(phase / 8)) >> (phase % 8 * 4) & 0b111) as u8)
    }

    /// The port that has this phase of channel `vc`'s Port Arbitration Table.
    pub(crate) fn port_phase(&self, vc: u8, phase: u8, read: impl Fn(u16) -> u32) -> Option<u8> {
        let at = self.port_table(vc).filter(|_| vc < self.vcs && phase < PHASES)?;
        Some((read(at + u16::from(phase / 4)) >> (phase % 4 * 8)) as u8)
    }
}

/// Arbitration Capability, with the offset of the table where there is one.
fn capability(table: Option<u16>) -> u32 {
    let offset = table.map_or(0, |at| WRR_32_PHASES | u32::from(at / 4) << 24);
    HARDWARE_FIXED | offset
}

/// VC 0 is enabled with all Traffic Classes, and TC 0 is its own; the others begin without any.
fn resource_control(vc: u8) -> Register {
    const TC0: u32 = 1;
    match vc {
        0 => Register::of(RESOURCE_CONTROL_FIELDS, resource::TC_MAP | resource::ENABLE)
            .fix(TC0 | resource::ENABLE | 0b111 << resource::ID_SHIFT),
        _ => Register::of(RESOURCE_CONTROL_FIELDS, 0).without(TC0),
    }
}

fn arbitration(select: u32, offered: bool) -> Arbitration {
    if offered && select & 0b111 == 1 { Arbitration::Weighted } else { Arbitration::Fixed }
}

/// How channels, or ports, share what is behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arbitration {
    /// Hardware fixed: round robin. Every select that is not offered means this.
    #[default]
    Fixed,
    /// Weighted round robin with 32 phases, by the table.
    Weighted,
}

/// A channel as software has set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VcState {
    /// VC Enable.
    pub enabled: bool,
    /// VC ID on the link.
    pub id: u8,
    /// Traffic Classes, a bit each.
    pub tc_map: u8,
    /// How ports share the channel.
    pub port_arbitration: Arbitration,
    /// VC Negotiation Pending: flow control is not initialized.
    pub negotiation_pending: bool,
}
