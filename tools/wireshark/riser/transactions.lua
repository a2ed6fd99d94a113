-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Shows what a TLP is to the transactions under way: the frames that belong to it, response times, and what is odd
-- about it. Hands every TLP to matcher.lua once, when Wireshark reads the capture for the first time. Never reads a
-- packet.

local fields = require "riser.fields"
local matcher = require "riser.matcher"

local transactions = {}

-- Without `text`, the item's own.
local function expert(tree, key, ...)
    tree:add_proto_expert_info(fields.experts.tlp[key], ...)
end

local function generated(tree, field, ...)
    return tree:add(field, ...):set_generated()
end

-- Where it was seen: the two ends, whichever sent. riser gives each link two addresses. (Interface names are out of
-- reach: while Wireshark reads a capture for the first time, it keeps no fields of other dissectors.)
local function link(pinfo)
    local source, destination = tostring(pinfo.net_src), tostring(pinfo.net_dst)
    if destination < source then
        source, destination = destination, source
    end
    return source .. " " .. destination
end

-- Nanoseconds since the first frame: exact for a hundred days, which seconds since 1970 in the same number are not.
local function now(pinfo)
    return math.floor(pinfo.rel_ts * 1e9 + 0.5)
end

local function span_of_time(nanoseconds)
    return NSTime.new(math.floor(nanoseconds / 1e9), nanoseconds % 1000000000)
end

-- What has answered a request; complete only when the whole capture was seen once.
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

-- By what was found.
local add_found = {}

function add_found.request() end

function add_found.reuse(tree, found)
    generated(tree, fields.tlp.earlier_in, found.earlier.number)
    expert(tree, "tag_reuse", string.format("Tag in use by the request in frame %d", found.earlier.number))
end

-- A request again, or a completion.
add_found["repeat"] = function(tree, found)
    local earlier = found.earlier or found.request.number
    generated(tree, fields.tlp.earlier_in, earlier)
    expert(tree, "repeat", string.format("The TLP of frame %d again", earlier))
end

function add_found.unmatched(tree)
    expert(tree, "unexpected")
end

function add_found.partial(tree, found)
    generated(tree, fields.tlp.request_in, found.request.number)
    generated(tree, fields.tlp.since_request, span_of_time(found.time - found.request.start))
    if found.byte_count_mismatch then
        expert(tree, "byte_count", string.format("Byte Count is not the %d bytes that remain", found.remaining))
    end
end

function add_found.complete(tree, found)
    add_found.partial(tree, found)
    generated(tree, fields.tlp.response_time, span_of_time(found.time - found.request.start))
    generated(tree, fields.tlp.completions, #found.request.completions)
end

-- Sees a TLP whose header is sound, and shows what is known of its transaction below `tree`. A TLP that an ICMP message
-- quotes is none that was seen.
function transactions.show(tree, pinfo, h)
    if pinfo.in_error_pkt then
        return
    end
    if not pinfo.visited then
        matcher.see(pinfo.number, now(pinfo), link(pinfo), h)
    end
    local found = matcher.found(pinfo.number)
    if not found then
        return
    end
    add_found[found.kind](tree, found)
    if pinfo.visited and h.format.class == "NP" and found.kind ~= "repeat" then
        add_response(tree, found.request)
    end
end

return transactions
