// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of the captures that the NetTLP authors published (NSDI'20, sections 6.1 and 6.2). They have no
//! licence and are not a part of riser. `RISER_SHARED_DATA` is the folder with them; the default is
//! `../shared/data` next to the workspace. Without them, these tests are skipped and report this.

use crate::common;
use riser_capture::stats::{SizeCount, StatsReport};
use riser_capture::transactions::{Spread, Summary, Tracker};
use riser_capture::{open, render};

fn report(capture: &str) -> Option<StatsReport> {
    Some(common::report(open(testkit::shared_data("nettlp-captures")?.join(capture)).unwrap()))
}

fn lines(capture: &str) -> Option<Vec<String>> {
    let mut reader = open(testkit::shared_data("nettlp-captures")?.join(capture)).unwrap();
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let mut line = String::new();
        render::line(&record, &mut line);
        lines.push(line);
    }
    Some(lines)
}

fn sizes(counts: &[SizeCount]) -> Vec<(u32, u64)> {
    counts.iter().map(|size| (size.bytes, size.count)).collect()
}

/// Capture, frames, reads by size, writes by size, completions by data, maximum number of outstanding reads, tags,
/// and the number of tags that were reused before the mirror showed their last completion.
type Row = (
    &'static str,
    u64,
    &'static [(u32, u64)],
    &'static [(u32, u64)],
    &'static [(u32, u64)],
    u32,
    &'static [u16],
    u64,
);

const ALL16: &[u16] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// In `p4600-write` and all `x520` captures, the device reads data to store or send. In `p4600-read`, it writes
/// data to memory.
const ROWS: [Row; 22] = [
    ("p4600/p4600-read-1blk", 2, &[], &[(256, 2)], &[], 0, &[], 0),
    ("p4600/p4600-read-4blk", 8, &[], &[(256, 8)], &[], 0, &[], 0),
    ("p4600/p4600-read-8blk", 16, &[], &[(256, 16)], &[], 0, &[], 0),
    ("p4600/p4600-read-32blk", 64, &[], &[(256, 64)], &[], 0, &[], 0),
    ("p4600/p4600-read-64blk", 128, &[], &[(256, 128)], &[], 0, &[], 0),
    ("p4600/p4600-write-1blk", 3, &[(512, 1)], &[], &[(256, 2)], 1, &[0], 0),
    ("p4600/p4600-write-4blk", 12, &[(512, 4)], &[], &[(256, 8)], 4, &[0, 1, 2, 3], 0),
    ("p4600/p4600-write-8blk", 24, &[(512, 8)], &[], &[(256, 16)], 8, &[0, 1, 2, 3, 4, 5, 6, 7], 0),
    ("p4600/p4600-write-32blk", 96, &[(512, 32)], &[], &[(256, 64)], 16, ALL16, 0),
    ("p4600/p4600-write-64blk", 192, &[(512, 64)], &[], &[(256, 128)], 16, ALL16, 6),
    ("x520/x520-64B-1pkt", 2, &[(64, 1)], &[], &[(64, 1)], 1, &[2], 0),
    ("x520/x520-64B-16pkt", 32, &[(64, 16)], &[], &[(64, 16)], 15, ALL16, 0),
    ("x520/x520-64B-32pkt", 64, &[(64, 32)], &[], &[(64, 32)], 15, ALL16, 0),
    ("x520/x520-512B-1pkt", 3, &[(512, 1)], &[], &[(256, 2)], 1, &[2], 0),
    ("x520/x520-512B-16pkt", 48, &[(512, 16)], &[], &[(256, 32)], 8, ALL16, 0),
    ("x520/x520-512B-32pkt", 96, &[(512, 32)], &[], &[(256, 64)], 9, ALL16, 0),
    ("x520/x520-1024B-1pkt", 6, &[(512, 2)], &[], &[(256, 4)], 2, &[2, 3], 0),
    ("x520/x520-1024B-16pkt", 96, &[(512, 32)], &[], &[(256, 64)], 12, ALL16, 0),
    ("x520/x520-1024B-32pkt", 192, &[(512, 64)], &[], &[(256, 128)], 16, ALL16, 0),
    ("x520/x520-1500B-1pkt", 9, &[(476, 1), (512, 2)], &[], &[(220, 1), (256, 5)], 3, &[2, 3, 4], 0),
    ("x520/x520-1500B-16pkt", 144, &[(476, 16), (512, 32)], &[], &[(220, 16), (256, 80)], 9, ALL16, 0),
    ("x520/x520-1500B-32pkt", 288, &[(476, 32), (512, 64)], &[], &[(220, 32), (256, 160)], 10, ALL16, 0),
];

#[test]
fn counts_tlps_of_x520_and_p4600() {
    for (name, frames, reads, writes, completions, max_outstanding, tags, reuses) in ROWS {
        let Some(report) = report(&format!("{name}.pcap")) else { return };
        assert_eq!((report.frames, report.tlps, report.error_total), (frames, frames, 0), "{name}");
        assert_eq!(sizes(&report.read_sizes), reads, "{name}");
        assert_eq!(sizes(&report.write_sizes), writes, "{name}");
        assert_eq!(sizes(&report.completion_sizes), completions, "{name}");
        let [device] = &report.requesters[..] else {
            panic!("{name}: one requester, {:?}", report.requesters)
        };
        assert_eq!(device.requester.0.to_string(), "19:00.0", "{name}");
        assert_eq!((device.max_outstanding, &device.tags[..]), (max_outstanding, tags), "{name}");
        assert_eq!(report.transactions.tag_reuses, reuses, "{name}");
        let data: u64 =
            completions.iter().chain(writes).map(|(bytes, count)| u64::from(*bytes) * count).sum();
        assert_eq!(report.payload_bytes, data, "{name}");
        // Every read is completed, except one that the mirror shows too late, see below.
        let reads: u64 = reads.iter().map(|(_, count)| count).sum();
        let late = u64::from(name == "x520/x520-1024B-16pkt");
        let t = report.transactions;
        assert_eq!((t.requests, t.completed, t.unmatched), (reads, reads - late, late), "{name}");
        assert_eq!((t.given_up, t.failed, t.byte_count_mismatches), (0, 0, late), "{name}");
    }
}

/// The second read of tag 1 comes after the first of its two completions.
#[test]
fn shows_read_after_its_completion() {
    let Some(lines) = lines("x520/x520-1024B-16pkt.pcap") else { return };
    let tag_1: Vec<&str> =
        lines.iter().filter(|l| l.contains("tag 0x01")).filter_map(|l| l.split(' ').nth(6)).collect();
    assert_eq!(tag_1, ["MRd,", "CplD,", "CplD,", "CplD,", "MRd,", "CplD,"]);
}

/// Section 6.1, Figure 13: one read of 512 B becomes eight reads of 64 B from another requester. Their completions
/// arrive out of order, and are merged into two completions of 256 B.
#[test]
fn root_complex_splits_read_and_merges_completions() {
    let Some(report) = report("root-complex/mrd-512byte-rc.pcap") else { return };
    assert_eq!((report.frames, report.tlps, report.error_total), (19, 19, 0));
    assert_eq!(sizes(&report.read_sizes), [(64, 8), (512, 1)]);
    assert_eq!(sizes(&report.completion_sizes), [(64, 8), (256, 2)]);
    let [device, root] = &report.requesters[..] else { panic!("{:?}", report.requesters) };
    assert_eq!(
        (device.requester.0.to_string(), root.requester.0.to_string()),
        ("1a:00.0".into(), "64:00.0".into())
    );
    assert_eq!((&device.tags[..], device.max_outstanding, device.completions), (&[0][..], 1, 2));
    assert_eq!(
        (&root.tags[..], root.max_outstanding, root.completions),
        (&[0, 1, 2, 3, 4, 5, 6, 7][..], 8, 8)
    );
    assert_eq!((report.transactions.completed, report.waiting), (9, 0));

    let lines = lines("root-complex/mrd-512byte-rc.pcap").unwrap();
    let order: Vec<&str> = lines
        .iter()
        .filter(|line| line.contains("CplD") && line.contains("requester 64:00.0"))
        .filter_map(|line| line.split("tag ").nth(1)?.split(',').next())
        .collect();
    assert_eq!(order, ["0x00", "0x04", "0x06", "0x03", "0x01", "0x05", "0x02", "0x07"]);
    let rebuilt: Vec<&str> = lines[17..].iter().filter_map(|line| line.split("success, ").nth(1)).collect();
    let expected = [
        "bc 512, requester 1a:00.0, tag 0x00, lowaddr 0x00",
        "bc 256, requester 1a:00.0, tag 0x00, lowaddr 0x00",
    ];
    assert_eq!(rebuilt, expected);
}

/// Section 6.2, Figure 15. The scan of the paper garbles the addresses of interrupts. Times of day are UTC here,
/// but not in the paper. Functions are printed after a point here; the paper has device and function in one number,
/// 1b:00.
#[test]
fn prints_lines_of_figure_15() {
    let Some(lines) = lines("simple-nic/simple-nic-ping.pcap") else { return };
    assert_eq!(lines, include_str!("../cases/figure-15.txt").lines().collect::<Vec<_>>());
}

/// Frames of one direction have an 802.1Q tag of the mirroring switch, 100 or 101.
#[test]
fn reads_802_1q_tags_of_mirrored_frames() {
    let Some(captures) = testkit::shared_data("nettlp-captures") else { return };
    let mut reader = open(captures.join("root-complex/mrd-512byte-rc.pcap")).unwrap();
    let mut vlans = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        vlans.push(record.path.map(|path| path.vlans.ids().to_vec()).unwrap_or_default());
    }
    let expected = [vec![vec![100]], vec![vec![]; 8], vec![vec![101]; 8], vec![vec![]; 2]].concat();
    assert_eq!(vlans, expected);
}

/// Snap length 128: after 60 bytes of headers, 68 of 256 B of data were captured.
#[test]
fn accepts_truncated_data() {
    let Some(report) = report("p4600/p4600-write-1blk.pcap") else { return };
    assert_eq!((report.payload_bytes, report.captured_payload_bytes, report.error_total), (512, 136, 0));
}

/// Nanoseconds from the request to the last and the first completion: minimum, median, maximum. Computed from the
/// times and the TLP headers of the records, without this crate.
#[test]
fn response_times_match_independent_computation() {
    let rows = [
        ("p4600/p4600-write-8blk", 8, [138_999, 151_340, 190_598], [134_306, 150_458, 165_856]),
        ("p4600/p4600-write-32blk", 32, [7_903, 139_021, 272_611], [4_765, 135_032, 270_983]),
        ("x520/x520-512B-16pkt", 16, [53_142, 140_694, 158_658], [49_963, 136_831, 157_790]),
        ("x520/x520-1500B-32pkt", 96, [19_708, 84_011, 242_770], [3_658, 72_730, 238_944]),
    ];
    for (name, count, response_ns, first_data_ns) in rows {
        let Some(folder) = testkit::shared_data("nettlp-captures") else { return };
        let mut reader = open(folder.join(format!("{name}.pcap"))).unwrap();
        let (mut tracker, mut summary) = (Tracker::new(), Summary::new());
        while let Some(record) = reader.next_record().unwrap() {
            tracker.see(&record, 0);
        }
        tracker.finish();
        while let Some(t) = tracker.next_ended() {
            summary.add(&t);
        }
        let report = summary.report(&tracker);
        let [reads] = &report.types[..] else { panic!("{name}: {:?}", report.types) };
        assert_eq!((reads.r#type, reads.transactions, report.with_errors), ("MRd", count, 0), "{name}");
        let ns = |spread: Option<Spread>| spread.map(|s| [s.min, s.median, s.max].map(|ps| ps / 1000));
        assert_eq!(ns(reads.response_ps), Some(response_ns), "{name}");
        assert_eq!(ns(reads.first_data_ps), Some(first_data_ns), "{name}");
    }
}
