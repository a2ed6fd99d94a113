// SPDX-License-Identifier: Apache-2.0 OR MIT
// Running LCRC of a frame, one beat a cycle (PCIe 6.0 §3.6.2.1). `state` is the register after the last beat, not complemented.
// Handshake: none. Double-words after the end of a frame are zero; users correct for them, or compare with a constant that does.
//
// The LCRC begins with the two bytes of the sequence number, which are bytes 2 and 3 of the first double-word. Bytes 0 and 1 are
// zero, and the seed is the one that 16 zero bits turn into FFFF_FFFFh. An ECRC begins with byte 0: SKIPPED is 0.
module pcie_dll_lcrc #(
    parameter int DATA_WIDTH = 256,
    parameter int SKIPPED = 16  // bits before those that count
) (
    input logic clk,
    input logic valid,
    input logic first,
    input logic [DATA_WIDTH-1:0] data,
    output logic [31:0] state
);
    `include "pcie_crc.svh"
    localparam int LANES = DATA_WIDTH / 32;
    localparam logic [31:0] SEED = lcrc_shift(32'hffff_ffff, SKIPPED, 1'b1);

    // Bit i of the next state is the parity of `mixed` under mask i. Mask i is bits DATA_WIDTH * i and up of MASKS.
    function automatic logic [32*DATA_WIDTH-1:0] make_masks();
        logic [1023:0] one, power, rows;
        one = lcrc_dword(1'b0);
        power = one;
        for (int lane = LANES - 1; lane >= 0; lane--) begin
            rows = lcrc_rows(power);
            for (int i = 0; i < 32; i++) make_masks[DATA_WIDTH*i+32*lane+:32] = rows[32*i+:32];
            power = lcrc_product(one, power);
        end
    endfunction
    localparam logic [32*DATA_WIDTH-1:0] MASKS = make_masks();

    logic [DATA_WIDTH-1:0] mixed;
    always_comb begin
        mixed = data;
        mixed[31:0] = data[31:0] ^ (first ? SEED : state);
    end

    always_ff @(posedge clk)
        if (valid) for (int i = 0; i < 32; i++) state[i] <= ^(mixed & MASKS[DATA_WIDTH*i+:DATA_WIDTH]);
endmodule
