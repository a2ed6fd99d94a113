// SPDX-License-Identifier: Apache-2.0 OR MIT
// Credits of one VC and type at the sender (PCIe 6.0 §2.6.1.1).
// Handshake: `grant` takes the oldest TLP's credits in the same cycle; it waits while the slot after it is not free.
//
// The difference of CREDIT_LIMIT and CREDITS_CONSUMED is kept, and the advertised fields of CREDIT_LIMIT. An UpdateFC adds the change of its
// fields, modulo 2^8 and 2^12, times the factor of its scale. The limit may not be 2^n / 2 or more ahead.
module pcie_tl_tx_credits #(
    parameter int IS_POSTED = 0  // 1: the other end advertises at least 128 bytes of data
) (
    input logic clk,
    input logic rst,      // also while the channel is not in flow-control initialization
    input logic scaled,   // scaled flow control is active

    input logic fc_valid,  // of this VC and type
    input logic fc_is_update,
    input logic [23:0] fc_value,

    input logic tlp_valid,
    input logic [8:0] tlp_credits,
    input logic slot_free,
    output logic grant,
    output logic starved,   // a TLP waits for credits
    output logic bad_update,
    output logic bad_init
);
    // Header and data are two counters of the same kind; the fields of headers are 8 bits wide, those of data 12.
    logic known, arrived, updating;
    logic [3:0] scale, scale_new;  // HdrScale above DataScale
    logic [1:0] infinite;    // headers above data
    logic [7:0] header_limit, header_new, header_step;  // fields of CREDIT_LIMIT and of the UpdateFC, and their difference
    logic [11:0] data_limit, data_new, data_step;
    logic [11:0] header_left;
    logic [15:0] data_left;

    logic [3:0] value_scale;
    logic [7:0] value_header;
    logic [11:0] value_data;
    assign value_scale = scaled ? {fc_value[23:22], fc_value[13:12]} : 4'd0;
    assign value_header = fc_value[21:14];
    assign value_data = fc_value[11:0];

    function automatic logic [15:0] units(input logic [11:0] field, input logic [1:0] factor);
        units = factor == 2'd3 ? {field, 4'd0} : factor == 2'd2 ? {2'd0, field, 2'd0} : {4'd0, field};
    endfunction

    // ---- InitFC ----
    logic begins;
    assign begins = fc_valid && !fc_is_update && !known;
    assign bad_init = begins && (value_header[7] || value_data[11] || (scaled && (value_scale[3:2] == '0) != (value_scale[1:0] == '0)) ||
        (IS_POSTED != 0 && value_data != '0 && units(value_data, value_scale[1:0]) < 16'd8));

    // ---- UpdateFC: its fields, the change, the sum ----
    // An UpdateFC that is one cycle behind another replaces it: limits are cumulative.
    logic wrong, header_fits, data_fits, applies;
    logic [15:0] header_change, data_change, data_sum;
    logic [12:0] header_sum;
    logic carry;
    logic [15:0] data_addend;
    assign header_change = units({4'd0, header_step}, scale[3:2]);
    assign data_change = units(data_step, scale[1:0]);

    logic enough;
    assign grant = known && !updating && tlp_valid && slot_free && enough;
    assign starved = known && !updating && tlp_valid && !enough;
    assign enough = (infinite[1] || header_left != '0) && (infinite[0] || carry);
    assign header_sum = {1'b0, header_left} + (updating ? {1'b0, header_change[11:0]} : 13'h1fff);
    assign data_addend = updating ? data_change : ~{7'd0, tlp_credits};
    assign {carry, data_sum} = {1'b0, data_left} + {1'b0, data_addend} + {16'd0, !updating};

    // Fewer than 2^n / 2 unused credits: n is the field's width, and two or four more if scaled.
    assign header_fits = infinite[1] || (!header_sum[12] && (scale[3:2] == 2'd3 ? !header_sum[11] : scale[3:2] == 2'd2 ? header_sum[11:9] == '0 : header_sum[11:7] == '0));
    assign data_fits = infinite[0] || (!carry && (scale[1:0] == 2'd3 ? !data_sum[15] : scale[1:0] == 2'd2 ? data_sum[15:13] == '0 : data_sum[15:11] == '0));
    assign applies = updating && !wrong && header_fits && data_fits;
    assign bad_update = updating && !applies;

    always_ff @(posedge clk)
        if (rst) begin
            known <= 1'b0;
            arrived <= 1'b0;
            updating <= 1'b0;
        end else begin
            if (begins) known <= 1'b1;
            arrived <= fc_valid && fc_is_update && known;
            updating <= arrived && !(fc_valid && fc_is_update);
        end
    always_ff @(posedge clk) begin
        if (begins) begin
            scale <= value_scale;
            infinite <= {value_header == '0, value_data == '0};
            header_limit <= value_header;
            data_limit <= value_data;
            header_left <= 12'(units({4'd0, value_header}, value_scale[3:2]));
            data_left <= units(value_data, value_scale[1:0]);
        end
        if (fc_valid && fc_is_update) begin
            header_new <= value_header;
            data_new <= value_data;
            scale_new <= value_scale;
        end
        header_step <= header_new - header_limit;
        data_step <= data_new - data_limit;
        wrong <= scale_new != scale || (infinite[1] && header_new != '0) || (infinite[0] && data_new != '0);
        if (applies) begin
            header_limit <= header_new;
            data_limit <= data_new;
        end
        if ((applies || grant) && !infinite[1]) header_left <= header_sum[11:0];
        if ((applies || grant) && !infinite[0]) data_left <= data_sum;
    end
    logic unused;
    assign unused = &header_change[15:12];

`ifdef PROVE_TX_CREDITS
`include "tx_credits_properties.svh"
`endif
endmodule
