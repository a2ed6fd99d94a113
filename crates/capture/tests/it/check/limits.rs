// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that depend on settings: Max_Payload_Size, Max_Read_Request_Size, the number of tags.

use super::{judge, rules, trace};
use riser_capture::check::{Checker, FunctionOverrides};
use tlp::RuleId::{CompletionTimeout, Credits, LowerAddress, TcMapped, UnclaimedAddress};

fn zeros(dws: usize) -> String {
    " 00000000".repeat(dws)
}

#[test]
fn checks_sizes_and_tags_by_given_settings() {
    let write = |dw: usize| format!("up 400000{dw:02x} 010000ff 00002000{}", zeros(dw));
    let rows = [
        (format!("# mps=128\n{}", write(32)), vec![]),
        (format!("# mps=128\n{}", write(33)), vec![(1, "max-payload-size")]),
        (
            "# mps=256\nup 00000041 010004ff 00002000\ndown 4a000041 00000104 01000400".to_owned(),
            vec![(2, "max-payload-size")],
        ),
        ("# mrrs=512\nup 00000080 010004ff 00002000".to_owned(), vec![]),
        ("# mrrs=512\nup 00000081 010004ff 00002000".to_owned(), vec![(1, "max-read-request-size")]),
        ("# mrrs=4096\nup 00000000 010004ff 00002000".to_owned(), vec![]),
        ("# mrrs=2048\nup 00000000 010004ff 00002000".to_owned(), vec![(1, "max-read-request-size")]),
        ("# tags=32\nup 00000001 01001f0f 00002000".to_owned(), vec![]),
        ("# tags=32\nup 00000001 0100200f 00002000".to_owned(), vec![(1, "tag-range")]),
        ("# tags=256\nup 00000001 0100ff0f 00002000".to_owned(), vec![]),
        ("# tags=256\nup 00080001 0100000f 00002000".to_owned(), vec![(1, "tag-range")]),
        ("# tags=1024\nup 00880001 0100ff0f 00002000".to_owned(), vec![]),
        // The tag of a posted request is not used.
        ("# tags=32\nup 40000001 0100400f 00002000 00000000".to_owned(), vec![]),
        // Without settings, no TLP breaks these rules.
        ("up 00000000 010040ff 00002000".to_owned(), vec![]),
    ];
    for (text, due) in rows {
        assert_eq!(rules(&text), due, "{text}");
    }
}

/// The host configures 01:00.0: its header, the PCI Express capability at 0x40, then Device Control with Max_Payload_Size
/// 128, Max_Read_Request_Size 256 and tags of 5 bits (`PCIe 5.0 §7.5.3.4`).
const CONFIGURED: &str = "\
    down 04000001 0000000f 01000000\nup 4a000001 01000004 00000000 36121111\n\
    down 04000001 0000000f 0100000c\nup 4a000001 01000004 00000000 00000000\n\
    down 04000001 0000000f 01000034\nup 4a000001 01000004 00000000 40000000\n\
    down 04000001 0000000f 01000040\nup 4a000001 01000004 00000000 10000200\n\
    down 44000001 00000003 01000048 00100000\nup 0a000000 01000004 00000000\n";

#[test]
fn checks_sizes_and_tags_by_configuration_writes() {
    let text = format!(
        "{CONFIGURED}up 00000040 01001fff 00002000\nup 00000041 01001eff 00003000\nup 00000001 0100200f 00002000\n\
         up 40000020 010000ff 00002000{}\nup 40000021 010000ff 00002000{}\nup 40000021 020000ff 00002000{}",
        zeros(32),
        zeros(33),
        zeros(33)
    );
    assert_eq!(rules(&text), [(12, "max-read-request-size"), (13, "tag-range"), (15, "max-payload-size")]);
    let (findings, summary) = judge(&trace(&text));
    assert_eq!(findings[0].applied.unwrap().to_string(), "Max_Read_Request_Size 256 bytes (capture)");
    let summary = summary.to_string();
    for line in [
        "Max_Payload_Size 128 bytes (capture), of 1 function",
        "Max_Payload_Size 256 bytes (inferred): not checked; the smallest value that fits the trace",
        "32 tags (capture), of 1 function",
        "32 tags (inferred): not checked; the smallest value that fits the trace",
    ] {
        assert!(summary.contains(line), "{summary}");
    }
}

/// A trace without DLLPs and times shows neither credits nor timeouts, and no trace shows the state of a component.
#[test]
fn lists_rules_that_trace_cannot_show() {
    let mut checker = Checker::new(FunctionOverrides::default());
    assert!(!checker.summary().to_string().contains("cannot be judged"));
    checker.only(&[UnclaimedAddress, TcMapped, LowerAddress, Credits, CompletionTimeout]);
    let due = ["tc-mapped", "completion-timeout", "credits", "unclaimed-address"];
    assert_eq!(checker.summary().cannot_be_judged, due);
    let text = checker.summary().to_string();
    assert!(text.ends_with(&format!("\ncannot be judged here: {}", due.join(", "))), "{text}");
}
