// SPDX-License-Identifier: Apache-2.0 OR MIT
// CRC-16 of a DLLP (PCIe 6.0 §3.5.1), combinational. `bytes` has byte 0 in bits 7:0; `crc` has the byte that is first
// on the wire in bits 7:0. The bits of the register are in reverse order, so that bit 0 of byte 0 is processed first.
module pcie_dll_crc16 (
    input logic [31:0] bytes,
    output logic [15:0] crc
);
    localparam logic [15:0] POLYNOMIAL = 16'hd008;  // 100Bh mirrored

    // Register after 32 bits of which only bit `from` is set.
    function automatic logic [15:0] image(input int from, input logic [15:0] start);
        image = start;
        for (int n = 0; n < 32; n++) image = {1'b0, image[15:1]} ^ (image[0] ^ (n == from) ? POLYNOMIAL : 16'd0);
    endfunction
    function automatic logic [511:0] make_images();
        for (int n = 0; n < 32; n++) make_images[16*n+:16] = image(n, 16'd0);
    endfunction
    localparam logic [511:0] IMAGES = make_images();
    localparam logic [15:0] SEED = image(32, 16'hffff);

    always_comb begin
        crc = ~SEED;
        for (int n = 0; n < 32; n++) crc = crc ^ (IMAGES[16*n+:16] & {16{bytes[n]}});
    end
endmodule
