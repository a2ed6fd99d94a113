// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two ports, each a data link layer and a physical layer, and the two lines between them. Port n is bit or part n of each vector.
module pair #(
    parameter int DATA_WIDTH = 256,
    parameter int LANES = 8,
    parameter int SYMBOLS = 4,
    parameter int GENERATION = 3,
    localparam int LANE = $clog2(DATA_WIDTH / 32),
    localparam int LINK = LANES * SYMBOLS
) (
    input logic clk,
    input logic rst,
    input logic [1:0] enable,
    input logic [7:0] latency,
    input logic [31:0] error_rate,
    input logic [31:0] drop_rate,
    input logic mark_errors,
    input logic [63:0] seed,
    input logic [1:0] tx_tlp_valid,
    input logic [1:0] tx_tlp_sop,
    input logic [1:0] tx_tlp_eop,
    input logic [1:0] tx_tlp_nullify,
    input logic [2*8-1:0] tx_tlp_end,
    input logic [2*DATA_WIDTH-1:0] tx_tlp_data,
    output logic [1:0] tx_tlp_ready,
    output logic [1:0] rx_tlp_valid,
    output logic [1:0] rx_tlp_sop,
    output logic [1:0] rx_tlp_eop,
    output logic [1:0] rx_tlp_good,
    output logic [2*8-1:0] rx_tlp_end,
    output logic [2*DATA_WIDTH-1:0] rx_tlp_data,
    input logic [1:0] tx_fc_valid,
    output logic [1:0] tx_fc_ready,
    output logic [1:0] rx_init2,  // InitFC2 arrived
    output logic [1:0] active,
    output logic [1:0] link_up,
    output logic [2*256-1:0] dll_counts,
    output logic [2*256-1:0] phy_counts,
    output logic [1:0] bit_error,
    output logic [1:0] drop
);
    logic [1:0] sent_valid, sent_start, got_valid, got_start;
    logic [LINK-1:0] sent_control[0:1], got_control[0:1];
    logic [8*LINK-1:0] sent_data[0:1], got_data[0:1];
    logic [LANES-1:0] got_bad[0:1];
    for (genvar n = 0; n < 2; n++) begin : port
        logic [1:0] dl_state, fc_kind;
        logic phy_link_up, phy_recovery, retrain_request, fc_valid;
        logic t_valid, t_sop, t_eop, t_dllp, t_nullify, t_ready, r_valid, r_sop, r_eop, r_dllp, r_nullify, r_error;
        logic [LANE-1:0] t_end, r_end, rx_end;
        logic [DATA_WIDTH-1:0] t_data, r_data;
        assign active[n] = dl_state == 2'd3;
        assign link_up[n] = phy_link_up;
        assign rx_init2[n] = fc_valid && fc_kind == 2'b11;
        assign rx_tlp_end[8*n+:8] = 8'(rx_end);
        pcie_dll #(
            .DATA_WIDTH(DATA_WIDTH),
            .INIT_FC_CYCLES(256)
        ) dll (
            .clk(clk),
            .rst(rst),
            .replay_timer_limit(16'd2000),
            .ack_latency_limit(16'd60),
            .ack_count_limit(8'd0),
            .local_features(23'd1),
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
            .tx_tlp_valid(tx_tlp_valid[n]),
            .tx_tlp_sop(tx_tlp_sop[n]),
            .tx_tlp_eop(tx_tlp_eop[n]),
            .tx_tlp_nullify(tx_tlp_nullify[n]),
            .tx_tlp_end(tx_tlp_end[8*n+:LANE]),
            .tx_tlp_data(tx_tlp_data[DATA_WIDTH*n+:DATA_WIDTH]),
            .tx_tlp_ready(tx_tlp_ready[n]),
            .rx_tlp_valid(rx_tlp_valid[n]),
            .rx_tlp_sop(rx_tlp_sop[n]),
            .rx_tlp_eop(rx_tlp_eop[n]),
            .rx_tlp_good(rx_tlp_good[n]),
            .rx_tlp_end(rx_end),
            .rx_tlp_data(rx_tlp_data[DATA_WIDTH*n+:DATA_WIDTH]),
            .vc_enable(1'b1),
            .vc_tlp_seen(1'b0),
            .init_fc(72'h010203_040506_070809),
            .vc_init2(),
            .vc_ready(),
            .tx_fc_valid(tx_fc_valid[n]),
            .tx_fc_urgent(1'b1),
            .tx_fc_type(2'd0),
            .tx_fc_vc(3'd0),
            .tx_fc_value(24'h123456),
            .tx_fc_ready(tx_fc_ready[n]),
            .rx_fc_valid(fc_valid),
            .rx_fc_kind(fc_kind),
            .rx_fc_type(),
            .rx_fc_vc(),
            .rx_fc_value(),
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
            .counts(dll_counts[256*n+:256])
        );
        pcie_phy #(
            .DATA_WIDTH(DATA_WIDTH),
            .LANES(LANES),
            .SYMBOLS(SYMBOLS),
            .GENERATION(GENERATION),
            .TRAIN_CYCLES(1024)
        ) phy (
            .clk(clk),
            .rst(rst),
            .enable(enable[n]),
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
            .phy_counts(phy_counts[256*n+:256])
        );
        pcie_timing_model #(
            .LANES(LANES),
            .SYMBOLS(SYMBOLS),
            .DEPTH(256)
        ) line (
            .clk(clk),
            .rst(rst),
            .latency(latency),
            .error_rate(error_rate),
            .drop_rate(drop_rate),
            .mark_errors(mark_errors),
            .seed(seed + 64'(n)),
            .in_valid(sent_valid[1-n]),
            .in_start(sent_start[1-n]),
            .in_control(sent_control[1-n]),
            .in_data(sent_data[1-n]),
            .out_valid(got_valid[n]),
            .out_start(got_start[n]),
            .out_bad(got_bad[n]),
            .out_control(got_control[n]),
            .out_data(got_data[n]),
            .event_error(bit_error[n]),
            .event_drop(drop[n])
        );
    end
endmodule
