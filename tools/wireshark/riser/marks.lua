-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Metadata about frames in riser's captures: whether a frame was damaged or dropped on the way (opt_comment), and
-- the index of a TLP in its direction (epb_packetid). Both are fields of Wireshark's frame dissector, which sets
-- them only when it builds a tree. This is the case in the GUI, in one pass of tshark, and in two passes with a filter.
-- Reads no packet.

local marks = {}

-- Returns the field with this name, or a field that is always absent.
local function field(name)
    local found, extractor = pcall(Field.new, name)
    return found and extractor or function() end
end

local frame_number, comment, packet_id = field("frame.number"), field("frame.comment"), field("frame.packet_id")

local LOST = { ["damaged on the way"] = true, ["dropped on the way"] = true }

-- MAC addresses in riser's captures. In captures of other programs, packet IDs are not indices.
local RISER = "^02:00:00:"

-- True if Wireshark does not set the fields of frames in this first pass. Checked once per pass.
local blind

-- Runs before a capture is read.
function marks.reset()
    blind = nil
end

-- Returns true if a frame is seen for the first time, in a pass in which Wireshark does not set these fields and
-- shows nothing.
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

-- Returns how the frame was lost (nil if it was not), and its index from 0 (nil if unknown).
function marks.of(pinfo)
    local id, first = packet_id(), comment()
    local place = id and tostring(pinfo.dl_src):find(RISER) and tonumber(tostring(id.value)) or nil
    return first and lost_by({ comment() }), place
end

return marks
