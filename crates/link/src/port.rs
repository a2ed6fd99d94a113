// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port combines the parts of this crate, and selects the next frame for the wire. It reads only the lengths, Traffic
//! Class and ordering attributes in the header of a TLP.

mod carrier;
mod channels;
mod down;
mod fast;
mod receive;
mod refresh;
mod transmit;

pub use carrier::{CarriedAs, carried_as};
pub use channels::{ChannelResource, Channels};
pub use down::Lost;
pub use fast::SentTlp;

use crate::arbiter::Arbiter;
use crate::channel::Channel;
use crate::config::{CreditLimit, FlowControlMode, PortConfig, ReplayCursor};
use crate::counters::Counters;
use crate::credit::UnusedCredits;
use crate::frame::{Damage, Frame, Sent, SentFrame};
use crate::init::{FeatureExchange, InitState};
use crate::notice::{Notice, Notices};
use crate::rare::Rare;
use crate::replay::ReplayBuffer;
use crate::rx::Receiver;
use crate::stall::Stalls;
use crate::store::TlpStore;
use crate::timing::{Serializer, Timers};
use crate::tx::Lengths;
use crate::update::{KINDS, UpdateSchedule};
use tlp::rules::{Refusal, Refusals};
use tlp::{Account, Class, Duration, Rate, TcSet, Time, Tlp, TrafficClass, Vc, Width};

/// All classes, bits by [`Class::index`].
const ALL_CLASSES: u8 = (1 << Class::ALL.len()) - 1;

/// Frames waiting to be sent in addition to new TLPs, lowest bit first: the order that `PCIe 5.0 §3.6.2.1` recommends.
mod pending {
    pub(super) const NAK: u64 = 1 << 0;
    pub(super) const ACK: u64 = 1 << 1;
    pub(super) const FEATURE: u64 = 1 << 2;
    /// First of eight bits, indexed by `Vc::index`.
    pub(super) const INIT_FC_SHIFT: usize = 3;
    /// First of three bits for each channel, indexed by `Class::index`.
    pub(super) const UPDATE_FC_SHIFT: usize = INIT_FC_SHIFT + 8;
    pub(super) const REPLAY: u64 = 1 << (UPDATE_FC_SHIFT + super::KINDS);
    /// The owner of a carrier may have a frame.
    pub(super) const FRAMES: u64 = REPLAY << 1;
}

/// One port of a link.
///
/// After every call of `start`, `enqueue`, `handle_frame`, `return_credits`, `handle_timeout`, `retrain` and of
/// `poll_transmit` itself, poll [`transmit_ready_at`](Port::transmit_ready_at) and [`poll_timeout`](Port::poll_timeout)
/// again.
pub struct Port {
    rare: Rare,
    /// Whether a deadline may be earlier than at the driver's last poll.
    deadline_moved: bool,
    pending: u64,
    /// Channels that have a TLP to send and credits for it, by [`Vc::index`].
    ready: u8,
    /// The channels of `ready` whose TLP fits into the replay buffer.
    sendable: u8,
    arbiter: Arbiter,
    stalls: Stalls,
    wire: Serializer,
    store: TlpStore,
    /// The channels by [`Vc::index`], up to the last in use.
    channels: Vec<Channel>,
    /// Receive buffers of the channel resources, in the order of their channels' numbers in the configuration.
    resource_buffers: Vec<[CreditLimit; 3]>,
    /// The channel of each Traffic Class; VC0 for a class that is not mapped.
    channel_of: [u8; 8],
    mapped: TcSet,
    /// Traffic Classes whose channel is initialized.
    settled: TcSet,
    /// The Traffic Classes whose queues have room, by class.
    room: [TcSet; 3],
    /// The classes of which `room` is not empty, bits by [`Class::index`].
    open_classes: u8,
    /// Bytes of data for which the other end has room in a TLP of any class on any channel.
    max_data_bytes: u16,
    replay: ReplayBuffer,
    /// Acks sent when the current replay by position last moved.
    replay_acks: u64,
    receiver: Receiver,
    /// The receive buffer of a link without credits.
    buffer: Option<PortBuffer>,
    updates: UpdateSchedule,
    feature: FeatureExchange,
    /// Time at which the DLLPs of an initialization are repeated; [`Time::MAX`]: never.
    init_at: Time,
    /// Set when REPLAY_NUM has rolled over, until the other end is notified.
    retrains_until: Option<Time>,
    /// Whether a TLP in order was discarded and not yet reported to the driver.
    refused: bool,
    notices: Notices,
    /// Whether the link was taken down and is still down.
    down: bool,
    /// Number of TLPs from before the link last went down whose credits their receiver has not returned yet.
    stale: u32,
    stale_by_kind: Box<[[u16; 3]]>,
    /// Current rate and width.
    speed: (Rate, Width),
    counters: Counters,
    refusals: Refusals,
    config: Box<PortConfig>,
}

/// A receive buffer without flow control.
struct PortBuffer {
    capacity: u16,
    used: u16,
}

impl Port {
    /// Makes a port that is not started. `config` must pass [`PortConfig::validate`]. With an invalid one, the port
    /// works but violates the specification.
    pub fn new(config: PortConfig) -> Port {
        let timers = Timers::new(&config, config.rate, config.width);
        let map = config.tc_vc;
        let last = map.channels().last().unwrap_or_default();
        let queues = 3 * config.tx_queue_tlps * map.channels().count();
        let buffer = match config.flow_control {
            FlowControlMode::Credits => None,
            FlowControlMode::None { buffer_tlps } => Some(PortBuffer { capacity: buffer_tlps, used: 0 }),
        };
        let (tlps, bytes) = (config.replay_buffer_tlps, config.replay_buffer_bytes);
        Port {
            rare: Rare::INACTIVE,
            deadline_moved: true,
            pending: 0,
            ready: 0,
            sendable: 0,
            arbiter: Arbiter::new(&config.arbitration),
            stalls: Stalls::new(),
            wire: Serializer::new(&config),
            store: TlpStore::new(queues + usize::from(tlps)),
            channels: Vc::all().filter(|vc| *vc <= last).map(|vc| Channel::new(&config, vc)).collect(),
            resource_buffers: map.channels().map(|vc| config.buffer(vc)).collect(),
            channel_of: channels::channel_of(&map),
            mapped: map.mapped(),
            settled: TcSet::NONE,
            room: [TcSet::ALL; 3],
            open_classes: ALL_CLASSES,
            max_data_bytes: u16::MAX,
            replay: ReplayBuffer::new(tlps, bytes, timers.replay, buffer.is_none()),
            replay_acks: 0,
            receiver: receiver(&config, timers.ack),
            buffer,
            updates: UpdateSchedule::new(&config, timers.update),
            feature: FeatureExchange::new(config.scaled_flow_control),
            init_at: Time::MAX,
            retrains_until: None,
            refused: false,
            notices: Notices::default(),
            down: false,
            stale: 0,
            stale_by_kind: Box::default(),
            speed: (config.rate, config.width),
            counters: Counters::default(),
            refusals: Refusals::default(),
            config: Box::new(config),
        }
    }

    /// Starts the port when the physical layer is up: the exchange of features begins, then flow-control initialization
    /// of VC0, then of the other channels. Call this once.
    pub fn start(&mut self, now: Time) {
        self.deadline_moved = true;
        self.wire.start(now);
        if self.buffer.is_some() {
            return self.note_up();
        }
        if self.channels[0].init.state() != InitState::Inactive {
            return;
        }
        self.note_negotiation();
        if self.feature.start() {
            self.pending |= pending::FEATURE;
        } else {
            self.start_init(0);
        }
    }

    fn start_init(&mut self, channel: usize) {
        self.channels[channel].init.start();
        self.pending |= 1 << (pending::INIT_FC_SHIFT + channel);
    }

    /// Returns whether the port is in DL_Active: the credits of VC0 are known, and its TLPs may flow.
    pub fn is_active(&self) -> bool {
        self.channels[0].is_active()
    }

    /// True if the TLPs of every channel in use may flow.
    pub fn is_settled(&self) -> bool {
        self.channels.iter().all(|channel| channel.is_active() || !channel.is_in_use())
    }

    /// Returns the Traffic Classes whose transmit queue has room for a TLP of `class`. A TLP may be queued before
    /// DL_Active; it then waits. A Traffic Class that is not mapped uses VC0, and the other end checks it.
    pub fn room(&self, class: Class) -> TcSet {
        self.room[class.index()]
    }

    /// The Traffic Classes on the same channel as `tc`, which the ordering rules bind to it (`PCIe 5.0 §2.4.1`).
    pub fn channel_classes(&self, tc: TrafficClass) -> TcSet {
        self.channels[self.channel_of(tc)].classes
    }

    /// The classes with room for a TLP of some Traffic Class, bits by [`Class::index`].
    #[inline(always)]
    pub fn open_classes(&self) -> u8 {
        self.open_classes
    }

    /// The queue of `class` on the channel of `classes` is full.
    #[inline(always)]
    fn close_room(&mut self, class: Class, classes: TcSet) {
        let room = &mut self.room[class.index()];
        *room = room.and(classes.complement());
        self.open_classes &= !(u8::from(room.is_empty()) << class.index());
    }

    /// A TLP has left the queue of `class` on the channel of `classes`.
    #[inline(always)]
    fn open_room(&mut self, class: Class, classes: TcSet) {
        let room = &mut self.room[class.index()];
        *room = room.or(classes);
        self.open_classes |= 1 << class.index();
    }

    /// Returns whether there is room for a TLP of `class` and TC0.
    pub fn has_room(&self, class: Class) -> bool {
        self.room(class).contains(TrafficClass::default())
    }

    fn channel_of(&self, tc: TrafficClass) -> usize {
        usize::from(self.channel_of[usize::from(tc.bits())])
    }

    /// Queues a TLP whose Traffic Class is in [`room`](Self::room), and sets its account to `account`. The account is
    /// written after the TLP was moved to its final place. Writing it before would make the move wait for the write.
    /// Without room the port still queues the TLP, but allocates memory.
    pub fn enqueue(&mut self, now: Time, tlp: Tlp, account: Account) {
        if self.rare.is_empty() && tlp.repr.tc == TrafficClass::default() {
            return self.enqueue_on(0, true, now, tlp, account);
        }
        self.enqueue_general(now, tlp, account);
    }

    #[inline(never)]
    fn enqueue_general(&mut self, now: Time, tlp: Tlp, account: Account) {
        self.enqueue_on(self.channel_of(tlp.repr.tc), false, now, tlp, account);
    }

    /// Queues a TLP on channel `index`. `is_fast` if the port has no rare features.
    // Compiled twice: once without the general selection of the next TLP.
    #[inline(always)]
    fn enqueue_on(&mut self, index: usize, is_fast: bool, now: Time, tlp: Tlp, account: Account) {
        let (class, lengths) = (tlp.class(), Lengths::of(&tlp));
        let handle = self.store.insert(tlp, account);
        let channel = &mut self.channels[index];
        let behind_others = channel.queue.head(class).is_some();
        channel.queue.push(now, class, lengths, handle);
        if !channel.queue.has_room(class) {
            let classes = channel.classes;
            self.close_room(class, classes);
        }
        let is_selected = behind_others || (is_fast && self.select_fast());
        if !is_selected {
            self.select(index);
            self.stalls.note(self.wire.free_at().max(now), &mut self.counters);
        }
        if lengths.data > self.max_data_bytes {
            self.check_admitted(index, class, lengths);
        }
    }

    /// Notifies the owner of a TLP for which the other end can never have the credits.
    #[cold]
    fn check_admitted(&mut self, index: usize, class: Class, lengths: Lengths) {
        if let Some(advertised) = self.channels[index].never_admits(class, lengths) {
            let (vc, needed) = (Vc::from_bits(index as u8), lengths.data_credits() as u16);
            self.notices.link(Notice::NeverAdmitted { vc, class, needed, advertised });
        }
    }

    /// Called when the credits of channel `index` become known. Checks the TLPs that waited for them. Later TLPs are
    /// checked on entry.
    pub(crate) fn admit_waiting(&mut self, index: usize) {
        self.max_data_bytes = self.max_data_bytes.min(self.channels[index].max_data_bytes());
        for class in Class::ALL {
            let waiting = self.channels[index].queue.waiting(class).map(|queued| queued.lengths);
            if let Some(longest) = waiting.max_by_key(|lengths| lengths.data) {
                self.check_admitted(index, class, longest);
            }
        }
    }

    /// Returns the time when the wire is free (which may be in the past), if there is a frame to send. `None` if the
    /// port needs another input first.
    pub fn transmit_ready_at(&self) -> Option<Time> {
        (self.pending != 0 || self.sendable != 0).then(|| self.wire.free_at())
    }

    /// Returns the next frame for the wire, if the wire is free at `now` and a frame may be sent
    /// ([`transmit_ready_at`](Self::transmit_ready_at)). A due SKP ordered set goes before it, so `start` may be later
    /// than `now`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Sent> {
        if now < self.wire.free_at() {
            return None;
        }
        if self.pending != 0 { self.transmit_pending(now) } else { self.transmit_new(now) }
    }

    /// Returns a frame that was sent, with its TLP; `None` if the TLP was acknowledged. So a frame that was sent once
    /// is still in the port when it arrives. A replayed frame may be gone, because an earlier copy may have been
    /// acknowledged.
    pub fn lend(&self, frame: SentFrame) -> Option<Frame<&Tlp>> {
        match frame {
            Frame::Tlp { sequence, .. } => Some(Frame::Tlp { sequence, tlp: self.lend_tlp(sequence)? }),
            Frame::Dllp(dllp) => Some(Frame::Dllp(dllp)),
        }
    }

    /// Handles a frame that has arrived, with its last symbol at `now`. Returns true if it is a new TLP in order, which
    /// the driver must pass to the owner. The receiver then holds its credits until
    /// [`return_credits`](Self::return_credits).
    #[inline(always)]
    pub fn handle_frame(&mut self, now: Time, frame: Frame<&Tlp>) -> bool {
        match frame {
            Frame::Tlp { sequence, tlp } => {
                self.receive_fast(now, sequence, tlp) || self.receive_tlp(now, sequence, tlp)
            }
            Frame::Dllp(dllp) => {
                self.receive_dllp(now, dllp);
                false
            }
        }
    }

    /// Like [`handle_frame`](Self::handle_frame), for a frame with flipped bits.
    pub fn handle_damaged(&mut self, now: Time, frame: Frame<&Tlp>, damage: &Damage) -> bool {
        (damage.is_empty() || self.survives(now, frame, damage)) && self.handle_frame(now, frame)
    }

    /// Returns whether the TLP that was just rejected was new and in order, but had no credits or no Traffic Class in
    /// use. Such a TLP is acknowledged and will not be replayed. True once.
    pub fn poll_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// Returns the next notice for the port's owner, oldest first. Poll it after every call except
    /// [`enqueue`](Self::enqueue), [`return_credits`](Self::return_credits) and calls that change no state.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        if self.notices.is_empty() { None } else { self.notices.next() }
    }

    /// Whether [`poll_notice`](Self::poll_notice) has a notice.
    pub fn has_notice(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Returns the number of errors without a notice because sixteen already waited; the counters include them.
    pub fn notices_lost(&self) -> u64 {
        self.notices.lost()
    }

    /// Returns credits for a TLP of `tc` and `class` with `data_credits` units of 16 B, which has left the receiver's
    /// buffer.
    #[inline]
    pub fn return_credits(&mut self, now: Time, tc: TrafficClass, class: Class, data_credits: u32) {
        if self.rare.is_empty() && tc == TrafficClass::default() {
            return self.return_credits_fast(now, class, data_credits);
        }
        self.return_credits_general(now, tc, class, data_credits);
    }

    #[inline(never)]
    fn return_credits_general(&mut self, now: Time, tc: TrafficClass, class: Class, data_credits: u32) {
        self.deadline_moved = true;
        if let Some(buffer) = &mut self.buffer {
            buffer.used = buffer.used.saturating_sub(1);
            return;
        }
        let channel = self.channel_of(tc);
        if self.stale != 0 && self.is_stale(channel, class) {
            return;
        }
        let urgent = self.channels[channel].rx[class.index()].free(data_credits);
        let tell = self.updates.returned(now, channel, class, urgent);
        self.pending |= u64::from(tell) << pending::UPDATE_FC_SHIFT;
    }

    /// Returns whether [`poll_timeout`](Self::poll_timeout) may be earlier than at the last call of this function.
    #[inline(always)]
    pub fn take_deadline_moved(&mut self) -> bool {
        std::mem::take(&mut self.deadline_moved)
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Time> {
        let data_link = self.receiver.deadline().min(self.replay.deadline());
        let updates = self.updates.news_deadline().min(self.updates.refresh_deadline());
        let earliest = data_link.min(updates).min(self.init_at);
        (earliest != Time::MAX).then_some(earliest)
    }

    /// Expires the timers that are due at `now`. An early call is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.deadline_moved = true;
        if self.receiver.ack_due(now) {
            self.pending |= pending::ACK;
        }
        if self.replay.deadline() <= now {
            self.counters.replay_timeouts += 1;
            if !self.replays_by_position() {
                self.notices.error(Notice::ReplayTimeout);
            }
            self.start_replay(now);
        }
        self.pending |= u64::from(self.updates.timeout(now)) << pending::UPDATE_FC_SHIFT;
        if self.init_at <= now {
            self.init_timeout(now);
        }
    }

    /// Whether this port replays by [position](ReplayCursor::Position).
    #[cold]
    fn replays_by_position(&self) -> bool {
        self.config.replay_cursor == ReplayCursor::Position
    }

    fn init_timeout(&mut self, now: Time) {
        if self.feature.timeout(now) {
            self.pending |= pending::FEATURE;
        }
        for (index, channel) in self.channels.iter_mut().enumerate() {
            channel.init.timeout(now);
            if channel.init.wants_to_send() {
                self.pending |= 1 << (pending::INIT_FC_SHIFT + index);
            }
        }
        self.note_init();
    }

    /// The deadlines of initializations may have changed.
    fn note_init(&mut self) {
        self.deadline_moved = true;
        let channels = self.channels.iter().map(|channel| channel.init.deadline()).min();
        self.init_at = self.feature.deadline().min(channels.unwrap_or(Time::MAX));
    }

    /// Returns when this port could send again if it retrained now: [`PortConfig::retrain`] after the frame on the wire.
    pub fn retrained_at(&self, now: Time) -> Time {
        self.wire.free_at().max(now) + self.config.retrain
    }

    /// Retrains the link, which is up again at `until` with `rate` and `width` (`PCIe 5.0 §4.2.6.4`). Call this at both
    /// ends with the later of their [`retrained_at`](Self::retrained_at). The frame on the wire is still sent; then the
    /// wire is silent. Sequence numbers, credits and unacknowledged TLPs stay; REPLAY_TIMER is held until then.
    pub fn retrain(&mut self, now: Time, until: Time, rate: Rate, width: Width) {
        self.deadline_moved = true;
        if self.down {
            return;
        }
        let skp_interval = self.config.skp_interval_at(rate);
        self.wire.retrain(now, until, rate, width, skp_interval, &mut self.counters);
        let timers = Timers::new(&self.config, rate, width);
        self.replay.set_timeout(timers.replay);
        self.replay.hold(now, until);
        self.receiver.set_ack_limit(timers.ack);
        self.updates.set_interval(timers.update);
        self.counters.link_changes += 1;
        self.speed = (rate, width);
        self.notices.link(Notice::Retrained { rate, width });
    }

    /// Returns the end of a retraining that this port has started because REPLAY_NUM rolled over. Poll it after
    /// [`handle_timeout`](Self::handle_timeout), and after a frame for which `handle_frame` returned false. Then notify
    /// the other end by [`hold`](Self::hold). Returned once.
    pub fn poll_retrain(&mut self) -> Option<Time> {
        self.retrains_until.take()
    }

    /// Notes that the other end has sent the link into retraining: this port stays silent from the end of the frame on
    /// the wire until `until`, and holds REPLAY_TIMER.
    pub fn hold(&mut self, now: Time, until: Time) {
        self.deadline_moved = true;
        if self.down {
            return;
        }
        self.wire.hold(now, until, &mut self.counters);
        self.replay.hold(now, until.max(now));
    }

    /// Returns the unused credits of VC0, by [`Class::index`]: zero before an InitFC has advertised them.
    pub fn unused_credits(&self) -> [UnusedCredits; 3] {
        self.channels[0].tx.map(|credits| credits.unused())
    }

    /// Counters of the transmit direction and of errors at the receiver.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns why the receiver refused TLPs: the first TLP of each rule. TLPs that the sender repeats are included.
    pub fn refusals(&self) -> &[Refusal] {
        self.refusals.kinds()
    }

    /// Ends the run: counts SKP ordered sets of idle time up to `now`, and stalls that have not ended.
    pub fn finish(&mut self, now: Time) {
        self.wire.catch_up(now, &mut self.counters);
        self.stalls.finish(now, &mut self.counters);
    }

    /// Returns whether the link is up and all frames are sent and acknowledged, so that
    /// [`state_line`](Self::state_line) is `idle`.
    pub fn is_idle(&self) -> bool {
        !self.down
            && !self.feature.is_under_way()
            && self.channels[0].init.state() == InitState::Active
            && self.channels.iter().all(|channel| channel.waits().next().is_none())
            && !self.stalls.is_replay_blocked()
            && self.replay.is_empty()
    }

    /// Describes in one line why the port waits.
    pub fn state_line(&self) -> String {
        if self.down {
            return "link down".to_owned();
        }
        if self.feature.is_under_way() {
            return "exchange of features: waits for Data Link Feature".to_owned();
        }
        match self.channels[0].init.state() {
            InitState::Inactive => return "link not started".to_owned(),
            InitState::FcInit1 => return "flow-control initialization: waits for InitFC1".to_owned(),
            InitState::FcInit2 => return "flow-control initialization: waits for InitFC2".to_owned(),
            InitState::Active => {}
        }
        let named = |(vc, channel): (usize, &Channel)| -> Vec<String> {
            let of = if vc == 0 { String::new() } else { format!("VC{vc}: ") };
            channel.waits().map(|wait| format!("{of}{wait}")).collect()
        };
        let mut waits: Vec<String> = self.channels.iter().enumerate().flat_map(named).collect();
        if self.stalls.is_replay_blocked() {
            let (tlps, bytes) = (self.replay.len(), self.replay.bytes());
            waits.push(format!("replay buffer full: {tlps} TLPs, {bytes} bytes unacknowledged"));
        } else if !self.replay.is_empty() {
            waits.push(format!("{} TLPs unacknowledged", self.replay.len()));
        }
        if waits.is_empty() { "idle".to_owned() } else { waits.join("; ") }
    }
}

/// The receiver of TLPs, by the specification or for a link without flow control.
fn receiver(config: &PortConfig, ack_limit: Duration) -> Receiver {
    match config.flow_control {
        FlowControlMode::Credits => Receiver::new(ack_limit),
        FlowControlMode::None { .. } => Receiver::new(ack_limit).acks_at_once(),
    }
}
