// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments for the machines of a lab, shared by `riser guest run` and `riser guest serve`.

use crate::commands::nettlp::adapter::{Listening, SERVED_SCHEMES};
use crate::commands::tap::Tap;
use crate::commands::words::one_of;
use crate::{Failure, output};
use devices::ethernet::NetInterface;
use nettlp::adapter::AdapterSettings;
use nettlp::allow::{AllowList, Rule};
use nettlp::net::AdapterSockets;
use nettlp::tools::Scheme;
use session::external::Driver;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use tlp::Bdf;
use worlds::adapter::{AdapterPlace, AdapterSlot, Uplink};
use worlds::machine::{CableLinkError, MachineNames, Transport, VmError, VmHost, VmOptions, cable_links};
use worlds::opening::OpenedLab;

/// Maximum number of sessions of one peer.
const SESSIONS_PER_PEER: u8 = 16;

/// Options that determine how a machine gets the hierarchy of a lab.
#[derive(clap::Args)]
pub(super) struct VmArgs {
    /// Pass each device through separately, below a root port of QEMU in PCI domain 0000, instead of the hierarchy below a VMD
    #[arg(long)]
    direct: bool,

    /// Assign virtual functions to a separate machine, like vfio-pci, while the lab's machine has the physical ones: SLOT.virtfnN,
    /// counted from 0; can be given several times
    #[arg(long, value_name = "NAME=FUNCTION[,FUNCTION]", conflicts_with = "direct")]
    assign: Vec<String>,

    /// Give the machine an emulated IOMMU (VT-d) with interrupt remapping: devices reach only memory that the kernel has mapped for them
    #[arg(long = "vtd", alias = "iommu")]
    iommu: bool,

    /// Send each DMA to the machine as a message, instead of using its shared memory: its IOMMU then checks the access, and its kernel logs
    /// forbidden ones. Slower
    #[arg(long)]
    dma_messages: bool,

    /// Connect the cable of a NIC with `cable = "outside"` to the NIC of another slot, or to a tap interface of this
    /// machine; can be given several times
    #[arg(long, value_name = "SLOT=SLOT|SLOT=tap:NAME")]
    cable: Vec<String>,

    #[command(flatten)]
    uplink: UplinkArgs,
}

/// The NetTLP peers that the adapter of a lab serves.
#[derive(clap::Args)]
pub(super) struct UplinkArgs {
    /// NetTLP peer with its address window and access (r, w, rw). It may access the machine through the slot with the
    /// device `nettlp-adapter`. Can be given several times, like --allow of `riser nettlp adapter` [default: no peers]
    #[arg(long, value_name = "PEER,WINDOW,r|w|rw")]
    nettlp_allow: Vec<Rule>,

    /// Address to listen on for NetTLP peers
    #[arg(long, value_name = "ADDRESS", requires = "nettlp_allow", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    nettlp_listen: IpAddr,

    /// Protocols for these NetTLP peers
    #[arg(long, value_parser = one_of(&SERVED_SCHEMES), requires = "nettlp_allow", default_value = "auto")]
    nettlp_scheme: Scheme,

    /// File with the adapter's key: 64 hexadecimal digits, with which these peers must authenticate; serves only sessions
    #[arg(long, value_name = "FILE", requires = "nettlp_allow")]
    nettlp_key: Option<PathBuf>,

    /// Peer that serves the machine's requests [default: the peer of --nettlp-allow, if there is only one]
    #[arg(
        long = "nettlp-device-peer",
        alias = "nettlp-device",
        value_name = "PEER",
        requires = "nettlp_allow"
    )]
    nettlp_device: Option<IpAddr>,
}

impl VmArgs {
    pub(super) fn options(&self) -> VmOptions {
        VmOptions { direct: self.direct, iommu: self.iommu, dma_messages: self.dma_messages }
    }

    /// Opens the other ends of cables, and the sockets of the lab's NetTLP adapter.
    pub(super) fn transports(&self, opened: &OpenedLab) -> Result<Vec<Box<dyn Transport>>, Failure> {
        let mut transports = self.cable_links(&opened.driver)?;
        if let Some(uplink) = self.uplink.open(&opened.driver)? {
            transports.push(Box::new(uplink));
        }
        Ok(transports)
    }

    /// Opens the other ends of cables.
    fn cable_links(&self, driver: &Driver) -> Result<Vec<Box<dyn Transport>>, Failure> {
        let open = |name: &str| Tap::open(name).map(|tap| Box::new(tap) as Box<dyn NetInterface>);
        cable_links(driver, &self.cable, open)
    }

    /// Returns the names of the machines of a lab.
    pub(super) fn names(&self, file: &lab::LabFile) -> Result<MachineNames, Failure> {
        MachineNames::read(file, &self.assign).map_err(|why| Failure::Usage(format!("--assign: {why}")))
    }

    /// Connects machines to all hosts. `socket` returns the path of a machine's socket, or of the folder of its sockets.
    pub(super) fn open_hosts(
        &self,
        opened: &mut OpenedLab,
        names: &MachineNames,
        socket: impl Fn(&str) -> PathBuf,
    ) -> Result<Vec<VmHost>, Failure> {
        let OpenedLab { driver, file, .. } = opened;
        let hosts = names.open(driver, file, self.options(), socket);
        let hosts = hosts.map_err(|(host, error)| match error {
            VmError::Assign(why) => Failure::Usage(format!("--assign: {why}")),
            VmError::NoPlace(_) | VmError::Folder(..) => Failure::run(error),
            _ => Failure::Run(format!("host `{host}`: {error}")),
        })?;
        let clients = hosts.iter().map(|host| host.sockets().count()).sum();
        files::limit::check(clients, hosts.iter().map(VmHost::vectors).sum())?;
        Ok(hosts)
    }
}

impl From<CableLinkError> for Failure {
    fn from(error: CableLinkError) -> Failure {
        match error {
            CableLinkError::Form(_) => Failure::Usage(format!("--cable {error}")),
            _ => Failure::Usage(format!("--cable: {error}")),
        }
    }
}

impl UplinkArgs {
    /// Opens the sockets if a peer is allowed.
    fn open(&self, driver: &Driver) -> Result<Option<Uplink>, Failure> {
        if self.nettlp_allow.is_empty() {
            return Ok(None);
        }
        let allow = AllowList::new(self.nettlp_allow.iter().copied()).map_err(Failure::usage)?;
        let listening = Listening {
            prefix: "--nettlp-",
            address: self.nettlp_listen,
            rules: &self.nettlp_allow,
            scheme: self.nettlp_scheme,
            key: self.nettlp_key.as_deref(),
            sessions_per_peer: SESSIONS_PER_PEER,
        };
        let options = listening.options(&allow)?;
        let device = listening.device(&allow, self.nettlp_device)?;
        let place =
            AdapterPlace::of(driver).map_err(|why| Failure::Usage(format!("--nettlp-allow: {why}")))?;
        for slot in driver.handles::<AdapterSlot>().skip(1) {
            output::note(format_args!(
                "{slot}: a machine's lab serves one adapter: reads of this one's BAR time out"
            ));
        }
        let sockets = AdapterSockets::bind(&options).map_err(Failure::run)?;
        listening.greet("the machine's adapter", &allow, device);
        let settings =
            AdapterSettings { allow, id: Bdf::default(), device, scheme: self.nettlp_scheme.ports() };
        Ok(Some(Uplink::new(sockets, settings, place)))
    }
}
