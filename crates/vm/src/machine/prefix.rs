// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefixes the output lines of one of several guests with its name.

use std::io::{self, Write};

/// Writes complete lines after a name. An incomplete last line is written when this is dropped.
pub struct Prefixed<W: Write> {
    name: String,
    to: W,
    line: Vec<u8>,
}

impl<W: Write> Prefixed<W> {
    /// Returns a writer of lines after `name: `.
    pub fn new(name: &str, to: W) -> Prefixed<W> {
        Prefixed { name: name.to_owned(), to, line: Vec::new() }
    }

    fn put(&mut self, line: &[u8]) -> io::Result<()> {
        let whole = [self.name.as_bytes(), b": ", line, b"\n"].concat();
        self.to.write_all(&whole)?;
        self.to.flush()
    }
}

impl<W: Write> Write for Prefixed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            self.put(&line[..end])?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write> Drop for Prefixed<W> {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            // A write error has already been returned by `write`.
            let _ = self.put(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_each_line_with_name() {
        let mut out = Vec::new();
        let mut prefixed = Prefixed::new("a", &mut out);
        prefixed.write_all(b"one\ntw").unwrap();
        prefixed.write_all(b"o\n\nrest").unwrap();
        drop(prefixed);
        assert_eq!(String::from_utf8(out).unwrap(), "a: one\na: two\na: \na: rest\n");
    }
}
