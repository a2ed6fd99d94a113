-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The specification's names of values: statuses, routings, address types, hints. Names of messages are in
-- tables.lua. Reads no packet.

local names = {}

-- Table 2-2.
names.fmt = {
    [0] = "3 DW header, no data",
    [1] = "4 DW header, no data",
    [2] = "3 DW header, with data",
    [3] = "4 DW header, with data",
    [4] = "TLP Prefix",
}

-- Completion Status (§2.2.9.1, Table 2-34). Reserved values count as Unsupported Request.
names.status = { [0] = "SC", [1] = "UR", [2] = "CRS", [4] = "CA" }
names.status_text = {
    SC = "success",
    UR = "unsupported request",
    CRS = "configuration retry",
    CA = "completer abort",
}

-- Address Type (§10.2.1).
names.at = { [0] = "Untranslated", [1] = "Translation Request", [2] = "Translated", [3] = "Reserved" }

-- Processing Hint (§2.2.7.1).
names.ph = {
    [0] = "Bi-directional data structure",
    [1] = "Requester",
    [2] = "Target",
    [3] = "Target with Priority",
}

-- Routing of messages (§2.2.8).
names.routing = {
    [0] = "to root complex",
    [1] = "by address",
    [2] = "by ID",
    [3] = "broadcast",
    [4] = "local",
    [5] = "gathered",
    [6] = "reserved 0x6",
    [7] = "reserved 0x7",
}

-- HdrScale and DataScale (Table 3-2): number of credits per unit of the field.
names.scale = { [0] = "not scaled", [1] = "x1", [2] = "x4", [3] = "x16" }

return names
