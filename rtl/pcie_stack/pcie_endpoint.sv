// SPDX-License-Identifier: Apache-2.0 OR MIT
// An endpoint with one function: between the transaction layer of a PCI Express port and a peripheral on AXI4. Requests of the host become requests
// of an AXI4 master (PCIeToAXI), DMA at an AXI4 slave becomes TLPs (AXIToPCIe), and interrupt lines become MSI or MSI-X. ENDPOINT.md describes it.
//
// Byte k of a beat is in bits 8k+7:8k. A TLP begins in lane 0; `end` is the lane of its last double-word, valid with `eop`.
module pcie_endpoint #(
    parameter int DATA_WIDTH = 256,      // of TLPs: 128, 256 or 512
    parameter int BUS_WIDTH = 64,        // of the AXI4 master: 32, 64, 128, 256 or 512
    parameter int DMA_WIDTH = 64,        // of the AXI4 slave: 64, 128, 256 or 512
    parameter int DMA_ID = 4,            // bits of the slave's IDs
    parameter int MAX_PAYLOAD = 256,     // 128, 256 or 512
    parameter int READ_SLOTS = 8,        // DMA reads in flight: 2, 4, 8 or 16
    parameter int READ_BYTES = 128,      // largest DMA read request: 128, 256 or 512
    parameter logic [63:0] BAR0_SIZE = 64'h1_0000,  // bytes, a power of two from 4 KiB; 0: there is no such BAR
    parameter logic [63:0] BAR1_SIZE = 64'd0,
    parameter logic [63:0] BAR2_SIZE = 64'd0,
    parameter logic [63:0] BAR3_SIZE = 64'd0,
    parameter logic [63:0] BAR4_SIZE = 64'd0,
    parameter logic [63:0] BAR5_SIZE = 64'd0,
    parameter logic [63:0] BAR0_BASE = 64'd0,       // where the BAR begins on the bus of the peripheral, a multiple of its size
    parameter logic [63:0] BAR1_BASE = 64'd0,
    parameter logic [63:0] BAR2_BASE = 64'd0,
    parameter logic [63:0] BAR3_BASE = 64'd0,
    parameter logic [63:0] BAR4_BASE = 64'd0,
    parameter logic [63:0] BAR5_BASE = 64'd0,
    parameter logic [5:0] BAR_WIDE = 6'd0,          // bit n: BAR n has 64 bits and takes the place of BAR n + 1
    parameter logic [5:0] BAR_PREFETCHABLE = 6'd0,
    parameter int MSIX_BAR = 5,          // BAR of 4 KiB for the MSI-X table; -1: no MSI-X
    parameter int INTERRUPTS = 1,        // lines, 1 to 32
    parameter logic [15:0] VENDOR_ID = 16'h1234,
    parameter logic [15:0] DEVICE_ID = 16'h4550,
    parameter logic [15:0] SUBSYSTEM_VENDOR_ID = 16'h1234,
    parameter logic [15:0] SUBSYSTEM_ID = 16'h4550,
    parameter logic [7:0] REVISION = 8'h00,
    parameter logic [23:0] CLASS_CODE = 24'hff_0000,
    parameter int LINK_SPEED = 3,        // highest: 1 to 5
    parameter int LINK_WIDTH = 8,
    parameter int COMPLETION_TIMEOUT = 2500000,  // cycles
    parameter int BUS_TIMEOUT = 100000,          // cycles
    parameter int COUNTER_WIDTH = 16,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    input logic clk,
    input logic rst,

    // AXI4 master: registers of the peripheral
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [0:0] m_axi_awid,
    output logic [63:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [BUS_WIDTH-1:0] m_axi_wdata,
    output logic [BUS_WIDTH/8-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic [0:0] m_axi_bid,
    input logic [1:0] m_axi_bresp,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [0:0] m_axi_arid,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [0:0] m_axi_rid,
    input logic [BUS_WIDTH-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,

    // AXI4 slave: DMA of the peripheral
    input logic s_axi_awvalid,
    output logic s_axi_awready,
    input logic [DMA_ID-1:0] s_axi_awid,
    input logic [63:0] s_axi_awaddr,
    input logic [7:0] s_axi_awlen,
    input logic [2:0] s_axi_awsize,
    input logic [1:0] s_axi_awburst,
    input logic s_axi_wvalid,
    output logic s_axi_wready,
    input logic [DMA_WIDTH-1:0] s_axi_wdata,
    input logic [DMA_WIDTH/8-1:0] s_axi_wstrb,
    input logic s_axi_wlast,
    output logic s_axi_bvalid,
    input logic s_axi_bready,
    output logic [DMA_ID-1:0] s_axi_bid,
    output logic [1:0] s_axi_bresp,
    input logic s_axi_arvalid,
    output logic s_axi_arready,
    input logic [DMA_ID-1:0] s_axi_arid,
    input logic [63:0] s_axi_araddr,
    input logic [7:0] s_axi_arlen,
    input logic [2:0] s_axi_arsize,
    input logic [1:0] s_axi_arburst,
    output logic s_axi_rvalid,
    input logic s_axi_rready,
    output logic [DMA_ID-1:0] s_axi_rid,
    output logic [DMA_WIDTH-1:0] s_axi_rdata,
    output logic [1:0] s_axi_rresp,
    output logic s_axi_rlast,

    // The peripheral: its interrupt lines, and resets
    input logic [INTERRUPTS-1:0] interrupts,
    input logic bus_rst,          // the bus is in reset: requests in progress end
    output logic function_reset,  // Function Level Reset, or the link went down

    // Transaction layer
    output logic tx_valid,
    input logic tx_ready,
    output logic tx_sop,
    output logic tx_eop,
    output logic [LANE-1:0] tx_end,
    output logic [DATA_WIDTH-1:0] tx_data,
    input logic rx_p_valid,
    output logic rx_p_ready,
    input logic rx_p_sop,
    input logic rx_p_eop,
    input logic [LANE-1:0] rx_p_end,
    input logic [DATA_WIDTH-1:0] rx_p_data,
    input logic rx_p_poisoned,
    input logic rx_np_valid,
    output logic rx_np_ready,
    input logic rx_np_sop,
    input logic rx_np_eop,
    input logic [LANE-1:0] rx_np_end,
    input logic [DATA_WIDTH-1:0] rx_np_data,
    input logic rx_np_poisoned,
    input logic rx_cpl_valid,
    output logic rx_cpl_ready,
    input logic rx_cpl_sop,
    input logic rx_cpl_eop,
    input logic [LANE-1:0] rx_cpl_end,
    input logic [DATA_WIDTH-1:0] rx_cpl_data,
    input logic rx_cpl_poisoned,

    // Link: its state, and errors of the lower layers by their bits in the AER status registers
    input logic link_up,
    input logic [3:0] link_speed,
    input logic [5:0] link_width,
    input logic [31:0] link_uncorrectable,
    input logic [31:0] link_correctable,
    output logic [2:0] max_payload,

    output logic [23:0] events,
    output logic [24*COUNTER_WIDTH-1:0] counts
);
    `include "pcie_endpoint.svh"
    localparam int SLOT = $clog2(READ_SLOTS);
    localparam int WORD = $clog2(READ_BYTES / 4);
    localparam logic [5:0] MSIX_PLACE = MSIX_BAR < 0 ? 6'd0 : 6'd1 << MSIX_BAR;
    localparam logic [6*64-1:0] GIVEN_SIZES = {BAR5_SIZE, BAR4_SIZE, BAR3_SIZE, BAR2_SIZE, BAR1_SIZE, BAR0_SIZE};
    localparam logic [6*64-1:0] BASES = {BAR5_BASE, BAR4_BASE, BAR3_BASE, BAR2_BASE, BAR1_BASE, BAR0_BASE};
    localparam logic [6*64-1:0] SIZES = GIVEN_SIZES | (MSIX_BAR < 0 ? '0 : 384'h1000 << (64 * MSIX_BAR));
    localparam logic [5:0] EXIST = {BAR5_SIZE != '0, BAR4_SIZE != '0, BAR3_SIZE != '0, BAR2_SIZE != '0, BAR1_SIZE != '0, BAR0_SIZE != '0} | MSIX_PLACE;

    if (DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512)
        $error("pcie_endpoint: DATA_WIDTH is %0d; expected 128, 256 or 512", DATA_WIDTH);
    if (BUS_WIDTH != 32 && BUS_WIDTH != 64 && BUS_WIDTH != 128 && BUS_WIDTH != 256 && BUS_WIDTH != 512)
        $error("pcie_endpoint: BUS_WIDTH is %0d; expected 32, 64, 128, 256 or 512", BUS_WIDTH);
    if (DMA_WIDTH != 64 && DMA_WIDTH != 128 && DMA_WIDTH != 256 && DMA_WIDTH != 512)
        $error("pcie_endpoint: DMA_WIDTH is %0d; expected 64, 128, 256 or 512", DMA_WIDTH);
    if (DMA_ID < 1) $error("pcie_endpoint: DMA_ID is %0d; expected 1 or more", DMA_ID);
    if (MAX_PAYLOAD != 128 && MAX_PAYLOAD != 256 && MAX_PAYLOAD != 512)
        $error("pcie_endpoint: MAX_PAYLOAD is %0d; expected 128, 256 or 512", MAX_PAYLOAD);
    if (READ_SLOTS != 2 && READ_SLOTS != 4 && READ_SLOTS != 8 && READ_SLOTS != 16)
        $error("pcie_endpoint: READ_SLOTS is %0d; expected 2, 4, 8 or 16", READ_SLOTS);
    if (READ_BYTES != 128 && READ_BYTES != 256 && READ_BYTES != 512)
        $error("pcie_endpoint: READ_BYTES is %0d; expected 128, 256 or 512", READ_BYTES);
    if (BAR0_SIZE != '0 && (BAR0_SIZE < 64'h1000 || (BAR0_SIZE & (BAR0_SIZE - 64'd1)) != '0))
        $error("pcie_endpoint: BAR0_SIZE is %0d; expected 0 or a power of two from 4096", BAR0_SIZE);
    if (BAR0_SIZE > 64'h8000_0000 && !BAR_WIDE[0]) $error("pcie_endpoint: BAR0_SIZE is %0d; expected at most 2 GiB, or BAR_WIDE", BAR0_SIZE);
    if ((BAR0_BASE & (BAR0_SIZE - 64'd1)) != '0 && BAR0_SIZE != '0) $error("pcie_endpoint: BAR0_BASE is not a multiple of BAR0_SIZE");
    if (BAR1_SIZE != '0 && (BAR1_SIZE < 64'h1000 || (BAR1_SIZE & (BAR1_SIZE - 64'd1)) != '0))
        $error("pcie_endpoint: BAR1_SIZE is %0d; expected 0 or a power of two from 4096", BAR1_SIZE);
    if (BAR1_SIZE > 64'h8000_0000 && !BAR_WIDE[1]) $error("pcie_endpoint: BAR1_SIZE is %0d; expected at most 2 GiB, or BAR_WIDE", BAR1_SIZE);
    if ((BAR1_BASE & (BAR1_SIZE - 64'd1)) != '0 && BAR1_SIZE != '0) $error("pcie_endpoint: BAR1_BASE is not a multiple of BAR1_SIZE");
    if (BAR2_SIZE != '0 && (BAR2_SIZE < 64'h1000 || (BAR2_SIZE & (BAR2_SIZE - 64'd1)) != '0))
        $error("pcie_endpoint: BAR2_SIZE is %0d; expected 0 or a power of two from 4096", BAR2_SIZE);
    if (BAR2_SIZE > 64'h8000_0000 && !BAR_WIDE[2]) $error("pcie_endpoint: BAR2_SIZE is %0d; expected at most 2 GiB, or BAR_WIDE", BAR2_SIZE);
    if ((BAR2_BASE & (BAR2_SIZE - 64'd1)) != '0 && BAR2_SIZE != '0) $error("pcie_endpoint: BAR2_BASE is not a multiple of BAR2_SIZE");
    if (BAR3_SIZE != '0 && (BAR3_SIZE < 64'h1000 || (BAR3_SIZE & (BAR3_SIZE - 64'd1)) != '0))
        $error("pcie_endpoint: BAR3_SIZE is %0d; expected 0 or a power of two from 4096", BAR3_SIZE);
    if (BAR3_SIZE > 64'h8000_0000 && !BAR_WIDE[3]) $error("pcie_endpoint: BAR3_SIZE is %0d; expected at most 2 GiB, or BAR_WIDE", BAR3_SIZE);
    if ((BAR3_BASE & (BAR3_SIZE - 64'd1)) != '0 && BAR3_SIZE != '0) $error("pcie_endpoint: BAR3_BASE is not a multiple of BAR3_SIZE");
    if (BAR4_SIZE != '0 && (BAR4_SIZE < 64'h1000 || (BAR4_SIZE & (BAR4_SIZE - 64'd1)) != '0))
        $error("pcie_endpoint: BAR4_SIZE is %0d; expected 0 or a power of two from 4096", BAR4_SIZE);
    if (BAR4_SIZE > 64'h8000_0000 && !BAR_WIDE[4]) $error("pcie_endpoint: BAR4_SIZE is %0d; expected at most 2 GiB, or BAR_WIDE", BAR4_SIZE);
    if ((BAR4_BASE & (BAR4_SIZE - 64'd1)) != '0 && BAR4_SIZE != '0) $error("pcie_endpoint: BAR4_BASE is not a multiple of BAR4_SIZE");
    if (BAR5_SIZE != '0 && (BAR5_SIZE < 64'h1000 || (BAR5_SIZE & (BAR5_SIZE - 64'd1)) != '0))
        $error("pcie_endpoint: BAR5_SIZE is %0d; expected 0 or a power of two from 4096", BAR5_SIZE);
    if (BAR5_SIZE > 64'h8000_0000 && !BAR_WIDE[5]) $error("pcie_endpoint: BAR5_SIZE is %0d; expected at most 2 GiB, or BAR_WIDE", BAR5_SIZE);
    if ((BAR5_BASE & (BAR5_SIZE - 64'd1)) != '0 && BAR5_SIZE != '0) $error("pcie_endpoint: BAR5_BASE is not a multiple of BAR5_SIZE");
    if ((BAR_WIDE & (EXIST >> 1)) != '0 || BAR_WIDE[5]) $error("pcie_endpoint: BAR_WIDE is %b; expected no BAR in the place after a 64-bit BAR", BAR_WIDE);
    if (MSIX_BAR < -1 || MSIX_BAR > 5) $error("pcie_endpoint: MSIX_BAR is %0d; expected -1 to 5", MSIX_BAR);
    if (MSIX_BAR >= 0 && MSIX_BAR <= 5 && (GIVEN_SIZES >> (64 * MSIX_BAR)) % 384'h1_0000_0000_0000_0000 != '0)
        $error("pcie_endpoint: MSIX_BAR is %0d, which has a size of its own; expected a BAR of size 0", MSIX_BAR);
    if (INTERRUPTS < 1 || INTERRUPTS > 32) $error("pcie_endpoint: INTERRUPTS is %0d; expected 1 to 32", INTERRUPTS);
    if (LINK_SPEED < 1 || LINK_SPEED > 5) $error("pcie_endpoint: LINK_SPEED is %0d; expected 1 to 5", LINK_SPEED);
    if (LINK_WIDTH != 1 && LINK_WIDTH != 2 && LINK_WIDTH != 4 && LINK_WIDTH != 8 && LINK_WIDTH != 16)
        $error("pcie_endpoint: LINK_WIDTH is %0d; expected 1, 2, 4, 8 or 16", LINK_WIDTH);
    if (COUNTER_WIDTH < 1 || COUNTER_WIDTH > 32) $error("pcie_endpoint: COUNTER_WIDTH is %0d; expected 1 to 32", COUNTER_WIDTH);

    // Lengths of received TLPs come from their headers, and the bus keeps the order of responses with one ID.
    // verilator lint_off UNUSEDSIGNAL
    logic unused;
    // verilator lint_on UNUSEDSIGNAL
    assign unused = &{rx_p_end, rx_np_end, rx_np_eop, rx_np_data, rx_np_poisoned, m_axi_bid, m_axi_rid};

    // ---- settings and state ----
    logic memory_enable, bus_master, extended_tags, timed, may_send;
    logic [2:0] max_read_request;
    logic [6*32-1:0] bars;
    logic [15:0] function_id;
    logic [1:0] posted_waits;
    logic posted_leaves, posted_stalled;
    logic [7:0] posted_begun, posted_done, writes_queued, writes_sent;

    // ---- resets of the function ----
    logic was_up, link_reset, reset_request, reset_wanted, function_level_reset, config_answered;
    logic [5:0] reset_left;
    assign function_reset = reset_left != '0;
    assign link_reset = was_up && !link_up;
    // The completion of the write that asked for the reset is sent first (§6.6.2).
    assign function_level_reset = reset_wanted && config_answered;
    assign may_send = bus_master && link_up && !function_reset;
    always_ff @(posedge clk)
        if (rst) begin
            was_up <= 1'b0;
            reset_wanted <= 1'b0;
            reset_left <= '0;
        end else begin
            was_up <= link_up;
            if (reset_request) reset_wanted <= 1'b1;
            else if (function_level_reset || link_reset) reset_wanted <= 1'b0;
            if (function_level_reset || link_reset) reset_left <= 6'd32;
            else if (function_reset) reset_left <= reset_left - 1'b1;
        end

    // ---- BARs: 0 for writes of the host, 1 for reads ----
    logic [63:0] address[0:1];
    logic [63:2] bus_address[0:1];
    logic [1:0] hit, in_table;
    for (genvar n = 0; n < 2; n++) begin : decoders
        pcie_endpoint_bars #(
            .SIZES(SIZES),
            .BASES(BASES),
            .WIDE(BAR_WIDE),
            .MSIX_BAR(MSIX_BAR)
        ) decoder (
            .address(address[n]),
            .bars(bars),
            .memory_enable(memory_enable),
            .hit(hit[n]),
            .in_table(in_table[n]),
            .bus_address(bus_address[n])
        );
    end

    // ---- PCIeToAXI ----
    logic [23:0] completion_events, posted_events, nonposted_events;
    logic [5:0] completion_errors, posted_errors, nonposted_errors;
    logic [127:0] completion_header, posted_header, nonposted_header;
    logic table_write, slot_power_valid, turn_off;
    logic [9:0] table_write_word, table_read_word, config_word, slot_power;
    logic [3:0] table_write_be, config_be;
    logic [31:0] table_write_data, table_read_data, config_data, config_read_data;
    logic config_select, config_write;
    logic [1:0] part_valid, part_ready, part_eop;
    logic request_sop, reply_sop, request_posted;
    logic [LANE-1:0] request_end, reply_end;
    logic [DATA_WIDTH-1:0] request_beat, reply_beat;
    assign m_axi_awid = '0;
    assign m_axi_awburst = 2'b01;
    assign m_axi_bready = 1'b1;
    assign m_axi_arid = '0;
    assign m_axi_arburst = 2'b01;
    assign m_axi_rready = 1'b1;
    pcie_endpoint_write #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .BUS_WIDTH(BUS_WIDTH)
    ) posted (
        .clk(clk),
        .rst(rst),
        .bus_rst(bus_rst),
        .rx_valid(rx_p_valid),
        .rx_ready(rx_p_ready),
        .rx_sop(rx_p_sop),
        .rx_eop(rx_p_eop),
        .rx_data(rx_p_data),
        .rx_poisoned(rx_p_poisoned),
        .address(address[0]),
        .hit(hit[0]),
        .in_table(in_table[0]),
        .bus_address(bus_address[0]),
        .bus_timeout(32'(BUS_TIMEOUT)),
        .awvalid(m_axi_awvalid),
        .awready(m_axi_awready),
        .awaddr(m_axi_awaddr),
        .awlen(m_axi_awlen),
        .awsize(m_axi_awsize),
        .wvalid(m_axi_wvalid),
        .wready(m_axi_wready),
        .wdata(m_axi_wdata),
        .wstrb(m_axi_wstrb),
        .wlast(m_axi_wlast),
        .bvalid(m_axi_bvalid),
        .berror(m_axi_bresp[1]),
        .table_write(table_write),
        .table_word(table_write_word),
        .table_be(table_write_be),
        .table_data(table_write_data),
        .waits(posted_waits),
        .leaves(posted_leaves),
        .begun(posted_begun),
        .done(posted_done),
        .stalled(posted_stalled),
        .slot_power_valid(slot_power_valid),
        .slot_power(slot_power),
        .turn_off(turn_off),
        .events(posted_events),
        .errors(posted_errors),
        .error_header(posted_header)
    );
    pcie_endpoint_read #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .BUS_WIDTH(BUS_WIDTH)
    ) nonposted (
        .clk(clk),
        .rst(rst),
        .bus_rst(bus_rst),
        .link_reset(link_reset),
        .rx_valid(rx_np_valid),
        .rx_ready(rx_np_ready),
        .rx_sop(rx_np_sop),
        .rx_data(rx_np_data[127:0]),
        .address(address[1]),
        .hit(hit[1]),
        .in_table(in_table[1]),
        .bus_address(bus_address[1]),
        .max_payload(max_payload),
        .bus_timeout(32'(BUS_TIMEOUT)),
        .config_select(config_select),
        .config_write(config_write),
        .config_word(config_word),
        .config_be(config_be),
        .config_data(config_data),
        .config_read_data(config_read_data),
        .table_word(table_read_word),
        .table_read_data(table_read_data),
        .config_answered(config_answered),
        .function_id(function_id),
        .posted_waits(posted_waits),
        .posted_leaves(posted_leaves),
        .posted_begun(posted_begun),
        .posted_done(posted_done),
        .posted_stalled(posted_stalled),
        .writes_queued(writes_queued),
        .writes_sent(writes_sent),
        .arvalid(m_axi_arvalid),
        .arready(m_axi_arready),
        .araddr(m_axi_araddr),
        .arlen(m_axi_arlen),
        .arsize(m_axi_arsize),
        .rvalid(m_axi_rvalid),
        .rdata(m_axi_rdata),
        .rresp(m_axi_rresp),
        .rlast(m_axi_rlast),
        .tx_valid(part_valid[1]),
        .tx_ready(part_ready[1]),
        .tx_sop(reply_sop),
        .tx_eop(part_eop[1]),
        .tx_end(reply_end),
        .tx_data(reply_beat),
        .events(nonposted_events),
        .errors(nonposted_errors),
        .error_header(nonposted_header)
    );

    // ---- AXIToPCIe ----
    logic awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready, dma_closed;
    logic [DMA_WIDTH/8-1:0] wstrb;
    pcie_endpoint_guard #(
        .BYTES(DMA_WIDTH / 8)
    ) guard (
        .clk(clk),
        .rst(rst),
        .bus_rst(bus_rst),
        .s_awvalid(s_axi_awvalid),
        .s_awready(s_axi_awready),
        .s_wvalid(s_axi_wvalid),
        .s_wready(s_axi_wready),
        .s_wstrb(s_axi_wstrb),
        .s_bvalid(s_axi_bvalid),
        .s_bready(s_axi_bready),
        .s_arvalid(s_axi_arvalid),
        .s_arready(s_axi_arready),
        .s_rvalid(s_axi_rvalid),
        .s_rready(s_axi_rready),
        .awvalid(awvalid),
        .awready(awready),
        .wvalid(wvalid),
        .wready(wready),
        .wstrb(wstrb),
        .bvalid(bvalid),
        .bready(bready),
        .arvalid(arvalid),
        .arready(arready),
        .rvalid(rvalid),
        .rready(rready),
        .rlast(s_axi_rlast),
        .closed(dma_closed)
    );

    logic read_send, read_send_ready, write_send, write_send_ready, write_data_take;
    logic [61:0] read_send_address, write_send_address;
    logic [9:0] read_send_length, write_send_length;
    logic [3:0] read_first_be, read_last_be, write_first_be, write_last_be;
    logic [7:0] read_tag;
    logic [SLOT-1:0] read_send_slot, read_slot;
    logic [WORD-1:0] read_word;
    logic [READ_SLOTS-1:0] pending;
    logic [2:0] slot_status;
    logic [31:0] slot_data, write_word_data;
    logic [1:0] bad_address, bad_burst;
    logic [SLOT:0] reads_in_flight;
    // verilator lint_off PINCONNECTEMPTY
    pcie_axi_read #(
        .CPU_WIDTH(DMA_WIDTH),
        .CPU_ID(DMA_ID),
        .READ_SLOTS(READ_SLOTS),
        .READ_BYTES(READ_BYTES)
    ) reads (
        .clk(clk),
        .rst(rst),
        .arvalid(arvalid),
        .arready(arready),
        .arid(s_axi_arid),
        .araddr(s_axi_araddr),
        .arlen(s_axi_arlen),
        .arsize(s_axi_arsize),
        .arburst(s_axi_arburst),
        .rvalid(rvalid),
        .rready(rready),
        .rid(s_axi_rid),
        .rdata(s_axi_rdata),
        .rresp(s_axi_rresp),
        .rlast(s_axi_rlast),
        .address(),
        .in_registers(1'b0),
        .in_config(1'b0),
        .in_memory(may_send),
        .max_read_request(max_read_request),
        .extended_tags(extended_tags),
        .errors_as_ones(1'b0),
        .send_valid(read_send),
        .send_ready(read_send_ready),
        .send_address(read_send_address),
        .send_length(read_send_length),
        .send_first_be(read_first_be),
        .send_last_be(read_last_be),
        .send_tag(read_tag),
        .send_slot(read_send_slot),
        .slot(read_slot),
        .slot_word(read_word),
        .pending(pending),
        .slot_status(slot_status),
        .slot_data(slot_data),
        .access_valid(),
        .access_is_register(),
        .access_word(),
        .access_be(),
        .access_done(1'b0),
        .access_data(32'd0),
        .bad_address(bad_address[0]),
        .bad_burst(bad_burst[0]),
        .outstanding(reads_in_flight)
    );
    pcie_axi_write #(
        .CPU_WIDTH(DMA_WIDTH),
        .CPU_ID(DMA_ID),
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) writes (
        .clk(clk),
        .rst(rst),
        .awvalid(awvalid),
        .awready(awready),
        .awid(s_axi_awid),
        .awaddr(s_axi_awaddr),
        .awlen(s_axi_awlen),
        .awsize(s_axi_awsize),
        .awburst(s_axi_awburst),
        .wvalid(wvalid),
        .wready(wready),
        .wdata(s_axi_wdata),
        .wstrb(wstrb),
        .wlast(s_axi_wlast),
        .bvalid(bvalid),
        .bready(bready),
        .bid(s_axi_bid),
        .bresp(s_axi_bresp),
        .address(),
        .in_registers(1'b0),
        .in_config(1'b0),
        .in_memory(may_send),
        .max_payload(max_payload),
        .send_valid(write_send),
        .send_ready(write_send_ready),
        .send_address(write_send_address),
        .send_length(write_send_length),
        .send_first_be(write_first_be),
        .send_last_be(write_last_be),
        .data(write_word_data),
        .data_take(write_data_take),
        .access_valid(),
        .access_is_register(),
        .access_word(),
        .access_be(),
        .access_data(),
        .access_done(1'b0),
        .bad_address(bad_address[1]),
        .bad_burst(bad_burst[1])
    );

    // ---- interrupts and messages ----
    logic msi_enable, msix_enable, msix_mask, interrupt_send, interrupt_send_ready, interrupt_lost;
    logic [63:2] msi_address;
    logic [15:0] msi_data;
    logic [2:0] msi_count;
    logic [31:0] msi_mask, msi_pending, interrupt_data;
    logic [61:0] interrupt_address;
    pcie_endpoint_interrupts #(
        .INTERRUPTS(INTERRUPTS)
    ) interrupt_lines (
        .clk(clk),
        .rst(rst || link_reset || function_level_reset),
        .lines(interrupts),
        .allowed(may_send),
        .msi_enable(msi_enable),
        .msi_address(msi_address),
        .msi_data(msi_data),
        .msi_count(msi_count),
        .msi_mask(msi_mask),
        .msi_pending(msi_pending),
        .msix_enable(msix_enable),
        .msix_mask(msix_mask),
        .table_write(table_write),
        .table_write_word(table_write_word),
        .table_write_be(table_write_be),
        .table_write_data(table_write_data),
        .table_read_word(table_read_word),
        .table_read_data(table_read_data),
        .send_valid(interrupt_send),
        .send_ready(interrupt_send_ready),
        .send_address(interrupt_address),
        .send_data(interrupt_data),
        .lost(interrupt_lost)
    );

    // ERR_COR, ERR_NONFATAL, ERR_FATAL and PME_TO_Ack, each at most once until it has been sent.
    logic [3:0] message_set, messages;
    logic message_send, message_send_ready, error_message_sent;
    logic [1:0] message_kind;
    logic [7:0] message_code;
    assign message_send = messages != '0 && link_up;
    assign message_kind = messages[2] ? 2'd2 : messages[1] ? 2'd1 : messages[0] ? 2'd0 : 2'd3;
    assign message_code = message_kind == 2'd3 ? 8'h1b : message_kind == 2'd2 ? 8'h33 : message_kind == 2'd1 ? 8'h31 : 8'h30;
    assign error_message_sent = message_send && message_send_ready && message_kind != 2'd3;
    always_ff @(posedge clk)
        if (rst || link_reset) messages <= '0;
        else messages <= (messages & ~(message_send && message_send_ready ? 4'd1 << message_kind : 4'd0)) | message_set;

    // ---- requests to TLPs: messages and interrupts first, then reads and writes in turn ----
    logic request_ready, write_turn, takes_message, takes_interrupt, takes_write, takes_read;
    logic from_writes;  // the data of the TLP that is made come from the DMA writes
    logic [31:0] interrupt_word;
    assign takes_message = message_send;
    assign takes_interrupt = !message_send && interrupt_send;
    assign takes_write = !message_send && !interrupt_send && write_send && (write_turn || !read_send);
    assign takes_read = !message_send && !interrupt_send && read_send && !takes_write;
    assign message_send_ready = request_ready && takes_message;
    assign interrupt_send_ready = request_ready && takes_interrupt;
    assign write_send_ready = request_ready && takes_write;
    assign read_send_ready = request_ready && takes_read;
    always_ff @(posedge clk)
        if (rst) write_turn <= 1'b0;
        else if (request_ready && (takes_write || takes_read)) write_turn <= takes_read;
    always_ff @(posedge clk)
        if (request_ready) begin
            from_writes <= takes_write;
            interrupt_word <= interrupt_data;
        end

    logic data_take;
    assign write_data_take = data_take && from_writes;
    pcie_packetizer_request #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) requests (
        .clk(clk),
        .rst(rst),
        .request_valid(takes_message || takes_interrupt || takes_write || takes_read),
        .request_ready(request_ready),
        .request_kind(takes_message ? SEND_MESSAGE : takes_read ? SEND_MRD : SEND_MWR),
        .request_type1(message_kind == 2'd3),
        .requester(function_id),
        .request_address(takes_message ? '0 : takes_interrupt ? interrupt_address : takes_write ? write_send_address : read_send_address),
        .request_length(takes_message ? 10'd0 : takes_interrupt ? 10'd1 : takes_write ? write_send_length : read_send_length),
        .request_first_be(takes_message ? message_code[3:0] : takes_interrupt ? 4'hf : takes_write ? write_first_be : read_first_be),
        .request_last_be(takes_message ? message_code[7:4] : takes_interrupt ? 4'h0 : takes_write ? write_last_be : read_last_be),
        .request_tag(takes_read ? read_tag : 8'd0),
        .request_data(32'd0),
        .data(from_writes ? write_word_data : interrupt_word),
        .data_take(data_take),
        .tx_valid(part_valid[0]),
        .tx_ready(part_ready[0]),
        .tx_sop(request_sop),
        .tx_eop(part_eop[0]),
        .tx_end(request_end),
        .tx_data(request_beat),
        .tx_posted(request_posted)
    );
    always_ff @(posedge clk)
        if (rst) begin
            writes_queued <= '0;
            writes_sent <= '0;
        end else begin
            if (request_ready && (takes_interrupt || takes_write)) writes_queued <= writes_queued + 1'b1;
            if (part_valid[0] && part_ready[0] && part_eop[0] && request_posted) writes_sent <= writes_sent + 1'b1;
        end

    pcie_packetizer_arbiter #(
        .WIDTH(DATA_WIDTH + LANE + 2)
    ) arbiter (
        .clk(clk),
        .rst(rst),
        .valid(part_valid),
        .ready(part_ready),
        .eop(part_eop),
        .beat_0({request_sop, part_eop[0], request_end, request_beat}),
        .beat_1({reply_sop, part_eop[1], reply_end, reply_beat}),
        .tx_valid(tx_valid),
        .tx_ready(tx_ready),
        .tx_beat({tx_sop, tx_eop, tx_end, tx_data})
    );

    // ---- completions of DMA reads, after the MMIO writes that arrived before them ----
    pcie_packetizer_completion #(
        .DATA_WIDTH(DATA_WIDTH),
        .READ_SLOTS(READ_SLOTS),
        .READ_BYTES(READ_BYTES)
    ) completions (
        .clk(clk),
        .rst(rst),
        .link_up(link_up && !function_reset),
        .timed(timed),
        .timeout(32'(COMPLETION_TIMEOUT)),
        .requester(function_id),
        .rx_valid(rx_cpl_valid),
        .rx_ready(rx_cpl_ready),
        .rx_sop(rx_cpl_sop),
        .rx_eop(rx_cpl_eop),
        .rx_end(rx_cpl_end),
        .rx_data(rx_cpl_data),
        .rx_poisoned(rx_cpl_poisoned),
        .allocate(read_send && read_send_ready),
        .allocate_slot(read_send_slot),
        .allocate_tag(read_tag),
        .allocate_word(read_send_address[WORD-1:0]),
        .allocate_length(read_send_length),
        .read_slot(read_slot),
        .read_word(read_word),
        .pending(pending),
        .read_status(slot_status),
        .read_data(slot_data),
        .config_start(1'b0),
        .config_write(1'b0),
        .config_tag(8'd0),
        .config_done(),
        .config_status(),
        .config_data(),
        .posted_waits(posted_waits),
        .posted_leaves(posted_leaves),
        .posted_begun(posted_begun),
        .posted_done(posted_done),
        .stalled(posted_stalled),
        .events(completion_events),
        .errors(completion_errors),
        .error_header(completion_header)
    );
    // verilator lint_on PINCONNECTEMPTY

    // ---- events and errors ----
    logic bus_slverr, bus_decerr;
    assign bus_slverr = m_axi_bvalid && m_axi_bresp == SLVERR;
    assign bus_decerr = m_axi_bvalid && m_axi_bresp == DECERR;
    always_comb begin
        events = completion_events | posted_events | nonposted_events;
        events[EVENT_DECODE] = bad_address != '0 && !dma_closed;
        events[EVENT_BURST] = bad_burst != '0 && !dma_closed;
        events[EVENT_INTERRUPT_LOST] = interrupt_lost;
        events[EVENT_MSI] = interrupt_send && interrupt_send_ready;
        events[EVENT_FUNCTION_RESET] = function_level_reset || link_reset;
        events[EVENT_MESSAGE] = error_message_sent;
    end
    pcie_dll_counters #(
        .NUMBER(24),
        .WIDTH(COUNTER_WIDTH)
    ) counters (
        .clk(clk),
        .rst(rst),
        .events(events),
        .counts(counts)
    );

    logic [5:0] errors, advisory_errors;
    logic [127:0] error_header;
    logic has_header;
    always_comb begin
        errors = posted_errors;
        errors[ERROR_MALFORMED] = posted_errors[ERROR_MALFORMED] || nonposted_errors[ERROR_MALFORMED] || completion_errors[ERROR_MALFORMED];
        errors[ERROR_POISONED] = posted_errors[ERROR_POISONED] || nonposted_errors[ERROR_POISONED] || completion_errors[ERROR_POISONED];
        errors[ERROR_TIMEOUT] = completion_errors[ERROR_TIMEOUT];
        errors[ERROR_ABORT] = bus_slverr;
        errors[ERROR_UNSUPPORTED] = posted_errors[ERROR_UNSUPPORTED] || bus_decerr;
        advisory_errors = '0;
        advisory_errors[ERROR_UNSUPPORTED] = nonposted_errors[ERROR_UNSUPPORTED];
        advisory_errors[ERROR_ABORT] = nonposted_errors[ERROR_ABORT];
        advisory_errors[ERROR_UNEXPECTED] = completion_errors[ERROR_UNEXPECTED];
        error_header = posted_errors != '0 ? posted_header : nonposted_errors != '0 ? nonposted_header : completion_header;
        has_header = posted_errors != '0 || nonposted_errors != '0 || completion_errors[ERROR_UNEXPECTED] || completion_errors[ERROR_MALFORMED]
            || completion_errors[ERROR_POISONED];
    end

    assign message_set[3] = turn_off;
    pcie_endpoint_config #(
        .VENDOR_ID(VENDOR_ID),
        .DEVICE_ID(DEVICE_ID),
        .SUBSYSTEM_VENDOR_ID(SUBSYSTEM_VENDOR_ID),
        .SUBSYSTEM_ID(SUBSYSTEM_ID),
        .REVISION(REVISION),
        .CLASS_CODE(CLASS_CODE),
        .SIZES(SIZES),
        .WIDE(BAR_WIDE),
        .PREFETCHABLE(BAR_PREFETCHABLE),
        .INTERRUPTS(INTERRUPTS),
        .MSIX_BAR(MSIX_BAR),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .LINK_SPEED(LINK_SPEED),
        .LINK_WIDTH(LINK_WIDTH),
        .COUNTER_WIDTH(COUNTER_WIDTH)
    ) config_space (
        .clk(clk),
        .rst(rst),
        .link_reset(link_reset),
        .function_level_reset(function_level_reset),
        .select(config_select),
        .write(config_write),
        .word(config_word),
        .be(config_be),
        .write_data(config_data),
        .read_data(config_read_data),
        .link_speed(link_speed),
        .link_width(link_width),
        .transactions_pending(reads_in_flight != '0),
        .slot_power_valid(slot_power_valid),
        .slot_power(slot_power),
        .msi_pending(msi_pending),
        .counts(counts),
        .errors(errors),
        .advisory_errors(advisory_errors),
        .has_header(has_header),
        .error_header(error_header),
        .link_uncorrectable(link_uncorrectable),
        .link_correctable(link_correctable),
        .completion_ur(completion_events[EVENT_CPL_UR]),
        .completion_ca(completion_events[EVENT_CPL_CA]),
        .completion_poisoned(completion_events[EVENT_CPL_POISONED]),
        .signaled_ca(nonposted_errors[ERROR_ABORT]),
        .message_cor(message_set[0]),
        .message_nonfatal(message_set[1]),
        .message_fatal(message_set[2]),
        .bars(bars),
        .memory_enable(memory_enable),
        .bus_master(bus_master),
        .max_payload(max_payload),
        .max_read_request(max_read_request),
        .extended_tags(extended_tags),
        .timed(timed),
        .reset_request(reset_request),
        .msi_enable(msi_enable),
        .msi_address(msi_address),
        .msi_data(msi_data),
        .msi_count(msi_count),
        .msi_mask(msi_mask),
        .msix_enable(msix_enable),
        .msix_mask(msix_mask)
    );
endmodule
