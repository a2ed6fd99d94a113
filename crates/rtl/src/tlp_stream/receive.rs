// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts TLPs for the design to beats of a stream: bytes as in the specification, the first in bits 7:0, each TLP from the first lane.
//! Independent of the link.

use crate::common::emit;
use device::seam::Token;
use std::collections::VecDeque;
use tlp::Tlp;

/// Maximum number of words per beat.
const MOST_LANES: usize = 16;

/// A TLP for the design.
#[derive(Debug)]
struct Packet {
    words: Vec<u32>,
    /// For a request: the token that is returned when the design has accepted it.
    token: Option<Token>,
    /// One bit for the BAR that the TLP addresses.
    bars: u32,
    /// The first cycle in which the TLP may be presented.
    from: u64,
}

/// The beat that is presented until the design accepts it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Beat {
    pub(super) lanes: [u32; MOST_LANES],
    /// Number of these lanes that belong to the TLP.
    pub(super) kept: usize,
    pub(super) is_last: bool,
    pub(super) bars: u32,
    /// Token of the TLP that ends in this beat.
    token: Option<Token>,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Receive {
    waiting: VecDeque<Packet>,
    /// Number of words of the first TLP that were presented.
    at: usize,
    beat: Option<Beat>,
    taken: VecDeque<Token>,
    bytes: Vec<u8>,
    /// Buffers of sent TLPs, for reuse.
    spare: Vec<Vec<u32>>,
    pub(super) packets: u64,
}

impl Receive {
    pub(super) fn push(&mut self, tlp: &Tlp, token: Option<Token>, bar: Option<u8>, from: u64) {
        emit(tlp, &mut self.bytes);
        let mut words = self.spare.pop().unwrap_or_default();
        words.clear();
        words.extend(self.bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        let bars = bar.map_or(0, |bar| 1 << bar);
        self.waiting.push_back(Packet { words, token, bars, from });
    }

    /// Drops everything; tokens that were not returned become invalid.
    pub(super) fn reset(&mut self) {
        (self.at, self.beat) = (0, None);
        self.waiting.clear();
        self.taken.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.beat.is_none()
    }

    pub(super) fn next_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    pub(super) fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Returns the beat for the next cycle, with this number of lanes. `is_ready`: the design has accepted the shown beat.
    pub(super) fn next(&mut self, cycle: u64, lanes: usize, is_ready: bool) -> Option<Beat> {
        if is_ready && let Some(beat) = self.beat.take() {
            self.taken.extend(beat.token);
        }
        if self.beat.is_none() {
            self.beat = self.beat_of(cycle, lanes);
        }
        self.beat
    }

    fn beat_of(&mut self, cycle: u64, lanes: usize) -> Option<Beat> {
        let packet = self.waiting.front().filter(|packet| packet.from <= cycle)?;
        let rest = &packet.words[self.at..];
        let kept = rest.len().min(lanes);
        let mut beat = Beat { kept, is_last: kept == rest.len(), bars: packet.bars, ..Beat::default() };
        beat.lanes[..kept].copy_from_slice(&rest[..kept]);
        self.at += kept;
        if beat.is_last {
            self.at = 0;
            self.packets += 1;
            let packet = self.waiting.pop_front()?;
            beat.token = packet.token;
            self.spare.push(packet.words);
        }
        Some(beat)
    }
}
