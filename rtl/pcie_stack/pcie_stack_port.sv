// SPDX-License-Identifier: Apache-2.0 OR MIT
// pcie_port for a root complex or an endpoint: received posted TLPs are passed on whole, and the other TLPs after the posted ones that came before
// them. Errors of the layers have the bits of the AER status registers.
module pcie_stack_port #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 256,
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
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    input logic clk,
    input logic rst,

    // TLPs
    input logic tx_valid,
    output logic tx_ready,
    input logic tx_sop,
    input logic tx_eop,
    input logic [LANE-1:0] tx_end,
    input logic [DATA_WIDTH-1:0] tx_data,
    output logic p_valid,
    input logic p_ready,
    output logic p_sop,
    output logic p_eop,
    output logic [LANE-1:0] p_end,
    output logic [DATA_WIDTH-1:0] p_data,
    output logic p_poisoned,
    output logic np_valid,
    input logic np_ready,
    output logic np_sop,
    output logic np_eop,
    output logic [LANE-1:0] np_end,
    output logic [DATA_WIDTH-1:0] np_data,
    output logic np_poisoned,
    output logic cpl_valid,
    input logic cpl_ready,
    output logic cpl_sop,
    output logic cpl_eop,
    output logic [LANE-1:0] cpl_end,
    output logic [DATA_WIDTH-1:0] cpl_data,
    output logic cpl_poisoned,  // or cut: the data are not to be used

    input logic [2:0] max_payload,
    output logic [31:0] uncorrectable,
    output logic [31:0] correctable,

    // Frames
    input logic [15:0] replay_timer_limit,
    input logic [15:0] ack_latency_limit,
    input logic [7:0] ack_count_limit,
    input logic [15:0] update_fc_latency_limit,
    input logic [23:0] update_fc_period,
    input logic [22:0] local_features,
    input logic phy_link_up,
    input logic phy_recovery,
    output logic retrain_request,
    output logic phy_tx_valid,
    output logic phy_tx_sop,
    output logic phy_tx_eop,
    output logic phy_tx_dllp,
    output logic phy_tx_nullify,
    output logic [LANE-1:0] phy_tx_end,
    output logic [DATA_WIDTH-1:0] phy_tx_data,
    input logic phy_tx_ready,
    input logic phy_rx_valid,
    input logic phy_rx_sop,
    input logic phy_rx_eop,
    input logic phy_rx_dllp,
    input logic phy_rx_nullify,
    input logic phy_rx_error,
    input logic [LANE-1:0] phy_rx_end,
    input logic [DATA_WIDTH-1:0] phy_rx_data,

    output logic dl_up,
    output logic [15:0] dll_events,
    output logic [14:0] tl_events
);
    logic rx_p_valid, rx_p_ready, rx_p_sop, rx_p_eop, rx_p_cut, rx_p_poisoned;
    logic rx_np_valid, rx_np_ready, rx_cpl_valid, rx_cpl_ready, rx_cpl_cut, rx_cpl_poisoned;
    logic [LANE-1:0] rx_p_end;
    logic [DATA_WIDTH-1:0] rx_p_data;
    assign cpl_poisoned = rx_cpl_poisoned || rx_cpl_cut;

    // ---- received TLPs: posted ones whole, the others after the posted ones that came before them ----
    localparam int ROWS = 2 ** $clog2(2 * (MAX_PAYLOAD + 32) / (DATA_WIDTH / 8));
    logic [$clog2(ROWS):0] stored_tlps;
    pcie_stack_store #(
        .WIDTH(DATA_WIDTH + LANE + 2),
        .ROWS(ROWS)
    ) store (
        .clk(clk),
        .rst(rst),
        .in_valid(rx_p_valid),
        .in_ready(rx_p_ready),
        .in_eop(rx_p_eop),
        .in_cut(rx_p_cut),
        .in_row({rx_p_sop, rx_p_poisoned, rx_p_end, rx_p_data}),
        .out_valid(p_valid),
        .out_ready(p_ready),
        .out_eop(p_eop),
        .out_row({p_sop, p_poisoned, p_end, p_data}),
        .tlps(stored_tlps)
    );
    pcie_stack_order #(
        .COUNT($clog2(ROWS) + 1)
    ) np_order (
        .clk(clk),
        .rst(rst),
        .in_valid(rx_np_valid),
        .in_ready(rx_np_ready),
        .sop(np_sop),
        .out_valid(np_valid),
        .out_ready(np_ready),
        .stored(stored_tlps),
        .leaves(p_valid && p_ready && p_eop)
    );
    pcie_stack_order #(
        .COUNT($clog2(ROWS) + 1)
    ) cpl_order (
        .clk(clk),
        .rst(rst),
        .in_valid(rx_cpl_valid),
        .in_ready(rx_cpl_ready),
        .sop(cpl_sop),
        .out_valid(cpl_valid),
        .out_ready(cpl_ready),
        .stored(stored_tlps),
        .leaves(p_valid && p_ready && p_eop)
    );

    // ---- errors of the lower layers, by their bits in the AER status registers (PCIe 6.0 §7.8.4.2, §7.8.4.5) ----
    always_comb begin
        uncorrectable = '0;
        uncorrectable[4] = dll_events[7];               // Data Link Protocol Error
        uncorrectable[13] = |tl_events[10:9];           // Flow Control Protocol Error
        uncorrectable[17] = tl_events[7];               // Receiver Overflow
        uncorrectable[18] = |tl_events[6:0];            // Malformed TLP
        correctable = '0;
        correctable[0] = dll_events[4];                 // Receiver Error
        correctable[6] = |dll_events[1:0];              // Bad TLP
        correctable[7] = dll_events[5];                 // Bad DLLP
        correctable[8] = dll_events[9];                 // REPLAY_NUM Rollover
        correctable[12] = dll_events[8];                // Replay Timer Timeout
    end

    // verilator lint_off PINCONNECTEMPTY
    pcie_port #(
        .DATA_WIDTH(DATA_WIDTH),
        .NUM_VCS(1),
        .MAX_TLP_BYTES(MAX_PAYLOAD + 32),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .TX_BYTES(TX_BYTES),
        .TX_TLPS(TX_TLPS),
        .RX_P_HEADERS(RX_P_HEADERS),
        .RX_P_DATA(RX_P_DATA),
        .RX_NP_HEADERS(RX_NP_HEADERS),
        .RX_NP_DATA(RX_NP_DATA),
        .RX_CPL_HEADERS(RX_CPL_HEADERS),
        .RX_CPL_DATA(RX_CPL_DATA),
        .INFINITE_COMPLETIONS(1),
        .BLOCK_RAM(BLOCK_RAM),
        .REPLAY_BYTES(REPLAY_BYTES),
        .REPLAY_TLPS(REPLAY_TLPS),
        .CUT_THROUGH(CUT_THROUGH),
        .FEATURE_EXCHANGE(FEATURE_EXCHANGE),
        .INIT_FC_CYCLES(INIT_FC_CYCLES),
        .COUNTER_WIDTH(COUNTER_WIDTH)
    ) link (
        .clk(clk),
        .rst(rst),
        .tc_map(24'd0),
        .vc_enable(1'b1),
        .vc_arbitration(2'd0),
        .vc_phases(96'd0),
        .max_payload(max_payload),
        .update_fc_latency_limit(update_fc_latency_limit),
        .update_fc_period(update_fc_period),
        .local_features(local_features),
        .tx_valid(tx_valid),
        .tx_sop(tx_sop),
        .tx_eop(tx_eop),
        .tx_end(tx_end),
        .tx_data(tx_data),
        .tx_vc(3'd0),
        .tx_ready(tx_ready),
        .tx_room(),
        .rx_p_valid(rx_p_valid),
        .rx_p_sop(rx_p_sop),
        .rx_p_eop(rx_p_eop),
        .rx_p_cut(rx_p_cut),
        .rx_p_poisoned(rx_p_poisoned),
        .rx_p_vc(),
        .rx_p_end(rx_p_end),
        .rx_p_data(rx_p_data),
        .rx_p_ready(rx_p_ready),
        .rx_np_valid(rx_np_valid),
        .rx_np_sop(np_sop),
        .rx_np_eop(np_eop),
        .rx_np_cut(),
        .rx_np_poisoned(np_poisoned),
        .rx_np_vc(),
        .rx_np_end(np_end),
        .rx_np_data(np_data),
        .rx_np_ready(rx_np_ready),
        .rx_cpl_valid(rx_cpl_valid),
        .rx_cpl_sop(cpl_sop),
        .rx_cpl_eop(cpl_eop),
        .rx_cpl_cut(rx_cpl_cut),
        .rx_cpl_poisoned(rx_cpl_poisoned),
        .rx_cpl_vc(),
        .rx_cpl_end(cpl_end),
        .rx_cpl_data(cpl_data),
        .rx_cpl_ready(rx_cpl_ready),
        .scaled_flow_control(),
        .tx_starved(),
        .error_valid(),
        .error_syndrome(),
        .error_header(),
        .tl_events(tl_events),
        .tl_counts(),
        .replay_timer_limit(replay_timer_limit),
        .ack_latency_limit(ack_latency_limit),
        .ack_count_limit(ack_count_limit),
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
        .ecrc_generate(1'b0),
        .ecrc_check(1'b0),
        .ecrc_error(),
        .ecrc_header(),
        .vc_ready(),
        .tx_dllp_valid(1'b0),
        .tx_dllp_bytes(32'd0),
        .tx_dllp_ready(),
        .rx_dllp_valid(),
        .rx_dllp_bytes(),
        .dl_state(),
        .dl_up(dl_up),
        .remote_features_valid(),
        .remote_features(),
        .events(dll_events),
        .counts()
    );
    // verilator lint_on PINCONNECTEMPTY
endmodule
