-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The dissector of TLPs: prefixes, header, data, digest, and transaction. header.lua parses the packet, and
-- rules.lua checks it. Never raises an error, for any bytes.

local asked = require "riser.asked"
local crc = require "riser.crc"
local fields = require "riser.fields"
local formats = require "riser.formats"
local header = require "riser.header"
local info = require "riser.info"
local names = require "riser.names"
local rules = require "riser.rules"
local transactions = require "riser.transactions"

local tlp = {}

-- Adds an expert item. Without a text argument, it has its default text.
local function expert(tree, key, ...)
    tree:add_proto_expert_info(fields.experts.tlp[key], ...)
end

-- Adds a computed field if it is needed.
local function generated(tree, field, ...)
    if asked.is_for_field(tree, field) then
        return tree:add(field, ...):set_generated()
    end
end

-- Prefixes ------------------------------------------------------------------------------------------------------------

local show_prefix = {}

show_prefix["PASID"] = function(tree, range)
    tree:add(fields.prefix.pasid_pmr, range)
    tree:add(fields.prefix.pasid_exe, range)
    tree:add(fields.prefix.pasid, range)
end

show_prefix["Extended TPH"] = function(tree, range)
    tree:add(fields.prefix.st_high, range)
end

local function add_prefix(tree, range, type_byte)
    local kind = type_byte >= 0x90 and "end-to-end" or "local"
    local name = formats.prefixes[type_byte] or "reserved"
    local item = tree:add(fields.prefix.prefix, range):append_text(string.format(" (%s, %s)", name, kind))
    item:add(fields.prefix.prefix_type, range(0, 1))
    item:add(fields.prefix.prefix_name, range(0, 1), name)
    if show_prefix[name] then
        show_prefix[name](item, range)
    end
end

local function add_prefixes(tree, tvb, h)
    for at, type_byte in ipairs(h.prefixes) do
        add_prefix(tree, tvb(h.start + at * 4 - 4, 4), type_byte)
    end
end

-- Returns the length of the local prefixes, which ECRC does not cover (§2.7.1).
local function local_prefix_len(h)
    local count = 0
    while h.prefixes[count + 1] and h.prefixes[count + 1] < 0x90 do
        count = count + 1
    end
    return count * 4
end

-- Header --------------------------------------------------------------------------------------------------------------

-- Fields that need a special display. All others appear as bits of their DW.
local add_field = {}

local function add_id(tree, key, range, id)
    tree:add(fields.tlp[key], range, header.bdf(id))
    tree:add(fields.tlp[key .. "_id"], range):set_hidden()
end

function add_field.requester(tree, range, h)
    add_id(tree, "requester", range(0, 2), h.requester)
end

function add_field.completer(tree, range, h)
    add_id(tree, "completer", range(0, 2), h.completer)
end

function add_field.byte_count(tree, range, h)
    tree:add(fields.tlp.byte_count, range(2, 2), h.byte_count)
end

function add_field.status_bits(tree, range, h, place)
    tree:add(fields.tlp[fields.name_of(place)], range)
    local item = generated(tree, fields.tlp.status, range(2, 1), h.status)
    if item then
        item:append_text(" (" .. names.status_text[h.status] .. ")")
    end
end

function add_field.register_dw(tree, range, h, place)
    tree:add(fields.tlp[fields.name_of(place)], range)
    generated(tree, fields.tlp.register, range(2, 2), h.register)
end

local function add_layout(tree, tvb, h, layout)
    local all = tree.visible
    for at = 1, #layout do
        local place = layout[at]
        local add, field = add_field[place[1]], fields.tlp[fields.name_of(place)]
        if add then
            add(tree, tvb(h.offset + 4 * place[2], 4), h, place)
        elseif all or tree:referenced(field) then
            tree:add(field, tvb(h.offset + 4 * place[2], 4))
        end
    end
end

local add_family = {}

local function add_address(tree, tvb, h)
    local range = tvb(h.offset + 8, h.header_len - 8)
    tree:add(fields.tlp.address, range, UInt64.new(h.address_low, h.address_high))
end

local function add_hint(tree, tvb, h)
    if h.th == 1 then
        tree:add(fields.tlp.ph, tvb(h.offset + h.header_len - 1, 1))
    end
end

function add_family.memory(tree, tvb, h)
    add_address(tree, tvb, h)
    add_hint(tree, tvb, h)
    if h.layout == "memory_steered_be" then
        generated(tree, fields.tlp.implied_last_be, h.last_be)
        generated(tree, fields.tlp.implied_first_be, h.first_be)
    end
    generated(tree, fields.tlp.request_bytes, h.request_bytes)
end

add_family.io = add_address

function add_family.atomic(tree, tvb, h)
    add_address(tree, tvb, h)
    add_hint(tree, tvb, h)
    generated(tree, fields.tlp.operand_bytes, h.operand_bytes)
end

function add_family.config() end

function add_family.completion() end

-- A Vendor_Defined message (§2.2.8.6).
local function add_vendor(tree, tvb, h)
    tree:add(fields.tlp.vendor_id, tvb(h.offset + 10, 2))
    if h.message.subtype then
        tree:add(fields.tlp.vendor_subtype, tvb(h.offset + 12, 1))
    end
end

function add_family.message(tree, tvb, h)
    tree:add(fields.tlp.routing, tvb(h.offset, 1))
    generated(tree, fields.tlp.message_name, h.message and h.message.name or "unknown")
    local range = tvb(h.offset + 8, 8)
    local item = tree:add(fields.tlp.message_header, range)
    if h.routing == 1 then
        item:add(fields.tlp.address, range)
    elseif h.routing == 2 then
        item:add(fields.tlp.message_target, tvb(h.offset + 8, 2), header.bdf(tvb(h.offset + 8, 2):uint()))
    end
    if h.message_code == 0x7e or h.message_code == 0x7f then
        add_vendor(item, tvb, h)
    end
end

local function add_header(tree, tvb, h)
    generated(tree, fields.tlp.type_name, tvb(h.offset, 1), h.format.name)
    add_layout(tree, tvb, h, header.layouts.common)
    generated(tree, fields.tlp.attr, h.attr)
    if h.format.data then
        generated(tree, fields.tlp.length_dw, h.length_dw)
    elseif h.format.class ~= "Cpl" and h.format.family ~= "message" then
        generated(tree, fields.tlp.length_dw, h.length_dw)
    end
    add_layout(tree, tvb, h, header.layouts[h.layout])
    generated(tree, fields.tlp.tag, h.tag)
    add_family[h.format.family](tree, tvb, h)
end

-- Data and digest -----------------------------------------------------------------------------------------------------

-- Returns the number of captured data bytes.
local function captured_bytes(h)
    return math.max(0, math.min(header.ends(h), h.captured) - h.prefix_len - h.header_len)
end

local function add_data(tree, tvb, h)
    if h.data_dw == 0 then
        return
    end
    local captured = captured_bytes(h)
    if captured > 0 then
        tree:add(fields.tlp.data, tvb(h.offset + h.header_len, captured))
    end
    generated(tree, fields.tlp.payload_bytes, h.data_dw * 4)
    generated(tree, fields.tlp.captured_bytes, captured)
end

-- `at` is the offset of the digest.
local function check_ecrc(tree, tvb, h, at)
    local start = h.start + local_prefix_len(h)
    local computed = crc.ecrc(tvb(start, at - start):bytes(), h.offset - start)
    local good = computed == tvb(at, 4):uint()
    generated(tree, fields.tlp.ecrc_status, good and "good" or "bad")
    if not good then
        expert(tree, "ecrc", string.format("Bad ECRC: computed 0x%08x", computed))
    end
end

local function add_digest(tree, tvb, h, settings)
    local data_end, tlp_end = header.ends(h)
    if h.td == 0 then
        return
    end
    if h.wire_len <= data_end then
        -- NetTLP's adapters omit the digest, but leave TD set.
        expert(tree, "no_digest")
    elseif h.captured >= tlp_end then
        local item = tree:add(fields.tlp.ecrc, tvb(h.start + data_end, 4))
        if settings.check_ecrc then
            check_ecrc(item, tvb, h, h.start + data_end)
        end
    end
end

-- Errors --------------------------------------------------------------------------------------------------------------

-- Reports broken rules of receivers. Returns true if no rule is broken.
local function report_malformed(tree, h)
    local malformed = rules.broken(rules.malformed, h)
    for _, rule in ipairs(malformed or {}) do
        generated(tree, fields.tlp.malformed_rule, rule.id)
        expert(tree, "malformed", "Malformed TLP: " .. rule.text)
    end
    return not malformed
end

-- Reports the broken rules that bind only senders. If a completion answers a request, the request determines the
-- correct amount of data.
local function report_tolerated(tree, h, is_answer)
    for _, rule in ipairs(rules.broken(rules.tolerated, h) or {}) do
        if not is_answer or rule.id ~= "completion-byte-count" then
            generated(tree, fields.tlp.tolerated_rule, rule.id)
            expert(tree, "tolerated", "Tolerated: " .. rule.text)
        end
    end
end

-- Returns true if the datagram has the length of a TLP with this header. LibTLP pads writes of one and two bytes to
-- three bytes, not to four. Adapters omit the digest, but leave TD set.
function tlp.fits(h)
    local data_end, tlp_end = header.ends(h)
    local may_be_short = h.data_dw == 1 and h.format.name == "MWr"
    local shortest = data_end - (may_be_short and 1 or 0)
    return h.wire_len >= shortest and h.wire_len <= tlp_end
end

local function report_length(tree, h)
    if tlp.fits(h) then
        return true
    end
    local _, tlp_end = header.ends(h)
    local text = "TLP of %d bytes by its header in a datagram that holds %d"
    expert(tree, "length", string.format(text, tlp_end, h.wire_len))
    return false
end

local function report_cut(tree, h)
    if h.captured >= h.wire_len then
        return
    end
    local captured = captured_bytes(h)
    if captured < h.data_dw * 4 then
        expert(tree, "not_captured", string.format("%d of %d data bytes captured", captured, h.data_dw * 4))
    end
end

local function report_state(tree, h)
    if h.ep == 1 then
        expert(tree, "poisoned")
    end
    if h.status == "CRS" then
        expert(tree, "retry")
    elseif h.status and h.status ~= "SC" then
        expert(tree, "status", "Completion Status: " .. names.status_text[h.status])
    end
end

local function report_too_many_prefixes(tree, h)
    local is_end_to_end = h.end_to_end > 4
    local id = is_end_to_end and "end-to-end-count" or "prefix-count"
    generated(tree, fields.tlp.malformed_rule, id)
    expert(tree, "malformed", "Malformed TLP: " .. rules.text(id, is_end_to_end and h.end_to_end or h.prefix_count))
    return "malformed"
end

local function report_unreadable(tree, h)
    if h.end_to_end then
        return report_too_many_prefixes(tree, h)
    end
    if h.first_byte and not h.format then
        expert(tree, "unknown_type", string.format("Unknown Fmt and Type: first byte 0x%02x", h.first_byte))
        return "unknown type"
    end
    expert(tree, "truncated", string.format("TLP cut short: %d bytes, expected %d up to the end of its header",
        h.captured, h.prefix_len + h.header_len))
    return "header cut short"
end

-- The dissector -------------------------------------------------------------------------------------------------------

local function line_of(tree, is_asked_for, h)
    local text = info.tlp(h)
    if is_asked_for and tree.visible then
        tree:append_text(": " .. text)
    end
    return text
end

-- Returns true if a header was parsed and breaks no rule of receivers.
function tlp.has_sound_header(h)
    return h.complete and not rules.broken(rules.malformed, h)
end

-- Returns true if the header breaks no rule of receivers, and the TLP is as long as its datagram.
function tlp.is_sound(h)
    return h.complete and tlp.fits(h) and tlp.has_sound_header(h)
end

-- Processes a TLP in a pass that shows nothing. `part` is the index of its datagram in the frame.
function tlp.see(pinfo, part, h)
    if tlp.is_sound(h) then
        transactions.see(pinfo, part, h)
    end
end

-- Reports the errors of a TLP, and its transaction. Returns the remark for the end of its line.
local function report(tree, tvb, pinfo, part, h, settings)
    report_cut(tree, h)
    local sound = report_malformed(tree, h)
    sound = report_length(tree, h) and sound
    if not sound then
        report_tolerated(tree, h, false)
        return " [malformed]"
    end
    add_digest(tree, tvb, h, settings)
    report_state(tree, h)
    if not pinfo.visited then
        transactions.see(pinfo, part, h)
    end
    report_tolerated(tree, h, transactions.is_answer(pinfo, part))
    local lost = transactions.show(tree, pinfo, part, h)
    return lost and " [" .. lost .. "]" or ""
end

-- Shows the TLP with this header below `root`, and returns its line. `part` is the index of its datagram in the
-- frame, from 1. `settings` has `check_ecrc`.
function tlp.dissect(protocol, tvb, pinfo, root, part, h, settings)
    local is_asked_for = asked.is_for("tlp", root)
    -- Expert information is counted even if the fields are not needed.
    local tree = is_asked_for and root:add(protocol, tvb(h.start, h.captured)) or root
    if is_asked_for and h.prefix_len > 0 then
        add_prefixes(tree, tvb, h)
    end
    if not h.complete then
        return "TLP, " .. report_unreadable(tree, h)
    end
    if is_asked_for then
        add_header(tree, tvb, h)
        add_data(tree, tvb, h)
    end
    local remark = report(tree, tvb, pinfo, part, h, settings)
    return line_of(tree, is_asked_for, h, settings) .. remark
end

return tlp
