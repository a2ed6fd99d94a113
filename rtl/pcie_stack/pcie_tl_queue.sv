// SPDX-License-Identifier: Apache-2.0 OR MIT
// Pointers of one queue of TLPs, of one VC and type: rows of a ring that hold whole TLPs, and one note for each TLP. The rows
// themselves are in the memory of pcie_tl_reader.
// Handshake: none. `row` writes a row of a TLP, the first one with `first`. A TLP exists when its last row comes with `commit`; if its last
// row comes without, the rows are forgotten. The user guarantees room.
module pcie_tl_queue #(
    parameter int ROWS = 128,  // a power of two
    parameter int TLPS = 16,   // a power of two
    parameter int NOTE = 8,
    localparam int ROW = $clog2(ROWS)
) (
    input logic clk,
    input logic rst,
    input logic row,
    input logic first,
    input logic commit,
    input logic [NOTE-1:0] note,
    output logic [ROW-1:0] write_row,

    output logic head_valid,
    output logic [ROW-1:0] head_start,
    output logic [ROW-1:0] head_end,
    output logic [NOTE-1:0] head_note,
    input logic pop,
    output logic [ROW-1:0] used,  // rows of TLPs that were not popped
    output logic [$clog2(TLPS):0] count
);
    logic [ROW-1:0] tail, next;  // first row after the newest TLP; row after `write_row`
    assign write_row = first ? tail : next;
    assign used = tail - head_start;

    always_ff @(posedge clk)
        if (rst) begin
            tail <= '0;
            next <= '0;
            head_start <= '0;
        end else begin
            if (row) next <= write_row + 1'b1;
            if (commit) tail <= write_row + 1'b1;
            if (pop) head_start <= head_end + 1'b1;
        end

    pcie_tl_fifo #(
        .WIDTH(ROW + NOTE),
        .DEPTH(TLPS)
    ) notes (
        .clk(clk),
        .rst(rst),
        .push(commit),
        .push_data({write_row, note}),
        .pop(pop),
        .valid(head_valid),
        .head({head_end, head_note}),
        .count(count)
    );
endmodule
