// SPDX-License-Identifier: Apache-2.0 OR MIT
// A memory with one write port and one read port that answers a cycle later, while `read` is set; block RAM or
// distributed RAM.
// Handshake: none. A read of the word that is written in the same cycle returns the old word. The memory has no reset.
module pcie_ram #(
    parameter int WIDTH = 32,
    parameter int DEPTH = 512,
    parameter int BLOCK = 1,
    localparam int ADDRESS = DEPTH > 1 ? $clog2(DEPTH) : 1
) (
    input logic clk,
    input logic write,
    input logic [ADDRESS-1:0] write_address,
    input logic [WIDTH-1:0] write_data,
    input logic read,
    input logic [ADDRESS-1:0] read_address,
    output logic [WIDTH-1:0] read_data
);
    if (BLOCK != 0) begin : block
        (* ram_style = "block" *) logic [WIDTH-1:0] words[0:DEPTH-1];
        always_ff @(posedge clk) begin
            if (write) words[write_address] <= write_data;
            if (read) read_data <= words[read_address];
        end
    end else begin : distributed
        (* ram_style = "distributed" *) logic [WIDTH-1:0] words[0:DEPTH-1];
        always_ff @(posedge clk) begin
            if (write) words[write_address] <= write_data;
            if (read) read_data <= words[read_address];
        end
    end
endmodule
