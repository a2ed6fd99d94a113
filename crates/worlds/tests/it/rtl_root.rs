// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The root complex of `rtl/pcie_stack` under Verilator below the simulated host: firmware enumerates its root port and the device at its
//! link, and the device's driver checks every byte of DMA.

use crate::rtl_rig::{build, file, has_verilator, run};
use fabric::{HostId, LinkId, PortId, Side};
use session::Session;

const HOST: &str = "version = 1\nlimit_us = 20000\n[host]\nroot_complex = \"rtl-root-complex\"\n\
    [host.rtl-root-complex]\ndesign = \"lab/root_link.toml\"\n";
const SLOT: &str = "[[slot]]\nname = \"device\"\ndevice = \"endpoint-test\"\n";
const LINK: &str = "data_link = \"rtl-link\"\nrtl-link.design = \"lab/frame_link.toml\"\n";
const TEST: &str = "[slot.endpoint-test]\nsizes_bytes = [1, 1024, 1025, 9001]\n";

fn count(session: &Session, name: &str) -> u64 {
    let counts = session.fabric.design_counts(HostId::FIRST).unwrap();
    counts.iter().find(|(counted, _)| *counted == name).map_or(0, |(_, n)| *n)
}

#[test]
#[ignore = "of .ci/long stack"]
fn firmware_and_driver_work_below_rtl_root_complex() {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, &["root_link.toml"]);
    let plain = run(folder, &format!("{HOST}{SLOT}{TEST}"));
    for name in
        ["rtl_bad_lcrc", "rtl_replays", "rtl_malformed_length", "rtl_bus_refused", "rtl_memory_errors"]
    {
        assert_eq!(count(&plain, name), 0, "{name}");
    }
    let device = *plain.fabric.port_counters(PortId::new(LinkId(0), Side::Device));
    let received = count(&plain, "rtl_tlps_received");
    assert!((401..=device.tlps).contains(&received), "{received} of {}", device.tlps);

    // Bit errors: both ends replay, and the driver still finds every byte.
    let errors = run(folder, &format!("{HOST}[link]\nbit_error_rate = 2e-5\n{SLOT}{TEST}"));
    assert!(count(&errors, "rtl_bad_lcrc") > 0 && count(&errors, "rtl_replays") > 0);

    // A switch that riser models is below the RTL, with two devices.
    let switch = "[[switch]]\nname = \"switch\"\n\
        [[slot]]\nname = \"one\"\nparent = \"switch\"\ndevice = \"endpoint-test\"\nendpoint-test.sizes_bytes = [2000]\n\
        [[slot]]\nname = \"two\"\nparent = \"switch\"\ndevice = \"memory\"\n";
    run(folder, &format!("{HOST}{switch}"));

    // The same run gives the same counters.
    let again = run(folder, &format!("{HOST}{SLOT}{TEST}"));
    assert_eq!(plain.fabric.design_counts(HostId::FIRST), again.fabric.design_counts(HostId::FIRST));
}

/// Counter `name` of the data link layer at the device.
fn device_count(session: &Session, name: &str) -> u64 {
    let counts = session.fabric.slot_counts(0);
    counts.iter().find(|(counted, _)| *counted == name).map_or(0, |(_, n)| *n)
}

#[test]
#[ignore = "of .ci/long stack"]
fn firmware_and_driver_work_with_rtl_at_both_ends_of_a_link() {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, &["root_link.toml", "frame_link.toml"]);
    let plain = run(folder, &format!("{HOST}{SLOT}{LINK}{TEST}"));
    let received = count(&plain, "rtl_tlps_received");
    assert!(received > 400, "{received}");
    for name in ["rtl_bad_lcrc", "rtl_replays"] {
        assert_eq!([count(&plain, name), device_count(&plain, name)], [0, 0], "{name}");
    }

    // Bit errors: the RTL at each end finds damaged TLPs and sends its own again.
    let errors = run(folder, &format!("{HOST}[link]\nbit_error_rate = 2e-5\n{SLOT}{LINK}{TEST}"));
    for name in ["rtl_bad_lcrc", "rtl_replays"] {
        assert!(count(&errors, name) > 0 && device_count(&errors, name) > 0, "{name}");
    }
}

#[test]
fn keys_that_do_not_fit_a_root_complex_in_rtl_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), &[]);
    let second = "[[slot]]\nname = \"other\"\ndevice = \"memory\"\n";
    let in_host = |key: &str| HOST.replace("[host]\n", &format!("[host]\n{key}\n"));
    let plain = file(folder.path(), &format!("{HOST}{SLOT}")).unwrap();
    assert!(lab::draw(&plain.lab).starts_with("host rtl-root-complex ("));
    let rows = [
        (format!("{HOST}{SLOT}{second}"), "2 slots and switches below it; expected 1"),
        (in_host("iommu = \"4k\"") + SLOT, "iommu of [host] has no effect"),
        (in_host("profile = \"xeon-e5-2637v3\"") + SLOT, "profile of [host] has no effect"),
        (in_host("peer_to_peer = \"split\"") + SLOT, "peer_to_peer of [host] has no effect"),
        (format!("{HOST}{SLOT}hot_plug = true\n"), "the root port of rtl-root-complex has no slot"),
        (format!("{HOST}[link]\nflow_control = \"none\"\n{SLOT}"), "flow_control = \"none\"; expected credits"),
        (format!("{HOST}[link]\nscaled_flow_control = true\n{SLOT}"), "does not offer it, expected false"),
        (
            format!("{HOST}[link]\nvc = [{{ id = 1 }}]\n{SLOT}"),
            "a virtual channel with id = 1; rtl-root-complex has one channel, expected only id = 0",
        ),
        (format!("{HOST}[link]\nlanes = 16\n{SLOT}"), "link.lanes 1 to 8"),
        (HOST.replace("root_link.toml", "frame_link.toml") + SLOT, "expected \"root-complex\""),
        (HOST.replace("root_link.toml", "none.toml") + SLOT, "none.toml"),
        (HOST.replace("design = ", "desing = ") + SLOT, "desing"),
        (format!("{HOST}access_timeout_us = 0\n{SLOT}"), "access_timeout_us"),
        (format!("{HOST}access_timeout_us = 1000001\n{SLOT}"), "access_timeout_us"),
        (format!("{HOST}memory_latency_ns = 100001\n{SLOT}"), "memory_latency_ns"),
        (HOST.replace("root_complex = \"rtl-root-complex\"\n", "") + SLOT, "[host.rtl-root-complex] has no effect"),
        (format!("version = 1\n[host]\nroot_complex = \"rtl-root-complex\"\n{SLOT}"), "needs [host.rtl-root-complex] with `design`"),
        (format!("version = 1\n[host]\nroot_complex = \"nvme\"\n{SLOT}"), "unknown root complex `nvme`, expected one of `rtl-root-complex`"),
        (
            "version = 1\n[[slot]]\nname = \"device\"\ndevice = \"rtl-root-complex\"\n[slot.rtl-root-complex]\ndesign = \"lab/root_link.toml\"\n".to_owned(),
            "expected a device",
        ),
    ];
    for (text, expected) in rows {
        let wrong = file(folder.path(), &text).err().unwrap_or_default();
        assert!(wrong.contains(expected), "{text}\n{expected}\n{wrong}");
    }
}
