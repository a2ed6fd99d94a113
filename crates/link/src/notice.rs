// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notices of a port to its owner in addition to TLPs: errors that the layers below have detected, and whether the link
//! is up. Owners log the errors and decide what follows (`PCIe 5.0 §6.2`).

use std::collections::VecDeque;
use tlp::{Class, Rate, Tlp, Vc, Width};

/// An event at a port. Errors have the names of `PCIe 5.0 Table 6-3` to Table 6-5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Framing or encoding was broken on the wire (Physical Layer, `PCIe 5.0 §4.2.1.4`, §4.2.2.3.3; correctable).
    ReceiverError,
    /// A TLP with a wrong LCRC, or with a sequence number after a gap (`PCIe 5.0 §3.6.3.1`; correctable). Only the
    /// first TLP after a gap is reported.
    BadTlp,
    /// A DLLP with a wrong CRC (`PCIe 5.0 §3.6.2.2`; correctable).
    BadDllp,
    /// REPLAY_TIMER has expired (`PCIe 5.0 §3.6.2.1`; correctable).
    ReplayTimeout,
    /// REPLAY_NUM has rolled over, and the link retrains (`PCIe 5.0 §3.6.2.1`; correctable).
    ReplayRollover,
    /// An Ack or Nak names a TLP that was never sent (Data Link Protocol Error, `PCIe 5.0 §3.6.2.2`; uncorrectable).
    DataLinkProtocol,
    /// An UpdateFC breaks the rules of flow control (`PCIe 5.0 §2.6.1`; uncorrectable).
    FlowControlProtocol,
    /// A TLP arrived without credits (`PCIe 5.0 §2.6.1.2`; uncorrectable).
    ReceiverOverflow {
        /// Header DW 0 to 3, as in the Header Log: byte 0 in bits 31:24.
        header: [u32; 4],
    },
    /// A TLP arrived whose form is invalid, or whose Traffic Class no enabled channel carries (`PCIe 5.0 §2.3`, §2.5.2;
    /// uncorrectable). The owner checks the rules that depend on the receiver's registers.
    MalformedTlp {
        /// Header DW 0 to 3, as in the Header Log: byte 0 in bits 31:24.
        header: [u32; 4],
    },
    /// The port has detected an error in one of its buffers, and corrected it (Corrected Internal Error, `PCIe 5.0 §6.2.9`;
    /// correctable).
    CorrectedInternal,
    /// The port has detected an error in one of its buffers, and lost the content (Uncorrectable Internal Error, `PCIe
    /// 5.0 §6.2.9`; uncorrectable).
    UncorrectableInternal,
    /// The link went down: DL_Down (`PCIe 5.0 §3.2.1`).
    Down {
        /// True if link down was not requested: Surprise Down (`PCIe 5.0 §3.2.1`; uncorrectable).
        surprise: bool,
    },
    /// The link is up: VC0 is in DL_Active.
    Up {
        /// Rate of both directions.
        rate: Rate,
        /// Width of both directions.
        width: Width,
    },
    /// The link has retrained at another rate or width (`PCIe 5.0 §7.5.3.8`).
    Retrained {
        /// Rate of both directions.
        rate: Rate,
        /// Width of both directions.
        width: Width,
    },
    /// The set of channels in flow-control initialization has changed. Only from a port with several channels.
    Negotiating {
        /// The enabled channels that are not initialized, bits by [`Vc::index`].
        pending: u8,
    },
    /// A TLP in the port needs more data credits than the other end has in total. This TLP and later ones can never be
    /// sent. This is not an error of the link: its owner queued a TLP that the other end cannot take.
    NeverAdmitted {
        /// The channel.
        vc: Vc,
        /// The class.
        class: Class,
        /// Data credits of the TLP, units of 16 B.
        needed: u16,
        /// Data credits that the other end has advertised, units of 16 B.
        advertised: u16,
    },
}

/// Returns the header of `tlp` in the form of the Header Log (`PCIe 5.0 §7.8.4.8`): DW 0 to 3, byte 0 in bits 31:24. DW
/// 3 of a header of three DW is zero.
pub fn header_log(tlp: &Tlp) -> [u32; 4] {
    let mut bytes = [0; 16];
    match tlp.data.bytes() {
        Some(all) if tlp.is_malformed() => return header_words(&all[..tlp.repr.header_len()]),
        _ => tlp.repr.emit(&mut bytes),
    };
    header_words(&bytes)
}

/// The DWs of a header's bytes; missing bytes are zero.
pub(crate) fn header_words(bytes: &[u8]) -> [u32; 4] {
    std::array::from_fn(|dw| {
        let byte = |n: usize| u32::from(bytes.get(dw * 4 + n).copied().unwrap_or(0));
        byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3)
    })
}

/// Maximum number of errors that wait for the owner.
const MAX_ERRORS: usize = 16;

/// Notices that wait for the owner. A waiting notice is not stored twice, because it would set its register bit only
/// once. Errors beyond sixteen are only counted. Notices of the link's state are never lost.
#[derive(Default)]
pub(crate) struct Notices {
    waiting: VecDeque<Notice>,
    lost: u64,
}

impl Notices {
    /// Stores an error.
    #[cold]
    pub(crate) fn error(&mut self, notice: Notice) {
        if self.waiting.contains(&notice) {
            return;
        }
        if self.waiting.iter().filter(|n| n.is_error()).count() < MAX_ERRORS {
            self.waiting.push_back(notice);
        } else {
            self.lost += 1;
        }
    }

    /// Stores a change of the link's state. It replaces an older change of the same kind, but Surprise Down is kept.
    #[cold]
    pub(crate) fn link(&mut self, notice: Notice) {
        let surprised = self.waiting.contains(&Notice::Down { surprise: true });
        self.waiting.retain(|n| std::mem::discriminant(n) != std::mem::discriminant(&notice));
        let notice = match notice {
            Notice::Down { surprise } => Notice::Down { surprise: surprise || surprised },
            other => other,
        };
        self.waiting.push_back(notice);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn next(&mut self) -> Option<Notice> {
        self.waiting.pop_front()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

impl Notice {
    const fn is_error(self) -> bool {
        !matches!(
            self,
            Notice::Down { .. }
                | Notice::Up { .. }
                | Notice::Retrained { .. }
                | Notice::Negotiating { .. }
                | Notice::NeverAdmitted { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Notice = Notice::Up { rate: Rate::Gt8, width: Width::ALL[0] };
    const DOWN: Notice = Notice::Down { surprise: false };
    const SURPRISE: Notice = Notice::Down { surprise: true };

    fn drain(notices: &mut Notices) -> Vec<Notice> {
        std::iter::from_fn(|| notices.next()).collect()
    }

    #[test]
    fn duplicate_notices_are_merged_and_link_state_is_kept() {
        let mut notices = Notices::default();
        notices.error(Notice::BadTlp);
        notices.error(Notice::BadDllp);
        notices.error(Notice::BadTlp);
        assert_eq!(drain(&mut notices), [Notice::BadTlp, Notice::BadDllp]);
        for n in 0..20 {
            notices.error(Notice::ReceiverOverflow { header: [n, 0, 0, 0] });
        }
        notices.link(DOWN);
        assert_eq!((notices.waiting.len(), notices.lost()), (17, 4));
        assert_eq!(drain(&mut notices).last(), Some(&DOWN));
        assert!(notices.is_empty());
    }

    #[test]
    fn keeps_latest_link_state_and_surprise_down() {
        let mut notices = Notices::default();
        for notice in [UP, SURPRISE, UP, DOWN] {
            notices.link(notice);
        }
        assert_eq!(drain(&mut notices), [UP, SURPRISE]);
        notices.link(DOWN);
        notices.link(UP);
        assert_eq!(drain(&mut notices), [DOWN, UP]);
    }

    #[test]
    fn header_log_has_the_byte_order_of_the_wire() {
        assert_eq!(header_words(&[0x40, 0, 0, 1, 0x12, 0x34, 0x56]), [0x4000_0001, 0x1234_5600, 0, 0]);
    }
}
