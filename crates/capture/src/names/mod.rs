// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names what TLPs access: configuration registers and their fields, interrupt vectors, and registers of devices.
//! Names come only from the capture itself, never from a guess.
//!
//! | name | source |
//! |---|---|
//! | configuration registers | the tables of `riser-config`; positions of capabilities: completions of the firmware's reads |
//! | BARs and their windows | BAR sizing and the writes of addresses; for virtual functions: the SR-IOV capability of the physical function |
//! | interrupts | the MSI capability, or the entries that are written to the MSI-X table |
//! | registers of devices | the tables of devices for the Vendor and Device ID read ([`DeviceRegisters`]); for self-describing devices: the interface of their link ([`OwnRegisters`]) |
//!
//! If the capture does not show a source, there is no name. A configuration request then has only the names that
//! are the same in all header types, and an address outside all known windows has no name.
//!
//! Memory is bounded: 4 KiB of registers per configured function, [`MAX_WAITING`] reads and [`MAX_VECTORS`] entries
//! of MSI-X tables. Reads and entries above these limits are ignored.

mod meaning;
mod msix;
mod of_requests;
mod place;
mod space;
mod windows;

pub use meaning::{Action, Interrupt, InterruptKind, Meaning, Registers};
pub use msix::MAX_VECTORS;
pub use of_requests::OfRequests;
pub use place::ConfigRegister;

use crate::decode::{Record, TlpRecord};
use crate::registers::{DeviceRegister, DeviceRegisters, NamedRegister, OwnRegisters};
use crate::settings::DeviceControl;
use meaning::Known;
use msix::Entries;
use space::Space;
use std::collections::BTreeMap;
use tlp::{Access, Bdf, Body, Completion, ConfigKind, ConfigRequest, MemoryRequest, Status, Tag};
use windows::Windows;

/// Maximum number of outstanding configuration reads. A completion ends a read, and a new read with the same tag
/// replaces it.
pub const MAX_WAITING: usize = 65_536;

/// An outstanding configuration read: link, Requester ID and tag.
type Waiting = (u16, Bdf, Tag);

/// Learns names from the records of a capture, and names the following records.
#[derive(Clone, Debug)]
pub struct Names {
    devices: DeviceRegisters,
    /// The registers of self-describing devices, by function.
    own: BTreeMap<Bdf, OwnRegisters>,
    spaces: BTreeMap<Bdf, Space>,
    windows: Windows,
    entries: Entries,
    /// The function and register of each outstanding configuration read.
    waiting: BTreeMap<Waiting, (Bdf, u16)>,
}

impl Names {
    /// Knows only the registers of `devices`.
    pub fn new(devices: DeviceRegisters) -> Names {
        Names {
            devices,
            own: BTreeMap::new(),
            spaces: BTreeMap::new(),
            windows: Windows::new(),
            entries: Entries::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Processes a record; call it for every record in order. Returns the meaning of a TLP if it is known. TLPs
    /// that were damaged or dropped on the way have no meaning.
    #[inline]
    pub fn see(&mut self, record: &Record<'_>) -> Option<Meaning> {
        let tlp = record.tlp().filter(|_| !record.mark.is_lost())?;
        let link = record.interface.map_or(0, |interface| interface.link);
        match &tlp.repr.body {
            Body::Memory(request) => self.memory(request, tlp),
            Body::Config(request) => {
                // A type 1 request continues to another link.
                if let (ConfigKind::Type0, Some(interface)) = (request.kind, record.interface) {
                    self.leads_to(request.completer, &interface.registers);
                }
                self.config(link, request, tlp)
            }
            Body::Completion(completion) if !self.waiting.is_empty() => {
                self.completion(link, completion, tlp)
            }
            _ => None,
        }
    }

    /// The known settings of a function that limit the TLPs it sends. `None` for a virtual function, which has no
    /// such settings (`PCIe 5.0 §9.3.5.4`).
    pub(crate) fn device_control(&self, function: Bdf) -> Option<DeviceControl> {
        self.spaces.get(&function)?.device_control()
    }

    fn leads_to(&mut self, function: Bdf, registers: &OwnRegisters) {
        if registers.is_empty() {
            self.own.remove(&function);
        } else if self.own.get(&function) != Some(registers) {
            self.own.insert(function, registers.clone());
        }
    }

    fn config(&mut self, link: u16, request: &ConfigRequest, tlp: &TlpRecord<'_>) -> Option<Meaning> {
        let (function, dw, enables) = (request.completer, request.register_dw, request.first_be);
        let space = self.spaces.entry(function).or_default();
        let place = space.place(dw);
        let action = match request.op {
            Access::Read => {
                let key = (link, request.requester, request.tag);
                if self.waiting.len() < MAX_WAITING || self.waiting.contains_key(&key) {
                    self.waiting.insert(key, (function, dw));
                }
                Action::Read
            }
            Access::Write => {
                let value = u32::from_le_bytes(*tlp.data.first_chunk()?);
                let action = space.write(place, dw, enables, value);
                self.follow(function, place, dw);
                action
            }
        };
        Some(Meaning::Config { function, place: place?, enables, action })
    }

    fn completion(&mut self, link: u16, completion: &Completion, tlp: &TlpRecord<'_>) -> Option<Meaning> {
        let (function, dw) = self.waiting.remove(&(link, completion.requester, completion.tag))?;
        if completion.status != Status::Success {
            return None;
        }
        let value = u32::from_le_bytes(*tlp.data.first_chunk()?);
        let space = self.spaces.entry(function).or_default();
        if space.is_of_another(dw, value) {
            *space = Space::default();
            self.entries.forget(function);
            self.windows.set(function, Vec::new());
        }
        let action = space.learn(dw, value);
        let place = space.place(dw);
        self.follow(function, place, dw);
        Some(Meaning::Config { function, place: place?, enables: 0xf, action })
    }

    /// Updates the windows of a function after one of the registers that determine them changed.
    fn follow(&mut self, function: Bdf, place: Option<ConfigRegister>, dw: u16) {
        let decides = dw == config::header::COMMAND_STATUS
            || matches!(place, Some(ConfigRegister::Bar { .. } | ConfigRegister::VfBar { .. }))
            || place.is_some_and(|place| place.is_of(&config::ext::sriov::TABLE));
        if decides && let Some(space) = self.spaces.get(&function) {
            self.windows.set(function, space.windows(function));
        }
    }

    fn memory(&mut self, request: &MemoryRequest, tlp: &TlpRecord<'_>) -> Option<Meaning> {
        let (address, is_read) = (request.span.first_byte(), request.op.is_read());
        let data = if is_read { None } else { Some(enabled(request, tlp)) };
        if let Some(data) = data
            && let Some(interrupt) = self.interrupt(request.requester, address, data)
        {
            return Some(Meaning::Interrupt(interrupt));
        }
        let at = self.windows.at(address, u64::from(request.span.byte_count()))?;
        if let Some(table) = self.msix_table(at.function).filter(|table| table.holds(at.bar, at.offset)) {
            return Some(self.table_access(at, table, request, data));
        }
        let registers = self.registers_of(at);
        Some(Meaning::Registers(Registers::new(at, request.span.byte_count(), registers, data)))
    }

    fn table_access(
        &mut self,
        at: windows::At,
        table: msix::Table,
        request: &MemoryRequest,
        data: Option<&[u8]>,
    ) -> Meaning {
        let offset = at.offset - table.offset;
        if let Some(data) = data {
            self.entries.write(at.function, offset, data);
        }
        Meaning::MsixTable {
            vector: (offset / config::cap::msix::ENTRY_BYTES) as u16,
            registers: Registers::new(
                windows::At { offset: offset % config::cap::msix::ENTRY_BYTES, ..at },
                request.span.byte_count(),
                Known::Shipped(&msix::ENTRY),
                data,
            ),
        }
    }

    fn msix_table(&self, function: Bdf) -> Option<msix::Table> {
        self.spaces.get(&function)?.msix_table()
    }

    /// The interrupt that a write raises, if its function has an interrupt with this address and data.
    fn interrupt(&self, function: Bdf, address: u64, data: &[u8]) -> Option<Interrupt> {
        let space = self.spaces.get(&function)?;
        if let Some(vector) = space.msi_vector(address, data) {
            return Some(Interrupt { kind: InterruptKind::Msi, function, vector: Some(vector) });
        }
        if !space.msix_is_enabled() {
            return None;
        }
        let data = u32::from_le_bytes(*data.first_chunk().filter(|_| data.len() == 4)?);
        let vector = self.entries.vector(function, address, data)?;
        Some(Interrupt { kind: InterruptKind::Msix, function, vector: vector.only() })
    }

    fn registers_of(&self, at: windows::At) -> Known {
        if let Some(own) = self.own.get(&at.physical) {
            return Known::Own(own.clone());
        }
        let ids = self
            .spaces
            .get(&at.physical)
            .and_then(|space| if at.physical == at.function { space.ids() } else { space.vf_ids() });
        Known::Shipped(ids.map_or(&[], |(vendor, device)| self.devices.of(vendor, device)))
    }
}

/// The captured bytes of a write, from the first to the last enabled one.
fn enabled<'a>(request: &MemoryRequest, tlp: &TlpRecord<'a>) -> &'a [u8] {
    let start = (request.span.lead() as usize).min(tlp.data.len());
    let end = (start + request.span.byte_count() as usize).min(tlp.data.len());
    &tlp.data[start..end]
}
