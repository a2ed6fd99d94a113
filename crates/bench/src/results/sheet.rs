// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results in the native format, which `riser bench -o` writes: one CSV file for any number of sweeps. Every row holds all settings of its measurement, so that
//! files can be concatenated. Measurements of real hardware fit into it too.
//!
//! ```text
//! host,device,gen,lanes,mps_bytes,mrrs_bytes,rcb_bytes,...    what was measured on
//! outstanding,transfers,warm_up,seed                          and how
//! test,path,cache,pattern,...,window_bytes,size_bytes         the row's key, in the words of lab files
//! latency_ns_min,...,bandwidth_gbps,...,link_ns,up_...        what came out; empty where a test has no such figure
//! basis                                                       how the figures of the profiles are known that this rests on
//! ```
//!
//! Rows with different values in the first columns belong to different configurations. This module does not write to
//! disk.

use super::line::{Line, Measurable, ResultsError, each_line, lacking};
use super::{BandwidthFigures, Figures, LatencyFigures, ResultRow, Spread, Tables};
use crate::configurations::{Configuration, SheetLink};
use crate::experiments::{Cache, Key, Pattern, Test};
use crate::row::Row;
use crate::settings::MeasurementSettings;
use crate::{BenchError, Plan};
use lab::profile::Basis;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

impl Tables {
    /// Returns the link of the results of configuration `name`, from the results or from the published configuration. `None` for other results of the public
    /// form, which do not record it.
    ///
    /// # Errors
    /// As [`link`](Self::link).
    pub fn link_of(&self, name: &str) -> Result<Option<SheetLink>, BenchError> {
        Ok(self.link()?.or_else(|| Configuration::named(name).map(Configuration::link)))
    }

    /// Returns a property of the machine: a column of the native format, or an entry of the record.
    pub(crate) fn said(&self, word: &str) -> Option<&str> {
        let own = self.settings.as_ref().and_then(|settings| settings.get(word));
        own.or_else(|| self.machine.as_ref()?.get(word)).map(String::as_str)
    }

    /// Returns the link of results in the native format, or in a folder with riser's record; `None` for other results of the public form.
    ///
    /// # Errors
    /// A column of the link that is not a number.
    pub fn link(&self) -> Result<Option<SheetLink>, BenchError> {
        if self.settings.is_none() && self.machine.is_none() {
            return Ok(None);
        }
        let number = |column: &str| {
            let text = self.said(column).unwrap_or_default();
            text.parse::<u32>()
                .map_err(|_| BenchError::Run(format!("{column} `{text}`: expected whole numbers")))
        };
        let small = |column: &str| {
            u8::try_from(number(column)?)
                .map_err(|_| BenchError::Run(format!("{column}: expected numbers up to 255")))
        };
        Ok(Some(SheetLink {
            generation: small("gen")?,
            lanes: small("lanes")?,
            mps_bytes: number("mps_bytes")?,
            mrrs_bytes: number("mrrs_bytes")?,
        }))
    }
}

/// A row with all settings of its measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The settings of the measurement.
    #[serde(flatten)]
    pub settings: MeasurementSettings,
    /// Its results.
    #[serde(flatten)]
    pub row: Row,
    /// Weakest basis of the profile figures that the results depend on.
    pub basis: Basis,
}

/// The columns of the file in order: fields of an entry. `up_` and `down_` are fields of its directions.
const COLUMNS: &str = "host,device,gen,lanes,mps_bytes,mrrs_bytes,rcb_bytes,posted_header_credits,posted_data_credits,\
    non_posted_header_credits,non_posted_data_credits,addr_bits,iommu,buffer_pages,outstanding,transfers,warm_up,seed,test,path,cache,pattern,\
    host_offset_bytes,device_offset_bytes,window_bytes,size_bytes,latency_ns_min,latency_ns_median,latency_ns_mean,\
    latency_ns_p95,latency_ns_p99,latency_ns_p999,latency_ns_max,pcie_ns_median,pcie_percent_median,bandwidth_gbps,read_gbps,write_gbps,transactions_per_s,\
    model_exact_gbps,model_published_gbps,link_ns,up_utilization,up_credit_stalls,up_credit_stall_ns,up_replay_buffer_stalls,\
    up_replay_buffer_stall_ns,down_utilization,down_credit_stalls,down_credit_stall_ns,down_replay_buffer_stalls,\
    down_replay_buffer_stall_ns,basis";

/// Columns that a file needs: whose results they are, and the keys of its rows.
const REQUIRED: &str = "host,device,gen,lanes,mps_bytes,mrrs_bytes,test,cache,pattern,host_offset_bytes,device_offset_bytes,\
    window_bytes,size_bytes";

/// Columns that define a configuration, with their prefix in its name. An empty prefix means that the name always has the column.
const MACHINE: [(&str, &str); 15] = [
    ("host", ""),
    ("device", ""),
    ("gen", ""),
    ("lanes", ""),
    ("mps_bytes", "mps"),
    ("mrrs_bytes", "mrrs"),
    ("rcb_bytes", "rcb"),
    ("posted_header_credits", "ph"),
    ("posted_data_credits", "pd"),
    ("non_posted_header_credits", "nph"),
    ("non_posted_data_credits", "npd"),
    ("addr_bits", "addr"),
    ("iommu", "iommu"),
    ("buffer_pages", "page"),
    (OUTSTANDING, "outstanding"),
];

/// A setting of bandwidth tests only: a latency test has one transfer in flight.
const OUTSTANDING: &str = "outstanding";

/// Returns the text of a column, empty if the entry has no such figure.
fn field(entry: &Value, column: &str) -> String {
    let value = match column.split_once('_') {
        Some(("up", rest)) => &entry["upstream"][rest],
        Some(("down", rest)) => &entry["downstream"][rest],
        _ => &entry[column],
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(figure) if figure.is_f64() => {
            let digits = match column {
                "transactions_per_s" => 0,
                _ if column.contains("_ns") => 3,
                _ => 6,
            };
            format!("{:.digits$}", figure.as_f64().unwrap_or_default())
        }
        other => other.to_string(),
    }
}

/// What `riser bench --json` prints.
#[derive(Serialize)]
pub struct Results<'a> {
    /// Profile figures that are extrapolated to the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Reason and extent if some rows were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<&'a str>,
    /// The weakest basis of the profile figures behind the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<Basis>,
    tests: &'a [Entry],
}

impl<'a> Results<'a> {
    /// Returns the results of `plans`. `interrupted` tells why some rows were not measured.
    pub fn new(plans: &[Plan], tests: &'a [Entry], interrupted: Option<&'a str>) -> Results<'a> {
        let warnings = plans.first().map(Plan::warnings).unwrap_or_default();
        Results { warnings, interrupted, basis: tests.iter().map(|entry| entry.basis).max(), tests }
    }
}

/// Returns the file of `entries`.
///
/// # Errors
/// The entries cannot be written as CSV.
pub fn write(entries: &[Entry]) -> Result<String, BenchError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let said = |e: csv::Error| BenchError::Run(e.to_string());
    writer.write_record(COLUMNS.split(',')).map_err(said)?;
    for entry in entries {
        let entry = serde_json::to_value(entry).map_err(|e| e.to_string())?;
        writer.write_record(COLUMNS.split(',').map(|column| field(&entry, column))).map_err(said)?;
    }
    let bytes = writer.into_inner().map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|e| e.to_string().into())
}

/// Returns true if the header is of this form, complete or not.
pub(super) fn is_sheet(header: &csv::StringRecord) -> bool {
    header.iter().any(|name| name.trim() == "test")
}

/// Returns the columns that a file of this form lacks.
pub(super) fn missing_columns(header: &csv::StringRecord) -> Vec<&'static str> {
    let mut missing = lacking(header, REQUIRED.split(','));
    let has = |name: &str| header.iter().any(|column| column.trim() == name);
    if !has("latency_ns_median") && !has("bandwidth_gbps") {
        missing.extend(["latency_ns_median", "bandwidth_gbps"]);
    }
    missing
}

/// Settings by column.
pub(crate) type RowSettings = BTreeMap<&'static str, String>;

/// Parses the configurations of a file, by name. `path` is used only in errors. Repeated headers of concatenated files are skipped.
///
/// # Errors
/// The first line that does not follow the format.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Tables>, ResultsError> {
    let mut rows: Vec<(RowSettings, ResultRow, Option<Basis>)> = Vec::new();
    each_line(path, bytes, |line| {
        if !line.repeats_header() {
            line.check_rows(rows.len())?;
            let basis = line.is_given("basis")?.then(|| line.one_of("basis", &BASES)).transpose()?;
            rows.push((place(line)?, row(line)?, basis));
        }
        Ok(())
    })?;
    let varying = varying(rows.iter().map(|(place, ..)| place));
    let mut found: BTreeMap<String, Tables> = BTreeMap::new();
    for (place, row, basis) in rows {
        let tables = found.entry(name(&place, &varying)).or_default();
        tables.experiments.entry(experiment(row.key.test).into()).or_default().push(row);
        tables.settings.get_or_insert_default().extend(place);
        tables.basis = tables.basis.max(basis);
    }
    Ok(found)
}

/// Returns the name of an experiment in this form, which is the test's name.
pub(crate) fn experiment(test: Test) -> &'static str {
    match test {
        Test::LatCmdRd => "lat_cmd_rd",
        Test::LatCmdWrRd => "lat_cmd_wrrd",
        Test::LatDmaRd => "lat_rd",
        Test::LatDmaWrRd => "lat_wrrd",
        Test::BwDmaRd => "bw_rd",
        Test::BwDmaWr => "bw_wr",
        Test::BwDmaRw => "bw_rdwr",
    }
}

/// Returns the columns whose values differ between places that have them.
pub(crate) fn varying<'a>(places: impl Iterator<Item = &'a RowSettings>) -> BTreeSet<&'static str> {
    let mut seen: BTreeMap<&'static str, &String> = BTreeMap::new();
    let mut varying = BTreeSet::new();
    for (column, value) in places.flatten() {
        if *seen.entry(column).or_insert(value) != value {
            varying.insert(*column);
        }
    }
    varying
}

/// Returns the name of a configuration: card, host and link, and the other settings that vary within the file.
fn name(place: &RowSettings, varying: &BTreeSet<&'static str>) -> String {
    let of = |column: &str| place.get(column).map_or("", String::as_str);
    let mut name = format!("{}_{}_gen{}x{}", stem(of("device")), stem(of("host")), of("gen"), of("lanes"));
    for (column, word) in MACHINE.iter().filter(|(column, word)| !word.is_empty() && varying.contains(column))
    {
        if let Some(value) = place.get(column) {
            name += &format!("_{word}{value}");
        }
    }
    name
}

/// Returns the name of a profile without its folder.
fn stem(profile: &str) -> String {
    let file = Path::new(profile).file_name().map(|name| name.to_string_lossy().into_owned());
    file.unwrap_or_default().trim_end_matches(".toml").to_owned()
}

fn place(line: &Line<'_>) -> Result<RowSettings, ResultsError> {
    let latency = line.text("test")?.starts_with("LAT");
    let mut place = RowSettings::new();
    for (column, _) in MACHINE {
        if line.has(column) && !(latency && column == OUTSTANDING) {
            place.insert(column, line.text(column)?.to_owned());
        }
    }
    Ok(place)
}

fn row(line: &Line<'_>) -> Result<ResultRow, ResultsError> {
    let key = Key {
        test: test(line)?,
        pattern: line.one_of("pattern", &PATTERNS)?,
        cache: line.one_of("cache", &CACHES)?,
        host_offset_bytes: line.small("host_offset_bytes")?,
        device_offset_bytes: line.small("device_offset_bytes")?,
        window_bytes: line.integer("window_bytes")?,
        size_bytes: line.small("size_bytes")?,
    };
    let figures = match key.test.is_latency() {
        true => Figures::Latency(latency(line)?),
        false => Figures::Bandwidth(bandwidth(line, key.size_bytes)?),
    };
    Ok(ResultRow { key, figures })
}

/// Words for a basis.
const BASES: [(&str, Basis); 3] = [
    (Basis::Measured.name(), Basis::Measured),
    (Basis::Fitted.name(), Basis::Fitted),
    (Basis::Assumed.name(), Basis::Assumed),
];

/// Words of lab files for orders of units.
const PATTERNS: [(&str, Pattern); 2] = [("sequential", Pattern::Sequential), ("random", Pattern::Random)];

/// Words of lab files for cache states.
const CACHES: [(&str, Cache); 4] = [
    ("cold", Cache::Cold),
    ("device-thrash", Cache::DeviceThrash),
    ("device-warm", Cache::DeviceWarm),
    ("host-warm", Cache::HostWarm),
];

fn test(line: &Line<'_>) -> Result<Test, ResultsError> {
    const DMA: [(&str, Test); 5] = [
        ("LAT_RD", Test::LatDmaRd),
        ("LAT_WRRD", Test::LatDmaWrRd),
        ("BW_RD", Test::BwDmaRd),
        ("BW_WR", Test::BwDmaWr),
        ("BW_RDWR", Test::BwDmaRw),
    ];
    const COMMAND: [(&str, Test); 2] = [("LAT_RD", Test::LatCmdRd), ("LAT_WRRD", Test::LatCmdWrRd)];
    let by_command = line.has("path") && line.one_of("path", &[("dma", false), ("command", true)])?;
    if by_command { line.one_of("test", &COMMAND) } else { line.one_of("test", &DMA) }
}

/// Returns the latencies. Missing figures are set to the median, a missing number of samples to 0.
fn latency(line: &Line<'_>) -> Result<LatencyFigures, ResultsError> {
    let figure = |column: &str| line.measured(column, Measurable::LATENCY_NS);
    let median = line.measured("latency_ns_median", Measurable::MEDIAN_NS)?;
    let or_median = |column: &str| if line.is_given(column)? { figure(column) } else { Ok(median) };
    let mean = or_median("latency_ns_mean")?;
    let ns = Spread {
        elapsed: mean,
        mean,
        median,
        min: or_median("latency_ns_min")?,
        max: or_median("latency_ns_max")?,
        p95: or_median("latency_ns_p95")?,
        p999: or_median("latency_ns_p999")?,
    };
    let samples = transfers(line)?;
    Ok(LatencyFigures { cycles: Spread::default(), ns, outliers: 0, samples })
}

/// Returns the number of transfers, 0 if the file does not have it.
fn transfers(line: &Line<'_>) -> Result<u64, ResultsError> {
    if line.is_given("transfers")? { line.integer("transfers") } else { Ok(0) }
}

/// Returns the bandwidth. Missing figures are calculated from it.
fn bandwidth(line: &Line<'_>, size_bytes: u32) -> Result<BandwidthFigures, ResultsError> {
    let gbps = line.measured("bandwidth_gbps", Measurable::GBPS)?;
    let transactions = transfers(line)?;
    let bytes = transactions.saturating_mul(u64::from(size_bytes));
    Ok(BandwidthFigures {
        cycles: 0.0,
        ns: bytes as f64 * 8.0 / gbps,
        bytes,
        transactions,
        gbps,
        transactions_per_s: gbps * 1e9 / (8.0 * f64::from(size_bytes.max(1))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "host,device,gen,lanes,mps_bytes,mrrs_bytes,outstanding,test,path,cache,pattern,host_offset_bytes,\
                          device_offset_bytes,window_bytes,size_bytes,latency_ns_median,bandwidth_gbps";
    const LATENCY: &str = "my server,nic.toml,4,16,256,512,1,LAT_RD,dma,host-warm,random,0,0,8192,64,812.5,";
    const BANDWIDTH: &str = "my server,nic.toml,4,16,256,512,32,BW_WR,dma,cold,sequential,4,0,8192,64,,99.5";

    fn parsed(lines: &[&str]) -> Result<BTreeMap<String, Tables>, String> {
        let text = [&[HEADER], lines].concat().join("\n");
        parse(Path::new("x/mine.csv"), text.as_bytes()).map_err(|e| e.to_string())
    }

    /// The smallest valid file of measurements, and concatenated files with repeated headers.
    #[test]
    fn reads_rows_by_configuration() {
        let wide = BANDWIDTH.replace(",256,512,32,", ",512,512,32,");
        let found = parsed(&[LATENCY, BANDWIDTH, HEADER, &wide]).unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["nic_my server_gen4x16_mps256", "nic_my server_gen4x16_mps512"]);
        let tables = &found[names[0]];
        let row = tables.experiments["lat_rd"][0];
        assert_eq!((row.key.test, row.key.cache, row.value()), (Test::LatDmaRd, Cache::HostWarm, 812.5));
        let row = tables.experiments["bw_wr"][0];
        assert_eq!((row.key.pattern, row.key.host_offset_bytes, row.value()), (Pattern::Sequential, 4, 99.5));
        let link = SheetLink { generation: 4, lanes: 16, mps_bytes: 256, mrrs_bytes: 512 };
        assert_eq!(tables.link(), Ok(Some(link)));
        assert_eq!(Tables::default().link(), Ok(None));
    }

    #[test]
    fn errors_name_the_line() {
        for (from, to, message) in [
            ("dma", "pio", "x/mine.csv:3: path `pio`: expected dma, command"),
            (
                "LAT_RD",
                "LAT_RW",
                "x/mine.csv:3: test `LAT_RW`: expected LAT_RD, LAT_WRRD, BW_RD, BW_WR, BW_RDWR",
            ),
            (
                "host-warm",
                "warm",
                "x/mine.csv:3: cache `warm`: expected cold, device-thrash, device-warm, host-warm",
            ),
            ("812.5", "", "x/mine.csv:3: latency_ns_median ``: expected 0.001 to 10^9 ns"),
            // Not measured.
            ("812.5", "0.0", "x/mine.csv:3: latency_ns_median `0.0`: expected 0.001 to 10^9 ns"),
            ("812.5", "1e12", "x/mine.csv:3: latency_ns_median `1e12`: expected 0.001 to 10^9 ns"),
            ("8192", "8k", "x/mine.csv:3: window_bytes `8k`: expected whole numbers from 0"),
        ] {
            assert_eq!(parsed(&[LATENCY, &LATENCY.replace(from, to)]).unwrap_err(), message);
        }
        let header: csv::StringRecord =
            HEADER.replace("lanes,", "").replace("cache,", "").split(',').collect();
        assert!(is_sheet(&header));
        assert_eq!(missing_columns(&header), ["lanes", "cache"]);
    }
}
