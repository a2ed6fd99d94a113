// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of functions: their software-writable fields, and which of these have no effect. Used by the reference page
//! and by tests, not by a running fabric.

use crate::cap::{capability, msi, pcie};
use crate::ext::{acs, extended_capability};
use crate::header::{TYPE_0_HEADER, TYPE_1_HEADER, VIRTUAL_FUNCTION_HEADER};
use crate::register::{Field, Register, Structure, Word};
use crate::space::{FIRST_EXTENDED, HeaderKind, REGISTERS};
use crate::{
    AcsLayout, AerLayout, AerRole, AtomicSupport, AtsLayout, Bar, Builder, ConfigSpace, DpcLayout, Identity,
    MsiLayout, MsiOptions, MsixLayout, PasidLayout, PcieLayout, PmLayout, PortType, PtmLayout, ResizableBar,
    SlotLayout, SriovLayout, VcLayout,
};
use tlp::{Rate, Width};

/// A kind of function; all functions of a kind give registers the same effects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FunctionKind {
    /// A function of an endpoint; with SR-IOV, a physical function.
    Endpoint,
    /// A virtual function.
    VirtualFunction,
    /// A port of a switch, upstream or downstream.
    SwitchPort,
    /// A root port.
    RootPort,
}

/// A field that software may write, in functions of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WritableField {
    /// The structure's name.
    pub structure: &'static str,
    /// The registers' names.
    pub register: &'static str,
    /// The field's name.
    pub field: &'static str,
    /// Reason why the field has no effect in this kind; `None` if it has an effect.
    pub inert: Option<&'static str>,
}

use FunctionKind::{Endpoint, RootPort, SwitchPort, VirtualFunction};

/// Fields that are inert in only one kind of functions: kind, structure, fields (of any of its registers), and the
/// reason.
const INERT: &[(FunctionKind, Structure, &[&str], &str)] = &[
    (
        SwitchPort,
        pcie::TABLE,
        &["Enable Relaxed Ordering", "Enable No Snoop"],
        "a switch port's own messages, interrupts and completions never have the attribute",
    ),
    (
        SwitchPort,
        pcie::TABLE,
        &["Max_Read_Request_Size", "Extended Tag Field Enable", "10-Bit Tag Requester Enable"],
        "a switch port sends no non-posted requests",
    ),
    (
        RootPort,
        pcie::TABLE,
        &["10-Bit Tag Requester Enable"],
        "a root port has at most 256 requests outstanding, so 8-bit tags suffice",
    ),
    (
        Endpoint,
        pcie::TABLE,
        &["Target Link Speed"],
        "in an endpoint it only sets the speed of compliance tests, which are not modelled (§7.5.3.19)",
    ),
    (Endpoint, pcie::TABLE, &["LTR Mechanism Enable"], "devices send LTR messages even if the bit is clear"),
    (SwitchPort, msi::TABLE, &["Multiple Message Enable"], ONE_VECTOR),
    (RootPort, msi::TABLE, &["Multiple Message Enable"], ONE_VECTOR),
    (
        SwitchPort,
        TYPE_1_HEADER,
        &["Secondary: Received Target Abort", "Secondary: Received Master Abort"],
        "a switch port itself sends no requests downstream",
    ),
    (
        RootPort,
        TYPE_1_HEADER,
        &["Parity Error Response", "Master Data Parity Error"],
        "the primary side of a root port is inside the root complex; no poisoned TLP passes there",
    ),
    (
        RootPort,
        pcie::TABLE,
        &[
            "Power Fault Detected Enable",
            "Power Fault Detected",
            "MRL Sensor Changed Enable",
            "MRL Sensor Changed",
        ],
        "simulated slots have no latch, and their power never fails",
    ),
    (
        RootPort,
        acs::TABLE,
        &["ACS P2P Completion Redirect Enable"],
        "completions to peers go through the root complex in any case",
    ),
];

const ONE_VECTOR: &str = "a port has one vector";

impl FunctionKind {
    /// All kinds.
    pub const ALL: [FunctionKind; 4] = [Endpoint, VirtualFunction, SwitchPort, RootPort];

    /// The abbreviation that the reference uses.
    pub const fn short(self) -> &'static str {
        match self {
            Endpoint => "E",
            VirtualFunction => "VF",
            SwitchPort => "S",
            RootPort => "R",
        }
    }

    /// Returns the plural name of its functions.
    pub const fn name(self) -> &'static str {
        match self {
            Endpoint => "endpoints",
            VirtualFunction => "virtual functions",
            SwitchPort => "switch ports",
            RootPort => "root ports",
        }
    }

    /// Every field that software may write in some function of this kind, in the order of the tables.
    pub fn writable(self) -> Vec<WritableField> {
        let mut all: Vec<WritableField> = Vec::new();
        for space in self.spaces() {
            let fields = (0..REGISTERS as u16).flat_map(|dw| self.writable_at(&space, dw));
            for field in fields {
                if !all.contains(&field) {
                    all.push(field);
                }
            }
        }
        all
    }

    fn writable_at(self, space: &ConfigSpace, dw: u16) -> Vec<WritableField> {
        let register = space.register(dw);
        let Some((structure, name)) = place(space, dw, &register) else { return Vec::new() };
        let access = register.access;
        let bits = access.rw | access.rw1c | access.trigger;
        let written = register.fields.iter().filter(|field| field.bits & bits != 0);
        let describe = |field: &Field| {
            let here = INERT.iter().find(|(kind, table, fields, _)| {
                (*kind, table.name) == (self, structure.name) && fields.contains(&field.name)
            });
            let inert = field.inert.or(here.map(|row| row.3));
            WritableField { structure: structure.name, register: name, field: field.name, inert }
        };
        written.map(describe).collect()
    }

    /// Returns functions that together have every structure that this kind may have.
    fn spaces(self) -> Vec<ConfigSpace> {
        let all = match self {
            Endpoint => vec![endpoint()],
            VirtualFunction => vec![virtual_function()],
            SwitchPort => vec![port(PortType::Upstream), port(PortType::Downstream)],
            RootPort => vec![port(PortType::RootPort)],
        };
        all.into_iter().filter_map(|builder| builder.build().ok()).collect()
    }
}

/// Returns the structure and the register names of this DW. A table lists a repeated register once.
fn place(space: &ConfigSpace, dw: u16, register: &Register) -> Option<(Structure, &'static str)> {
    let (structure, start) = structure_at(space, dw)?;
    let same = |word: &&Word| word.fields == register.fields;
    let exact = structure.words.iter().filter(|word| start + word.dw == dw).find(same);
    let word = exact.or_else(|| structure.words.iter().find(same))?;
    Some((structure, word.name))
}

/// Returns the structure that contains this DW, and the first DW of the structure.
fn structure_at(space: &ConfigSpace, dw: u16) -> Option<(Structure, u16)> {
    const FIRST_CAPABILITY: u16 = 0x40 / 4;
    if dw < FIRST_CAPABILITY {
        let header = match space.kind {
            HeaderKind::Type0 => TYPE_0_HEADER,
            HeaderKind::Type1 => TYPE_1_HEADER,
            HeaderKind::Virtual => VIRTUAL_FUNCTION_HEADER,
        };
        return Some((header, 0));
    }
    if dw < FIRST_EXTENDED {
        let list = space.capabilities.list.iter().filter(|entry| entry.1 <= dw);
        let &(id, start) = list.max_by_key(|entry| entry.1)?;
        return Some((capability(id)?, start));
    }
    let list = space.capabilities.extended.iter().filter(|entry| entry.1 <= dw);
    let &(id, start) = list.max_by_key(|entry| entry.1)?;
    Some((extended_capability(id)?, start))
}

/// The PCI Express capability with every feature that a port of this type may have, at a link of the highest rate.
fn everything(port: PortType) -> PcieLayout {
    let above_link = port.is_above_link();
    PcieLayout {
        ten_bit_tag: true,
        ltr: true,
        end_end_prefixes: 4,
        atomics: AtomicSupport::all(),
        rate: Rate::Gt32,
        width: Width::ALL[5],
        slot: above_link.then(|| SlotLayout::with_all(1)),
        ..PcieLayout::port(port)
    }
}

fn identity(class: u32) -> Identity {
    Identity { vendor: 0x1234, device: 0x5678, class, ..Identity::default() }
}

fn endpoint() -> Builder {
    let sriov = SriovLayout { ten_bit_tag: true, ..SriovLayout::new(4, 0x5679) };
    let msix = MsixLayout { vectors: 8, table: (0, 0), pending: (0, 0x800) };
    Builder::type0(identity(0))
        .bar(0, Bar::memory64(1 << 20))
        .bar(2, Bar::io(32))
        .expansion_rom(4096)
        .interrupt_pin(1)
        .power_management_with(PmLayout { pme: true, ..PmLayout::default() })
        .msi(MsiLayout { vectors: 32 })
        .msi_options(MsiOptions { masking: true, address_32: false })
        .msix(msix)
        .pcie(everything(PortType::Endpoint))
        .advanced_error_reporting_with(AerLayout {
            headers: 2,
            prefix_log: true,
            ..AerLayout::new(AerRole::Endpoint)
        })
        .alternative_routing(0)
        .single_root_virtualization(sriov.bar(0, Bar::memory64(4096)))
        .address_translation(AtsLayout::default())
        .page_request(64)
        .process_address_space(PasidLayout { width: 20, execute: true, privileged: true })
        .latency_tolerance()
        .l1_substates(40)
        .precision_time(PtmLayout { requester: true, responder: false, root: false, granularity_ns: 4 })
        .virtual_channels(channels())
        .resizable_bars(&[ResizableBar::range(0, 1 << 20, 4 << 20)])
        .link_capabilities()
}

fn channels() -> VcLayout {
    VcLayout { vcs: 2, low_priority: 1, phases: 32, ..VcLayout::default() }
}

/// A virtual function with the capabilities that VFs of riser have.
fn virtual_function() -> Builder {
    Builder::virtual_function(identity(0))
        .msix(MsixLayout { vectors: 8, table: (0, 0), pending: (0, 0x800) })
        .pcie(everything(PortType::Endpoint))
        .advanced_error_reporting()
        .alternative_routing(0)
}

fn port(kind: PortType) -> Builder {
    let builder = Builder::type1(identity(0x06_0400))
        .interrupt_pin(1)
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(everything(kind))
        .advanced_error_reporting()
        .virtual_channels(channels())
        .link_capabilities();
    if !kind.is_above_link() {
        return builder;
    }
    let root_port = kind == PortType::RootPort;
    builder
        .access_control(AcsLayout::port(32))
        .downstream_port_containment(DpcLayout { root_port, ..DpcLayout::default() })
}
