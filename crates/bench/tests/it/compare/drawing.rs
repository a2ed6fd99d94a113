// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's figures from results: their lines, their values, and the notes about missing data.

use crate::compare::made::{add, key, row, set, whole};
use lab::profile::Basis;
use model::{Params, Transfer, published};
use riser_bench::experiments::{Cache, Key, Test};
use riser_bench::figures::{Figure, Plot, Quantity, Role, figures};
use riser_bench::results::write::table;
use riser_bench::results::{CdfPoint, ResultSet};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const HSW: &str = "nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro";
const SNB: &str = "nfp6000-1.2GHz_snb-Xeon-E5-2630_dell-t620";
const BDW: &str = "nfp6000-1.2GHz_bdw-Xeon-E5-2630v4-dell-t430-s0-s0-s0";
const E5: &str = "nfp6000-1.2GHz_hsw-Xeon-E5-2620v3_dell-t630";
const E3: &str = "nfp6000-1.2GHz_hsw-Xeon-E3-1226v3_fujitsu-tx1310";

/// A latency or bandwidth that rises with the size. The bandwidth is lower from 1 MiB on.
fn value(key: &Key) -> f64 {
    let far = if key.window_bytes >= 1 << 20 && key.cache == Cache::HostWarm { 0.5 } else { 1.0 };
    match key.test.is_latency() {
        true => 500.0 + f64::from(key.size_bytes),
        false => f64::from(key.size_bytes.min(512)) / 10.0 * far,
    }
}

/// All results that the figures show, of the paper's configurations.
fn all() -> ResultSet {
    let mut all = ResultSet::default();
    let mut put = |name: &str, experiment: &str, factor: f64| {
        add(&mut all, name, experiment, whole(experiment, |key| factor * value(key)));
    };
    put(HSW, "bw_dma_sz_sweep", 1.0);
    put(HSW, "lat_dma_sizes", 1.0);
    put(E5, "lat_dma_details", 1.0);
    put(E3, "lat_dma_details", 2.0);
    for experiment in ["lat_cmd_sweep_rd_rnd_08", "lat_cmd_sweep_wrrd_rnd_08"] {
        put(SNB, experiment, 1.0);
    }
    for experiment in ["bw_dma_win_sweep_rd_rnd_64", "bw_dma_win_sweep_wr_rnd_64"] {
        put(SNB, experiment, 1.0);
    }
    for (size, factor) in [(64, 0.75), (128, 0.9), (256, 0.95), (512, 1.0)] {
        let experiment = format!("bw_dma_win_sweep_rd_rnd_{size}");
        put(BDW, &experiment, 1.0);
        put(&BDW.replace("-s0-s0-s0", "-s0-s1-s1"), &experiment, factor);
        put(&format!("{BDW}-iommu-nosp"), &experiment, factor - 0.25);
    }
    let point = |ns: f64, share| CdfPoint { cycles: 1.2 * ns, ns, share };
    let series =
        (0..16).map(|n| vec![point(500.0 + f64::from(n), 0.0), point(501.0 + f64::from(n), 1.0)]).collect();
    let tables = all.configurations.get_mut(E5).unwrap();
    tables.distributions.insert("lat_dma_details".to_owned(), series);
    all
}

/// Returns a figure as text: each line with its first and last point.
fn text(figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let _ = writeln!(text, "{}", figure.title);
        figure.notes.iter().for_each(|note| writeln!(text, "  ! {note}").unwrap());
        for plot in &figure.plots {
            let _ = writeln!(text, "  [{}] {:?} by {:?}", plot.title, plot.y, plot.x);
            for line in &plot.lines {
                let (first, last) = (line.points[0], line.points[line.points.len() - 1]);
                let point = |p: riser_bench::figures::Point| {
                    let range = p.range.map_or(String::new(), |(a, b)| format!(" ({a:.1} to {b:.1})"));
                    format!("{:.1}: {:.2}{range}", p.x, p.y)
                };
                let (name, role, group) = (&line.name, line.role, line.group);
                let _ = writeln!(
                    text,
                    "    {name}, {role:?} {group}, {} points from {} to {}",
                    line.points.len(),
                    point(first),
                    point(last)
                );
            }
        }
    }
    text
}

#[test]
fn draws_the_papers_figures() {
    insta::assert_snapshot!(text(&figures(&all(), None)));
}

#[test]
fn figures_without_results_list_what_they_need() {
    insta::assert_snapshot!(text(&figures(&ResultSet::default(), None)[1..]));
}

/// A run of one configuration with an unknown name, compared with measurements of others.
#[test]
fn draws_other_configurations_and_measurements_over_them() {
    let mut run = ResultSet::default();
    let measured = all();
    for experiment in ["bw_dma_sz_sweep", "lat_dma_sizes"] {
        add(&mut run, "mine", experiment, whole(experiment, |key| 2.0 * value(key)));
    }
    let name = "hsw-Xeon-E5-2637v3_supermicro";
    add(&mut run, name, "lat_dma_sizes", whole("lat_dma_sizes", value));
    add(
        &mut run,
        "other",
        "lat_dma_details",
        whole("lat_dma_details", value).into_iter().filter(|r| r.key.size_bytes == 64),
    );
    insta::assert_snapshot!(text(&figures(&run, Some(("measured", &measured)))[1..4]));
}

/// A folder of `riser bench --format pcie-bench` records its link. The closed form and the Ethernet are drawn for that link.
#[test]
fn model_uses_the_link_of_the_results() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures-link/card_host");
    fs::create_dir_all(&folder).unwrap();
    let experiment = "bw_dma_sz_sweep";
    fs::write(folder.join(format!("{experiment}.csv")), table(&whole(experiment, value))).unwrap();
    for (link, ethernet) in [
        ((5, 16, 256, 512), 400.0),
        ((4, 16, 512, 4096), 200.0),
        ((3, 8, 256, 512), 40.0),
        ((1, 1, 128, 128), 1.0),
    ] {
        let (generation, lanes, mps, mrrs) = link;
        let words = [("gen", generation.to_string()), ("lanes", lanes.to_string())];
        let sizes = [("mps_bytes", mps.to_string()), ("mrrs_bytes", mrrs.to_string())];
        let machine: BTreeMap<&str, String> = words.into_iter().chain(sizes).collect();
        let record =
            serde_json::json!({"machine": machine, "experiments": {experiment: {"basis": "fitted"}}});
        fs::write(folder.join("riser.json"), record.to_string()).unwrap();
        let results = ResultSet::read(&folder).unwrap();
        assert_eq!(results.basis(), Some(Basis::Fitted));
        let figures = figures(&results, None);
        let plots = &figures.iter().find(|figure| figure.key == "figure4").unwrap().plots;
        let params = Params::new(generation, lanes, mps, mrrs, 64).unwrap();
        let model = published(&params, Transfer::of(2048)).unwrap();
        for (plot, gbps) in plots.iter().zip([model.read_gbps, model.write_gbps, model.read_write_gbps]) {
            let line = |role: &str| plot.lines.iter().find(|line| line.name.contains(role)).unwrap();
            let closed = line("Model (published form), Gen");
            assert!(closed.name.ends_with(&format!("Gen{generation} x{lanes}, MPS {mps}, MRRS {mrrs}")));
            assert_eq!(closed.points.last().map(|p| (p.x, p.y)), Some((2048.0, gbps)), "{link:?}");
            let asked = line("G Ethernet");
            assert_eq!(asked.name, format!("{ethernet}G Ethernet"), "{link:?}");
            assert_eq!(asked.points.last().map(|p| p.y), Some(model::ethernet_gbps(ethernet, 2048)));
        }
        let first = &figures.iter().find(|figure| figure.key == "figure1").unwrap().plots[0];
        assert!(
            first.title.ends_with(&format!("Gen{generation} x{lanes}, MPS {mps}, MRRS {mrrs}")),
            "{first:?}"
        );
    }
}

/// Two sizes and two windows with 1 and 8 outstanding transfers, as the command's own tables have them.
fn sweep(host: &str, factor: f64) -> ResultSet {
    let mut all = ResultSet::default();
    for outstanding in [1, 8] {
        let name = format!("card_{host}_outstanding{outstanding}");
        let keys = [(8192, 64), (8192, 256), (65536, 64)]
            .map(|(window, size)| key(Test::BwDmaRd, Cache::HostWarm, window, size));
        add(
            &mut all,
            &name,
            "bw_rd",
            keys.map(|key| row(key, factor * f64::from(outstanding) * value(&key))),
        );
        let latencies = keys.map(|key| row(Key { test: Test::LatDmaRd, ..key }, 100.0));
        if outstanding == 1 {
            add(&mut all, &name, "lat_rd", latencies.into_iter().take(1));
        }
        let settings = [("host", host.to_owned()), ("outstanding", outstanding.to_string())];
        all.configurations.get_mut(&name).unwrap().settings = Some(settings.into());
    }
    all
}

/// Each test over each varying column, and its difference from the other set, without further options.
#[test]
fn draws_own_tables_over_each_varying_column() {
    let (run, reference) = (sweep("new", 1.5), sweep("old", 1.0));
    let figures = figures(&run, Some(("before", &reference)));
    insta::assert_snapshot!(text(&figures));
    let differences = figures.iter().flat_map(|f| &f.plots).filter(|p| p.y == Quantity::DifferencePercent);
    let due = |plot: &Plot| if plot.lines.iter().all(|l| l.name == "LAT_RD") { 0.0 } else { 50.0 };
    for plot in differences {
        let all = plot.lines.iter().flat_map(|line| &line.points);
        assert!(all.into_iter().all(|point| (point.y - due(plot)).abs() < 1e-9), "{plot:?}");
    }
}

/// If there are more lines than colours, that many are drawn, evenly spread, with a note.
#[test]
fn thins_out_too_many_lines() {
    let rows = (0..20_u32).flat_map(|i| {
        [8192, 65536].map(|window| row(key(Test::BwDmaWr, Cache::Cold, window, 64 * (i + 1)), 1.0))
    });
    let mut all = set("card", "bw_wr", rows);
    all.configurations.get_mut("card").unwrap().settings = Some([("host", "ideal".to_owned())].into());
    let [figure] = &figures(&all, None)[..] else { panic!() };
    assert_eq!(figure.notes, ["By window: 6 of 20 lines, evenly spread; the tables have all lines."]);
    let names: Vec<&str> = figure.plots[1].lines.iter().map(|line| &line.name[..]).collect();
    assert_eq!(names, ["64 B", "256 B", "512 B", "768 B", "1024 B", "1280 B"]);
}

#[test]
fn draws_changes_by_window_and_size() {
    let figures = figures(&all(), None);
    let line = |figure: usize, nth: usize| {
        figures[figure].plots[0].lines[nth].points.iter().map(|p| p.y).collect::<Vec<f64>>()
    };
    for (figure, nth, percent) in [(5, 0, -25.0), (5, 3, 0.0), (6, 0, -50.0), (6, 2, -30.0)] {
        let values = line(figure, nth);
        assert!(
            values.len() == 13 && values.iter().all(|v| (v - percent).abs() < 1e-9),
            "{figure} {nth} {values:?}"
        );
    }
}

#[test]
fn leaves_out_windows_that_one_set_lacks() {
    let experiment = "bw_dma_win_sweep_rd_rnd_64";
    let mut run =
        set(BDW, experiment, whole(experiment, value).into_iter().filter(|r| r.key.window_bytes > 1 << 20));
    let remote = whole(experiment, value)
        .into_iter()
        .map(|r| if r.key.window_bytes == 2 << 20 { row(r.key, 0.0) } else { r });
    add(&mut run, &BDW.replace("-s0-s0-s0", "-s0-s1-s1"), experiment, remote);
    let figure = &figures(&run, None)[5];
    let points = &figure.plots[0].lines[0].points;
    assert_eq!(points.len(), 8, "{points:?}");
    assert_eq!(points.iter().find(|p| p.y != 0.0).map(|p| (p.x, p.y)), Some((2097152.0, -100.0)));
    assert_eq!(figure.notes.len(), 3, "{:?}", figure.notes);
}

/// The published measurements, drawn in the figures that they can show, have the values that the paper states.
#[test]
fn published_measurements_show_the_papers_values() {
    let Some(data) = testkit::shared_data("pcie-bench") else { return };
    let measured = ResultSet::read(&data).unwrap();
    let figures = figures(&measured, None);
    let lines = |number: u8| {
        let figure = figures.iter().find(|f| f.key == format!("figure{number}")).unwrap();
        figure.plots.iter().flat_map(|p| &p.lines).filter(|l| l.role != Role::Mark).collect::<Vec<_>>()
    };
    // Section 6.2: a minimum of 520 ns, a median of 547 ns and a maximum of 947 ns.
    let e5 = &lines(6)[0].points;
    let ns: Vec<f64> = e5.iter().map(|p| p.x.round()).collect();
    assert_eq!((ns[0], ns[1], ns.len()), (520.0, 547.0, 5), "{ns:?}");
    // Section 6.3: warm reads slow down by about 70 ns where the window exceeds the last-level cache.
    let warm = lines(7).into_iter().find(|l| l.name == "LAT_CMD_RD warm").unwrap();
    let rise = warm.points[warm.points.len() - 1].y - warm.points[0].y;
    assert!((50.0..90.0).contains(&rise), "{rise}");
    // Figure 4: every size up to both ends, and bandwidths below the link's 62.96 Gb/s.
    assert_eq!(lines(4).len(), 3);
    for line in lines(4) {
        assert_eq!(
            (line.points.len(), line.points[0].x, line.points[39].x),
            (40, 16.0, 2048.0),
            "{}",
            line.name
        );
        assert!(line.points.iter().all(|p| p.y < 62.96), "{}", line.name);
    }
    // Section 6.5: no change while the IOTLB covers the window, a large one for 64 B beyond.
    let points = &lines(9)[0].points;
    let (first, last) = (points[0].y, points[points.len() - 1].y);
    assert!(first.abs() < 5.0 && (-75.0..-50.0).contains(&last), "{first} {last}");
}
