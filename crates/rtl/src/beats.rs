// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames and TLPs as beats of a data link layer: byte k of a beat is in bits 8k+7:8k. Independent of ports.

use link::{Ending, WireFrame, WireKind};
use std::collections::VecDeque;

/// Bytes before a frame that belong to the physical layer.
const PHY_BYTES: usize = 2;
/// Complete frames that wait for the wire: one more than the one that is next, so that none waits for the RTL.
const WAITING_FRAMES: usize = 2;

/// One beat of some lanes of 32 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Beat {
    pub(crate) lanes: Vec<u32>,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// Lane of the last double-word.
    pub(crate) end: u32,
}

/// Splits bytes of whole double-words into beats.
pub(crate) fn split(bytes: &[u8], lanes: usize) -> Vec<Beat> {
    let words: Vec<u32> = bytes.chunks(4).map(word).collect();
    let count = words.len().div_ceil(lanes);
    let beat = |(n, words): (usize, &[u32])| {
        let mut all = words.to_vec();
        all.resize(lanes, 0);
        Beat { lanes: all, is_first: n == 0, is_last: n + 1 == count, end: words.len() as u32 - 1 }
    };
    words.chunks(lanes).enumerate().map(beat).collect()
}

/// Returns at most four bytes as a number, the least significant first.
pub(crate) fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// The bytes of a packet that arrives beat by beat.
#[derive(Default)]
pub(crate) struct Gather {
    bytes: Vec<u8>,
    is_open: bool,
}

impl Gather {
    /// Takes a beat; returns the bytes after the last one. A beat outside of a packet is dropped.
    pub(crate) fn push(&mut self, beat: &Beat) -> Option<Vec<u8>> {
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
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn reset(&mut self) {
        *self = Gather::default();
    }
}

/// A beat of a frame for the RTL.
pub(crate) struct FrameBeat {
    pub(crate) beat: Beat,
    pub(crate) is_dllp: bool,
    pub(crate) ending: Ending,
}

/// Frames on both ways between riser and the RTL.
pub(crate) struct FrameSide {
    lanes: usize,
    coming: VecDeque<FrameBeat>,
    open: Gather,
    /// Frames that the RTL has sent.
    pub(crate) sent: VecDeque<WireFrame>,
    /// The level of `phy_tx_ready` since the last edge.
    is_ready: bool,
}

impl FrameSide {
    pub(crate) fn new(lanes: usize) -> FrameSide {
        FrameSide {
            lanes,
            coming: VecDeque::new(),
            open: Gather::default(),
            sent: VecDeque::new(),
            is_ready: false,
        }
    }

    /// The link is down: all frames are lost.
    pub(crate) fn clear(&mut self) {
        self.coming.clear();
        self.open.reset();
        self.sent.clear();
    }

    /// Takes a frame for the RTL.
    pub(crate) fn push(&mut self, frame: &WireFrame) {
        let mut bytes = vec![0; PHY_BYTES];
        bytes.extend_from_slice(&frame.bytes);
        let (is_dllp, ending) = (frame.kind == WireKind::Dllp, frame.ending);
        let beats = split(&bytes, self.lanes).into_iter();
        self.coming.extend(beats.map(|beat| FrameBeat { beat, is_dllp, ending }));
    }

    /// Returns the next beat for the RTL.
    pub(crate) fn next_beat(&mut self) -> Option<FrameBeat> {
        self.coming.pop_front()
    }

    /// Takes a beat that the RTL offers; it is transferred if riser was ready.
    pub(crate) fn offer(&mut self, beat: &Beat, is_dllp: bool, is_nullified: bool) {
        let Some(bytes) = self.is_ready.then(|| self.open.push(beat)).flatten() else { return };
        let kind = if is_dllp { WireKind::Dllp } else { WireKind::Tlp };
        let ending = if is_nullified { Ending::Nullified } else { Ending::Good };
        self.sent.push_back(WireFrame { kind, bytes: bytes[PHY_BYTES..].to_vec(), ending });
    }

    /// Returns whether riser is ready from now on. A frame that has begun is taken to its end.
    pub(crate) fn ready(&mut self) -> bool {
        self.is_ready = self.open.is_open() || self.sent.len() < WAITING_FRAMES;
        self.is_ready
    }

    /// Whether no frame is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.coming.is_empty() && self.sent.is_empty() && !self.open.is_open()
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
