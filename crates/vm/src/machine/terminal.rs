// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terminal of this process, used by the guest.

use crate::error::{Context, Error, Result};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;

/// Ctrl-A: the next letter is for the machine.
const ESCAPE: u8 = 1;

/// Returns rows and columns of the terminal.
pub(super) fn size() -> Result<(u16, u16)> {
    if !isatty(rustix::stdio::stdin()) || !isatty(rustix::stdio::stdout()) {
        return Err(Error::Option("a shell in the guest needs a terminal as stdin and stdout".to_owned()));
    }
    let size = tcgetwinsize(rustix::stdio::stdout()).context(|| "the terminal's size".to_owned())?;
    // A terminal without a known size reports 0.
    let or = |value, default| if value == 0 { default } else { value };
    Ok((or(size.ws_row, 24), or(size.ws_col, 80)))
}

/// Raw mode of the terminal until drop.
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    pub(super) fn new() -> io::Result<Raw> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // This fails only if the terminal no longer exists.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Finds commands for the machine in typed input.
#[derive(Debug, Default)]
pub(super) struct Keys {
    escaped: bool,
}

impl Keys {
    /// Returns the bytes for the guest, or `None` if they end the machine.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            match (std::mem::take(&mut self.escaped), byte) {
                (true, b'x' | b'X') => return None,
                (false, ESCAPE) => self.escaped = true,
                (true, ESCAPE) => out.push(ESCAPE),
                (true, other) => out.extend([ESCAPE, other]),
                (false, other) => out.push(other),
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ctrl_a_x_ends_the_machine() {
        for (typed, expected) in [
            (&b"ls\r"[..], Some(&b"ls\r"[..])),
            (b"\x03\x04", Some(b"\x03\x04")),
            (b"\x01\x01a", Some(b"\x01a")),
            (b"\x01\x01\x01\x01", Some(b"\x01\x01")),
            (b"\x01b", Some(b"\x01b")),
            (b"\x01\x01x", Some(b"\x01x")),
            (b"a\x01x", None),
            (b"\x01X", None),
        ] {
            // One key at a time, and all keys together.
            let mut keys = Keys::default();
            let single: Option<Vec<Vec<u8>>> = typed.iter().map(|byte| keys.take(&[*byte])).collect();
            assert_eq!(single.map(|keys| keys.concat()).as_deref(), expected, "{typed:?}");
            assert_eq!(Keys::default().take(typed).as_deref(), expected, "{typed:?}");
        }
    }
}
