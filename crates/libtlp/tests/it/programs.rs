// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the headers with C and C++ compilers, and runs the examples and the test programs under the sanitizers.
//! Without a compiler, the tests are skipped and print a message.

use crate::common;
use crate::common::{GNU99, Peer, completions, contents, here, hex, is_read, program, tlp_of};
use riser_tlp::{Bdf, Body, MemoryOp, MemoryRequest, Repr, Span, Status, Tag};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use testkit::c::{compiler, library};

/// Returns the own and the other address of a test.
fn addresses(net: u8) -> (Ipv4Addr, Ipv4Addr) {
    (Ipv4Addr::new(127, 14, net, 1), Ipv4Addr::new(127, 14, net, 2))
}

fn run(program: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn macros_are_correct_in_c_and_cxx() {
    for (cc, flags) in [
        ("cc", GNU99),
        ("cc", &["-std=c11", "-D_DEFAULT_SOURCE", "-Wpedantic", "-Wstrict-prototypes"]),
        ("c++", &["-x", "c++", "-std=c++17"]),
    ] {
        let Some(cc) = compiler(cc) else { continue };
        let output = run(&program(cc, "tests/c/macros.c", flags), &[]);
        assert!(output.status.success(), "{cc} {flags:?}: {}", text(&output));
    }
}

#[test]
fn examples_read_and_write() {
    let Some(cc) = compiler("cc") else { return };
    let (own, other) = addresses(20);
    let (read, write) =
        (program(cc, "examples/dma_read.c", GNU99), program(cc, "examples/dma_write.c", GNU99));
    let peer = thread::spawn(move || {
        let peer = Peer::new(other, own, 0x3005);
        let (request, _) = peer.request();
        completions(&request).iter().for_each(|tlp| peer.send(tlp));
        // Then the write follows. The read after it returns the written bytes.
        let (written, data) = peer.request();
        let (back, _) = peer.request();
        assert!(!is_read(&written) && is_read(&back) && written.span == back.span);
        let at = written.span.address();
        peer.send(&tlp_of(
            common::completion(&back, 0, back.span.byte_count()),
            back.span.first_byte(),
            |a| data[(a - at) as usize],
        ));
    });
    let (own, other) = (own.to_string(), other.to_string());
    let common = ["-r", &other, "-l", &own, "-b", "1b:00.0", "-t", "5"];
    let output = run(&read, &[&common[..], &["-a", "1234", "-s", "20"]].concat());
    let bytes: String = text(&output).split_whitespace().collect();
    assert_eq!(bytes, hex(&contents(0x1234, 20)));
    let output = run(&write, &[&common[..], &["-a", "1001", "-d", "riser"]].concat());
    assert_eq!(text(&output), "5 bytes written, read back\n");
    peer.join().unwrap();
    let output = run(&read, &common);
    assert_eq!(text(&output), "dma_read_aligned: Connection refused\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(run(&read, &["-r", "nowhere"]).status.code(), Some(2));
}

/// `crates/cli/tests/it/upstream.rs` runs these examples with an adapter.
#[test]
fn examples_that_need_an_adapter_print_help_and_argument_errors() {
    let Some(cc) = compiler("cc") else { return };
    let adapter = ["-r", "127.14.26.2"];
    for (source, args, says) in [
        ("examples/simple_nic.c", &["-h"][..], "on a tap interface"),
        ("examples/simple_nic.c", &adapter, "-i NAME is needed"),
        ("examples/tlpperf.c", &["-h"], "measures DMA"),
        ("examples/tlpperf.c", &[&adapter[..], &["-N", "0"]].concat(), "threads (1)"),
        ("examples/tlpperf.c", &[&adapter[..], &["-P", "none"]].concat(), "fixed|sequential|random"),
        ("examples/tlpperf.c", &[&adapter[..], &["-N", "3", "-R", "diff", "-s", "512"]].concat(), "region"),
    ] {
        let output = run(&program(cc, source, GNU99), args);
        assert_eq!(output.status.code(), Some(2), "{source} {args:?}: {}", text(&output));
        assert!(text(&output).contains(says), "{source} {args:?}: {}", text(&output));
    }
}

/// Returns a host's request to pseudo memory.
fn request(op: MemoryOp, tag: u16, address: u64, len: u32) -> MemoryRequest {
    let span = Span::covering(address, len).unwrap();
    MemoryRequest { op, requester: Bdf::from_bits(0), tag: Tag::from_bits(tag), span }
}

fn request_bytes(request: MemoryRequest, data: &[u8]) -> Vec<u8> {
    let repr = Repr::new(Body::Memory(request));
    let mut out = vec![0; repr.header_len()];
    repr.emit(&mut out);
    [&out, data].concat()
}

#[test]
fn pseudo_memory_answers_until_interrupted() {
    let Some(cc) = compiler("cc") else { return };
    let (own, other) = addresses(21);
    let program = program(cc, "examples/psmem.c", GNU99);
    let mut child = Command::new(program)
        .args([
            "-r",
            &other.to_string(),
            "-l",
            &own.to_string(),
            "-b",
            "1b:00.0",
            "-a",
            "fe000000",
            "-s",
            "4096",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "4096 bytes at 0xfe000000");
    let data: Vec<u8> = (0..=255).collect();
    for tag in [0, 9, 15] {
        let host = Peer::new(other, own, 0x4000 + tag);
        host.send(&request_bytes(request(MemoryOp::Write, tag, 0xfe00_0100, 256), &data));
        // 254 bytes from an odd address: one completion; 300 bytes: split at a boundary of 64.
        for (at, len, cuts) in [(0xfe00_0101_u64, 254, vec![254]), (0xfe00_0101, 300, vec![255, 45])] {
            host.send(&request_bytes(request(MemoryOp::Read, tag, at, len), &[]));
            let mut offset = 0;
            for cut in cuts {
                let tlp = host.tlp();
                let parsed = Repr::parse(&tlp).unwrap();
                let Body::Completion(c) = parsed.repr.body else { panic!() };
                let expected = common::completion(&request(MemoryOp::Read, tag, at, len), offset, cut);
                assert_eq!(
                    (c.byte_count, c.lower_address, c.length_dw),
                    (expected.byte_count, expected.lower_address, expected.length_dw)
                );
                assert_eq!((c.completer.bits(), c.tag.bits(), c.status), (0x1b00, tag, Status::Success));
                let lead = usize::from(c.lower_address & 3);
                for n in 0..cut as usize {
                    let index = (at - 0xfe00_0100) as usize + offset as usize + n;
                    let there = data.get(index).copied().unwrap_or(0);
                    assert_eq!(tlp[parsed.data.start + lead + n], there);
                }
                offset += cut;
            }
        }
        // A read of the byte after the end.
        host.send(&request_bytes(request(MemoryOp::Read, tag, 0xfe00_1000, 1), &[]));
        let Body::Completion(c) = Repr::parse(&host.tlp()).unwrap().repr.body else { panic!() };
        assert_eq!((c.status, c.length_dw), (Status::UnsupportedRequest, None));
    }
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert_eq!(lines.next().unwrap().unwrap(), "6 reads, 3 writes, 3 refused");
    assert!(child.wait().unwrap().success());
}

/// Opens a socket that answers `count` datagrams with `answer`.
fn answering(
    address: Ipv4Addr,
    port: u16,
    count: usize,
    answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static,
) -> thread::JoinHandle<Vec<Vec<u8>>> {
    let socket = UdpSocket::bind((address, port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    thread::spawn(move || {
        let mut seen = Vec::new();
        for _ in 0..count {
            let mut buffer = [0; 64];
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            seen.push(buffer[..len].to_vec());
            if let Some(reply) = answer(&buffer[..len]) {
                socket.send_to(&reply, from).unwrap();
            }
        }
        seen
    })
}

#[test]
fn messaging_sends_three_requests() {
    let Some(cc) = compiler("cc") else { return };
    let (_, other) = addresses(22);
    let driver = answering(other, 0x2fff, 3, |question| {
        Some(match question {
            [1, 0, 0, 0] => vec![0, 0, 0, 0xfe, 1, 0, 0, 0],
            [2, 0, 0, 0] => vec![0x08, 0x1b],
            _ => {
                let mut table = vec![0; 192];
                table[12..24].copy_from_slice(&[0, 0x10, 0xe0, 0xfe, 0, 0, 0, 0, 0x21, 0x40, 0, 0]);
                table
            }
        })
    });
    let program = program(cc, "examples/msg.c", GNU99);
    let output = run(&program, &["-r", &other.to_string()]);
    assert_eq!(text(&output), "BAR4 0x1fe000000\nid 1b:01.0\nvector 1: address 0xfee01000, data 0x4021\n");
    assert_eq!(driver.join().unwrap(), [[1, 0, 0, 0], [2, 0, 0, 0], [3, 0, 0, 0]]);
    let output = run(&program, &["-r", &other.to_string()]);
    assert_eq!(text(&output), "nettlp_msg_get_bar4_start: Connection refused\n");
}

/// Returns an answer of a configuration space whose byte n has the value n. Old adapters pad their answers to 18 bytes.
fn config_answer(question: &[u8], padded: bool) -> Option<Vec<u8>> {
    let dw = question[1];
    let mut reply = vec![question[0], dw, dw * 4 + 3, dw * 4 + 2, dw * 4 + 1, dw * 4];
    if padded {
        reply.resize(18, 0);
    }
    (question[0] >> 6 == 0).then_some(reply)
}

#[test]
fn configuration_works_on_the_current_and_on_the_old_port() {
    let Some(cc) = compiler("cc") else { return };
    let program = program(cc, "examples/cfg.c", GNU99);
    for (net, port) in [(23, 0x5001), (24, 0x4001)] {
        let (own, other) = addresses(net);
        let adapter = answering(other, port, 3, move |q| config_answer(q, port == 0x4001));
        let (own, other) = (own.to_string(), other.to_string());
        // Writes 7 to the low half of DW 1, which is then read. The first request finds the port.
        let output = run(&program, &["-r", &other, "-l", &own, "-a", "4", "-s", "2", "-d", "7"]);
        assert_eq!(text(&output), "04 05\n");
        let asked = [[0x3c, 0, 0, 0, 0, 0], [0x4c, 1, 0, 0, 0, 7], [0x3c, 1, 0, 0, 0, 0]];
        assert_eq!(adapter.join().unwrap(), asked);
        let output = run(&program, &["-r", &other, "-l", &own]);
        assert_eq!(text(&output), "nettlp_pcie_cfg_read: Connection refused\n");
    }
}

#[test]
fn arbitrary_bytes_cause_no_error_at_any_entry_point() {
    let Some(cc) = compiler("cc") else { return };
    let (own, other) = addresses(25);
    let program = program(cc, "tests/c/garbage.c", GNU99);
    for seed in ["1", "0x5eed"] {
        let output = run(&program, &[&own.to_string(), &other.to_string(), seed, "40"]);
        assert!(output.status.success(), "seed {seed}: {}", text(&output));
    }
}

/// pkg-config finds the installed library, and a program runs with the shared library.
#[test]
fn pkg_config_finds_an_installed_library() {
    let Some(cc) = compiler("cc") else { return };
    if compiler("pkg-config").is_none() {
        return;
    }
    let folder = testkit::tmp().join("libtlp-installed");
    let prefix = folder.join("prefix");
    let installed = Command::new(here("install.sh"))
        .arg("--no-build")
        .arg(library().parent().unwrap())
        .arg(&prefix)
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", text(&installed));
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libtlp"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .unwrap();
    assert!(flags.status.success(), "{}", text(&flags));
    let flags = text(&flags);
    let out = folder.join("macros-shared");
    let built = Command::new(cc)
        .args(["-std=gnu99", "-o"])
        .args([&out, &here("tests/c/macros.c")])
        .args(flags.split_whitespace())
        .output()
        .unwrap();
    assert!(built.status.success(), "{flags}: {}", text(&built));
    let ran = Command::new(&out).env("LD_LIBRARY_PATH", prefix.join("lib")).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran));
    let without = Command::new(&out).env_remove("LD_LIBRARY_PATH").output().unwrap();
    assert!(!without.status.success(), "it ran with the shared library");
}
