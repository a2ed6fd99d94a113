// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of the base specification, in a table with one row for each Message Code (`PCIe 5.0 Appendix F`, Table
//! F-1, and the section of each row). It defines their names, and the rules about TC, routing and data. The table does
//! not say how a receiver handles a message.

use crate::rules::RuleId;
use crate::{Bdf, Body, Data, Message, MessageRouting, Repr, Tag, Tlp};

/// The data of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageData {
    /// No data: a Msg.
    Never,
    /// This many DWs: a MsgD.
    Dw(u16),
    /// Any data, as the vendor defines.
    Free,
}

/// A row of [`MESSAGES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageType {
    /// Message Code.
    pub code: u8,
    /// Subtype (header byte 12) of a Vendor_Defined Type 1 message of the PCI-SIG, Vendor ID 0001h; `None` for all
    /// others.
    pub subtype: Option<u8>,
    /// The specification's name.
    pub name: &'static str,
    /// The legal routings: bit n is routing n ([`MessageRouting::bits`]).
    pub routings: u8,
    /// Its data.
    pub data: MessageData,
    /// The rule that requires TC 0; `None` if no rule does.
    pub tc0: Option<RuleId>,
    /// Section of `PCIe 5.0`.
    pub section: &'static str,
}

/// Unlock (`PCIe 5.0 §2.2.8.4`).
pub const UNLOCK: u8 = 0x00;
/// Invalidate_Request (`PCIe 5.0 §10.3.1`).
pub const INVALIDATE_REQUEST: u8 = 0x01;
/// Page_Request (`PCIe 5.0 §10.4.1`).
pub const PAGE_REQUEST: u8 = 0x04;
/// PRG_Response (`PCIe 5.0 §10.4.2`).
pub const PRG_RESPONSE: u8 = 0x05;
/// LTR (`PCIe 5.0 §2.2.8.8`).
pub const LTR: u8 = 0x10;
/// PM_Active_State_Nak (`PCIe 5.0 §2.2.8.2`).
pub const PM_ACTIVE_STATE_NAK: u8 = 0x14;
/// PM_PME (`PCIe 5.0 §2.2.8.2`).
pub const PM_PME: u8 = 0x18;
/// PME_Turn_Off (`PCIe 5.0 §2.2.8.2`).
pub const PME_TURN_OFF: u8 = 0x19;
/// PME_TO_Ack (`PCIe 5.0 §2.2.8.2`).
pub const PME_TO_ACK: u8 = 0x1b;
/// Assert_INTA (`PCIe 5.0 §2.2.8.1`); INTB to INTD follow it.
pub const ASSERT_INTA: u8 = 0x20;
/// Deassert_INTA (`PCIe 5.0 §2.2.8.1`); INTB to INTD follow it.
pub const DEASSERT_INTA: u8 = 0x24;
/// ERR_COR (`PCIe 5.0 §2.2.8.3`).
pub const ERR_COR: u8 = 0x30;
/// ERR_NONFATAL (`PCIe 5.0 §2.2.8.3`).
pub const ERR_NONFATAL: u8 = 0x31;
/// ERR_FATAL (`PCIe 5.0 §2.2.8.3`).
pub const ERR_FATAL: u8 = 0x33;
/// Set_Slot_Power_Limit (`PCIe 5.0 §2.2.8.5`).
pub const SET_SLOT_POWER_LIMIT: u8 = 0x50;
/// Vendor_Defined Type 0: an Unsupported Request for a receiver that does not know it (`PCIe 5.0 §2.2.8.6`).
pub const VENDOR_DEFINED_TYPE_0: u8 = 0x7e;
/// Vendor_Defined Type 1: a receiver that does not know it drops it silently (`PCIe 5.0 §2.2.8.6`).
pub const VENDOR_DEFINED_TYPE_1: u8 = 0x7f;
/// Vendor ID of the PCI-SIG's own Vendor_Defined messages (`PCIe 5.0 §2.2.8.6.1`).
pub const PCI_SIG: u16 = 0x0001;

const TO_ROOT: u8 = 1 << MessageRouting::ToRootComplex.bits();
const BY_ID: u8 = 1 << MessageRouting::ById.bits();
const BROADCAST: u8 = 1 << MessageRouting::Broadcast.bits();
const LOCAL: u8 = 1 << MessageRouting::Local.bits();
const GATHERED: u8 = 1 << MessageRouting::Gathered.bits();
const VENDOR: u8 = TO_ROOT | BY_ID | BROADCAST | LOCAL;

const fn row(
    code: u8,
    name: &'static str,
    routings: u8,
    data: MessageData,
    tc0: Option<RuleId>,
    section: &'static str,
) -> MessageType {
    MessageType { code, subtype: None, name, routings, data, tc0, section }
}

const fn sig(
    subtype: u8,
    name: &'static str,
    to: u8,
    data: MessageData,
    section: &'static str,
) -> MessageType {
    let tc0 = Some(RuleId::PciSigTc);
    MessageType { subtype: Some(subtype), ..row(VENDOR_DEFINED_TYPE_1, name, to, data, tc0, section) }
}

/// All messages of the base specification by code. Rows with the same code are sorted by subtype or data.
pub static MESSAGES: [MessageType; 39] = {
    use MessageData::{Dw, Free, Never};
    const INTX: Option<RuleId> = Some(RuleId::InterruptTc);
    const POWER: Option<RuleId> = Some(RuleId::PowerTc);
    const ERROR: Option<RuleId> = Some(RuleId::ErrorTc);
    const PTM: Option<RuleId> = Some(RuleId::PtmTc);
    [
        row(UNLOCK, "Unlock", BROADCAST, Never, Some(RuleId::UnlockTc), "§2.2.8.4"),
        row(INVALIDATE_REQUEST, "Invalidate_Request", BY_ID, Dw(2), None, "§10.3.1"),
        row(0x02, "Invalidate_Completion", BY_ID, Never, None, "§10.3.2"),
        row(PAGE_REQUEST, "Page_Request", TO_ROOT, Never, None, "§10.4.1"),
        row(PRG_RESPONSE, "PRG_Response", BY_ID, Never, None, "§10.4.2"),
        row(LTR, "LTR", LOCAL, Never, Some(RuleId::LtrTc), "§2.2.8.8"),
        row(0x12, "OBFF", LOCAL, Never, Some(RuleId::ObffTc), "§2.2.8.9"),
        row(PM_ACTIVE_STATE_NAK, "PM_Active_State_Nak", LOCAL, Never, POWER, "§2.2.8.2"),
        row(PM_PME, "PM_PME", TO_ROOT, Never, POWER, "§2.2.8.2"),
        row(PME_TURN_OFF, "PME_Turn_Off", BROADCAST, Never, POWER, "§2.2.8.2"),
        row(PME_TO_ACK, "PME_TO_Ack", GATHERED, Never, POWER, "§2.2.8.2"),
        row(ASSERT_INTA, "Assert_INTA", LOCAL, Never, INTX, "§2.2.8.1"),
        row(0x21, "Assert_INTB", LOCAL, Never, INTX, "§2.2.8.1"),
        row(0x22, "Assert_INTC", LOCAL, Never, INTX, "§2.2.8.1"),
        row(0x23, "Assert_INTD", LOCAL, Never, INTX, "§2.2.8.1"),
        row(DEASSERT_INTA, "Deassert_INTA", LOCAL, Never, INTX, "§2.2.8.1"),
        row(0x25, "Deassert_INTB", LOCAL, Never, INTX, "§2.2.8.1"),
        row(0x26, "Deassert_INTC", LOCAL, Never, INTX, "§2.2.8.1"),
        row(0x27, "Deassert_INTD", LOCAL, Never, INTX, "§2.2.8.1"),
        row(ERR_COR, "ERR_COR", TO_ROOT, Never, ERROR, "§2.2.8.3"),
        row(ERR_NONFATAL, "ERR_NONFATAL", TO_ROOT, Never, ERROR, "§2.2.8.3"),
        row(ERR_FATAL, "ERR_FATAL", TO_ROOT, Never, ERROR, "§2.2.8.3"),
        // Revision 1.0a's hot-plug signals, which a receiver ignores (see [`is_ignored`]).
        row(0x40, "Attention_Indicator_Off", LOCAL, Never, None, "§2.2.8.7"),
        row(0x41, "Attention_Indicator_On", LOCAL, Never, None, "§2.2.8.7"),
        row(0x43, "Attention_Indicator_Blink", LOCAL, Never, None, "§2.2.8.7"),
        row(0x44, "Power_Indicator_Off", LOCAL, Never, None, "§2.2.8.7"),
        row(0x45, "Power_Indicator_On", LOCAL, Never, None, "§2.2.8.7"),
        row(0x47, "Power_Indicator_Blink", LOCAL, Never, None, "§2.2.8.7"),
        row(0x48, "Attention_Button_Pressed", LOCAL, Never, None, "§2.2.8.7"),
        row(
            SET_SLOT_POWER_LIMIT,
            "Set_Slot_Power_Limit",
            LOCAL,
            Dw(1),
            Some(RuleId::SlotPowerTc),
            "§2.2.8.5",
        ),
        row(0x52, "PTM_Request", LOCAL, Never, PTM, "§2.2.8.10"),
        row(0x53, "PTM_Response", LOCAL, Never, PTM, "§2.2.8.10"),
        row(0x53, "PTM_ResponseD", LOCAL, Dw(1), PTM, "§2.2.8.10"),
        row(VENDOR_DEFINED_TYPE_0, "Vendor_Defined_Type_0", VENDOR, Free, None, "§2.2.8.6"),
        sig(0x00, "LN", BY_ID | BROADCAST, Dw(2), "§2.2.8.6.2"),
        sig(0x01, "Hierarchy_ID", BROADCAST, Dw(4), "§2.2.8.6.5"),
        sig(0x08, "DRS", LOCAL, Never, "§2.2.8.6.3"),
        sig(0x09, "FRS", TO_ROOT, Never, "§2.2.8.6.4"),
        row(VENDOR_DEFINED_TYPE_1, "Vendor_Defined_Type_1", VENDOR, Free, None, "§2.2.8.6"),
    ]
};

/// A message without data, with zeros in header bytes 8 to 15.
pub fn plain(requester: Bdf, routing: MessageRouting, code: u8) -> Tlp {
    let message = Message { routing, requester, tag: Tag::default(), code, header: [0; 8], length_dw: None };
    Tlp::new(Repr::new(Body::Message(message)), Data::NONE)
}

/// The set of Message Codes that a receiver accepts. Any other code is an Unsupported Request for it (`PCIe 5.0
/// §2.3.1`), unless [`is_ignored`] returns true for the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageCodes([u128; 2]);

impl MessageCodes {
    /// The empty set.
    pub const NONE: MessageCodes = MessageCodes([0; 2]);

    /// The messages that every endpoint accepts: those of power management and locks.
    pub const OF_ENDPOINTS: MessageCodes =
        MessageCodes::of(&[UNLOCK, PM_ACTIVE_STATE_NAK, PME_TURN_OFF, SET_SLOT_POWER_LIMIT]);

    /// ERR_COR, ERR_NONFATAL and ERR_FATAL.
    pub const ERRORS: MessageCodes = MessageCodes::of(&[ERR_COR, ERR_NONFATAL, ERR_FATAL]);

    /// Assert_INTx and Deassert_INTx.
    pub const INTERRUPTS: MessageCodes = MessageCodes::of(&[
        ASSERT_INTA,
        ASSERT_INTA + 1,
        ASSERT_INTA + 2,
        ASSERT_INTA + 3,
        DEASSERT_INTA,
        DEASSERT_INTA + 1,
        DEASSERT_INTA + 2,
        DEASSERT_INTA + 3,
    ]);

    /// The set of these codes.
    pub const fn of(codes: &[u8]) -> MessageCodes {
        let (mut all, mut at) = ([0; 2], 0);
        while at < codes.len() {
            all[codes[at] as usize / 128] |= 1 << (codes[at] % 128);
            at += 1;
        }
        MessageCodes(all)
    }

    /// The codes in either set.
    #[must_use]
    pub const fn or(self, other: MessageCodes) -> MessageCodes {
        MessageCodes([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// Returns true if `code` is in the set.
    #[must_use]
    pub const fn contains(self, code: u8) -> bool {
        self.0[code as usize / 128] >> (code % 128) & 1 == 1
    }
}

/// Returns true if a receiver that does not take messages of `code` drops them silently: Vendor_Defined Type 1
/// (`PCIe 5.0 §2.2.8.6`), and the Ignored Messages, which were hot-plug signals of revision 1.0a (§2.2.8.7).
pub const fn is_ignored(code: u8) -> bool {
    matches!(code, 0x40 | 0x41 | 0x43 | 0x44 | 0x45 | 0x47 | 0x48 | VENDOR_DEFINED_TYPE_1)
}

impl MessageType {
    /// The row of a message with this code and these header bytes 8 to 15, with or without data. `None` if the base
    /// specification does not define the code.
    pub fn of(code: u8, header: &[u8; 8], has_data: bool) -> Option<&'static MessageType> {
        let subtype = (u16::from_be_bytes([header[2], header[3]]) == PCI_SIG).then_some(header[4]);
        let is_meant =
            |row: &&MessageType| row.code == code && row.subtype.is_none_or(|of| Some(of) == subtype);
        let first = MESSAGES.iter().find(is_meant)?;
        // PTM_Response and PTM_ResponseD are the only messages that differ only in their data.
        let twin = |row: &&MessageType| {
            row.code == code && row.subtype == first.subtype && row.data != MessageData::Never
        };
        Some(if has_data { MESSAGES.iter().find(twin).unwrap_or(first) } else { first })
    }

    /// Returns true if the message may have this routing.
    pub const fn may_be_routed(&self, routing: MessageRouting) -> bool {
        self.routings >> routing.bits() & 1 == 1
    }

    /// Returns true if the message may have `dw` DWs of data; 0 stands for a Msg.
    pub const fn may_have_data(&self, dw: u32) -> bool {
        match self.data {
            MessageData::Never => dw == 0,
            MessageData::Dw(n) => dw == n as u32,
            MessageData::Free => true,
        }
    }
}

/// The specification's name of a message: `Assert_INTA`, `PM_PME`, ...; `None` for undefined codes.
pub fn name_of(message: &Message) -> Option<&'static str> {
    MessageType::of(message.code, &message.header, message.length_dw.is_some()).map(|row| row.name)
}

/// The latency in nanoseconds of a latency field of an LTR message: LatencyValue times 32 to the power of LatencyScale
/// (`PCIe 5.0 §6.18`). `None` if Requirement is clear or LatencyScale is reserved (6 or 7).
const fn latency_ns(field: u16) -> Option<u64> {
    let scale = field >> 10 & 7;
    match field >> 15 == 1 && scale <= 5 {
        true => Some((field as u64 & 0x3ff) << (5 * scale)),
        false => None,
    }
}

impl Message {
    /// Returns a message without data, with zeros in its tag and in header bytes 8 to 15.
    pub const fn new(routing: MessageRouting, requester: Bdf, code: u8) -> Message {
        Message { routing, requester, tag: Tag::from_bits(0), code, header: [0; 8], length_dw: None }
    }

    /// The no-snoop and the snoop latency of an LTR message in nanoseconds, in the order of the header (`PCIe 5.0
    /// §2.2.8.8`, §6.18). A latency is `None` if the sender has no requirement. The result is `None` for other
    /// messages.
    pub const fn latencies_ns(&self) -> Option<[Option<u64>; 2]> {
        let [.., a, b, c, d] = self.header;
        let fields = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        if self.code == LTR { Some([latency_ns(fields[0]), latency_ns(fields[1])]) } else { None }
    }

    /// Vendor ID of a Vendor_Defined message (header bytes 10 and 11); `None` for other messages.
    pub const fn vendor(&self) -> Option<u16> {
        match self.code {
            VENDOR_DEFINED_TYPE_0 | VENDOR_DEFINED_TYPE_1 => {
                Some(u16::from_be_bytes([self.header[2], self.header[3]]))
            }
            _ => None,
        }
    }
}
