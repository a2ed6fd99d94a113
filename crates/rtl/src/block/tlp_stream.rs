// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of `riser_tlp_stream`, riser's own module: whole TLPs in both directions. Only tables.

use super::{BIT, Port, Width, clock, numbered};

numbered!(
    Read {
        TxData, TxKeep, TxLast, TxValid, RxReady, ResetN,
    }
    Driven {
        RxData, RxKeep, RxLast, RxValid, RxUser, TxReady, Reset, LinkUp, Bus, Device, Function, MaxPayload,
        MaxReadRequest, BusMaster, ExtendedTag, TenBitTag, MsiEnable, MultipleMessages, MsiAddress,
        MsiData, MsiMask, MsixEnable, MsixMask, FunctionLevelReset,
    }
);

/// All ports.
pub(super) const PORTS: &[Port] = &[
    // data first, so that their lanes are whole words of both vectors
    read("s_axis_tx_tdata", Width::Data, Read::TxData),
    driven("m_axis_rx_tdata", Width::Data, Driven::RxData),
    // clock and reset
    clock("user_clk"),
    driven("user_reset", BIT, Driven::Reset),
    driven("user_lnk_up", BIT, Driven::LinkUp),
    read("sys_rst_n", BIT, Read::ResetN).absent(1),
    // TLPs of the design
    read("s_axis_tx_tkeep", Width::Keep, Read::TxKeep),
    read("s_axis_tx_tlast", BIT, Read::TxLast),
    read("s_axis_tx_tvalid", BIT, Read::TxValid),
    driven("s_axis_tx_tready", BIT, Driven::TxReady),
    // TLPs for the design
    driven("m_axis_rx_tkeep", Width::Keep, Driven::RxKeep),
    driven("m_axis_rx_tlast", BIT, Driven::RxLast),
    driven("m_axis_rx_tvalid", BIT, Driven::RxValid),
    driven("m_axis_rx_tuser", Width::Bits(6), Driven::RxUser),
    read("m_axis_rx_tready", BIT, Read::RxReady).absent(1),
    // values set by software
    driven("cfg_bus_number", Width::Bits(8), Driven::Bus),
    driven("cfg_device_number", Width::Bits(5), Driven::Device),
    driven("cfg_function_number", Width::Bits(3), Driven::Function),
    driven("cfg_max_payload", Width::Bits(3), Driven::MaxPayload),
    driven("cfg_max_read_req", Width::Bits(3), Driven::MaxReadRequest),
    driven("cfg_bus_master_enable", BIT, Driven::BusMaster),
    driven("cfg_ext_tag_enable", BIT, Driven::ExtendedTag),
    driven("cfg_10b_tag_requester_enable", BIT, Driven::TenBitTag),
    driven("cfg_msi_enable", BIT, Driven::MsiEnable),
    driven("cfg_msi_mmenable", Width::Bits(3), Driven::MultipleMessages),
    driven("cfg_msi_address", Width::Bits(64), Driven::MsiAddress),
    driven("cfg_msi_data", Width::Bits(16), Driven::MsiData),
    driven("cfg_msi_mask", Width::Bits(32), Driven::MsiMask),
    driven("cfg_msix_enable", BIT, Driven::MsixEnable),
    driven("cfg_msix_mask", BIT, Driven::MsixMask),
    driven("cfg_function_level_reset", BIT, Driven::FunctionLevelReset),
];
