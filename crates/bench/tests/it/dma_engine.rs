// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine fills its link, with a window sized by the round trip of its first reads.

use devices::dma_engine::{EngineReport, WindowReport};
use fabric::{Limits, Stop};
use lab::LabFile;
use model::{Dllps, Params, Transfer};
use plug::gbps;
use std::path::Path;
use tlp::Time;

/// Returns the rates of transfers of 1 MB in Gb/s for each direction, and the engine's window.
fn run(link: &str, host: &str, keys: &str) -> ([f64; 2], Option<WindowReport>) {
    let text = format!(
        "version = 1\n[host]\nprofile = '{host}'\n[link]\n{link}\nmps_bytes = 256\n[[slot]]\nname = 'card'\ndevice = 'dma-engine'\n\
         {keys}\nvfs = 0\nwindow = 0\nsize_bytes = 1048576\ntransfers = 16\noutstanding = 4\nlogic = 'plain'\n"
    );
    let lab = lab::parse(&devices::models(), Path::new("lab.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    let mut session = session::Session::new(&LabFile { lab, base: ".".into() }).unwrap();
    assert_eq!(session.fabric.run(Limits::default()), Stop::Finished);
    let shared = session.report_of::<EngineReport>().unwrap();
    let report = shared.get();
    let elapsed = report.elapsed(0, Time::MAX);
    let rates = [0, 1].map(|ring| gbps(report.functions[0].rings[ring].bytes, elapsed));
    (rates, report.window)
}

/// The limit is 97 % of the bandwidth that the closed form leaves after DLLPs and headers.
#[test]
fn megabyte_transfers_fill_the_link() {
    for (generation, lanes, host) in [(3, 8, "xeon-gold-6342"), (5, 16, "xeon-platinum-8480")] {
        let link = format!("gen = {generation}\nlanes = {lanes}");
        let params = Params::new(generation, lanes, 256, 512, 64).unwrap();
        let wire = model::exact(&params, Transfer::of(1 << 20), &Dllps::default()).unwrap();
        for (directions, least) in [
            ("h2d", [wire.read_gbps, 0.0]),
            ("d2h", [0.0, wire.write_gbps]),
            ("both", [wire.read_write_gbps; 2]),
        ] {
            let keys = format!("[slot.dma-engine]\ndirections = '{directions}'");
            let (rates, window) = run(&link, host, &keys);
            let all = rates.iter().zip(least).all(|(rate, wire)| *rate >= 0.97 * wire);
            assert!(all, "Gen{generation} x{lanes} {directions}: {rates:?} of {least:?} Gb/s, {window:?}");
            // The window is measured only if there are reads.
            assert_eq!(window.is_some(), directions != "d2h");
        }
    }
}

/// The window never exceeds what the round trip needs. If there are fewer tags, they limit it.
#[test]
fn round_trip_or_tags_determine_the_window() {
    let link = "gen = 5\nlanes = 16";
    let of = |keys: &str| {
        let (rates, window) = run(link, "xeon-platinum-8480", &format!("{keys}\ndirections = 'h2d'"));
        (rates[0], window.unwrap())
    };
    let (_, window) = of("[slot.dma-engine]");
    // 512 B take 8.126 ns of Gen5 x16.
    let wanted = (window.round_trip.as_ps() as f64 / 8126.0).ceil() as u64;
    assert_eq!((window.wanted, u64::from(window.places)), (wanted, wanted));
    let (rate, bound) = of("tags = 16\n[slot.dma-engine]");
    assert_eq!((bound.wanted, bound.places), (wanted, 16));
    // Little's law.
    let carried = 16.0 * 512.0 * 8.0 / (bound.round_trip.as_ps() as f64 / 1000.0);
    assert!((rate / carried - 1.0).abs() < 0.02, "{rate} of {carried} Gb/s");
    // Requests of 128 B are four times as many, and need 10-bit tags.
    let small = |keys: &str| of(&format!("{keys}[slot.dma-engine]\nread_bytes = 128"));
    let (few, many) = (small("").1, small("tags = 64\n").1);
    assert!(few.places > 3 * window.places && many.places == 64, "{few:?}, {many:?}");
}
