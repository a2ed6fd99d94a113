// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ping both ways between the kernel behind a tap interface and the simulated host of a lab: `riser nettlp snic` and `riser
//! nettlp adapter` in network namespaces of their own. Skipped, with a message, where namespaces or tap interfaces cannot be
//! made.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const LAB: &str = r#"
version = 1
[host]
profile = "xeon-e5-2637v3"
[[slot]]
name = "adapter"
device = "nettlp-adapter"
[slot.nettlp-adapter]
driver = "station"
host_ip = "192.0.2.1"
peer_ip = "192.0.2.2"
pings = 1000
ping_bytes = 200
ping_interval_ms = 50
"#;

/// Two namespaces with a cable between them; gone when dropped.
struct Nets {
    host: String,
    device: String,
}

fn ip(args: &str) -> bool {
    let status = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Nets {
    fn new(name: &str) -> Option<Nets> {
        let pid = std::process::id();
        let nets = Nets { host: format!("riser-h-{name}-{pid}"), device: format!("riser-d-{name}-{pid}") };
        let (h, d) = (&nets.host, &nets.device);
        let made = ip(&format!("netns add {h}"))
            && ip(&format!("netns add {d}"))
            && ip(&format!("link add v0 netns {h} type veth peer name v0 netns {d}"))
            && [(h, 1), (d, 2)].iter().all(|(net, n)| {
                ip(&format!("-n {net} addr add 10.0.0.{n}/24 dev v0"))
                    && ip(&format!("-n {net} link set v0 up"))
            })
            && ip(&format!("-n {d} tuntap add dev tap0 mode tap"))
            && ip(&format!("-n {d} addr add 192.0.2.2/24 dev tap0"))
            && ip(&format!("-n {d} link set tap0 up"));
        let ping = Command::new("ping").arg("-V").stdout(Stdio::null()).status();
        (made && ping.is_ok()).then_some(nets)
    }
}

impl Drop for Nets {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.host));
        ip(&format!("netns del {}", self.device));
    }
}

fn command(net: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", net, program]);
    command
}

/// A running `riser nettlp`, which has said on standard error that it is ready.
struct Riser(Child);

impl Riser {
    fn start(net: &str, args: &[&str], ready: &str) -> Riser {
        let mut child = command(net, env!("CARGO_BIN_EXE_riser"))
            .arg("nettlp")
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        while !all.lines().any(|line| line.contains(ready)) {
            assert!(errors.read_line(&mut all).unwrap() > 0, "not ready: {all}");
        }
        child.stderr = Some(errors.into_inner());
        Riser(child)
    }

    /// Ctrl-C, and the object that it prints then.
    fn interrupt(mut self) -> Value {
        // `ip netns exec` has become the program itself.
        let told = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap();
        assert!(told.success());
        let mut out = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert!(self.0.wait().unwrap().success());
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Riser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

fn ping_both_ways(scheme: &str) {
    let Some(nets) = Nets::new(scheme) else {
        eprintln!(
            "skipped: network namespaces, a tap interface or ping (iputils-ping) are not to be had here"
        );
        return;
    };
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("snic-{scheme}"));
    fs::create_dir_all(&dir).unwrap();
    let (lab, record) = (path(&dir, "lab.toml"), path(&dir, "run.rec"));
    let (live, again) = (path(&dir, "live.pcapng"), path(&dir, "again.pcapng"));
    fs::write(&lab, LAB).unwrap();
    let args = ["adapter", &lab, "--listen", "10.0.0.1", "--allow", "10.0.0.2,all,rw", "--json", "--force"];
    let args = [&args[..], &["--capture", &live, "--record", &record]].concat();
    let adapter = Riser::start(&nets.host, &args, "Ctrl-C");
    let args = ["snic", "--remote", "10.0.0.1", "--local", "10.0.0.2", "--tap", "tap0", "--json"];
    let nic = Riser::start(&nets.device, &[&args[..], &["--scheme", scheme]].concat(), "Ctrl-C");

    // -w: until so many answers have come, or for so many seconds.
    let mut ping = command(&nets.device, "ping");
    let ping = ping.args(["-c", "5", "-i", "0.2", "-w", "20", "192.0.2.1"]).output().unwrap();
    let said = String::from_utf8_lossy(&ping.stdout).into_owned();
    assert!(ping.status.success() && said.contains(" 5 received"), "{said}");

    let nic = nic.interrupt();
    let adapter = adapter.interrupt();
    assert_eq!(nic["session"], scheme == "session");
    let count = |object: &Value, name: &str| object[name].as_u64().unwrap_or(0);
    assert!(
        count(&nic, "rx_frames") >= 6 && count(&nic, "tx_frames") >= 6 && count(&nic, "interrupts") >= 12
    );
    assert_eq!((count(&nic, "dma_errors"), count(&nic, "malformed")), (0, 0), "{nic}");
    let counters = &adapter["lab"]["devices"][0]["counters"];
    assert!(count(counters, "echo_answered") >= 5 && count(counters, "pings_answered") >= 1, "{counters}");

    let replay = Command::new(env!("CARGO_BIN_EXE_riser"))
        .args(["nettlp", "replay", &record, "--capture", &again, "--force", "--json"])
        .output()
        .unwrap();
    let replayed: Value = serde_json::from_slice(&replay.stdout).unwrap();
    assert_eq!(replayed["complete"], true);
    assert_eq!(count(&replayed["devices"][0]["counters"], "echo_answered"), count(counters, "echo_answered"));
    assert!(fs::read(&live).unwrap() == fs::read(&again).unwrap(), "the captures differ");
}

#[test]
fn ping_both_ways_over_a_session() {
    ping_both_ways("session");
}

#[test]
fn ping_both_ways_over_upstreams_ports() {
    ping_both_ways("tagged");
}
