// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What virtual machines have of a host of a lab: one a VMD that carries the whole hierarchy, and others virtual functions of it; or one of
//! them all functions, one by one. The VMD's client is the first, those of functions follow.

use super::client::Whose;
use super::handover::Handover;
use super::placing::{self, Placed, Places, Placing, Resetting};
use super::virtual_functions::{Site, Written};
use config::header::type1;
use guest::direct::{CONFIG_BYTES, Direct, Facts, Outcome};
use guest::vfio_user::{Irq, IrqEvent, Region, Shape, Token};
use guest::vmd::{Vmd, region::CFGBAR};
use host::{Cpu, HostError, HostInterrupt, HostOutput, HostReadId};
use tlp::{Bdf, Data, PayloadPool};

/// Most bytes of one access of the machine: each DW of configuration space is a request of its own.
const MAX_TRANSFER: u32 = 1 << 16;
/// Registers of a function's configuration space, a DW each.
const REGISTERS: u64 = CONFIG_BYTES / 4;
/// What tells requests to functions from those of a VMD.
const OF_FUNCTIONS: u32 = 1 << 30;

/// An access: by which client, and its name there.
pub(super) type Who = (usize, Token);

/// What firmware does before the machine begins.
enum Firmware {
    /// It sets the root ports of a hierarchy.
    HandsOver(Handover),
    /// It puts functions into their places.
    Places(Box<Places>),
}

pub(super) struct Below {
    vmd: Option<Box<Vmd<Who>>>,
    firmware: Firmware,
    placed: Vec<Placed>,
    direct: Direct<Who>,
}

impl Below {
    /// A hierarchy, with what firmware leaves in its root ports.
    pub(super) fn vmd(vmd: Vmd<Who>, handover: Handover) -> Below {
        let direct = Direct::new(Vec::new(), PayloadPool::new());
        Below {
            vmd: Some(Box::new(vmd)),
            firmware: Firmware::HandsOver(handover),
            placed: Vec::new(),
            direct,
        }
    }

    /// Functions that are yet to be placed.
    pub(super) fn direct(places: Places) -> Below {
        let direct = Direct::new(Vec::new(), PayloadPool::new());
        Below { vmd: None, firmware: Firmware::Places(Box::new(places)), placed: Vec::new(), direct }
    }

    /// What functions are called, in the order of their clients.
    pub(super) fn names(&self) -> Vec<String> {
        self.placed.iter().map(|placed| placed.name.clone()).collect()
    }

    /// The number of the function that client `n` is, if it is one.
    fn function(&self, n: usize) -> Option<usize> {
        n.checked_sub(self.vmd.is_some().into())
    }

    /// The client of a function.
    fn client(&self, function: usize) -> usize {
        function + usize::from(self.vmd.is_some())
    }

    /// The device that client `n` sees.
    pub(super) fn shape(&self, n: usize) -> Shape {
        let (None, Some(vmd)) = (self.function(n), &self.vmd) else {
            let shape = self.function(n).map_or_else(Shape::new, |n| self.direct.shape(n));
            return Shape { max_transfer: MAX_TRANSFER, ..shape };
        };
        let mut shape = Shape { max_transfer: MAX_TRANSFER, ..Shape::new() };
        for (n, region) in (0..).zip(&mut shape.regions) {
            let size = vmd.region_bytes(n);
            *region = Region { size, readable: size > 0, writable: size > 0 };
        }
        shape.irqs[Irq::Msix as usize] = vmd.vectors().into();
        shape
    }

    /// Whose addresses client `n` maps.
    pub(super) fn whose(&self, n: usize) -> Whose {
        match self.function(n) {
            None => Whose::All,
            Some(n) if self.direct.is_there(n) => Whose::Of(self.direct.facts(n).function),
            Some(_) => Whose::Nobody,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.vmd.as_ref().is_none_or(|vmd| vmd.accesses.has_room()) && self.direct.has_room()
    }

    pub(super) fn poll_request(&mut self) -> Option<HostOutput> {
        if let Some(request) = self.vmd.as_mut().and_then(|vmd| vmd.accesses.poll_request()) {
            return Some(request);
        }
        let mut request = self.direct.poll_request()?;
        if let Some(id) = request.id_mut() {
            id.0 |= OF_FUNCTIONS;
        }
        Some(request)
    }

    pub(super) fn handle(&mut self, id: HostReadId, result: &Result<Data, HostError>) {
        match &mut self.vmd {
            Some(vmd) if id.0 & OF_FUNCTIONS == 0 => vmd.accesses.handle(id, result),
            _ => self.direct.handle(HostReadId(id.0 & !OF_FUNCTIONS), result),
        }
    }

    pub(super) fn poll(&mut self) -> Option<Outcome<Who>> {
        if let Some(answer) = self.vmd.as_mut().and_then(|vmd| vmd.accesses.poll_answer()) {
            return Some(Outcome::Answer { token: answer.token, bytes: answer.bytes });
        }
        Some(match self.direct.poll()? {
            Outcome::Signal { function, irq, n } => {
                Outcome::Signal { function: self.client(function), irq, n }
            }
            answer => answer,
        })
    }

    pub(super) fn read(&mut self, who: Who, region: usize, offset: u64, len: u32) {
        match (self.function(who.0), &mut self.vmd) {
            (Some(n), _) => self.direct.read(n, who, region, offset, len),
            (None, Some(vmd)) => vmd.read(who, region as u32, offset, len),
            (None, None) => {}
        }
    }

    /// `Some`: the function is to be [reset](Self::reset) before the access is ended.
    pub(super) fn write(&mut self, who: Who, region: usize, offset: u64, bytes: &[u8]) -> Option<Who> {
        match (self.function(who.0), &mut self.vmd) {
            (Some(n), _) => return self.direct.write(n, who, region, offset, bytes),
            (None, Some(vmd)) => vmd.write(who, region as u32, offset, bytes),
            (None, None) => {}
        }
        None
    }

    pub(super) fn irqs(&mut self, n: usize, event: IrqEvent) {
        if let Some(n) = self.function(n) {
            self.direct.irqs(n, event);
        }
    }

    /// Whose interrupt it is: the client, the type, and which of them.
    pub(super) fn interrupt(&mut self, interrupt: &HostInterrupt) -> Option<(usize, Irq, u32)> {
        if let Some((function, irq, n)) = self.direct.interrupt(interrupt) {
            return Some((self.client(function), irq, n));
        }
        let vector = self.vmd.as_ref()?.vector(interrupt)?;
        Some((0, Irq::Msix, vector.into()))
    }

    /// Whether an interrupt that was nobody's at once may still be somebody's.
    pub(super) fn takes(&self, interrupt: &HostInterrupt) -> bool {
        self.vmd.is_none() && matches!(interrupt, HostInterrupt::Wire { .. })
    }

    /// The client has gone.
    pub(super) fn leave(&mut self, n: usize) {
        match (self.function(n), &mut self.vmd) {
            (Some(n), _) => self.direct.leave(n),
            (None, Some(vmd)) => {
                vmd.accesses.abandon();
                vmd.reset();
            }
            (None, None) => {}
        }
    }

    /// Whether client `n` has a whole hierarchy.
    pub(super) fn is_hierarchy(&self, n: usize) -> bool {
        self.function(n).is_none()
    }

    /// Resets what client `n` has; host code that does it where that is a function which is somewhere.
    pub(super) fn reset(&mut self, n: usize) -> Option<impl FnOnce(Cpu) -> Resetting + use<>> {
        let Some(n) = self.function(n) else {
            self.vmd.iter_mut().for_each(|vmd| vmd.reset());
            return None;
        };
        self.direct.was_reset(n);
        self.placed.get(n).filter(|_| self.direct.is_there(n)).map(placing::reset)
    }

    /// Host code: what firmware does before the machine begins.
    pub(super) fn code(&self) -> Box<dyn FnOnce(Cpu) -> Placing> {
        match &self.firmware {
            Firmware::HandsOver(handover) => Box::new(handover.code()),
            Firmware::Places(places) => Box::new(places.code()),
        }
    }

    /// They are there. The machine has those that were there first; one that has gone since stays where it was.
    pub(super) fn placed(&mut self, found: Vec<Placed>) {
        if self.direct.is_empty() {
            self.direct = Direct::new(found.iter().map(|f| f.facts.clone()).collect(), PayloadPool::new());
            self.placed = found;
            return;
        }
        for (n, old) in self.placed.iter_mut().enumerate() {
            if let Some(new) = found.iter().find(|new| new.name == old.name) {
                self.direct.moved(n, new.facts.clone());
                *old = new.clone();
            }
        }
    }

    /// Functions of a hierarchy whose clients have to find them first: as they were once.
    pub(super) fn known(&mut self, found: Vec<Placed>) {
        self.placed(found);
        (0..self.direct.len()).for_each(|n| self.direct.lost(n));
    }

    /// What a write of client `n` writes of registers by which virtual functions are where they are: bus numbers, and SR-IOV capabilities.
    pub(super) fn moving(&self, n: usize, region: usize, offset: u64, bytes: &[u8]) -> Vec<Written> {
        if !self.is_hierarchy(n) || region as u32 != CFGBAR {
            return Vec::new();
        }
        let matters = |register: u16| {
            let is_theirs = |placed: &Placed| placed.site.as_ref().is_some_and(|site| site.covers(register));
            register == type1::BUS_NUMBERS || self.placed.iter().any(is_theirs)
        };
        let end = offset + bytes.len() as u64;
        let registers = (offset / 4..end.div_ceil(4)).map(|dw| {
            let mut written = Written {
                function: Bdf::from_bits((dw / REGISTERS) as u16),
                register_dw: (dw % REGISTERS) as u16,
                value: 0,
                mask: 0,
            };
            for at in (dw * 4).max(offset)..(dw * 4 + 4).min(end) {
                let shift = at % 4 * 8;
                written.value |= u32::from(bytes[(at - offset) as usize]) << shift;
                written.mask |= 0xff << shift;
            }
            written
        });
        registers.filter(|written| matters(written.register_dw)).collect()
    }

    /// How the virtual function of client `n` is found again.
    pub(super) fn site(&self, n: usize) -> Option<(Site, Facts)> {
        let placed = self.placed.get(self.function(n)?)?;
        Some((placed.site.clone()?, placed.facts.clone()))
    }

    /// The virtual function of client `n` was found there.
    pub(super) fn found(&mut self, n: usize, facts: Facts) {
        let Some(n) = self.function(n) else { return };
        self.placed[n].facts = facts.clone();
        self.direct.moved(n, facts);
    }

    /// The function of client `n` is nowhere, until it is found again.
    pub(super) fn lost(&mut self, n: usize) {
        if let Some(n) = self.function(n) {
            self.direct.lost(n);
        }
    }
}
