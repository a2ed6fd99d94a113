// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What firmware leaves in the root ports of a host before a kernel takes over all below them: Max_Payload_Size. Linux keeps the value
//! of a root port and gives it to all below (`pci_configure_mps`), so that payloads would else stay at the 128 B of a reset.

use super::host_of;
use super::placing::Placing;
use crate::{LabFile, bridges};
use config::cap::pcie::{DEVICE_CONTROL, device_control::MPS};
use config::register::put;
use host::{Cpu, HostError};
use tlp::{Bdf, Mps, Rcb};

const LOW_HALF: u8 = 0b0011;

/// The root ports of a host.
#[derive(Clone, Debug)]
pub struct Handover(Vec<RootPort>);

#[derive(Clone, Copy, Debug)]
struct RootPort {
    function: Bdf,
    /// DW number of Device Control.
    device_control: u16,
    /// The largest payload that all below it support.
    mps: Mps,
}

impl Handover {
    /// The root ports of the host whose place has this name: `host root`, or `host NAME`.
    ///
    /// # Errors
    /// There is no such host, or its tree is none.
    pub fn new(file: &LabFile, place: &str) -> Result<Handover, String> {
        let (tree, host) = host_of(file, place)?;
        let links = bridges::all_links(&file.lab, &tree);
        let least = bridges::least_mps(&tree, &links);
        // Capabilities stand at the same place whatever the Read Completion Boundary is.
        let spaces = bridges::root_ports(&tree, host, &links, Rcb::default())?;
        let port = |((device, link), space): ((u8, usize), config::ConfigSpace)| {
            let device_control = space.pcie_capability()? + DEVICE_CONTROL;
            Some(RootPort { function: Bdf::new(0, device, 0)?, device_control, mps: least[&link] })
        };
        Ok(Handover((1..).zip(tree.root_links(host)).zip(spaces).filter_map(port).collect()))
    }

    /// Host code that sets them. No function is put into a place.
    pub(super) fn code(&self) -> impl FnOnce(Cpu) -> Placing + use<> {
        let ports = self.0.clone();
        move |cpu| {
            Box::pin(async move {
                for port in ports {
                    port.set(&cpu).await.map_err(|e| format!("root port {}: {e}", port.function))?;
                }
                Ok(Vec::new())
            })
        }
    }
}

impl RootPort {
    async fn set(self, cpu: &Cpu) -> Result<(), HostError> {
        let others = cpu.config_read(self.function, self.device_control).await? & !MPS;
        let value = others | put(MPS, self.mps.encoding().into());
        cpu.config_write(self.function, self.device_control, LOW_HALF, value).await
    }
}
