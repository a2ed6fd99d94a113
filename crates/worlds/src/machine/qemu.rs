// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of QEMU and of the kernel for the devices of a lab. Starts no process.

use super::vm_host::VmHost;
use std::ffi::OsString;
use std::path::Path;
use vm::{Load, Options, Which};

/// QEMU setting (`-global`) that leaves hot-plug to the kernel, which reads this from the firmware's tables, for all
/// domains together.
const HOT_PLUG: &str = "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off";
/// An IOMMU that follows what the kernel maps for each device. QEMU expects the IOMMU before the devices that it
/// serves.
const IOMMU: &str = "intel-iommu,intremap=on,caching-mode=on";
/// Arguments for memory that riser can map.
const MEMORY: &str = "-machine q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=512M,share=on";
/// How long QEMU waits for an answer, in ms: a day, because riser may be stopped or the computer suspended. QEMU then
/// reads all ones.
const TIMEOUT_MS: u32 = 86_400_000;
/// First bus of the VMD's domain. The file exists if the kernel has found the VMD.
const VMD_BUS: &str = "/sys/class/pci_bus/10000:00";

/// How a machine gets the hierarchy below its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VmOptions {
    /// Passes each function as a separate device, instead of the hierarchy below a VMD.
    pub direct: bool,
    /// The machine has an emulated IOMMU.
    pub iommu: bool,
    /// Each DMA is a message to the machine.
    pub dma_messages: bool,
}

impl VmOptions {
    /// Returns QEMU's arguments for the machine of a host, or for the machine of this name, which has virtual functions below the host.
    /// With `waits`, the machine waits for its writes too.
    fn qemu_arguments(&self, host: &VmHost, machine: Option<&str>, waits: bool) -> Vec<String> {
        let is_direct = self.is_direct(machine);
        let mut all = vec!["-global".to_owned(), HOT_PLUG.to_owned()];
        let mut add = |device: String| all.extend(["-device".to_owned(), device]);
        if self.iommu {
            add(IOMMU.to_owned());
        }
        for (n, socket) in host.sockets().filter(|socket| socket.machine == machine).enumerate() {
            let bus = format!("riser{n}");
            if is_direct {
                add(format!("pcie-root-port,id={bus},chassis={},slot={}", n + 1, n + 1));
            }
            add(device(socket.path, is_direct.then_some(&*bus), waits));
        }
        all
    }

    /// Returns the arguments that the user gives to QEMU and to the kernel, as text with one argument per line.
    pub fn text(&self, host: &VmHost, machine: Option<&str>) -> String {
        let all = self.qemu_arguments(host, machine, false);
        let pairs = all.chunks(2).map(|pair| match pair[1].starts_with('{') {
            true => format!("{} '{}'", pair[0], pair[1]),
            false => pair.join(" "),
        });
        let lines: Vec<String> = std::iter::once(MEMORY.to_owned()).chain(pairs).collect();
        let kernel = match self.kernel_arguments(machine) {
            "" => String::new(),
            append => format!("\nand on the kernel's command line: {append}"),
        };
        format!("{}{kernel}", lines.join(" \\\n"))
    }

    /// Adds the devices of a lab to the options of a machine: see [`qemu_arguments`](Self::qemu_arguments). Its commands to the
    /// lab's links go to the socket `links`; the command `lab` of the guest sends them.
    pub fn add_devices(
        &self,
        options: &mut Options,
        host: &VmHost,
        machine: Option<&str>,
        waits: bool,
        links: &Path,
    ) {
        // In QEMU's options a comma ends a value; a doubled comma is part of it.
        let chardev = format!("socket,id=links,path={}", links.display().to_string().replace(',', ",,"));
        let port = "virtserialport,chardev=links,name=riser.links";
        let mut arguments = self.qemu_arguments(host, machine, waits);
        arguments.extend(["-chardev", &chardev, "-device", port].map(str::to_owned));
        options.qemu_arguments.splice(0..0, arguments.into_iter().map(OsString::from));
        let module = |name: &str| Load { module: Which::Named(name.to_owned()), parameters: String::new() };
        options.modules.splice(0..0, self.module(machine).map(module));
        options.expected.extend(self.expected_file(machine).map(str::to_owned));
        options.scripts.push(("lab".to_owned(), include_str!("lab.sh").to_owned()));
        options.environment.push(("RISER_HOST".to_owned(), machine.unwrap_or(&host.name).to_owned()));
        let words = [self.kernel_arguments(machine), &options.append].map(str::to_owned);
        options.append = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    }

    /// Returns true if the machine gets functions one by one.
    fn is_direct(&self, machine: Option<&str>) -> bool {
        self.direct || machine.is_some()
    }

    /// Returns what the kernel's command line must contain.
    fn kernel_arguments(&self, machine: Option<&str>) -> &'static str {
        match (self.is_direct(machine), self.iommu) {
            (false, false) => "",
            (false, true) => "intel_iommu=on",
            // QEMU's ports do not wake from a sleep state.
            (true, false) => "pcie_port_pm=off",
            (true, true) => "pcie_port_pm=off intel_iommu=on",
        }
    }

    /// Returns the file that exists after the kernel has found the VMD; `None` if the machine has no VMD.
    fn expected_file(&self, machine: Option<&str>) -> Option<&'static str> {
        (!self.is_direct(machine)).then_some(VMD_BUS)
    }

    /// Returns the kernel's module for the VMD; `None` if the machine has no VMD.
    fn module(&self, machine: Option<&str>) -> Option<&'static str> {
        (!self.is_direct(machine)).then_some("vmd")
    }
}

/// Returns the value of QEMU's argument `-device` for a device at `socket`.
fn device(socket: &Path, bus: Option<&str>, waits: bool) -> String {
    let path = serde_json::Value::from(socket.display().to_string());
    let bus = bus.map(|bus| format!(r#","bus":"{bus}""#)).unwrap_or_default();
    let waits = if waits { r#","x-no-posted-writes":true"# } else { "" };
    format!(
        r#"{{"driver":"vfio-user-pci","socket":{{"path":{path},"type":"unix"}},"x-msg-timeout":{TIMEOUT_MS}{bus}{waits}}}"#
    )
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
