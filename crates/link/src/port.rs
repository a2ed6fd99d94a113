// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port: joins the parts of this crate and decides what goes onto the wire next. Never looks into a TLP beyond its
//! header's lengths.

use crate::config::{PortConfig, ReplayTimerRule};
use crate::counters::Counters;
use crate::credit::{RxCredits, TxCredits};
use crate::frame::{DLLP_WIRE_BYTES, Damage, Frame, TLP_FRAMING_BYTES, Transmission};
use crate::init::{Init, State};
use crate::replay::{Acknowledged, ReplayBuffer};
use crate::rx::{Receiver, Verdict};
use crate::sequence::Sequence;
use crate::stall::Stalls;
use crate::store::{Handle, TlpStore};
use crate::timing::{Serializer, symbol_times};
use crate::tx::{Lengths, Queued, TransmitQueue};
use crate::update::UpdateSchedule;
use tlp::{Class, Dllp, Duration, FlowControl, FlowControlKind, Time, Tlp, ack_latency_limit};

/// What waits to be sent beside new TLPs, lowest bit first: the order that `PCIe 5.0 §3.6.2.1` recommends.
mod pending {
    pub(super) const NAK: u8 = 1 << 0;
    pub(super) const ACK: u8 = 1 << 1;
    pub(super) const INIT_FC: u8 = 1 << 2;
    /// First of three bits, by `Class::index`.
    pub(super) const UPDATE_FC_SHIFT: u32 = 3;
    pub(super) const REPLAY: u8 = 1 << 6;
}

/// One port of a link.
///
/// After every call of `start`, `enqueue`, `handle_frame`, `return_credits`, `handle_timeout` and of `poll_transmit`
/// itself, ask [`transmit_ready_at`](Port::transmit_ready_at) and [`poll_timeout`](Port::poll_timeout) anew; call
/// [`poll_transmit`](Port::poll_transmit) after [`enqueue`](Port::enqueue), so that the wait of a TLP that cannot go is
/// counted from then on.
pub struct Port {
    retrain: Duration,
    init: Init,
    pending: u8,
    /// The class that sends the next new TLP.
    next: Option<Class>,
    stalls: Stalls,
    wire: Serializer,
    store: TlpStore,
    queue: TransmitQueue,
    tx_credits: [TxCredits; 3],
    rx_credits: [RxCredits; 3],
    replay: ReplayBuffer,
    receiver: Receiver,
    updates: UpdateSchedule,
    counters: Counters,
}

impl Port {
    /// A port that is not started. `config` is one that [`PortConfig::validate`] allows; with another the port works, but
    /// not as the specification says.
    #[must_use]
    pub fn new(config: PortConfig) -> Port {
        let table = ack_latency_limit(config.rate, config.width, config.mps);
        let time = |symbols| symbol_times(config.rate, symbols);
        let replay_timeout = time(match config.replay_timer {
            ReplayTimerRule::Rev3 => 3 * table,
            ReplayTimerRule::Rev4 { symbols } => symbols,
        });
        let update_interval = time(config.update_fc_symbols.unwrap_or(table));
        Port {
            retrain: config.retrain,
            init: Init::new(),
            pending: 0,
            next: None,
            stalls: Stalls::default(),
            wire: Serializer::new(&config),
            store: TlpStore::new(3 * config.tx_queue_tlps + usize::from(config.replay_buffer_tlps)),
            queue: TransmitQueue::new(config.tx_queue_tlps),
            tx_credits: [TxCredits::default(); 3],
            rx_credits: Class::ALL.map(|c| RxCredits::new(c, config.rx_buffer[c.index()], config.mps)),
            replay: ReplayBuffer::new(config.replay_buffer_tlps, config.replay_buffer_bytes, replay_timeout),
            receiver: Receiver::new(time(config.ack_latency_symbols.unwrap_or(table))),
            updates: UpdateSchedule::new(&config, update_interval),
            counters: Counters::default(),
        }
    }

    /// The physical layer is up: flow-control initialization of VC0 begins. Call it once.
    pub fn start(&mut self, now: Time) {
        if self.init.state() == State::Inactive {
            self.wire.start(now);
            self.init.start();
            self.pending |= pending::INIT_FC;
        }
    }

    /// DL_Active: credits are known, TLPs may flow.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.init.state() == State::Active
    }

    /// Whether the transmit queue has room for a TLP of `class`; before DL_Active as well, the TLP then waits.
    #[must_use]
    pub fn has_room(&self, class: Class) -> bool {
        self.queue.has_room(class)
    }

    /// Takes a TLP to send, for which [`has_room`](Self::has_room) holds. Without room it is still kept, at the cost of
    /// an allocation: nothing is lost.
    pub fn enqueue(&mut self, tlp: Tlp) {
        let class = tlp.class();
        let behind_others = self.queue.head(class).is_some();
        let lengths = Lengths::of(&tlp);
        let handle = self.store.insert(tlp);
        self.queue.push(class, lengths, handle);
        if !behind_others {
            self.select();
        }
    }

    /// When the wire is free (which may be in the past), where something may be sent; `None` where nothing can be sent
    /// without a further input.
    #[must_use]
    pub fn transmit_ready_at(&self) -> Option<Time> {
        (self.pending != 0 || self.next.is_some()).then(|| self.wire.free_at())
    }

    /// The next frame onto the wire, if the wire is free at `now` and something may go. A due SKP ordered set goes before
    /// it, so `start` may be later than `now`.
    #[inline]
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmission> {
        // Asked again after each frame, when the answer is no.
        if now < self.wire.free_at() {
            return None;
        }
        if self.pending == 0 && self.next.is_none() {
            self.stalls.note(now, &mut self.counters);
            return None;
        }
        self.transmit(now)
    }

    /// A frame has arrived, its last symbol at `now`. The TLP to hand up, if it is one, good, new and in order; its
    /// credits are the receiver's until [`return_credits`](Self::return_credits).
    #[must_use]
    pub fn handle_frame(&mut self, now: Time, frame: Frame, damage: &Damage) -> Option<Tlp> {
        let accepted = self.accepts_frame(now, &frame, damage);
        match frame {
            Frame::Tlp { tlp, .. } if accepted => Some(tlp),
            Frame::Tlp { .. } | Frame::Dllp(_) => None,
        }
    }

    /// Like [`handle_frame`](Self::handle_frame), for those who keep the frame: true where it is a TLP to hand up.
    #[must_use]
    pub fn accepts_frame(&mut self, now: Time, frame: &Frame, damage: &Damage) -> bool {
        if !damage.is_empty() && !self.survives(frame, damage) {
            return false;
        }
        match frame {
            Frame::Tlp { sequence, tlp } => self.receive_tlp(now, *sequence, tlp),
            Frame::Dllp(dllp) => {
                self.receive_dllp(now, *dllp);
                false
            }
        }
    }

    /// The receiver has taken one TLP of `class` with `data_credits` units of 16 B out of its buffer.
    pub fn return_credits(&mut self, now: Time, class: Class, data_credits: u32) {
        let urgent = self.rx_credits[class.index()].free(data_credits);
        let tell = self.updates.returned(now, class, urgent);
        self.pending |= tell << pending::UPDATE_FC_SHIFT;
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let earliest = self.working_deadline().min(self.updates.refresh_deadline());
        (earliest != Time::MAX).then_some(earliest)
    }

    /// True where [`poll_timeout`](Self::poll_timeout) names only the periodic refresh of credits, and enough of them
    /// have been sent since credits last changed that even lost ones are made up for: waiting for it leads nowhere.
    #[must_use]
    pub fn poll_timeout_is_maintenance(&self) -> bool {
        let refresh = self.updates.refresh_deadline();
        refresh != Time::MAX && refresh < self.working_deadline() && self.updates.refresh_is_idle()
    }

    fn working_deadline(&self) -> Time {
        let data_link = self.receiver.deadline().min(self.replay.deadline());
        data_link.min(self.updates.news_deadline()).min(self.init.deadline())
    }

    /// Timers that are due at `now` expire. Harmless when called too early.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.receiver.ack_due(now) {
            self.pending |= pending::ACK;
        }
        if self.replay.deadline() <= now {
            self.counters.replay_timeouts += 1;
            self.start_replay(now);
        }
        self.pending |= self.updates.timeout(now) << pending::UPDATE_FC_SHIFT;
        self.init.timeout(now);
        if self.init.wants_to_send() {
            self.pending |= pending::INIT_FC;
        }
    }

    /// What was counted, of the transmit direction and of errors at the receiver.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The run ends: accounts SKP ordered sets of idle time up to `now`, and stalls that have not ended.
    pub fn finish(&mut self, now: Time) {
        if self.init.state() != State::Inactive {
            self.wire.catch_up(now, &mut self.counters);
        }
        self.stalls.finish(now, &mut self.counters);
    }

    /// One line on what the port waits for.
    #[must_use]
    pub fn state_line(&self) -> String {
        match self.init.state() {
            State::Inactive => return "link not started".to_owned(),
            State::FcInit1 => return "flow-control initialization: waits for InitFC1".to_owned(),
            State::FcInit2 => return "flow-control initialization: waits for InitFC2".to_owned(),
            State::Active => {}
        }
        let mut waits: Vec<String> = Class::ALL.into_iter().filter_map(|c| self.wait_of(c)).collect();
        if self.stalls.is_replay_blocked() {
            let (tlps, bytes) = (self.replay.len(), self.replay.bytes());
            waits.push(format!("replay buffer full: {tlps} TLPs, {bytes} bytes unacknowledged"));
        } else if !self.replay.is_empty() {
            waits.push(format!("{} TLPs unacknowledged", self.replay.len()));
        }
        if waits.is_empty() { "idle".to_owned() } else { waits.join("; ") }
    }

    fn wait_of(&self, class: Class) -> Option<String> {
        let head = self.queue.head(class)?;
        let name = ["posted", "non-posted", "completion"][class.index()];
        let credits = &self.tx_credits[class.index()];
        let data = head.lengths.data_credits();
        let (has_header, has_data) = credits.available();
        if has_header == Some(0) {
            return Some(format!("no {name} header credits"));
        }
        if !credits.covers(data) {
            let has = has_data.unwrap_or(0);
            return Some(format!("no {name} data credits: needs {data}, has {has}"));
        }
        if self.next == Some(class) || self.stalls.is_replay_blocked() {
            return Some(format!("{name} TLP ready"));
        }
        Some(format!("{name} TLP waits for its turn or for older posted requests"))
    }
}

// Transmit.
impl Port {
    /// Chooses the class that sends the next new TLP. Called whenever heads of queues, credits or the replay buffer have
    /// changed.
    fn select(&mut self) {
        self.next = None;
        if !self.is_active() {
            return;
        }
        let choice = self.queue.oldest_sendable(&self.tx_credits, &self.store);
        let fits = choice.head.is_none_or(|(_, lengths)| self.replay.has_room(lengths));
        if fits {
            self.next = choice.head.map(|(class, _)| class);
        }
        self.stalls.set(choice.blocked, !fits);
    }

    fn transmit(&mut self, now: Time) -> Option<Transmission> {
        match self.next {
            Some(class) if self.pending == 0 => self.transmit_new(now, class),
            _ => self.transmit_pending(now),
        }
    }

    #[inline]
    fn transmit_new(&mut self, now: Time, class: Class) -> Option<Transmission> {
        let Queued { lengths, handle, .. } = self.queue.pop(class)?;
        self.tx_credits[class.index()].consume(lengths.data_credits());
        let sequence = self.replay.push(lengths, handle);
        let (start, end) = self.wire.send(now, lengths.wire(), &mut self.counters);
        self.replay.sent(end);
        self.count_new(lengths);
        self.select();
        self.stalls.note(end, &mut self.counters);
        self.transmission(sequence, handle, start, end)
    }

    fn transmission(&self, sequence: u16, handle: Handle, start: Time, end: Time) -> Option<Transmission> {
        let tlp = self.store.get(handle)?.clone();
        Some(Transmission { frame: Frame::Tlp { sequence, tlp }, start, end })
    }

    fn count_new(&mut self, lengths: Lengths) {
        self.counters.tlps += 1;
        self.counters.payload_bytes += u64::from(lengths.data);
        self.counters.header_bytes += u64::from(lengths.header);
        self.counters.digest_bytes += u64::from(lengths.digest);
        self.counters.framing_bytes += u64::from(TLP_FRAMING_BYTES);
    }

    fn transmit_pending(&mut self, now: Time) -> Option<Transmission> {
        match 1_u8 << self.pending.trailing_zeros() {
            pending::NAK => self.transmit_nak(now),
            pending::ACK => self.transmit_ack(now),
            pending::INIT_FC => self.transmit_init_fc(now),
            pending::REPLAY => self.transmit_replay(now),
            _ => self.transmit_update_fc(now),
        }
    }

    fn transmit_dllp(&mut self, now: Time, dllp: Dllp) -> Option<Transmission> {
        let (start, end) = self.wire.send(now, DLLP_WIRE_BYTES, &mut self.counters);
        self.counters.dllp_bytes += u64::from(DLLP_WIRE_BYTES);
        Some(Transmission { frame: Frame::Dllp(dllp), start, end })
    }

    // A Nak acknowledges all that an Ack would.
    fn transmit_nak(&mut self, now: Time) -> Option<Transmission> {
        self.pending &= !(pending::NAK | pending::ACK);
        self.counters.dllps.nak += 1;
        let sequence = self.receiver.acknowledge();
        self.transmit_dllp(now, Dllp::Nak { sequence })
    }

    fn transmit_ack(&mut self, now: Time) -> Option<Transmission> {
        self.pending &= !pending::ACK;
        self.counters.dllps.ack += 1;
        let sequence = self.receiver.acknowledge();
        self.transmit_dllp(now, Dllp::Ack { sequence })
    }

    fn transmit_init_fc(&mut self, now: Time) -> Option<Transmission> {
        let (kind, class) = self.init.next(now)?;
        if !self.init.wants_to_send() {
            self.pending &= !pending::INIT_FC;
        }
        self.counters.dllps.init_fc += 1;
        let report = self.rx_credits[class.index()].report(kind);
        let sent = self.transmit_dllp(now, Dllp::FlowControl(report));
        self.advance_init(now);
        sent
    }

    fn transmit_update_fc(&mut self, now: Time) -> Option<Transmission> {
        let index = (self.pending >> pending::UPDATE_FC_SHIFT).trailing_zeros() as usize;
        let class = *Class::ALL.get(index)?;
        self.pending &= !(1 << (pending::UPDATE_FC_SHIFT + index as u32));
        self.updates.told(now, class);
        self.counters.dllps.update_fc += 1;
        let report = self.rx_credits[index].report(FlowControlKind::UpdateFc);
        self.transmit_dllp(now, Dllp::FlowControl(report))
    }

    fn transmit_replay(&mut self, now: Time) -> Option<Transmission> {
        let (sequence, lengths, handle) = self.replay.replay()?;
        self.note_replay();
        let (start, end) = self.wire.send(now, lengths.wire(), &mut self.counters);
        self.replay.sent(end);
        self.counters.replayed_tlps += 1;
        self.counters.replay_bytes += u64::from(lengths.wire());
        self.transmission(sequence, handle, start, end)
    }

    /// REPLAY_TIMER or a Nak asks for a replay (`PCIe 5.0 §3.6.2.1`).
    fn start_replay(&mut self, now: Time) {
        if self.replay.start_replay() {
            self.counters.replay_num_rollovers += 1;
            self.wire.hold(self.wire.free_at().max(now) + self.retrain);
        }
        self.note_replay();
    }

    fn note_replay(&mut self) {
        self.pending &= !pending::REPLAY;
        if self.replay.is_replaying() {
            self.pending |= pending::REPLAY;
        }
    }
}

// Receive.
impl Port {
    /// Whether the CRC finds no fault in a damaged frame; else what that leads to.
    #[cold]
    fn survives(&mut self, frame: &Frame, damage: &Damage) -> bool {
        if frame.survives(damage) {
            self.counters.undetected_errors += 1;
            return true;
        }
        match frame {
            Frame::Dllp(_) => self.counters.bad_dllp_crc += 1,
            Frame::Tlp { .. } => {
                self.counters.bad_lcrc += 1;
                if self.init.state() >= State::FcInit2 {
                    self.want_nak();
                }
            }
        }
        false
    }

    fn want_nak(&mut self) {
        if self.receiver.want_nak() {
            self.pending |= pending::NAK;
        }
    }

    fn receive_tlp(&mut self, now: Time, sequence: u16, tlp: &Tlp) -> bool {
        match self.init.state() {
            State::Active => {}
            State::FcInit2 => {
                self.init.receive_tlp();
                self.advance_init(now);
            }
            State::Inactive | State::FcInit1 => return false,
        }
        match self.receiver.receive(now, Sequence::from_bits(sequence)) {
            Verdict::Accept => self.accept(tlp),
            Verdict::Duplicate => {
                self.counters.duplicate_tlps += 1;
                self.pending |= pending::ACK;
                false
            }
            Verdict::Gap { nak } => {
                self.counters.out_of_sequence += 1;
                self.pending |= if nak { pending::NAK } else { 0 };
                false
            }
        }
    }

    fn accept(&mut self, tlp: &Tlp) -> bool {
        // A Nak that has not left yet would ask for what has just come.
        self.pending &= !pending::NAK;
        let class = tlp.class();
        let credits = &mut self.rx_credits[class.index()];
        if !credits.receive(tlp.data_credits()) {
            self.counters.receiver_overflows += 1;
            return false;
        }
        if credits.starves_sender() {
            self.pending |= self.updates.used_up(class) << pending::UPDATE_FC_SHIFT;
        }
        true
    }

    fn receive_dllp(&mut self, now: Time, dllp: Dllp) {
        match dllp {
            Dllp::Ack { sequence } => self.receive_ack(now, sequence),
            Dllp::Nak { sequence } => self.receive_nak(now, sequence),
            // Virtual channels but VC0 do not exist here.
            Dllp::FlowControl(fc) if fc.vc == 0 => self.receive_flow_control(now, &fc),
            Dllp::FlowControl(_) => {}
        }
    }

    fn receive_ack(&mut self, now: Time, sequence: u16) {
        if !self.is_active() {
            return;
        }
        match self.replay.acknowledge(now, Sequence::from_bits(sequence), &mut self.store) {
            Acknowledged::ProtocolError => self.counters.data_link_protocol_errors += 1,
            Acknowledged::Nothing => {}
            Acknowledged::Progress => {
                self.note_replay();
                if self.stalls.is_replay_blocked() {
                    self.select();
                    self.stalls.note(now, &mut self.counters);
                }
            }
        }
    }

    fn receive_nak(&mut self, now: Time, sequence: u16) {
        self.counters.nak_received += 1;
        let errors = self.counters.data_link_protocol_errors;
        self.receive_ack(now, sequence);
        if self.is_active() && errors == self.counters.data_link_protocol_errors {
            self.start_replay(now);
        }
    }

    fn receive_flow_control(&mut self, now: Time, fc: &FlowControl) {
        let index = fc.class.index();
        match self.init.state() {
            State::Inactive => return,
            State::FcInit1 | State::FcInit2 => {
                if self.init.receive(fc.kind, fc.class) {
                    self.tx_credits[index] = TxCredits::init(fc);
                }
                self.advance_init(now);
            }
            State::Active if fc.kind != FlowControlKind::UpdateFc => {
                // The other end has missed our InitFC2s; an UpdateFC tells it the same (`PCIe 5.0 §3.4.1`).
                if self.init.is_late(now) {
                    self.pending |= 1 << (pending::UPDATE_FC_SHIFT + index as u32);
                }
            }
            State::Active => {}
        }
        if fc.kind == FlowControlKind::UpdateFc && self.init.state() >= State::FcInit2 {
            self.tx_credits[index].update(fc);
            self.select();
            self.stalls.note(now, &mut self.counters);
        }
    }

    fn advance_init(&mut self, now: Time) {
        if !self.init.advance(now) {
            return;
        }
        if self.init.wants_to_send() {
            self.pending |= pending::INIT_FC;
        }
        if self.is_active() {
            self.updates.start(now);
            self.select();
        }
    }
}
