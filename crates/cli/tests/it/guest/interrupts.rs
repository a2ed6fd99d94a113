// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X of several functions, driven by a program in the guest: table and Pending Bit Array in a BAR, masks of entries and of functions.

use crate::guest::rig::Guest;

/// Result of each step of `msix.c`: Pending Bit Array, and interrupts that arrived in memory (`PCIe 5.0 §6.1.4.5`, `§7.7.2`).
const STEPS: &[&str] = &[
    "MSI-X disabled: pending 0 arrived 0",
    "entry masked: pending 2 arrived 0",
    "twice: pending 2 arrived 0",
    "entry unmasked: pending 0 arrived a1",
    "nothing masked: pending 0 arrived a1",
    "function masked: pending 2 arrived 0",
    "entry masked in its place: pending 2 arrived 0",
    "new data: pending 0 arrived b2",
    "the array is read-only: pending 0 arrived 0",
];

#[test]
#[ignore = "of .ci/long guest"]
fn masked_vectors_of_several_functions_wait() {
    let lab = "version = 1\n[[slot]]\nname = 'one'\ndevice = 'dma-engine'\n[slot.dma-engine]\nvfs = 12\n\
        [[switch]]\nname = 's'\n[[slot]]\nname = 'two'\ndevice = 'dma-engine'\nparent = 's'\n";
    let script = "modprobe pci-pf-stub; echo 7269 0007 >/sys/bus/pci/drivers/pci-pf-stub/new_id\n\
        echo 12 >$d/10000:01:00.0/sriov_numvfs\n\
        echo == msix\n/share/msix 10000:01:00.0 10000:01:00.3 10000:01:01.4 10000:04:00.0\necho == end";
    let guest = Guest::with_programs(lab, script, &["--module", "pci-pf-stub"], &["msix"]);
    // Two functions of a device, one beyond the eight that a bus has without ARI, and one below a switch.
    let functions = ["10000:01:00.0", "10000:01:00.3", "10000:01:01.4", "10000:04:00.0"];
    let mut expected: Vec<String> = Vec::new();
    for function in functions {
        expected.push(format!("function {function}"));
        expected.extend(STEPS.iter().map(|step| (*step).to_owned()));
    }
    let arrived = |(n, function): (usize, &&str)| format!("{function}: pending 0 arrived c{n}");
    expected.extend(functions.iter().enumerate().map(arrived));
    assert_eq!(guest.said("msix").lines().collect::<Vec<_>>(), expected);
}
