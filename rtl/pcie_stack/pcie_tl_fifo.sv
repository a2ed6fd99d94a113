// SPDX-License-Identifier: Apache-2.0 OR MIT
// A queue in distributed RAM whose head is visible at once.
// Handshake: none: the user does not push into a full queue, nor pop an empty one.
module pcie_tl_fifo #(
    parameter int WIDTH = 16,
    parameter int DEPTH = 16,  // a power of two
    localparam int ADDRESS = DEPTH > 1 ? $clog2(DEPTH) : 1
) (
    input logic clk,
    input logic rst,
    input logic push,
    input logic [WIDTH-1:0] push_data,
    input logic pop,
    output logic valid,
    output logic [WIDTH-1:0] head,
    output logic [ADDRESS:0] count
);
    (* ram_style = "distributed" *) logic [WIDTH-1:0] words[0:DEPTH-1];
    logic [ADDRESS-1:0] write_pointer, read_pointer;
    assign head = words[read_pointer];
    assign valid = count != '0;
    always_ff @(posedge clk) if (push) words[write_pointer] <= push_data;
    always_ff @(posedge clk)
        if (rst) begin
            write_pointer <= '0;
            read_pointer <= '0;
            count <= '0;
        end else begin
            if (push) write_pointer <= write_pointer + 1'b1;
            if (pop) read_pointer <= read_pointer + 1'b1;
            if (push != pop) count <= push ? count + 1'b1 : count - 1'b1;
        end
endmodule
