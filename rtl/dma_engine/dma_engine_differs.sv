// SPDX-License-Identifier: Apache-2.0 OR MIT
// Compares two groups of three bits. Combinational: one LUT, which keep_hierarchy preserves in synthesis.
(* keep_hierarchy *)
module dma_engine_differs (
    input logic [2:0] a,
    input logic [2:0] b,
    output logic differs
);
    assign differs = a != b;
endmodule
