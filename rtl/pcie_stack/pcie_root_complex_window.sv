// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tells to which region of the complex a bus address belongs. A window is a power of two in size and aligned to it.
// Handshake: none; combinational.
module pcie_root_complex_window #(
    parameter logic [63:0] REGISTER_BASE = 64'h0000_0000_2000_0000,
    parameter logic [63:0] ECAM_BASE = 64'h0000_0000_3000_0000,
    parameter int ECAM_BUSES = 256,
    parameter logic [63:0] MEMORY32_BASE = 64'h0000_0000_4000_0000,
    parameter logic [63:0] MEMORY32_SIZE = 64'h0000_0000_4000_0000,
    parameter logic [63:0] MEMORY64_BASE = 64'h0000_0040_0000_0000,
    parameter logic [63:0] MEMORY64_SIZE = 64'h0000_0040_0000_0000
) (
    input logic [63:0] address,
    output logic in_registers,
    output logic in_config,
    output logic in_memory
);
    localparam logic [63:0] REGISTER_MASK = ~64'hfff;
    localparam logic [63:0] ECAM_MASK = ~(64'(ECAM_BUSES) * 64'h10_0000 - 64'd1);
    localparam logic [63:0] MEMORY32_MASK = ~(MEMORY32_SIZE - 64'd1);
    localparam logic [63:0] MEMORY64_MASK = ~(MEMORY64_SIZE - 64'd1);
    assign in_registers = (address & REGISTER_MASK) == REGISTER_BASE;
    assign in_config = (address & ECAM_MASK) == ECAM_BASE;
    assign in_memory = (address & MEMORY32_MASK) == MEMORY32_BASE || (address & MEMORY64_MASK) == MEMORY64_BASE;
endmodule
