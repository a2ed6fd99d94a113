-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Finds the request that a completion answers, by link, requester and tag, with the rules of riser's own matcher
-- (crates/capture/src/matcher); crates/capture/tests/it/dissector.rs compares both. Sees every TLP once, in capture order, and
-- stores its results by frame. Never touches a packet.
--
-- Requests without completions are kept; above MAX_OUTSTANDING waiting requests, the oldest is given up.
--
-- A tag may be reused while its earlier request still waits for a last completion, as captures from a mirroring switch show. So one
-- earlier request per tag keeps waiting in addition to the newest.

local completions = require "riser.completions"

local matcher = {}

-- Maximum number of tags with waiting requests.
matcher.MAX_OUTSTANDING = 65536

-- Waiting requests by link, requester and tag (one table each, which stays when none waits), and the number of tags with one; the
-- requests in order, `oldest` to `latest`; the results, by index among the datagrams of a frame and by frame; the last ended request
-- by link, requester and tag, if marks are unavailable; what is known of requesters, by link and ID; the links with requests of any
-- requester.
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

-- Returns the address of the first byte in two halves of 32 bits; for a configuration request, its register.
local function place_of(h)
    if h.format.family == "config" then
        return 0, h.register
    end
    return h.address_high, h.address_low + (h.format.family == "memory" and h.lead or 0)
end

-- Shared empty list: many tables are made, with their final size.
local NONE = {}

-- `remaining` is the number of bytes that completions must bring: 0 for writes, the size of the old value for an AtomicOp.
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

-- Gives up the oldest request, and all others that wait under its tag.
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

-- Only data is counted down: a completion without data, or with an error, ends the request at once.
local function expects(request, h)
    return request.remaining == 0 or h.status ~= "SC" or h.byte_count == request.remaining
end

-- Returns true for a repeated completion: Byte Count decreases from each completion to the next (§2.3.1.1).
local function is_answered_again_by(request, h)
    return request.latest_byte_count == h.byte_count and h.byte_count > request.remaining
end

-- Returns how many bytes a completion answers: its data, without those before the first byte and after the last.
local function answered_bytes(h)
    return math.min(h.data_dw * 4 - h.lower_address % 4, h.byte_count)
end

-- Returns true if the completion ends the request: one without data does, or one with another status than success (§2.3.1.1,
-- §2.3.2).
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

-- Returns the fields that distinguish two completions of a tag.
local function likeness(h)
    return h.format.name .. h.status .. h.byte_count .. "/" .. h.lower_address .. "/" .. h.data_dw
end

-- Handles a completion without a waiting request. If marks are unavailable, a completion like the one that ended the tag's last
-- request counts as the same: a replay, of a damaged one or not.
local function without_request(key, h, blind)
    local last = blind and ended[key]
    if last and last.likeness == likeness(h) then
        return { kind = "repeat", request = last.request, earlier = last.number }
    end
    return { kind = "unmatched" }
end

-- Default completion timeout (§2.8), in nanoseconds.
local TIMEOUT = 50000000

-- Returns true if the capture would contain the request of a completion. If the first TLP of its requester was a completion,
-- requests from before the capture may wait until a completion timeout has passed.
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

-- Processes an accepted TLP; stores the result under the frame's number and its index among the datagrams of the frame, from 1.
-- `link` is the number of its link, `time` its time in nanoseconds, and `start` when it was first seen, if it did not arrive then.
-- `blind`: it could have been lost unnoticed. `rcb`: the Read Completion Boundary of a completion's sender, in bytes. Posted
-- requests have no result.
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

-- Stores the fate of a TLP that was not accepted: "again", "out of order" or "lost"; the last with the reason.
function matcher.not_taken(number, part, kind, how)
    keep(number, part, { kind = kind, how = how })
end

-- Returns the result for a TLP: kind ("request", "repeat", "reuse", "partial", "complete", "unmatched", or one of those not
-- accepted), request, and the data of the kind; nil for posted requests. A request has its frame (number), start, completions (their
-- frames) and whether it still waits.
function matcher.found(number, part)
    return parts[part] and parts[part][number]
end

return matcher
