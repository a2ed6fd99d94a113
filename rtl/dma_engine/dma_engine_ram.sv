// SPDX-License-Identifier: Apache-2.0 OR MIT
// A small memory of distributed RAM: one write port, one read port that answers in the same cycle.
// Handshake: none. A read in the cycle of a write to the same word returns the old word. The memory is never reset:
// users write a word before they read it.
module dma_engine_ram #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 16,
    localparam int ADDRESS = DEPTH > 1 ? $clog2(DEPTH) : 1
) (
    input logic clk,
    input logic write,
    input logic [ADDRESS-1:0] write_address,
    input logic [WIDTH-1:0] write_data,
    input logic [ADDRESS-1:0] read_address,
    output logic [WIDTH-1:0] read_data
);
    (* ram_style = "distributed" *) logic [WIDTH-1:0] words[0:DEPTH-1];

    always_ff @(posedge clk) if (write) words[write_address] <= write_data;
    assign read_data = words[read_address];
endmodule
