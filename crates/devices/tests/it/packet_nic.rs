// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packet NICs and their driver, transaction by transaction.

use crate::common::{Event, Loopback, found};
use config::PcieLayout;
use device::DmaError;
use host::AsyncProgram;
use plug::Shared;
use riser_devices::packet_nic::*;
use std::collections::BTreeMap;
use tlp::{Duration, PayloadPool};

struct Lab {
    host: Loopback,
    report: Shared<PacketNicReport>,
    settings: Settings,
}

impl Lab {
    fn new(settings: Settings) -> Lab {
        let report = Shared::default();
        let nic = function(settings, PcieLayout::default(), &PayloadPool::new(), &report, &Shared::default())
            .unwrap();
        Lab { host: Loopback::new(nic), report, settings }
    }

    fn run(&mut self) -> Result<(), String> {
        let (settings, report) = (self.settings, self.report.clone());
        let start = |cpu| driver(cpu, found(0, BAR_BYTES), settings, report, Shared::default());
        let mut program = AsyncProgram::new(self.host.memory.clone(), start);
        self.host.run(&mut program)
    }

    /// Number of transactions by kind and size. Frames are written without bytes.
    fn counts(&self) -> BTreeMap<(&'static str, usize), usize> {
        let mut counts = BTreeMap::new();
        for event in &self.host.log {
            let kind = match event {
                Event::MmioWrite(_, _, bytes) => ("register write", bytes.len()),
                Event::MmioRead(_, _, bytes) => ("register read", *bytes),
                Event::DmaWrite(_, bytes) => ("write", bytes.len()),
                Event::DmaRead(_, bytes) => ("read", *bytes as usize),
                Event::Interrupt(_) => ("interrupt", 4),
            };
            *counts.entry(kind).or_default() += 1;
        }
        counts
    }
}

/// 1440 frames per direction: 480 for warm-up, 480 counted, 480 after them.
fn settings(kind: Kind) -> Settings {
    Settings { kind, frame_bytes: 512, warm_up: 480, frames: 480, ..Settings::default() }
}

/// SIGCOMM'18, §3, for each frame in both directions: two tail writes, two descriptor reads, a read and a write of the frame, a
/// descriptor write, two interrupts, two head reads. In addition, the two ring addresses.
#[test]
fn simple_nic_makes_all_accesses_for_each_frame() {
    let mut lab = Lab::new(settings(Kind::Simple));
    lab.run().unwrap();
    let expected = BTreeMap::from([
        (("register write", 8), 2),
        (("register write", 4), 2 * 1440),
        (("register read", 4), 2 * 1440),
        (("read", 16), 2 * 1440),
        (("read", 512), 1440),
        (("write", 0), 1440),
        (("write", 16), 1440),
        (("interrupt", 4), 2 * 1440),
    ]);
    assert_eq!(lab.counts(), expected);
}

/// SIGCOMM'18, §3: 40 descriptors per fetch, 8 per write-back; 1440 / 40 = 36, 1440 / 8 = 180 per direction.
#[test]
fn nic_82599_uses_batches_and_dpdk_uses_no_interrupts() {
    let batches = [
        (("register write", 8), 2),
        (("register write", 4), 72),
        (("read", 640), 72),
        (("read", 512), 1440),
        (("write", 0), 1440),
        (("write", 128), 360),
    ];
    let told = [(("register read", 4), 72), (("interrupt", 4), 72)];
    for (kind, expected) in
        [(Kind::Kernel, batches.into_iter().chain(told).collect()), (Kind::Dpdk, BTreeMap::from(batches))]
    {
        let mut lab = Lab::new(settings(kind));
        lab.run().unwrap();
        assert_eq!(lab.counts(), expected, "{kind:?}");
        let report = lab.report.get();
        let ways = [&report.tx, &report.rx].map(|way| (way.frames, way.measured));
        assert_eq!(ways, [(1440, 480); 2], "{kind:?}");
    }
}

#[test]
fn one_direction_does_not_affect_the_other() {
    for (traffic, read, written) in [
        (Traffic::Tx, Some(1440), None),
        (Traffic::Rx, None, Some(1440)),
        (Traffic::Both, Some(1440), Some(1440)),
    ] {
        let mut lab = Lab::new(Settings { traffic, ..settings(Kind::Kernel) });
        lab.run().unwrap();
        let counts = lab.counts();
        let frames = (counts.get(&("read", 512)).copied(), counts.get(&("write", 0)).copied());
        assert_eq!(frames, (read, written), "{traffic:?}");
    }
}

/// One frame, with the steps of the paper. Frames are stored without bytes. Interrupt 0, for the sent frame, is raised while the
/// frame comes back.
#[test]
fn simple_nic_round_trip_has_the_steps_of_the_paper() {
    let mode = Mode::RoundTrip;
    let mut lab = Lab::new(Settings { mode, frames: 1, warm_up: 1, frame_bytes: 128, ..Settings::default() });
    lab.run().unwrap();
    let from = lab.host.log.iter().rposition(|e| matches!(e, Event::MmioWrite(_, 0x18, _))).unwrap();
    let second = &lab.host.log[from..];
    let shown: Vec<String> = second.iter().map(show).collect();
    assert_eq!(
        shown,
        [
            "write 0x18 = 2",
            "fetch descriptor",
            "write 0x10 = 2",
            "fetch descriptor",
            "fetch 128",
            "store 0",
            "interrupt 0",
            "store 16",
            "interrupt 1",
            "read 0x1c",
        ]
    );
}

fn show(event: &Event) -> String {
    match event {
        Event::MmioWrite(_, at, bytes) => {
            format!("write {at:#x} = {}", u32::from_le_bytes(bytes[..4].try_into().unwrap()))
        }
        Event::MmioRead(_, at, _) => format!("read {at:#x}"),
        Event::DmaRead(_, 16) => "fetch descriptor".into(),
        Event::DmaRead(_, bytes) => format!("fetch {bytes}"),
        Event::DmaWrite(_, bytes) => format!("store {}", bytes.len()),
        Event::Interrupt(vector) => format!("interrupt {vector}"),
    }
}

/// Reads of this host take 500 ns, and all else takes no time. The frame takes 28 ns at 40 Gb/s, and 70 ns for MAC
/// and cable.
#[test]
fn the_parts_of_a_round_trip_are_timed() {
    for (send, descriptor, fetch) in [(Send::Ring, 500_000, 500_000), (Send::Pio, 0, 0)] {
        let mut lab = Lab::new(Settings {
            kind: Kind::Dpdk,
            mode: Mode::RoundTrip,
            send,
            frames: 3,
            warm_up: 1,
            frame_bytes: 128,
            poll: Duration::from_ns(1),
            ethernet_gbps: Some(40),
            loop_latency: Duration::from_ns(70),
            ..Settings::default()
        });
        lab.run().unwrap();
        let report = lab.report.get();
        assert_eq!(report.trips.len(), 3);
        for trip in &report.trips {
            let [to_device, described, fetched, network, store] = trip.parts().map(Duration::as_ps);
            assert_eq!((to_device, described, fetched, network), (0, descriptor, fetch, 98_000), "{send:?}");
            // Until the next poll of memory.
            assert!(store <= 1_000, "{store}");
            assert_eq!(trip.total().as_ps(), trip.pcie().as_ps() + 98_000);
        }
    }
}

/// With PIO, the frame is sent in lines of 64 B, followed by its length.
#[test]
fn pio_writes_frame_in_cache_lines() {
    let (mode, send) = (Mode::RoundTrip, Send::Pio);
    let settings = Settings {
        kind: Kind::Dpdk,
        mode,
        send,
        frames: 1,
        warm_up: 1,
        frame_bytes: 200,
        ..Settings::default()
    };
    let mut lab = Lab::new(settings);
    lab.run().unwrap();
    let writes = lab.host.log.iter().filter_map(|e| match e {
        Event::MmioWrite(_, at, bytes) if *at >= 0x20 => Some((*at, bytes.len())),
        _ => None,
    });
    let frame = [(0x4000, 64), (0x4040, 64), (0x4080, 64), (0x40c0, 8), (0x20, 4)];
    assert_eq!(writes.collect::<Vec<_>>(), [frame, frame].concat());
    assert!(!lab.counts().contains_key(&("read", 200)), "nothing is fetched");
}

/// Little's law: `reads` frames per 500 ns, if nothing else takes time: 4 of 512 B give 32.768 Gb/s.
#[test]
fn reads_in_flight_limit_the_rate() {
    for reads in [1, 4, 16] {
        let mut lab = Lab::new(Settings { reads, traffic: Traffic::Tx, ..settings(Kind::Dpdk) });
        lab.run().unwrap();
        let elapsed = lab.report.get().tx.pace().1.as_ps();
        let ideal = 480 * 500_000 / u64::from(reads);
        assert!(elapsed.abs_diff(ideal) <= ideal / 100, "{reads} reads: {elapsed} ps, not {ideal}");
        // Two rings read descriptors. The unused ring has no descriptors.
        assert!(lab.host.most_reads <= usize::from(reads) + 2 + 1, "{reads}: {}", lab.host.most_reads);
    }
}

/// 512 B and 24 more at 10 Gb/s: 428.8 ns per frame.
#[test]
fn the_ethernet_limits_the_rate() {
    for traffic in [Traffic::Loop, Traffic::Both] {
        let mut lab = Lab::new(Settings { ethernet_gbps: Some(10), traffic, ..settings(Kind::Kernel) });
        lab.run().unwrap();
        let report = lab.report.get();
        let ways = [&report.tx, &report.rx].map(|way| way.pace().1.as_ps());
        assert_eq!(ways, [480 * 428_800; 2], "{traffic:?}");
    }
}

#[test]
fn a_failed_transfer_is_reported() {
    let mut lab = Lab::new(Settings { traffic: Traffic::Tx, ..settings(Kind::Simple) });
    lab.host.fail_reads = Some(DmaError::CompletionTimeout);
    let error = lab.run().unwrap_err();
    assert_eq!(error, format!("{}: a transfer failed", found(0, BAR_BYTES)));
    assert!(lab.report.get().failed >= 1);
}
