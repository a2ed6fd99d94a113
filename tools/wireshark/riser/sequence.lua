-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The result of each TLP in the data link layer (PCIe 5.0 §3.6.3.1): accepted, seen before, out of order, or lost
-- on the way. Uses the same rules as crates/capture/src/sequence.rs. Uses the results of marks.lua. Reads no
-- packet.

local sequence = {}

-- Maximum number of early TLPs that are kept per direction.
local MAX_EARLY = 4096

-- The receiver of each direction. `next`: index of the TLP that it accepts next. `beyond`: the highest index seen
-- plus 1. `early`: first time of each TLP that was not accepted. `early_count`: number of them.
local receivers

-- Clears everything; runs before a capture is read.
function sequence.reset()
    receivers = {}
end

sequence.reset()

local function receiver_of(way)
    receivers[way] = receivers[way] or { beyond = 0, early = {}, early_count = 0 }
    return receivers[way]
end

local function forget_lowest(receiver)
    local lowest
    for place in pairs(receiver.early) do
        lowest = math.min(lowest or place, place)
    end
    receiver.early[lowest] = nil
    receiver.early_count = receiver.early_count - 1
end

local function note_early(receiver, place, time)
    if receiver.early[place] then
        return
    end
    if receiver.early_count >= MAX_EARLY then
        forget_lowest(receiver)
    end
    receiver.early[place], receiver.early_count = time, receiver.early_count + 1
end

-- Returns the time when an accepted TLP was first seen.
local function first_seen(receiver, place, time)
    local early = receiver.early[place]
    if early then
        receiver.early[place], receiver.early_count = nil, receiver.early_count - 1
    end
    return early or time
end

-- Processes the TLP with index `place` (nil if unknown) in a direction. Returns "taken" and the time when it was
-- first seen, or "again", "out of order" or "lost".
function sequence.tlp(way, place, lost, time)
    if not place then
        return lost and "lost" or "taken", time
    end
    local receiver = receiver_of(way)
    receiver.beyond = math.max(receiver.beyond, place + 1)
    receiver.next = receiver.next or place
    if place < receiver.next then
        return "again"
    end
    if lost or place > receiver.next then
        note_early(receiver, place, time)
        return lost and "lost" or "out of order"
    end
    receiver.next = place + 1
    return "taken", first_seen(receiver, place, time)
end

-- Processes an Ack or Nak for the TLPs of a direction. Acknowledged TLPs have arrived, even if they are not in the
-- capture.
function sequence.acknowledged(way, number)
    local receiver = receivers[way]
    if not receiver or receiver.beyond == 0 then
        return
    end
    local latest = receiver.beyond - 1
    local place = latest - (latest - number) % 4096
    if place >= 0 and receiver.next then
        receiver.next = math.max(receiver.next, place + 1)
    end
end

-- Processes the start of flow-control initialization of VC0. The link came up, and both directions number their
-- TLPs from 0.
function sequence.link_came_up(way, back)
    receivers[way], receivers[back] = nil, nil
end

return sequence
