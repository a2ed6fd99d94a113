// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes TLPs of requests: header and data, one double-word per cycle, into whole beats. A TLP is offered when it is complete, so that it
// never pauses between beats.
// Handshake: `request_ready` takes a request with its fields. The data of a memory write is taken from data_* afterwards, by
// `data_take`. tx_* is the stream of TLPs; a beat stays until tx_ready.
module pcie_packetizer_request #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 256,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,

    input logic request_valid,
    output logic request_ready,
    input logic [1:0] request_kind,       // SEND_*
    input logic request_type1,            // configuration request: type 1
    input logic [61:0] request_address,   // double-word address; configuration: bus, device, function, register in bits 25:0
    input logic [9:0] request_length,
    input logic [3:0] request_first_be,
    input logic [3:0] request_last_be,
    input logic [7:0] request_tag,
    input logic [31:0] request_data,      // configuration write

    input logic [31:0] data,
    output logic data_take,

    output logic tx_valid,
    input logic tx_ready,
    output logic tx_sop,
    output logic tx_eop,
    output logic [LANE-1:0] tx_end,
    output logic [DATA_WIDTH-1:0] tx_data,
    output logic tx_posted                // with tx_eop: the TLP is a memory write
);
    `include "pcie_root_complex.svh"
    localparam int BEATS = (MAX_PAYLOAD + 16 + DATA_WIDTH / 8 - 1) / (DATA_WIDTH / 8);
    localparam int ROWS = 2 ** $clog2(2 * BEATS);
    localparam int ROW = $clog2(ROWS);

    function automatic logic [31:0] swapped(input logic [31:0] word);
        swapped = {word[7:0], word[15:8], word[23:16], word[31:24]};
    endfunction

    // ---- the request ----
    logic busy, type1;
    logic [1:0] kind;
    logic [61:0] address;
    logic [9:0] length, left;
    logic [3:0] first_be, last_be;
    logic [7:0] tag;
    logic [31:0] config_data;
    logic [1:0] index;
    logic in_data, is_config, is_write, wide, header_last, tlp_last, put;

    assign is_config = kind[1];
    assign is_write = kind[0];
    assign wide = !is_config && address[61:30] != '0;
    assign header_last = index == (wide ? 2'd3 : 2'd2);
    assign tlp_last = in_data ? left == 10'd1 : header_last && !is_write;
    assign request_ready = !busy;
    assign data_take = put && in_data && !is_config;

    logic [31:0] header, word;
    always_comb
        case (index)
            2'd0: header = {1'b0, is_write, wide, is_config ? {4'b0010, type1} : 5'd0, 14'd0, length};
            2'd1: header = {16'd0, tag, last_be, first_be};
            2'd2: header = is_config ? {address[25:10], 4'd0, address[9:0], 2'd0} : wide ? address[61:30] : {address[29:0], 2'd0};
            default: header = {address[29:0], 2'd0};
        endcase
    assign word = !in_data ? swapped(header) : is_config ? config_data : data;

    always_ff @(posedge clk)
        if (rst) busy <= 1'b0;
        else if (!busy) busy <= request_valid;
        else if (put && tlp_last) busy <= 1'b0;
    always_ff @(posedge clk)
        if (!busy) begin
            kind <= request_kind;
            type1 <= request_type1;
            address <= request_address;
            length <= request_length;
            left <= request_length;
            first_be <= request_first_be;
            last_be <= request_last_be;
            tag <= request_tag;
            config_data <= request_data;
            index <= '0;
            in_data <= 1'b0;
        end else if (put) begin
            index <= index + 1'b1;
            if (header_last) in_data <= 1'b1;
            if (in_data) left <= left - 1'b1;
        end

    // ---- beats ----
    logic [DATA_WIDTH-1:0] beat, filled;
    logic [LANE-1:0] lane;
    logic first, beat_done, row_free;
    logic [ROW:0] write_row, read_row;
    logic [ROW:0] whole;  // TLPs that are complete
    assign row_free = write_row - read_row != (ROW + 1)'(ROWS);
    assign put = busy && row_free;
    assign beat_done = put && (tlp_last || lane == LANE'(LANES - 1));
    always_comb begin
        // By comparison: for a variable part Yosys shifts the whole beat.
        for (int n = 0; n < LANES; n++) filled[32*n+:32] = lane == LANE'(n) ? word : beat[32*n+:32];
    end

    (* ram_style = "distributed" *) logic [DATA_WIDTH+LANE+2:0] rows[0:ROWS-1];
    always_ff @(posedge clk) begin
        if (put) beat <= filled;
        if (beat_done) rows[write_row[ROW-1:0]] <= {kind == SEND_MWR, first, tlp_last, lane, filled};
    end
    assign {tx_posted, tx_sop, tx_eop, tx_end, tx_data} = rows[read_row[ROW-1:0]];
    assign tx_valid = whole != '0;

    logic enters, leaves;
    assign enters = beat_done && tlp_last;
    assign leaves = tx_valid && tx_ready && tx_eop;
    always_ff @(posedge clk)
        if (rst) begin
            lane <= '0;
            first <= 1'b1;
            write_row <= '0;
            read_row <= '0;
            whole <= '0;
        end else begin
            if (put) lane <= tlp_last ? '0 : lane + 1'b1;
            if (beat_done) begin
                first <= tlp_last;
                write_row <= write_row + 1'b1;
            end
            if (tx_valid && tx_ready) read_row <= read_row + 1'b1;
            whole <= whole + (ROW + 1)'(enters) - (ROW + 1)'(leaves);
        end
endmodule
