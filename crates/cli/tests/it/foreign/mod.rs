// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs and test suites of other projects on guests. fio, nvme-cli, iperf3, bonding and DPDK's testpmd come from Debian's packages.
//! Suites come from checkouts of nvme-cli, blktests and spdk in the folder that `RISER_FOREIGN` names, built if necessary. Missing suites
//! are skipped. `RISER_KERNEL` names another kernel.

use crate::common::{Outcome, command, finish};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Shell functions: bind devices with this vendor and device ID, or class, to vfio-pci, and reserve `$1` huge pages.
const VFIO: &str = "bind() { for d in $(lspci -Dn -d $1 | cut -d' ' -f1); do\n\
    echo vfio-pci >/sys/bus/pci/devices/$d/driver_override; echo $d >/sys/bus/pci/drivers_probe; done; }\n\
    huge() { mkdir -p /dev/hugepages; mount -t hugetlbfs none /dev/hugepages; echo $1 >/proc/sys/vm/nr_hugepages; }\n";

/// Runs a script on a guest with these modules and packages.
fn guest(lab: &Path, modules: &[&str], packages: &[&str], arguments: &[&str], script: &str) -> Outcome {
    let kernel = std::env::var("RISER_KERNEL").unwrap_or("6.1".to_owned());
    let mut riser = command(&["guest", "run", "--time-limit", "1800", "--kernel", &kernel]);
    riser.arg(lab).args(modules.iter().flat_map(|module| ["--module", *module]));
    riser.args(packages.iter().flat_map(|package| ["--package", *package]));
    let outcome = finish(riser.args(arguments).args(["--", "bash", "-c", script]));
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    println!("{}", outcome.stdout);
    outcome
}

/// Creates a lab with an NVMe controller whose namespace has this size.
fn nvme(name: &str, mib: u64) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let link = "[link]\ngen = 3\nlanes = 4\nmps_bytes = 256\n";
    let namespaces = format!("nvme.namespaces = [{{ size_bytes = {} }}]", mib << 20);
    let file = folder.join("lab.toml");
    fs::write(
        &file,
        format!("version = 1\n{link}[[slot]]\nname = \"ssd\"\ndevice = \"nvme\"\n{namespaces}\n"),
    )
    .unwrap();
    file
}

/// Lab with four NICs.
fn nics() -> PathBuf {
    testkit::root().join("labs/guest/four-nics.toml")
}

#[test]
#[ignore = "of .ci/long foreign"]
fn fio_and_nvme_cli_find_no_errors() {
    let script = "set -e
        fio_() { fio --name=x --filename=/dev/nvme0n1 --direct=1 --size=16m --iodepth=16 --verify=crc32c --output-format=terse \"$@\" |
            awk -F';' '/;/ { print \"fio\", $5 }'; }
        for bs in 512 4k 128k 333k; do fio_ --ioengine=libaio --rw=randwrite --bs=$bs; done
        fio_ --ioengine=io_uring --fixedbufs --rw=randrw --bsrange=512-64k
        fio_ --ioengine=io_uring_cmd --cmd_type=nvme --filename=/dev/ng0n1 --rw=randwrite --bs=4k
        nvme list -o json | grep -c riser-00000100
        nvme id-ctrl /dev/nvme0 | grep '^mn '; nvme smart-log /dev/nvme0 | grep media_errors
        echo text | nvme write /dev/nvme0n1 -z 512; nvme read /dev/nvme0n1 -z 512 2>/dev/null | head -n 1
        dmesg | grep -cE 'BUG:|WARNING:|I/O error|timeout, ' || true";
    let packages = ["fio", "nvme-cli"];
    let said = guest(&nvme("foreign-fio", 64), &["nvme"], &packages, &[], script).stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..6], ["fio 0"; 6], "{said}");
    let mn = "mn        : riser NVMe controller";
    let rest: Vec<&str> =
        lines[6..].iter().map(|line| line.trim()).filter(|line| !line.starts_with("write:")).collect();
    assert_eq!((rest[0], rest[1], rest[3], rest[4]), ("1", mn, "text", "0"), "{said}");
}

/// The connection survives when a slave goes down.
#[test]
#[ignore = "of .ci/long foreign"]
fn bonded_connection_survives_loss_of_a_slave() {
    let script = "set -e
        ip link add bond0 type bond mode active-backup miimon 100
        for n in 0 1; do ip link set eth$n master bond0; done
        ip addr add 192.0.2.1/24 dev bond0; ip link set bond0 up
        ip netns add far; ip -n far link add br0 type bridge
        for n in 2 3; do ip link set eth$n netns far; ip -n far link set eth$n master br0 up; done
        ip -n far addr add 192.0.2.2/24 dev br0; ip -n far link set br0 up
        ping -q -c 1 -w 30 192.0.2.2 >/dev/null; ip netns exec far iperf3 -s -D
        for way in '' -R --bidir; do iperf3 -c 192.0.2.2 -t 3 $way | grep receiver | tail -n 1; done
        active() { cut -c 1- /proc/net/bonding/bond0 | grep 'Currently Active'; }
        active; ping -q -i 0.05 -c 200 192.0.2.2 >/run/pings & sleep 4; ip link set eth0 down; wait; active
        grep received /run/pings; dmesg | grep -cE 'BUG:|WARNING:|Hardware Unit Hang|NETDEV WATCHDOG' || true";
    let arguments = ["--smp", "2", "--cable", "a0=b0", "--cable", "a1=b1"];
    let packages = ["iperf3", "iproute2", "iputils-ping"];
    let modules = ["e1000e", "bonding max_bonds=0", "bridge"];
    let said = guest(&nics(), &modules, &packages, &arguments, script).stdout;
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert!(lines[..3].iter().all(|line| line.ends_with("receiver")), "{said}");
    assert_eq!(lines[3..5], ["Currently Active Slave: eth0", "Currently Active Slave: eth1"], "{said}");
    let received = lines[5].split(", ").nth(1).and_then(|part| part.split(' ').next()?.parse::<u32>().ok());
    assert!(received.is_some_and(|pings| pings >= 190), "{said}");
    assert_eq!(lines[6], "0", "{said}");
}

/// A poll-mode driver in user space drives two ports through the emulated IOMMU; 64 packets circulate.
#[test]
#[ignore = "of .ci/long foreign"]
fn testpmd_of_dpdk_circulates_packets() {
    let testpmd =
        "dpdk-testpmd -l 0-1 --no-telemetry -- --total-num-mbufs=4096 --auto-start --tx-first --forward-mode";
    let script = format!(
        "{VFIO}bind 8086:10d3; huge 64
        for mode in io mac; do (sleep 20; echo) | {testpmd}=$mode 2>&1 | grep -A 2 Accumulated | tail -n 2; done"
    );
    let arguments =
        ["--direct", "--vtd", "--smp", "2", "--memory-mib", "2048", "--cpu", "Nehalem", "--cable", "a0=b0"];
    let arguments = [&arguments[..], &["--cable", "a1=b1"]].concat();
    let packages = ["dpdk-dev", "librte-net-e1000-25"];
    let said = guest(&nics(), &["vfio-pci"], &packages, &arguments, &script).stdout;
    let counts: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(counts.len(), 4, "{said}");
    for (kind, line) in ["RX", "TX", "RX", "TX"].iter().zip(&counts) {
        assert_eq!(
            (line[0], line[2], line[3]),
            (format!("{kind}-packets:").as_str(), format!("{kind}-dropped:").as_str(), "0")
        );
        assert!(line[1].parse::<u32>().unwrap() >= 64 && line[1] == line[5], "{said}");
    }
}

/// Returns the folder of checkouts with the checkout of this project. Without one, prints why the test is skipped.
fn checkout(project: &str) -> Option<String> {
    let folder = std::env::var("RISER_FOREIGN").unwrap_or_default();
    match (folder.as_str(), Path::new(&folder).join(project).is_dir()) {
        ("", _) => {
            eprintln!("skipped: RISER_FOREIGN names no folder with checkouts of nvme-cli, blktests and spdk")
        }
        (_, false) => eprintln!("skipped: no folder {project} in RISER_FOREIGN ({folder})"),
        (_, true) => return Some(folder),
    }
    None
}

/// Checks the lines `result NAME STATUS` of a suite: some tests passed, and only tests in `known` failed, each for its given reason.
fn check(said: &str, known: &[(&str, &str)]) {
    let words = said.lines().filter_map(|line| line.strip_prefix("result ")?.rsplit_once(' '));
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, status) in words {
        found.entry(status).or_default().push(name);
    }
    println!("{found:#?}");
    let failed = found.get("failed").into_iter().flatten();
    let new: Vec<_> = failed.filter(|name| !known.iter().any(|(part, _)| name.contains(part))).collect();
    assert!(new.is_empty() && found.contains_key("passed"), "{new:?}");
}

/// Requires a checkout of the same version as Debian's package.
#[test]
#[ignore = "of .ci/long foreign"]
fn suite_of_nvme_cli_passes() {
    let Some(folder) = checkout("nvme-cli") else { return };
    let script = format!(
        "cp -r /share/nvme-cli/tests /run/tests; cd /run; cat >suite.py <<'END'\n{}\nEND\npython3 suite.py 2>errors; cat errors",
        include_str!("nvme_cli.py")
    );
    let packages = ["nvme-cli", "python3"];
    let said =
        guest(&nvme("foreign-nvme-cli", 64), &["nvme"], &packages, &["--share", &folder], &script).stdout;
    let management = "the controller has no Namespace Management";
    check(&said, &[("attach_detach_ns", management), ("create_max_ns", management), ("format", management)]);
}

/// Requires a checkout in which `make` has built `src`.
#[test]
#[ignore = "of .ci/long foreign"]
fn groups_nvme_and_block_of_blktests_pass() {
    let Some(folder) = checkout("blktests") else { return };
    let script = "cp -r /share/blktests /run/blktests; cd /run/blktests; echo 'TEST_DEVS=(/dev/nvme0n1)' >config
        ./check -d -q 15 -o /run/results block nvme 2>&1 | tee /run/log
        sed -nE 's/^([a-z]+\\/[0-9]+) .*\\[(passed|failed)\\]$/result \\1 \\2/p; s/^([a-z]+\\/[0-9]+) .*\\[not run\\]$/result \\1 skipped/p' /run/log";
    let packages = [
        "bash",
        "coreutils",
        "diffutils",
        "fio",
        "findutils",
        "gawk",
        "grep",
        "nvme-cli",
        "sed",
        "sudo",
        "util-linux",
    ];
    let said = guest(
        &nvme("foreign-blktests", 1024),
        &["nvme"],
        &packages,
        &["--share", &folder, "--memory-mib", "2048"],
        script,
    )
    .stdout;
    check(&said, &[("nvme/049", "6.1 has no metadata_bytes in sysfs")]);
}

/// Requires a checkout that is built for a processor that QEMU emulates.
#[test]
#[ignore = "of .ci/long foreign"]
fn compliance_tests_of_spdk_pass() {
    let Some(folder) = checkout("spdk") else { return };
    let script = format!(
        "{VFIO}bind ::0108; huge 256; cd /share/spdk
        address=$(lspci -Dn -d ::0108 | head -n 1 | cut -d' ' -f1)
        export LD_LIBRARY_PATH=/share/spdk/build/lib:/share/spdk/dpdk/build/lib
        test/nvme/compliance/nvme_compliance -r \"trtype:PCIe traddr:$address\" 2>&1 | tee /run/log
        sed -nE 's/^ *Test: (\\S+) .*passed.*/result \\1 passed/p; s/^ *Test: (\\S+) .*FAILED.*/result \\1 failed/p' /run/log"
    );
    let packages = [
        "libaio1t64",
        "libnuma1",
        "libssl3t64",
        "libuuid1",
        "sed",
        "liburing2",
        "libfuse3-4",
        "libkeyutils1",
    ];
    let arguments = ["--direct", "--vtd", "--memory-mib", "2048", "--cpu", "max", "--share", &folder];
    let said = guest(&nvme("foreign-spdk", 64), &["vfio-pci"], &packages, &arguments, &script).stdout;
    check(
        &said,
        &[
            ("verify_dptr", "treats address 0 as wrong, which no device can know"),
            (
                "get_features_mandatory",
                "asks for Error Recovery, which a namespace has, with NSID 0 (NVMe 1.4 §5.21.1.5)",
            ),
            ("get_features_optional", "asks for Keep Alive and Host Behavior, which are optional"),
        ],
    );
}
