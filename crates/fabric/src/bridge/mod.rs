// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bridge: the type 1 function of every port of a switch and every root port (`PCIe 5.0 §7.3`, §7.5.1.3). It owns a
//! configuration space, answers configuration requests, logs errors, determines the claimed addresses and buses, and
//! raises interrupts. Its owner queues, sends and routes.
//!
//! - [`routes`]: the claims of the bridge, and the checks of Access Control Services;
//! - [`answers`]: the TLPs that the bridge makes;
//! - [`owner`]: what links tell the owner of a bridge;
//! - [`errors`]: errors, their messages, and containment;
//! - [`refusals`]: the rules that refused TLPs break;
//! - [`root`]: the further duties of root ports.

pub(crate) mod answers;
mod errors;
mod held;
mod owner;
pub(crate) mod refusals;
mod root;
mod routes;

pub(crate) use errors::DeadEnd;
pub use held::Action;
pub(crate) use held::DownReasons;
pub use owner::BridgeOwner;
use routes::REROUTE;
pub(crate) use routes::{PeerToPeer, Routes};

use config::cap::pcie::SLOT_CAPABILITIES;
use config::ext::dpc;
use config::{ConfigSpace, Effects, ResetScope, SlotEvent};
use tlp::{Access, Bdf, ConfigRequest, Data, PayloadPool, Rate, Span, Status, Tlp, Width};

/// Interrupt sources, as bits of [`Bridge::levels`].
mod source {
    /// Events of the slot.
    pub(super) const SLOT: u8 = 1 << 0;
    /// Downstream Port Containment.
    pub(super) const CONTAINMENT: u8 = 1 << 1;
    /// Error messages that a root port has received.
    pub(super) const ROOT_ERROR: u8 = 1 << 2;
    /// PMEs that a root port has received.
    pub(super) const PME: u8 = 1 << 3;
    /// The link below has retrained.
    pub(super) const BANDWIDTH: u8 = 1 << 4;
}

/// A type 1 function, without its link and queues.
pub(crate) struct Bridge {
    space: ConfigSpace,
    routes: Routes,
    /// Interrupts that are asserted, as bits of [`source`]; with MSI enabled they have been sent.
    levels: u8,
}

impl Bridge {
    /// A bridge with this configuration space; `None` if it has a type 0 header.
    pub(crate) fn new(space: ConfigSpace) -> Option<Bridge> {
        let routes = Routes::of(&space, Bdf::default())?;
        Some(Bridge { space, routes, levels: 0 })
    }

    pub(crate) fn space(&self) -> &ConfigSpace {
        &self.space
    }

    /// Returns the registers, to set fields that requests cannot write.
    pub(crate) fn space_mut(&mut self) -> &mut ConfigSpace {
        &mut self.space
    }

    /// ID of the bridge's function.
    pub(crate) fn id(&self) -> Bdf {
        self.routes.id
    }

    /// Changes the bus and device number.
    pub(crate) fn set_id(&mut self, id: Bdf) {
        self.routes.id = id;
    }

    /// Returns the claims of the bridge, valid until the next configuration request, reset or change of its ID.
    pub(crate) fn routes(&self) -> Routes {
        self.routes
    }

    fn refresh(&mut self) {
        if let Some(routes) = Routes::of(&self.space, self.routes.id) {
            self.routes = routes;
        }
    }

    /// Executes a configuration request to the bridge. Returns the completion, and the effects for the owner.
    pub(crate) fn config_request(
        &mut self,
        request: &Tlp,
        c: &ConfigRequest,
        payloads: &PayloadPool,
    ) -> (Option<Tlp>, Effects) {
        if c.op == Access::Read {
            let value = self.space.read(c.register_dw);
            return (answers::completion_with_dw(request, self.routes.id, value, payloads), Effects::empty());
        }
        let value = written(request, c.first_be);
        let effects = self.space.write(c.register_dw, c.first_be, value);
        if effects.intersects(REROUTE) {
            self.refresh();
        }
        self.complete_slot_command(effects);
        (answers::completion(request, self.routes.id, Status::Success), effects)
    }

    /// Completes a command to the slot at once (`PCIe 5.0 §6.7.3.2`).
    fn complete_slot_command(&mut self, effects: Effects) {
        if effects.contains(Effects::SLOT_CONTROL) && self.space.completes_slot_commands() {
            self.space.set_slot_event(SlotEvent::CommandCompleted);
        }
    }

    /// Resets the registers in `scope`.
    pub(crate) fn reset(&mut self, scope: ResetScope) {
        self.space.reset(scope);
        self.levels = 0;
        self.refresh();
    }

    /// Sets the state of the link in the registers.
    pub(crate) fn set_link(&mut self, up: bool, rate: Rate, width: Width) {
        self.space.set_link_status(rate, width, up, up && self.space.link_training());
    }

    /// Returns the message that carries the slot's power limit down the link; `None` if there is no slot.
    pub(crate) fn slot_power_limit_message(&self, payloads: &PayloadPool) -> Option<Tlp> {
        let (value, scale) = self.space.slot_power_limit()?;
        Some(answers::slot_power_limit(self.id(), value, scale, payloads))
    }

    /// Stores the limit of a Set_Slot_Power_Limit message that the port above has sent.
    pub(crate) fn capture_slot_power_limit(&mut self, data: &Data) {
        if let Some(&[value, scale, ..]) = data.bytes() {
            self.space.set_slot_power_limit(value, scale & 0b11);
        }
    }

    /// Whether Power Controller Control is off; never if the slot has no power controller.
    pub(crate) fn slot_is_off(&self) -> bool {
        self.space.slot().is_some_and(|slot| !slot.powered)
    }

    /// Whether a link that goes down by itself is an error. It is no error below a slot with Hot-Plug Capable and
    /// Hot-Plug Surprise (`PCIe 5.0 §3.2.1`).
    pub(crate) fn surprise_is_error(&self) -> bool {
        const HOT_PLUG_SURPRISE: u32 = 1 << 5 | 1 << 6;
        let capabilities =
            self.space.pcie_capability().map_or(0, |at| self.space.read(at + SLOT_CAPABILITIES));
        !self.space.has_slot() || capabilities & HOT_PLUG_SURPRISE != HOT_PLUG_SURPRISE
    }

    /// Records an event at the slot below. The caller polls interrupts afterwards.
    pub(crate) fn slot_event(&mut self, event: SlotEvent) {
        // If the event interrupts, the interrupt level changes.
        let _ = self.space.set_slot_event(event);
    }

    /// The asserted interrupts with their vectors.
    fn due(&self) -> [(u8, Option<u8>); 5] {
        let slot = self.space.slot().filter(|slot| slot.interrupt);
        let bandwidth = self.space.link_bandwidth_interrupt();
        [
            (source::SLOT, slot.map(|_| self.space.message_number())),
            (source::CONTAINMENT, self.containment_interrupt()),
            (source::ROOT_ERROR, self.error_interrupt()),
            (source::PME, self.pme_interrupt()),
            (source::BANDWIDTH, bandwidth.then(|| self.space.message_number())),
        ]
    }

    /// DPC Interrupt Message Number, while DPC Interrupt Status and its enable are set (`PCIe 5.0 §6.2.10.1`).
    fn containment_interrupt(&self) -> Option<u8> {
        let at = self.space.extended_capability(dpc::ID)?;
        let control = self.space.read(at + dpc::CONTROL);
        let status = self.space.read(at + dpc::STATUS);
        let due = control & dpc::control::INTERRUPT != 0 && status & dpc::status::INTERRUPT != 0;
        due.then_some((control & dpc::control::INTERRUPT_MESSAGE) as u8)
    }

    /// The next interrupt to send as an MSI, if MSI and Bus Master Enable are set.
    pub(crate) fn poll_interrupt(&mut self, payloads: &PayloadPool) -> Option<Tlp> {
        for (source, vector) in self.due() {
            let was = self.levels & source != 0;
            match vector {
                None => self.levels &= !source,
                Some(_) if was => {}
                Some(vector) => {
                    self.levels |= source;
                    if let Some(msi) = self.msi(vector, payloads) {
                        return Some(msi);
                    }
                }
            }
        }
        None
    }

    fn msi(&self, vector: u8, payloads: &PayloadPool) -> Option<Tlp> {
        let msi = self.space.msi().filter(|_| self.space.bus_master_enable())?;
        // The function may change as many low bits as vectors were granted (`PCIe 5.0 §6.1.4.5`).
        let low = u16::from(msi.vectors).saturating_sub(1);
        answers::msi(self.routes.id, msi.address, msi.data & !low | u16::from(vector) & low, payloads)
    }

    /// The asserted wires, INTA (bit 0) to INTD (bit 3). Zero with MSI or Interrupt Disable (`PCIe 5.0 §6.1.2`).
    pub(crate) fn wires(&mut self) -> u8 {
        let due = self.due().iter().any(|(_, vector)| vector.is_some());
        let wanted = due && self.space.msi().is_none();
        self.space.set_interrupt_status(wanted);
        match self.space.interrupt_pin() {
            Some(pin) if wanted && !self.space.interrupt_disable() => 1 << (pin - 1),
            _ => 0,
        }
    }
}

/// The DW of a configuration write, its bytes in their lanes; bytes that are not enabled are zero.
fn written(request: &Tlp, first_be: u8) -> u32 {
    let Some(bytes) = request.data.bytes() else { return 0 };
    let lead = if bytes.len() == 4 { 0 } else { Span::in_dw(0, first_be).lead() as usize };
    let mut dw = [0; 4];
    for (lane, byte) in dw.iter_mut().skip(lead).zip(bytes) {
        *lane = *byte;
    }
    u32::from_le_bytes(dw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Builder, Identity, PcieLayout, PortType, SlotLayout};

    /// `PCIe 5.0 §3.2.1`: with Hot-Plug Capable and Hot-Plug Surprise both set, no transition to DL_Inactive is an error.
    #[test]
    fn surprise_down_below_hot_plug_surprise_slot_is_no_error() {
        let rows = [
            (None, true),
            (Some((false, false)), true),
            (Some((true, false)), true),
            (Some((false, true)), true),
            (Some((true, true)), false),
        ];
        for (slot, is_error) in rows {
            let slot =
                slot.map(|(hot_plug, surprise)| SlotLayout { hot_plug, surprise, ..SlotLayout::default() });
            let pcie = PcieLayout { slot, ..PcieLayout::port(PortType::Downstream) };
            let space = Builder::type1(Identity::default()).pcie(pcie).build().unwrap();
            assert_eq!(Bridge::new(space).unwrap().surprise_is_error(), is_error, "{slot:?}");
        }
    }
}
