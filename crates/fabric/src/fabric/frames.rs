// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots whose data link layer is not riser's ([`endpoint::FramePort`]): frames cross as bytes between the slot and the
//! link. The port at this end of the link is a [carrier](link::Port::carrier). Faults, taps and the wire see both
//! directions as frames.
//!
//! The fabric follows the sequence numbers only to count TLPs and to keep their accounts, which bytes do not carry. It
//! decides nothing by them.

use super::pump::Put;
use super::{Fabric, show};
use crate::fault::Harm;
use crate::ledger::Ledger;
use crate::topology::{LinkId, Owner, PortId, Side};
use crate::wire::{InFlight, Odd};
use endpoint::{LinkHolds, PhyEvent};
use link::{CarriedAs, Frame, Integrity, Rare, SentFrame, WireFrame, carried_as};
use std::collections::{BTreeMap, BTreeSet};
use tlp::{Account, Bdf, Body, Class, Duration, PayloadPool, Tag, Time, Tlp};

/// Number of sequence numbers (`PCIe 5.0 §3.5.1`).
const SEQUENCES: u16 = 1 << 12;
/// Distance up to which a sequence number counts as past (`PCIe 5.0 §3.6.3.1`).
const PAST: u16 = SEQUENCES / 2;
/// Bytes on the wire of bytes that are no frame: as many as the shortest and the longest frame.
const UNREADABLE: [u32; 2] = [8, 4160];

/// An end of a link whose data link layer is not riser's.
pub(super) struct FrameEnd {
    /// The port.
    port: PortId,
    /// The states in which it holds its link, as the fabric knows them.
    pub(super) holds: LinkHolds,
    /// NEXT_TRANSMIT_SEQ, by the TLPs that it has sent.
    next_transmit: u16,
    /// NEXT_RCV_SEQ, by the intact TLPs that have reached it.
    next_receive: u16,
    /// Accounts of the TLPs that it has sent, by sequence number.
    sent: Box<[(Account, Class)]>,
    /// Accounts of requests that have reached it, for their completions.
    asked: BTreeMap<(Bdf, Tag), Account>,
    payloads: PayloadPool,
    /// Frames that could not be read.
    unreadable: u64,
}

impl FrameEnd {
    pub(super) fn new(port: PortId) -> FrameEnd {
        FrameEnd {
            port,
            holds: LinkHolds::default(),
            next_transmit: 0,
            next_receive: 0,
            sent: vec![(Account::NONE, Class::Posted); usize::from(SEQUENCES)].into_boxed_slice(),
            asked: BTreeMap::new(),
            payloads: PayloadPool::new(),
            unreadable: 0,
        }
    }

    /// Number of frames that could not be read.
    pub(super) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// The sequence numbers of the TLPs that have reached it.
    pub(super) fn received(&self) -> BTreeSet<u16> {
        (1..=PAST).map(|back| (self.next_receive + SEQUENCES - back) % SEQUENCES).collect()
    }

    /// The link is down. Returns the accounts of the TLPs that it has sent and the other end has not `received`.
    pub(super) fn take_down(&mut self, received: &BTreeSet<u16>) -> Vec<Account> {
        let past = (1..PAST).map(|back| (self.next_transmit + SEQUENCES - back) % SEQUENCES);
        let lost = past.take_while(|sequence| !received.contains(sequence));
        let lost = lost.map(|sequence| self.sent[usize::from(sequence)]);
        let dropped = lost.filter(|(_, class)| *class != Class::NonPosted).map(|(account, _)| account);
        let dropped = dropped.collect();
        (self.next_transmit, self.next_receive) = (0, 0);
        self.asked.clear();
        dropped
    }

    /// Sets the account of a TLP that it sends.
    fn charge(&mut self, ledger: &mut Ledger, now: Time, sequence: u16, tlp: &mut Tlp, is_new: bool) {
        let sent = &mut self.sent[usize::from(sequence)];
        if is_new {
            self.next_transmit = (sequence + 1) % SEQUENCES;
            tlp.account = answered(&mut self.asked, tlp);
            let account = match tlp.class() {
                Class::Completion => ledger.answering(now, tlp),
                Class::Posted | Class::NonPosted => {
                    ledger.open(now, self.port.link().0 as usize, self.port.side(), tlp)
                }
            };
            *sent = (account, tlp.class());
        }
        tlp.account = sent.0;
    }

    /// A TLP has reached it with a right LCRC. Returns whether it is the next in order.
    fn receive(&mut self, ledger: &mut Ledger, now: Time, sequence: u16, tlp: &Tlp, malformed: bool) -> bool {
        if sequence != self.next_receive {
            return false;
        }
        self.next_receive = (sequence + 1) % SEQUENCES;
        if malformed {
            ledger.drop(tlp.account);
            return true;
        }
        ledger.reached_slot(tlp, self.port.link().0, now);
        if tlp.class() == Class::NonPosted {
            self.asked.insert(tlp.repr.transaction(), tlp.account);
        }
        true
    }
}

/// The account of the request that `tlp` answers, if it is a completion.
fn answered(asked: &mut BTreeMap<(Bdf, Tag), Account>, tlp: &Tlp) -> Account {
    let Body::Completion(completion) = &tlp.repr.body else { return Account::NONE };
    let request = tlp.repr.transaction();
    let account = if completion.is_last() { asked.remove(&request) } else { asked.get(&request).copied() };
    account.unwrap_or(Account::NONE)
}

/// How a frame counts that its sender has sent after `next` TLPs.
fn counted(frame: &Frame, integrity: Integrity, next: u16) -> CarriedAs<'_> {
    match (frame, integrity) {
        (Frame::Dllp(_), _) | (_, Integrity::Good) => carried_as(frame.as_ref(), next),
        (Frame::Tlp { .. }, _) => CarriedAs::Other,
    }
}

impl Fabric {
    /// Number of frames that the slot of `link` has sent and that no receiver could read: of a length that no frame has,
    /// DLLPs of unknown types, and TLPs of unknown types. They take time on the wire, and go no further.
    pub fn unreadable_frames(&self, link: LinkId) -> u64 {
        let end = self.frame_end(PortId::new(link, Side::Device).index());
        end.map_or(0, |end| end.unreadable)
    }

    pub(super) fn frame_end(&self, port: usize) -> Option<&FrameEnd> {
        self.frame_ends.iter().find(|end| end.port.index() == port)
    }

    pub(super) fn frame_end_mut(&mut self, port: usize) -> Option<&mut FrameEnd> {
        self.frame_ends.iter_mut().find(|end| end.port.index() == port)
    }

    /// The slot above the carrier at `index` has had an input: it may have a frame, or request Recovery.
    pub(super) fn offer_frames(&mut self, index: usize) {
        let Owner::Slot(n) = self.ports[index].owner else { return };
        self.ports[index].port.offer_frames(true);
        let Some(frames) = self.slots[n as usize].device.frames() else { return };
        let (retrains, holds) = (frames.poll_retrain(), frames.link_holds());
        if retrains {
            self.recover(index);
        }
        self.note_holds(index, holds);
        self.poll_design(n as usize);
    }

    /// The carrier at `index` sends the link into Recovery.
    fn recover(&mut self, index: usize) {
        if self.ports[index].port.is_down() {
            return;
        }
        let until = self.ports[index].port.retrained_at(self.now);
        for end in [index, self.ports[index].id.peer().index()] {
            self.ports[end].port.hold(self.now, until);
        }
        self.silence.note(self.now, until, self.last_progress);
        self.tell_recovery(index, until);
    }

    /// The link of the port at `index` is in Recovery until then; notifies the slot of a carrier.
    pub(super) fn tell_recovery(&mut self, index: usize, until: Time) {
        let state = &mut self.ports[index];
        let Owner::Slot(n) = state.owner else { return };
        if let Some(frames) = self.slots[n as usize].device.frames() {
            let (rate, width) = state.port.speed();
            frames.handle_phy(self.now, PhyEvent::Recovery { until, rate, width });
            state.port.offer_frames(true);
        }
    }

    /// Sends the next frame of the slot above the port at `index`, if that is a carrier.
    #[cold]
    #[inline(never)]
    pub(super) fn send_foreign(&mut self, index: usize) -> Put {
        let Some(state) = self.ports.get_mut(index) else { return Put::Nothing };
        let Owner::Slot(n) = state.owner else { return Put::Nothing };
        if !state.port.rare().contains(Rare::FRAMES) {
            return Put::Nothing;
        }
        let frames = self.slots[n as usize].device.frames();
        let frame = frames.and_then(|frames| frames.poll_frame(self.now));
        let put = match &frame {
            Some(frame) => {
                self.put_foreign(index, frame);
                self.offer_frames(index);
                Put::Other
            }
            None => {
                state.port.offer_frames(false);
                Put::Nothing
            }
        };
        // A frame may start a timer.
        self.arm_slot(n as usize);
        self.arm_switch_of(n as usize);
        put
    }

    /// Puts a frame on the wire.
    fn put_foreign(&mut self, index: usize, raw: &WireFrame) {
        let now = self.now;
        let id = self.ports[index].id;
        let Ok([state, peer]) = self.ports.get_disjoint_mut([index, id.peer().index()]) else { return };
        let Some(end) = self.frame_ends.iter_mut().find(|end| end.port == id) else { return };
        let Ok((mut frame, integrity)) = raw.decode(&end.payloads) else {
            end.unreadable += 1;
            let [least, most] = UNREADABLE;
            state.port.carry(now, raw.wire_bytes().clamp(least, most), CarriedAs::Other);
            return;
        };
        let counts_as = counted(&frame, integrity, end.next_transmit);
        let is_new = matches!(counts_as, CarriedAs::New(_));
        let (start, sent_at) = state.port.carry(now, raw.wire_bytes(), counts_as);
        if let (Frame::Tlp { sequence, tlp }, Integrity::Good) = (&mut frame, integrity) {
            end.charge(&mut self.ledger, now, *sequence, tlp, is_new);
        }
        let arrival = sent_at + peer.propagation;
        if let (Frame::Tlp { tlp, .. }, true) = (&frame, is_new) {
            let data_bytes = 4 * tlp.repr.data_dw();
            self.ledger.sent(tlp, data_bytes, [start, sent_at, arrival], Duration::ZERO, &mut state.flow);
        }
        let in_flight = InFlight::foreign(&frame, Harm::of(integrity));
        if let Some(tap) = &mut self.tap {
            show(tap.as_mut(), sent_at, id, id.side(), frame.as_ref(), in_flight.odd.as_deref());
        }
        if !peer.port.rare().intersects(Rare::FAULTS | Rare::FRAMES) {
            peer.push_inbound(in_flight, arrival, &mut self.queue);
        } else if let Some(cut) = peer.send_by_rules(in_flight, frame.as_ref(), arrival, &mut self.queue) {
            self.cut(id.link(), cut);
        }
    }

    /// The oldest frame on its way to the carrier `id` arrives.
    pub(super) fn arrive_foreign(&mut self, id: PortId, frame: SentFrame, odd: &Odd) {
        let now = self.now;
        let index = id.index();
        let Ok([state, sender]) = self.ports.get_disjoint_mut([index, id.peer().index()]) else { return };
        let Owner::Slot(n) = state.owner else { return };
        let harm = odd.harm.as_deref();
        let lent = match &odd.again {
            Some(_) => frame.with(odd.again.as_ref()),
            None => self.ledger.lend(&mut sender.port, frame, id.link(), state.propagation),
        };
        let Some(frame) = lent.map(|frame| harm.map_or(frame, |harm| harm.alter(frame))) else { return };
        if let Some(tap) = &mut self.tap {
            show(tap.as_mut(), now, id.peer(), id.side(), frame, Some(odd));
        }
        if odd.dropped {
            return;
        }
        let end = self.frame_ends.iter_mut().find(|end| end.port == id);
        if let (Frame::Tlp { sequence, tlp }, Some(end)) = (frame, end)
            && !harm.is_some_and(Harm::is_damage)
        {
            let malformed = tlp.is_malformed() || harm.is_some_and(|harm| harm.malformed().is_some());
            if end.receive(&mut self.ledger, now, sequence, tlp, malformed) {
                self.totals.tlp_hops += 1;
                self.last_progress = now;
            }
        }
        let raw = harm.map_or_else(|| WireFrame::of(frame), |harm| harm.on_the_wire(frame));
        let breaks_lock = raw.ending == link::Ending::Broken && !state.port.speed().0.is_8b10b();
        if let Some(frames) = self.slots[n as usize].device.frames() {
            frames.handle_frame(now, &raw);
        }
        // With 128b/130b encoding, a framing error sends the link into Recovery (`PCIe 5.0 §4.2.2.3.3`).
        if breaks_lock {
            self.recover(index);
        }
        self.offer_frames(index);
        self.pump(index);
        self.apply_link_actions();
    }
}
