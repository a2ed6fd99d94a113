// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of faults and outages of lab files.

use fabric::{Limits, LinkId, PortId, Side, Stop};
use lab::{LabFile, parse};
use riser_session::Session;
use std::path::Path;

fn lab(more: &str) -> LabFile {
    let text = format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{more}");
    let lab = parse(&devices::models(), Path::new("a.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    LabFile { lab, base: "".into() }
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
