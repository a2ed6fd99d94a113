// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Taps, which observe frames.

use crate::topology::{LinkId, Side};
use link::Frame;
use tlp::{Time, Tlp};

/// The direction of a frame on its link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// From the root complex to the device.
    Downstream,
    /// From the device to the root complex.
    Upstream,
}

impl Direction {
    /// The direction of frames sent at `side`.
    pub const fn of_sender(side: Side) -> Direction {
        match side {
            Side::Root => Direction::Downstream,
            Side::Device => Direction::Upstream,
        }
    }

    /// Name of the direction: `downstream` or `upstream`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Downstream => "downstream",
            Direction::Upstream => "upstream",
        }
    }
}

/// A frame that a tap observes.
#[derive(Debug)]
pub struct TapRecord<'a> {
    /// When its last symbol passed the tap's port.
    pub time: Time,
    /// The link that carries the frame.
    pub link: LinkId,
    /// The end of the link at which the tap is.
    pub at: Side,
    /// The direction of the frame.
    pub direction: Direction,
    /// The frame, as it was sent.
    pub frame: Frame<&'a Tlp>,
    /// True if bits flipped on the way: the receiver will reject it.
    pub damaged: bool,
    /// True if a fault rule dropped it on the way.
    pub dropped: bool,
    /// The header that arrives in place of the one sent, if it forms no TLP: the receiver accepts the frame and refuses the TLP.
    pub malformed: Option<[u32; 4]>,
}

/// An observer of frames. The fabric calls the tap at each port for each frame sent and received, replays included.
pub trait Tap {
    /// Observes a frame.
    fn frame(&mut self, record: &TapRecord<'_>);

    /// Returns whether the tap observes this end of links: frames at the other end are not passed to it.
    fn looks_at(&self, _end: Side) -> bool {
        true
    }

    /// Returns whether the tap wants to see UpdateFCs that repeat values known to the other end. If not, the fabric may
    /// omit them, and skips time in which links do nothing else.
    fn sees_refreshes(&self) -> bool {
        true
    }
}
