// SPDX-License-Identifier: Apache-2.0 OR MIT
// Stores frames from the framer until they are acknowledged. Sends them in order, and sends them again after `replay`.
// Handshake: rows are written without refusal (`room` says whether the longest TLP fits). A row goes out with out_valid
// && out_take. New TLPs and replayed TLPs take the same path: a replay moves the read pointer back to the oldest
// unacknowledged TLP.
//
// Pointers have one bit more than an address. From old to new: free_pointer, tail, read_pointer, commit_pointer, write_pointer.
//   tail           first row of the oldest unacknowledged TLP
//   free_pointer   like tail, but waits while rows before the tail are still being sent again
//   commit_pointer end of the last complete TLP
module pcie_dll_replay_buffer #(
    parameter int DATA_WIDTH = 256,
    parameter int ROWS = 256,
    parameter int TLPS = 128,
    parameter int MAX_ROWS = 18,
    parameter int BLOCK = 1,
    parameter int CUT_THROUGH = 1,
    parameter int SEQ_BITS = 12,  // less in proofs only
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1,
    localparam int TLP = $clog2(TLPS)
) (
    input logic clk,
    input logic rst,
    input logic enable,  // DL_Active; while it is low, the buffer is empty

    input logic row_valid,
    input logic row_last,
    input logic row_nullified,
    input logic [LANE-1:0] row_end,
    input logic [DATA_WIDTH-1:0] row_data,
    output logic room,
    output logic rewound,

    input logic purge,  // all TLPs up to purge_seq are acknowledged; purge_seq becomes acked_seq
    input logic [TLP-1:0] purge_seq,  // low bits
    input logic [SEQ_BITS-1:0] acked_seq,
    input logic replay,
    output logic replay_taken,
    input logic hold,  // no TLP begins

    output logic out_valid,
    output logic out_last,
    output logic out_nullified,
    output logic [LANE-1:0] out_end,
    output logic [DATA_WIDTH-1:0] out_data,
    input logic out_take,

    output logic [SEQ_BITS-1:0] sent_seq,  // the newest TLP that was sent at least once
    output logic tlp_sent,         // the last row of a TLP that counts leaves
    output logic replaying
);
    localparam int ADDRESS = $clog2(ROWS);

    logic [ADDRESS:0] free_pointer, tail, read_pointer, commit_pointer, write_pointer, limit, used;
    logic loaded, in_tlp, read, moves_back, behind, ends;
    logic [SEQ_BITS-1:0] out_seq;

    // Two rows of the framer may be on their way.
    assign used = write_pointer - free_pointer;
    assign room = used <= (ADDRESS + 1)'(ROWS - MAX_ROWS - 2);

    // ---- ends of TLPs ----
    logic [TLP-1:0] write_seq;  // low bits of the sequence number that is being written
    logic [ADDRESS:0] ends_of_tlps[0:TLPS-1];
    logic commits;
    assign commits = row_valid && row_last && !row_nullified;
    always_ff @(posedge clk) if (commits) ends_of_tlps[write_seq] <= write_pointer + 1'b1;

    // ---- writing ----
    logic nullified_in, nullified_out;  // a nullified TLP is complete in the buffer; it has left it
    assign nullified_in = row_valid && row_last && row_nullified;
    assign nullified_out = ends && out_nullified;
    assign rewound = CUT_THROUGH != 0 ? nullified_out : nullified_in;

    always_ff @(posedge clk)
        if (rst || !enable) begin
            write_pointer <= '0;
            commit_pointer <= '0;
            write_seq <= '0;
        end else begin
            // In store-and-forward mode a nullified TLP never leaves; with cut-through it is dropped when its last row has left.
            if (rewound) write_pointer <= commit_pointer;
            else if (row_valid) write_pointer <= write_pointer + 1'b1;
            if (commits) begin
                commit_pointer <= write_pointer + 1'b1;
                write_seq <= write_seq + 1'b1;
            end
        end

    // ---- purging ----
    always_ff @(posedge clk)
        if (rst || !enable) begin
            tail <= '0;
            free_pointer <= '0;
        end else begin
            if (purge) tail <= ends_of_tlps[purge_seq];
            if (!(in_tlp && behind)) free_pointer <= tail;
        end

    // ---- reading ----
    assign limit = CUT_THROUGH != 0 ? write_pointer : commit_pointer;
    assign behind = SEQ_BITS'(out_seq - acked_seq - 1'b1) >= SEQ_BITS'(2 ** (SEQ_BITS - 1));  // the next TLP is acknowledged already
    assign replay_taken = !in_tlp && replay;
    assign moves_back = !in_tlp && (replay || behind);
    assign read = read_pointer != limit && (!loaded || out_take) && !moves_back;
    assign out_valid = loaded && !moves_back && (in_tlp || !hold);
    assign ends = out_take && out_last;
    assign tlp_sent = ends && !out_nullified;
    assign replaying = out_seq != SEQ_BITS'(sent_seq + 1'b1);

    always_ff @(posedge clk)
        if (rst || !enable) begin
            read_pointer <= '0;
            loaded <= 1'b0;
            in_tlp <= 1'b0;
            out_seq <= '0;
            sent_seq <= '1;
        end else begin
            if (moves_back) read_pointer <= tail;
            else if (CUT_THROUGH != 0 && nullified_out) read_pointer <= commit_pointer;
            else if (read) read_pointer <= read_pointer + 1'b1;
            loaded <= !moves_back && (read || (loaded && !out_take));
            if (out_take) in_tlp <= !out_last;
            if (moves_back) out_seq <= acked_seq + 1'b1;
            else if (tlp_sent) begin
                out_seq <= out_seq + 1'b1;
                if (!replaying) sent_seq <= out_seq;
            end
        end

    pcie_ram #(
        .WIDTH(DATA_WIDTH + LANE + 2),
        .DEPTH(ROWS),
        .BLOCK(BLOCK)
    ) rows (
        .clk(clk),
        .write(row_valid),
        .write_address(write_pointer[ADDRESS-1:0]),
        .write_data({row_last, row_nullified, row_end, row_data}),
        .read(read),
        .read_address(read_pointer[ADDRESS-1:0]),
        .read_data({out_last, out_nullified, out_end, out_data})
    );

`ifdef PROVE_BUFFER
`include "replay_buffer_properties.svh"
`endif
endmodule
