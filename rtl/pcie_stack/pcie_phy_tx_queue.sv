// SPDX-License-Identifier: Apache-2.0 OR MIT
// Stores beats of the data link layer. The oldest beat is presented as it goes to the link, with the length of its frame. The length of a TLP comes from its
// header, because the STP token of 128b/130b carries it ahead of the TLP. At 8b/10b it moves the bytes of a frame by one: STP
// or SDP replaces byte 1, and END or EDB follows the last byte. That takes the first byte of the next beat.
//
// The header must be in the first beat. This limits prefixes to 2 at 128 bits, 6 at 256 and 512 bits, and none at 64 bits.
module pcie_phy_tx_queue #(
    parameter int DATA_WIDTH = 256,
    parameter int BLOCKS = 1,  // 128b/130b
    localparam int LANE = $clog2(DATA_WIDTH / 32),
    localparam int DWORDS = DATA_WIDTH / 32
) (
    input logic clk,
    input logic rst,

    input logic frame_valid,
    input logic frame_sop,
    input logic frame_eop,
    input logic frame_dllp,
    input logic frame_nullify,
    input logic [LANE-1:0] frame_end,
    input logic [DATA_WIDTH-1:0] frame_data,
    output logic frame_ready,

    output logic valid,
    output logic sop,
    output logic eop,
    output logic dllp,
    output logic nullify,
    output logic [LANE-1:0] last,            // lane of the last double-word, with eop
    output logic [10:0] length,              // double-words of the frame on the link, without EDB; with sop
    output logic [10:0] length_less_1,
    output logic [DATA_WIDTH-1:0] data,      // as on the link, except 128b/130b tokens
    output logic [DWORDS-1:0] first_control, // 8b/10b: byte 0 is STP or SDP
    output logic [DWORDS-1:0] last_control,  // 8b/10b: byte 3 is END or EDB
    input logic take
);
    `include "pcie_phy.svh"
    localparam int WIDTH = DATA_WIDTH + LANE + 4;
    localparam int DEPTH = 16;

    logic [$clog2(DEPTH):0] count;
    logic stored_valid, load, write, can_load;
    logic [WIDTH-1:0] stored, arriving, loading, held;
    logic held_valid;
    assign frame_ready = count < 5'(DEPTH - 1);
    assign arriving = {frame_sop, frame_eop, frame_dllp, frame_nullify, frame_end, frame_data};
    // The oldest beat is in `held`; beats go around the memory if it is empty.
    assign load = !held_valid || take;
    assign can_load = stored_valid || (frame_valid && frame_ready);
    assign write = frame_valid && frame_ready && (stored_valid || !load);
    assign loading = stored_valid ? stored : arriving;
    pcie_phy_queue #(
        .WIDTH(WIDTH),
        .DEPTH(DEPTH)
    ) beats (
        .clk(clk),
        .rst(rst),
        .write(write),
        .word(arriving),
        .valid(stored_valid),
        .front(stored),
        .take(load),
        .count(count)
    );
    always_ff @(posedge clk)
        if (rst) held_valid <= 1'b0;
        else if (load) held_valid <= can_load;
    always_ff @(posedge clk) if (load) held <= loading;

    logic [DATA_WIDTH-1:0] held_data;
    assign {sop, eop, dllp, nullify, last, held_data} = held;

    // ---- length ----
    // Double-word 0 of the frame has the sequence number; prefixes (Fmt 100b) come before the header.
    localparam int SEEN = DWORDS < 8 ? DWORDS : 8;
    function automatic logic [10:0] tlp_length(input logic [32*SEEN-1:0] beat, input logic [4:0] framing);
        logic found;
        logic [4:0] overhead;
        logic [12:0] fields;  // TD, Fmt[1], Fmt[0], Length
        found = 1'b0;
        overhead = '0;
        fields = '0;
        for (int n = 1; n < SEEN; n++)
            if (!found && (beat[32*n+5+:3] != 3'b100 || n == SEEN - 1)) begin
                found = 1'b1;
                overhead = framing + 5'(n + 2);
                fields = {beat[32*n+23], beat[32*n+5+:2], beat[32*n+16+:2], beat[32*n+24+:8]};
            end
        overhead = overhead + 5'(fields[12]) + 5'(fields[10]);
        tlp_length = (fields[11] ? {fields[9:0] == '0, fields[9:0]} : 11'd0) + 11'(overhead);
    endfunction
    // Token and LCRC are two double-words.
    always_ff @(posedge clk)
        if (load) begin
            length <= loading[DATA_WIDTH+LANE+1] ? 11'd2 : tlp_length(loading[32*SEEN-1:0], 5'd2);
            length_less_1 <= loading[DATA_WIDTH+LANE+1] ? 11'd1 : tlp_length(loading[32*SEEN-1:0], 5'd1);
        end

    if (BLOCKS != 0) begin : blocks
        assign valid = held_valid;
        assign data = held_data;
        assign first_control = '0;
        assign last_control = '0;
    end else begin : symbols
        assign valid = held_valid && (eop || can_load);
        logic [DATA_WIDTH+31:0] bytes;
        assign bytes = {loading[31:0], held_data};
        always_comb begin
            for (int n = 0; n < DWORDS; n++) begin
                first_control[n] = sop && n == 0;
                last_control[n] = eop && LANE'(n) == last;
                data[32*n+:8] = first_control[n] ? (dllp ? K_SDP : K_STP) : bytes[32*n+8+:8];
                data[32*n+8+:16] = bytes[32*n+16+:16];
                data[32*n+24+:8] = last_control[n] ? (nullify ? K_EDB : K_END) : bytes[32*n+32+:8];
            end
        end
    end
endmodule
