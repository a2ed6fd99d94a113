// SPDX-License-Identifier: Apache-2.0 OR MIT
// Receives completions from the RC stream (PG156, PG213: Requester Completion), in any order of tags, and writes their
// data to the rows of their reads. The Byte Count of a completion gives the place of its data, so no state is kept
// between completions of a read.
// Handshake: this module is always ready, because `dma_engine_window` allocates the rows of a read before it is sent. A
// cycle after the last beat of a read's last completion it asserts `ended`, with `failed` if any completion was wrong.
// Completions whose tag is not `open` are ignored. This module never writes outside of the rows of an open read.
module dma_engine_receive #(
    parameter int DATA_WIDTH = 256,
    parameter int TAG = 6,   // bits of a tag
    parameter int ROW = 9,   // bits of a row
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,

    input logic [DATA_WIDTH-1:0] rc_tdata,
    input logic rc_tlast,
    input logic rc_tvalid,
    input logic rc_discontinue,

    output logic [TAG-1:0] tag,
    input logic open,
    input logic [ROW+LANE-1:0] place,  // place of its first double-word
    input logic [12:0] bytes,          // requested bytes
    input logic [1:0] offset,          // offset of its first byte in its first double-word

    output logic [LANES-1:0] write,
    output logic [LANES*ROW-1:0] write_rows,
    output logic [DATA_WIDTH-1:0] write_data,

    output logic ended,
    output logic heard,       // a completion of an open read is complete
    output logic heard_first, // it is the first of its read
    output logic failed,
    output logic [TAG-1:0] ended_tag
);
    // Error codes (PG156, PG213: Requester Completion Descriptor Fields).
    localparam logic [3:0] BAD_STATUS = 4'd2, NO_DATA = 4'd3, OTHER_REQUESTER = 4'd4, INVALID_TAG = 4'd6, BY_RESET = 4'd8, TIMEOUT = 4'd9;

    // ---- the descriptor ----
    logic [3:0] error_code;
    logic [12:0] byte_count;
    logic [10:0] dwords;
    logic completed, poisoned, status_wrong, tag_fits;

    assign error_code = rc_tdata[15:12];
    assign byte_count = rc_tdata[28:16];
    assign completed = rc_tdata[30];
    assign dwords = rc_tdata[42:32];
    assign status_wrong = rc_tdata[45:43] != 3'd0;
    assign poisoned = rc_tdata[46];
    assign tag = rc_tdata[64+:TAG];
    if (TAG < 8) assign tag_fits = rc_tdata[71:64+TAG] == '0;
    else assign tag_fits = 1'b1;

    // ---- place of the data ----
    logic [10:0] begins, wanted;  // in double-words
    logic [12:0] ends;
    logic is_wrong, is_error;

    assign begins = 11'((bytes + 13'(offset) - byte_count) >> 2);
    assign wanted = 11'((bytes + 13'(offset) + 13'd3) >> 2);
    assign ends = {2'b0, begins} + {2'b0, dwords};
    assign is_error = error_code != 4'd0 || status_wrong || poisoned;
    assign is_wrong = byte_count > bytes || ends > {2'b0, wanted} || dwords == 11'd0;

    // ---- beats ----
    logic is_first, next_first;
    logic beat, lands, beat_first, wrong, known, last_of_read, beat_last;
    logic [DATA_WIDTH-1:0] data;
    logic [ROW+LANE-1:0] base;
    logic [10:0] left;

    always_ff @(posedge clk) begin
        beat <= rc_tvalid && !rst;
        beat_last <= rc_tlast;
        beat_first <= is_first;
        data <= rc_tdata;
        if (rc_tvalid) begin
            if (is_first) begin
                ended_tag <= tag;
                lands <= open && tag_fits && !is_error && !is_wrong;
                wrong <= is_error || is_wrong || rc_discontinue;
                // Completions of other requests are ignored.
                known <= open && tag_fits && error_code != INVALID_TAG && error_code != OTHER_REQUESTER;
                // If the block ends a request because of an error, the error code shows this.
                last_of_read <= completed || error_code == BAD_STATUS || error_code == NO_DATA || error_code == BY_RESET ||
                                error_code == TIMEOUT;
                heard_first <= byte_count == bytes;
                base <= place + (ROW + LANE)'(begins) - (ROW + LANE)'(3);
                left <= dwords + 11'd3;
            end else begin
                wrong <= wrong || rc_discontinue;
                base <= base + (ROW + LANE)'(LANES);
                left <= left < 11'(LANES) ? 11'd0 : left - 11'(LANES);
            end
        end
        if (rst) is_first <= 1'b1;
        else if (rc_tvalid) is_first <= next_first;
    end
    assign next_first = rc_tlast;

    // ---- the buffer ----
    logic [LANES-1:0] there;  // lanes of the beat with payload
    logic [LANES-1:0] rotated;

    assign there = (left >= 11'(LANES) ? '1 : ~({LANES{1'b1}} << left[LANE-1:0])) & ~(beat_first ? LANES'(7) : '0);

    dma_engine_rotate #(
        .LANES(LANES),
        .WIDTH(32)
    ) rotate_data (
        .in(data),
        .amount(base[LANE-1:0]),
        .out(write_data)
    );
    dma_engine_rotate #(
        .LANES(LANES),
        .WIDTH(1)
    ) rotate_lanes (
        .in(there),
        .amount(base[LANE-1:0]),
        .out(rotated)
    );
    assign write = beat && lands ? rotated : '0;
    always_comb
        for (int b = 0; b < LANES; b++)
            write_rows[b*ROW+:ROW] = base[LANE+:ROW] + ROW'(LANE'(b) < base[LANE-1:0]);

    assign heard = beat && beat_last && known;
    assign ended = beat && beat_last && known && last_of_read;
    assign failed = beat && beat_last && known && wrong;
endmodule
