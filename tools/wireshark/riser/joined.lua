-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Splits a frame into its datagrams. A frame usually has one. With segmentation offload, a loopback capture has one
-- frame for a sequence of datagrams, and all except the last have the same length. The frame does not contain this
-- length, but the headers of the TLPs do. Uses the same rules as crates/capture/src/superpacket.rs. Never raises an
-- error, for any bytes.

local header = require "riser.header"
local session = require "riser.session"
local tlp = require "riser.tlp"

local joined = {}

-- Size of a NetTLP header, or of a session's number, in bytes.
local HEADER_LEN = 6

-- Returns the table of a datagram at byte `at` of a frame's payload. It has the arguments, and `h`, the header of
-- its TLP (nil if the bytes end before it). `captured` and `wire_len` are numbers of bytes, and `part` is its index
-- in the frame, from 1.
local function datagram(tvb, at, captured, wire_len, part)
    local h = captured >= HEADER_LEN
        and header.read(tvb, at + HEADER_LEN, captured - HEADER_LEN, wire_len - HEADER_LEN) or nil
    return { at = at, captured = captured, wire_len = wire_len, part = part, h = h }
end

-- Returns the length of a datagram according to its TLP, in bytes.
local function said_len(one)
    if one.h and one.h.complete then
        local _, tlp_end = header.ends(one.h)
        return HEADER_LEN + tlp_end
    end
end

-- Returns part `part` of a frame in which each part except the last has `part_len` bytes.
local function part_of(tvb, part, part_len)
    local at = (part - 1) * part_len
    local captured, wire_len = math.min(part_len, tvb:len() - at), math.min(part_len, tvb:reported_len() - at)
    local one = datagram(tvb, at, captured, wire_len, part)
    one.part_len = part_len
    return one
end

-- Returns true if each captured part has the length of its TLP. Each part except the last has `part_len` bytes.
local function all_fit(tvb, part_len)
    for part = 1, math.ceil(tvb:len() / part_len) do
        local one = part_of(tvb, part, part_len)
        local said = said_len(one)
        -- The header of the last captured part may be missing.
        local fits = said == one.wire_len or not said and one.captured < one.wire_len
        if not fits then
            return false
        end
    end
    return true
end

-- The length of sealed datagrams and control records is unknown, and the length of malformed TLPs is not reliable.
local function may_be_several(tvb, kind, whole)
    local h = whole.h
    if not h or not h.complete or tlp.fits(h) or whole.wire_len <= said_len(whole) then
        return false
    end
    if kind == "session" then
        return not session.is_control(tvb, 0)
    end
    return tlp.has_sound_header(h)
end

-- Returns the first datagram of a frame with TLPs or a session (`kind`). `tvb` is the payload. The datagram is
-- valid as long as its header.
function joined.first(tvb, kind)
    local whole = datagram(tvb, 0, tvb:len(), tvb:reported_len(), 1)
    if not may_be_several(tvb, kind, whole) then
        return whole
    end
    local part_len = said_len(whole)
    if all_fit(tvb, part_len) then
        return part_of(tvb, 1, part_len)
    end
    return datagram(tvb, 0, tvb:len(), tvb:reported_len(), 1)
end

-- Returns the next datagram; nil if this is the last one with captured bytes.
function joined.next(tvb, one)
    if one.part_len and one.at + one.part_len < tvb:len() then
        return part_of(tvb, one.part + 1, one.part_len)
    end
end

return joined
