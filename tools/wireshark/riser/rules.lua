-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Checks the rules that depend only on the bytes of a TLP: rules whose violation makes a TLP malformed, and rules
-- that bind only senders. The text and section of each rule are generated (tables.lua).
-- crates/capture/tests/it/dissector.rs compares the results with riser's own checks.

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

-- Returns an address as text, since a number has only 53 bits. `low` may have a carry into `high`.
function rules.address(high, low)
    high, low = high + math.floor(low / 0x100000000), low % 0x100000000
    return high == 0 and string.format("0x%x", low) or string.format("0x%x%08x", high, low)
end

local function address(h)
    return rules.address(h.address_high, h.address_low)
end

-- Returns the found value if the rule is broken, otherwise nil.
local function found_if(broken, value)
    return broken and value or nil
end

-- Returns the check of a field that must be zero.
local function not_0(key)
    return function(h)
        return found_if(h[key] ~= 0, h[key])
    end
end

-- Families with a memory address. They also have AT, TH and hints.
local ADDRESSED = set("memory", "atomic")

-- Prefixes ------------------------------------------------------------------------------------------------------------

local EXTENDED_TPH, PASID = 0x90, 0x91

local function is_end_to_end(prefix)
    return prefix >= EXTENDED_TPH
end

-- Returns the DW of the first prefix that satisfies `is_meant`, and the number of such prefixes.
local function prefixes_that(h, is_meant)
    local first, count = nil, 0
    for at, prefix in ipairs(h.prefixes) do
        if is_meant(prefix) then
            first, count = first or h.prefix_dws[at], count + 1
        end
    end
    return first, count
end

local function prefix_order(h)
    local end_to_end = false
    for at, prefix in ipairs(h.prefixes) do
        if end_to_end and not is_end_to_end(prefix) then
            return h.prefix_dws[at]
        end
        end_to_end = end_to_end or is_end_to_end(prefix)
    end
end

local function local_prefix(h)
    local reserved = prefixes_that(h, function(prefix)
        return not is_end_to_end(prefix) and not formats.prefixes[prefix]
    end)
    return reserved
end

local function end_to_end_count(h)
    local _, count = prefixes_that(h, is_end_to_end)
    return found_if(count > 4, count)
end

local function extended_tph(h)
    local found = prefixes_that(h, function(prefix) return prefix == EXTENDED_TPH end)
    return found_if(found and not (ADDRESSED[h.format.family] and h.th == 1), found)
end

local function pasids(h)
    return prefixes_that(h, function(prefix) return prefix == PASID end)
end

-- Invalidate_Request, Page_Request and PRG_Response.
local MESSAGES_WITH_PASID = set(0x01, 0x04, 0x05)

local function pasid(h)
    local may_have = ADDRESSED[h.format.family] or MESSAGES_WITH_PASID[h.message_code]
    local found = pasids(h)
    return found and not may_have and found % 0x100000 or nil
end

local function pasid_once(h)
    local _, count = pasids(h)
    return found_if(count > 1, count)
end

local function reserved_end_to_end(h)
    local reserved = prefixes_that(h, function(prefix)
        return is_end_to_end(prefix) and not formats.prefixes[prefix]
    end)
    return reserved
end

-- Memory requests and AtomicOps ---------------------------------------------------------------------------------------

local ENDS_AT_TOP, STARTS_AT_BOTTOM = set(8, 12, 14, 15), set(1, 3, 7, 15)

-- For Length 1, the last field is zero and the first may have any value. For longer requests, neither is zero. Gaps
-- are legal only in one DW, or in two DWs that form an aligned QW.
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

-- Returns the legal values of the clause that illegal byte enables break.
local function clause_of_byte_enables(h)
    if h.length_dw == 1 then
        return "Last BE 0000b for Length 1"
    elseif h.last_be == 0 then
        return "Last BE not 0000b for Length over 1"
    elseif h.first_be == 0 then
        return "First BE not 0000b for Length over 1"
    elseif h.length_dw == 2 then
        return "no gaps for Length 2 if Address is not a multiple of 8"
    end
    return "no gaps for Length over 2"
end

local function byte_enables(h)
    if not byte_enables_legal(h) then
        return h.last_be * 16 + h.first_be, clause_of_byte_enables(h)
    end
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

-- Returns the check of TC 0, for messages whose row in the table of messages refers to the rule.
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

-- With BCM, which only PCI-X completers set, Byte Count covers only the first completion.
local function completion_byte_count(h)
    local most_dw = math.ceil((h.lower_address % 4 + h.byte_count) / 4)
    return found_if(h.bcm == 0 and h.data_dw > most_dw, h.data_dw * 4)
end

local function locked_completion(h)
    return found_if(h.format.name == "CplLk" and h.status_bits == 0, h.status_bits)
end

-- The attributes of Ignored Messages are not defined, and the attributes of ATS and vendor-defined messages are not
-- reserved.
local function message_attr(h)
    local is_reserved = h.message and h.message.tc0 and h.message_code ~= 0x7f
    return found_if(is_reserved and h.attr % 4 ~= 0, h.attr % 4)
end

-- All -----------------------------------------------------------------------------------------------------------------

local function reserved_th(h)
    return found_if(h.th == 1 and not ADDRESSED[h.format.family], h.th)
end

local function reserved_ln(h)
    return found_if(h.ln == 1 and not info.MAY_HAVE_LN[h.format.name], h.ln)
end

local RESERVE_IDO = set("io", "config")

local function reserved_ido(h)
    return found_if(h.ido == 1 and RESERVE_IDO[h.format.family], 1)
end

-- Family and check of each rule, by its ID. "all" stands for all families.
local CHECKS = {
    ["prefix-order"] = { "all", prefix_order },
    -- tlp.lua checks this rule, because such a header is not parsed.
    ["prefix-count"] = { "all", function() end },
    ["local-prefix"] = { "all", local_prefix },
    ["end-to-end-count"] = { "all", end_to_end_count },
    ["byte-enables"] = { "memory", byte_enables },
    ["crosses-4k"] = { "memory", crosses_4k },
    ["deferrable-length"] = { "memory", deferrable_length },
    ["io-tc"] = { "io", not_0("tc") },
    ["io-attr"] = { "io", attr_1_0 },
    ["io-at"] = { "io", not_0("at") },
    ["io-length"] = { "io", length_not_1 },
    ["io-last-be"] = { "io", not_0("last_be") },
    ["config-tc"] = { "config", not_0("tc") },
    ["config-attr"] = { "config", attr_1_0 },
    ["config-at"] = { "config", not_0("at") },
    ["config-length"] = { "config", length_not_1 },
    ["config-last-be"] = { "config", not_0("last_be") },
    ["atomic-length"] = { "atomic", atomic_length },
    ["atomic-address"] = { "atomic", atomic_address },
    ["interrupt-tc"] = { "message", message_tc("interrupt-tc") },
    ["power-tc"] = { "message", message_tc("power-tc") },
    ["error-tc"] = { "message", message_tc("error-tc") },
    ["unlock-tc"] = { "message", message_tc("unlock-tc") },
    ["slot-power-tc"] = { "message", message_tc("slot-power-tc") },
    ["slot-power-length"] = { "message", slot_power_length },
    ["pci-sig-tc"] = { "message", message_tc("pci-sig-tc") },
    ["ltr-tc"] = { "message", message_tc("ltr-tc") },
    ["obff-tc"] = { "message", message_tc("obff-tc") },
    ["ptm-tc"] = { "message", message_tc("ptm-tc") },
    ["address-format"] = { "all", long_for_low_address },
    ["reserved-at"] = { "all", reserved_at },
    ["translation-request"] = { "all", translation_of_no_read },
    ["locked-tc"] = { "memory", locked_tc },
    ["reserved-th"] = { "all", reserved_th },
    ["reserved-ln"] = { "all", reserved_ln },
    ["reserved-ido"] = { "all", reserved_ido },
    ["extended-tph"] = { "all", extended_tph },
    ["pasid"] = { "all", pasid },
    ["pasid-once"] = { "all", pasid_once },
    ["reserved-end-to-end"] = { "all", reserved_end_to_end },
    ["reserved-status"] = { "completion", reserved_status },
    ["completion-data"] = { "completion", completion_data },
    ["completion-byte-count"] = { "completion", completion_byte_count },
    ["locked-completion"] = { "completion", locked_completion },
    ["reserved-routing"] = { "message", reserved_routing },
    ["message-code"] = { "message", message_code },
    ["message-routing"] = { "message", message_routing },
    ["message-data"] = { "message", message_data },
    ["message-attr"] = { "message", message_attr },
}

-- Adds the checks to the rules of a generated table.
local function with_checks(rows)
    for _, row in ipairs(rows) do
        row.family, row.check = CHECKS[row.id][1], CHECKS[row.id][2]
    end
    return rows
end

rules.malformed = with_checks(tables.malformed)
rules.tolerated = with_checks(tables.tolerated)

-- Rules that a TLP without prefixes cannot break.
local OF_PREFIXES = set("prefix-order", "local-prefix", "end-to-end-count", "extended-tph", "pasid", "pasid-once", "reserved-end-to-end")

-- Rules that depend only on the first DW. Headers with the same first DW (header.lua) share the result.
local OF_FIRST_DW = set("deferrable-length", "io-tc", "io-attr", "io-at", "io-length", "config-tc", "config-attr", "config-at",
    "config-length", "atomic-length", "reserved-at", "translation-request", "locked-tc", "reserved-th", "reserved-ln", "reserved-ido")

-- Returns the rows of each family that `is_meant` selects.
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

-- Returns all rows of a table, the rows about the first DW, and the other rows that a TLP without prefixes may break.
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

-- Returns true if no rule about the first DW is broken. Checked once for all headers with the same first DW, which
-- share a table.
local function has_sound_first_dw(rows, h, may_break)
    if h[rows] == nil then
        h[rows] = not is_broken(may_break, h)
    end
    return h[rows]
end

local function binary(value, digits)
    local text = ""
    for _ = 1, digits do
        value, text = math.floor(value / 2), value % 2 .. text
    end
    return text .. "b"
end

-- Formats a value in the unit of a rule, as riser does. A text is returned unchanged.
local function written(value, unit)
    if type(value) == "string" then
        return value
    elseif type(unit) == "number" then
        return binary(value, unit)
    end
    return string.format(unit, value)
end

-- `legal` replaces the legal values of the row.
local function text_of(row, found, expected, legal)
    return string.format("%s %s, expected %s (%s, rule %s)", row.field, written(found, row.unit),
        expected and written(expected, row.unit) or legal or row.legal, row.section, row.id)
end

local BY_ID = {}
for _, rows in ipairs({ rules.malformed, tables.of_several }) do
    for _, row in ipairs(rows) do
        BY_ID[row.id] = row
    end
end

-- Returns the text of a violation of the rule `id`. Without `expected`, it has the legal values of the rule.
function rules.text(id, found, expected)
    return text_of(BY_ID[id], found, expected)
end

-- Returns the rules of `rows` that the header breaks, each with its ID and a text. Returns nil for nearly all
-- headers, which break none.
function rules.broken(rows, h)
    local prepared, family = PREPARED[rows], h.format.family
    if not h.prefixes[1] and has_sound_first_dw(rows, h, prepared.first[family])
        and not is_broken(prepared.rest[family], h) then
        return nil
    end
    local broken = {}
    for _, row in ipairs(prepared.all[family]) do
        local found, legal = row.check(h)
        if found then
            table.insert(broken, { id = row.id, text = text_of(row, found, nil, legal) })
        end
    end
    return broken[1] and broken
end

return rules
