-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- What a capture of riser says of a frame beside its bytes: damaged or dropped on the way (opt_comment), and the place of a TLP
-- in its direction (epb_packetid). Both are fields of Wireshark's dissector of frames, which it fills where it builds a tree:
-- in its own window, in one pass of tshark, and in two with a filter. Never reads a packet.

local marks = {}

-- A field by its name, or one that never is there.
local function field(name)
    local found, extractor = pcall(Field.new, name)
    return found and extractor or function() end
end

local frame_number, comment, packet_id = field("frame.number"), field("frame.comment"), field("frame.packet_id")

local LOST = { ["damaged on the way"] = true, ["dropped on the way"] = true }

-- MAC addresses that riser makes up; others' packet IDs are no places.
local RISER = "^02:00:00:"

-- Whether Wireshark keeps no fields of frames in this first pass; asked once in each.
local blind

-- Before a capture is read.
function marks.reset()
    blind = nil
end

-- Whether this is the first look at a frame, in a pass in which Wireshark keeps no fields, and so shows nothing either.
function marks.is_blind(pinfo)
    if pinfo.visited then
        return false
    end
    if blind == nil then
        blind = frame_number() == nil
    end
    return blind
end

local function lost_by(comments)
    for _, text in ipairs(comments) do
        if LOST[text.value] then
            return text.value
        end
    end
end

-- How the frame was lost, or nil; its place, from 0 on, or nil.
function marks.of(pinfo)
    local id, first = packet_id(), comment()
    local place = id and tostring(pinfo.dl_src):find(RISER) and tonumber(tostring(id.value)) or nil
    return first and lost_by({ comment() }), place
end

return marks
