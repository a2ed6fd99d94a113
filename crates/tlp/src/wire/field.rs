// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Positions of the header fields (`PCIe 5.0 §2.2`). All headers have this first DW (§2.2.1), with tag bits 9 and 8:
//!
//! ```text
//!  31 29 28   24 23 22 20 19 18 17 16 15 14 13  12 11 10 9           0
//! +-----+-------+--+-----+--+--+--+--+--+--+------+-----+-------------+
//! | Fmt | Type  |T9| TC  |T8|A2|LN|TH|TD|EP| Attr | AT  |   Length    |
//! +-----+-------+--+-----+--+--+--+--+--+--+------+-----+-------------+
//! ```
//!
//! The other DWs of requests and completions (§2.2.9):
//!
//! ```text
//!       31                     16 15      12 11   8 7    4 3     0
//!      +-------------------------+-----------------+------+-------+
//! DW 1 |      Requester ID       |       Tag       | Last | First |   in a message, bits 7:0 are the Message Code
//!      +-------------------------+---------+-------+------+---+---+
//! DW 2 |  memory, I/O, AtomicOp: Address[31:2], or [63:32]  |PH |   PH: in the last DW, with TH
//! DW 3 |                         Address[31:2], with 4 DW   |PH |
//!      +-------------------------+---------+----------+-----+---+
//! DW 2 |   Bus, Device, Function |    R    | Extended | Reg | R |   configuration
//!      +-------------------------+---------+----------+-----+---+
//! DW 2 |     address, ID, or what the Message Code says         |   message
//! DW 3 |                                                        |
//!      +--------------------------------------------------------+
//!
//!       31                     16 15    13 12  11      8 7 6      0
//!      +-------------------------+--------+---+-----------------+
//! DW 1 |      Completer ID       | Status |BCM|   Byte Count    |   completion; Byte Count 0 is 4096
//!      +-------------------------+--------+---+--------+-+------+
//! DW 2 |      Requester ID       |        Tag          |R| Low  |   Low: Lower Address
//!      +-------------------------+---------------------+-+------+
//! ```
//!
//! In a write with TH, ST\[7:0\] replaces Tag\[7:0\]. In a read with TH, it replaces the Byte Enables. An AtomicOp
//! has no Byte Enables, so its ST\[7:0\] is there too. The low bits of Type hold a message's routing, and
//! distinguish CplLk from Cpl and type 1 from type 0 configuration requests (`PCIe 5.0 Table 2-3`).

use super::Field;

/// Fmt: header length and whether data follows.
pub const FMT: Field = Field::new(0, 31, 29);
/// Type.
pub const TYPE: Field = Field::new(0, 28, 24);
/// Bit 0 of Type: set in CplLk, CplDLk and type 1 configuration requests.
pub const TYPE_0: Field = Field::new(0, 24, 24);
/// Type\[2:0\]: routing of a message.
pub const ROUTING: Field = Field::new(0, 26, 24);
/// T9: bit 9 of a 10-bit tag.
pub const T9: Field = Field::new(0, 23, 23);
/// Traffic Class.
pub const TC: Field = Field::new(0, 22, 20);
/// T8: bit 8 of a 10-bit tag.
pub const T8: Field = Field::new(0, 19, 19);
/// Attr\[2\]: ID-based Ordering.
pub const ATTR_2: Field = Field::new(0, 18, 18);
/// LN: lightweight notification.
pub const LN: Field = Field::new(0, 17, 17);
/// TH: processing hints present.
pub const TH: Field = Field::new(0, 16, 16);
/// TD: digest present.
pub const TD: Field = Field::new(0, 15, 15);
/// EP: poisoned.
pub const EP: Field = Field::new(0, 14, 14);
/// Attr\[1:0\]: Relaxed Ordering and No Snoop.
pub const ATTR_1_0: Field = Field::new(0, 13, 12);
/// Address Type.
pub const AT: Field = Field::new(0, 11, 10);
/// Length in DW; 0 stands for 1024.
pub const LENGTH: Field = Field::new(0, 9, 0);

/// Requester ID of a request.
pub const REQUESTER: Field = Field::new(1, 31, 16);
/// Tag\[7:0\] of a request.
pub const TAG: Field = Field::new(1, 15, 8);
/// Last DW Byte Enables; zero in I/O and configuration requests.
pub const LAST_BE: Field = Field::new(1, 7, 4);
/// First DW Byte Enables.
pub const FIRST_BE: Field = Field::new(1, 3, 0);
/// Both Byte Enables. Holds ST\[7:0\] in a read or AtomicOp with TH, and the Message Code in a message.
pub const BYTE_ENABLES: Field = Field::new(1, 7, 0);
/// Bus, Device and Function Number of a configuration request: the function that it is for.
pub const CONFIG_COMPLETER: Field = Field::new(2, 31, 16);
/// Extended Register Number and Register Number of a configuration request: a DW number.
pub const REGISTER_DW: Field = Field::new(2, 11, 2);

/// Completer ID of a completion.
pub const COMPLETER: Field = Field::new(1, 31, 16);
/// Completion Status.
pub const STATUS: Field = Field::new(1, 15, 13);
/// Byte Count Modified.
pub const BCM: Field = Field::new(1, 12, 12);
/// Byte Count; 0 stands for 4096.
pub const BYTE_COUNT: Field = Field::new(1, 11, 0);
/// Requester ID in a completion, copied from its request.
pub const ANSWERED_REQUESTER: Field = Field::new(2, 31, 16);
/// Tag\[7:0\] in a completion, copied from its request.
pub const ANSWERED_TAG: Field = Field::new(2, 15, 8);
/// Lower Address.
pub const LOWER_ADDRESS: Field = Field::new(2, 6, 0);
