// SPDX-License-Identifier: Apache-2.0 OR MIT
// The system with a RISC-V core as the whole host of a lab: core, memory and root complex. riser_root_complex is riser's, and only the link here. The console
// goes to riser's standard error.
module soc_system #(
    localparam int DATA_WIDTH = 128,
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    output logic up
);
    logic clk, rst, phy_link_up, phy_recovery, retrain_request, phy_tx_valid, phy_tx_sop, phy_tx_eop, phy_tx_dllp, phy_tx_nullify, phy_tx_ready, phy_rx_valid;
    logic phy_rx_sop, phy_rx_eop, phy_rx_dllp, phy_rx_nullify, phy_rx_error, link_down, uart_valid, finish_valid;
    logic [DATA_WIDTH-1:0] phy_tx_data, phy_rx_data;
    logic [LANE-1:0] phy_tx_end;
    logic [7:0] uart_data;
    logic [3:0] link_speed;
    logic [5:0] link_width;
    // verilator lint_off UNUSEDSIGNAL
    logic [3:0] phy_rx_end;
    logic [31:0] finish_value;
    // verilator lint_on UNUSEDSIGNAL

    rocket_soc #(
        .DATA_WIDTH(DATA_WIDTH)
    ) soc (
        .clk(clk),
        .rst(rst),
        .nic_near(1'b0),
        .phy_link_up(phy_link_up),
        .phy_recovery(phy_recovery),
        .link_speed(link_speed),
        .link_width(link_width),
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
        .phy_rx_end(phy_rx_end[LANE-1:0]),
        .phy_rx_data(phy_rx_data),
        .link_down(link_down),
        .dl_up(up),
        .uart_valid(uart_valid),
        .uart_data(uart_data),
        .finish_valid(finish_valid),
        .finish_value(finish_value)
    );

    always_ff @(posedge clk) if (uart_valid) $write("%c", uart_data);

    riser_root_complex link (
        .user_clk(clk),
        .user_reset(rst),
        .phy_tx_data(phy_tx_data),
        .phy_rx_data(phy_rx_data),
        .phy_link_up(phy_link_up),
        .phy_recovery(phy_recovery),
        .link_speed(link_speed),
        .link_width(link_width),
        .retrain_request(retrain_request),
        .hot_reset(link_down),
        .phy_tx_valid(phy_tx_valid),
        .phy_tx_sop(phy_tx_sop),
        .phy_tx_eop(phy_tx_eop),
        .phy_tx_dllp(phy_tx_dllp),
        .phy_tx_nullify(phy_tx_nullify),
        .phy_tx_end(4'(phy_tx_end)),
        .phy_tx_ready(phy_tx_ready),
        .phy_rx_valid(phy_rx_valid),
        .phy_rx_sop(phy_rx_sop),
        .phy_rx_eop(phy_rx_eop),
        .phy_rx_dllp(phy_rx_dllp),
        .phy_rx_nullify(phy_rx_nullify),
        .phy_rx_error(phy_rx_error),
        .phy_rx_end(phy_rx_end),
        .software_ended(finish_valid),
        .software_status(finish_value[7:0])
    );
endmodule
