-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Checks a completion against its request (PCIe 5.0 §2.2.9, §2.3.1.1), with the rules and the texts of `riser trace
-- --check` (crates/capture/src/check/completion.rs). crates/capture/tests/it/dissector.rs compares both. Reads no
-- packet.

local rules = require "riser.rules"

local completions = {}

-- Read Completion Boundary of a root complex, and of all other completers (§2.3.1.1). A root complex may have 128.
completions.RCB_OF_ROOT, completions.RCB = 64, 128

local COMPLETION, LOCKED = 0x0a, 0x0b

-- Returns the number of DWs of data in the successful completion of a request, except memory reads.
local function data_dw(h)
    if h.format.family == "atomic" then
        return h.operand_bytes / 4
    end
    return h.format.data and 0 or 1
end

-- Stores in `request` the fields that its completions must have, from its header `h`. For a memory read, Byte Count
-- and Lower Address follow from its bytes. They are the operand's size and 0 for an AtomicOp, and 4 and 0 for all
-- others.
function completions.ask(request, h)
    local is_read = h.format.family == "memory" and not h.format.data
    request.tc, request.attr, request.is_locked = h.tc, h.attr % 4, h.format.name == "MRdLk"
    request.is_read, request.is_atomic = is_read, h.format.family == "atomic"
    request.is_translation = h.at == 1
    request.may_retry = h.format.family == "config" or h.format.name == "DMWr"
    request.data_dw = is_read and 1 or data_dw(h)
    request.first = is_read and h.address_low + h.lead or 0
    request.rest = is_read and h.request_bytes or h.operand_bytes or 4
end

-- Checks the fields that a completion copies from its request.
local function judge_copies(request, h, report)
    if h.tc ~= request.tc then
        report("completion-tc", h.tc, request.tc)
    end
    if h.attr % 4 ~= request.attr then
        report("completion-attr", h.attr % 4, request.attr)
    end
    local is_locked = h.format.name == "CplLk" or h.format.name == "CplDLk"
    if is_locked ~= request.is_locked then
        report("completion-locked", is_locked and LOCKED or COMPLETION, request.is_locked and LOCKED or COMPLETION)
    end
end

-- Checks Byte Count and Lower Address of all completions except successful ones of memory reads. Lower Address is
-- reserved in completions of AtomicOps, and not checked in unsuccessful completions of memory reads.
local function judge_fixed(request, h, report)
    if h.byte_count ~= request.rest then
        report("byte-count", h.byte_count, request.rest)
    end
    if h.lower_address ~= 0 and not request.is_atomic and not request.is_read then
        report("lower-address", h.lower_address, 0)
    end
end

-- If an earlier completion is missing, Lower Address fits Byte Count, but not the next awaited byte.
local function skip_missing(request, h)
    local missing = request.rest - h.byte_count
    local fits = missing > 0 and (request.first + missing) % 128 == h.lower_address
    if fits and request.first % 128 ~= h.lower_address then
        request.first, request.rest = request.first + missing, h.byte_count
    end
end

local function judge_read(request, h, rcb, report)
    if h.bcm == 0 and h.byte_count ~= request.rest then
        report("byte-count", h.byte_count, request.rest)
        skip_missing(request, h)
    end
    if h.lower_address ~= request.first % 128 then
        report("lower-address", h.lower_address, request.first % 128)
    end
    local lead = request.first % 4
    if h.data_dw > math.ceil((lead + request.rest) / 4) then
        report("completion-length", h.data_dw)
    end
    local bytes = math.min(math.max(h.data_dw * 4 - lead, 0), request.rest)
    request.first, request.rest = request.first + bytes, request.rest - bytes
    if request.rest > 0 and request.first % rcb ~= 0 then
        report("completion-boundary", rules.address(request.high, request.first))
    end
end

local function judge(request, h, rcb, report)
    judge_copies(request, h, report)
    if h.status == "CRS" and not request.may_retry then
        report("completion-retry", 2)
    end
    if h.status ~= "SC" then
        if not request.is_read or h.bcm == 0 then
            judge_fixed(request, h, report)
        end
    elseif h.format.data ~= (request.data_dw > 0) then
        report("completion-type", h.format.data and 2 or 0, request.data_dw > 0 and 2 or 0)
    elseif request.is_read then
        judge_read(request, h, rcb, report)
    else
        judge_fixed(request, h, report)
        if h.format.data and h.data_dw ~= request.data_dw then
            report("completion-length", h.data_dw, request.data_dw)
        end
    end
end

-- Counts the data of a completion that answers `request`. Returns its violations, each with rule and text, or nil.
-- Completions of ATS translation requests are not checked.
function completions.violations(request, h, rcb)
    local found
    if request.is_translation then
        return nil
    end
    judge(request, h, rcb, function(rule, value, expected)
        found = found or {}
        table.insert(found, { rule = rule, text = rules.text(rule, value, expected) })
    end)
    return found
end

return completions
