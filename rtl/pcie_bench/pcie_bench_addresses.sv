// SPDX-License-Identifier: Apache-2.0 OR MIT
// Generates the offset of each transfer in the window (SIGCOMM'18, §4). The window is divided into units of whole cache
// lines, of which none crosses 4 KiB. Units are used in order, or at random by an xorshift generator of 64 bits.
// Handshake: `load` starts with new settings. While `ready`, `offset` is the next one, and `step` advances.
module pcie_bench_addresses (
    input logic clk,
    input logic rst,

    input logic load,
    input logic random,
    input logic [63:0] seed,
    input logic [6:0] unit,           // in cache lines: 1 to 64
    input logic [38:0] window_bytes,  // a power of two, at least a unit

    output logic ready,
    input logic step,
    output logic [37:0] offset
);
    // ---- units per 4 KiB, counted after `load` ----
    logic counts;
    logic [1:0] fills;        // steps until the first offset is there
    logic [6:0] slots;
    logic [7:0] reach;        // end of unit number `slots`, in cache lines
    logic [6:0] limit;        // cache lines of a page, or of a smaller window
    logic [25:0] last_page;
    logic fits, advance;

    assign limit = window_bytes >= 39'd4096 ? 7'd64 : window_bytes[12:6];
    assign fits = reach <= {1'b0, limit};
    assign advance = step || fills != 2'd0;
    assign ready = !counts && fills == 2'd0;

    always_ff @(posedge clk)
        if (rst) begin
            counts <= 1'b0;
            fills <= 2'd0;
        end else if (load) begin
            counts <= 1'b1;
            fills <= 2'd0;
        end else if (counts) begin
            counts <= fits;
            fills <= fits ? 2'd0 : 2'd2;
        end else if (fills != 2'd0) fills <= fills - 1'b1;
    always_ff @(posedge clk)
        if (load) begin
            slots <= 7'd0;
            reach <= {1'b0, unit};
            last_page <= window_bytes[38:12] == '0 ? '0 : 26'(window_bytes[38:12] - 1'b1);
        end else if (counts && fits) begin
            slots <= slots + 1'b1;
            reach <= reach + {1'b0, unit};
        end

    // ---- first stage: the state of both orders ----
    logic [63:0] state, mixed_left, mixed_right, mixed;
    logic [25:0] next_page;
    logic [6:0] next_slot;
    logic ends_page;

    assign mixed_left = state ^ (state << 13);
    assign mixed_right = mixed_left ^ (mixed_left >> 7);
    assign mixed = mixed_right ^ (mixed_right << 17);
    assign ends_page = next_slot + 1'b1 == slots;
    always_ff @(posedge clk)
        if (load) begin
            // Zero is the only state without a successor.
            state <= seed == '0 ? 64'd1 : seed;
            next_page <= '0;
            next_slot <= '0;
        end else if (advance) begin
            state <= mixed;
            next_slot <= ends_page ? 7'd0 : next_slot + 1'b1;
            if (ends_page) next_page <= next_page == last_page ? '0 : next_page + 1'b1;
        end

    // ---- second stage: page and unit; third stage: offset ----
    logic [25:0] page;
    logic [6:0] slot;

    always_ff @(posedge clk)
        if (advance) begin
            page <= random ? state[41:16] & last_page : next_page;
            slot <= random ? 7'((23'(state[15:0]) * 23'(slots)) >> 16) : next_slot;
            offset <= {page, 6'(slot * unit), 6'd0};
        end
endmodule
