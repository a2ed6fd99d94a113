// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of `riser_switch`, riser's own module around a switch: frames of several links. Part n of each vector is link n, and link 0 is
//! the upstream link. Names and timing are those of `rtl/pcie_stack/pcie_switch.sv`, seen from outside. Only tables.

use super::{Port, Width, clock, numbered};

numbered!(
    Read {
        PhyTxData, PhyTxValid, PhyTxSop, PhyTxEop, PhyTxDllp, PhyTxNullify, PhyTxEnd, Retrain, LinkDisable,
        HotReset, Events,
    }
    Driven {
        PhyRxData, Reset, ReplayTimer, LinkUp, Recovery, LinkSpeed, LinkWidth, PhyTxReady, PhyRxValid,
        PhyRxSop, PhyRxEop, PhyRxDllp, PhyRxNullify, PhyRxError, PhyRxEnd,
    }
);

/// Bits of the parts of these ports.
pub(crate) const END_BITS: u16 = 4;
pub(crate) const REPLAY_TIMER_BITS: u16 = 16;
pub(crate) const SPEED_BITS: u16 = 4;
pub(crate) const WIDTH_BITS: u16 = 6;
pub(crate) const EVENT_BITS: u16 = 6;

/// One bit per link.
const BIT: Width = Width::Links(1);

/// All ports.
pub(super) const PORTS: &[Port] = &[
    // data first, so that their lanes are whole words of both vectors
    read("phy_tx_data", Width::LinkData, Read::PhyTxData),
    driven("phy_rx_data", Width::LinkData, Driven::PhyRxData),
    // clock, reset and settings
    clock("user_clk"),
    driven("user_reset", Width::Bits(1), Driven::Reset),
    driven("replay_timer_limit", Width::Links(REPLAY_TIMER_BITS), Driven::ReplayTimer),
    // links
    driven("phy_link_up", BIT, Driven::LinkUp),
    driven("phy_recovery", BIT, Driven::Recovery),
    driven("link_speed", Width::Links(SPEED_BITS), Driven::LinkSpeed),
    driven("link_width", Width::Links(WIDTH_BITS), Driven::LinkWidth),
    read("retrain_request", BIT, Read::Retrain),
    read("link_disable", BIT, Read::LinkDisable),
    read("hot_reset", BIT, Read::HotReset),
    // frames of the switch
    read("phy_tx_valid", BIT, Read::PhyTxValid),
    read("phy_tx_sop", BIT, Read::PhyTxSop),
    read("phy_tx_eop", BIT, Read::PhyTxEop),
    read("phy_tx_dllp", BIT, Read::PhyTxDllp),
    read("phy_tx_nullify", BIT, Read::PhyTxNullify),
    read("phy_tx_end", Width::Links(END_BITS), Read::PhyTxEnd),
    driven("phy_tx_ready", BIT, Driven::PhyTxReady),
    // frames for it
    driven("phy_rx_valid", BIT, Driven::PhyRxValid),
    driven("phy_rx_sop", BIT, Driven::PhyRxSop),
    driven("phy_rx_eop", BIT, Driven::PhyRxEop),
    driven("phy_rx_dllp", BIT, Driven::PhyRxDllp),
    driven("phy_rx_nullify", BIT, Driven::PhyRxNullify),
    driven("phy_rx_error", BIT, Driven::PhyRxError),
    driven("phy_rx_end", Width::Links(END_BITS), Driven::PhyRxEnd),
    // counted events
    read("events", Width::Links(EVENT_BITS), Read::Events),
];
