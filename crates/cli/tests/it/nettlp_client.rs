// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp read`, `write`, `perf` and `cfg` against an adapter with memory, which runs in the test process.
//! Loopback, 127.12.x.y.

use crate::common::{self, riser, riser_ok};
use nettlp::completer::{CompleterMemory, Image};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use testkit::lspci as oracle;
use testkit::served::Served;

/// An adapter at 127.12.`test`.1 with 1 MiB. Byte `n` is `n % 251` in the first 64 KiB; the rest is zero. The adapter
/// gives 127.12.`test`.2 the given access.
fn adapter(test: u8, directions: &str) -> Served {
    let address = format!("127.12.{test}.1").parse().unwrap();
    let rule = format!("127.12.{test}.2,all,{directions}");
    let served = Served::start(address, Image::zeroes(1 << 20).unwrap(), &[&rule], 256, false);
    let data: Vec<u8> = (0..64 << 10).map(byte).collect();
    Arc::clone(&served.image).write(0, &data).unwrap();
    served
}

fn byte(address: usize) -> u8 {
    (address % 251) as u8
}

/// Returns the arguments with the adapter's address.
fn at<'a>(test: u8, args: &[&'a str], place: &'a mut [String; 2]) -> Vec<&'a str> {
    *place = [1, 2].map(|host| format!("127.12.{test}.{host}"));
    let peer = ["-r", &place[0], "-l", &place[1], "--scheme", "tagged", "--timeout-ms", "2000"];
    let tail = if args[0] == "cfg" { &peer[..4] } else { &peer[..] };
    [&["nettlp"], args, tail].concat()
}

fn run(test: u8, args: &[&str]) -> common::Outcome {
    riser(&at(test, args, &mut [const { String::new() }; 2]))
}

fn ok(test: u8, args: &[&str]) -> String {
    riser_ok(&at(test, args, &mut [const { String::new() }; 2]))
}

fn json(test: u8, args: &[&str]) -> Value {
    serde_json::from_str(&ok(test, &[args, &["--json"]].concat())).unwrap()
}

/// Returns the path for a file of this test. The file does not exist.
fn fresh(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("riser-nettlp-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn read_shows_bytes_or_writes_them_to_a_file() {
    let _served = adapter(41, "r");
    let shown = ok(41, &["read", "0x10", "18"]);
    let expected = "\
00000010  10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  ................
00000020  20 21                                             !
";
    assert_eq!(shown, expected);
    let object = json(41, &["read", "3", "5"]);
    assert_eq!((&object["data"], &object["length_bytes"]), (&"0304050607".into(), &5.into()));
    assert_eq!(object["counters"]["read_tlps"], 1);
    let path = fresh("memory");
    let name = path.to_str().unwrap();
    assert_eq!(ok(41, &["read", "1", "64k", "-o", name]), "");
    let found = std::fs::read(&path).unwrap();
    let expected: Vec<u8> = (1..=64 << 10).map(|n| if n < 64 << 10 { byte(n) } else { 0 }).collect();
    assert!(found == expected, "the file differs");
    let again = run(41, &["read", "1", "4", "-o", name]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains(name) && again.stderr.contains("exists"), "{}", again.stderr);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn write_changes_no_other_bytes() {
    let served = adapter(42, "rw");
    assert_eq!(ok(42, &["write", "0x20002", "--data", "de ad be", "--verify"]), "");
    let mut found = [0xee; 8];
    Arc::clone(&served.image).read(0x2_0000, &mut found);
    assert_eq!(found, [0, 0, 0xde, 0xad, 0xbe, 0, 0, 0]);
    let path = fresh("data");
    std::fs::write(&path, vec![7; 5000]).unwrap();
    let object = json(42, &["write", "0x30001", path.to_str().unwrap(), "--verify"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!((&object["length_bytes"], &object["verified"]), (&5000.into(), &true.into()));
    // 255 bytes up to an aligned address, then 256 bytes each, and a piece after the 4 KiB boundary.
    assert_eq!(object["counters"]["write_tlps"], 20);
}

#[test]
fn reports_refusals_of_adapter() {
    let _served = adapter(43, "r");
    let beyond = run(43, &["read", "0x100000", "4"]);
    assert_eq!((beyond.code, beyond.stdout.as_str()), (1, ""));
    assert!(
        beyond.stderr.contains("0x100000") && beyond.stderr.contains("Unsupported Request"),
        "{}",
        beyond.stderr
    );
    let read_only = run(43, &["write", "0x20000", "--data", "ff", "--verify"]);
    assert_eq!(read_only.code, 1);
    assert!(read_only.stderr.contains("byte 0x20000 is 0x00 after 0xff was written"), "{}", read_only.stderr);
    let nobody = run(44, &["read", "0", "4", "--bus", "1a:00.0"]);
    assert_eq!(nobody.code, 1);
    assert!(nobody.stderr.contains("127.12.44.1: no program listens there"), "{}", nobody.stderr);
    let nameless = run(44, &["read", "0", "4"]);
    assert_eq!(nameless.code, 1);
    assert!(nameless.stderr.contains("name the Requester ID with --bus"), "{}", nameless.stderr);
}

#[test]
fn cfg_reads_and_writes_registers() {
    let _served = adapter(45, "rw");
    assert_eq!(ok(45, &["cfg", "read", "0"]), "0x80223776\n");
    assert_eq!(ok(45, &["cfg", "read", "2", "--bytes", "2"]), "0x8022\n");
    assert_eq!(ok(45, &["cfg", "read", "0x0b", "--bytes", "1"]), "0xff\n");
    assert_eq!(ok(45, &["cfg", "write", "0x3c", "0x5a", "--bytes", "1"]), "0x5a\n");
    assert_eq!(ok(45, &["cfg", "write", "0", "0", "--port", "old"]), "0x80223776\n");
    let object = json(45, &["cfg", "write", "4", "6", "--bytes", "2"]);
    let values = ["register", "length_bytes", "written", "value"].map(|key| object[key].as_u64().unwrap());
    assert_eq!(values, [4, 2, 6, 6]);
}

#[test]
fn lspci_reads_dump_without_complaint() {
    let _served = adapter(46, "r");
    let dump = ok(46, &["cfg", "dump", "--extended"]);
    assert!(dump.starts_with("1b:00.0 NetTLP adapter\n00: 76 37 22 80 06 "), "{dump}");
    assert_eq!(dump.lines().count(), 1 + 256);
    assert_eq!(json(46, &["cfg", "dump"])["registers"].as_array().unwrap().len(), 64);
    let Some(said) = oracle::lspci(&dump, &["-vvv", "-n"]) else { return };
    for complaint in ["!!!", "access denied", "Unknown header", "<?>"] {
        assert!(!said.contains(complaint), "{complaint}: {said}");
    }
    for line in [
        "1b:00.0 ff00: 3776:8022 (rev 01)",
        "Region 0: Memory at f1000000 (32-bit, non-prefetchable)",
        "Region 4: Memory at f0000000 (64-bit, non-prefetchable)",
        "MSI-X: Enable- Count=16 Masked-",
        "Vector table: BAR=2 offset=00000000",
        "Advanced Error Reporting",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn perf_counts_requested_transfers() {
    let _served = adapter(47, "rw");
    let object = json(47, &["perf", "read", "--count", "500", "--duration", "60", "--outstanding", "8"]);
    for (key, value) in
        [("requests", 500), ("failed", 0), ("bytes", 128_000), ("threads", 1), ("outstanding", 8)]
    {
        assert_eq!(object[key], value, "{key}: {object:#}");
    }
    assert_eq!((&object["scheme"], &object["direction"]), (&"tagged".into(), &"read".into()));
    let latency =
        ["min", "median", "p90", "p99", "p999", "max"].map(|key| object["latency_ns"][key].as_u64().unwrap());
    assert!(latency[0] > 0 && latency.is_sorted(), "{latency:?}");
    let rate = object["requests_per_s"].as_f64().unwrap() * object["elapsed_s"].as_f64().unwrap();
    assert!((rate - 500.0).abs() < 0.01, "{object:#}");
    assert!(object["cpu_ns_per_tlp"].as_f64().unwrap() > 0.0);

    let args = [
        "perf", "read", "--count", "100", "-N", "2", "-R", "diff", "-s", "1M", "-P", "random", "-L", "1500",
        "-t", "60",
    ];
    let object = json(47, &args);
    // 1500 B at MRRS 512: three TLPs, or four if the read crosses 4 KiB.
    let tlps = object["counters"]["read_tlps"].as_u64().unwrap();
    assert!((600..=800).contains(&tlps), "{tlps}");
    assert_eq!((&object["requests"], &object["region_bytes"]), (&200.into(), &(512 << 10).into()));
}

#[test]
fn perf_reports_writes_as_text() {
    let served = adapter(48, "rw");
    let args = ["perf", "write", "-c", "64", "-L", "512", "-P", "fixed", "-a", "0x8000", "-t", "60"];
    let said = ok(48, &args);
    assert!(said.starts_with("write of 512 B, fixed, 1 thread with 256 outstanding"), "{said}");
    assert!(said.contains("64 done, 0 failed"), "{said}");
    assert!(!said.contains("latency"), "{said}");
    // Zeroes at these addresses only.
    let mut found = [0xee; 516];
    ok(48, &["read", "0", "4"]);
    Arc::clone(&served.image).read(0x8000 - 2, &mut found);
    assert_eq!(
        (found[..2].to_vec(), found[514..].to_vec()),
        (vec![byte(0x7ffe), byte(0x7fff)], vec![byte(0x8200), byte(0x8201)])
    );
    assert!(found[2..514].iter().all(|byte| *byte == 0));
}

#[test]
fn perf_reports_failures_with_status_1() {
    let _served = adapter(49, "rw");
    let args = ["perf", "read", "-a", "1M", "-c", "10", "-t", "60", "--json"];
    let outcome = run(49, &args);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("10 requests failed: 10 Unsupported Request"), "{}", outcome.stderr);
    let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&object["requests"], &object["faults"]["unsupported_request"]), (&0.into(), &10.into()));
    assert_eq!(object["latency_ns"], Value::Null, "nothing was answered");
}

/// If the adapter stops, the measurement ends and shows its figures so far.
#[test]
fn perf_reports_results_after_loss_of_adapter() {
    let served = adapter(54, "rw");
    let image = Arc::clone(&served.image);
    let perf =
        std::thread::spawn(|| run(54, &["perf", "write", "-a", "0", "-s", "64k", "-t", "60", "--json"]));
    // perf writes zeroes. The outstanding writes fill the region once, so when it writes the first address again, some
    // writes have been counted.
    for _ in 0..2 {
        Arc::clone(&image).write(1, &[1]).unwrap();
        let mut found = [1];
        while found != [0] {
            Arc::clone(&image).read(1, &mut found);
            std::thread::yield_now();
        }
    }
    served.stop();
    let outcome = perf.join().unwrap();
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("no program listens there"), "{}", outcome.stderr);
    let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(object["requests"].as_u64() > Some(0) && object["elapsed_s"].as_f64() < Some(60.0), "{object}");
}

/// Like [`run`], without `--scheme`.
fn unnamed(test: u8, args: &[&str]) -> common::Outcome {
    let place = [1, 2].map(|host| format!("127.12.{test}.{host}"));
    riser(&[&["nettlp"], args, &["-r", &place[0], "-l", &place[1]]].concat())
}

#[test]
fn uses_session_if_supported() {
    let served = adapter(52, "rw");
    for scheme in [&[][..], &["--scheme", "session"]] {
        let outcome = unnamed(52, &[&["perf", "read", "-c", "300", "-t", "60", "--json"], scheme].concat());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!((&object["scheme"], &object["requests"]), (&"session".into(), &300.into()));
    }
    // Acknowledged data is in memory.
    let outcome = unnamed(52, &["write", "0x40001", "--data", "abcdef", "--json"]);
    let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(object["acknowledged"], true);
    let mut found = [0; 5];
    Arc::clone(&served.image).read(0x4_0000, &mut found);
    assert_eq!(found, [0, 0xab, 0xcd, 0xef, 0]);
    let outcome = unnamed(53, &["read", "0", "4", "--scheme", "session", "--bus", "1a:00.0"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("does not answer on the session port 0x2ffd"), "{}", outcome.stderr);
}

#[test]
fn perf_reports_loopback_ceiling() {
    let _served = adapter(50, "rw");
    let object = json(50, &["perf", "read", "-c", "10", "-t", "60", "--ceiling"]);
    let ceiling = &object["ceiling"];
    assert_eq!(ceiling["datagram_bytes"], 256 + 18);
    assert!(
        ceiling["single_per_s"].as_f64().unwrap() > 0.0 && ceiling["batched_per_s"].as_f64().unwrap() > 0.0
    );
}

/// An adapter that answers only reads below 64 KiB.
struct Partial {
    sockets: Vec<UdpSocket>,
}

impl Partial {
    fn new(test: u8) -> Partial {
        let bind = |tag: u16| UdpSocket::bind((format!("127.63.{test}.1"), 0x3000 + tag)).unwrap();
        let sockets: Vec<UdpSocket> = (0..16).map(bind).collect();
        sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        Partial { sockets }
    }

    /// Serves until this number of reads is unanswered. By then a client with 16 tags has received all answers.
    fn serve_until_unanswered(&self, reads: usize) {
        let (mut unanswered, mut bytes) = (0, [0; 5000]);
        while unanswered < reads {
            for socket in &self.sockets {
                let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
                let tlp = &bytes[6..len];
                let address = u32::from_be_bytes(tlp[8..12].try_into().unwrap());
                let dws = u32::from_be_bytes(tlp[..4].try_into().unwrap()) & 0x3ff;
                match (tlp[0], address) {
                    (0x00, 0..0x1_0000) => {
                        let (count, tag) = ((dws * 4) as u16, tlp[6]);
                        let [high, low] = count.to_be_bytes();
                        let head =
                            [0, 0, 0, 0, 0, 0, 0x4a, 0, 0, dws as u8, 0, 0, high, low, tlp[4], tlp[5], tag];
                        let lower = (address & 0x7f) as u8;
                        let data = vec![0xa5; count.into()];
                        socket.send_to(&[&head[..], &[lower], &data].concat(), from).unwrap();
                    }
                    (0x00, _) => unanswered += 1,
                    _ => {}
                }
            }
            std::thread::yield_now();
        }
    }
}

/// Runs a command against this adapter, and sends Ctrl-C when this number of reads is unanswered. Returns exit status,
/// output and errors.
fn interrupted(test: u8, unanswered: usize, args: &[&str]) -> (Option<i32>, String, String) {
    let adapter = Partial::new(test);
    let places = [1, 2].map(|host| format!("127.63.{test}.{host}"));
    let peer = ["-r", &places[0], "-l", &places[1], "--bus", "01:00.0", "--scheme", "tagged"];
    let rest = ["--timeout-ms", "600000", "--tags", "0-15"];
    let mut command = common::command(&[&["nettlp"], args, &peer, &rest].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    adapter.serve_until_unanswered(unanswered);
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The file has the complete transfers of 64 KiB, and the error tells how many bytes were read.
#[test]
fn ctrl_c_during_read_keeps_complete_transfers() {
    let path = fresh("interrupted");
    let (status, _, says) = interrupted(41, 16, &["read", "0", "256k", "-o", path.to_str().unwrap()]);
    let expected = "riser: 127.63.41.1: interrupted: 65536 of 262144 bytes were read, from 0x0 on\n";
    assert_eq!((status, &*says), (Some(130), expected));
    assert_eq!(std::fs::read(&path).unwrap(), vec![0xa5; 65_536]);
    std::fs::remove_file(path).unwrap();
    let (status, out, says) = interrupted(42, 1, &["read", "0x10000", "4", "--json"]);
    assert!(says.contains("interrupted: 0 of 4 bytes were read"), "{says}");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &object["read_bytes"], &object["length_bytes"]), (Some(130), &0.into(), &4.into()));
}

#[test]
fn ctrl_c_during_write_reports_sent_bytes() {
    let args = ["write", "0x10000", "--data", "0102030405", "--verify", "--json"];
    let (status, out, says) = interrupted(43, 1, &args);
    let expected = "riser: 127.63.43.1: interrupted: 5 of 5 bytes were sent, from 0x10000 on, not all of them read back\n";
    assert_eq!((status, &*says), (Some(130), expected));
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&object["sent_bytes"], &object["verified"]), (&5.into(), &false.into()));
}

/// Runs a command against an adapter on tag 0 that answers every read with Lower Address 0x40.
fn with_wrong_lower_address(test: u8, args: &[&str]) -> (Option<i32>, String, String) {
    let places = [1, 2].map(|host| format!("127.64.{test}.{host}"));
    let adapter = UdpSocket::bind((&places[0][..], 0x3000)).unwrap();
    adapter.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let peer = ["-r", &places[0], "-l", &places[1], "--bus", "01:00.0", "--scheme", "tagged"];
    let rest = ["--timeout-ms", "300", "--retries", "0", "--tags", "0", "--rest", "loopback"];
    let mut command = common::command(&[&["nettlp"], args, &peer, &rest].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut bytes = [0; 64];
    while child.try_wait().unwrap().is_none() {
        let Ok((_, from)) = adapter.recv_from(&mut bytes) else { continue };
        // CplD of 1 DW, Byte Count 4, with Requester ID and tag of the read.
        let mut answer = [0; 6 + 16];
        answer[6..14].copy_from_slice(&[0x4a, 0, 0, 1, 0, 0, 0, 4]);
        answer[14..17].copy_from_slice(&bytes[10..13]);
        answer[17] = 0x40;
        adapter.send_to(&answer, from).unwrap();
        adapter.send_to(&answer[..5], from).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn reports_wrong_lower_address() {
    let why = "nettlp requester: 1 completion refused: Lower Address 0x40, expected 0x0 (PCIe 6.0 §2.2.9.1, rule lower-address); \
               first at ";
    let timed_out = "nettlp requester: 1 request timed out after 300000.000 us (PCIe 5.0 §2.8, rule completion-timeout); first at ";
    let (code, _, said) = with_wrong_lower_address(1, &["read", "0x1000", "4"]);
    assert!(code == Some(1) && said.contains(why) && said.contains(timed_out), "{said}");
    let short =
        "riser: 1 datagram dropped: expected a NetTLP header of 6 bytes and a TLP of up to 4148 bytes\n";
    assert!(said.contains(short), "{said}");
    let perf = ["perf", "read", "-L", "4", "-c", "1", "-t", "60"];
    let (code, shown, _) = with_wrong_lower_address(2, &perf);
    assert!(code == Some(1) && shown.contains(why) && shown.contains(timed_out), "{shown}");
    assert!(shown.contains("1 datagram dropped: "), "{shown}");
    let (code, shown, _) = with_wrong_lower_address(3, &[&perf[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(&shown).unwrap();
    let rule = |n: usize| report["refusals"][n]["rule"].as_str();
    assert_eq!((code, rule(0), rule(1)), (Some(1), Some("lower-address"), Some("completion-timeout")));
}
