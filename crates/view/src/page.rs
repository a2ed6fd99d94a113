// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Common parts of all pages: the head, a policy that forbids requests, data as JSON, and plotly.js. Untrusted text is
//! always escaped.

use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, Write};

const STYLE: &str = include_str!("shared/base.css");
const SCRIPT: &str = include_str!("shared/base.js");
const LICENCE: &str = include_str!("shared/licence.html");
/// plotly.js, compressed by build.rs.
const PLOTLY: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.b64"));
/// Placeholder in a page's markup for the licence of plotly.js.
const LICENCE_PLACE: &str = "<!-- licence -->";

/// The Content-Security-Policy of a page: it can run its own scripts, but cannot make requests.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; \
                      base-uri 'none'; form-action 'none'";

/// The parts of one kind of page.
pub(crate) struct Shell {
    /// Name of the command that writes the page, which follows the title.
    pub(crate) command: &'static str,
    /// Its HTML elements, with the placeholder for the licence of plotly.js.
    pub(crate) markup: &'static str,
    /// Its styles, in addition to the common ones.
    pub(crate) style: &'static str,
    /// Its scripts in the order of their dependencies. The last one defines `interfaceOfPage`. All of them are in one
    /// function, so that their names are local.
    pub(crate) scripts: &'static [&'static str],
}

impl Shell {
    /// Writes the page up to the end of its script.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write_head(&self, title: &str, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
        writeln!(out, "<meta name=\"viewport\" content=\"width=device-width\">")?;
        writeln!(out, "<meta name=\"color-scheme\" content=\"light dark\">")?;
        writeln!(out, "<title>{} - riser {}</title>", escape(title), self.command)?;
        writeln!(out, "<style>\n{STYLE}{}</style>\n</head>", self.style)?;
        writeln!(out, "<body>\n{}", self.markup.replace(LICENCE_PLACE, LICENCE.trim_end()))?;
        writeln!(out, "<script>\n\"use strict\";\nconst riser = (() => {{\n{SCRIPT}")?;
        for script in self.scripts {
            writeln!(out, "{script}")?;
        }
        writeln!(out, "return interfaceOfPage;\n}})();\n</script>")
    }
}

/// Writes `value` as JSON in an element `id`, for the page's script.
///
/// # Errors
/// Those of `out`, or a value that JSON cannot represent.
pub(crate) fn write_data(id: &str, value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<script type=\"application/json\" id=\"{id}\">{}</script>", json(value)?)
}

/// Writes plotly.js and the end of the page.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write_end(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<script type=\"text/plain\" id=\"plotly\">{PLOTLY}</script>")?;
    writeln!(out, "<script>riser.loaded();</script>\n</body>\n</html>")?;
    out.flush()
}

/// Escapes `text` for an element or a quoted attribute.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
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

// Without `<`, the text cannot end the script element.
fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn escapes_markup() {
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
    fn scripts_do_not_contain_end_of_script_element() {
        let shells = [&crate::trace::page::SHELL, &crate::report::SHELL];
        let scripts = shells.iter().flat_map(|shell| shell.scripts);
        for script in std::iter::once(&SCRIPT).chain(scripts) {
            assert!(!script.contains("</script"), "{}", &script[..80]);
            assert!(script.starts_with("// SPDX-License-Identifier: Apache-2.0 OR MIT"));
        }
    }

    #[test]
    fn pages_have_the_licence_of_plotly() {
        for shell in [&crate::trace::page::SHELL, &crate::report::SHELL] {
            let mut page = Vec::new();
            shell.write_head("title", &mut page).unwrap();
            let page = String::from_utf8(page).unwrap();
            assert_eq!(page.matches("The MIT License (MIT)").count(), 1, "{}", shell.command);
        }
    }

    #[test]
    fn packed_plotly_is_complete() {
        let mut js = String::new();
        let packed = STANDARD.decode(PLOTLY).unwrap();
        io::Read::read_to_string(&mut flate2::read::ZlibDecoder::new(&packed[..]), &mut js).unwrap();
        assert!(js.trim_start().starts_with("/**\n* plotly.js v"), "{}", &js[..40]);
        assert!(js.contains("Licensed under the MIT license"));
    }
}
