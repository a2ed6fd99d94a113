-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The dissector of NetTLP's encapsulation (NSDI'20, §4.1), and of messaging, adapter configuration and adapter
-- registers. Calls the dissectors of TLPs, DLLPs and sessions. Never raises an error, for any bytes.
--
--   NetTLP header: u16 sequence number, u32 timestamp, big endian; both 0 from software.

local asked = require "riser.asked"
local fields = require "riser.fields"
local session = require "riser.session"

local nettlp = {}

nettlp.HEADER_LEN = 6

-- Port of configuration in adapters up to v0.21. TLPs with host-issued tag 1 use it too.
local PORT_CONFIG_OLD = 0x4001
local PORT_HOST = 0x4000

-- Adds the tree of a datagram's NetTLP header with its fields. Returns nil if the header is missing.
local function add_header(protocol, tvb, root, one)
    local tree = root:add(protocol, tvb(one.at, math.min(one.captured, nettlp.HEADER_LEN)))
    if one.captured < nettlp.HEADER_LEN then
        tree:add_proto_expert_info(fields.experts.nettlp.truncated)
        return nil
    end
    tree:add(fields.nettlp.sequence, tvb(one.at, 2))
    tree:add(fields.nettlp.timestamp, tvb(one.at + 2, 4))
    return tree
end

local CUT_SHORT = "header cut short"

-- Shows the NetTLP header of a datagram (joined.lua) if it is needed. Returns its error, if there is one. `what` is
-- the name of the content after the header.
function nettlp.header(protocol, tvb, pinfo, root, one, what)
    if one.captured >= nettlp.HEADER_LEN and not asked.is_for("nettlp", root) then
        return nil
    end
    local tree = add_header(protocol, tvb, root, one)
    if not tree then
        return CUT_SHORT
    end
    tree:add(fields.nettlp.what, what):set_generated()
    if what == "TLP" then
        local by_host = pinfo.dst_port >= PORT_HOST and pinfo.dst_port < PORT_HOST + 16
        tree:add(fields.nettlp.origin, by_host and "host" or "device"):set_generated()
    end
end

-- Shows a datagram of a session. Returns its name if it has no TLP. `to_adapter` is true if it goes to the
-- adapter's port.
function nettlp.session(protocol, tvb, root, one, to_adapter)
    local tree = add_header(protocol, tvb, root, one)
    if not tree then
        return CUT_SHORT
    end
    local what, holds_tlp = session.show(tree, tvb, one, to_adapter)
    tree:add(fields.nettlp.what, what):set_generated()
    if not holds_tlp then
        tree:set_len(one.captured)
        return what
    end
end

-- Returns true for old configuration: six bytes without a NetTLP header, or an answer that is padded with zeros to
-- 18 bytes. No TLP is that short, and no TLP has a header of zeros.
function nettlp.is_old_configuration(tvb, to)
    if to ~= PORT_CONFIG_OLD then
        return false
    end
    local len = tvb:reported_len()
    if len ~= 6 and len ~= 18 then
        return false
    end
    for at = 6, tvb:len() - 1 do
        if tvb(at, 1):uint() ~= 0 then
            return false
        end
    end
    return true
end

local function begin(protocol, tvb, pinfo, root, what)
    pinfo.cols.protocol:set("NetTLP")
    pinfo.cols.info:set("NetTLP " .. what)
    local tree = root:add(protocol, tvb())
    tree:add(fields.nettlp.what, what):set_generated()
    return tree
end

-- A configuration datagram has 16 bits with command, byte mask and DW address, then 32 bits of data, big endian.
function nettlp.configuration(protocol, tvb, pinfo, root)
    local tree = begin(protocol, tvb, pinfo, root, "configuration")
    if tvb:len() < 6 then
        tree:add(fields.nettlp.bytes, tvb())
        return
    end
    for _, key in ipairs({ "config_command", "config_mask", "config_dw" }) do
        tree:add(fields.nettlp[key], tvb(0, 2))
    end
    tree:add(fields.nettlp.config_data, tvb(2, 4))
end

local function add_msix_table(tree, tvb)
    for at = 0, 180, 12 do
        tree:add_le(fields.nettlp.msix_address, tvb(at, 8))
        tree:add_le(fields.nettlp.msix_data, tvb(at + 8, 4))
    end
end

-- The length tells messages apart: requests have 4 bytes, and answers have 8, 2 or 192 bytes. They are little
-- endian, like the hosts.
local MESSAGES = {
    [4] = function(tree, tvb) tree:add_le(fields.nettlp.message, tvb(0, 4)) end,
    [8] = function(tree, tvb) tree:add_le(fields.nettlp.bar4, tvb(0, 8)) end,
    [2] = function(tree, tvb)
        local id = tvb(0, 2):le_uint()
        tree:add(fields.nettlp.device, tvb(0, 2), require("riser.header").bdf(id))
    end,
    [192] = add_msix_table,
}

-- Names of messages: of requests, which go to the messaging port, by number, and of answers by length.
local PORT_MESSAGING = 0x2fff
local QUESTIONS = { "where is BAR4?", "which device is it?", "what is in the MSI-X table?" }
local ANSWERS = { [8] = "where BAR4 is", [2] = "which device it is", [192] = "the MSI-X table" }

local function message_name(tvb, pinfo)
    local len, name = tvb:reported_len(), nil
    if pinfo.dst_port ~= PORT_MESSAGING then
        name = ANSWERS[len]
    elseif len == 4 and tvb:len() == 4 then
        name = QUESTIONS[tvb(0, 4):le_uint()]
    end
    return name and "messaging, " .. name or "messaging"
end

function nettlp.messaging(protocol, tvb, pinfo, root)
    local tree = begin(protocol, tvb, pinfo, root, message_name(tvb, pinfo))
    local show = MESSAGES[tvb:len()]
    if show then
        show(tree, tvb)
    else
        tree:add(fields.nettlp.bytes, tvb())
    end
end

function nettlp.registers(protocol, tvb, pinfo, root)
    local tree = begin(protocol, tvb, pinfo, root, "adapter registers")
    tree:add(fields.nettlp.bytes, tvb())
end

return nettlp
