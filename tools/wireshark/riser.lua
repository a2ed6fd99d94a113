-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Wireshark dissectors of TLPs and DLLPs over UDP, as riser and NetTLP write them: `wireshark -X lua_script:riser.lua`.
-- This file registers them; what they do stands beside it in riser/. README.md says how to install and use them.

-- The folder of this file, wherever it is loaded from; by the plugin folder it is found too.
local here = debug.getinfo(1, "S").source:match("^@(.*)[/\\]") or __DIR__ or "."
package.path = here .. "/?.lua;" .. package.path

local protocols = {
    nettlp = Proto("nettlp", "NetTLP"),
    tlp = Proto("tlp", "PCI Express Transaction Layer Packet"),
    dllp = Proto("dllp", "PCI Express Data Link Layer Packet"),
}

-- Before the modules that use them: they are asked for by name.
require("riser.fields").make(protocols)

local dllp = require "riser.dllp"
local matcher = require "riser.matcher"
local nettlp = require "riser.nettlp"
local tlp = require "riser.tlp"

set_plugin_info({ version = "1.0", description = "PCI Express TLPs and DLLPs over UDP", author = "the riser project" })

-- UDP ports: 0x3000 + tag, both the older scheme's and today's; 0x4000 + (tag & 0xf).
local preferences = protocols.nettlp.prefs
preferences.tlp_ports = Pref.range("UDP ports of TLPs", "12288-13311,16384-16399",
    "0x3000 + tag for a device's transactions, 0x4000 + (tag & 0xf) for the host's", 65535)
preferences.dllp_ports = Pref.range("UDP ports of DLLPs", "12286", "0x2ffe: riser's own, NetTLP has none", 65535)
preferences.session_ports = Pref.range("UDP ports of sessions", "12285", "0x2ffd at the adapter: riser's own", 65535)
preferences.check_ecrc = Pref.bool("Check ECRC", true, "Compare the digest of a TLP with what its bytes make")
preferences.verbose_info = Pref.bool("All common fields in the Info column", false,
    "Also TC, attributes, AT, hints, TD and EP that are not at rest, as `riser trace --verbose`")

local dissect = {}

function dissect.tlp(tvb, pinfo, root, wire_len)
    tlp.dissect(protocols.tlp, tvb, pinfo, root, wire_len, preferences)
end

function dissect.dllp(tvb, pinfo, root, wire_len)
    dllp.dissect(protocols.dllp, tvb, pinfo, root, wire_len)
end

-- A TLP or DLLP by itself: for Decode As, and for link types of one's own (DLT_USER).
for kind, dissect_kind in pairs(dissect) do
    protocols[kind].dissector = function(tvb, pinfo, root)
        dissect_kind(tvb, pinfo, root, tvb:reported_len())
        return tvb:len()
    end
end

-- Whether a range such as "12286,12288-13311" holds `port`.
local function holds(range, port)
    for first, last in range:gmatch("(%d+)%-?(%d*)") do
        local low = tonumber(first)
        if port >= low and port <= (tonumber(last) or low) then
            return true
        end
    end
    return false
end

-- What NetTLP sends beside TLPs, by its UDP port.
local SERVICES = { [0x2fff] = nettlp.messaging, [0x5001] = nettlp.configuration, [0x5002] = nettlp.registers }

local function service_of(tvb, pinfo)
    return nettlp.is_old_configuration(tvb, pinfo) and nettlp.configuration or SERVICES[pinfo.dst_port]
end

-- What its ports say that a datagram carries. The client's port of a session is any; what other ports say goes first.
local function kind_of(pinfo)
    local to, sessions = pinfo.dst_port, preferences.session_ports
    if holds(preferences.dllp_ports, to) then
        return "dllp"
    end
    local is_session = holds(sessions, to) or not holds(preferences.tlp_ports, to) and holds(sessions, pinfo.src_port)
    return is_session and "session" or "tlp"
end

function protocols.nettlp.dissector(tvb, pinfo, root)
    local service = service_of(tvb, pinfo)
    if service then
        service(protocols.nettlp, tvb, pinfo, root)
        return tvb:len()
    end
    local kind, rest = kind_of(pinfo), nil
    if kind == "session" then
        local to_adapter = holds(preferences.session_ports, pinfo.dst_port)
        kind, rest = "tlp", nettlp.session(protocols.nettlp, tvb, pinfo, root, to_adapter)
    else
        rest = nettlp.header(protocols.nettlp, tvb, pinfo, root, kind:upper())
    end
    if rest then
        -- A part of a packet no longer knows what the capture has cut from it.
        dissect[kind](rest, pinfo, root, tvb:reported_len() - nettlp.HEADER_LEN)
    end
    return tvb:len()
end

local udp = DissectorTable.get("udp.port")
local registered = {}

-- Registers the ports of the preferences in place of those before.
local function register()
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

-- Before a capture is read, or read again.
function protocols.nettlp.init()
    matcher.reset()
end
