// SPDX-License-Identifier: Apache-2.0 OR MIT
// The data link layer as one end of a link of a lab. riser_link_frames is riser's: it moves frames and TLPs.
module frame_link #(
    parameter int DATA_WIDTH = 256,
    parameter int NUM_VCS = 1,
    parameter int MAX_TLP_BYTES = 544,
    parameter int REPLAY_BYTES = 8192,
    parameter int REPLAY_TLPS = 128,
    parameter int CUT_THROUGH = 1,
    parameter int FEATURE_EXCHANGE = 1,
    parameter int INIT_FC_CYCLES = 256,
    parameter int ACK_LATENCY = 32,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    output logic up
);
    logic clk, rst, link_up, recovery, retrain;
    logic [15:0] replay_timer_limit, events;
    logic phy_tx_valid, phy_tx_sop, phy_tx_eop, phy_tx_dllp, phy_tx_nullify, phy_tx_ready;
    logic [LANE-1:0] phy_tx_end, rx_tlp_end;
    logic [DATA_WIDTH-1:0] phy_tx_data, phy_rx_data, tx_tlp_data, rx_tlp_data;
    logic phy_rx_valid, phy_rx_sop, phy_rx_eop, phy_rx_dllp, phy_rx_nullify, phy_rx_error;
    logic [3:0] phy_rx_end, tx_tlp_end;
    logic tx_tlp_valid, tx_tlp_sop, tx_tlp_eop, tx_tlp_ready;
    logic rx_tlp_valid, rx_tlp_sop, rx_tlp_eop, rx_tlp_good;
    logic [7:0] vc_enable, vc_tlp_seen;
    logic [575:0] init_fc;
    logic [NUM_VCS-1:0] vc_ready;
    logic tx_fc_valid, tx_fc_ready, rx_fc_valid;
    logic [1:0] tx_fc_type, rx_fc_kind, rx_fc_type;
    logic [2:0] tx_fc_vc, rx_fc_vc;
    logic [23:0] tx_fc_value, rx_fc_value;

    pcie_dll #(
        .DATA_WIDTH(DATA_WIDTH),
        .NUM_VCS(NUM_VCS),
        .MAX_TLP_BYTES(MAX_TLP_BYTES),
        .REPLAY_BYTES(REPLAY_BYTES),
        .REPLAY_TLPS(REPLAY_TLPS),
        .CUT_THROUGH(CUT_THROUGH),
        .FEATURE_EXCHANGE(FEATURE_EXCHANGE),
        .INIT_FC_CYCLES(INIT_FC_CYCLES)
    ) dll (
        .clk(clk),
        .rst(rst),
        .replay_timer_limit(replay_timer_limit),
        .ack_latency_limit(16'(ACK_LATENCY)),
        .ack_count_limit(8'd0),
        .local_features(23'd0),
        .phy_link_up(link_up),
        .phy_recovery(recovery),
        .retrain_request(retrain),
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
        .phy_rx_end(phy_rx_end[LANE-1:0]),
        .phy_rx_data(phy_rx_data),
        .tx_tlp_valid(tx_tlp_valid),
        .tx_tlp_sop(tx_tlp_sop),
        .tx_tlp_eop(tx_tlp_eop),
        .tx_tlp_nullify(1'b0),
        .tx_tlp_end(tx_tlp_end[LANE-1:0]),
        .tx_tlp_data(tx_tlp_data),
        .tx_tlp_ready(tx_tlp_ready),
        .rx_tlp_valid(rx_tlp_valid),
        .rx_tlp_sop(rx_tlp_sop),
        .rx_tlp_eop(rx_tlp_eop),
        .rx_tlp_good(rx_tlp_good),
        .rx_tlp_end(rx_tlp_end),
        .rx_tlp_data(rx_tlp_data),
        .vc_enable(vc_enable[NUM_VCS-1:0]),
        .vc_tlp_seen(vc_tlp_seen[NUM_VCS-1:0]),
        .init_fc(init_fc[72*NUM_VCS-1:0]),
        .vc_init2(),
        .vc_ready(vc_ready),
        .tx_fc_valid(tx_fc_valid),
        .tx_fc_urgent(1'b1),
        .tx_fc_type(tx_fc_type),
        .tx_fc_vc(tx_fc_vc),
        .tx_fc_value(tx_fc_value),
        .tx_fc_ready(tx_fc_ready),
        .rx_fc_valid(rx_fc_valid),
        .rx_fc_kind(rx_fc_kind),
        .rx_fc_type(rx_fc_type),
        .rx_fc_vc(rx_fc_vc),
        .rx_fc_value(rx_fc_value),
        .tx_dllp_valid(1'b0),
        .tx_dllp_bytes(32'd0),
        .tx_dllp_ready(),
        .rx_dllp_valid(),
        .rx_dllp_bytes(),
        .dl_state(),
        .dl_up(up),
        .remote_features_valid(),
        .remote_features(),
        .events(events),
        .counts()
    );

    riser_link_frames frames (
        .user_clk(clk),
        .user_reset(rst),
        .replay_timer_limit(replay_timer_limit),
        .phy_link_up(link_up),
        .phy_recovery(recovery),
        .retrain_request(retrain),
        .phy_tx_data(phy_tx_data),
        .phy_tx_valid(phy_tx_valid),
        .phy_tx_sop(phy_tx_sop),
        .phy_tx_eop(phy_tx_eop),
        .phy_tx_dllp(phy_tx_dllp),
        .phy_tx_nullify(phy_tx_nullify),
        .phy_tx_end(4'(phy_tx_end)),
        .phy_tx_ready(phy_tx_ready),
        .phy_rx_data(phy_rx_data),
        .phy_rx_valid(phy_rx_valid),
        .phy_rx_sop(phy_rx_sop),
        .phy_rx_eop(phy_rx_eop),
        .phy_rx_dllp(phy_rx_dllp),
        .phy_rx_nullify(phy_rx_nullify),
        .phy_rx_error(phy_rx_error),
        .phy_rx_end(phy_rx_end),
        .tx_tlp_data(tx_tlp_data),
        .tx_tlp_valid(tx_tlp_valid),
        .tx_tlp_sop(tx_tlp_sop),
        .tx_tlp_eop(tx_tlp_eop),
        .tx_tlp_end(tx_tlp_end),
        .tx_tlp_ready(tx_tlp_ready),
        .rx_tlp_data(rx_tlp_data),
        .rx_tlp_valid(rx_tlp_valid),
        .rx_tlp_sop(rx_tlp_sop),
        .rx_tlp_eop(rx_tlp_eop),
        .rx_tlp_good(rx_tlp_good),
        .rx_tlp_end(4'(rx_tlp_end)),
        .vc_enable(vc_enable),
        .vc_tlp_seen(vc_tlp_seen),
        .init_fc(init_fc),
        .vc_ready(8'(vc_ready)),
        .tx_fc_valid(tx_fc_valid),
        .tx_fc_type(tx_fc_type),
        .tx_fc_vc(tx_fc_vc),
        .tx_fc_value(tx_fc_value),
        .tx_fc_ready(tx_fc_ready),
        .rx_fc_valid(rx_fc_valid),
        .rx_fc_kind(rx_fc_kind),
        .rx_fc_type(rx_fc_type),
        .rx_fc_vc(rx_fc_vc),
        .rx_fc_value(rx_fc_value),
        .events(events)
    );
endmodule
