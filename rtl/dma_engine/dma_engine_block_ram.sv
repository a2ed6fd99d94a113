// SPDX-License-Identifier: Apache-2.0 OR MIT
// A memory of block RAM: one write port with a strobe per byte, one read port that answers a cycle later while `read`
// is set.
// Handshake: none. A read in the cycle of a write to the same word returns the old word. The memory is never reset.
module dma_engine_block_ram #(
    parameter int WIDTH = 32,
    parameter int DEPTH = 512,
    localparam int ADDRESS = $clog2(DEPTH)
) (
    input logic clk,
    input logic [WIDTH/8-1:0] write,
    input logic [ADDRESS-1:0] write_address,
    input logic [WIDTH-1:0] write_data,
    input logic read,
    input logic [ADDRESS-1:0] read_address,
    output logic [WIDTH-1:0] read_data
);
    (* ram_style = "block" *) logic [WIDTH-1:0] words[0:DEPTH-1];

    always_ff @(posedge clk) begin
        for (int b = 0; b < WIDTH / 8; b++) if (write[b]) words[write_address][8*b+:8] <= write_data[8*b+:8];
        if (read) read_data <= words[read_address];
    end
endmodule
