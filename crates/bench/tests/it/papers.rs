// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of published papers: results with the least effort, and properties that hold for any effort.

use insta::assert_snapshot;
use lab::profile::Basis;
use riser_bench::paper::{
    Cell, EXPERIMENTS, Effort, ExperimentReport, Outcome, PaperError, Table, by_paper, experiment,
};
use std::path::Path;

fn run(name: &str) -> ExperimentReport {
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

/// Returns tables as text, one line per row.
fn text(report: &ExperimentReport) -> String {
    let row = |cells: Vec<String>| cells.join(" | ") + "\n";
    let table = |t: &Table| {
        let rows: String = t.rows.iter().map(|r| row(r.iter().map(Cell::text).collect())).collect();
        format!("{}\n{}{rows}", t.title, row(t.columns.iter().map(|c| c.key.to_owned()).collect()))
    };
    report.tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

#[test]
fn hosts_of_experiments_are_known_profiles() {
    for experiment in EXPERIMENTS {
        for host in experiment.hosts {
            assert!(lab::profile::HOSTS.get(host).is_some(), "{}: {host}", experiment.name);
        }
    }
}

/// Checks that the labs of a report name only profiles that its experiment names as hosts.
fn assert_hosts(report: &ExperimentReport) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let hosts = experiment(report.experiment).unwrap().hosts;
    for lab in &report.labs {
        let text = std::fs::read_to_string(root.join(lab)).unwrap();
        let profile = text.lines().find_map(|line| line.strip_prefix("profile = ")).unwrap_or("\"ideal\"");
        assert!(hosts.contains(&profile.trim_matches('"')), "{}, {lab}: {hosts:?}", report.experiment);
    }
}

/// A read and its completion each cross the root complex once, exact to the picosecond.
#[test]
fn register_reads_cross_the_root_complex_twice() {
    let report = run("gem5-mmio");
    assert_hosts(&report);
    // Memory costs nothing there, which the paper does not say.
    assert_eq!(report.basis.map(Basis::name), Some("assumed"));
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

/// Returns the shapes of the paper that riser does not have.
fn missed(report: &ExperimentReport) -> Vec<&str> {
    report.verdict.shapes.iter().filter(|s| !s.reproduced).map(|s| s.paper.as_str()).collect()
}

/// IISWC'18, Figure 9(d): 27, 20, 0 and 0 % of timeouts, within 5 points. The paper's large gain from 16 to 20 follows from none of its
/// rules: the first line says so. With credits there are no replays.
#[test]
fn larger_port_buffers_or_credits_prevent_timeouts() {
    let report = run("gem5-port-buffer");
    let timeouts = column(&report.tables[0], "timeout_percent");
    for (ours, paper) in timeouts.iter().zip([27.0_f64, 20.0, 0.0, 0.0]) {
        assert!((ours - paper).abs() <= 5.0, "{timeouts:?}");
    }
    assert!(column(&report.tables[0], "sector_gbps").is_sorted());
    assert_eq!(missed(&report), ["a larger gain from 16 to 20 than from 20 to 24"]);
    let line = report.verdict.line().unwrap();
    assert!(line.starts_with("NOT REPRODUCED: a larger gain") && line.contains("4 of 5 numbers"), "{line}");
    for key in ["credits_replay_percent", "posted_replay_percent"] {
        assert_eq!(column(&report.tables[0], key), [0.0; 4], "{key}");
    }
    assert_snapshot!(text(&report));
}

/// Figure 9(c): 0, 6, 27 and 27 % of timeouts, within 5 points, and less throughput with buffers of 3 and 4 than with 1 and 2.
#[test]
fn small_replay_buffers_throttle_the_sender() {
    let report = run("gem5-replay-buffer");
    let timeouts = column(&report.tables[0], "timeout_percent");
    for (ours, paper) in timeouts.iter().zip([0.0_f64, 6.0, 27.0, 27.0]) {
        assert!((ours - paper).abs() <= 5.0, "{timeouts:?}");
    }
    let gbps = column(&report.tables[0], "sector_gbps");
    assert!(gbps[..2].iter().all(|small| gbps[2..].iter().all(|large| small > large)), "{gbps:?}");
    assert_eq!((missed(&report), report.verdict.outcome), (vec![], Outcome::Reproduced));
    assert_eq!(column(&report.tables[0], "credits_replay_percent"), [0.0; 4]);
    // With credits, larger buffers are never slower.
    assert!(column(&report.tables[0], "credits_sector_gbps").is_sorted(), "{}", text(&report));
    assert_snapshot!(text(&report));
}

/// Figure 9(b): almost no timeouts up to x4, 27 % at x8, and less throughput at x8 than at x4.
#[test]
fn wide_links_overflow_the_switch() {
    let report = run("gem5-width");
    let timeouts = column(&report.tables[0], "timeout_percent");
    assert_eq!(timeouts[..3], [0.0; 3]);
    assert!((timeouts[3] - 27.0).abs() <= 5.0, "{timeouts:?}");
    let gbps = column(&report.tables[0], "sector_gbps");
    assert!(gbps[0] < gbps[1] && gbps[1] < gbps[2] && gbps[3] < gbps[2], "{gbps:?}");
    assert_eq!((missed(&report), report.verdict.outcome), (vec![], Outcome::Reproduced));
    assert!(report.notes.iter().any(|note| note.starts_with("With replays by sequence number")));
    assert_snapshot!(text(&report));
}

/// Figure 9(a): lower switch latency gives a few per cent more throughput. Posted writes do not wait and gain nothing.
#[test]
fn switch_latency_slows_only_non_posted_writes() {
    let report = run("gem5-switch-latency");
    let gbps = column(&report.tables[0], "sector_gbps");
    assert!(gbps[0] > gbps[1] && gbps[1] > gbps[2] && gbps[0] / gbps[2] < 1.06, "{gbps:?}");
    let posted = column(&report.tables[0], "posted_disk_gbps");
    assert!((posted[0] / posted[2] - 1.0).abs() < 1e-3, "{posted:?}");
    // Less than the wire carries in requests of 148 B.
    assert!(gbps.iter().all(|g| *g < 4.0 * 128.0 / 148.0));
    assert!(missed(&report).is_empty());
    assert!(
        report.notes.iter().any(|note| note.contains("80 to 90 % of a physical SSD")),
        "{:?}",
        report.notes
    );
    assert_snapshot!(text(&report));
}

/// An experiment without a result has a report with the reason, which does not count as reproduced.
#[test]
fn report_of_an_experiment_that_cannot_run_gives_the_reason() {
    let why = PaperError::Run("no such device".into());
    let report = experiment("gem5-width").unwrap().not_run(&why);
    assert_eq!((report.experiment, report.verdict.outcome), ("gem5-width", Outcome::NotRun));
    assert_eq!(report.notes, ["Not run: run: no such device."]);
}

#[test]
fn read_latency_rises_with_payload_and_falls_with_lanes() {
    let report = run("chipyard-latency");
    assert_hosts(&report);
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

/// Figure 7: a saw-tooth with the period of Max_Payload_Size, and twice the bandwidth of eight lanes.
#[test]
fn bandwidth_drops_after_each_full_payload() {
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
    // The lab turns ECRC on. So a TLP of 256 B also has a header of 12 B, an ECRC of 4 B, and 8 B of framing and LCRC.
    let share = at(256.0, "total_gbps") / at(256.0, "effective_gbps");
    assert!((280.0..282.0).contains(&(share * 256.0)), "{share}");
    assert_eq!(report.verdict.outcome, Outcome::Reproduced, "{:?}", report.verdict);
}

/// Figures 9 and 10: a distant NIC waits for control almost half of the time, on links of four or more lanes of any width. Batches and more
/// outstanding reads recover this time.
#[test]
fn distant_nic_waits_for_control() {
    let report = run("chipyard-nic");
    let [delay, fitted, large, recovered] = &report.tables[..] else { panic!("{}", text(&report)) };
    let ns = column(delay, "frame_ns");
    assert!(ns.is_sorted(), "{ns:?}");
    for width in [fitted, large] {
        let waiting = column(width, "waiting_percent");
        assert!((45.0..50.0).contains(&waiting[4]), "{waiting:?}");
    }
    // The width has no effect, as in the study. With 1500 B this holds from x4 on.
    for (width, narrow) in [(fitted, 0), (large, 2)] {
        let ns = column(width, "frame_ns");
        assert!(ns[narrow] / ns[4] < 1.1, "{ns:?}");
    }
    assert_eq!(missed(&report), [""; 0]);
    let last = recovered.rows.len() - 1;
    assert!(number(recovered, last, "received_gbps") > 4.0 * number(recovered, 1, "received_gbps"));
    assert!(number(recovered, last, "waiting_percent") < 10.0);
    assert_snapshot!(text(&report));
}

/// The list has figures of other tools. Their reports name these tools, and do not count as reproduced.
#[test]
fn figures_of_other_tools_name_what_they_need() {
    for (name, needs) in
        [("nettlp-figure14", "Needs the authors' captures"), ("nettlp-figure16", "Needs a guest under QEMU")]
    {
        let report = run(name);
        assert_eq!((report.experiment, report.verdict.outcome), (name, Outcome::NotRun));
        assert!(report.notes[0].contains(needs), "{:?}", report.notes);
    }
}

#[test]
fn finds_experiments_by_name_with_complete_rows() {
    let unknown = experiment("gem5-table-3").err().unwrap().to_string();
    assert!(unknown.starts_with("no experiment `gem5-table-3`; known experiments:"), "{unknown}");
    assert!(
        unknown.contains("\n  gem5 (IISWC'18): gem5-mmio, gem5-switch-latency, gem5-width,"),
        "{unknown}"
    );
    assert!(unknown.contains("\n  Chipyard PCIe (2022): chipyard-latency,"), "{unknown}");
    assert_eq!(unknown.lines().count(), 1 + by_paper().len());
    assert_eq!(by_paper().iter().map(|(_, of)| of.len()).sum::<usize>(), EXPERIMENTS.len());
    for e in EXPERIMENTS {
        assert_eq!(experiment(&e.name.to_uppercase()).unwrap().title, e.title);
    }
    let report = run("gem5-mmio");
    assert!(report.tables.iter().all(|t| t.rows.iter().all(|r| r.len() == t.columns.len())));
    assert_eq!((report.experiment, report.source), ("gem5-mmio", "gem5 (IISWC'18), Table II"));
}

/// Peer-to-peer writes over Gen5 and lines in flight: the wire and flow control give an upper limit, or one a few percent lower.
/// Only the switch loses more than the wire does.
#[test]
fn wire_and_credits_are_close_to_newer_machines() {
    let report = run("beyond");
    let table = &report.tables[0];
    let differences = column(table, "difference_percent");
    // Percent: one way, both ways, a shared uplink, one switch, lines in flight.
    let ranges = [(1.0, 2.0), (2.0, 3.0), (1.5, 3.0), (10.0, 12.0), (-5.0, -2.0)];
    assert_eq!(differences.len(), ranges.len());
    for (difference, (least, most)) in differences.iter().zip(ranges) {
        assert!((least..=most).contains(difference), "{difference}: {}", text(&report));
    }
    let json = serde_json::to_value(&report.verdict).unwrap();
    let within = json["numbers"].as_array().unwrap().iter().filter(|number| number["within"] == true);
    assert_eq!(within.count(), differences.iter().filter(|percent| percent.abs() <= 2.0).count());
    assert_eq!(report.verdict.outcome, Outcome::ShapeReproduced);
}

/// Figure 1: with a host that takes no time, only the wire is left, which the closed form counts. A real host is never faster, and an Ethernet
/// of 40 Gb/s is never exceeded.
#[test]
fn nics_reach_the_closed_form_if_the_wire_is_the_limit() {
    let report = run("pcie-bench-figure1");
    assert_eq!(report.tables.len(), 3, "{}", text(&report));
    for table in &report.tables {
        for row in 0..table.rows.len() {
            let at = |key| number(table, row, key);
            let size = at("size_bytes");
            assert!(at("difference_percent").abs() < 1.0, "{} {size}: {}", table.title, text(&report));
            assert!(at("host_gbps") <= at("ideal_gbps") * 1.01, "{} {size}", table.title);
            assert!(at("host_40g_gbps") <= at("ethernet_gbps") * 1.001, "{} {size}", table.title);
        }
    }
    // The order of Figure 1's curves.
    let at_512 = |table: &Table, key| {
        let row = column(table, "size_bytes").iter().position(|s| *s == 512.0).unwrap();
        number(table, row, key)
    };
    let [simple, kernel, dpdk] = &report.tables[..] else { unreachable!() };
    assert!(at_512(simple, "ideal_gbps") < at_512(kernel, "ideal_gbps"));
    assert!(at_512(kernel, "ideal_gbps") < at_512(dpdk, "ideal_gbps"));
    assert_eq!(report.verdict.outcome, Outcome::Reproduced, "{:?}", report.verdict);
    // Only the ideal host is in the snapshot: profiles of other hosts are refitted now and then.
    assert_snapshot!(text(&first_columns(&report, 4)));
}

/// Returns the report with only the first `count` columns of each table.
fn first_columns(report: &ExperimentReport, count: usize) -> ExperimentReport {
    let table = |t: &Table| Table {
        title: t.title.clone(),
        columns: &t.columns[..count],
        rows: t.rows.iter().map(|row| row[..count].to_vec()).collect(),
    };
    ExperimentReport { tables: report.tables.iter().map(table).collect(), ..report.clone() }
}

/// Figure 2: the share of PCI Express falls with the frame size, and is more than 90 % for small frames with descriptors.
#[test]
fn pci_express_share_falls_with_frame_size() {
    let report = run("pcie-bench-figure2");
    for table in &report.tables[..3] {
        let (share, total) = (column(table, "pcie_percent"), column(table, "total_ns"));
        assert!(share.windows(2).all(|pair| pair[0] > pair[1]), "{}: {share:?}", table.title);
        assert!(total.is_sorted(), "{}: {total:?}", table.title);
        for (row, total) in total.iter().enumerate() {
            let parts = ["to_device_ns", "descriptor_ns", "fetch_ns", "network_ns", "store_ns"];
            let sum: f64 = parts.iter().map(|key| number(table, row, key)).sum();
            assert!((sum - total).abs() < 1e-6, "{}: {sum}, not {total}", table.title);
        }
        // 70 ns, and 128 + 12 B at 40 Gb/s.
        assert!((number(table, 1, "network_ns") - 98.0).abs() < 1e-9);
    }
    // The paper: more than 90 % for small packets. The way without descriptors does not reach it here.
    assert_eq!(missed(&report), ["its share is more than 90 % for small packets (64 B)"]);
    assert!(number(&report.tables[1], 0, "pcie_percent") > 90.0);
    // Every way to hand over a frame has its transactions: lines and a length, or a tail pointer, or both tails.
    let (stages, per_frame) = (&report.tables[3], column(&report.tables[3], "requests_per_frame"));
    let kinds: Vec<String> = stages.rows.iter().map(|row| row[1].text()).collect();
    let polled = ["dma_write", "dma_read", "host_write"];
    let told = ["dma_write", "dma_read", "interrupt", "host_write", "host_read"];
    assert_eq!(kinds, [&polled[..], &polled, &told].concat());
    // PIO: a frame of 128 B takes two lines, its length, and the buffer for its return. Ring addresses are written once for all frames.
    assert!((4.0..4.2).contains(&per_frame[2]), "{per_frame:?}");
}

/// §2 and §7: with fewer reads than the least latency divided by the packet time, the NIC does not reach the Ethernet's rate; with 64 it does.
/// A read is never in flight for less than its latency.
#[test]
fn nic_needs_latency_divided_by_packet_time_reads() {
    let report = run("pcie-bench-in-flight");
    let [budget, rates] = &report.tables[..] else { panic!("{}", text(&report)) };
    assert_eq!(column(budget, "needed")[..3], [30.0, 19.0, 23.0]);
    assert_eq!(report.verdict.outcome, Outcome::Reproduced, "{:?}", report.verdict);
    let needed = number(budget, 3, "needed");
    let latency = number(budget, 3, "latency_ns");
    let reads = column(rates, "reads");
    for (share, each) in [("tx_line_rate_percent", "tx_place_ns"), ("line_rate_percent", "place_ns")] {
        let percent = column(rates, share);
        assert!(percent.windows(2).all(|pair| pair[0] < pair[1] + 0.1), "{share}: {percent:?}");
        assert!(column(rates, each).iter().all(|ns| *ns > latency), "{}", text(&report));
        for (reads, percent) in reads.iter().zip(&percent) {
            assert!(*reads >= needed || *percent < 99.0, "{share} with {reads} of {needed}: {percent}");
            assert!(*reads < 64.0 || *percent > 99.0, "{share} with {reads}: {percent}");
        }
    }
}

/// SIGCOMM'18, Figures 4, 7, 8 and 9 and Table 2, with the fewest samples: every shape that does not need precision.
#[test]
fn rows_of_pcie_bench_have_the_shapes_of_its_figures() {
    let rows = [
        ("pcie-bench-figure4", 5, 25),
        ("pcie-bench-figure5", 2, 5),
        ("pcie-bench-table2", 5, 2),
        ("pcie-bench-figure8", 3, 14),
        ("pcie-bench-figure9", 3, 9),
    ];
    let reports = rows.map(|(name, ..)| run(name));
    for ((name, shapes, numbers), report) in rows.iter().zip(&reports) {
        let verdict = &report.verdict;
        assert_eq!((verdict.shapes.len(), verdict.numbers.len()), (*shapes, *numbers), "{name}");
        assert_eq!(missed(report), [""; 0], "{name}: {}", text(report));
        assert!(report.tables.iter().all(|t| t.rows.iter().all(|r| r.len() == t.columns.len())), "{name}");
    }
    // 64 B lose a fifth of their rate to remote memory, and two thirds to the IOMMU.
    let [.., remote, iommu] = &reports;
    let change = |report: &ExperimentReport, row| number(&report.tables[0], row, "change_64_percent");
    assert!((change(remote, 0) + 20.0).abs() < 5.0, "{}", text(remote));
    assert!(change(iommu, 0).abs() < 2.0 && (change(iommu, 6) + 70.0).abs() < 5.0, "{}", text(iommu));
}

/// Figure 6: the E3 is faster at its best, and much slower in the median.
#[test]
fn distribution_of_the_e3_is_wide() {
    let report = run("pcie-bench-figure6");
    assert_eq!(missed(&report), [""; 0], "{}", text(&report));
    let [e5, e3] = [0, 1].map(|row| number(&report.tables[0], row, "p90_ns"));
    assert!(e3 > 3.0 * e5, "{}", text(&report));
}

/// NSDI'20: 7.53 Gb/s at 256 B, and the TLPs of a read through a switch and through a root complex.
#[test]
fn nettlp_counts_match_the_paper() {
    for name in ["nettlp-encapsulation", "nettlp-figure13"] {
        let report = run(name);
        assert_eq!(report.verdict.outcome, Outcome::Reproduced, "{name}: {:?}", report.verdict);
    }
    let report = run("nettlp-figure13");
    let row =
        |at| ["sent", "received", "returned", "delivered"].map(|key| number(&report.tables[0], at, key));
    assert_eq!((row(0), row(1)), ([1.0, 1.0, 2.0, 2.0], [1.0, 8.0, 8.0, 2.0]));
}

/// ReConFig'15, §V: two settings are fitted. The resulting figures are close to the paper's.
#[test]
fn dma_engine_predicts_unfitted_figures() {
    let [d2h, h2d] = ["dma-engine-figure6", "dma-engine-figure7"].map(run);
    assert_hosts(&d2h);
    assert_eq!(d2h.basis.map(Basis::name), Some("fitted"));
    let off = |report: &ExperimentReport, at: usize| {
        let number = &report.verdict.numbers[at];
        100.0 * (number.riser / number.paper - 1.0).abs()
    };
    assert!(off(&d2h, 0) < 0.1, "fitted: {}", text(&d2h));
    assert!(off(&d2h, 2) < 1.0, "57 Gb/s by formula: {:?}", d2h.verdict);
    assert!(off(&h2d, 0) < 2.0, "predicted: {}", text(&h2d));
    assert!(off(&h2d, 1) < 2.5, "a window is a whole number: {}", text(&h2d));
    for report in [&d2h, &h2d] {
        assert_eq!(report.verdict.outcome, Outcome::Reproduced, "{:?}", report.verdict);
        // The physical function at 128 B and the virtual one on the host have the same link.
        let [physical, host] = ["pf_128_gbps", "vf_gbps"].map(|key| column(&report.tables[0], key));
        assert!(physical.iter().zip(&host).all(|(pf, vf)| (pf / vf - 1.0).abs() < 0.01), "{}", text(report));
    }
    assert_snapshot!(text(&d2h) + &text(&h2d));
}

/// These results follow from the model's own rules, for any host.
#[test]
fn dma_engine_obeys_model_limits_beyond_the_paper() {
    let report = run("dma-engine-beyond");
    let [shared, reads, pages, small, generations] = &report.tables[..] else { panic!("{}", text(&report)) };
    assert!(column(shared, "spread_percent").iter().all(|spread| *spread <= 15.0), "{}", text(&report));
    for key in ["mrrs_128_gbps", "mrrs_512_gbps", "mrrs_4096_gbps"] {
        assert!(column(reads, key).windows(2).all(|pair| pair[1] >= 0.99 * pair[0]), "{}", text(&report));
    }
    for table in [pages, small, generations] {
        for key in ["h2d_gbps", "d2h_gbps"] {
            assert!(column(table, key).iter().all(|gbps| *gbps > 1.0), "{}", text(&report));
        }
    }
    assert_snapshot!(text(&report));
}

/// The limit of an NVMe controller follows from its queue, its link and its media. Media of a data sheet reach the measured rates.
#[test]
fn nvme_names_the_correct_limit() {
    let report = run("nvme-queue-depth");
    assert_hosts(&report);
    for table in &report.tables {
        let (iops, up, down) =
            (column(table, "kiops"), column(table, "up_percent"), column(table, "down_percent"));
        assert!(iops.windows(2).all(|pair| pair[1] >= 0.99 * pair[0]), "{}", text(&report));
        assert!(up.iter().chain(&down).all(|busy| *busy <= 100.0), "{}", text(&report));
    }
    // AnandTech (2017) on an Optane P4800X: 108,300 reads per second one at a time, 584,800 sixteen at a time.
    let reads = column(&report.tables[0], "kiops");
    assert!((reads[0] / 108.3 - 1.0).abs() < 0.1 && (reads[4] / 584.8 - 1.0).abs() < 0.1, "{reads:?}");
    assert_snapshot!(text(&report));
}
