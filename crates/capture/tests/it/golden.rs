// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small capture byte by byte, and the output for it.

use crate::common;
use crate::common::{hex, lines, objects, sample};

/// Checked against `tshark` 4.0 (see `tshark.rs`) and the pcapng draft.
const SAMPLE: &str = "
    0a0d0d0a 2c000000 4d3c2b1a 01000000 ffffffffffffffff 04000500 72697365 72000000 00000000 2c000000

    01000000 4c000000 01000000 00000000
    02000e00 6c696e6b303a757073747265616d0000
    03001300 64657669636520746f20726f6f7420706f727400
    09000100 0c000000 00000000 4c000000

    01000000 34000000 01000000 00000000
    02001000 6c696e6b303a646f776e73747265616d
    09000100 0c000000 00000000 34000000

    06000000 5c000000 00000000 00000000 41420f00 3c000000 3c000000
    020000000001 020000000002 0800 4500002e 00004000 401126bd 0a000002 0a000001
    3005 3005 001a 0000 0000 0000009c  00000002 010005ff 00001000
    5c000000

    06000000 64000000 01000000 00000000 62e31600 44000000 44000000
    020000000002 020000000001 0800 45000036 00004000 401126b5 0a000001 0a000002
    3005 3005 0022 0000 0000 000000ea  4a000002 00000008 01000500 0102030405060708
    64000000

    06000000 58000000 00000000 00000000 036a1800 36000000 36000000
    020000000001 020000000002 0800 45000028 00004000 401126c3 0a000002 0a000001
    2ffe 2ffe 0014 0000 0001 000000fa  80084102 226c 0000
    58000000

    06000000 60000000 01000000 d1010000 04204aa9 40000000 40000000
    020000000002 020000000001 0800 45000032 00004000 401126b9 0a000001 0a000002
    4003 4003 001e 0000 0001 12a05f20  40000001 0000130f a0000010 01000000
    60000000

    06000000 60000000 00000000 d1010000 05204aa9 40000000 40010000
    020000000001 020000000002 0800 45000132 00004000 401125b9 0a000002 0a000001
    3006 3006 011e 0000 0002 12a05f20  60000040 010006ff 00000002 00000000
    60000000";

#[test]
fn writes_golden_bytes() {
    let (written, golden) = (sample(), hex(SAMPLE));
    let first = written.iter().zip(&golden).position(|(a, b)| a != b);
    assert_eq!((first, written.len()), (None, golden.len()), "{}", hexdump(&written));
}

fn hexdump(bytes: &[u8]) -> String {
    let words: Vec<String> =
        bytes.chunks(4).map(|w| w.iter().map(|b| format!("{b:02x}")).collect()).collect();
    words.join(" ")
}

#[test]
fn prints_golden_lines() {
    let expected = [
        "0.000001000001 link0:upstream IP 10.0.0.2.12293 > 10.0.0.1.12293: NetTLP: MRd, len 2, requester 01:00.0, \
         tag 0x05, last 0xf, first 0xf, Addr 0x00001000",
        "0.000001500002 link0:downstream IP 10.0.0.1.12293 > 10.0.0.2.12293: NetTLP: CplD, len 2, completer 00:00.0, \
         success, bc 8, requester 01:00.0, tag 0x05, lowaddr 0x00",
        "0.000001600003 link0:upstream IP 10.0.0.2.12286 > 10.0.0.1.12286: DLLP: UpdateFC-P, vc 0, hdr 33, data 258",
        "2.000000000004 link0:downstream IP 10.0.0.1.16387 > 10.0.0.2.16387: NetTLP: MWr, len 1, requester 00:00.0, \
         tag 0x13, last 0x0, first 0xf, Addr 0xa0000010",
        "2.000000000005 link0:upstream IP 10.0.0.2.12294 > 10.0.0.1.12294: NetTLP: MWr, len 64, requester 01:00.0, \
         tag 0x06, last 0xf, first 0xf, Addr 0x200000000",
    ];
    assert_eq!(lines(&sample()), expected);
}

#[test]
fn prints_golden_json() {
    let expected = [
        r#"{"type":"MRd","number":1,"timestamp_ps":1000001,"interface":"link0:upstream","direction":"upstream",
            "source":"10.0.0.2","destination":"10.0.0.1","source_port":12293,"destination_port":12293,
            "nettlp_sequence":0,"nettlp_timestamp":156,"origin":"device","header_bytes":12,
            "tc":0,"attr":0,"at":0,"th":false,"td":false,
            "ep":false,"requester":"01:00.0","tag":5,"address":4096,"length_dw":2,"first_be":15,"last_be":15,
            "request_bytes":8}"#,
        r#"{"type":"CplD","number":2,"timestamp_ps":1500002,"interface":"link0:downstream","direction":"downstream",
            "source":"10.0.0.1","destination":"10.0.0.2","source_port":12293,"destination_port":12293,
            "nettlp_sequence":0,"nettlp_timestamp":234,"origin":"device","header_bytes":12,
            "tc":0,"attr":0,"at":0,"th":false,"td":false,
            "ep":false,"completer":"00:00.0","requester":"01:00.0","tag":5,"status":"SC","bcm":false,"byte_count":8,
            "lower_address":0,"length_dw":2,"payload_bytes":8,"captured_bytes":8}"#,
        r#"{"type":"dllp","number":3,"timestamp_ps":1600003,"interface":"link0:upstream","direction":"upstream",
            "source":"10.0.0.2","destination":"10.0.0.1","source_port":12286,"destination_port":12286,
            "nettlp_sequence":1,"nettlp_timestamp":250,"dllp":"UpdateFC","class":"P","vc":0,"header_credits":33,
            "data_credits":258}"#,
        r#"{"type":"MWr","number":4,"timestamp_ps":2000000000004,"interface":"link0:downstream",
            "direction":"downstream","source":"10.0.0.1","destination":"10.0.0.2","source_port":16387,
            "destination_port":16387,"nettlp_sequence":1,"nettlp_timestamp":312500000,"origin":"host","header_bytes":12,
            "tc":0,"attr":0,
            "at":0,"th":false,"td":false,"ep":false,"requester":"00:00.0","tag":19,"address":2684354576,"length_dw":1,
            "first_be":15,"last_be":0,"request_bytes":4,"payload_bytes":4,"captured_bytes":4}"#,
        r#"{"type":"MWr","number":5,"timestamp_ps":2000000000005,"interface":"link0:upstream","direction":"upstream",
            "source":"10.0.0.2","destination":"10.0.0.1","source_port":12294,"destination_port":12294,
            "nettlp_sequence":2,"nettlp_timestamp":312500000,"origin":"device","header_bytes":16,
            "tc":0,"attr":0,"at":0,"th":false,
            "td":false,"ep":false,"requester":"01:00.0","tag":6,"address":8589934592,"length_dw":64,"first_be":15,
            "last_be":15,"request_bytes":256,"payload_bytes":256,"captured_bytes":0}"#,
    ];
    let expected: Vec<serde_json::Value> =
        expected.iter().map(|o| serde_json::from_str(o).unwrap()).collect();
    assert_eq!(objects(&sample()), expected);
}

#[test]
fn prints_golden_report() {
    let report = common::report(common::reader(&sample()));
    let expected = "\
5 frames, 310 bytes captured, over 1999999000.004 ns
4 TLPs with 268 bytes of data, 12 of them captured
  CplD                             1
  MRd                              1
  MWr                              2
  UpdateFC                         1
read sizes
  8 B                              1
write sizes
  4 B                              1
  256 B                            1
completion sizes
  8 B                              1
requester  link      requests   completions  outstanding  tags
  00:00.0     0             1             0            0  -
  01:00.0     0             2             1            1  5
transactions
  posted                           2
  non-posted                       1
  completed                        1
records with errors                0
";
    assert_eq!(report.to_string(), expected);
    let json = serde_json::to_value(report).unwrap();
    assert_eq!(json["requesters"][1]["max_outstanding"], 1);
    assert_eq!(json["read_sizes"][0], serde_json::json!({"bytes": 8, "count": 1}));
    assert_eq!(json["duration_ps"], 1_999_999_000_004u64);
}
