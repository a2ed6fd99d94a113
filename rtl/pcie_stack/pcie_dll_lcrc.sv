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
    // 4 rows together take the fewest LUTs. In a simulation, single rows are the fastest. Tests set LCRC_ROWS to simulate what is synthesized.
`ifdef LCRC_ROWS
    localparam int ROWS = `LCRC_ROWS;
`elsif VERILATOR
    localparam int ROWS = 1;
`else
    localparam int ROWS = 4;
`endif
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

    // The rows of MASKS are taken in groups. A bit of `mixed` has one of 2**ROWS patterns in a group. Bits of one pattern are summed once for all rows.
    function automatic logic [32*DATA_WIDTH/ROWS*2**ROWS-1:0] make_patterns();
        logic [DATA_WIDTH-1:0] members;
        for (int g = 0; g < 32 / ROWS; g++)
            for (int p = 0; p < 2 ** ROWS; p++) begin
                members = {DATA_WIDTH{1'b1}};
                for (int r = 0; r < ROWS; r++) members = members & (MASKS[DATA_WIDTH*(ROWS*g+r)+:DATA_WIDTH] ^ {DATA_WIDTH{(p >> r) % 2 == 0}});
                make_patterns[DATA_WIDTH*(2**ROWS*g+p)+:DATA_WIDTH] = members;
            end
    endfunction
    localparam logic [32*DATA_WIDTH/ROWS*2**ROWS-1:0] PATTERNS = make_patterns();

    // Patterns with each row.
    function automatic logic [ROWS*2**ROWS-1:0] make_has_row();
        for (int r = 0; r < ROWS; r++) for (int p = 0; p < 2 ** ROWS; p++) make_has_row[2**ROWS*r+p] = (p >> r) % 2 == 1;
    endfunction
    localparam logic [ROWS*2**ROWS-1:0] HAS_ROW = make_has_row();

    logic [DATA_WIDTH-1:0] mixed;
    always_comb begin
        mixed = data;
        mixed[31:0] = data[31:0] ^ (first ? SEED : state);
    end

    function automatic logic [31:0] product(input logic [DATA_WIDTH-1:0] vector);
        logic [2**ROWS-1:0] sums;  // by pattern, of one group
        for (int g = 0; g < 32 / ROWS; g++) begin
            for (int p = 0; p < 2 ** ROWS; p++) sums[p] = p != 0 && ^(vector & PATTERNS[DATA_WIDTH*(2**ROWS*g+p)+:DATA_WIDTH]);
            for (int r = 0; r < ROWS; r++) product[ROWS*g+r] = ^(sums & HAS_ROW[2**ROWS*r+:2**ROWS]);
        end
    endfunction

    always_ff @(posedge clk) if (valid) state <= product(mixed);
endmodule
