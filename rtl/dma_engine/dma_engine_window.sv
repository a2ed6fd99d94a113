// SPDX-License-Identifier: Apache-2.0 OR MIT
// The window of reads: places that are given out in their order, and taken back in the same order, whatever the order of completions. A place
// is a tag, and rows of the buffer; what has no read of its own (a descriptor that is wrong) has a place too, so that ends keep their order.
//
//     head ... next ... tail      head: who is taken back next; next: whose data are handed on next; tail: who is given out next
//
// Handshake: `give` only while `room`; `ready` says that all of the place at `next` is there, `step` goes on to the one behind; `free` takes
// `head` back. `looked` reads what is noted of a place, `drop`, not beside `give`, notes that nobody waits for it any more.
// It never gives out a tag or a row that is in use.
module dma_engine_window #(
    parameter int TAGS = 64,   // a power of two
    parameter int ROWS = 512,  // a power of two
    parameter int NOTE = 8,    // bits that are noted of a place
    parameter int LANE = 3,
    localparam int TAG = $clog2(TAGS),
    localparam int ROW = $clog2(ROWS)
) (
    input logic clk,
    input logic rst,

    input logic give,
    input logic give_read,            // completions will come
    input logic [12:0] give_bytes,
    input logic [1:0] give_offset,
    input logic [LANE-1:0] give_lane, // where in its first row it begins
    input logic [ROW:0] give_rows,
    input logic [NOTE-1:0] give_note,
    output logic room,
    output logic [ROW:0] rows_free,
    output logic [TAG-1:0] tail_tag,

    output logic ready,
    input logic step,
    input logic free,
    output logic is_empty,        // nothing is given out
    output logic is_quiet,        // nothing is handed on
    output logic [TAG-1:0] next_tag,
    output logic [TAG-1:0] head_tag,

    input logic [TAG-1:0] look,
    output logic [NOTE-1:0] looked,
    output logic looked_failed,
    output logic looked_dropped,
    output logic [ROW-1:0] looked_row,
    output logic [12:0] looked_bytes,
    output logic [1:0] looked_offset,
    input logic drop,             // the place looked at

    input logic [TAG-1:0] completion_tag,
    output logic completion_open,
    output logic [ROW+LANE-1:0] completion_place,
    output logic [12:0] completion_bytes,
    output logic [1:0] completion_offset,
    input logic ended,
    input logic failed,
    input logic [TAG-1:0] ended_tag
);
    localparam int SHAPE = ROW + LANE + 13 + 2;
    logic [TAG:0] head, next, tail;
    logic [ROW:0] row_tail, row_head;
    logic [TAGS-1:0] open, bad;
    logic [ROW:0] head_rows;
    logic [SHAPE-1:0] shape;

    assign room = (TAG + 1)'(tail - head) != (TAG + 1)'(TAGS);
    assign rows_free = (ROW + 1)'(ROWS) - (row_tail - row_head);
    assign is_empty = tail == head;
    assign is_quiet = next == head;
    assign tail_tag = tail[TAG-1:0];
    assign next_tag = next[TAG-1:0];
    assign head_tag = head[TAG-1:0];
    assign ready = next != tail && !open[next_tag];

    // ---- what is noted ----
    assign shape = {row_tail[ROW-1:0], give_lane, give_bytes, give_offset};
    dma_engine_ram #(
        .WIDTH(ROW + 15 + NOTE),
        .DEPTH(TAGS)
    ) notes (
        .clk,
        .write(give),
        .write_address(tail_tag),
        .write_data({row_tail[ROW-1:0], give_bytes, give_offset, give_note}),
        .read_address(look),
        .read_data({looked_row, looked_bytes, looked_offset, looked})
    );
    dma_engine_ram #(
        .WIDTH(SHAPE),
        .DEPTH(TAGS)
    ) shapes (
        .clk,
        .write(give),
        .write_address(tail_tag),
        .write_data(shape),
        .read_address(completion_tag),
        .read_data({completion_place, completion_bytes, completion_offset})
    );
    dma_engine_ram #(
        .WIDTH(ROW + 1),
        .DEPTH(TAGS)
    ) rows (
        .clk,
        .write(give),
        .write_address(tail_tag),
        .write_data(give_rows),
        .read_address(head_tag),
        .read_data(head_rows)
    );
    assign completion_open = open[completion_tag];
    assign looked_failed = bad[look];
    dma_engine_ram #(
        .WIDTH(1),
        .DEPTH(TAGS)
    ) dropped (
        .clk,
        .write(give || drop),
        .write_address(give ? tail_tag : look),
        .write_data(!give),
        .read_address(look),
        .read_data(looked_dropped)
    );

    always_ff @(posedge clk)
        if (rst) begin
            {head, next, tail} <= '0;
            {row_head, row_tail} <= '0;
            open <= '0;
        end else begin
            tail <= tail + (TAG + 1)'(give);
            next <= next + (TAG + 1)'(step);
            head <= head + (TAG + 1)'(free);
            if (give) row_tail <= row_tail + give_rows;
            if (free) row_head <= row_head + head_rows;
            if (ended) open[ended_tag] <= 1'b0;
            if (failed) bad[ended_tag] <= 1'b1;
            if (give) begin
                open[tail_tag] <= give_read;
                bad[tail_tag] <= 1'b0;
            end
        end

`ifdef FORMAL
`include "window_properties.svh"
`endif
endmodule
