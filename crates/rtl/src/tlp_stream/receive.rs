// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs for the design, as beats of a stream: the bytes of the specification, the first of them in bits 7:0, each TLP from the first lane on.
//! Knows no link.

use crate::common::emit;
use device::seam::Token;
use std::collections::VecDeque;
use tlp::Tlp;

/// Words of a beat at most.
const MOST_LANES: usize = 16;

/// A TLP for the design.
#[derive(Debug)]
struct Packet {
    words: Vec<u32>,
    /// The token by which it is taken, where it is a request.
    token: Option<Token>,
    /// A bit for the BAR that it is for.
    bars: u32,
    /// The cycle from which on it may be shown.
    from: u64,
}

/// What is shown for a cycle, until it is taken.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Beat {
    pub(super) lanes: [u32; MOST_LANES],
    /// How many of these belong to the TLP.
    pub(super) kept: usize,
    pub(super) is_last: bool,
    pub(super) bars: u32,
    /// Of the TLP that ends in it.
    token: Option<Token>,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Receive {
    waiting: VecDeque<Packet>,
    /// Words of the first that were shown.
    at: usize,
    beat: Option<Beat>,
    taken: VecDeque<Token>,
    bytes: Vec<u8>,
    /// Buffers of TLPs that are gone.
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

    /// Forgets all of it; tokens that were not given back are void.
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

    /// The beat of the next cycle, of so many lanes. `is_ready`: the design has taken what is shown.
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
