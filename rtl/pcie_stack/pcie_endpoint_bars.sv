// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tells which BAR claims an address, and where the address is on the bus of the peripheral.
// Handshake: none; combinational.
module pcie_endpoint_bars #(
    parameter logic [6*64-1:0] SIZES = '0,  // part n: bytes of BAR n, 0 if it does not exist
    parameter logic [6*64-1:0] BASES = '0,  // part n: where BAR n begins on the bus
    parameter logic [5:0] WIDE = '0,        // bit n: BAR n has 64 bits
    parameter int MSIX_BAR = -1             // BAR of the MSI-X table
) (
    input logic [63:0] address,
    input logic [6*32-1:0] bars,
    input logic memory_enable,
    output logic hit,
    output logic in_table,
    output logic [63:2] bus_address
);
    // verilator lint_off UNUSEDSIGNAL
    logic [63:0] at[0:5];
    // verilator lint_on UNUSEDSIGNAL
    logic [5:0] claims;
    for (genvar n = 0; n < 6; n++) begin : decoders
        localparam logic [63:0] SIZE = SIZES[64*n+:64];
        localparam logic [63:0] MASK = ~(SIZE - 64'd1);
        logic [63:0] base;
        if (WIDE[n] && n < 5) assign base = {bars[32*n+:64]};
        else assign base = {32'd0, bars[32*n+:32]};
        assign claims[n] = SIZE != '0 && (address & MASK) == (base & MASK);
        assign at[n] = claims[n] ? BASES[64*n+:64] | (address & ~MASK) : '0;
    end
    assign hit = claims != '0 && memory_enable;
    if (MSIX_BAR >= 0) assign in_table = claims[MSIX_BAR];
    else assign in_table = 1'b0;
    // Software must not assign overlapping BARs; if it does, the address on the bus is undefined.
    assign bus_address = at[0][63:2] | at[1][63:2] | at[2][63:2] | at[3][63:2] | at[4][63:2] | at[5][63:2];
endmodule
