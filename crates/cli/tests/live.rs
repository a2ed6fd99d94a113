// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser trace -i lo` with datagrams that are really sent. Needs the right to capture: says so where it has none. Other
//! tests send over the same interface, so each filters by a requester of its own. Never waits by sleeping.

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{BufRead, BufReader, IoSlice, Read};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

const RISER: &str = env!("CARGO_BIN_EXE_riser");

/// A running capture that has said that it captures.
struct Live {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Live {
    /// `None`, and a line that says why, where this process may not capture.
    fn start(args: &[&str]) -> Option<Live> {
        let mut child = Command::new(RISER)
            .args(["trace", "-i", "lo"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        if line.contains("CAP_NET_RAW") {
            eprintln!("skipped: {}", line.trim_end());
            let _ = child.wait();
            return None;
        }
        assert_eq!(line, "riser: capturing on lo; Ctrl-C ends it\n");
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

    /// Ctrl-C; then the rest of standard output, and of standard error.
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

/// Two ends of a port.
fn pair(net: u8, port: u16) -> (UdpSocket, UdpSocket) {
    let end = |host: u8| UdpSocket::bind((format!("127.14.{net}.{host}"), port)).unwrap();
    let (a, b) = (end(1), end(2));
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

/// MRd of 4 bytes by `requester` (bus, device and function) under `tag`.
fn mrd(requester: [u8; 2], tag: u8) -> Vec<u8> {
    [&[0; 6], &[0, 0, 0, 1, requester[0], requester[1], tag, 0xf, 0, 0, 0x10, 0][..]].concat()
}

/// MWr of so many DW.
fn mwr(requester: [u8; 2], tag: u8, dws: u8) -> Vec<u8> {
    let header = [0x40, 0, 0, dws, requester[0], requester[1], tag, if dws == 1 { 0xf } else { 0xff }];
    [&[0; 6], &header[..], &[0, 0, 0x20, 0], &vec![tag; usize::from(dws) * 4]].concat()
}

#[test]
fn what_is_sent_is_shown_and_kept() {
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
    // A run of three, the last one shorter, which the kernel carries as one.
    let run = [mwr(requester, 7, 8), mwr(requester, 7, 8), mwr(requester, 7, 2)].concat();
    let segments = [ControlMessage::UdpGsoSegments(&50)];
    let sent = sendmsg::<()>(device.as_raw_fd(), &[IoSlice::new(&run)], &segments, MsgFlags::empty(), None);
    assert_eq!(sent.unwrap(), run.len());
    let shown = live.lines(5);
    let (rest, errors) = live.interrupt();
    assert_eq!(rest, "");
    assert!(errors.contains("frames of NetTLP's"), "{errors}");
    let fields: Vec<(String, u64)> = shown
        .iter()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            (record["type"].as_str().unwrap().to_owned(), record["payload_bytes"].as_u64().unwrap_or(0))
        })
        .collect();
    let expected = [("MRd", 0), ("CplD", 4), ("MWr", 32), ("MWr", 32), ("MWr", 8)];
    assert_eq!(fields, expected.map(|(kind, bytes)| (kind.to_owned(), bytes)), "{shown:?}");
    // The file holds them too, among what others sent.
    let output = Command::new(RISER).args(["trace", path, "--filter", filter]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 5);
    let again = Command::new(RISER).args(["trace", "-i", "lo", "--capture", path]).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force overwrites it"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Views that speak at the end speak after Ctrl-C.
#[test]
fn transactions_and_statistics_come_live() {
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

#[test]
fn what_cannot_be_captured_is_refused() {
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, says) = run(Command::new(RISER).args(["trace", "-i", "no-such-0"]));
    assert_eq!(status, Some(2));
    assert!(says.contains("no such interface; there are") && says.contains("lo"), "{says}");
    let (status, says) = run(Command::new(RISER).args(["trace", "-i", "lo", "file.pcap"]));
    assert_eq!(status, Some(2), "{says}");
    // Without the right to, where this process can give it up.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", RISER, "trace", "-i", "lo"]);
    if Command::new("setpriv").args(["--reuid=65534", "true"]).status().is_ok_and(|s| s.success()) {
        let (status, says) = run(&mut command);
        assert_eq!(status, Some(1), "{says}");
        assert!(says.contains("needs root, or the capability CAP_NET_RAW"), "{says}");
    } else {
        eprintln!("skipped: no setpriv, or no right to it");
    }
}
