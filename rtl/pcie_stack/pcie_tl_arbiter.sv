// SPDX-License-Identifier: Apache-2.0 OR MIT
// Selects the VC that sends next (PCIe 6.0 §6.3.3.1): strict priority of the highest number, round robin, or weighted round robin by a table of
// phases. Combinational; `taken` moves on to the next turn.
//
// A phase whose VC has no TLP that can leave is used by the next VC in round-robin order.
module pcie_tl_arbiter #(
    parameter int NUM_VCS = 1,
    parameter int PHASES = 32  // a power of two
) (
    input logic clk,
    input logic rst,
    input logic [1:0] mode,
    input logic [3*PHASES-1:0] phases,
    input logic [NUM_VCS-1:0] requests,
    input logic taken,
    output logic [2:0] choice
);
    `include "pcie_tl.svh"
    if (NUM_VCS == 1) begin : single
        assign choice = 3'd0;
        logic unused;
        assign unused = &{clk, rst, mode, phases, requests, taken};
    end else begin : several
        logic [2:0] last, of_phase, highest, following;
        logic [$clog2(PHASES)-1:0] phase;
        logic [7:0] all;
        assign all = 8'(requests);

        always_ff @(posedge clk)
            if (rst) begin
                phase <= '0;
                last <= 3'(NUM_VCS - 1);
            end else if (taken) begin
                phase <= phase + 1'b1;
                last <= choice;
            end
        assign of_phase = phases[3*phase+:3];

        always_comb begin
            highest = '0;
            following = '0;
            for (int n = 0; n < NUM_VCS; n++) if (requests[n]) highest = 3'(n);
            for (int n = NUM_VCS - 1; n >= 0; n--) if (requests[n]) following = 3'(n);
            for (int n = NUM_VCS - 1; n >= 0; n--) if (requests[n] && 3'(n) > last) following = 3'(n);
        end
        assign choice = mode == FIXED_PRIORITY ? highest : mode == WEIGHTED && all[of_phase] ? of_phase : following;
    end
endmodule
