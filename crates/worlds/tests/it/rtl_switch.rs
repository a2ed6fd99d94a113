// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The switch of `rtl/pcie_stack` under Verilator between riser's host and riser's devices, and below the root complex in RTL: firmware
//! enumerates it, and the drivers check every byte of DMA.

use crate::rtl_rig::{build, file, has_verilator, run};
use plug::RunContext;
use plug::site::NativeCode;
use session::Session;

const LAB: &str = "version = 1\nlimit_us = 20000\n";
const ROOT: &str =
    "[host]\nroot_complex = \"rtl-root-complex\"\n[host.rtl-root-complex]\ndesign = \"lab/root_link.toml\"\n";
const SWITCH: &str =
    "[[switch]]\nname = \"switch\"\ndevice = \"rtl-switch\"\nrtl-switch.design = \"lab/switch_link.toml\"\n";
const SLOTS: &str = "[[slot]]\nname = \"one\"\nparent = \"switch\"\ndevice = \"endpoint-test\"\n\
    endpoint-test.sizes_bytes = [1, 1024, 1025, 9001]\n\
    [[slot]]\nname = \"two\"\nparent = \"switch\"\ndevice = \"nvme\"\n";

/// A switch that uses one of its two ports, as in `docs/external.md`.
const ONE: &str = "[[slot]]\nname = \"ssd\"\nparent = \"switch\"\ndevice = \"nvme\"\n";

fn count(session: &Session, name: &str) -> u64 {
    let counts = session.fabric.switch_counts(0).unwrap();
    counts.iter().find(|(counted, _)| *counted == name).map_or(0, |(_, n)| *n)
}

/// Replays of all riser's ports.
fn replays(session: &Session) -> u64 {
    let links = (0..session.fabric.links() as u32).map(fabric::LinkId);
    let ports = links.flat_map(|link| {
        [fabric::Side::Root, fabric::Side::Device].map(|side| fabric::PortId::new(link, side))
    });
    ports.map(|port| session.fabric.port_counters(port).replayed_tlps).sum()
}

#[test]
#[ignore = "of .ci/long stack"]
fn firmware_and_drivers_work_below_rtl_switch() {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, &["switch_link.toml"]);
    let plain = run(folder, &format!("{LAB}{SWITCH}{SLOTS}"));
    assert!(count(&plain, "rtl_config_requests") > 30);
    for name in ["rtl_posted_ur", "rtl_unexpected_completions", "rtl_poisoned_tlps"] {
        assert_eq!(count(&plain, name), 0, "{name}");
    }
    assert_eq!(replays(&plain), 0);

    // The same run gives the same counters.
    let again = run(folder, &format!("{LAB}{SWITCH}{SLOTS}"));
    assert_eq!(plain.fabric.switch_counts(0), again.fabric.switch_counts(0));

    // Bit errors on all links: both ends replay, and the drivers still find every byte.
    let errors = run(folder, &format!("{LAB}[link]\nbit_error_rate = 2e-5\n{SWITCH}{SLOTS}"));
    assert!(replays(&errors) > 0);

    // A switch that riser models is below the switch in RTL.
    let own = "[[switch]]\nname = \"own\"\nparent = \"switch\"\n";
    let below = SLOTS.replacen("parent = \"switch\"", "parent = \"own\"", 1);
    run(folder, &format!("{LAB}{SWITCH}{own}{below}"));
}

#[test]
#[ignore = "of .ci/long stack"]
fn firmware_and_drivers_work_below_rtl_root_complex_and_switch() {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, &["root_link.toml", "switch_link.toml"]);
    let text = format!("{LAB}{ROOT}{SWITCH}{SLOTS}");
    let session = run(folder, &text);
    assert!(count(&session, "rtl_config_requests") > 30);
    let found = session::enumerate_with(
        &file(folder, &text).unwrap_or_else(|e| panic!("{e}")),
        NativeCode::Allowed,
        RunContext::default(),
    );
    let ids: Vec<String> = found.unwrap().functions.iter().map(|function| function.bdf.to_string()).collect();
    assert_eq!(ids, ["00:00.0", "01:00.0", "02:00.0", "02:01.0", "03:00.0", "04:00.0"]);
}

#[test]
fn keys_that_do_not_fit_a_switch_in_rtl_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), &[]);
    let with = |key: &str| format!("{LAB}{SWITCH}{key}\n{SLOTS}");
    let no_model = SWITCH.replace("device = \"rtl-switch\"\n", "");
    let rows = [
        (
            with("latency_ns = 100"),
            "latency_ns of switch `switch` has no effect with device = \"rtl-switch\"",
        ),
        (with("forwarding = \"cut-through\""), "forwarding of switch `switch` has no effect"),
        (with("keep_places = true"), "keep_places of switch `switch` has no effect"),
        (
            with("downstream_ports = 3"),
            "downstream ports: 3 in the lab, 2 in its design; expected downstream_ports = 2",
        ),
        (
            format!("{LAB}{SWITCH}{ONE}"),
            "downstream ports: 1 in the lab, 2 in its design; expected downstream_ports = 2",
        ),
        (
            format!("{LAB}[link]\nvc = [{{ id = 0 }}, {{ id = 1 }}]\n{SWITCH}{SLOTS}"),
            "lab.toml:10:8: slot `one`: a virtual channel with id = 1; rtl-switch has one channel, expected only id = 0",
        ),
        (
            format!("{LAB}{SWITCH}{SLOTS}link.vc = [{{ id = 2 }}]\n"),
            "slot `two`: a virtual channel with id = 2; rtl-switch has one channel",
        ),
        (format!("{LAB}{SWITCH}{SLOTS}hot_plug = true\n"), "the ports of rtl-switch have no slots"),
        (
            format!("{LAB}[link]\nflow_control = \"none\"\n{SWITCH}{SLOTS}"),
            "flow_control = \"none\"; expected credits",
        ),
        (
            format!("{LAB}[link]\nscaled_flow_control = true\n{SWITCH}{SLOTS}"),
            "does not offer it, expected false",
        ),
        (format!("{LAB}{SWITCH}{SLOTS}link.lanes = 16\n"), "link.lanes 1 to 8"),
        (
            format!("{LAB}{}{SLOTS}", SWITCH.replace("switch_link.toml", "frame_link.toml")),
            "expected \"switch\"",
        ),
        (format!("{LAB}{}{SLOTS}", SWITCH.replace("switch_link.toml", "none.toml")), "none.toml"),
        (format!("{LAB}{}{SLOTS}", SWITCH.replace(".design", ".desing")), "desing"),
        (
            format!("{LAB}{no_model}{SLOTS}"),
            "[switch.rtl-switch] has no effect, because switch `switch` has no device",
        ),
        (
            format!("{LAB}{}{SLOTS}", SWITCH.replace("\nrtl-switch.design = \"lab/switch_link.toml\"", "")),
            "needs [switch.rtl-switch] with `design`",
        ),
        (
            format!("{LAB}{}{SLOTS}", SWITCH.replace("\"rtl-switch\"", "\"nvme\"")),
            "unknown switch `nvme`, expected one of `rtl-switch`",
        ),
        (
            format!(
                "{LAB}[[slot]]\nname = \"device\"\ndevice = \"rtl-switch\"\nrtl-switch.design = \"lab/switch_link.toml\"\n"
            ),
            "expected a device",
        ),
    ];
    // Ports that the lab does not use are legal, if the lab counts them.
    let unused = format!("{LAB}{SWITCH}downstream_ports = 2\n{ONE}");
    assert_eq!(file(folder.path(), &unused).err(), None);
    for (text, expected) in rows {
        let wrong = file(folder.path(), &text).err().unwrap_or_default();
        assert!(wrong.contains(expected), "{text}\n{expected}\n{wrong}");
    }
}
