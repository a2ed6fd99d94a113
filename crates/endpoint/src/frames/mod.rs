// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of a data link layer that is not riser's: RTL, or a model of a third party. Frames cross as bytes between
//! it and riser's link.
//!
//! ```text
//!   root port or switch ── link::Port ══ frames ══ FramePort          everything from the data link layer up
//!   root port or switch ── link::Port ══ frames ══ DataLink ── TlpPort   `Joined`: only the data link layer
//! ```
//!
//! - [`FramePort`]: what the fabric drives. [`FrameSlot`] puts it into a slot.
//! - [`DataLink`]: a data link layer, with credits, below one of riser's devices; [`Joined`] connects the two.
//! - [`Credits`]: credits for a [`DataLink`] that has none.
//!
//! The physical layer is the fabric's: it gives each frame its time on the wire, and applies the link's faults to it.

mod credits;

pub use credits::Credits;

use crate::port::{Clocked, CreditReturn, FramePort, LinkCredits, PhyEvent, TlpPort};
use device::seam::Ready;
use link::{Notice, WireFrame};
use tlp::rules::Refusal;
use tlp::{Class, TcSet, Time, Tlp, TrafficClass};

/// A data link layer with the credits of its transaction layer, below a device that exchanges TLPs.
pub trait DataLink: FramePort {
    /// Returns the Traffic Classes of `class` that it can take a TLP of.
    fn room(&self, class: Class) -> TcSet;

    /// Takes a TLP to send. Its Traffic Class is in [`room`](Self::room).
    fn send(&mut self, now: Time, tlp: Tlp);

    /// Returns the next TLP that has arrived: in order, once, and within its credits.
    fn poll_tlp(&mut self) -> Option<Tlp>;

    /// Takes back the credits of a TLP that has arrived since the link came up.
    fn return_credits(&mut self, now: Time, credit: CreditReturn);

    /// Returns the next notice for the device: [`Notice::Up`], [`Notice::Down`], or an error.
    fn poll_notice(&mut self) -> Option<Notice>;
}

/// A device with a data link layer that is not riser's.
pub struct Joined<L> {
    link: L,
    device: Box<dyn TlpPort>,
    /// One TLP per class whose channel has no room.
    held: [Option<Tlp>; 3],
    /// TLPs whose credits the device holds, by class and Traffic Class: from before the link last went down, and since.
    holds: [HeldCounts; 2],
}

/// Number of TLPs by class and Traffic Class.
type HeldCounts = [[u32; 8]; 3];

/// The number of TLPs like one of `class` and `tc`.
fn held(holds: &mut HeldCounts, class: Class, tc: TrafficClass) -> &mut u32 {
    &mut holds[class.index()][usize::from(tc.bits())]
}

impl<L: DataLink> Joined<L> {
    /// Joins `device` to `link`.
    pub fn new(link: L, device: Box<dyn TlpPort>) -> Joined<L> {
        Joined { link, device, held: [const { None }; 3], holds: [HeldCounts::default(); 2] }
    }

    /// The data link layer.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// Moves TLPs, credits and notices between the two until neither has more.
    fn exchange(&mut self, now: Time) {
        while self.hand_up(now) | self.hand_down(now) {}
    }

    fn hand_up(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(notice) = self.link.poll_notice() {
            if matches!(notice, Notice::Down { .. }) {
                self.take_down();
            }
            self.device.handle_notice(now, notice);
            moved = true;
        }
        while let Some(tlp) = self.link.poll_tlp() {
            *held(&mut self.holds[1], tlp.class(), tlp.repr.tc) += 1;
            self.device.handle_tlp(now, &tlp);
            moved = true;
        }
        moved
    }

    fn hand_down(&mut self, now: Time) -> bool {
        let mut moved = false;
        for class in Class::ALL {
            while let Some(tlp) = self.next_tlp(now, class) {
                self.link.send(now, tlp);
                moved = true;
            }
        }
        while let Some(credit) = self.device.poll_credits() {
            // Credits come back in the order of their TLPs.
            let is_stale = *held(&mut self.holds[0], credit.class, credit.tc) != 0;
            *held(&mut self.holds[usize::from(!is_stale)], credit.class, credit.tc) -= 1;
            if !is_stale {
                self.link.return_credits(now, credit);
            }
            moved = true;
        }
        moved
    }

    /// The link is down: the credits that the device holds are void, and TLPs that wait are lost.
    fn take_down(&mut self) {
        self.held = [const { None }; 3];
        let [stale, fresh] = &mut self.holds;
        for (stale, fresh) in stale.iter_mut().flatten().zip(fresh.iter_mut().flatten()) {
            *stale += std::mem::take(fresh);
        }
    }

    /// The next TLP of `class` for which there is room.
    fn next_tlp(&mut self, now: Time, class: Class) -> Option<Tlp> {
        let room = self.room(class);
        if room.is_empty() {
            return None;
        }
        let held = &mut self.held[class.index()];
        if held.is_some() {
            return held.take_if(|tlp| room.contains(tlp.repr.tc));
        }
        let tlp = self.device.poll_tlp(now, class, room)?;
        if room.contains(tlp.repr.tc) {
            return Some(tlp);
        }
        *held = Some(tlp);
        None
    }

    /// The Traffic Classes of `class` that may be sent. Nothing passes a posted TLP of its channel, which is held because
    /// the channel has no room for posted TLPs.
    fn room(&self, class: Class) -> TcSet {
        let room = self.link.room(class);
        match self.held[Class::Posted.index()] {
            Some(_) if class != Class::Posted => room.and(self.link.room(Class::Posted)),
            _ => room,
        }
    }
}

impl<L: DataLink> FramePort for Joined<L> {
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        self.link.handle_phy(now, event);
        self.exchange(now);
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        self.link.handle_frame(now, frame);
        self.exchange(now);
    }

    fn poll_frame(&mut self, now: Time) -> Option<WireFrame> {
        let frame = self.link.poll_frame(now);
        self.exchange(now);
        // The room that a frame leaves may be what the device has waited for.
        frame.or_else(|| self.link.poll_frame(now))
    }

    fn poll_retrain(&mut self) -> bool {
        self.link.poll_retrain()
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.link.poll_timeout(), self.device.poll_timeout()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.device.poll_timeout()) {
            self.device.handle_timeout(now);
        }
        if is_due(self.link.poll_timeout()) {
            self.link.handle_timeout(now);
        }
        self.exchange(now);
    }

    fn is_ticking(&self) -> bool {
        self.device.poll_timeout().is_none_or(|at| at == Time::MAX) || self.device.is_ticking()
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        self.link.clock()?;
        Some(self)
    }

    fn power_on(&mut self, now: Time) {
        self.device.power_on(now);
        self.link.power_on(now);
    }

    fn longest_non_posted(&self) -> u32 {
        self.device.longest_non_posted()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        [self.device.counts(), self.link.counts()].concat()
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        [self.device.errors(), self.link.errors()].concat()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.device.refusals()
    }

    fn waits_for(&self) -> Option<String> {
        self.device.waits_for().or_else(|| self.link.waits_for())
    }
}

impl<L: DataLink> Clocked for Joined<L> {
    fn run_ahead(&mut self, until: Time) {
        let until = self.device.poll_timeout().map_or(until, |at| at.min(until));
        if let Some(clock) = self.link.clock() {
            clock.run_ahead(until);
        }
    }

    fn shows_credits(&mut self) -> bool {
        false
    }

    fn handle_credits(&mut self, _credits: &LinkCredits) {}
}

/// A [`FramePort`] as the device of a slot. It neither takes nor sends TLPs.
pub struct FrameSlot(Box<dyn FramePort>);

impl FrameSlot {
    /// Puts `port` into a slot.
    pub fn new(port: impl FramePort + 'static) -> FrameSlot {
        FrameSlot(Box::new(port))
    }
}

impl TlpPort for FrameSlot {
    fn handle_tlp(&mut self, _now: Time, _tlp: &Tlp) {}

    fn poll_tlp(&mut self, _now: Time, _class: Class, _room: TcSet) -> Option<Tlp> {
        None
    }

    fn ready(&self) -> Ready {
        Ready::NONE
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.poll_timeout()
    }

    fn is_ticking(&self) -> bool {
        self.0.is_ticking()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    fn clock(&mut self) -> Option<&mut dyn Clocked> {
        self.0.clock()
    }

    fn frames(&mut self) -> Option<&mut dyn FramePort> {
        Some(self.0.as_mut())
    }

    /// The notices of a port without a data link layer are only those of its physical layer.
    fn handle_notice(&mut self, now: Time, notice: Notice) {
        let event = match notice {
            Notice::Up { rate, width } => PhyEvent::Up { rate, width },
            Notice::Down { surprise } => PhyEvent::Down { surprise },
            _ => return,
        };
        self.0.handle_phy(now, event);
    }

    fn power_on(&mut self, now: Time) {
        self.0.power_on(now);
    }

    fn longest_non_posted(&self) -> u32 {
        self.0.longest_non_posted()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.0.counts()
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        self.0.errors()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.0.refusals()
    }

    fn waits_for(&self) -> Option<String> {
        self.0.waits_for()
    }
}
