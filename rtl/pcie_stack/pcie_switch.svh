// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names that the modules of the switch share: streams, events of a port, and message codes.
// verilator lint_off UNUSEDPARAM
    localparam int STREAM_P = 0;
    localparam int STREAM_NP = 1;
    localparam int STREAM_CPL = 2;

    // Bits of a port's `events`: one clock cycle each.
    localparam int SWITCH_EVENTS = 6;
    localparam int EVENT_POSTED_UR = 0;    // a posted request that no port takes: dropped
    localparam int EVENT_REQUEST_UR = 1;   // a non-posted request that no port takes: answered by UR
    localparam int EVENT_UNEXPECTED = 2;   // a completion that no port takes: dropped
    localparam int EVENT_CONFIG = 3;       // a configuration request of a function of the switch
    localparam int EVENT_MESSAGE = 4;      // a message that ends here
    localparam int EVENT_MARKED = 5;       // a poisoned TLP

    // Routing of messages (PCIe 6.0 Table 2-20) and their codes.
    localparam logic [2:0] TO_ROOT = 3'd0;
    localparam logic [2:0] BY_ADDRESS = 3'd1;
    localparam logic [2:0] BY_ID = 3'd2;
    localparam logic [2:0] BROADCAST = 3'd3;
    localparam logic [2:0] LOCAL = 3'd4;
    localparam logic [2:0] GATHERED = 3'd5;
    localparam logic [7:0] PM_ACTIVE_STATE_NAK = 8'h14;
    localparam logic [7:0] PME_TURN_OFF = 8'h19;
    localparam logic [7:0] PME_TO_ACK = 8'h1b;
    localparam logic [7:0] ASSERT_INTA = 8'h20;
    localparam logic [7:0] DEASSERT_INTA = 8'h24;
    localparam logic [7:0] ERR_COR = 8'h30;
    localparam logic [7:0] ERR_NONFATAL = 8'h31;
    localparam logic [7:0] ERR_FATAL = 8'h33;
    localparam logic [7:0] SET_SLOT_POWER_LIMIT = 8'h50;
    localparam logic [7:0] VENDOR_TYPE_1 = 8'h7f;
// verilator lint_on UNUSEDPARAM
