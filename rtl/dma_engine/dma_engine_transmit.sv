// SPDX-License-Identifier: Apache-2.0 OR MIT
// Converts requests to the RQ stream (PG156, PG213: Requester Request): a read, a write of at most 12 bytes that the
// request contains, or a write of data from user logic. A request begins in the beat after the last beat of the
// previous request; a descriptor and the first payload share a beat. Rows of user logic are rotated so that their bytes
// are where the address requires (double-word aligned).
// Handshake: `taken` accepts `request`, in the cycle that makes its last beat. A beat stays until the block is ready.
// While the block is not ready, a beat is made only if there is room for it. Rows of the loop-back are read a cycle
// before they are rotated. This module never splits a request: each request fits Max_Payload_Size, and does not cross 4
// KiB.
module dma_engine_transmit #(
    parameter int DATA_WIDTH = 256,
    parameter int NUMBER = 4,
    parameter int PAIR = 1,      // bits of a loop-back number
    parameter int LOOP_ROW = 8,  // bits of a row number in a loop-back
    localparam int LANES = DATA_WIDTH / 32,
    localparam int BYTE = $clog2(DATA_WIDTH / 8)
) (
    input logic clk,
    input logic rst,

    input logic request,
    input logic [1:0] kind,     // READ, GIVEN or ROWS
    input logic [1:0] logic_kind,
    input logic [63:0] address,
    input logic [12:0] bytes,
    input logic [7:0] target,   // the block's number of the function
    input logic [7:0] tag,
    input logic [PAIR-1:0] pair,
    input logic [95:0] given,   // the payload of GIVEN, or the position in the stream of ROWS, in bytes
    output logic taken,

    output logic loop_read,
    output logic [PAIR+LOOP_ROW-1:0] loop_row,
    input logic [DATA_WIDTH-1:0] loop_data,

    input logic may_send,
    input logic [NUMBER-1:0] number,

    output logic [DATA_WIDTH-1:0] rq_tdata,
    output logic [LANES-1:0] rq_tkeep,
    output logic rq_tlast,
    output logic rq_tvalid,
    input logic rq_tready,
    output logic [3:0] rq_first_be,
    output logic [3:0] rq_last_be,
    output logic [NUMBER-1:0] rq_number
);
    `include "dma_engine_registers.svh"
    localparam logic [1:0] READ = 2'd0;
    localparam logic [1:0] ROWS = 2'd2;
    localparam int ROW = 67 - BYTE;  // bits of a row number of a stream
    localparam int COUNT = 14 - BYTE + 1;
    localparam int HALF = DATA_WIDTH / 2;
    localparam int HALF_BYTES = HALF / 8;

    // ---- fields derived from the request ----
    logic [1:0] offset;
    logic [BYTE-1:0] into, turn;  // position of the stream in its row, and rotation of rows
    logic has_rows, needs_two;    // the first beat needs two rows
    logic [10:0] dwords;
    logic [COUNT-1:0] last_beat, last_row;
    logic [3:0] first_be, last_be, tail_be;
    logic [127:0] descriptor;
    logic [1:0] ends;
    logic [$clog2(LANES)-1:0] end_lane;

    assign offset = address[1:0];
    assign has_rows = kind == ROWS;
    assign into = given[BYTE-1:0];
    assign turn = has_rows ? BYTE'(16) + BYTE'(offset) - into : '0;
    assign needs_two = has_rows && into > BYTE'(16) + BYTE'(offset);
    assign dwords = 11'((bytes + 13'(offset) + 13'd3) >> 2);
    assign last_beat = kind == READ ? '0 : COUNT'((14'(bytes) + 14'(offset) + 14'd15) >> BYTE);
    assign last_row = COUNT'((14'(bytes) + 14'(into) - 14'd1) >> BYTE);
    // Bytes of the last double-word; 0 means four.
    assign ends = bytes[1:0] + offset;
    assign tail_be = ends == 2'd0 ? 4'hf : ~(4'hf << ends);
    assign first_be = (4'hf << offset) & (dwords == 11'd1 ? tail_be : 4'hf);
    assign last_be = dwords == 11'd1 ? 4'h0 : tail_be;
    assign end_lane = $clog2(LANES)'(kind == READ ? 11'd4 : dwords + 11'd4);
    assign descriptor = {
        8'd0, 16'd0, tag,                                 // the block's own requester ID; no class, no attributes
        8'd0, target, 1'b0, kind == READ ? 4'd0 : 4'd1, dwords,
        address[63:2], 2'b00
    };

    // ---- first stage: selects row and beat ----
    logic advance;
    logic begun;  // the request's rows or beats have begun
    logic [COUNT-1:0] beat, row;
    logic [ROW-1:0] row_number;
    logic starts, loads, emits, is_last;

    assign starts = request && (begun || may_send);
    assign loads = starts && has_rows && row <= last_row;
    assign emits = starts && !(needs_two && row == '0);
    assign is_last = beat == last_beat;
    assign row_number = given[66:BYTE] + ROW'(row);
    assign taken = advance && emits && is_last;
    assign loop_read = advance;
    assign loop_row = {pair, row_number[LOOP_ROW-1:0]};

    always_ff @(posedge clk)
        if (rst) begin
            begun <= 1'b0;
            beat <= '0;
            row <= '0;
        end else if (advance && starts) begin
            begun <= !taken;
            beat <= taken ? '0 : beat + COUNT'(emits);
            row <= taken ? '0 : row + COUNT'(loads);
        end

    // ---- second stage: rotates the row ----
    logic second_loads, second_emits, second_last;
    logic second_integers, second_loop;
    logic [ROW-1:0] second_row;    // zero unless the row consists of integers
    logic [BYTE-2:0] second_turn;
    logic [127:0] second_descriptor;
    logic [95:0] second_given;
    logic [7:0] second_be;
    logic [NUMBER-1:0] second_number;
    logic [LANES-1:0] second_keep;
    logic [DATA_WIDTH-1:0] data, merged;
    logic [DATA_WIDTH-1:0] to_half, earlier_to_half;  // rotated except for half a row
    // Source of each byte of the beat, for dma_engine_choice: one bit per part of the beat, and one bit per byte.
    logic [HALF_BYTES/16-1:0] low_select;  // one bit per 16 bytes of the lower half
    logic high_select;
    logic [2*HALF_BYTES-1:0] selects;
    logic [HALF_BYTES-1:0] wraps;

    always_ff @(posedge clk)
        if (rst) begin
            second_loads <= 1'b0;
            second_emits <= 1'b0;
        end else if (advance) begin
            second_loads <= loads;
            second_emits <= emits;
        end
    assign wraps = ~({HALF_BYTES{1'b1}} << turn[BYTE-2:0]);
    always_ff @(posedge clk)
        if (advance) begin
            second_last <= is_last;
            second_integers <= logic_kind == LOGIC_KIND_INTEGERS;
            second_loop <= logic_kind == LOGIC_KIND_LOOP_BACK;
            second_row <= logic_kind == LOGIC_KIND_INTEGERS ? row_number : '0;
            second_turn <= turn[BYTE-2:0];
            // Bytes that wrap belong to the next beat.
            low_select <= {HALF_BYTES / 16{turn[BYTE-1]}};
            high_select <= turn[BYTE-1];
            for (int b = 0; b < HALF_BYTES; b++) begin
                selects[b] <= !turn[BYTE-1] && wraps[b];
                selects[HALF_BYTES+b] <= turn[BYTE-1] && wraps[b];
            end
            // The first beat contains the descriptor, and the data that the request contains.
            if (beat == '0) begin
                low_select[0] <= 1'b1;
                selects[15:0] <= '1;
                if (!has_rows) begin
                    if (HALF_BYTES == 16) high_select <= 1'b0;
                    else low_select[HALF_BYTES/16-1] <= 1'b1;
                    selects[27:16] <= '1;
                end
            end
            second_descriptor <= descriptor;
            second_given <= given;
            second_be <= {last_be, first_be};
            second_number <= number;
            // Double-words of the last beat; zero means all.
            second_keep <= !is_last || end_lane == '0 ? '1 : ~({LANES{1'b1}} << end_lane);
        end

    always_comb
        for (int w = 0; w < DATA_WIDTH / 64; w++)
            data[64*w+:64] = {second_row, second_integers ? (64 - ROW)'(w) : (64 - ROW)'(0)} | (second_loop ? loop_data[64*w+:64] : '0);

    dma_engine_rotate #(
        .LANES(DATA_WIDTH / 8),
        .WIDTH(8),
        .STAGES(BYTE - 1)
    ) rotate (
        .in(data),
        .amount(second_turn),
        .out(to_half)
    );
    // All rows of a request have the same rotation. The half-row rotation, the selection of the row, and the data without a
    // row are one choice of four per bit: one LUT. With a half-row rotation, all bytes of the lower half wrap. Without it, no
    // byte of the upper half wraps.
    logic [2*HALF-1:0] brought;
    assign brought = (2 * HALF)'({second_given, second_descriptor});
    dma_engine_choice #(.HALF_BYTES(HALF_BYTES)) choice (
        .low_select, .high_select, .selects, .row(to_half), .earlier(earlier_to_half), .brought, .out(merged)
    );

    // ---- third stage: the beat ----
    assign advance = !rq_tvalid || rq_tready;

    always_ff @(posedge clk) begin
        if (advance && second_loads) earlier_to_half <= to_half;
        if (rst) rq_tvalid <= 1'b0;
        else if (advance) rq_tvalid <= second_emits;
        if (advance && second_emits) begin
            rq_tdata <= merged;
            rq_tkeep <= second_keep;
            rq_tlast <= second_last;
            {rq_last_be, rq_first_be} <= second_be;
            rq_number <= second_number;
        end
    end

`ifdef FORMAL
`include "transmit_properties.svh"
`endif
endmodule
