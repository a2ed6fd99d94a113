// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where virtual machines join a lab, as the commands need it.

use super::uplink::UplinkArgs;
use crate::commands::outside::Opened;
use crate::commands::tap::Tap;
use crate::failure::Failure;
use crate::{open_files, output};
use devices::ethernet::Cable;
use lab::LabFile;
use plug::Place;
use session::external::host::HostPlace;
use session::external::{Door, LINKS};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use worlds::machine::{CableLink, FunctionPlacement, LinkSocket, RootPortSetup, Transport, VmEvent, VmHost};

/// A setting of QEMU's (`-global`) that leaves hot-plug to the kernel, which asks the firmware's tables for all domains at once.
const HOT_PLUG: &str = "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off";
/// An IOMMU that follows what the kernel maps for each device; QEMU wants it before all whom it serves.
const IOMMU: &str = "intel-iommu,intremap=on,caching-mode=on";
/// How long QEMU waits for an answer, in ms: a day, since riser may be stopped or the computer suspended. After that QEMU reads all ones.
const TIMEOUT_MS: u32 = 86_400_000;
/// First bus of the VMD's domain. It exists if the kernel has found the VMD.
const DOMAIN: &str = "/sys/class/pci_bus/10000:00";
/// Functions of a machine at most: QEMU's host bridge has 32 devices, some of which are the machine's own.
const MAX_FUNCTIONS: usize = 24;

/// What a machine gets of a lab.
#[derive(clap::Args)]
pub(super) struct SeatArgs {
    /// Hand over each device by itself, behind a root port of QEMU's in PCI domain 0000, in place of the hierarchy behind a VMD
    #[arg(long)]
    direct: bool,

    /// Give virtual functions to a machine of their own, as vfio-pci does, while the lab's machine has the physical ones: SLOT.virtfnN,
    /// counted from 0; may be given again
    #[arg(long, value_name = "NAME=FUNCTION[,FUNCTION]", conflicts_with = "direct")]
    assign: Vec<String>,

    /// An emulated IOMMU (VT-d) with interrupt remapping in the machine: devices reach what the kernel has mapped for them
    #[arg(long)]
    iommu: bool,

    /// Ask the machine for each DMA by a message, in place of the memory that it shares: its IOMMU judges, and its kernel logs, what
    /// devices may not reach. Slower
    #[arg(long)]
    dma_messages: bool,

    /// What is put into the cable of a NIC that leads outside (`cable = "outside"`): that of another slot, or a tap interface of this
    /// machine; may be given again
    #[arg(long, value_name = "SLOT=SLOT|SLOT=tap:NAME")]
    cable: Vec<String>,

    #[command(flatten)]
    uplink: UplinkArgs,
}

/// A machine in place of a host, and those that have virtual functions below it.
pub(super) struct Seat {
    /// The host's name: `root`, or that of its `[[external_host]]`.
    pub(super) host: String,
    pub(super) guest: VmHost,
    /// The names of machines that have virtual functions below it.
    assigned: Vec<String>,
}

/// A machine that has virtual functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Assigned {
    pub(super) machine: String,
    pub(super) functions: Vec<String>,
}

impl Assigned {
    /// Reads `NAME=FUNCTION[,FUNCTION]`.
    fn read(text: &str) -> Option<Assigned> {
        let (machine, functions) = text.split_once('=')?;
        let functions: Vec<_> = functions.split(',').map(str::to_owned).collect();
        let is_name =
            !machine.is_empty() && machine.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        (is_name && functions.iter().all(|f| !f.is_empty()))
            .then(|| Assigned { machine: machine.to_owned(), functions })
    }
}

/// All machines: those in place of hosts, then those that have virtual functions.
pub(super) fn machines(seats: &[Seat]) -> impl Iterator<Item = (&Seat, Option<&str>)> {
    let assigned = seats.iter().flat_map(|seat| seat.assigned.iter().map(move |name| (seat, Some(&**name))));
    seats.iter().map(|seat| (seat, None)).chain(assigned)
}

/// The names of the hosts that are machines: `root`, or those of the file.
pub(super) fn hosts(file: &LabFile) -> Vec<String> {
    let name = |place: String| place.trim_start_matches("host ").to_owned();
    lab::Hierarchy::hosts(file).into_iter().map(name).collect()
}

impl SeatArgs {
    /// Opens the far ends of cables, and the sockets of the lab's NetTLP adapter.
    pub(super) fn transports(&self, opened: &Opened) -> Result<Vec<Box<dyn Transport>>, Failure> {
        let mut transports = self.cable_links(opened)?;
        transports
            .extend(self.uplink.open(&opened.driver)?.map(|uplink| Box::new(uplink) as Box<dyn Transport>));
        Ok(transports)
    }

    /// Opens the far ends of cables.
    fn cable_links(&self, opened: &Opened) -> Result<Vec<Box<dyn Transport>>, Failure> {
        let mut taken = BTreeSet::new();
        let mut end = |slot: &str| {
            let wrong = |why: &str| Failure::Usage(format!("--cable: `{slot}`: {why}"));
            let door = opened.driver.door_named::<Cable>(&format!("slot {slot}"));
            let legal = || opened.driver.doors::<Cable>().map(|name| name.trim_start_matches("slot "));
            let why = || match legal().collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "no slot has a NIC with `cable = \"outside\"`".to_owned(),
                slots => format!(
                    "legal are {slots}, whose NICs have `cable = \"outside\"`, and tap:NAME behind the ="
                ),
            };
            let door = door.ok_or_else(|| wrong(&why()))?;
            if taken.insert(slot.to_owned()) { Ok(door) } else { Err(wrong("its cable is taken already")) }
        };
        let link = |given: &String| {
            let wrong =
                || Failure::Usage(format!("--cable `{given}`: SLOT=SLOT and SLOT=tap:NAME are legal"));
            let (slot, to) = given.split_once('=').ok_or_else(wrong)?;
            let door = end(slot)?;
            let link = match to.strip_prefix("tap:") {
                Some("") => return Err(wrong()),
                Some(name) => CableLink::to_interface(door, Box::new(Tap::open(name)?)),
                None => CableLink::between(door, end(to)?),
            };
            Ok(Box::new(link) as Box<dyn Transport>)
        };
        self.cable.iter().map(link).collect()
    }

    /// The machines that have virtual functions, in a lab with these hosts.
    pub(super) fn assigned(&self, hosts: &[String]) -> Result<Vec<Assigned>, Failure> {
        let wrong = |why: String| Failure::Usage(format!("--assign: {why}"));
        let (mut all, mut names) = (Vec::new(), BTreeSet::from_iter(hosts.iter().cloned()));
        let mut given = BTreeSet::new();
        for text in &self.assign {
            let assigned = Assigned::read(text).ok_or_else(|| {
                wrong(format!(
                    "`{text}`: NAME=FUNCTION[,FUNCTION] is legal, a name of letters, digits, `-` and `_`, as vm1=card.virtfn0"
                ))
            })?;
            if !names.insert(assigned.machine.clone()) {
                return Err(wrong(format!("there is a machine `{}` already", assigned.machine)));
            }
            if let Some(twice) = assigned.functions.iter().find(|f| !given.insert((*f).clone())) {
                return Err(wrong(format!("`{twice}` is given twice")));
            }
            all.push(assigned);
        }
        match all.is_empty() || hosts.len() == 1 {
            true => Ok(all),
            false => Err(wrong("legal where the lab has one host outside".to_owned())),
        }
    }

    /// The seat of a machine in place of the host of this name. It listens at `socket`, which is a folder with a socket for each
    /// function where it gets them one by one; so do machines of their own for virtual functions, each in a folder.
    pub(super) fn seat(
        &self,
        opened: &mut Opened,
        host: &str,
        socket: &Path,
        assigned: &[(Assigned, PathBuf)],
    ) -> Result<Seat, Failure> {
        let failed = |e: &dyn Display| Failure::Run(format!("host `{host}`: {e}"));
        let place = format!("host {host}");
        let door = door::<HostPlace>(opened, &place)?;
        let make = |folder: &Path| {
            let why = |e| format!("{}: no folder for the sockets of functions: {e}", folder.display());
            std::fs::create_dir_all(folder).map_err(|e| Failure::Run(why(e)))
        };
        let guest = if self.direct {
            make(socket)?;
            let places = FunctionPlacement::new(&opened.file, &place).map_err(|e| failed(&e))?;
            VmHost::direct(&mut opened.driver, door, places, socket)
        } else {
            let layout = worlds::machine::layout(&opened.file, &place).map_err(|e| failed(&e))?;
            let handover = RootPortSetup::new(&opened.file, &place).map_err(|e| failed(&e))?;
            VmHost::new(&mut opened.driver, door, (layout, handover), socket)
        };
        let mut guest = guest.map_err(|e| failed(&e))?;
        if !assigned.is_empty() {
            let names = assigned.iter().flat_map(|(a, _)| a.functions.iter().map(String::as_str));
            let places = FunctionPlacement::of_virtual_functions(&opened.file, &place, names)
                .map_err(|e| Failure::Usage(format!("--assign: {e}")))?;
            assigned.iter().try_for_each(|(_, folder)| make(folder))?;
            let of =
                |(a, folder): &'_ (Assigned, PathBuf)| (a.machine.clone(), a.functions.len(), folder.clone());
            let assigned: Vec<_> = assigned.iter().map(of).collect();
            guest.assign(&mut opened.driver, &places, &assigned).map_err(|e| failed(&e))?;
        }
        if self.dma_messages {
            guest.use_messages_alone();
        }
        let most = guest.sockets().map(|s| guest.sockets().filter(|o| o.machine == s.machine).count()).max();
        match most {
            Some(functions) if functions > MAX_FUNCTIONS => Err(failed(&format!(
                "{functions} functions: a machine takes {MAX_FUNCTIONS} one by one (--direct, --assign)"
            ))),
            _ => {
                let assigned = assigned.iter().map(|(a, _)| a.machine.clone()).collect();
                Ok(Seat { host: host.to_owned(), guest, assigned })
            }
        }
    }

    /// QEMU's arguments for the machine of a host, or for one that has virtual functions below it; `waits`: it waits for its writes too.
    pub(super) fn arguments(&self, seat: &Seat, machine: Option<&str>, waits: bool) -> Vec<String> {
        let is_direct = self.is_direct(machine);
        let mut all = vec!["-global".to_owned(), HOT_PLUG.to_owned()];
        let mut add = |device: String| all.extend(["-device".to_owned(), device]);
        if self.iommu {
            add(IOMMU.to_owned());
        }
        for (n, socket) in seat.guest.sockets().filter(|socket| socket.machine == machine).enumerate() {
            let bus = format!("riser{n}");
            if is_direct {
                add(format!("pcie-root-port,id={bus},chassis={},slot={}", n + 1, n + 1));
            }
            add(device(socket.path, is_direct.then_some(&*bus), waits));
        }
        all
    }

    /// Whether a machine gets functions one by one.
    fn is_direct(&self, machine: Option<&str>) -> bool {
        self.direct || machine.is_some()
    }

    /// What the kernel's command line has to have.
    pub(super) fn append(&self, machine: Option<&str>) -> &'static str {
        match (self.is_direct(machine), self.iommu) {
            (false, false) => "",
            (false, true) => "intel_iommu=on",
            // QEMU's ports do not come back from a sleep.
            (true, false) => "pcie_port_pm=off",
            (true, true) => "pcie_port_pm=off intel_iommu=on",
        }
    }

    /// The file that exists if the kernel has found the lab.
    pub(super) fn expected(&self, machine: Option<&str>) -> Option<&'static str> {
        (!self.is_direct(machine)).then_some(DOMAIN)
    }

    /// The module by which the kernel finds the lab.
    pub(super) fn module(&self, machine: Option<&str>) -> Option<&'static str> {
        (!self.is_direct(machine)).then_some("vmd")
    }
}

fn door<P: Place + Clone>(opened: &Opened, name: &str) -> Result<Door<P>, Failure> {
    opened.driver.door_named(name).ok_or_else(|| Failure::Run(format!("no place `{name}`")))
}

/// A socket at `path` for commands to the lab's links.
pub(super) fn links(opened: &Opened, path: &Path) -> Result<LinkSocket, Failure> {
    LinkSocket::bind(door(opened, LINKS)?, path).map_err(|e| Failure::Run(e.to_string()))
}

/// Refuses machines that need more files than may be open.
pub(super) fn check_files(seats: &[Seat]) -> Result<(), Failure> {
    let (clients, vectors) = seats.iter().fold((0, 0), |(clients, vectors), seat| {
        (clients + seat.guest.sockets().count(), vectors + seat.guest.vectors())
    });
    open_files::check(clients, vectors)
}

/// The value of QEMU's argument `-device` for a device at `socket`.
fn device(socket: &Path, bus: Option<&str>, waits: bool) -> String {
    let path = serde_json::Value::from(socket.display().to_string());
    let bus = bus.map(|bus| format!(r#","bus":"{bus}""#)).unwrap_or_default();
    let waits = if waits { r#","x-no-posted-writes":true"# } else { "" };
    format!(
        r#"{{"driver":"vfio-user-pci","socket":{{"path":{path},"type":"unix"}},"x-msg-timeout":{TIMEOUT_MS}{bus}{waits}}}"#
    )
}

/// Message about a machine that runs on without its device.
pub(super) fn lost(why: &impl Display) -> String {
    format!("the machine has lost the device, and reads all ones there: {why}")
}

/// Lines about machines that have been written, and the most that are: a machine can do wrong without end.
static TOLD: AtomicU32 = AtomicU32::new(0);
const MOST_TOLD: u32 = 1000;

/// Says what is to be known of a device of a machine; `quiet`: only what is wrong.
pub(super) fn tell(device: &str, told: &VmEvent, quiet: bool) {
    if !quiet || !matches!(told, VmEvent::Connected(_) | VmEvent::Joined | VmEvent::Gone(_)) {
        match TOLD.fetch_add(1, Ordering::Relaxed) {
            MOST_TOLD => return output::note("no more is said of what machines do wrong; --json counts it"),
            more if more > MOST_TOLD => return,
            _ => {}
        }
    }
    match told {
        VmEvent::Connected(peer) if !peer.is_served => output::note(format_args!(
            "process {} of user {} is not served: the machine must run as the same user",
            peer.process, peer.user
        )),
        VmEvent::Refused(why) => output::note(format_args!("{device}: refused: {why}")),
        VmEvent::Unreachable(why) => output::note(format_args!("{device}: the machine's memory: {why}")),
        VmEvent::Unmappable(why) => output::note(format_args!("{device}: refused a map: {why}")),
        VmEvent::Private => output::note(
            "the machine's memory is not shared: DMA changes nothing that it sees; start QEMU with `share=on` at its memory-backend",
        ),
        VmEvent::Unmapped(first, count) => {
            let what = if first.writes { "write" } else { "read" };
            output::note(format_args!(
                "DMA of {} was refused: the machine has not mapped the {} bytes at {:#x} for a {what}; {count} such since this was said last",
                first.requester, first.len, first.address
            ));
        }
        VmEvent::WritesLost(count) => output::note(format_args!(
            "{device}: {count} writes of devices are lost: the machine, whose memory has no descriptor, has not taken them"
        )),
        VmEvent::Misplaced(why) => output::note(format_args!("{device}: {why}")),
        VmEvent::Lost(why) => output::note(format_args!("{device}: {}", lost(why))),
        VmEvent::Connected(_) | VmEvent::Joined | VmEvent::Gone(_) if quiet => {}
        VmEvent::Connected(peer) => {
            output::note(format_args!("{device}: process {} is connected", peer.process))
        }
        VmEvent::Joined => output::note(format_args!("{device}: the machine has it")),
        VmEvent::Gone(why) => output::note(format_args!("{device}: the machine has gone: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU's default of 5 s is too short if riser, or the reader of its capture, is stopped.
    #[test]
    fn qemu_waits_for_answers_for_a_day() {
        let device: serde_json::Value =
            serde_json::from_str(&device(Path::new("a \"b\""), Some("c"), true)).unwrap();
        assert_eq!(device["x-msg-timeout"], 24 * 60 * 60 * 1000);
        assert_eq!((&device["socket"]["path"], &device["bus"]), (&"a \"b\"".into(), &"c".into()));
        assert_eq!(device["x-no-posted-writes"], true);
    }
}
