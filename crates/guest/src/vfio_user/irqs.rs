// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupts of a device: the event descriptor of each, and which are masked.

use super::check::{self, bad};
use super::refusal::{Legal, Refusal};
use super::wire::command::{DEVICE_GET_IRQ_INFO, DEVICE_SET_IRQS};
use super::wire::words;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Interrupt types of a PCI device, by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Irq {
    /// A wire: INTA.
    Intx = 0,
    /// MSI.
    Msi = 1,
    /// MSI-X.
    Msix = 2,
    /// An uncorrectable error.
    Error = 3,
    /// The server requests the device back.
    Request = 4,
}

/// Number of [`Irq`]s.
pub const IRQS: usize = 5;

impl Irq {
    /// All types, by index.
    pub const ALL: [Irq; IRQS] = [Irq::Intx, Irq::Msi, Irq::Msix, Irq::Error, Irq::Request];

    /// `VFIO_IRQ_INFO_EVENTFD`, plus `MASKABLE` and `AUTOMASKED` if they apply to the type.
    fn flags(self) -> u32 {
        match self {
            Irq::Intx => 0x7,
            Irq::Msi | Irq::Msix => 0x3,
            Irq::Error | Irq::Request => 0x1,
        }
    }

    fn can_be_masked(self) -> bool {
        self.flags() & 0x2 != 0
    }
}

/// A client's change of interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqChange {
    /// The interrupts got event descriptors.
    Assigned,
    /// The interrupts lost their event descriptors.
    Unassigned,
    /// The interrupts were masked.
    Masked,
    /// The interrupts were unmasked: signal those that are pending or still asserted.
    Unmasked,
    /// The client requests that the interrupts are signalled.
    Triggered,
}

/// A range of interrupts, and its change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IrqEvent {
    /// Type.
    pub irq: Irq,
    /// First interrupt.
    pub first: u32,
    /// Number of interrupts.
    pub count: u32,
    /// The change.
    pub change: IrqChange,
}

#[derive(Debug, Default)]
struct Vector {
    eventfd: Option<OwnedFd>,
    masked: bool,
}

/// All interrupts of a device.
#[derive(Debug)]
pub(super) struct Irqs {
    vectors: [Vec<Vector>; IRQS],
}

/// Bytes of the payload of DEVICE_GET_IRQ_INFO, and of its reply.
pub(super) const INFO_BYTES: usize = 16;
/// Minimum payload of DEVICE_SET_IRQS, in bytes.
pub(super) const SET_BYTES: usize = 20;

const DATA: u32 = 0x7;
const DATA_NONE: u32 = 0x1;
const DATA_BOOL: u32 = 0x2;
const DATA_EVENTFD: u32 = 0x4;
const ACTION_MASK: u32 = 0x8;
const ACTION_UNMASK: u32 = 0x10;
const ACTION_TRIGGER: u32 = 0x20;

/// A DEVICE_SET_IRQS in which each single field is legal.
struct Set<'p> {
    irq: Irq,
    data: u32,
    action: u32,
    first: u32,
    count: u32,
    /// With `DATA_BOOL`, one byte per interrupt.
    picks: &'p [u8],
}

impl Irqs {
    pub(super) fn new(counts: [u32; IRQS]) -> Irqs {
        Irqs { vectors: counts.map(|count| (0..count).map(|_| Vector::default()).collect()) }
    }

    fn of(&self, irq: Irq, n: u32) -> Option<&Vector> {
        self.vectors[irq as usize].get(n as usize)
    }

    pub(super) fn eventfd(&self, irq: Irq, n: u32) -> Option<BorrowedFd<'_>> {
        self.of(irq, n)?.eventfd.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn is_masked(&self, irq: Irq, n: u32) -> bool {
        self.of(irq, n).is_some_and(|vector| vector.masked)
    }

    /// Returns the descriptor to signal now. Masks a wire.
    pub(super) fn signal(&mut self, irq: Irq, n: u32) -> Option<BorrowedFd<'_>> {
        let vector = self.vectors[irq as usize].get_mut(n as usize)?;
        let eventfd = vector.eventfd.as_ref().filter(|_| !vector.masked)?;
        vector.masked = irq == Irq::Intx;
        Some(eventfd.as_fd())
    }

    /// Handles a DEVICE_GET_IRQ_INFO: returns flags, index and count.
    pub(super) fn info(&self, payload: &[u8]) -> Result<[u32; 3], Refusal> {
        let [argsz, flags, index, count] = words(payload, 0);
        check::argsz(DEVICE_GET_IRQ_INFO, argsz, INFO_BYTES)?;
        check::zeros(DEVICE_GET_IRQ_INFO, &[("flags", flags.into()), ("count", count.into())])?;
        let irq = irq_of(DEVICE_GET_IRQ_INFO, index)?;
        Ok([irq.flags(), index, self.vectors[irq as usize].len() as u32])
    }

    /// Executes a DEVICE_SET_IRQS. Calls `changed` for each change.
    pub(super) fn set(
        &mut self,
        payload: &[u8],
        fds: Vec<OwnedFd>,
        mut changed: impl FnMut(IrqEvent),
    ) -> Result<(), Refusal> {
        let set = self.read(payload, fds.len())?;
        let vectors = &mut self.vectors[set.irq as usize];
        if set.count == 0 {
            // The client takes back all descriptors of the type.
            vectors.iter_mut().for_each(|vector| *vector = Vector::default());
            let count = vectors.len() as u32;
            changed(IrqEvent { irq: set.irq, first: 0, count, change: IrqChange::Unassigned });
            return Ok(());
        }
        let Set { irq, first, count, .. } = set;
        if set.data == DATA_EVENTFD {
            let change = if fds.is_empty() { IrqChange::Unassigned } else { IrqChange::Assigned };
            let mut fds = fds.into_iter();
            let those = &mut vectors[first as usize..(first + count) as usize];
            those.iter_mut().for_each(|vector| vector.eventfd = fds.next());
            changed(IrqEvent { irq, first, count, change });
            return Ok(());
        }
        let change = match set.action {
            ACTION_MASK => IrqChange::Masked,
            ACTION_UNMASK => IrqChange::Unmasked,
            _ => IrqChange::Triggered,
        };
        let mut act = |first: u32, count: u32| {
            if change != IrqChange::Triggered {
                let those = &mut vectors[first as usize..(first + count) as usize];
                those.iter_mut().for_each(|vector| vector.masked = change == IrqChange::Masked);
            }
            changed(IrqEvent { irq, first, count, change });
        };
        if set.data == DATA_NONE {
            act(first, count);
        } else {
            let picked = (first..).zip(set.picks).filter(|(_, pick)| **pick != 0);
            picked.for_each(|(n, _)| act(n, 1));
        }
        Ok(())
    }

    fn read<'p>(&self, payload: &'p [u8], fds: usize) -> Result<Set<'p>, Refusal> {
        let refuse = |field, value, legal| Err(bad(DEVICE_SET_IRQS, field, value, legal));
        let [argsz, flags, index, first, count] = words(payload, 0);
        let irq = irq_of(DEVICE_SET_IRQS, index)?;
        let (data, action) = (flags & DATA, flags & !DATA);
        let is_known = matches!(data, DATA_NONE | DATA_BOOL | DATA_EVENTFD)
            && matches!(action, ACTION_MASK | ACTION_UNMASK | ACTION_TRIGGER);
        if !is_known {
            return refuse(
                "flags",
                flags,
                Legal::Text("one of 0x1, 0x2 and 0x4, with one of 0x8, 0x10 and 0x20"),
            );
        }
        if action != ACTION_TRIGGER && (!irq.can_be_masked() || data == DATA_EVENTFD) {
            return refuse("flags", flags, Legal::Text("an action of this type, without descriptors"));
        }
        let size = SET_BYTES + if data == DATA_BOOL { count as usize } else { 0 };
        check::length(DEVICE_SET_IRQS, payload, size)?;
        if argsz as usize != size {
            return refuse("argsz", argsz, Legal::Is(size as u64));
        }
        let all = self.vectors[irq as usize].len() as u32;
        if first > all || count > all - first {
            return refuse("start and count", first.saturating_add(count), Legal::To(all.into()));
        }
        if count == 0 && (first != 0 || data != DATA_NONE || action != ACTION_TRIGGER) {
            return refuse("count", count, Legal::From(1));
        }
        let most = if data == DATA_EVENTFD { count as usize } else { 0 };
        if fds != 0 && fds != most {
            return Err(Refusal::Descriptors { command: DEVICE_SET_IRQS, fds, most });
        }
        Ok(Set { irq, data, action, first, count, picks: &payload[SET_BYTES..] })
    }
}

fn irq_of(command: u16, index: u32) -> Result<Irq, Refusal> {
    let irq = Irq::ALL.get(index as usize).copied();
    irq.ok_or_else(|| bad(command, "index", index, Legal::To(IRQS as u64 - 1)))
}
