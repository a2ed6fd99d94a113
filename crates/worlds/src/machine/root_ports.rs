// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware that sets Max_Payload_Size of a host's root ports before a kernel takes over. Linux leaves the value of a
//! root port and sets it in all functions below (`pci_configure_mps`), so payloads would otherwise stay at the reset
//! value of 128 B.

use super::placing::Placing;
use config::cap::pcie::device_control::MPS;
use config::register::put;
use host::{Cpu, DriverError, HostError};
use lab::{BuildError, Hierarchy, LabFile, RootPort};

const LOW_HALF: u8 = 0b0011;

/// Firmware that sets up the root ports of a host.
#[derive(Clone, Debug)]
pub(super) struct RootPortSetup(Vec<RootPort>);

impl RootPortSetup {
    /// Firmware for the host of this name: `host root` or `host NAME`.
    pub(super) fn new(file: &LabFile, place: &str) -> Result<RootPortSetup, BuildError> {
        Hierarchy::new(file, place)?.root_ports().map(RootPortSetup)
    }

    /// Returns the firmware as host code. It sets no bus number and no address.
    pub(super) fn code(&self) -> impl FnOnce(Cpu) -> Placing + use<> {
        let ports = self.0.clone();
        move |cpu| {
            Box::pin(async move {
                for port in ports {
                    let set = set_mps(&cpu, port).await;
                    set.map_err(|e| DriverError::from(e).at(format!("root port {}", port.function)))?;
                }
                Ok(Vec::new())
            })
        }
    }
}

async fn set_mps(cpu: &Cpu, port: RootPort) -> Result<(), HostError> {
    let others = cpu.config_read(port.function, port.device_control).await? & !MPS;
    let value = others | put(MPS, port.mps.encoding().into());
    cpu.config_write(port.function, port.device_control, LOW_HALF, value).await
}
