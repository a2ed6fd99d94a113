// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names that the modules of the data link layer share: DLLP types (PCIe 6.0 §3.5.1, Table 3-1), link states and events.
// verilator lint_off UNUSEDPARAM
    localparam logic [7:0] DLLP_ACK = 8'h00;
    localparam logic [7:0] DLLP_NAK = 8'h10;
    localparam logic [7:0] DLLP_FEATURE = 8'h02;
    // Flow-control DLLPs: kind in bits 7:6, type in bits 5:4, VC in bits 2:0.
    localparam logic [1:0] FC_INIT1 = 2'b01;
    localparam logic [1:0] FC_INIT2 = 2'b11;
    localparam logic [1:0] FC_UPDATE = 2'b10;

    localparam logic [1:0] DL_INACTIVE = 2'd0;
    localparam logic [1:0] DL_FEATURE = 2'd1;
    localparam logic [1:0] DL_INIT = 2'd2;
    localparam logic [1:0] DL_ACTIVE = 2'd3;

    // Bits of `events`: one clock cycle each.
    localparam int EVENTS = 16;
    localparam int EVENT_BAD_LCRC = 0;         // receiver: wrong LCRC, or EDB without an inverted LCRC, or a frame too short
    localparam int EVENT_SEQUENCE_GAP = 1;     // receiver: a sequence number ahead of NEXT_RCV_SEQ
    localparam int EVENT_DUPLICATE = 2;        // receiver: a TLP that was accepted before
    localparam int EVENT_NULLIFIED = 3;        // receiver: a nullified TLP
    localparam int EVENT_RECEIVER_ERROR = 4;   // receiver: a TLP frame that the physical layer marked as broken
    localparam int EVENT_BAD_DLLP = 5;         // receiver: a DLLP with a wrong CRC, or marked as broken
    localparam int EVENT_UNKNOWN_DLLP = 6;     // receiver: a DLLP of a reserved type or of a VC that does not exist
    localparam int EVENT_PROTOCOL_ERROR = 7;   // transmitter: an Ack or Nak of a TLP that was never sent
    localparam int EVENT_REPLAY_TIMEOUT = 8;   // transmitter: REPLAY_TIMER expired
    localparam int EVENT_REPLAY_ROLLOVER = 9;  // transmitter: REPLAY_NUM rolled over; the link retrains
    localparam int EVENT_NAK_RECEIVED = 10;    // transmitter: a valid Nak
    localparam int EVENT_REPLAY = 11;          // transmitter: a replay began
    localparam int EVENT_ACK_SENT = 12;        // receiver: an Ack left
    localparam int EVENT_NAK_SENT = 13;        // receiver: a Nak left
    localparam int EVENT_TX_NULLIFIED = 14;    // transmitter: the transaction layer nullified a TLP
    localparam int EVENT_TX_OVERLONG = 15;     // transmitter: a TLP longer than MAX_TLP_BYTES, nullified
// verilator lint_on UNUSEDPARAM
