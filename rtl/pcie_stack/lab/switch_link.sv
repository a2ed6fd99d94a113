// SPDX-License-Identifier: Apache-2.0 OR MIT
// The switch as a switch of a lab. riser_switch is riser's: it moves the frames of all links.
// verilator lint_off PINCONNECTEMPTY
module switch_link #(
    parameter int DOWNSTREAM = 2,
    parameter int DATA_WIDTH = 256,
    parameter int LINK_SPEED = 3,
    parameter int LINK_WIDTH = 8,
    parameter int INIT_FC_CYCLES = 256,
    parameter int ACK_LATENCY = 32,
    parameter int UPDATE_FC_PERIOD = 6250,  // 25 us at 250 MHz
    localparam int PORTS = DOWNSTREAM + 1,
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    output logic [PORTS-1:0] up
);
    logic clk, rst;
    logic [PORTS-1:0] phy_link_up, phy_recovery, retrain_request, link_disable, hot_reset, phy_tx_valid, phy_tx_sop, phy_tx_eop, phy_tx_dllp;
    logic [PORTS-1:0] phy_tx_nullify, phy_tx_ready, phy_rx_valid, phy_rx_sop, phy_rx_eop, phy_rx_dllp, phy_rx_nullify, phy_rx_error;
    logic [LANE*PORTS-1:0] phy_tx_end, phy_rx_end;
    logic [4*PORTS-1:0] tx_end, rx_end, link_speed;
    logic [6*PORTS-1:0] link_width, events;
    logic [16*PORTS-1:0] replay_timer_limit;
    logic [DATA_WIDTH*PORTS-1:0] phy_tx_data, phy_rx_data;

    // riser has four bits for the lane of the last double-word.
    for (genvar n = 0; n < PORTS; n++) begin : ends
        assign tx_end[4*n+:4] = 4'(phy_tx_end[LANE*n+:LANE]);
        assign phy_rx_end[LANE*n+:LANE] = rx_end[4*n+:LANE];
    end

    pcie_switch #(
        .DOWNSTREAM(DOWNSTREAM),
        .DATA_WIDTH(DATA_WIDTH),
        .LINK_SPEED(LINK_SPEED),
        .LINK_WIDTH(LINK_WIDTH),
        .INIT_FC_CYCLES(INIT_FC_CYCLES)
    ) device (
        .clk(clk),
        .rst(rst),
        .update_fc_latency_limit({PORTS{16'd64}}),
        .update_fc_period({PORTS{24'(UPDATE_FC_PERIOD)}}),
        .replay_timer_limit(replay_timer_limit),
        .ack_latency_limit({PORTS{16'(ACK_LATENCY)}}),
        .ack_count_limit({PORTS{8'd0}}),
        .local_features(23'd0),
        .link_speed(link_speed),
        .link_width(link_width),
        .phy_link_up(phy_link_up),
        .phy_recovery(phy_recovery),
        .retrain_request(retrain_request),
        .phy_tx_valid(phy_tx_valid),
        .phy_tx_sop(phy_tx_sop),
        .phy_tx_eop(phy_tx_eop),
        .phy_tx_dllp(phy_tx_dllp),
        .phy_tx_nullify(phy_tx_nullify),
        .phy_tx_end(phy_tx_end),
        .phy_tx_data(phy_tx_data),
        .phy_tx_ready(phy_tx_ready),
        .phy_rx_valid(phy_rx_valid),
        .phy_rx_sop(phy_rx_sop),
        .phy_rx_eop(phy_rx_eop),
        .phy_rx_dllp(phy_rx_dllp),
        .phy_rx_nullify(phy_rx_nullify),
        .phy_rx_error(phy_rx_error),
        .phy_rx_end(phy_rx_end),
        .phy_rx_data(phy_rx_data),
        .dl_up(up),
        .hot_reset(hot_reset),
        .link_disable(link_disable),
        .events(events),
        .counts(),
        .tl_counts(),
        .dll_counts()
    );

    riser_switch links (
        .user_clk(clk),
        .user_reset(rst),
        .phy_tx_data(phy_tx_data),
        .phy_rx_data(phy_rx_data),
        .replay_timer_limit(replay_timer_limit),
        .phy_link_up(phy_link_up),
        .phy_recovery(phy_recovery),
        .link_speed(link_speed),
        .link_width(link_width),
        .retrain_request(retrain_request),
        .link_disable(link_disable),
        .hot_reset(hot_reset),
        .phy_tx_valid(phy_tx_valid),
        .phy_tx_sop(phy_tx_sop),
        .phy_tx_eop(phy_tx_eop),
        .phy_tx_dllp(phy_tx_dllp),
        .phy_tx_nullify(phy_tx_nullify),
        .phy_tx_end(tx_end),
        .phy_tx_ready(phy_tx_ready),
        .phy_rx_valid(phy_rx_valid),
        .phy_rx_sop(phy_rx_sop),
        .phy_rx_eop(phy_rx_eop),
        .phy_rx_dllp(phy_rx_dllp),
        .phy_rx_nullify(phy_rx_nullify),
        .phy_rx_error(phy_rx_error),
        .phy_rx_end(rx_end),
        .events(events)
    );
endmodule
