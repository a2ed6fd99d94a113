// SPDX-License-Identifier: Apache-2.0 OR MIT
// Checks whether bytes of a row differ from the stream of incrementing integers. Combinational.
// Without keep_hierarchy, Yosys merges this logic with the shift before it, which takes more LUTs.
(* keep_hierarchy *)
module dma_engine_check #(
    parameter int BYTES = 32,
    parameter int ROW = 62  // bits of a row number
) (
    input logic [8*BYTES-1:0] data,
    input logic [BYTES-1:0] mask,  // bytes to check
    input logic [ROW-1:0] row,
    output logic differs
);
    logic [BYTES-1:0] wrong;
    for (genvar b = 0; b < BYTES; b++) begin : bytes
        logic [7:0] expected;
        logic low, high;
        assign expected = 8'({row, (64 - ROW)'(b / 8)} >> (8 * (b % 8)));
        dma_engine_differs of_low (.a(data[8*b+:3]), .b(expected[2:0]), .differs(low));
        dma_engine_differs of_high (.a(data[8*b+3+:3]), .b(expected[5:3]), .differs(high));
        assign wrong[b] = mask[b] && (low || high || data[8*b+6+:2] != expected[7:6]);
    end
    assign differs = wrong != '0;
endmodule
