-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Finds the request that a completion answers, by link, requester and tag: the rules of riser's own matcher
-- (crates/capture/src/matcher), which crates/capture/tests/it/dissector.rs holds it against. Sees every TLP once, in
-- the order of the capture, and remembers by frame what it found. Never touches a packet.
--
-- Completions that never come are not forgotten: beyond MAX_OUTSTANDING requests that wait, the oldest is given up.
--
-- A tag may be used anew while its earlier request still waits for a last completion: captures from a mirroring switch
-- show that. So one earlier request a tag goes on waiting beside the newest.

local completions = require "riser.completions"

local matcher = {}

-- Most tags under which requests wait at a time.
matcher.MAX_OUTSTANDING = 65536

-- What waits by link, requester and tag (a table each, which stays when nothing waits), and under how many of them something does;
-- the requests in their order, `oldest` to `latest`; what was found, by place among the datagrams of a frame and by frame; the
-- latest that ended by link, requester and tag, where marks are out of reach; what is known of requesters, by link and ID; the links
-- with requests of any requester.
local waiting, tracked, order, oldest, latest, parts, ended, requesters, has_requests

-- Forgets all; before a capture is read.
function matcher.reset()
    waiting, tracked, order, oldest, latest, parts, ended, requesters, has_requests = {}, 0, {}, 1, 0, { {} }, {}, {}, {}
end

matcher.reset()

-- Bytes that a request names.
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

-- Address of the first byte, in two halves of 32 bits; of a configuration request, its register.
local function place_of(h)
    if h.format.family == "config" then
        return 0, h.register
    end
    return h.address_high, h.address_low + (h.format.family == "memory" and h.lead or 0)
end

-- Of what has none yet: tables are many, and made as large as they will be.
local NONE = {}

-- `remaining` is what completions shall bring: nothing for writes; for an AtomicOp, the value that was there.
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

-- Gives the oldest request up, with all else that waits under its tag.
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
    -- What was found is the request itself, but where its tag is in use.
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

-- Only data is counted down: an answer without data, or a failure, ends at once.
local function expects(request, h)
    return request.remaining == 0 or h.status ~= "SC" or h.byte_count == request.remaining
end

-- The completion before, once more: Byte Count falls from each to the next (§2.3.1.1).
local function is_answered_again_by(request, h)
    return request.latest_byte_count == h.byte_count and h.byte_count > request.remaining
end

-- Bytes that a completion answers: its data, less those before the first byte and those behind the last.
local function answered_bytes(h)
    return math.min(h.data_dw * 4 - h.lower_address % 4, h.byte_count)
end

-- Whether the completion ends it: one without data does, or with another status than success (§2.3.1.1, §2.3.2).
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

-- The earlier request first, unless the completion fits the newest alone.
local function answered_place(slot, h)
    if slot.newest and slot.earlier then
        local newest_alone = not expects(slot.earlier, h) and expects(slot.newest, h)
        return newest_alone and "newest" or "earlier"
    end
    return slot.newest and "newest" or "earlier"
end

-- What tells two completions of a tag apart.
local function likeness(h)
    return h.format.name .. h.status .. h.byte_count .. "/" .. h.lower_address .. "/" .. h.data_dw
end

-- A completion that nothing waits for. Where marks are out of reach, one that is like that which has ended the tag's latest
-- request counts as the same: a replay, of one that was damaged or not.
local function without_request(key, h, blind)
    local last = blind and ended[key]
    if last and last.likeness == likeness(h) then
        return { kind = "repeat", request = last.request, earlier = last.number }
    end
    return { kind = "unmatched" }
end

-- Default completion timeout (§2.8), in nanoseconds.
local TIMEOUT = 50000000

-- Whether the capture would show the request of a completion. If the first TLP of its requester was a completion, requests from
-- before the capture may wait for a completion timeout.
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

-- What a TLP that was taken means for the transactions under way; kept under the frame's number and its place among the datagrams
-- in the frame, from 1 on. `link` is the number of where it was seen, `time` is when, in nanoseconds, and `start` when it was seen
-- first, before, where it did not arrive then. `blind`: whether it could have been lost unnoticed. `rcb`: the Read Completion
-- Boundary of a completion's sender, in bytes. Posted requests give nothing.
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

-- Keeps what became of a TLP that was not taken: "again", "out of order" or "lost"; the last with how.
function matcher.not_taken(number, part, kind, how)
    keep(number, part, { kind = kind, how = how })
end

-- What was found for a TLP: kind ("request", "repeat", "reuse", "partial", "complete", "unmatched", or one of those not
-- taken), request and what belongs to the kind; nil for posted requests. A request says its frame (number), start,
-- completions (their frames) and whether it still waits.
function matcher.found(number, part)
    return parts[part] and parts[part][number]
end

return matcher
