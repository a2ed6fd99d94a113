// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tracks which bytes of one read TLP have been received. Does not store the bytes.

use super::counters::Stray;

/// Maximum number of pieces received after a gap. A link keeps completions of one request in order (`PCIe 5.0 §2.4.1`),
/// so only the network reorders them.
const AHEAD: usize = 4;

/// The received bytes: all bytes before `received`, and some ranges after a gap.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    received: u16,
    ahead: [(u16, u16); AHEAD],
    kept: u8,
}

impl Progress {
    /// Returns the number of bytes that were received without a gap, counted from the first byte.
    pub(super) const fn received(&self) -> u16 {
        self.received
    }

    /// Records that bytes `start..end` were received.
    pub(super) fn add(&mut self, start: u16, end: u16) -> Result<(), Stray> {
        if start == self.received && self.kept == 0 {
            self.received = end;
            return Ok(());
        }
        self.add_out_of_order(start, end)
    }

    #[cold]
    fn add_out_of_order(&mut self, start: u16, end: u16) -> Result<(), Stray> {
        let ahead = &self.ahead[..usize::from(self.kept)];
        let whole = |from: u16, to: u16| from <= start && end <= to;
        if whole(0, self.received) || ahead.iter().any(|&(from, to)| whole(from, to)) {
            return Err(Stray::Repeated);
        }
        if start < self.received || ahead.iter().any(|&(from, to)| from < end && start < to) {
            return Err(Stray::Length);
        }
        if start > self.received {
            return self.keep(start, end);
        }
        self.received = end;
        self.join();
        Ok(())
    }

    fn keep(&mut self, start: u16, end: u16) -> Result<(), Stray> {
        let free = self.ahead.get_mut(usize::from(self.kept)).ok_or(Stray::Scattered)?;
        *free = (start, end);
        self.kept += 1;
        Ok(())
    }

    fn join(&mut self) {
        loop {
            let ahead = &self.ahead[..usize::from(self.kept)];
            let Some(next) = ahead.iter().position(|&(from, _)| from == self.received) else { return };
            self.received = self.ahead[next].1;
            self.kept -= 1;
            self.ahead[next] = self.ahead[usize::from(self.kept)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_pieces_in_any_order_but_only_once() {
        let rows: [(&[(u16, u16)], u16); 4] = [
            (&[(0, 64), (64, 128), (128, 200)], 200),
            (&[(128, 200), (64, 128), (0, 64)], 200),
            (&[(64, 128), (0, 64), (128, 200)], 200),
            (&[(64, 128), (128, 200)], 0),
        ];
        for (pieces, received) in rows {
            let mut progress = Progress::default();
            for &(start, end) in pieces {
                assert_eq!(progress.add(start, end), Ok(()));
                assert_eq!(progress.add(start, end), Err(Stray::Repeated), "{pieces:?}");
            }
            assert_eq!(progress.received(), received);
        }
    }

    #[test]
    fn refuses_overlapping_or_too_many_scattered_pieces() {
        let mut progress = Progress::default();
        progress.add(0, 64).unwrap();
        assert_eq!(progress.add(32, 96), Err(Stray::Length));
        progress.add(128, 192).unwrap();
        assert_eq!(progress.add(64, 132), Err(Stray::Length));
        for start in [256, 384, 512] {
            progress.add(start, start + 64).unwrap();
        }
        assert_eq!(progress.add(640, 700), Err(Stray::Scattered));
        assert_eq!(progress.received(), 64);
    }
}
