// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's console, as a log: line feeds alone, and the end of it kept, in which a panic is looked for.

/// Bytes of the log that are kept.
const KEPT: usize = 64 << 10;

/// What the kernel says before it stops.
const PANIC: &str = "Kernel panic - not syncing: ";

/// The log so far.
#[derive(Debug, Default)]
pub(super) struct Console {
    tail: Vec<u8>,
    /// A carriage return came last.
    returned: bool,
}

impl Console {
    /// What is to be passed on of bytes that have come: carriage returns before line feeds are the serial line's.
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

    /// The rest of the first line that has these words.
    fn behind(&self, words: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.tail);
        text.lines().find_map(|line| Some(line.split_once(words)?.1.to_owned()))
    }

    /// Why the kernel panicked, by the console.
    pub(super) fn panic(&self) -> Option<String> {
        self.behind(PANIC)
    }

    /// What the init said on the console, having nothing else to say it by.
    pub(super) fn failure(&self) -> Option<String> {
        self.behind("vm: failed ")
    }
}
