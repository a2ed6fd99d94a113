// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual channels in a lab: the shares of a link that flows on different channels get.

use fabric::{Limits, Stop};
use lab::{LabFile, parse};
use riser_session::{Session, SessionReport};
use std::path::Path;

fn run(text: &str) -> SessionReport {
    let lab = parse(&devices::models(), Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}"));
    let mut session = Session::new(&LabFile { lab, base: ".".into() }).unwrap();
    let stop = session.fabric.run(Limits::default());
    assert_eq!(stop, Stop::Finished);
    session.report("lab.toml", &stop, 0.0)
}

fn value(report: &SessionReport, slot: &str, key: &str) -> f64 {
    let device = report.devices.iter().find(|d| d.slot == slot).expect("the slot");
    device.counters.get(key).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("no {key}"))
}

/// The shipped lab: a half and two quarters within 1 %, and an urgent flow that waits for at most one write of its link
/// (256 B plus 24 B on Gen3 x8: 35.5 ns). On a single channel it waits for a queue of writes.
#[test]
fn shares_follow_weights_and_urgent_reads_go_first() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/vcs.toml");
    let report = run(&std::fs::read_to_string(file).unwrap());
    for (flow, share) in [("half", 0.5), ("quarter-a", 0.25), ("quarter-b", 0.25)] {
        let got = value(&report, "weighted", &format!("{flow}.share"));
        assert!((got / share - 1.0).abs() < 0.01, "{flow}: {got} instead of {share}");
    }
    let of = |slot, what: &str| value(&report, slot, &format!("urgent.latency_ns_{what}"));
    assert!(of("strict", "max") - of("strict", "min") < 2.0 * 36.0, "one write each way at most");
    assert!(of("shared", "median") > of("strict", "max") + 100.0, "{} ns", of("shared", "median"));
}

/// The wait of a strict-priority channel does not grow with the load of lower channels.
#[test]
fn lower_channel_load_does_not_affect_latency() {
    let lab = |interval_ps: u32| {
        format!(
            "version = 1\n[[slot]]\nname = \"a\"\ndevice = \"traffic\"\n[slot.link]\nvc_arbitration = \"strict\"\n\
             vc = [{{ id = 0 }}, {{ id = 1 }}]\n\
             [[slot.traffic.flow]]\nname = \"low\"\nkind = \"write\"\ncount = 6000\ninterval_ps = {interval_ps}\n\
             [[slot.traffic.flow]]\nname = \"urgent\"\nkind = \"read\"\ntc = 1\nsize_bytes = 64\n\
             interval_ps = 500000\noutstanding = 1\ncount = 300\n"
        )
    };
    // Idle except for one write in 2 us; half of the link; all of the link.
    let max =
        [2_000_000, 72_000, 0].map(|interval| value(&run(&lab(interval)), "a", "urgent.latency_ns_max"));
    assert!(max.iter().all(|m| m - max[0] < 36.0), "{max:?}");
}

/// A whole number of requests of each kind ends, on separate channels or on one.
#[test]
fn flows_of_every_kind_end() {
    let flow = |name: &str, kind: &str, size: u32, tc: u8| {
        format!(
            "[[slot.traffic.flow]]\nname = \"{name}\"\nkind = \"{kind}\"\nsize_bytes = {size}\ntc = {tc}\ncount = 500\n"
        )
    };
    let flows = [
        flow("r", "read", 512, 0),
        flow("w", "write", 100, 3),
        flow("a", "atomic", 8, 5),
        flow("m", "message", 16, 7),
    ];
    for link in ["", "[slot.link]\nvc = [{ id = 0 }, { id = 3 }, { id = 5 }, { id = 7 }]\n"] {
        let text =
            format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"traffic\"\n{link}{}", flows.concat());
        let report = run(&text);
        for flow in ["r", "w", "a", "m"] {
            assert_eq!(value(&report, "a", &format!("{flow}.requests")), 500.0);
        }
        let root = report.root_complex;
        assert_eq!(
            (root.memory_reads, root.memory_writes, root.atomics, root.vendor_messages),
            (500, 500, 500, 500)
        );
        assert_eq!((root.unsupported_requests, root.malformed), (0, 0));
    }
}
