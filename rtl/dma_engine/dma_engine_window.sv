// SPDX-License-Identifier: Apache-2.0 OR MIT
// The window of reads: places are allocated in order, and freed in the same order, for any order of completions. A
// place is a tag and rows of the buffer. A descriptor without a read (an invalid descriptor) also has a place, so that
// descriptors end in order.
//
//     head ... next ... tail      head: freed next; next: delivered next; tail: allocated next
//
// Handshake: use `give` only while `room`; use `step` and `free` only together with a `look` at that place. `ready`
// says that all data of the place at `next` has arrived; `step` advances `next`; `free` frees `head`. `looked` returns
// the note of a place. `drop`, not together with `give`, marks a place as no longer needed. This module never allocates
// a tag or a row that is in use.
module dma_engine_window #(
    parameter int TAGS = 64,   // a power of two
    parameter int ROWS = 512,  // a power of two
    parameter int NOTE = 8,    // bits of the note of a place
    parameter int LANE = 3,
    parameter int LENGTH = 13, // bits of the size of a read
    localparam int TAG = $clog2(TAGS),
    localparam int ROW = $clog2(ROWS)
) (
    input logic clk,
    input logic rst,

    input logic give,
    input logic give_read,            // completions will arrive
    input logic [LENGTH-1:0] give_bytes,
    input logic [1:0] give_offset,
    input logic [LANE-1:0] give_lane, // its first lane in its first row
    input logic [ROW:0] give_rows,
    input logic [NOTE-1:0] give_note,
    output logic room,
    output logic [ROW:0] rows_free,
    output logic [TAG-1:0] tail_tag,

    output logic ready,
    input logic step,
    input logic free,
    output logic is_empty,        // no place is allocated
    output logic is_quiet,        // no data is being delivered
    output logic [TAG-1:0] next_tag,
    output logic [TAG-1:0] head_tag,

    input logic [TAG-1:0] look,
    output logic [NOTE-1:0] looked,
    output logic looked_failed,
    output logic looked_dropped,
    output logic [ROW-1:0] looked_row,
    output logic [12:0] looked_bytes,
    output logic [1:0] looked_offset,
    input logic drop,             // drops the place at `look`

    input logic [TAG-1:0] completion_tag,
    output logic completion_open,
    output logic [ROW+LANE-1:0] completion_place,
    output logic [12:0] completion_bytes,
    output logic [1:0] completion_offset,
    input logic ended,
    input logic heard,            // a completion of a read is complete, the first or a later one
    input logic heard_first,
    input logic failed,
    input logic [TAG-1:0] ended_tag
);
    localparam int SHAPE = ROW + LANE + LENGTH + 2;
    logic [TAG:0] head, next, tail;
    logic [ROW:0] row_tail, row_head;
    logic was_bad;
    logic [ROW:0] looked_end;
    logic [ROW-1:0] next_row;
    logic [SHAPE-1:0] shape;

    assign room = (TAG + 1)'(tail - head) != (TAG + 1)'(TAGS) && !closes && !sweeps;
    assign rows_free = (ROW + 1)'(ROWS) - (row_tail - row_head);
    assign is_empty = tail == head;
    assign is_quiet = next == head;
    assign tail_tag = tail[TAG-1:0];
    assign next_tag = next[TAG-1:0];
    assign head_tag = head[TAG-1:0];
    assign ready = next != tail && next_ended == next[TAG];

    // ---- end state: for each tag, the lap in which it last ended (the lap of a place is the upper bit of its number) ----
    // Places without a read end right after their allocation. After reset all tags have ended in the lap before the first.
    logic sweeps, closes, next_ended, completion_ended, end_write, end_lap;
    logic [TAG:0] swept;
    logic [TAG-1:0] end_tag, last_tag;
    function automatic logic lap_of(input logic [TAG-1:0] tag);
        lap_of = tail[TAG] ^ (tag >= tail[TAG-1:0]);
    endfunction
    assign sweeps = !swept[TAG];
    assign end_write = sweeps || ended || closes;
    assign last_tag = tail[TAG-1:0] - 1'b1;
    assign end_tag = sweeps ? swept[TAG-1:0] : ended ? ended_tag : last_tag;
    assign end_lap = sweeps || lap_of(end_tag);
    assign completion_open = completion_ended != lap_of(completion_tag) && !(closes && completion_tag == last_tag);
    dma_engine_ram #(
        .WIDTH(1),
        .DEPTH(TAGS)
    ) ends_by_place (
        .clk,
        .write(end_write),
        .write_address(end_tag),
        .write_data(end_lap),
        .read_address(next_tag),
        .read_data(next_ended)
    );
    dma_engine_ram #(
        .WIDTH(1),
        .DEPTH(TAGS)
    ) ends_by_completion (
        .clk,
        .write(end_write),
        .write_address(end_tag),
        .write_data(end_lap),
        .read_address(completion_tag),
        .read_data(completion_ended)
    );

    // ---- notes ----
    // For rows, the end of a place, where the next one begins. A step or free uses the place at `look`.
    logic [ROW:0] row_end;
    assign row_end = row_tail + give_rows;
    assign looked_row = next_row;
    assign shape = {row_tail[ROW-1:0], give_lane, give_bytes, give_offset};
    logic [LENGTH-1:0] noted_bytes, shape_bytes;
    assign looked_bytes = 13'(noted_bytes);
    assign completion_bytes = 13'(shape_bytes);
    dma_engine_ram #(
        .WIDTH(ROW + 3 + LENGTH + NOTE),
        .DEPTH(TAGS)
    ) notes (
        .clk,
        .write(give),
        .write_address(tail_tag),
        .write_data({row_end, give_bytes, give_offset, give_note}),
        .read_address(look),
        .read_data({looked_end, noted_bytes, looked_offset, looked})
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
        .read_data({completion_place, shape_bytes, completion_offset})
    );
    // Undefined for an outstanding read before its first completion.
    dma_engine_ram #(
        .WIDTH(1),
        .DEPTH(TAGS)
    ) bad (
        .clk,
        .write(heard),
        .write_address(ended_tag),
        .write_data(failed || (was_bad && !heard_first)),
        .read_address(look),
        .read_data(looked_failed)
    );
    dma_engine_ram #(
        .WIDTH(1),
        .DEPTH(TAGS)
    ) bad_so_far (
        .clk,
        .write(heard),
        .write_address(ended_tag),
        .write_data(failed || (was_bad && !heard_first)),
        .read_address(ended_tag),
        .read_data(was_bad)
    );
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
            {row_head, row_tail, next_row} <= '0;
            swept <= '0;
            closes <= 1'b0;
        end else begin
            tail <= tail + (TAG + 1)'(give);
            next <= next + (TAG + 1)'(step);
            head <= head + (TAG + 1)'(free);
            if (give) row_tail <= row_end;
            if (step) next_row <= looked_end[ROW-1:0];
            if (free) row_head <= looked_end;
            swept <= swept + (TAG + 1)'(sweeps);
            closes <= (closes && (ended || sweeps)) || (give && !give_read);
        end

`ifdef FORMAL
`include "window_properties.svh"
`endif
endmodule
