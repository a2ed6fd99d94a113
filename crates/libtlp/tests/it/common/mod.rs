// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the library and C programs, and acts as their peer. Without a C compiler, prints a message, and the tests are
//! skipped.

use riser_tlp::{Bdf, Body, Completion, MemoryOp, MemoryRequest, Mps, Rcb, Repr, Status, split};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compiles one C file of this crate.
pub(crate) fn program(cc: &str, source: &str, flags: &[&str]) -> PathBuf {
    testkit::c::program(cc, &here(source), flags)
}

pub(crate) const GNU99: &[&str] = &["-std=gnu99"];

/// Returns the byte at an address of the memory that peers serve.
pub(crate) fn memory(address: u64) -> u8 {
    (address as u8).wrapping_mul(31) ^ (address >> 8) as u8 ^ (address >> 16) as u8
}

pub(crate) fn contents(address: u64, len: u32) -> Vec<u8> {
    (0..u64::from(len)).map(|n| memory(address.wrapping_add(n))).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The peer's end of a port. Both ends use the same port number.
pub(crate) struct Peer {
    pub(crate) socket: UdpSocket,
}

impl Peer {
    /// Timeout, which is longer than any wait of a test.
    const PATIENCE: Duration = Duration::from_secs(20);

    pub(crate) fn new(own: Ipv4Addr, other: Ipv4Addr, port: u16) -> Peer {
        let socket = UdpSocket::bind((own, port)).unwrap();
        socket.connect((other, port)).unwrap();
        socket.set_read_timeout(Some(Peer::PATIENCE)).unwrap();
        Peer { socket }
    }

    pub(crate) fn send(&self, tlp: &[u8]) {
        self.socket.send(&[&[0; 6], tlp].concat()).unwrap();
    }

    /// Receives the next TLP, which must be a legal memory request, and returns it with its data.
    pub(crate) fn request(&self) -> (MemoryRequest, Vec<u8>) {
        let tlp = self.tlp();
        let parsed = Repr::parse(&tlp).unwrap();
        let Body::Memory(request) = parsed.repr.body else { panic!("{:?}", parsed.repr) };
        (request, tlp[parsed.data].to_vec())
    }

    pub(crate) fn tlp(&self) -> Vec<u8> {
        let mut buffer = [0; 5000];
        let len = self.socket.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..6], [0; 6], "software sends sequence 0 and timestamp 0");
        buffer[6..len].to_vec()
    }
}

/// Returns a correct completion of `len` bytes, from byte `offset` of a read.
pub(crate) fn completion(request: &MemoryRequest, offset: u32, len: u32) -> Completion {
    let address = request.span.first_byte() + u64::from(offset);
    Completion {
        byte_count: (request.span.byte_count() - offset) as u16,
        lower_address: (address & 0x7f) as u8,
        length_dw: Some(((address & 3) as u32 + len).div_ceil(4) as u16),
        ..Completion::new(Bdf::from_bits(0), request.requester, request.tag)
    }
}

/// Returns the bytes of a completion with whole DWs of data; `byte` gives the byte at each address.
pub(crate) fn tlp_of(completion: Completion, address: u64, byte: impl Fn(u64) -> u8) -> Vec<u8> {
    let repr = Repr::new(Body::Completion(completion));
    let mut out = vec![0; repr.tlp_len()];
    let header = repr.emit(&mut out);
    let lanes = out[header..].iter_mut().enumerate();
    lanes.for_each(|(n, b)| *b = byte((address & !3) + n as u64));
    out
}

/// Returns all completions of a read of [`memory`], split at 128 bytes.
pub(crate) fn completions(request: &MemoryRequest) -> Vec<Vec<u8>> {
    let (mut out, mut offset) = (Vec::new(), 0);
    let total = request.span.byte_count();
    let (mps, rcb) = (Mps::new(128).unwrap(), Rcb::new(64).unwrap());
    while offset < total {
        let at = request.span.first_byte() + u64::from(offset);
        let len = split::completion_piece(at, total - offset, mps, rcb);
        out.push(tlp_of(completion(request, offset, len), at, memory));
        offset += len;
    }
    out
}

pub(crate) fn refusal(request: &MemoryRequest, status: Status) -> Vec<u8> {
    let refused = Completion { status, length_dw: None, ..completion(request, 0, 0) };
    tlp_of(refused, 0, |_| 0)
}

pub(crate) fn is_read(request: &MemoryRequest) -> bool {
    request.op == MemoryOp::Read
}

/// A running `tests/c/calls.c`.
pub(crate) struct Calls {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Calls {
    /// Starts the program with one context from `own` to `other`, requester 1b:00.0, and `tag`.
    pub(crate) fn start(program: &Path, other: Ipv4Addr, own: Ipv4Addr, tag: u8) -> Calls {
        let mut child = Command::new(program)
            .args([other.to_string(), own.to_string(), "1b00".to_owned(), tag.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut calls = Calls { stdin: child.stdin.take(), child, stdout };
        assert_eq!(calls.answer(), "0", "nettlp_init");
        calls
    }

    pub(crate) fn ask(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn strays(&mut self) -> u64 {
        self.ask("strays");
        self.answer().parse().unwrap()
    }

    /// Ends the program, and checks its exit status, which is not 0 if a sanitizer has found an error.
    pub(crate) fn end(mut self) {
        self.stdin = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
