// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints captures: one line per record, and statistics.
//!
//! `cargo run -p riser-capture --example trace FILE...`

use riser_capture::{Stats, open, render};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let mut reader = open(&path)?;
        let (mut stats, mut line) = (Stats::new(), String::new());
        println!("{path}");
        while let Some(record) = reader.next_record()? {
            stats.add(&record);
            line.clear();
            render::line(&record, &mut line);
            println!("{line}");
        }
        print!("{}", stats.report());
    }
    Ok(())
}
