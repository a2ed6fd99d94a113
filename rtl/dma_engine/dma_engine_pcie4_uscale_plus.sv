// SPDX-License-Identifier: Apache-2.0 OR MIT
// riser's DMA engine with pcie4_uscale_plus_0 (PG213), like an example design: the block with its published ports, and the user side. The block is generated
// with 256 or 512 bits at 250 MHz, double-word alignment, no straddling, client tags of 8 bits, MSI-X outside of the block.
module dma_engine_pcie4_uscale_plus #(
    parameter int FUNCTIONS = 2,   // the physical function, and at most 64 virtual ones
    parameter int LANES = 8,
    parameter int DATA_WIDTH = 256,  // of the streams: 256 or 512
    parameter int DEVICE_ENTRIES = 8,
    parameter int H2D_ENGINES = 1,
    parameter int D2H_ENGINES = 1,
    parameter int HOLD_READS = 0   // 1: send a read only if the block has a credit for it
) (
    output logic [LANES-1:0] pci_exp_txp,
    output logic [LANES-1:0] pci_exp_txn,
    input logic [LANES-1:0] pci_exp_rxp,
    input logic [LANES-1:0] pci_exp_rxn,
    input logic sys_clk,
    input logic sys_clk_gt,
    input logic sys_reset
);
    // Width of `tuser` as in the guide.
    localparam bit WIDE = DATA_WIDTH == 512;
    localparam int RQ_USER = WIDE ? 137 : 62, RC_USER = WIDE ? 161 : 75, CQ_USER = WIDE ? 183 : 88, CC_USER = WIDE ? 81 : 33;
    logic user_clk, user_reset;
    logic [DATA_WIDTH-1:0] rq_tdata, rc_tdata, cq_tdata, cc_tdata;
    logic [DATA_WIDTH/32-1:0] rq_tkeep, rc_tkeep, cq_tkeep, cc_tkeep;
    logic rq_tlast, rc_tlast, cq_tlast, cc_tlast, rq_tvalid, rc_tvalid, cq_tvalid, cc_tvalid, rc_tready, cq_tready;
    logic [3:0] rq_tready, cc_tready;  // four copies of one signal
    logic [RQ_USER-1:0] rq_tuser;
    logic [RC_USER-1:0] rc_tuser;
    logic [CQ_USER-1:0] cq_tuser;
    logic [CC_USER-1:0] cc_tuser;
    logic [5:0] seq_num0, seq_num1;
    logic seq_num_vld0, seq_num_vld1, np_req;
    logic [1:0] max_payload;
    logic [2:0] max_read_req;
    logic [3:0] nph_av;
    logic [15:0] function_status;
    logic [503:0] vf_status;
    logic [3:0] msix_enable, msix_mask, flr_in_process, flr_done;
    logic [251:0] msix_vf_enable, msix_vf_mask, vf_flr_in_process, vf_flr_done;

    // The block receives one virtual function at a time, by the block's number.
    logic vf_done;
    logic [7:0] vf_done_number;
    assign vf_done = vf_flr_done != '0;
    always_comb begin
        vf_done_number = '0;
        for (int v = 0; v < 252; v++) if (vf_flr_done[v]) vf_done_number = 8'(v + 4);
    end

    // Ports that are not named here are unused outputs, or inputs with the defaults of the generated template.
    /* verilator lint_off PINMISSING */
    pcie4_uscale_plus_0 block (
        .pci_exp_txp,
        .pci_exp_txn,
        .pci_exp_rxp,
        .pci_exp_rxn,
        .sys_clk,
        .sys_clk_gt,
        .sys_reset,
        .user_clk,
        .user_reset,
        .s_axis_rq_tdata(rq_tdata),
        .s_axis_rq_tkeep(rq_tkeep),
        .s_axis_rq_tlast(rq_tlast),
        .s_axis_rq_tready(rq_tready),
        .s_axis_rq_tuser(rq_tuser),
        .s_axis_rq_tvalid(rq_tvalid),
        .m_axis_rc_tdata(rc_tdata),
        .m_axis_rc_tkeep(rc_tkeep),
        .m_axis_rc_tlast(rc_tlast),
        .m_axis_rc_tready(rc_tready),
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
        .s_axis_cc_tuser(cc_tuser),
        .s_axis_cc_tvalid(cc_tvalid),
        .pcie_rq_seq_num0(seq_num0),
        .pcie_rq_seq_num_vld0(seq_num_vld0),
        .pcie_rq_seq_num1(seq_num1),
        .pcie_rq_seq_num_vld1(seq_num_vld1),
        .pcie_tfc_nph_av(nph_av),
        .pcie_cq_np_req({1'b0, np_req}),
        .cfg_max_payload(max_payload),
        .cfg_max_read_req(max_read_req),
        .cfg_function_status(function_status),
        .cfg_vf_status(vf_status),
        .cfg_interrupt_msix_enable(msix_enable),
        .cfg_interrupt_msix_mask(msix_mask),
        .cfg_interrupt_msix_vf_enable(msix_vf_enable),
        .cfg_interrupt_msix_vf_mask(msix_vf_mask),
        .cfg_flr_in_process(flr_in_process),
        .cfg_flr_done(flr_done),
        .cfg_vf_flr_in_process(vf_flr_in_process),
        .cfg_vf_flr_func_num(vf_done_number),
        .cfg_vf_flr_done(vf_done),
        .cfg_err_cor_in(1'b0),
        .cfg_err_uncor_in(1'b0),
        .cfg_config_space_enable(1'b1),
        .cfg_link_training_enable(1'b1),
        .cfg_power_state_change_ack(1'b1),
        .cfg_interrupt_int(4'd0),
        .cfg_interrupt_pending(4'd0)
    );
    /* verilator lint_on PINMISSING */

    dma_engine_user #(
        .DATA_WIDTH(DATA_WIDTH),
        .FUNCTIONS(FUNCTIONS),
        .H2D_ENGINES(H2D_ENGINES),
        .D2H_ENGINES(D2H_ENGINES),
        .TAGS(256),
        .BUFFER_BYTES(65536),
        .DEVICE_ENTRIES(DEVICE_ENTRIES),
        .FIRST_VF(4),
        .PFS(4),
        .VFS(252),
        .NUMBER(6),
        .RQ_USER(RQ_USER),
        .RC_USER(RC_USER),
        .CQ_USER(CQ_USER),
        .CC_USER(CC_USER),
        .HOLD_READS(HOLD_READS)
    ) user (
        .user_clk,
        .user_reset,
        .s_axis_rq_tdata(rq_tdata),
        .s_axis_rq_tkeep(rq_tkeep),
        .s_axis_rq_tlast(rq_tlast),
        .s_axis_rq_tready(rq_tready[0]),
        .s_axis_rq_tuser(rq_tuser),
        .s_axis_rq_tvalid(rq_tvalid),
        .pcie_rq_seq_num0(seq_num0),
        .pcie_rq_seq_num_vld0(seq_num_vld0),
        .pcie_rq_seq_num1(seq_num1),
        .pcie_rq_seq_num_vld1(seq_num_vld1),
        .pcie_tfc_nph_av(nph_av),
        .m_axis_rc_tdata(rc_tdata),
        .m_axis_rc_tkeep(rc_tkeep),
        .m_axis_rc_tlast(rc_tlast),
        .m_axis_rc_tready(rc_tready),
        .m_axis_rc_tuser(rc_tuser),
        .m_axis_rc_tvalid(rc_tvalid),
        .m_axis_cq_tdata(cq_tdata),
        .m_axis_cq_tkeep(cq_tkeep),
        .m_axis_cq_tlast(cq_tlast),
        .m_axis_cq_tready(cq_tready),
        .m_axis_cq_tuser(cq_tuser),
        .m_axis_cq_tvalid(cq_tvalid),
        .pcie_cq_np_req(np_req),
        .s_axis_cc_tdata(cc_tdata),
        .s_axis_cc_tkeep(cc_tkeep),
        .s_axis_cc_tlast(cc_tlast),
        .s_axis_cc_tready(cc_tready[0]),
        .s_axis_cc_tuser(cc_tuser),
        .s_axis_cc_tvalid(cc_tvalid),
        .cfg_max_payload({1'b0, max_payload}),
        .cfg_max_read_req(max_read_req),
        .cfg_function_status(function_status),
        .cfg_vf_status(vf_status),
        .cfg_interrupt_msix_enable(msix_enable),
        .cfg_interrupt_msix_mask(msix_mask),
        .cfg_interrupt_msix_vf_enable(msix_vf_enable),
        .cfg_interrupt_msix_vf_mask(msix_vf_mask),
        .cfg_flr_in_process(flr_in_process),
        .cfg_flr_done(flr_done),
        .cfg_vf_flr_in_process(vf_flr_in_process),
        .cfg_vf_flr_done(vf_flr_done)
    );

    // The other copies have the same value.
    /* verilator lint_off UNUSEDSIGNAL */
    logic copies;
    assign copies = ^{rq_tready, cc_tready};
    /* verilator lint_on UNUSEDSIGNAL */
endmodule
