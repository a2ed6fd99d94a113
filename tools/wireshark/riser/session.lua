-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Sessions between two riser processes: a number of 48 bits in place of the NetTLP header, low half first, then a
-- TLP. If bit 47 of the number is set, a control record follows, which begins with ffh in place of Fmt and Type. A
-- datagram that is sealed with a key hides both. Keeps no state. Never raises an error, for any bytes.

local fields = require "riser.fields"
local tlp = require "riser.tlp"

local session = {}

session.HEADER_LEN = 6
local CONTROL = 0xff

-- Adds consecutive 16-bit fields while there are bytes. Returns the offset of their end.
local function add_words(tree, tvb, at, keys)
    for _, key in ipairs(keys) do
        if at + 2 > tvb:len() then
            break
        end
        tree:add(fields.session[key], tvb(at, 2))
        at = at + 2
    end
    return at
end

-- Adds a 64-bit field. Returns the offset of its end.
local function add_long(tree, tvb, at, key)
    if at + 8 <= tvb:len() then
        tree:add(fields.session[key], tvb(at, 8))
    end
    return at + 8
end

local function add_offer(tree, tvb, at)
    local noise_at = add_words(tree, tvb, at, { "version", "features", "window", "longest", "noise_len" })
    if noise_at < at + 10 then
        return
    end
    local len = math.min(tvb(noise_at - 2, 2):uint(), tvb:len() - noise_at)
    if len > 0 then
        tree:add(fields.session.noise, tvb(noise_at, len))
    end
end

local function add_ack(tree, tvb, at)
    at = add_long(tree, tvb, at, "next")
    at = add_long(tree, tvb, at, "limit")
    if at < tvb:len() then
        tree:add(fields.session.bitmap, tvb(at))
    end
end

-- Name of each kind, and the function that shows its body, which begins at byte 16.
local RECORDS = {
    { "Hello", add_offer },
    { "HelloAck", function(tree, tvb, at) add_offer(tree, tvb, add_long(tree, tvb, at, "nonce")) end },
    { "Confirm" },
    { "Ack", add_ack },
    { "Probe" },
    { "Reset" },
    { "Refused", function(tree, tvb, at) add_words(tree, tvb, add_long(tree, tvb, at, "nonce"), { "reason" }) end },
    { "Bye" },
}

local function add_record(tree, tvb)
    local at = session.HEADER_LEN
    local record = RECORDS[tvb(at + 1, 1):uint()]
    tree:add(fields.session.kind, tvb(at + 1, 1))
    add_long(tree, tvb, at + 2, "id")
    if record and record[2] then
        record[2](tree, tvb, at + 10)
    end
    return record and record[1] or "control, unknown"
end

-- Returns true if the number at byte `at` belongs to a control record.
function session.is_control(tvb, at)
    return tvb(at + 2, 1):uint() >= 128
end

local function add_number(tree, tvb, at, is_control)
    local low, high = tvb(at, 2):uint(), tvb(at + 2, 4):uint() % 2 ^ 31
    local number = UInt64.new(high % 65536 * 65536 + low, math.floor(high / 65536))
    tree:add(fields.session.number, tvb(at, session.HEADER_LEN), number)
    tree:add(fields.session.is_control, tvb(at + 2, 4), is_control):set_generated()
end

-- A request is issued by its sender, but a completion answers a request of the other side.
local function origin(first_byte, to_adapter)
    local is_completion = math.floor(first_byte / 2) % 16 == 5
    return to_adapter ~= is_completion and "device" or "host"
end

-- Shows number and control record of a datagram (joined.lua) below `tree`. Returns its name, and whether it has a TLP.
-- `to_adapter` is true if its destination is the port of sessions.
function session.show(tree, tvb, one, to_adapter)
    local is_control = session.is_control(tvb, one.at)
    add_number(tree, tvb, one.at, is_control)
    local rest_at, rest_len = one.at + session.HEADER_LEN, one.captured - session.HEADER_LEN
    local first_byte = rest_len > 0 and tvb(rest_at, 1):uint()
    if first_byte == CONTROL and rest_len > 1 then
        return "session " .. add_record(tree, tvb(one.at, one.captured):tvb()), false
    end
    if is_control then
        return "session control, sealed", false
    end
    if tlp.is_sound(one.h) then
        tree:add(fields.nettlp.origin, origin(first_byte, to_adapter)):set_generated()
        return "TLP", true
    end
    -- Sealed and malformed datagrams look the same. They are called "sealed", because sessions do not lose or alter
    -- data.
    return "session, sealed or no TLP", false
end

return session
