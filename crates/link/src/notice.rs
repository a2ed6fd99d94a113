// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a port tells its owner beside TLPs: errors that the layers below have seen, and whether the link is there. Never
//! decides what becomes of an error: owners log it (`PCIe 5.0 §6.2`).

use tlp::{Rate, Width};

/// Something that a port has seen. Errors as `PCIe 5.0 Table 6-3` and Table 6-4 name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Framing or encoding was broken on the wire (Physical Layer; correctable).
    ReceiverError,
    /// A TLP with a wrong LCRC or sequence number (correctable).
    BadTlp,
    /// A DLLP with a wrong CRC (correctable).
    BadDllp,
    /// REPLAY_TIMER has run out (correctable).
    ReplayTimeout,
    /// REPLAY_NUM has rolled over, and the link retrains (correctable).
    ReplayRollover,
    /// An Ack or Nak of a TLP that was never sent (Data Link Protocol Error; uncorrectable).
    DataLinkProtocol,
    /// Credits that break the rules of flow control (uncorrectable).
    FlowControlProtocol,
    /// A TLP came for which no credit was given (uncorrectable); the first four DW of its header.
    ReceiverOverflow {
        /// Header DW 0 to 3, as in the Header Log: byte 0 in bits 31:24.
        header: [u32; 4],
    },
    /// The link is gone.
    Down {
        /// Nobody asked for it: Surprise Down (uncorrectable).
        surprise: bool,
    },
    /// The link carries TLPs.
    Up {
        /// Rate of both directions.
        rate: Rate,
        /// Width of both directions.
        width: Width,
    },
}
