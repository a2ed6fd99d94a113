// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a virtual machine joins a lab, as the commands need it.

use crate::commands::outside::Opened;
use crate::failure::Failure;
use crate::output;
use lab::external::host::{HostPlace, ROOT};
use lab::external::{Door, LINKS};
use lab::machine::{Guest, LinkSocket, Told};
use plug::Place;
use std::path::Path;

/// A setting of QEMU's (`-global`) that leaves hot-plug to the kernel, which asks the firmware's tables for all domains at once.
pub(super) const HOT_PLUG: &str = "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off";

/// The seat of a machine in place of the lab's host, which listens at `socket`.
pub(super) fn seat(opened: &Opened, socket: &Path) -> Result<Guest, Failure> {
    let layout = lab::machine::layout(&opened.file, ROOT).map_err(Failure::Run)?;
    let door = door::<HostPlace>(opened, ROOT)?;
    Guest::new(door, layout, socket).map_err(|e| Failure::Run(e.to_string()))
}

fn door<P: Place + Clone>(opened: &Opened, name: &str) -> Result<Door<P>, Failure> {
    opened.driver.door_named(name).ok_or_else(|| Failure::Run(format!("no place `{name}`")))
}

/// A socket at `path` for commands to the lab's links.
pub(super) fn links(opened: &Opened, path: &Path) -> Result<LinkSocket, Failure> {
    LinkSocket::bind(door(opened, LINKS)?, path).map_err(|e| Failure::Run(e.to_string()))
}

/// The value of QEMU's argument `-device` for a device at `socket`.
pub(super) fn device(socket: &Path) -> String {
    let path = serde_json::Value::from(socket.display().to_string());
    format!(r#"{{"driver":"vfio-user-pci","socket":{{"path":{path},"type":"unix"}}}}"#)
}

/// Says what is to be known of a machine; `quiet`: only what is wrong.
pub(super) fn tell(told: &Told, quiet: bool) {
    match told {
        Told::Came(peer) if !peer.is_served => output::note(format_args!(
            "process {} of user {} is not served: the machine must run as the same user",
            peer.process, peer.user
        )),
        Told::Refused(why) => output::note(format_args!("refused: {why}")),
        Told::Unreachable(why) => output::note(format_args!("the machine's memory: {why}")),
        Told::Private => output::note(
            "the machine's memory is not shared: DMA changes nothing that it sees; start QEMU with `share=on` at its memory-backend",
        ),
        Told::Came(_) | Told::Joined | Told::Gone(_) if quiet => {}
        Told::Came(peer) => output::note(format_args!("process {} is connected", peer.process)),
        Told::Joined => output::note("the machine has its VMD"),
        Told::Gone(why) => output::note(format_args!("the machine has gone: {why}")),
    }
}
