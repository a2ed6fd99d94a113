// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device's Linux driver and its control program, `drivers/linux/bench`, in a guest: with the model, and with
//! the RTL. Tests are skipped with a message if the parts of a kernel cannot be fetched.

use crate::bench_device::rig::{self, Run, Which};
use crate::common::driver::{self, drivers};
use crate::common::has_verilator;
use crate::guest::rig::Guest;
use devices::pcie_bench::registers::{self as r, Test};

const MODEL: &str = "device = 'pcie-bench'\n";
/// Sizes of the latency tests.
const SIZES: [u64; 3] = [8, 64, 512];

/// Tests of a script: latencies, rates, and arguments that the device or the driver refuses.
fn script() -> String {
    let latency =
        |size| format!("$B --test LAT_RD --size {size} --cache cold --transfers 200 --warm-up 50\n");
    let latencies: String = SIZES.map(latency).concat();
    format!(
        "B=/share/riser-pcie-bench\n\
         echo == latencies\n{latencies}\
         echo == rates\n\
         for t in BW_RD BW_WR BW_RDWR; do $B --test $t --size 1024 --transfers 500; done\n\
         echo == journal\n\
         $B --test LAT_WRRD --path command --transfers 600 --journal /tmp/journal >/dev/null; wc -l </tmp/journal\n\
         echo == caches\n\
         $B --cache host-warm --node 0 --cpu 0 --transfers 100 --buffer 65536; $B --cache device-warm --transfers 100\n\
         echo == refused\n\
         for a in '--size 0' '--window 32' '--offset 64' '--outstanding 0' '--transfers 0' '--node 9' '--window 8388608' '--path x'; do\n\
         $B $a 2>&1; echo \"exit $?\"; done\n\
         $B --test BW_WR --transfers 1000000000000 --timeout 100 2>&1; echo \"exit $?\"\n\
         $B --transfers 5 | cut -d : -f 1\n\
         echo == removal\n\
         rmmod riser_bench && ls /dev/riser_bench0 2>&1\n\
         echo == log\ndmesg"
    )
}

/// Tests with a buffer in huge pages. Writes of the device may occupy 1.5 MiB of the host's cache.
const HUGE_PAGES: &str = "\
    B='/share/riser-pcie-bench --cache device-warm --transfers 400'\n\
    echo == huge\n\
    echo 1 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages\n\
    $B --huge 2M --window 1048576; $B --huge 2M --node 0\n\
    $B --huge 1G --window 1048576; $B --huge 1G --window 67108864\n\
    echo == refused\n\
    $B --huge 2M --window 4194304 2>&1; $B --huge 2M --node 9 2>&1\n\
    echo 0 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages\n\
    $B --huge 1G 2>&1; $B --huge 1G --window 2147483648 2>&1\n\
    $B --window 4096\n\
    echo == log\ndmesg";

/// Runs a script in a guest. `None` if the driver cannot be built.
fn guest(slot: &str, kernel: &str, script: &str, arguments: &[&str]) -> Option<Guest> {
    let module = driver::build_module(
        &drivers().join("bench"),
        "riser_bench.ko",
        &format!("bench_driver-{kernel}"),
        kernel,
        &["W=1", "C=2"],
        |said| assert_eq!((said.contains("CHECK"), said.contains("warning")), (true, false), "{said}"),
    );
    let module = match module {
        Ok(module) => module.display().to_string(),
        Err(why) => {
            eprintln!("skipped: {why}");
            return None;
        }
    };
    let lab = format!("version = 1\n[host]\nprofile = 'xeon-e5-2637v3'\n[[slot]]\nname = 'card'\n{slot}");
    let arguments = [&["--kernel", kernel, "--module", &module], arguments].concat();
    let guest = Guest::with_files(&lab, script, &arguments, |share| {
        let source = drivers().join("bench/tool/riser-pcie-bench.c");
        driver::compile(&[source], &share.join("riser-pcie-bench"));
    });
    Some(guest)
}

/// The number after a word.
fn number(line: &str, word: &str) -> f64 {
    let (_, rest) = line.split_once(word).unwrap_or_else(|| panic!("{word}: {line}"));
    rest.trim().split([',', ' ']).next().unwrap().parse().unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// Panics unless the refusals and the end are as expected.
fn assert_refusals(guest: &Guest) {
    let refused: Vec<&str> = guest.said("refused").lines().collect();
    let parts = [
        "error 18: --size",
        "error 19: --window",
        "error 20: --offset",
        "error 23: --outstanding",
        "error 24: --transfers",
        "cannot allocate the buffer: Invalid argument",
        "--window 8388608; expected at most the buffer",
        "--path x is not legal: --path NAME",
        "the test did not end in time",
    ];
    for (part, pair) in parts.iter().zip(refused.chunks(2)) {
        let status = if part.contains("8388608") || part.contains("--path x") { "exit 2" } else { "exit 1" };
        assert!(pair[0].contains(part) && pair[1] == status, "{part}: {pair:?}");
    }
    assert_eq!(refused[18..], ["LAT_RD 64 B"], "the device works after a stopped test");
    assert_eq!(guest.said("journal"), "600\n");
    assert!(guest.said("removal").contains("No such file"), "{}", guest.said("removal"));
    assert_clean_log(guest);
}

fn assert_clean_log(guest: &Guest) {
    for bad in ["BUG:", "WARNING:", "Oops", "a test does not stop"] {
        assert!(!guest.said("log").contains(bad), "{}", guest.said("log"));
    }
}

/// Panics unless the guest's latencies are within `ns` of those on a host without a guest, and the rates within 3 %.
fn assert_agrees(guest: &Guest, which: Which, ns: f64) {
    let mut runs: Vec<Run> = SIZES.map(|size| Run::new(Test::LatRd, &[(r::SIZE, size)])).into();
    let rates = [Test::BwRd, Test::BwWr, Test::BwRdwr];
    let rate = |test| Run::new(test, &[(r::SIZE, 1024), (r::TRANSFERS, 500), (r::WARM_UP, 100)]);
    runs.extend(rates.map(rate));
    let measured = rig::measure(which, runs);
    for (line, bare) in guest.said("latencies").lines().zip(&measured) {
        let median = number(line, "median");
        println!("{line}; without a guest: median {:.1}", bare.median_ns());
        assert!((median - bare.median_ns()).abs() <= ns, "{line}: {}", bare.median_ns());
    }
    let lines: Vec<&str> = guest.said("rates").lines().collect();
    for (line, bare) in lines.iter().zip(&measured[SIZES.len()..]) {
        let gbps = number(line, "us:");
        println!("{line}; without a guest: {:.3} Gb/s", bare.gbps(1024));
        assert!((gbps / bare.gbps(1024) - 1.0).abs() < 0.03, "{line}: {}", bare.gbps(1024));
    }
    assert_eq!((guest.said("latencies").lines().count(), lines.len()), (SIZES.len(), rates.len()));
}

#[test]
#[ignore = "of .ci/long guest"]
fn control_program_agrees_with_bare_host() {
    let Some(guest) = guest(MODEL, "6.1", &script(), &[]) else { return };
    assert_agrees(&guest, Which::Model, 1.0);
    assert_refusals(&guest);
    // The device's own writes bring the lines into the host's cache. Those of the guest's processor do not pass riser.
    let caches: Vec<f64> = guest.said("caches").lines().map(|line| number(line, "median")).collect();
    assert!(caches[0] - caches[1] > 50.0, "{caches:?}");
}

#[test]
#[ignore = "of .ci/long guest"]
fn huge_pages_hold_windows_beyond_cache() {
    let append = "hugepagesz=1G hugepages=1";
    let arguments = ["--memory-mib", "2560", "--cpu", "qemu64,+rdrand,+pdpe1gb", "--append", append];
    let Some(guest) = guest(MODEL, "6.12", HUGE_PAGES, &arguments) else { return };
    let medians: Vec<f64> = guest.said("huge").lines().map(|line| number(line, "median")).collect();
    println!("medians in ns: {medians:?}");
    let [first, .., beyond] = &medians[..] else { panic!("{medians:?}") };
    assert_eq!(medians.len(), 4, "{medians:?}");
    assert!(medians[..3].iter().all(|cached| (cached - first).abs() < 5.0), "{medians:?}");
    assert!(beyond - first > 50.0, "{medians:?}");
    let refused: Vec<&str> = guest.said("refused").lines().collect();
    let parts = [
        "no free huge pages; /sys/kernel/mm/hugepages",
        "--node: Invalid argument",
        "no free huge pages",
        "--window 2147483648; expected at most the buffer, which has at most 1073741824 bytes",
        "LAT_RD 64 B: 400 latencies",
    ];
    for (part, line) in parts.iter().zip(&refused) {
        assert!(line.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(refused.len(), parts.len(), "{refused:?}");
    assert_clean_log(&guest);
}

/// Two ticks are 8 ns.
#[test]
#[ignore = "of .ci/long rtl"]
fn control_program_agrees_with_bare_host_in_rtl() {
    if !has_verilator() {
        return;
    }
    let slot = format!("device = 'rtl'\nrtl.design = '{}'\nrtl.deny_findings = true\n", rig::built());
    let Some(guest) = guest(&slot, "6.1", &script(), &["--allow-native"]) else { return };
    assert_agrees(&guest, Which::Rtl, 8.0);
    assert_refusals(&guest);
}
