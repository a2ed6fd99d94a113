// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel reports, counts and recovers from errors: Advanced Error Reporting, and Downstream Port Containment.

use crate::guest::rig::Guest;
use testkit::{Case, cases};

/// Lab with three devices below a switch.
const LAB: &str = "version = 1\n[[switch]]\nname = 's'\n[[slot]]\nname = 'ram'\ndevice = 'memory'\nparent = 's'\n\
    [[slot]]\nname = 'dma'\ndevice = 'dma-engine'\nparent = 's'\n\
    [[slot]]\nname = 'counter'\ndevice = 'counter'\nparent = 's'\n";

/// Enables all error reports, masks none, and gives AER control of errors that ports would contain (DPC). Defines `again`, which finds
/// endpoints again after a reset of their link, since no driver sets them up, and `fault LINK DIRECTION FRAMES ACTION`.
const SET_UP: &str = r#"
root=10000:00:01.0 up=10000:01:00.0
above_ram=10000:02:00.0 above_dma=10000:02:01.0 above_counter=10000:02:02.0
ram=10000:03:00.0 dma=10000:04:00.0 counter=10000:05:00.0
for port in /sys/bus/pci_express/drivers/dpc/10000*; do echo ${port##*/} >/sys/bus/pci_express/drivers/dpc/unbind; done
groups() {
    for f in $root $up $above_ram $above_dma $above_counter $ram $dma $counter; do
        echo "-s $f ECAP_AER+8.l=0 ECAP_AER+14.l=0 ECAP_AER+4.l=ffffffff ECAP_AER+10.l=ffffffff"
    done
}
# Root Error Status last: an error that came between the kernel's look and its clearing would hold back all later interrupts.
clear() { setpci $(groups) -s $root ECAP_AER+30.l=7f; }
ready() { setpci $(for f in $ram $dma $counter; do echo "-s $f COMMAND=6:6 CAP_EXP+8.w=f:f"; done); rings $dma; clear; }
# What enumeration asks of absent functions is no error to be told of.
again() { setpci $(groups | sed 's/14.l=0/14.l=ffffffff/'); for f in $ram $dma $counter; do echo 1 >$d/$f/remove; done; echo 1 >/sys/bus/pci/rescan; ready; }
fault() { lab fault "slot = '$1', direction = '$2', frames = '$3', nth = ${5:-1}, action = $4"; }
ready
"#;

/// The commands of a case. The guest waits for the last message.
fn script(case: Case<'_>) -> String {
    format!(
        "begin '{}'; {}; end '{}'; clear\n",
        case.name(),
        case.input().trim_end(),
        case.expected().last().unwrap()
    )
}

/// Checks the messages of the kernel, in this order, and the error counters that increase.
fn check(case: Case<'_>, guest: &Guest) {
    let name = case.name();
    let said: String = guest.said(name).lines().map(|line| without_tag(line.to_owned()) + "\n").collect();
    let mut rest = said.as_str();
    for text in case.expected() {
        let at = rest.find(text);
        rest = &rest[at.unwrap_or_else(|| panic!("{name}: no `{text}` in its place in:\n{said}"))..];
    }
    for count in case.marked("++ ") {
        assert!(said.contains(&format!("10000:{count}\n")), "{name}: no `{count}` in:\n{said}");
    }
}

/// Removes the tag (bits 15:8 of the second DW) from a line that shows a request header.
fn without_tag(mut line: String) -> String {
    const HEADER: &str = "TLP Header: ";
    let Some(at) = line.find(HEADER) else { return line };
    let second = line[at + HEADER.len()..].find(' ').unwrap() + at + HEADER.len() + 1;
    let digits = if line[second..].starts_with("0x") { second + 2 } else { second };
    line.replace_range(digits + 4..digits + 6, "00");
    line
}

/// The stock kernel names each error of a port or device by its bit in the status registers of AER. It counts the error
/// at the function and at the root port, and recovers from it.
#[test]
#[ignore = "of .ci/long guest"]
fn kernel_names_counts_and_recovers_from_each_error() {
    let all = || cases(include_str!("../../cases/kernel-errors.txt"));
    let acts: String = all().map(script).collect();
    let script = format!("{SET_UP}{acts}echo == end\n");
    let guest = Guest::run(LAB, &script, &["--append", "memmap=1M$0x10000000"]);
    all().for_each(|case| check(case, &guest));
}

/// Lab with devices at a root port, at a switch port, and in a hot-plug slot.
const CONTAINED: &str = "version = 1\n[[slot]]\nname = 'near'\ndevice = 'memory'\n[[switch]]\nname = 's'\n\
    [[slot]]\nname = 'far'\ndevice = 'memory'\nparent = 's'\n\
    [[slot]]\nname = 'card'\ndevice = 'memory'\nparent = 's'\nhot_plug = true\nhot_plug_controls = false\n";

const CONTAINED_SET_UP: &str = r#"
near=10000:01:00.0 above_near=10000:00:01.0 far=10000:04:00.0 above_far=10000:03:00.0 card=10000:05:00.0
clear() { :; }
ready() { setpci -s $1 COMMAND=6:6 CAP_EXP+8.w=f:f; }
found() { echo 1 >/sys/bus/pci/rescan; ready $1; memory $1 0 32 0x5eed; memory $1 0; }
malformed() { lab fault "slot = '$2', direction = 'downstream', frames = 'posted', nth = 1, action = 'set-length', length_dw = 9"; memory $1 0 32 5; }
for f in $near $far $card; do ready $f; done
"#;

/// Downstream Port Containment of root ports and switch ports triggers repeatedly, and the link recovers each time. Until software ends the
/// containment, devices below the port read as all ones.
#[test]
#[ignore = "of .ci/long guest"]
fn kernel_contains_errors_and_recovers() {
    let all = || cases(include_str!("../../cases/kernel-containment.txt"));
    let acts: String = all().map(script).collect();
    let by_hand = "echo == by hand\necho 10000:03:00.0:pcie208 >/sys/bus/pci_express/drivers/dpc/unbind\n\
        setpci -s $above_far ECAP_DPC+6.w=1:3 && setpci -s $above_far ECAP_DPC+6.w=40:40\n\
        ids $far; setpci -s $above_far ECAP_DPC+8.w CAP_EXP+12.w; setpci -s $above_far ECAP_DPC+8.w=1; usleep 20000\n\
        ids $far; setpci -s $above_far ECAP_DPC+8.w CAP_EXP+12.w\n";
    let script = format!("{CONTAINED_SET_UP}{acts}{by_hand}echo == end\n");
    let guest = Guest::run(CONTAINED, &script, &["--kernel", "6.12", "--append", "pcie_ports=dpc-native"]);
    all().for_each(|case| check(case, &guest));
    for name in ["surprise down at a root port", "surprise down at a switch", "software at a switch"] {
        assert!(guest.said(name).starts_with("0x00005EED\n"), "{}", guest.said(name));
    }
    guest.has("fatal message in a slot", "0x00005EED\n");
    assert_eq!(guest.said("by hand"), "ffffffff\n0027\n0083\n00017269\n0026\n2083\n");
}
