// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual Channel extended capability (`PCIe 5.0 §7.9.1`). This module has only the registers. The owner of the function
//! applies them to its link.

use crate::register::{Register, get, put, structure, those};

const FIXED_PORTS: &str =
    "the lab sets the arbitration between ports; functions offer only the hardware-fixed one";

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
        0   trigger LOAD_TABLE "Load VC Arbitration Table",
            "the phases of the table take effect" => VIRTUAL_CHANNEL;
        3:1 rw.kept_by_flr SELECT "VC Arbitration Select",
            "the low-priority channels share the wire round robin, or by the table" => VIRTUAL_CHANNEL;
        16  ro.kept_by_flr TABLE_STATUS "VC Arbitration Table Status";
    }
    // These three registers repeat for each further channel. Then follow the VC Arbitration Table, phases of 4 bits, and
    // a Port Arbitration Table for each channel, 32 phases of 8 bits.
    0x10 RESOURCE in resource_capability "VC Resource Capability" {
        7:0   ro ARBITRATION "Port Arbitration Capability";
        31:24 ro TABLE_OFFSET "Port Arbitration Table Offset";
    }
    0x14 RESOURCE_CONTROL in resource "VC Resource Control" {
        0     ro.kept_by_flr TC0 "TC/VC Map, TC0";
        7:1   rw.kept_by_flr TC_MAP "TC/VC Map", "Traffic Classes of the channel" => VIRTUAL_CHANNEL;
        16    trigger.inert LOAD_TABLE "Load Port Arbitration Table", FIXED_PORTS;
        19:17 rw.inert.kept_by_flr SELECT "Port Arbitration Select", FIXED_PORTS;
        26:24 rw.kept_by_flr ID "VC ID", "number of the channel on the link; RO in VC0" => VIRTUAL_CHANNEL;
        31    rw.kept_by_flr ENABLE "VC Enable",
            "starts flow-control initialization of the channel, or takes its credits away; RO in VC0" => VIRTUAL_CHANNEL;
    }
    0x18 RESOURCE_STATUS in resource_status "VC Resource Status" {
        16 ro.kept_by_flr TABLE_STATUS "Port Arbitration Table Status";
        17 ro.kept_by_flr NEGOTIATION_PENDING "VC Negotiation Pending";
    }
    0x20 TABLES in tables "VC and Port Arbitration Tables" {
        31:0 rw.kept_by_flr PHASES "Arbitration Table Phases", "channel of each phase, from the next load of the table on";
    }
}

/// Fields of VC Resource Control that are read-only in VC0 (`PCIe 5.0 §7.9.1.7`).
pub const FIXED_IN_VC0: u32 = resource::ID | resource::ENABLE;

/// Number of phases of a Port Arbitration Table.
const PORT_PHASES: u8 = 32;
/// Largest number of phases of a VC Arbitration Table.
pub const MAX_PHASES: usize = 128;
/// DWs of a Port Arbitration Table.
const PORT_TABLE: u16 = 8;

/// Hardware-fixed arbitration, which every port has. Bits of both arbitration capabilities, whose numbers are the
/// values of both Selects.
const HARDWARE_FIXED: u32 = 1 << 0;

/// Bit of weighted round robin by a table with this number of phases.
const fn weighted(phases: u8) -> u32 {
    match phases {
        32 => 1,
        64 => 2,
        _ => 3,
    }
}

/// Reset value of a VC resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VcSetting {
    /// VC Enable.
    pub enabled: bool,
    /// VC ID, 0 to 7.
    pub id: u8,
    /// TC/VC Map, one bit for each Traffic Class.
    pub tc_map: u8,
}

/// Declaration of a port's virtual channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VcLayout {
    /// Number of channels, 1 to 8.
    pub vcs: u8,
    /// Number of channels, without VC 0, in the low-priority group. The other channels have strict priority over this
    /// group.
    pub low_priority: u8,
    /// Number of phases of the table for weighted round robin within the low-priority group: 32, 64 or 128; 0 without a
    /// table.
    pub phases: u8,
    /// Weighted round robin between ports, by a table with 32 phases for each channel.
    pub weighted_ports: bool,
    /// Settings of the resources after reset. VC0 is always enabled, and TC0 is always on it.
    pub reset: [VcSetting; 8],
    /// VC IDs of the phases after reset, which are then loaded and selected; `None`: hardware-fixed arbitration.
    pub table: Option<[u8; MAX_PHASES]>,
}

impl Default for VcLayout {
    /// One channel; further ones have no Traffic Class and are disabled.
    fn default() -> VcLayout {
        let mut reset = [VcSetting::default(); 8];
        reset[0] = VcSetting { enabled: true, id: 0, tc_map: 0xff };
        VcLayout { vcs: 1, low_priority: 0, phases: 0, weighted_ports: false, reset, table: None }
    }
}

impl VcLayout {
    pub(crate) const LEGAL: &str = "invalid virtual channels, expected 1 to 8, a lower number of low-priority channels, \
                                    and a table of 32, 64 or 128 phases or none";

    /// True if there are 1 to 8 channels, the low-priority group is smaller than that, and the table has a legal number
    /// of phases.
    pub const fn is_legal(&self) -> bool {
        let has_channels = self.vcs >= 1 && self.vcs <= 8 && self.low_priority < self.vcs;
        has_channels && matches!(self.phases, 0 | 32 | 64 | 128)
    }

    /// DW of the first table: after the channels, aligned to 16 B.
    const fn tables(&self) -> u16 {
        (RESOURCE + 3 * self.vcs as u16).next_multiple_of(4)
    }

    const fn vc_table(&self) -> Option<u16> {
        if self.phases != 0 { Some(self.tables()) } else { None }
    }

    /// DWs of the VC Arbitration Table.
    const fn vc_table_len(&self) -> u16 {
        self.phases as u16 / 8
    }

    const fn port_table(&self, vc: u8) -> Option<u16> {
        let first = self.tables() + self.vc_table_len();
        if self.weighted_ports { Some(first + PORT_TABLE * vc as u16) } else { None }
    }

    fn len(&self) -> u16 {
        self.port_table(self.vcs).unwrap_or(self.tables() + self.vc_table_len())
    }

    /// The capability's registers.
    pub(crate) fn registers(&self) -> Vec<Register> {
        use capability_1::{EXTENDED_VCS, LOW_PRIORITY_VCS, TABLE_ENTRY_SIZE};
        let of_8_bits = those([(self.weighted_ports, put(TABLE_ENTRY_SIZE, 0b11))]);
        let low = put(LOW_PRIORITY_VCS, self.low_priority.into());
        let count = put(EXTENDED_VCS, u32::from(self.vcs - 1)) | low | of_8_bits;
        let arbitration = capability(self.vc_table(), self.phases);
        let selected = put(control::SELECT, if self.table.is_some() { weighted(self.phases) } else { 0 });
        let values = [(CAPABILITY_1, count), (CAPABILITY_2, arbitration), (CONTROL, selected)];
        let mut all = TABLE.registers(&values);
        all.truncate(usize::from(RESOURCE));
        for vc in 0..self.vcs {
            all.push(TABLE.register(RESOURCE, capability(self.port_table(vc), PORT_PHASES)));
            all.push(resource_control(vc, self.reset[usize::from(vc)]));
            all.push(TABLE.register(RESOURCE_STATUS, 0));
        }
        all.resize(usize::from(self.tables()), Register::default());
        all.extend((0..self.vc_table_len()).map(|dw| TABLE.register(TABLES, self.phases_of(dw))));
        all.resize(usize::from(self.len()), TABLE.register(TABLES, 0));
        all
    }

    /// Reset value of a DW of the VC Arbitration Table, 8 phases.
    fn phases_of(&self, dw: u16) -> u32 {
        let Some(table) = &self.table else { return 0 };
        let phases = &table[usize::from(dw) * 8..][..8];
        phases.iter().rev().fold(0, |word, id| word << 4 | u32::from(id & 0b111))
    }

    /// Handles a write. A write to a table sets the table's status until the table is loaded.
    pub(crate) fn follow(&self, words: &mut [Register], written: u16, changed: u32) {
        if changed == 0 {
            return;
        }
        if written == CONTROL && changed & control::LOAD_TABLE != 0 {
            words[usize::from(CONTROL)].set(control::TABLE_STATUS, 0);
        }
        if self.vc_table().is_some_and(|at| (at..at + self.vc_table_len()).contains(&written)) {
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
            tc_map: (control & (resource::TC0 | resource::TC_MAP)) as u8,
            port_arbitration: arbitration(
                get(control, resource::SELECT),
                if self.weighted_ports { PORT_PHASES } else { 0 },
            ),
            negotiation_pending: read(at + 2) & resource_status::NEGOTIATION_PENDING != 0,
        })
    }

    /// Arbitration that Port VC Control selects.
    pub(crate) fn arbitration(&self, control: u32) -> Arbitration {
        arbitration(get(control, control::SELECT), self.phases)
    }

    /// The VC IDs in the phases of the VC Arbitration Table.
    pub(crate) fn vc_phases(&self, read: impl Fn(u16) -> u32) -> Vec<u8> {
        let Some(at) = self.vc_table() else { return Vec::new() };
        let phase = |n: u8| (read(at + u16::from(n / 8)) >> (n % 8 * 4) & 0b111) as u8;
        (0..self.phases).map(phase).collect()
    }

    /// The port in this phase of channel `vc`'s Port Arbitration Table.
    pub(crate) fn port_phase(&self, vc: u8, phase: u8, read: impl Fn(u16) -> u32) -> Option<u8> {
        let at = self.port_table(vc).filter(|_| vc < self.vcs && phase < PORT_PHASES)?;
        Some((read(at + u16::from(phase / 4)) >> (phase % 4 * 8)) as u8)
    }
}

/// Arbitration Capability. With a table, it has weighted round robin with this number of phases, and the table's offset.
fn capability(table: Option<u16>, phases: u8) -> u32 {
    let offset = |at| 1 << weighted(phases) | put(capability_2::TABLE_OFFSET, u32::from(at / 4));
    HARDWARE_FIXED | table.map_or(0, offset)
}

/// VC Resource Control. VC 0 is always enabled, and TC 0 is fixed to it.
fn resource_control(vc: u8, reset: VcSetting) -> Register {
    let map = u32::from(reset.tc_map) & resource::TC_MAP;
    let id = put(resource::ID, reset.id.into());
    let enable = if reset.enabled { resource::ENABLE } else { 0 };
    match vc {
        0 => TABLE.register(RESOURCE_CONTROL, map | resource::TC0 | resource::ENABLE).fix(FIXED_IN_VC0),
        _ => TABLE.register(RESOURCE_CONTROL, map | id | enable),
    }
}

/// The arbitration that `select` names; `phases` of the table, 0 without one.
fn arbitration(select: u32, phases: u8) -> Arbitration {
    if phases != 0 && select == weighted(phases) { Arbitration::Weighted } else { Arbitration::Fixed }
}

/// Arbitration between channels or between ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arbitration {
    /// Hardware fixed: round robin. Also used if software selects an unsupported arbitration.
    #[default]
    Fixed,
    /// Weighted round robin by the table.
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
