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
    localparam logic [1:0] BROUGHT = 2'd3;  // no user logic: data that the request contains
    localparam int ROW = 67 - BYTE;  // bits of a row number of a stream
    localparam int COUNT = 14 - BYTE + 1;

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
    logic [ROW-1:0] next_row, row_number;
    logic starts, loads, emits, is_last;

    assign starts = request && (begun || may_send);
    assign loads = starts && has_rows && row <= last_row;
    assign emits = starts && !(needs_two && row == '0);
    assign is_last = beat == last_beat;
    assign row_number = row == '0 ? given[66:BYTE] : next_row;
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
            next_row <= row_number + 1'b1;
        end

    // ---- second stage: rotates the row ----
    logic second_loads, second_emits, second_first, second_last;
    logic [1:0] second_logic;
    logic [ROW-1:0] second_row;
    logic [BYTE-1:0] second_turn;
    logic [127:0] second_descriptor;
    logic [95:0] second_given;
    logic [7:0] second_be;
    logic [NUMBER-1:0] second_number;
    logic [LANES-1:0] second_keep;
    logic [DATA_WIDTH-1:0] data, turned, earlier, merged;
    logic [DATA_WIDTH-1:0] to_half, earlier_to_half;  // rotated except for half a row

    always_ff @(posedge clk)
        if (rst) begin
            second_loads <= 1'b0;
            second_emits <= 1'b0;
        end else if (advance) begin
            second_loads <= loads;
            second_emits <= emits;
        end
    always_ff @(posedge clk)
        if (advance) begin
            second_first <= beat == '0;
            second_last <= is_last;
            second_logic <= has_rows ? logic_kind : BROUGHT;
            second_row <= row_number;
            second_turn <= turn;
            second_descriptor <= descriptor;
            second_given <= given;
            second_be <= {last_be, first_be};
            second_number <= number;
            // Double-words of the last beat; zero means all.
            second_keep <= !is_last || end_lane == '0 ? '1 : ~({LANES{1'b1}} << end_lane);
        end

    always_comb
        for (int w = 0; w < DATA_WIDTH / 64; w++)
            data[64*w+:64] =
                second_logic == LOGIC_KIND_INTEGERS ? {second_row[ROW-1:0], (64 - ROW)'(w)} :
                second_logic == LOGIC_KIND_LOOP_BACK ? loop_data[64*w+:64] :
                second_logic == BROUGHT && w == 2 ? second_given[63:0] : second_logic == BROUGHT && w == 3 ? {32'd0, second_given[95:64]} : '0;

    dma_engine_rotate #(
        .LANES(DATA_WIDTH / 8),
        .WIDTH(8),
        .STAGES(BYTE - 1)
    ) rotate (
        .in(data),
        .amount(second_turn[BYTE-2:0]),
        .out(to_half)
    );
    // All rows of a request have the same rotation. The half-row rotation and the row selection share one LUT.
    localparam int HALF = DATA_WIDTH / 2;
    assign turned = second_turn[BYTE-1] ? {to_half[HALF-1:0], to_half[DATA_WIDTH-1:HALF]} : to_half;
    assign earlier = second_turn[BYTE-1] ? {earlier_to_half[HALF-1:0], earlier_to_half[DATA_WIDTH-1:HALF]} : earlier_to_half;
    // Bytes that wrap belong to the next beat.
    logic [DATA_WIDTH/8-1:0] wrapped;
    assign wrapped = ~({DATA_WIDTH / 8{1'b1}} << second_turn);
    always_comb
        for (int b = 0; b < DATA_WIDTH / 8; b++)
            merged[8*b+:8] = wrapped[b] ? earlier[8*b+:8] : turned[8*b+:8];

    // ---- third stage: the beat ----
    assign advance = !rq_tvalid || rq_tready;

    always_ff @(posedge clk) begin
        if (advance && second_loads) earlier_to_half <= to_half;
        if (rst) rq_tvalid <= 1'b0;
        else if (advance) rq_tvalid <= second_emits;
        if (advance && second_emits) begin
            rq_tdata[DATA_WIDTH-1:128] <= merged[DATA_WIDTH-1:128];
            rq_tdata[127:0] <= second_first ? second_descriptor : merged[127:0];
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
