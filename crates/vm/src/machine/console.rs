// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log of the guest's console. Converts line ends to line feeds, and keeps the end of the log to search it
//! for a panic.

use super::log::Log;

/// Bytes of the log to keep.
const KEPT: usize = 64 << 10;

/// Text that the kernel prints before it stops.
const PANIC: &str = "Kernel panic - not syncing: ";

/// The log so far.
#[derive(Debug, Default)]
pub(super) struct Console {
    tail: Vec<u8>,
    /// Whether the last byte was a carriage return.
    returned: bool,
}

impl Console {
    /// Takes received bytes, and returns the bytes for the caller: all except carriage returns before line feeds, which
    /// the serial line adds.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            if self.returned && byte != b'\n' {
                out.push(b'\r');
            }
            self.returned = byte == b'\r';
            if !self.returned {
                out.push(byte);
            }
        }
        self.tail.extend_from_slice(&out);
        let surplus = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..surplus);
        out
    }

    /// Returns the end of the log.
    pub(super) fn log(&self) -> Log {
        Log(String::from_utf8_lossy(&self.tail).into_owned())
    }

    /// Returns the rest of the first line that contains these words.
    fn behind(&self, words: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.tail);
        text.lines().find_map(|line| Some(line.split_once(words)?.1.to_owned()))
    }

    /// Returns the reason of a kernel panic in the log.
    pub(super) fn panic(&self) -> Option<String> {
        self.behind(PANIC)
    }

    /// Returns the failure of the init, if the init could write it only to the console.
    pub(super) fn failure(&self) -> Option<String> {
        self.behind("vm: failed ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_line_ends() {
        let text = b"a\r\nb\rc\r\r\n\n";
        for split in 0..text.len() {
            let mut console = Console::default();
            let mut out = console.take(&text[..split]);
            out.extend(console.take(&text[split..]));
            assert_eq!(out, b"a\nb\rc\r\n\n");
        }
    }

    #[test]
    fn finds_panic_in_kept_log() {
        let mut console = Console::default();
        assert_eq!((console.panic(), console.failure()), (None, None));
        for _ in 0..10_000 {
            console.take(b"[    1.000000] a line of the kernel's\r\n");
        }
        console.take(b"[    2.0] Kernel panic - not sync");
        console.take(b"ing: Attempted to kill init!\r\n[    2.1] vm: failed no port\r\n");
        assert_eq!(console.panic().as_deref(), Some("Attempted to kill init!"));
        assert_eq!(console.failure().as_deref(), Some("no port"));
        assert!(console.tail.len() <= KEPT);
    }
}
