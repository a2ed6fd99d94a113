// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes frames of TLPs: puts the sequence number before the TLP and the LCRC after it (PCIe 6.0 §3.6.2.1).
// Handshake: a beat of a TLP is taken with tlp_valid && tlp_ready. `room` is asked only at the first beat: the replay buffer then has
// room for MAX_ROWS rows, so that a TLP is never stopped in its middle. Rows come out two cycles later and cannot be refused.
//
// The sequence number takes one double-word (bytes 2 and 3; the physical layer puts its token into bytes 0 and 1), so each row is the
// beat moved up by one double-word. An LCRC that does not fit into the last row takes one more row, and tlp_ready is low for a cycle.
// A nullified TLP gets the LCRC inverted and keeps NEXT_TRANSMIT_SEQ. A TLP longer than MAX_ROWS rows is cut and nullified.
module pcie_dll_framer #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_ROWS = 18,
    parameter int CUT_THROUGH = 1,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = LANES > 1 ? $clog2(LANES) : 1
) (
    input logic clk,
    input logic rst,
    input logic enable,  // DL_Active; while it is low, NEXT_TRANSMIT_SEQ is 0 and what remains of a TLP is dropped

    input logic tlp_valid,
    input logic tlp_sop,
    input logic tlp_eop,
    input logic tlp_nullify,
    input logic [LANE-1:0] tlp_end,  // index of the last double-word, if tlp_eop
    input logic [DATA_WIDTH-1:0] tlp_data,
    output logic tlp_ready,

    input logic room,
    input logic may_number,  // another sequence number may be in use
    input logic rewound,     // the replay buffer has dropped a nullified TLP (CUT_THROUGH)
    output logic [11:0] next_transmit_seq,

    output logic row_valid,
    output logic row_last,
    output logic row_nullified,
    output logic [LANE-1:0] row_end,  // index of the LCRC, if row_last
    output logic [DATA_WIDTH-1:0] row_data,

    output logic event_nullified,
    output logic event_overlong
);
    `include "pcie_crc.svh"
    localparam int ROW = $clog2(MAX_ROWS + 1);

    // ---- beats to rows ----
    logic in_tlp, drop, tail, tail_full, nullify_kept, overlong, rewinding;
    logic [31:0] carry;
    logic [ROW-1:0] rows;  // rows of this TLP so far
    logic take, makes, fits, is_final, at_limit, nullifies;
    logic [LANE-1:0] dwords;  // of a final row, before the LCRC
    logic [DATA_WIDTH-1:0] beat, masked;

    assign tlp_ready = !tail && (drop || (in_tlp ? enable : enable && room && may_number && !rewinding));
    assign take = tlp_valid && tlp_ready;
    // A first beat after a TLP without end cannot happen by the handshake; a beat outside a TLP without tlp_sop is dropped.
    assign makes = enable && (tail || (take && !drop && (in_tlp || tlp_sop)));
    // With one double-word more in front, tlp_end + 2 are used; one must be left for the LCRC.
    assign fits = (LANE + 2)'(tlp_end) + (LANE + 2)'(2) < (LANE + 2)'(LANES);
    assign is_final = tail || (tlp_eop && fits);
    assign dwords = tail ? LANE'(tail_full) : tlp_end + LANE'(2);
    assign at_limit = rows >= ROW'(MAX_ROWS - 1);
    assign nullifies = overlong || (tail ? nullify_kept : tlp_nullify);

    assign beat = {tlp_data[DATA_WIDTH-33:0], tail || in_tlp ? carry : {next_transmit_seq[7:0], 4'd0, next_transmit_seq[11:8], 16'd0}};
    always_comb
        for (int n = 0; n < LANES; n++) masked[32*n+:32] = is_final && LANE'(n) >= dwords ? 32'd0 : beat[32*n+:32];

    assign event_nullified = makes && is_final && nullifies && !overlong;
    assign event_overlong = makes && is_final && overlong;

    always_ff @(posedge clk)
        if (rst) begin
            in_tlp <= 1'b0;
            drop <= 1'b0;
            tail <= 1'b0;
            rows <= '0;
            overlong <= 1'b0;
            rewinding <= 1'b0;
            next_transmit_seq <= '0;
        end else begin
            if (take) in_tlp <= !tlp_eop && (in_tlp || tlp_sop);
            tail <= enable && take && !drop && (in_tlp || tlp_sop) && tlp_eop && !fits;
            // The link went down within a TLP: the remaining beats of the TLP are taken and dropped.
            if (!enable && in_tlp && !drop) drop <= 1'b1;
            else if (take && tlp_eop) drop <= 1'b0;
            if (!enable) begin
                rows <= '0;
                overlong <= 1'b0;
                rewinding <= 1'b0;
                next_transmit_seq <= '0;
            end else begin
                if (makes) begin
                    rows <= is_final ? '0 : rows + ROW'(!at_limit);
                    overlong <= !is_final && (overlong || at_limit);
                    if (is_final && !nullifies) next_transmit_seq <= next_transmit_seq + 1'b1;
                end
                // The next TLP waits until the nullified TLP has left the replay buffer. The end of the nullified TLP
                // may be a row that has not arrived yet.
                if (CUT_THROUGH != 0 && makes && is_final && nullifies) rewinding <= 1'b1;
                else if (rewound) rewinding <= 1'b0;
            end
        end
    always_ff @(posedge clk)
        if (take) begin
            carry <= tlp_data[DATA_WIDTH-1-:32];
            tail_full <= tlp_end == LANE'(LANES - 1);
            nullify_kept <= tlp_nullify;
        end

    // ---- LCRC ----
    logic first_valid, first_sums, first_starts, first_last, first_nullified;
    logic [LANE-1:0] first_end;
    logic [DATA_WIDTH-1:0] first_data, second_data;
    logic second_valid, second_last, second_nullified;
    logic [LANE-1:0] second_end;
    logic [31:0] state;

    always_ff @(posedge clk)
        if (rst || !enable) begin
            first_valid <= 1'b0;
            second_valid <= 1'b0;
        end else begin
            first_valid <= makes && (is_final || !at_limit);
            second_valid <= first_valid;
        end
    always_ff @(posedge clk) begin
        first_starts <= rows == '0;
        first_sums <= !(is_final && dwords == '0);
        first_last <= is_final;
        first_nullified <= nullifies;
        first_end <= dwords;
        first_data <= masked;
        second_last <= first_last;
        second_nullified <= first_nullified;
        second_end <= first_end;
        second_data <= first_data;
    end

    pcie_dll_lcrc #(
        .DATA_WIDTH(DATA_WIDTH)
    ) lcrc (
        .clk(clk),
        .valid(first_valid && first_sums),
        .first(first_starts),
        .data(first_data),
        .state(state)
    );

    // `state` has gone through LANES - second_end double-words of zeros too many: they are taken back in steps of 1, 2, 4, ... double-words.
    function automatic logic [1024*LANE-1:0] make_backwards();
        logic [1023:0] power;
        power = lcrc_dword(1'b1);
        for (int s = 0; s < LANE; s++) begin
            make_backwards[1024*s+:1024] = lcrc_rows(power);
            power = lcrc_product(power, power);
        end
    endfunction
    localparam logic [1024*LANE-1:0] BACKWARDS = make_backwards();
    logic [LANE-1:0] back;
    logic [31:0] sum, earlier;
    assign back = LANE'(0) - second_end;
    always_comb begin
        sum = state;
        earlier = state;
        for (int s = 0; s < LANE; s++) begin
            earlier = sum;
            if (second_last && back[s]) for (int i = 0; i < 32; i++) sum[i] = ^(earlier & BACKWARDS[1024*s+32*i+:32]);
        end
    end

    logic [31:0] lcrc_field;
    assign lcrc_field = second_nullified ? sum : ~sum;
    assign row_valid = second_valid;
    assign row_last = second_last;
    assign row_nullified = second_nullified;
    assign row_end = second_end;
    always_comb
        for (int n = 0; n < LANES; n++)
            row_data[32*n+:32] = second_last && LANE'(n) == second_end ? lcrc_field : second_data[32*n+:32];

`ifdef PROVE_FRAMER
`include "framer_properties.svh"
`endif
endmodule
