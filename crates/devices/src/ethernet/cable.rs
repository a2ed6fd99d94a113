// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cable whose other end is outside the lab. Its owner passes frames to the NIC, and receives the NIC's frames. This
//! module does not depend on a clock or a transport.

use super::{Arrival, EthernetPort, Inbox, MAX_FRAMES_ON_WIRE, Modes, inbox};
use crate::queue::Queue;
use plug::Attachment;
use plug::place::{Input, InputError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::Time;

/// Maximum number of frames that wait for the wire. Further frames are lost, as on a wire, and counted.
pub const MAX_FRAMES_TO_WIRE: usize = 256;

/// Frames of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireCounters {
    /// Frames from the wire.
    pub from_wire: u64,
    /// Frames from the wire that were lost because too many were waiting.
    pub from_wire_lost: u64,
    /// Frames to the wire.
    pub to_wire: u64,
    /// Frames to the wire that were lost because too many were waiting.
    pub to_wire_lost: u64,
    /// Frames of both directions that were lost because the link was down.
    pub without_link: u64,
}

/// The cable. Clones are handles to the same cable. The cable is plugged in, and the other end offers all modes, until
/// a [`LinkInput`] changes this.
#[derive(Clone)]
pub struct Cable {
    inbox: Inbox,
    wire: Rc<RefCell<Wire>>,
    changes: Rc<Queue<()>>,
}

struct Wire {
    frames: VecDeque<Vec<u8>>,
    counters: WireCounters,
    is_plugged: bool,
    /// Modes of the NIC.
    near: Modes,
    /// Modes of the other end.
    far: Modes,
}

impl WireCounters {
    /// Returns the losses, for a report.
    pub fn losses(&self) -> [(&'static str, u64); 2] {
        [("no_link_frames", self.without_link), ("wire_lost_frames", self.from_wire_lost + self.to_wire_lost)]
    }
}

impl Wire {
    fn partner(&self) -> Modes {
        if self.is_plugged { self.far } else { Modes::NONE }
    }
}

impl Default for Cable {
    fn default() -> Cable {
        let wire = Wire {
            frames: VecDeque::new(),
            counters: WireCounters::default(),
            is_plugged: true,
            near: Modes::NONE,
            far: Modes::ALL,
        };
        Cable { inbox: inbox(), wire: Rc::new(RefCell::new(wire)), changes: Rc::new(Queue::new(1)) }
    }
}

impl Cable {
    /// Returns the queue in which its frames wait for the NIC.
    pub fn inbox(&self) -> Inbox {
        Rc::clone(&self.inbox)
    }

    /// Handles a frame from the wire, without FCS. Returns false if the frame is lost, because too many wait or the
    /// cable is unplugged.
    pub fn frame_from_wire(&self, frame: &[u8]) -> bool {
        let mut wire = self.wire.borrow_mut();
        wire.counters.from_wire += 1;
        if !wire.is_plugged {
            wire.counters.without_link += 1;
            return false;
        }
        let taken = self.inbox.push(frame.to_vec());
        wire.counters.from_wire_lost += u64::from(!taken);
        taken
    }

    /// Returns whether a frame from the wire would be accepted.
    pub fn has_room(&self) -> bool {
        self.inbox.len() < MAX_FRAMES_ON_WIRE
    }

    /// Returns the next frame for the wire.
    pub fn frame_to_wire(&self) -> Option<Vec<u8>> {
        let mut wire = self.wire.borrow_mut();
        let frame = wire.frames.pop_front()?;
        wire.counters.to_wire += 1;
        Some(frame)
    }

    /// Returns the frame counters.
    pub fn counters(&self) -> WireCounters {
        self.wire.borrow().counters
    }

    /// Returns the modes that the other end sees; [`Modes::NONE`] if the NIC's link is down or the cable is unplugged.
    pub fn offered(&self) -> Modes {
        let wire = self.wire.borrow();
        if wire.is_plugged { wire.near } else { Modes::NONE }
    }

    /// Returns the modes of the other end, also if the cable is unplugged.
    pub fn far(&self) -> Modes {
        self.wire.borrow().far
    }

    /// Changes the state of the link. Without carrier, frames that wait for the wire are lost and counted. Returns true if the NIC sees a
    /// change.
    pub fn change_link(&self, input: LinkInput) -> bool {
        let mut wire = self.wire.borrow_mut();
        let before = wire.partner();
        match input {
            LinkInput::Far(modes) => wire.far = modes,
            LinkInput::Plugged(is_plugged) => wire.is_plugged = is_plugged,
        }
        if wire.partner() == Modes::NONE {
            wire.counters.without_link += wire.frames.len() as u64;
            wire.frames.clear();
        }
        let is_change = wire.partner() != before;
        if is_change {
            // A pending notification covers this change too.
            self.changes.push(());
        }
        is_change
    }
}

impl EthernetPort for Cable {
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival> {
        let wire = &mut *self.wire.borrow_mut();
        if wire.partner() == Modes::NONE {
            wire.counters.without_link += 1;
        } else if wire.frames.len() < MAX_FRAMES_TO_WIRE {
            wire.frames.push_back(frame.to_vec());
        } else {
            wire.counters.to_wire_lost += 1;
        }
        // Frames from outside come through the inbox.
        None
    }

    fn offer(&mut self, modes: Modes) {
        self.wire.borrow_mut().near = modes;
    }

    fn partner(&self) -> Modes {
        self.wire.borrow().partner()
    }

    fn partner_changes(&self) -> Option<Rc<Queue<()>>> {
        Some(Rc::clone(&self.changes))
    }
}

/// The recorded inputs are frames without change, and [`LinkInput`]s, which are shorter than any frame.
impl Attachment for Cable {
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, InputError> {
        Ok(match LinkInput::parse(input)? {
            Some(link) => link.join(self, now),
            None => FrameFromWire(input).join(self, now),
        })
    }

    fn awaits_fabric(&self) -> bool {
        false
    }

    fn has_output(&self) -> bool {
        !self.wire.borrow().frames.is_empty()
    }

    /// Up to the limit, frames wait. Further frames are lost, as on an open wire.
    fn discard_outputs(&self) {}
}

/// A frame from the wire, without FCS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameFromWire<'a>(pub &'a [u8]);

impl Input<Cable> for FrameFromWire<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }

    fn join(self, cable: &Cable, _: Time) -> bool {
        cable.frame_from_wire(self.0)
    }
}

/// A change of the link's state from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkInput {
    /// The other end offers these modes from now on.
    Far(Modes),
    /// The cable is plugged in (true) or unplugged.
    Plugged(bool),
}

impl LinkInput {
    /// First of the two bytes in a record.
    const FAR: u8 = 0;
    const PLUGGED: u8 = 1;

    /// Returns `None` if the bytes are a frame.
    fn parse(input: &[u8]) -> Result<Option<LinkInput>, InputError> {
        let &[kind, value] = input else { return Ok(None) };
        let link = match (kind, Modes::from_bits(value)) {
            (LinkInput::FAR, Some(modes)) => LinkInput::Far(modes),
            (LinkInput::PLUGGED, _) if value < 2 => LinkInput::Plugged(value == 1),
            _ => {
                return Err(InputError::Value(format!(
                    "link state {kind:02x} {value:02x}, expected 00 00 to 00 1f, 01 00 or 01 01"
                )));
            }
        };
        Ok(Some(link))
    }
}

impl Input<Cable> for LinkInput {
    fn emit(&self, out: &mut Vec<u8>) {
        let bytes = match *self {
            LinkInput::Far(modes) => [LinkInput::FAR, modes.bits()],
            LinkInput::Plugged(is_plugged) => [LinkInput::PLUGGED, is_plugged.into()],
        };
        out.extend_from_slice(&bytes);
    }

    fn join(self, cable: &Cable, _: Time) -> bool {
        cable.change_link(self)
    }
}
