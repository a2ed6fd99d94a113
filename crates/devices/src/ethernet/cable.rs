// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cable whose other end is outside the lab: its owner brings frames to the NIC and takes those of the NIC. Knows no clock and no
//! transport.

use super::{Arrival, EthernetPort, Inbox, MAX_FRAMES_ON_WIRE, inbox};
use plug::Place;
use plug::place::Input;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::Time;

/// Frames that wait for the wire; further ones are lost, as on a wire, and counted.
pub const MAX_FRAMES_TO_WIRE: usize = 256;

/// What has passed a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireCounters {
    /// Frames that came from the wire.
    pub from_wire: u64,
    /// Frames from the wire that were lost because too many waited.
    pub from_wire_lost: u64,
    /// Frames that left to the wire.
    pub to_wire: u64,
    /// Frames to the wire that were lost because too many waited.
    pub to_wire_lost: u64,
}

/// The cable; clones are handles on the same.
#[derive(Clone)]
pub struct Cable {
    inbox: Inbox,
    wire: Rc<RefCell<(VecDeque<Vec<u8>>, WireCounters)>>,
}

impl Default for Cable {
    fn default() -> Cable {
        Cable { inbox: inbox(), wire: Rc::default() }
    }
}

impl Cable {
    /// Where its frames wait for the NIC.
    pub fn inbox(&self) -> Inbox {
        Rc::clone(&self.inbox)
    }

    /// A frame has come from the wire, without FCS; false where it is lost because too many wait.
    pub fn frame_from_wire(&self, frame: &[u8]) -> bool {
        let taken = self.inbox.push(frame.to_vec());
        let counters = &mut self.wire.borrow_mut().1;
        counters.from_wire += 1;
        counters.from_wire_lost += u64::from(!taken);
        taken
    }

    /// True where a frame from the wire would not be lost.
    pub fn has_room(&self) -> bool {
        self.inbox.len() < MAX_FRAMES_ON_WIRE
    }

    /// The next frame for the wire.
    pub fn frame_to_wire(&self) -> Option<Vec<u8>> {
        let (frames, counters) = &mut *self.wire.borrow_mut();
        let frame = frames.pop_front()?;
        counters.to_wire += 1;
        Some(frame)
    }

    /// What has passed it.
    pub fn counters(&self) -> WireCounters {
        self.wire.borrow().1
    }
}

impl EthernetPort for Cable {
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival> {
        let (frames, counters) = &mut *self.wire.borrow_mut();
        if frames.len() < MAX_FRAMES_TO_WIRE {
            frames.push_back(frame.to_vec());
        } else {
            counters.to_wire_lost += 1;
        }
        // What comes back comes by itself.
        None
    }
}

/// In a lab: a frame is an input, as it is.
impl Place for Cable {
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, String> {
        Ok(FrameFromWire(input).join(self, now))
    }

    fn awaits_fabric(&self) -> bool {
        false
    }

    fn has_output(&self) -> bool {
        !self.wire.borrow().0.is_empty()
    }

    /// Frames wait up to their limit, and are lost beyond it, as on a wire that leads nowhere.
    fn nobody_fetches(&self) {}
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
