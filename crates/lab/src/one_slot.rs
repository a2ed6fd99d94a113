// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab in code: a device of your own in the only slot of a host, and its driver on that host.
//!
//! ```
//! use config::{Bar, Builder, Identity};
//! use device::{AsyncDevice, Io};
//! use fabric::{HostConfig, Limits, Stop};
//! use host::{Cpu, DriverError};
//! use host::firmware::FoundFunction;
//! use riser_lab::OneSlot;
//!
//! async fn device(io: Io) {
//!     while let Some(request) = io.next_request().await {
//!         if let device::io::Request::Read(read) = request {
//!             read.complete(42u32);
//!         }
//!     }
//! }
//!
//! async fn driver(cpu: Cpu, function: FoundFunction) -> Result<(), DriverError> {
//!     let answer = cpu.read_u32(function.address(0, 0)?).await?;
//!     if answer == 42 { Ok(()) } else { Err(format!("read {answer}").into()) }
//! }
//!
//! let identity =
//!     Identity { vendor: 0x7269, device: 1, revision: 0, class: 0xff_0000, subsystem_vendor: 0, subsystem: 0 };
//! let config = Builder::type0(identity).bar(0, Bar::memory32(4096));
//! let mut lab = OneSlot::default().plug(config, AsyncDevice::new(device), driver)?;
//! assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
//! # Ok::<(), riser_lab::BuildError>(())
//! ```
//!
//! No file is read: the fields correspond to keys of a lab file.

use crate::BuildError;
use crate::boot;
use crate::bridges;
use crate::build::{Assembly, DRAIN_MARGIN, LinkInfo, SlotInfo, endpoint};
use crate::links;
use crate::profile::HostBasis;
use crate::schema::Link;
use crate::tree::Tree;
use ::endpoint::{EndpointLimits, FunctionConfig};
use config::{Builder, PcieLayout};
use device::Device;
use fabric::{Fabric, FabricConfig, FaultRule, HostConfig, HostId, HostProfile, LinkConfig, SlotConfig};
use host::Cpu;
use host::cpu::AsyncProgram;
use host::firmware::FoundFunction;
use host::memory::HostMemory;
use host::os::{self, Component, EventLog, Role};
use plug::plugged::FunctionEnd;
use plug::{Driver, Task};
use std::cell::Cell;
use std::fmt::Display;
use std::rc::Rc;
use tlp::PayloadPool;

/// Default MiB of host memory below 2 GiB, and from 4 GiB.
const MEMORY_MIB: [u64; 2] = [256, 1024];

/// The environment of a device of your own. The default is a lab file without settings: Gen3 x8 and the ideal
/// host.
pub struct OneSlot {
    /// Name of the slot in captures and reports.
    pub name: String,
    /// The link, with the keys of a lab file.
    pub link: Link,
    /// Timing of the host; [`profile::host`](crate::profile::host) reads a profile.
    pub host: HostProfile,
    /// PCI Express capability of the function. The rate, width and Max_Payload_Size of the link.
    pub pcie: PcieLayout,
    /// Limits of the device's endpoint.
    pub limits: EndpointLimits,
    /// Faults on the link.
    pub faults: Vec<FaultRule>,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for OneSlot {
    fn default() -> OneSlot {
        OneSlot {
            name: "slot".into(),
            link: Link::default(),
            host: HostProfile::ideal(),
            pcie: PcieLayout { ten_bit_tag: true, ..PcieLayout::default() },
            limits: EndpointLimits::default(),
            faults: Vec::new(),
            seed: 0,
        }
    }
}

impl OneSlot {
    /// Plugs in `device` with the configuration space `config`. The PCI Express capability of the link and the
    /// capabilities of [`Builder::usual`] are added. After enumeration the host runs `driver` on the function found. The
    /// run ends with the driver.
    ///
    /// # Errors
    /// The parts do not fit together, with the reason.
    pub fn plug<F, Fut, E>(
        self,
        config: Builder,
        device: impl Device + 'static,
        driver: F,
    ) -> Result<Assembly, BuildError>
    where
        F: FnOnce(Cpu, FoundFunction) -> Fut + 'static,
        Fut: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        let payloads = PayloadPool::new();
        let link = links::config(&self.link, &Link::default());
        for end in [&link.root, &link.device] {
            end.validate().map_err(BuildError::Link)?;
        }
        let config = config.pcie(self.layout(&link)).usual().build()?;
        let function = FunctionConfig { config, device: Box::new(device) };
        let end = FunctionEnd { function, virtual_functions: None, wrap: None };
        let endpoint = endpoint(&self.name, self.limits, end, &payloads).map_err(BuildError::OwnEndpoint)?;
        let [low, high] = MEMORY_MIB.map(|mib| mib << 20);
        let memory = HostMemory::new(low, high)?;
        let tree = Tree::one_slot();
        let (path, id) = (tree.slot_paths().swap_remove(0), tree.slot_ids()[0]);
        let root_ports =
            bridges::root_ports(&tree, HostId::FIRST, std::slice::from_ref(&link), self.host.rcb)?;
        let map = boot::host_map_of(&self.link, self.host.ecrc);
        let name = self.name.clone();
        let role = Role::Device(Task::Driver(boxed(driver)));
        let components = vec![Rc::new(Component { name, path, id, role, hot_plug: None })];
        let drain = self.host.completion_timeout + DRAIN_MARGIN;
        let options = os::Options { drain, ..os::Options::default() };
        let start = move |cpu: Cpu| os::boot(cpu, map, components, options);
        let program = AsyncProgram::with_pool(payloads.clone(), memory.clone(), start);
        let (name, model) = (self.name.clone(), "own".to_owned());
        let slots = vec![SlotInfo { name, model, report: None, measured: None, basis: None }];
        let links = vec![LinkInfo::new(&self.name, &link)];
        let fabric = Fabric::new(FabricConfig {
            hosts: vec![HostConfig {
                profile: self.host,
                memory,
                payloads,
                root_ports,
                program: Some(Box::new(program)),
            }],
            slots: vec![SlotConfig::on_root_port(link, endpoint)],
            switches: Vec::new(),
            faults: self.faults,
            seed: self.seed,
        })
        .map_err(BuildError::Fabric)?;
        Ok(Assembly {
            fabric,
            seed: self.seed,
            set: Vec::new(),
            slots,
            links,
            hot_plug: EventLog::default(),
            warnings: Vec::new(),
            host_basis: HostBasis::ASSUMED,
            join_points: Vec::new(),
        })
    }

    fn layout(&self, link: &LinkConfig) -> PcieLayout {
        let PcieLayout { mps_supported, rate, width, .. } = links::layout(link);
        let ten_bit_tag = self.pcie.ten_bit_tag && self.limits.max_outstanding_reads > 256;
        PcieLayout { mps_supported, rate, width, ten_bit_tag, ..self.pcie }
    }
}

/// Converts a driver to the type that the boot program needs.
fn boxed<F, Fut, E>(driver: F) -> Driver
where
    F: FnOnce(Cpu, FoundFunction) -> Fut + 'static,
    Fut: Future<Output = Result<(), E>> + 'static,
    E: Display,
{
    let driver = Cell::new(Some(driver));
    Box::new(move |cpu, function| {
        let future = driver.take().map(|driver| driver(cpu, function));
        Box::pin(async {
            // The slot is not hot-plug capable: the driver is started once.
            match future {
                Some(future) => future.await.map_err(|e| e.to_string().into()),
                None => Err("the driver has been started already".into()),
            }
        })
    })
}
