// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rare features of a port, as one word that the port checks once for each frame.

use bitflags::bitflags;

bitflags! {
    /// Features and states that need more than the fast path of a port. A port without rare features takes the fast
    /// path.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Rare: u16 {
        /// The link does not carry TLPs: VC0 is not initialized, or the link is down.
        const INACTIVE = 1 << 0;
        /// The link has no flow control.
        const NO_CREDITS = 1 << 1;
        /// Several virtual channels, or a VC arbitration by phases.
        const CHANNELS = 1 << 2;
        /// Credits are still returned for TLPs from before the link went down.
        const STALE = 1 << 3;
        /// A tap sees the frames.
        const TAPPED = 1 << 4;
        /// Fault rules apply to frames on their way to the port.
        const FAULTS = 1 << 5;
        /// The port belongs to a switch that forwards TLPs before their last symbol has arrived.
        const CUT_THROUGH = 1 << 6;
        /// The general path is requested, to compare both.
        const GENERAL_PATH = 1 << 7;
        /// The data link layer above the port is not riser's: frames cross as bytes.
        const FRAMES = 1 << 8;
    }
}
