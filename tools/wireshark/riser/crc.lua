-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The CRCs in captures: ECRC of TLPs (PCIe 5.0 §2.7.1) and CRC-16 of DLLPs (§3.5.1). Both are computed in reflected
-- form. The low byte of the register is the first byte on the wire. Reads no packet, only lists of bytes.

local crc = {}

-- Lua 5.2 has bit32, and Wireshark provides bit. Lua 5.3 and later have operators, which 5.2 cannot parse.
local function find_xor()
    local library = rawget(_G, "bit32") or rawget(_G, "bit")
    if library then
        return library.bxor
    end
    return load("return function(a, b) return a ~ b end")()
end

local xor = find_xor()

-- Results of Wireshark's bit library are signed.
local function unsigned(value)
    return value % 0x100000000
end

local function table_of(polynomial)
    local rows = {}
    for byte = 0, 255 do
        local value = byte
        for _ = 1, 8 do
            local half = math.floor(value / 2)
            value = value % 2 == 1 and unsigned(xor(half, polynomial)) or half
        end
        rows[byte] = value
    end
    return rows
end

-- The polynomials 04C11DB7h and 100Bh, mirrored.
local TABLE_32 = table_of(0xEDB88320)
local TABLE_16 = table_of(0xD008)

local function update(rows, value, byte)
    local row = rows[unsigned(xor(value % 256, byte))]
    return unsigned(xor(math.floor(value / 256), row))
end

-- Returns the complement with its bytes in the order on the wire, as in the specification's figures.
local function field(value, bytes)
    local drawn = 0
    for _ = 1, bytes do
        drawn = drawn * 256 + (255 - value % 256)
        value = math.floor(value / 256)
    end
    return drawn
end

-- Returns a byte with the bit `bit` (1, 2, 4, ...) set.
local function with(byte, bit)
    return math.floor(byte / bit) % 2 == 1 and byte or byte + bit
end

-- Returns the ECRC over a TLP without its local prefixes and its digest: `bytes` is a ByteArray or any object with
-- `len` and `get_index`. `header` is the offset of the header, after the end-to-end prefixes. Bit 0 of Type and EP may
-- change on the way, so they count as ones.
function crc.ecrc(bytes, header)
    local value = 0xffffffff
    for at = 0, bytes:len() - 1 do
        local byte = bytes:get_index(at)
        if at == header then
            byte = with(byte, 0x01)
        elseif at == header + 2 then
            byte = with(byte, 0x40)
        end
        value = update(TABLE_32, value, byte)
    end
    return field(value, 4)
end

-- Returns the CRC over the first four bytes of a DLLP.
function crc.dllp(bytes)
    local value = 0xffff
    for at = 0, 3 do
        value = update(TABLE_16, value, bytes:get_index(at))
    end
    return field(value, 2)
end

return crc
