// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs on a stock kernel: functions that the kernel finds, resources that it assigns, and errors that it reports and
//! survives. QEMU, kernels and programs that are not in the user's cache are fetched from Debian's packages.

use crate::common;
mod errors;
mod interrupts;
mod resets;
pub(crate) mod rig;
mod slots;
mod windows;

use rig::Guest;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn lab(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name)).unwrap()
}

/// Parses a dump into lines of 16 bytes, by function and offset.
fn dump(text: &str) -> BTreeMap<(String, String), String> {
    let (mut all, mut function) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        match line.split_once(": ") {
            Some((at, bytes)) if at.len() <= 3 => {
                all.insert((function.clone(), at.to_owned()), bytes.to_owned());
            }
            _ => function = line.split(' ').next().unwrap_or_default().to_owned(),
        }
    }
    all.retain(|(function, _), _| function.starts_with("10000:"));
    all
}

/// Three levels of switches, whose buses, windows and BARs Linux assigns. Linux reads every register of every function with the same value as
/// riser's own root complex.
#[test]
fn kernel_finds_same_hierarchy_as_riser() {
    let deep = "version = 1\n[[switch]]\nname = 'a'\n[[switch]]\nname = 'b'\nparent = 'a'\n[[switch]]\nname = 'c'\nparent = 'b'\n\
        [[slot]]\nname = 'near'\ndevice = 'memory'\nparent = 'a'\n[[slot]]\nname = 'far'\ndevice = 'memory'\nparent = 'c'\n\
        [[slot]]\nname = 'nic'\ndevice = 'simple-nic'\nparent = 'c'\n[[slot]]\nname = 'clock'\ndevice = 'clock'\n";
    let script = "lspci -xxxx >/share/dump\necho == tree\nlspci -n -tv\n\
        echo == payloads\nsetpci -d 7269: CAP_EXP+8.w\n\
        echo == resources\nfor f in $d/10000*; do echo ${f##*/} $(head -1 $f/resource); done\necho == end";
    let folder = tempfile::tempdir().unwrap();
    let hexdump = folder.path().join("dump");
    let guest = Guest::run(deep, script, &["--write-hexdump", hexdump.to_str().unwrap()]);
    let (theirs, ours) = (dump(&guest.shared("dump")), dump(&fs::read_to_string(&hexdump).unwrap()));
    // Two root ports, three upstream ports, five downstream ports, and four devices.
    assert_eq!(ours.len(), (2 + 3 + 5 + 4) * 256);
    let differ: Vec<_> = ours.iter().filter(|(at, bytes)| theirs.get(at) != Some(bytes)).collect();
    assert_eq!((theirs.len(), differ), (ours.len(), vec![]));
    guest.has("tree", "[10000:00]-+-01.0-[01]");
    // Firmware has set the root ports to 256 B, and the kernel uses this for all functions below.
    let device_controls: Vec<_> =
        guest.said("payloads").lines().map(|line| u16::from_str_radix(line, 16).unwrap()).collect();
    assert_eq!(device_controls.len(), 2 + 3 + 5 + 4);
    assert!(device_controls.iter().all(|control| control >> 5 & 7 == 1), "{device_controls:04x?}");
    for line in guest
        .said("resources")
        .lines()
        .filter(|line| line.contains(":00.0 0x") && !line.contains(" 0x0000000000000000 "))
    {
        assert!(line.contains(" 0x00000000"), "a 32-bit BAR below 4 GiB: {line}");
    }
}

/// Reads over a cut link return all ones. The tap has captured each request: type 1 above the switch, type 0 below it.
#[test]
fn cut_link_reads_as_all_ones() {
    let text =
        "version = 1\n[[switch]]\nname = 's'\n[[slot]]\nname = 'ram'\ndevice = 'memory'\nparent = 's'\n";
    let script = "echo == whole\nsetpci -d 7269:1 0.l\nlab cut ram\necho == cut\nsetpci -s 10000:03:00.0 0.l\n\
        lab restore ram\nsleep 1\necho == restored\nsetpci -s 10000:03:00.0 0.l\necho == dmesg\ndmesg\necho == end";
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("boot.pcapng");
    let guest = Guest::run(text, script, &["--capture", capture.to_str().unwrap()]);
    guest.has("whole", "00017269\n");
    guest.has("cut", "ffffffff\n");
    guest.has("restored", "00017269\n");
    guest.has("dmesg", "DPC: containment event");
    guest.has("dmesg", "SDES");
    let trace = |filter: &str| common::riser_ok(&["trace", capture.to_str().unwrap(), "--filter", filter]);
    for filter in ["type=CfgRd1 and link=1", "type=CfgRd0 and link=0"] {
        let lines = trace(&format!("{filter} and dir=down"));
        let seen = lines.lines().filter(|l| l.contains("completer 03:00.0")).count();
        assert!(seen > 50, "{seen} of {filter}");
    }
}

/// pciehp of the stock kernel: surprise removal in a slot without a button, and removal by the button during traffic.
#[test]
#[ignore = "of .ci/long guest"]
fn pciehp_removes_and_adds_devices() {
    let text = "version = 1\n[[slot]]\nname = 'card'\ndevice = 'memory'\nhot_plug = true\n[[switch]]\nname = 's'\n\
        [[slot]]\nname = 'disk'\ndevice = 'memory'\nparent = 's'\nhot_plug = true\nhot_plug_controls = false\n";
    let script = "there() { ls -d $d/10000:$1:00.0 2>/dev/null; }\n\
        echo == surprise\nlab remove disk; sleep 1; there 04; dmesg -c\n\
        echo == back\nlab insert disk; sleep 1; there 04; dmesg -c\n\
        card=10000:01:00.0; echo 1 >$d/$card/enable; /share/traffic $card 4096 >/tmp/traffic &\n\
        echo == button\nlab attention card; sleep 6; there 01; dmesg -c\n\
        echo == again\nlab attention card; sleep 6; there 01; dmesg -c; echo 1 >$d/$card/enable; sleep 1; touch /tmp/stop; wait\n\
        echo == traffic\ncat /tmp/traffic\necho == end";
    let guest = Guest::with_programs(text, script, &[], &["traffic"]);
    guest.has("surprise", "pciehp: Slot(3): Card not present");
    assert!(!guest.said("surprise").contains("/10000:04:00.0\n"));
    guest.has("back", "pciehp: Slot(3): Card present");
    guest.has("back", "/10000:04:00.0\n");
    guest.has("button", "Powering off due to button press");
    assert!(!guest.said("button").contains("/10000:01:00.0\n"));
    guest.has("again", "Powering on due to button press");
    guest.has("again", "/10000:01:00.0\n");
    // After an orderly removal no access is outstanding, except one that started when the program had just seen the device.
    let said = guest.said("traffic");
    let ends = |ones| said.ends_with(&format!(" ones {ones} wrong 0 mapped 2\n"));
    assert!(ends(0) || ends(1), "{said}");
}

/// 63 virtual functions are enabled and disabled `RISER_ROUNDS` times (default: two).
#[test]
#[ignore = "of .ci/long guest"]
fn enables_and_disables_virtual_functions() {
    let text = "version = 1\n[[slot]]\nname = 'card'\ndevice = 'dma-engine'\n[slot.dma-engine]\nvfs = 63\n";
    let rounds = rig::times("RISER_ROUNDS", 2);
    let turns = "63 0 ".repeat(rounds as usize);
    let script = format!(
        "modprobe pci-pf-stub\necho 7269 0007 >/sys/bus/pci/drivers/pci-pf-stub/new_id\n\
        echo == counts\nfor n in {turns}3; do echo $n >$d/10000:01:00.0/sriov_numvfs; lspci -d 7269:8 | wc -l; done\n\
        echo == first\nlspci -s 10000:01:00.1 -v\necho == end\nlspci -xxxx >/share/dump"
    );
    let folder = tempfile::tempdir().unwrap();
    let hexdump = folder.path().join("dump");
    let arguments = ["--module", "pci-pf-stub", "--write-hexdump", hexdump.to_str().unwrap()];
    let guest = Guest::run(text, &script, &arguments);
    // A port, the physical function, and three virtual functions.
    let ours = dump(&fs::read_to_string(&hexdump).unwrap());
    assert_eq!((ours.len(), &ours), (5 * 256, &dump(&guest.shared("dump"))));
    assert_eq!(guest.said("counts"), "63\n0\n".repeat(rounds as usize) + "3\n");
    guest.has("first", "[virtual] [size=64K]");
}

/// Returns all configuration writes of a boot of this lab, by function, from the driver's probe to the end.
fn configuration_writes(lab: &str) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("boot.pcapng");
    Guest::run(lab, "echo == end", &["--capture", capture.to_str().unwrap()]);
    let filter = "type=CfgWr0 or type=CfgWr1";
    let lines = common::riser_ok(&["trace", capture.to_str().unwrap(), "--filter", filter]);
    let mut by_function: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines.lines() {
        let (_, rest) = line.split_once("completer ").unwrap();
        let (function, what) = rest.split_once(',').unwrap();
        by_function.entry(function.to_owned()).or_default().push(what.to_owned());
    }
    by_function
}

/// Every boot makes the same configuration writes to the same functions. `RISER_BOOTS` is the number of boots (default: two).
#[test]
#[ignore = "of .ci/long guest"]
fn boots_write_same_registers() {
    let text = lab("tree.toml");
    let boots = rig::times("RISER_BOOTS", 2);
    let first = configuration_writes(&text);
    assert!(first.len() > 8 && first.values().all(|all| !all.is_empty()));
    for n in 2..=boots {
        assert_eq!(first, configuration_writes(&text), "boot {n}");
        eprintln!("boot {n} of {boots} has written what the first one did");
    }
}

/// A record of a guest's run, with two machines one after the other, replays without the guest to the same bytes.
#[test]
#[ignore = "of .ci/long guest"]
fn record_replays_without_guest() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (record, live, again) = (path("run.rec"), path("live.pcapng"), path("again.pcapng"));
    // A second boot of the same machine starts again.
    let script = "lab cut clock 100; setpci -d 7269:a 4.w=6; setpci -d 7269:a 0.l\necho == end";
    Guest::run(&lab("clock.toml"), script, &["--record", &record, "--capture", &live]);
    let said = common::riser_ok(&["guest", "replay", &record, "--capture", &again]);
    assert!(said.contains(" inputs, "), "{said}");
    assert!(fs::read(live).unwrap() == fs::read(again).unwrap(), "the captures differ");
}

/// A newer kernel with two CPUs works, and riser exits with the status of the command.
#[test]
#[ignore = "of .ci/long guest"]
fn newer_kernel_finds_same_devices() {
    let guest = Guest::run(
        &lab("clock.toml"),
        "uname -r\necho == tree\nlspci -n\necho == end",
        &["--kernel", "6.12", "--smp", "2"],
    );
    assert!(guest.outcome.stdout.starts_with("6.12."), "{}", guest.outcome.stdout);
    guest.has("tree", "7269:000a");
    let outcome = common::riser(&["guest", "run", "../../labs/clock.toml", "--", "sh", "-c", "exit 7"]);
    assert_eq!(outcome.code, 7, "{}", outcome.stderr);
}
