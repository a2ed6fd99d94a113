// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names that the TileLink bridges share: opcodes of channels A and D (TileLink 1.8.1, Tables 6 to 8), responses of AXI, and events.
// verilator lint_off UNUSEDPARAM
    localparam logic [2:0] PUT_FULL = 3'd0;
    localparam logic [2:0] PUT_PARTIAL = 3'd1;
    localparam logic [2:0] ARITHMETIC = 3'd2;
    localparam logic [2:0] LOGICAL = 3'd3;
    localparam logic [2:0] GET = 3'd4;
    localparam logic [2:0] INTENT = 3'd5;

    localparam logic [2:0] ACCESS_ACK = 3'd0;
    localparam logic [2:0] ACCESS_ACK_DATA = 3'd1;
    localparam logic [2:0] HINT_ACK = 3'd2;

    localparam logic [1:0] OKAY = 2'b00;
    localparam logic [1:0] SLVERR = 2'b10;
    localparam logic [1:0] DECERR = 2'b11;

    // Bits of `events`: one clock cycle each.
    localparam int EVENTS = 10;
    localparam int EVENT_MALFORMED = 0;     // request that the protocol forbids: alignment, mask, opcode, changed control; FIXED, WRAP, WLAST
    localparam int EVENT_TOO_LONG = 1;      // A message above MAX_BYTES
    localparam int EVENT_ATOMIC = 2;        // Arithmetic or Logical
    localparam int EVENT_CORRUPT = 3;       // Put with corrupt data
    localparam int EVENT_SOURCE = 4;        // A message whose source is in use
    localparam int EVENT_DECODE = 5;        // DECERR, or denied
    localparam int EVENT_ERROR = 6;         // SLVERR, or corrupt without denied
    localparam int EVENT_STALL = 7;         // the bus made no progress for TIMEOUT
    localparam int EVENT_GIVEN_UP = 8;      // request that was answered because of that
    localparam int EVENT_UNEXPECTED = 9;    // answer of the bus that belongs to no request, or has the wrong form
// verilator lint_on UNUSEDPARAM
