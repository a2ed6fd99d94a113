// SPDX-License-Identifier: Apache-2.0 OR MIT
// Checks frames with TLPs and takes sequence number and LCRC off (PCIe 6.0 §3.6.3.1).
// Handshake: no ready in either direction: credits are the back-pressure. tlp_good is valid with tlp_eop. If it is low,
// the transaction layer drops the beats since tlp_sop. So only two beats of a TLP are delayed here.
//
// Rows are beats moved down by one double-word. `held` is the last beat; its lane 0 has already left.
module pcie_dll_tlp_receiver #(
    parameter int DATA_WIDTH = 256,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = LANES > 1 ? $clog2(LANES) : 1
) (
    input logic clk,
    input logic rst,
    input logic clear,   // DL_Inactive: NEXT_RCV_SEQ is 0
    input logic enable,  // TLPs are accepted

    input logic frame_valid,
    input logic frame_sop,
    input logic frame_eop,
    input logic frame_nullify,
    input logic frame_error,
    input logic [LANE-1:0] frame_end,
    input logic [DATA_WIDTH-1:0] frame_data,

    output logic tlp_valid,
    output logic tlp_sop,
    output logic tlp_eop,
    output logic tlp_good,
    output logic [LANE-1:0] tlp_end,
    output logic [DATA_WIDTH-1:0] tlp_data,

    output logic [11:0] next_rcv_seq,
    output logic accepted,
    output logic duplicate,
    output logic bad_lcrc,
    output logic receiver_error,
    output logic gap,
    output logic nullified
);
    `include "pcie_crc.svh"

    // ---- the beat, without what no TLP has ----
    logic [DATA_WIDTH-1:0] masked;
    always_comb begin
        for (int n = 0; n < LANES; n++) masked[32*n+:32] = frame_eop && LANE'(n) > frame_end ? 32'd0 : frame_data[32*n+:32];
        if (frame_sop) masked[15:0] = 16'd0;
    end

    logic next_valid, next_sop, next_eop, next_nullify, next_error, next_enough;
    logic [LANE-1:0] next_end;
    logic [DATA_WIDTH-1:0] next_data;
    logic [11:0] seq;
    logic [2:0] seen;  // double-words of earlier beats, 5 at most; a frame has 5 or more
    logic [5:0] total;
    assign total = (frame_sop ? 6'd0 : 6'(seen)) + (frame_eop ? 6'(frame_end) : 6'(LANES - 1)) + 6'd1;

    // A frame counts only if TLPs were accepted at its begin.
    logic taking, takes;
    assign takes = frame_sop ? enable : taking;
    always_ff @(posedge clk)
        if (rst || clear) begin
            next_valid <= 1'b0;
            taking <= 1'b0;
        end else begin
            next_valid <= frame_valid && takes;
            if (frame_valid) taking <= takes && !frame_eop;
        end
    always_ff @(posedge clk) begin
        next_sop <= frame_sop;
        next_eop <= frame_eop;
        next_nullify <= frame_nullify;
        next_error <= frame_error;
        next_end <= frame_end;
        next_data <= masked;
        next_enough <= total >= 6'd5;
        if (frame_valid) seen <= total >= 6'd5 ? 3'd5 : total[2:0];
        if (frame_valid && frame_sop) seq <= {frame_data[19:16], frame_data[31:24]};
    end

    logic [31:0] state;
    pcie_dll_lcrc #(
        .DATA_WIDTH(DATA_WIDTH)
    ) lcrc (
        .clk(clk),
        .valid(frame_valid),
        .first(frame_sop),
        .data(masked),
        .state(state)
    );

    // ---- the verdict, when the last beat is `next` ----
    // After a correct LCRC the register has a fixed value, changed by the zeros after the end. After an inverted LCRC it
    // has another fixed value.
    localparam logic [31:0] RIGHT = lcrc_shift(32'hffff_ffff, 32, 1'b0);
    logic [LANES-1:0] right, inverted;
    for (genvar n = 0; n < LANES; n++) begin : residues
        localparam logic [31:0] ZEROS_AFTER_RIGHT = lcrc_shift(RIGHT, 32 * (LANES - 1 - n), 1'b0);
        assign right[n] = next_end == LANE'(n) && state == ZEROS_AFTER_RIGHT;
        // An inverted LCRC leaves 0, and zeros leave it so.
        assign inverted[n] = next_end == LANE'(n) && state == 32'd0;
    end

    logic judged, sound;
    assign judged = next_valid && next_eop;
    assign receiver_error = judged && next_error;
    assign nullified = judged && !next_error && next_nullify && |inverted && next_enough;
    assign sound = judged && !next_error && !next_nullify && |right && next_enough;
    assign bad_lcrc = judged && !next_error && !nullified && !sound;
    pcie_dll_sequence sequence_check (
        .clk(clk),
        .rst(rst || clear),
        .sound(sound),
        .seq(seq),
        .accepted(accepted),
        .duplicate(duplicate),
        .gap(gap),
        .next_rcv_seq(next_rcv_seq)
    );

    // ---- the TLP ----
    logic held_valid, held_sop, held_eop, held_good, joins, remains, short_end;
    logic [LANE-1:0] held_end;
    logic [DATA_WIDTH-1:32] held_data;

    assign short_end = next_eop && (LANE + 1)'(next_end) < (LANE + 1)'(2);  // lane 1 at most: lane 0 is the last of the TLP, or the LCRC
    assign joins = held_valid && !held_eop && next_valid && !next_sop;
    assign remains = held_valid && held_eop && (LANE + 1)'(held_end) >= (LANE + 1)'(2);

    always_ff @(posedge clk)
        if (rst || clear) begin
            held_valid <= 1'b0;
            tlp_valid <= 1'b0;
        end else begin
            if (next_valid) held_valid <= 1'b1;
            else if (held_eop) held_valid <= 1'b0;
            tlp_valid <= joins || remains;
        end
    always_ff @(posedge clk) begin
        if (next_valid) begin
            held_sop <= next_sop;
            held_eop <= next_eop;
            held_end <= next_end;
            held_data <= next_data[DATA_WIDTH-1:32];
            held_good <= accepted;
        end
        tlp_sop <= held_sop;
        tlp_eop <= remains || short_end;
        tlp_good <= remains ? held_good : accepted;
        tlp_end <= remains ? held_end - LANE'(2) : next_end == '0 ? LANE'(LANES - 2) : LANE'(LANES - 1);
        tlp_data <= {next_data[31:0], held_data};
    end

`ifdef PROVE_TLP_RECEIVER
`include "tlp_receiver_properties.svh"
`endif
endmodule
