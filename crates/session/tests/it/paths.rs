// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast and the general path of the fabric have the same results, byte for byte: reports, transactions and captures of
//! random labs do not depend on the path.

use fabric::Limits;
use lab::{LabFile, parse};
use proptest::prelude::*;
use riser_session::{CaptureOptions, Session};
use serde_json::Value;
use std::io::Cursor;
use std::path::Path;
use tlp::{Duration, Time};

/// Keys of the common link, the host and faults: any subset is legal.
const KEYS: [&str; 10] = [
    "[host]\nprofile = \"xeon-e5-2637v3\"\n",
    "[[fault]]\nslot = \"s0\"\ndirection = \"upstream\"\nframes = \"tlp\"\nnth = 9\nevery = 17\naction = \"drop\"\n",
    "[[fault]]\nslot = \"s0\"\ndirection = \"downstream\"\nframes = \"ack\"\nnth = 3\nevery = 2\naction = \"drop\"\n",
    "[[fault]]\nslot = \"s0\"\ndirection = \"upstream\"\nframes = \"tlp\"\nnth = 5\naction = \"set-tag\"\nnew_tag = 900\n",
    "[[outage]]\nslot = \"s0\"\nat_us = 4\nuntil_us = 7\n",
    "[[link_event]]\nat_us = 3\nslot = \"s0\"\ngen = 2\n",
    "[[fault]]\nslot = \"s0\"\ndirection = \"upstream\"\nframes = \"tlp\"\nnth = 40\naction = \"delay\"\ndelay_ns = 900\n",
    "[[fault]]\nslot = \"s0\"\ndirection = \"upstream\"\nframes = \"tlp\"\nnth = 7\nevery = 11\naction = \"poison\"\n",
    "[[fault]]\nslot = \"s0\"\ndirection = \"upstream\"\nframes = \"tlp\"\nnth = 11\nevery = 23\naction = \"flip-header\"\nheader_dw = 0\nheader_bits = 0x3000\n",
    "[[fault]]\nslot = \"s0\"\ndirection = \"downstream\"\nframes = \"tlp\"\nnth = 6\nevery = 13\naction = \"double\"\n",
];

/// A slot: its device, and whether it is below the switch.
fn slot(n: usize, (device, size, on_switch, carry): (u8, u32, bool, bool)) -> String {
    let parent = if on_switch { "parent = \"switch\"\n" } else { "" };
    let test = ["BW_WR", "BW_RD", "BW_RDWR", "LAT_RD", "LAT_WRRD"].get(usize::from(device));
    let tc = if device == 6 { 1 } else { 0 };
    let table = match test {
        Some(test) => {
            format!(
                "device = \"pcie-bench\"\n{parent}[slot.pcie-bench]\ntest = \"{test}\"\nsize_bytes = {size}\ncarry = {carry}\ntransfers = 200\n"
            )
        }
        // One flow in another Traffic Class, which travels on VC0 unless the link has a second channel.
        None => format!(
            "device = \"traffic\"\n{parent}[[slot.traffic.flow]]\nname = \"w\"\nkind = \"write\"\nsize_bytes = 128\ncount = 200\n\
             [[slot.traffic.flow]]\nname = \"r\"\nkind = \"read\"\nsize_bytes = 256\ncount = 100\ntc = {tc}\nrelaxed_ordering = {carry}\n"
        ),
    };
    format!("[[slot]]\nname = \"s{n}\"\n{table}")
}

prop_compose! {
    fn labs()(
        generation in 1u8..=5,
        lanes in prop::sample::select(vec![1u8, 4, 16]),
        link in prop::sample::select(vec![
            "", "bit_error_rate = 2e-5\n", "propagation_ps = 300_000\n",
            "root_credits = { posted_header = 2, posted_data = 64 }\n",
            "device_credits = { non_posted_header = 1 }\nreplay_buffer_tlps = 2\n",
            "replay_timer = \"rev3\"\npropagation_ps = 200_000\n",
            "flow_control = \"none\"\n",
            "scaled_flow_control = true\n",
            "vc_arbitration = \"round-robin\"\nvc = [{ id = 0 }, { id = 1 }]\n",
        ]),
        keys in prop::sample::subsequence(KEYS.to_vec(), 0..=2),
        slots in prop::collection::vec((0u8..7, prop::sample::select(vec![8u32, 64, 300, 2048]), any::<bool>(), any::<bool>()), 1..4),
        cut_through in any::<bool>(),
        seed in 0u32..1000,
    ) -> String {
        let slots: String = slots.into_iter().enumerate().map(|(n, of)| slot(n, of)).collect();
        let has_switch = slots.contains("parent");
        let mode = if cut_through { "forwarding = \"cut-through\"\n" } else { "" };
        let switch = if has_switch { format!("[[switch]]\nname = \"switch\"\n{mode}") } else { String::new() };
        let link = format!("[link]\ngen = {generation}\nlanes = {lanes}\n{link}");
        format!("version = 1\nseed = {seed}\n{link}{switch}{}{slots}", keys.concat())
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Seen {
    Nothing,
    Transactions,
    Frames,
}

/// Results of a run: the report, the transactions, the capture.
fn run(file: &LabFile, general: bool, seen: Seen) -> (Value, Vec<u8>, Vec<u8>) {
    let mut session = Session::new(file).unwrap_or_else(|e| panic!("{e}"));
    if general {
        session.fabric.take_general_path();
    }
    let log = (seen == Seen::Transactions).then(|| session.log_transactions(Vec::new()));
    let options = CaptureOptions { dllps: true, ..CaptureOptions::default() };
    let frames =
        (seen == Seen::Frames).then(|| session.capture(Cursor::new(Vec::new()), options).expect("a capture"));
    let stop = session.fabric.run(Limits { until: Time::ZERO + Duration::from_us(40), ..Limits::default() });
    let mut report = serde_json::to_value(session.report("lab", &stop, 0.0)).expect("a report");
    // The fast path uses fewer timers.
    for events in ["events", "passed_over"] {
        report.as_object_mut().and_then(|object| object.remove(events));
    }
    let log = log.and_then(|log| log.finish().expect("transactions")).unwrap_or_default();
    let frames = frames.and_then(|frames| frames.finish().expect("frames")).map(Cursor::into_inner);
    (report, log, frames.unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn both_paths_have_the_same_effect(text in labs()) {
        // Two keys are not legal at every generation.
        let lab = parse(&devices::models(), Path::new("lab.toml"), &text);
        prop_assume!(lab.is_ok(), "{:?}", lab.err());
        let Ok(lab) = lab else { unreachable!() };
        let file = LabFile { lab, base: ".".into() };
        let (report, ..) = run(&file, false, Seen::Nothing);
        for seen in [Seen::Nothing, Seen::Transactions, Seen::Frames] {
            let (fast, general) = (run(&file, false, seen), run(&file, true, seen));
            prop_assert_eq!(&fast.0, &general.0, "{:?}\n{}", seen, text);
            prop_assert_eq!(&fast.0, &report, "{:?}\n{}", seen, text);
            prop_assert!(fast.1 == general.1 && fast.2 == general.2, "{:?}\n{}", seen, text);
        }
    }
}
