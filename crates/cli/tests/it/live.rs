// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser trace -i lo` with datagrams that are really sent. Skipped with a message if the process may not capture. Other tests use the
//! same interface, so each test filters by its own requester. Never waits by sleeping.

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice, Read};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

const RISER: &str = env!("CARGO_BIN_EXE_riser");

/// A running capture that has reported that it is ready.
struct Live {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Live {
    /// Returns `None`, and prints why, if this process may not capture.
    fn start(args: &[&str]) -> Option<Live> {
        let mut command = Command::new(RISER);
        command.args(["trace", "-i", "lo"]).args(args);
        Live::capturing(command, "lo")
    }

    fn capturing(mut command: Command, interface: &str) -> Option<Live> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        if line.contains("CAP_NET_RAW") {
            eprintln!("skipped: {}", line.trim_end());
            let _ = child.wait();
            return None;
        }
        assert_eq!(line, format!("riser: capturing on {interface}; Ctrl-C ends it\n"));
        Some(Live { child, stdout, stderr })
    }

    fn lines(&mut self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| {
                let mut line = String::new();
                self.stdout.read_line(&mut line).unwrap();
                line.trim_end().to_owned()
            })
            .collect()
    }

    /// Sends Ctrl-C. Returns the rest of standard output and of standard error.
    fn interrupt(mut self) -> (String, String) {
        let told = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        let (mut out, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut errors).unwrap();
        assert!(self.child.wait().unwrap().success(), "{errors}");
        (out, errors)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns two connected sockets of a port.
fn pair(net: u8, port: u16) -> (UdpSocket, UdpSocket) {
    let end = |host: u8| UdpSocket::bind((format!("127.14.{net}.{host}"), port)).unwrap();
    let (a, b) = (end(1), end(2));
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

/// A 4-byte MRd by `requester` (bus, then device and function) with `tag`.
fn mrd(requester: [u8; 2], tag: u8) -> Vec<u8> {
    [&[0; 6], &[0, 0, 0, 1, requester[0], requester[1], tag, 0xf, 0, 0, 0x10, 0][..]].concat()
}

/// An MWr of `dws` DW.
fn mwr(requester: [u8; 2], tag: u8, dws: u8) -> Vec<u8> {
    let header = [0x40, 0, 0, dws, requester[0], requester[1], tag, if dws == 1 { 0xf } else { 0xff }];
    [&[0; 6], &header[..], &[0, 0, 0x20, 0], &vec![tag; usize::from(dws) * 4]].concat()
}

#[test]
fn prints_and_saves_sent_tlps() {
    let folder = std::env::temp_dir().join(format!("riser-live-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("live.pcap");
    let path = file.to_str().unwrap();
    let filter = "requester=ee:1d.5";
    let Some(mut live) = Live::start(&["--filter", filter, "--json", "--capture", path]) else { return };
    let (device, adapter) = pair(50, 0x3007);
    let requester = [0xee, 0xed];
    device.send(&mrd(requester, 7)).unwrap();
    let completion = [0x4a, 0, 0, 1, 0, 0, 0, 4, requester[0], requester[1], 7, 0, 1, 2, 3, 4];
    adapter.send(&[&[0, 9, 0, 0, 0, 5], &completion[..]].concat()).unwrap();
    // Three datagrams, the last one shorter, which the kernel carries as one.
    let run = [mwr(requester, 7, 8), mwr(requester, 7, 8), mwr(requester, 7, 2)].concat();
    send_run(&device, &run, 50);
    let shown = live.lines(5);
    let (rest, errors) = live.interrupt();
    assert_eq!(rest, "");
    assert!(errors.contains("NetTLP frames"), "{errors}");
    let fields: Vec<(String, u64)> = shown
        .iter()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            (record["type"].as_str().unwrap().to_owned(), record["payload_bytes"].as_u64().unwrap_or(0))
        })
        .collect();
    let expected = [("MRd", 0), ("CplD", 4), ("MWr", 32), ("MWr", 32), ("MWr", 8)];
    assert_eq!(fields, expected.map(|(kind, bytes)| (kind.to_owned(), bytes)), "{shown:?}");
    // The file also contains these datagrams, among datagrams of others.
    let output = Command::new(RISER).args(["trace", path, "--filter", filter]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 5);
    let again = Command::new(RISER).args(["trace", "-i", "lo", "--capture", path]).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force overwrites it"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Views that print at the end print after Ctrl-C.
#[test]
fn prints_transactions_and_statistics_after_ctrl_c() {
    for (net, view) in [(51, "--transactions"), (52, "--stats")] {
        let requester = [0xed, net];
        let filter = format!("requester=ed:{:02x}.{}", net >> 3, net & 7);
        let Some(live) = Live::start(&[view, "--filter", &filter]) else { return };
        let (device, adapter) = pair(net, 0x3001);
        device.send(&mrd(requester, 1)).unwrap();
        let mut buffer = [0; 100];
        adapter.recv(&mut buffer).unwrap();
        let completion = [0x4a, 0, 0, 1, 0, 0, 0, 4, requester[0], requester[1], 1, 0, 1, 2, 3, 4];
        adapter.send(&[&[0; 6], &completion[..]].concat()).unwrap();
        device.recv(&mut buffer).unwrap();
        let (out, errors) = live.interrupt();
        assert!(out.contains("MRd"), "{view}: {out} {errors}");
    }
}

/// Names of `--json` records: type and payload of objects, or kind of record.
fn names(lines: &[String]) -> Vec<String> {
    let name = |line: &String| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| record[key].as_str().map(str::to_owned);
        text("what").or(text("reason")).or(text("type")).unwrap()
    };
    lines.iter().map(name).collect()
}

/// Sends datagrams of `segment` bytes in one call.
fn send_run(socket: &UdpSocket, run: &[u8], segment: u16) {
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    let sent = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(run)], &control, MsgFlags::empty(), None);
    assert_eq!(sent.unwrap(), run.len());
}

#[test]
fn captures_ipv6() {
    let filter = "requester=ec:01.0";
    let Some(mut live) = Live::start(&["--filter", filter]) else { return };
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    socket.connect("[::1]:13301").unwrap();
    let requester = [0xec, 0x08];
    // No socket receives these. The error `port unreachable` fails the next send, so each datagram has its own socket.
    socket.send(&mrd(requester, 0xf5)).unwrap();
    let runs = UdpSocket::bind("[::1]:0").unwrap();
    runs.connect("[::1]:13301").unwrap();
    send_run(&runs, &[mwr(requester, 1, 8), mwr(requester, 2, 2)].concat(), 50);
    let session = UdpSocket::bind("[::1]:0").unwrap();
    session.connect("[::1]:12285").unwrap();
    session.send(&mwr(requester, 3, 1)).unwrap();
    let shown = live.lines(4);
    let (_, errors) = live.interrupt();
    let ends = |socket: &UdpSocket, port: u16| {
        format!(" IP6 ::1.{} > ::1.{port}: NetTLP: ", socket.local_addr().unwrap().port())
    };
    let rows = [
        (
            ends(&socket, 13301),
            "MRd, len 1, requester ec:01.0, tag 0xf5, last 0x0, first 0xf, Addr 0x00001000",
        ),
        (ends(&runs, 13301), "MWr, len 8, requester ec:01.0, tag 0x01, last 0xf, first 0xf, Addr 0x00002000"),
        (ends(&runs, 13301), "MWr, len 2, requester ec:01.0, tag 0x02, last 0xf, first 0xf, Addr 0x00002000"),
        (
            ends(&session, 12285),
            "MWr, len 1, requester ec:01.0, tag 0x03, last 0x0, first 0xf, Addr 0x00002000",
        ),
    ];
    for (line, (ends, tlp)) in shown.iter().zip(rows) {
        assert!(line.ends_with(&format!("{ends}{tlp}")), "{line}\n{ends}{tlp}\n{errors}");
    }
}

/// Two namespaces with a cable of MTU 1500 between them, removed when dropped. `eth0` of the first has fd00::1 and 10.0.0.1.
struct Nets([String; 2]);

fn ip(args: &str) -> bool {
    let status = Command::new("ip").args(args.split_whitespace()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Nets {
    fn new() -> Option<Nets> {
        let nets = Nets(["a", "b"].map(|side| format!("riser-live-{side}-{}", std::process::id())));
        let [a, b] = &nets.0;
        let made = ip(&format!("netns add {a}"))
            && ip(&format!("netns add {b}"))
            && ip(&format!("-n {a} link add eth0 type veth peer name eth0 netns {b}"))
            && [(a, 1), (b, 2)].iter().all(|(net, host)| {
                ip(&format!("-n {net} addr add 10.0.0.{host}/24 dev eth0"))
                    && ip(&format!("-n {net} addr add fd00::{host}/64 dev eth0 nodad"))
                    && ip(&format!("-n {net} link set eth0 up"))
            });
        if !made {
            eprintln!("skipped: no network namespaces");
        }
        made.then_some(nets)
    }

    fn command(&self, side: usize, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[side], RISER]).args(args);
        command
    }

    /// Returns a socket in the second namespace.
    fn socket(&self, to: &str) -> UdpSocket {
        let space = File::open(format!("/run/netns/{}", self.0[1])).unwrap();
        let (any, to) = (if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" }, to.to_owned());
        let open = move || {
            setns(space, CloneFlags::CLONE_NEWNET).unwrap();
            let socket = UdpSocket::bind(any).unwrap();
            socket.connect(to).unwrap();
            socket
        };
        std::thread::spawn(open).join().unwrap()
    }
}

impl Drop for Nets {
    fn drop(&mut self) {
        for net in &self.0 {
            let _ = ip(&format!("netns del {net}"));
        }
    }
}

/// An adapter that has reported that it is serving. Killed when dropped.
struct Served {
    child: Child,
    /// Kept open so that the adapter can write to it.
    _stderr: BufReader<std::process::ChildStderr>,
}

impl Served {
    fn start(mut command: Command) -> Served {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stderr, mut said) = (BufReader::new(child.stderr.take().unwrap()), String::new());
        stderr.read_line(&mut said).unwrap();
        let served = Served { child, _stderr: stderr };
        assert!(said.contains("serving"), "{said}");
        served
    }

    fn end(&mut self) {
        let told = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success() && self.child.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session between two riser commands over a cable, and datagrams that exceed its MTU.
#[test]
fn captures_sessions_and_fragments_over_cable() {
    let Some(nets) = Nets::new() else { return };
    for (adapter, device, wide) in [("fd00::1", "fd00::2", "[fd00::1]"), ("10.0.0.1", "10.0.0.2", "10.0.0.1")]
    {
        let rule = format!("{device},all,rw");
        let serve = ["nettlp", "adapter", "--memory", "zero:64K", "--listen", adapter, "--allow", &rule];
        let mut served = Served::start(nets.command(0, &serve));
        let captured = nets.command(0, &["trace", "-i", "eth0", "--json"]);
        let Some(live) = Live::capturing(captured, "eth0") else { return };
        let write = ["nettlp", "write", "8", "--data", "0102030405060708", "--verify", "--scheme", "session"];
        let output =
            nets.command(1, &[&write[..], &["-r", adapter, "-l", device]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // 4110 bytes are three fragments. Only the first fragment has the ports: first of NetTLP, then of another
        // protocol.
        for port in [0x3011, 0x1234] {
            nets.socket(&format!("{wide}:{port}")).send(&[0; 4110]).unwrap();
        }
        nets.socket(&format!("{wide}:{}", 0x3011)).send(&mrd([1, 2], 17)).unwrap();
        let (out, counted) = live.interrupt();
        served.end();
        let shown = names(&out.lines().map(str::to_owned).collect::<Vec<_>>());
        let count = |name: &str| shown.iter().filter(|shown| *shown == name).count();
        for name in ["NetTLP session Hello", "NetTLP session HelloAck", "MWr", "CplD"] {
            assert!(count(name) >= 1, "{name}: {shown:?}");
        }
        let fragments = shown.iter().filter(|name| name.contains("fragment at byte 0")).count();
        assert_eq!(fragments, 1, "{shown:?}");
        assert!(
            counted.contains(" 1 of them fragments of datagrams, which are not reassembled"),
            "{counted}"
        );
        assert_eq!(count("error"), 0, "{shown:?}");
        assert_eq!(shown.last().map(String::as_str), Some("MRd"), "{shown:?}");
    }
}

#[test]
fn rejects_interfaces_it_cannot_capture() {
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, says) = run(Command::new(RISER).args(["trace", "-i", "no-such-0"]));
    assert_eq!(status, Some(2));
    assert!(says.contains("no such interface: expected") && says.contains("lo"), "{says}");
    let (status, says) = run(Command::new(RISER).args(["trace", "-i", "lo", "file.pcap"]));
    assert_eq!(status, Some(2), "{says}");
    // Tests without the right to capture, if this process can drop the right.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", RISER, "trace", "-i", "lo"]);
    if Command::new("setpriv").args(["--reuid=65534", "true"]).status().is_ok_and(|s| s.success()) {
        let (status, says) = run(&mut command);
        assert_eq!(status, Some(1), "{says}");
        assert!(says.contains("needs root or CAP_NET_RAW"), "{says}");
    } else {
        eprintln!("skipped: no setpriv, or no right to it");
    }
}
