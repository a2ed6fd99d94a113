// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp adapter` as a process on the loopback, 127.13.60.x: its output, its write-back, its end. Never waits
//! for a time: an answered request proves that the adapter serves.

use crate::common::{command, riser, riser_ok};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running adapter process, killed when the value is dropped.
struct Adapter {
    child: Child,
    /// Its standard error, line by line.
    said: BufReader<std::process::ChildStderr>,
}

impl Adapter {
    /// Starts the adapter, and waits until it reports that it serves.
    fn start(args: &[&str]) -> (Adapter, String) {
        Adapter::spawn(&mut command(&[&["nettlp", "adapter"], args].concat()))
    }

    fn spawn(command: &mut Command) -> (Adapter, String) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        said.read_line(&mut first).unwrap();
        (Adapter { child, said }, first)
    }

    /// Returns the next line on standard error.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Ends the adapter with a signal. Returns exit status and standard output.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code(), out)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // After a successful test the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("nettlp-adapter-{name}"));
    fs::write(&path, bytes).unwrap();
    path
}

/// Sends one datagram from `port` to the same port of `remote`, and returns the answer.
fn ask(local: &str, remote: &str, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((local, port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send_to(bytes, (remote, port)).unwrap();
    let mut answer = [0; 2048];
    socket.recv(&mut answer).ok().map(|len| answer[..len].to_vec())
}

const HEADER: [u8; 6] = [0; 6];
/// MWr of "riser" and three bytes at 0x10.
const WRITE: [u8; 20] =
    [0x40, 0, 0, 2, 0x1a, 0, 0, 0x1f, 0, 0, 0, 0x10, b'r', b'i', b's', b'e', b'r', 0, 0, 0];
/// MRd of eight bytes at 0x10.
const READ: [u8; 12] = [0, 0, 0, 2, 0x1a, 0, 0, 0xff, 0, 0, 0, 0x10];

#[test]
fn writes_memory_back_on_request_and_at_end() {
    let image = scratch("image", &[b'.'; 64]);
    let (local, remote) = ("127.13.60.2", "127.13.60.1");
    let rule = format!("{local},all,rw");
    let args =
        ["--memory", image.to_str().unwrap(), "--write-back", "--listen", remote, "--allow", &rule, "--json"];
    let (mut adapter, said) = Adapter::start(&args);
    assert!(said.contains(remote) && said.contains(&rule), "{said}");
    let socket = UdpSocket::bind((local, 0x3000)).unwrap();
    socket.send_to(&[&HEADER[..], &WRITE].concat(), (remote, 0x3000)).unwrap();
    drop(socket);
    let answer = ask(local, remote, 0x3000, &[&HEADER[..], &READ].concat()).unwrap();
    assert_eq!(answer[18..], *b"riser...");
    assert_eq!(fs::read(&image).unwrap(), [b'.'; 64], "not before it is asked for");
    adapter.signal("USR1");
    let mut line = String::new();
    adapter.said.read_line(&mut line).unwrap();
    assert!(line.contains("64 bytes written back"), "{line}");
    assert_eq!(fs::read(&image).unwrap()[16..24], *b"riser...");
    let (code, out) = adapter.end("TERM");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["memory"]["write_back"]), (Some(0), &true.into()));
    let peer = &report["peers"][0];
    assert_eq!((&peer["address"], &peer["reads"], &peer["writes"]), (&local.into(), &1.into(), &1.into()));
    assert_eq!(report["completer"]["written_bytes"], 5);
    assert_eq!(fs::read(&image).unwrap().len(), 64);
}

/// A write-back that finds no room: a limit on the length of files replaces a full disk.
#[test]
fn retries_write_back_after_failure() {
    let image = scratch("no-room", &[b'.'; 4096]);
    let (local, remote) = ("127.13.60.13", "127.13.60.12");
    let (riser, rule) = (env!("CARGO_BIN_EXE_riser"), format!("{local},all,rw"));
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" nettlp adapter \"$@\"";
    let args = ["--memory", image.to_str().unwrap(), "--write-back", "--listen", remote, "--allow", &rule];
    let mut command = Command::new("sh");
    command.args(["-c", script, riser]).args(args);
    let (mut adapter, _) = Adapter::spawn(&mut command);
    let mut write = WRITE;
    write[10] = 0x08;
    let socket = UdpSocket::bind((local, 0x3000)).unwrap();
    socket.send_to(&[&HEADER[..], &write].concat(), (remote, 0x3000)).unwrap();
    drop(socket);
    let mut read = READ;
    read[10] = 0x08;
    for _ in 0..2 {
        let answer = ask(local, remote, 0x3000, &[&HEADER[..], &read].concat()).unwrap();
        assert_eq!(answer[18..], *b"riser...", "it serves on");
        adapter.signal("USR1");
        // Lines with the counters follow.
        let said = (&mut adapter.said).lines().map(Result::unwrap);
        let why = said.into_iter().find(|line| line.contains("serving goes on")).unwrap();
        assert!(why.contains("no-room"), "{why}");
    }
    let (code, out) = adapter.end("TERM");
    assert_eq!(code, Some(1));
    assert!(out.contains("reads 2"), "what was counted is shown: {out}");
}

/// An IPv4-mapped IPv6 address means the IPv4 address.
#[test]
fn serves_ipv4_mapped_address_as_ipv4() {
    let (local, remote) = ("127.13.60.15", "127.13.60.14");
    let rule = format!("::ffff:{local},all,rw");
    let listen = format!("::ffff:{remote}");
    let (adapter, said) = Adapter::start(&["--memory", "zero:1M", "--listen", &listen, "--allow", &rule]);
    assert!(said.contains(&format!("at {remote}")), "{said}");
    let (mapped, listen) = (format!("::ffff:{local}"), listen.as_str());
    for (remote, local, scheme) in
        [(remote, local, "tagged"), (listen, &*mapped, "session"), (listen, &*mapped, "tagged")]
    {
        riser_ok(&["nettlp", "read", "0x100", "16", "-r", remote, "-l", local, "--scheme", scheme]);
    }
    assert_eq!(adapter.end("TERM").0, Some(0));
}

#[test]
fn without_write_back_ctrl_c_leaves_the_file_unchanged() {
    let image = scratch("read-only", &[b'.'; 64]);
    let (local, remote) = ("127.13.60.4", "127.13.60.3");
    let rule = format!("{local},0+32,rw");
    let args = ["--memory", image.to_str().unwrap(), "--listen", remote, "--allow", &rule, "--threads", "2"];
    let (mut adapter, _) = Adapter::start(&args);
    let socket = UdpSocket::bind((local, 0x3000)).unwrap();
    socket.send_to(&[&HEADER[..], &WRITE].concat(), (remote, 0x3000)).unwrap();
    drop(socket);
    let answer = ask(local, remote, 0x3000, &[&HEADER[..], &READ].concat()).unwrap();
    assert_eq!(answer[18..], [b'.'; 8]);
    // A read beyond the window, on a port of the other thread, gets a Cpl with UR.
    let mut beyond = READ;
    beyond[11] = 0x20;
    let answer = ask(local, remote, 0x3001, &[&HEADER[..], &beyond].concat()).unwrap();
    assert_eq!((answer[6], answer[12] >> 5), (0x0a, 1));
    let said = [adapter.line(), adapter.line()].concat();
    let rules = ["rule request-type); first at ", "Address 0x20, expected an address "];
    assert!(rules.iter().all(|rule| said.contains(rule)), "{said}");
    // This is the last datagram at its port, so the kernel reports its drop with no later datagram.
    let stranger = UdpSocket::bind(("127.13.60.16", 0)).unwrap();
    stranger.send_to(&[0; 18], (remote, 0x3005)).unwrap();
    let (code, out) = adapter.end("INT");
    assert_eq!(code, Some(0));
    assert!(out.contains("kernel_drops 1"), "{out}");
    assert!(out.contains("writes_read_only 1") && out.contains("refused_reads 1"), "{out}");
    let refused = "\nnettlp adapter: 1 request refused: Address 0x20, expected an address ";
    assert!(out.contains(refused), "{out}");
    assert_eq!(fs::read(&image).unwrap(), [b'.'; 64]);
}

#[test]
fn reads_back_writes_in_each_scheme() {
    let (local, remote) = ("127.13.60.6", "127.13.60.5");
    let rule = format!("{local},all,rw");
    let (adapter, _) =
        Adapter::start(&["--memory", "zero:1M", "--listen", remote, "--allow", &rule, "--threads", "3"]);
    for (n, scheme) in ["tagged", "paper", "session"].iter().enumerate() {
        let (address, text) = (format!("{:#x}", n * 4096 + 3), format!("by the scheme {scheme}"));
        let file = scratch(scheme, text.as_bytes());
        let peer = ["-r", remote, "-l", local, "--scheme", scheme];
        riser_ok(&[&["nettlp", "write", &address, file.to_str().unwrap()], &peer[..]].concat());
        let read = riser_ok(&[&["nettlp", "read", &address, &text.len().to_string()], &peer[..]].concat());
        assert!(read.contains("by the"), "{read}");
    }
    let (code, out) = adapter.end("TERM");
    assert_eq!(code, Some(0));
    assert!(out.contains("opened 2"), "a session for the write, one for the read: {out}");
}

/// With a key, the adapter serves only sessions of peers that have the key.
#[test]
fn key_closes_unauthenticated_ports() {
    let (local, remote) = ("127.13.60.11", "127.13.60.10");
    let (rule, peer) = (format!("{local},all,rw"), ["-r", remote, "-l", local]);
    let (right, wrong) =
        (scratch("key", "ab".repeat(32).as_bytes()), scratch("wrong-key", "cd".repeat(32).as_bytes()));
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    for key in [right, wrong] {
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let args = ["--memory", "zero:1M", "--listen", remote, "--allow", &rule, "--key", right];
    let (adapter, _) = Adapter::start(&args);
    let read = |more: &[&str]| riser(&[&["nettlp", "read", "0x100", "16"], &peer[..], more].concat());
    assert_eq!(read(&["--key", right]).code, 0);
    for more in [&["--key", wrong][..], &["--scheme", "session"], &["--scheme", "tagged"], &[]] {
        let outcome = read(more);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{more:?}: {}", outcome.stderr);
    }
    // Without --key, the error says that a key is required, not that no program listens.
    assert!(read(&[]).stderr.contains("requires a session with a pre-shared key"));
    // A key file that others can read is accepted with a warning.
    fs::set_permissions(right, fs::Permissions::from_mode(0o644)).unwrap();
    let open = read(&["--key", right]);
    assert_eq!(open.code, 0);
    assert!(open.stderr.contains("mode 644") && open.stderr.contains("chmod 600"), "{}", open.stderr);
    let (code, out) = adapter.end("TERM");
    assert_eq!(code, Some(0));
    assert!(out.contains("reads 2") && out.contains("opened 2"), "{out}");
    let closed =
        ["nettlp", "adapter", "--memory", "zero:1M", "--allow", &rule, "--key", right, "--scheme", "tagged"];
    let outcome = riser(&closed);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("auto or session"), "{}", outcome.stderr);
}

const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/nettlp/host.toml");

const TWO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/nettlp/two.toml");

/// Both adapters of a lab answer, each at its address.
#[test]
fn serves_both_adapters_of_a_lab() {
    let (local, first, second) = ("127.13.60.24", "127.13.60.22", "127.13.60.23");
    let rule = format!("{local},all,rw");
    let gen3 = ["--set", "link.gen=3"];
    let args =
        [&[TWO, "--listen", first, "--listen", second, "--allow", &rule, "--json"][..], &gen3].concat();
    let (adapter, said) = Adapter::start(&args);
    assert!(said.contains("slot first") && said.contains(first), "{said}");
    for remote in [first, second] {
        riser_ok(&["nettlp", "read", "0x100000", "16", "-r", remote, "-l", local, "--scheme", "tagged"]);
    }
    let (code, out) = adapter.end("TERM");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(0), "{report}");
    for (n, (slot, address)) in [("slot first", first), ("slot second", second)].into_iter().enumerate() {
        let served = &report["adapters"][n];
        assert_eq!((&served["slot"], &served["listen"]), (&slot.into(), &address.into()));
        assert_eq!(served["peers"][0]["reads"], 1, "{served}");
    }
}

/// A malformed TLP, which the adapter refuses, and a completion without a request, which the lab refuses.
#[test]
fn adapter_of_lab_reports_refused_tlps_at_once() {
    let (local, remote) = ("127.13.60.23", "127.13.60.22");
    let rule = format!("{local},all,rw");
    let (mut adapter, _) = Adapter::start(&[LAB, "--listen", remote, "--allow", &rule, "--json"]);
    while !adapter.line().contains("serves the host's requests") {}
    for (port, tlp, why) in [
        (0x3000, [0xe0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "nettlp adapter: 1 TLP refused: Fmt 111b, "),
        (0x4005, [0x0a, 0, 0, 0, 1, 0, 0, 4, 0, 0, 5, 0], "1 completion refused: Requester ID and Tag "),
    ] {
        let socket = UdpSocket::bind((local, port)).unwrap();
        socket.send_to(&[&HEADER[..], &tlp].concat(), (remote, port)).unwrap();
        let mut said = (&mut adapter.said).lines().map(Result::unwrap);
        assert!(said.any(|line| line.contains(why)), "{why}");
    }
    assert_eq!(adapter.end("TERM").0, Some(0));
}

/// A host program that fails, because its read gets no answer. The replay writes the same capture and a report, and
/// fails too.
#[test]
fn replay_of_failed_run_writes_capture_and_report() {
    let text = fs::read_to_string(LAB.replace("host.toml", "mmio.toml")).unwrap();
    let text = text.replace("start_after_ms = 2000", "start_after_ms = 1").replace("65536", "512");
    let lab = scratch("fails.toml", text.as_bytes()).display().to_string();
    let out = |name: &str| scratch(name, b"").display().to_string();
    let (record, live, again) = (out("fails.rec"), out("fails.pcapng"), out("fails-again.pcapng"));
    let served = riser(&[
        "nettlp",
        "adapter",
        &lab,
        "--listen",
        "127.13.60.20",
        "--allow",
        "127.13.60.21,all,rw",
        "--record",
        &record,
        "--capture",
        &live,
        "--force",
    ]);
    assert_eq!(served.code, 1, "{}", served.stderr);
    let replay = ["nettlp", "replay", &record, "--capture", &again, "--force", "--json"];
    let replayed = riser(&replay);
    let why = "no completion came in time";
    assert_eq!(replayed.code, 1, "{}", replayed.stderr);
    assert!(replayed.stderr.contains(why), "{}", replayed.stderr);
    let report: serde_json::Value = serde_json::from_str(&replayed.stdout).unwrap();
    assert!(report["failure"].as_str().unwrap().contains(why), "{report}");
    assert_eq!(report["devices"][0]["counters"]["host_timeouts"], 1, "{report}");
    let (live, again) = (fs::read(live).unwrap(), fs::read(again).unwrap());
    assert!(!live.is_empty() && live == again, "{} and {} bytes", live.len(), again.len());
}

#[test]
fn reports_occupied_port_with_its_use() {
    let taken = UdpSocket::bind(("127.13.60.7", 0x5001)).unwrap();
    let args = [
        "nettlp",
        "adapter",
        "--memory",
        "zero:1M",
        "--listen",
        "127.13.60.7",
        "--allow",
        "127.13.60.8,all,r",
    ];
    let outcome = riser(&args);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("0x5001") && outcome.stderr.contains("configuration"),
        "{}",
        outcome.stderr
    );
    drop(taken);
}
