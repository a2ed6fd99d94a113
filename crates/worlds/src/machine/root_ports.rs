// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware that sets Max_Payload_Size of a host's root ports before a kernel takes over. Linux leaves the value of a
//! root port and sets it in all functions below (`pci_configure_mps`), so payloads would otherwise stay at the reset
//! value of 128 B.

use super::placing::Placing;
use config::cap::pcie::device_control::MPS;
use config::cap::pcie::{self, DEVICE_CAPABILITIES, DEVICE_CONTROL};
use config::header::CAPABILITIES_POINTER;
use config::register::put;
use host::{Cpu, DriverError, HostError};
use lab::{BuildError, Hierarchy, LabFile, RootPort};

const LOW_HALF: u8 = 0b0011;
/// Most capabilities of a list; a longer one is a loop.
const MAX_CAPABILITIES: usize = 48;

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
    let (at, mps) = match port.device_control {
        Some(at) => (at, port.mps.encoding().into()),
        None => match find_device_control(cpu, port).await? {
            Some(found) => found,
            None => return Ok(()),
        },
    };
    let others = cpu.config_read(port.function, at).await? & !MPS;
    cpu.config_write(port.function, at, LOW_HALF, others | put(MPS, mps)).await
}

/// Searches the capability list of a root port that is not riser's. Returns its Device Control register, and the largest payload that
/// it and all components below it support.
async fn find_device_control(cpu: &Cpu, port: RootPort) -> Result<Option<(u16, u32)>, HostError> {
    let mut next = cpu.config_read(port.function, CAPABILITIES_POINTER).await? & 0xfc;
    for _ in 0..MAX_CAPABILITIES {
        if next == 0 {
            return Ok(None);
        }
        let at = (next / 4) as u16;
        let first = cpu.config_read(port.function, at).await?;
        if first as u8 == pcie::ID {
            let supported = cpu.config_read(port.function, at + DEVICE_CAPABILITIES).await? & 0b111;
            return Ok(Some((at + DEVICE_CONTROL, supported.min(port.mps.encoding().into()))));
        }
        next = first >> 8 & 0xfc;
    }
    Ok(None)
}
