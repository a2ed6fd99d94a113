// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Valid files, invalid files, and round trips.

use super::*;
use crate::experiments::{Cache, Pattern, Test};
use proptest::prelude::*;
use std::path::Path;

const LAT: &str = "Test,PAT,Cache,HO,DO,WinSZ,SZ,TAvg,Avg,Med,Min,Max,95%,99.9%,TAvg(ns),Avg(ns),Med(ns),Min(ns),\
                   Max(ns),95%(ns),99.9%(ns),#outliers,#samples\r\n";
const BW: &str = "Test,PAT,Cache,HO,DO,WinSZ,SZ,Time(cyc),Time,Bytes,Trans,BW (GB/s),Trans/s\r\n";
/// `lat_cmd_sweep_rd_rnd_08.csv` of the E3-1226 v3, line 50.
const LAT_ROW: &str = "LAT_CMD_RD,Rand,HWarm,0,0,1572864.0,8,2810,2580.5602951049805,480.0,432,7202688,3168.0,12624.0,\
                       2341.6666666666665,2150.466912587484,400.0,360.0,6002240.0,2640.0,10520.0,5836,2097152\r\n";
/// `bw_dma_sz_sweep.csv` of the E3-1226 v3, the last line.
const BW_ROW: &str = "BW_DMA_RW,Rand,HWarm,0,0,8192,2048,2009176432,1674313693.3333333,8589934592,4194304,\
                      41.04337019378296,2505088.5128041357\r\n";

fn table(text: &str) -> Result<Vec<ResultRow>, String> {
    parse_table(Path::new("x/t.csv"), text.as_bytes()).map_err(|e| e.to_string())
}

#[test]
fn published_lines_survive_a_round_trip() {
    for (header, line, value) in [(LAT, LAT_ROW, 400.0), (BW, BW_ROW, 41.04337019378296)] {
        let text = format!("{header}{line}");
        let rows = table(&text).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].value(), value);
        assert_eq!(write::table(&rows), text);
    }
    let rows = table(&format!("{LAT}{LAT_ROW}")).unwrap();
    let key = Key {
        test: Test::LatCmdRd,
        pattern: Pattern::Random,
        cache: Cache::HostWarm,
        host_offset_bytes: 0,
        device_offset_bytes: 0,
        window_bytes: 1_572_864,
        size_bytes: 8,
    };
    assert_eq!(rows[0].key, key);
    let Figures::Latency(figures) = rows[0].figures else { panic!("a latency") };
    assert_eq!((figures.cycles.min, figures.ns.p999, figures.outliers), (432.0, 10520.0, 5836));
}

/// `lat_cmd_details_cdf.csv` of the E3-1226 v3, the ends of two series.
#[test]
fn distributions_survive_a_round_trip() {
    let text = "cycles,ns,cdf\r\n432,360.0,0\r\n432,360.0,1.0728836059570312e-06\r\n6388976,5324146.666666667,1.0\r\n\
                432,360.0,0\r\n448,373.3333333333333,1.0\r\n";
    let series = parse_distributions(Path::new("c.csv"), text.as_bytes()).unwrap();
    assert_eq!(series.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(write::distributions(series.iter().map(Vec::as_slice)), text);
}

#[test]
fn errors_name_the_line() {
    let with =
        |from: &str, to: &str| table(&format!("{LAT}{LAT_ROW}{}", LAT_ROW.replace(from, to))).unwrap_err();
    for (from, to, message) in [
        ("HWarm", "Warm", "x/t.csv:3: Cache `Warm`: expected Cold, DThrash, DWarm, HWarm"),
        ("480.0", "fast", "x/t.csv:3: Med `fast`: expected 0 to 10^10 cycles"),
        ("400.0", "0.0", "x/t.csv:3: Med(ns) `0.0`: expected 0.001 to 10^9 ns"),
        ("400.0", "1e300", "x/t.csv:3: Med(ns) `1e300`: expected 0.001 to 10^9 ns"),
        ("400.0", "1e-300", "x/t.csv:3: Med(ns) `1e-300`: expected 0.001 to 10^9 ns"),
        ("6002240.0", "1000000001", "x/t.csv:3: Max(ns) `1000000001`: expected 0 to 10^9 ns"),
        ("1572864.0", "1.5", "x/t.csv:3: WinSZ `1.5`: expected whole numbers from 0"),
        ("HWarm,0,0", "HWarm,4294967296,0", "x/t.csv:3: HO `4294967296`: expected 0 to 4294967295"),
        (",2097152\r\n", "\r\n", "x/t.csv:3: 22 fields: the first line has 23"),
        (
            "LAT_CMD_RD",
            "BW_DMA_RD",
            "x/t.csv:3: BW_DMA_RD in a file for other tests: its figures have a column `BW (GB/s)`",
        ),
    ] {
        assert_eq!(with(from, to), message);
    }
    let fast = table(&format!("{BW}{}", BW_ROW.replace("41.04337019378296", "1e6"))).unwrap_err();
    assert_eq!(fast, "x/t.csv:2: BW (GB/s) `1e6`: expected 10^-6 to 10^5 Gb/s");
    let missing = table(&format!("{}{BW_ROW}", BW.replace("Trans/s", "Rate"))).unwrap_err();
    assert_eq!(missing, "x/t.csv:1: missing columns `Trans/s` of pcie-bench's form");
    let nothing = table("a,b\n1,2\n").unwrap_err();
    assert!(
        nothing.starts_with("x/t.csv:1: missing columns `Test`, `PAT`, `Cache`, `HO`, `DO`"),
        "{nothing}"
    );
    let share = parse_distributions(Path::new("c.csv"), b"cycles,ns,cdf\n16,13.3,1.5\n").unwrap_err();
    assert_eq!(share.to_string(), "c.csv:2: cdf 1.5: expected 0 to 1");
}

fn any_row() -> impl Strategy<Value = ResultRow> {
    let cycles = || proptest::collection::vec(1.0..1e9f64, 7);
    let ns = || proptest::collection::vec(prop_oneof![1.0..1e9f64, 1e-3..1.0f64], 7);
    let key = (0usize..4, 0usize..2, 0usize..4, 0u32..64, 0u32..64, 1u64..1 << 40, 1u32..4097);
    (key, cycles(), ns(), any::<u32>()).prop_map(|(k, cycles, ns, n)| {
        let of = |s: &[f64], whole: bool| {
            let at = |i: usize| if whole { s[i].trunc() } else { s[i] };
            Spread { elapsed: at(0), mean: s[1], median: s[2], min: at(3), max: at(4), p95: s[5], p999: s[6] }
        };
        let key = Key {
            test: Test::ALL[k.0],
            pattern: Pattern::ALL[k.1],
            cache: Cache::ALL[k.2],
            host_offset_bytes: k.3,
            device_offset_bytes: k.4,
            window_bytes: k.5,
            size_bytes: k.6,
        };
        let (outliers, samples) = (u64::from(n) / 3, u64::from(n));
        let figures = LatencyFigures { cycles: of(&cycles, true), ns: of(&ns, false), outliers, samples };
        ResultRow { key, figures: Figures::Latency(figures) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_rows_survive_a_round_trip(rows in proptest::collection::vec(any_row(), 1..20)) {
        prop_assert_eq!(table(&write::table(&rows)).unwrap(), rows);
    }

    /// One byte of a valid file is changed: the file is read, or rejected with an existing line.
    #[test]
    fn damaged_files_are_read_or_rejected(at: prop::sample::Index, byte: u8) {
        let mut bytes = format!("{LAT}{LAT_ROW}{LAT_ROW}").into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Err(error) = parse_table(Path::new("t.csv"), &bytes) {
            prop_assert!(error.line.is_none_or(|line| (1..=6).contains(&line)), "{}", error);
        }
    }
}
