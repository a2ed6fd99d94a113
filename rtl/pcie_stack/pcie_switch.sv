// SPDX-License-Identifier: Apache-2.0 OR MIT
// A switch (PCIe 6.0 §1.3.3, §2.4, §7.3.3): an upstream port and 1 to 31 downstream ports of one virtual channel, each a pcie_port, and pcie_switch_core between
// them. SWITCH.md describes the ports. Part n of each vector is port n, and port 0 is the upstream port.
// verilator lint_off PINCONNECTEMPTY
module pcie_switch #(
    parameter int DOWNSTREAM = 2,
    parameter int DATA_WIDTH = 256,  // 128, 256 or 512
    parameter int MAX_TLP_BYTES = 544,
    parameter int MAX_PAYLOAD = 512,
    parameter int TX_BYTES = 4096,
    parameter int TX_TLPS = 16,
    parameter int RX_P_HEADERS = 96,
    parameter int RX_P_DATA = 736,
    parameter int RX_NP_HEADERS = 64,
    parameter int RX_NP_DATA = 32,
    parameter int RX_CPL_HEADERS = 96,
    parameter int RX_CPL_DATA = 736,
    parameter int BLOCK_RAM = 1,
    parameter int REPLAY_BYTES = 8192,
    parameter int REPLAY_TLPS = 128,
    parameter int CUT_THROUGH = 1,
    parameter int FEATURE_EXCHANGE = 1,
    parameter int INIT_FC_CYCLES = 1024,
    parameter int COUNTER_WIDTH = 16,
    parameter logic [15:0] VENDOR_ID = 16'h1234,
    parameter logic [15:0] UPSTREAM_ID = 16'h5001,
    parameter logic [15:0] DOWNSTREAM_ID = 16'h5002,
    parameter logic [7:0] REVISION = 8'h00,
    parameter int LINK_SPEED = 3,
    parameter int LINK_WIDTH = 8,
    // An illegal number stops elaboration before it has made many ports.
    localparam int PORTS = DOWNSTREAM < 1 || DOWNSTREAM > 31 ? 2 : DOWNSTREAM + 1,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    input logic clk,
    input logic rst,

    // Settings of each link, as for pcie_port
    input logic [16*PORTS-1:0] update_fc_latency_limit,
    input logic [24*PORTS-1:0] update_fc_period,
    input logic [16*PORTS-1:0] replay_timer_limit,
    input logic [16*PORTS-1:0] ack_latency_limit,
    input logic [8*PORTS-1:0] ack_count_limit,
    input logic [22:0] local_features,
    input logic [4*PORTS-1:0] link_speed,
    input logic [6*PORTS-1:0] link_width,

    // Frames
    input logic [PORTS-1:0] phy_link_up,
    input logic [PORTS-1:0] phy_recovery,
    output logic [PORTS-1:0] retrain_request,
    output logic [PORTS-1:0] phy_tx_valid,
    output logic [PORTS-1:0] phy_tx_sop,
    output logic [PORTS-1:0] phy_tx_eop,
    output logic [PORTS-1:0] phy_tx_dllp,
    output logic [PORTS-1:0] phy_tx_nullify,
    output logic [LANE*PORTS-1:0] phy_tx_end,
    output logic [DATA_WIDTH*PORTS-1:0] phy_tx_data,
    input logic [PORTS-1:0] phy_tx_ready,
    input logic [PORTS-1:0] phy_rx_valid,
    input logic [PORTS-1:0] phy_rx_sop,
    input logic [PORTS-1:0] phy_rx_eop,
    input logic [PORTS-1:0] phy_rx_dllp,
    input logic [PORTS-1:0] phy_rx_nullify,
    input logic [PORTS-1:0] phy_rx_error,
    input logic [LANE*PORTS-1:0] phy_rx_end,
    input logic [DATA_WIDTH*PORTS-1:0] phy_rx_data,

    // Status
    output logic [PORTS-1:0] dl_up,
    output logic [PORTS-1:0] hot_reset,     // a hot reset of the link; its port is held down
    output logic [PORTS-1:0] link_disable,
    output logic [6*PORTS-1:0] events,      // pcie_switch.svh
    output logic [6*PORTS*COUNTER_WIDTH-1:0] counts,
    output logic [15*COUNTER_WIDTH*PORTS-1:0] tl_counts,
    output logic [16*COUNTER_WIDTH*PORTS-1:0] dll_counts
);
    `include "pcie_dll.svh"
    `include "pcie_tl.svh"
    localparam int STREAMS = 3 * PORTS;

    logic [STREAMS-1:0] rx_valid, rx_ready, rx_sop, rx_eop, rx_cut, rx_poisoned, tx_room;
    logic [LANE*STREAMS-1:0] rx_end;
    logic [DATA_WIDTH*STREAMS-1:0] rx_data;
    logic [PORTS-1:0] tx_valid, tx_sop, tx_eop, active, malformed, overflow, protocol_error, link_correctable;
    logic [LANE*PORTS-1:0] tx_end;
    logic [DATA_WIDTH*PORTS-1:0] tx_data;
    logic [3*PORTS-1:0] max_payload;

    for (genvar n = 0; n < PORTS; n++) begin : ports
        localparam int P = 3 * n;
        logic [1:0] dl_state;
        logic [15:0] dll_events;
        logic [7:0] syndrome;
        logic error_valid;
        pcie_port #(
            .DATA_WIDTH(DATA_WIDTH),
            .NUM_VCS(1),
            .MAX_TLP_BYTES(MAX_TLP_BYTES),
            .MAX_PAYLOAD(MAX_PAYLOAD),
            .TX_BYTES(TX_BYTES),
            .TX_TLPS(TX_TLPS),
            .RX_P_HEADERS(RX_P_HEADERS),
            .RX_P_DATA(RX_P_DATA),
            .RX_NP_HEADERS(RX_NP_HEADERS),
            .RX_NP_DATA(RX_NP_DATA),
            .RX_CPL_HEADERS(RX_CPL_HEADERS),
            .RX_CPL_DATA(RX_CPL_DATA),
            .INFINITE_COMPLETIONS(0),
            .BLOCK_RAM(BLOCK_RAM),
            .VC_PHASES(2),
            .REPLAY_BYTES(REPLAY_BYTES),
            .REPLAY_TLPS(REPLAY_TLPS),
            .CUT_THROUGH(CUT_THROUGH),
            .FEATURE_EXCHANGE(FEATURE_EXCHANGE),
            .INIT_FC_CYCLES(INIT_FC_CYCLES),
            .COUNTER_WIDTH(COUNTER_WIDTH)
        ) port (
            .clk(clk),
            .rst(rst),
            .tc_map(24'd0),
            .vc_enable(1'b1),
            .vc_arbitration(2'd0),
            .vc_phases(6'd0),
            .max_payload(max_payload[3*n+:3]),
            .update_fc_latency_limit(update_fc_latency_limit[16*n+:16]),
            .update_fc_period(update_fc_period[24*n+:24]),
            .local_features(local_features),
            .tx_valid(tx_valid[n]),
            .tx_sop(tx_sop[n]),
            .tx_eop(tx_eop[n]),
            .tx_end(tx_end[LANE*n+:LANE]),
            .tx_data(tx_data[DATA_WIDTH*n+:DATA_WIDTH]),
            .tx_vc(3'd0),
            .tx_ready(),
            .tx_room(tx_room[P+:3]),
            .rx_p_valid(rx_valid[P]),
            .rx_p_sop(rx_sop[P]),
            .rx_p_eop(rx_eop[P]),
            .rx_p_cut(rx_cut[P]),
            .rx_p_poisoned(rx_poisoned[P]),
            .rx_p_vc(),
            .rx_p_end(rx_end[LANE*P+:LANE]),
            .rx_p_data(rx_data[DATA_WIDTH*P+:DATA_WIDTH]),
            .rx_p_ready(rx_ready[P]),
            .rx_np_valid(rx_valid[P+1]),
            .rx_np_sop(rx_sop[P+1]),
            .rx_np_eop(rx_eop[P+1]),
            .rx_np_cut(rx_cut[P+1]),
            .rx_np_poisoned(rx_poisoned[P+1]),
            .rx_np_vc(),
            .rx_np_end(rx_end[LANE*(P+1)+:LANE]),
            .rx_np_data(rx_data[DATA_WIDTH*(P+1)+:DATA_WIDTH]),
            .rx_np_ready(rx_ready[P+1]),
            .rx_cpl_valid(rx_valid[P+2]),
            .rx_cpl_sop(rx_sop[P+2]),
            .rx_cpl_eop(rx_eop[P+2]),
            .rx_cpl_cut(rx_cut[P+2]),
            .rx_cpl_poisoned(rx_poisoned[P+2]),
            .rx_cpl_vc(),
            .rx_cpl_end(rx_end[LANE*(P+2)+:LANE]),
            .rx_cpl_data(rx_data[DATA_WIDTH*(P+2)+:DATA_WIDTH]),
            .rx_cpl_ready(rx_ready[P+2]),
            .scaled_flow_control(),
            .tx_starved(),
            .error_valid(error_valid),
            .error_syndrome(syndrome),
            .error_header(),
            .tl_events(),
            .tl_counts(tl_counts[15*COUNTER_WIDTH*n+:15*COUNTER_WIDTH]),
            .ecrc_generate(1'b0),
            .ecrc_check(1'b0),
            .ecrc_error(),
            .ecrc_header(),
            .replay_timer_limit(replay_timer_limit[16*n+:16]),
            .ack_latency_limit(ack_latency_limit[16*n+:16]),
            .ack_count_limit(ack_count_limit[8*n+:8]),
            .phy_link_up(phy_link_up[n] && !hot_reset[n] && !link_disable[n]),
            .phy_recovery(phy_recovery[n]),
            .retrain_request(retrain_request[n]),
            .phy_tx_valid(phy_tx_valid[n]),
            .phy_tx_sop(phy_tx_sop[n]),
            .phy_tx_eop(phy_tx_eop[n]),
            .phy_tx_dllp(phy_tx_dllp[n]),
            .phy_tx_nullify(phy_tx_nullify[n]),
            .phy_tx_end(phy_tx_end[LANE*n+:LANE]),
            .phy_tx_data(phy_tx_data[DATA_WIDTH*n+:DATA_WIDTH]),
            .phy_tx_ready(phy_tx_ready[n]),
            .phy_rx_valid(phy_rx_valid[n]),
            .phy_rx_sop(phy_rx_sop[n]),
            .phy_rx_eop(phy_rx_eop[n]),
            .phy_rx_dllp(phy_rx_dllp[n]),
            .phy_rx_nullify(phy_rx_nullify[n]),
            .phy_rx_error(phy_rx_error[n]),
            .phy_rx_end(phy_rx_end[LANE*n+:LANE]),
            .phy_rx_data(phy_rx_data[DATA_WIDTH*n+:DATA_WIDTH]),
            .vc_ready(),
            .tx_dllp_valid(1'b0),
            .tx_dllp_bytes(32'd0),
            .tx_dllp_ready(),
            .rx_dllp_valid(),
            .rx_dllp_bytes(),
            .dl_state(dl_state),
            .dl_up(dl_up[n]),
            .remote_features_valid(),
            .remote_features(),
            .events(dll_events),
            .counts(dll_counts[16*COUNTER_WIDTH*n+:16*COUNTER_WIDTH])
        );
        assign active[n] = dl_state == DL_ACTIVE;
        assign malformed[n] = error_valid && syndrome[MALFORMED-1:0] != '0;
        assign overflow[n] = error_valid && syndrome[EVENT_OVERFLOW];
        assign protocol_error[n] = dll_events[EVENT_PROTOCOL_ERROR];
        // Bad TLP, Bad DLLP, Receiver Error, Replay Timer Timeout, REPLAY_NUM Rollover.
        assign link_correctable[n] = dll_events[EVENT_BAD_LCRC] || dll_events[EVENT_SEQUENCE_GAP] || dll_events[EVENT_RECEIVER_ERROR] || dll_events[EVENT_BAD_DLLP]
            || dll_events[EVENT_REPLAY_TIMEOUT] || dll_events[EVENT_REPLAY_ROLLOVER];
        logic unused;
        assign unused = &dll_events;
    end

    pcie_switch_core #(
        .DOWNSTREAM(DOWNSTREAM),
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .VENDOR_ID(VENDOR_ID),
        .UPSTREAM_ID(UPSTREAM_ID),
        .DOWNSTREAM_ID(DOWNSTREAM_ID),
        .REVISION(REVISION),
        .LINK_SPEED(LINK_SPEED),
        .LINK_WIDTH(LINK_WIDTH),
        .COUNTER_WIDTH(COUNTER_WIDTH)
    ) core (
        .clk(clk),
        .rst(rst),
        .rx_valid(rx_valid),
        .rx_ready(rx_ready),
        .rx_sop(rx_sop),
        .rx_eop(rx_eop),
        .rx_cut(rx_cut),
        .rx_poisoned(rx_poisoned),
        .rx_end(rx_end),
        .rx_data(rx_data),
        .tx_valid(tx_valid),
        .tx_sop(tx_sop),
        .tx_eop(tx_eop),
        .tx_end(tx_end),
        .tx_data(tx_data),
        .tx_room(tx_room),
        .active(active),
        .link_up(dl_up),
        .link_speed(link_speed),
        .link_width(link_width),
        .malformed(malformed),
        .overflow(overflow),
        .protocol_error(protocol_error),
        .link_correctable(link_correctable),
        .max_payload(max_payload),
        .hot_reset(hot_reset),
        .link_disable(link_disable),
        .events(events),
        .counts(counts)
    );
endmodule
