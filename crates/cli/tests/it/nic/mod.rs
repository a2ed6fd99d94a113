// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NICs under a stock kernel with common programs: ethtool, ping and iperf3. The 82574L with Debian's e1000e; the simple
//! NIC with the driver of drivers/linux/nic, in a slot and at the other end of a UDP link.

mod over_nettlp;

use crate::common::{Outcome, command, driver, finish};
use std::path::{Path, PathBuf};

/// Start of each script.
const BEGIN: &str = "set -e\ncomplaints() { ! dmesg | grep -E 'BUG:|WARNING:|Call Trace|Oops|PCIe Bus Error|Hardware Unit Hang|NETDEV WATCHDOG'; }\n\
    up() { ip addr add 192.0.2.1/24 dev eth0; ip link set eth0 up; until ip link show eth0 | grep -q 'state UP'; do sleep 0.1; done; }\n";

/// Runs a script on a shipped lab with the stock driver.
fn run(lab: &str, arguments: &[&str], script: &str) -> Outcome {
    run_with("e1000e", lab, arguments, script)
}

/// Runs a script on a shipped lab.
fn run_with(module: &str, lab: &str, arguments: &[&str], script: &str) -> Outcome {
    // The script is not in a shared folder, which does not survive a sleep.
    let script = format!("{BEGIN}{script}\n");
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/guest").join(lab);
    let lab = lab.to_str().unwrap();
    let mut riser = command(&["guest", "run", lab, "--module", module, "--time-limit", "400"]);
    for package in ["ethtool", "iperf3", "iputils-ping", "iproute2"] {
        riser.args(["--package", package]);
    }
    let outcome = finish(riser.args(arguments).args(["--", "sh", "-c", &script]));
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    outcome
}

/// Fetches the guests' programs into the user's cache, because a guest in a network namespace cannot fetch them.
fn fetch_programs() {
    let boot = |_: &Path| {
        run("nic.toml", &[], "true");
        Ok(())
    };
    testkit::once("nic-programs", boot).expect("it boots or panics");
}

/// Two processors: one for the guest and one for riser.
const BOTH: &str = "0,1";

/// Script that sleeps in D3hot.
const SLEEP: &str = "k=/sys/kernel/debug; [ -d $k/dynamic_debug ] || mount -t debugfs none $k; echo 'file pci-driver.c +p' >$k/dynamic_debug/control\n\
    echo platform >/sys/power/pm_test; echo freeze >/sys/power/state; dmesg | grep 'e1000e.*Suspend power state' | grep -o D3hot; sleep 3\n";

/// Script that unloads and reloads the driver during traffic. Afterwards no packet is lost.
const AGAIN: &str = "for n in 1 2; do ping -q -f -w 4 192.0.2.2 >/dev/null & sleep 1; rmmod e1000e; sleep 0.3; modprobe e1000e; sleep 0.5; up; wait; done\n\
    ping -q -f -c 1000 192.0.2.2 | grep -o '[0-9]* received'\ncomplaints\n";

/// In direct mode the driver's own test passes, with INTx interrupts. The driver takes three of the five vectors, and all of ten thousand
/// pings are answered.
#[test]
#[ignore = "of .ci/long nic"]
fn driver_self_test_passes_in_direct_mode() {
    let script = format!(
        "up; ethtool -t eth0 offline | grep -oE '(PASS|[0-9]+)$'; up 2>/dev/null || true; sleep 4\n\
         ethtool -i eth0 | head -1; grep -c 'eth0' /proc/interrupts\n\
         ping -q -f -c 10000 192.0.2.2 | grep -o '[0-9]* received'\n\
         ethtool -S eth0 | grep -E ' (rx_errors|tx_errors|rx_missed_errors|rx_no_buffer_count): 0$' | wc -l\n{AGAIN}"
    );
    let outcome = run("nic.toml", &["--direct"], &script);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let expected =
        ["PASS", "0", "0", "0", "0", "0", "driver: e1000e", "3", "10000 received", "4", "1000 received"];
    assert_eq!(lines, expected, "{}", outcome.stderr);
}

/// Below a VMD the driver finds the same NIC. Its interrupt test needs INTx, which a VMD does not have; the other four tests pass. The NIC
/// sleeps in D3hot. In direct mode the ports are QEMU's, and do not return from D3hot.
#[test]
#[ignore = "of .ci/long nic"]
fn driver_works_below_vmd() {
    let script = format!(
        "up; ethtool -t eth0 offline | grep -oE '[0-9]+$' || true; sleep 4\n\
         ping -q -f -c 10000 192.0.2.2 | grep -o '[0-9]* received'\n{SLEEP}{AGAIN}"
    );
    let outcome = run("nic.toml", &[], &script);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        lines,
        ["0", "0", "1", "0", "0", "10000 received", "D3hot", "1000 received"],
        "{}",
        outcome.stderr
    );
}

/// Compares two NICs of riser, connected by a cable, with two e1000e of QEMU. Each pair is in two network namespaces. TCP runs first in one
/// direction, then in the other, with segmentation and checksums by the NIC. `--nocapture` in a release build prints the rates.
fn iperf(mode: &[&str]) {
    let seconds = std::env::var("RISER_IPERF_SECONDS").unwrap_or("5".to_owned());
    let script = format!(
        "of() {{ for i in /sys/class/net/*; do grep -q $1 $i/address && echo ${{i##*/}}; done; }}\n\
         pair() {{ for end in 1 2; do eval i=\\$$end; ip netns add $3$end; ip link set $i netns $3$end; \
         ip -n $3$end addr add 192.0.2.$end/24 dev $i; ip -n $3$end link set $i up; done; }}\n\
         pair $(of 0a) $(of 0b) riser; pair $(of 1a) $(of 1b) qemu; sleep 4\n\
         for who in riser qemu; do ip netns exec ${{who}}2 iperf3 -s -D; done; sleep 1\n\
         for way in '' -R; do for who in riser qemu; do ip netns exec ${{who}}1 iperf3 -c 192.0.2.2 -t {seconds} -f m $way | \
         grep receiver | sed -E 's/.*Bytes +([0-9.]+) .*/\\1/'; done; done\n\
         i=$(ip netns exec riser1 ls /sys/class/net | grep eth)\n\
         ip netns exec riser1 ethtool -k $i | grep -cE '^(tcp-segmentation-offload|rx-checksumming|tx-checksumming): on'\n\
         ip netns exec riser1 ethtool -S $i | grep -E ' (rx_csum_offload_errors|rx_crc_errors|tx_errors): 0$' | wc -l\n\
         ip netns exec riser1 ping -q -f -c 1000 192.0.2.2 | grep -o '[0-9]* received'; complaints"
    );
    let others = [("0", "02:00:00:00:00:1a"), ("1", "02:00:00:00:00:1b")];
    let others: Vec<String> = others
        .iter()
        .flat_map(|(n, mac)| {
            [
                ("netdev", format!("hubport,id=n{n},hubid=0")),
                ("device", format!("e1000e,netdev=n{n},mac={mac}")),
            ]
        })
        .flat_map(|(kind, what)| [format!("--qemu-argument=-{kind}"), format!("--qemu-argument={what}")])
        .collect();
    let arguments = others.iter().map(String::as_str).chain(["--cable", "a=b"]).chain(mode.iter().copied());
    let outcome = run("nics.toml", &arguments.collect::<Vec<_>>(), &script);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let rates: Vec<f64> = lines[..4].iter().map(|line| line.parse().unwrap()).collect();
    for (way, rates) in ["out", "in"].iter().zip(rates.chunks(2)) {
        println!(
            "{mode:?} {way}: {} Mb/s; QEMU's own {}; {:.0} %",
            rates[0],
            rates[1],
            100. * rates[0] / rates[1]
        );
    }
    assert!(rates.iter().all(|rate| *rate > 5.0), "{rates:?}");
    assert_eq!(lines[4..], ["3", "3", "1000 received"], "{}", outcome.stderr);
}

#[test]
#[ignore = "of .ci/long nic"]
fn iperf3_works_both_ways_in_direct_mode() {
    iperf(&["--direct"]);
    iperf(&["--direct", "--cpus", BOTH]);
}

#[test]
#[ignore = "of .ci/long nic"]
fn iperf3_works_both_ways_below_vmd() {
    let silent = ["--set", "host.root_port_interrupts=false"];
    for cpus in [&[][..], &["--cpus", BOTH]] {
        iperf(cpus);
        iperf(&[cpus, &silent].concat());
    }
}

/// Lab with four NICs, two per bond, connected crosswise by cables.
fn bonds() -> PathBuf {
    let slot = |(name, mac)| {
        format!(
            "[[slot]]\nname = \"{name}\"\ndevice = \"intel-82574\"\nhot_plug = true\n\
             intel-82574 = {{ cable = \"outside\", mac = \"02:00:00:00:00:{mac}\" }}\n"
        )
    };
    let slots = [("a", "0a"), ("b", "0b"), ("c", "0c"), ("d", "0d")].map(slot).concat();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bonds.toml");
    std::fs::write(&path, format!("version = 1\n[link]\ngen = 1\nlanes = 1\n{slots}")).unwrap();
    path
}

/// Tests speed and long frames of one pair, then active-backup bonds of two pairs. A bond loses its carrier because the
/// other end is down, unbound or cut, or its cable is out. Four to sixteen of a hundred pings are lost. If the carrier
/// stays, all sixty pings after the failure are lost.
#[test]
#[ignore = "of .ci/long nic"]
fn bonds_fail_over_when_other_end_fails() {
    const SCRIPT: &str = "of() { for i in /sys/class/net/*; do if grep -qs 00:$1 $i/address; then echo ${i##*/}; fi; done; }\n\
        far='ip netns exec far'; ip netns add far; a=$(of 0a); b=$(of 0b); c=$(of 0c); d=$(of 0d)\n\
        for i in $b $d; do ip link set $i netns far; done\n\
        until_up() { until grep -q 1 /sys/class/net/$1/carrier 2>/dev/null; do sleep 0.1; done; }\n\
        ip addr add 192.0.2.1/24 dev $a; ip link set $a up; ip -n far addr add 192.0.2.2/24 dev $b; ip -n far link set $b up; until_up $a\n\
        ethtool -s $a speed 100 autoneg on; sleep 1; until_up $a; sleep 1; cat /sys/class/net/$a/speed; $far ethtool $b | grep -o 'Speed: .*'\n\
        ethtool -s $a autoneg on advertise 0x2f; sleep 1; until_up $a; sleep 1; cat /sys/class/net/$a/speed\n\
        ip link set $a mtu 9000; ip -n far link set $b mtu 9000; sleep 1; until_up $a; sleep 1\n\
        ping -q -M do -s 8972 -i 0.1 -c 20 192.0.2.2 | grep -o '[0-9]* received'\n\
        ip addr flush dev $a; ip -n far addr flush dev $b; ip link set $a mtu 1500; ip -n far link set $b mtu 1500\n\
        for n in '' '-n far'; do ip $n link add bond1 type bond mode active-backup miimon 50; done\n\
        ip -n far link set $b down; ip -n far link set $d down; ip link set $a down; ip link set $c down\n\
        ip link set $a master bond1; ip link set $c master bond1; ip -n far link set $b master bond1; ip -n far link set $d master bond1\n\
        ip addr add 192.0.2.1/24 dev bond1; ip link set bond1 up; ip -n far addr add 192.0.2.2/24 dev bond1; ip -n far link set bond1 up; sleep 4\n\
        lost() { ping -q -i 0.05 -c 100 192.0.2.2 >/tmp/ping & sleep 2; \"$@\"; wait $!; sleep 1; echo $1 $(grep -o '[0-9.]*% packet loss' /tmp/ping); }\n\
        active() { cat /sys/class/net/bond1/bonding/active_slave; }\n\
        prefer() { echo $a >/sys/class/net/bond1/bonding/active_slave; $far sh -c \"echo $b >/sys/class/net/bond1/bonding/active_slave\"; sleep 1; }\n\
        prefer; pull() { lab cable a down; }; lost pull; [ $(active) = $c ] && echo moved; lab cable a up; sleep 2\n\
        prefer; down() { ip -n far link set $b down; }; lost down; [ $(active) = $c ] && echo moved; ip -n far link set $b up; sleep 2\n\
        prefer; p=$($far basename $($far readlink -f /sys/class/net/$b/device)); unbind() { echo $p >/sys/bus/pci/drivers/e1000e/unbind; }\n\
        lost unbind; [ $(active) = $c ] && echo moved; echo $p >/sys/bus/pci/drivers/e1000e/bind; sleep 1; b=$(of 0b)\n\
        ip link set $b netns far; ip -n far link set $b master bond1; ip -n far link set $b up; sleep 2; complaints\n\
        prefer; cut() { lab cut b; }; lost cut; [ $(active) = $c ] && echo moved";
    let lab = bonds();
    let arguments = ["--cable", "a=b", "--cable", "c=d", "--module", "bonding"];
    let outcome = run(lab.to_str().unwrap(), &arguments, SCRIPT);
    println!("{}", outcome.stdout);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[..4], ["100", "Speed: 100Mb/s", "1000", "20 received"], "{}", outcome.stderr);
    for (what, lines) in ["pull", "down", "unbind", "cut"].iter().zip(lines[4..].chunks(2)) {
        let lost = lines[0].strip_prefix(what).and_then(|rest| rest.split('%').next()).unwrap();
        assert!(lost.trim().parse::<f64>().unwrap() < 40.0 && lines[1] == "moved", "{lines:?}");
    }
    assert_eq!(lines.len(), 12);
}

/// Start of each script for the simple NIC's driver: two NICs, the other one in its own network namespace.
const FAR: &str = "load() { insmod /share/riser_nic.ko; }\n\
    join() { ip link set eth1 netns far; ip -n far addr add 192.0.2.2/24 dev eth1; ip -n far link set eth1 up; up; }\n\
    pings() { ping -q -f -c $1 192.0.2.2 | grep -o '[0-9]* received'; }\n\
    ip netns add far; join\n";

/// Version of the kernel: RISER_KERNEL, or 6.1.
fn kernel() -> String {
    std::env::var("RISER_KERNEL").unwrap_or("6.1".to_owned())
}

/// Builds the simple NIC's driver, without warnings.
fn simple_driver() -> PathBuf {
    let kernel = kernel();
    let (sources, folder) = (driver::drivers().join("nic"), format!("nic-{kernel}"));
    let is_clean = |said: &str| assert!(!said.contains("warning") && said.contains("CHECK"), "{said}");
    driver::build_module(&sources, "riser_nic.ko", &folder, &kernel, &["W=1", "C=2"], is_clean).unwrap()
}

/// Runs a script with two connected NICs.
fn run_simple(mode: &[&str], script: &str) -> Outcome {
    let (module, kernel) = (simple_driver(), kernel());
    let share = module.parent().unwrap().to_str().unwrap();
    let arguments = ["--cable", "a=b", "--share", share, "--kernel", &kernel];
    let script = format!("{FAR}{script}\ncomplaints");
    run_with(module.to_str().unwrap(), "simple-nics.toml", &[&arguments, mode].concat(), &script)
}

/// The interface goes down and up, and the module is reloaded during traffic. No packet is lost, and no transfer is left outstanding.
const SIMPLE: &str = "ethtool -i eth0 | head -1; ethtool eth0 | grep -o 'Link detected: yes'\n\
    for n in 1 2 3; do ip link set eth0 down; ip link set eth0 up; done; until ping -q -c 1 192.0.2.2 >/dev/null; do :; done\n\
    pings $count\n\
    ethtool -S eth0 | grep -E ' (rx_bad_lengths|restarts): 0$' | wc -l\n\
    for n in 1 2; do ping -q -f -w 2 192.0.2.2 >/dev/null & sleep 1; rmmod riser_nic; load; sleep 0.3; join; wait; done; pings $((count / 2))\n";

fn simple(mode: &[&str], pings: u32) {
    let outcome = run_simple(mode, &format!("count={pings}\n{SIMPLE}"));
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let [all, again] = [pings, pings / 2].map(|count| format!("{count} received"));
    let expected = ["driver: riser_nic", "Link detected: yes", &all, "2", &again];
    assert_eq!(lines, expected, "{}", outcome.stderr);
}

#[test]
#[ignore = "of .ci/long nic"]
fn simple_nic_driver_works() {
    simple(&[], 200);
}

#[test]
#[ignore = "of .ci/long nic"]
fn simple_nic_driver_loses_none_of_ten_thousand_pings() {
    simple(&[], 10_000);
    simple(&["--direct", "--vtd"], 10_000);
}

/// Script that sends TCP to the NIC in the other namespace, and then back.
fn iperf_both_ways() -> String {
    let seconds = std::env::var("RISER_IPERF_SECONDS").unwrap_or("5".to_owned());
    format!(
        "ip netns exec far iperf3 -s -D; sleep 1\n\
         for way in '' -R; do iperf3 -c 192.0.2.2 -t {seconds} -f m $way | grep -E 'receiver' | sed -E 's/.*Bytes +([0-9.]+) .*/\\1/'; done"
    )
}

/// Prints the rates.
fn show_rates(what: &str, stdout: &str) {
    println!("Mb/s out and in, {what}:\n{stdout}");
    let rates: Vec<f64> = stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 5.0), "{rates:?}");
}

#[test]
#[ignore = "of .ci/long nic"]
fn iperf3_works_both_ways_between_simple_nics() {
    for mode in [&[][..], &["--direct", "--vtd"]] {
        let outcome = run_simple(mode, &iperf_both_ways());
        show_rates(&format!("{mode:?}"), &outcome.stdout);
    }
}
