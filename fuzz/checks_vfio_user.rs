// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of a vfio-user session for any client. The fuzz target and the tests of `riser-guest` call them on every
//! seed and on random scripts. A failed check panics.

use riser_guest::vfio_user::{
    Errno, Event, IRQS, Irq, MAX_FDS, MAX_PENDING, PAGE_BYTES, REGIONS, Region, Session, Shape, Token, region,
};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;

/// Returns regions of every kind: missing, read-only, write-only, and with sizes that are not powers of two.
fn shape() -> Shape {
    let mut shape = Shape::new();
    shape.regions[0] = Region::of(0x2000);
    shape.regions[1] = Region { size: 0x1001, readable: true, writable: false };
    shape.regions[2] = Region { size: 7, readable: false, writable: true };
    shape.regions[4] = Region::of(u64::MAX);
    shape.regions[region::CONFIG] = Region::of(4096);
    shape.irqs = [1, 4, 9, 1, 1];
    shape.max_maps = 6;
    shape.max_transfer = 0x4000;
    shape
}

/// Reads a script piece by piece; zeros follow its end.
struct Script<'s>(&'s [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let byte = self.0.first().copied().unwrap_or_default();
        self.0 = self.0.get(1..).unwrap_or_default();
        byte
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }
}

/// An event that is not completed yet.
enum Open {
    Read(usize),
    Other,
}

struct Run {
    shape: Shape,
    session: Session,
    open: VecDeque<(Token, Open)>,
    /// Commands sent that need a reply, minus their replies, by id and command.
    awaited: BTreeMap<(u16, u16), i64>,
    /// Commands of the server that wait for a reply: id, command, address, count.
    asked: VecDeque<(u16, u16, u64, u64)>,
    next_id: u16,
    /// True if bytes other than complete messages were sent, so that the expected replies are unknown.
    is_raw: bool,
    over: bool,
    received: Vec<u8>,
    /// The maps of the client according to the events.
    maps: BTreeMap<u64, u64>,
}

/// Runs a script to its end. Returns the number of events.
pub(crate) fn script(script: &[u8]) -> usize {
    let mut script = Script(script);
    let shape = shape();
    let mut run = Run {
        session: Session::new(&shape),
        shape,
        open: VecDeque::new(),
        awaited: BTreeMap::new(),
        asked: VecDeque::new(),
        next_id: 0,
        is_raw: false,
        over: false,
        received: Vec::new(),
        maps: BTreeMap::new(),
    };
    let mut events = 0;
    while !script.0.is_empty() {
        run.step(&mut script);
        events += run.poll();
    }
    events + run.end()
}

impl Run {
    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() {
            0 => {
                let len = script.byte().into();
                self.is_raw = true;
                self.session.receive(&script.take(len), []);
            }
            1 => self.complete(script.byte(), false),
            2 => self.complete(script.byte(), true),
            3 => self.dma(script, true),
            4 => self.dma(script, false),
            5 => self.answer(script),
            6 => self.send(usize::from(script.byte()) + 1),
            7 => self.signal(script),
            8 => self.session.closed((script.byte() > 127).then_some(Errno::IO)),
            9 => self.version(script),
            command => self.command(script, command),
        }
    }

    /// Sends a command with number, flags, descriptors and payload from the script. Each may be wrong.
    fn command(&mut self, script: &mut Script<'_>, byte: u8) {
        let command = u16::from(byte - 10) % 24;
        let [flags, fds, len] = [script.byte(), script.byte(), script.byte()];
        let mut payload = script.take(len.into());
        // A few payloads are large, like those of writes and JSON.
        if fds & 0x40 != 0 {
            payload.resize(payload.len() + 0x1000, 0);
        }
        let flags = u32::from(flags & 0x10) | u32::from(flags == 0xff) << 7;
        let fds = usize::from(fds & 0x3f) % (MAX_FDS + 3);
        self.send_command(command, flags, &payload, fds, usize::from(byte >> 5));
    }

    fn version(&mut self, script: &mut Script<'_>) {
        const TEXTS: [&str; 4] = [
            "",
            "{}\0",
            "{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":4096,\"pgsizes\":4096,\"write_multiple\":true}}\0",
            "{\"capabilities\":{\"max_data_xfer_size\":0}}\0",
        ];
        let choice = script.byte();
        let text = TEXTS[usize::from(choice) % TEXTS.len()].as_bytes();
        let payload = [&[0, 0, 0, choice >> 4], text].concat();
        self.send_command(1, 0, &payload, 0, 0);
    }

    /// Sends a command as one piece, or in `cuts` more pieces.
    fn send_command(&mut self, command: u16, flags: u32, payload: &[u8], fds: usize, cuts: usize) {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let size = 16 + payload.len() as u32;
        let mut bytes = [&id.to_ne_bytes()[..], &command.to_ne_bytes()].concat();
        for field in [size, flags, 0] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(payload);
        if flags & 0x10 == 0 {
            *self.awaited.entry((id, command)).or_default() += 1;
        }
        let piece = bytes.len().div_ceil(cuts + 1);
        let mut fds: Vec<OwnedFd> =
            (0..fds).map(|_| File::open("/dev/null").expect("a file").into()).collect();
        for piece in bytes.chunks(piece) {
            self.session.receive(piece, fds.drain(..));
        }
    }

    fn complete(&mut self, pick: u8, fails: bool) {
        if self.open.is_empty() {
            return;
        }
        let at = usize::from(pick) % self.open.len();
        let Some((token, open)) = self.open.remove(at) else { return };
        let data = vec![pick; if let Open::Read(len) = open { len } else { 0 }];
        self.session.complete(token, if fails { Err(Errno::IO) } else { Ok(&data) });
    }

    fn dma(&mut self, script: &mut Script<'_>, reads: bool) {
        let address = u64::from(script.byte()) * PAGE_BYTES / 2;
        let len = u64::from(script.byte()) * 64;
        let _ = if reads {
            self.session.dma_read(address, len)
        } else {
            self.session.dma_write(address, &vec![1; len as usize])
        };
    }

    /// Answers a command of the server, sometimes wrongly.
    fn answer(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        let Some((id, command, address, count)) = self.asked.pop_front() else { return };
        let data = vec![how; if command == 11 { count as usize } else { 0 }];
        let mut payload = [&address.to_ne_bytes()[..], &count.to_ne_bytes(), &data].concat();
        if how % 8 == 7 {
            payload.pop();
        }
        let flags: u32 = if how % 8 == 6 { 0x21 } else { 1 };
        let mut bytes = [&id.to_ne_bytes()[..], &command.to_ne_bytes()].concat();
        for field in [16 + payload.len() as u32, flags, u32::from(how)] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(payload);
        self.session.receive(&bytes, []);
    }

    fn signal(&mut self, script: &mut Script<'_>) {
        let irq = Irq::ALL[usize::from(script.byte()) % IRQS];
        let n = script.byte().into();
        let was_masked = self.session.is_masked(irq, n);
        let signalled = self.session.signal(irq, n).is_some();
        assert!(!(was_masked && signalled));
        assert!(!signalled || n < self.shape.irqs[irq as usize]);
        assert_eq!(irq == Irq::Intx && signalled, !was_masked && self.session.is_masked(irq, n));
    }

    /// Takes up to `most` outgoing bytes, and reads the messages.
    fn send(&mut self, most: usize) {
        let count = self.session.outgoing().len().min(most);
        self.received.extend_from_slice(&self.session.outgoing()[..count]);
        self.session.sent(count);
        while let Some(size) = self.whole() {
            let message: Vec<u8> = self.received.drain(..size).collect();
            self.message(&message);
        }
    }

    /// Returns the length of the first received message, if it is complete.
    fn whole(&self) -> Option<usize> {
        let size = u32::from_ne_bytes(*self.received.get(4..)?.first_chunk()?) as usize;
        assert!(size >= 16, "a message of {size} bytes");
        (self.received.len() >= size).then_some(size)
    }

    fn message(&mut self, message: &[u8]) {
        let short = |at: usize| u16::from_ne_bytes([message[at], message[at + 1]]);
        let long = |at: usize| u64::from_ne_bytes(*message[at..].first_chunk().expect("8 bytes"));
        let flags = u32::from_ne_bytes(*message[8..].first_chunk().expect("4 bytes"));
        let (id, command) = (short(0), short(2));
        if flags == 0 {
            assert!(command == 11 || command == 12);
            let (address, count) = (long(16), long(24));
            assert_eq!(message.len() as u64, 32 + if command == 12 { count } else { 0 });
            self.asked.push_back((id, command, address, count));
            return;
        }
        assert!(flags == 1 || flags == 0x21 && message.len() == 16);
        let awaited = self.awaited.entry((id, command)).or_default();
        *awaited -= 1;
        assert!(*awaited >= 0 || self.is_raw, "reply without a command");
    }

    /// Takes all events. Returns their number.
    fn poll(&mut self) -> usize {
        let mut count = 0;
        while let Some(event) = self.session.poll() {
            assert!(!self.over, "{event:?} after the end");
            count += 1;
            self.event(event);
        }
        assert!(self.open.len() < 2 * MAX_PENDING);
        assert_eq!(self.over, self.session.is_over());
        let maps: BTreeMap<_, _> = self.session.maps().map(|map| (map.address, map.size)).collect();
        if !self.over {
            assert_eq!(maps, self.maps);
        }
        count
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Read { token, region, offset, len } => {
                self.within(region, offset, len, true);
                self.open.push_back((token, Open::Read(len)));
            }
            Event::Write { token, region, offset, data, .. } => {
                self.within(region, offset, data.len(), false);
                self.open.push_back((token, Open::Other));
            }
            Event::Map { token, map, fd, fd_offset } => {
                let end = map.address.checked_add(map.size).expect("an end");
                assert!(map.size > 0 && (map.address | map.size) % PAGE_BYTES == 0);
                assert!(map.access.read || map.access.write);
                assert!(
                    fd.is_none() || fd_offset % PAGE_BYTES == 0 && fd_offset.checked_add(map.size).is_some()
                );
                assert!(self.maps.iter().all(|(at, size)| at + size <= map.address || end <= *at));
                self.maps.insert(map.address, map.size);
                assert!(self.maps.len() <= self.shape.max_maps as usize);
                // The event is completed immediately, so that the maps are known.
                self.session.complete(token, Ok(&[]));
            }
            Event::Unmap { token, maps } => {
                for map in maps {
                    assert_eq!(self.maps.remove(&map.address), Some(map.size));
                }
                self.open.push_back((token, Open::Other));
            }
            Event::Reset { token } => self.open.push_back((token, Open::Other)),
            Event::Irqs(irqs) => {
                let all = self.shape.irqs[irqs.irq as usize];
                assert!(irqs.first <= all && irqs.count <= all - irqs.first);
            }
            Event::Refused(refusal) => assert!(!refusal.to_string().is_empty()),
            Event::HangUp(why) => {
                assert!(!why.to_string().is_empty());
                self.over = true;
                self.open.clear();
            }
            Event::Joined | Event::Dma { .. } => {}
        }
    }

    fn within(&self, region: usize, offset: u64, len: usize, reads: bool) {
        assert!(region < REGIONS && 0 < len && len <= self.shape.max_transfer as usize);
        let of = self.shape.regions[region];
        assert!(if reads { of.readable } else { of.writable });
        assert!(offset.checked_add(len as u64).is_some_and(|end| end <= of.size));
    }

    /// Completes all commands and sends all output. Each command then has its reply, unless the connection has ended.
    fn end(&mut self) -> usize {
        let mut events = 0;
        loop {
            events += self.poll();
            if self.open.is_empty() && self.session.outgoing().is_empty() {
                break;
            }
            while !self.open.is_empty() {
                self.complete(0, false);
            }
            self.send(usize::MAX);
        }
        if !self.over && !self.is_raw {
            assert!(self.awaited.values().all(|awaited| *awaited == 0), "no reply: {:?}", self.awaited);
        }
        events
    }
}
