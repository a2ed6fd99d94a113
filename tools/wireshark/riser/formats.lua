-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The tables of TLP formats, TLP prefixes, messages and DLLP types (PCIe 5.0 Tables 2-3, 2-38, 2-39, F-1, 3-1):
-- literal rows. crates/capture/tests/it/dissector.rs reads those of TLPs and messages and holds them against riser's own.
-- Never touches a packet.

local formats = {}

-- fmt is Fmt[2:0], type is Type[4:0] where mask is set; class is P (posted), NP (non-posted) or Cpl (completion);
-- family is the layout of the header. One row a line, so that other programs read them easily.
formats.tlp = {
    { fmt = 0, type = 0x00, mask = 0x1f, name = "MRd", header_dw = 3, data = false, class = "NP", family = "memory" },
    { fmt = 1, type = 0x00, mask = 0x1f, name = "MRd", header_dw = 4, data = false, class = "NP", family = "memory" },
    { fmt = 2, type = 0x00, mask = 0x1f, name = "MWr", header_dw = 3, data = true, class = "P", family = "memory" },
    { fmt = 3, type = 0x00, mask = 0x1f, name = "MWr", header_dw = 4, data = true, class = "P", family = "memory" },
    { fmt = 0, type = 0x01, mask = 0x1f, name = "MRdLk", header_dw = 3, data = false, class = "NP", family = "memory" },
    { fmt = 1, type = 0x01, mask = 0x1f, name = "MRdLk", header_dw = 4, data = false, class = "NP", family = "memory" },
    { fmt = 2, type = 0x1b, mask = 0x1f, name = "DMWr", header_dw = 3, data = true, class = "NP", family = "memory" },
    { fmt = 3, type = 0x1b, mask = 0x1f, name = "DMWr", header_dw = 4, data = true, class = "NP", family = "memory" },
    { fmt = 0, type = 0x02, mask = 0x1f, name = "IORd", header_dw = 3, data = false, class = "NP", family = "io" },
    { fmt = 2, type = 0x02, mask = 0x1f, name = "IOWr", header_dw = 3, data = true, class = "NP", family = "io" },
    { fmt = 2, type = 0x0c, mask = 0x1f, name = "FetchAdd", header_dw = 3, data = true, class = "NP", family = "atomic" },
    { fmt = 3, type = 0x0c, mask = 0x1f, name = "FetchAdd", header_dw = 4, data = true, class = "NP", family = "atomic" },
    { fmt = 2, type = 0x0d, mask = 0x1f, name = "Swap", header_dw = 3, data = true, class = "NP", family = "atomic" },
    { fmt = 3, type = 0x0d, mask = 0x1f, name = "Swap", header_dw = 4, data = true, class = "NP", family = "atomic" },
    { fmt = 2, type = 0x0e, mask = 0x1f, name = "CAS", header_dw = 3, data = true, class = "NP", family = "atomic" },
    { fmt = 3, type = 0x0e, mask = 0x1f, name = "CAS", header_dw = 4, data = true, class = "NP", family = "atomic" },
    { fmt = 0, type = 0x04, mask = 0x1f, name = "CfgRd0", header_dw = 3, data = false, class = "NP", family = "config" },
    { fmt = 2, type = 0x04, mask = 0x1f, name = "CfgWr0", header_dw = 3, data = true, class = "NP", family = "config" },
    { fmt = 0, type = 0x05, mask = 0x1f, name = "CfgRd1", header_dw = 3, data = false, class = "NP", family = "config" },
    { fmt = 2, type = 0x05, mask = 0x1f, name = "CfgWr1", header_dw = 3, data = true, class = "NP", family = "config" },
    { fmt = 1, type = 0x10, mask = 0x18, name = "Msg", header_dw = 4, data = false, class = "P", family = "message" },
    { fmt = 3, type = 0x10, mask = 0x18, name = "MsgD", header_dw = 4, data = true, class = "P", family = "message" },
    { fmt = 0, type = 0x0a, mask = 0x1f, name = "Cpl", header_dw = 3, data = false, class = "Cpl", family = "completion" },
    { fmt = 2, type = 0x0a, mask = 0x1f, name = "CplD", header_dw = 3, data = true, class = "Cpl", family = "completion" },
    { fmt = 0, type = 0x0b, mask = 0x1f, name = "CplLk", header_dw = 3, data = false, class = "Cpl", family = "completion" },
    { fmt = 2, type = 0x0b, mask = 0x1f, name = "CplDLk", header_dw = 3, data = true, class = "Cpl", family = "completion" },
}

-- TLP prefixes by their first byte; Type[4] is set in end-to-end ones.
formats.prefixes = {
    [0x80] = "MR-IOV",
    [0x8e] = "VendPrefixL0",
    [0x8f] = "VendPrefixL1",
    [0x90] = "Extended TPH",
    [0x91] = "PASID",
    [0x9e] = "VendPrefixE0",
    [0x9f] = "VendPrefixE1",
}

-- Messages (Appendix F, Table F-1): name by Message Code; with one code, by the subtype of PCI-SIG's Vendor_Defined
-- messages (Vendor ID 0001h, header byte 12), or by data. Bit n of routings is set where routing n may be; data_dw is
-- the length of the data, "free" as a vendor says; tc0 names the rule that it has TC 0.
formats.messages = {
    { code = 0x00, name = "Unlock", routings = 0x08, data_dw = 0, tc0 = "UnlockTc" },
    { code = 0x01, name = "Invalidate_Request", routings = 0x04, data_dw = 2 },
    { code = 0x02, name = "Invalidate_Completion", routings = 0x04, data_dw = 0 },
    { code = 0x04, name = "Page_Request", routings = 0x01, data_dw = 0 },
    { code = 0x05, name = "PRG_Response", routings = 0x04, data_dw = 0 },
    { code = 0x10, name = "LTR", routings = 0x10, data_dw = 0, tc0 = "LtrTc" },
    { code = 0x12, name = "OBFF", routings = 0x10, data_dw = 0, tc0 = "ObffTc" },
    { code = 0x14, name = "PM_Active_State_Nak", routings = 0x10, data_dw = 0, tc0 = "PowerTc" },
    { code = 0x18, name = "PM_PME", routings = 0x01, data_dw = 0, tc0 = "PowerTc" },
    { code = 0x19, name = "PME_Turn_Off", routings = 0x08, data_dw = 0, tc0 = "PowerTc" },
    { code = 0x1b, name = "PME_TO_Ack", routings = 0x20, data_dw = 0, tc0 = "PowerTc" },
    { code = 0x20, name = "Assert_INTA", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x21, name = "Assert_INTB", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x22, name = "Assert_INTC", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x23, name = "Assert_INTD", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x24, name = "Deassert_INTA", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x25, name = "Deassert_INTB", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x26, name = "Deassert_INTC", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x27, name = "Deassert_INTD", routings = 0x10, data_dw = 0, tc0 = "InterruptTc" },
    { code = 0x30, name = "ERR_COR", routings = 0x01, data_dw = 0, tc0 = "ErrorTc" },
    { code = 0x31, name = "ERR_NONFATAL", routings = 0x01, data_dw = 0, tc0 = "ErrorTc" },
    { code = 0x33, name = "ERR_FATAL", routings = 0x01, data_dw = 0, tc0 = "ErrorTc" },
    { code = 0x40, name = "Attention_Indicator_Off", routings = 0x10, data_dw = 0 },
    { code = 0x41, name = "Attention_Indicator_On", routings = 0x10, data_dw = 0 },
    { code = 0x43, name = "Attention_Indicator_Blink", routings = 0x10, data_dw = 0 },
    { code = 0x44, name = "Power_Indicator_Off", routings = 0x10, data_dw = 0 },
    { code = 0x45, name = "Power_Indicator_On", routings = 0x10, data_dw = 0 },
    { code = 0x47, name = "Power_Indicator_Blink", routings = 0x10, data_dw = 0 },
    { code = 0x48, name = "Attention_Button_Pressed", routings = 0x10, data_dw = 0 },
    { code = 0x50, name = "Set_Slot_Power_Limit", routings = 0x10, data_dw = 1, tc0 = "SlotPowerTc" },
    { code = 0x52, name = "PTM_Request", routings = 0x10, data_dw = 0, tc0 = "PtmTc" },
    { code = 0x53, name = "PTM_Response", routings = 0x10, data_dw = 0, tc0 = "PtmTc" },
    { code = 0x53, name = "PTM_ResponseD", routings = 0x10, data_dw = 1, tc0 = "PtmTc" },
    { code = 0x7e, name = "Vendor_Defined_Type_0", routings = 0x1d, data_dw = "free" },
    { code = 0x7f, subtype = 0x00, name = "LN", routings = 0x0c, data_dw = 2, tc0 = "PciSigTc" },
    { code = 0x7f, subtype = 0x01, name = "Hierarchy_ID", routings = 0x08, data_dw = 4, tc0 = "PciSigTc" },
    { code = 0x7f, subtype = 0x08, name = "DRS", routings = 0x10, data_dw = 0, tc0 = "PciSigTc" },
    { code = 0x7f, subtype = 0x09, name = "FRS", routings = 0x01, data_dw = 0, tc0 = "PciSigTc" },
    { code = 0x7f, name = "Vendor_Defined_Type_1", routings = 0x1d, data_dw = "free" },
}

-- DLLP types where mask is set; layout names what the other three bytes hold. The three low bits of the types of flow
-- control are the virtual channel (in MR-IOV's, the virtual link).
formats.dllp = {
    { type = 0x00, mask = 0xff, name = "Ack", layout = "ack" },
    { type = 0x10, mask = 0xff, name = "Nak", layout = "ack" },
    { type = 0x01, mask = 0xff, name = "MRInit", layout = "opaque" },
    { type = 0x02, mask = 0xff, name = "Data_Link_Feature", layout = "feature" },
    { type = 0x20, mask = 0xff, name = "PM_Enter_L1", layout = "reserved" },
    { type = 0x21, mask = 0xff, name = "PM_Enter_L23", layout = "reserved" },
    { type = 0x23, mask = 0xff, name = "PM_Active_State_Request_L1", layout = "reserved" },
    { type = 0x24, mask = 0xff, name = "PM_Request_Ack", layout = "reserved" },
    { type = 0x30, mask = 0xff, name = "Vendor-specific", layout = "vendor" },
    { type = 0x31, mask = 0xff, name = "NOP", layout = "opaque" },
    { type = 0x40, mask = 0xf8, name = "InitFC1", class = "P", layout = "credits" },
    { type = 0x50, mask = 0xf8, name = "InitFC1", class = "NP", layout = "credits" },
    { type = 0x60, mask = 0xf8, name = "InitFC1", class = "Cpl", layout = "credits" },
    { type = 0xc0, mask = 0xf8, name = "InitFC2", class = "P", layout = "credits" },
    { type = 0xd0, mask = 0xf8, name = "InitFC2", class = "NP", layout = "credits" },
    { type = 0xe0, mask = 0xf8, name = "InitFC2", class = "Cpl", layout = "credits" },
    { type = 0x80, mask = 0xf8, name = "UpdateFC", class = "P", layout = "credits" },
    { type = 0x90, mask = 0xf8, name = "UpdateFC", class = "NP", layout = "credits" },
    { type = 0xa0, mask = 0xf8, name = "UpdateFC", class = "Cpl", layout = "credits" },
    { type = 0x70, mask = 0xf8, name = "MRInitFC1", layout = "opaque" },
    { type = 0xf0, mask = 0xf8, name = "MRInitFC2", layout = "opaque" },
    { type = 0xb0, mask = 0xf8, name = "MRUpdateFC", layout = "opaque" },
}

-- Clears the bits of `value` where `mask`, ones from some bit on upwards, is clear.
local function masked(value, mask, width)
    local unit = width - mask
    return value - value % unit
end

-- The row of every value of a byte that has one, so that a look-up is one step.
local function by_byte(rows, matches)
    local found = {}
    for byte = 0, 255 do
        for _, row in ipairs(rows) do
            if matches(row, byte) then
                found[byte] = row
            end
        end
    end
    return found
end

local tlp_rows = by_byte(formats.tlp, function(row, byte)
    local fmt, type_bits = math.floor(byte / 32), byte % 32
    return fmt == row.fmt and masked(type_bits, row.mask, 32) == row.type
end)

local dllp_rows = by_byte(formats.dllp, function(row, byte)
    return masked(byte, row.mask, 256) == row.type
end)

-- The format of a TLP whose header starts with this byte; nil where there is none.
function formats.tlp_of(first_byte)
    return tlp_rows[first_byte]
end

-- The row of a DLLP type; nil where there is none.
function formats.dllp_of(type_byte)
    return dllp_rows[type_byte]
end

-- The row of a message: by its code, the Vendor ID and subtype that a Vendor_Defined message has, and whether it has
-- data; nil where the base specification has none.
function formats.message_of(code, vendor, subtype, has_data)
    local found
    for _, row in ipairs(formats.messages) do
        local is_meant = row.code == code and (row.subtype == nil or vendor == 0x0001 and row.subtype == subtype)
        if is_meant and not found then
            found = row
        elseif found and has_data and row.code == code and row.subtype == found.subtype and found.data_dw == 0 then
            -- Only PTM Response and ResponseD differ by their data alone.
            return row
        end
    end
    return found
end

return formats
