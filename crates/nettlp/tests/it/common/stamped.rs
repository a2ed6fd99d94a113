// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that is rewritten all the time: every 8 bytes hold their address and the current version. So the data of
//! a read shows from which address and at which time it was read.

use tlp::Time;

/// Memory whose content depends on address and time.
#[derive(Clone, Copy)]
pub(crate) struct Stamped {
    /// Time in picoseconds after which the version changes.
    pub(crate) lifetime_ps: u64,
}

impl Stamped {
    /// Returns the version of a word. Lines of 64 bytes change at different times.
    pub(crate) fn version(self, word: u64, now: Time) -> u32 {
        let phase = (word / 8 % 64) * (self.lifetime_ps / 64);
        ((now.as_ps() + phase) / self.lifetime_ps) as u32
    }

    /// Returns the bytes of a word in a version.
    pub(crate) fn word(word: u64, version: u32) -> [u8; 8] {
        (u64::from(version) << 32 | word & 0xffff_ffff).to_le_bytes()
    }

    /// Fills `out` with the memory content from `address`.
    pub(crate) fn fill(self, address: u64, now: Time, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let at = address + done as u64;
            let (word, lead) = (at / 8, (at % 8) as usize);
            let len = (8 - lead).min(out.len() - done);
            let bytes = Stamped::word(word, self.version(word, now));
            out[done..done + len].copy_from_slice(&bytes[lead..lead + len]);
            done += len;
        }
    }

    /// Returns true if each word read at `address` holds that address, and a version that was current between `from` and `to`.
    pub(crate) fn is_current(self, address: u64, data: &[u8], from: Time, to: Time) -> bool {
        let mut done = 0;
        while done < data.len() {
            let at = address + done as u64;
            let (word, lead) = (at / 8, (at % 8) as usize);
            let len = (8 - lead).min(data.len() - done);
            let versions = self.version(word, from)..=self.version(word, to);
            let found = &data[done..done + len];
            if !versions.into_iter().any(|v| Stamped::word(word, v)[lead..lead + len] == *found) {
                return false;
            }
            done += len;
        }
        true
    }
}
