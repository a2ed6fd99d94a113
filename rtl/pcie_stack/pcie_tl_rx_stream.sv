// SPDX-License-Identifier: Apache-2.0 OR MIT
// Receive buffer of one type for all VCs, and its stream to the user.
// Handshake: rows as from pcie_tl_receiver; a valid/ready stream of beats. A TLP is offered if `waits` of its VC is low, or if it is relaxed and `window` is high.
// verilator lint_off PINCONNECTEMPTY
module pcie_tl_rx_stream #(
    parameter int DATA_WIDTH = 256,
    parameter int NUM_VCS = 1,
    parameter int HEADERS = 64,
    parameter int DATA = 256,
    parameter int BLOCK = 1,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    input logic clk,
    input logic rst,
    input logic clear,
    input logic [NUM_VCS-1:0] clear_vc,

    input logic row_valid,
    input logic row_first,
    input logic row_commit,
    input logic [2:0] row_vc,
    input logic [8:0] row_credits,
    input logic row_relaxed,
    input logic row_poisoned,
    input logic [LANE-1:0] row_end,
    input logic [DATA_WIDTH-1:0] row_data,

    input logic [NUM_VCS-1:0] waits,
    input logic [NUM_VCS-1:0] window,
    output logic [NUM_VCS-1:0] started,
    output logic [NUM_VCS-1:0] freed,
    output logic [8:0] freed_credits,

    output logic out_valid,
    output logic out_sop,
    output logic out_eop,
    output logic out_cut,
    output logic out_poisoned,
    output logic [2:0] out_vc,
    output logic [LANE-1:0] out_end,
    output logic [DATA_WIDTH-1:0] out_data,
    input logic out_ready
);
    `include "pcie_tl.svh"
    localparam int ROWS = 2 ** $clog2(rows_for(HEADERS, DATA, DATA_WIDTH / 8));
    localparam int TLPS = 2 ** $clog2(HEADERS);
    localparam int ROW = $clog2(ROWS);
    localparam int QUEUE = NUM_VCS > 1 ? $clog2(NUM_VCS) : 1;
    localparam int NOTE = 11;  // poisoned, relaxed, credits

    logic [NUM_VCS-1:0] may_leave;
    logic [ROW*NUM_VCS-1:0] write_rows, starts_of, ends_of;
    logic [NOTE*NUM_VCS-1:0] notes;
    for (genvar n = 0; n < NUM_VCS; n++) begin : channels
        logic here, head_valid;
        assign here = row_vc == 3'(n);
        pcie_tl_queue #(
            .ROWS(ROWS),
            .TLPS(TLPS),
            .NOTE(NOTE)
        ) queue (
            .clk(clk),
            .rst(rst || clear_vc[n]),
            .row(here && row_valid),
            .first(row_first),
            .commit(here && row_commit),
            .note({row_poisoned, row_relaxed, row_credits}),
            .write_row(write_rows[ROW*n+:ROW]),
            .head_valid(head_valid),
            .head_start(starts_of[ROW*n+:ROW]),
            .head_end(ends_of[ROW*n+:ROW]),
            .head_note(notes[NOTE*n+:NOTE]),
            .pop(started[n]),
            .used(),
            .count()
        );
        assign may_leave[n] = head_valid && (!waits[n] || (notes[NOTE*n+9] && window[n]));
    end

    logic pick_valid, pick_ready;
    logic [2:0] choice, last;
    logic [ROW-1:0] pick_start, pick_end, write_row;
    logic [NOTE-1:0] pick_note, out_note;
    logic [QUEUE-1:0] out_queue;
    assign pick_valid = may_leave != '0 && !clear;
    always_comb begin
        choice = '0;
        for (int n = NUM_VCS - 1; n >= 0; n--) if (may_leave[n]) choice = 3'(n);
        for (int n = NUM_VCS - 1; n >= 0; n--) if (may_leave[n] && 3'(n) > last) choice = 3'(n);
        started = '0;
        pick_start = '0;
        pick_end = '0;
        pick_note = '0;
        write_row = '0;
        for (int n = 0; n < NUM_VCS; n++) begin
            if (choice == 3'(n)) begin
                started[n] = pick_valid && pick_ready;
                pick_start = starts_of[ROW*n+:ROW];
                pick_end = ends_of[ROW*n+:ROW];
                pick_note = notes[NOTE*n+:NOTE];
            end
            if (row_vc == 3'(n)) write_row = write_rows[ROW*n+:ROW];
        end
    end
    always_ff @(posedge clk)
        if (rst) last <= '0;
        else if (pick_valid && pick_ready) last <= choice;

    pcie_tl_reader #(
        .DATA_WIDTH(DATA_WIDTH),
        .QUEUES(NUM_VCS),
        .ROWS(ROWS),
        .NOTE(NOTE),
        .BLOCK(BLOCK)
    ) reader (
        .clk(clk),
        .rst(rst),
        .clear(clear),
        .write(row_valid),
        .write_queue(QUEUE'(row_vc)),
        .write_row(write_row),
        .write_end(row_end),
        .write_data(row_data),
        .pick_valid(pick_valid),
        .pick_ready(pick_ready),
        .pick_queue(QUEUE'(choice)),
        .pick_start(pick_start),
        .pick_end(pick_end),
        .pick_note(pick_note),
        .out_valid(out_valid),
        .out_sop(out_sop),
        .out_eop(out_eop),
        .out_cut(out_cut),
        .out_end(out_end),
        .out_data(out_data),
        .out_queue(out_queue),
        .out_note(out_note),
        .out_ready(out_ready)
    );
    assign out_vc = 3'(out_queue);
    assign out_poisoned = out_note[10];
    assign freed_credits = out_note[8:0];
    // The end of a TLP that was cut frees nothing: the buffer is empty then.
    always_comb for (int n = 0; n < NUM_VCS; n++) freed[n] = out_valid && out_ready && out_eop && !out_cut && out_vc == 3'(n);
    logic unused;
    assign unused = out_note[9];
endmodule
