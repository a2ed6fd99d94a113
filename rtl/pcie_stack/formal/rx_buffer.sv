// SPDX-License-Identifier: Apache-2.0 OR MIT
// The receive buffer of one type for proofs: pcie_tl_rx_stream with the credits of pcie_tl_rx_credits. The solver chooses lengths, times, which TLPs
// are rejected at their end, and when the user stalls. The other end sends only TLPs for which it has credits.
//
// Two TLPs are marked. The assertions: TLPs leave whole; the marked ones leave once and in order; no row is overwritten before its TLP is freed.
module rx_buffer #(
    parameter int HEADERS = 2,
    parameter int DATA = 1
) (
    input logic clk,
    input logic rst,
    input logic i_row,
    input logic i_last,
    input logic i_good,
    input logic i_ready,
    input logic i_mark,
    input logic i_data
);
    `include "pcie_tl.svh"
    localparam int ROWS = rows_for(HEADERS, DATA, 8);
    localparam int CAPACITY = 2 ** $clog2(ROWS);

    // ---- TLPs: the length in rows is at most that of the credits ----
    logic within_tlp, fits, fits_kept, has_data, marks, first, last, stored, valid;
    logic [2:0] place, longest;
    logic [1:0] mark, mark_kept, marks_used;
    logic credits;
    assign first = !within_tlp;
    assign credits = first ? i_data : has_data;
    assign longest = credits ? 3'd5 : 3'd3;  // rows_for(1, 1, 8) and rows_for(1, 0, 8)
    assign valid = i_row && (first ? fits : fits_kept);
    assign last = i_last || place + 3'd1 == longest;
    assign stored = valid && last && i_good;
    assign mark = first ? (i_mark && marks_used != 2'd2 ? marks_used + 2'd1 : 2'd0) : mark_kept;

    logic freed, out_valid, out_sop, out_eop, out_cut, started;
    logic [8:0] freed_credits;
    logic [63:0] out_data;
    pcie_tl_rx_stream #(
        .DATA_WIDTH(64),
        .NUM_VCS(1),
        .HEADERS(HEADERS),
        .DATA(DATA)
    ) stream (
        .clk(clk),
        .rst(rst),
        .clear(1'b0),
        .clear_vc(1'b0),
        .row_valid(valid),
        .row_first(first),
        .row_commit(stored),
        .row_vc(3'd0),
        .row_credits({8'd0, credits}),
        .row_relaxed(1'b0),
        .row_poisoned(1'b0),
        .row_end(1'b0),
        .row_data({59'd0, mark, place}),
        .waits(1'b0),
        .window(1'b0),
        .started(started),
        .freed(freed),
        .freed_credits(freed_credits),
        .out_valid(out_valid),
        .out_sop(out_sop),
        .out_eop(out_eop),
        .out_cut(out_cut),
        .out_poisoned(),
        .out_vc(),
        .out_end(),
        .out_data(out_data),
        .out_ready(i_ready)
    );
    pcie_tl_rx_credits #(
        .HEADERS(HEADERS),
        .DATA(DATA)
    ) rx_credits (
        .clk(clk),
        .rst(rst),
        .scaled(1'b0),
        .need({8'd0, credits}),
        .fits(fits),
        .stored(stored),
        .discarded(1'b0),
        .freed(freed),
        .freed_credits(freed_credits),
        .refresh(1'b0),
        .repeat_(1'b0),
        .due(),
        .refreshes(),
        .update_taken(1'b0),
        .init(),
        .value()
    );

    // ---- what must hold ----
    logic f_started, f_within, f_first_out, f_second_out;
    initial f_started = 1'b0;
    logic [1:0] f_mark;
    logic [2:0] f_place;
    logic [5:0] f_rows, f_out;  // rows in use by stored TLPs, and rows of the TLP that leaves
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            within_tlp <= 1'b0;
            place <= '0;
            marks_used <= '0;
            f_within <= 1'b0;
            f_place <= '0;
            f_first_out <= 1'b0;
            f_second_out <= 1'b0;
            f_rows <= '0;
            f_out <= '0;
        end else begin
            if (valid) begin
                within_tlp <= !last;
                place <= last ? '0 : place + 1'b1;
                has_data <= credits;
                mark_kept <= mark;
                fits_kept <= 1'b1;
                // The mark of a rejected TLP is used again.
                if (stored && mark != '0) marks_used <= mark;
                // Rows of TLPs that are stored, and of this one so far.
                assert (f_rows + 6'(place) + 6'd1 <= 6'(CAPACITY));
            end
            f_rows <= f_rows + (stored ? 6'(place) + 6'd1 : 6'd0) - (freed ? f_out + 6'd1 : 6'd0);
            if (out_valid && i_ready) begin
                assert (!out_cut && out_sop == !f_within);
                assert (out_data[2:0] == f_place);
                if (f_within) assert (out_data[4:3] == f_mark);
                f_mark <= out_data[4:3];
                f_within <= !out_eop;
                f_place <= out_eop ? '0 : f_place + 1'b1;
                f_out <= out_eop ? '0 : f_out + 1'b1;
                if (out_eop && out_data[4:3] == 2'd1) begin
                    assert (!f_first_out && !f_second_out);
                    f_first_out <= 1'b1;
                end
                if (out_eop && out_data[4:3] == 2'd2) begin
                    assert (f_first_out && !f_second_out);
                    f_second_out <= 1'b1;
                end
            end
        end
    end
endmodule
