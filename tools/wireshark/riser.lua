-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Wireshark dissectors for TLPs and DLLPs over UDP, in the formats of riser and NetTLP: `wireshark -X
-- lua_script:riser.lua`. This file registers them; the code is in riser/. README.md says how to install and use them.

-- The folder of this file, from which the modules are loaded. It may be a plugin folder.
local here = debug.getinfo(1, "S").source:match("^@(.*)[/\\]") or __DIR__ or "."
package.path = here .. "/?.lua;" .. package.path

local protocols = {
    nettlp = Proto("nettlp", "NetTLP"),
    tlp = Proto("tlp", "PCI Express Transaction Layer Packet"),
    dllp = Proto("dllp", "PCI Express Data Link Layer Packet"),
}

-- Most data stays until the end. So the garbage collector may wait until memory has grown to four times its size.
collectgarbage("setpause", 400)

-- The fields must exist before the modules that use them are loaded.
require("riser.fields").make(protocols)

local dllp = require "riser.dllp"
local header = require "riser.header"
local joined = require "riser.joined"
local marks = require "riser.marks"
local nettlp = require "riser.nettlp"
local tlp = require "riser.tlp"
local transactions = require "riser.transactions"

set_plugin_info({ version = "1.0", description = "PCI Express TLPs and DLLPs over UDP", author = "the riser project" })

-- UDP ports: 0x3000 + tag in the older and in today's scheme, and 0x4000 + (tag & 0xf) in today's.
local preferences = protocols.nettlp.prefs
preferences.tlp_ports = Pref.range("UDP ports of TLPs", "12288-13311,16384-16399",
    "0x3000 + tag for a device's transactions, 0x4000 + (tag & 0xf) for the host's", 65535)
preferences.dllp_ports = Pref.range("UDP ports of DLLPs", "12286", "0x2ffe: riser only, NetTLP has none", 65535)
preferences.session_ports = Pref.range("UDP ports of sessions", "12285", "0x2ffd at the adapter: riser only", 65535)
preferences.check_ecrc = Pref.bool("Check ECRC", true, "Compare the digest of a TLP with the one computed from its bytes")

-- The preference of the TLP dissector. Updated when the user changes it.
local settings = { check_ecrc = true }

local function set_columns(pinfo, protocol, line)
    local columns = pinfo.cols
    columns.protocol, columns.info = protocol, line
end

-- Dissects a single TLP or DLLP, for Decode As and for user link types (DLT_USER).
function protocols.tlp.dissector(tvb, pinfo, root)
    local h = header.read(tvb, 0, tvb:len(), tvb:reported_len())
    set_columns(pinfo, "TLP", tlp.dissect(protocols.tlp, tvb, pinfo, root, 1, h, settings))
    return tvb:len()
end

function protocols.dllp.dissector(tvb, pinfo, root)
    set_columns(pinfo, "DLLP", dllp.dissect(protocols.dllp, tvb, pinfo, root, tvb:reported_len()))
    return tvb:len()
end

-- The port ranges of the preferences as lists of first and last port. For speed, they are parsed once.
local ranges = {}

local function read_ranges()
    for _, name in ipairs({ "tlp_ports", "dllp_ports", "session_ports" }) do
        ranges[name] = {}
        for first, last in tostring(preferences[name]):gmatch("(%d+)%-?(%d*)") do
            local low = tonumber(first)
            table.insert(ranges[name], { low, tonumber(last) or low })
        end
    end
end

-- Returns true if the ranges of a preference contain `port`.
local function holds(name, port)
    for _, range in ipairs(ranges[name]) do
        if port >= range[1] and port <= range[2] then
            return true
        end
    end
    return false
end

-- NetTLP's other datagrams, by UDP port.
local SERVICES = { [0x2fff] = nettlp.messaging, [0x5001] = nettlp.configuration, [0x5002] = nettlp.registers }

-- Returns the service of a datagram. The client may use any port, so the source port counts if the destination port
-- has no service.
local function service_of(tvb, pinfo, to)
    if nettlp.is_old_configuration(tvb, to) then
        return nettlp.configuration
    end
    local answer = SERVICES[to] or SERVICES[pinfo.src_port]
    local is_other = answer and (holds("tlp_ports", to) or holds("dllp_ports", to) or holds("session_ports", to))
    return not is_other and answer or SERVICES[to]
end

-- Returns the kind of a datagram from its ports. The client of a session may use any port, so other ports have
-- priority.
local function kind_of(pinfo, to)
    if holds("tlp_ports", to) then
        return holds("dllp_ports", to) and "dllp" or holds("session_ports", to) and "session" or "tlp"
    elseif holds("dllp_ports", to) then
        return "dllp"
    end
    return (holds("session_ports", to) or holds("session_ports", pinfo.src_port)) and "session" or "tlp"
end

-- Shows a datagram of TLPs or of a session. Returns the text of the columns.
local function show(kind, tvb, pinfo, root, one)
    local other
    if kind == "session" then
        other = nettlp.session(protocols.nettlp, tvb, root, one, holds("session_ports", pinfo.dst_port))
    else
        other = nettlp.header(protocols.nettlp, tvb, pinfo, root, one, "TLP")
    end
    if other then
        return "NetTLP", "NetTLP " .. other
    end
    return "TLP", tlp.dissect(protocols.tlp, tvb, pinfo, root, one.part, one.h, settings)
end

-- Shows the datagrams of a frame after the first, and joins their lines.
local function show_rest(kind, tvb, pinfo, root, one, line)
    local lines = { line }
    while one do
        local _, more = show(kind, tvb, pinfo, root, one)
        table.insert(lines, more)
        one = joined.next(tvb, one)
    end
    return table.concat(lines, "; ")
end

-- Shows all datagrams of a frame.
local function show_all(kind, tvb, pinfo, root)
    local one = joined.first(tvb, kind)
    local protocol, line = show(kind, tvb, pinfo, root, one)
    one = joined.next(tvb, one)
    set_columns(pinfo, protocol, one and show_rest(kind, tvb, pinfo, root, one, line) or line)
end

-- Processes a frame in the first of two passes. This pass shows no fields, so only TLPs matter.
local function see_all(tvb, pinfo)
    local one = joined.first(tvb, "tlp")
    while one do
        if one.h then
            tlp.see(pinfo, one.part, one.h)
        end
        one = joined.next(tvb, one)
    end
end

local function show_dllp(tvb, pinfo, root)
    local one = { at = 0, captured = tvb:len() }
    local fault = nettlp.header(protocols.nettlp, tvb, pinfo, root, one, "DLLP")
    if fault then
        set_columns(pinfo, "NetTLP", "NetTLP " .. fault)
        return
    end
    -- A sub-buffer does not know how many bytes of the packet the capture has cut off.
    local wire_len = tvb:reported_len() - nettlp.HEADER_LEN
    local rest = tvb(nettlp.HEADER_LEN):tvb()
    set_columns(pinfo, "DLLP", dllp.dissect(protocols.dllp, rest, pinfo, root, wire_len))
end

function protocols.nettlp.dissector(tvb, pinfo, root)
    local to = pinfo.dst_port
    local service, kind = service_of(tvb, pinfo, to), kind_of(pinfo, to)
    local is_blind = kind ~= "session" and marks.is_blind(pinfo)
    if service then
        service(protocols.nettlp, tvb, pinfo, root)
    elseif is_blind and kind == "tlp" then
        see_all(tvb, pinfo)
    elseif kind == "dllp" then
        if not is_blind then
            show_dllp(tvb, pinfo, root)
        end
    else
        show_all(kind, tvb, pinfo, root)
    end
    return tvb:len()
end

local udp = DissectorTable.get("udp.port")
local registered = {}

-- Registers the ports in the preferences, and removes the previous ports.
local function register()
    read_ranges()
    settings.check_ecrc = preferences.check_ecrc
    for _, ports in ipairs(registered) do
        udp:remove(ports, protocols.nettlp)
    end
    registered = { preferences.tlp_ports, preferences.dllp_ports, preferences.session_ports }
    for _, ports in ipairs(registered) do
        if ports ~= "" then
            udp:add(ports, protocols.nettlp)
        end
    end
end

for port in pairs(SERVICES) do
    udp:add(port, protocols.nettlp)
end
register()

function protocols.nettlp.prefs_changed()
    register()
end

-- Runs before a capture is read for the first time or again.
function protocols.nettlp.init()
    transactions.reset()
end
