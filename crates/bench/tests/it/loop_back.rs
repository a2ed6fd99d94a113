// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NICs in loop-back (SIGCOMM'18, §2), and the pages of the host's buffers.

use lab::schema::BufferPages;
use plug::MemoryKind;
use riser_bench::ask::Ask;
use riser_bench::configurations::Iommu;
use riser_bench::{Plan, Row, Test};

fn ask(model: &str) -> Ask {
    Ask {
        suite: vec!["full".into()],
        model: Some(model.into()),
        host: Some("xeon-e5-2637v3".into()),
        transfers: Some(200),
        warm_up: Some(1_000),
        ..Ask::default()
    }
}

fn plan(ask: &Ask) -> Plan {
    ask.plans(&devices::models()).unwrap().remove(0)
}

fn measure(plan: &Plan, test: Test, size: u32) -> Row {
    plan.measure(test, size).unwrap()
}

/// Median of the latency, and its part in PCI Express and host, in ns.
fn trip(plan: &Plan, size: u32) -> (f64, f64) {
    let row = measure(plan, Test::LatLoop, size);
    (row.latency.unwrap().latency_ns_median, row.round_trip.unwrap().pcie_ns_median)
}

/// The cable of `packet-nic` takes 70 ns and the frame's time at 40 Gb/s, with 12 B more than the frame: 28 ns for 128 B.
#[test]
fn a_frame_written_into_the_card_takes_less_than_one_that_it_reads() {
    let of = |device: &str| {
        let (suite, device) = (vec!["LAT_LOOP".into()], Some(device.into()));
        plan(&Ask { suite, device, warm_up: Some(4), transfers: Some(20), ..ask("packet-nic") })
    };
    let (pio, ring, interrupts) = (of("pio"), of("dpdk"), of("simple"));
    let mut last_share = 100.0;
    for (size, outside) in [(64, 85.2), (128, 98.0), (512, 174.8), (1500, 372.4)] {
        let (all, pcie) = trip(&pio, size);
        assert!((all - pcie - outside).abs() < 0.01, "{size} B: {all} - {pcie}");
        assert!(100.0 * pcie / all < last_share, "{size} B");
        last_share = 100.0 * pcie / all;
        assert!(all < trip(&ring, size).0 && trip(&ring, size).0 < trip(&interrupts, size).0, "{size} B");
    }
}

#[test]
fn frames_in_loop_back_are_no_faster_than_the_link() {
    let plan = plan(&Ask { device: Some("dpdk".into()), transfers: Some(2_000), ..ask("packet-nic") });
    let mut last = 0.0;
    for size in [64, 256, 1500] {
        let row = measure(&plan, Test::BwLoop, size).bandwidth.unwrap();
        assert!(row.bandwidth_gbps > last && row.bandwidth_gbps < row.model_exact_gbps, "{size} B: {row:?}");
        assert!((row.read_gbps - row.write_gbps).abs() < 1e-9);
        last = row.bandwidth_gbps;
    }
}

/// A measurement of several frames has the same latencies as measurements of each of them: a frame ends when its own write is
/// visible.
#[test]
fn latency_of_a_frame_does_not_depend_on_other_frames() {
    let spread = |warm_up, frames| {
        let (suite, device) = (vec!["LAT_LOOP".into()], Some("pio".into()));
        let (warm_up, transfers) = (Some(warm_up), Some(frames));
        let latency = measure(
            &plan(&Ask { suite, device, warm_up, transfers, ..ask("packet-nic") }),
            Test::LatLoop,
            128,
        )
        .latency
        .unwrap();
        (latency.latency_ns_min, latency.latency_ns_max)
    };
    let all = spread(1, 6);
    let each: Vec<f64> = (1..=6).map(|warm_up| spread(warm_up, 1).0).collect();
    let least = each.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = each.iter().copied().fold(0.0, f64::max);
    assert_eq!(all, (least, greatest), "{each:?}");
    assert!(least < greatest, "the host's memory varies: {each:?}");
}

/// The closed form counts descriptors and tail writes. On a host that limits nothing, the NIC reaches it, with jumbo frames too.
#[test]
fn frames_in_loop_back_reach_the_closed_form_of_the_nic() {
    for (device, size, gbps) in
        [("dpdk", 64, Some(26.20)), ("dpdk", 9_000, None), ("kernel", 256, None), ("simple", 256, None)]
    {
        let (device, host) = (Some(device.into()), Some("ideal".into()));
        let ask = Ask { device, host, transfers: Some(4_000), warm_up: Some(8_000), ..ask("packet-nic") };
        let row = measure(&plan(&ask), Test::BwLoop, size).bandwidth.unwrap();
        let share = row.bandwidth_gbps / row.model_exact_gbps;
        assert!((share - 1.0).abs() < 0.004, "{:?} {size} B: {row:?}", ask.device);
        assert!(gbps.is_none_or(|gbps: f64| (row.model_exact_gbps - gbps).abs() < 0.005), "{row:?}");
        assert_eq!(row.model_published_gbps, None);
    }
}

#[test]
fn default_warm_up_goes_around_the_ring() {
    assert!(Plan::default().warm_up(Test::LatLoop) >= u64::from(devices::packet_nic::RING_ENTRIES));
}

/// A gigabit Ethernet: 8 ns for each byte of a frame and 12 more.
#[test]
fn intel_82574_is_measured_in_loop_back() {
    let plan = plan(&Ask {
        generation: Some(1),
        lanes: Some(1),
        warm_up: Some(2),
        transfers: Some(10),
        ..ask("intel-82574")
    });
    assert_eq!(plan.sizes, [64, 128, 256, 512, 1024, 1514]);
    let mut last = 0.0;
    for size in [60, 128, 1514] {
        let (all, pcie) = trip(&plan, size);
        assert!((all - pcie - 8.0 * f64::from(size + 12)).abs() < 0.01, "{size} B: {all} - {pcie}");
        // A Gen1 x1 link has 2 Gb/s: the frame crosses it twice.
        assert!(pcie > last && pcie > 2.0 * f64::from(size) * 4.0, "{size} B: {pcie}");
        last = pcie;
    }
}

/// Rows: request, message.
#[test]
fn messages_name_what_a_nic_cannot_do() {
    let rows = [
        (
            Ask { suite: vec!["BW_LOOP".into()], ..ask("intel-82574") },
            "does not offer BW_LOOP, expected LAT_LOOP",
        ),
        (
            Ask { suite: vec!["LAT_RD".into()], ..ask("packet-nic") },
            "does not offer LAT_RD, expected LAT_LOOP, BW_LOOP",
        ),
        (Ask { sizes: vec![32], ..ask("intel-82574") }, "size 32: frames of 60 to 1514 bytes without FCS"),
        (
            Ask { device: Some("nfp6000".into()), ..ask("packet-nic") },
            "profile `nfp6000`, expected pio, dpdk, kernel, simple",
        ),
        (
            Ask { device: Some("pio".into()), suite: vec!["BW_LOOP".into()], ..ask("packet-nic") },
            "profile `pio`, expected dpdk, kernel, simple",
        ),
        (Ask { sizes: vec![9213], ..ask("packet-nic") }, "size 9213: frames of 60 to 9212 bytes without FCS"),
        (Ask { memory: Some(MemoryKind::High), ..ask("intel-82574") }, "addresses of 64 bits, expected 32"),
        (Ask { offset_bytes: Some(8), ..ask("packet-nic") }, "host_offset_bytes of 8, expected 0"),
        (
            Ask { suite: vec!["LAT_LOOP".into()], model: None, ..ask("") },
            "does not offer LAT_LOOP, expected LAT_RD",
        ),
    ];
    for (ask, expected) in rows {
        let text = ask.plans(&devices::models()).map(drop).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

/// 64 MiB exceed the 64 entries of the IOTLB with pages of 4 KiB, and fit with 2 MiB.
#[test]
fn buffers_of_small_pages_miss_the_iotlb() {
    let on = |iommu, pages| Plan {
        host: "xeon-e5-2630v4".into(),
        iommu,
        pages,
        window_bytes: Some(64 << 20),
        bandwidth_transfers: 4_000,
        warm_up: Some(4_000),
        ..Plan::default()
    };
    let rate = |plan: &Plan| measure(plan, Test::BwRd, 64).bandwidth.unwrap().bandwidth_gbps;
    let [small, huge] = [BufferPages::Kib4, BufferPages::Mib2].map(|pages| rate(&on(Iommu::Pages1g, pages)));
    assert!(small < 0.6 * huge, "{small} and {huge} Gb/s");
    assert_eq!(small, rate(&on(Iommu::Pages4k, BufferPages::Gib1)), "the same pages of the IOMMU");
}
