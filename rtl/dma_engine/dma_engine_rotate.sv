// SPDX-License-Identifier: Apache-2.0 OR MIT
// Rotates lanes upwards: lane n of the input is lane (n + amount) modulo LANES of the output. Combinational. This
// module stays separate in synthesis, because Yosys then maps it to fewer LUTs than when it is flattened.
(* keep_hierarchy *)
module dma_engine_rotate #(
    parameter int LANES = 32,  // a power of two
    parameter int WIDTH = 8,
    parameter int STAGES = $clog2(LANES)  // powers of two, smallest first
) (
    input logic [LANES*WIDTH-1:0] in,
    input logic [STAGES-1:0] amount,
    output logic [LANES*WIDTH-1:0] out
);
    localparam int BITS = LANES * WIDTH;

    always_comb begin
        out = in;
        for (int s = 0; s < STAGES; s++) if (amount[s]) out = (out << (WIDTH << s)) | (out >> (BITS - (WIDTH << s)));
    end
endmodule
