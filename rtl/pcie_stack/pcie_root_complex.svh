// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names that the modules of the root complex share: regions, completion states, bits of AER registers and events.
// verilator lint_off UNUSEDPARAM
    localparam logic [1:0] REGION_NONE = 2'd0;
    localparam logic [1:0] REGION_SLOW = 2'd1;    // registers and configuration space: one double-word at a time
    localparam logic [1:0] REGION_MEMORY = 2'd2;  // memory of devices

    localparam logic [1:0] OKAY = 2'b00;
    localparam logic [1:0] SLVERR = 2'b10;
    localparam logic [1:0] DECERR = 2'b11;

    // Completion Status (PCIe 6.0 Table 2-39), and two states that no TLP carries.
    localparam logic [2:0] STATUS_SC = 3'd0;
    localparam logic [2:0] STATUS_UR = 3'd1;
    localparam logic [2:0] STATUS_RRS = 3'd2;
    localparam logic [2:0] STATUS_CA = 3'd4;
    localparam logic [2:0] STATUS_TIMEOUT = 3'd6;
    localparam logic [2:0] STATUS_BAD = 3'd7;     // poisoned or malformed completion

    // Kinds of requests to send.
    localparam logic [2:0] SEND_MRD = 3'd0;
    localparam logic [2:0] SEND_MWR = 3'd1;
    localparam logic [2:0] SEND_CFGRD = 3'd2;
    localparam logic [2:0] SEND_CFGWR = 3'd3;
    localparam logic [2:0] SEND_MESSAGE = 3'd4;

    // AER: a set of detected errors, one bit each.
    localparam int ERRORS = 6;
    localparam int ERROR_POISONED = 0;
    localparam int ERROR_TIMEOUT = 1;
    localparam int ERROR_ABORT = 2;
    localparam int ERROR_UNEXPECTED = 3;
    localparam int ERROR_MALFORMED = 4;
    localparam int ERROR_UNSUPPORTED = 5;

    // Bits of `events`: one clock cycle each.
    localparam int EVENTS = 24;
    localparam int EVENT_UNEXPECTED = 0;      // completion that belongs to no request
    localparam int EVENT_TIMEOUT = 1;         // request without a completion
    localparam int EVENT_CPL_UR = 2;          // completion with UR
    localparam int EVENT_CPL_CA = 3;          // completion with CA
    localparam int EVENT_CPL_RRS = 4;         // completion with RRS
    localparam int EVENT_CPL_POISONED = 5;    // poisoned completion
    localparam int EVENT_CPL_BAD = 6;         // completion that does not fit its request
    localparam int EVENT_DECODE = 7;          // bus request outside every window
    localparam int EVENT_BURST = 8;           // bus request that is not supported: FIXED, WRAP, wrong WLAST
    localparam int EVENT_NO_FUNCTION = 9;     // configuration access that no link leads to
    localparam int EVENT_RETRY_LIMIT = 10;    // configuration request that got RRS too often
    localparam int EVENT_POSTED_UR = 11;      // write or message that is not supported
    localparam int EVENT_READ_UR = 12;        // non-posted request answered with UR
    localparam int EVENT_POSTED_POISONED = 13;// poisoned write, dropped
    localparam int EVENT_MALFORMED = 14;      // malformed request, dropped
    localparam int EVENT_WRITE_ERROR = 15;    // SLVERR or DECERR for a device's write
    localparam int EVENT_READ_ERROR = 16;     // SLVERR or DECERR for a device's read, answered with CA or UR
    localparam int EVENT_STALL = 17;          // the memory bus made no progress for the bus timeout
    localparam int EVENT_STALL_DROP = 18;     // write dropped because the memory bus stalls
    localparam int EVENT_STALL_ABORT = 19;    // read answered with CA because the memory bus stalls
    localparam int EVENT_MSI = 20;            // MSI taken
    localparam int EVENT_MSI_BAD = 21;        // write to the MSI address that is no MSI of this complex
    localparam int EVENT_MESSAGE = 22;        // error message taken
    localparam int EVENT_IGNORED = 23;        // message that has no effect here
    // Offsets within a beat of 2^size bytes.
    function automatic logic [6:0] beat_mask(input logic [2:0] size);
        for (int n = 0; n < 7; n++) beat_mask[n] = size > 3'(n);
    endfunction
// verilator lint_on UNUSEDPARAM
