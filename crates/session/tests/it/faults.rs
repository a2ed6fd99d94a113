// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults and outages of lab files: their effects, and how they are drawn.

use fabric::{Limits, LinkId, PortId, Side, Stop};
use lab::{LabFile, draw, parse};
use riser_session::Session;
use std::path::Path;

fn lab(more: &str) -> LabFile {
    let text = format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{more}");
    let lab = parse(&devices::models(), Path::new("a.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    LabFile { lab, base: "".into() }
}

/// Rows: keys of a fault of the device's frames, and the line of `riser check`.
#[test]
fn reads_and_draws_every_action() {
    let rows = [
        ("frames = \"tlp\"\nnth = 1\naction = \"poison\"", "tlp poisoned, the 1st"),
        ("frames = \"nak\"\nnth = 2\naction = \"drop\"", "nak dropped, the 2nd"),
        ("frames = \"init-fc\"\nnth = 2\naction = \"double\"", "init-fc doubled, the 2nd"),
        (
            "frames = \"tlp\"\nnth = 1\nevery = 1\naction = \"wrong-ecrc\"",
            "tlp given a wrong ECRC, every 1st",
        ),
        (
            "frames = \"completion\"\ntag = 3\nnth = 1\naction = \"set-status\"\nstatus = \"completer-abort\"",
            "completion with tag 3 given another status, the 1st",
        ),
        (
            "frames = \"tlp\"\ntlp_type = \"memory-write\"\nfirst_address = 0x1000\nlast_address = 0x1fff\nnth = 1\naction = \"break-framing\"",
            "tlp of type MemoryWrite to 0x1000..0x1fff broken in its framing, the 1st",
        ),
        (
            "frames = \"tlp\"\nrequester = \"01:00.0\"\nnth = 1\nprobability = 0.5\naction = \"set-requester\"\nnew_requester = \"02:00.0\"",
            "tlp of 01:00.0 given another requester, the 1st, some of them",
        ),
        (
            "frames = \"any\"\nnth = 1\naction = \"cut\"\nrestore_after_us = 5",
            "any frame cuts the link, the 1st",
        ),
        ("frames = \"any\"\nnth = 1\naction = \"delay\"\ndelay_ns = 5", "any frame delayed, the 1st"),
        (
            "frames = \"tlp\"\nnth = 1\naction = \"set-byte-count\"\nbyte_count = 4",
            "tlp given another byte count, the 1st",
        ),
        (
            "frames = \"tlp\"\nnth = 1\naction = \"set-length\"\nlength_dw = 4",
            "tlp given another length, the 1st",
        ),
        ("frames = \"tlp\"\nnth = 1\naction = \"set-tag\"\nnew_tag = 4", "tlp given another tag, the 1st"),
        (
            "frames = \"tlp\"\nnth = 1\naction = \"flip-header\"\nheader_dw = 0\nheader_bits = 0x1f00_0000",
            "tlp altered in its header, the 1st",
        ),
        (
            "frames = \"ack\"\nnth = 1\naction = \"shift-sequence\"\nsequence_ahead = 9",
            "ack given another sequence number, the 1st",
        ),
        (
            "frames = \"update-fc\"\nnth = 1\naction = \"shift-credits\"\ndata_credits = -9",
            "update-fc given other credits, the 1st",
        ),
    ];
    for (keys, line) in rows {
        let file = lab(&format!("[[fault]]\nslot = \"a\"\ndirection = \"upstream\"\n{keys}\n"));
        let drawn = draw(&file.lab);
        let expected = format!("fault on a, upstream: {line}");
        assert_eq!(drawn.lines().last(), Some(expected.as_str()), "{keys}");
    }
}

/// From the 30th on, all completions with data are poisoned on the link.
#[test]
fn a_poisoned_completion_fails_the_driver() {
    let keys =
        "frames = \"tlp\"\ntlp_type = \"completion-with-data\"\nnth = 30\nevery = 1\naction = \"poison\"";
    let file = lab(&format!("[[fault]]\nslot = \"a\"\ndirection = \"upstream\"\n{keys}\n"));
    let mut session = Session::new(&file).unwrap();
    let stop = session.fabric.run(Limits::default());
    assert!(matches!(&stop, Stop::Failed(_)), "{stop:?}");
}

/// Rows: a fault of the device's completions, and the rule, the value found and the legal value in the report.
#[test]
fn report_explains_refused_tlps() {
    let rows = [
        ("action = \"poison\"", "poisoned", "1", "0"),
        (
            "action = \"set-tag\"\nnew_tag = 77",
            "unexpected-completion",
            "00:00.0 tag 0x4d",
            "those of an outstanding request",
        ),
    ];
    for (action, rule, found, expected) in rows {
        let keys =
            format!("frames = \"tlp\"\ntlp_type = \"completion-with-data\"\nnth = 30\nevery = 1\n{action}");
        let file = lab(&format!("[[fault]]\nslot = \"a\"\ndirection = \"upstream\"\n{keys}\n"));
        let mut session = Session::new(&file).unwrap();
        let stop = session.fabric.run(Limits::default());
        let report = session.report("a.toml", &stop, 0.0);
        let json = serde_json::to_value(&report).unwrap();
        let refusal = &json["refusals"][0];
        let text = |key: &str| refusal[key].as_str().unwrap().to_owned();
        assert_eq!([text("rule"), text("found"), text("expected")], [rule, found, expected], "{json}");
        assert_eq!([text("place"), text("tlp")[..5].to_owned()], ["root complex, root port 0", "CplD,"]);
        assert!(refusal["time_ps"].as_u64() > Some(0) && refusal["count"].as_u64() > Some(0), "{refusal}");
        let line = format!(" {}, rule {rule}); first at ", text("section"));
        assert!(report.to_string().contains(&line), "{report}");
    }
    let whole = Session::new(&lab("")).unwrap().report("a.toml", &Stop::Finished, 0.0);
    assert_eq!(serde_json::to_value(&whole).unwrap().get("refusals"), None);
}

/// An outage before any traffic does not change the result, and the ports count how often they were down.
#[test]
fn an_outage_ends() {
    for (outage, downs) in [("", 0), ("[[outage]]\nslot = \"a\"\nat_us = 0\nuntil_us = 3\n", 1)] {
        let mut session = Session::new(&lab(outage)).unwrap();
        let stop = session.fabric.run(Limits::default());
        assert_eq!(stop, Stop::Finished, "{outage}");
        for side in [Side::Root, Side::Device] {
            assert_eq!(session.fabric.port_counters(PortId::new(LinkId(0), side)).link_downs, downs);
        }
    }
}
