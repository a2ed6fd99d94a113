-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Formats a TLP or DLLP as one line, as in `riser trace`: in the style of the NetTLP paper's Figure 15 (NSDI'20,
-- §6.2), but with functions as bus:device.function. Uses the results of header.lua and dllp.lua, and reads no
-- packet.

local header = require "riser.header"
local names = require "riser.names"

local info = {}

local bdf = header.bdf
local floor, format = math.floor, string.format

-- Returns the upper half of an address if it is not 0. The format of each line prints the lower half with eight
-- digits. For speed, each line is formatted in one step.
local function upper(high)
    return high == 0 and "" or format("%x", high)
end

function info.address(high, low)
    return format("0x%s%08x", upper(high), low)
end

local lines = {}

function lines.memory(h)
    return format("%s, len %d, requester %s, tag 0x%02x, last 0x%x, first 0x%x, Addr 0x%s%08x", h.format.name,
        h.length_dw, bdf(h.requester), h.tag, h.last_be, h.first_be, upper(h.address_high), h.address_low)
end

function lines.io(h)
    return format("%s, len 1, requester %s, tag 0x%02x, last 0x0, first 0x%x, Addr 0x%08x", h.format.name,
        bdf(h.requester), h.tag, h.first_be, h.address_low)
end

function lines.atomic(h)
    return format("%s, len %d, requester %s, tag 0x%02x, operand %d B, Addr 0x%s%08x", h.format.name, h.length_dw,
        bdf(h.requester), h.tag, h.operand_bytes, upper(h.address_high), h.address_low)
end

function lines.completion(h)
    return format("%s, len %d, completer %s, %s, bc %d, requester %s, tag 0x%02x, lowaddr 0x%02x",
        h.format.name, h.data_dw, bdf(h.completer), names.status_text[h.status], h.byte_count,
        bdf(h.requester), h.tag, h.lower_address)
end

function lines.config(h)
    return format("%s, len 1, requester %s, tag 0x%02x, last 0x0, first 0x%x, completer %s, register 0x%03x",
        h.format.name, bdf(h.requester), h.tag, h.first_be, bdf(h.completer), h.register)
end

local LTR = 0x10

-- A latency of an LTR message (§6.18): Requirement, LatencyScale, LatencyValue.
local function latency(name, field)
    local scale = floor(field / 0x400) % 8
    if field < 0x8000 or scale > 5 then
        return format(", no %s requirement", name)
    end
    return format(", %s latency %d ns", name, field % 0x400 * 32 ^ scale)
end

local function latencies(dw)
    return latency("snoop", dw % 0x10000) .. latency("no-snoop", floor(dw / 0x10000))
end

function lines.message(h)
    local name = h.message and " " .. h.message.name or ""
    return format("%s, len %d, requester %s, tag 0x%02x, code 0x%02x%s, routing %s, header 0x%08x%08x",
        h.format.name, h.data_dw, bdf(h.requester), h.tag, h.message_code, name, names.routing[h.routing],
        h.dws[2], h.dws[3]) .. (h.message_code == LTR and latencies(h.dws[3]) or "")
end

-- TLPs in which LN is not reserved (§6.21).
info.MAY_HAVE_LN = { MRd = true, MWr = true, Cpl = true, CplD = true }

-- Returns the common fields that are not zero, each after a comma.
local function common(h)
    local memory = h.format.family == "memory" or h.format.family == "atomic"
    local parts = {
        h.tc ~= 0 and format("TC %d", h.tc),
        h.attr % 2 == 1 and "NS",
        floor(h.attr / 2) % 2 == 1 and "RO",
        h.attr >= 4 and h.format.family ~= "io" and h.format.family ~= "config" and "IDO",
        memory and h.at ~= 0 and format("AT %d", h.at),
        memory and h.th == 1 and format("PH %d, ST 0x%02x", h.ph, h.st),
        h.ln == 1 and info.MAY_HAVE_LN[h.format.name] and "LN",
        h.td == 1 and "TD",
        h.ep == 1 and "EP (poisoned)",
        memory and h.format.header_dw == 4 and h.address_high == 0 and "4-DW header below 4 GiB",
    }
    local text = ""
    for at = 1, 10 do
        text = text .. (parts[at] and ", " .. parts[at] or "")
    end
    return text
end

-- Returns true if all common fields are zero, as in most packets. The first DW then has only Fmt, Type and Length.
local function is_plain(h)
    return h.dws[0] % 0x1000000 < 0x400 and not (h.format.header_dw == 4 and h.address_high == 0)
end

-- Returns the line of a parsed header.
function info.tlp(h)
    local line = lines[h.format.family](h)
    return is_plain(h) and line or line .. common(h)
end

return info
