// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two complete ports with ECRC, transaction layer to physical layer, and the lines between them. Port 0 is the endpoint's, port 1 the root complex's. Port n is
// bit or part n of each vector, and stream 3n + t is type t of port n. No UpdateFC and no Ack is late: the limits are short.
// verilator lint_off PINCONNECTEMPTY
module figures #(
    parameter int DATA_WIDTH = 256,
    parameter int LANES = 8,
    parameter int SYMBOLS = 4,
    localparam int LANE = $clog2(DATA_WIDTH / 32),
    localparam int LINK = LANES * SYMBOLS
) (
    input logic clk,
    input logic rst,
    input logic [8:0] latency,
    input logic [1:0] tx_valid,
    input logic [1:0] tx_sop,
    input logic [1:0] tx_eop,
    input logic [2*8-1:0] tx_end,
    input logic [2*DATA_WIDTH-1:0] tx_data,
    output logic [1:0] tx_ready,
    output logic [5:0] rx_valid,
    output logic [5:0] rx_sop,
    output logic [5:0] rx_eop,
    output logic [6*8-1:0] rx_end,
    output logic [6*DATA_WIDTH-1:0] rx_data,
    output logic [1:0] active,
    output logic [1:0] dllp_sent,     // a DLLP goes to the physical layer
    output logic [1:0] ecrc_error
);
    logic [1:0] sent_valid, sent_start, got_valid, got_start;
    logic [LINK-1:0] sent_control[0:1], got_control[0:1];
    logic [8*LINK-1:0] sent_data[0:1], got_data[0:1];
    logic [LANES-1:0] got_bad[0:1];
    for (genvar n = 0; n < 2; n++) begin : port
        localparam int P = 3 * n;
        logic [1:0] dl_state;
        logic phy_link_up, phy_recovery, retrain_request;
        logic t_valid, t_sop, t_eop, t_dllp, t_nullify, t_ready, r_valid, r_sop, r_eop, r_dllp, r_nullify, r_error;
        logic [LANE-1:0] t_end, r_end;
        logic [3*LANE-1:0] ends;
        logic [DATA_WIDTH-1:0] t_data, r_data;
        assign active[n] = dl_state == 2'd3;
        assign dllp_sent[n] = t_valid && t_ready && t_sop && t_dllp;
        for (genvar t = 0; t < 3; t++) begin : types
            assign rx_end[8*(P+t)+:8] = 8'(ends[LANE*t+:LANE]);
        end
        pcie_port #(
            .DATA_WIDTH(DATA_WIDTH),
            .MAX_TLP_BYTES(288),
            .MAX_PAYLOAD(256),
            .RX_P_HEADERS(384),
            .RX_P_DATA(2944),
            .REPLAY_BYTES(32768),
            .REPLAY_TLPS(1024),
            .ECRC(1),
            .INIT_FC_CYCLES(1024)
        ) user (
            .clk(clk),
            .rst(rst),
            .tc_map(24'd0),
            .vc_enable(1'b1),
            .vc_arbitration(2'd0),
            .vc_phases(96'd0),
            .max_payload(3'd1),
            .update_fc_latency_limit(16'd32),
            .update_fc_period(24'd0),
            .local_features(23'd1),
            .tx_valid(tx_valid[n]),
            .tx_sop(tx_sop[n]),
            .tx_eop(tx_eop[n]),
            .tx_end(tx_end[8*n+:LANE]),
            .tx_data(tx_data[DATA_WIDTH*n+:DATA_WIDTH]),
            .tx_vc(3'd0),
            .tx_ready(tx_ready[n]),
            .tx_room(),
            .rx_p_valid(rx_valid[P]),
            .rx_p_sop(rx_sop[P]),
            .rx_p_eop(rx_eop[P]),
            .rx_p_cut(),
            .rx_p_poisoned(),
            .rx_p_vc(),
            .rx_p_end(ends[LANE*0+:LANE]),
            .rx_p_data(rx_data[DATA_WIDTH*P+:DATA_WIDTH]),
            .rx_p_ready(1'b1),
            .rx_np_valid(rx_valid[P+1]),
            .rx_np_sop(rx_sop[P+1]),
            .rx_np_eop(rx_eop[P+1]),
            .rx_np_cut(),
            .rx_np_poisoned(),
            .rx_np_vc(),
            .rx_np_end(ends[LANE*1+:LANE]),
            .rx_np_data(rx_data[DATA_WIDTH*(P+1)+:DATA_WIDTH]),
            .rx_np_ready(1'b1),
            .rx_cpl_valid(rx_valid[P+2]),
            .rx_cpl_sop(rx_sop[P+2]),
            .rx_cpl_eop(rx_eop[P+2]),
            .rx_cpl_cut(),
            .rx_cpl_poisoned(),
            .rx_cpl_vc(),
            .rx_cpl_end(ends[LANE*2+:LANE]),
            .rx_cpl_data(rx_data[DATA_WIDTH*(P+2)+:DATA_WIDTH]),
            .rx_cpl_ready(1'b1),
            .scaled_flow_control(),
            .tx_starved(),
            .error_valid(),
            .error_syndrome(),
            .error_header(),
            .tl_events(),
            .tl_counts(),
            .ecrc_generate(1'b1),
            .ecrc_check(1'b1),
            .ecrc_error(ecrc_error[n]),
            .ecrc_header(),
            .replay_timer_limit(16'd8000),
            .ack_latency_limit(16'd32),
            .ack_count_limit(8'd1),
            .phy_link_up(phy_link_up),
            .phy_recovery(phy_recovery),
            .retrain_request(retrain_request),
            .phy_tx_valid(t_valid),
            .phy_tx_sop(t_sop),
            .phy_tx_eop(t_eop),
            .phy_tx_dllp(t_dllp),
            .phy_tx_nullify(t_nullify),
            .phy_tx_end(t_end),
            .phy_tx_data(t_data),
            .phy_tx_ready(t_ready),
            .phy_rx_valid(r_valid),
            .phy_rx_sop(r_sop),
            .phy_rx_eop(r_eop),
            .phy_rx_dllp(r_dllp),
            .phy_rx_nullify(r_nullify),
            .phy_rx_error(r_error),
            .phy_rx_end(r_end),
            .phy_rx_data(r_data),
            .vc_ready(),
            .tx_dllp_valid(1'b0),
            .tx_dllp_bytes(32'd0),
            .tx_dllp_ready(),
            .rx_dllp_valid(),
            .rx_dllp_bytes(),
            .dl_state(dl_state),
            .dl_up(),
            .remote_features_valid(),
            .remote_features(),
            .events(),
            .counts()
        );
        pcie_phy #(
            .DATA_WIDTH(DATA_WIDTH),
            .LANES(LANES),
            .SYMBOLS(SYMBOLS),
            .GENERATION(3),
            .TRAIN_CYCLES(2048)
        ) phy (
            .clk(clk),
            .rst(rst),
            .enable(1'b1),
            .retrain_request(retrain_request),
            .phy_link_up(phy_link_up),
            .phy_recovery(phy_recovery),
            .phy_tx_valid(t_valid),
            .phy_tx_sop(t_sop),
            .phy_tx_eop(t_eop),
            .phy_tx_dllp(t_dllp),
            .phy_tx_nullify(t_nullify),
            .phy_tx_end(t_end),
            .phy_tx_data(t_data),
            .phy_tx_ready(t_ready),
            .phy_rx_valid(r_valid),
            .phy_rx_sop(r_sop),
            .phy_rx_eop(r_eop),
            .phy_rx_dllp(r_dllp),
            .phy_rx_nullify(r_nullify),
            .phy_rx_error(r_error),
            .phy_rx_end(r_end),
            .phy_rx_data(r_data),
            .link_tx_valid(sent_valid[n]),
            .link_tx_start(sent_start[n]),
            .link_tx_control(sent_control[n]),
            .link_tx_data(sent_data[n]),
            .link_rx_valid(got_valid[n]),
            .link_rx_start(got_start[n]),
            .link_rx_bad(got_bad[n]),
            .link_rx_control(got_control[n]),
            .link_rx_data(got_data[n]),
            .phy_state(),
            .phy_events(),
            .phy_counts()
        );
        pcie_timing_model #(
            .LANES(LANES),
            .SYMBOLS(SYMBOLS),
            .DEPTH(512)
        ) line (
            .clk(clk),
            .rst(rst),
            .latency(latency),
            .error_rate(32'd0),
            .drop_rate(32'd0),
            .mark_errors(1'b0),
            .seed(64'd1),
            .in_valid(sent_valid[1-n]),
            .in_start(sent_start[1-n]),
            .in_control(sent_control[1-n]),
            .in_data(sent_data[1-n]),
            .out_valid(got_valid[n]),
            .out_start(got_start[n]),
            .out_bad(got_bad[n]),
            .out_control(got_control[n]),
            .out_data(got_data[n]),
            .event_error(),
            .event_drop()
        );
    end
endmodule
