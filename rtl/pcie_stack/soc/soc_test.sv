// SPDX-License-Identifier: Apache-2.0 OR MIT
// The SoC with what is below its root port: a device whose function is a program, directly, or (SWITCH = 1) at the first downstream port of the RTL switch.
// verilator lint_off PINCONNECTEMPTY
module soc_test #(
    parameter int DATA_WIDTH = 128,
    parameter int RAM_WORDS = 1 << 23,
    parameter int SWITCH = 0,
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    input logic clk,
    input logic rst,
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
    // End 0 of the upper link is the root port. End 1 of the lower link is the device. Without a switch both links are one.
    localparam int LINKS = SWITCH + 1;
    logic [2*LINKS-1:0] link_up, recovery, retrain, t_valid, t_sop, t_eop, t_dllp, t_nullify, t_ready, r_valid, r_sop, r_eop, r_dllp, r_nullify, r_error;
    logic [2*LANE*LINKS-1:0] t_end, r_end;
    logic [2*DATA_WIDTH*LINKS-1:0] t_data, r_data;
    logic [LINKS-1:0] down;
    localparam int D = 2 * LINKS - 1;

    rocket_soc #(
        .DATA_WIDTH(DATA_WIDTH),
        .RAM_WORDS(RAM_WORDS)
    ) soc (
        .clk(clk),
        .rst(rst),
        .phy_link_up(link_up[0]),
        .phy_recovery(recovery[0]),
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
        soc_link #(
            .DATA_WIDTH(DATA_WIDTH)
        ) link (
            .clk(clk),
            .rst(rst),
            .enable(!down[n]),
            .latency(11'd3),
            .retrain_request(retrain[2*n+:2]),
            .link_up(link_up[2*n+:2]),
            .recovery(recovery[2*n+:2]),
            .tx_valid(t_valid[2*n+:2]),
            .tx_sop(t_sop[2*n+:2]),
            .tx_eop(t_eop[2*n+:2]),
            .tx_dllp(t_dllp[2*n+:2]),
            .tx_nullify(t_nullify[2*n+:2]),
            .tx_end(t_end[2*LANE*n+:2*LANE]),
            .tx_data(t_data[2*DATA_WIDTH*n+:2*DATA_WIDTH]),
            .tx_ready(t_ready[2*n+:2]),
            .rx_valid(r_valid[2*n+:2]),
            .rx_sop(r_sop[2*n+:2]),
            .rx_eop(r_eop[2*n+:2]),
            .rx_dllp(r_dllp[2*n+:2]),
            .rx_nullify(r_nullify[2*n+:2]),
            .rx_error(r_error[2*n+:2]),
            .rx_end(r_end[2*LANE*n+:2*LANE]),
            .rx_data(r_data[2*DATA_WIDTH*n+:2*DATA_WIDTH])
        );
    end

    if (SWITCH != 0) begin : switches
        // Ends 1 and 2 are ports 0 and 1 of the switch.
        logic [1:0] disabled, reset;
        assign down[LINKS-1] = disabled[1] || reset[1];
        pcie_switch #(
            .DOWNSTREAM(1),
            .DATA_WIDTH(DATA_WIDTH),
            .MAX_TLP_BYTES(288),
            .MAX_PAYLOAD(256),
            .INIT_FC_CYCLES(256)
        ) node (
            .clk(clk),
            .rst(rst),
            .update_fc_latency_limit({2{16'd64}}),
            .update_fc_period({2{24'd2500}}),
            .replay_timer_limit({2{16'd8000}}),
            .ack_latency_limit({2{16'd32}}),
            .ack_count_limit('0),
            .local_features(23'd0),
            .link_speed({2{4'd3}}),
            .link_width({2{6'd8}}),
            .phy_link_up(link_up[2:1]),
            .phy_recovery(recovery[2:1]),
            .retrain_request(retrain[2:1]),
            .phy_tx_valid(t_valid[2:1]),
            .phy_tx_sop(t_sop[2:1]),
            .phy_tx_eop(t_eop[2:1]),
            .phy_tx_dllp(t_dllp[2:1]),
            .phy_tx_nullify(t_nullify[2:1]),
            .phy_tx_end(t_end[LANE+:2*LANE]),
            .phy_tx_data(t_data[DATA_WIDTH+:2*DATA_WIDTH]),
            .phy_tx_ready(t_ready[2:1]),
            .phy_rx_valid(r_valid[2:1]),
            .phy_rx_sop(r_sop[2:1]),
            .phy_rx_eop(r_eop[2:1]),
            .phy_rx_dllp(r_dllp[2:1]),
            .phy_rx_nullify(r_nullify[2:1]),
            .phy_rx_error(r_error[2:1]),
            .phy_rx_end(r_end[LANE+:2*LANE]),
            .phy_rx_data(r_data[DATA_WIDTH+:2*DATA_WIDTH]),
            .dl_up(),
            .hot_reset(reset),
            .link_disable(disabled),
            .events(),
            .counts(),
            .tl_counts(),
            .dll_counts()
        );
    end

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
endmodule
