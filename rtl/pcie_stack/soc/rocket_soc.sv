// SPDX-License-Identifier: Apache-2.0 OR MIT
// A system on chip for simulation. It joins a Rocket core, which has its own timer and interrupt controller, with RAM, UART and a PCI Express root complex. The
// complex is on the core's MMIO and DMA ports. Its frames are ports of this module. SOC.md has the memory map.
// verilator lint_off PINCONNECTEMPTY
module rocket_soc #(
    parameter int DATA_WIDTH = 128,
    parameter int RAM_WORDS = 1 << 23,
    parameter int INIT_FC_CYCLES = 256,
    parameter int NIC = 0,               // a NIC on the core's bus, which has the DMA port while `nic_near` is set. 1: AXI4, 2: TileLink
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    input logic clk,
    input logic rst,
    // verilator lint_off UNUSEDSIGNAL
    input logic nic_near,
    // verilator lint_on UNUSEDSIGNAL

    // Frames of the root port
    input logic phy_link_up,
    input logic phy_recovery,
    input logic [3:0] link_speed,        // as in Link Status
    input logic [5:0] link_width,
    output logic retrain_request,
    output logic phy_tx_valid,
    output logic phy_tx_sop,
    output logic phy_tx_eop,
    output logic phy_tx_dllp,
    output logic phy_tx_nullify,
    output logic [LANE-1:0] phy_tx_end,
    output logic [DATA_WIDTH-1:0] phy_tx_data,
    input logic phy_tx_ready,
    input logic phy_rx_valid,
    input logic phy_rx_sop,
    input logic phy_rx_eop,
    input logic phy_rx_dllp,
    input logic phy_rx_nullify,
    input logic phy_rx_error,
    input logic [LANE-1:0] phy_rx_end,
    input logic [DATA_WIDTH-1:0] phy_rx_data,
    output logic link_down,              // software disables the link or resets what is below it
    output logic dl_up,

    // Console and end of the simulation: pulses
    output logic uart_valid,
    output logic [7:0] uart_data,
    output logic finish_valid,
    output logic [31:0] finish_value
);
    localparam int TARGETS = 3, SMALL = 0, COMPLEX = 1, CARD = 2;
    localparam int DMA_ID = 3, DMA_READ_ID = DMA_ID + 1;

    // ---- ports of the core ----
    logic mem_awvalid, mem_awready, mem_wvalid, mem_wready, mem_wlast, mem_bvalid, mem_bready, mem_arvalid, mem_arready, mem_rvalid, mem_rready, mem_rlast;
    logic [3:0] mem_awid, mem_bid, mem_arid, mem_rid;
    logic [31:0] mem_awaddr, mem_araddr;
    logic [7:0] mem_awlen, mem_arlen, mem_wstrb;
    logic [63:0] mem_wdata, mem_rdata;
    logic [1:0] mem_bresp, mem_rresp;
    logic io_awvalid, io_awready, io_wvalid, io_wready, io_wlast, io_bvalid, io_bready, io_arvalid, io_arready, io_rvalid, io_rready, io_rlast;
    logic [3:0] io_awid, io_bid, io_arid, io_rid;
    logic [30:0] io_awaddr, io_araddr;
    logic [7:0] io_awlen, io_arlen, io_wstrb;
    logic [2:0] io_awsize, io_arsize;
    logic [1:0] io_awburst, io_arburst, io_bresp, io_rresp;
    logic [63:0] io_wdata, io_rdata;
    logic dma_awvalid, dma_awready, dma_wvalid, dma_wready, dma_wlast, dma_bvalid, dma_bready, dma_arvalid, dma_arready, dma_rvalid, dma_rready, dma_rlast;
    logic [DMA_READ_ID-1:0] dma_awid, dma_arid;
    logic [7:0] dma_bid, dma_rid, dma_awlen, dma_arlen, dma_wstrb;
    logic [31:0] dma_awaddr, dma_araddr;
    logic [63:0] dma_wdata, dma_rdata;
    logic [1:0] dma_bresp, dma_rresp;
    logic uart_interrupt, msi_interrupt, event_interrupt;
    logic [3:0] intx;

    ExampleRocketSystem core (
        .clock(clk),
        .reset(rst),
        .mem_axi4_0_aw_valid(mem_awvalid),
        .mem_axi4_0_aw_ready(mem_awready),
        .mem_axi4_0_aw_bits_id(mem_awid),
        .mem_axi4_0_aw_bits_addr(mem_awaddr),
        .mem_axi4_0_aw_bits_len(mem_awlen),
        .mem_axi4_0_aw_bits_size(),
        .mem_axi4_0_aw_bits_burst(),
        .mem_axi4_0_aw_bits_lock(),
        .mem_axi4_0_aw_bits_cache(),
        .mem_axi4_0_aw_bits_prot(),
        .mem_axi4_0_aw_bits_qos(),
        .mem_axi4_0_w_valid(mem_wvalid),
        .mem_axi4_0_w_ready(mem_wready),
        .mem_axi4_0_w_bits_data(mem_wdata),
        .mem_axi4_0_w_bits_strb(mem_wstrb),
        .mem_axi4_0_w_bits_last(mem_wlast),
        .mem_axi4_0_b_valid(mem_bvalid),
        .mem_axi4_0_b_ready(mem_bready),
        .mem_axi4_0_b_bits_id(mem_bid),
        .mem_axi4_0_b_bits_resp(mem_bresp),
        .mem_axi4_0_ar_valid(mem_arvalid),
        .mem_axi4_0_ar_ready(mem_arready),
        .mem_axi4_0_ar_bits_id(mem_arid),
        .mem_axi4_0_ar_bits_addr(mem_araddr),
        .mem_axi4_0_ar_bits_len(mem_arlen),
        .mem_axi4_0_ar_bits_size(),
        .mem_axi4_0_ar_bits_burst(),
        .mem_axi4_0_ar_bits_lock(),
        .mem_axi4_0_ar_bits_cache(),
        .mem_axi4_0_ar_bits_prot(),
        .mem_axi4_0_ar_bits_qos(),
        .mem_axi4_0_r_valid(mem_rvalid),
        .mem_axi4_0_r_ready(mem_rready),
        .mem_axi4_0_r_bits_id(mem_rid),
        .mem_axi4_0_r_bits_data(mem_rdata),
        .mem_axi4_0_r_bits_resp(mem_rresp),
        .mem_axi4_0_r_bits_last(mem_rlast),
        .mmio_axi4_0_aw_valid(io_awvalid),
        .mmio_axi4_0_aw_ready(io_awready),
        .mmio_axi4_0_aw_bits_id(io_awid),
        .mmio_axi4_0_aw_bits_addr(io_awaddr),
        .mmio_axi4_0_aw_bits_len(io_awlen),
        .mmio_axi4_0_aw_bits_size(io_awsize),
        .mmio_axi4_0_aw_bits_burst(io_awburst),
        .mmio_axi4_0_aw_bits_lock(),
        .mmio_axi4_0_aw_bits_cache(),
        .mmio_axi4_0_aw_bits_prot(),
        .mmio_axi4_0_aw_bits_qos(),
        .mmio_axi4_0_w_valid(io_wvalid),
        .mmio_axi4_0_w_ready(io_wready),
        .mmio_axi4_0_w_bits_data(io_wdata),
        .mmio_axi4_0_w_bits_strb(io_wstrb),
        .mmio_axi4_0_w_bits_last(io_wlast),
        .mmio_axi4_0_b_valid(io_bvalid),
        .mmio_axi4_0_b_ready(io_bready),
        .mmio_axi4_0_b_bits_id(io_bid),
        .mmio_axi4_0_b_bits_resp(io_bresp),
        .mmio_axi4_0_ar_valid(io_arvalid),
        .mmio_axi4_0_ar_ready(io_arready),
        .mmio_axi4_0_ar_bits_id(io_arid),
        .mmio_axi4_0_ar_bits_addr(io_araddr),
        .mmio_axi4_0_ar_bits_len(io_arlen),
        .mmio_axi4_0_ar_bits_size(io_arsize),
        .mmio_axi4_0_ar_bits_burst(io_arburst),
        .mmio_axi4_0_ar_bits_lock(),
        .mmio_axi4_0_ar_bits_cache(),
        .mmio_axi4_0_ar_bits_prot(),
        .mmio_axi4_0_ar_bits_qos(),
        .mmio_axi4_0_r_valid(io_rvalid),
        .mmio_axi4_0_r_ready(io_rready),
        .mmio_axi4_0_r_bits_id(io_rid),
        .mmio_axi4_0_r_bits_data(io_rdata),
        .mmio_axi4_0_r_bits_resp(io_rresp),
        .mmio_axi4_0_r_bits_last(io_rlast),
        .l2_frontend_bus_axi4_0_aw_valid(dma_awvalid),
        .l2_frontend_bus_axi4_0_aw_ready(dma_awready),
        .l2_frontend_bus_axi4_0_aw_bits_id(8'(dma_awid)),
        .l2_frontend_bus_axi4_0_aw_bits_addr(dma_awaddr),
        .l2_frontend_bus_axi4_0_aw_bits_len(dma_awlen),
        .l2_frontend_bus_axi4_0_aw_bits_size(3'd3),
        .l2_frontend_bus_axi4_0_aw_bits_burst(2'd1),
        .l2_frontend_bus_axi4_0_aw_bits_lock(1'b0),
        .l2_frontend_bus_axi4_0_aw_bits_cache(4'd0),
        .l2_frontend_bus_axi4_0_aw_bits_prot(3'd0),
        .l2_frontend_bus_axi4_0_aw_bits_qos(4'd0),
        .l2_frontend_bus_axi4_0_w_valid(dma_wvalid),
        .l2_frontend_bus_axi4_0_w_ready(dma_wready),
        .l2_frontend_bus_axi4_0_w_bits_data(dma_wdata),
        .l2_frontend_bus_axi4_0_w_bits_strb(dma_wstrb),
        .l2_frontend_bus_axi4_0_w_bits_last(dma_wlast),
        .l2_frontend_bus_axi4_0_b_valid(dma_bvalid),
        .l2_frontend_bus_axi4_0_b_ready(dma_bready),
        .l2_frontend_bus_axi4_0_b_bits_id(dma_bid),
        .l2_frontend_bus_axi4_0_b_bits_resp(dma_bresp),
        .l2_frontend_bus_axi4_0_ar_valid(dma_arvalid),
        .l2_frontend_bus_axi4_0_ar_ready(dma_arready),
        .l2_frontend_bus_axi4_0_ar_bits_id(8'(dma_arid)),
        .l2_frontend_bus_axi4_0_ar_bits_addr(dma_araddr),
        .l2_frontend_bus_axi4_0_ar_bits_len(dma_arlen),
        .l2_frontend_bus_axi4_0_ar_bits_size(3'd3),
        .l2_frontend_bus_axi4_0_ar_bits_burst(2'd1),
        .l2_frontend_bus_axi4_0_ar_bits_lock(1'b0),
        .l2_frontend_bus_axi4_0_ar_bits_cache(4'd0),
        .l2_frontend_bus_axi4_0_ar_bits_prot(3'd0),
        .l2_frontend_bus_axi4_0_ar_bits_qos(4'd0),
        .l2_frontend_bus_axi4_0_r_valid(dma_rvalid),
        .l2_frontend_bus_axi4_0_r_ready(dma_rready),
        .l2_frontend_bus_axi4_0_r_bits_id(dma_rid),
        .l2_frontend_bus_axi4_0_r_bits_data(dma_rdata),
        .l2_frontend_bus_axi4_0_r_bits_resp(dma_rresp),
        .l2_frontend_bus_axi4_0_r_bits_last(dma_rlast),
        .resetctrl_hartIsInReset_0(rst),
        .debug_clock(1'b0),
        .debug_reset(rst),
        .debug_clockeddmi_dmi_req_ready(),
        .debug_clockeddmi_dmi_req_valid(1'b0),
        .debug_clockeddmi_dmi_req_bits_addr(7'd0),
        .debug_clockeddmi_dmi_req_bits_data(32'd0),
        .debug_clockeddmi_dmi_req_bits_op(2'd0),
        .debug_clockeddmi_dmi_resp_ready(1'b0),
        .debug_clockeddmi_dmi_resp_valid(),
        .debug_clockeddmi_dmi_resp_bits_data(),
        .debug_clockeddmi_dmi_resp_bits_resp(),
        .debug_clockeddmi_dmiClock(1'b0),
        .debug_clockeddmi_dmiReset(rst),
        .debug_ndreset(),
        .debug_dmactive(),
        .debug_dmactiveAck(1'b0),
        .interrupts({1'b0, intx, event_interrupt, msi_interrupt, uart_interrupt})
    );

    soc_ram #(
        .WORDS(RAM_WORDS)
    ) ram (
        .clk(clk),
        .rst(rst),
        .awvalid(mem_awvalid),
        .awready(mem_awready),
        .awid(mem_awid),
        .awaddr(mem_awaddr),
        .wvalid(mem_wvalid),
        .wready(mem_wready),
        .wdata(mem_wdata),
        .wstrb(mem_wstrb),
        .wlast(mem_wlast),
        .bvalid(mem_bvalid),
        .bready(mem_bready),
        .bid(mem_bid),
        .bresp(mem_bresp),
        .arvalid(mem_arvalid),
        .arready(mem_arready),
        .arid(mem_arid),
        .araddr(mem_araddr),
        .arlen(mem_arlen),
        .rvalid(mem_rvalid),
        .rready(mem_rready),
        .rid(mem_rid),
        .rdata(mem_rdata),
        .rresp(mem_rresp),
        .rlast(mem_rlast)
    );

    // ---- targets on the MMIO port ----
    logic [TARGETS-1:0] to_awvalid, to_awready, to_wvalid, to_wready, to_bvalid, to_bready, to_arvalid, to_arready, to_rvalid, to_rready;
    logic [1:0] aw_target, ar_target, w_target, r_target;
    logic small_rlast, complex_rlast;
    logic [3:0] small_bid, small_rid, complex_bid, complex_rid, card_bid, card_rid;
    logic [63:0] small_rdata, complex_rdata, card_rdata;
    logic [1:0] complex_bresp, complex_rresp;
    function automatic logic [1:0] target(input logic [30:0] address);
        unique case (address[30:16])
            15'h1000: target = 2'(SMALL);
            15'h1001: target = 2'(CARD);
            default: target = 2'(COMPLEX);
        endcase
    endfunction
    assign aw_target = target(io_awaddr);
    assign ar_target = target(io_araddr);
    assign io_bid = w_target == 2'(COMPLEX) ? complex_bid : w_target == 2'(CARD) ? card_bid : small_bid;
    assign io_bresp = w_target == 2'(COMPLEX) ? complex_bresp : 2'd0;
    assign io_rid = r_target == 2'(COMPLEX) ? complex_rid : r_target == 2'(CARD) ? card_rid : small_rid;
    assign io_rdata = r_target == 2'(COMPLEX) ? complex_rdata : r_target == 2'(CARD) ? card_rdata : small_rdata;
    assign io_rresp = r_target == 2'(COMPLEX) ? complex_rresp : 2'd0;
    assign io_rlast = r_target == 2'(COMPLEX) ? complex_rlast : r_target == 2'(CARD) || small_rlast;
    soc_bus #(
        .TARGETS(TARGETS)
    ) bus (
        .clk(clk),
        .rst(rst),
        .aw_target(aw_target),
        .ar_target(ar_target),
        .awvalid(io_awvalid),
        .awready(io_awready),
        .wvalid(io_wvalid),
        .wready(io_wready),
        .wlast(io_wlast),
        .bvalid(io_bvalid),
        .bready(io_bready),
        .arvalid(io_arvalid),
        .arready(io_arready),
        .rvalid(io_rvalid),
        .rready(io_rready),
        .rlast(io_rlast),
        .to_awvalid(to_awvalid),
        .to_awready(to_awready),
        .to_wvalid(to_wvalid),
        .to_wready(to_wready),
        .to_bvalid(to_bvalid),
        .to_bready(to_bready),
        .to_arvalid(to_arvalid),
        .to_arready(to_arready),
        .to_rvalid(to_rvalid),
        .to_rready(to_rready),
        .w_target(w_target),
        .r_target(r_target)
    );

    logic iommu_enable, iommu_flush;
    logic [43:0] iommu_root;
    logic [79:0] iommu_counts;
    logic [63:0] iommu_fault;
    soc_peripherals peripherals (
        .clk(clk),
        .rst(rst),
        .awvalid(to_awvalid[SMALL]),
        .awready(to_awready[SMALL]),
        .awid(io_awid),
        .awaddr(io_awaddr[15:0]),
        .wvalid(to_wvalid[SMALL]),
        .wready(to_wready[SMALL]),
        .wdata(io_wdata),
        .wstrb(io_wstrb),
        .wlast(io_wlast),
        .bvalid(to_bvalid[SMALL]),
        .bready(to_bready[SMALL]),
        .bid(small_bid),
        .arvalid(to_arvalid[SMALL]),
        .arready(to_arready[SMALL]),
        .arid(io_arid),
        .araddr(io_araddr[15:0]),
        .arlen(io_arlen),
        .rvalid(to_rvalid[SMALL]),
        .rready(to_rready[SMALL]),
        .rid(small_rid),
        .rdata(small_rdata),
        .rlast(small_rlast),
        .uart_interrupt(uart_interrupt),
        .uart_valid(uart_valid),
        .uart_data(uart_data),
        .finish_valid(finish_valid),
        .finish_value(finish_value),
        .iommu_enable(iommu_enable),
        .iommu_root(iommu_root),
        .iommu_flush(iommu_flush),
        .iommu_counts(iommu_counts),
        .iommu_fault(iommu_fault)
    );

    // ---- root complex ----
    logic [63:0] m_awaddr, m_araddr;
    logic [7:0] m_awlen, m_arlen;
    logic m_awvalid, m_awready, m_wvalid, m_wready, m_wlast, m_bvalid, m_bready, m_arvalid, m_arready, m_rvalid, m_rready, m_rlast, link_disable, hot_reset;
    logic [2:0] m_awsize, m_arsize;
    logic [1:0] m_awburst, m_arburst, m_bresp;
    logic [DATA_WIDTH-1:0] m_wdata, m_rdata;
    logic [DATA_WIDTH/8-1:0] m_wstrb;
    logic [DMA_ID-1:0] m_awid, m_bid, m_arid, m_rid;
    logic [1:0] m_rresp;
    assign link_down = link_disable || hot_reset;

    // ---- the DMA port: of the root complex, or of the NIC on the bus ----
    logic d_awvalid, d_awready, d_wvalid, d_wready, d_wlast, d_bvalid, d_bready, d_arvalid, d_arready, d_rvalid, d_rready;
    logic [DMA_READ_ID-1:0] d_awid, d_arid;
    logic [7:0] d_awlen, d_arlen, d_wstrb;
    logic [31:0] d_awaddr, d_araddr;
    logic [63:0] d_wdata;
    if (NIC == 0) begin : no_card
        assign {dma_awvalid, dma_awid, dma_awaddr, dma_awlen} = {d_awvalid, d_awid, d_awaddr, d_awlen};
        assign {dma_wvalid, dma_wdata, dma_wstrb, dma_wlast} = {d_wvalid, d_wdata, d_wstrb, d_wlast};
        assign {dma_arvalid, dma_arid, dma_araddr, dma_arlen} = {d_arvalid, d_arid, d_araddr, d_arlen};
        assign {dma_bready, dma_rready} = {d_bready, d_rready};
        assign {d_awready, d_wready, d_bvalid, d_arready, d_rvalid} = {dma_awready, dma_wready, dma_bvalid, dma_arready, dma_rvalid};
        // Reads as zero, and ignores writes.
        logic answers, writes;
        always_ff @(posedge clk) begin
            if (to_arvalid[CARD] && to_arready[CARD]) {answers, card_rid} <= {1'b1, io_arid};
            else if (to_rready[CARD]) answers <= 1'b0;
            if (to_awvalid[CARD] && to_awready[CARD]) {writes, card_bid} <= {1'b1, io_awid};
            else if (to_bready[CARD]) writes <= 1'b0;
            if (rst) {answers, writes} <= '0;
        end
        assign card_rdata = '0;
        assign to_arready[CARD] = !answers;
        assign to_rvalid[CARD] = answers;
        assign to_awready[CARD] = to_wvalid[CARD] && !writes;
        assign to_wready[CARD] = to_awvalid[CARD] && !writes;
        assign to_bvalid[CARD] = writes;
    end else begin : card
        logic n_awvalid, n_wvalid, n_wlast, n_bready, n_arvalid, n_rready;
        logic [DMA_READ_ID-1:0] n_awid, n_arid;
        logic [63:0] n_awaddr, n_wdata, n_araddr;
        logic [7:0] n_awlen, n_wstrb, n_arlen;
        assign {dma_awvalid, dma_awid, dma_awaddr, dma_awlen} = nic_near ? {n_awvalid, n_awid, n_awaddr[31:0], n_awlen} : {d_awvalid, d_awid, d_awaddr, d_awlen};
        assign {dma_wvalid, dma_wdata, dma_wstrb, dma_wlast} = nic_near ? {n_wvalid, n_wdata, n_wstrb, n_wlast} : {d_wvalid, d_wdata, d_wstrb, d_wlast};
        assign {dma_arvalid, dma_arid, dma_araddr, dma_arlen} = nic_near ? {n_arvalid, n_arid, n_araddr[31:0], n_arlen} : {d_arvalid, d_arid, d_araddr, d_arlen};
        assign {dma_bready, dma_rready} = nic_near ? {n_bready, n_rready} : {d_bready, d_rready};
        assign {d_awready, d_wready, d_bvalid, d_arready, d_rvalid} = nic_near ? 5'd0 : {dma_awready, dma_wready, dma_bvalid, dma_arready, dma_rvalid};
        soc_nic_near #(
            .TILELINK(NIC == 2 ? 1 : 0)
        ) nic (
            .clk(clk),
            .rst(rst),
            .awvalid(to_awvalid[CARD]),
            .awready(to_awready[CARD]),
            .awid(io_awid),
            .awaddr(io_awaddr[11:0]),
            .wvalid(to_wvalid[CARD]),
            .wready(to_wready[CARD]),
            .wdata(io_wdata),
            .wstrb(io_wstrb),
            .bvalid(to_bvalid[CARD]),
            .bready(to_bready[CARD]),
            .bid(card_bid),
            .arvalid(to_arvalid[CARD]),
            .arready(to_arready[CARD]),
            .arid(io_arid),
            .araddr(io_araddr[11:0]),
            .arsize(io_arsize),
            .rvalid(to_rvalid[CARD]),
            .rready(to_rready[CARD]),
            .rid(card_rid),
            .rdata(card_rdata),
            .m_awvalid(n_awvalid),
            .m_awready(dma_awready && nic_near),
            .m_awid(n_awid),
            .m_awaddr(n_awaddr),
            .m_awlen(n_awlen),
            .m_wvalid(n_wvalid),
            .m_wready(dma_wready && nic_near),
            .m_wdata(n_wdata),
            .m_wstrb(n_wstrb),
            .m_wlast(n_wlast),
            .m_bvalid(dma_bvalid && nic_near),
            .m_bready(n_bready),
            .m_bid(dma_bid[DMA_READ_ID-1:0]),
            .m_arvalid(n_arvalid),
            .m_arready(dma_arready && nic_near),
            .m_arid(n_arid),
            .m_araddr(n_araddr),
            .m_arlen(n_arlen),
            .m_rvalid(dma_rvalid && nic_near),
            .m_rready(n_rready),
            .m_rid(dma_rid[DMA_READ_ID-1:0]),
            .m_rdata(dma_rdata),
            .m_rlast(dma_rlast)
        );
    end

    // ---- IOMMU: off until software enables it ----
    logic [63:0] t_awaddr, t_araddr;
    logic [7:0] t_awlen, t_arlen;
    logic t_wvalid, t_wready, t_wlast, t_rvalid, t_rready, t_rlast;
    logic [DATA_WIDTH-1:0] t_wdata, t_rdata;
    logic [DATA_WIDTH/8-1:0] t_wstrb;
    logic [DMA_READ_ID-1:0] t_rid;
    logic [1:0] t_rresp;
    assign d_awid[DMA_ID] = 1'b0;
    pcie_iommu #(
        .DATA_WIDTH(DATA_WIDTH),
        .ID_BITS(DMA_ID)
    ) iommu (
        .clk(clk),
        .rst(rst),
        .enable(iommu_enable),
        .root(iommu_root),
        .flush(iommu_flush),
        .fault_address(iommu_fault),
        .fault_write(),
        .s_axi_awvalid(m_awvalid),
        .s_axi_awready(m_awready),
        .s_axi_awid(m_awid),
        .s_axi_awaddr(m_awaddr),
        .s_axi_awlen(m_awlen),
        .s_axi_awsize(m_awsize),
        .s_axi_awburst(m_awburst),
        .s_axi_wvalid(m_wvalid),
        .s_axi_wready(m_wready),
        .s_axi_wdata(m_wdata),
        .s_axi_wstrb(m_wstrb),
        .s_axi_wlast(m_wlast),
        .s_axi_bvalid(m_bvalid),
        .s_axi_bready(m_bready),
        .s_axi_bid(m_bid),
        .s_axi_bresp(m_bresp),
        .s_axi_arvalid(m_arvalid),
        .s_axi_arready(m_arready),
        .s_axi_arid(m_arid),
        .s_axi_araddr(m_araddr),
        .s_axi_arlen(m_arlen),
        .s_axi_arsize(m_arsize),
        .s_axi_arburst(m_arburst),
        .s_axi_rvalid(m_rvalid),
        .s_axi_rready(m_rready),
        .s_axi_rid(m_rid),
        .s_axi_rdata(m_rdata),
        .s_axi_rresp(m_rresp),
        .s_axi_rlast(m_rlast),
        .m_axi_awvalid(d_awvalid),
        .m_axi_awready(d_awready),
        .m_axi_awid(d_awid[DMA_ID-1:0]),
        .m_axi_awaddr(t_awaddr),
        .m_axi_awlen(t_awlen),
        .m_axi_awsize(),
        .m_axi_awburst(),
        .m_axi_wvalid(t_wvalid),
        .m_axi_wready(t_wready),
        .m_axi_wdata(t_wdata),
        .m_axi_wstrb(t_wstrb),
        .m_axi_wlast(t_wlast),
        .m_axi_bvalid(d_bvalid),
        .m_axi_bready(d_bready),
        .m_axi_bid(dma_bid[DMA_ID-1:0]),
        .m_axi_bresp(dma_bresp),
        .m_axi_arvalid(d_arvalid),
        .m_axi_arready(d_arready),
        .m_axi_arid(d_arid),
        .m_axi_araddr(t_araddr),
        .m_axi_arlen(t_arlen),
        .m_axi_arsize(),
        .m_axi_arburst(),
        .m_axi_rvalid(t_rvalid),
        .m_axi_rready(t_rready),
        .m_axi_rid(t_rid),
        .m_axi_rdata(t_rdata),
        .m_axi_rresp(t_rresp),
        .m_axi_rlast(t_rlast),
        .events(),
        .counts(iommu_counts)
    );

    soc_narrow #(
        .WIDTH(DATA_WIDTH),
        .ID(DMA_READ_ID)
    ) narrow (
        .clk(clk),
        .rst(rst),
        .awlen(t_awlen),
        .awaddr(t_awaddr),
        .arlen(t_arlen),
        .araddr(t_araddr),
        .wvalid(t_wvalid),
        .wready(t_wready),
        .wdata(t_wdata),
        .wstrb(t_wstrb),
        .wlast(t_wlast),
        .rvalid(t_rvalid),
        .rready(t_rready),
        .rid(t_rid),
        .rdata(t_rdata),
        .rresp(t_rresp),
        .rlast(t_rlast),
        .to_awaddr(d_awaddr),
        .to_awlen(d_awlen),
        .to_araddr(d_araddr),
        .to_arlen(d_arlen),
        .to_wvalid(d_wvalid),
        .to_wready(d_wready),
        .to_wdata(d_wdata),
        .to_wstrb(d_wstrb),
        .to_wlast(d_wlast),
        .to_rvalid(d_rvalid),
        .to_rready(d_rready),
        .to_rid(dma_rid[DMA_READ_ID-1:0]),
        .to_rdata(dma_rdata),
        .to_rresp(dma_rresp),
        .to_rlast(dma_rlast)
    );

    pcie_root_stack #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(256),
        .DMA_SLOTS(8),
        .INIT_FC_CYCLES(INIT_FC_CYCLES)
    ) stack (
        .clk(clk),
        .rst(rst),
        .s_axi_awvalid(to_awvalid[COMPLEX]),
        .s_axi_awready(to_awready[COMPLEX]),
        .s_axi_awid(io_awid),
        .s_axi_awaddr(64'(io_awaddr)),
        .s_axi_awlen(io_awlen),
        .s_axi_awsize(io_awsize),
        .s_axi_awburst(io_awburst),
        .s_axi_wvalid(to_wvalid[COMPLEX]),
        .s_axi_wready(to_wready[COMPLEX]),
        .s_axi_wdata(io_wdata),
        .s_axi_wstrb(io_wstrb),
        .s_axi_wlast(io_wlast),
        .s_axi_bvalid(to_bvalid[COMPLEX]),
        .s_axi_bready(to_bready[COMPLEX]),
        .s_axi_bid(complex_bid),
        .s_axi_bresp(complex_bresp),
        .s_axi_arvalid(to_arvalid[COMPLEX]),
        .s_axi_arready(to_arready[COMPLEX]),
        .s_axi_arid(io_arid),
        .s_axi_araddr(64'(io_araddr)),
        .s_axi_arlen(io_arlen),
        .s_axi_arsize(io_arsize),
        .s_axi_arburst(io_arburst),
        .s_axi_rvalid(to_rvalid[COMPLEX]),
        .s_axi_rready(to_rready[COMPLEX]),
        .s_axi_rid(complex_rid),
        .s_axi_rdata(complex_rdata),
        .s_axi_rresp(complex_rresp),
        .s_axi_rlast(complex_rlast),
        .m_axi_awvalid(m_awvalid),
        .m_axi_awready(m_awready),
        .m_axi_awid(m_awid),
        .m_axi_awaddr(m_awaddr),
        .m_axi_awlen(m_awlen),
        .m_axi_awsize(m_awsize),
        .m_axi_awburst(m_awburst),
        .m_axi_wvalid(m_wvalid),
        .m_axi_wready(m_wready),
        .m_axi_wdata(m_wdata),
        .m_axi_wstrb(m_wstrb),
        .m_axi_wlast(m_wlast),
        .m_axi_bvalid(m_bvalid),
        .m_axi_bready(m_bready),
        .m_axi_bid(m_bid),
        .m_axi_bresp(m_bresp),
        .m_axi_arvalid(m_arvalid),
        .m_axi_arready(m_arready),
        .m_axi_arid(m_arid),
        .m_axi_araddr(m_araddr),
        .m_axi_arlen(m_arlen),
        .m_axi_arsize(m_arsize),
        .m_axi_arburst(m_arburst),
        .m_axi_rvalid(m_rvalid),
        .m_axi_rready(m_rready),
        .m_axi_rid(m_rid),
        .m_axi_rdata(m_rdata),
        .m_axi_rresp(m_rresp),
        .m_axi_rlast(m_rlast),
        .replay_timer_limit(16'd8000),
        .ack_latency_limit(16'd32),
        .ack_count_limit(8'd0),
        .update_fc_latency_limit(16'd64),
        .update_fc_period(24'd2500),
        .local_features(23'd0),
        .phy_link_up(phy_link_up),
        .phy_recovery(phy_recovery),
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
        .phy_rx_end(phy_rx_end),
        .phy_rx_data(phy_rx_data),
        .link_speed(link_speed),
        .link_width(link_width),
        .link_disable(link_disable),
        .hot_reset(hot_reset),
        .dl_up(dl_up),
        .intx(intx),
        .msi_pending(),
        .msi_pulse(),
        .msi_interrupt(msi_interrupt),
        .event_interrupt(event_interrupt),
        .system_error(),
        .events(),
        .dll_events(),
        .tl_events()
    );
endmodule
