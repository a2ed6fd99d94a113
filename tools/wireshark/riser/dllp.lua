-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The dissector of DLLPs (PCIe 5.0 §3.5): six bytes, of which two are the CRC-16. Never raises an error, for any bytes.

local crc = require "riser.crc"
local fields = require "riser.fields"
local formats = require "riser.formats"
local transactions = require "riser.transactions"

local dllp = {}

local LEN = 6

-- One function per layout of the three bytes after the type. It shows them, and returns the line of the DLLP.
local show = {}

function show.ack(tree, dw, row)
    tree:add(fields.dllp.sequence, dw)
    return string.format("%s, seq %d", row.name, dw:bitfield(20, 12))
end

-- Number of credits per unit of a credit field (Table 3-2).
local FACTORS = { [0] = 1, [1] = 1, [2] = 4, [3] = 16 }

-- Returns the suffix of a credit field: empty, or the scale.
local function scale(bits)
    return bits == 0 and "" or string.format(" x%d", FACTORS[bits])
end

local function add_credits(tree, key, field, scale_bits)
    tree:add(fields.dllp[key], field * FACTORS[scale_bits]):set_generated()
end

function show.credits(tree, dw, row)
    tree:add(fields.dllp.class, dw(0, 1), row.class)
    for _, key in ipairs({ "vc", "hdr_scale", "hdr_fc", "data_scale", "data_fc" }) do
        tree:add(fields.dllp[key], dw)
    end
    local header, header_scale = dw:bitfield(10, 8), dw:bitfield(8, 2)
    local data, data_scale = dw:bitfield(20, 12), dw:bitfield(18, 2)
    add_credits(tree, "header_credits", header, header_scale)
    add_credits(tree, "data_credits", data, data_scale)
    return string.format("%s-%s, vc %d, hdr %d%s, data %d%s", row.name, row.class, dw:bitfield(5, 3),
        header, scale(header_scale), data, scale(data_scale))
end

function show.feature(tree, dw)
    tree:add(fields.dllp.feature_ack, dw)
    tree:add(fields.dllp.features, dw):add(fields.dllp.scaled_fc, dw)
    local scaled, others = dw:bitfield(31, 1) == 1, dw:bitfield(9, 22) * 2
    return "Feature" .. (scaled and ", scaled FC" or "")
        .. (others ~= 0 and string.format(", reserved bits 0x%x", others) or "")
        .. (dw:bitfield(8, 1) == 1 and ", ack" or "")
end

function show.vendor(tree, dw)
    tree:add(fields.dllp.payload, dw(1, 3))
    return string.format("Vendor, 0x%06x", dw:bitfield(8, 24))
end

function show.opaque(tree, dw, row)
    tree:add(fields.dllp.payload, dw(1, 3))
    return row.name
end

function show.reserved(_, _, row)
    return row.name
end

local function check_crc(tree, tvb)
    local item = tree:add(fields.dllp.crc, tvb(4, 2))
    local computed = crc.dllp(tvb(0, 4):bytes())
    local good = computed == tvb(4, 2):uint()
    item:add(fields.dllp.crc_status, good and "good" or "bad"):set_generated()
    if not good then
        item:add_proto_expert_info(fields.experts.dllp.crc, string.format("Bad CRC: computed 0x%04x", computed))
    end
    return good and "" or " [bad CRC]"
end

local function show_row(tree, tvb, row)
    tree:add(fields.dllp.name, tvb(0, 1), row.name):set_generated()
    if row.name == "Nak" then
        tree:add_proto_expert_info(fields.experts.dllp.nak)
    end
    return show[row.layout](tree, tvb(0, 4), row)
end

local function show_type(tree, tvb)
    tree:add(fields.dllp.type, tvb(0, 1))
    local row = formats.dllp_of(tvb(0, 1):uint())
    if row then
        return show_row(tree, tvb, row)
    end
    tree:add_proto_expert_info(fields.experts.dllp.unknown_type)
    return string.format("DLLP, unknown type 0x%02x", tvb(0, 1):uint())
end

-- Shows the DLLP in `tvb` below `root`, and returns its line. `wire_len` is its length in bytes on the wire.
function dllp.dissect(protocol, tvb, pinfo, root, wire_len)
    local tree = root:add(protocol, tvb())
    local text
    if tvb:len() == LEN and wire_len == LEN then
        local fault = check_crc(tree, tvb)
        text = show_type(tree, tvb) .. fault
        local row = fault == "" and formats.dllp_of(tvb(0, 1):uint())
        if row and row.layout == "ack" then
            transactions.acknowledge(pinfo, tvb(0, 4):bitfield(20, 12))
        elseif row and row.name == "InitFC1" and tvb(0, 1):uint() % 8 == 0 then
            transactions.link_came_up(pinfo)
        end
    else
        local message = string.format("A DLLP of %d bytes: it has six", wire_len)
        tree:add_proto_expert_info(fields.experts.dllp.length, message)
        text = "DLLP, length"
    end
    tree:append_text(": " .. text)
    return text
end

return dllp
