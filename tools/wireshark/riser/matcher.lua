-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Finds the request that a completion answers, by link, requester and tag, with the same rules as riser's matcher
-- (crates/capture/src/matcher). The test crates/capture/tests/it/dissector.rs compares both. Processes every TLP
-- once, in the order of the capture, and stores its results by frame. Reads no packet.
--
-- Outstanding requests are kept. If there are more than MAX_OUTSTANDING, the oldest is given up.
--
-- In a capture from a mirroring switch, the next request of a tag may come before the last completion of its
-- previous request. So each tag keeps one earlier request in addition to the newest.

local completions = require "riser.completions"

local matcher = {}

-- Maximum number of tags with waiting requests.
matcher.MAX_OUTSTANDING = 65536

-- `waiting`: outstanding requests by link, requester and tag; the table of a tag stays when it has none. `tracked`:
-- number of tags with an outstanding request. `order`: requests in order, from `oldest` to `latest`. `parts`:
-- results by index among the datagrams of a frame, and by frame. `ended`: last ended request by link, requester and
-- tag, if marks are unavailable. `requesters`: known facts by link and ID. `has_requests`: links that show
-- requests.
local waiting, tracked, order, oldest, latest, parts, ended, requesters, has_requests

-- Clears everything; runs before a capture is read.
function matcher.reset()
    waiting, tracked, order, oldest, latest, parts, ended, requesters, has_requests = {}, 0, {}, 1, 0, { {} }, {}, {}, {}
end

matcher.reset()

-- Functions that return the number of bytes of a request.
local named_bytes = {}

function named_bytes.memory(h)
    return h.request_bytes
end

function named_bytes.io()
    return 4
end

function named_bytes.config()
    return 4
end

function named_bytes.atomic(h)
    return h.operand_bytes
end

-- Returns the address of the first byte in two halves of 32 bits, or the register of a configuration request.
local function place_of(h)
    if h.format.family == "config" then
        return 0, h.register
    end
    return h.address_high, h.address_low + (h.format.family == "memory" and h.lead or 0)
end

-- A shared empty list, because there are many tables.
local NONE = {}

-- `remaining` is the number of bytes that completions must return: 0 for writes, the size of the old value for an
-- AtomicOp.
local function of_request(number, time, h)
    local bytes = named_bytes[h.format.family](h)
    local is_write = h.format.data and h.format.family ~= "atomic"
    local high, low = place_of(h)
    local request = {
        number = number, start = time, name = h.format.name, high = high, low = low, bytes = bytes,
        remaining = is_write and 0 or bytes, completions = NONE, waits = true, key = false, latest_byte_count = -1,
        kind = "request", request = false,
    }
    completions.ask(request, h)
    return request
end

local function is_repeated_by(request, other)
    return #request.completions == 0 and request.name == other.name and request.high == other.high
        and request.low == other.low and request.bytes == other.bytes
end

-- Gives up the oldest request, and the other request of its tag.
local function give_up_oldest()
    while oldest <= latest do
        local request = order[oldest]
        order[oldest], oldest = nil, oldest + 1
        local slot = waiting[request.key]
        if slot.newest == request or slot.earlier == request then
            slot.newest, slot.earlier, tracked = false, false, tracked - 1
            return
        end
    end
end

local function wait_under_new_tag(key, slot, request)
    if tracked == matcher.MAX_OUTSTANDING then
        give_up_oldest()
    end
    if not slot then
        slot = { newest = false, earlier = false }
        waiting[key] = slot
    end
    if not slot.earlier then
        tracked = tracked + 1
    end
    slot.newest = request
end

local function see_request(key, request)
    local slot = waiting[key]
    if slot and slot.newest and is_repeated_by(slot.newest, request) then
        return { kind = "repeat", request = slot.newest }
    end
    -- The result is the request itself, unless its tag is in use.
    request.key, request.request = key, request
    local found = request
    if slot and slot.newest then
        found = { kind = "reuse", request = request, earlier = slot.newest }
        slot.earlier, slot.newest = slot.newest, request
    else
        wait_under_new_tag(key, slot, request)
    end
    latest = latest + 1
    order[latest] = request
    return found
end

-- Only data is counted: a completion without data or with an error ends the request.
local function expects(request, h)
    return request.remaining == 0 or h.status ~= "SC" or h.byte_count == request.remaining
end

-- Returns true if a completion repeats the previous one: Byte Count decreases with each completion (§2.3.1.1).
local function is_answered_again_by(request, h)
    return request.latest_byte_count == h.byte_count and h.byte_count > request.remaining
end

-- Returns the number of bytes that a completion returns, without the padding of its first and last DW.
local function answered_bytes(h)
    return math.min(h.data_dw * 4 - h.lower_address % 4, h.byte_count)
end

-- Returns true if the completion ends the request: it is the last one, has no data, or has a status other than success
-- (§2.3.1.1, §2.3.2).
local function is_ended_by(request, number, time, h)
    if request.completions == NONE then
        request.completions = { number }
    else
        table.insert(request.completions, number)
    end
    request.latest_byte_count = h.byte_count
    if not h.format.data then
        return true
    end
    request.remaining = math.max(0, request.remaining - answered_bytes(h))
    return request.remaining == 0 or h.status ~= "SC"
end

-- Returns the earlier request, unless the completion matches only the newest.
local function answered_place(slot, h)
    if slot.newest and slot.earlier then
        local newest_alone = not expects(slot.earlier, h) and expects(slot.newest, h)
        return newest_alone and "newest" or "earlier"
    end
    return slot.newest and "newest" or "earlier"
end

-- Returns a key with the fields that distinguish completions of a tag.
local function likeness(h)
    return h.format.name .. h.status .. h.byte_count .. "/" .. h.lower_address .. "/" .. h.data_dw
end

-- Handles a completion without an outstanding request. If marks are unavailable, and the completion equals the one
-- that ended the tag's last request, it counts as a replay of that one.
local function without_request(key, h, blind)
    local last = blind and ended[key]
    if last and last.likeness == likeness(h) then
        return { kind = "repeat", request = last.request, earlier = last.number }
    end
    return { kind = "unmatched" }
end

-- Default completion timeout (§2.8), in nanoseconds.
local TIMEOUT = 50000000

-- Returns true if the capture would contain the request of a completion. If the first TLP of the requester was a
-- completion, requests from before the capture may be outstanding until a completion timeout has passed.
local function shows_requests(requester, link, time)
    if time >= TIMEOUT then
        return has_requests[link] or false
    end
    return requester.has_requests and not requester.began_before
end

local function see_completion(key, number, time, h, blind, rcb)
    local slot = waiting[key]
    if not slot or not (slot.newest or slot.earlier) then
        return without_request(key, h, blind)
    end
    local place = answered_place(slot, h)
    local request = slot[place]
    local found = { kind = "partial", request = request, time = time }
    if not expects(request, h) and is_answered_again_by(request, h) then
        return { kind = "repeat", request = request, earlier = request.completions[#request.completions] }
    end
    found.violations = completions.violations(request, h, rcb)
    if is_ended_by(request, number, time, h) then
        found.kind = "complete"
        request.waits = false
        ended[key] = blind and { request = request, number = number, likeness = likeness(h) } or nil
        slot[place] = false
        if not slot.newest and not slot.earlier then
            tracked = tracked - 1
        end
    end
    return found
end

local function keep(number, part, found)
    parts[part] = parts[part] or {}
    parts[part][number] = found
end

-- Processes an accepted TLP, and stores the result by the frame's number and the TLP's index among the datagrams of
-- the frame, from
-- 1. `link` is the number of its link, and `time` its time in nanoseconds. `start` is the time when it was first
--   seen without arriving. `blind` is true if a loss of the TLP would not be noticed. `rcb` is the Read Completion
--   Boundary of a completion's sender in bytes. Posted requests have no result.
function matcher.see(number, part, time, start, link, h, blind, rcb)
    local class = h.format.class
    if class == "P" then
        return
    end
    local id = link * 0x10000 + h.requester
    local key = id * 1024 + h.tag
    requesters[id] = requesters[id] or { began_before = class == "Cpl", has_requests = false }
    if class == "Cpl" then
        local found = see_completion(key, number, time, h, blind, rcb)
        found.is_violation = found.kind == "unmatched" and shows_requests(requesters[id], link, time)
        keep(number, part, found)
    else
        requesters[id].has_requests = true
        has_requests[link] = true
        keep(number, part, see_request(key, of_request(number, start, h)))
    end
end

-- Stores the result of a TLP that was not accepted: "again", "out of order" or "lost". `how` is the reason of a loss.
function matcher.not_taken(number, part, kind, how)
    keep(number, part, { kind = kind, how = how })
end

-- Returns the result for a TLP; nil for posted requests. It has `kind` ("request", "repeat", "reuse", "partial",
-- "complete", "unmatched", or the result of a TLP that was not accepted), `request`, and the data of the kind. A
-- request has its frame (number), start, the frames of its completions, and whether it is still outstanding.
function matcher.found(number, part)
    return parts[part] and parts[part][number]
end

return matcher
