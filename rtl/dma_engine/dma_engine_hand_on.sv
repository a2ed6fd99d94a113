// SPDX-License-Identifier: Apache-2.0 OR MIT
// Delivers the data of reads in read order: to the integer check, to a loop-back, to the descriptor store, or to no
// consumer. Rows of the buffer hold double-words as received; they are shifted by 0 to 3 bytes to match the stream.
// Handshake: `job` with `job_ready` starts a read whose data is complete. `done` stays until `done_taken`, with `wrong`
// if integers differ from the expected integers. One job may wait while another runs. The loop-back and the descriptor
// store always have room. This module uses no addresses, and waits only for `done_taken`.
module dma_engine_hand_on #(
    parameter int DATA_WIDTH = 256,
    parameter int ROW = 9,
    parameter int PAIR = 1,
    parameter int LOOP_ROW = 8,
    parameter int SLOT = 4,   // bits of the index of a descriptor slot
    localparam int BYTES = DATA_WIDTH / 8,
    localparam int BYTE = $clog2(BYTES)
) (
    input logic clk,
    input logic rst,

    input logic job,
    output logic job_ready,
    input logic [3:0] job_code,   // passed through
    input logic [2:0] job_kind,   // NOBODY, CHECK, LOOP, FETCH or SINK
    input logic [66:0] job_position,
    input logic [12:0] job_bytes,
    input logic [1:0] job_offset,
    input logic [ROW-1:0] job_row,
    input logic [PAIR-1:0] job_pair,
    input logic [SLOT-1:0] job_slot,
    input logic job_unreadable,   // FETCH: the descriptors could not be read

    output logic read,
    output logic [ROW-1:0] read_row,
    input logic [DATA_WIDTH-1:0] read_data,

    output logic [BYTES-1:0] loop_write,
    output logic [PAIR+LOOP_ROW-1:0] loop_row,
    output logic [DATA_WIDTH-1:0] loop_data,

    output logic slot_write,
    output logic [SLOT-1:0] slot,
    output logic slot_upper,               // the descriptor is `upper_descriptor`
    output logic [108:0] lower_descriptor, // {a reserved flag is set, flags, bytes exceed 41 bits, bytes, address}
    output logic [108:0] upper_descriptor,
    output logic unreadable,

    output logic done,
    output logic [2:0] done_kind,
    output logic [3:0] done_code,
    output logic wrong,
    input logic done_taken
);
    `include "dma_engine_registers.svh"
    localparam logic [2:0] NOBODY = 3'd0, CHECK = 3'd1, LOOP = 3'd2, FETCH = 3'd3, SINK = 3'd4;
    localparam int STREAM_ROW = 67 - BYTE;
    localparam int HALF = BYTE - 4;  // bits of the index of a descriptor in a row, plus one

    logic works, ends;  // a row is available; it is the last of its job

    logic runs, goes_on, is_last;

    // ---- waiting jobs ----
    localparam int JOB = 4 + 3 + 67 + 13 + 2 + ROW + PAIR + SLOT + 1;
    logic waits, takes;
    logic [2:0] next_kind;
    logic [3:0] next_code, code, work_code;
    logic [66:0] next_position;
    logic [12:0] next_bytes;
    logic [1:0] next_offset;
    logic [ROW-1:0] next_row;
    logic [PAIR-1:0] next_pair;
    logic [SLOT-1:0] next_slot;
    logic next_unreadable;

    logic [JOB-1:0] waiting;
    always_ff @(posedge clk) begin
        if (job) waiting <= {job_code, job_kind, job_position, job_bytes, job_offset, job_row, job_pair, job_slot, job_unreadable};
        if (rst) waits <= 1'b0;
        else if (job) waits <= 1'b1;
        else if (takes) waits <= 1'b0;
    end
    assign {next_code, next_kind, next_position, next_bytes, next_offset, next_row, next_pair, next_slot, next_unreadable} = waiting;
    assign job_ready = !waits;
    assign takes = waits && (!runs || (goes_on && is_last));

    // ---- the running job ----
    logic [2:0] kind;
    logic [STREAM_ROW-1:0] first_row;  // number of its first row in the stream
    logic [8:0] rows;              // rows since the first one: a read has at most 4096 bytes
    logic [BYTE:0] first;          // its first byte in the first row, after the shift
    logic [13:0] left;             // bytes from the start of the row to the last one
    logic [1:0] shift;
    logic [ROW-1:0] row;
    logic [PAIR-1:0] pair;
    logic [SLOT-1:0] place;
    logic is_unreadable, is_first, is_early;
    logic [HALF-1:0] half;
    logic row_ends;
    logic [BYTE-1:0] lead;

    assign lead = next_position[BYTE-1:0] - BYTE'(next_offset);
    // A row with two descriptors takes two cycles.
    assign row_ends = kind != FETCH || half == HALF'(BYTES / 32 - 1);
    assign is_last = kind == FETCH ? left <= 14'(32) : left <= 14'(BYTES);
    // The end of a job waits until the previous end was taken, and is no longer in the pipeline.
    assign goes_on = runs && !(is_last && ((works && ends) || (done && !done_taken)));
    assign read = goes_on;
    assign read_row = row;

    always_ff @(posedge clk)
        if (rst) runs <= 1'b0;
        else if (takes) runs <= 1'b1;
        else if (goes_on && is_last) runs <= 1'b0;
    always_ff @(posedge clk) begin
        if (takes) begin
            kind <= next_kind;
            code <= next_code;
            // If the first row contains no byte of the read, the stream's row is the next row.
            first_row <= next_position[66:BYTE];
            rows <= '0;
            is_early <= lead > next_position[BYTE-1:0];
            first <= (BYTE + 1)'(lead) + (BYTE + 1)'(next_offset);
            left <= next_kind == NOBODY || next_kind == SINK ? '0 : 14'(lead) + 14'(next_offset) + 14'(next_bytes);
            shift <= lead[1:0];
            row <= next_row;
            pair <= next_pair;
            place <= next_slot;
            is_unreadable <= next_unreadable;
            is_first <= 1'b1;
            half <= '0;
        end else if (goes_on) begin
            left <= left - (kind == FETCH ? 14'd32 : 14'(BYTES));
            half <= half + 1'b1;
            place <= place + 1'b1;
            first <= first[BYTE] ? {1'b0, first[BYTE-1:0]} : '0;
            is_first <= 1'b0;
            if (row_ends) begin
                half <= '0;
                row <= row + 1'b1;
                is_early <= 1'b0;
                rows <= rows + 9'(!is_early);
            end
        end
    end

    // ---- one cycle later: the row is available ----
    logic [2:0] work_kind;
    logic [STREAM_ROW-1:0] work_row;
    logic [BYTES-1:0] mask, next_mask;
    logic [1:0] work_shift;
    logic [PAIR-1:0] work_pair;
    logic [HALF-1:0] work_half;
    logic work_first;

    always_ff @(posedge clk) begin
        works <= goes_on && !rst;
        ends <= is_last;
        if (goes_on) begin
            work_kind <= kind;
            work_code <= code;
            work_row <= first_row + STREAM_ROW'(rows);
            work_shift <= shift;
            work_pair <= pair;
            work_half <= half;
            work_first <= is_first;
            slot <= place;
            unreadable <= is_unreadable;
            mask <= next_mask;
        end
        loop_write <= goes_on && kind == LOOP && !rst ? next_mask : '0;
    end
    // From the first byte, and before the end.
    assign next_mask = (first[BYTE] ? '0 : {BYTES{1'b1}} << first[BYTE-1:0]) & (left >= 14'(BYTES) ? '1 : ~({BYTES{1'b1}} << left[BYTE-1:0]));

    // ---- shifted, with the end of the previous row ----
    logic [DATA_WIDTH-1:0] shifted;
    logic [23:0] carried;

    always_comb
        case (work_shift)
            2'd0: shifted = read_data;
            2'd1: shifted = {read_data[DATA_WIDTH-9:0], carried[23:16]};
            2'd2: shifted = {read_data[DATA_WIDTH-17:0], carried[23:8]};
            default: shifted = {read_data[DATA_WIDTH-25:0], carried[23:0]};
        endcase
    always_ff @(posedge clk) if (works) carried <= read_data[DATA_WIDTH-1-:24];

    // ---- consumers ----
    logic differs;
    logic is_wrong;

    dma_engine_check #(.BYTES(BYTES), .ROW(STREAM_ROW)) check (.data(shifted), .mask, .row(work_row), .differs);

    assign loop_row = {work_pair, work_row[LOOP_ROW-1:0]};
    assign loop_data = shifted;
    assign slot_write = works && work_kind == FETCH;
    function automatic logic [108:0] shape(input logic [159:0] raw);
        shape = {raw[159:130] != '0, raw[129:128], raw[127:105] != '0, raw[104:0]};
    endfunction
    assign slot_upper = work_half != '0;
    assign lower_descriptor = shape(read_data[159:0]);
    assign upper_descriptor = shape(read_data[DATA_WIDTH-256+:160]);

    // ---- the end ----
    always_ff @(posedge clk) begin
        if (rst) done <= 1'b0;
        else if (works && ends) done <= 1'b1;
        else if (done_taken) done <= 1'b0;
        if (works) begin
            is_wrong <= !ends && ((is_wrong && !work_first) || (work_kind == CHECK && differs));
            if (ends) {done_code, done_kind} <= {work_code, work_kind};
            if (ends) wrong <= (is_wrong && !work_first) || (work_kind == CHECK && differs);
        end
    end
endmodule
