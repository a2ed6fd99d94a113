// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An external host of a lab, like a kernel or another simulator, and a card for it. The host only uses its place in the lab: it
//! enumerates by configuration requests, has its own memory, and takes interrupts.

use config::{Bar, Builder, Identity, MsiLayout};
use device::AsyncDevice;
use device::io::{Io, Request};
use endpoint::FunctionConfig;
use host::{Cpu, HostError, HostInput, HostInterrupt, HostOutput, HostReadId};
use plug::{Fault, Model, Plugged, Site};
use riser_session::external::host::{Backing, HostPlace, HostRequest, Map, MapAccess};
use riser_session::external::{Driver, Handle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Bdf, Data, PayloadPool, Time};

/// Value that the card adds to the counter at its address, by an AtomicOp.
pub(crate) const STEP: u64 = 5;
/// Distance between the address that the card reads, the one that it writes, and the counter.
pub(crate) const APART: u64 = 0x100;
/// Address of message-signalled interrupts.
const MSI: u32 = 0xfee0_0000;
/// Start of the devices' windows.
const WINDOWS: u32 = 0xc000_0000;

/// A card that reads 8 bytes at the address that the host writes to it, and writes them [`APART`] bytes higher. After
/// another [`APART`] it increments a counter. Then it interrupts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Card {}

impl Model for Card {
    const NAME: &'static str = "card";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let config = Builder::type0(Identity { vendor: 0x7269, device: 0x7ffe, ..Identity::default() })
            .bar(0, Bar::memory32(4096))
            .msi(MsiLayout { vectors: 1 })
            .pcie(site.pcie)
            .usual()
            .build()?;
        let device = Box::new(AsyncDevice::new(card));
        Ok(Plugged::new(FunctionConfig { config, device }, |_: Cpu, _| async { Ok::<(), String>(()) }))
    }
}

async fn card(io: Io) {
    let mut rings = 0_u32;
    while let Some(request) = io.next_request().await {
        match request {
            Request::Write(write) => {
                rings += 1;
                let told = write.data().bytes().and_then(|bytes| bytes.try_into().ok());
                let Some(address) = told.map(u64::from_le_bytes) else { continue };
                if let Ok(bytes) = io.dma_read(address, 8).await {
                    let _ = io.dma_write(address + APART, bytes).await;
                    let _ = io.fetch_add(address + 2 * APART, STEP).await;
                }
                let _ = io.interrupt(0).await;
            }
            Request::Read(read) => read.complete(rings),
            _ => {}
        }
    }
}

/// Memory of a host, which the host may change at any time.
#[derive(Clone)]
pub(crate) struct Ram(pub(crate) Rc<RefCell<Vec<u8>>>);

impl Backing for Ram {
    fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        to.copy_from_slice(&self.0.borrow()[offset as usize..][..to.len()]);
        true
    }

    fn write(&self, offset: u64, from: &[u8]) -> bool {
        self.0.borrow_mut()[offset as usize..][..from.len()].copy_from_slice(from);
        true
    }
}

/// The host.
pub(crate) struct Machine {
    pub(crate) handle: Handle<HostPlace>,
    pub(crate) ram: Ram,
    pub(crate) interrupts: Vec<HostInterrupt>,
    pool: PayloadPool,
    asked: u32,
    next_bus: u8,
    next_address: u32,
    msi_data: u32,
}

/// A card, as set up by the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) id: Bdf,
    pub(crate) bar: u32,
}

impl Machine {
    pub(crate) fn new(lab: &Driver, name: &str, msi_data: u32) -> Machine {
        let ram = Ram(Rc::new(RefCell::new(vec![0; 0x2000])));
        let handle = lab.handle_named(&format!("host {name}")).unwrap();
        let (interrupts, pool) = Default::default();
        let next_address = WINDOWS;
        Machine { handle, ram, interrupts, pool, asked: 0, next_bus: 1, next_address, msi_data }
    }

    /// Issues a request without an answer.
    pub(crate) fn post(&self, lab: &mut Driver, output: HostOutput) {
        lab.inject(lab.now(), &self.handle, HostRequest::issue(output).unwrap());
    }

    /// Maps all of its memory from this address.
    pub(crate) fn map(&self, lab: &mut Driver, address: u64) {
        let map = Map { address, bytes: 0x2000, access: MapAccess::ReadWrite };
        self.handle.place.check_map(&map).unwrap();
        lab.inject(lab.now(), &self.handle, HostRequest::map(map, self.ram.clone()));
    }

    /// Takes new inputs. Returns the result of the request with this ID, if it has ended.
    pub(crate) fn hear(&mut self, name: u32) -> Option<(Time, Result<Data, HostError>)> {
        let mut ended = None;
        while let Some((at, heard)) = self.handle.place.poll_input() {
            match heard {
                HostInput::Done { id, result } if id.0 == name => ended = Some((at, result)),
                HostInput::Done { .. } if name == 0 => {}
                HostInput::Interrupt(interrupt) => self.interrupts.push(interrupt),
                other => panic!("{other:?}"),
            }
        }
        ended
    }

    /// Returns an unused ID.
    pub(crate) fn name(&mut self) -> HostReadId {
        self.asked += 1;
        HostReadId(self.asked)
    }

    /// Issues a request, and waits for the answer.
    pub(crate) fn ask(
        &mut self,
        lab: &mut Driver,
        output: impl FnOnce(HostReadId) -> HostOutput,
    ) -> Result<Data, HostError> {
        let name = self.name();
        self.post(lab, output(name));
        for _ in 0..1000 {
            lab.drain(lab.now(), |_| {});
            if let Some((_, result)) = self.hear(name.0) {
                return result;
            }
        }
        panic!("request {} is not answered: {:?}", name.0, lab.failure())
    }

    fn config(&mut self, lab: &mut Driver, function: Bdf, register_dw: u16) -> Option<u32> {
        let read =
            self.ask(lab, |id| HostOutput::ConfigRead { id, function, register_dw, byte_enables: 0xf });
        Some(u32::from_le_bytes(read.ok()?.bytes()?.try_into().ok()?))
    }

    fn configure(&mut self, lab: &mut Driver, function: Bdf, register_dw: u16, value: u32) {
        let write = |id| HostOutput::ConfigWrite { id, function, register_dw, byte_enables: 0xf, value };
        self.ask(lab, write).unwrap();
    }

    /// Finds everything below `bus`, depth first, and sets it up: buses, windows, BARs, interrupts (`PCIe 5.0 §7.5.1`).
    pub(crate) fn enumerate(&mut self, lab: &mut Driver, bus: u8) -> Vec<Found> {
        let mut found = Vec::new();
        for id in (0..32).filter_map(|device| Bdf::new(bus, device, 0)) {
            if self.config(lab, id, 0).is_none_or(|ids| ids == u32::MAX) {
                continue;
            }
            let is_bridge = self.config(lab, id, 3).unwrap() >> 16 & 0x7f == 1;
            if is_bridge {
                found.extend(self.bridge(lab, id));
            } else {
                found.push(self.card(lab, id));
            }
            // Memory Space Enable, Bus Master Enable.
            self.configure(lab, id, 1, 0x6);
        }
        found
    }

    fn bridge(&mut self, lab: &mut Driver, id: Bdf) -> Vec<Found> {
        let bus = self.next_bus;
        self.next_bus += 1;
        let buses = |last: u8| u32::from(last) << 16 | u32::from(bus) << 8 | u32::from(id.bus());
        self.configure(lab, id, 6, buses(0xff));
        let base = self.next_address.next_multiple_of(1 << 20);
        self.next_address = base;
        let found = self.enumerate(lab, bus);
        self.next_address = self.next_address.next_multiple_of(1 << 20);
        self.configure(lab, id, 6, buses(self.next_bus - 1));
        self.configure(lab, id, 8, (self.next_address - 1) & 0xfff0_0000 | base >> 16);
        found
    }

    fn card(&mut self, lab: &mut Driver, id: Bdf) -> Found {
        self.configure(lab, id, 4, u32::MAX);
        let size = !(self.config(lab, id, 4).unwrap() & !0xf) + 1;
        let bar = self.next_address.next_multiple_of(size);
        self.next_address = bar + size;
        self.configure(lab, id, 4, bar);
        let mut capability = self.config(lab, id, 13).unwrap() as u16 / 4;
        while capability != 0 {
            let header = self.config(lab, id, capability).unwrap();
            match header & 0xff {
                0x05 => self.enable_msi(lab, id, capability, header),
                // AtomicOp Requester Enable (`PCIe 5.0 §7.5.3.16`).
                0x10 => self.configure(lab, id, capability + 10, 1 << 6),
                _ => {}
            }
            capability = (header >> 8 & 0xff) as u16 / 4;
        }
        Found { id, bar }
    }

    fn enable_msi(&mut self, lab: &mut Driver, id: Bdf, at: u16, header: u32) {
        let is_64_bit = header & 1 << 23 != 0;
        self.configure(lab, id, at + 1, MSI);
        self.configure(lab, id, at + if is_64_bit { 3 } else { 2 }, self.msi_data);
        self.configure(lab, id, at, header | 1 << 16);
    }

    /// Lets a card work at `address`, and waits for its interrupt.
    pub(crate) fn ring(&mut self, lab: &mut Driver, card: Found, address: u64) {
        let (before, data) = (self.interrupts.len(), self.pool.copy(&address.to_le_bytes()));
        self.post(lab, HostOutput::MmioWrite { address: card.bar.into(), data: Data::Carried(data) });
        for _ in 0..100 {
            lab.drain(lab.now(), |_| {});
            self.hear(0);
            if self.interrupts.len() > before {
                return;
            }
        }
        panic!("no interrupt has come: {:?}", lab.failure())
    }

    pub(crate) fn u64_at(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.ram.0.borrow()[offset as usize..][..8].try_into().unwrap())
    }

    pub(crate) fn put_u64(&self, offset: u64, value: u64) {
        self.ram.0.borrow_mut()[offset as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }
}
