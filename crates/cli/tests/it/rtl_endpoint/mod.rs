// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint of `rtl/pcie_stack` under Verilator in a slot: the simulated host and a stock kernel find it, and its peripheral copies host
//! memory.

use crate::common::{masked_irqs, riser, riser_ok};
use crate::guest::rig::Guest;
use std::path::Path;

/// Configuration of the endpoint as the kernel has left it. Reviewed by hand: the link is up at 8 GT/s and x8, payloads are 256 B, BARs 0 and 5
/// have addresses, and no error status is set.
const LSPCI: &str = include_str!("lspci.txt");

/// Cycles of 4 ns that ENDPOINT.md states for a read of a register in this lab: endpoint, peripheral with its bus, layers of one end.
const STATED_CYCLES: u64 = 12 + 2 + 19;

/// The lab of the example.
fn lab() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/pcie_stack/lab/copy.toml");
    path.to_str().unwrap().to_owned()
}

/// Makes the design's library.
fn build() {
    riser_ok(&["rtl", "build", &lab().replace("copy.toml", "endpoint_link.toml")]);
}

#[test]
#[ignore = "of .ci/long stack"]
fn host_finds_rtl_endpoint_and_its_peripheral_copies_memory() {
    build();
    let out = riser_ok(&["run", &lab(), "--allow-native"]);
    assert!(out.contains("copier (rtl-endpoint)"), "{out}");
}

#[test]
fn lspci_names_part_whose_code_may_not_run() {
    let switch = lab().replace("copy.toml", "switch.toml");
    for (lab, part) in [(lab(), "slot `copier`"), (switch, "the root complex")] {
        let refused = riser(&["lspci", &lab]);
        let expected = format!(
            "{part} has a design, which answers only if its code runs; expected --allow-native of `riser lspci`"
        );
        assert!(refused.code == 1 && refused.stderr.contains(&expected), "{}", refused.stderr);
    }
}

#[test]
fn refuses_second_channel_at_link_of_rtl_endpoint() {
    let text = std::fs::read_to_string(lab()).unwrap();
    let line = text.lines().position(|line| line == "name = \"copier\"").unwrap() + 1;
    let refused = riser(&["check", &lab(), "--set", "link.vc=[{ id = 0 }, { id = 1 }]"]);
    let expected = format!(
        "copy.toml:{line}:8: slot `copier`: a virtual channel with id = 1; rtl-endpoint has one channel, expected only id = 0"
    );
    assert!(refused.code == 1 && refused.stderr.contains(&expected), "{}", refused.stderr);
}

/// Shortest time of the host's reads of 4 bytes in a lab, in ps.
fn register_read_ps(args: &[&str]) -> u64 {
    let outcome = riser(&[&["run"][..], args, &["--transactions-json", "-"]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let transactions =
        outcome.stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let reads = transactions.filter(|one| one["kind"] == "host_read" && one["bytes"] == 4);
    reads.filter_map(|one| one["latency_ps"].as_u64()).min().expect("the host reads a register")
}

#[test]
#[ignore = "of .ci/long stack"]
fn register_read_takes_time_of_simulation_and_stated_cycles() {
    build();
    let simulated = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/nic/kernel.toml");
    // The simulated device answers in no time, over the same link.
    let model = register_read_ps(&[simulated.to_str().unwrap(), "--set", "slot.nic.packet-nic.frames=80"]);
    let rtl = register_read_ps(&[&lab(), "--allow-native"]);
    let expected = model + 4000 * STATED_CYCLES;
    assert!(
        rtl.abs_diff(expected) * 10 < expected,
        "{rtl} ps, not {expected}: {model} of the simulation, and the cycles"
    );
}

#[test]
#[ignore = "of .ci/long stack"]
fn kernel_enumerates_rtl_endpoint() {
    build();
    let design = lab().replace("copy.toml", "endpoint_link.toml");
    let lab = format!(
        "version = 1\n[link]\ngen = 3\nlanes = 8\nmps_bytes = 256\n\
         [[slot]]\nname = 'copier'\ndevice = 'rtl-endpoint'\nrtl-endpoint.design = '{design}'\n"
    );
    let script = "echo == lspci\nlspci -d 1234:4550 -vv\necho == end";
    let guest = Guest::run(&lab, script, &["--allow-native"]);
    assert_eq!(masked_irqs(guest.said("lspci")), masked_irqs(LSPCI));
}
