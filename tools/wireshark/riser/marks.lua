-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Metadata of riser's captures about a frame: damaged or dropped on the way (opt_comment), and the index of a TLP in its
-- direction (epb_packetid). Both are fields of Wireshark's frame dissector, which fills them when it builds a tree: in the GUI,
-- in one pass of tshark, and in two with a filter. Never reads a packet.

local marks = {}

-- Returns a field by its name, or one that is always absent.
local function field(name)
    local found, extractor = pcall(Field.new, name)
    return found and extractor or function() end
end

local frame_number, comment, packet_id = field("frame.number"), field("frame.comment"), field("frame.packet_id")

local LOST = { ["damaged on the way"] = true, ["dropped on the way"] = true }

-- MAC addresses that riser generates; packet IDs of other writers are not indices.
local RISER = "^02:00:00:"

-- True if Wireshark keeps no fields of frames in this first pass; checked once per pass.
local blind

-- Runs before a capture is read.
function marks.reset()
    blind = nil
end

-- Returns true for the first look at a frame, in a pass in which Wireshark keeps no fields, and so shows nothing.
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

-- Returns how the frame was lost, or nil; and its index, from 0, or nil.
function marks.of(pinfo)
    local id, first = packet_id(), comment()
    local place = id and tostring(pinfo.dl_src):find(RISER) and tonumber(tostring(id.value)) or nil
    return first and lost_by({ comment() }), place
end

return marks
