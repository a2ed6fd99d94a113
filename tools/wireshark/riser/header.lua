-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- TLP headers (PCIe 5.0 §2.2): the position of each field, and a parser that reads a header into a plain table with
-- derived values. The file rules.lua checks headers, and tlp.lua shows them.

local formats = require "riser.formats"
local names = require "riser.names"

local floor = math.floor

local header = {}

-- All fields: key, DW, highest and lowest bit, numbered as in the specification (31 is the first on the wire).
-- `common` has the fields in the first DW of every header.
header.layouts = {
    common = {
        { "fmt", 0, 31, 29 }, { "type", 0, 28, 24 }, { "t9", 0, 23, 23 }, { "tc", 0, 22, 20 }, { "t8", 0, 19, 19 },
        { "ido", 0, 18, 18 }, { "ln", 0, 17, 17 }, { "th", 0, 16, 16 }, { "td", 0, 15, 15 }, { "ep", 0, 14, 14 },
        { "ro", 0, 13, 13 }, { "ns", 0, 12, 12 }, { "at", 0, 11, 10 }, { "length", 0, 9, 0 },
    },
    memory = { { "requester", 1, 31, 16 }, { "tag_low", 1, 15, 8 }, { "last_be", 1, 7, 4 }, { "first_be", 1, 3, 0 } },
    -- With TH, ST[7:0] replaces the tag of a posted request, and the Byte Enables of other requests (§2.2.7.1).
    memory_steered_tag = {
        { "requester", 1, 31, 16 }, { "st", 1, 15, 8 }, { "last_be", 1, 7, 4 }, { "first_be", 1, 3, 0 },
    },
    memory_steered_be = { { "requester", 1, 31, 16 }, { "tag_low", 1, 15, 8 }, { "st", 1, 7, 0 } },
    io = { { "requester", 1, 31, 16 }, { "tag_low", 1, 15, 8 }, { "last_be", 1, 7, 4 }, { "first_be", 1, 3, 0 } },
    atomic = { { "requester", 1, 31, 16 }, { "tag_low", 1, 15, 8 } },
    atomic_steered_be = { { "requester", 1, 31, 16 }, { "tag_low", 1, 15, 8 }, { "st", 1, 7, 0 } },
    config = {
        { "requester", 1, 31, 16 }, { "tag_low", 1, 15, 8 }, { "last_be", 1, 7, 4 }, { "first_be", 1, 3, 0 },
        { "completer", 2, 31, 16 }, { "register_dw", 2, 11, 2 },
    },
    message = { { "requester", 1, 31, 16 }, { "tag_low", 1, 15, 8 }, { "message_code", 1, 7, 0 } },
    completion = {
        { "completer", 1, 31, 16 }, { "status_bits", 1, 15, 13 }, { "bcm", 1, 12, 12 }, { "byte_count", 1, 11, 0 },
        { "requester", 2, 31, 16 }, { "tag_low", 2, 15, 8 }, { "lower_address", 2, 6, 0 },
    },
}

-- Maximum number of prefixes of a TLP that riser accepts.
header.MAX_PREFIXES = 8

-- Divisors that extract each field from its DW: the weight of its lowest bit, and of the bit above its highest bit.
for _, layout in pairs(header.layouts) do
    for _, place in ipairs(layout) do
        place.unit, place.above = 2 ^ place[4], 2 ^ (place[3] + 1)
    end
end

local function is_prefix(first_byte)
    return floor(first_byte / 32) == 4
end

local NO_PREFIXES = {}

local function be32(bytes, at)
    local a, b, c, d = bytes:byte(at + 1, at + 4)
    return a * 0x1000000 + b * 0x10000 + c * 0x100 + d
end

-- Returns the first byte and the DW of each prefix at the start of `bytes`, at most `most`. Prefixes have Fmt 100b
-- (§2.2.10).
local function read_prefixes(bytes, most)
    if not is_prefix(bytes:byte(1) or 0) then
        return NO_PREFIXES, NO_PREFIXES
    end
    local prefixes, dws = {}, {}
    while #prefixes < most and #prefixes * 4 + 4 <= #bytes do
        local first_byte = bytes:byte(#prefixes * 4 + 1)
        if not is_prefix(first_byte) then
            break
        end
        table.insert(dws, be32(bytes, #prefixes * 4))
        table.insert(prefixes, first_byte)
    end
    return prefixes, dws
end

-- Handles an incomplete prefix, or one too many, at the place of the header, and counts the end-to-end prefixes.
local function count_prefixes(h, tvb)
    h.first_byte = nil
    if h.captured >= h.prefix_len + 4 then
        h.end_to_end, h.prefix_count = 0, 0
        for _, prefix in ipairs(read_prefixes(tvb:raw(h.start, h.captured), h.captured)) do
            h.end_to_end = h.end_to_end + (prefix >= 0x90 and 1 or 0)
            h.prefix_count = h.prefix_count + 1
        end
    end
end

local function layout_of(h)
    if h.th == 1 and (h.format.family == "memory" or h.format.family == "atomic") then
        return h.format.family .. (h.format.class == "P" and "_steered_tag" or "_steered_be")
    end
    return h.format.family
end

local function read_fields(h, layout, dws)
    for at = 1, #layout do
        local place = layout[at]
        local dw = dws[place[2]]
        h[place[1]] = (dw % place.above - dw % place.unit) / place.unit
    end
end

-- Headers with the same first DW share one table, since a capture has few different ones. So each first DW is
-- parsed only once, and no new table is needed per header. Creating tables would take most of the time here.
local MOST_FIRST_DWS = 4096
local first_dws, first_dw_count = {}, 0

local function read_first_dw(format, dw)
    local h = { format = format, header_len = format.header_dw * 4, complete = true, dws = { [0] = dw } }
    read_fields(h, header.layouts.common, h.dws)
    h.layout = layout_of(h)
    h.attr = h.ido * 4 + h.ro * 2 + h.ns
    h.length_dw = h.length == 0 and 1024 or h.length
    h.data_dw = format.data and h.length_dw or 0
    return h
end

local function of_first_dw(format, dw)
    local found = first_dws[dw]
    if not found then
        if first_dw_count == MOST_FIRST_DWS then
            first_dws, first_dw_count = {}, 0
        end
        found = read_first_dw(format, dw)
        first_dws[dw], first_dw_count = found, first_dw_count + 1
    end
    return found
end

-- Index of the lowest and of the highest set bit of Byte Enables, 0 to 3; nil for 0000b.
local LOWEST, HIGHEST = {}, {}

for be = 1, 15 do
    for bit = 0, 3 do
        if floor(be / 2 ^ bit) % 2 == 1 then
            LOWEST[be], HIGHEST[be] = LOWEST[be] or bit, bit
        end
    end
end

-- Returns the number of bytes before the first enabled one, and the number from there to the last enabled one. The
-- latter is the Byte Count of the completion (§2.3.1.1), and 1 for a zero-length request.
local function span(first_be, last_be, length_dw)
    local lead = LOWEST[first_be] or 0
    local last = HIGHEST[length_dw == 1 and first_be or last_be] or 0
    return lead, length_dw * 4 - lead - (3 - last)
end

-- Reads the address of the first DW as two halves of 32 bits, since numbers of Lua 5.2 cannot hold 64 bits.
local function read_address(h)
    local last = h.format.header_dw - 1
    h.address_high = last == 3 and h.dws[2] or 0
    h.ph = h.dws[last] % 4
    h.address_low = h.dws[last] - h.ph
end

-- Attr[2] is reserved in I/O and configuration requests, so a receiver ignores it (§2.2.7).
local derive = {}

function derive.memory(h)
    read_address(h)
    if h.layout == "memory_steered_be" then
        h.first_be, h.last_be = 15, h.length_dw == 1 and 0 or 15
    end
    h.lead, h.request_bytes = span(h.first_be, h.last_be, h.length_dw)
end

function derive.io(h)
    read_address(h)
    h.lead, h.request_bytes = span(h.first_be, 0, 1)
    h.attr = h.attr % 4
end

-- FetchAdd and Swap have one operand, CAS has two.
function derive.atomic(h)
    read_address(h)
    h.operand_bytes = floor(h.length_dw * 4 / (h.format.name == "CAS" and 2 or 1))
end

function derive.config(h)
    h.register = h.register_dw * 4
    h.attr = h.attr % 4
end

-- Vendor ID and subtype of Vendor_Defined messages (§2.2.8.6).
function derive.message(h)
    h.routing = h.type % 8
    h.vendor, h.subtype = h.dws[2] % 0x10000, floor(h.dws[3] / 0x1000000)
    h.message = formats.message_of(h.message_code, h.vendor, h.subtype, h.format.data)
end

function derive.completion(h)
    h.byte_count = h.byte_count == 0 and 4096 or h.byte_count
    h.status = names.status[h.status_bits] or "UR"
end

-- Returns the header of this format at byte `at` of `bytes`.
local function read_all(format, bytes, at)
    local h = of_first_dw(format, be32(bytes, at))
    for dw = 1, format.header_dw - 1 do
        h.dws[dw] = be32(bytes, at + 4 * dw)
    end
    read_fields(h, header.layouts[h.layout], h.dws)
    h.tag = h.tag_low and h.t9 * 512 + h.t8 * 256 + h.tag_low or 0
    derive[format.family](h)
    return h
end

-- Maximum size of a TLP's prefixes and header in bytes.
local MOST_BYTES = 4 * header.MAX_PREFIXES + 16

-- Returns the header of the TLP that begins with its prefixes at byte `start` of `tvb`. The TLP has `wire_len`
-- bytes on the wire, of which `captured` were captured. The header is a table, valid until a header with the same
-- first DW is read:
--   format: row of the format; nil for an unknown Fmt and Type
--   prefixes: first bytes of the prefixes
--   prefix_len, header_len: lengths in bytes
--   start, offset: offsets of the TLP and of its header in `tvb`
--   captured, wire_len: as passed
--   dws: DWs of the header, from 0
--   tag, attr, length_dw, data_dw, and each field of the layout by its key
--   the values of `derive`
-- Without `format`, or if `complete` is false, the fields are not read. With too many prefixes, `end_to_end` is the
-- number of end-to-end prefixes.
function header.read(tvb, start, captured, wire_len)
    -- Reading all bytes as one string takes as long as reading one field of a Tvb.
    local len = math.min(captured, MOST_BYTES)
    local bytes = len > 0 and tvb:raw(start, len) or ""
    local prefixes, prefix_dws = read_prefixes(bytes, header.MAX_PREFIXES)
    local prefix_len = #prefixes * 4
    local first_byte = bytes:byte(prefix_len + 1)
    local starts_with_prefix = first_byte and is_prefix(first_byte)
    local format = first_byte and not starts_with_prefix and formats.tlp_of(first_byte)
    local header_len = format and format.header_dw * 4 or 12
    local is_complete = format and len >= prefix_len + header_len
    local h = is_complete and read_all(format, bytes, prefix_len)
        or { format = format or nil, first_byte = first_byte, header_len = header_len }
    h.prefixes, h.prefix_dws, h.prefix_len = prefixes, prefix_dws, prefix_len
    h.start, h.offset, h.captured, h.wire_len = start, start + prefix_len, captured, wire_len
    if starts_with_prefix then
        count_prefixes(h, tvb)
    end
    return h
end

-- Returns the end of the data and the end of the digest, as offsets from the start of the prefixes.
function header.ends(h)
    local data_end = h.prefix_len + h.header_len + h.data_dw * 4
    return data_end, data_end + (h.td == 1 and 4 or 0)
end

-- Texts of IDs. Each is created only once, since few functions send many packets.
local id_texts = {}

-- Formats a 16-bit ID as in the specification.
function header.bdf(id)
    local text = id_texts[id]
    if not text then
        text = string.format("%02x:%02x.%x", floor(id / 256), floor(id / 8) % 32, id % 8)
        id_texts[id] = text
    end
    return text
end

return header
