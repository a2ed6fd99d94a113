-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Looks up formats of TLPs and messages in the generated tables. Contains the tables of TLP prefixes and DLLP types
-- (PCIe 5.0 §2.2.10, Table 3-1). Reads no packet.

local tables = require "riser.tables"

local formats = {}

-- TLP prefixes by their first byte; Type[4] is set in end-to-end ones.
formats.prefixes = {
    [0x80] = "MR-IOV",
    [0x8e] = "VendPrefixL0",
    [0x8f] = "VendPrefixL1",
    [0x90] = "Extended TPH",
    [0x91] = "PASID",
    [0x9e] = "VendPrefixE0",
    [0x9f] = "VendPrefixE1",
}

-- DLLP types. `mask` selects the relevant bits, and `layout` is the layout of the other three bytes. The three low bits
-- of flow-control types are the virtual channel, or the virtual link for MR-IOV.
formats.dllp = {
    { type = 0x00, mask = 0xff, name = "Ack", layout = "ack" },
    { type = 0x10, mask = 0xff, name = "Nak", layout = "ack" },
    { type = 0x01, mask = 0xff, name = "MRInit", layout = "opaque" },
    { type = 0x02, mask = 0xff, name = "Data_Link_Feature", layout = "feature" },
    { type = 0x20, mask = 0xff, name = "PM_Enter_L1", layout = "reserved" },
    { type = 0x21, mask = 0xff, name = "PM_Enter_L23", layout = "reserved" },
    { type = 0x23, mask = 0xff, name = "PM_Active_State_Request_L1", layout = "reserved" },
    { type = 0x24, mask = 0xff, name = "PM_Request_Ack", layout = "reserved" },
    { type = 0x30, mask = 0xff, name = "Vendor-specific", layout = "vendor" },
    { type = 0x31, mask = 0xff, name = "NOP", layout = "opaque" },
    { type = 0x40, mask = 0xf8, name = "InitFC1", class = "P", layout = "credits" },
    { type = 0x50, mask = 0xf8, name = "InitFC1", class = "NP", layout = "credits" },
    { type = 0x60, mask = 0xf8, name = "InitFC1", class = "Cpl", layout = "credits" },
    { type = 0xc0, mask = 0xf8, name = "InitFC2", class = "P", layout = "credits" },
    { type = 0xd0, mask = 0xf8, name = "InitFC2", class = "NP", layout = "credits" },
    { type = 0xe0, mask = 0xf8, name = "InitFC2", class = "Cpl", layout = "credits" },
    { type = 0x80, mask = 0xf8, name = "UpdateFC", class = "P", layout = "credits" },
    { type = 0x90, mask = 0xf8, name = "UpdateFC", class = "NP", layout = "credits" },
    { type = 0xa0, mask = 0xf8, name = "UpdateFC", class = "Cpl", layout = "credits" },
    { type = 0x70, mask = 0xf8, name = "MRInitFC1", layout = "opaque" },
    { type = 0xf0, mask = 0xf8, name = "MRInitFC2", layout = "opaque" },
    { type = 0xb0, mask = 0xf8, name = "MRUpdateFC", layout = "opaque" },
}

-- Clears the low bits of `value` that are clear in `mask`. The bits that are set in `mask` are the high ones.
local function masked(value, mask, width)
    local unit = width - mask
    return value - value % unit
end

-- Returns the rows by byte value, so that a look-up is one step.
local function by_byte(rows, matches)
    local found = {}
    for byte = 0, 255 do
        for _, row in ipairs(rows) do
            if matches(row, byte) then
                found[byte] = row
            end
        end
    end
    return found
end

local tlp_rows = by_byte(tables.tlp, function(row, byte)
    local fmt, type_bits = math.floor(byte / 32), byte % 32
    return fmt == row.fmt and masked(type_bits, row.mask, 32) == row.type
end)

local dllp_rows = by_byte(formats.dllp, function(row, byte)
    return masked(byte, row.mask, 256) == row.type
end)

-- Returns the format of a TLP whose header starts with this byte; nil for unknown formats.
function formats.tlp_of(first_byte)
    return tlp_rows[first_byte]
end

-- Returns the row of a DLLP type; nil for unknown types.
function formats.dllp_of(type_byte)
    return dllp_rows[type_byte]
end

-- Returns the row of a message, from its code, the Vendor ID and subtype of a Vendor_Defined message, and whether it
-- has data; nil if the base specification has none.
function formats.message_of(code, vendor, subtype, has_data)
    local found
    for _, row in ipairs(tables.messages) do
        local is_meant = row.code == code and (row.subtype == nil or vendor == 0x0001 and row.subtype == subtype)
        if is_meant and not found then
            found = row
        elseif found and has_data and row.code == code and row.subtype == found.subtype and found.data_dw == 0 then
            -- PTM_Response and PTM_ResponseD are the only messages that differ only in their data.
            return row
        end
    end
    return found
end

return formats
