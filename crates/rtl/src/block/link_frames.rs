// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of `riser_link_frames`, riser's own module around a data link layer: frames on one side, TLPs and flow control on
//! the other. Names and timing are those of `rtl/pcie_stack/pcie_dll.sv`, seen from outside. Only tables.

use super::{BIT, Port, Width, clock, numbered};

numbered!(
    Read {
        PhyTxData, TlpRxData, PhyTxValid, PhyTxSop, PhyTxEop, PhyTxDllp, PhyTxNullify, PhyTxEnd, Retrain,
        TlpTxReady, TlpRxValid, TlpRxSop, TlpRxEop, TlpRxGood, TlpRxEnd, VcReady, FcTxReady, FcRxValid,
        FcRxKind, FcRxType, FcRxVc, FcRxValue, Events,
    }
    Driven {
        PhyRxData, TlpTxData, Reset, LinkUp, Recovery, PhyTxReady, PhyRxValid, PhyRxSop, PhyRxEop,
        PhyRxDllp, PhyRxNullify, PhyRxError, PhyRxEnd, TlpTxValid, TlpTxSop, TlpTxEop, TlpTxEnd, VcEnable,
        VcTlpSeen, InitFc, FcTxValid, FcTxType, FcTxVc, FcTxValue, ReplayTimer,
    }
);

/// Lane of the last double-word of a beat.
const END: Width = Width::Bits(4);
/// One bit per channel.
const CHANNELS: Width = Width::Bits(8);
/// 24 bits for each class of each channel.
const INIT_FC: Width = Width::Bits(8 * 72);

/// All ports.
pub(super) const PORTS: &[Port] = &[
    // data first, so that their lanes are whole words of both vectors
    read("phy_tx_data", Width::Data, Read::PhyTxData),
    read("rx_tlp_data", Width::Data, Read::TlpRxData),
    driven("phy_rx_data", Width::Data, Driven::PhyRxData),
    driven("tx_tlp_data", Width::Data, Driven::TlpTxData),
    // clock, reset and settings
    clock("user_clk"),
    driven("user_reset", BIT, Driven::Reset),
    driven("replay_timer_limit", Width::Bits(16), Driven::ReplayTimer),
    // link
    driven("phy_link_up", BIT, Driven::LinkUp),
    driven("phy_recovery", BIT, Driven::Recovery),
    read("retrain_request", BIT, Read::Retrain),
    // frames of the data link layer
    read("phy_tx_valid", BIT, Read::PhyTxValid),
    read("phy_tx_sop", BIT, Read::PhyTxSop),
    read("phy_tx_eop", BIT, Read::PhyTxEop),
    read("phy_tx_dllp", BIT, Read::PhyTxDllp),
    read("phy_tx_nullify", BIT, Read::PhyTxNullify),
    read("phy_tx_end", END, Read::PhyTxEnd),
    driven("phy_tx_ready", BIT, Driven::PhyTxReady),
    // frames for it
    driven("phy_rx_valid", BIT, Driven::PhyRxValid),
    driven("phy_rx_sop", BIT, Driven::PhyRxSop),
    driven("phy_rx_eop", BIT, Driven::PhyRxEop),
    driven("phy_rx_dllp", BIT, Driven::PhyRxDllp),
    driven("phy_rx_nullify", BIT, Driven::PhyRxNullify),
    driven("phy_rx_error", BIT, Driven::PhyRxError),
    driven("phy_rx_end", END, Driven::PhyRxEnd),
    // TLPs to send
    driven("tx_tlp_valid", BIT, Driven::TlpTxValid),
    driven("tx_tlp_sop", BIT, Driven::TlpTxSop),
    driven("tx_tlp_eop", BIT, Driven::TlpTxEop),
    driven("tx_tlp_end", END, Driven::TlpTxEnd),
    read("tx_tlp_ready", BIT, Read::TlpTxReady),
    // received TLPs
    read("rx_tlp_valid", BIT, Read::TlpRxValid),
    read("rx_tlp_sop", BIT, Read::TlpRxSop),
    read("rx_tlp_eop", BIT, Read::TlpRxEop),
    read("rx_tlp_good", BIT, Read::TlpRxGood),
    read("rx_tlp_end", END, Read::TlpRxEnd),
    // flow control
    driven("vc_enable", CHANNELS, Driven::VcEnable),
    driven("vc_tlp_seen", CHANNELS, Driven::VcTlpSeen),
    driven("init_fc", INIT_FC, Driven::InitFc),
    read("vc_ready", CHANNELS, Read::VcReady),
    driven("tx_fc_valid", BIT, Driven::FcTxValid),
    driven("tx_fc_type", Width::Bits(2), Driven::FcTxType),
    driven("tx_fc_vc", Width::Bits(3), Driven::FcTxVc),
    driven("tx_fc_value", Width::Bits(24), Driven::FcTxValue),
    read("tx_fc_ready", BIT, Read::FcTxReady),
    read("rx_fc_valid", BIT, Read::FcRxValid),
    read("rx_fc_kind", Width::Bits(2), Read::FcRxKind),
    read("rx_fc_type", Width::Bits(2), Read::FcRxType),
    read("rx_fc_vc", Width::Bits(3), Read::FcRxVc),
    read("rx_fc_value", Width::Bits(24), Read::FcRxValue),
    // counted events
    read("events", Width::Bits(16), Read::Events),
];
