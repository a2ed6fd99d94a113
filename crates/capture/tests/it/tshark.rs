// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stock `tshark` reads captures that riser wrote. Without `tshark`, the test is skipped and reports this.

use crate::common;
use std::process::Command;

#[test]
fn tshark_reads_written_capture() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let path = std::env::temp_dir().join(format!("riser-capture-{}.pcapng", std::process::id()));
    std::fs::write(&path, common::sample()).unwrap();
    let fields = [
        "frame.interface_name",
        "frame.time_epoch",
        "udp.port",
        "ip.src",
        "ip.dst",
        "frame.len",
        "frame.cap_len",
        "ip.checksum.status",
        "udp.checksum.status",
        "_ws.malformed",
        "udp.payload",
    ];
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.arg("-r").arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // Picoseconds printed as nanoseconds; IPv4 checksum good (1), UDP checksum not present (3).
    let up = "10.0.0.2\t10.0.0.1";
    let down = "10.0.0.1\t10.0.0.2";
    let expected = [
        format!(
            "link0:upstream\t0.000001000\t12293,12293\t{up}\t60\t60\t1\t3\t\t00000000009c00000002010005ff00001000"
        ),
        format!(
            "link0:downstream\t0.000001500\t12293,12293\t{down}\t68\t68\t1\t3\t\t\
             0000000000ea4a00000200000008010005000102030405060708"
        ),
        format!("link0:upstream\t0.000001600\t12286,12286\t{up}\t54\t54\t1\t3\t\t0001000000fa80084102226c"),
        format!(
            "link0:downstream\t2.000000000\t16387,16387\t{down}\t64\t64\t1\t3\t\t\
             000112a05f20400000010000130fa000001001000000"
        ),
        format!(
            "link0:upstream\t2.000000000\t12294,12294\t{up}\t320\t64\t1\t3\t\t000212a05f2060000040010006ff0000000200000000"
        ),
    ];
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\t')).collect();
    assert_eq!(lines, expected);
}
