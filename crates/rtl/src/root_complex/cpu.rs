// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPU's side of the bus: requests of the host as AXI4 bursts of 64 bits, and their answers. All bursts have ID 0, so they are answered
//! in order. Independent of ports and of time.

use device::seam::CompletionError;
use host::{HostError, HostInput, HostOutput, HostReadId};
use std::borrow::Cow;
use std::collections::VecDeque;
use tlp::{Data, PayloadPool};

/// Bytes of the bus.
const WORD: u64 = 8;
/// Maximum number of beats of a burst.
const MOST_BEATS: u64 = 256;
/// AXI responses from which a request has failed: SLVERR, DECERR.
const SLVERR: u8 = 2;
const DECERR: u8 = 3;

/// Addresses of the root complex on the bus.
pub(super) const REGISTERS: u64 = 0xffff_ffff_0000_0000;
/// Register CONTROL, and its bit that enables the root complex.
const CONTROL: u64 = REGISTERS + 4;
const ENABLE: u32 = 1;
/// Configuration space: 4 KiB for each function.
pub(super) const ECAM: u64 = 0xffff_fffe_0000_0000;

/// A burst of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Burst {
    pub(super) address: u64,
    /// Logarithm of the bytes of a beat.
    pub(super) size: u8,
    pub(super) beats: u16,
}

/// Values that the RTL shows at an edge.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Seen {
    pub(super) aw_ready: bool,
    pub(super) w_ready: bool,
    /// Response of a write.
    pub(super) b: Option<u8>,
    pub(super) ar_ready: bool,
    /// Data and response of a beat.
    pub(super) r: Option<(u64, u8)>,
}

/// Values for the RTL until the next edge.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Shown {
    pub(super) aw: Option<Burst>,
    /// Data, strobes and WLAST of a beat.
    pub(super) w: Option<(u64, u8, bool)>,
    pub(super) ar: Option<Burst>,
}

/// A read whose beats arrive.
struct OpenRead {
    id: HostReadId,
    address: u64,
    data: Vec<u8>,
    /// Index of the next byte in `data`.
    at: usize,
    /// First lane and number of bytes of each beat to come.
    beats: VecDeque<(u8, u8)>,
    worst: u8,
}

enum Op {
    Read { open: Option<OpenRead>, bursts: VecDeque<Burst> },
    Write { id: Option<HostReadId>, address: u64, burst: Option<Burst>, beats: VecDeque<(u64, u8)> },
}

/// The CPU's side of the bus.
pub(super) struct Cpu {
    pool: PayloadPool,
    queue: VecDeque<Op>,
    reads: VecDeque<OpenRead>,
    /// Writes without a response, with their addresses.
    writes: VecDeque<(Option<HostReadId>, u64)>,
    shown: Shown,
    /// Ends of requests, for the host.
    pub(super) ends: VecDeque<HostInput>,
    /// Requests that this bus does not have: I/O, AtomicOps, deferrable writes, locked reads, messages.
    pub(super) refused: u64,
    /// Posted writes with an error response.
    pub(super) failed_writes: u64,
    /// Cycles since the last handshake while a request waits.
    idle_cycles: u64,
    most_cycles: u64,
    /// Why the bus is given up.
    dead: Option<String>,
}

impl Cpu {
    /// A bus whose accesses may wait for `most_cycles`.
    pub(super) fn new(most_cycles: u64) -> Cpu {
        Cpu {
            pool: PayloadPool::new(),
            queue: VecDeque::new(),
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            shown: Shown::default(),
            ends: VecDeque::new(),
            refused: 0,
            failed_writes: 0,
            idle_cycles: 0,
            most_cycles,
            dead: None,
        }
    }

    /// The root complex is reset: all requests fail, and the bus works again.
    pub(super) fn reset(&mut self) {
        self.fail_all();
        (self.shown, self.dead, self.idle_cycles) = (Shown::default(), None, 0);
    }

    /// Enables the root complex, as its first access.
    pub(super) fn enable(&mut self) {
        self.write(None, CONTROL, &ENABLE.to_le_bytes(), |_| true);
    }

    /// Whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.reads.is_empty() && self.writes.is_empty()
    }

    /// Why the bus was given up, if it was.
    pub(super) fn dead(&self) -> Option<&String> {
        self.dead.as_ref()
    }

    /// Takes a request of the host.
    pub(super) fn accept(&mut self, mut request: HostOutput) {
        if self.dead.is_some() {
            let id = request.id_mut().copied();
            return self.end(id, Err(HostError::CompletionTimeout));
        }
        match request {
            HostOutput::ConfigRead { id, function, register_dw, byte_enables } => {
                let (lane, bytes) = config_bytes(byte_enables);
                let address = config_address(function.bits(), register_dw) + lane;
                self.read(id, address, bytes as usize, 4, lane as usize);
            }
            HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
                let address = config_address(function.bits(), register_dw);
                self.write(Some(id), address, &value.to_le_bytes(), |n| byte_enables >> n & 1 == 1);
            }
            HostOutput::MmioRead { id, address, len, locked: false } => {
                self.read(id, address, len as usize, len as usize, 0);
            }
            HostOutput::MmioWrite { address, data } => {
                let bytes = data.bytes().map_or_else(|| vec![0; data.len()].into(), Cow::from);
                let mut at = 0;
                while at < bytes.len() {
                    let start = address + at as u64;
                    let room = (MOST_BEATS * WORD - start % WORD) as usize;
                    let part = &bytes[at..bytes.len().min(at + room)];
                    self.write(None, start, part, |_| true);
                    at += part.len();
                }
            }
            // Messages need no choice here: INTx arrive as wires.
            HostOutput::TakeMessages(_) => {}
            mut other => {
                self.refused += 1;
                let id = other.id_mut().copied();
                self.end(id, Err(HostError::Completion(CompletionError::UnsupportedRequest)));
            }
        }
    }

    /// Queues a read of `len` bytes, whose answer has `whole` bytes and these bytes `at` a place in them.
    fn read(&mut self, id: HostReadId, address: u64, len: usize, whole: usize, at: usize) {
        let bursts = bursts(address, len as u64);
        let beats = bursts.iter().flat_map(|burst| {
            let beat = move |n: u16| burst.address + (u64::from(n) << burst.size);
            (0..burst.beats).map(move |n| ((beat(n) % WORD) as u8, 1 << burst.size))
        });
        let beats = beats.collect();
        let open = OpenRead { id, address, data: vec![0; whole], at, beats, worst: 0 };
        self.queue.push_back(Op::Read { open: Some(open), bursts });
    }

    /// Queues a write of the bytes whose index is enabled, in one burst of whole words.
    fn write(
        &mut self,
        id: Option<HostReadId>,
        address: u64,
        bytes: &[u8],
        is_enabled: impl Fn(usize) -> bool,
    ) {
        let first = address / WORD * WORD;
        let count = (address + bytes.len() as u64 - first).div_ceil(WORD);
        let mut beats: VecDeque<(u64, u8)> = (0..count).map(|_| (0, 0)).collect();
        for (n, byte) in bytes.iter().enumerate().filter(|(n, _)| is_enabled(*n)) {
            let at = address + n as u64 - first;
            let (data, strobes) = &mut beats[(at / WORD) as usize];
            *data |= u64::from(*byte) << (8 * (at % WORD));
            *strobes |= 1 << (at % WORD);
        }
        let size = WORD.trailing_zeros() as u8;
        let burst = Some(Burst { address: first, size, beats: count as u16 });
        self.queue.push_back(Op::Write { id, address, burst, beats });
    }

    /// Handles an edge: takes the outputs of the RTL, and returns its inputs until the next edge.
    pub(super) fn edge(&mut self, seen: &Seen) -> Shown {
        let moved = self.take(seen);
        self.idle_cycles = if moved || self.is_idle() { 0 } else { self.idle_cycles + 1 };
        if self.idle_cycles > self.most_cycles {
            self.give_up();
        }
        self.shown = self.show();
        self.shown
    }

    /// Carries out the handshakes of an edge. Returns whether there was one.
    fn take(&mut self, seen: &Seen) -> bool {
        let Shown { aw, w, ar } = self.shown;
        let mut moved = false;
        match self.queue.front_mut() {
            Some(Op::Write { id, address, burst, beats }) => {
                if aw.is_some() && seen.aw_ready {
                    (*burst, moved) = (None, true);
                }
                if w.is_some() && seen.w_ready {
                    beats.pop_front();
                    moved = true;
                }
                if burst.is_none() && beats.is_empty() {
                    self.writes.push_back((*id, *address));
                    self.queue.pop_front();
                }
            }
            Some(Op::Read { open, bursts }) if ar.is_some() && seen.ar_ready => {
                moved = true;
                self.reads.extend(open.take());
                bursts.pop_front();
                if bursts.is_empty() {
                    self.queue.pop_front();
                }
            }
            _ => {}
        }
        if let Some(response) = seen.b
            && let Some((id, _)) = self.writes.pop_front()
        {
            moved = true;
            self.failed_writes += u64::from(response >= SLVERR && id.is_none());
            self.end(id, checked(response, Data::NONE));
        }
        if let Some((data, response)) = seen.r {
            moved = true;
            self.take_beat(data, response);
        }
        moved
    }

    fn take_beat(&mut self, data: u64, response: u8) {
        let Some(read) = self.reads.front_mut() else { return };
        let Some((lane, bytes)) = read.beats.pop_front() else { return };
        let bytes = &data.to_le_bytes()[usize::from(lane)..][..usize::from(bytes)];
        read.data[read.at..read.at + bytes.len()].copy_from_slice(bytes);
        read.at += bytes.len();
        read.worst = read.worst.max(response);
        if read.beats.is_empty()
            && let Some(OpenRead { id, data, worst, .. }) = self.reads.pop_front()
        {
            let data = Data::Carried(self.pool.copy(&data));
            self.end(Some(id), checked(worst, data));
        }
    }

    /// A read waits for the responses of all writes before it, as a processor's uncached reads do.
    fn show(&self) -> Shown {
        match self.queue.front() {
            Some(Op::Write { burst, beats, .. }) => {
                let w = beats.front().map(|(data, strobes)| (*data, *strobes, beats.len() == 1));
                Shown { aw: *burst, w, ar: None }
            }
            Some(Op::Read { bursts, .. }) if self.writes.is_empty() => {
                Shown { ar: bursts.front().copied(), ..Shown::default() }
            }
            _ => Shown::default(),
        }
    }

    /// No handshake for too long: all requests fail, and further ones fail at once.
    fn give_up(&mut self) {
        let read = self.reads.front().map(|read| ("read of", read.address));
        let write = self.writes.front().map(|(_, address)| ("write to", *address));
        let queued = self.queue.front().map(|op| match op {
            Op::Read { bursts, .. } => ("read of", bursts.front().map_or(0, |burst| burst.address)),
            Op::Write { address, .. } => ("write to", *address),
        });
        let (what, address) = read.or(write).or(queued).unwrap_or(("access to", 0));
        let cycles = self.most_cycles;
        self.dead = Some(format!(
            "the root complex has not answered a {what} {address:#x} on its bus for {cycles} cycles (access_timeout_us); expected a response"
        ));
        self.fail_all();
    }

    fn fail_all(&mut self) {
        let mut ids: Vec<HostReadId> = self.reads.drain(..).map(|read| read.id).collect();
        ids.extend(self.writes.drain(..).filter_map(|(id, _)| id));
        ids.extend(self.queue.drain(..).filter_map(|op| match op {
            Op::Read { open, .. } => open.map(|open| open.id),
            Op::Write { id, .. } => id,
        }));
        for id in ids {
            self.end(Some(id), Err(HostError::CompletionTimeout));
        }
    }

    fn end(&mut self, id: Option<HostReadId>, result: Result<Data, HostError>) {
        self.ends.extend(id.map(|id| HostInput::Done { id, result }));
    }
}

fn config_address(function: u16, register_dw: u16) -> u64 {
    ECAM + (u64::from(function) << 12) + 4 * u64::from(register_dw)
}

/// First lane and number of bytes of the access for these Byte Enables: one or two aligned bytes, otherwise all four.
fn config_bytes(enables: u8) -> (u64, u64) {
    match enables & 0xf {
        0b0001 => (0, 1),
        0b0010 => (1, 1),
        0b0100 => (2, 1),
        0b1000 => (3, 1),
        0b0011 => (0, 2),
        0b1100 => (2, 2),
        _ => (0, 4),
    }
}

/// Bursts of naturally aligned beats that read exactly these bytes: a device may not see reads of others.
fn bursts(address: u64, len: u64) -> VecDeque<Burst> {
    let (mut at, end) = (address, address + len);
    let mut bursts = VecDeque::new();
    while at < end {
        let words = ((end - at) / WORD).min(MOST_BEATS);
        let (size, beats) = if at.is_multiple_of(WORD) && words > 0 {
            (WORD.trailing_zeros(), words)
        } else {
            let fits = |size: &u32| at.is_multiple_of(1 << size) && at + (1 << size) <= end;
            ((0..3).rev().find(fits).unwrap_or(0), 1)
        };
        bursts.push_back(Burst { address: at, size: size as u8, beats: beats as u16 });
        at += beats << size;
    }
    bursts
}

fn checked(response: u8, data: Data) -> Result<Data, HostError> {
    match response {
        DECERR => Err(HostError::Completion(CompletionError::UnsupportedRequest)),
        SLVERR => Err(HostError::Completion(CompletionError::CompleterAbort)),
        _ => Ok(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::Bdf;

    const fn burst(address: u64, size: u8, beats: u16) -> Burst {
        Burst { address, size, beats }
    }

    #[test]
    fn reads_exactly_the_bytes_that_the_host_asks_for() {
        assert_eq!(bursts(0x1000, 4), [burst(0x1000, 2, 1)]);
        assert_eq!(bursts(0x1004, 8), [burst(0x1004, 2, 1), burst(0x1008, 2, 1)]);
        let all = [
            burst(0x1001, 0, 1),
            burst(0x1002, 1, 1),
            burst(0x1004, 2, 1),
            burst(0x1008, 3, 2),
            burst(0x1018, 0, 1),
        ];
        assert_eq!(bursts(0x1001, 24), all);
        assert_eq!(bursts(0x1000, 4096), [burst(0x1000, 3, 256), burst(0x1800, 3, 256)]);
    }

    /// Runs a bus without waits. Memory repeats the low byte of each address; `response` answers all.
    fn run(cpu: &mut Cpu, response: u8) -> (Vec<Burst>, Vec<(u64, u8, bool)>) {
        let (mut seen, mut bursts, mut written) = (Seen::default(), Vec::new(), Vec::new());
        let mut reads: VecDeque<u64> = VecDeque::new();
        for _ in 0..2000 {
            let Shown { aw, w, ar } = cpu.edge(&seen);
            bursts.extend(aw.into_iter().chain(ar));
            written.extend(w);
            if let Some(Burst { address, size, beats }) = ar {
                reads.extend((0..u64::from(beats)).map(|n| address + (n << size)));
            }
            let word =
                |address: u64| u64::from_le_bytes(std::array::from_fn(|n| (address / 8 * 8) as u8 + n as u8));
            let r = reads.pop_front().map(|address| (word(address), response));
            let b = w.filter(|(_, _, last)| *last).map(|_| response);
            seen = Seen { aw_ready: true, w_ready: true, ar_ready: true, b, r };
        }
        (bursts, written)
    }

    fn ended(cpu: &mut Cpu) -> Vec<(u32, Result<Vec<u8>, HostError>)> {
        let end = |input| match input {
            HostInput::Done { id, result } => {
                (id.0, result.map(|data| data.bytes().unwrap_or_default().to_vec()))
            }
            other => panic!("{other:?}"),
        };
        cpu.ends.drain(..).map(end).collect()
    }

    fn requests() -> Vec<HostOutput> {
        let function = Bdf::from_bits(0x0108);
        let data = Data::Carried(PayloadPool::new().copy(&[1, 2, 3]));
        vec![
            HostOutput::ConfigRead { id: HostReadId(1), function, register_dw: 3, byte_enables: 0b1100 },
            HostOutput::ConfigWrite {
                id: HostReadId(2),
                function,
                register_dw: 1,
                byte_enables: 0b0110,
                value: 0x0403_0201,
            },
            HostOutput::MmioWrite { address: 0x2006, data },
            HostOutput::MmioRead { id: HostReadId(3), address: 0x3003, len: 6, locked: false },
            HostOutput::IoRead { id: HostReadId(4), address: 0, len: 4 },
        ]
    }

    #[test]
    fn requests_become_bursts_and_answers() {
        let mut cpu = Cpu::new(100);
        requests().into_iter().for_each(|request| cpu.accept(request));
        let (bursts, written) = run(&mut cpu, 0);
        let at = ECAM + 0x10_8000;
        let all = [
            burst(at + 14, 1, 1),
            burst(at, 3, 1),
            burst(0x2000, 3, 2),
            burst(0x3003, 0, 1),
            burst(0x3004, 2, 1),
            burst(0x3008, 0, 1),
        ];
        assert_eq!(bursts, all);
        let words =
            [(0x0003_0200 << 32, 0b0110_0000, true), (0x0201 << 48, 0b1100_0000, false), (3, 1, true)];
        assert_eq!(written, words);
        let unsupported = HostError::Completion(CompletionError::UnsupportedRequest);
        let ends = [
            (4, Err(unsupported)),
            (1, Ok(vec![0, 0, 0x0e, 0x0f])),
            (2, Ok(vec![])),
            (3, Ok(vec![3, 4, 5, 6, 7, 8])),
        ];
        assert_eq!(ended(&mut cpu), ends);
        assert!(cpu.is_idle() && cpu.refused == 1);
    }

    #[test]
    fn error_responses_fail_requests_and_are_counted_for_posted_writes() {
        use CompletionError::{CompleterAbort, UnsupportedRequest};
        for (response, error) in [(2, CompleterAbort), (3, UnsupportedRequest)] {
            let mut cpu = Cpu::new(100);
            requests().into_iter().take(4).for_each(|request| cpu.accept(request));
            run(&mut cpu, response);
            let error = HostError::Completion(error);
            assert_eq!(ended(&mut cpu), [1, 2, 3].map(|id| (id, Err(error))));
            assert_eq!(cpu.failed_writes, 1);
        }
    }

    #[test]
    fn bus_without_answers_is_given_up() {
        let mut cpu = Cpu::new(50);
        requests().into_iter().take(4).for_each(|request| cpu.accept(request));
        (0..60).for_each(|_| _ = cpu.edge(&Seen::default()));
        assert_eq!(ended(&mut cpu), [1, 2, 3].map(|id| (id, Err(HostError::CompletionTimeout))));
        let why = "a read of 0xfffffffe0010800e on its bus for 50 cycles";
        assert!(cpu.dead().is_some_and(|text| text.contains(why)), "{:?}", cpu.dead());
        cpu.accept(requests().remove(0));
        assert_eq!(ended(&mut cpu), [(1, Err(HostError::CompletionTimeout))]);
        // After a reset the bus works again.
        cpu.reset();
        cpu.accept(requests().remove(0));
        run(&mut cpu, 0);
        assert_eq!(ended(&mut cpu), [(1, Ok(vec![0, 0, 0x0e, 0x0f]))]);
    }
}
