-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Checks each rule that the bytes of a TLP decide: rules whose violation makes a TLP malformed, and rules for senders
-- that receivers do not enforce. The text and section of each rule are generated (tables.lua).
-- crates/capture/tests/it/dissector.rs compares the checks with riser's own, by behaviour.

local info = require "riser.info"

local formats = require "riser.formats"
local tables = require "riser.tables"

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

-- The family and the check of each rule, by its id. "all" stands for every family.
local CHECKS = {
    PrefixOrder = { "all", prefix_order },
    LocalPrefix = { "all", local_prefix },
    EndToEndCount = { "all", end_to_end_count },
    ByteEnables = { "memory", byte_enables },
    Crosses4K = { "memory", crosses_4k },
    DeferrableLength = { "memory", deferrable_length },
    IoTc = { "io", not_0("tc") },
    IoAttr = { "io", attr_1_0 },
    IoAt = { "io", not_0("at") },
    IoLength = { "io", length_not_1 },
    IoLastBe = { "io", not_0("last_be") },
    ConfigTc = { "config", not_0("tc") },
    ConfigAttr = { "config", attr_1_0 },
    ConfigAt = { "config", not_0("at") },
    ConfigLength = { "config", length_not_1 },
    ConfigLastBe = { "config", not_0("last_be") },
    AtomicLength = { "atomic", atomic_length },
    AtomicAddress = { "atomic", atomic_address },
    InterruptTc = { "message", message_tc("InterruptTc") },
    PowerTc = { "message", message_tc("PowerTc") },
    ErrorTc = { "message", message_tc("ErrorTc") },
    UnlockTc = { "message", message_tc("UnlockTc") },
    SlotPowerTc = { "message", message_tc("SlotPowerTc") },
    SlotPowerLength = { "message", slot_power_length },
    PciSigTc = { "message", message_tc("PciSigTc") },
    LtrTc = { "message", message_tc("LtrTc") },
    ObffTc = { "message", message_tc("ObffTc") },
    PtmTc = { "message", message_tc("PtmTc") },
    AddressFormat = { "all", long_for_low_address },
    ReservedAt = { "all", reserved_at },
    TranslationRequest = { "all", translation_of_no_read },
    LockedTc = { "memory", locked_tc },
    ReservedTh = { "all", reserved_th },
    ReservedLn = { "all", reserved_ln },
    ExtendedTph = { "all", extended_tph },
    Pasid = { "all", pasid },
    PasidOnce = { "all", pasid_once },
    ReservedEndToEnd = { "all", reserved_end_to_end },
    ReservedStatus = { "completion", reserved_status },
    CompletionData = { "completion", completion_data },
    CompletionByteCount = { "completion", completion_byte_count },
    LockedCompletion = { "completion", locked_completion },
    ReservedRouting = { "message", reserved_routing },
    MessageCode = { "message", message_code },
    MessageRouting = { "message", message_routing },
    MessageData = { "message", message_data },
}

-- The rules of a generated table with their checks.
local function with_checks(rows)
    for _, row in ipairs(rows) do
        row.family, row.check = CHECKS[row.id][1], CHECKS[row.id][2]
    end
    return rows
end

rules.malformed = with_checks(tables.malformed)
rules.tolerated = with_checks(tables.tolerated)

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
            if (row.family == "all" or row.family == family) and is_meant(row.id) then
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
        if may_break[at].check(h) then
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
        local found = row.check(h)
        if found then
            local text = string.format("found %s where %s (PCIe 5.0 %s)", found, row.text, row.section)
            table.insert(broken, { id = row.id, text = text })
        end
    end
    return broken[1] and broken
end

return rules
