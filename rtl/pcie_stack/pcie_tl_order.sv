// SPDX-License-Identifier: Apache-2.0 OR MIT
// Order of non-posted requests and completions behind posted requests of one VC (PCIe 6.0 §2.4.1, Table 2-40, column 2).
// Handshake: none. `push` marks the type of each TLP that enters, one at a time; `start` marks a non-posted request or completion that leaves, oldest
// first; `posted_done` marks a posted request that is gone.
//
// Each posted request keeps how many TLPs of the other types had entered before it. A TLP of these types waits while the oldest posted request
// entered before it did. A relaxed TLP need not wait, but at most WINDOW of them pass one posted request, so that the counters cannot wrap.
// verilator lint_off PINCONNECTEMPTY
module pcie_tl_order #(
    parameter int POSTED = 16,  // most posted requests; a power of two
    parameter int OTHERS = 16,  // most TLPs of each other type; a power of two
    localparam int COUNT = $clog2(OTHERS) + 2
) (
    input logic clk,
    input logic rst,
    input logic [2:0] push,
    input logic [2:1] start,
    input logic posted_done,
    output logic [2:1] waits,   // an older posted request is not gone
    output logic [2:1] window   // a relaxed TLP may pass it
);
    logic [2*COUNT-1:0] entered, stamp;  // non-posted requests in the lower half
    logic posted;

    pcie_tl_fifo #(
        .WIDTH(2 * COUNT),
        .DEPTH(POSTED)
    ) stamps (
        .clk(clk),
        .rst(rst),
        .push(push[0]),
        .push_data(entered),
        .pop(posted_done),
        .valid(posted),
        .head(stamp),
        .count()
    );

    for (genvar n = 1; n <= 2; n++) begin : others
        // TLPs that entered before the oldest posted request and have not left; negative: these have passed it.
        logic [COUNT-1:0] left, ahead;
        assign ahead = stamp[COUNT*(n-1)+:COUNT] - left;
        assign waits[n] = posted && (ahead[COUNT-1] || ahead == '0);
        assign window[n] = !ahead[COUNT-1] || ahead[COUNT-2];
        always_ff @(posedge clk)
            if (rst) begin
                entered[COUNT*(n-1)+:COUNT] <= '0;
                left <= '0;
            end else begin
                if (push[n]) entered[COUNT*(n-1)+:COUNT] <= entered[COUNT*(n-1)+:COUNT] + 1'b1;
                if (start[n]) left <= left + 1'b1;
            end
    end

`ifdef PROVE_ORDER
`include "order_properties.svh"
`endif
endmodule
