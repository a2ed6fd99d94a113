// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp psmem` with a host at the other end of real sockets. Never waits by sleeping.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// A running `psmem` that has reported that it is ready.
struct Psmem {
    child: Child,
    said: BufReader<ChildStderr>,
    ready: String,
}

impl Psmem {
    fn start(args: &[&str]) -> Psmem {
        let mut child = Command::new(env!("CARGO_BIN_EXE_riser"))
            .args(["nettlp", "psmem"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut ready).unwrap();
        Psmem { child, said, ready }
    }

    /// Returns the next line of standard error.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }

    /// Sends Ctrl-C. Returns the remaining output.
    fn interrupt(self) -> String {
        self.end("-INT")
    }

    fn end(mut self, signal: &str) -> String {
        let told = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert!(self.child.wait().unwrap().success());
        out
    }
}

impl Drop for Psmem {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn host(own: &str, other: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((own, port)).unwrap();
    socket.connect((other, port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

fn exchange(host: &UdpSocket, request: &[u8]) -> Vec<u8> {
    host.send(request).unwrap();
    let mut buffer = [0; 1500];
    let len = host.recv(&mut buffer).unwrap();
    buffer[..len].to_vec()
}

const HEADER: [u8; 6] = [0; 6];

fn with_header(tlp: &[u8]) -> Vec<u8> {
    [&HEADER[..], tlp].concat()
}

/// MRd of 4 bytes with this tag. `at` is the last byte of the address, from `0xfe00_0000`.
fn read(tag: u8, at: u8) -> Vec<u8> {
    with_header(&[0, 0, 0, 1, 0, 0, tag, 0xf, 0xfe, 0, 0, at])
}

#[test]
fn answers_on_all_ports_and_counts() {
    let mut psmem = Psmem::start(&[
        "-r",
        "127.14.40.2",
        "-l",
        "127.14.40.1",
        "--base",
        "0xfe000000",
        "--bar-size",
        "256",
        "--bus",
        "1b:00.0",
        "--scheme",
        "tagged",
        "--json",
    ]);
    assert_eq!(psmem.ready, "riser: 256 bytes at 0xfe000000, for 127.14.40.2, carrier tagged\n");
    // Tags with the same port share a socket. A socket that was just closed may still be open in a child process that is starting.
    for tags in [&[0_u8][..], &[7], &[15, 0x1f]] {
        let host = host("127.14.40.2", "127.14.40.1", 0x4000 + u16::from(tags[0] & 0xf));
        for &tag in tags {
            let write = [0x40, 0, 0, 1, 0, 0, tag, 0xf, 0xfe, 0, 0, 0x10, tag, 2, 3, 4];
            host.send(&with_header(&write)).unwrap();
            let answer = exchange(&host, &read(tag, 0x10));
            assert_eq!(answer, with_header(&[0x4a, 0, 0, 1, 0x1b, 0, 0, 4, 0, 0, tag, 0x10, tag, 2, 3, 4]));
            let refused = exchange(&host, &with_header(&[0, 0, 0, 1, 0, 0, tag, 0xf, 0xfe, 0, 1, 0]));
            assert_eq!(refused, with_header(&[0x0a, 0, 0, 0, 0x1b, 0, 0x20, 4, 0, 0, tag, 0]));
            host.send(&[1, 2, 3]).unwrap();
        }
    }
    let line = psmem.line();
    let why = "nettlp psmem: 1 request refused: Address 0xfe000100, expected an address in an enabled BAR, a bridge window or \
               memory (PCIe 5.0 §2.3.1, rule unclaimed-address); first at ";
    assert!(line.contains(why) && line.contains(" us: MRd, "), "{line}");
    let report: serde_json::Value = serde_json::from_str(&psmem.interrupt()).unwrap();
    let [refusal] = &report["refusals"].as_array().unwrap()[..] else { panic!("{report}") };
    let expected = ("unclaimed-address".into(), "0xfe000100".into(), 4.into());
    assert_eq!(
        (&refusal["rule"], &refusal["found"], &refusal["count"]),
        (&expected.0, &expected.1, &expected.2)
    );
    assert_eq!((&report["carrier"], &report["received"]), (&"tagged".into(), &12.into()));
    let completer = &report["completer"];
    for (name, count) in [("reads", 4), ("writes", 4), ("reads_out_of_range", 4), ("completions", 8)] {
        assert_eq!(completer[name], count, "{name}");
    }
}

/// The paper's ports, and memory from a file. The file does not change unless write-back is requested.
#[test]
fn serves_file_and_writes_it_back_on_request() {
    for (net, write_back, signal) in [(41, false, "-INT"), (42, true, "-TERM")] {
        let folder = std::env::temp_dir().join(format!("riser-psmem-{}-{net}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("bar4.bin");
        std::fs::write(&file, b"abcdefgh").unwrap();
        let (own, other) = (format!("127.14.{net}.1"), format!("127.14.{net}.2"));
        let path = file.to_str().unwrap();
        let mut args =
            vec!["-r", &other, "-l", &own, "--base", "0xfe000000", "--scheme", "paper", "--file", path];
        args.extend(write_back.then_some("--write-back"));
        let psmem = Psmem::start(&args);
        let host = host(&other, &own, 0x3003);
        assert_eq!(exchange(&host, &read(3, 4))[18..], *b"efgh");
        host.send(&with_header(&[0x40, 0, 0, 1, 0, 0, 3, 0x2, 0xfe, 0, 0, 4, 0, b'X', 0, 0])).unwrap();
        assert_eq!(exchange(&host, &read(3, 4))[18..], *b"eXgh");
        let shown = psmem.end(signal);
        assert!(shown.contains("reads 2") && shown.contains("writes 1"), "{shown}");
        let expected: &[u8] = if write_back { b"abcdeXgh" } else { b"abcdefgh" };
        assert_eq!(std::fs::read(&file).unwrap(), expected);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
