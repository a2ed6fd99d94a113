// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What firmware leaves in the root ports of a host before a kernel takes over all below them: Max_Payload_Size. Linux keeps the value
//! of a root port and gives it to all below (`pci_configure_mps`), so that payloads would else stay at the 128 B of a reset.

use super::host_of;
use super::placing::Placing;
use crate::{LabFile, bridges};
use config::cap::pcie::{self, DEVICE_CONTROL, device_control::MPS};
use config::header;
use config::register::put;
use host::{Cpu, HostError};
use tlp::{Bdf, Mps};

const LOW_HALF: u8 = 0b0011;
/// Capabilities that fit in 256 bytes at most.
const MOST_CAPABILITIES: usize = 48;

/// The root ports of a host, each with the largest payload that all below it support.
#[derive(Clone, Debug)]
pub struct Handover(Vec<(Bdf, Mps)>);

impl Handover {
    /// The root ports of the host whose place has this name: `host root`, or `host NAME`.
    ///
    /// # Errors
    /// There is no such host, or its tree is none.
    pub fn new(file: &LabFile, place: &str) -> Result<Handover, String> {
        let (tree, host) = host_of(file, place)?;
        let least = bridges::least_mps(&tree, &bridges::all_links(&file.lab, &tree));
        let ports = (1..).zip(tree.root_links(host));
        let port = |(device, link)| Some((Bdf::new(0, device, 0)?, least[&link]));
        Ok(Handover(ports.filter_map(port).collect()))
    }

    /// Host code that sets them. No function is put into a place.
    pub(super) fn code(&self) -> impl FnOnce(Cpu) -> Placing + use<> {
        let ports = self.0.clone();
        move |cpu| {
            Box::pin(async move {
                for (port, mps) in ports {
                    set_mps(&cpu, port, mps).await.map_err(|e| format!("root port {port}: {e}"))?;
                }
                Ok(Vec::new())
            })
        }
    }
}

async fn set_mps(cpu: &Cpu, port: Bdf, mps: Mps) -> Result<(), HostError> {
    let Some(at) = pcie_capability(cpu, port).await? else { return Ok(()) };
    let others = cpu.config_read(port, at + DEVICE_CONTROL).await? & !MPS;
    let value = others | put(MPS, mps.encoding().into());
    cpu.config_write(port, at + DEVICE_CONTROL, LOW_HALF, value).await
}

/// DW number of the PCI Express capability of a function.
async fn pcie_capability(cpu: &Cpu, function: Bdf) -> Result<Option<u16>, HostError> {
    let mut pointer = cpu.config_read(function, header::CAPABILITIES_POINTER).await? & 0xfc;
    for _ in 0..MOST_CAPABILITIES {
        let at = pointer as u16 / 4;
        if at == 0 {
            break;
        }
        let head = cpu.config_read(function, at).await?;
        if head as u8 == pcie::ID {
            return Ok(Some(at));
        }
        pointer = head >> 8 & 0xfc;
    }
    Ok(None)
}
