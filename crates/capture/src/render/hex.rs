// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes as text in the format of `tcpdump -X`.

use super::append_hex;
use std::fmt::Write as _;

/// Bytes per line.
const LINE_BYTES: usize = 16;

/// Appends the bytes in lines of 16, with a line end before each: offset, bytes in hexadecimal, and ASCII. If the
/// capture has fewer than `bytes` bytes, a last line says how many.
pub fn append_hex_dump(data: &[u8], bytes: usize, out: &mut String) {
    for (line, chunk) in data.chunks(LINE_BYTES).enumerate() {
        out.push_str("\n\t0x");
        append_hex((line * LINE_BYTES) as u64, 4, out);
        out.push_str(": ");
        for place in 0..LINE_BYTES {
            out.push_str(if place % 2 == 0 { " " } else { "" });
            match chunk.get(place) {
                Some(byte) => append_hex(u64::from(*byte), 2, out),
                None => out.push_str("  "),
            }
        }
        out.push_str("  ");
        let shown = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
        out.extend(chunk.iter().map(shown));
    }
    if data.len() < bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n\t{} of {bytes} data bytes captured", data.len());
    }
}

#[cfg(test)]
mod tests {
    use super::append_hex_dump;

    #[test]
    fn dumps_bytes_like_tcpdump() {
        let mut out = String::new();
        append_hex_dump(b"Ethernet\0\x01\x7f\xffpayload!", 24, &mut out);
        let lines = [
            "",
            "\t0x0000:  4574 6865 726e 6574 0001 7fff 7061 796c  Ethernet....payl",
            "\t0x0010:  6f61 6421                                oad!",
            "\t20 of 24 data bytes captured",
        ];
        assert_eq!(out, lines.join("\n"));
        out.clear();
        append_hex_dump(b"", 0, &mut out);
        assert_eq!(out, "");
    }
}
