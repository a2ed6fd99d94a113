// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of enumeration as one object, which `riser lspci --help` documents.

use super::names;
use crate::{Enumerated, EnumeratedFunction, TreePosition};
use capture::{DeviceRegister, DeviceRegisters};
use config::ext::sriov::VF_BAR0;
use config::header::type0::BAR0;
use config::lspci::{self, Head, LinkRegisters, Space, class_name};
use host::firmware::{FoundBar, FoundBridge, FoundSriov, Function, Interrupt, Window};
use serde::Serialize;

/// The result of enumeration as one object, which `riser lspci --help` documents.
#[derive(Serialize)]
pub struct Listing {
    lab: String,
    enumeration_ns: f64,
    config_requests: u64,
    functions: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    bdf: String,
    path: String,
    name: String,
    slot: Option<String>,
    switch: Option<String>,
    port: Option<u8>,
    model: Option<String>,
    vf_of: Option<String>,
    parent: Option<String>,
    vendor_id: u16,
    device_id: u16,
    revision: u8,
    class: u32,
    class_name: String,
    command: u16,
    bars: Vec<Bar>,
    bridge: Option<Bridge>,
    link: Option<Link>,
    mps_bytes: Option<u32>,
    mrrs_bytes: Option<u32>,
    interrupt: Vectors,
    sriov: Option<Virtual>,
    capabilities: Vec<Capability>,
    registers: &'static [DeviceRegister],
}

#[derive(Serialize)]
struct Bar {
    bar: Option<u8>,
    kind: &'static str,
    address: u64,
    size_bytes: u64,
    prefetchable: bool,
}

#[derive(Serialize)]
struct Bridge {
    secondary: u8,
    subordinate: u8,
    io: Option<Range>,
    memory: Option<Range>,
    prefetchable: Option<Range>,
}

#[derive(Serialize)]
struct Range {
    base: u64,
    size_bytes: u64,
}

#[derive(Serialize)]
struct Link {
    max_gen: u32,
    max_lanes: u32,
    r#gen: u32,
    lanes: u32,
}

#[derive(Serialize)]
struct Vectors {
    kind: &'static str,
    first_vector: Option<u16>,
    vectors: u16,
}

#[derive(Serialize)]
struct Virtual {
    total_vfs: u16,
    num_vfs: u16,
    first_offset: u16,
    stride: u16,
}

#[derive(Serialize)]
struct Capability {
    id: u16,
    version: Option<u8>,
    offset: u16,
    name: String,
}

impl Listing {
    /// Returns the chosen functions of the result for the lab `lab`.
    pub fn of(
        lab: &str,
        found: &Enumerated,
        chosen: &[&EnumeratedFunction],
        devices: &DeviceRegisters,
    ) -> Listing {
        let entry = |f: &&EnumeratedFunction| Some(Entry::of(found, f, found.system.get(f.bdf)?, devices));
        Listing {
            lab: lab.to_owned(),
            enumeration_ns: found.took.as_ps() as f64 / 1_000.0,
            config_requests: found.config_requests,
            functions: chosen.iter().filter_map(entry).collect(),
        }
    }
}

impl Entry {
    fn of(
        found: &Enumerated,
        function: &EnumeratedFunction,
        known: &Function,
        devices: &DeviceRegisters,
    ) -> Entry {
        let space = Space(&function.bytes);
        let heads = lspci::heads(&space);
        // Link and sizes of a virtual function come from its physical function, because its own fields are reserved.
        let physical = known.vf_of.and_then(|pf| found.functions.iter().find(|f| f.bdf == pf));
        let link = lspci::link(&Space(&physical.unwrap_or(function).bytes));
        let (slot, switch, port, model) = place(&function.place);
        Entry {
            bdf: function.bdf.to_string(),
            path: function.path.to_string(),
            name: names::name(function),
            slot,
            switch,
            port,
            model,
            vf_of: known.vf_of.map(|pf| pf.to_string()),
            parent: known.parent.map(|bridge| bridge.to_string()),
            vendor_id: known.found.vendor,
            device_id: known.found.device,
            revision: known.revision,
            class: known.found.class,
            class_name: class_name(&space),
            command: space.half(4),
            bars: bars(found, function, known),
            bridge: known.bridge.map(Bridge::of),
            link: link.map(Link::of),
            mps_bytes: link.map(|l| l.mps_bytes),
            mrrs_bytes: link.map(|l| l.mrrs_bytes),
            interrupt: Vectors::of(known),
            sriov: known.sriov.map(Virtual::of),
            capabilities: heads.into_iter().map(Capability::of).collect(),
            registers: super::registers_of(found, function, devices),
        }
    }
}

type Named = (Option<String>, Option<String>, Option<u8>, Option<String>);

/// Slot, switch, port and model.
fn place(place: &TreePosition) -> Named {
    match place {
        TreePosition::RootPort { .. } | TreePosition::Unnamed => (None, None, None, None),
        TreePosition::Upstream { switch } => (None, Some(switch.clone()), Some(0), None),
        TreePosition::Downstream { switch, port, .. } => (None, Some(switch.clone()), Some(*port), None),
        TreePosition::Slot { slot, model, .. } => (Some(slot.clone()), None, None, Some(model.clone())),
    }
}

fn bars(found: &Enumerated, function: &EnumeratedFunction, known: &Function) -> Vec<Bar> {
    let mut all = Vec::new();
    for index in 0..6_u8 {
        let place = usize::from(index);
        let kind = bar_kind(found, function, known, index);
        let bar = |found: FoundBar, kind, prefetchable| Bar {
            bar: Some(index),
            kind,
            address: found.address,
            size_bytes: found.size,
            prefetchable,
        };
        let memory = if kind & 0b110 == 0b100 { "memory64" } else { "memory32" };
        all.extend(known.found.bars[place].map(|found| bar(found, memory, kind & 0b1000 != 0)));
        all.extend(known.found.io_bars[place].map(|found| bar(found, "io", false)));
    }
    let rom = |rom: FoundBar| Bar {
        bar: None,
        kind: "rom",
        address: rom.address,
        size_bytes: rom.size,
        prefetchable: false,
    };
    all.extend(known.rom.map(rom));
    all
}

/// The bits of a BAR that encode its kind. A virtual function's BARs read zero, so the physical function's VF BAR is
/// used.
fn bar_kind(found: &Enumerated, function: &EnumeratedFunction, known: &Function, index: u8) -> u32 {
    let physical = known.vf_of.and_then(|pf| {
        let space = found.functions.iter().find(|f| f.bdf == pf)?;
        Some((space, found.system.get(pf)?.sriov?.at + VF_BAR0))
    });
    let (space, first) = physical.unwrap_or((function, BAR0));
    Space(&space.bytes).dw((first + u16::from(index)) * 4)
}

impl Bridge {
    fn of(bridge: FoundBridge) -> Bridge {
        let range = |w: Window| (w.size != 0).then_some(Range { base: w.base, size_bytes: w.size });
        Bridge {
            secondary: bridge.secondary,
            subordinate: bridge.subordinate,
            io: range(bridge.io),
            memory: range(bridge.memory),
            prefetchable: range(bridge.prefetchable),
        }
    }
}

impl Link {
    fn of(registers: LinkRegisters) -> Link {
        let LinkRegisters { max_gen, max_lanes, r#gen, lanes, .. } = registers;
        Link { max_gen, max_lanes, r#gen, lanes }
    }
}

impl Virtual {
    fn of(sriov: FoundSriov) -> Virtual {
        let FoundSriov { total_vfs, num_vfs, first_offset, stride, .. } = sriov;
        Virtual { total_vfs, num_vfs, first_offset, stride }
    }
}

impl Vectors {
    fn of(known: &Function) -> Vectors {
        let found = &known.found;
        let (kind, vectors) = match known.interrupt {
            Interrupt::None => ("none", 0),
            Interrupt::Intx { .. } => ("intx", 1),
            Interrupt::Msi => ("msi", found.vectors),
            Interrupt::Msix => ("msix", found.vectors),
        };
        Vectors { kind, first_vector: (vectors > 0).then_some(found.vector_base), vectors }
    }
}

impl Capability {
    fn of(head: Head) -> Capability {
        Capability { id: head.id, version: head.version, offset: head.at, name: lspci::title(head) }
    }
}
