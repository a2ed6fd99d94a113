// SPDX-License-Identifier: Apache-2.0 OR MIT
// The SoC and a hierarchy below its root port.
//
// - KIND 0: a device whose function is a program.
// - KIND 1: the RTL switch with two downstream ports: that device, and the RTL endpoint with a NIC.
// - KIND 2: the endpoint with the NIC, below physical layers and lines of 1 to 16 lanes. Another NIC is on the core's bus.
// - KIND 3: the same with TileLink ports of NIC and endpoint.
// verilator lint_off PINCONNECTEMPTY
module soc_test #(
    parameter int DATA_WIDTH = 128,
    parameter int RAM_WORDS = 1 << 23,
    parameter int KIND = 0,
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    input logic clk,
    input logic rst,
    input logic nic_near,             // KIND 2 and 3: the NIC on the core's bus has the DMA port
    input logic [2:0] width,      // KIND 2 and 3: 1, 2, 4, 8 or 16 lanes, the power of two
    input logic [10:0] latency,   // KIND 2 and 3: cycles of the line, each way
    input logic tx_valid,
    input logic tx_sop,
    input logic tx_eop,
    input logic [7:0] tx_end,
    input logic [DATA_WIDTH-1:0] tx_data,
    output logic tx_ready,
    output logic [2:0] rx_valid,
    output logic [2:0] rx_sop,
    output logic [2:0] rx_eop,
    output logic [23:0] rx_end,
    output logic [3*DATA_WIDTH-1:0] rx_data,
    output logic device_reset,
    output logic uart_valid,
    output logic [7:0] uart_data,
    output logic finish_valid,
    output logic [31:0] finish_value
);
    // Ends of links: 0 is the root port; 1 to 3 are the ports of the switch, 4 is the device, 5 the endpoint. Without a switch, end 1 is the only one below.
    localparam int LINKS = KIND == 1 ? 3 : 1, ENDS = KIND == 1 ? 6 : 2;
    localparam int D = KIND == 1 ? 4 : 1, P = KIND == 1 ? 5 : 1;
    logic [ENDS-1:0] link_up, recovery, retrain, t_valid, t_sop, t_eop, t_dllp, t_nullify, t_ready, r_valid, r_sop, r_eop, r_dllp, r_nullify, r_error;
    logic [LANE*ENDS-1:0] t_end, r_end;
    logic [DATA_WIDTH*ENDS-1:0] t_data, r_data;
    logic [LINKS-1:0] down;

    rocket_soc #(
        .DATA_WIDTH(DATA_WIDTH),
        .RAM_WORDS(RAM_WORDS),
        .NIC(KIND > 1 ? KIND - 1 : 0)
    ) soc (
        .clk(clk),
        .rst(rst),
        .nic_near(nic_near),
        .phy_link_up(link_up[0]),
        .phy_recovery(recovery[0]),
        .link_speed(4'd3),
        .link_width(6'd8),
        .retrain_request(retrain[0]),
        .phy_tx_valid(t_valid[0]),
        .phy_tx_sop(t_sop[0]),
        .phy_tx_eop(t_eop[0]),
        .phy_tx_dllp(t_dllp[0]),
        .phy_tx_nullify(t_nullify[0]),
        .phy_tx_end(t_end[0+:LANE]),
        .phy_tx_data(t_data[0+:DATA_WIDTH]),
        .phy_tx_ready(t_ready[0]),
        .phy_rx_valid(r_valid[0]),
        .phy_rx_sop(r_sop[0]),
        .phy_rx_eop(r_eop[0]),
        .phy_rx_dllp(r_dllp[0]),
        .phy_rx_nullify(r_nullify[0]),
        .phy_rx_error(r_error[0]),
        .phy_rx_end(r_end[0+:LANE]),
        .phy_rx_data(r_data[0+:DATA_WIDTH]),
        .link_down(down[0]),
        .dl_up(),
        .uart_valid(uart_valid),
        .uart_data(uart_data),
        .finish_valid(finish_valid),
        .finish_value(finish_value)
    );

    for (genvar n = 0; n < LINKS; n++) begin : links
        localparam int A = n == 0 ? 0 : n + 1, B = n == 0 ? 1 : n + 3;
        soc_link #(
            .DATA_WIDTH(DATA_WIDTH),
            .PHYSICAL(KIND > 1 ? 1 : 0)
        ) link (
            .clk(clk),
            .rst(rst),
            .enable(!down[n]),
            .width(width),
            .latency(latency),
            .retrain_request({retrain[B], retrain[A]}),
            .link_up({link_up[B], link_up[A]}),
            .recovery({recovery[B], recovery[A]}),
            .tx_valid({t_valid[B], t_valid[A]}),
            .tx_sop({t_sop[B], t_sop[A]}),
            .tx_eop({t_eop[B], t_eop[A]}),
            .tx_dllp({t_dllp[B], t_dllp[A]}),
            .tx_nullify({t_nullify[B], t_nullify[A]}),
            .tx_end({t_end[LANE*B+:LANE], t_end[LANE*A+:LANE]}),
            .tx_data({t_data[DATA_WIDTH*B+:DATA_WIDTH], t_data[DATA_WIDTH*A+:DATA_WIDTH]}),
            .tx_ready({t_ready[B], t_ready[A]}),
            .rx_valid({r_valid[B], r_valid[A]}),
            .rx_sop({r_sop[B], r_sop[A]}),
            .rx_eop({r_eop[B], r_eop[A]}),
            .rx_dllp({r_dllp[B], r_dllp[A]}),
            .rx_nullify({r_nullify[B], r_nullify[A]}),
            .rx_error({r_error[B], r_error[A]}),
            .rx_end({r_end[LANE*B+:LANE], r_end[LANE*A+:LANE]}),
            .rx_data({r_data[DATA_WIDTH*B+:DATA_WIDTH], r_data[DATA_WIDTH*A+:DATA_WIDTH]})
        );
    end

    if (KIND == 1) begin : switches
        logic [2:0] disabled, reset;
        assign down[2:1] = disabled[2:1] | reset[2:1];
        pcie_switch #(
            .DOWNSTREAM(2),
            .DATA_WIDTH(DATA_WIDTH),
            .MAX_TLP_BYTES(288),
            .MAX_PAYLOAD(256),
            .INIT_FC_CYCLES(256)
        ) node (
            .clk(clk),
            .rst(rst),
            .update_fc_latency_limit({3{16'd64}}),
            .update_fc_period({3{24'd2500}}),
            .replay_timer_limit({3{16'd8000}}),
            .ack_latency_limit({3{16'd32}}),
            .ack_count_limit('0),
            .local_features(23'd0),
            .link_speed({3{4'd3}}),
            .link_width({3{6'd8}}),
            .phy_link_up(link_up[3:1]),
            .phy_recovery(recovery[3:1]),
            .retrain_request(retrain[3:1]),
            .phy_tx_valid(t_valid[3:1]),
            .phy_tx_sop(t_sop[3:1]),
            .phy_tx_eop(t_eop[3:1]),
            .phy_tx_dllp(t_dllp[3:1]),
            .phy_tx_nullify(t_nullify[3:1]),
            .phy_tx_end(t_end[LANE+:3*LANE]),
            .phy_tx_data(t_data[DATA_WIDTH+:3*DATA_WIDTH]),
            .phy_tx_ready(t_ready[3:1]),
            .phy_rx_valid(r_valid[3:1]),
            .phy_rx_sop(r_sop[3:1]),
            .phy_rx_eop(r_eop[3:1]),
            .phy_rx_dllp(r_dllp[3:1]),
            .phy_rx_nullify(r_nullify[3:1]),
            .phy_rx_error(r_error[3:1]),
            .phy_rx_end(r_end[LANE+:3*LANE]),
            .phy_rx_data(r_data[DATA_WIDTH+:3*DATA_WIDTH]),
            .dl_up(),
            .hot_reset(reset),
            .link_disable(disabled),
            .events(),
            .counts(),
            .tl_counts(),
            .dll_counts()
        );
    end

    if (KIND > 1) begin : no_device
        assign {tx_ready, rx_valid, rx_sop, rx_eop, rx_end, rx_data, device_reset} = '0;
    end else begin : devices
        // The device forgets its state when its link goes down.
        assign device_reset = !link_up[D];
        logic [LANE-1:0] ends[0:2];
        assign rx_end = {8'(ends[2]), 8'(ends[1]), 8'(ends[0])};
        soc_device #(
            .DATA_WIDTH(DATA_WIDTH)
        ) device (
            .clk(clk),
            .rst(rst),
            .tx_valid(tx_valid),
            .tx_sop(tx_sop),
            .tx_eop(tx_eop),
            .tx_end(tx_end[LANE-1:0]),
            .tx_data(tx_data),
            .tx_ready(tx_ready),
            .rx_valid(rx_valid),
            .rx_sop(rx_sop),
            .rx_eop(rx_eop),
            .rx_end({ends[2], ends[1], ends[0]}),
            .rx_data(rx_data),
            .phy_link_up(link_up[D]),
            .phy_recovery(recovery[D]),
            .retrain_request(retrain[D]),
            .phy_tx_valid(t_valid[D]),
            .phy_tx_sop(t_sop[D]),
            .phy_tx_eop(t_eop[D]),
            .phy_tx_dllp(t_dllp[D]),
            .phy_tx_nullify(t_nullify[D]),
            .phy_tx_end(t_end[LANE*D+:LANE]),
            .phy_tx_data(t_data[DATA_WIDTH*D+:DATA_WIDTH]),
            .phy_tx_ready(t_ready[D]),
            .phy_rx_valid(r_valid[D]),
            .phy_rx_sop(r_sop[D]),
            .phy_rx_eop(r_eop[D]),
            .phy_rx_dllp(r_dllp[D]),
            .phy_rx_nullify(r_nullify[D]),
            .phy_rx_error(r_error[D]),
            .phy_rx_end(r_end[LANE*D+:LANE]),
            .phy_rx_data(r_data[DATA_WIDTH*D+:DATA_WIDTH])
        );
    end

    if (KIND == 1 || KIND == 2) begin : cards
        soc_card #(
            .DATA_WIDTH(DATA_WIDTH)
        ) card (
            .clk(clk),
            .rst(rst),
            .phy_link_up(link_up[P]),
            .phy_recovery(recovery[P]),
            .retrain_request(retrain[P]),
            .phy_tx_valid(t_valid[P]),
            .phy_tx_sop(t_sop[P]),
            .phy_tx_eop(t_eop[P]),
            .phy_tx_dllp(t_dllp[P]),
            .phy_tx_nullify(t_nullify[P]),
            .phy_tx_end(t_end[LANE*P+:LANE]),
            .phy_tx_data(t_data[DATA_WIDTH*P+:DATA_WIDTH]),
            .phy_tx_ready(t_ready[P]),
            .phy_rx_valid(r_valid[P]),
            .phy_rx_sop(r_sop[P]),
            .phy_rx_eop(r_eop[P]),
            .phy_rx_dllp(r_dllp[P]),
            .phy_rx_nullify(r_nullify[P]),
            .phy_rx_error(r_error[P]),
            .phy_rx_end(r_end[LANE*P+:LANE]),
            .phy_rx_data(r_data[DATA_WIDTH*P+:DATA_WIDTH])
        );
    end
    if (KIND == 3) begin : tilelink_cards
        soc_card_tilelink #(
            .DATA_WIDTH(DATA_WIDTH)
        ) card (
            .clk(clk),
            .rst(rst),
            .phy_link_up(link_up[P]),
            .phy_recovery(recovery[P]),
            .retrain_request(retrain[P]),
            .phy_tx_valid(t_valid[P]),
            .phy_tx_sop(t_sop[P]),
            .phy_tx_eop(t_eop[P]),
            .phy_tx_dllp(t_dllp[P]),
            .phy_tx_nullify(t_nullify[P]),
            .phy_tx_end(t_end[LANE*P+:LANE]),
            .phy_tx_data(t_data[DATA_WIDTH*P+:DATA_WIDTH]),
            .phy_tx_ready(t_ready[P]),
            .phy_rx_valid(r_valid[P]),
            .phy_rx_sop(r_sop[P]),
            .phy_rx_eop(r_eop[P]),
            .phy_rx_dllp(r_dllp[P]),
            .phy_rx_nullify(r_nullify[P]),
            .phy_rx_error(r_error[P]),
            .phy_rx_end(r_end[LANE*P+:LANE]),
            .phy_rx_data(r_data[DATA_WIDTH*P+:DATA_WIDTH])
        );
    end
endmodule
