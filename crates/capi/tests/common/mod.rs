// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the library and C programs, and plays their peer. Never skips silently: says so where there is no C compiler.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tlp::{Bdf, Body, Completion, MemoryOp, MemoryRequest, Mps, Rcb, Repr, Status, split};

pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The C compiler; `None`, and a line on standard error, where there is none.
pub(crate) fn compiler(name: &'static str) -> Option<&'static str> {
    let works = Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    if !works {
        eprintln!("skipped: no {name}");
    }
    works.then_some(name)
}

/// Whether the compiler has the sanitizers' libraries.
fn sanitizers(cc: &str) -> &'static [&'static str] {
    static FLAGS: OnceLock<&'static [&'static str]> = OnceLock::new();
    FLAGS.get_or_init(|| {
        const ALL: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let source = tmp("sanitized.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let built = Command::new(cc).args(ALL).arg(&source).arg("-o").arg(tmp("sanitized")).output().unwrap();
        let works =
            built.status.success() && Command::new(tmp("sanitized")).status().is_ok_and(|s| s.success());
        if !works {
            eprintln!("skipped: {cc} has no sanitizers here; the programs run without");
        }
        if works { ALL } else { &[] }
    })
}

pub(crate) fn tmp(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Cargo, without what it has told this test of its package: build scripts ask for that, and would run again.
fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    let told = std::env::vars_os().map(|(name, _)| name);
    let own = |name: &std::ffi::OsString| {
        name.to_string_lossy().starts_with("CARGO_PKG_")
            || name.to_string_lossy().starts_with("CARGO_MANIFEST_")
    };
    told.filter(own).for_each(|name| _ = cargo.env_remove(name));
    cargo
}

/// The static library, built as `cargo build` does.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let built = cargo()
            .args(["build", "--quiet", "--package", "riser-capi", "--target-dir"])
            .arg(target)
            .current_dir(here(""))
            .status()
            .unwrap();
        assert!(built.success());
        target.join("debug/libtlp.a")
    })
}

/// Compiles one C file with the library, all warnings being errors, under the sanitizers.
pub(crate) fn program(cc: &str, source: &str, flags: &[&str]) -> PathBuf {
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let out = tmp(&format!("{name}-{}", cc.replace('+', "x")));
    let output = Command::new(cc)
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .args(sanitizers(cc))
        .arg("-I")
        .arg(here("include"))
        .args(["-o".as_ref(), out.as_os_str(), here(source).as_os_str()])
        // What comes behind is no longer C++.
        .args(["-x", "none"])
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    out
}

pub(crate) const GNU99: &[&str] = &["-std=gnu99"];

/// Byte n of the memory that peers serve.
pub(crate) fn memory(address: u64) -> u8 {
    (address as u8).wrapping_mul(31) ^ (address >> 8) as u8 ^ (address >> 16) as u8
}

pub(crate) fn contents(address: u64, len: u32) -> Vec<u8> {
    (0..u64::from(len)).map(|n| memory(address.wrapping_add(n))).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// One end of a port: both ends have the same.
pub(crate) struct Peer {
    pub(crate) socket: UdpSocket,
}

impl Peer {
    /// Nothing that a test waits for takes so long.
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

    /// The next TLP, which must be a sound memory request, and its data.
    pub(crate) fn request(&self) -> (MemoryRequest, Vec<u8>) {
        let tlp = self.tlp();
        let parsed = Repr::parse(&tlp).unwrap();
        let Body::Memory(request) = parsed.repr.body else { panic!("{:?}", parsed.repr) };
        (request, tlp[parsed.data].to_vec())
    }

    pub(crate) fn tlp(&self) -> Vec<u8> {
        let mut buffer = [0; 5000];
        let len = self.socket.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..6], [0; 6], "software sends no sequence and no time");
        buffer[6..len].to_vec()
    }
}

/// A right completion of `len` bytes from byte `offset` of a read on.
pub(crate) fn completion(request: &MemoryRequest, offset: u32, len: u32) -> Completion {
    let address = request.span.first_byte() + u64::from(offset);
    Completion {
        locked: false,
        completer: Bdf::from_bits(0),
        requester: request.requester,
        tag: request.tag,
        status: Status::Success,
        bcm: false,
        byte_count: (request.span.byte_count() - offset) as u16,
        lower_address: (address & 0x7f) as u8,
        length_dw: Some(((address & 3) as u32 + len).div_ceil(4) as u16),
    }
}

/// A completion as bytes, its whole DWs from `byte` of each address on.
pub(crate) fn tlp_of(completion: Completion, address: u64, byte: impl Fn(u64) -> u8) -> Vec<u8> {
    let repr = Repr::new(Body::Completion(completion));
    let mut out = vec![0; repr.tlp_len()];
    let header = repr.emit(&mut out);
    let lanes = out[header..].iter_mut().enumerate();
    lanes.for_each(|(n, b)| *b = byte((address & !3) + n as u64));
    out
}

/// All completions of a read of [`memory`], cut at 128 bytes.
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

/// `tests/c/calls.c`, running.
pub(crate) struct Calls {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Calls {
    /// One context from `own` to `other`, requester 1b:00.0, `tag`.
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

    /// Ends it; its status tells what the sanitizers found.
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
