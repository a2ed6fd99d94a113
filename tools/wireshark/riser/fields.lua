-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- The fields and expert items of the dissectors, with their filter names. `fields.make` creates them once. Never
-- touches a packet.

local header = require "riser.header"
local names = require "riser.names"

local fields = {}

-- Label and format of the bit fields of a TLP header; their positions are in header.layouts.
local HEADER = {
    fmt = { "Fmt", names.fmt },
    type = { "Type", base = base.HEX },
    t9 = { "T9 (tag bit 9)" },
    tc = { "Traffic Class" },
    t8 = { "T8 (tag bit 8)" },
    ido = { "Attr[2], ID-based Ordering", bool = true },
    ln = { "LN", bool = true },
    th = { "TH, processing hints present", bool = true },
    td = { "TD, digest present", bool = true },
    ep = { "EP, poisoned", bool = true },
    ro = { "Attr[1], Relaxed Ordering", bool = true },
    ns = { "Attr[0], No Snoop", bool = true },
    at = { "Address Type", names.at },
    length = { "Length field, DW (0 is 1024)" },
    tag_low = { "Tag[7:0]", base = base.HEX },
    st = { "Steering Tag ST[7:0]", base = base.HEX },
    last_be = { "Last DW Byte Enables", base = base.HEX },
    first_be = { "First DW Byte Enables", base = base.HEX },
    register_dw = { "Register, DW number" },
    message_code = { "Message Code", base = base.HEX },
    status_bits = { "Completion Status field", names.status },
    bcm = { "Byte Count Modified", bool = true },
    lower_address = { "Lower Address", base = base.HEX },
    byte_count = { "Byte Count", plain = true },
    requester = { "Requester ID", plain = true },
    completer = { "Completer ID", plain = true },
}

local function mask_of(high, low)
    return math.floor((2 ^ (high - low + 1) - 1) * 2 ^ low)
end

local function bit_field(abbr, shown, high, low)
    if shown.bool then
        return ProtoField.bool(abbr, shown[1], 32, nil, mask_of(high, low))
    end
    return ProtoField.uint32(abbr, shown[1], shown.base or base.DEC, shown[2], mask_of(high, low))
end

-- Returns the name of a bit field of header.layouts in fields.tlp. It contains the position, because a key may have
-- several.
function fields.name_of(place)
    place.name = place.name or place[1] .. ":" .. place[3]
    return place.name
end

local function header_fields(made)
    for _, layout in pairs(header.layouts) do
        for _, place in ipairs(layout) do
            local name, shown = fields.name_of(place), HEADER[place[1]]
            if not made[name] and not shown.plain then
                made[name] = bit_field("tlp." .. place[1], shown, place[3], place[4])
            end
        end
    end
end

-- Fields that are computed, or read from several positions.
local function tlp_fields()
    local made = {
        type_name = ProtoField.string("tlp.type_name", "Type of TLP"),
        requester = ProtoField.string("tlp.requester", "Requester ID"),
        requester_id = ProtoField.uint16("tlp.requester_id", "Requester ID, 16 bits", base.HEX),
        completer = ProtoField.string("tlp.completer", "Completer ID"),
        completer_id = ProtoField.uint16("tlp.completer_id", "Completer ID, 16 bits", base.HEX),
        tag = ProtoField.uint16("tlp.tag", "Tag", base.DEC_HEX),
        attr = ProtoField.uint8("tlp.attr", "Attributes (IDO, RO, NS)", base.HEX),
        length_dw = ProtoField.uint16("tlp.length_dw", "Length, DW"),
        address = ProtoField.uint64("tlp.address", "Address", base.HEX),
        ph = ProtoField.uint8("tlp.ph", "Processing Hint PH[1:0]", base.DEC, names.ph, 0x03),
        implied_last_be = ProtoField.uint8("tlp.last_be", "Last DW Byte Enables, implied", base.HEX),
        implied_first_be = ProtoField.uint8("tlp.first_be", "First DW Byte Enables, implied", base.HEX),
        request_bytes = ProtoField.uint16("tlp.request_bytes", "Bytes from the first to the last enabled one"),
        operand_bytes = ProtoField.uint16("tlp.operand_bytes", "Bytes of an operand"),
        register = ProtoField.uint16("tlp.register", "Register, byte offset", base.HEX),
        status = ProtoField.string("tlp.status", "Completion Status"),
        byte_count = ProtoField.uint16("tlp.byte_count", "Byte Count"),
        routing = ProtoField.uint8("tlp.routing", "Routing", base.DEC, names.routing, 0x07),
        message_name = ProtoField.string("tlp.message_name", "Message"),
        message_header = ProtoField.bytes("tlp.message_header", "Header bytes 8 to 15"),
        message_target = ProtoField.string("tlp.message_target", "Target ID"),
        vendor_id = ProtoField.uint16("tlp.vendor_id", "Vendor ID", base.HEX),
        vendor_subtype = ProtoField.uint8("tlp.vendor_subtype", "Subtype", base.HEX),
        data = ProtoField.bytes("tlp.data", "Data"),
        payload_bytes = ProtoField.uint16("tlp.payload_bytes", "Bytes of data by Length"),
        captured_bytes = ProtoField.uint16("tlp.captured_bytes", "Bytes of data captured"),
        ecrc = ProtoField.uint32("tlp.ecrc", "ECRC", base.HEX),
        ecrc_status = ProtoField.string("tlp.ecrc_status", "ECRC Status"),
        malformed_rule = ProtoField.string("tlp.malformed_rule", "Broken rule"),
        tolerated_rule = ProtoField.string("tlp.tolerated_rule", "Rule for senders, broken"),
        completion_rule = ProtoField.string("tlp.completion_rule", "Rule for completions, broken"),
        request_in = ProtoField.framenum("tlp.request_in", "Request in frame", base.NONE, frametype.REQUEST),
        response_in = ProtoField.framenum("tlp.response_in", "Response in frame", base.NONE, frametype.RESPONSE),
        completion_in = ProtoField.framenum("tlp.completion_in", "Completion in frame", base.NONE, frametype.RESPONSE),
        earlier_in = ProtoField.framenum("tlp.earlier_in", "Earlier TLP in frame"),
        completions = ProtoField.uint32("tlp.completions", "Completions"),
        lost = ProtoField.string("tlp.lost", "Lost"),
        since_request = ProtoField.relative_time("tlp.time_since_request", "Time since the request"),
        response_time = ProtoField.relative_time("tlp.response_time", "Response time"),
    }
    header_fields(made)
    return made
end

local function prefix_fields()
    return {
        prefix = ProtoField.uint32("tlp.prefix", "TLP prefix", base.HEX),
        prefix_type = ProtoField.uint8("tlp.prefix.type", "Type of prefix", base.HEX),
        prefix_name = ProtoField.string("tlp.prefix.name", "Prefix"),
        pasid_pmr = ProtoField.bool("tlp.prefix.pasid.privileged", "Privileged Mode Requested", 32, nil, 0x00200000),
        pasid_exe = ProtoField.bool("tlp.prefix.pasid.execute", "Execute Requested", 32, nil, 0x00100000),
        pasid = ProtoField.uint32("tlp.prefix.pasid", "PASID", base.HEX, nil, 0x000fffff),
        st_high = ProtoField.uint32("tlp.prefix.st_high", "Steering Tag ST[15:8]", base.HEX, nil, 0x00ff0000),
    }
end

local function dllp_fields()
    return {
        type = ProtoField.uint8("dllp.type", "DLLP Type", base.HEX),
        name = ProtoField.string("dllp.name", "Type of DLLP"),
        sequence = ProtoField.uint32("dllp.sequence", "AckNak_Seq_Num", base.DEC, nil, 0x00000fff),
        class = ProtoField.string("dllp.class", "Class of credits"),
        vc = ProtoField.uint32("dllp.vc", "Virtual channel", base.DEC, nil, 0x07000000),
        hdr_scale = ProtoField.uint32("dllp.hdr_scale", "HdrScale", base.DEC, names.scale, 0x00c00000),
        hdr_fc = ProtoField.uint32("dllp.hdr_fc", "HdrFC", base.DEC, nil, 0x003fc000),
        data_scale = ProtoField.uint32("dllp.data_scale", "DataScale", base.DEC, names.scale, 0x00003000),
        data_fc = ProtoField.uint32("dllp.data_fc", "DataFC", base.DEC, nil, 0x00000fff),
        header_credits = ProtoField.uint32("dllp.header_credits", "Header credits"),
        data_credits = ProtoField.uint32("dllp.data_credits", "Data credits, units of 16 B"),
        feature_ack = ProtoField.bool("dllp.feature_ack", "Feature Ack", 32, nil, 0x00800000),
        features = ProtoField.uint32("dllp.features", "Feature Support", base.HEX, nil, 0x007fffff),
        scaled_fc = ProtoField.bool("dllp.features.scaled_fc", "Local Scaled Flow Control Supported", 32, nil, 1),
        payload = ProtoField.bytes("dllp.payload", "Payload"),
        crc = ProtoField.uint16("dllp.crc", "CRC", base.HEX),
        crc_status = ProtoField.string("dllp.crc_status", "CRC Status"),
    }
end

local CONFIG_COMMANDS = { [0] = "read", [1] = "write" }

local function nettlp_fields()
    return {
        sequence = ProtoField.uint16("nettlp.sequence", "Sequence number"),
        timestamp = ProtoField.uint32("nettlp.timestamp", "Timestamp, ticks of 6.4 ns"),
        origin = ProtoField.string("nettlp.origin", "Issued by"),
        what = ProtoField.string("nettlp.what", "Carries"),
        message = ProtoField.uint32("nettlp.message", "Request", base.DEC,
            { [1] = "BAR4 address", [2] = "device ID", [3] = "MSI-X table" }),
        bar4 = ProtoField.uint64("nettlp.bar4", "BAR4 address", base.HEX),
        device = ProtoField.string("nettlp.device", "Device ID"),
        msix_address = ProtoField.uint64("nettlp.msix.address", "MSI-X address", base.HEX),
        msix_data = ProtoField.uint32("nettlp.msix.data", "MSI-X data", base.HEX),
        config_command = ProtoField.uint16("nettlp.config.command", "Command", base.DEC, CONFIG_COMMANDS, 0xc000),
        config_mask = ProtoField.uint16("nettlp.config.byte_mask", "Byte mask", base.HEX, nil, 0x3c00),
        config_dw = ProtoField.uint16("nettlp.config.register_dw", "Register, DW number", base.DEC, nil, 0x03ff),
        config_data = ProtoField.uint32("nettlp.config.data", "Data", base.HEX),
        bytes = ProtoField.bytes("nettlp.bytes", "Bytes"),
    }
end

local SESSION_KINDS = { [1] = "Hello", [2] = "HelloAck", [3] = "Confirm", [4] = "Ack", [5] = "Probe", [6] = "Reset",
    [7] = "Refused", [8] = "Bye" }
local SESSION_REASONS = { [1] = "other version", [2] = "no more sessions", [3] = "a key is required", [4] = "the peer has no key",
    [5] = "the keys differ", [6] = "invalid window or datagram length" }

local function session_fields()
    return {
        number = ProtoField.uint64("nettlp.session.number", "Number in its stream"),
        is_control = ProtoField.bool("nettlp.session.is_control", "Control record"),
        kind = ProtoField.uint8("nettlp.session.kind", "Kind", base.DEC, SESSION_KINDS),
        id = ProtoField.uint64("nettlp.session.id", "Session", base.HEX),
        nonce = ProtoField.uint64("nettlp.session.nonce", "Nonce of the client", base.HEX),
        version = ProtoField.uint16("nettlp.session.version", "Version"),
        features = ProtoField.uint16("nettlp.session.features", "Features (1: authenticated)", base.HEX),
        window = ProtoField.uint16("nettlp.session.window", "Window, TLPs"),
        longest = ProtoField.uint16("nettlp.session.longest", "Longest datagram, bytes"),
        noise_len = ProtoField.uint16("nettlp.session.noise_len", "Length of Noise, bytes"),
        noise = ProtoField.bytes("nettlp.session.noise", "Noise"),
        next = ProtoField.uint64("nettlp.session.next", "First missing number"),
        limit = ProtoField.uint64("nettlp.session.limit", "First number without credit"),
        bitmap = ProtoField.bytes("nettlp.session.bitmap", "Received after it"),
        reason = ProtoField.uint16("nettlp.session.reason", "Reason", base.DEC, SESSION_REASONS),
    }
end

-- Expert items: key, filter name, text, group, severity.
local TLP_EXPERTS = {
    { "malformed", "Malformed TLP", expert.group.MALFORMED, expert.severity.ERROR },
    { "unknown_type", "Unknown Fmt and Type", expert.group.MALFORMED, expert.severity.ERROR },
    { "truncated", "The TLP ends within its header", expert.group.MALFORMED, expert.severity.ERROR },
    { "length", "The datagram is not as long as the TLP", expert.group.MALFORMED, expert.severity.ERROR },
    { "tolerated", "A rule for senders is broken", expert.group.PROTOCOL, expert.severity.NOTE },
    { "not_captured", "Data was not captured", expert.group.UNDECODED, expert.severity.CHAT },
    { "poisoned", "Poisoned TLP", expert.group.RESPONSE_CODE, expert.severity.WARN },
    { "status", "Completion Status is not success", expert.group.RESPONSE_CODE, expert.severity.WARN },
    { "retry", "Configuration request retry", expert.group.RESPONSE_CODE, expert.severity.NOTE },
    { "ecrc", "Bad ECRC", expert.group.CHECKSUM, expert.severity.ERROR },
    { "no_digest", "TD is set, but no digest follows", expert.group.PROTOCOL, expert.severity.NOTE },
    { "unexpected", "Unexpected completion: no outstanding request matches it", expert.group.SEQUENCE, expert.severity.WARN },
    { "completion", "A rule for completions is broken", expert.group.SEQUENCE, expert.severity.WARN },
    { "tag_reuse", "Tag in use by an earlier request", expert.group.SEQUENCE, expert.severity.WARN },
    { "lost", "The TLP was lost on the link", expert.group.SEQUENCE, expert.severity.NOTE },
    { "out_of_order", "Out of order: an earlier TLP was lost, so the receiver discards this one", expert.group.SEQUENCE, expert.severity.NOTE },
    { "repeat", "The same TLP again", expert.group.SEQUENCE, expert.severity.NOTE },
    { "unanswered", "The last completion is not in this capture", expert.group.SEQUENCE, expert.severity.NOTE },
}

local DLLP_EXPERTS = {
    { "length", "A DLLP has six bytes", expert.group.MALFORMED, expert.severity.ERROR },
    { "crc", "Bad CRC", expert.group.CHECKSUM, expert.severity.ERROR },
    { "unknown_type", "Unknown DLLP Type", expert.group.MALFORMED, expert.severity.ERROR },
    { "nak", "Nak", expert.group.SEQUENCE, expert.severity.NOTE },
}

local NETTLP_EXPERTS = {
    { "truncated", "The NetTLP header needs six bytes", expert.group.MALFORMED, expert.severity.ERROR },
}

local function make_experts(protocol, rows)
    local made = {}
    for _, row in ipairs(rows) do
        made[row[1]] = ProtoExpert.new(protocol .. ".expert." .. row[1], row[2], row[3], row[4])
    end
    return made
end

local function list(made, more)
    local all = {}
    for _, one in pairs(made) do
        table.insert(all, one)
    end
    for _, one in pairs(more or {}) do
        table.insert(all, one)
    end
    return all
end

-- Creates all fields, assigns them to the protocols, and stores them as fields.tlp, fields.prefix, fields.dllp,
-- fields.nettlp, fields.session, and the tables of expert items as fields.experts.tlp and so on.
function fields.make(protocols)
    fields.tlp, fields.prefix = tlp_fields(), prefix_fields()
    fields.dllp, fields.nettlp, fields.session = dllp_fields(), nettlp_fields(), session_fields()
    protocols.tlp.fields = list(fields.tlp, fields.prefix)
    protocols.dllp.fields = list(fields.dllp)
    protocols.nettlp.fields = list(fields.nettlp, fields.session)
    fields.experts = {
        tlp = make_experts("tlp", TLP_EXPERTS),
        dllp = make_experts("dllp", DLLP_EXPERTS),
        nettlp = make_experts("nettlp", NETTLP_EXPERTS),
    }
    for name, protocol in pairs(protocols) do
        protocol.experts = list(fields.experts[name])
    end
end

return fields
