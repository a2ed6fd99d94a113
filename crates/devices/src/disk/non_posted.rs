// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter below an endpoint that converts its posted writes into deferrable writes, which are completed. It models
//! gem5's devices, in which every write waits for a response. PCI Express devices post writes.
//!
//! The device above does not notice it. A read of no bytes tells the device that its writes are done, as `PCIe 5.0
//! §2.2.5` defines. This filter completes that read after the last earlier write, and never sends it. Interrupts stay
//! posted. The port must send no other reads, because their tags would be confused with tags of writes.

use device::Ready;
use endpoint::{CreditReturn, TlpPort};
use link::{Channels, Notice};
use std::collections::VecDeque;
use tlp::{Bdf, Body, Class, CompletedRequest, Data, MemoryOp, MemoryRequest, Status, Tag, TcSet, Time, Tlp};

/// First tag of a write: 8-bit tags with the upper bit set.
const FIRST_TAG: u16 = 128;
/// Maximum number of outstanding writes.
const TAGS: u16 = 128;
/// Maximum size of a deferrable write (ECN "Deferrable Memory Write"); longer writes stay posted.
const MAX_BYTES: usize = 128;

/// A port whose writes are completed.
pub struct NonPostedWrites<P> {
    port: P,
    /// Free tags, in the order in which they became free.
    free: VecDeque<u16>,
    /// The next write, while it waits for a tag or for room.
    write: Option<Tlp>,
    /// A posted TLP other than a plain write, which the search for a write has taken from the port.
    posted: Option<Tlp>,
    /// The posted TLP was taken after the posted class had been polled, so the class must be polled again, once. Later, room for the
    /// TLP causes the next poll.
    polls_again: bool,
    /// The read of no bytes, which waits for all writes.
    flush: Option<Tlp>,
    /// Credits of completions that ended here.
    credits: VecDeque<CreditReturn>,
    /// Completions created here, for which the peer has no credits to get back.
    own_completions: u32,
    failed: u64,
    now: Time,
}

impl<P: TlpPort> NonPostedWrites<P> {
    /// Wraps `port`; from now on its writes are completed.
    pub fn new(port: P) -> NonPostedWrites<P> {
        NonPostedWrites {
            port,
            free: (FIRST_TAG..FIRST_TAG + TAGS).collect(),
            write: None,
            posted: None,
            polls_again: false,
            flush: None,
            credits: VecDeque::with_capacity(usize::from(TAGS)),
            own_completions: 0,
            failed: 0,
            now: Time::ZERO,
        }
    }

    fn failed_writes(&self) -> Option<(&'static str, u64)> {
        (self.failed > 0).then_some(("failed_writes", self.failed))
    }

    fn open(&self) -> usize {
        usize::from(TAGS) - self.free.len()
    }

    /// Takes the next posted TLP of the port, if no TLP is held.
    fn take_posted(&mut self, now: Time, room: TcSet) {
        if self.write.is_some() || self.posted.is_some() {
            return;
        }
        match self.port.poll_tlp(now, Class::Posted, room) {
            Some(tlp) if is_plain_write(&tlp) => self.write = Some(tlp),
            other => {
                self.polls_again = other.is_some();
                self.posted = other;
            }
        }
    }

    /// Returns the next write, with a tag.
    fn next_write(&mut self) -> Option<Tlp> {
        let tag = *self.free.front()?;
        let mut tlp = self.write.take()?;
        if let Body::Memory(m) = &mut tlp.repr.body {
            *m = MemoryRequest { op: MemoryOp::WriteDeferrable, tag: Tag::from_bits(tag), ..*m };
            self.free.pop_front();
        }
        Some(tlp)
    }

    /// Completes the read of no bytes if no earlier write is left.
    fn answer_flush(&mut self, now: Time) {
        if self.open() > 0 || self.write.is_some() {
            return;
        }
        let Some(read) = self.flush.take() else { return };
        if let Some(tlp) = answer(&read) {
            self.own_completions += 1;
            self.port.handle_tlp(now, &tlp);
        }
    }
}

/// Returns whether a TLP is a write of the disk. An interrupt carries its bytes; the disk's data are only counted.
fn is_plain_write(tlp: &Tlp) -> bool {
    let write = matches!(tlp.repr.body, Body::Memory(m) if m.op == MemoryOp::Write);
    write && tlp.data.bytes().is_none() && tlp.data.len() <= MAX_BYTES
}

/// Returns the completion of a read of no bytes: one DW without meaning (`PCIe 5.0 §2.2.5`).
fn answer(read: &Tlp) -> Option<Tlp> {
    let asked = CompletedRequest::of(&read.repr)?;
    let repr = CompletedRequest { attr: read.repr.attr, ..asked }.with_data(Bdf::default(), 0, 1);
    Some(Tlp::new(repr, Data::Counted(1)))
}

impl<P: TlpPort> TlpPort for NonPostedWrites<P> {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.now = now;
        let Body::Completion(c) = tlp.repr.body else { return self.port.handle_tlp(now, tlp) };
        let tag = c.tag.bits();
        let ours = (FIRST_TAG..FIRST_TAG + TAGS).contains(&tag) && !self.free.contains(&tag);
        if !ours {
            return self.port.handle_tlp(now, tlp);
        }
        self.credits.push_back(CreditReturn::of(tlp));
        self.free.push_back(tag);
        self.failed += u64::from(c.status != Status::Success);
        self.answer_flush(now);
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.now = now;
        match class {
            Class::Completion => self.port.poll_tlp(now, class, room),
            Class::Posted => {
                self.take_posted(now, room);
                self.polls_again = false;
                self.posted.take()
            }
            Class::NonPosted => {
                self.take_posted(now, room);
                if let Some(write) = self.next_write() {
                    return Some(write);
                }
                let tlp = self.port.poll_tlp(now, class, room)?;
                if !matches!(tlp.repr.body, Body::Memory(m) if m.span.is_zero_length()) {
                    return Some(tlp);
                }
                self.flush = Some(tlp);
                self.answer_flush(now);
                None
            }
        }
    }

    fn ready(&self) -> Ready {
        let (port, posted) = (self.port.ready(), Ready::output(Class::Posted));
        // A posted TLP of the port may be sent as non-posted.
        let write = self.write.is_some() || port.meets(posted);
        port.or(Ready::when(self.posted.is_some(), posted))
            .or(Ready::when(write, Ready::output(Class::NonPosted)))
            .or(Ready::when(!self.credits.is_empty(), Ready::TAKEN))
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        if let Some(credit) = self.credits.pop_front() {
            return Some(credit);
        }
        while let Some(credit) = self.port.poll_credits() {
            if self.own_completions == 0 || credit.class != Class::Completion {
                return Some(credit);
            }
            self.own_completions -= 1;
        }
        None
    }

    /// Returns the port's timeout, or now if a posted TLP was taken after the posted class had been polled.
    fn poll_timeout(&self) -> Option<Time> {
        if self.polls_again { Some(self.now) } else { self.port.poll_timeout() }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.polls_again = false;
        self.port.handle_timeout(now);
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        self.port.handle_notice(now, notice);
    }

    fn channels(&self) -> Option<Channels> {
        self.port.channels()
    }

    fn longest_non_posted(&self) -> u32 {
        self.port.longest_non_posted()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.port.counts().into_iter().chain(self.failed_writes()).collect()
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        self.port.errors().into_iter().chain(self.failed_writes()).collect()
    }

    fn waits_for(&self) -> Option<String> {
        let open = self.open();
        let own = (open > 0).then(|| format!("{open} writes not completed"));
        let parts: Vec<String> = self.port.waits_for().into_iter().chain(own).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::RawDevice;
    use tlp::{Repr, Span};

    const ALL: TcSet = TcSet::ALL;
    const OWN_TAG: u16 = 7;

    fn memory(op: MemoryOp, span: Span, data: Data) -> Tlp {
        let requester = Bdf::from_bits(0x0100);
        let body = MemoryRequest { op, requester, tag: Tag::from_bits(OWN_TAG), span };
        Tlp::new(Repr::new(Body::Memory(body)), data)
    }

    /// Returns the completion of a deferrable write, without data (`PCIe 5.0 §2.2.9`: Byte Count 4, Lower Address 0).
    fn answer_to(write: &Tlp) -> Tlp {
        let asked = CompletedRequest::of(&write.repr).unwrap();
        Tlp::new(asked.without_data(Bdf::default(), Status::Success), Data::NONE)
    }

    #[test]
    fn zero_length_read_completes_after_all_writes() {
        let now = Time::ZERO;
        let mut raw = RawDevice::new(8);
        for at in [0x1000, 0x1040] {
            raw.send(now, memory(MemoryOp::Write, Span::covering(at, 64).unwrap(), Data::Counted(64)));
        }
        raw.send(now, memory(MemoryOp::Read, Span::zero_length(0x1000), Data::NONE));
        let mut port = NonPostedWrites::new(raw);
        assert!(port.poll_tlp(now, Class::Posted, ALL).is_none(), "no write is posted");
        let sent: Vec<Tlp> = std::iter::from_fn(|| port.poll_tlp(now, Class::NonPosted, ALL)).collect();
        let tags: Vec<u16> = sent.iter().map(|t| t.repr.transaction().1.bits()).collect();
        assert_eq!(tags, [FIRST_TAG, FIRST_TAG + 1], "the read is never sent");
        for write in &sent {
            assert!(matches!(write.repr.body, Body::Memory(m) if m.op == MemoryOp::WriteDeferrable));
            assert_eq!(port.port.received().len(), 0, "completed only after all writes");
            port.handle_tlp(now, &answer_to(write));
        }
        let [(_, done)] = port.port.received() else { panic!("{:?}", port.port.received()) };
        assert_eq!((done.repr.transaction().1.bits(), done.data.len()), (OWN_TAG, 1));
        let credits: Vec<CreditReturn> = std::iter::from_fn(|| port.poll_credits()).collect();
        assert_eq!(credits, sent.iter().map(|w| CreditReturn::of(&answer_to(w))).collect::<Vec<_>>());
    }

    #[test]
    fn writes_with_carried_bytes_stay_posted() {
        let mut raw = RawDevice::new(1);
        let pool = tlp::PayloadPool::new();
        let interrupt = Data::Carried(pool.copy(&[0; 4]));
        raw.send(Time::ZERO, memory(MemoryOp::Write, Span::covering(0xfee0_0000, 4).unwrap(), interrupt));
        let mut port = NonPostedWrites::new(raw);
        assert!(port.poll_tlp(Time::ZERO, Class::NonPosted, ALL).is_none());
        assert_eq!(port.poll_timeout(), Some(Time::ZERO), "must be polled again");
        // Without room, the class is polled when there is room, not now.
        port.handle_timeout(Time::ZERO);
        assert_eq!(port.poll_timeout(), None, "time must not stand still");
        assert!(port.ready().contains(Ready::output(Class::Posted)));
        let posted = port.poll_tlp(Time::ZERO, Class::Posted, ALL).unwrap();
        assert!(matches!(posted.repr.body, Body::Memory(m) if m.op == MemoryOp::Write));
    }
}
