// SPDX-License-Identifier: Apache-2.0 OR MIT
// Counts events, saturating. Counter n is in bits WIDTH * n and up.
module pcie_dll_counters #(
    parameter int NUMBER = 16,
    parameter int WIDTH = 32
) (
    input logic clk,
    input logic rst,
    input logic [NUMBER-1:0] events,
    output logic [WIDTH*NUMBER-1:0] counts
);
    for (genvar n = 0; n < NUMBER; n++) begin : counters
        always_ff @(posedge clk)
            if (rst) counts[WIDTH*n+:WIDTH] <= '0;
            else if (events[n] && counts[WIDTH*n+:WIDTH] != '1) counts[WIDTH*n+:WIDTH] <= counts[WIDTH*n+:WIDTH] + 1'b1;
    end
endmodule
