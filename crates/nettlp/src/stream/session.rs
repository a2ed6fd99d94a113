// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One session: its two streams, with their timers and control records.

use super::receive::{Receive, Verdict};
use super::record::{self, CONTROL_BIT, MAX_RECORD_BYTES, MAX_WINDOW, Record, RecordBytes};
use super::transmit::{SegmentRun, Transmit};
use super::{KEEP_ALIVE, MAX_TIMEOUTS, PROBE_INTERVAL, SessionError};
use crate::auth::{SEAL_BYTES, Seal};
use crate::carrier::SendError;
use crate::dropped::{DropReason, Drops};
use capture::encap::NETTLP_LEN;
use std::collections::VecDeque;
use tlp::Time;
use tlp::rules::Head;

/// Size of the window within which control records may arrive out of order.
const REPLAY_WINDOW: u64 = 64;

device::counters! {
    /// Counters of a session since it began.
    pub struct SessionCounters {
        /// TLPs accepted for sending.
        sent_tlps,
        /// Delivered TLPs.
        received_tlps,
        /// Datagrams sent again.
        retransmitted,
        /// Datagrams that had arrived before.
        duplicates,
        /// Datagrams that arrived out of order and were kept.
        kept,
        /// Datagrams that were dropped because they exceeded the granted credits.
        beyond_credits,
        /// Datagrams dropped because they do not follow this protocol.
        malformed,
        /// Datagrams that were dropped because they cannot be opened with the keys of this session.
        unauthentic,
        /// Control records that were dropped because they had arrived before, or are so old that this is unknown.
        replayed,
        /// Acks sent.
        acks_sent,
        /// Acks received.
        acks_received,
        /// Timeouts without an Ack.
        timeouts,
    }
}

/// One end of a session; see [the module](super).
#[derive(Debug)]
pub struct Session {
    id: u64,
    is_client: bool,
    transmit: Transmit,
    pub(super) receive: Receive,
    /// Delivered TLPs that the consumer has not accepted. There are at most as many as the window, because their
    /// credits are not released.
    held: VecDeque<Vec<u8>>,
    seal: Option<Seal>,
    /// Plain text to be sealed.
    plain: Vec<u8>,
    longest: usize,
    control: ControlNumbers,
    /// The control record to be sent.
    record: [u8; MAX_RECORD_BYTES + SEAL_BYTES],
    confirm: Confirm,
    probe: bool,
    timer: Option<Time>,
    timeouts: u32,
    heard: Time,
    /// When a TLP was last received or sent.
    moved: Time,
    failure: Option<SessionError>,
    counters: SessionCounters,
    drops: Drops,
}

/// State of the Confirm, with which the client tells the adapter that it has received the session id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Confirm {
    Due,
    Sent,
    Done,
}

/// Numbers of control records, in both directions.
#[derive(Debug, Default)]
struct ControlNumbers {
    next: u64,
    highest: u64,
    /// Bit i: number `highest - i` has arrived.
    seen: u64,
}

impl ControlNumbers {
    fn take(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns true if a number is new, and records it.
    fn accept(&mut self, count: u64) -> bool {
        if count > self.highest {
            self.seen = self.seen.checked_shl((count - self.highest).min(64) as u32).unwrap_or(0) | 1;
            self.highest = count;
            return true;
        }
        let behind = self.highest - count;
        if behind >= REPLAY_WINDOW || self.seen >> behind & 1 != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

/// Values that both ends agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) id: u64,
    pub(super) nonce: u64,
    /// Window of this side, in TLPs.
    pub(super) window: u16,
    /// Window of the peer, in TLPs.
    pub(super) peer_window: u16,
    /// Size of the longest datagram that both ends accept, in bytes.
    pub(super) longest: usize,
    pub(super) seal: Option<Seal>,
}

/// Returns the first number of a stream. Only a program that saw the handshake knows this number.
fn first(secret: u64) -> u64 {
    secret & 0xffff_ffff
}

impl Session {
    pub(super) fn new(now: Time, agreed: Agreed, is_client: bool) -> Session {
        let (ours, theirs) = if is_client { (agreed.nonce, agreed.id) } else { (agreed.id, agreed.nonce) };
        let mut session = Session {
            id: agreed.id,
            is_client,
            transmit: Transmit::new(first(ours), agreed.peer_window),
            receive: Receive::new(first(theirs), agreed.window),
            held: VecDeque::new(),
            seal: agreed.seal,
            plain: Vec::new(),
            longest: agreed.longest,
            control: ControlNumbers::default(),
            record: [0; MAX_RECORD_BYTES + SEAL_BYTES],
            confirm: if is_client { Confirm::Due } else { Confirm::Done },
            probe: false,
            timer: None,
            timeouts: 0,
            heard: now,
            moved: now,
            failure: None,
            counters: SessionCounters::default(),
            drops: Drops::default(),
        };
        if !is_client {
            // The client repeats its Confirm until it receives an Ack.
            session.receive.demand_ack();
        }
        session
    }

    /// Returns the id of the session, chosen by the adapter.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns the reason why the session has ended. `None` while the session is open.
    pub const fn failure(&self) -> Option<SessionError> {
        self.failure
    }

    /// Returns the counters of the session.
    pub fn counters(&self) -> SessionCounters {
        SessionCounters { retransmitted: self.transmit.retransmits, ..self.counters }
    }

    /// Returns what the session dropped, with reasons. The entries do not name the peer.
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Returns when a TLP was last received or sent. Keep-alive datagrams do not count.
    pub const fn moved(&self) -> Time {
        self.moved
    }

    /// Returns how many datagrams of the maximum length [`send`](Self::send) accepts now; more may fit if they are
    /// shorter.
    pub fn room(&self) -> usize {
        if self.failure.is_some() { 0 } else { self.transmit.room(self.longest) }
    }

    /// Returns true if everything is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.transmit.is_empty()
    }

    /// Sets how credits return: by delivery (the default), or only by [`release`](Self::release).
    pub fn set_manual_release(&mut self, manual: bool) {
        self.receive.releases_itself = !manual;
    }

    /// Returns the credits of `count` delivered TLPs, so that the peer may send `count` more TLPs.
    pub fn release(&mut self, count: usize) {
        self.receive.release(count as u64);
    }

    /// Appends a TLP of `len` bytes, which `fill` writes, to the stream. [`poll_transmit`](Self::poll_transmit) sends it.
    ///
    /// # Errors
    /// If the ring is full, the session has failed, or the TLP is too long. `fill` is not called then.
    pub fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
        self.send_framed(NETTLP_LEN + len, |out| fill(&mut out[NETTLP_LEN..]))
    }

    /// Appends a datagram, like [`send`](Self::send): `len` includes six bytes before the TLP, and what `fill` writes
    /// there is ignored.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn send_framed(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
        let seal_bytes = self.seal_bytes();
        let most = self.longest - seal_bytes;
        if len > most || len <= NETTLP_LEN {
            return Err(SendError::TooLong { bytes: len, most });
        }
        let number = self.transmit.next();
        if number >= CONTROL_BIT - 1 {
            self.failure.get_or_insert(SessionError::Exhausted);
        }
        if self.failure.is_some() {
            return Err(SendError::NoRoom);
        }
        let Some(slot) = self.transmit.push(len + seal_bytes) else { return Err(SendError::NoRoom) };
        match &self.seal {
            None => fill(slot),
            Some(seal) => {
                self.plain.resize(len, 0);
                fill(&mut self.plain);
                seal.seal(number, &self.plain[NETTLP_LEN..], &mut slot[NETTLP_LEN..]);
            }
        }
        record::put_number(slot, number);
        self.counters.sent_tlps += 1;
        Ok(())
    }

    /// Handles a datagram of the peer. If the datagram is the next TLP of the stream, returns it unsealed: six
    /// bytes, and the TLP. Then call [`pop_kept`](Self::pop_kept) for more TLPs, and finally send the datagrams
    /// that are due.
    pub fn handle<'a>(
        &mut self,
        now: Time,
        datagram: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let number = record::number(datagram).filter(|_| datagram.len() > NETTLP_LEN);
        let Some(number) = number else {
            self.drop_malformed(now, datagram);
            return None;
        };
        let Some(open) = self.open(number, datagram, scratch) else {
            self.counters.unauthentic += 1;
            self.drops.record_datagram(now, DropReason::Unauthentic, None, datagram);
            return None;
        };
        if number & CONTROL_BIT != 0 {
            self.handle_control(now, number & !CONTROL_BIT, &open[NETTLP_LEN..]);
            return None;
        }
        self.handle_data(now, number, open)
    }

    /// Returns true if [`pop_kept`](Self::pop_kept) would return a TLP.
    pub fn has_kept(&self) -> bool {
        self.receive.has_kept()
    }

    /// Returns the next TLP that had arrived out of order. Return its buffer with [`recycle`](Self::recycle).
    pub fn pop_kept(&mut self, now: Time) -> Option<Vec<u8>> {
        let kept = self.receive.pop_kept(now)?;
        self.counters.received_tlps += 1;
        Some(kept)
    }

    /// Takes back a buffer of [`pop_kept`](Self::pop_kept).
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.receive.recycle(buffer);
    }

    /// Holds a delivered TLP that the consumer rejected. Its credit must not have been released.
    pub fn hold(&mut self, datagram: &[u8]) {
        let buffer = self.receive.copy(datagram);
        self.held.push_back(buffer);
    }

    /// Returns true if held TLPs wait to be offered again. TLPs delivered in the meantime must be held after them.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the oldest held TLP, to be offered again. If the consumer accepts the TLP now, return its buffer with
    /// [`recycle`](Self::recycle), otherwise with [`hold_again`](Self::hold_again).
    pub fn pop_held(&mut self) -> Option<Vec<u8>> {
        self.held.pop_front()
    }

    /// Takes back a TLP that was rejected again.
    pub fn hold_again(&mut self, datagram: Vec<u8>) {
        self.held.push_front(datagram);
    }

    fn seal_bytes(&self) -> usize {
        if self.seal.is_some() { SEAL_BYTES } else { 0 }
    }

    fn open<'a>(&self, number: u64, datagram: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let Some(seal) = &self.seal else { return Some(datagram) };
        scratch.resize(datagram.len(), 0);
        scratch[..NETTLP_LEN].copy_from_slice(&datagram[..NETTLP_LEN]);
        let len = seal.open(number, &datagram[NETTLP_LEN..], &mut scratch[NETTLP_LEN..])?;
        (len > 0).then(|| &scratch[..NETTLP_LEN + len])
    }

    fn handle_data<'a>(&mut self, now: Time, number: u64, datagram: &'a [u8]) -> Option<&'a [u8]> {
        if datagram.len() > self.longest {
            self.drop_malformed(now, datagram);
            return None;
        }
        (self.heard, self.moved, self.confirm) = (now, now, Confirm::Done);
        match self.receive.accept(now, number, datagram) {
            Verdict::Deliver => {
                self.counters.received_tlps += 1;
                return Some(datagram);
            }
            Verdict::Kept => self.counters.kept += 1,
            Verdict::Duplicate => self.counters.duplicates += 1,
            Verdict::Beyond => {
                self.counters.beyond_credits += 1;
                let head = Head::of_bytes(&datagram[NETTLP_LEN..]);
                self.drops.record_tlp(now, DropReason::BeyondCredits, None, head);
            }
        }
        None
    }

    #[cold]
    fn drop_malformed(&mut self, now: Time, bytes: &[u8]) {
        self.counters.malformed += 1;
        self.drops.record_datagram(now, DropReason::Malformed, None, bytes);
    }

    fn handle_control(&mut self, now: Time, count: u64, bytes: &[u8]) {
        let Some((id, record)) = record::parse_record(bytes) else { return self.drop_malformed(now, bytes) };
        if record == Record::Reset {
            return self.handle_reset(id);
        }
        // A handshake record at this point is late, or belongs to another session.
        if id != self.id
            || matches!(record, Record::Hello { .. } | Record::HelloAck { .. } | Record::Refused { .. })
        {
            if id != self.id {
                self.drop_malformed(now, bytes);
            }
            return;
        }
        if !self.control.accept(count) {
            self.counters.replayed += 1;
            return;
        }
        self.heard = now;
        match record {
            Record::Ack(ack) => self.handle_ack(now, &ack),
            Record::Probe | Record::Confirm => self.receive.demand_ack(),
            Record::Bye => self.fail(SessionError::Closed),
            _ => {}
        }
    }

    fn handle_ack(&mut self, now: Time, ack: &record::Ack<'_>) {
        self.counters.acks_received += 1;
        self.confirm = Confirm::Done;
        let before = self.transmit.base();
        if let Err(error) = self.transmit.acknowledge(now, ack) {
            return self.fail(error);
        }
        let progress = self.transmit.base() > before;
        if progress || !self.transmit.is_in_flight() {
            self.timeouts = 0;
            self.timer = None;
            self.arm(now);
        }
    }

    /// Handles a Reset. A Reset is accepted only if it answers a number that this side may have sent. In a sealed
    /// session, every Reset is ignored, because Resets are not authenticated. The timeout then detects the end of
    /// the session.
    fn handle_reset(&mut self, number: u64) {
        let control = number & !CONTROL_BIT;
        let recent = if number & CONTROL_BIT == 0 {
            (self.transmit.base()..self.transmit.next()).contains(&number)
        } else {
            control <= self.control.next && control + REPLAY_WINDOW > self.control.next
        };
        if recent && self.seal.is_none() {
            self.fail(SessionError::Reset);
        }
    }

    fn fail(&mut self, error: SessionError) {
        self.failure.get_or_insert(error);
    }

    /// Returns when to call [`poll_transmit`](Self::poll_transmit) again if no datagram is received or sent before.
    /// Call this again after every other call.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.failure.is_some() {
            return None;
        }
        let keep_alive = self.is_client.then(|| self.heard + KEEP_ALIVE);
        [self.receive.ack_at(), self.timer.or(keep_alive)].into_iter().flatten().min()
    }

    /// Tells the session that no more TLPs will be queued for now. If no TLP waits to be sent, there is no answer
    /// for which the Ack could wait, so the Ack is sent at once. So a peer that only sends writes learns soon that
    /// they have arrived, and requests with answers need few Acks.
    pub fn prompt(&mut self) {
        if !self.transmit.has_due() && self.receive.has_unacked() {
            self.receive.demand_ack();
        }
    }

    /// Returns the datagrams that must be sent now, in runs of at most `most` datagrams and `most_bytes` bytes.
    /// Call this until it returns `None`. Also runs timers that are due by `now`.
    pub fn poll_transmit(&mut self, now: Time, most: usize, most_bytes: usize) -> Option<SegmentRun<'_>> {
        self.expire(now);
        if self.failure.is_some() {
            return None;
        }
        if self.confirm == Confirm::Due {
            self.confirm = Confirm::Sent;
            self.arm(now);
            return Some(self.write(&Record::Confirm));
        }
        if self.transmit.has_due() {
            self.moved = now;
            self.arm(now);
            return self.transmit.poll(now, most, most_bytes);
        }
        self.arm(now);
        if std::mem::take(&mut self.probe) {
            return Some(self.write(&Record::Probe));
        }
        let mut bitmap = [0; MAX_WINDOW as usize / 8];
        let (next, limit, len) = self.receive.poll_ack(now, &mut bitmap)?;
        self.counters.acks_sent += 1;
        Some(self.write(&Record::Ack(record::Ack { next, limit, bitmap: &bitmap[..len] })))
    }

    /// Returns the record that ends the session. This side sends no datagrams after it.
    pub fn close(&mut self) -> SegmentRun<'_> {
        self.fail(SessionError::Closed);
        self.write(&Record::Bye)
    }

    fn write(&mut self, record: &Record<'_>) -> SegmentRun<'_> {
        let count = self.control.take();
        let bytes = RecordBytes::new(count, self.id, record);
        let len = bytes.len() + self.seal_bytes();
        match &self.seal {
            None => self.record[..len].copy_from_slice(&bytes),
            Some(seal) => {
                self.record[..NETTLP_LEN].copy_from_slice(&bytes[..NETTLP_LEN]);
                seal.seal(count | CONTROL_BIT, &bytes[NETTLP_LEN..], &mut self.record[NETTLP_LEN..len]);
            }
        }
        SegmentRun { bytes: &self.record[..len], segment: len as u16, count: 1 }
    }

    /// Starts the timer if an Ack is awaited and the timer is not running.
    fn arm(&mut self, now: Time) {
        if self.timer.is_some() {
            return;
        }
        if self.transmit.is_in_flight() || self.transmit.has_due() || self.confirm == Confirm::Sent {
            self.timer = Some(now + self.transmit.rto(self.timeouts));
        } else if self.transmit.is_blocked() {
            self.timer = Some(now + self.transmit.rto(self.timeouts).max(PROBE_INTERVAL));
        }
    }

    fn expire(&mut self, now: Time) {
        let Some(at) = self.timer else {
            if self.is_client && self.heard + KEEP_ALIVE <= now && self.confirm == Confirm::Done {
                self.probe = true;
                self.timer = Some(now + self.transmit.rto(self.timeouts).max(PROBE_INTERVAL));
            }
            return;
        };
        if at > now {
            return;
        }
        self.counters.timeouts += 1;
        self.timeouts += 1;
        if self.timeouts > MAX_TIMEOUTS {
            return self.fail(SessionError::Silent);
        }
        if self.confirm == Confirm::Sent {
            self.confirm = Confirm::Due;
        }
        self.transmit.time_out();
        self.probe |= !self.transmit.is_in_flight();
        self.timer = Some(now + self.transmit.rto(self.timeouts));
    }
}
