// SPDX-License-Identifier: Apache-2.0 OR MIT
// A queue in distributed RAM. `front` is the oldest word, in the cycle after it was written or later.
// Handshake: a word is taken if valid && take. The writer looks at `count`: a write to a full queue is not allowed.
module pcie_phy_queue #(
    parameter int WIDTH = 32,
    parameter int DEPTH = 32,
    localparam int ADDRESS = $clog2(DEPTH)
) (
    input logic clk,
    input logic rst,
    input logic write,
    input logic [WIDTH-1:0] word,
    output logic valid,
    output logic [WIDTH-1:0] front,
    input logic take,
    output logic [ADDRESS:0] count
);
    (* ram_style = "distributed" *) logic [WIDTH-1:0] words[0:DEPTH-1];
    logic [ADDRESS-1:0] in, out;
    assign front = words[out];
    always_ff @(posedge clk) if (write) words[in] <= word;
    always_ff @(posedge clk)
        if (rst) begin
            in <= '0;
            out <= '0;
            count <= '0;
            valid <= 1'b0;
        end else begin
            in <= in + ADDRESS'(write);
            out <= out + ADDRESS'(valid && take);
            count <= count + (ADDRESS + 1)'(write) - (ADDRESS + 1)'(valid && take);
            valid <= write || count > (ADDRESS + 1)'(valid && take);
        end
endmodule
