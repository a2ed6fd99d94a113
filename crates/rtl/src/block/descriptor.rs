// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of the blocks with descriptor streams: Virtex-7 Gen3 (PG023), UltraScale (PG156), UltraScale+ (PG213). Only tables.

use super::{BIT, BlockKind, Port, Shape, Width, clock, constant, ignored, numbered};

/// A stream of the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stream {
    /// Requester requests: requests of the design.
    Rq,
    /// Requester completions: completions for the design.
    Rc,
    /// Completer requests: requests to the design.
    Cq,
    /// Completer completions: completions of the design.
    Cc,
}

impl Stream {
    /// Returns the width of its user signals in bits.
    pub(super) fn user_bits(self, shape: Shape) -> u16 {
        let plus = shape.kind == BlockKind::UltraScalePlus;
        match (self, shape.data_bits) {
            (Stream::Rq, 512) => 137,
            (Stream::Rc, 512) => 161,
            (Stream::Cq, 512) => 183,
            (Stream::Cc, 512) => 81,
            (Stream::Rq, _) => 60 + 2 * u16::from(plus),
            (Stream::Rc, _) => 75,
            (Stream::Cq, _) => 85 + 3 * u16::from(plus),
            (Stream::Cc, _) => 33,
        }
    }
}

numbered!(
    Read {
        RqData, CcData, ResetN, ResetP, RqKeep, RqLast, RqValid, RqUser, CcKeep, CcLast, CcValid, CcUser,
        RcReady, CqReady, NonPostedRequest, Register, RegisterFunction, RegisterGet, RegisterPut,
        CreditsOf, FlrDone, VfFlrDone, VfFlrFunction, Intx, MsiSelect, Msi, InterruptAttributes,
        InterruptFunction, MsixAddress, MsixData, Msix, MsixPending, MessageSend, ErrorCorrectable,
        ErrorUncorrectable,
    }
    Driven {
        RcData, CqData, Reset, LinkUp, RqReady, CcReady, RcKeep, RcLast, RcValid, RcUser, CqKeep, CqLast,
        CqValid, CqUser, NonPostedCount, Sequence0, Sequence0Valid, Sequence1, Sequence1Valid, Tag0,
        Tag0Valid, Tag1, Tag1Valid, TagsLeft, HeadersLeft, DataLeft, Width, Speed, MaxPayload,
        MaxReadRequest, FunctionStatus, FunctionPower, VfStatus, VfPower, Rcb, RegisterValue, RegisterDone,
        PostedHeaders, PostedData, NonPostedHeaders, NonPostedData, CompletionHeaders, CompletionData, Bus,
        FlrInProcess, VfFlrInProcess, IntxSent, MsiEnable, MsiVfEnable, MultipleMessages, MsiMask,
        InterruptSent, InterruptFailed, MsixEnable, MsixMask, MsixVfEnable, MsixVfMask, MsixSent,
        MsixFailed, MessageSent, HotReset,
    }
);

/// Ports of all of these blocks.
pub(super) const ALL: &[Port] = &[
    // data first, so that their lanes are whole words of both vectors
    read("s_axis_rq_tdata", Width::Data, Read::RqData),
    read("s_axis_cc_tdata", Width::Data, Read::CcData),
    driven("m_axis_rc_tdata", Width::Data, Driven::RcData),
    driven("m_axis_cq_tdata", Width::Data, Driven::CqData),
    // clocks and resets
    clock("user_clk"),
    driven("user_reset", BIT, Driven::Reset),
    driven("user_lnk_up", BIT, Driven::LinkUp),
    ignored("sys_clk", BIT),
    ignored("sys_clk_gt", BIT),
    // requester request
    read("s_axis_rq_tkeep", Width::KeepDwords, Read::RqKeep),
    read("s_axis_rq_tlast", BIT, Read::RqLast),
    read("s_axis_rq_tvalid", BIT, Read::RqValid),
    read("s_axis_rq_tuser", Width::User(Stream::Rq), Read::RqUser),
    driven("s_axis_rq_tready", Width::Bits(4), Driven::RqReady),
    // requester completion
    driven("m_axis_rc_tkeep", Width::KeepDwords, Driven::RcKeep),
    driven("m_axis_rc_tlast", BIT, Driven::RcLast),
    driven("m_axis_rc_tvalid", BIT, Driven::RcValid),
    driven("m_axis_rc_tuser", Width::User(Stream::Rc), Driven::RcUser),
    read("m_axis_rc_tready", BIT, Read::RcReady).absent(1),
    // completer request
    driven("m_axis_cq_tkeep", Width::KeepDwords, Driven::CqKeep),
    driven("m_axis_cq_tlast", BIT, Driven::CqLast),
    driven("m_axis_cq_tvalid", BIT, Driven::CqValid),
    driven("m_axis_cq_tuser", Width::User(Stream::Cq), Driven::CqUser),
    read("m_axis_cq_tready", BIT, Read::CqReady).absent(1),
    driven("pcie_cq_np_req_count", Width::Bits(6), Driven::NonPostedCount),
    // completer completion
    read("s_axis_cc_tkeep", Width::KeepDwords, Read::CcKeep),
    read("s_axis_cc_tlast", BIT, Read::CcLast),
    read("s_axis_cc_tvalid", BIT, Read::CcValid),
    read("s_axis_cc_tuser", Width::User(Stream::Cc), Read::CcUser),
    driven("s_axis_cc_tready", Width::Bits(4), Driven::CcReady),
    // management
    read("cfg_mgmt_write", BIT, Read::RegisterPut),
    ignored("cfg_mgmt_write_data", Width::Bits(32)),
    ignored("cfg_mgmt_byte_enable", Width::Bits(4)),
    read("cfg_mgmt_read", BIT, Read::RegisterGet),
    driven("cfg_mgmt_read_data", Width::Bits(32), Driven::RegisterValue),
    driven("cfg_mgmt_read_write_done", BIT, Driven::RegisterDone),
    // status: L0 is 10h
    constant("cfg_phy_link_down", BIT, 0),
    constant("cfg_phy_link_status", Width::Bits(2), 0b11),
    driven("cfg_max_read_req", Width::Bits(3), Driven::MaxReadRequest),
    driven("cfg_function_status", Width::Physical(4), Driven::FunctionStatus),
    driven("cfg_function_power_state", Width::Physical(3), Driven::FunctionPower),
    driven("cfg_vf_status", Width::Virtual(2), Driven::VfStatus),
    driven("cfg_vf_power_state", Width::Virtual(3), Driven::VfPower),
    constant("cfg_link_power_state", Width::Bits(2), 0),
    constant("cfg_err_cor_out", BIT, 0),
    constant("cfg_err_nonfatal_out", BIT, 0),
    constant("cfg_err_fatal_out", BIT, 0),
    constant("cfg_ltssm_state", Width::Bits(6), 0x10),
    driven("cfg_rcb_status", Width::Physical(1), Driven::Rcb),
    constant("cfg_obff_enable", Width::Bits(2), 0),
    constant("cfg_pl_status_change", BIT, 0),
    constant("cfg_tph_requester_enable", Width::Physical(1), 0),
    constant("cfg_tph_st_mode", Width::Physical(3), 0),
    constant("cfg_vf_tph_requester_enable", Width::Virtual(1), 0),
    constant("cfg_vf_tph_st_mode", Width::Virtual(3), 0),
    // messages
    constant("cfg_msg_received", BIT, 0),
    constant("cfg_msg_received_data", Width::Bits(8), 0),
    constant("cfg_msg_received_type", Width::Bits(5), 0),
    read("cfg_msg_transmit", BIT, Read::MessageSend),
    ignored("cfg_msg_transmit_type", Width::Bits(3)),
    ignored("cfg_msg_transmit_data", Width::Bits(32)),
    driven("cfg_msg_transmit_done", BIT, Driven::MessageSent),
    // flow control
    driven("cfg_fc_ph", Width::Bits(8), Driven::PostedHeaders),
    driven("cfg_fc_pd", Width::Bits(12), Driven::PostedData),
    driven("cfg_fc_nph", Width::Bits(8), Driven::NonPostedHeaders),
    driven("cfg_fc_npd", Width::Bits(12), Driven::NonPostedData),
    driven("cfg_fc_cplh", Width::Bits(8), Driven::CompletionHeaders),
    driven("cfg_fc_cpld", Width::Bits(12), Driven::CompletionData),
    read("cfg_fc_sel", Width::Bits(3), Read::CreditsOf),
    // control
    ignored("cfg_hot_reset_in", BIT),
    driven("cfg_hot_reset_out", BIT, Driven::HotReset),
    ignored("cfg_config_space_enable", BIT),
    ignored("cfg_dsn", Width::Bits(64)),
    ignored("cfg_ds_port_number", Width::Bits(8)),
    ignored("cfg_ds_bus_number", Width::Bits(8)),
    ignored("cfg_ds_device_number", Width::Bits(5)),
    ignored("cfg_ds_function_number", Width::Bits(3)),
    ignored("cfg_vend_id", Width::Bits(16)),
    ignored("cfg_subsys_vend_id", Width::Bits(16)),
    ignored("cfg_power_state_change_ack", BIT),
    constant("cfg_power_state_change_interrupt", BIT, 0),
    read("cfg_err_cor_in", BIT, Read::ErrorCorrectable),
    read("cfg_err_uncor_in", BIT, Read::ErrorUncorrectable),
    driven("cfg_flr_in_process", Width::Physical(1), Driven::FlrInProcess),
    read("cfg_flr_done", Width::Physical(1), Read::FlrDone),
    driven("cfg_vf_flr_in_process", Width::Virtual(1), Driven::VfFlrInProcess),
    ignored("cfg_req_pm_transition_l23_ready", BIT),
    ignored("cfg_link_training_enable", BIT),
    // interrupts
    read("cfg_interrupt_int", Width::Bits(4), Read::Intx),
    ignored("cfg_interrupt_pending", Width::Physical(1)),
    driven("cfg_interrupt_sent", BIT, Driven::IntxSent),
    driven("cfg_interrupt_msi_enable", Width::Physical(1), Driven::MsiEnable),
    driven("cfg_interrupt_msi_mmenable", Width::Physical(3), Driven::MultipleMessages),
    constant("cfg_interrupt_msi_mask_update", BIT, 0),
    driven("cfg_interrupt_msi_data", Width::Bits(32), Driven::MsiMask),
    read("cfg_interrupt_msi_int", Width::Bits(32), Read::Msi),
    ignored("cfg_interrupt_msi_pending_status", Width::Bits(32)),
    ignored("cfg_interrupt_msi_pending_status_data_enable", BIT),
    driven("cfg_interrupt_msi_sent", BIT, Driven::InterruptSent),
    driven("cfg_interrupt_msi_fail", BIT, Driven::InterruptFailed),
    read("cfg_interrupt_msi_attr", Width::Bits(3), Read::InterruptAttributes),
    ignored("cfg_interrupt_msi_tph_present", BIT),
    ignored("cfg_interrupt_msi_tph_type", Width::Bits(2)),
    driven("cfg_interrupt_msix_vf_enable", Width::Virtual(1), Driven::MsixVfEnable),
    driven("cfg_interrupt_msix_vf_mask", Width::Virtual(1), Driven::MsixVfMask),
    read("cfg_interrupt_msix_address", Width::Bits(64), Read::MsixAddress),
    read("cfg_interrupt_msix_data", Width::Bits(32), Read::MsixData),
    read("cfg_interrupt_msix_int", BIT, Read::Msix),
    driven("cfg_interrupt_msix_sent", BIT, Driven::MsixSent),
    driven("cfg_interrupt_msix_fail", BIT, Driven::MsixFailed),
    read("cfg_interrupt_msix_vec_pending", Width::Bits(2), Read::MsixPending),
    constant("cfg_interrupt_msix_vec_pending_status", BIT, 0),
    // registers of the design
    constant("cfg_ext_read_received", BIT, 0),
    constant("cfg_ext_write_received", BIT, 0),
    constant("cfg_ext_register_number", Width::Bits(10), 0),
    constant("cfg_ext_function_number", Width::Bits(8), 0),
    constant("cfg_ext_write_data", Width::Bits(32), 0),
    constant("cfg_ext_write_byte_enable", Width::Bits(4), 0),
    ignored("cfg_ext_read_data", Width::Bits(32)),
    ignored("cfg_ext_read_data_valid", BIT),
    // transceivers
    constant("pci_exp_txp", Width::Lanes, 0),
    constant("pci_exp_txn", Width::Lanes, 0),
    ignored("pci_exp_rxp", Width::Lanes),
    ignored("pci_exp_rxn", Width::Lanes),
];

/// Ports of both Gen3 blocks.
pub(super) const GEN3: &[Port] = &[
    driven("pcie_rq_seq_num", Width::Bits(4), Driven::Sequence0),
    driven("pcie_rq_seq_num_vld", BIT, Driven::Sequence0Valid),
    driven("pcie_rq_tag", Width::Bits(6), Driven::Tag0),
    driven("pcie_rq_tag_vld", BIT, Driven::Tag0Valid),
    driven("pcie_rq_tag_av", Width::Bits(2), Driven::TagsLeft),
    driven("pcie_tfc_nph_av", Width::Bits(2), Driven::HeadersLeft),
    driven("pcie_tfc_npd_av", Width::Bits(2), Driven::DataLeft),
    read("pcie_cq_np_req", BIT, Read::NonPostedRequest).absent(1),
    read("cfg_mgmt_addr", Width::Bits(19), Read::Register),
    ignored("cfg_mgmt_type1_cfg_reg_access", BIT),
    driven("cfg_negotiated_width", Width::Bits(4), Driven::Width),
    driven("cfg_current_speed", Width::Bits(3), Driven::Speed),
    driven("cfg_max_payload", Width::Bits(3), Driven::MaxPayload),
    constant("cfg_local_error", BIT, 0),
    constant("cfg_ltr_enable", BIT, 0),
    constant("cfg_dpa_substate_change", Width::Physical(1), 0),
    ignored("cfg_per_func_status_control", Width::Bits(3)),
    constant("cfg_per_func_status_data", Width::Bits(16), 0),
    ignored("cfg_per_function_output_request", BIT),
    constant("cfg_per_function_update_done", BIT, 0),
    read("cfg_vf_flr_done", Width::Virtual(1), Read::VfFlrDone),
    driven("cfg_interrupt_msi_vf_enable", Width::Virtual(1), Driven::MsiVfEnable),
    read("cfg_interrupt_msi_select", Width::Bits(4), Read::MsiSelect),
    ignored("cfg_interrupt_msi_pending_status_function_num", Width::Bits(4)),
    ignored("cfg_interrupt_msi_tph_st_tag", Width::Bits(9)),
    driven("cfg_interrupt_msix_enable", Width::Bits(2), Driven::MsixEnable),
    driven("cfg_interrupt_msix_mask", Width::Bits(2), Driven::MsixMask),
];

/// Ports that only Virtex-7 Gen3 has. Reset is active high. The clocks of the transceivers may come from outside the block.
pub(super) const VIRTEX7: &[Port] = &[
    read("sys_reset", BIT, Read::ResetP),
    constant("user_app_rdy", BIT, 1),
    constant("mmcm_lock", BIT, 1),
    ignored("cfg_per_function_number", Width::Bits(3)),
    read("cfg_interrupt_msi_function_number", Width::Bits(3), Read::InterruptFunction),
    clock("int_pclk_out_slave"),
    clock("int_pipe_rxusrclk_out"),
    constant("int_rxoutclk_out", Width::Lanes, 0),
    clock("int_dclk_out"),
    clock("int_userclk1_out"),
    clock("int_userclk2_out"),
    clock("int_oobclk_out"),
    constant("int_qplllock_out", Width::Bits(2), 0b11),
    constant("int_qplloutclk_out", Width::Bits(2), 0),
    constant("int_qplloutrefclk_out", Width::Bits(2), 0),
    ignored("int_pclk_sel_slave", Width::Lanes),
    ignored("pipe_pclk_in", BIT),
    ignored("pipe_rxusrclk_in", BIT),
    ignored("pipe_rxoutclk_in", Width::Lanes),
    ignored("pipe_dclk_in", BIT),
    ignored("pipe_userclk1_in", BIT),
    ignored("pipe_userclk2_in", BIT),
    ignored("pipe_oobclk_in", BIT),
    ignored("pipe_mmcm_lock_in", BIT),
    ignored("pipe_mmcm_rst_n", BIT),
    clock("pipe_txoutclk_out"),
    constant("pipe_rxoutclk_out", Width::Lanes, 0),
    constant("pipe_pclk_sel_out", Width::Lanes, 0),
    constant("pipe_gen3_out", BIT, 1),
];

/// Ports of UltraScale only.
pub(super) const ULTRASCALE: &[Port] = &[
    read("sys_reset", BIT, Read::ResetN).absent(1),
    constant("phy_rdy_out", BIT, 1),
    ignored("pcie_perstn1_in", BIT),
    constant("pcie_perstn0_out", BIT, 1),
    constant("pcie_perstn1_out", BIT, 1),
    ignored("cfg_per_function_number", Width::Bits(4)),
    read("cfg_interrupt_msi_function_number", Width::Bits(4), Read::InterruptFunction),
    constant("int_qpll1lock_out", Width::Bits(2), 0b11),
    constant("int_qpll1outrefclk_out", Width::Bits(2), 0),
    constant("int_qpll1outclk_out", Width::Bits(2), 0),
];

/// Ports of UltraScale+ only.
pub(super) const ULTRASCALE_PLUS: &[Port] = &[
    read("sys_reset", BIT, Read::ResetN).absent(1),
    constant("phy_rdy_out", BIT, 1),
    driven("pcie_rq_seq_num0", Width::Bits(6), Driven::Sequence0),
    driven("pcie_rq_seq_num_vld0", BIT, Driven::Sequence0Valid),
    driven("pcie_rq_seq_num1", Width::Bits(6), Driven::Sequence1),
    driven("pcie_rq_seq_num_vld1", BIT, Driven::Sequence1Valid),
    driven("pcie_rq_tag0", Width::Bits(8), Driven::Tag0),
    driven("pcie_rq_tag_vld0", BIT, Driven::Tag0Valid),
    driven("pcie_rq_tag1", Width::Bits(8), Driven::Tag1),
    driven("pcie_rq_tag_vld1", BIT, Driven::Tag1Valid),
    driven("pcie_rq_tag_av", Width::Bits(4), Driven::TagsLeft),
    driven("pcie_tfc_nph_av", Width::Bits(4), Driven::HeadersLeft),
    driven("pcie_tfc_npd_av", Width::Bits(4), Driven::DataLeft),
    read("pcie_cq_np_req", Width::Bits(2), Read::NonPostedRequest).absent(1),
    read("cfg_mgmt_addr", Width::Bits(10), Read::Register),
    read("cfg_mgmt_function_number", Width::Bits(8), Read::RegisterFunction),
    ignored("cfg_mgmt_debug_access", BIT),
    driven("cfg_negotiated_width", Width::Bits(3), Driven::Width),
    driven("cfg_current_speed", Width::Bits(2), Driven::Speed),
    driven("cfg_max_payload", Width::Bits(2), Driven::MaxPayload),
    constant("cfg_local_error_out", Width::Bits(5), 0),
    constant("cfg_local_error_valid", BIT, 0),
    constant("cfg_rx_pm_state", Width::Bits(2), 0),
    constant("cfg_tx_pm_state", Width::Bits(2), 0),
    driven("cfg_bus_number", Width::Bits(8), Driven::Bus),
    read("cfg_vf_flr_done", BIT, Read::VfFlrDone),
    read("cfg_vf_flr_func_num", Width::Bits(8), Read::VfFlrFunction),
    ignored("cfg_pm_aspm_l1_entry_reject", BIT),
    ignored("cfg_pm_aspm_tx_l0s_entry_disable", BIT),
    read("cfg_interrupt_msi_select", Width::Bits(2), Read::MsiSelect),
    ignored("cfg_interrupt_msi_pending_status_function_num", Width::Bits(2)),
    ignored("cfg_interrupt_msi_tph_st_tag", Width::Bits(8)),
    read("cfg_interrupt_msi_function_number", Width::Bits(8), Read::InterruptFunction),
    driven("cfg_interrupt_msix_enable", Width::Physical(1), Driven::MsixEnable),
    driven("cfg_interrupt_msix_mask", Width::Physical(1), Driven::MsixMask),
];
