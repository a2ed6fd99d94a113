// SPDX-License-Identifier: Apache-2.0 OR MIT
// Address map of BAR 0 (registers/dma_engine.rdl). Engines' registers and vectors are 64-bit words of one memory, 16
// per engine. Words 0 to 7 are the same as in the BAR; words 8 and 9 are the engine's vector of the MSI-X table.
// Combinational.
module dma_engine_map #(
    parameter int H2D_ENGINES = 1,
    parameter int D2H_ENGINES = 1,
    parameter int DEVICE_ENTRIES = 8,
    parameter int FUNCTIONS = 2
) (
    input logic [13:0] address,  // of a double-word
    output logic in_function,    // a register of the function: 16 of them
    output logic in_engine,      // a word of an engine
    output logic in_weights,
    output logic in_pending,
    output logic in_descriptors,
    output logic [3:0] engine,
    output logic [3:0] word,
    output logic [31:0] writable,
    output logic needs_quiet     // a write may stop a transfer in progress
);
    `include "dma_engine_registers.svh"
    localparam int N = H2D_ENGINES + D2H_ENGINES;
    logic [15:0] at;
    logic in_registers, in_table;

    assign at = {address, 2'b00};
    assign in_function = at < 16'h40;
    assign in_registers = at[15:11] == R_ENGINE[15:11] && !at[6] && 5'(at[10:7]) < 5'(N);
    assign in_table = at[15:8] == R_MSIX_TABLE[15:8] && 5'(at[7:4]) < 5'(N);
    assign in_engine = in_registers || in_table;
    assign in_weights = at[15:10] == R_VF_WEIGHTS[15:10] && 9'(at[9:2]) + 9'd1 < 9'(FUNCTIONS);
    assign in_pending = at == R_MSIX_PENDING;
    assign in_descriptors = at[15] && 11'(at[14:5]) < 11'(N * DEVICE_ENTRIES);
    assign engine = in_table ? at[7:4] : at[10:7];
    assign word = in_table ? {3'b100, at[3]} : {1'b0, at[5:3]};
    assign needs_quiet = at == R_CONTROL || (in_registers && at[6:2] == R_ENGINE_CONTROL[6:2]);

    always_comb begin
        writable = '0;
        if (in_descriptors)
            case (at[4:0])
                R_DESCRIPTOR_FLAGS[4:0]: writable = R_DESCRIPTOR_FLAGS_WRITABLE;
                R_DESCRIPTOR_STATUS[4:0]: writable = R_DESCRIPTOR_STATUS_WRITABLE;
                default: writable = '1;
            endcase
        else if (in_table) writable = at[3:2] == 2'd3 ? 32'd1 : '1;
        else if (in_registers)
            case (at[6:0])
                R_ENGINE_CONTROL[6:0]: writable = R_ENGINE_CONTROL_WRITABLE;
                R_ENGINE_RING[6:0]: writable = R_ENGINE_RING_WRITABLE[31:0];
                7'(R_ENGINE_RING + 16'd4): writable = R_ENGINE_RING_WRITABLE[63:32];
                R_ENGINE_ENTRIES[6:0]: writable = R_ENGINE_ENTRIES_WRITABLE;
                R_ENGINE_POSTED[6:0]: writable = R_ENGINE_POSTED_WRITABLE;
                R_ENGINE_WRITE_BACK[6:0]: writable = R_ENGINE_WRITE_BACK_WRITABLE[31:0];
                7'(R_ENGINE_WRITE_BACK + 16'd4): writable = R_ENGINE_WRITE_BACK_WRITABLE[63:32];
                R_ENGINE_COALESCING[6:0]: writable = R_ENGINE_COALESCING_WRITABLE;
                R_ENGINE_SEED[6:0]: writable = R_ENGINE_SEED_WRITABLE[31:0];
                7'(R_ENGINE_SEED + 16'd4): writable = R_ENGINE_SEED_WRITABLE[63:32];
                default: writable = '0;
            endcase
    end
endmodule
