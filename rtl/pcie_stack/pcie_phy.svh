// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names that the modules of the logical physical layer share: symbols, tokens, ordered sets, states and events.
// verilator lint_off UNUSEDPARAM
    // 8b/10b control symbols (PCIe 6.0 Table 4-1). A control bit marks them; the 10-bit code itself is not modelled.
    localparam logic [7:0] K_COM = 8'hbc;
    localparam logic [7:0] K_STP = 8'hfb;
    localparam logic [7:0] K_SDP = 8'h5c;
    localparam logic [7:0] K_END = 8'hfd;
    localparam logic [7:0] K_EDB = 8'hfe;
    localparam logic [7:0] K_PAD = 8'hf7;
    localparam logic [7:0] K_SKP = 8'h1c;

    // 128b/130b tokens (§4.2.2.3.1), first symbol in bits 7:0.
    localparam logic [15:0] TOKEN_SDP = 16'hacf0;
    localparam logic [31:0] TOKEN_EDB = 32'hc0c0_c0c0;
    localparam logic [31:0] TOKEN_EDS = 32'h0090_801f;

    // First symbols of 128b/130b ordered sets. SKP and SDS have other symbols at 32 GT/s.
    localparam logic [7:0] OS_SKP_END = 8'he1;
    localparam logic [7:0] OS_SDS = 8'he1;
    localparam logic [7:0] OS_TS1 = 8'h1e;
    localparam logic [7:0] OS_TS2 = 8'h2d;
    // Identifiers in symbols 6 to 15 of training sets, both encodings.
    localparam logic [7:0] TS1_IDENTIFIER = 8'h4a;
    localparam logic [7:0] TS2_IDENTIFIER = 8'h45;

    // Ordered sets as the transmitter sends them.
    localparam logic [1:0] SET_SKP = 2'd0;
    localparam logic [1:0] SET_SDS = 2'd1;
    localparam logic [1:0] SET_TS1 = 2'd2;
    localparam logic [1:0] SET_TS2 = 2'd3;

    localparam logic [2:0] PHY_DOWN = 3'd0;  // electrical idle
    localparam logic [2:0] PHY_TS1 = 3'd1;   // sends TS1 until the other end sends training sets
    localparam logic [2:0] PHY_TS2 = 3'd2;   // sends TS2 until the other end sends TS2
    localparam logic [2:0] PHY_SDS = 3'd3;   // begins the data stream
    localparam logic [2:0] PHY_L0 = 3'd4;

    // Bits of `events`: one clock cycle each.
    localparam int PHY_EVENTS = 16;
    localparam int EVENT_BAD_TOKEN = 0;        // receiver: no framing token where one must be, or EDB not after a TLP
    localparam int EVENT_BAD_STP = 1;          // receiver: wrong frame CRC, frame parity or length in an STP token
    localparam int EVENT_BAD_BLOCK = 2;        // receiver: a wrong or unexpected block type
    localparam int EVENT_BAD_SYMBOL = 3;       // receiver: a frame with symbols that the line marks as bad
    localparam int EVENT_BAD_FRAME = 4;        // receiver, 8b/10b: STP without END, END without STP, other control symbol
    localparam int EVENT_RX_OVERFLOW = 5;      // receiver: the queue was full; frames are lost
    localparam int EVENT_TX_UNDERRUN = 6;      // transmitter: the data link layer paused within a TLP
    localparam int EVENT_TX_LENGTH = 7;        // transmitter: a TLP whose header has another length
    localparam int EVENT_SKP_SENT = 8;
    localparam int EVENT_SKP_RECEIVED = 9;
    localparam int EVENT_RECOVERY = 10;        // the link left L0 for Recovery
    localparam int EVENT_LINK_DOWN = 11;
    localparam int EVENT_TRAIN_TIMEOUT = 12;   // no answer within TRAIN_CYCLES
    localparam int EVENT_TX_FRAME = 13;        // transmitter: a frame began
    localparam int EVENT_RX_FRAME = 14;        // receiver: a frame ended
    localparam int EVENT_RX_ERROR = 15;        // receiver: a frame ended with an error
// verilator lint_on UNUSEDPARAM
