// SPDX-License-Identifier: Apache-2.0 OR MIT
// Holds back a stream of non-posted requests or completions until the posted TLPs that were stored when a TLP of the stream arrived have left.
module pcie_stack_order #(
    parameter int COUNT = 6
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic sop,
    output logic out_valid,
    input logic out_ready,
    input logic [COUNT-1:0] stored,  // posted TLPs in the store
    input logic leaves               // one of them leaves in this cycle
);
    // Posted TLPs ahead of the waiting TLP; `counted` from the cycle after its first beat was offered.
    logic counted;
    logic [COUNT-1:0] ahead;
    logic free;
    assign free = !sop || (counted ? ahead : stored) == '0;
    assign out_valid = in_valid && free;
    assign in_ready = out_ready && free;
    always_ff @(posedge clk)
        if (rst || !(in_valid && sop) || in_ready) counted <= 1'b0;
        else begin
            counted <= 1'b1;
            if (!counted) ahead <= stored - COUNT'(leaves);
            else if (ahead != '0) ahead <= ahead - COUNT'(leaves);
        end
endmodule
