// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared parts of the hot-plug tests: labs with a steady slot, and the report of a run.
use fabric::{Limits, Stop};
use lab::{LabFile, parse};
use riser_session::Session;
use std::path::Path;
use tlp::{Duration, Time};

/// A slot with a benchmark device. Every lab has a steady one, on its own root port.
const STEADY: &str = "
[[slot]]
name = \"steady\"
device = \"pcie-bench\"
slot_keys
[slot.pcie-bench]
test = \"BW_RDWR\"
size_bytes = 256
transfers = 3000
";

pub(crate) fn file(slots: &str, outages: &str) -> LabFile {
    let steady = STEADY.replace("slot_keys\n", "");
    let text = format!("version = 1\n[link]\ngen = 3\nlanes = 8\n{steady}{slots}{outages}");
    let lab =
        parse(&devices::models(), Path::new("hotplug.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    LabFile { lab, base: "".into() }
}

/// Runs to the end, successful or not.
pub(crate) fn end(file: &LabFile) -> (Session, Stop) {
    let mut session = Session::new(file).unwrap_or_else(|e| panic!("{e}"));
    let until = Time::ZERO + Duration::from_ms(2_000);
    let stop = session.fabric.run(Limits { until, ..Limits::default() });
    let totals = session.fabric.account_totals();
    assert_eq!(totals.opened, totals.closed + totals.dropped + totals.open, "{totals:?}");
    assert_eq!(totals.given_up, 0, "{totals:?}");
    (session, stop)
}

/// Runs to a successful end. Every transaction is accounted for.
pub(crate) fn run(file: &LabFile) -> Session {
    let (session, stop) = end(file);
    assert_eq!(stop, Stop::Finished, "{}", lines(&session).join("\n"));
    session
}

/// The events of the card's slot, without their times.
pub(crate) fn lines(session: &Session) -> Vec<String> {
    session.hot_plug_events().into_iter().map(|e| format!("{}: {}", e.slot, e.what)).collect()
}

/// Time of the line with these words.
pub(crate) fn at_us(session: &Session, words: &str) -> u64 {
    let event = session.hot_plug_events().into_iter().find(|e| e.what.contains(words));
    event.unwrap_or_else(|| panic!("no line with {words}: {:#?}", lines(session))).at.as_ps() / 1_000_000
}

/// Traffic of the steady slot's link, and latencies of its transactions.
pub(crate) fn steady(session: &Session) -> String {
    let report = session.report("", &Stop::Finished, 0.0);
    let link = serde_json::to_value(&report.links[0]).unwrap();
    let device = serde_json::to_value(&report.devices[0]).unwrap();
    let directions = link["directions"].as_array().unwrap().iter();
    let counts: Vec<String> =
        directions.map(|d| format!("{} {} {}", d["direction"], d["tlps"], d["payload_bytes"])).collect();
    format!("{counts:?}\n{}\n{device}", link["transactions"])
}

/// Transfers of 128 B, the Max_Payload_Size if any card may be inserted below a switch.
pub(crate) const TRAFFIC: &str = "
[[slot.traffic.flow]]
name = \"w\"
kind = \"write\"
size_bytes = 128
interval_ps = 0
count = 20000
[[slot.traffic.flow]]
name = \"r\"
kind = \"read\"
size_bytes = 128
interval_ps = 0
count = 20000
outstanding = 32
";
