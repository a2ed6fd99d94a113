// SPDX-License-Identifier: Apache-2.0 OR MIT
// Chooses the next frame and makes the stream to the physical layer. A frame that has begun is completed first.
// Handshake: a beat stays until phy_ready; *_taken tells each source that its item was taken. A DLLP is one beat: bytes
// 2 to 7.
//
// The specification recommends this order (PCIe 6.0 §3.6, priority of scheduled transmissions):
//   1. Nak: until it arrives, the other end sends TLPs that are discarded.
//   2. Ack that is due: the other end's replay buffer may be full. Acks are requested only when they are due.
//   3. InitFC, Data Link Feature, and UpdateFC that the transaction layer marks as urgent: required by §3.4.1, §3.3 and §2.6.1.
//   4. TLPs, replayed TLPs before new TLPs: they share the replay buffer's read side, which is in order.
//   5. UpdateFC that are not urgent.
//   6. Other DLLPs: power management and vendor.
// No level can block the lower levels for long: Naks and Acks need received TLPs, InitFC are paced by a timer, and an
// UpdateFC needs freed buffers.
module pcie_dll_arbiter #(
    parameter int DATA_WIDTH = 256,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    input logic clk,
    input logic rst,
    input logic enable,  // not DL_Inactive

    input logic nak_request,
    input logic ack_request,
    input logic [11:0] acknowledged_seq,
    output logic nak_taken,
    output logic ack_taken,

    input logic init_request,
    input logic [31:0] init_bytes,
    output logic init_taken,
    input logic feature_request,
    input logic [31:0] feature_bytes,
    output logic feature_taken,

    input logic update_request,
    input logic update_urgent,
    input logic [31:0] update_bytes,
    output logic update_taken,
    input logic other_request,
    input logic [31:0] other_bytes,
    output logic other_taken,

    input logic tlp_valid,
    input logic tlp_last,
    input logic tlp_nullified,
    input logic [LANE-1:0] tlp_end,
    input logic [DATA_WIDTH-1:0] tlp_data,
    output logic tlp_take,

    output logic phy_valid,
    output logic phy_sop,
    output logic phy_eop,
    output logic phy_dllp,
    output logic phy_nullify,
    output logic [LANE-1:0] phy_end,
    output logic [DATA_WIDTH-1:0] phy_data,
    input logic phy_ready
);
    `include "pcie_dll.svh"

    logic in_tlp, advance, free, above_tlps, sends_dllp;
    assign advance = enable && (!phy_valid || phy_ready);
    assign free = advance && !in_tlp;

    assign nak_taken = free && nak_request;
    assign ack_taken = free && ack_request && !nak_request;
    assign init_taken = free && init_request && !nak_request && !ack_request;
    assign feature_taken = free && feature_request && !nak_request && !ack_request && !init_request;
    logic first, urgent;
    assign first = nak_request || ack_request || init_request || feature_request;
    assign urgent = update_request && update_urgent;
    assign above_tlps = first || urgent;
    assign tlp_take = advance && tlp_valid && (in_tlp || !above_tlps);
    assign update_taken = free && update_request && !first && (update_urgent || !tlp_valid);
    assign other_taken = free && other_request && !above_tlps && !tlp_valid && !update_request;
    assign sends_dllp = free && (above_tlps || (!tlp_valid && (update_request || other_request)));

    // ---- the DLLP ----
    logic [31:0] bytes;
    logic [15:0] crc;
    assign bytes =
        nak_request || ack_request ? {acknowledged_seq[7:0], 4'd0, acknowledged_seq[11:8], 8'd0, nak_request ? DLLP_NAK : DLLP_ACK} :
        init_request ? init_bytes : feature_request ? feature_bytes : update_request ? update_bytes : other_bytes;
    pcie_dll_crc16 crc_16 (
        .bytes(bytes),
        .crc(crc)
    );

    always_ff @(posedge clk)
        if (rst || !enable) begin
            phy_valid <= 1'b0;
            in_tlp <= 1'b0;
        end else if (advance) begin
            phy_valid <= tlp_take || sends_dllp;
            if (tlp_take) in_tlp <= !tlp_last;
        end
    always_ff @(posedge clk)
        if (advance) begin
            phy_sop <= !in_tlp;
            phy_eop <= sends_dllp || tlp_last;
            phy_dllp <= sends_dllp;
            phy_nullify <= !sends_dllp && tlp_last && tlp_nullified;
            phy_end <= sends_dllp ? LANE'(1) : tlp_end;
            phy_data <= tlp_data;
            if (sends_dllp) phy_data[63:0] <= {crc, bytes, 16'd0};
        end

`ifdef PROVE_ARBITER
`include "arbiter_properties.svh"
`endif
endmodule
