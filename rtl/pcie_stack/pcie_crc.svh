// SPDX-License-Identifier: Apache-2.0 OR MIT
// Constant functions for the CRCs of the data link layer (PCIe 6.0 §3.5.1, §3.6.2.1). They run at elaboration only.
//
// One bit through the LCRC's shift register is a 32 x 32 matrix over GF(2). The register is kept mirrored, so that bit 0 of a
// byte, which is first on the wire, is bit 0 of the data. A matrix is a vector of 1024 bits: column j in bits 32j+31:32j.
    localparam logic [31:0] LCRC_POLYNOMIAL = 32'hedb8_8320;  // 04C1_1DB7h mirrored

    function automatic logic [31:0] lcrc_apply(input logic [1023:0] matrix, input logic [31:0] vector);
        lcrc_apply = '0;
        for (int j = 0; j < 32; j++) if (vector[j]) lcrc_apply = lcrc_apply ^ matrix[32*j+:32];
    endfunction

    function automatic logic [1023:0] lcrc_product(input logic [1023:0] left, input logic [1023:0] right);
        for (int j = 0; j < 32; j++) lcrc_product[32*j+:32] = lcrc_apply(left, right[32*j+:32]);
    endfunction

    // 32 zero bits through the register, or 32 bits back if `back`.
    function automatic logic [1023:0] lcrc_dword(input logic back);
        for (int j = 0; j < 32; j++) lcrc_dword[32*j+:32] = lcrc_shift(32'd1 << j, 32, back);
    endfunction

    function automatic logic [31:0] lcrc_shift(input logic [31:0] value, input int bits, input logic back);
        lcrc_shift = value;
        for (int n = 0; n < bits; n++)
            if (back) lcrc_shift = lcrc_shift[31] ? {lcrc_shift[30:0] ^ LCRC_POLYNOMIAL[30:0], 1'b1} : {lcrc_shift[30:0], 1'b0};
            else lcrc_shift = {1'b0, lcrc_shift[31:1]} ^ (lcrc_shift[0] ? LCRC_POLYNOMIAL : 32'd0);
    endfunction

    // Rows instead of columns: bit i of the product is the parity of the vector under bits 32i+31:32i.
    function automatic logic [1023:0] lcrc_rows(input logic [1023:0] matrix);
        for (int i = 0; i < 32; i++) for (int j = 0; j < 32; j++) lcrc_rows[32*i+j] = matrix[32*j+i];
    endfunction
