// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packs plotly.js from the `plotly` crate for the page, deflated and in base64, to a third of its size. Needs no
//! network, because the package of that crate contains the script.

use base64::Engine;
use flate2::{Compression, write::ZlibEncoder};
use std::io::Write;
use std::path::PathBuf;

/// Returns the text of the first script element of `html` that contains plotly.js.
fn plotly_js(html: &str) -> &str {
    let scripts = html.split("<script").filter_map(|part| part.split_once('>'));
    let mut texts = scripts.filter_map(|(_, rest)| rest.rsplit_once("</script>")).map(|(text, _)| text);
    texts.find(|text| text.contains("plotly.js v")).expect("the plotly crate carries plotly.js")
}

fn packed(text: &str) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).expect("memory");
    base64::engine::general_purpose::STANDARD.encode(encoder.finish().expect("memory"))
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names it"));
    let sources = plotly::Plot::offline_js_sources();
    std::fs::write(out.join("plotly.b64"), packed(plotly_js(&sources))).expect("OUT_DIR takes files");
}
