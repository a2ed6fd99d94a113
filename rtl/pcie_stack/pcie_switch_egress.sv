// SPDX-License-Identifier: Apache-2.0 OR MIT
// Arbitrates one egress port: whole TLPs, round robin.
// Handshake: `request` is valid with the first beat of a TLP whose type has room; `present` with each beat. A TLP that began is never stalled by the port.
// `taken` is one-hot.
module pcie_switch_egress #(
    parameter int SOURCES = 11
) (
    input logic clk,
    input logic rst,
    input logic [SOURCES-1:0] request,
    input logic [SOURCES-1:0] present,
    input logic [SOURCES-1:0] eop,
    input logic hold,             // grant nothing
    input logic broadcast,        // grant source 0
    output logic busy,            // within a TLP
    output logic [SOURCES-1:0] taken
);
    logic [SOURCES-1:0] owner, after, preferred, candidates, lowest;
    assign preferred = request & after;
    assign candidates = preferred != '0 ? preferred : request;
    assign lowest = candidates & (~candidates + 1'b1);
    always_comb begin
        taken = busy ? owner & present : broadcast ? SOURCES'(1) : hold ? '0 : lowest;
    end
    always_ff @(posedge clk)
        if (rst) begin
            busy <= 1'b0;
            after <= '0;
        end else if (taken != '0) begin
            busy <= (taken & eop) == '0;
            // Sources above the one that is served come first at the next choice.
            if (!busy && !broadcast) after <= ~(taken | (taken - 1'b1));
        end
    always_ff @(posedge clk) if (!busy) owner <= taken;
endmodule
