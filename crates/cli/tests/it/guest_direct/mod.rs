// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices that a stock kernel sees separately, in domain 0000: INTx, several MSI vectors, MSI-X, an emulated IOMMU; and several guests on
//! one fabric. The guest uses the kernel's own drivers with a program in user space (`probe.c`).

use crate::common;
use crate::common::{Outcome, command, finish, riser_ok};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A folder with a lab and a folder shared with the guests.
struct Rig(tempfile::TempDir);

impl Rig {
    fn new(lab: &str) -> Rig {
        let rig = Rig(tempfile::tempdir().unwrap());
        fs::write(rig.path("lab.toml"), lab).unwrap();
        fs::create_dir(rig.path("share")).unwrap();
        rig
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Compiles the probe into the shared folder.
    fn with_probe(self) -> Rig {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/guest_direct/probe.c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-Wall", "-Werror", "-static", "-o", &self.path("share/probe")]).arg(source);
        assert!(gcc.status().unwrap().success(), "gcc makes the probe");
        self
    }

    /// Runs guests with these arguments. Each runs `script`.
    fn run(&self, arguments: &[&str], script: &str) -> Outcome {
        fs::write(self.path("share/script"), format!("d=/sys/bus/pci/devices\n{script}\n")).unwrap();
        let mut riser = command(&["guest", "run", &self.path("lab.toml"), "--share", &self.path("share")]);
        riser.args(["--time-limit", "120"]).args(arguments).args(["--", "sh", "/share/script"]);
        let outcome = finish(&mut riser);
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        outcome
    }
}

/// Lab with DMA engines below a switch, in slots with these names, each with this kind of interrupt.
fn engines(kinds: &[(&str, &str)]) -> String {
    let mut lab = "version = 1\n[[switch]]\nname = 's'\n".to_owned();
    for (name, kind) in kinds {
        lab += &format!(
            "[[slot]]\nname = '{name}'\ndevice = 'dma-engine'\nparent = 's'\n[slot.dma-engine]\nvfs = 0\ninterrupts = '{kind}'\n"
        );
    }
    lab
}

/// Returns the lines of a capture that match a filter.
fn trace(capture: &str, filter: &str) -> Vec<String> {
    riser_ok(&["trace", capture, "--filter", filter]).lines().map(str::to_owned).collect()
}

/// Two devices share INTA of their root port, and one asserts it. The kernel masks it by Interrupt Disable; the device clears it.
#[test]
#[ignore = "of .ci/long guest"]
fn uio_waits_for_intx_level() {
    let rig =
        Rig::new(&engines(&[("a", "intx"), ("x", "msi-x"), ("b", "msi-x"), ("c", "msi-x"), ("w", "intx")]));
    let rig = rig.with_probe();
    let capture = rig.path("run.pcapng");
    let script = "lspci -n -d 7269: | cut -d' ' -f1,3\nf=0000:05:00.0\n\
        echo uio_pci_generic >$d/$f/driver_override; echo $f >/sys/bus/pci/drivers_probe\n\
        /share/probe uio $f\ngrep -c uio_pci_generic /proc/interrupts\n\
        lab cut w; setpci -s $f 0.l; lab restore w; sleep 1; echo 1 >$d/$f/reset; setpci -s $f 0.l\n/share/probe uio $f";
    let outcome = rig.run(&["--direct", "--module", "uio_pci_generic", "--capture", &capture], script);
    let turn = |n: u32| format!("uio: count {n} register 2 disabled 1 status 1 cleared 1 data 1\n");
    let functions: String = (1..6).map(|n| format!("{n:02}:00.0 7269:0007\n")).collect();
    // Reads over a cut link return all ones. A reset restores the function, and the test repeats.
    let turns = |first: u32| turn(first) + &turn(first + 1) + &turn(first + 2);
    assert_eq!(outcome.stdout, functions + &turns(1) + "1\nffffffff\n00077269\n" + &turns(4));
    // The device asserts INTA. The switch port with number 4 of 4 rotates it to INTA again, so it shares INTA with the first device.
    let lines = |text: &str| trace(&capture, "type=Msg").iter().filter(|line| line.contains(text)).count();
    assert_eq!((lines(" Assert_INTA"), lines(" Deassert_INTA")), (12, 12));
}

/// Memory without a file descriptor is accessed by messages. The data arrive before the interrupt that follows them, and the device waits for
/// its reads. A record of the run replays.
#[test]
#[ignore = "of .ci/long guest"]
fn accesses_memory_without_descriptor_by_messages() {
    let rig = Rig::new(&engines(&[("w", "intx"), ("x", "msi-x")])).with_probe();
    let (capture, record, again) = (rig.path("run.pcapng"), rig.path("run.rec"), rig.path("again.pcapng"));
    let script = "f=0000:01:00.0; echo uio_pci_generic >$d/$f/driver_override; echo $f >/sys/bus/pci/drivers_probe\n\
        /share/probe uio $f\nf=0000:02:00.0; echo vfio-pci >$d/$f/driver_override; echo $f >/sys/bus/pci/drivers_probe\n\
        /share/probe vfio $f msix";
    let apart = ["-object", "memory-backend-ram,id=apart,size=512M", "-machine", "memory-backend=apart"];
    let apart = apart.map(|word| format!("--qemu-argument={word}"));
    let mut arguments = vec!["--direct", "--vtd", "--capture", &capture, "--record", &record, "--json"];
    arguments.extend(["--append", "iommu=pt", "--module", "uio_pci_generic"]);
    arguments.extend(["--module", "vfio_iommu_type1", "--module", "vfio-pci"]);
    arguments.extend(apart.iter().map(String::as_str));
    let outcome = rig.run(&arguments, script);
    for turn in 1..=3 {
        let line = format!("uio: count {turn} register 2 disabled 1 status 1 cleared 1 data 1\n");
        assert!(outcome.stderr.contains(&line), "{}", outcome.stderr);
    }
    assert!(outcome.stderr.contains("msix: h2d event 1 done 2 failed 0\n"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("msix: beyond event 1 done 3 failed 1\n"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("are lost"), "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let maps = |name: &str| report["guest"][name].as_u64().unwrap();
    assert!(maps("maps") > 0 && maps("maps") == maps("maps_without_descriptor"), "{}", report["guest"]);
    riser_ok(&["guest", "replay", &record, "--capture", &again]);
    assert!(fs::read(capture).unwrap() == fs::read(again).unwrap(), "the captures differ");
}

/// The kernel's VFIO gives devices to a program, whose addresses the emulated IOMMU translates. Each vector is counted separately, and accesses
/// to unmapped addresses are refused.
#[test]
fn program_drives_devices_through_vfio_and_iommu() {
    let rig = Rig::new(&engines(&[("x", "msi-x"), ("m", "msi"), ("w", "intx")])).with_probe();
    let (capture, record, again) = (rig.path("run.pcapng"), rig.path("run.rec"), rig.path("again.pcapng"));
    let script = "echo 7269 0007 >/sys/bus/pci/drivers/vfio-pci/new_id\n\
        for p in '01:00.0 msix' '02:00.0 msi' '03:00.0 intx'; do /share/probe vfio 0000:$p || exit; done\n\
        dmesg | grep -c -e 'DMAR: IOMMU enabled' -e 'DMAR-IR: Enabled IRQ remapping'";
    let outcome = rig.run(
        &[
            "--direct",
            "--vtd",
            "--module",
            "vfio_iommu_type1",
            "--module",
            "vfio-pci",
            "--capture",
            &capture,
            "--record",
            &record,
        ],
        script,
    );
    let lines = |how: &str, vectors: &str| {
        format!(
            "{how}: {vectors} vectors\n\
            {how}: d2h event 1 data 1\n{how}: h2d event 1 done 1 failed 0\n\
            {how}: d2h event 1 data 1\n{how}: h2d event 1 done 2 failed 0\n\
            {how}: beyond event 1 done 3 failed 1\n"
        )
    };
    let expected = lines("msix", "2 of 2") + &lines("msi", "2 of 2") + &lines("intx", "1 of 1") + "2\n";
    assert_eq!(outcome.stdout, expected);
    for function in ["03:00.0", "04:00.0", "05:00.0"] {
        let refused = format!(
            "DMA of {function} was refused: the machine has not mapped 256 bytes at 0x7664000 for a read"
        );
        assert!(outcome.stderr.contains(&refused), "{}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("DMA_UNMAP"), "{}", outcome.stderr);
    // The TLPs carry the addresses that the program chose, and the bus numbers that riser assigned.
    let reads = trace(&capture, "type=MRd");
    let of = |bdf: &str, text: &str| reads.iter().any(|line| line.contains(bdf) && line.contains(text));
    for function in ["03:00.0", "04:00.0", "05:00.0"] {
        assert!(of(function, "0x07654400"), "{function}: {reads:?}");
    }
    riser_ok(&["guest", "replay", &record, "--capture", &again]);
    assert!(fs::read(capture).unwrap() == fs::read(again).unwrap(), "the captures differ");
}

/// Two guests on one fabric: each finds only its own devices. If both use the same address, the DMA of each reaches its
/// own memory.
#[test]
#[ignore = "of .ci/long guest"]
fn two_guests_share_only_the_fabric() {
    let lab = "version = 1\n[[external_host]]\nname = 'a'\n[[external_host]]\nname = 'b'\n\
        [[slot]]\nname = 'first'\ndevice = 'dma-engine'\nparent = 'a'\n[slot.dma-engine]\nvfs = 0\n\
        [[slot]]\nname = 'clock'\ndevice = 'clock'\nparent = 'a'\n\
        [[slot]]\nname = 'second'\ndevice = 'dma-engine'\nparent = 'b'\n[slot.dma-engine]\nvfs = 0\n";
    let rig = Rig::new(lab).with_probe();
    let capture = rig.path("run.pcapng");
    let script = "seed=7; [ $RISER_HOST = a ] || seed=1007\nlspci -n -d 7269: | grep -v :0100 | cut -d' ' -f1,3\n\
        f=10000:01:00.0; setpci -s $f 4.w=6\n/share/probe memory $f $seed write\n>/share/done.$RISER_HOST\n\
        until [ -e /share/done.a ] && [ -e /share/done.b ]; do sleep 0.1; done\n/share/probe memory $f $seed look";
    let outcome = rig.run(&["--append", "memmap=1M$0x10000000 iomem=relaxed", "--capture", &capture], script);
    let of = |host: &str| -> Vec<&str> {
        outcome.stdout.lines().filter_map(|line| line.strip_prefix(&format!("{host}: "))).collect()
    };
    let done = ["write: done 1 failed 0 data 1", "look: done 1 failed 0 data 1"];
    assert_eq!(of("a"), [&["10000:01:00.0 7269:0007", "10000:02:00.0 7269:000a"][..], &done].concat());
    assert_eq!(of("b"), [&["10000:01:00.0 7269:0007"][..], &done].concat());
    // Both devices wrote to the same address, each over its own link.
    let links: std::collections::BTreeSet<String> = trace(&capture, "type=MWr")
        .iter()
        .filter(|line| line.contains("Addr 0x10000400"))
        .filter_map(|line| line.split(' ').nth(1).map(str::to_owned))
        .collect();
    assert_eq!(links.len(), 2, "{links:?}");
}

/// Each guest may have its own command. Errors are reported before any guest starts.
#[test]
#[ignore = "of .ci/long guest"]
fn each_guest_may_have_own_command() {
    let lab = "version = 1\n[[external_host]]\nname = 'a'\n[[external_host]]\nname = 'b'\n\
        [[slot]]\nname = 'first'\ndevice = 'clock'\nparent = 'a'\n[[slot]]\nname = 'second'\ndevice = 'clock'\nparent = 'b'\n";
    let rig = Rig::new(lab);
    let (path, log) = (rig.path("lab.toml"), rig.path("log"));
    let run = |arguments: &[&str]| common::riser(&[&["guest", "run", &path][..], arguments].concat());
    for (arguments, says) in [
        (&[][..], "guest `a`: no command; each of several guests needs one"),
        (&["--guest", "c=true"], "--guest `c=true`, expected NAME=COMMAND, NAME one of a, b"),
        (&["--guest", "a=true", "--guest", "a=false"], "--guest: `a` is named twice"),
        (
            &["--assign", "v=first.virtfn0", "--", "true"],
            "--assign: legal only if the lab has one host outside",
        ),
        (&["--gdb", "--", "true"], "--gdb: legal only with one guest"),
    ] {
        let outcome = run(arguments);
        assert!(outcome.code == 2 && outcome.stderr.contains(says), "{arguments:?}: {}", outcome.stderr);
    }
    let outcome = run(&["--log", &log, "--json", "--guest", "b=echo only; exit 5", "--", "echo", "both"]);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    let mut said: Vec<&str> = outcome.stderr.lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["a: both", "b: only"]);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&report["status"], &report["guests"][1]["host"]), (&5.into(), &"b".into()));
    assert!(report["guests"][0]["guest"]["reads"].as_u64().unwrap() > 1000);
    for host in ["a", "b"] {
        assert!(fs::read_to_string(format!("{log}.{host}")).unwrap().contains("Linux version"));
    }
}

/// If the clock counts instructions, and the fabric's time stands still between accesses, a guest that polls is
/// reproducible. Its output with both clocks, its kernel's log with the times, and every TLP with its time are the
/// same.
#[test]
#[ignore = "of .ci/long guest"]
fn guest_with_icount_is_reproducible() {
    let lab =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/clock.toml")).unwrap();
    let runs = [1, 2].map(|n| {
        let rig = Rig::new(&lab);
        let capture = rig.path("run.pcapng");
        let output =
            command(&["guest", "run", &rig.path("lab.toml"), "--icount", "3", "--capture", &capture])
                .args([
                    "--time-limit",
                    "120",
                    "--",
                    "sh",
                    "-c",
                    "dmesg; lspci -vvv; lab time; cat /proc/uptime",
                ])
                .output()
                .unwrap();
        assert!(output.status.success(), "run {n}: {}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), fs::read(capture).unwrap())
    });
    let [first, second] = runs;
    assert!(first.0.contains("10000:") && first.0.lines().count() > 300, "{}", first.0);
    for (one, other) in first.0.lines().zip(second.0.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(first.0.len(), second.0.len());
    assert!(first.1 == second.1, "the captures differ");
}
