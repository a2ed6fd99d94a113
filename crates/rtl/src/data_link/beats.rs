// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames and TLPs as beats of a data link layer: byte k of a beat is in bits 8k+7:8k. Knows no port.

/// Bytes before a frame that belong to the physical layer.
pub(super) const PHY_BYTES: usize = 2;

/// One beat of some lanes of 32 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Beat {
    pub(super) lanes: Vec<u32>,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    /// Lane of the last double-word.
    pub(super) end: u32,
}

/// Splits bytes of whole double-words into beats.
pub(super) fn split(bytes: &[u8], lanes: usize) -> Vec<Beat> {
    let words: Vec<u32> = bytes.chunks(4).map(word).collect();
    let count = words.len().div_ceil(lanes);
    let beat = |(n, words): (usize, &[u32])| {
        let mut all = words.to_vec();
        all.resize(lanes, 0);
        Beat { lanes: all, is_first: n == 0, is_last: n + 1 == count, end: words.len() as u32 - 1 }
    };
    words.chunks(lanes).enumerate().map(beat).collect()
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// The bytes of a packet that arrives beat by beat.
#[derive(Default)]
pub(super) struct Gather {
    bytes: Vec<u8>,
    is_open: bool,
}

impl Gather {
    /// Takes a beat; returns the bytes after the last one. A beat outside of a packet is dropped.
    pub(super) fn push(&mut self, beat: &Beat) -> Option<Vec<u8>> {
        if beat.is_first {
            self.bytes.clear();
            self.is_open = true;
        }
        if !self.is_open {
            return None;
        }
        let count = if beat.is_last { beat.end as usize + 1 } else { beat.lanes.len() };
        let lanes = beat.lanes.iter().take(count);
        self.bytes.extend(lanes.flat_map(|lane| lane.to_le_bytes()));
        self.is_open = !beat.is_last;
        beat.is_last.then(|| std::mem::take(&mut self.bytes))
    }

    /// Whether a packet has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn reset(&mut self) {
        *self = Gather::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_split_and_gathered() {
        for (dwords, lanes, beats) in [(1, 2, 1), (2, 2, 1), (3, 2, 2), (9, 4, 3), (8, 8, 1), (70, 16, 5)] {
            let bytes: Vec<u8> = (0..4 * dwords).map(|n| n as u8).collect();
            let all = split(&bytes, lanes);
            assert_eq!(all.len(), beats);
            assert_eq!(all[0].lanes[0], 0x0302_0100);
            let mut gather = Gather::default();
            let (last, others) = all.split_last().unwrap();
            assert!(others.iter().all(|beat| gather.push(beat).is_none() && gather.is_open()));
            assert_eq!(gather.push(last), Some(bytes));
            assert!(!gather.is_open() && last.end as usize == (dwords - 1) % lanes);
        }
    }

    #[test]
    fn beat_without_a_begin_is_dropped() {
        let mut gather = Gather::default();
        let beat = Beat { lanes: vec![1, 2], is_first: false, is_last: true, end: 1 };
        assert_eq!(gather.push(&beat), None);
    }
}
