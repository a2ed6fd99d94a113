// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Taps: who watches the frames.

use crate::topology::{LinkId, Side};
use link::Frame;
use tlp::Time;

/// Which way a frame goes on its link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// From the root complex to the device.
    Downstream,
    /// From the device to the root complex.
    Upstream,
}

impl Direction {
    /// The direction of what is sent at `side`.
    #[must_use]
    pub const fn of_sender(side: Side) -> Direction {
        match side {
            Side::Root => Direction::Downstream,
            Side::Device => Direction::Upstream,
        }
    }

    /// `downstream` or `upstream`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Downstream => "downstream",
            Direction::Upstream => "upstream",
        }
    }
}

/// A frame as a tap sees it.
#[derive(Debug)]
pub struct TapRecord<'a> {
    /// When its last symbol passed the port that the tap sits at.
    pub time: Time,
    /// The link.
    pub link: LinkId,
    /// At which end of the link it is seen.
    pub at: Side,
    /// Which way it goes.
    pub direction: Direction,
    /// The frame, as it was sent.
    pub frame: &'a Frame,
    /// True where bits of it were flipped on the way: the receiver will reject it.
    pub damaged: bool,
    /// True where a fault rule made it vanish on the way.
    pub dropped: bool,
}

/// Watches frames. Called at each port for each frame it sends and each it receives, replays included.
pub trait Tap {
    /// Sees a frame.
    fn frame(&mut self, record: &TapRecord<'_>);
}
