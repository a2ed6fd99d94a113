// SPDX-License-Identifier: Apache-2.0 OR MIT
// The benchmark device with pcie3_7x_0 (PG023), the block of the NetFPGA-SUME and the VC709: 256 bits at 250 MHz, double-word
// alignment, no straddling, client tags, one MSI vector.
module pcie_bench_pcie3_7x #(
    parameter int LANES = 8
) (
    output logic [LANES-1:0] pci_exp_txp,
    output logic [LANES-1:0] pci_exp_txn,
    input logic [LANES-1:0] pci_exp_rxp,
    input logic [LANES-1:0] pci_exp_rxn,
    input logic sys_clk,
    input logic sys_reset
);
    logic user_clk, user_reset;
    logic [255:0] rq_tdata, rc_tdata, cq_tdata, cc_tdata;
    logic [7:0] rq_tkeep, rc_tkeep, cq_tkeep, cc_tkeep;
    logic rq_tlast, rc_tlast, cq_tlast, cc_tlast, rq_tvalid, rc_tvalid, cq_tvalid, cc_tvalid, cq_tready;
    logic [3:0] rq_tready, cc_tready;  // four copies of one signal
    logic [74:0] rc_tuser;
    logic [84:0] cq_tuser;
    logic [3:0] rq_first_be, rq_last_be, rq_number, seq_num;
    logic seq_num_vld, np_req, raise;
    logic [2:0] max_payload, max_read_req;
    logic [7:0] function_status;

    // Ports that are not named here are unused outputs, or inputs with the defaults of the generated template.
    /* verilator lint_off PINMISSING */
    pcie3_7x_0 block (
        .pci_exp_txp,
        .pci_exp_txn,
        .pci_exp_rxp,
        .pci_exp_rxn,
        .sys_clk,
        .sys_reset,
        .user_clk,
        .user_reset,
        .s_axis_rq_tdata(rq_tdata),
        .s_axis_rq_tkeep(rq_tkeep),
        .s_axis_rq_tlast(rq_tlast),
        .s_axis_rq_tready(rq_tready),
        .s_axis_rq_tuser({32'd0, rq_number, 16'd0, rq_last_be, rq_first_be}),
        .s_axis_rq_tvalid(rq_tvalid),
        .m_axis_rc_tdata(rc_tdata),
        .m_axis_rc_tkeep(rc_tkeep),
        .m_axis_rc_tlast(rc_tlast),
        .m_axis_rc_tready(1'b1),
        .m_axis_rc_tuser(rc_tuser),
        .m_axis_rc_tvalid(rc_tvalid),
        .m_axis_cq_tdata(cq_tdata),
        .m_axis_cq_tkeep(cq_tkeep),
        .m_axis_cq_tlast(cq_tlast),
        .m_axis_cq_tready(cq_tready),
        .m_axis_cq_tuser(cq_tuser),
        .m_axis_cq_tvalid(cq_tvalid),
        .s_axis_cc_tdata(cc_tdata),
        .s_axis_cc_tkeep(cc_tkeep),
        .s_axis_cc_tlast(cc_tlast),
        .s_axis_cc_tready(cc_tready),
        .s_axis_cc_tuser(33'd0),
        .s_axis_cc_tvalid(cc_tvalid),
        .pcie_rq_seq_num(seq_num),
        .pcie_rq_seq_num_vld(seq_num_vld),
        .pcie_cq_np_req(np_req),
        .cfg_max_payload(max_payload),
        .cfg_max_read_req(max_read_req),
        .cfg_function_status(function_status),
        .cfg_flr_done(2'd0),
        .cfg_vf_flr_done(6'd0),
        .cfg_err_cor_in(1'b0),
        .cfg_err_uncor_in(1'b0),
        .cfg_config_space_enable(1'b1),
        .cfg_link_training_enable(1'b1),
        .cfg_power_state_change_ack(1'b1),
        .cfg_interrupt_int(4'd0),
        .cfg_interrupt_pending(2'd0),
        .cfg_interrupt_msi_int({31'd0, raise})
    );
    /* verilator lint_on PINMISSING */

    pcie_bench_core core (
        .clk(user_clk),
        .rst(user_reset),
        .rq_tdata,
        .rq_tkeep,
        .rq_tlast,
        .rq_tvalid,
        .rq_tready(rq_tready[0]),
        .rq_first_be,
        .rq_last_be,
        .rq_number,
        .rq_back(seq_num_vld),
        .rq_back_number(seq_num),
        .rc_tdata,
        .rc_tlast,
        .rc_tvalid,
        .rc_discontinue(rc_tuser[42]),
        .cq_tdata,
        .cq_tlast,
        .cq_tvalid,
        .cq_tready,
        .cq_first_be(cq_tuser[3:0]),
        .cq_last_be(cq_tuser[7:4]),
        .cq_np_req(np_req),
        .cc_tdata,
        .cc_tkeep,
        .cc_tlast,
        .cc_tvalid,
        .cc_tready(cc_tready[0]),
        .max_payload,
        .max_read_request(max_read_req),
        .bus_master(function_status[2]),
        .raise
    );

    // The other copies have the same value. `tkeep` follows from lengths.
    /* verilator lint_off UNUSEDSIGNAL */
    logic others;
    assign others = ^{rq_tready, cc_tready, rc_tkeep, cq_tkeep, rc_tuser, cq_tuser, function_status};
    /* verilator lint_on UNUSEDSIGNAL */
endmodule
