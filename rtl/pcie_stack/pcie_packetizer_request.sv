// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes TLPs of requests and messages: header and data, one double-word per cycle, into whole beats.
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
    input logic [2:0] request_kind,       // SEND_*
    input logic request_type1,            // configuration request: type 1; message: gathered on its way to the root complex
    input logic [15:0] requester,
    input logic [61:0] request_address,   // double-word address; configuration: bus, device, function, register in bits 25:0; message: 0
    input logic [9:0] request_length,     // message: 0
    input logic [3:0] request_first_be,   // message: bits 3:0 of its code
    input logic [3:0] request_last_be,    // message: bits 7:4 of its code
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

    function automatic logic [31:0] swapped(input logic [31:0] word);
        swapped = {word[7:0], word[15:8], word[23:16], word[31:24]};
    endfunction

    // ---- the request ----
    logic busy, type1;
    logic [2:0] kind;
    logic [61:0] address;
    logic [9:0] length, left;
    logic [3:0] first_be, last_be;
    logic [7:0] tag;
    logic [31:0] config_data;
    logic [1:0] index;
    logic in_data, is_config, is_write, is_message, wide, header_last, tlp_last, put, room;

    assign is_message = kind[2];
    assign is_config = kind[1];
    assign is_write = kind[0];
    assign wide = is_message || (!is_config && address[61:30] != '0);
    assign put = busy && room;
    assign header_last = index == (wide ? 2'd3 : 2'd2);
    assign tlp_last = in_data ? left == 10'd1 : header_last && !is_write;
    assign request_ready = !busy;
    assign data_take = put && in_data && !is_config;

    logic [31:0] header, word;
    always_comb
        case (index)
            2'd0: header = {1'b0, is_write, wide, is_config ? {4'b0010, type1} : is_message ? {2'b10, type1, 1'b0, type1} : 5'd0, 14'd0, length};
            2'd1: header = {requester, tag, last_be, first_be};
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

    pcie_packetizer_beats #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) beats (
        .clk(clk),
        .rst(rst),
        .put(busy),
        .ready(room),
        .word(word),
        .last(tlp_last),
        .posted(kind == SEND_MWR),
        .tx_valid(tx_valid),
        .tx_ready(tx_ready),
        .tx_sop(tx_sop),
        .tx_eop(tx_eop),
        .tx_end(tx_end),
        .tx_data(tx_data),
        .tx_posted(tx_posted)
    );
endmodule
