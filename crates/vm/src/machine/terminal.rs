// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terminal of this process, lent to the guest.

use crate::error::{Context, Error, Result};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;

/// Ctrl-A, after which a letter is for the machine.
const ESCAPE: u8 = 1;

/// Rows and columns of the terminal.
pub(super) fn size() -> Result<(u16, u16)> {
    if !isatty(rustix::stdio::stdin()) || !isatty(rustix::stdio::stdout()) {
        return Err(Error::Option(
            "a shell of the guest's needs a terminal as its stdin and stdout".to_owned(),
        ));
    }
    let size = tcgetwinsize(rustix::stdio::stdout()).context(|| "the terminal's size".to_owned())?;
    // A terminal that does not know its size says 0.
    let or = |value, default| if value == 0 { default } else { value };
    Ok((or(size.ws_row, 24), or(size.ws_col, 80)))
}

/// Raw mode, until it is dropped.
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
        // A terminal that is gone has no mode.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Finds what is for the machine in what is typed.
#[derive(Debug, Default)]
pub(super) struct Keys {
    escaped: bool,
}

impl Keys {
    /// What the guest gets of these bytes, or nothing more, where they end the machine.
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
    fn ctrl_a_x_is_for_the_machine_and_all_else_for_the_guest() {
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
            // One key after the other, and all at once.
            let mut keys = Keys::default();
            let single: Option<Vec<Vec<u8>>> = typed.iter().map(|byte| keys.take(&[*byte])).collect();
            assert_eq!(single.map(|keys| keys.concat()).as_deref(), expected, "{typed:?}");
            assert_eq!(Keys::default().take(typed).as_deref(), expected, "{typed:?}");
        }
    }
}
