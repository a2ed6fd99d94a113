// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of published papers: what they show with the least effort, and what must hold whatever the effort.

use insta::assert_snapshot;
use riser_bench::paper::{Cell, EXPERIMENTS, Effort, Report, Table, experiment};

fn run(name: &str) -> Report {
    experiment(name).unwrap().run(&Effort::least()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn number(table: &Table, row: usize, key: &str) -> f64 {
    let column = table.columns.iter().position(|c| c.key == key).unwrap_or_else(|| panic!("no column {key}"));
    match table.rows[row][column] {
        Cell::Number(value, _) => value,
        ref other => panic!("{key} of row {row}: {other:?}"),
    }
}

fn column(table: &Table, key: &str) -> Vec<f64> {
    (0..table.rows.len()).map(|row| number(table, row, key)).collect()
}

/// Tables as text, a row a line.
fn text(report: &Report) -> String {
    let row = |cells: Vec<String>| cells.join(" | ") + "\n";
    let table = |t: &Table| {
        let rows: String = t.rows.iter().map(|r| row(r.iter().map(Cell::text).collect())).collect();
        format!("{}\n{}{rows}", t.title, row(t.columns.iter().map(|c| c.key.to_owned()).collect()))
    };
    report.tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// A read and its completion each cross the root complex once, to the picosecond.
#[test]
fn register_reads_rise_by_exactly_two_traversals() {
    let report = run("gem5-mmio");
    let [reads, lines] = &report.tables[..] else { panic!("{}", text(&report)) };
    let (rc, ns) = (column(reads, "root_complex_latency_ns"), column(reads, "latency_ns"));
    assert_eq!(rc, [50.0, 75.0, 100.0, 125.0, 150.0]);
    for at in 1..rc.len() {
        let (rise, step) = ((ns[at] - ns[at - 1]) * 1000.0, (rc[at] - rc[at - 1]) * 1000.0);
        assert_eq!(rise.round() as i64, 2 * step.round() as i64, "{ns:?}");
    }
    // The least-squares line through Table II: 11950 / 6250.
    assert!((number(lines, 0, "traversals") - 1.912).abs() < 1e-9);
    assert!((number(lines, 1, "traversals") - 2.0).abs() < 1e-9);
    assert_snapshot!(text(&report));
}

/// IISWC'18, Figure 9(d): timeouts with buffers of 16 and 20, none with 24 and 28; with credits there is nothing to replay.
#[test]
fn larger_port_buffers_cure_timeouts_and_credits_need_no_cure() {
    let report = run("gem5-port-buffer");
    let timeouts = column(&report.tables[0], "timeout_percent");
    let [b16, b20, b24, b28] = timeouts[..] else { panic!("{timeouts:?}") };
    assert!(b16 >= b20 && b20 > 0.0 && b24 == 0.0 && b28 == 0.0, "{timeouts:?}");
    assert!(column(&report.tables[0], "sector_gbps").is_sorted());
    for key in ["credits_replay_percent", "posted_replay_percent"] {
        assert_eq!(column(&report.tables[0], key), [0.0; 4], "{key}");
    }
    assert_snapshot!(text(&report));
}

/// Figure 9(c): a replay buffer of 1 throttles the disk so that nothing times out, one of 2 nearly; 3 and 4 do not.
#[test]
fn small_replay_buffers_throttle_the_sender() {
    let report = run("gem5-replay-buffer");
    let timeouts = column(&report.tables[0], "timeout_percent");
    assert!(timeouts[0] == 0.0 && timeouts[1..].iter().all(|t| *t > 0.0), "{timeouts:?}");
    let replays = column(&report.tables[0], "replay_percent");
    assert!(replays.windows(2).all(|pair| pair[0] < pair[1]), "{replays:?}");
    assert_eq!(column(&report.tables[0], "credits_replay_percent"), [0.0; 4]);
    assert_snapshot!(text(&report));
}

/// Figure 9(b): almost no replays up to x4, many at x8.
#[test]
fn wide_links_overflow_the_switch() {
    let report = run("gem5-width");
    let timeouts = column(&report.tables[0], "timeout_percent");
    assert_eq!(timeouts[..3], [0.0; 3]);
    assert!(timeouts[3] > 0.0, "{timeouts:?}");
    assert_snapshot!(text(&report));
}

/// Figure 9(a): a shorter switch is faster, by a few per cent; posted writes wait for nothing and gain nothing.
#[test]
fn switch_latency_costs_what_waits_for_answers() {
    let report = run("gem5-switch-latency");
    let gbps = column(&report.tables[0], "sector_gbps");
    assert!(gbps[0] > gbps[1] && gbps[1] > gbps[2] && gbps[0] / gbps[2] < 1.06, "{gbps:?}");
    let posted = column(&report.tables[0], "posted_disk_gbps");
    assert!((posted[0] / posted[2] - 1.0).abs() < 1e-3, "{posted:?}");
    // No more than the wire carries in requests of 84 B.
    assert!(gbps.iter().all(|g| *g < 4.0 * 64.0 / 84.0));
    assert_snapshot!(text(&report));
}

#[test]
fn read_latency_rises_with_payload_and_falls_with_lanes() {
    let report = run("chipyard-latency");
    let table = &report.tables[0];
    let lanes = ["x1_ns", "x2_ns", "x4_ns", "x8_ns", "x16_ns"].map(|key| column(table, key));
    assert!(lanes.iter().all(|ns| ns.is_sorted()), "{lanes:?}");
    for row in 0..table.rows.len() {
        assert!(lanes.windows(2).all(|pair| pair[0][row] > pair[1][row]), "row {row}");
    }
    // The study sets its own latency so that one DW at x8 takes about 1 us.
    assert!((lanes[3][0] - 1000.0).abs() < 1.0, "{}", lanes[3][0]);
    assert_snapshot!(text(&report));
}

/// Figure 7: a saw-tooth of Max_Payload_Size, and twice what eight lanes carry.
#[test]
fn bandwidth_falls_behind_every_payload() {
    let report = run("chipyard-bandwidth");
    let table = &report.tables[0];
    let at = |size: f64, key| {
        number(table, column(table, "size_bytes").iter().position(|s| *s == size).unwrap(), key)
    };
    for payloads in [256.0, 512.0, 1024.0] {
        assert!(at(payloads, "effective_gbps") > at(payloads + 1.0, "effective_gbps") * 1.01, "{payloads}");
    }
    for size in column(table, "size_bytes") {
        let (own, twice) = (at(size, "effective_gbps"), at(size, "x8_twice_gbps"));
        assert!((own / twice - 1.0).abs() < 0.01, "{size}: {own} {twice}");
        assert!(at(size, "total_gbps") > own);
    }
}

/// Figures 9 and 10: far away the NIC waits for control almost half of the time, on links of four lanes and more whatever
/// their width; batches and more reads under way give it back.
#[test]
fn a_nic_that_is_far_away_waits_for_control() {
    let report = run("chipyard-nic");
    let [delay, width, recovered] = &report.tables[..] else { panic!("{}", text(&report)) };
    let ns = column(delay, "frame_ns");
    assert!(ns.is_sorted(), "{ns:?}");
    let waiting = column(width, "waiting_percent");
    assert!((45.0..50.0).contains(&waiting[4]), "{waiting:?}");
    let (narrow, wide) = (number(width, 2, "frame_ns"), number(width, 4, "frame_ns"));
    assert!(narrow / wide < 1.1, "x4 {narrow}, x16 {wide}");
    let last = recovered.rows.len() - 1;
    assert!(number(recovered, last, "received_gbps") > 4.0 * number(recovered, 1, "received_gbps"));
    assert!(number(recovered, last, "waiting_percent") < 10.0);
    assert_snapshot!(text(&report));
}

#[test]
fn experiments_are_found_by_name_and_rows_fit_their_columns() {
    assert!(experiment("gem5-table-3").is_err_and(|e| e.contains("chipyard-nic")));
    for e in EXPERIMENTS {
        assert_eq!(experiment(&e.name.to_uppercase()).unwrap().title, e.title);
    }
    let report = run("gem5-mmio");
    assert!(report.tables.iter().all(|t| t.rows.iter().all(|r| r.len() == t.columns.len())));
    assert_eq!((report.experiment, report.source), ("gem5-mmio", "IISWC'18, Table II"));
}
