// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scores the agreement of predicted with measured results: errors by family of experiments, and the shapes of curves.
//!
//! | number | one for each | meaning |
//! |---|---|---|
//! | `mape_percent` | family | mean absolute error of the rows of a file, then the mean of its files |
//! | `knee_percent` | window sweep | the first window from 16 KiB on at which the value leaves its plateau: 1 for the same window, 0.5 for its neighbour |
//! | `edge_percent` | TLP boundary in `bw_dma_sz_sweep` | 1 if the step from size n to n + 1 agrees with the measurement: same sign and half to twice as high, or as flat |
//! | `p999_percent`, `max_percent` | latency file | mean absolute error of the 99.9th percentile, and of the maximum, of its rows |
//! | `rank_percent` | file | Spearman's correlation of its rows, at least 0 |
//!
//! A row that the prediction lacks counts as an error of 100 %, so that partial results score no better. For the same reason, no error of a 99.9th percentile or a
//! maximum counts for more: on the E3 they differ by a factor of 150 between rows. To score fewer rows, reduce the measurements. There
//! are four groups: E5 hosts; the Sandy Bridge host with its IOMMU on; the E3 host, whose own runs differ by half; and unpublished configurations.
//!
//! On seven measured configurations the card's command path and its DMA engine behave as if they accessed different
//! memory ([`Configuration::cmd_path_valid`]). Their rows of the command path, and rows with caches prepared by the
//! device, contain no information on the host and are left out. This module reads no files.

use crate::configurations::{CARD, Configuration, Iommu};
use crate::experiments::{Cache, Key};
use crate::results::{Figures, ResultRow, ResultSet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One tick of the card's latency clock in nanoseconds: 16 cycles of 1.2 GHz.
const TICK_NS: f64 = 16.0 / 1.2;
/// The configuration that forms its own group: IOMMU without superpages, in the oldest host.
const SNB_IOMMU: &str = "snb-Xeon-E5-2630_dell-t620-iommu";

/// Sizes after which a transfer needs another TLP or cache line: MPS, MRRS and RCB of the measured hosts, in bytes.
const EDGES_BYTES: [u32; 13] = [63, 64, 127, 128, 255, 256, 511, 512, 768, 1024, 1280, 1536, 1792];
/// A step below this share of the value counts as flat.
const FLAT: f64 = 0.02;
/// Smallest window of a knee, in bytes.
const KNEE_WINDOW_BYTES: u64 = 16_384;
/// A plateau ends at a change by this share; for latencies also by at least two ticks.
const PLATEAU: f64 = 0.06;
/// Fewest windows that can show a knee.
const KNEE_WINDOWS: usize = 6;

/// Prefixes of experiment names, with their family; the first match counts. Results in the native format have the names of the tests.
const FAMILIES: [(&str, &str); 19] = [
    ("bw_dma_sz_sweep", "BW_SZ"),
    ("bw_dma_win_sweep_rd", "BW_WIN_RD"),
    ("bw_dma_win_sweep_wr", "BW_WIN_WR"),
    ("bw_dma_off_rd", "BW_OFF_RD"),
    ("bw_dma_off_wr", "BW_OFF_WR"),
    ("lat_cmd_sweep", "LAT_CMD_WIN"),
    ("lat_dma_sweep", "LAT_DMA_WIN"),
    ("lat_cmd_off", "LAT_CMD_OFF"),
    ("lat_dma_off", "LAT_DMA_OFF"),
    ("lat_dma_sizes", "LAT_DMA_SZ"),
    ("lat_cmd_sizes", "LAT_CMD_SZ"),
    ("lat_cmd_rd", "LAT_CMD_RD"),
    ("lat_cmd_wrrd", "LAT_CMD_WRRD"),
    ("lat_rd", "LAT_RD"),
    ("lat_wrrd", "LAT_WRRD"),
    ("bw_rdwr", "BW_RDWR"),
    ("bw_rd", "BW_RD"),
    ("bw_wr", "BW_WR"),
    ("lat_", "LAT_DETAIL"),
];

/// Family of unpublished experiments.
const OTHER_FAMILY: &str = "OTHER";

/// Returns the family of an experiment. Experiments of one family are averaged.
pub fn family(experiment: &str) -> &'static str {
    FAMILIES.iter().find(|(start, _)| experiment.starts_with(start)).map_or(OTHER_FAMILY, |(_, name)| *name)
}

/// Returns the name of a configuration without the card.
pub fn short_name(configuration: &str) -> &str {
    configuration.strip_prefix(CARD).unwrap_or(configuration)
}

/// The score of a group of configurations. Numbers without data are `None`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupScore {
    /// `E5`, `SNB with IOMMU`, `E3` or `other`.
    pub group: &'static str,
    /// Scored rows of the measurement.
    pub rows: u64,
    /// Mean absolute error by family.
    pub mape_percent: BTreeMap<&'static str, f64>,
    /// Mean absolute error by configuration, without the card's name.
    pub mape_percent_by_configuration: BTreeMap<String, f64>,
    /// Mean absolute error by server with its mode of the IOMMU, and by family.
    pub mape_percent_by_server: BTreeMap<String, BTreeMap<&'static str, f64>>,
    /// Share of window sweeps whose plateau ends at the right window.
    pub knee_percent: Option<f64>,
    /// Share of steps at TLP boundaries with the right sign and height.
    pub edge_percent: Option<f64>,
    /// Mean rank correlation over the files.
    pub rank_percent: Option<f64>,
    /// Mean absolute error of the 99.9th percentile of latencies.
    pub p999_percent: Option<f64>,
    /// Mean absolute error of the maximum of latencies.
    pub max_percent: Option<f64>,
}

/// Scores `predicted` against `measured`, by group. Groups without measurements are left out. Experiments of a
/// configuration that `skip` has are left out too, so calibration cannot have used the remaining ones.
pub fn score(measured: &ResultSet, predicted: &ResultSet, skip: Option<&ResultSet>) -> Vec<GroupScore> {
    let predicted = Files::of(predicted);
    let mut measured = Files::of(measured);
    if let Some(seen) = skip {
        let seen = Files::of(seen);
        measured.0.retain(|place, _| !seen.0.contains_key(place));
    }
    let groups = ["E5", "SNB with IOMMU", "E3", "other"];
    groups.into_iter().filter_map(|group| score_group(group, &measured, &predicted)).collect()
}

fn group_of(configuration: &str) -> &'static str {
    match configuration {
        name if name.contains("E3-1226") => "E3",
        SNB_IOMMU => "SNB with IOMMU",
        name if Configuration::named(name).is_some() => "E5",
        _ => "other",
    }
}

/// Values of a file's rows by key, in order. The first of repeated keys counts.
#[derive(Clone, Default)]
struct Rows {
    order: Vec<Key>,
    values: BTreeMap<Key, f64>,
    /// 99.9th percentile and maximum of latencies.
    tails: BTreeMap<Key, [f64; 2]>,
}

impl Rows {
    fn of(rows: &[ResultRow]) -> Rows {
        let mut all = Rows::default();
        for row in rows {
            if !all.values.contains_key(&row.key) {
                all.order.push(row.key);
                all.values.insert(row.key, row.value());
                if let Figures::Latency(latency) = &row.figures {
                    all.tails.insert(row.key, [latency.ns.p999, latency.ns.max]);
                }
            }
        }
        all
    }

    /// Returns the mean errors of the rows' 99.9th percentiles and maxima; `None` without latencies.
    fn tail_errors(&self, got: &Rows) -> Option<[f64; 2]> {
        let error = |n: usize| {
            let of = |key: &Key| {
                let should = self.tails.get(key)?[n];
                Some(got.tails.get(key).map_or(1.0, |is| relative_error(is[n], should).min(1.0)))
            };
            mean(&self.order.iter().filter_map(of).collect::<Vec<_>>())
        };
        Some([error(0)?, error(1)?])
    }

    fn keep(&mut self, kept: impl Fn(&Key) -> bool) {
        self.order.retain(&kept);
        self.values.retain(|key, _| kept(key));
    }

    fn get(&self, key: &Key) -> Option<f64> {
        self.values.get(key).copied()
    }

    fn iter(&self) -> impl Iterator<Item = (&Key, f64)> {
        self.order.iter().map(|key| (key, self.values[key]))
    }
}

/// Rows by configuration (without the card's name) and experiment.
struct Files(BTreeMap<(String, String), Rows>);

impl Files {
    fn of(set: &ResultSet) -> Files {
        let mut files = BTreeMap::new();
        for (configuration, tables) in &set.configurations {
            for (experiment, rows) in &tables.experiments {
                files.insert((short_name(configuration).to_owned(), experiment.clone()), Rows::of(rows));
            }
        }
        Files(files)
    }
}

/// Returns false for rows without information on the host.
fn is_usable(configuration: &str, experiment: &str, key: &Key) -> bool {
    let by_device = matches!(key.cache, Cache::DeviceWarm | Cache::DeviceThrash);
    let is_suspect = experiment.starts_with("lat_cmd") || by_device;
    !is_suspect || Configuration::named(configuration).is_none_or(|c| c.cmd_path_valid)
}

fn score_group(group: &'static str, measured: &Files, predicted: &Files) -> Option<GroupScore> {
    let mut found = Shapes::default();
    let mut configurations = BTreeSet::new();
    let nothing = Rows::default();
    for (place, rows) in measured.0.iter().filter(|((host, _), _)| group_of(host) == group) {
        configurations.insert(&place.0);
        let mut want = rows.clone();
        want.keep(|key| is_usable(&place.0, &place.1, key));
        if !want.order.is_empty() {
            found.add(place, &want, predicted.0.get(place).unwrap_or(&nothing));
        }
    }
    (!configurations.is_empty()).then(|| found.score(group))
}

/// Results for the files of a group so far.
#[derive(Default)]
struct Shapes {
    rows: u64,
    families: BTreeMap<&'static str, Vec<f64>>,
    configurations: BTreeMap<String, Vec<f64>>,
    servers: BTreeMap<String, BTreeMap<&'static str, Vec<f64>>>,
    knees: Vec<f64>,
    edges: Vec<f64>,
    ranks: Vec<f64>,
    p999: Vec<f64>,
    max: Vec<f64>,
}

impl Shapes {
    fn add(&mut self, (configuration, experiment): &(String, String), want: &Rows, got: &Rows) {
        self.rows += want.order.len() as u64;
        let errors = want.iter().map(|(key, value)| got.get(key).map_or(1.0, |is| relative_error(is, value)));
        let error = mean(&errors.collect::<Vec<_>>()).unwrap_or(0.0);
        self.families.entry(family(experiment)).or_default().push(error);
        self.configurations.entry(configuration.clone()).or_default().push(error);
        let families = self.servers.entry(server(configuration)).or_default();
        families.entry(family(experiment)).or_default().push(error);
        if experiment.contains("sweep") && experiment != "bw_dma_sz_sweep" {
            self.knees.extend(knees(experiment.starts_with("lat"), want, got));
        }
        if experiment == "bw_dma_sz_sweep" {
            self.edges.extend(edges(want, got));
        }
        self.ranks.extend(rank(want, got));
        if let Some([p999, max]) = want.tail_errors(got) {
            self.p999.push(p999);
            self.max.push(max);
        }
    }

    fn score(self, group: &'static str) -> GroupScore {
        let all = |means: Vec<f64>| mean(&means).map(percent);
        GroupScore {
            group,
            rows: self.rows,
            mape_percent: means(self.families),
            mape_percent_by_configuration: means(self.configurations),
            mape_percent_by_server: self.servers.into_iter().map(|(k, v)| (k, means(v))).collect(),
            knee_percent: all(self.knees),
            edge_percent: all(self.edges),
            rank_percent: all(self.ranks),
            p999_percent: all(self.p999),
            max_percent: all(self.max),
        }
    }
}

/// Returns the mean of each entry in percent.
fn means<K: Ord>(errors: BTreeMap<K, Vec<f64>>) -> BTreeMap<K, f64> {
    errors.into_iter().filter_map(|(k, v)| Some((k, percent(mean(&v)?)))).collect()
}

/// Returns the host profile of a configuration with the pages of its IOMMU, or the name of an unknown configuration.
fn server(configuration: &str) -> String {
    match Configuration::named(configuration) {
        Some(known) if known.iommu == Iommu::Off => known.profile.to_owned(),
        Some(known) => format!("{}, IOMMU {}", known.profile, known.iommu),
        None => configuration.to_owned(),
    }
}

/// Returns |`is` - `should`| / `should`, or 1 for a value where 0 is expected.
pub(crate) fn relative_error(is: f64, should: f64) -> f64 {
    match (is - should).abs() {
        0.0 => 0.0,
        difference if should > 0.0 => difference / should,
        _ => 1.0,
    }
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns a share in percent, rounded to two decimals.
pub(crate) fn percent(share: f64) -> f64 {
    let text = format!("{:.2}", 100.0 * share);
    text.parse().unwrap_or(f64::NAN)
}

/// Returns the first window at which the value leaves its plateau. The plateau follows values that are still within it.
fn knee(values: &[f64], latency: bool) -> Option<usize> {
    let mut base = *values.first()?;
    for (at, pair) in values.windows(2).enumerate() {
        let share = PLATEAU * base;
        let limit = if latency { share.max(2.0 * TICK_NS) } else { share };
        if (pair[1] - base).abs() > limit {
            return Some(at + 1);
        }
        if (pair[1] - pair[0]).abs() <= limit {
            base = 0.5 * (base + pair[1]);
        }
    }
    None
}

/// Returns for each series of windows whether its knee is at the right window.
fn knees(latency: bool, want: &Rows, got: &Rows) -> Vec<f64> {
    type Points = BTreeMap<u64, (f64, Option<f64>)>;
    let mut series: BTreeMap<_, Points> = BTreeMap::new();
    for (key, value) in want.iter().filter(|(key, _)| key.window_bytes >= KNEE_WINDOW_BYTES) {
        let points = series.entry((key.test, key.cache)).or_default();
        points.insert(key.window_bytes, (value, got.get(key)));
    }
    let long = series.into_values().filter(|points| points.len() >= KNEE_WINDOWS);
    long.map(|points| {
        let should: Vec<f64> = points.values().map(|(value, _)| *value).collect();
        let Some(is) = points.values().map(|(_, value)| *value).collect::<Option<Vec<f64>>>() else {
            return 0.0;
        };
        match (knee(&should, latency), knee(&is, latency)) {
            (a, b) if a == b => 1.0,
            (Some(a), Some(b)) if a.abs_diff(b) == 1 => 0.5,
            _ => 0.0,
        }
    })
    .collect()
}

/// Returns for each TLP boundary of each test whether the step at the boundary is right.
fn edges(want: &Rows, got: &Rows) -> Vec<f64> {
    let mut series: BTreeMap<_, BTreeMap<u32, (f64, Option<f64>)>> = BTreeMap::new();
    for (key, value) in want.iter() {
        series.entry(key.test).or_default().insert(key.size_bytes, (value, got.get(key)));
    }
    let step = |points: &BTreeMap<u32, (f64, Option<f64>)>, size: u32| {
        let ((a, is_a), (b, is_b)) = (points.get(&size)?, points.get(&(size + 1))?);
        let (Some(is_a), Some(is_b)) = (is_a, is_b) else { return Some(0.0) };
        Some(edge(b / a - 1.0, is_b / is_a - 1.0))
    };
    series
        .values()
        .flat_map(|points| EDGES_BYTES.iter().filter_map(move |size| step(points, *size)))
        .collect()
}

fn edge(should: f64, is: f64) -> f64 {
    let right = match should.abs() < FLAT {
        true => is.abs() < FLAT,
        false => should * is > 0.0 && (0.5..=2.0).contains(&(is / should)),
    };
    f64::from(u8::from(right))
}

/// Returns the rank of each value. Equal values get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let value = values[order[first]];
        let equal = |at: &&usize| values[**at] - value <= 1e-9 * value.abs();
        let last = first + order[first..].iter().take_while(equal).count().max(1) - 1;
        for at in &order[first..=last] {
            ranks[*at] = (first + last) as f64 / 2.0;
        }
        first = last + 1;
    }
    ranks
}

/// Returns Spearman's correlation of a file's rows; `None` if the measurement is flat.
fn rank(want: &Rows, got: &Rows) -> Option<f64> {
    let (least, most) =
        want.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (_, v)| (v.min(a), v.max(b)));
    if most - least < FLAT * least {
        return None;
    }
    let should: Vec<f64> = want.iter().map(|(_, value)| value).collect();
    let Some(is) = want.order.iter().map(|key| got.get(key)).collect::<Option<Vec<f64>>>() else {
        return Some(0.0);
    };
    Some(correlation(&ranks(&should), &ranks(&is)))
}

/// Returns Pearson's correlation, at least 0; 0 if one of the two is constant.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (Some(mean_a), Some(mean_b)) = (mean(a), mean(b)) else { return 0.0 };
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| of(x - mean_a, y - mean_b)).sum::<f64>();
    let (var_a, var_b) = (sum(&|x, _| x * x), sum(&|_, y| y * y));
    if var_a == 0.0 || var_b == 0.0 {
        return 0.0;
    }
    (sum(&|x, y| x * y) / (var_a * var_b).sqrt()).max(0.0)
}
