// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual Channel extended capability (`PCIe 5.0 §7.9.1`). This module has only the registers, and does not implement
//! channels.

use crate::register::{Register, get, put, structure, those};

const NO_SOFTWARE: &str = "labs set up and share channels, independently of these registers";

structure! {
    extended 0x0002, 1, "Virtual Channel", "PCIe 5.0 §7.9.1";

    0x04 CAPABILITY_1 in capability_1 "Port VC Capability 1" {
        2:0   ro EXTENDED_VCS "Extended VC Count";
        6:4   ro LOW_PRIORITY_VCS "Low Priority Extended VC Count";
        11:10 ro TABLE_ENTRY_SIZE "Port Arbitration Table Entry Size";
    }
    0x08 CAPABILITY_2 in capability_2 "Port VC Capability 2" {
        7:0   ro ARBITRATION "VC Arbitration Capability";
        31:24 ro TABLE_OFFSET "VC Arbitration Table Offset";
    }
    0x0c CONTROL in control "Port VC Control, Port VC Status" {
        0   trigger.inert LOAD_TABLE "Load VC Arbitration Table", NO_SOFTWARE => VIRTUAL_CHANNEL;
        3:1 rw.inert      SELECT "VC Arbitration Select", NO_SOFTWARE => VIRTUAL_CHANNEL;
        16  ro            TABLE_STATUS "VC Arbitration Table Status";
    }
    // These three registers repeat for each further channel. Then follow the VC Arbitration Table, 32 phases of 4
    // bits, and a Port Arbitration Table for each channel, 32 phases of 8 bits.
    0x10 RESOURCE in resource_capability "VC Resource Capability" {
        7:0   ro ARBITRATION "Port Arbitration Capability";
        31:24 ro TABLE_OFFSET "Port Arbitration Table Offset";
    }
    0x14 RESOURCE_CONTROL in resource "VC Resource Control" {
        7:0   rw.inert      TC_MAP "TC/VC Map", NO_SOFTWARE => VIRTUAL_CHANNEL;
        16    trigger.inert LOAD_TABLE "Load Port Arbitration Table", NO_SOFTWARE => VIRTUAL_CHANNEL;
        19:17 rw.inert      SELECT "Port Arbitration Select", NO_SOFTWARE => VIRTUAL_CHANNEL;
        26:24 rw.inert      ID "VC ID", NO_SOFTWARE => VIRTUAL_CHANNEL;
        31    rw.inert      ENABLE "VC Enable", NO_SOFTWARE => VIRTUAL_CHANNEL;
    }
    0x18 RESOURCE_STATUS in resource_status "VC Resource Status" {
        16 ro TABLE_STATUS "Port Arbitration Table Status";
        17 ro NEGOTIATION_PENDING "VC Negotiation Pending";
    }
    0x20 TABLES in tables "VC and Port Arbitration Tables" {
        31:0 rw.inert PHASES "Arbitration Table Phases", NO_SOFTWARE => VIRTUAL_CHANNEL;
    }
}

/// Number of phases of the arbitration tables.
pub const PHASES: u8 = 32;
/// DWs of the VC Arbitration Table, and of a Port Arbitration Table.
const VC_TABLE: u16 = 4;
const PORT_TABLE: u16 = 8;

/// Bits of both arbitration capabilities: hardware-fixed arbitration, which every port has, and weighted round
/// robin by a table.
const HARDWARE_FIXED: u32 = 1 << 0;
const WRR_32_PHASES: u32 = 1 << 1;

/// Declaration of a port's virtual channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VcLayout {
    /// Number of channels, 1 to 8.
    pub vcs: u8,
    /// Number of channels, without VC 0, in the low-priority group. The other channels have strict priority over this
    /// group.
    pub low_priority: u8,
    /// Weighted round robin by a table with 32 phases, within the low-priority group.
    pub weighted: bool,
    /// Weighted round robin between ports, by a table with 32 phases for each channel.
    pub weighted_ports: bool,
}

impl Default for VcLayout {
    /// One channel.
    fn default() -> VcLayout {
        VcLayout { vcs: 1, low_priority: 0, weighted: false, weighted_ports: false }
    }
}

impl VcLayout {
    /// True if there are 1 to 8 channels, and the low-priority group is smaller than that.
    pub const fn is_legal(&self) -> bool {
        self.vcs >= 1 && self.vcs <= 8 && self.low_priority < self.vcs
    }

    /// DW of the first table: after the channels, aligned to 16 B.
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
        use capability_1::{EXTENDED_VCS, LOW_PRIORITY_VCS, TABLE_ENTRY_SIZE};
        let of_8_bits = those([(self.weighted_ports, put(TABLE_ENTRY_SIZE, 0b11))]);
        let low = put(LOW_PRIORITY_VCS, self.low_priority.into());
        let count = put(EXTENDED_VCS, u32::from(self.vcs - 1)) | low | of_8_bits;
        let mut all = TABLE.registers(&[(CAPABILITY_1, count), (CAPABILITY_2, capability(self.vc_table()))]);
        all.truncate(usize::from(RESOURCE));
        for vc in 0..self.vcs {
            all.push(TABLE.register(RESOURCE, capability(self.port_table(vc))));
            all.push(resource_control(vc));
            all.push(TABLE.register(RESOURCE_STATUS, 0));
        }
        all.resize(usize::from(self.tables()), Register::default());
        all.resize(usize::from(self.len()), TABLE.register(TABLES, 0));
        all
    }

    /// Handles a write. A write to a table sets the table's status until the table is loaded.
    pub(crate) fn follow(&self, words: &mut [Register], written: u16, changed: u32) {
        if changed == 0 {
            return;
        }
        if written == CONTROL && changed & control::LOAD_TABLE != 0 {
            words[usize::from(CONTROL)].set(control::TABLE_STATUS, 0);
        }
        if self.vc_table().is_some_and(|at| (at..at + VC_TABLE).contains(&written)) {
            words[usize::from(CONTROL)].set(control::TABLE_STATUS, !0);
        }
        for vc in 0..self.vcs {
            let at = RESOURCE_CONTROL + 3 * u16::from(vc);
            let status = &mut words[usize::from(at) + 1];
            if written == at && changed & resource::LOAD_TABLE != 0 {
                status.set(resource_status::TABLE_STATUS, 0);
            }
            if self.port_table(vc).is_some_and(|at| (at..at + PORT_TABLE).contains(&written)) {
                status.set(resource_status::TABLE_STATUS, !0);
            }
        }
    }

    /// Decodes the registers of channel `vc`.
    pub(crate) fn state(&self, vc: u8, read: impl Fn(u16) -> u32) -> Option<VcState> {
        if vc >= self.vcs {
            return None;
        }
        let at = RESOURCE + 3 * u16::from(vc);
        let control = read(at + 1);
        Some(VcState {
            enabled: control & resource::ENABLE != 0,
            id: get(control, resource::ID) as u8,
            tc_map: (control & resource::TC_MAP) as u8,
            port_arbitration: arbitration(get(control, resource::SELECT), self.weighted_ports),
            negotiation_pending: read(at + 2) & resource_status::NEGOTIATION_PENDING != 0,
        })
    }

    /// Arbitration that Port VC Control selects.
    pub(crate) fn arbitration(&self, control: u32) -> Arbitration {
        arbitration(get(control, control::SELECT), self.weighted)
    }

    /// DW of channel `vc`'s status.
    pub(crate) fn status_of(&self, vc: u8) -> Option<u16> {
        (vc < self.vcs).then(|| RESOURCE_STATUS + 3 * u16::from(vc))
    }

    /// The channel in this phase of the VC Arbitration Table.
    pub(crate) fn vc_phase(&self, phase: u8, read: impl Fn(u16) -> u32) -> Option<u8> {
        let at = self.vc_table().filter(|_| phase < PHASES)?;
        Some((read(at + u16::from(phase / 8)) >> (phase % 8 * 4) & 0b111) as u8)
    }

    /// The port in this phase of channel `vc`'s Port Arbitration Table.
    pub(crate) fn port_phase(&self, vc: u8, phase: u8, read: impl Fn(u16) -> u32) -> Option<u8> {
        let at = self.port_table(vc).filter(|_| vc < self.vcs && phase < PHASES)?;
        Some((read(at + u16::from(phase / 4)) >> (phase % 4 * 8)) as u8)
    }
}

/// Arbitration Capability, with the offset of the table if there is one.
fn capability(table: Option<u16>) -> u32 {
    let offset = table.map_or(0, |at| WRR_32_PHASES | put(capability_2::TABLE_OFFSET, u32::from(at / 4)));
    HARDWARE_FIXED | offset
}

/// After reset, VC 0 is enabled with all Traffic Classes, and TC 0 is fixed to it. The other channels have no
/// Traffic Class.
fn resource_control(vc: u8) -> Register {
    const TC0: u32 = 1;
    match vc {
        0 => TABLE
            .register(RESOURCE_CONTROL, resource::TC_MAP | resource::ENABLE)
            .fix(TC0 | resource::ENABLE | resource::ID),
        _ => TABLE.register(RESOURCE_CONTROL, 0).without(TC0),
    }
}

fn arbitration(select: u32, offered: bool) -> Arbitration {
    if offered && select == 1 { Arbitration::Weighted } else { Arbitration::Fixed }
}

/// Arbitration between channels or between ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arbitration {
    /// Hardware fixed: round robin. Also used if software selects an unsupported arbitration.
    #[default]
    Fixed,
    /// Weighted round robin by the table, 32 phases.
    Weighted,
}

/// State of a channel, as set by software.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VcState {
    /// VC Enable.
    pub enabled: bool,
    /// VC ID on the link.
    pub id: u8,
    /// Traffic Classes, one bit each.
    pub tc_map: u8,
    /// Arbitration between ports for this channel.
    pub port_arbitration: Arbitration,
    /// VC Negotiation Pending: flow control is not yet initialized.
    pub negotiation_pending: bool,
}
