// SPDX-License-Identifier: Apache-2.0 OR MIT
// Selects the bytes of an RQ beat. Their sources are the current row, the previous row, and the data in the request. The caller has rotated
// both rows by less than half a row. This module adds the rotation by half a row: it takes a byte from either half. Combinational.
// Each bit is one LUT. Without keep_hierarchy, Yosys merges it with other logic, which takes more LUTs.
(* keep_hierarchy *)
module dma_engine_choice #(
    parameter int HALF_BYTES = 16,
    localparam int HALF = 8 * HALF_BYTES
) (
    input logic [HALF_BYTES/16-1:0] low_select,  // one bit per 16 bytes of the lower half
    input logic high_select,                     // for the upper half
    input logic [2*HALF_BYTES-1:0] selects,      // one bit per byte
    input logic [2*HALF-1:0] row,
    input logic [2*HALF-1:0] earlier,
    input logic [2*HALF-1:0] brought,
    output logic [2*HALF-1:0] out
);
    always_comb
        for (int b = 0; b < HALF_BYTES; b++) begin
            out[8*b+:8] = low_select[b/16] ? (selects[b] ? brought[8*b+:8] : earlier[HALF+8*b+:8]) : selects[b] ? earlier[8*b+:8] : row[8*b+:8];
            out[HALF+8*b+:8] = high_select ? (selects[HALF_BYTES+b] ? earlier[8*b+:8] : row[8*b+:8]) :
                                             selects[HALF_BYTES+b] ? brought[HALF+8*b+:8] : row[HALF+8*b+:8];
        end
endmodule
