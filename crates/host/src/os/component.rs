// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Components of the hierarchy that the host serves: devices in slots, and switches below hot-plug capable ports.

use super::boot::ComponentTasks;
use super::driver::{DriverFuture, Task};
use super::services::Services;
use super::slot_port::SlotPort;
use crate::DriverError;
use crate::firmware::{Function, Path, System};
use device::OutMessage;
use std::rc::Rc;
use tlp::message::VENDOR_DEFINED_TYPE_1;
use tlp::{Bdf, MessageRouting, Time};

/// The host's work for a component.
pub enum Role {
    /// Runs the task of the device in the slot.
    Device(Task),
    /// Serves the components below a switch. The components below it are lost together with it.
    Switch(Vec<Rc<Component>>),
}

/// A device in a slot, or a switch whose port above is hot-plug capable.
pub struct Component {
    /// Name of the slot or switch.
    pub name: String,
    /// Path of its function 0.
    pub path: Path,
    /// ID of a device that enumeration does not find.
    pub id: Bdf,
    /// The host's work for this device.
    pub role: Role,
    /// Time of the last event in a hot-plug capable slot; its hot-plug driver does not end earlier. `None` if the slot is not hot-plug
    /// capable.
    pub hot_plug: Option<Time>,
}

impl Component {
    /// Starts the driver of the function that enumeration has found.
    ///
    /// # Errors
    /// Names the missing part.
    pub(super) async fn start(
        &self,
        host: &Rc<Services>,
        system: &System,
    ) -> Result<DriverFuture, DriverError> {
        let cpu = &host.cpu;
        let function = || system.at_path(&self.path).ok_or("no function answers");
        Ok(match &self.role {
            Role::Device(Task::Host(task)) => {
                self.check_bus(system)?;
                cpu.send_message(self.id, start_message(self.id)).await;
                task(cpu.clone())
            }
            Role::Device(Task::Driver(driver)) => driver(cpu.clone(), function()?.found),
            Role::Device(Task::Functions(driver)) => {
                let function = function()?;
                let virtual_ones = system.vfs_of(function.bdf()).map(|f| f.found);
                let all = std::iter::once(function.found).chain(virtual_ones).collect();
                driver(cpu.clone(), all)
            }
            Role::Switch(components) => {
                function()?;
                Box::pin(ComponentTasks::start(host, components, system).ended())
            }
        })
    }

    /// Path of the port above.
    pub(super) fn port(&self) -> Path {
        Path(self.path.0[..self.path.0.len().saturating_sub(1)].to_vec())
    }

    /// Checks the bus of a device that accepts no configuration requests: its ID is fixed.
    fn check_bus(&self, system: &System) -> Result<(), DriverError> {
        let bridge = system.at_path(&self.port()).and_then(|f| f.bridge);
        match bridge.map(|b| b.secondary) {
            Some(bus) if bus == self.id.bus() => Ok(()),
            Some(bus) => Err(format!("its bus is {bus:#04x}, but its device is {}", self.id).into()),
            None => Err("no port leads to it".into()),
        }
    }

    /// Lists this component and all components below it.
    pub(super) fn all(&self) -> Vec<&Component> {
        let below: &[Rc<Component>] =
            if let Role::Switch(components) = &self.role { components } else { &[] };
        std::iter::once(self).chain(below.iter().flat_map(|component| component.all())).collect()
    }

    /// Returns true if the component is unchanged since enumeration; always true for a device that enumeration does not find.
    pub(super) async fn is_as_found(&self, host: &Services, found: &System) -> bool {
        let found_there = found.at_path(&self.path).is_some();
        let Some(port) = found.at_path(&self.port()).filter(|_| found_there) else { return true };
        found.is_still_below(&host.cpu, port.bdf()).await
    }

    /// Returns true if there is something to drive: a function, or a device without functions whose link is up.
    pub(super) async fn is_present(
        &self,
        host: &Services,
        system: &System,
        port: &Function,
    ) -> Result<bool, DriverError> {
        match self.role {
            Role::Device(Task::Host(_)) => Ok(SlotPort::new(&host.cpu, port)?.status().await?.link_active),
            _ => Ok(system.at_path(&self.path).is_some()),
        }
    }
}

/// Returns the message that starts the device `id`, which enumeration does not find.
fn start_message(id: Bdf) -> OutMessage {
    let [high, low] = id.bits().to_be_bytes();
    let mut message = OutMessage::new(MessageRouting::ById, VENDOR_DEFINED_TYPE_1);
    message.header[..2].copy_from_slice(&[high, low]);
    message
}
