-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- What makes a TLP malformed, and what a sender should not do though receivers let it pass: the rows of riser's own
-- table (crates/tlp/src/rules) that the bytes of a TLP alone decide, under the same names.
-- crates/capture/tests/it/dissector.rs holds the two against each other, by name and by behaviour.

local info = require "riser.info"

local formats = require "riser.formats"

local rules = {}

local function set(...)
    local members = {}
    for _, member in ipairs({ ... }) do
        members[member] = true
    end
    return members
end

local function hex(value)
    return string.format("0x%x", value)
end

local function address(h)
    return info.address(h.address_high, h.address_low)
end

-- What a check gives: the value that was found, as text, where the rule is broken.
local function found_if(broken, value)
    return broken and hex(value) or nil
end

-- A rule for a field that must be zero.
local function not_0(key)
    return function(h)
        return found_if(h[key] ~= 0, h[key])
    end
end

-- Families with an address of memory, and with it AT, TH and hints.
local ADDRESSED = set("memory", "atomic")

-- Prefixes ------------------------------------------------------------------------------------------------------------

local EXTENDED_TPH, PASID = 0x90, 0x91

local function is_end_to_end(prefix)
    return prefix >= EXTENDED_TPH
end

-- The first prefix for which `is_meant` holds, and how many there are.
local function prefixes_that(h, is_meant)
    local first, count = nil, 0
    for _, prefix in ipairs(h.prefixes) do
        if is_meant(prefix) then
            first, count = first or prefix, count + 1
        end
    end
    return first, count
end

local function prefix_order(h)
    local end_to_end = false
    for _, prefix in ipairs(h.prefixes) do
        if end_to_end and not is_end_to_end(prefix) then
            return hex(prefix)
        end
        end_to_end = end_to_end or is_end_to_end(prefix)
    end
end

local function local_prefix(h)
    local reserved = prefixes_that(h, function(prefix)
        return not is_end_to_end(prefix) and not formats.prefixes[prefix]
    end)
    return reserved and hex(reserved)
end

local function end_to_end_count(h)
    local _, count = prefixes_that(h, is_end_to_end)
    return found_if(count > 4, count)
end

local function extended_tph(h)
    local _, count = prefixes_that(h, function(prefix) return prefix == EXTENDED_TPH end)
    return found_if(count > 0 and not (ADDRESSED[h.format.family] and h.th == 1), count)
end

local function pasid_count(h)
    local _, count = prefixes_that(h, function(prefix) return prefix == PASID end)
    return count
end

-- Invalidate_Request, Page_Request and PRG_Response.
local MESSAGES_WITH_PASID = set(0x01, 0x04, 0x05)

local function pasid(h)
    local may_have = ADDRESSED[h.format.family] or MESSAGES_WITH_PASID[h.message_code]
    return found_if(pasid_count(h) > 0 and not may_have, pasid_count(h))
end

local function pasid_once(h)
    return found_if(pasid_count(h) > 1, pasid_count(h))
end

local function reserved_end_to_end(h)
    local reserved = prefixes_that(h, function(prefix)
        return is_end_to_end(prefix) and not formats.prefixes[prefix]
    end)
    return reserved and hex(reserved)
end

-- Memory requests and AtomicOps ---------------------------------------------------------------------------------------

local ENDS_AT_TOP, STARTS_AT_BOTTOM = set(8, 12, 14, 15), set(1, 3, 7, 15)

-- With one DW the last field is zero and the first is free; with more neither is zero; holes are allowed only in one
-- DW, or in two that are QW-aligned.
local function byte_enables_legal(h)
    if h.length_dw == 1 then
        return h.last_be == 0
    end
    if h.length_dw == 2 and h.address_low % 8 == 0 then
        return h.first_be ~= 0 and h.last_be ~= 0
    end
    return ENDS_AT_TOP[h.first_be] and STARTS_AT_BOTTOM[h.last_be]
end

local function is_within_4k(h)
    return h.address_low % 0x1000 + h.length_dw * 4 <= 0x1000
end

local function byte_enables(h)
    return found_if(is_within_4k(h) and not byte_enables_legal(h), h.last_be * 16 + h.first_be)
end

local function crosses_4k(h)
    return not is_within_4k(h) and address(h) or nil
end

local function deferrable_length(h)
    return found_if(h.format.name == "DMWr" and h.length_dw > 32, h.length_dw)
end

-- Table 2-14.
local ATOMIC_LENGTHS = { FetchAdd = set(1, 2), Swap = set(1, 2), CAS = set(2, 4, 8) }

local function atomic_length(h)
    return found_if(not ATOMIC_LENGTHS[h.format.name][h.length_dw], h.length_dw)
end

local function atomic_address(h)
    local is_known = ATOMIC_LENGTHS[h.format.name][h.length_dw]
    return is_known and h.address_low % h.operand_bytes ~= 0 and address(h) or nil
end

local function long_for_low_address(h)
    local is_long = ADDRESSED[h.format.family] and h.format.header_dw == 4
    return is_long and h.address_high == 0 and address(h) or nil
end

local function reserved_at(h)
    return found_if(ADDRESSED[h.format.family] and h.at == 3, h.at)
end

local function translation_of_no_read(h)
    return found_if(ADDRESSED[h.format.family] and h.at == 1 and h.format.name ~= "MRd", h.at)
end

local function locked_tc(h)
    return found_if(h.format.name == "MRdLk" and h.tc ~= 0, h.tc)
end

-- I/O and configuration requests --------------------------------------------------------------------------------------

local function length_not_1(h)
    return found_if(h.length_dw ~= 1, h.length_dw)
end

local function attr_1_0(h)
    return found_if(h.attr % 4 ~= 0, h.attr % 4)
end

-- Messages ------------------------------------------------------------------------------------------------------------

-- TC 0 of the messages whose row in the table of messages names the rule.
local function message_tc(id)
    return function(h)
        return found_if(h.message and h.message.tc0 == id and h.tc ~= 0, h.tc)
    end
end

local function slot_power_length(h)
    return found_if(h.message_code == 0x50 and h.data_dw ~= 1, h.data_dw)
end

local function reserved_routing(h)
    return found_if(h.routing > 5, h.routing)
end

local function message_code(h)
    return found_if(not h.message, h.message_code)
end

local function message_routing(h)
    local allowed = h.message and math.floor(h.message.routings / 2 ^ h.routing) % 2 == 1
    return found_if(h.message and h.routing <= 5 and not allowed, h.routing)
end

local function message_data(h)
    local allowed = h.message and (h.message.data_dw == "free" or h.message.data_dw == h.data_dw)
    return found_if(h.message and not allowed, h.data_dw)
end

-- Completions ---------------------------------------------------------------------------------------------------------

local STATUSES = set(0, 1, 2, 4)

local function reserved_status(h)
    return found_if(not STATUSES[h.status_bits], h.status_bits)
end

local function completion_data(h)
    return found_if(h.format.data and h.status_bits ~= 0, h.status_bits)
end

-- With BCM, which only PCI-X completers set, Byte Count is that of the first completion alone.
local function completion_byte_count(h)
    local most_dw = math.ceil((h.lower_address % 4 + h.byte_count) / 4)
    return found_if(h.bcm == 0 and h.data_dw > most_dw, h.data_dw * 4)
end

local function locked_completion(h)
    return found_if(h.format.name == "CplLk" and h.status_bits == 0, h.status_bits)
end

-- All -----------------------------------------------------------------------------------------------------------------

local function reserved_th(h)
    return found_if(h.th == 1 and not ADDRESSED[h.format.family], h.th)
end

local function reserved_ln(h)
    return found_if(h.ln == 1 and not info.MAY_HAVE_LN[h.format.name], h.ln)
end

-- id, section of PCIe 5.0, family, what must hold, check. "all" stands for every family.
rules.malformed = {
    { "PrefixOrder", "§2.2.10", "all", "local prefixes stand before end-to-end ones", prefix_order },
    { "LocalPrefix", "§2.2.10.1", "all",
      "a local prefix is MR-IOV or vendor-defined, and there are at most 8", local_prefix },
    { "EndToEndCount", "§2.2.10.2", "all", "there are at most 4 end-to-end prefixes", end_to_end_count },
    { "ByteEnables", "§2.2.5", "memory",
      "Byte Enables: last is 0000b with one DW and else neither is; holes only in one DW or in one aligned QW",
      byte_enables },
    { "Crosses4K", "§2.2.7", "memory", "a memory request does not cross a 4 KiB boundary", crosses_4k },
    { "DeferrableLength", "§2.2.7", "memory",
      "a DMWr has at most 32 DW (ECN Deferrable Memory Write)", deferrable_length },
    { "IoTc", "§2.2.7", "io", "an I/O request has TC 0", not_0("tc") },
    { "IoAttr", "§2.2.7", "io", "an I/O request has Attr[1:0] 00b", attr_1_0 },
    { "IoAt", "§2.2.7", "io", "an I/O request has AT 00b", not_0("at") },
    { "IoLength", "§2.2.7", "io", "an I/O request has Length 1", length_not_1 },
    { "IoLastBe", "§2.2.7", "io", "an I/O request has Last DW Byte Enables 0000b", not_0("last_be") },
    { "ConfigTc", "§2.2.7", "config", "a configuration request has TC 0", not_0("tc") },
    { "ConfigAttr", "§2.2.7", "config", "a configuration request has Attr[1:0] 00b", attr_1_0 },
    { "ConfigAt", "§2.2.7", "config", "a configuration request has AT 00b", not_0("at") },
    { "ConfigLength", "§2.2.7", "config", "a configuration request has Length 1", length_not_1 },
    { "ConfigLastBe", "§2.2.7", "config",
      "a configuration request has Last DW Byte Enables 0000b", not_0("last_be") },
    { "AtomicLength", "§2.2.7", "atomic",
      "an AtomicOp has Length 1 or 2 (FetchAdd, Swap), or 2, 4 or 8 (CAS)", atomic_length },
    { "AtomicAddress", "§2.2.7", "atomic",
      "the address of an AtomicOp is a multiple of its operand's size", atomic_address },
    { "InterruptTc", "§2.2.8.1", "message", "Assert_INTx and Deassert_INTx have TC 0", message_tc("InterruptTc") },
    { "PowerTc", "§2.2.8.2", "message", "power management messages have TC 0", message_tc("PowerTc") },
    { "ErrorTc", "§2.2.8.3", "message", "error messages have TC 0", message_tc("ErrorTc") },
    { "UnlockTc", "§2.2.8.4", "message", "Unlock has TC 0", message_tc("UnlockTc") },
    { "SlotPowerTc", "§2.2.8.5", "message", "Set_Slot_Power_Limit has TC 0", message_tc("SlotPowerTc") },
    { "SlotPowerLength", "§2.2.8.5", "message", "Set_Slot_Power_Limit has Length 1", slot_power_length },
    { "PciSigTc", "§2.2.8.6.1", "message", "LN, DRS, FRS and Hierarchy_ID have TC 0", message_tc("PciSigTc") },
    { "LtrTc", "§2.2.8.8", "message", "LTR has TC 0", message_tc("LtrTc") },
    { "ObffTc", "§2.2.8.9", "message", "OBFF has TC 0", message_tc("ObffTc") },
    { "PtmTc", "§2.2.8.10", "message", "PTM messages have TC 0", message_tc("PtmTc") },
}

rules.tolerated = {
    { "AddressFormat", "§2.2.4.1", "all",
      "a memory request below 4 GiB has three DW of header", long_for_low_address },
    { "ReservedAt", "§10.2.1", "all", "AT is 00b, 01b or 10b", reserved_at },
    { "TranslationRequest", "§10.2.1", "all", "AT is 01b in an MRd only", translation_of_no_read },
    { "LockedTc", "§6.5.2", "memory", "a locked read has TC 0", locked_tc },
    { "ReservedTh", "§2.2.7.1", "all", "TH is clear but in memory requests and AtomicOps", reserved_th },
    { "ReservedLn", "§6.21", "all", "LN is clear but in MRd, MWr, Cpl and CplD", reserved_ln },
    { "ExtendedTph", "§2.2.7.1", "all", "an Extended TPH prefix stands before a request with TH", extended_tph },
    { "Pasid", "§6.20", "all",
      "PASID stands before memory requests, AtomicOps, Invalidate_Request, Page_Request and PRG_Response", pasid },
    { "PasidOnce", "§6.20", "all", "there is at most one PASID prefix", pasid_once },
    { "ReservedEndToEnd", "§2.2.10.2", "all",
      "an end-to-end prefix is Extended TPH, PASID or vendor-defined; whom it is addressed to answers UR to others",
      reserved_end_to_end },
    { "ReservedStatus", "§2.2.9.1", "completion",
      "Completion Status is 000b, 001b, 010b or 100b; others count as 001b, Unsupported Request", reserved_status },
    { "CompletionData", "§2.2.9.1", "completion",
      "a completion with data has Completion Status 000b", completion_data },
    { "CompletionByteCount", "§2.3.1.1", "completion",
      "a completion has no more data than its Byte Count; who asked answers for the rest", completion_byte_count },
    { "LockedCompletion", "§2.2.1", "completion",
      "a CplLk has another Completion Status than 000b", locked_completion },
    { "ReservedRouting", "§2.2.8", "message",
      "routing is 000b to 101b; others end at the receiver", reserved_routing },
    { "MessageCode", "§2.3.1", "message",
      "the Message Code is defined; the receiver counts others as Unsupported Request", message_code },
    { "MessageRouting", "§2.2.8", "message", "a message is routed as its code allows", message_routing },
    { "MessageData", "§2.2.8", "message", "a message has the data of its code", message_data },
}

-- Rules that a TLP without prefixes cannot break.
local OF_PREFIXES = set("PrefixOrder", "LocalPrefix", "EndToEndCount", "ExtendedTph", "Pasid", "PasidOnce", "ReservedEndToEnd")

-- Rules that the first DW decides alone. Headers that share it (header.lua) share what is found.
local OF_FIRST_DW = set("DeferrableLength", "IoTc", "IoAttr", "IoAt", "IoLength", "ConfigTc", "ConfigAttr", "ConfigAt",
    "ConfigLength", "AtomicLength", "ReservedAt", "TranslationRequest", "LockedTc", "ReservedTh", "ReservedLn")

-- The rows of a family that `is_meant` picks.
local function by_family(rows, is_meant)
    local found = {}
    for _, family in ipairs({ "memory", "io", "atomic", "config", "message", "completion" }) do
        found[family] = {}
        for _, row in ipairs(rows) do
            if (row[3] == "all" or row[3] == family) and is_meant(row[1]) then
                table.insert(found[family], row)
            end
        end
    end
    return found
end

-- Of each table: all rows, those of the first DW, and those that a TLP without prefixes may break beside them.
local function prepare(rows)
    return {
        all = by_family(rows, function() return true end),
        first = by_family(rows, function(id) return OF_FIRST_DW[id] end),
        rest = by_family(rows, function(id) return not OF_FIRST_DW[id] and not OF_PREFIXES[id] end),
    }
end

local PREPARED = { [rules.malformed] = prepare(rules.malformed), [rules.tolerated] = prepare(rules.tolerated) }

local function is_broken(may_break, h)
    for at = 1, #may_break do
        if may_break[at][5](h) then
            return true
        end
    end
    return false
end

-- Whether none of the rules of its first DW is broken: asked once for all headers that share it, and so their table.
local function has_sound_first_dw(rows, h, may_break)
    if h[rows] == nil then
        h[rows] = not is_broken(may_break, h)
    end
    return h[rows]
end

-- The rows of `rows` that the header breaks, each as its id and a text; nil where it breaks none, as nearly all do.
function rules.broken(rows, h)
    local prepared, family = PREPARED[rows], h.format.family
    if not h.prefixes[1] and has_sound_first_dw(rows, h, prepared.first[family])
        and not is_broken(prepared.rest[family], h) then
        return nil
    end
    local broken = {}
    for _, row in ipairs(prepared.all[family]) do
        local found = row[5](h)
        if found then
            local text = string.format("found %s where %s (PCIe 5.0 %s)", found, row[4], row[2])
            table.insert(broken, { id = row[1], text = text })
        end
    end
    return broken[1] and broken
end

return rules
