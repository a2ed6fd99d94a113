// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a virtual machine has of a lab: a VMD that carries the whole hierarchy, or functions one by one.

use super::placing::{self, Placed, Places, Placing, Resetting};
use guest::direct::{Direct, Outcome};
use guest::vfio_user::{Irq, IrqEvent, Region, Shape, Token};
use guest::vmd::Vmd;
use host::{Cpu, HostError, HostInterrupt, HostOutput, HostReadId};
use tlp::{Bdf, Data, PayloadPool};

/// Most bytes of one access of the machine: each DW of configuration space is a request of its own.
const MAX_TRANSFER: u32 = 1 << 16;

/// An access: by which client, and its name there.
pub(super) type Who = (usize, Token);

pub(super) enum Below {
    Vmd(Box<Vmd<Who>>),
    Direct(Box<Functions>),
}

pub(super) struct Functions {
    places: Places,
    placed: Vec<Placed>,
    direct: Direct<Who>,
}

impl Below {
    /// Functions that are yet to be placed.
    pub(super) fn direct(places: Places) -> Below {
        let direct = Direct::new(Vec::new(), PayloadPool::new());
        Below::Direct(Box::new(Functions { places, placed: Vec::new(), direct }))
    }

    /// What functions are called; a VMD has no name.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + use<> {
        let placed = match self {
            Below::Vmd(_) => &[][..],
            Below::Direct(functions) => &functions.placed,
        };
        placed.iter().map(|placed| placed.name.clone()).collect::<Vec<_>>().into_iter()
    }

    /// The device that client `n` sees.
    pub(super) fn shape(&self, n: usize) -> Shape {
        let vmd = match self {
            Below::Direct(functions) => {
                return Shape { max_transfer: MAX_TRANSFER, ..functions.direct.shape(n) };
            }
            Below::Vmd(vmd) => vmd,
        };
        let mut shape = Shape { max_transfer: MAX_TRANSFER, ..Shape::new() };
        for (n, region) in (0..).zip(&mut shape.regions) {
            let size = vmd.region_bytes(n);
            *region = Region { size, readable: size > 0, writable: size > 0 };
        }
        shape.irqs[Irq::Msix as usize] = vmd.vectors().into();
        shape
    }

    /// The function that client `n` is, if it is one.
    pub(super) fn requester(&self, n: usize) -> Option<Bdf> {
        match self {
            Below::Vmd(_) => None,
            Below::Direct(functions) => Some(functions.direct.facts(n).function),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        match self {
            Below::Vmd(vmd) => vmd.accesses.has_room(),
            Below::Direct(functions) => functions.direct.has_room(),
        }
    }

    pub(super) fn poll_request(&mut self) -> Option<HostOutput> {
        match self {
            Below::Vmd(vmd) => vmd.accesses.poll_request(),
            Below::Direct(functions) => functions.direct.poll_request(),
        }
    }

    pub(super) fn handle(&mut self, id: HostReadId, result: &Result<Data, HostError>) {
        match self {
            Below::Vmd(vmd) => vmd.accesses.handle(id, result),
            Below::Direct(functions) => functions.direct.handle(id, result),
        }
    }

    pub(super) fn poll(&mut self) -> Option<Outcome<Who>> {
        match self {
            Below::Vmd(vmd) => {
                let answer = vmd.accesses.poll_answer()?;
                Some(Outcome::Answer { token: answer.token, bytes: answer.bytes })
            }
            Below::Direct(functions) => functions.direct.poll(),
        }
    }

    pub(super) fn read(&mut self, who: Who, region: usize, offset: u64, len: u32) {
        match self {
            Below::Vmd(vmd) => vmd.read(who, region as u32, offset, len),
            Below::Direct(functions) => functions.direct.read(who.0, who, region, offset, len),
        }
    }

    /// `Some`: the function is to be [reset](Self::reset) before the access is ended.
    pub(super) fn write(&mut self, who: Who, region: usize, offset: u64, bytes: &[u8]) -> Option<Who> {
        match self {
            Below::Vmd(vmd) => {
                vmd.write(who, region as u32, offset, bytes);
                None
            }
            Below::Direct(functions) => functions.direct.write(who.0, who, region, offset, bytes),
        }
    }

    pub(super) fn irqs(&mut self, n: usize, event: IrqEvent) {
        if let Below::Direct(functions) = self {
            functions.direct.irqs(n, event);
        }
    }

    /// Whose interrupt it is: the client, the type, and which of them.
    pub(super) fn interrupt(&mut self, interrupt: &HostInterrupt) -> Option<(usize, Irq, u32)> {
        match self {
            Below::Vmd(vmd) => Some((0, Irq::Msix, vmd.vector(interrupt)?.into())),
            Below::Direct(functions) => functions.direct.interrupt(interrupt),
        }
    }

    /// Whether an interrupt that was nobody's at once may still be somebody's.
    pub(super) fn takes(&self, interrupt: &HostInterrupt) -> bool {
        matches!((self, interrupt), (Below::Direct(_), HostInterrupt::Wire { .. }))
    }

    /// The client has gone.
    pub(super) fn leave(&mut self, n: usize) {
        match self {
            Below::Vmd(vmd) => {
                vmd.accesses.abandon();
                vmd.reset();
            }
            Below::Direct(functions) => functions.direct.leave(n),
        }
    }

    /// Resets what client `n` has; host code that does it where that is a function.
    pub(super) fn reset(&mut self, n: usize) -> Option<impl FnOnce(Cpu) -> Resetting + use<>> {
        match self {
            Below::Vmd(vmd) => {
                vmd.reset();
                None
            }
            Below::Direct(functions) => {
                functions.direct.was_reset(n);
                functions.placed.get(n).map(placing::reset)
            }
        }
    }

    /// Host code that puts functions into their places.
    pub(super) fn code(&self) -> Option<impl FnOnce(Cpu) -> Placing + use<>> {
        match self {
            Below::Vmd(_) => None,
            Below::Direct(functions) => Some(functions.places.code()),
        }
    }

    /// They are there. The machine has those that were there first; one that has gone since stays where it was.
    pub(super) fn placed(&mut self, found: Vec<Placed>) {
        let Below::Direct(functions) = self else { return };
        let Functions { placed, direct, .. } = &mut **functions;
        if direct.is_empty() {
            *direct = Direct::new(found.iter().map(|f| f.facts.clone()).collect(), PayloadPool::new());
            *placed = found;
            return;
        }
        for (n, old) in placed.iter_mut().enumerate() {
            if let Some(new) = found.iter().find(|new| new.name == old.name) {
                direct.moved(n, new.facts.clone());
                *old = new.clone();
            }
        }
    }
}
