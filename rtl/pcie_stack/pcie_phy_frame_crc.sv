// SPDX-License-Identifier: Apache-2.0 OR MIT
// Frame CRC and frame parity of an STP token's TLP Length (PCIe 6.0 §4.2.2.3.1). Combinational.
module pcie_phy_frame_crc (
    input logic [10:0] length,
    output logic [3:0] crc,
    output logic parity
);
    assign crc[0] = ^(length & 11'b100_1101_0111);
    assign crc[1] = ^(length & 11'b110_1011_1100);
    assign crc[2] = ^(length & 11'b011_0101_1110);
    assign crc[3] = ^(length & 11'b001_1010_1111);
    assign parity = ^length ^ ^crc;
endmodule
