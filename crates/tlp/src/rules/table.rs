// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of rules: name, section, text and check of each. Nothing here looks at a TLP.

use super::{COUNT, Check, Rule, RuleId};
use crate::format::Family;

const fn row(id: RuleId, section: &'static str, text: &'static str, check: Check) -> Rule {
    Rule { id, section, text, check }
}

const MEMORY: Family = Family::Memory;
const IO: Family = Family::Io;
const ATOMIC: Family = Family::Atomic;
const CONFIG: Family = Family::Config;
const MESSAGE: Family = Family::Message;

// The rules of each family stand together.
pub(super) const TABLE: [Rule; COUNT] = {
    use super::checks::*;
    use Check::{FirstByte, Header, MessageTc, Parser, Prefixes, Received, Size, Tolerated};
    use RuleId::*;
    [
        row(ReservedFmt, "§2.2.1", "Fmt is 000b to 100b", FirstByte(reserved_fmt)),
        row(ReservedType, "§2.3", "Fmt and Type are those of a TLP", Parser),
        row(PrefixedHeader, "§2.2.10", "a header stands behind the prefixes", Parser),
        row(Length, "§2.2.2", "the TLP's bytes are header, Length DWs of data, and digest", Size(excess)),
        row(Digest, "§2.2.3", "TD is set where a digest follows", Size(digest_without_td)),
        row(PrefixOrder, "§2.2.10", "local prefixes stand before end-to-end ones", Prefixes(prefix_order)),
        row(
            LocalPrefix,
            "§2.2.10.1",
            "a local prefix is MR-IOV or vendor-defined, and there are at most 8",
            Prefixes(local_prefix),
        ),
        row(
            EndToEndCount,
            "§2.2.10.2",
            "there are at most 4 end-to-end prefixes",
            Prefixes(end_to_end_count),
        ),
        row(
            ByteEnables,
            "§2.2.5",
            "Byte Enables: last is 0000b with one DW and else neither is; holes only in one DW or in one aligned QW",
            Header(MEMORY, byte_enables),
        ),
        row(
            Crosses4K,
            "§2.2.7",
            "a memory request does not cross a 4 KiB boundary",
            Header(MEMORY, crosses_4k),
        ),
        row(
            DeferrableLength,
            "§2.2.7",
            "a DMWr has at most 32 DW (ECN Deferrable Memory Write)",
            Header(MEMORY, deferrable_length),
        ),
        row(IoTc, "§2.2.7", "an I/O request has TC 0", Header(IO, tc_not_0)),
        row(IoAttr, "§2.2.7", "an I/O request has Attr[1:0] 00b", Header(IO, attr_not_0)),
        row(IoAt, "§2.2.7", "an I/O request has AT 00b", Header(IO, at_not_0)),
        row(IoLength, "§2.2.7", "an I/O request has Length 1", Header(IO, length_not_1)),
        row(IoLastBe, "§2.2.7", "an I/O request has Last DW Byte Enables 0000b", Header(IO, last_be_not_0)),
        row(ConfigTc, "§2.2.7", "a configuration request has TC 0", Header(CONFIG, tc_not_0)),
        row(ConfigAttr, "§2.2.7", "a configuration request has Attr[1:0] 00b", Header(CONFIG, attr_not_0)),
        row(ConfigAt, "§2.2.7", "a configuration request has AT 00b", Header(CONFIG, at_not_0)),
        row(ConfigLength, "§2.2.7", "a configuration request has Length 1", Header(CONFIG, length_not_1)),
        row(
            ConfigLastBe,
            "§2.2.7",
            "a configuration request has Last DW Byte Enables 0000b",
            Header(CONFIG, last_be_not_0),
        ),
        row(
            AtomicLength,
            "§2.2.7",
            "an AtomicOp has Length 1 or 2 (FetchAdd, Swap), or 2, 4 or 8 (CAS)",
            Header(ATOMIC, atomic_length),
        ),
        row(
            AtomicAddress,
            "§2.2.7",
            "the address of an AtomicOp is a multiple of its operand's size",
            Header(ATOMIC, atomic_address),
        ),
        row(InterruptTc, "§2.2.8.1", "Assert_INTx and Deassert_INTx have TC 0", MessageTc),
        row(PowerTc, "§2.2.8.2", "power management messages have TC 0", MessageTc),
        row(ErrorTc, "§2.2.8.3", "error messages have TC 0", MessageTc),
        row(UnlockTc, "§2.2.8.4", "Unlock has TC 0", MessageTc),
        row(SlotPowerTc, "§2.2.8.5", "Set_Slot_Power_Limit has TC 0", MessageTc),
        row(
            SlotPowerLength,
            "§2.2.8.5",
            "Set_Slot_Power_Limit has Length 1",
            Header(MESSAGE, slot_power_length),
        ),
        row(PciSigTc, "§2.2.8.6.1", "LN, DRS, FRS and Hierarchy_ID have TC 0", MessageTc),
        row(LtrTc, "§2.2.8.8", "LTR has TC 0", MessageTc),
        row(ObffTc, "§2.2.8.9", "OBFF has TC 0", MessageTc),
        row(PtmTc, "§2.2.8.10", "PTM messages have TC 0", MessageTc),
        row(MaxPayloadSize, "§2.2.2", "the data is not longer than Max_Payload_Size", Received(beyond_mps)),
        row(TcMapped, "§2.5.3", "the TC is mapped to an enabled virtual channel", Received(tc_not_mapped)),
        row(LocalSupported, "§2.2.10.1", "the receiver takes local prefixes", Received(local_not_taken)),
        row(
            EndToEndSupported,
            "§2.2.10.2",
            "the receiver takes so many end-to-end prefixes",
            Received(end_to_end_not_taken),
        ),
        row(
            AddressFormat,
            "§2.2.4.1",
            "a memory request below 4 GiB has three DW of header",
            Tolerated(long_for_low_address),
        ),
        row(ReservedAt, "§10.2.1", "AT is 00b, 01b or 10b", Tolerated(reserved_at)),
        row(TranslationRequest, "§10.2.1", "AT is 01b in an MRd only", Tolerated(translation_of_no_read)),
        row(LockedTc, "§6.5.2", "a locked read has TC 0", Tolerated(locked_tc)),
        row(
            ReservedTh,
            "§2.2.7.1",
            "TH is clear but in memory requests and AtomicOps",
            Tolerated(reserved_th),
        ),
        row(ReservedLn, "§6.21", "LN is clear but in MRd, MWr, Cpl and CplD", Tolerated(reserved_ln)),
        row(
            ExtendedTph,
            "§2.2.7.1",
            "an Extended TPH prefix stands before a request with TH",
            Tolerated(extended_tph),
        ),
        row(
            Pasid,
            "§6.20",
            "PASID stands before memory requests, AtomicOps, Invalidate_Request, Page_Request and PRG_Response",
            Tolerated(pasid),
        ),
        row(PasidOnce, "§6.20", "there is at most one PASID prefix", Tolerated(pasid_once)),
        row(
            ReservedEndToEnd,
            "§2.2.10.2",
            "an end-to-end prefix is Extended TPH, PASID or vendor-defined; whom it is addressed to answers UR to others",
            Tolerated(reserved_end_to_end),
        ),
        row(
            ReservedStatus,
            "§2.2.9.1",
            "Completion Status is 000b, 001b, 010b or 100b; others count as 001b, Unsupported Request",
            Tolerated(reserved_status),
        ),
        row(
            CompletionData,
            "§2.2.9.1",
            "a completion with data has Completion Status 000b",
            Tolerated(completion_data),
        ),
        row(
            CompletionByteCount,
            "§2.3.1.1",
            "a completion has no more data than its Byte Count; who asked answers for the rest",
            Tolerated(completion_byte_count),
        ),
        row(
            LockedCompletion,
            "§2.2.1",
            "a CplLk has another Completion Status than 000b",
            Tolerated(locked_completion),
        ),
        row(
            ReservedRouting,
            "§2.2.8",
            "routing is 000b to 101b; others end at the receiver",
            Tolerated(reserved_routing),
        ),
        row(
            MessageCode,
            "§2.3.1",
            "the Message Code is defined; the receiver counts others as Unsupported Request",
            Tolerated(message_code),
        ),
        row(MessageRouting, "§2.2.8", "a message is routed as its code allows", Tolerated(message_routing)),
        row(MessageData, "§2.2.8", "a message has the data of its code", Tolerated(message_data)),
    ]
};
