// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tells when all writes of devices that arrived before a moment have their responses from the memory bus (PCIe 6.0 Table 2-42: reads and
// completions do not pass posted requests).
// Handshake: `capture` marks the moment; `open` is valid from the next cycle on.
module pcie_packetizer_fence (
    input logic clk,
    input logic rst,
    input logic capture,
    input logic [1:0] posted_waits,   // posted TLPs that have arrived, but are not counted in posted_begun yet
    input logic posted_leaves,        // one of them is counted or dropped in this cycle
    input logic [7:0] posted_begun,   // bursts, with those of this cycle
    input logic [7:0] posted_done,    // responses
    input logic stalled,              // the bus is given up
    output logic open
);
    logic [1:0] waits;
    logic [7:0] snapshot, behind;
    assign behind = snapshot - posted_done;
    assign open = stalled || (waits == '0 && (behind == '0 || behind[7]));
    always_ff @(posedge clk)
        if (rst) begin
            waits <= '0;
            snapshot <= '0;
        end else if (capture) begin
            waits <= posted_waits - 2'(posted_leaves);
            snapshot <= posted_begun;
        end else if (waits != '0 && posted_leaves) begin
            waits <= waits - 2'd1;
            snapshot <= posted_begun;
        end
endmodule
