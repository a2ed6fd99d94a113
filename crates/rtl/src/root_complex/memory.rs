// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory's side of the bus: AXI4 bursts of the root complex as accesses to the host's memory. Writes to the interrupt addresses of
//! x86 are interrupts. Independent of ports and of time.

use crate::beats::word;
use host::memory::DmaAccess;
use host::{HostInput, HostInterrupt, HostMemory};
use std::collections::VecDeque;
use std::ops::Range;
use tlp::Bdf;

/// Addresses whose writes are interrupts (Intel SDM volume 3, §11.11.1).
const INTERRUPTS: Range<u64> = 0xfee0_0000..0xfef0_0000;
/// The root complex is the requester of all bursts: AXI carries no Requester ID.
pub(super) const REQUESTER: Bdf = Bdf::from_bits(0);
/// Cycles until memory that has requested data elsewhere is asked again.
const ASK_AGAIN: u64 = 250;
const OKAY: u8 = 0;
const SLVERR: u8 = 2;
const DECERR: u8 = 3;

/// A burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Burst {
    pub(super) id: u8,
    pub(super) address: u64,
    pub(super) beats: u16,
}

/// Data and strobes of a beat.
pub(super) type WriteBeat = (Vec<u8>, u64);

/// A beat of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReadBeat {
    pub(super) id: u8,
    pub(super) data: Vec<u8>,
    pub(super) response: u8,
    pub(super) is_last: bool,
}

/// Memory on the bus.
pub(super) struct MemoryBus {
    memory: Option<HostMemory>,
    /// Bytes of a beat.
    width: usize,
    /// Cycles from a request to its answer.
    latency: u64,
    writes: VecDeque<Burst>,
    beats: VecDeque<WriteBeat>,
    /// Responses of writes: when they are due, ID, response.
    written: VecDeque<(u64, u8, u8)>,
    /// Reads, each with the time when it is due.
    reads: VecDeque<(u64, Burst)>,
    answers: VecDeque<ReadBeat>,
    /// Interrupts for the host.
    pub(super) interrupts: VecDeque<HostInput>,
    /// Bursts that memory has refused.
    pub(super) errors: u64,
}

impl MemoryBus {
    pub(super) fn new(width: usize, latency: u64) -> MemoryBus {
        MemoryBus {
            memory: None,
            width,
            latency,
            writes: VecDeque::new(),
            beats: VecDeque::new(),
            written: VecDeque::new(),
            reads: VecDeque::new(),
            answers: VecDeque::new(),
            interrupts: VecDeque::new(),
            errors: 0,
        }
    }

    /// Connects the memory.
    pub(super) fn connect(&mut self, memory: HostMemory) {
        self.memory = Some(memory);
    }

    /// The root complex is reset: all bursts are gone.
    pub(super) fn reset(&mut self) {
        let MemoryBus { memory, interrupts, .. } =
            std::mem::replace(self, MemoryBus::new(self.width, self.latency));
        (self.memory, self.interrupts) = (memory, interrupts);
    }

    /// Whether no burst is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.writes.is_empty()
            && self.beats.is_empty()
            && self.written.is_empty()
            && self.reads.is_empty()
            && self.answers.is_empty()
    }

    pub(super) fn push_write(&mut self, burst: Burst) {
        self.writes.push_back(burst);
    }

    pub(super) fn push_beat(&mut self, beat: WriteBeat) {
        self.beats.push_back(beat);
    }

    pub(super) fn push_read(&mut self, cycle: u64, burst: Burst) {
        self.reads.push_back((cycle + self.latency, burst));
    }

    /// Returns the response of a write that is due: ID, response. It stays until [`pop_response`](Self::pop_response).
    pub(super) fn response(&self, cycle: u64) -> Option<(u8, u8)> {
        self.written.front().filter(|(due, ..)| *due <= cycle).map(|(_, id, response)| (*id, *response))
    }

    pub(super) fn pop_response(&mut self) {
        self.written.pop_front();
    }

    /// Returns the next beat of a read. It stays until [`pop_answer`](Self::pop_answer).
    pub(super) fn answer(&self) -> Option<&ReadBeat> {
        self.answers.front()
    }

    pub(super) fn pop_answer(&mut self) {
        self.answers.pop_front();
    }

    /// Carries out what is complete and due at `cycle`.
    pub(super) fn work(&mut self, cycle: u64) {
        if let Some(burst) = self.writes.front().copied()
            && self.beats.len() >= usize::from(burst.beats)
        {
            self.writes.pop_front();
            let response = self.write(burst);
            self.errors += u64::from(response != OKAY);
            self.written.push_back((cycle + self.latency, burst.id, response));
        }
        if self.answers.is_empty()
            && let Some((due, burst)) = self.reads.front().copied()
            && due <= cycle
        {
            match self.read(burst) {
                Some((data, response)) => {
                    self.reads.pop_front();
                    self.errors += u64::from(response != OKAY);
                    let beats = data.chunks(self.width).enumerate();
                    self.answers.extend(beats.map(|(n, data)| ReadBeat {
                        id: burst.id,
                        data: data.to_vec(),
                        response,
                        is_last: n + 1 == usize::from(burst.beats),
                    }));
                }
                None => self.reads[0].0 = cycle + ASK_AGAIN,
            }
        }
    }

    /// Writes the enabled bytes of a burst, one run after the other. Returns the response.
    fn write(&mut self, burst: Burst) -> u8 {
        let mut at = burst.address / self.width as u64 * self.width as u64;
        let (mut runs, mut response): (Vec<(u64, Vec<u8>)>, u8) = (Vec::new(), OKAY);
        for (data, strobes) in self.beats.drain(..usize::from(burst.beats)) {
            for (lane, byte) in data.iter().enumerate().filter(|(lane, _)| strobes >> lane & 1 == 1) {
                let address = at + lane as u64;
                match runs.last_mut() {
                    Some((start, bytes)) if *start + bytes.len() as u64 == address => bytes.push(*byte),
                    _ => runs.push((address, vec![*byte])),
                }
            }
            at += self.width as u64;
        }
        for (address, bytes) in runs {
            response = response.max(self.write_run(address, &bytes));
        }
        response
    }

    fn write_run(&mut self, address: u64, bytes: &[u8]) -> u8 {
        if INTERRUPTS.contains(&address) {
            let data = word(&bytes[..bytes.len().min(4)]);
            let interrupt = HostInterrupt::Message { requester: REQUESTER, address, data };
            self.interrupts.push_back(HostInput::Interrupt(interrupt));
            return OKAY;
        }
        let dma = DmaAccess::new(REQUESTER, address, bytes.len() as u32, true);
        match &self.memory {
            Some(memory) if memory.lets_dma(&dma) => match memory.write(address, bytes) {
                Ok(()) => OKAY,
                Err(_) => SLVERR,
            },
            _ => DECERR,
        }
    }

    /// Reads the words of a burst. `None`: memory has requested them elsewhere, and must be asked again.
    fn read(&self, burst: Burst) -> Option<(Vec<u8>, u8)> {
        let address = burst.address / self.width as u64 * self.width as u64;
        let mut data = vec![0; self.width * usize::from(burst.beats)];
        let dma = DmaAccess::new(REQUESTER, address, data.len() as u32, false);
        let Some(memory) = self.memory.as_ref().filter(|memory| memory.lets_dma(&dma)) else {
            return Some((data, DECERR));
        };
        match memory.read(address, &mut data) {
            Ok(()) => Some((data, OKAY)),
            Err(_) if memory.awaits() => None,
            Err(_) => Some((data, SLVERR)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 0x1_0000;

    fn bus() -> (MemoryBus, HostMemory) {
        let memory = HostMemory::new(BYTES, 0).unwrap();
        let mut bus = MemoryBus::new(16, 10);
        bus.connect(memory.clone());
        (bus, memory)
    }

    fn write(bus: &mut MemoryBus, address: u64, strobes: &[u64]) -> u8 {
        bus.push_write(Burst { id: 3, address, beats: strobes.len() as u16 });
        for (n, strobes) in strobes.iter().enumerate() {
            bus.push_beat(((0..16).map(|lane| (16 * n + lane) as u8 + 1).collect(), *strobes));
        }
        bus.work(100);
        assert_eq!(bus.response(109), None);
        let (id, response) = bus.response(110).unwrap();
        bus.pop_response();
        assert!(id == 3 && bus.is_idle());
        response
    }

    #[test]
    fn writes_change_enabled_bytes_only() {
        let (mut bus, memory) = bus();
        assert_eq!(write(&mut bus, 0x104, &[0xc030, 0x0007]), OKAY);
        let mut bytes = [0; 32];
        memory.read(0x100, &mut bytes).unwrap();
        let expected = [5, 6, 15, 16, 17, 18, 19];
        assert_eq!(bytes.iter().copied().filter(|byte| *byte > 0).collect::<Vec<_>>(), expected);
        assert_eq!((bytes[4], bytes[15], bytes[18]), (5, 16, 19));
    }

    #[test]
    fn reads_whole_words_after_their_latency() {
        let (mut bus, memory) = bus();
        memory.write(0x200, &[7; 40]).unwrap();
        bus.push_read(50, Burst { id: 1, address: 0x208, beats: 3 });
        bus.work(59);
        assert_eq!(bus.answer(), None);
        bus.work(60);
        let beats: Vec<ReadBeat> = std::iter::from_fn(|| {
            let beat = bus.answer().cloned();
            bus.pop_answer();
            beat
        })
        .collect();
        assert_eq!(beats.iter().map(|beat| beat.is_last).collect::<Vec<_>>(), [false, false, true]);
        assert!(beats.iter().all(|beat| (beat.id, beat.response) == (1, OKAY)));
        assert_eq!(beats.concat_data(), [[7; 40].as_slice(), &[0; 8]].concat());
    }

    trait ConcatData {
        fn concat_data(&self) -> Vec<u8>;
    }

    impl ConcatData for Vec<ReadBeat> {
        fn concat_data(&self) -> Vec<u8> {
            self.iter().flat_map(|beat| beat.data.clone()).collect()
        }
    }

    #[test]
    fn addresses_that_are_not_memory_get_decerr() {
        let (mut bus, _) = bus();
        assert_eq!(write(&mut bus, BYTES, &[1]), DECERR);
        bus.push_read(0, Burst { id: 0, address: BYTES - 16, beats: 2 });
        bus.work(10);
        assert_eq!(bus.answer().map(|beat| beat.response), Some(DECERR));
        assert_eq!(bus.errors, 2);
    }

    #[test]
    fn writes_to_interrupt_addresses_are_interrupts() {
        let (mut bus, _) = bus();
        assert_eq!(write(&mut bus, 0xfee0_3004, &[0x00f0]), OKAY);
        let Some(HostInput::Interrupt(HostInterrupt::Message { address, data, .. })) =
            bus.interrupts.pop_front()
        else {
            panic!("no interrupt")
        };
        assert_eq!((address, data), (0xfee0_3004, 0x0807_0605));
    }
}
