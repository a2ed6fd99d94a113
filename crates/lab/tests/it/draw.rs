// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs in the form in which `riser check` draws them, in the words of the lab file.

use riser_lab::{draw, parse};
use std::path::Path;

fn lines(more: &str) -> Vec<String> {
    let text = format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n{more}");
    let lab =
        parse(&devices::models(), Path::new("lab.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    draw(&lab).lines().skip(2).map(|line| line.trim().to_owned()).collect()
}

/// Rows: keys, and the lines after the slot's line.
#[test]
fn draws_settings_of_single_links() {
    let rows: [(&str, &[&str]); 10] = [
        ("", &[]),
        ("[link]\nreplay_timer = \"rev3\"\n", &[]),
        (
            "[link]\nflow_control = \"none\"\nport_buffer_tlps = 4\n",
            &["flow control none: buffers of 4 TLPs"],
        ),
        ("[link]\nscaled_flow_control = true\n", &["flow control scaled"]),
        ("[[link.vc]]\nid = 1\n", &["VC0 TC0+2-7, VC1 TC1; strict"]),
        (
            "[[link.vc]]\nid = 2\ntcs = [5, 6, 7]\n[[link.vc]]\nid = 0\ntcs = [0]\n",
            &["VC0 TC0, VC2 TC5-7; strict"],
        ),
        (
            "[link]\nvc_arbitration = \"round-robin\"\nvc = [{ id = 1 }]\n",
            &["VC0 TC0+2-7, VC1 TC1; round-robin"],
        ),
        (
            "[link]\nvc_arbitration = \"weighted\"\nlow_priority_vc = 1\n\
             vc = [{ id = 0, phases = 30 }, { id = 1, phases = 2 }, { id = 6 }]\n",
            &["VC0 TC0+2-5+7 30 phases, VC1 TC1 2 phases, VC6 TC6; weighted up to VC1, higher ones first"],
        ),
        (
            "[[link_event]]\nat_us = 40\nslot = \"a\"\nlanes = 4\n[[link_event]]\nat_us = 50\nslot = \"a\"\ngen = 1\nlanes = 1\n\
             [[link_event]]\nat_us = 60\nslot = \"a\"\n",
            &[
                "link event at 40 us, a: x4",
                "link event at 50 us, a: Gen1 x1",
                "link event at 60 us, a: initial speed",
            ],
        ),
        ("[link]\nlanes = 4\nmps_bytes = 128\n", &[]),
    ];
    for (keys, drawn) in rows {
        assert_eq!(lines(keys), drawn, "{keys}");
    }
}

/// Rows: frames, first, then every, action, and the line.
#[test]
fn describes_faults() {
    let rows = [
        ("any", 50, 50, "corrupt", "fault on a, upstream: any frame corrupted, every 50th"),
        ("tlp", 1, 0, "drop", "fault on a, upstream: tlp dropped, the 1st"),
        ("non-posted", 2, 23, "drop", "fault on a, upstream: non-posted dropped, the 2nd, then every 23rd"),
        (
            "update-fc",
            11,
            112,
            "corrupt",
            "fault on a, upstream: update-fc corrupted, the 11th, then every 112th",
        ),
    ];
    for (frames, nth, every, action, line) in rows {
        let fault = format!(
            "[[fault]]\nslot = \"a\"\ndirection = \"upstream\"\nframes = \"{frames}\"\nnth = {nth}\nevery = {every}\naction = \"{action}\"\n"
        );
        assert_eq!(lines(&fault), [line]);
    }
}
