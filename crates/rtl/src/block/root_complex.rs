// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of `riser_root_complex`, riser's own module around a root complex: AXI4 of a CPU and of a memory on one side, frames on the
//! other. Names and timing are those of `rtl/pcie_stack/pcie_root_stack.sv`, seen from outside. Only tables.

use super::{BIT, Port, Width, clock, numbered};

numbered!(
    Read {
        PhyTxData, MemWData, CpuRData, MemAwAddr, MemArAddr, MemWStrb, PhyTxValid, PhyTxSop, PhyTxEop,
        PhyTxDllp, PhyTxNullify, PhyTxEnd, Retrain, CpuAwReady, CpuWReady, CpuBValid, CpuBResp, CpuArReady,
        CpuRValid, CpuRResp, MemAwValid, MemAwId, MemAwLen, MemWValid, MemWLast, MemBReady, MemArValid,
        MemArId, MemArLen, MemRReady, Intx, LinkDisable, HotReset, Events, DllEvents, TlEvents,
        SoftwareEnded, SoftwareStatus,
    }
    Driven {
        PhyRxData, MemRData, CpuWData, CpuAwAddr, CpuArAddr, Reset, ReplayTimer, LinkUp, Recovery,
        LinkSpeed, LinkWidth, PhyTxReady, PhyRxValid, PhyRxSop, PhyRxEop, PhyRxDllp, PhyRxNullify,
        PhyRxError, PhyRxEnd, CpuAwValid, CpuAwLen, CpuAwSize, CpuWValid, CpuWStrb, CpuWLast, CpuBReady,
        CpuArValid, CpuArLen, CpuArSize, CpuRReady, MemAwReady, MemWReady, MemBValid, MemBId, MemBResp,
        MemArReady, MemRValid, MemRId, MemRResp, MemRLast,
    }
);

/// Lane of the last double-word of a beat.
const END: Width = Width::Bits(4);
const ADDRESS: Width = Width::Bits(64);
/// Data of the CPU's bus.
const WORD: Width = Width::Bits(64);
const LEN: Width = Width::Bits(8);
const SIZE: Width = Width::Bits(3);
const RESPONSE: Width = Width::Bits(2);
/// IDs of bursts to memory.
const ID: Width = Width::Bits(4);

/// All ports. A design that has the CPU and the memory connects those of the link and of its software. Bursts are INCR; sizes of bursts to memory are the width of the bus; the CPU's ID is 0.
pub(super) const PORTS: &[Port] = &[
    // data first, so that their lanes are whole words of both vectors
    read("phy_tx_data", Width::Data, Read::PhyTxData),
    read("m_axi_wdata", Width::Data, Read::MemWData),
    driven("phy_rx_data", Width::Data, Driven::PhyRxData),
    driven("m_axi_rdata", Width::Data, Driven::MemRData),
    read("s_axi_rdata", WORD, Read::CpuRData),
    read("m_axi_awaddr", ADDRESS, Read::MemAwAddr),
    read("m_axi_araddr", ADDRESS, Read::MemArAddr),
    read("m_axi_wstrb", Width::Keep, Read::MemWStrb),
    driven("s_axi_wdata", WORD, Driven::CpuWData),
    driven("s_axi_awaddr", ADDRESS, Driven::CpuAwAddr),
    driven("s_axi_araddr", ADDRESS, Driven::CpuArAddr),
    // clock, reset and settings
    clock("user_clk"),
    driven("user_reset", BIT, Driven::Reset),
    driven("replay_timer_limit", Width::Bits(16), Driven::ReplayTimer),
    // link
    driven("phy_link_up", BIT, Driven::LinkUp),
    driven("phy_recovery", BIT, Driven::Recovery),
    driven("link_speed", Width::Bits(4), Driven::LinkSpeed),
    driven("link_width", Width::Bits(6), Driven::LinkWidth),
    read("retrain_request", BIT, Read::Retrain),
    read("link_disable", BIT, Read::LinkDisable),
    read("hot_reset", BIT, Read::HotReset),
    // frames of the root port
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
    // the CPU
    driven("s_axi_awvalid", BIT, Driven::CpuAwValid),
    driven("s_axi_awlen", LEN, Driven::CpuAwLen),
    driven("s_axi_awsize", SIZE, Driven::CpuAwSize),
    read("s_axi_awready", BIT, Read::CpuAwReady),
    driven("s_axi_wvalid", BIT, Driven::CpuWValid),
    driven("s_axi_wstrb", Width::Bits(8), Driven::CpuWStrb),
    driven("s_axi_wlast", BIT, Driven::CpuWLast),
    read("s_axi_wready", BIT, Read::CpuWReady),
    read("s_axi_bvalid", BIT, Read::CpuBValid),
    read("s_axi_bresp", RESPONSE, Read::CpuBResp),
    driven("s_axi_bready", BIT, Driven::CpuBReady),
    driven("s_axi_arvalid", BIT, Driven::CpuArValid),
    driven("s_axi_arlen", LEN, Driven::CpuArLen),
    driven("s_axi_arsize", SIZE, Driven::CpuArSize),
    read("s_axi_arready", BIT, Read::CpuArReady),
    read("s_axi_rvalid", BIT, Read::CpuRValid),
    read("s_axi_rresp", RESPONSE, Read::CpuRResp),
    driven("s_axi_rready", BIT, Driven::CpuRReady),
    // memory
    read("m_axi_awvalid", BIT, Read::MemAwValid),
    read("m_axi_awid", ID, Read::MemAwId),
    read("m_axi_awlen", LEN, Read::MemAwLen),
    driven("m_axi_awready", BIT, Driven::MemAwReady),
    read("m_axi_wvalid", BIT, Read::MemWValid),
    read("m_axi_wlast", BIT, Read::MemWLast),
    driven("m_axi_wready", BIT, Driven::MemWReady),
    driven("m_axi_bvalid", BIT, Driven::MemBValid),
    driven("m_axi_bid", ID, Driven::MemBId),
    driven("m_axi_bresp", RESPONSE, Driven::MemBResp),
    read("m_axi_bready", BIT, Read::MemBReady),
    read("m_axi_arvalid", BIT, Read::MemArValid),
    read("m_axi_arid", ID, Read::MemArId),
    read("m_axi_arlen", LEN, Read::MemArLen),
    driven("m_axi_arready", BIT, Driven::MemArReady),
    driven("m_axi_rvalid", BIT, Driven::MemRValid),
    driven("m_axi_rid", ID, Driven::MemRId),
    driven("m_axi_rresp", RESPONSE, Driven::MemRResp),
    driven("m_axi_rlast", BIT, Driven::MemRLast),
    read("m_axi_rready", BIT, Read::MemRReady),
    // interrupts and counted events
    read("intx", Width::Bits(4), Read::Intx),
    read("events", Width::Bits(24), Read::Events),
    read("dll_events", Width::Bits(16), Read::DllEvents),
    read("tl_events", Width::Bits(15), Read::TlEvents),
    // software of a CPU within the design
    read("software_ended", BIT, Read::SoftwareEnded),
    read("software_status", Width::Bits(8), Read::SoftwareStatus),
];
