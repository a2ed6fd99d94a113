// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC's driver in a stock kernel, with the device at the other end of a UDP link and a tap interface as its cable: `riser nettlp snic`,
//! and a C program that behaves like upstream's. Skipped, with a message, if there are no network namespaces or no C compiler.

use super::{BEGIN, fetch_programs, iperf_both_ways, kernel, show_rates, simple_driver};
use crate::common::nets::{Nets, Running, command, count, ip, riser_in, text};
use crate::common::programs::program;
use std::fs;
use std::path::{Path, PathBuf};

/// The driver finds the adapter first. The cable of the other NIC leads outside.
const LAB: &str = "version = 1\n[[slot]]\nname = \"adapter\"\ndevice = \"nettlp-adapter\"\n";
const OTHER: &str = "[[slot]]\nname = \"b\"\ndevice = \"simple-nic\"\nsimple-nic.cable = \"outside\"\n";

/// Guest functions for stepwise tests: the guest prints a line at each step, and waits until the test lets it continue.
const STEPS: &str = "step() { echo $1; until [ -e /share/$1 ]; do sleep 0.05; done; rm /share/$1; }\n\
    load() { insmod /share/riser_nic.ko $parameters; }\n\
    pings() { ping -q -f -c $1 192.0.2.2 | grep -o '[0-9]* received'; }\n\
    load; step loaded\n";

/// Pings in both directions at once, takes the link down and up, and reloads the module during traffic from both sides.
const ALL: &str = "up; ethtool -i eth0 | head -1; ethtool eth0 | grep -o 'Link detected: yes'\n\
    step both; pings $count; step down\n\
    for n in 1 2 3; do ip link set eth0 down; ethtool eth0 | grep -o 'Link detected: no'; ip link set eth0 up; done\n\
    until ping -q -c 1 -W 1 192.0.2.2 >/dev/null; do :; done; pings $count\n\
    ethtool -S eth0 | grep -E ' (rx_bad_lengths|restarts): 0$' | wc -l\n\
    step reload\n\
    for n in 1 2; do ping -q -f -w 3 192.0.2.2 >/dev/null & sleep 1; rmmod riser_nic; load; sleep 0.3; up; wait; done\n\
    step reloaded; until ping -q -c 1 -W 1 192.0.2.2 >/dev/null; do :; done; pings 500\ncomplaints\n";

/// Device at the other end.
#[derive(Clone, Copy)]
enum Device<'a> {
    /// `riser nettlp snic` with this scheme.
    Snic(&'static str),
    /// The compiled NIC of `c/upstream.c`.
    InC(&'a Path),
}

/// Namespace of the guest's riser, its address, and the device's address.
type Ends<'a> = (&'a str, &'static str, &'static str);

fn between_hosts(nets: &Nets) -> Ends<'_> {
    (&nets.host, "10.0.0.1", "10.0.0.2")
}

fn within_one_host(nets: &Nets) -> Ends<'_> {
    (&nets.device, "127.0.0.1", "127.0.0.2")
}

/// A guest with the driver, whose script waits in steps.
struct Guest {
    running: Running,
    share: PathBuf,
}

impl Guest {
    /// Boots until the driver is loaded.
    fn boot(name: &str, (net, here, there): Ends<'_>, lab: &str, more: &[&str], script: &str) -> Guest {
        fetch_programs();
        let share = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("nic-{name}"));
        let _ = fs::remove_dir_all(&share);
        fs::create_dir_all(&share).unwrap();
        let path = |file: &str| share.join(file).display().to_string();
        fs::copy(simple_driver(), path("riser_nic.ko")).unwrap();
        fs::write(path("lab.toml"), lab).unwrap();
        let (lab, folder, kernel, rule) =
            (path("lab.toml"), share.display().to_string(), kernel(), format!("{there},all,rw"));
        let script = format!("{BEGIN}{script}");
        let mut args = vec!["guest", "run", &lab, "--share", &folder, "--kernel", &kernel];
        args.extend(["--time-limit", "900", "--nettlp-listen", here, "--nettlp-allow", &rule]);
        for package in ["ethtool", "iperf3", "iputils-ping", "iproute2"] {
            args.extend(["--package", package]);
        }
        let args = [&args[..], more, &["--", "sh", "-c", &script]].concat();
        Guest { running: Running::start_c(riser_in(net, &args), "loaded"), share }
    }

    /// Lets the guest continue after a step.
    fn go_on(&self, step: &str) {
        fs::write(self.share.join(step), "").unwrap();
    }
}

impl Device<'_> {
    /// Starts the device. Its adapter must be running.
    fn start(self, nets: &Nets, (_, remote, local): Ends<'_>) -> Running {
        match self {
            Device::Snic(scheme) => {
                let args = ["nettlp", "snic", "--remote", remote, "--local", local, "--tap", "tap0"];
                let args = [&args[..], &["--scheme", scheme, "--json"]].concat();
                let start = || Running::try_start(riser_in(&nets.device, &args), "Ctrl-C");
                // A session request times out after a fraction of a second, and the guest may occupy the processor.
                (0..10).find_map(|_| start().inspect_err(|said| eprint!("{said}")).ok()).expect("it starts")
            }
            Device::InC(program) => {
                let mut nic = command(&nets.device, program);
                nic.args(["nic", remote, local, "tap0"]);
                Running::start_c(nic, "tap0")
            }
        }
    }
}

/// Pings the guest from the kernel at the tap. Returns the number of answers.
fn ping_guest(nets: &Nets, args: &[&str]) -> u32 {
    let mut ping = command(&nets.device, Path::new("ping"));
    let said = text(&ping.arg("-q").args(args).arg("192.0.2.1").output().unwrap());
    number_before(" received", &said)
}

/// Returns the number before a word.
fn number_before(word: &str, said: &str) -> u32 {
    let number = said.split(word).next().and_then(|before| before.split_whitespace().last());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

/// Runs all steps with riser's NIC. No packet may be lost in either direction.
fn nothing_is_lost(name: &str, scheme: &'static str, mode: &[&str], parameters: &str, pings: u32) {
    let Some(nets) = Nets::new(name) else { return };
    let ends = between_hosts(&nets);
    let script = format!("parameters='{parameters}'; count={pings}\n{STEPS}{ALL}");
    let mut guest = Guest::boot(name, ends, LAB, mode, &script);
    let nic = Device::Snic(scheme).start(&nets, ends);
    guest.go_on("loaded");
    let mut said = guest.running.read_to("both");
    guest.go_on("both");
    // The link stays up until both directions are done.
    let inward = ping_guest(&nets, &["-f", "-c", &pings.to_string()]);
    if inward != pings {
        panic!("the guest answered {inward} of {pings}: {}", nic.interrupt());
    }
    said += &guest.running.read_to("down");
    guest.go_on("down");
    said += &guest.running.read_to("reload");
    let mut flood = command(&nets.device, Path::new("ping"));
    let mut flood =
        flood.args(["-q", "-f", "192.0.2.1"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    guest.go_on("reload");
    said += &guest.running.read_to("reloaded");
    flood.kill().unwrap();
    flood.wait().unwrap();
    guest.go_on("reloaded");
    said += &guest.running.finish();

    let (all, down) = (format!("{pings} received"), "Link detected: no");
    let lines: Vec<&str> = said.lines().collect();
    let [begin, rest @ ..] = &lines[..] else { panic!("{said}") };
    let expected = [
        "Link detected: yes",
        "both",
        &all,
        "down",
        down,
        down,
        down,
        &all,
        "2",
        "reload",
        "reloaded",
        "500 received",
    ];
    assert_eq!((*begin, rest), ("driver: riser_nic", &expected[..]));
    let report = nic.interrupt_json();
    for name in [
        "from_wire_lost",
        "to_wire_lost",
        "lost_frames",
        "refused_doorbells",
        "refused_descriptors",
        "malformed",
    ] {
        assert_eq!(count(&report, name), 0, "{name}: {report}");
    }
    println!("{name}: {report}");
}

/// With upstream's behavior (one buffer, one outstanding frame), in direct mode, so that the vectors are the function's own.
const DIRECT: &[&str] = &["--direct"];
/// With the extensions that riser's NIC has, below a VMD, where vectors are shared.
const MANY: &str = "tx_done=1 tx_frames=64 rx_buffers=64";

#[test]
#[ignore = "of .ci/long nic"]
fn simple_nic_driver_works_over_nettlp() {
    nothing_is_lost("session", "session", DIRECT, "", 300);
}

#[test]
#[ignore = "of .ci/long nic"]
fn simple_nic_driver_over_nettlp_loses_none_of_ten_thousand_pings() {
    nothing_is_lost("session-10k", "session", DIRECT, "", 10_000);
    nothing_is_lost("tagged-10k", "tagged", DIRECT, "", 10_000);
    nothing_is_lost("many-10k", "session", &[], MANY, 10_000);
}

/// If the device does not count sent frames, two vectors that are shared as one carry too little information.
#[test]
#[ignore = "of .ci/long nic"]
fn simple_nic_driver_rejects_shared_vectors() {
    let Some(nets) = Nets::new("one") else { return };
    let script = "insmod /share/riser_nic.ko; ! [ -e /sys/class/net/eth0 ]; dmesg | grep -o 'shared vectors and no tx_done'\necho loaded\n";
    let guest = Guest::boot("one", between_hosts(&nets), LAB, &[], script);
    guest.running.finish();
}

/// Pings slow enough that each is answered before the next is sent.
const ONE_BY_ONE: [&str; 4] = ["-i", "0.1", "-c", "20"];

/// Guest functions for a link with nothing but pings on it: fixed addresses, so that no ARP or IPv6 traffic occurs.
const QUIET: &str = "quiet() { echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip link set eth0 address 02:00:00:00:00:11; up 2>/dev/null || true\n\
    ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:12 dev eth0; }\n\
    one_by_one() { ping -q -i 0.1 -c 20 192.0.2.2 | grep -o '[0-9]* received'; }\n";

/// Makes the tap quiet in the same way.
fn make_quiet(nets: &Nets) {
    let made = [
        "link set tap0 addrgenmode none",
        "link set tap0 down",
        "link set tap0 address 02:00:00:00:00:12",
        "link set tap0 up",
        "neigh replace 192.0.2.1 lladdr 02:00:00:00:00:11 dev tap0",
    ];
    assert!(made.iter().all(|what| ip(&format!("-n {} {what}", nets.device))));
}

/// Runs device software that shares no code with riser, and has upstream's single buffer. All pings sent one after another are answered, in both
/// directions. In a flood in both directions, each lost ping is a frame that the device counted as lost. The device is restarted
/// whenever the interface or the module is, because it keeps the old buffer address, and would stop working.
fn with_upstreams_device(name: &str, pings: u32) {
    let Some(upstream) = program("cli/tests/c/upstream.c") else { return };
    let Some(nets) = Nets::new(name) else { return };
    make_quiet(&nets);
    let (ends, device) = (between_hosts(&nets), Device::InC(&upstream));
    let script = format!(
        "{QUIET}{STEPS}quiet; ethtool -i eth0 | head -1; one_by_one; step one; step both; pings {pings}; step down\n\
         ip link set eth0 down; step up; quiet; one_by_one; ip link set eth0 down\n\
         step gone; rmmod riser_nic; load; step again; quiet; one_by_one; complaints\n"
    );
    let mut guest = Guest::boot(name, ends, LAB, DIRECT, &script);
    let nic = device.start(&nets, ends);
    guest.go_on("loaded");
    assert_eq!(guest.running.read_to("one"), "driver: riser_nic\n20 received\none\n");
    assert_eq!(ping_guest(&nets, &ONE_BY_ONE), 20);
    guest.go_on("one");
    guest.running.read_to("both");
    guest.go_on("both");
    let inward = ping_guest(&nets, &["-f", "-c", &pings.to_string()]);
    let outward = number_before(" received", &guest.running.read_to("down"));
    guest.go_on("down");
    guest.running.read_to("up");
    let counted = nic.interrupt();
    println!("{name}: {outward} and {inward} of {pings} at once; {counted}");
    assert!(counted.contains(" 0 failed"), "{counted}");
    assert!(2 * pings - inward - outward <= number_before(" lost", &counted), "{counted}");
    let nic = device.start(&nets, ends);
    guest.go_on("up");
    assert_eq!(guest.running.read_to("gone"), "20 received\ngone\n");
    nic.interrupt();
    guest.go_on("gone");
    guest.running.read_to("again");
    let _nic = device.start(&nets, ends);
    guest.go_on("again");
    assert_eq!(guest.running.finish(), "20 received\n");
}

#[test]
#[ignore = "of .ci/long nic"]
fn simple_nic_driver_works_with_upstream_device() {
    with_upstreams_device("upstream", 10_000);
}

/// TCP between the NIC over UDP and another NIC of the guest, in its own namespace. A bridge of this machine connects their cables.
#[test]
#[ignore = "of .ci/long nic"]
fn iperf3_works_both_ways_with_simple_nic_over_nettlp() {
    let Some(nets) = Nets::new("iperf") else { return };
    let net = &nets.device;
    let bridge = [
        "addr flush dev tap0",
        "tuntap add dev tap1 mode tap",
        "link add br0 type bridge",
        "link set tap0 master br0",
        "link set tap1 master br0",
        "link set tap1 up",
        "link set br0 up",
    ];
    if !bridge.iter().all(|what| ip(&format!("-n {net} {what}"))) {
        eprintln!("skipped: no bridge is to be had here");
        return;
    }
    let far = "ip netns add far; ip link set eth1 netns far; ip -n far addr add 192.0.2.2/24 dev eth1; ip -n far link set eth1 up; up\n\
               until ping -q -c 1 -W 1 192.0.2.2 >/dev/null; do :; done\n";
    for (name, mode, parameters) in [("iperf-direct", DIRECT, ""), ("iperf-many", &[][..], MANY)] {
        let script = format!("parameters='{parameters}'\n{STEPS}{far}{}\ncomplaints\n", iperf_both_ways());
        let (ends, cable) = (within_one_host(&nets), ["--cable", "b=tap:tap1"]);
        let guest = Guest::boot(name, ends, &[LAB, OTHER].concat(), &[&cable[..], mode].concat(), &script);
        let _nic = Device::Snic("session").start(&nets, ends);
        guest.go_on("loaded");
        show_rates(&format!("over NetTLP, {mode:?} {parameters}"), &guest.running.finish());
    }
}
