// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every lab ends, with any sizes of buffers, credits and timers. `RISER_LABS=n` runs n random labs instead of a few.

use fabric::{HostProfile, Limits, Stop};
use lab::{BuildOptions, LabFile, parse};
use proptest::prelude::*;
use riser_session::Session;
use riser_session::transactions::transactions;
use std::path::Path;
use tlp::{Duration, Time};

/// Many more events than the longest of these labs takes.
const MAX_EVENTS: u64 = 20_000_000;

/// Starts a lab with a host whose memory takes `memory_ns` for a write and for a read.
fn start(text: &str, memory_ns: u64) -> Session {
    let lab =
        parse(&devices::models(), Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let latency = Duration::from_ns(memory_ns);
    let host = HostProfile {
        root_complex_latency: Duration::from_ns(150),
        memory_write_latency: latency,
        memory_read_latency: latency,
        ..HostProfile::ideal()
    };
    let options = BuildOptions { host: Some(host), ..BuildOptions::default() };
    Session::with(&LabFile { lab, base: "".into() }, options).unwrap()
}

fn run_events(session: &mut Session, events: u64) -> Stop {
    let until = Time::ZERO + Duration::from_ms(1_000);
    session.fabric.run(Limits { until, events, ..Limits::default() })
}

/// Runs a lab to its end.
fn run(text: &str, memory_ns: u64) -> Stop {
    run_events(&mut start(text, memory_ns), MAX_EVENTS)
}

/// Returns the number of transactions that have ended, without messages.
fn ended_transactions(session: &Session) -> u64 {
    let links = 0..session.tapped_links().len() as u32;
    let ended = links.flat_map(|n| transactions(&session.fabric, n, session.host_basis()));
    ended.filter(|t| t.kind != "dma_message").map(|t| t.requests).sum()
}

/// Runs a lab. A slow lab, for example with a REPLAY_TIMER shorter than the round trip, need not end. It is sufficient
/// that transactions still end in the second half of the events.
fn ends_or_goes_on(text: &str, memory_ns: u64) -> Result<(), String> {
    let mut session = start(text, memory_ns);
    let mut ended = 0;
    for _ in 0..2 {
        match run_events(&mut session, MAX_EVENTS / 2) {
            Stop::Finished => return Ok(()),
            // In a lab with this warning, the host's reads may time out among messages.
            Stop::Failed(_) if !session.warnings().is_empty() => return Ok(()),
            Stop::Paused if ended_transactions(&session) > ended => ended = ended_transactions(&session),
            stop => {
                return Err(format!("{stop} after {}, {ended} transactions\n{text}", session.fabric.now()));
            }
        }
    }
    Ok(())
}

/// Links as in gem5 drop TLPs without room. The disk's error messages about this find no room either. The disk waits
/// for room, and does not retry endlessly at the same instant.
#[test]
fn disk_continues_without_room_for_error_message() {
    for replay_buffer in [2, 3, 4] {
        let text = format!(
            "version = 1\n[link]\ngen = 2\nlanes = 8\nmps_bytes = 128\npropagation_ps = 0\nflow_control = 'none'\n\
             port_buffer_tlps = 16\nreplay_buffer_tlps = {replay_buffer}\nack_latency_symbols = 46\n\
             [[switch]]\nname = 'switch'\nlatency_ns = 150\nforwarding = 'store-and-forward'\nkeep_places = true\n\
             [[slot]]\nname = 'disk'\ndevice = 'disk'\nparent = 'switch'\n\
             [slot.disk]\nsectors = 200\nwrites = 'non-posted'\naccess_latency_ns = 1000\nrequest_bytes = 128\n"
        );
        assert_eq!(run(&text, 263), Stop::Finished, "replay buffer of {replay_buffer}");
    }
}

/// A REPLAY_TIMER that is shorter than the round trip: each TLP of an endpoint times out once, and causes an error message,
/// which also times out. DMA and completions still make progress.
#[test]
fn error_messages_that_cause_errors_do_not_stop_dma() {
    let text = "version = 1\n[link]\ngen = 3\nlanes = 8\nmps_bytes = 128\nreplay_timer = 'rev3'\npropagation_ps = 500_000\n\
                replay_buffer_tlps = 1\n[[slot]]\nname = 'card'\ndevice = 'pcie-bench'\n[slot.pcie-bench]\n\
                test = 'BW_RDWR'\nsize_bytes = 300\ntransfers = 200\nwarm_up = 0\n";
    assert_eq!(run(text, 100), Stop::Finished);
}

/// REPLAY_TIMER is 6 ns and the round trip 8 ns, so each TLP of the disks is an error and causes a message. The link
/// above them passes one TLP per 36 us. A configuration read takes 1.6 ms, and enumeration still continues.
#[test]
fn enumeration_continues_among_replay_errors() {
    let disk = "device = 'disk'\nparent = 'switch'\n[slot.disk]\nsectors = 4\nwrites = 'non-posted'\nrequest_bytes = 128\n";
    let text = format!(
        "version = 1\n[link]\ngen = 2\nlanes = 8\nmps_bytes = 128\npropagation_ps = 2000\nreplay_buffer_tlps = 3\n\
         ack_latency_symbols = 1\nflow_control = 'none'\nport_buffer_tlps = 7\n[[switch]]\nname = 'switch'\n\
         forwarding = 'store-and-forward'\nkeep_places = true\n[switch.link]\ngen = 1\nlanes = 1\npropagation_ps = 0\n\
         replay_buffer_tlps = 1\nack_latency_symbols = 9000\nflow_control = 'credits'\nreplay_timer = 'rev4'\n\
         [[slot]]\nname = 'a'\n{disk}[[slot]]\nname = 'b'\n{disk}"
    );
    let mut session = start(&text, 0);
    let mut ended = 0;
    for _ in 0..3 {
        assert_eq!(run_events(&mut session, 1_000_000), Stop::Paused);
        assert!(ended_transactions(&session) > ended, "{} at {}", ended, session.fabric.now());
        ended = ended_transactions(&session);
    }
}

/// `[link]` selects the REPLAY_TIMER of revision 3, which is defined up to 8 GT/s. A faster link without credits does
/// not use that rule.
#[test]
fn accepts_rev3_above_a_faster_link_without_credits() {
    let text = "version = 1\n[link]\ngen = 1\nlanes = 1\nmps_bytes = 128\nreplay_timer = 'rev3'\nreplay_buffer_tlps = 1\n\
                ack_latency_symbols = 1\n[[switch]]\nname = 'switch'\nforwarding = 'store-and-forward'\nkeep_places = true\n\
                [switch.link]\ngen = 4\nflow_control = 'none'\nport_buffer_tlps = 6\n\
                [[slot]]\nname = 'disk'\ndevice = 'disk'\nparent = 'switch'\n\
                [slot.disk]\nsectors = 4\nwrites = 'non-posted'\nrequest_bytes = 128\naccess_latency_ns = 100\n";
    assert_eq!(run(text, 100), Stop::Finished);
}

/// The same with one posted credit: the next error occurs before the next TLP may leave.
#[test]
fn error_messages_leave_room_for_dma_with_one_credit() {
    let credits = "{ posted_header = 1, posted_data = 8, non_posted_header = 1, non_posted_data = 8 }";
    let text = format!(
        "version = 1\n[link]\ngen = 3\nlanes = 1\nmps_bytes = 128\nreplay_timer = 'rev3'\npropagation_ps = 500_000\n\
         replay_buffer_tlps = 3\nack_latency_symbols = 46\nroot_credits = {credits}\ndevice_credits = {credits}\n\
         [[switch]]\nname = 'switch'\nforwarding = 'store-and-forward'\nkeep_places = true\n\
         [switch.link]\ngen = 2\nlanes = 16\nreplay_buffer_tlps = 1\nack_latency_symbols = 1\n\
         flow_control = 'none'\nport_buffer_tlps = 12\n[[slot]]\nname = 'disk'\nparent = 'switch'\ndevice = 'disk'\n\
         [slot.disk]\nsectors = 4\nwrites = 'posted'\nrequest_bytes = 64\naccess_latency_ns = 100\n"
    );
    assert_eq!(run(&text, 0), Stop::Finished);
}

/// Keys of a link, each with a few values; for some keys, the smallest useful ones.
#[derive(Clone, Debug)]
struct Link {
    generation: u8,
    lanes: u8,
    propagation_ns: u32,
    replay_buffer: u8,
    ack_symbols: u16,
    /// Number of TLPs that the receivers of a link without credits hold.
    uncredited: Option<u8>,
    rev3: bool,
    least_credits: bool,
}

impl Link {
    fn any() -> impl Strategy<Value = Link> {
        let of_wire =
            (1..=4_u8, prop::sample::select(vec![1, 2, 8, 16]), prop::sample::select(vec![0, 2, 500, 1_000]));
        let of_buffers = (
            prop::sample::select(vec![1, 2, 3, 4, 64]),
            prop::sample::select(vec![1, 10, 46, 128, 1_000, 9_000]),
        );
        let of_rules = (prop::option::weighted(0.4, 6..20_u8), any::<bool>(), any::<bool>());
        (of_wire, of_buffers, of_rules).prop_map(|(wire, buffers, rules)| Link {
            generation: wire.0,
            lanes: wire.1,
            propagation_ns: wire.2,
            replay_buffer: buffers.0,
            ack_symbols: buffers.1,
            uncredited: rules.0,
            rev3: rules.1,
            least_credits: rules.2,
        })
    }

    /// The keys of a link table, without its heading. Credits of 128 B are for one TLP.
    fn keys(&self) -> String {
        let Link { generation, lanes, replay_buffer, ack_symbols, .. } = self;
        let propagation_ps = self.propagation_ns * 1_000;
        let mut keys = format!(
            "gen = {generation}\nlanes = {lanes}\npropagation_ps = {propagation_ps}\nreplay_buffer_tlps = {replay_buffer}\n\
             ack_latency_symbols = {ack_symbols}\n"
        );
        if let Some(tlps) = self.uncredited {
            keys += &format!("flow_control = 'none'\nport_buffer_tlps = {tlps}\n");
        } else {
            let rule = if self.rev3 && self.generation <= 3 { "rev3" } else { "rev4" };
            keys += &format!("flow_control = 'credits'\nreplay_timer = '{rule}'\n");
            if self.least_credits {
                let least =
                    "{ posted_header = 1, posted_data = 8, non_posted_header = 1, non_posted_data = 8 }";
                keys += &format!("root_credits = {least}\ndevice_credits = {least}\n");
            }
        }
        keys
    }
}

/// Slots of the same lab, each of which transfers data both ways.
const DEVICES: [&str; 4] = [
    "device = 'disk'\n[slot.disk]\nsectors = 4\nwrites = 'non-posted'\nrequest_bytes = 128\naccess_latency_ns = 100\n",
    "device = 'disk'\n[slot.disk]\nsectors = 4\nwrites = 'posted'\nrequest_bytes = 64\naccess_latency_ns = 100\n",
    "device = 'pcie-bench'\n[slot.pcie-bench]\ntest = 'BW_RDWR'\nsize_bytes = 300\ntransfers = 60\nwarm_up = 0\n",
    "device = 'dma-engine'\n[slot.dma-engine]\nvfs = 0\ntransfers = 3\nsize_bytes = 2048\nring_entries = 8\n",
];

fn cases() -> ProptestConfig {
    let wanted = std::env::var("RISER_LABS").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: wanted.unwrap_or(24), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    #[ignore = "of .ci/long trees"]
    fn random_small_labs_end(
        common in Link::any(), own in Link::any(), switched in any::<bool>(), cuts_through in any::<bool>(),
        devices in prop::collection::vec(0..DEVICES.len(), 1..3), memory_ns in prop::sample::select(vec![0, 100, 263, 1_500]),
    ) {
        let mut text = format!("version = 1\n[link]\nmps_bytes = 128\n{}", common.keys());
        if switched {
            let forwarding = if cuts_through && own.uncredited.is_none() { "cut-through" } else { "store-and-forward" };
            text += &format!(
                "[[switch]]\nname = 'switch'\nforwarding = '{forwarding}'\nkeep_places = {}\n[switch.link]\n{}",
                common.uncredited.is_some() || own.uncredited.is_some(), own.keys()
            );
        }
        let parent = if switched { "parent = 'switch'\n" } else { "" };
        for (n, device) in devices.iter().enumerate() {
            text += &format!("[[slot]]\nname = 'slot-{n}'\n{parent}{}", DEVICES[*device]);
        }
        prop_assert_eq!(ends_or_goes_on(&text, memory_ns), Ok(()));
    }
}
