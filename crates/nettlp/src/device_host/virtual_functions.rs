// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual functions of a hosted device: the endpoint's SR-IOV capability, set as in the adapter's host (`PCIe 5.0 §9.3.3`).

use super::vectors::Interrupts;
use super::{DeviceHost, DeviceHostError, DeviceLocation, Vectors};
use crate::carrier::Carrier;
use config::ext::sriov::{self, control};
use config::header::{self, command};
use config::{ConfigSpace, VfBarWindow};
use device::Device;
use endpoint::{Endpoint, VirtualFunctions};
use tlp::{Bdf, PayloadPool, Time};

impl<C: Carrier> DeviceHost<C> {
    /// Adds the virtual functions of the device. `places` are those of the adapter, in order. It needs as many as the device has.
    ///
    /// # Errors
    /// If the carrier can lose datagrams, or an ID or an address differs from that in the adapter.
    pub fn with_virtual_functions(
        mut self,
        functions: VirtualFunctions,
        places: &[DeviceLocation],
    ) -> Result<DeviceHost<C>, DeviceHostError> {
        if self.reads.is_some() {
            return Err(DeviceHostError::Ports);
        }
        self.virtual_vectors = places.iter().map(|place| Vectors::new(place.vectors)).collect();
        let functions = with_interrupts(functions, self.virtual_vectors.clone(), self.pool.clone());
        self.endpoint = self.endpoint.with_virtual_functions(0, functions)?;
        enable(&mut self.endpoint, self.bar, places)?;
        Ok(self)
    }
}

/// Turns the interrupts of each virtual function into writes to the addresses in its own table.
fn with_interrupts(functions: VirtualFunctions, tables: Vec<Vectors>, pool: PayloadPool) -> VirtualFunctions {
    let VirtualFunctions { config, mut device } = functions;
    let device = move |n: u16| -> Box<dyn Device> {
        let table = tables.get(usize::from(n)).cloned().unwrap_or_else(|| Vectors::new(Default::default()));
        Box::new(Interrupts::new(device(n), table, pool.clone()))
    };
    VirtualFunctions { config, device: Box::new(device) }
}

/// Enables the virtual functions at the adapter's addresses, and checks that each has the place of the adapter's.
fn enable(endpoint: &mut Endpoint, bar: u8, places: &[DeviceLocation]) -> Result<(), DeviceHostError> {
    let Some(first) = places.first() else { return Ok(()) };
    let physical = endpoint.function_id(0).unwrap_or_default();
    let capability = endpoint.config(0).and_then(|config| config.extended_capability(sriov::ID));
    let capability = capability.ok_or(DeviceHostError::VirtualBar(bar))?;
    let mut write = |dw, value| endpoint.write_config(Time::ZERO, physical, dw, 0xf, value);
    let at = capability + sriov::VF_BAR0 + u16::from(bar);
    write(at, first.address as u32);
    if first.address >> 32 != 0 {
        write(at + 1, (first.address >> 32) as u32);
    }
    write(capability + sriov::NUM_VFS, places.len() as u32);
    // ARI numbers virtual functions from the ID after the physical function. Without ARI, they begin on the next bus.
    let is_next = first.id.bits() == physical.bits().wrapping_add(1);
    let hierarchy = if is_next { control::ARI_HIERARCHY } else { 0 };
    write(capability + sriov::CONTROL, hierarchy);
    write(capability + sriov::CONTROL, hierarchy | control::VF_ENABLE | control::VF_MEMORY_ENABLE);
    let window = endpoint.config(0).and_then(|config: &ConfigSpace| config.vf_bar(bar));
    let window = window.ok_or(DeviceHostError::VirtualBar(bar))?;
    for (n, place) in (0..).zip(places) {
        let own_id = endpoint.virtual_function_id(0, n).unwrap_or_default();
        check(n, place, own_id, &window)?;
        endpoint.write_config(Time::ZERO, own_id, header::COMMAND_STATUS, 0xf, command::BUS_MASTER);
    }
    Ok(())
}

fn check(n: u16, place: &DeviceLocation, own_id: Bdf, window: &VfBarWindow) -> Result<(), DeviceHostError> {
    let DeviceLocation { id, address, .. } = *place;
    let own_address = window.address + u64::from(n) * window.size;
    if (id, address) == (own_id, own_address) {
        return Ok(());
    }
    Err(DeviceHostError::Virtual { number: n + 1, id, address, own_id, own_address, size: window.size })
}
