// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the page of a capture, or of a generated capture with this number of TLPs.
//!
//! `cargo run --release -p riser-view --example page CAPTURE|TLPS OUT.html`

#[path = "../tests/it/common/generate.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod generate;

use capture::Reader;
use riser_view::trace::trace_page;
use std::error::Error;
use std::fs::File;
use std::io::Cursor;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, out] = args.as_slice() else { return Err("usage: page CAPTURE|TLPS OUT.html".into()) };
    let start;
    if let Ok(tlps) = what.parse() {
        let bytes = generate::generated(tlps);
        start = Instant::now();
        trace_page(&format!("{tlps} TLPs"), &mut Reader::new(Cursor::new(bytes))?, File::create(out)?)?;
    } else {
        start = Instant::now();
        trace_page(what, &mut capture::open(what)?, File::create(out)?)?;
    }
    println!("{} bytes in {:?}", std::fs::metadata(out)?.len(), start.elapsed());
    Ok(())
}
