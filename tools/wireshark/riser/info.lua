-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- A TLP or DLLP in one line, word for word as `riser trace` prints it: in the style of the NetTLP paper's Figure 15
-- (NSDI'20, §6.2). Reads no packet: it works on what header.lua and dllp.lua have read.

local names = require "riser.names"

local info = {}

-- Bus and device-function, two hexadecimal digits each.
local function id(bits)
    return string.format("%02x:%02x", math.floor(bits / 256), bits % 256)
end

local function requester(h)
    return string.format("requester %s, tag 0x%02x", id(h.requester), h.tag)
end

function info.address(high, low)
    if high == 0 then
        return string.format("0x%08x", low)
    end
    return string.format("0x%x%08x", high, low)
end

local lines = {}

function lines.memory(h)
    local address = info.address(h.address_high, h.address_low)
    return string.format("len %d, %s, last 0x%x, first 0x%x, Addr %s", h.length_dw, requester(h), h.last_be,
        h.first_be, address)
end

function lines.io(h)
    return string.format("len 1, %s, last 0x0, first 0x%x, Addr 0x%08x", requester(h), h.first_be, h.address_low)
end

function lines.atomic(h)
    local address = info.address(h.address_high, h.address_low)
    return string.format("len %d, %s, operand %d B, Addr %s", h.length_dw, requester(h), h.operand_bytes, address)
end

function lines.completion(h)
    local length = h.format.data and h.length_dw or 0
    return string.format("len %d, completer %s, %s, bc %d, %s, lowaddr 0x%02x", length, id(h.completer),
        names.status_text[h.status], h.byte_count, requester(h), h.lower_address)
end

function lines.config(h)
    return string.format("len 1, %s, last 0x0, first 0x%x, completer %s, register 0x%03x", requester(h), h.first_be,
        id(h.completer), h.register)
end

function lines.message(h)
    local length = h.format.data and h.length_dw or 0
    local name = h.message and " " .. h.message.name or ""
    return string.format("len %d, %s, code 0x%02x%s, routing %s, header 0x%s", length, requester(h), h.message_code,
        name, names.routing[h.routing], string.format("%08x%08x", h.dws[2], h.dws[3]))
end

-- The line of a header that was read.
function info.tlp(h)
    return h.format.name .. ", " .. lines[h.format.family](h)
end

-- Where LN is not reserved (§6.21).
info.MAY_HAVE_LN = { MRd = true, MWr = true, Cpl = true, CplD = true }

-- The common fields that are not at rest, each behind a comma; what `riser trace --verbose` adds.
function info.common(h)
    local memory = h.format.family == "memory" or h.format.family == "atomic"
    local parts = {
        h.tc ~= 0 and string.format("TC %d", h.tc),
        h.attr % 2 == 1 and "NS",
        math.floor(h.attr / 2) % 2 == 1 and "RO",
        h.attr >= 4 and "IDO",
        memory and h.at ~= 0 and string.format("AT %d", h.at),
        memory and h.th == 1 and string.format("PH %d, ST 0x%02x", h.ph, h.st),
        h.ln == 1 and info.MAY_HAVE_LN[h.format.name] and "LN",
        h.td == 1 and "TD",
        h.ep == 1 and "EP",
    }
    local text = ""
    for at = 1, 9 do
        text = text .. (parts[at] and ", " .. parts[at] or "")
    end
    return text
end

return info
