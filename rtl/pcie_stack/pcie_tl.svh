// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names that the modules of the transaction layer share: types of flow control, events and constant functions.
// verilator lint_off UNUSEDPARAM
    localparam logic [1:0] TYPE_P = 2'd0;
    localparam logic [1:0] TYPE_NP = 2'd1;
    localparam logic [1:0] TYPE_CPL = 2'd2;

    // Values of `vc_arbitration`.
    localparam logic [1:0] FIXED_PRIORITY = 2'd0;
    localparam logic [1:0] ROUND_ROBIN = 2'd1;
    localparam logic [1:0] WEIGHTED = 2'd2;

    // Bits of `events`: one clock cycle each. Bits 6:0 are also the syndrome of a malformed TLP.
    localparam int TL_EVENTS = 15;
    localparam int EVENT_FORMAT = 0;          // malformed: undefined Fmt and Type; a TLP prefix
    localparam int EVENT_LENGTH = 1;          // malformed: double-words against Fmt, Length and TD
    localparam int EVENT_PAYLOAD = 2;         // malformed: payload above Max_Payload_Size
    localparam int EVENT_BYTE_ENABLES = 3;    // malformed: First or Last DW Byte Enables
    localparam int EVENT_TRAFFIC_CLASS = 4;   // malformed: a TC of no enabled VC, or not TC0 where TC0 is required
    localparam int EVENT_BOUNDARY = 5;        // malformed: a memory request across 4 KiB
    localparam int EVENT_OPERAND = 6;         // malformed: Length that this type does not allow
    localparam int EVENT_OVERFLOW = 7;        // received: Receiver Overflow
    localparam int EVENT_POISONED = 8;        // received: a poisoned TLP, passed on
    localparam int EVENT_UPDATE = 9;          // flow control: an illegal UpdateFC
    localparam int EVENT_INIT = 10;           // flow control: an illegal InitFC
    localparam int EVENT_REFUSED = 11;        // to send: a TLP that no port may send, dropped
    localparam int EVENT_UPDATE_SENT = 12;    // flow control: an UpdateFC left
    localparam int EVENT_SENT = 13;           // a TLP left
    localparam int EVENT_RECEIVED = 14;       // a TLP was accepted
    localparam int MALFORMED = 7;             // events of malformed TLPs

    // Scale of an advertised limit (PCIe 6.0 §3.4.2), for at most `most` per factor.
    function automatic logic [1:0] scale_of(input int limit, input int most);
        scale_of = limit <= most ? 2'd1 : limit <= 4 * most ? 2'd2 : 2'd3;
    endfunction

    function automatic int shift_of(input logic [1:0] scale);
        shift_of = scale == 2'd3 ? 4 : scale == 2'd2 ? 2 : 0;
    endfunction

    // Beats for `headers` TLPs (header and ECRC: 20 bytes) with `data` units of 16 bytes, however these are distributed.
    // A TLP takes whole beats of `bytes`.
    function automatic int rows_for(input int headers, input int data, input int bytes);
        rows_for = bytes == 8 ? 3 * headers + 2 * data : bytes == 16 ? 2 * headers + data :
                   bytes == 32 ? headers + (headers + data + 1) / 2 : headers + (headers + data + 3) / 4;
    endfunction
// verilator lint_on UNUSEDPARAM
