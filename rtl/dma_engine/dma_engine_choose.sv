// SPDX-License-Identifier: Apache-2.0 OR MIT
// Selects one of four words. Combinational: one LUT per bit, which keep_hierarchy preserves in synthesis.
(* keep_hierarchy *)
module dma_engine_choose #(
    parameter int WIDTH = 64
) (
    input logic [1:0] select,
    input logic [WIDTH-1:0] a,
    input logic [WIDTH-1:0] b,
    input logic [WIDTH-1:0] c,
    input logic [WIDTH-1:0] d,
    output logic [WIDTH-1:0] out
);
    assign out = select[1] ? (select[0] ? d : c) : select[0] ? b : a;
endmodule
