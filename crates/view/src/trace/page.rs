// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts the page together: markup, style and script of the project's own, the packed capture, and plotly.js. Never lets a
//! foreign byte into markup unescaped.

use super::tables::Meta;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

const MARKUP: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// plotly.js as build.rs packs it.
const PLOTLY: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.b64"));

/// The page's own script, in the order in which it needs itself. One function around all of it keeps the names inside.
const SCRIPTS: [&str; 11] = [
    include_str!("format.js"),
    include_str!("store.js"),
    include_str!("tlp.js"),
    include_str!("filter.js"),
    include_str!("list.js"),
    include_str!("details.js"),
    include_str!("series.js"),
    include_str!("credits.js"),
    include_str!("plots.js"),
    include_str!("views.js"),
    include_str!("app.js"),
];

/// What the page may do: run what stands in it, and ask for nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; \
                      base-uri 'none'; form-action 'none'";

/// Writes the page: everything up to the first chunk and a start of the script before the other chunks.
///
/// # Errors
/// Those of `out`.
pub fn write(title: &str, meta: &Meta, chunks: &[Vec<u8>], out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    write_head(title, &mut out)?;
    writeln!(out, "<script type=\"application/json\" id=\"meta\">{}</script>", json(meta)?)?;
    for (place, chunk) in chunks.iter().enumerate() {
        writeln!(out, "<script type=\"text/plain\" class=\"chunk\">{}</script>", STANDARD.encode(chunk))?;
        if place == 0 {
            writeln!(out, "<script>riser.start();</script>")?;
        }
    }
    writeln!(out, "<script type=\"text/plain\" id=\"plotly\">{PLOTLY}</script>")?;
    writeln!(out, "<script>riser.loaded();</script>\n</body>\n</html>")?;
    out.flush()
}

fn write_head(title: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width\">")?;
    writeln!(out, "<meta name=\"color-scheme\" content=\"light dark\">")?;
    writeln!(out, "<title>{} - riser trace</title>\n<style>\n{STYLE}</style>\n</head>", escape(title))?;
    writeln!(out, "<body>\n{MARKUP}")?;
    writeln!(out, "<script>\n\"use strict\";\nconst riser = (() => {{")?;
    for script in SCRIPTS {
        writeln!(out, "{script}")?;
    }
    writeln!(out, "return interfaceOfPage;\n}})();\n</script>")
}

/// `text` as it may stand in an element or a quoted attribute.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

// Within a script element, only `<` could end it.
fn json(meta: &Meta) -> io::Result<String> {
    Ok(serde_json::to_string(meta)?.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_markup_means() {
        let rows = [
            ("capture.pcap", "capture.pcap"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("a & \"b\" 'c'", "a &amp; &quot;b&quot; &#39;c&#39;"),
        ];
        for (text, escaped) in rows {
            assert_eq!(escape(text), escaped);
        }
    }

    #[test]
    fn nothing_of_ours_ends_its_script_early() {
        for script in SCRIPTS {
            assert!(!script.contains("</script"), "{}", &script[..80]);
            assert!(script.starts_with("// SPDX-License-Identifier: Apache-2.0 OR MIT"));
        }
    }

    #[test]
    fn plotly_is_packed() {
        let mut js = String::new();
        let packed = STANDARD.decode(PLOTLY).unwrap();
        io::Read::read_to_string(&mut flate2::read::ZlibDecoder::new(&packed[..]), &mut js).unwrap();
        assert!(js.trim_start().starts_with("/**\n* plotly.js v"), "{}", &js[..40]);
        assert!(js.contains("Licensed under the MIT license"));
    }
}
