// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Root ports behind a VMD as a kernel finds them, tested with vfio-user messages and no kernel.

use crate::client::{Client, ECAM};
use crate::served::Served;
use config::cap::{msi, pcie};
use config::register::get;

/// Configuration space of root port 00:01.0.
const PORT: u64 = 1 << 15;

fn device_control(client: &mut Client) -> u64 {
    client.capability(PORT, pcie::ID).unwrap() + u64::from(pcie::DEVICE_CONTROL) * 4
}

fn mps(client: &mut Client) -> u32 {
    let at = device_control(client);
    get(client.read(ECAM, at), pcie::device_control::MPS)
}

/// Firmware sets Max_Payload_Size to 512 B, which all components below the port support, also after a reset of the VMD. Linux
/// keeps it.
#[test]
fn firmware_sets_mps_of_root_ports() {
    let link = "[link]\nmps_bytes = 1024\n[slot.link]\nmps_bytes = 512\n";
    let served = Served::start_vmd("handover", link);
    let mut client = Client::join(&served.folder.join("vmd"));
    assert_eq!(mps(&mut client), 2);
    let at = device_control(&mut client);
    client.write(ECAM, at, &[0, 0]);
    assert_eq!(mps(&mut client), 0, "a kernel may set another value");
    client.reset();
    assert_eq!(mps(&mut client), 2);
    drop(client);
    served.end();
}

#[test]
fn root_ports_may_have_no_interrupts() {
    for (key, has_msi) in [("true", true), ("false", false)] {
        let lab = format!("[host]\nroot_port_interrupts = {key}\n");
        let served = Served::start_vmd(&format!("silent-ports-{key}"), &lab);
        let mut client = Client::join(&served.folder.join("vmd"));
        assert_eq!(client.capability(PORT, msi::ID).is_some(), has_msi);
        drop(client);
        served.end();
    }
}
