// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of the link keys: virtual channels, flow control, timers, and changes while a lab runs.

use fabric::{Limits, Stop};
use lab::{LabFile, links, parse};
use riser_session::Session;
use riser_session::report::SessionReport;
use std::path::Path;
use tlp::Vc;

fn file(keys: &str) -> LabFile {
    let text = format!(
        "version = 1\n{keys}\n[[slot]]\nname = \"card\"\ndevice = \"pcie-bench\"\n[slot.pcie-bench]\ntest = \"BW_WR\"\n\
         size_bytes = 256\ntransfers = 2000\nwarm_up = 0\n"
    );
    let lab = parse(&devices::models(), Path::new("lab.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    LabFile { lab, base: "".into() }
}

fn run(keys: &str) -> SessionReport {
    let mut session = Session::new(&file(keys)).unwrap();
    let stop = session.fabric.run(Limits::default());
    assert_eq!(stop, Stop::Finished, "{keys}");
    let report = session.report("lab", &stop, 0.0);
    for direction in &report.links[0].directions {
        let parts = direction.payload_bytes
            + direction.header_bytes
            + direction.digest_bytes
            + direction.framing_bytes
            + direction.replay_bytes
            + direction.dllp_bytes
            + direction.skp_bytes;
        assert_eq!(parts, direction.wire_bytes, "{keys}");
        assert_eq!(direction.virtual_channels.iter().map(|vc| vc.tlps).sum::<u64>(), direction.tlps);
    }
    report
}

/// Rows: keys, and channels with their classes, the last of the low-priority group, and phases.
#[test]
fn channels_follow_the_tables_of_the_lab() {
    type Row = (&'static str, &'static [(u8, u8)], u8, usize);
    let rows: [Row; 4] = [
        ("", &[(0, 0xff)], 0, 0),
        (
            "[link]\nvc_arbitration = \"round-robin\"\n[[link.vc]]\nid = 1\n[[link.vc]]\nid = 7\ntcs = [5, 7]",
            &[(0, 0x5d), (1, 2), (7, 0xa0)],
            7,
            0,
        ),
        ("[[link.vc]]\nid = 0\ntcs = [0]\n[[link.vc]]\nid = 2\ntcs = [2, 3]", &[(0, 1), (2, 0x0c)], 0, 0),
        (
            "[link]\nvc_arbitration = \"weighted\"\nlow_priority_vc = 1\n[[link.vc]]\nid = 0\nphases = 30\n[[link.vc]]\nid = 1\nphases = 2\n[[link.vc]]\nid = 6",
            &[(0, 0xbd), (1, 2), (6, 0x40)],
            1,
            32,
        ),
    ];
    for (keys, channels, low, phases) in rows {
        let lab = file(keys).lab;
        let port = links::config(&lab.link, &lab.slot[0].link).device;
        let found: Vec<(u8, u8)> =
            port.tc_vc.channels().map(|vc| (vc.id(), port.tc_vc.classes(vc).bits())).collect();
        assert_eq!(found, channels, "{keys}");
        assert_eq!(port.arbitration.low_priority, Vc::from_bits(low), "{keys}");
        let table = match &port.arbitration.scheme {
            link::VcScheme::RoundRobin => 0,
            link::VcScheme::Weighted(table) => table.phases().len(),
        };
        assert_eq!(table, phases, "{keys}");
    }
}

/// Each end's credits of a channel: its own keys override the link's.
#[test]
fn channel_credits_override_link_credits() {
    let keys = "[link]\nroot_credits = { posted_header = 20 }\n[[link.vc]]\nid = 3\nroot_credits = { posted_data = 64 }\n\
                [[link.vc]]\nid = 4";
    let lab = file(keys).lab;
    let link = links::config(&lab.link, &lab.slot[0].link);
    let posted = |port: &link::PortConfig, vc| port.buffer(Vc::from_bits(vc))[0];
    assert_eq!(posted(&link.root, 0), link::CreditLimit::finite(20, 2047));
    assert_eq!(posted(&link.root, 3), link::CreditLimit::finite(20, 64));
    assert_eq!(posted(&link.root, 4), link::CreditLimit::finite(20, 2047));
    assert_eq!(posted(&link.device, 3), link::CreditLimit::finite(127, 2047));
}

/// The same writes arrive with every kind of flow control, and the report names each.
#[test]
fn same_writes_arrive_with_each_kind_of_flow_control() {
    let plain = run("");
    let of = |report: &SessionReport| {
        let up = report.links[0].directions[1].clone();
        (up.payload_bytes, up.full_buffer_drops, up.replays, up.link_changes)
    };
    let bytes = of(&plain).0;
    assert_eq!(of(&plain), (bytes, 0, 0, 0));
    // Enumeration also reads the header of the Virtual Channel capability.
    assert_eq!(of(&run("[[link.vc]]\nid = 1\n[[link.vc]]\nid = 2")), (bytes + 4, 0, 0, 0));
    assert_eq!(
        of(&run(
            "[link]\nscaled_flow_control = true\nroot_credits = { posted_header = 2000, posted_data = 32000 }"
        )),
        (bytes, 0, 0, 0)
    );
    let none = of(&run("[link]\nflow_control = \"none\"\nport_buffer_tlps = 1000"));
    assert_eq!(none, (bytes, 0, 0, 0), "the ideal host takes all at once");
}

/// Half the lanes from 10 us on. The run is slower than with all lanes, and faster than with half the lanes throughout.
/// The change is counted once for each end.
#[test]
fn a_link_event_changes_the_link() {
    let whole = run("[link]\nlanes = 8").simulated_ns;
    let half = run("[link]\nlanes = 4").simulated_ns;
    let keys = "[link]\nlanes = 8\nretrain_ns = 1000\n[[link_event]]\nslot = \"card\"\nat_us = 40\nlanes = 4";
    let changed = run(keys);
    assert!(
        whole < changed.simulated_ns && changed.simulated_ns < half,
        "{whole} {half} {}",
        changed.simulated_ns
    );
    assert!(changed.links[0].directions.iter().all(|direction| direction.link_changes == 1));
}

/// Error counts have the names of the JSON object; zero counts are omitted.
#[test]
fn report_lists_nonzero_error_counts() {
    let mut report = run("");
    assert!(report.root_errors().is_empty());
    assert!(report.links[0].directions.iter().all(|direction| direction.errors().is_empty()));
    let root = &mut report.root_complex;
    (root.malformed, root.completion_timeouts, root.unexpected_completions) = (1, 2, 3);
    assert_eq!(
        report.root_errors(),
        [("malformed", 1), ("unexpected_completions", 3), ("completion_timeouts", 2)]
    );
    let up = &mut report.links[0].directions[1];
    (up.full_buffer_drops, up.receiver_overflows) = (4, 5);
    (up.data_link_protocol_errors, up.undetected_errors, up.damaged_frames) = (6, 7, 8);
    (up.malformed_tlps, up.flow_control_protocol_errors) = (9, 10);
    let errors = up.errors();
    assert_eq!(
        errors,
        [
            ("full_buffer_drops", 4),
            ("receiver_overflows", 5),
            ("data_link_protocol_errors", 6),
            ("undetected_errors", 7),
            ("malformed_tlps", 9),
            ("flow_control_protocol_errors", 10)
        ]
    );
    let json = serde_json::to_value(&report).unwrap();
    for (name, count) in errors {
        assert_eq!(json["links"][0]["directions"][1][name], count, "{name}");
    }
    for (name, count) in report.root_errors() {
        assert_eq!(json["root_complex"][name], count, "{name}");
    }
}

/// Rows: keys, and the two times of the warning in nanoseconds. On a link without credits, REPLAY_TIMER is three times the Ack latency.
#[test]
fn warns_of_replay_timer_below_round_trip() {
    // Gen2 x8 and 256 B: the Ack latency limit is 158 symbols of 2 ns; an Ack is one symbol on each lane.
    let gen2 = "[link]\ngen = 2\nlanes = 8";
    let rows = [
        (String::new(), None),
        ("[link]\npropagation_ps = 1_000_000".to_owned(), None),
        (format!("{gen2}\nreplay_timer = \"rev3\"\npropagation_ps = 315_000"), None),
        (format!("{gen2}\nreplay_timer = \"rev3\"\npropagation_ps = 316_000"), Some((948, 950))),
        (format!("{gen2}\nack_latency_symbols = 23_999\npropagation_ps = 1_000"), Some((48_000, 48_002))),
        (
            format!("{gen2}\nflow_control = \"none\"\nack_latency_symbols = 100\npropagation_ps = 199_000"),
            None,
        ),
        (
            format!("{gen2}\nflow_control = \"none\"\nack_latency_symbols = 100\npropagation_ps = 200_000"),
            Some((600, 602)),
        ),
    ];
    for (keys, expected) in rows {
        let session = Session::new(&file(&keys)).unwrap();
        let expected = expected.map(|(timer, trip)| {
            format!(
                "link of `card`: REPLAY_TIMER of {timer}.000 ns is shorter than the round trip of {trip}.000 ns (both ways, \
                 Ack latency limit and Ack): received TLPs are replayed (PCIe 5.0 §3.6.2.1)"
            )
        });
        assert_eq!(session.warnings(), Vec::from_iter(expected), "{keys}");
    }
}
