// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs that the front itself sends: completions of requests that reach no device, error messages, PME_TO_Ack. They do
//! not pass a posted TLP of the same function and Traffic Class that was accepted before (`PCIe 5.0 §2.4.1`, entries
//! A2a and D2a). This module does not decide which TLPs are sent.

use super::intx::Pins;
use super::{Front, FunctionBackend, Shared};
use config::{ErrorMessage, ErrorReport};
use device::seam::Ready;
use std::collections::VecDeque;
use tlp::message::{PME_TO_ACK, plain};
use tlp::{Bdf, Class, MessageRouting, TcSet, Time, Tlp, TrafficClass};

/// Maximum number of waiting error messages. Further ones are counted as lost.
const MAX_ERROR_MESSAGES: usize = 16;

/// TLPs that wait to be sent, each with its place in the order of acceptance.
#[derive(Default)]
pub(crate) struct Own {
    /// Bounded like requests, see [`EndpointLimits::max_requests`](super::EndpointLimits::max_requests).
    completions: VecDeque<OwnCompletion>,
    errors: VecDeque<(u64, u16, ErrorMessage)>,
    /// Whether a posted TLP waits.
    posted: bool,
    /// By [`Class::index`]: true if the front has sent the last TLP, so that the functions send the next one. For
    /// completions, only if the front has more of them. With a REPLAY_TIMER that is too short, each error message
    /// causes another error, often before the next poll. Without this alternation, these messages would block the
    /// functions.
    yields: [bool; 3],
    /// Errors of virtual functions that are not logged yet. There are few, because they are logged before the next TLP
    /// is processed.
    pub(crate) virtual_errors: Vec<(u16, ErrorReport)>,
    pub(crate) pins: Pins,
    /// Scratch space of one poll: functions and Traffic Classes whose oldest completion may not be sent yet.
    held: Vec<(u16, TcSet)>,
    /// Number of PME_TO_Ack messages to send, and the stamp of the last one.
    acks: u32,
    ack_stamp: u64,
}

struct OwnCompletion {
    stamp: u64,
    /// Index of its function; `None` if it belongs to none.
    function: Option<u16>,
    tlp: Tlp,
    /// Whether it is the last completion of its request.
    last: bool,
}

impl Own {
    /// Returns the polls that return a TLP here, or that give the next TLP to the front.
    pub(crate) fn ready(&self) -> Ready {
        let posted = self.posted || self.yields[Class::Posted.index()];
        Ready::when(posted, Ready::output(Class::Posted))
            .or(Ready::when(!self.completions.is_empty(), Ready::output(Class::Completion)))
    }

    /// Updates `posted`. To be called after each change of the queued posted TLPs.
    pub(crate) fn refresh(&mut self) {
        let messages = !self.errors.is_empty() || self.acks > 0 || self.pins.is_due();
        self.posted = messages || !self.virtual_errors.is_empty();
    }
}

impl Shared {
    /// Queues a completion of the function with this index, or of no function; `last` is true for the last one of its request.
    pub(crate) fn queue_completion(&mut self, function: Option<usize>, tlp: Tlp, last: bool) {
        let (stamp, function) = (self.stamp(), function.map(|index| index as u16));
        self.own.completions.push_back(OwnCompletion { stamp, function, tlp, last });
    }

    /// Queues the message of an error that the function with this index has logged.
    pub(crate) fn queue_error_message(&mut self, function: u16, message: ErrorMessage) {
        if self.own.errors.len() < MAX_ERROR_MESSAGES {
            let stamp = self.stamp();
            self.own.errors.push_back((stamp, function, message));
            self.own.refresh();
        } else {
            self.counters.error_messages_lost += 1;
        }
    }

    /// Queues a PME_TO_Ack.
    pub(crate) fn queue_turn_off_ack(&mut self) {
        self.own.acks += 1;
        self.own.ack_stamp = self.stamp();
        self.own.refresh();
    }
}

impl<B: FunctionBackend> Front<B> {
    /// Returns whether the front's TLPs go before those of the functions in this poll. The message of an interrupt pin
    /// always goes first, because later TLPs of the device may not pass it.
    pub(crate) fn goes_first(&mut self, class: Class) -> bool {
        if class == Class::Posted {
            self.log_virtual_errors();
        }
        let own = &mut self.shared.own;
        let yields = std::mem::take(&mut own.yields[class.index()]);
        !yields || class == Class::Posted && own.pins.is_due()
    }

    /// Returns the next TLP of `class` that the front itself sends.
    #[cold]
    pub(crate) fn next_own(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let tlp = match class {
            Class::Posted => {
                let message = self.next_plain(room);
                self.shared.own.refresh();
                message
            }
            Class::NonPosted => None,
            Class::Completion => self.next_own_completion(now, room),
        };
        let own = &mut self.shared.own;
        own.yields[class.index()] = tlp.is_some() && (class == Class::Posted || !own.completions.is_empty());
        tlp
    }

    /// Returns the next message, always of TC0. A PME_TO_Ack is sent for all functions together (`PCIe 5.0 §5.3.3.2.1`).
    fn next_plain(&mut self, room: TcSet) -> Option<Tlp> {
        let tc = TrafficClass::default();
        if !room.contains(tc) {
            return None;
        }
        let (functions, own) = (&self.functions, &mut self.shared.own);
        if own.acks > 0 && functions.iter().all(|f| f.precedes_posted(tc, own.ack_stamp)) {
            own.acks -= 1;
            let endpoint = Bdf::from_bits(self.shared.bus_device);
            return Some(plain(endpoint, MessageRouting::Gathered, PME_TO_ACK));
        }
        self.next_intx(room).or_else(|| self.next_error_message(tc))
    }

    fn next_error_message(&mut self, tc: TrafficClass) -> Option<Tlp> {
        let (functions, own) = (&self.functions, &mut self.shared.own);
        let may_go = |&(stamp, function, _): &(u64, u16, ErrorMessage)| {
            functions.get(usize::from(function)).is_none_or(|f| f.precedes_posted(tc, stamp))
        };
        let at = own.errors.iter().position(may_go)?;
        let (_, function, message) = own.errors.remove(at)?;
        self.shared.counters.error_messages += 1;
        let requester = self.functions.get(usize::from(function))?.id(&self.shared);
        Some(plain(requester, MessageRouting::ToRootComplex, message as u8))
    }

    /// Returns the first completion that may be sent: the oldest of each function and Traffic Class is tried.
    fn next_own_completion(&mut self, now: Time, room: TcSet) -> Option<Tlp> {
        let (functions, own) = (&mut self.functions, &mut self.shared.own);
        let Own { completions, held, .. } = own;
        held.clear();
        let at = completions.iter().position(|c| {
            let tc = c.tlp.repr.tc;
            if !room.contains(tc) {
                return false;
            }
            let Some(number) = c.function else { return true };
            let Some(function) = functions.get_mut(usize::from(number)) else { return true };
            if held.iter().any(|(f, tcs)| *f == number && tcs.contains(tc)) {
                return false;
            }
            let may_go = function.may_complete(tc, c.stamp);
            if !may_go {
                held.push((number, TcSet::of(tc)));
            }
            may_go
        })?;
        let OwnCompletion { tlp, last, .. } = own.completions.remove(at)?;
        if last && self.shared.requests.answered(tlp.repr.tc) {
            self.shared.wake_at(now);
        }
        Some(tlp)
    }
}
