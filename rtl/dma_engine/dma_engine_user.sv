// SPDX-License-Identifier: Apache-2.0 OR MIT
// The user side of a block: its ports with the guides' names (PG023, PG156, PG213), connected to the core. This module
// handles the layout and width of `tuser`; the top modules instantiate the block and this module.
// Handshake: AXI4-Stream, double-word aligned, no straddling, client tags (AXISTEN_IF_ENABLE_CLIENT_TAG), MSI-X outside
// of the block. This module never uses the block's own interrupts or its configuration management.
module dma_engine_user #(
    parameter int DATA_WIDTH = 256,
    parameter int FUNCTIONS = 2,
    parameter int H2D_ENGINES = 1,
    parameter int D2H_ENGINES = 1,
    parameter int TAGS = 64,
    parameter int BUFFER_BYTES = 16384,
    parameter int READ_BYTES = 512,
    parameter int DEVICE_ENTRIES = 8,
    parameter int LOOP_BYTES = 8192,
    parameter int CLOCK_MHZ = 250,
    parameter int FIRST_VF = 64,
    parameter int PFS = 4,       // physical functions of the block's ports; only the first is used
    parameter int VFS = 8,       // virtual functions of the block's ports
    parameter int NUMBER = 4,    // bits of a sequence number
    parameter int HOLD_READS = 0,
    parameter int RQ_USER = 60,
    parameter int RC_USER = 75,
    parameter int CQ_USER = 85,
    parameter int CC_USER = 33,
    localparam int LANES = DATA_WIDTH / 32
) (
    input logic user_clk,
    input logic user_reset,

    output logic [DATA_WIDTH-1:0] s_axis_rq_tdata,
    output logic [LANES-1:0] s_axis_rq_tkeep,
    output logic s_axis_rq_tlast,
    input logic s_axis_rq_tready,
    output logic [RQ_USER-1:0] s_axis_rq_tuser,
    output logic s_axis_rq_tvalid,
    input logic [NUMBER-1:0] pcie_rq_seq_num0,
    input logic pcie_rq_seq_num_vld0,
    input logic [NUMBER-1:0] pcie_rq_seq_num1,
    input logic pcie_rq_seq_num_vld1,
    input logic [3:0] pcie_tfc_nph_av,  // two bits, on UltraScale+ four

    input logic [DATA_WIDTH-1:0] m_axis_rc_tdata,
    input logic [LANES-1:0] m_axis_rc_tkeep,
    input logic m_axis_rc_tlast,
    output logic m_axis_rc_tready,
    input logic [RC_USER-1:0] m_axis_rc_tuser,
    input logic m_axis_rc_tvalid,

    input logic [DATA_WIDTH-1:0] m_axis_cq_tdata,
    input logic [LANES-1:0] m_axis_cq_tkeep,
    input logic m_axis_cq_tlast,
    output logic m_axis_cq_tready,
    input logic [CQ_USER-1:0] m_axis_cq_tuser,
    input logic m_axis_cq_tvalid,
    output logic pcie_cq_np_req,

    output logic [DATA_WIDTH-1:0] s_axis_cc_tdata,
    output logic [LANES-1:0] s_axis_cc_tkeep,
    output logic s_axis_cc_tlast,
    input logic s_axis_cc_tready,
    output logic [CC_USER-1:0] s_axis_cc_tuser,
    output logic s_axis_cc_tvalid,

    input logic [2:0] cfg_max_payload,
    input logic [2:0] cfg_max_read_req,
    input logic [4*PFS-1:0] cfg_function_status,
    input logic [2*VFS-1:0] cfg_vf_status,
    input logic [PFS-1:0] cfg_interrupt_msix_enable,
    input logic [PFS-1:0] cfg_interrupt_msix_mask,
    input logic [VFS-1:0] cfg_interrupt_msix_vf_enable,
    input logic [VFS-1:0] cfg_interrupt_msix_vf_mask,
    input logic [PFS-1:0] cfg_flr_in_process,
    output logic [PFS-1:0] cfg_flr_done,
    input logic [VFS-1:0] cfg_vf_flr_in_process,
    output logic [VFS-1:0] cfg_vf_flr_done
);
    localparam bit WIDE = DATA_WIDTH == 512;
    logic [3:0] rq_first_be, rq_last_be;
    logic [NUMBER-1:0] rq_number;
    logic rc_discontinue;
    logic [3:0] cq_first_be, cq_last_be;

    // ---- tuser ----
    // On RQ and CC of 512 bits, the first and the last beat of a packet are marked.
    logic rq_first, cc_first;
    always_ff @(posedge user_clk)
        if (user_reset) {rq_first, cc_first} <= 2'b11;
        else begin
            if (s_axis_rq_tvalid && s_axis_rq_tready) rq_first <= s_axis_rq_tlast;
            if (s_axis_cc_tvalid && s_axis_cc_tready) cc_first <= s_axis_cc_tlast;
        end

    function automatic logic [3:0] last_lane(input logic [LANES-1:0] keep);
        last_lane = '0;
        for (int l = 0; l < LANES; l++) if (keep[l]) last_lane = 4'(l);
    endfunction

    if (WIDE) begin : wide
        always_comb begin
            s_axis_rq_tuser = '0;
            s_axis_rq_tuser[3:0] = rq_first_be;
            s_axis_rq_tuser[11:8] = rq_last_be;
            s_axis_rq_tuser[20] = rq_first;
            s_axis_rq_tuser[26] = s_axis_rq_tlast;
            s_axis_rq_tuser[31:28] = last_lane(s_axis_rq_tkeep);
            s_axis_rq_tuser[61+:NUMBER] = rq_number;
            s_axis_cc_tuser = '0;
            s_axis_cc_tuser[0] = cc_first;
            s_axis_cc_tuser[6] = s_axis_cc_tlast;
            s_axis_cc_tuser[11:8] = last_lane(s_axis_cc_tkeep);
        end
        assign cq_first_be = m_axis_cq_tuser[3:0];
        assign cq_last_be = m_axis_cq_tuser[11:8];
        assign rc_discontinue = m_axis_rc_tuser[96];
    end else begin : narrow
        // UltraScale+ has two more bits of a sequence number.
        logic [5:0] long_number;
        assign long_number = 6'(rq_number);
        assign s_axis_rq_tuser = RQ_USER'({long_number[5:4], 32'd0, long_number[3:0], 16'd0, rq_last_be, rq_first_be});
        assign s_axis_cc_tuser = '0;
        assign cq_first_be = m_axis_cq_tuser[3:0];
        assign cq_last_be = m_axis_cq_tuser[7:4];
        assign rc_discontinue = m_axis_rc_tuser[42];
    end
    assign m_axis_rc_tready = 1'b1;

    // ---- functions ----
    logic [FUNCTIONS-1:0] there, bus_master, msix_enable, msix_mask, flr, flr_done;
    assign there[0] = 1'b1;
    assign bus_master[0] = cfg_function_status[2];
    assign msix_enable[0] = cfg_interrupt_msix_enable[0];
    assign msix_mask[0] = cfg_interrupt_msix_mask[0];
    assign flr[0] = cfg_flr_in_process[0];
    assign cfg_flr_done = PFS'(flr_done[0]);
    for (genvar v = 0; v < VFS; v++) begin : vfs
        if (v + 1 < FUNCTIONS) begin : used
            assign there[v+1] = cfg_vf_status[2*v];
            assign bus_master[v+1] = cfg_vf_status[2*v+1];
            assign msix_enable[v+1] = cfg_interrupt_msix_vf_enable[v];
            assign msix_mask[v+1] = cfg_interrupt_msix_vf_mask[v];
            assign flr[v+1] = cfg_vf_flr_in_process[v];
            assign cfg_vf_flr_done[v] = flr_done[v+1];
        end else begin : unused
            assign cfg_vf_flr_done[v] = 1'b0;
        end
    end

    // Unused inputs: `tkeep` follows from lengths, and other functions do not exist.
    /* verilator lint_off UNUSEDSIGNAL */
    logic others;
    assign others = ^{
        m_axis_rc_tkeep, m_axis_cq_tkeep, m_axis_rc_tuser, m_axis_cq_tuser, cfg_function_status, cfg_vf_status, cfg_interrupt_msix_enable,
        cfg_interrupt_msix_mask, cfg_interrupt_msix_vf_enable, cfg_interrupt_msix_vf_mask, cfg_flr_in_process, cfg_vf_flr_in_process,
        rq_first, cc_first
    };
    /* verilator lint_on UNUSEDSIGNAL */

    dma_engine_core #(
        .DATA_WIDTH(DATA_WIDTH),
        .FUNCTIONS(FUNCTIONS),
        .H2D_ENGINES(H2D_ENGINES),
        .D2H_ENGINES(D2H_ENGINES),
        .TAGS(TAGS),
        .BUFFER_BYTES(BUFFER_BYTES),
        .READ_BYTES(READ_BYTES),
        .DEVICE_ENTRIES(DEVICE_ENTRIES),
        .LOOP_BYTES(LOOP_BYTES),
        .CLOCK_MHZ(CLOCK_MHZ),
        .FIRST_VF(FIRST_VF),
        .NUMBER(NUMBER),
        .HOLD_READS(HOLD_READS)
    ) core (
        .clk(user_clk),
        .rst(user_reset),
        .rq_tdata(s_axis_rq_tdata),
        .rq_tkeep(s_axis_rq_tkeep),
        .rq_tlast(s_axis_rq_tlast),
        .rq_tvalid(s_axis_rq_tvalid),
        .rq_tready(s_axis_rq_tready),
        .rq_first_be,
        .rq_last_be,
        .rq_number,
        .rq_back({pcie_rq_seq_num_vld1, pcie_rq_seq_num_vld0}),
        .rq_back_numbers({pcie_rq_seq_num1, pcie_rq_seq_num0}),
        .rq_read_credits(pcie_tfc_nph_av),
        .rc_tdata(m_axis_rc_tdata),
        .rc_tlast(m_axis_rc_tlast),
        .rc_tvalid(m_axis_rc_tvalid),
        .rc_discontinue,
        .cq_tdata(m_axis_cq_tdata),
        .cq_tlast(m_axis_cq_tlast),
        .cq_tvalid(m_axis_cq_tvalid),
        .cq_tready(m_axis_cq_tready),
        .cq_first_be,
        .cq_last_be,
        .cq_np_req(pcie_cq_np_req),
        .cc_tdata(s_axis_cc_tdata),
        .cc_tkeep(s_axis_cc_tkeep),
        .cc_tlast(s_axis_cc_tlast),
        .cc_tvalid(s_axis_cc_tvalid),
        .cc_tready(s_axis_cc_tready),
        .max_payload(cfg_max_payload),
        .max_read_request(cfg_max_read_req),
        .there,
        .bus_master,
        .msix_enable,
        .msix_mask,
        .flr,
        .flr_done
    );
endmodule
