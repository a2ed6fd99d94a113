-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Shows the transaction of a TLP: its frames, response times and errors. Passes every TLP to matcher.lua once, when
-- Wireshark reads the capture for the first time. Reads no packet.

local asked = require "riser.asked"
local completions = require "riser.completions"
local fields = require "riser.fields"
local header = require "riser.header"
local marks = require "riser.marks"
local matcher = require "riser.matcher"
local rules = require "riser.rules"
local sequence = require "riser.sequence"

local transactions = {}

-- Adds an expert item. Without a text argument, it has its default text.
local function expert(tree, key, ...)
    tree:add_proto_expert_info(fields.experts.tlp[key], ...)
end

local function generated(tree, field, ...)
    if asked.is_for_field(tree, field) then
        tree:add(field, ...):set_generated()
    end
end

-- Paths of frames by source and destination: the number of the link, of the direction, and of the opposite
-- direction. A link is a pair of addresses in either order, since riser gives each link two addresses. Names of
-- interfaces are not used, because Wireshark may not set the fields of other dissectors while it reads a capture
-- for the first time.
local ways, way_count

local function place_between(source, destination)
    local link = way_count / 2
    local there = { link = link, way = way_count, back = way_count + 1 }
    local back = { link = link, way = way_count + 1, back = way_count }
    way_count = way_count + 2
    ways[source], ways[destination] = ways[source] or {}, ways[destination] or {}
    ways[destination][source] = back
    ways[source][destination] = there
    return there
end

local function place_of(pinfo)
    local source, destination = tostring(pinfo.net_src), tostring(pinfo.net_dst)
    return ways[source] and ways[source][destination] or place_between(source, destination)
end

-- Returns nanoseconds since the first frame. A number holds them exactly for a hundred days, which seconds since
-- 1970 do not allow.
local function now(pinfo)
    return math.floor(pinfo.rel_ts * 1e9 + 0.5)
end

local function span_of_time(nanoseconds)
    return NSTime.new(math.floor(nanoseconds / 1e9), nanoseconds % 1000000000)
end

-- Adds the completions of a request. They are all known only after the whole capture was read once.
local function add_response(tree, request)
    if #request.completions > 1 then
        for _, number in ipairs(request.completions) do
            generated(tree, fields.tlp.completion_in, number)
        end
    end
    if request.waits then
        expert(tree, "unanswered")
    else
        generated(tree, fields.tlp.response_in, request.completions[#request.completions])
    end
end

-- Adds the time from the request to the completion, with nanoseconds as in `riser trace`.
local function add_time(tree, field, found)
    if asked.is_for_field(tree, field) then
        local nanoseconds = found.time - found.request.start
        local item = tree:add(field, span_of_time(nanoseconds)):set_generated()
        item:append_text(string.format(" (%d ns)", nanoseconds))
    end
end

-- Functions that show a result, by its kind.
local add_found = {}

function add_found.request() end

function add_found.reuse(tree, found, h)
    generated(tree, fields.tlp.earlier_in, found.earlier.number)
    expert(tree, "tag_reuse", string.format("Violation: %s; frame %d has it", rules.text("tag-in-use", h.tag),
        found.earlier.number))
end

-- A repeated request or completion.
add_found["repeat"] = function(tree, found)
    local earlier = found.earlier or found.request.number
    generated(tree, fields.tlp.earlier_in, earlier)
    expert(tree, "repeat", string.format("The TLP of frame %d again", earlier))
end

-- TLPs that did not arrive, that the receiver had already accepted, or that it discards.
function add_found.lost(tree, found)
    generated(tree, fields.tlp.lost, found.how)
    expert(tree, "lost", "The TLP was " .. found.how .. ": it did not arrive")
end

add_found["out of order"] = function(tree)
    expert(tree, "out_of_order")
end

function add_found.again(tree)
    expert(tree, "repeat", "The TLP of an earlier frame again: its receiver had taken it")
end

function add_found.unmatched(tree, found, h)
    if found.is_violation then
        local answered = string.format("%s tag 0x%02x", header.bdf(h.requester), h.tag)
        expert(tree, "unexpected", "Violation: " .. rules.text("unexpected-completion", answered))
    else
        expert(tree, "unexpected")
    end
end

function add_found.partial(tree, found)
    generated(tree, fields.tlp.request_in, found.request.number)
    add_time(tree, fields.tlp.since_request, found)
    for _, violation in ipairs(found.violations or {}) do
        generated(tree, fields.tlp.completion_rule, violation.rule)
        expert(tree, "completion", "Violation: " .. violation.text)
    end
end

function add_found.complete(tree, found)
    add_found.partial(tree, found)
    add_time(tree, fields.tlp.response_time, found)
    generated(tree, fields.tlp.completions, #found.request.completions)
end

-- Processes a TLP with a valid header for the first time. `part` is the index of its datagram in the frame. A TLP
-- inside an ICMP message does not count.
function transactions.see(pinfo, part, h)
    if pinfo.in_error_pkt then
        return
    end
    local blind, lost, place = marks.is_blind(pinfo), nil, nil
    if not blind then
        lost, place = marks.of(pinfo)
    end
    local has_marks = lost or place
    if h.format.class == "P" and not has_marks then
        return
    end
    local seen, time = place_of(pinfo), now(pinfo)
    local arrival, start = "taken", time
    if has_marks then
        arrival, start = sequence.tlp(seen.way, place, lost, time)
    end
    if arrival == "taken" then
        -- The port tells which side issued the request. The root complex completes requests of a device.
        local of_device = pinfo.dst_port < 0x4000
        local rcb = of_device and completions.RCB_OF_ROOT or completions.RCB
        matcher.see(pinfo.number, part, time, start, seen.link, h, blind, rcb)
    else
        matcher.not_taken(pinfo.number, part, arrival, lost)
    end
end

-- Returns the transaction of a TLP. This pass may know that the TLP was lost, even if the first pass did not.
local function look_up(pinfo, part)
    local found = matcher.found(pinfo.number, part)
    local lost = pinfo.visited and marks.of(pinfo)
    if lost and (found or {}).kind ~= "lost" then
        return { kind = "lost", how = lost }
    end
    return found
end

-- Returns true if a TLP is a completion that answers a request.
function transactions.is_answer(pinfo, part)
    local found = not pinfo.in_error_pkt and matcher.found(pinfo.number, part)
    return found and (found.kind == "partial" or found.kind == "complete")
end

-- Returns true if a DLLP is seen for the first time and was not lost.
local function is_new_dllp(pinfo)
    return not (pinfo.visited or pinfo.in_error_pkt or marks.is_blind(pinfo) or marks.of(pinfo))
end

-- Processes an Ack or Nak.
function transactions.acknowledge(pinfo, number)
    if is_new_dllp(pinfo) then
        sequence.acknowledged(place_of(pinfo).back, number)
    end
end

-- Processes an InitFC1 of VC0.
function transactions.link_came_up(pinfo)
    if is_new_dllp(pinfo) then
        local seen = place_of(pinfo)
        sequence.link_came_up(seen.way, seen.back)
    end
end

-- Shows the transaction of a TLP below `tree`. If the TLP was lost, returns how.
function transactions.show(tree, pinfo, part, h)
    local found = not pinfo.in_error_pkt and look_up(pinfo, part)
    if not found then
        return nil
    end
    add_found[found.kind](tree, found, h)
    if pinfo.visited and found.request and h.format.class == "NP" and found.kind ~= "repeat" then
        add_response(tree, found.request)
    end
    return found.how
end

-- Clears everything; runs before a capture is read.
function transactions.reset()
    ways, way_count = {}, 0
    marks.reset()
    matcher.reset()
    sequence.reset()
end

transactions.reset()

return transactions
