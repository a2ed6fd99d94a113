// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walks the tree depth first: finds functions, numbers buses, and records the BARs' needs. Addresses are assigned
//! later.

use super::error::{FirmwareError, FirmwareErrorKind};
use super::host_map::{HostMap, Path, Policy};
use super::need::Need;
use super::registers::{device, extended, port, type1};
use super::removed::{has_lost_its_buses, take_subtree, uppermost_gone};
use super::system::{Capability, ExtendedCapability, FoundBridge, Function, Interrupt, PcieFacts, System};
use super::{ALL_BYTES, Config, FUNCTIONS, FoundFunction, LOW_HALF, MAX_CAPABILITIES};
use crate::cpu::Cpu;
use config::PortType;
use config::cap::pcie;
use config::header::{self, status};
use std::collections::BTreeMap;
use tlp::{Bdf, Mps};

/// Devices on a bus.
const DEVICES: u8 = 32;
/// Maximum number of extended capabilities between 100h and FFFh, two DWs each. A longer list is a loop.
const MAX_EXTENDED: usize = 480;
/// Maximum number of levels of a path that an error shows.
const SHOWN_LEVELS: usize = 16;
/// Byte Enables of the three bus numbers of a bridge, without Secondary Latency Timer.
const BUS_NUMBER_BYTES: u8 = 0b0111;

/// A walk and its findings.
pub(super) struct Walk<'a> {
    pub(super) cpu: &'a Cpu,
    pub(super) map: &'a HostMap,
    pub(super) functions: BTreeMap<Bdf, Function>,
    pub(super) needs: Vec<Need>,
    /// The lowest unassigned bus number; 256 if all are assigned.
    next_bus: u16,
    last_bus: u8,
    root_ports: usize,
    /// The root port above the start of the walk, unless the walk starts at the root complex.
    root_port: usize,
    /// True if addresses above 4 GiB reach the start of the walk.
    pub(super) leads_above: bool,
    /// True if a function has disappeared during the walk.
    pub(super) has_lost: bool,
}

/// A remaining step; the last one is done first.
enum Step {
    /// Assigns buses to a bridge and walks below it.
    Enter(Bdf),
    /// Completes a bridge after everything below it has been found.
    Leave(Bdf),
}

/// Header registers of a function.
struct Header {
    id: u32,
    class_revision: u32,
    misc: u32,
}

impl<'a> Walk<'a> {
    /// Returns a walk over the whole tree below the root complex.
    pub(super) fn whole(cpu: &'a Cpu, map: &'a HostMap) -> Walk<'a> {
        Walk {
            cpu,
            map,
            functions: BTreeMap::new(),
            needs: Vec::new(),
            next_bus: u16::from(map.first_bus) + 1,
            last_bus: map.last_bus,
            root_ports: 0,
            root_port: 0,
            leads_above: map.mmio64.size > 0,
            has_lost: false,
        }
    }

    /// Returns a walk over the tree below `bridge`, within its bus numbers. It includes the bridge itself, for
    /// lookups of parents.
    pub(super) fn below(cpu: &'a Cpu, system: &'a System, bridge: &Function) -> Walk<'a> {
        let buses = bridge.bridge.unwrap_or_default();
        Walk {
            functions: BTreeMap::from([(bridge.bdf(), bridge.clone())]),
            next_bus: u16::from(buses.secondary) + 1,
            last_bus: buses.subordinate,
            root_port: bridge.found.port,
            leads_above: buses.prefetchable.size > 0,
            ..Walk::whole(cpu, &system.map)
        }
    }

    fn policy(&self) -> &'a Policy {
        &self.map.policy
    }

    /// Walks from `bus`, whose functions are directly below `above`.
    pub(super) async fn run(&mut self, bus: u8, above: Option<Bdf>) -> Result<(), FirmwareError> {
        let mut steps = Vec::new();
        self.scan_bus(bus, above, &mut steps).await?;
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(bridge) => match self.enter(bridge).await {
                    Ok(None) => {}
                    Ok(Some(secondary)) => {
                        steps.push(Step::Leave(bridge));
                        self.scan_bus(secondary, Some(bridge), &mut steps).await?;
                    }
                    Err(error) => self.survive(bridge, error).await?,
                },
                Step::Leave(bridge) => {
                    if let Err(error) = self.leave(bridge).await {
                        self.survive(bridge, error).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops a bridge that has disappeared, and everything below it.
    async fn survive(&mut self, bridge: Bdf, error: FirmwareError) -> Result<(), FirmwareError> {
        let above = self.functions.get(&bridge).and_then(|f| f.parent);
        if self.is_lost(bridge, above).await {
            return Ok(());
        }
        if error.kind == FirmwareErrorKind::TimedOut {
            self.forget(bridge);
            return Ok(());
        }
        Err(error)
    }

    /// True if a function no longer answers. It is then dropped, together with any bridge above it that has
    /// disappeared too.
    async fn is_lost(&mut self, bdf: Bdf, above: Option<Bdf>) -> bool {
        let gone = uppermost_gone(self.cpu, &self.functions, bdf, above).await;
        gone.into_iter().for_each(|top| self.forget(top));
        gone.is_some()
    }

    fn forget(&mut self, top: Bdf) {
        self.has_lost = true;
        for function in take_subtree(&mut self.functions, top) {
            self.needs.retain(|need| need.bdf != function.bdf());
        }
    }

    /// Finds the functions of a bus. Its bridges are entered next, in order.
    async fn scan_bus(
        &mut self,
        bus: u8,
        above: Option<Bdf>,
        steps: &mut Vec<Step>,
    ) -> Result<(), FirmwareError> {
        let port = above.and_then(|bdf| self.functions.get(&bdf)).and_then(Function::port_type);
        let devices = if port.is_some_and(PortType::is_above_link) { 1 } else { DEVICES };
        let mut bridges = Vec::new();
        for device in 0..devices {
            for bdf in self.look_at(bus, device, above).await? {
                if self.functions.get(&bdf).is_some_and(|f| f.bridge.is_some()) {
                    bridges.push(Step::Enter(bdf));
                }
            }
        }
        steps.extend(bridges.into_iter().rev());
        Ok(())
    }

    /// Finds the functions of a device, and their needs. A function that disappears during the scan counts as absent. If
    /// it was removed and inserted again, it is scanned once more.
    async fn look_at(&mut self, bus: u8, device: u8, above: Option<Bdf>) -> Result<Vec<Bdf>, FirmwareError> {
        let zero = Bdf::from_bits(u16::from(bus) << 8 | u16::from(device << 3));
        let mut tries = 0;
        loop {
            let error = match self.find_device(zero, above).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            tries += 1;
            let known: Vec<Bdf> = self.functions.range(zero..).map(|f| *f.0).collect();
            known.into_iter().filter(|bdf| bdf.bus() == bus).for_each(|bdf| self.forget(bdf));
            if self.is_lost(zero, above).await {
                return Ok(Vec::new());
            }
            if error.kind == FirmwareErrorKind::Wrong || tries > 1 {
                return Err(error);
            }
        }
    }

    async fn find_device(&mut self, zero: Bdf, above: Option<Bdf>) -> Result<Vec<Bdf>, FirmwareError> {
        let found = self.scan_device(zero.bus(), zero.device(), above).await?;
        for bdf in &found {
            self.measure(*bdf).await?;
        }
        Ok(found)
    }

    /// Finds the functions of a device: all numbers up to 7, or with ARI the list that starts at function 0 (`PCIe
    /// 5.0 §6.13`).
    async fn scan_device(
        &mut self,
        bus: u8,
        device: u8,
        above: Option<Bdf>,
    ) -> Result<Vec<Bdf>, FirmwareError> {
        let bdf = |function: u8| Bdf::from_bits(u16::from(bus) << 8 | u16::from(device << 3 | function));
        let mut found = Vec::new();
        let Some(multi_function) = self.scan_function(bdf(0), above).await? else { return Ok(found) };
        found.push(bdf(0));
        if device == 0 && self.forward_ari(bdf(0), above).await? {
            self.scan_ari_list(bdf(0), above, &mut found).await?;
        } else if multi_function {
            for function in 1..FUNCTIONS {
                if self.scan_function(bdf(function), above).await?.is_some() {
                    found.push(bdf(function));
                }
            }
        }
        Ok(found)
    }

    /// Enables ARI Forwarding above `zero` if both support it.
    async fn forward_ari(&mut self, zero: Bdf, above: Option<Bdf>) -> Result<bool, FirmwareError> {
        let has_ari = self.functions.get(&zero).and_then(|f| f.extended_capability(extended::ARI)).is_some();
        let Some(bridge) = above.and_then(|bdf| self.functions.get_mut(&bdf)) else { return Ok(false) };
        let forwards = |p: &PcieFacts| p.device_capabilities_2 & device::ARI_FORWARDING_SUPPORTED != 0;
        let Some(pcie) = bridge.pcie.filter(forwards) else { return Ok(false) };
        let ari = has_ari && self.map.policy.ari;
        let (clear, set) = if ari { (0, device::ARI_FORWARDING) } else { (device::ARI_FORWARDING, 0) };
        let config = Config { cpu: self.cpu, bdf: bridge.bdf() };
        config.change(pcie.at + pcie::DEVICE_CONTROL_2, clear, set).await?;
        if let Some(buses) = &mut bridge.bridge {
            buses.ari = ari;
        }
        Ok(ari)
    }

    /// Follows the list of Next Function Numbers, which must ascend (`PCIe 5.0 §7.8.7.2`).
    async fn scan_ari_list(
        &mut self,
        zero: Bdf,
        above: Option<Bdf>,
        found: &mut Vec<Bdf>,
    ) -> Result<(), FirmwareError> {
        let mut last = zero;
        loop {
            let Some(at) = self.functions.get(&last).and_then(|f| f.extended_capability(extended::ARI))
            else {
                return Ok(());
            };
            let number = Config { cpu: self.cpu, bdf: last }.read(at + 1).await? >> 8 & 0xff;
            let next = Bdf::from_bits(zero.bits() & 0xff00 | number as u16);
            if number == 0 {
                return Ok(());
            }
            if next <= last {
                return Err(format!("function {last}: its ARI function list goes back to {next}").into());
            }
            if self.scan_function(next, above).await?.is_none() {
                return Err(
                    format!("function {last}: {next}, the next function in its ARI list, is absent").into()
                );
            }
            found.push(next);
            last = next;
        }
    }

    /// Records a function, if there is one. Returns whether its device has several functions.
    async fn scan_function(&mut self, bdf: Bdf, above: Option<Bdf>) -> Result<Option<bool>, FirmwareError> {
        let config = Config { cpu: self.cpu, bdf };
        let Some(id) = config.id().await? else { return Ok(None) };
        let misc = config.read(header::MISC).await?;
        let header = Header { id, misc, class_revision: config.read(header::CLASS_REVISION).await? };
        // Decoding and forwarding are disabled while sizes are probed and bus numbers assigned.
        config.write(header::COMMAND_STATUS, LOW_HALF, 0).await?;
        let path =
            above.and_then(|bdf| self.functions.get(&bdf)).map_or_else(Path::default, |f| f.path.clone());
        let mut function = new_function(bdf, above, path, &header);
        config.read_lists(&mut function).await?;
        if function.header_type == 1 {
            function.bridge = Some(config.reset_bridge().await?);
        }
        config.show_retries(&function).await?;
        function.found.port = self.root_port_of(&function, above);
        self.functions.insert(bdf, function);
        Ok(Some(misc & header::MULTI_FUNCTION != 0))
    }

    fn root_port_of(&mut self, function: &Function, above: Option<Bdf>) -> usize {
        match above.and_then(|bdf| self.functions.get(&bdf)) {
            Some(bridge) => bridge.found.port,
            None if function.bridge.is_some() => {
                self.root_ports += 1;
                self.root_ports - 1
            }
            None => self.root_port,
        }
    }

    /// Opens a bridge: all unassigned buses are below it for now. Returns `None` if it has disappeared.
    async fn enter(&mut self, bridge: Bdf) -> Result<Option<u8>, FirmwareError> {
        if !self.functions.contains_key(&bridge) {
            return Ok(None);
        }
        let secondary = self.next_bus;
        self.reserve_bus(secondary, bridge)?;
        let secondary = secondary as u8;
        let numbers = Config { cpu: self.cpu, bdf: bridge };
        numbers.write_buses(bridge.bus(), secondary, self.last_bus).await?;
        self.set_buses(bridge, secondary, self.last_bus);
        Ok(Some(secondary))
    }

    /// Closes a bridge after the last bus below it.
    async fn leave(&mut self, bridge: Bdf) -> Result<(), FirmwareError> {
        let Some(function) = self.functions.get(&bridge) else { return Ok(()) };
        if self.may_come_and_go(function) && has_lost_its_buses(self.cpu, function).await {
            let text = format!("function {bridge} was reset while firmware looked below it");
            return Err(FirmwareError { text, kind: FirmwareErrorKind::TimedOut });
        }
        let secondary = function.bridge.unwrap_or_default().secondary;
        if function.hot_plug() {
            // Reserve bus numbers, as far as there are any left.
            let kept = u16::from(secondary) + 1 + u16::from(self.policy().room(&function.path).buses);
            self.next_bus = self.next_bus.max(kept.min(u16::from(self.last_bus) + 1));
        }
        let subordinate = (self.next_bus - 1) as u8;
        let numbers = Config { cpu: self.cpu, bdf: bridge };
        numbers.write_buses(bridge.bus(), secondary, subordinate).await?;
        self.set_buses(bridge, secondary, subordinate);
        Ok(())
    }

    /// True if a port above the function is hot-plug capable.
    fn may_come_and_go(&self, function: &Function) -> bool {
        let above = |f: &&Function| self.functions.get(&f.parent?);
        std::iter::successors(above(&function), above).any(Function::hot_plug)
    }

    fn set_buses(&mut self, bridge: Bdf, secondary: u8, subordinate: u8) {
        if let Some(buses) = self.functions.get_mut(&bridge).and_then(|f| f.bridge.as_mut()) {
            (buses.secondary, buses.subordinate) = (secondary, subordinate);
        }
    }

    /// Assigns all bus numbers up to `bus` to `bdf`.
    pub(super) fn reserve_bus(&mut self, bus: u16, bdf: Bdf) -> Result<(), FirmwareError> {
        if bus <= u16::from(self.last_bus) {
            self.next_bus = self.next_bus.max(bus + 1);
            return Ok(());
        }
        let path = self.functions.get(&bdf).map(|f| f.path.clone()).unwrap_or_default();
        let levels = path.0.len();
        let place =
            if levels <= SHOWN_LEVELS { format!("path {path}") } else { format!("{levels} levels deep") };
        // Each level takes a bus, so a chain of this many levels is a loop.
        let endless = if levels > usize::from(u8::MAX) { ": its chain of bridges is a loop" } else { "" };
        let (first, last) = (self.map.first_bus, self.last_bus);
        Err(format!("function {bdf} ({place}) needs bus number {bus}, expected {first} to {last}{endless}")
            .into())
    }
}

fn new_function(bdf: Bdf, above: Option<Bdf>, above_path: Path, header: &Header) -> Function {
    let found = FoundFunction {
        bdf,
        port: 0,
        vendor: header.id as u16,
        device: (header.id >> 16) as u16,
        class: header.class_revision >> 8,
        bars: [None; 6],
        io_bars: [None; 6],
        pcie: None,
        vector_base: 0,
        vectors: 0,
    };
    Function {
        found,
        parent: above,
        path: above_path.below(bdf.bits() as u8),
        header_type: (header.misc >> 16 & 0x7f) as u8,
        revision: header.class_revision as u8,
        capabilities: Vec::new(),
        extended: Vec::new(),
        pcie: None,
        rom: None,
        bridge: None,
        sriov: None,
        vf_of: None,
        interrupt: Interrupt::None,
        mps: Mps::default(),
    }
}

impl Config<'_> {
    /// Reads both capability lists, and the contents of the PCI Express capability.
    pub(super) async fn read_lists(&self, function: &mut Function) -> Result<(), FirmwareError> {
        if function.header_type > 1 {
            return Err(format!(
                "function {} has a header of type {}, expected 0 or 1",
                self.bdf, function.header_type
            )
            .into());
        }
        let mut first = 0;
        function.capabilities = self.capabilities(&mut first).await?;
        if let Some(at) = function.capability(pcie::ID) {
            function.pcie = Some(self.pcie_facts(at, first).await?);
            function.found.pcie = Some(at);
            function.extended = self.extended_capabilities().await?;
        }
        Ok(())
    }

    /// Reads the capability list; `pcie_head` is set to the first DW of the PCI Express capability.
    async fn capabilities(&self, pcie_head: &mut u32) -> Result<Vec<Capability>, FirmwareError> {
        let mut list = Vec::new();
        if self.read(header::COMMAND_STATUS).await? & status::CAPABILITIES_LIST == 0 {
            return Ok(list);
        }
        let mut pointer = self.read(header::CAPABILITIES_POINTER).await? & 0xfc;
        while pointer != 0 {
            if list.len() == MAX_CAPABILITIES {
                return Err(format!("function {}: its list of capabilities is a loop", self.bdf).into());
            }
            let at = pointer as u16 / 4;
            let head = self.read(at).await?;
            if head as u8 == pcie::ID {
                *pcie_head = head;
            }
            list.push(Capability { id: head as u8, at });
            pointer = head >> 8 & 0xfc;
        }
        Ok(list)
    }

    async fn extended_capabilities(&self) -> Result<Vec<ExtendedCapability>, FirmwareError> {
        let mut list = Vec::new();
        let mut at = 0x100 / 4;
        loop {
            let head = self.read(at).await?;
            if head == 0 || head == u32::MAX {
                return Ok(list);
            }
            if list.len() == MAX_EXTENDED {
                return Err(
                    format!("function {}: its list of extended capabilities is a loop", self.bdf).into()
                );
            }
            list.push(ExtendedCapability { id: head as u16, version: (head >> 16 & 0xf) as u8, at });
            at = (head >> 20) as u16 / 4;
            if at == 0 {
                return Ok(list);
            }
            if at < 0x100 / 4 {
                let byte = at * 4;
                return Err(format!(
                    "function {}: an extended capability at {byte:#x}, expected 0x100 to 0xffc",
                    self.bdf
                )
                .into());
            }
        }
    }

    async fn pcie_facts(&self, at: u16, head: u32) -> Result<PcieFacts, FirmwareError> {
        let port = PortType::decode(head);
        let slot = head & port::SLOT_IMPLEMENTED != 0 && port.is_some_and(PortType::is_above_link);
        let hot_plug = slot && self.read(at + port::SLOT_CAPABILITIES).await? & port::HOT_PLUG_CAPABLE != 0;
        let device_capabilities = self.read(at + pcie::DEVICE_CAPABILITIES).await?;
        // Version 1 lacks the registers whose names end with 2.
        let has_second = head >> 16 & 0xf >= 2;
        let device_capabilities_2 =
            if has_second { self.read(at + pcie::DEVICE_CAPABILITIES_2).await? } else { 0 };
        Ok(PcieFacts { at, port, device_capabilities, device_capabilities_2, hot_plug })
    }

    /// Clears a bridge's bus numbers, so that it claims nothing until it is entered, and finds out which windows
    /// it has: an absent window reads as zero (`PCIe 5.0 §7.5.1.3.6`, `§7.5.1.3.9`).
    async fn reset_bridge(&self) -> Result<FoundBridge, FirmwareError> {
        self.write_buses(0, 0, 0).await?;
        self.write(type1::IO, LOW_HALF, 0xf0f0).await?;
        let has_io = self.read(type1::IO).await? & 0xf0f0 != 0;
        self.write(type1::PREFETCHABLE, ALL_BYTES, 0xfff0_fff0).await?;
        let has_64_bit = self.read(type1::PREFETCHABLE).await? & 0xf == 1;
        Ok(FoundBridge { has_io, has_64_bit, ..FoundBridge::default() })
    }

    async fn write_buses(&self, primary: u8, secondary: u8, subordinate: u8) -> Result<(), FirmwareError> {
        let numbers = u32::from_le_bytes([primary, secondary, subordinate, 0]);
        self.write(type1::BUS_NUMBERS, BUS_NUMBER_BYTES, numbers).await
    }

    /// Lets a root port report CRS to software instead of retrying itself (`PCIe 5.0 §2.3.2`).
    async fn show_retries(&self, function: &Function) -> Result<(), FirmwareError> {
        let Some(pcie) = function.pcie.filter(|p| p.port == Some(PortType::RootPort)) else { return Ok(()) };
        let root = self.read(pcie.at + port::ROOT_CONTROL).await?;
        if root & port::CRS_VISIBILITY == 0 {
            return Ok(());
        }
        self.write(pcie.at + port::ROOT_CONTROL, LOW_HALF, root | port::CRS_VISIBILITY_ENABLE).await
    }
}
