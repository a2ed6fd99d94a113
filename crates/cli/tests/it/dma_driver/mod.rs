// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine's Linux driver, `drivers/linux`, in stock kernels. `riser guest build` builds it. The driver finds
//! the functions and moves data. The tests make invalid calls, kill processes, and reset, pull out and unbind
//! functions. Kernels, headers and compilers that are not in the user's cache are fetched from Debian's packages. Tests
//! are skipped with a message if that fails.
//!
//! `RISER_KERNEL=6.12-debug` runs all tests in the debug kernel (`riser guest kernel 6.12-debug`), which must report no errors of memory,
//! locks, mappings or leaks at the end. `.ci/long kernel` does that.

use crate::common::driver;
use crate::guest::rig::{self, Guest, SharedBoot};
mod speed;

use crate::common::driver::drivers;
use crate::common::{command, riser, riser_ok};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tests of `caller.c`, and the number of lines that they print.
const CALLS: &str =
    "arguments pages loop_back queued waiting time_out closing registers handles rings processes user";
const ANSWERS: usize = 141;

/// Lab with one function with four virtual functions, in a hot-plug slot.
const LAB: &str = "version = 1\n[link]\ngen = 3\nlanes = 8\nmps_bytes = 256\nmrrs_bytes = 512\n[[slot]]\nname = 'card'\ndevice = 'dma-engine'\n\
    hot_plug = true\nhot_plug_controls = false\n[slot.dma-engine]\nvfs = 4\n";
/// Lab with one function without virtual functions. Such a function may use other interrupts than MSI-X.
const ALONE: &str = "version = 1\n[[slot]]\nname = 'card'\ndevice = 'dma-engine'\n";

/// Words in the log of a kernel that has found an error. The last messages come only from a debug kernel.
const COMPLAINTS: [&str; 9] = [
    "BUG:",
    "WARNING:",
    "INFO:",
    "general protection fault",
    "use-after-free",
    "Oops",
    "DMA-API",
    "UBSAN",
    "unreferenced object",
];

/// End of scripts: print leaks, which a scan finds in memory that is some seconds old, and whether lock checking was active to the end.
const END: &str = "if [ -e /sys/kernel/debug/kmemleak ]; then\n\
    sleep 6; echo scan >/sys/kernel/debug/kmemleak; sleep 6; echo scan >/sys/kernel/debug/kmemleak\n\
    echo == leaks; cat /sys/kernel/debug/kmemleak; grep debug_locks /proc/lockdep_stats\n\
    fi\necho == log\ndmesg";

/// Start of scripts: the program of the paper's tests, and the number of pinned pages.
const BEGIN: &str = "I=/share/riser-dma-integers\nS=/sys/class/riser_dma\n\
    pins() { echo 1 >/proc/sys/vm/stat_refresh; awk '/nr_foll_pin_acquired/ { a = $2 } /nr_foll_pin_released/ { print a - $2, \"pinned\" }' /proc/vmstat; }\n\
    # Until what was begun before is under way; where the kernel watches itself, all takes longer.\n\
    soon() { if [ -e /sys/kernel/debug/kmemleak ]; then sleep 2; else usleep 300000; fi; }\n\
    # until N COMMAND: tries it N tenths of a second.\n\
    until_() { n=$1; shift; until \"$@\" >/dev/null 2>&1 || [ $n = 0 ]; do usleep 100000; n=$((n - 1)); done; }\n\
    # reload PARAMETERS: restores the state after a boot.\n\
    reload() { echo 0 >$d/10000:01:00.0/sriov_numvfs; echo 0 >/proc/sys/vm/nr_hugepages; { rmmod riser_dma && insmod /share/riser_dma.ko \"$@\"; } || exit 1; until_ 50 ls /dev/riser_dma0; }\n";

/// Scripts that share a boot of 6.1. The last script pulls the card out, after which lockdep may stop its checks.
fn scripts() -> Vec<(&'static str, String)> {
    vec![
        ("calls", call_script()),
        ("integers", format!("reload\n{INTEGERS}")),
        ("killed", format!("reload\n{KILLED}")),
        ("python", format!("reload\n{PYTHON}")),
        ("sizes", format!("reload mps=128 mrrs=256\n{SIZES}")),
        ("unbound", format!("reload\n{}", unbound())),
    ]
}

/// Scripts that share a boot of 6.12.
fn newer_scripts() -> Vec<(&'static str, String)> {
    let few_places = format!("reload ring=device ring_entries=4\n{}", call_script());
    vec![
        ("dmabufs", DMABUFS.to_owned()),
        ("few-places", few_places),
        ("by-lot", format!("reload\n{}", by_lot())),
    ]
}

/// Returns the output of one of the scripts that share a boot. `None` if the driver cannot be built.
fn shared(script: &str, usual_kernel: &str, scripts: &[(&'static str, String)]) -> Option<Guest> {
    let kernel = kernel(usual_kernel);
    let module = module(&kernel)?;
    let name = format!("dma_driver-boot-{usual_kernel}");
    let arguments =
        ["--kernel", &kernel, "--memory-mib", "1024", "--module", &module, "--package", "python3"];
    let scripts: Vec<_> =
        scripts.iter().map(|(name, text)| (*name, format!("{BEGIN}{text}\n{END}"))).collect();
    let boot = SharedBoot { name: &name, lab: LAB, arguments: &arguments, scripts: &scripts };
    let guest = boot.guest(script, |share| {
        compile(share);
        fs::copy(&module, share.join("riser_dma.ko")).unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dma_driver/python.py");
        fs::copy(own, share.join("python.py")).unwrap();
        fs::copy(drivers().join("lib/riser_dma.py"), share.join("riser_dma.py")).unwrap();
    });
    check_log(&guest);
    Some(guest)
}

/// Builds the module for a kernel. Returns the reason if the parts cannot be fetched.
fn build(kernel: &str) -> Result<PathBuf, String> {
    driver::build(&format!("dma_driver-{kernel}"), kernel, &["W=1", "C=2"], |said| {
        // sparse has checked all files.
        let looked = said.lines().filter(|line| line.contains("CHECK")).count();
        assert_eq!((looked, said.contains("warning")), (8, false), "{said}");
    })
}

/// Version of the kernel: RISER_KERNEL, or `usually`.
fn kernel(usually: &str) -> String {
    std::env::var("RISER_KERNEL").unwrap_or(usually.to_owned())
}

/// Returns the module for a kernel, built once per run. `None`, and a message, if its parts cannot be fetched.
fn module(kernel: &str) -> Option<String> {
    match build(kernel) {
        Ok(module) => Some(module.to_str().unwrap().to_owned()),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Compiles the programs statically for a guest.
fn compile(share: &Path) {
    let (linux, own) = (drivers(), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dma_driver"));
    let library = linux.join("lib/libriser_dma.c");
    let programs = [
        ("riser-dma-integers", vec![linux.join("lib/integers.c"), library.clone()]),
        ("caller", vec![own.join("caller.c"), library.clone()]),
        ("many", vec![own.join("many.c"), library]),
        ("random", vec![own.join("random/main.c"), own.join("random/calls.c")]),
    ];
    programs.iter().for_each(|(name, sources)| driver::compile(sources, &share.join(name)));
}

/// Runs a guest with the driver and these module `parameters`. `None` if the driver cannot be built.
fn guest(lab: &str, usual_kernel: &str, parameters: &str, script: &str, arguments: &[&str]) -> Option<Guest> {
    let kernel = kernel(usual_kernel);
    let module = module(&kernel)?;
    let loaded = format!("{module}{parameters}");
    let arguments =
        [&["--kernel", &kernel, "--memory-mib", "1024", "--module", loaded.trim_end()], arguments].concat();
    let script = format!("{BEGIN}{script}\n{END}");
    let guest = Guest::with_files(lab, &script, &arguments, compile);
    check_log(&guest);
    Some(guest)
}

/// Lockdep's report about Linux 6.12 itself when a card is pulled out: pciehp takes this lock and the removal lock in either order.
/// Afterwards lockdep stops checking.
const PCIEHPS_OWN: &str = "(&ctrl->reset_lock){.+.+}-{3:3}, at: pciehp_unconfigure_device";

/// Panics if the kernel has reported an error.
fn check_log(guest: &Guest) {
    let log = guest.said("log");
    let is_pciehps = log.contains(PCIEHPS_OWN);
    let told = if is_pciehps { log.replacen("WARNING: possible circular", "", 1) } else { log.to_owned() };
    for bad in COMPLAINTS {
        assert!(!told.contains(bad), "{log}");
    }
    if guest.outcome.stdout.contains("== leaks\n") {
        let (leaks, locks) = guest.said("leaks").split_once(" debug_locks:").unwrap();
        assert_eq!((leaks, locks.trim()), ("", if is_pciehps { "0" } else { "1" }), "{log}");
    }
}

/// Lines below a heading, in order.
fn lines<'a>(guest: &'a Guest, heading: &str) -> Vec<&'a str> {
    guest.said(heading).lines().collect()
}

/// Panics unless there are `count` lines, each of a transfer with its rate.
fn assert_rates(guest: &Guest, heading: &str, count: usize) {
    let lines = lines(guest, heading);
    assert!(
        lines.len() == count && lines.iter().all(|line| line.ends_with(" Gb/s")),
        "{heading}: {lines:#?}"
    );
}

/// Script of valid and invalid calls, with the memory that stays pinned after them.
fn call_script() -> String {
    format!(
        "P=/sys/module/riser_dma/parameters\necho 500 >$P/timeout_ms; echo 300 >$P/close_timeout_ms\n\
         echo == calls\nfor t in {CALLS}; do timeout 60 /share/caller /dev/riser_dma0 $t || echo \"$t: exit $?\"; done\n\
         echo == pins\npins"
    )
}

/// Panics if an answer differs from riser_dma.h, or a page stays pinned.
fn assert_calls(guest: &Guest) {
    let answers: Vec<_> = lines(guest, "calls").into_iter().filter(|line| !line.starts_with("-- ")).collect();
    let wrong: Vec<_> = answers.iter().filter(|line| !line.ends_with(": ok")).collect();
    assert_eq!((wrong, answers.len()), (vec![], ANSWERS));
    assert_eq!(guest.said("pins"), "0 pinned\n");
}

#[test]
fn driver_answers_calls_on_kernel_6_1() {
    let Some(guest) = shared("calls", "6.1", &scripts()) else { return };
    assert_calls(&guest);
}

/// The same driver and programs work with the engine in RTL and UltraScale's block: the physical function, a virtual one, and valid and
/// invalid calls.
#[test]
#[ignore = "of .ci/long rtl"]
fn driver_works_with_engine_in_rtl() {
    let design = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/dma_engine/pcie3_ultrascale.toml");
    riser_ok(&["rtl", "build", design.to_str().unwrap()]);
    let lab = format!(
        "version = 1\n[[slot]]\nname = 'card'\ndevice = 'rtl'\nrtl.design = '{}'\n",
        design.display()
    );
    let script = format!(
        "echo 1 >/sys/bus/pci/devices/10000:01:00.0/sriov_numvfs; until_ 50 ls /dev/riser_dma1\n\
         echo == both\n/share/riser-dma-integers --size 65536 /dev/riser_dma0 /dev/riser_dma1\n\
         echo == gap\n/share/riser-dma-integers --gap --direction h2d --size 4096 /dev/riser_dma1\n{}",
        call_script()
    );
    let Some(guest) = guest(&lab, "6.1", "", &script, &["--allow-native"]) else { return };
    assert_rates(&guest, "both", 4);
    assert!(guest.said("gap").ends_with(": the gap was found\n"), "{}", guest.said("gap"));
    assert_calls(&guest);
}

const DMABUFS: &str = "echo == calls\n/share/caller /dev/riser_dma0 dmabufs\necho == pins\npins";

/// Memory from dmabufs: pages of a file (udmabuf), and of the system heap, which 6.12 has.
#[test]
#[ignore = "of .ci/long guest"]
fn imports_dmabufs() {
    let Some(guest) = shared("dmabufs", "6.12", &newer_scripts()) else { return };
    let answers: Vec<_> =
        lines(&guest, "calls").into_iter().filter(|line| !line.starts_with("-- ")).collect();
    assert!(answers.len() == 2 * 9 && answers.iter().all(|line| line.ends_with(": ok")), "{answers:#?}");
    assert_eq!(guest.said("pins"), "0 pinned\n");
}

#[test]
#[ignore = "of .ci/long kernel"]
fn driver_answers_calls_on_kernel_6_12_with_two_processors() {
    let Some(guest) = guest(LAB, "6.12", "", &call_script(), &["--smp", "2"]) else { return };
    assert_calls(&guest);
}

#[test]
#[ignore = "of .ci/long guest"]
fn driver_answers_calls_with_small_device_ring() {
    let Some(guest) = shared("few-places", "6.12", &newer_scripts()) else { return };
    assert_calls(&guest);
}

const INTEGERS: &str = "echo 4 >$d/10000:01:00.0/sriov_numvfs; echo 8 >/proc/sys/vm/nr_hugepages\n\
    echo == functions\ncat $S/riser_dma?/function\n\
    echo == small\n$I --small -n 1 /dev/riser_dma0 /dev/riser_dma3\n\
    echo == huge\n$I --huge -s 4194304 -n 1 /dev/riser_dma0 /dev/riser_dma4\n\
    echo == batch\n$I --small -s 4096 -n 256 -b /dev/riser_dma1; $I --huge -s 65536 -n 64 -b -p /dev/riser_dma1\n\
    echo == polling\n$I --small -s 65536 -n 4 -p /dev/riser_dma2\n\
    echo == device\necho 'device 512' >$S/riser_dma2/ring; cat $S/riser_dma2/ring; $I --small -s 4194304 -n 1 /dev/riser_dma2\n\
    echo == gap\nfor n in 0 2; do $I --small -d h2d -s 8192 -n 1 -g /dev/riser_dma$n; $I --small -d h2d -s 8192 -n 3 -g -b /dev/riser_dma$n; done";

/// The paper's tests (§IV-E) with integers to the device and from it. They use physical and virtual functions, ordinary
/// and huge pages, single transfers and batches, polling and interrupts, and either ring. The device finds a missing
/// integer.
#[test]
fn moves_integers_both_ways_through_all_functions() {
    let Some(guest) = shared("integers", "6.1", &scripts()) else { return };
    assert_eq!(lines(&guest, "functions"), ["0", "1", "2", "3", "4"]);
    // 1 KiB to 4 MiB, both directions, two functions.
    assert_rates(&guest, "small", 13 * 2 * 2);
    assert_rates(&guest, "huge", 2 * 2);
    assert_rates(&guest, "batch", 2 + 2);
    assert_rates(&guest, "polling", 2);
    let device = lines(&guest, "device");
    assert!(device[0] == "device 512" && device.len() == 3 && device[2].ends_with(" Gb/s"), "{device:?}");
    let gaps = lines(&guest, "gap");
    assert!(gaps.len() == 4 && gaps.iter().all(|line| line.ends_with(": the gap was found")), "{gaps:#?}");
}

const KILLED: &str = "echo 1 >$d/10000:01:00.0/sriov_numvfs\n\
    echo == undisturbed\n$I --small -s 1048576 -n 20 /dev/riser_dma1 & other=$!\n\
    for n in 1 2 3; do\n\
      $I --small -s 4194304 -n 100000 -d h2d /dev/riser_dma0 >/dev/null & p=$!\n\
      $I --small -s 65536 -n 2048 -b -d d2h /dev/riser_dma0 >/dev/null & q=$!\n\
      soon; kill -9 $p $q; wait $p; r=$?; wait $q; echo $r $? >>/tmp/killed\n\
    done\nwait $other\n\
    echo == killed\ncat /tmp/killed\n\
    echo == pins\npins\n\
    echo == after\n$I --small -s 65536 -n 4 /dev/riser_dma0";

/// Two processes are killed during transfers. The data of a third process on the same engines and another function stay correct.
#[test]
fn killed_processes_do_not_disturb_others() {
    let Some(guest) = shared("killed", "6.1", &scripts()) else { return };
    assert_rates(&guest, "undisturbed", 2);
    assert_eq!(lines(&guest, "killed"), ["137 137"; 3]);
    assert_eq!(guest.said("pins"), "0 pinned\n");
    assert_rates(&guest, "after", 2);
}

/// Script: fifty processes at the same time, then fifty that are killed, then the state of the root port, a rebind and transfers.
const MANY: &str = "echo == whole\n/share/many /dev/riser_dma0 50\n\
    echo == killed\n/share/many /dev/riser_dma0 50 kill\n\
    echo == pins\npins\n\
    echo == port\nsetpci -s 10000:00:01.0 VENDOR_ID\n\
    echo == after\nb=/sys/bus/pci/drivers/riser_dma; echo 10000:01:00.0 >$b/unbind; echo 10000:01:00.0 >$b/bind\n\
    until_ 50 ls /dev/riser_dma0; $I --small -s 65536 -n 4 /dev/riser_dma0";

/// Completion timers of finished requests do not delay the fabric, so the guest finds the root port and the card in
/// time.
#[test]
#[ignore = "of .ci/long guest"]
fn fabric_still_works_after_fifty_processes() {
    let lab = include_str!("../../../../../labs/sriov.toml");
    for processors in ["1", "2"] {
        let Some(guest) = guest(lab, "6.1", "", MANY, &["--smp", processors]) else { return };
        assert_eq!(guest.said("whole"), "50 ended, 0 killed\n");
        assert_eq!(guest.said("killed"), "0 ended, 50 killed\n");
        assert_eq!(guest.said("pins"), "0 pinned\n");
        assert_ne!(guest.said("port"), "ffff\n");
        assert_rates(&guest, "after", 2);
    }
}

fn unbound() -> String {
    let load = "$I --small -s 4194304 -n 100000 -d d2h /dev/riser_dma0 & p=$!\n$I --small -s 4194304 -n 100000 -d h2d -p /dev/riser_dma1 & q=$!\nuntil_ 100 grep -q '[2-9]' /sys/module/riser_dma/refcnt; soon\n";
    format!(
        "echo 2 >$d/10000:01:00.0/sriov_numvfs\necho == unbind\n{load}rmmod riser_dma 2>/dev/null; echo in use: $?\n\
         echo 10000:01:00.0 >/sys/bus/pci/drivers/riser_dma/unbind\nwait $p; echo $?; wait $q; echo $?\n\
         echo == pins\npins; ls /dev | grep -c riser; rmmod riser_dma; echo $?\n\
         echo == again\ninsmod /share/riser_dma.ko; $I --small -s 65536 -n 4 /dev/riser_dma0"
    )
}

/// Unbind under load: open files return errors, no page stays pinned, and the module can be unloaded and loaded.
#[test]
fn unbinds_function_under_load() {
    let Some(guest) = shared("unbound", "6.1", &scripts()) else { return };
    let unbound: Vec<_> =
        guest.said("unbind").lines().filter(|line| line.ends_with("No such device")).collect();
    assert_eq!(unbound.len(), 2, "{}", guest.said("unbind"));
    guest.has("unbind", "in use: 1\n");
    assert_eq!(guest.said("pins"), "0 pinned\n0\n0\n");
    assert_rates(&guest, "again", 2);
}

fn pulled_out() -> String {
    let load =
        |kind: &str| format!("$I --small -s 4194304 -n 100000 -d h2d {kind} /dev/riser_dma0 & p=$!\nsoon\n");
    format!(
        "echo == remove\n{}lab remove card\nwait $p; echo $?; until_ 50 sh -c '! ls /dev/riser_dma0'; lab insert card; until_ 100 ls /dev/riser_dma0\n\
         echo == inserted\n$I --small -s 65536 -n 4 /dev/riser_dma0\n\
         echo == cut\n{}lab cut card 100000\nwait $p; echo $?; until_ 60 sh -c '! ls /dev/riser_dma0'; until_ 300 ls /dev/riser_dma0; soon\n\
         echo == restored\n$I --small -s 65536 -n 4 /dev/riser_dma0\n\
         echo == poisoned\n$I --small -s 4194304 -n 20 -d h2d /dev/riser_dma0 & p=$!\nsoon\n\
         lab fault 'slot = \"card\", direction = \"downstream\", frames = \"tlp\", nth = 1, action = \"poison\"'\nwait $p; echo $?\n\
         echo == reset\n{}echo 1 >$d/10000:01:00.0/reset; wait $p; echo $?\n$I --small -s 65536 -n 4 /dev/riser_dma0\n\
         echo == pins\npins",
        load(""),
        load("-p"),
        load("")
    )
}

/// A card is pulled out, and its link is cut, under load. After a poisoned doorbell the driver rings again, and after a reset the function works again.
#[test]
#[ignore = "of .ci/long guest"]
fn handles_removal_cut_link_and_reset_under_load() {
    let Some(guest) = guest(LAB, "6.1", "", &pulled_out(), &[]) else { return };
    for heading in ["remove", "cut"] {
        guest.has(heading, ": No such device\n1\n");
    }
    for heading in ["inserted", "restored"] {
        assert_rates(&guest, heading, 2);
    }
    // A poisoned doorbell is rung again. Poisoned data fail the transfer.
    let poisoned = guest.said("poisoned");
    assert!(poisoned.ends_with(" Gb/s\n0\n") || poisoned.contains(": Input/output error\n"), "{poisoned}");
    // The integers start again with the function: either the outstanding transfer is cut off, or the next one has unexpected data.
    // On a busy machine the program may start while the function is being reset, and then gets this error (`riser_dma_set_logic`).
    let reset = guest.said("reset");
    let outcomes = ["Operation canceled", "Bad message", "Device or resource busy"];
    assert!(outcomes.iter().any(|outcome| reset.contains(&format!(": {outcome}\n1\n"))), "{reset}");
    assert_eq!(reset.matches(" Gb/s").count(), 2, "{reset}");
    assert_eq!(guest.said("pins"), "0 pinned\n");
}

/// A contained link (DPC) is reset: outstanding transfers fail, and the function continues. A function that sleeps continues where it was, with user
/// logic that starts again.
#[test]
#[ignore = "of .ci/long kernel"]
fn function_works_after_containment_and_sleep() {
    // The file share of the guest does not survive its sleep.
    let script = "cp /share/riser-dma-integers /tmp; I=/tmp/riser-dma-integers\n\
        echo == contained\n$I --small -s 4194304 -n 100000 -d h2d /dev/riser_dma0 & p=$!\n\
        $I --small -s 4194304 -n 100000 -d d2h -p /dev/riser_dma0 & q=$!\nsoon\n\
        setpci -s 10000:00:01.0 ECAP_DPC+6.w=40:40; wait $p; echo $?; wait $q; echo $?\n\
        echo == recovered\n$I --small -s 65536 -n 4 /dev/riser_dma0\n\
        echo == slept\n$I --small -s 4194304 -n 100000 -d h2d /dev/riser_dma0 & p=$!\nsoon\n\
        echo devices >/sys/power/pm_test; echo freeze >/sys/power/state; echo $?; wait $p; echo $?\n\
        echo == woken\n$I --small -s 65536 -n 4 /dev/riser_dma0\n\
        echo == pins\npins";
    // A shell reads its script while it runs it.
    let script =
        format!("cat >/tmp/script <<'END'\n{BEGIN}{script}\n{END}\nexit 0\nEND\nexec sh /tmp/script");
    let lab = format!("{ALONE}[slot.dma-engine]\nvfs = 0\n");
    // Since 6.12, Linux leaves containment to firmware that does not state its owner, unless the command line says otherwise.
    let arguments = ["--append", "pcie_ports=dpc-native"];
    let Some(guest) = guest(&lab, "6.1", "", &script, &arguments) else { return };
    // Outstanding transfers fail. If there is no such transfer, the next one ends it, because the integers start again.
    let contained = guest.said("contained");
    let ends = |why: &str| contained.matches(&format!("B x 100000: {why}\n")).count();
    assert_eq!(ends("Input/output error") + ends("Bad message"), 2, "{contained}");
    guest.has("log", "AER: device recovery successful");
    for heading in ["recovered", "woken"] {
        assert_rates(&guest, heading, 2);
    }
    let slept = guest.said("slept");
    assert!(slept.lines().any(|line| line == "0") && slept.contains(": Bad message\n"), "{slept}");
    assert_eq!(guest.said("pins"), "0 pinned\n");
}

/// Each transfer that requests an interrupt gets one, by each kind of interrupt, with an IOMMU.
#[test]
#[ignore = "of .ci/long kernel"]
fn each_requested_interrupt_arrives() {
    for (means, line) in [("msi-x", "PCI-MSI"), ("msi", "PCI-MSI"), ("intx", "fasteoi")] {
        let lab = format!("{ALONE}[slot.dma-engine]\nvfs = 0\ninterrupts = '{means}'\n");
        let script = "echo == moved\n$I --small -s 8192 -n 7 /dev/riser_dma0; $I --small -s 8192 -n 32 -b /dev/riser_dma0\n\
            echo == interrupts\ngrep riser_dma /proc/interrupts";
        let Some(guest) = guest(&lab, "6.1", "", script, &["--direct", "--vtd"]) else { return };
        assert_rates(&guest, "moved", 4);
        let counted = lines(&guest, "interrupts");
        assert!(counted.iter().all(|l| l.contains(line)), "{counted:#?}");
        let count = |l: &&str| l.split_whitespace().nth(1).unwrap().parse::<u32>().unwrap();
        let counted: u32 = counted.iter().map(count).sum();
        // Seven, plus one for the batch, in each direction. Two that arrive before QEMU looks are merged, and a level that is deasserted late is
        // counted twice.
        let (least, most) = (2 * 6, if means == "intx" { 4 * (7 + 1) } else { 2 * (7 + 1) });
        assert!((least..=most).contains(&counted), "{means}: {counted}");
    }
}

/// Duration of the program in seconds, and its seed.
fn lot() -> (u32, u32) {
    (rig::times("RISER_SECONDS", 10), rig::times("RISER_SEED", 1))
}

fn by_lot() -> String {
    let (seconds, seed) = lot();
    // If the kernel supports it, all kinds of its allocations and copies fail without log messages.
    format!(
        "echo 4 >$d/10000:01:00.0/sriov_numvfs; echo 8 >/proc/sys/vm/nr_hugepages\n\
         P=/sys/module/riser_dma/parameters; echo 300 >$P/timeout_ms; echo 100 >$P/close_timeout_ms\n\
         for f in failslab fail_page_alloc fail_usercopy; do\n\
           for s in 'verbose 0' 'ignore-gfp-wait N' 'min-order 0'; do\n\
             [ ! -e /sys/kernel/debug/$f/${{s% *}} ] || echo ${{s#* }} >/sys/kernel/debug/$f/${{s% *}}\n\
           done\n\
         done\n\
         echo == calls\n/share/random {seed} {seconds} 4\necho == pins\npins"
    )
}

/// Four processes make random calls, and another resets functions and changes settings, for ten seconds; in `.ci/long random-calls` for an hour.
#[test]
#[ignore = "of .ci/long guest"]
fn survives_random_calls() {
    let Some(guest) = shared("by-lot", "6.12", &newer_scripts()) else { return };
    let said = guest.said("calls");
    eprintln!("{said}");
    let first: Vec<_> = said.split_whitespace().collect();
    let counted =
        |of: &str| first[first.iter().position(|word| *word == of).unwrap() - 1].parse::<u32>().unwrap();
    assert!(said.contains(" 0 violations\n") && counted("calls,") > 10 * lot().0, "{said}");
    assert_eq!(guest.said("pins"), "0 pinned\n");
}

const SIZES: &str = "echo 1 >$d/10000:01:00.0/sriov_numvfs\n\
    show() { cat $S/riser_dma0/max_payload_size $S/riser_dma0/max_read_request_size $S/riser_dma0/payload_bytes $S/riser_dma1/payload_bytes $S/riser_dma1/read_bytes; }\n\
    try() { echo $2 2>/dev/null >$S/riser_dma0/$1 && echo taken || echo refused; }\n\
    echo == first\nshow\n\
    echo == path\necho $((0x$(setpci -s 10000:00:01.0 CAP_EXP+8.w) >> 5 & 7))\nfor m in 512 4096 100 0 -1 x 256; do try max_payload_size $m; done\n\
    echo == reads\nfor m in 1024 8192 100 0; do try max_read_request_size $m; done\n\
    echo == then\nshow; ls $S/riser_dma1 | grep -c 'max_\\|vf_weights'\n\
    echo == weights\ntry vf_weights '1 7'; cat $S/riser_dma0/vf_weights $S/riser_dma1/weight\n\
    for w in '0 1' '5 1' '1 0' '1 256' '1' '1 2 3'; do try vf_weights \"$w\"; done\n\
    echo == ring\nfor r in 'host 16' 'device 512' 'device 99999' 'host' 'memory 8' 'host 4294967296' 'host 0' 'host 12'; do try ring \"$r\"; cat $S/riser_dma0/ring; done";

/// TLP sizes can be set by parameters and attributes, but not above the limit of the path, and not for a virtual function alone.
#[test]
fn sizes_stay_within_path_limits() {
    // Firmware has set the root port to 256 B, which all functions below it support. Linux does not change that.
    let Some(left) = shared("sizes", "6.1", &scripts()) else { return };
    assert_sizes(&left, ("1", "taken", "256"));
}

/// The same with an option that makes Linux set all ports to 128 B.
#[test]
#[ignore = "of .ci/long guest"]
fn sizes_stay_within_smaller_path_limits() {
    let arguments = ["--append", "pci=pcie_bus_peer2peer"];
    let Some(least) = guest(LAB, "6.1", " mps=128 mrrs=256", SIZES, &arguments) else { return };
    assert_sizes(&least, ("0", "refused", "128"));
}

/// Panics unless the sizes fit a path whose root port has Max_Payload_Size `port`. `takes`: whether 256 bytes are accepted.
fn assert_sizes(guest: &Guest, (port, takes, payload): (&str, &str, &str)) {
    assert_eq!(lines(guest, "first"), ["128", "256", "128", "128", "256"]);
    assert_eq!(lines(guest, "path"), [&[port][..], &["refused"; 6], &[takes]].concat());
    assert_eq!(lines(guest, "reads"), ["taken", "refused", "refused", "refused"]);
    // The lab's engine requests at most 512 bytes at once.
    assert_eq!(lines(guest, "then"), [payload, "1024", payload, payload, "512", "0"]);
    assert_eq!(lines(guest, "weights"), [&["taken", "7 1 1 1", "7"][..], &["refused"; 6]].concat());
    let ring = ["taken", "host 16", "taken", "device 512"];
    let refused = ["refused", "device 512"].repeat(6);
    assert_eq!(lines(guest, "ring"), [&ring[..], &refused].concat());
}

const PYTHON: &str = "echo == said\npython3 /share/python.py";

/// The Python module: both directions, a missing integer, a register, a batch with a registered buffer, polling.
#[test]
fn python_module_moves_data() {
    let Some(guest) = shared("python", "6.1", &scripts()) else { return };
    let expected = [
        "engines 1 1",
        "received True",
        "sent 65536",
        "found True",
        "id 0x414d4452",
        "put True 64",
        "taken True {(0, 4096, 1)}",
        "batch True",
        "zeros True",
    ];
    assert_eq!(lines(&guest, "said"), expected);
}

/// The installed library: a program is built from only its pkg-config file, against the shared and the static library.
#[test]
fn installed_library_is_sufficient_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let (out, prefix) = (folder.path().join("out"), folder.path().join("usr"));
    fs::create_dir(&out).unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(drivers().join("lib")).arg(format!("OUT={}", out.display()));
    let made = make.arg(format!("PREFIX={}", prefix.display())).arg("install").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let described = fs::read_to_string(prefix.join("lib/pkgconfig/libriser_dma.pc")).unwrap();
    let flags = |key: &str| {
        let line = described.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let line = line.replace("${includedir}", "${prefix}/include").replace("${libdir}", "${prefix}/lib");
        let words = line.replace("${prefix}", prefix.to_str().unwrap());
        words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for linked in ["-static", "-Wl,-z,defs"] {
        let program = folder.path().join("program");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", linked, "-o"]).arg(&program).args(flags("Cflags: "));
        compiler.arg(drivers().join("lib/integers.c")).args(flags("Libs: "));
        assert!(compiler.status().unwrap().success(), "{linked}");
        let mut run = Command::new(&program);
        let output = run.env("LD_LIBRARY_PATH", prefix.join("lib")).arg("/dev/null/none").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{linked}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("Not a directory"), "{output:?}");
    }
}

/// Errors of `riser guest build`.
#[test]
fn reports_build_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let outcome = riser(&["guest", "build", path, "--kernel", "5.10"]);
    assert_eq!((outcome.code, outcome.stderr.contains("6.1, 6.12")), (2, true), "{}", outcome.stderr);
    if module("6.1").is_none() {
        return;
    }
    let outcome = riser(&["guest", "build", path]);
    assert!(outcome.code == 1 && outcome.stderr.contains("Kbuild or Makefile"), "{}", outcome.stderr);
    fs::write(folder.path().join("Kbuild"), "obj-m := bad.o\n").unwrap();
    fs::write(folder.path().join("bad.c"), "#include <linux/module.h>\nint wrong = \"\";\n").unwrap();
    let output = command(&["guest", "build", path]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("bad.c:2:") && stderr.contains("make failed"), "{stderr}");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true));
}
