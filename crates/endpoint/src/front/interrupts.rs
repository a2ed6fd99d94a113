// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupts and messages of a function as TLPs: MSI, MSI-X, and the messages of its device. This module does not
//! decide when messages are sent. [`intx`](super::intx) has the levels of INTx.

use super::msix::{Msix, Raised};
use super::settings::unmasked;
use super::{Function, FunctionBackend, Shared};
use config::MsiConfig;
use device::seam::{DmaOptions, OutMessage};
use tlp::message::{PM_PME, plain};
use tlp::{
    Attributes, Bdf, Body, Data, MemoryOp, MemoryRequest, Message, MessageRouting, Repr, Span, Tag, TcSet,
    Tlp, TrafficClass,
};

impl<B: FunctionBackend> Function<B> {
    pub(crate) fn interrupt(&mut self, shared: &mut Shared, vector: u16) -> Option<Tlp> {
        if !self.settings.bus_master {
            let address = self.settings.msi.map(|msi| msi.address);
            let write = |at| self.first_request(shared, MemoryOp::Write, (at, 4), 4);
            self.blocked(shared, address.and_then(write));
            return None;
        }
        match &mut self.msix {
            Some(msix) if self.settings.msix.enabled => match msix.raise(vector, self.settings.msix) {
                Raised::Send(message) => Some(self.interrupt_write(shared, message.address, message.data)),
                Raised::Pending => None,
                Raised::OutOfRange => {
                    shared.counters.interrupts_out_of_range += 1;
                    None
                }
            },
            _ => self.msi(shared, vector),
        }
    }

    /// Returns the write of an MSI: its data is Message Data with the vector in its low bits, upper 16 bits zero (`PCIe 5.0
    /// §6.1.4`).
    fn msi(&mut self, shared: &mut Shared, vector: u16) -> Option<Tlp> {
        let Some(msi) = self.settings.msi else {
            shared.counters.interrupts_not_enabled += 1;
            return None;
        };
        let granted = u16::from(msi.vectors);
        shared.counters.interrupts_out_of_range += u64::from(vector >= granted);
        let vector = vector & (granted - 1);
        if self.config.msi_mask() >> vector & 1 == 1 {
            self.config.set_msi_pending(self.config.msi_pending() | 1 << vector);
            return None;
        }
        Some(self.msi_write(shared, msi, vector))
    }

    fn msi_write(&mut self, shared: &mut Shared, msi: MsiConfig, vector: u16) -> Tlp {
        let low = u16::from(msi.vectors) - 1;
        self.interrupt_write(shared, msi.address, u32::from(msi.data & !low | vector))
    }

    fn unmasked_interrupt(&mut self, shared: &mut Shared, room: TcSet) -> Option<Tlp> {
        let control = self.settings.msix;
        if !self.settings.bus_master || !self.may_interrupt(room) {
            return None;
        }
        if control.enabled {
            let message = self.msix.as_mut()?.next_unmasked(control)?;
            return Some(self.interrupt_write(shared, message.address, message.data));
        }
        let msi = self.settings.msi?;
        let waiting = unmasked(&self.config, Some(msi));
        let vector = waiting.checked_ilog2()?;
        self.config.set_msi_pending(self.config.msi_pending() & !(1 << vector));
        self.settings.may_unmask = waiting != 1 << vector;
        Some(self.msi_write(shared, msi, vector as u16))
    }

    /// Returns whether an interrupt, which has TC0, may be sent now.
    fn may_interrupt(&self, room: TcSet) -> bool {
        let tc = TrafficClass::default();
        room.contains(tc) && self.behind.oldest_posted(tc).is_none()
    }

    /// Returns whether an interrupt that was masked may be due.
    pub(crate) fn may_interrupt_late(&self) -> bool {
        self.settings.may_unmask && self.has_pending()
    }

    /// Returns the write of an interrupt whose mask was cleared, if there is one.
    pub(crate) fn late_interrupt(&mut self, shared: &mut Shared, room: TcSet) -> Option<Tlp> {
        if self.settings.may_unmask { self.unmasked_interrupt(shared, room) } else { None }
    }

    /// Returns whether an interrupt may be pending.
    fn has_pending(&self) -> bool {
        !self.settings.msix.enabled || self.msix.as_ref().is_none_or(Msix::has_pending)
    }

    fn interrupt_write(&mut self, shared: &mut Shared, address: u64, data: u32) -> Tlp {
        shared.counters.interrupts += 1;
        let data = Data::Carried(shared.pool.copy(&data.to_le_bytes()));
        // The address is DW-aligned: one DW, all bytes enabled.
        let span = Span::covering(address & !3, 4).unwrap_or(Span::zero_length(address));
        memory_write(self.id(shared), span, data, Attributes::empty(), DmaOptions::default())
    }

    /// Sets PME_Status. Returns the PM_PME message if it must be sent now.
    pub(crate) fn pme(&mut self, shared: &mut Shared) -> Option<Tlp> {
        self.config.set_pme().then(|| self.pm_pme(shared))
    }

    /// Handles a write that sets PME_En while PME_Status is set: queues the PM_PME message.
    pub(crate) fn pme_enabled(&mut self, shared: &mut Shared) {
        let tlp = self.pm_pme(shared);
        self.behind.park(shared.stamp(), tlp);
    }

    fn pm_pme(&self, shared: &mut Shared) -> Tlp {
        shared.counters.pme_messages += 1;
        plain(self.id(shared), MessageRouting::ToRootComplex, PM_PME)
    }

    pub(crate) fn message(&mut self, shared: &mut Shared, message: OutMessage) -> Option<Tlp> {
        let OutMessage { routing, code, header, data, options, .. } = message;
        let len = data.len();
        if !len.is_multiple_of(4) || len > self.settings.mps.bytes() as usize {
            return shared.bad_output();
        }
        let (requester, tag) = (self.id(shared), Tag::default());
        let length_dw = (len > 0).then_some((len / 4) as u16);
        let body = Body::Message(Message { routing, requester, tag, code, header, length_dw });
        let attr = options.attr & self.settings.attributes;
        let repr = Repr { tc: options.tc, attr, ..Repr::new(body) };
        Some(Tlp { prefixes: options.prefixes, ..Tlp::new(repr, data) })
    }
}

/// Returns the MWr of a span.
pub(crate) fn memory_write(
    requester: Bdf,
    span: Span,
    data: Data,
    attr: Attributes,
    options: DmaOptions,
) -> Tlp {
    let request = MemoryRequest { op: MemoryOp::Write, requester, tag: Tag::default(), span };
    let DmaOptions { tc, hint, prefixes, .. } = options;
    Tlp { prefixes, ..Tlp::new(Repr { tc, attr, th: hint, ..Repr::new(Body::Memory(request)) }, data) }
}
