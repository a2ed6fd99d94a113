// SPDX-License-Identifier: Apache-2.0 OR MIT
// A root complex with one root port: between AXI4 (a slave for the CPU, a master for memory) and the transaction layer of a PCI Express
// port. ROOT_COMPLEX.md describes address map, registers and ports.
//
// Byte k of a beat is in bits 8k+7:8k. A TLP begins in lane 0; `end` is the lane of its last double-word, valid with `eop`.
module pcie_root_complex #(
    parameter int DATA_WIDTH = 256,      // of TLPs and of the AXI4 master: 128, 256 or 512
    parameter int CPU_WIDTH = 64,        // of the AXI4 slave: 64, 128, 256 or 512
    parameter int CPU_ID = 4,            // bits of the slave's IDs
    parameter int MAX_PAYLOAD = 256,     // 128, 256 or 512
    parameter int READ_SLOTS = 8,        // memory reads of the CPU in flight: 2, 4, 8 or 16
    parameter int READ_BYTES = 128,      // largest memory read request of the CPU: 128, 256 or 512
    parameter int DMA_SLOTS = 8,         // read bursts of devices in flight: 2, 4, 8 or 16
    parameter int MAX_BURST = 16,        // words of a write burst of devices: a power of two from 2
    parameter logic [63:0] REGISTER_BASE = 64'h0000_0000_2000_0000,
    parameter logic [63:0] ECAM_BASE = 64'h0000_0000_3000_0000,
    parameter int ECAM_BUSES = 256,
    parameter logic [63:0] MEMORY32_BASE = 64'h0000_0000_4000_0000,
    parameter logic [63:0] MEMORY32_SIZE = 64'h0000_0000_4000_0000,
    parameter logic [63:0] MEMORY64_BASE = 64'h0000_0040_0000_0000,
    parameter logic [63:0] MEMORY64_SIZE = 64'h0000_0040_0000_0000,
    parameter logic [15:0] VENDOR_ID = 16'h1234,
    parameter logic [15:0] DEVICE_ID = 16'h5243,
    parameter int LINK_SPEED = 3,        // highest: 1 to 5
    parameter int LINK_WIDTH = 8,
    parameter int COMPLETION_TIMEOUT = 2500000,  // cycles; reset value
    parameter int BUS_TIMEOUT = 100000,          // cycles; reset value
    parameter int COUNTER_WIDTH = 16,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1,
    localparam int DMA_ID = $clog2(DMA_SLOTS)
) (
    input logic clk,
    input logic rst,

    // AXI4 slave: the CPU
    input logic s_axi_awvalid,
    output logic s_axi_awready,
    input logic [CPU_ID-1:0] s_axi_awid,
    input logic [63:0] s_axi_awaddr,
    input logic [7:0] s_axi_awlen,
    input logic [2:0] s_axi_awsize,
    input logic [1:0] s_axi_awburst,
    input logic s_axi_wvalid,
    output logic s_axi_wready,
    input logic [CPU_WIDTH-1:0] s_axi_wdata,
    input logic [CPU_WIDTH/8-1:0] s_axi_wstrb,
    input logic s_axi_wlast,
    output logic s_axi_bvalid,
    input logic s_axi_bready,
    output logic [CPU_ID-1:0] s_axi_bid,
    output logic [1:0] s_axi_bresp,
    input logic s_axi_arvalid,
    output logic s_axi_arready,
    input logic [CPU_ID-1:0] s_axi_arid,
    input logic [63:0] s_axi_araddr,
    input logic [7:0] s_axi_arlen,
    input logic [2:0] s_axi_arsize,
    input logic [1:0] s_axi_arburst,
    output logic s_axi_rvalid,
    input logic s_axi_rready,
    output logic [CPU_ID-1:0] s_axi_rid,
    output logic [CPU_WIDTH-1:0] s_axi_rdata,
    output logic [1:0] s_axi_rresp,
    output logic s_axi_rlast,

    // AXI4 master: memory
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [DMA_ID-1:0] m_axi_awid,
    output logic [63:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [DATA_WIDTH-1:0] m_axi_wdata,
    output logic [DATA_WIDTH/8-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic [DMA_ID-1:0] m_axi_bid,
    input logic [1:0] m_axi_bresp,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [DMA_ID-1:0] m_axi_arid,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [DMA_ID-1:0] m_axi_rid,
    input logic [DATA_WIDTH-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,

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

    // Link: its state, errors of the lower layers by their bits in the AER status registers, and what software asks of it
    input logic link_up,
    input logic [3:0] link_speed,
    input logic [5:0] link_width,
    input logic [31:0] link_uncorrectable,
    input logic [31:0] link_correctable,
    output logic link_disable,
    output logic hot_reset,
    output logic [2:0] max_payload,

    // Interrupts
    output logic [3:0] intx,            // INTA to INTD, level
    output logic [31:0] msi_pending,    // level, until cleared in the register window
    output logic [31:0] msi_pulse,
    output logic msi_interrupt,         // a pending vector is not masked
    output logic event_interrupt,       // an event is not masked
    output logic system_error,          // pulse
    output logic [23:0] events
);
    `include "pcie_root_complex.svh"
    localparam int SLOT = $clog2(READ_SLOTS);
    localparam int WORD = $clog2(READ_BYTES / 4);
    localparam logic [2:0] BUS_SIZE = 3'($clog2(DATA_WIDTH / 8));

    if (DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512)
        $error("pcie_root_complex: DATA_WIDTH is %0d; expected 128, 256 or 512", DATA_WIDTH);
    if (CPU_WIDTH != 64 && CPU_WIDTH != 128 && CPU_WIDTH != 256 && CPU_WIDTH != 512)
        $error("pcie_root_complex: CPU_WIDTH is %0d; expected 64, 128, 256 or 512", CPU_WIDTH);
    if (CPU_ID < 1) $error("pcie_root_complex: CPU_ID is %0d; expected 1 or more", CPU_ID);
    if (MAX_PAYLOAD != 128 && MAX_PAYLOAD != 256 && MAX_PAYLOAD != 512)
        $error("pcie_root_complex: MAX_PAYLOAD is %0d; expected 128, 256 or 512", MAX_PAYLOAD);
    if (READ_SLOTS != 2 && READ_SLOTS != 4 && READ_SLOTS != 8 && READ_SLOTS != 16)
        $error("pcie_root_complex: READ_SLOTS is %0d; expected 2, 4, 8 or 16", READ_SLOTS);
    if (READ_BYTES != 128 && READ_BYTES != 256 && READ_BYTES != 512)
        $error("pcie_root_complex: READ_BYTES is %0d; expected 128, 256 or 512", READ_BYTES);
    if (DMA_SLOTS != 2 && DMA_SLOTS != 4 && DMA_SLOTS != 8 && DMA_SLOTS != 16)
        $error("pcie_root_complex: DMA_SLOTS is %0d; expected 2, 4, 8 or 16", DMA_SLOTS);
    if (MAX_BURST < 2 || MAX_BURST > 256 || 2 ** $clog2(MAX_BURST) != MAX_BURST || MAX_BURST * DATA_WIDTH / 8 > 4096)
        $error("pcie_root_complex: MAX_BURST is %0d; expected a power of two from 2 to 256 that makes at most 4 KiB", MAX_BURST);
    if (ECAM_BUSES < 2 || ECAM_BUSES > 256 || 2 ** $clog2(ECAM_BUSES) != ECAM_BUSES)
        $error("pcie_root_complex: ECAM_BUSES is %0d; expected a power of two from 2 to 256", ECAM_BUSES);
    if ((REGISTER_BASE & 64'hfff) != '0) $error("pcie_root_complex: REGISTER_BASE is not a multiple of 4 KiB");
    if ((ECAM_BASE & (64'(ECAM_BUSES) * 64'h10_0000 - 64'd1)) != '0) $error("pcie_root_complex: ECAM_BASE is not a multiple of the window's size");
    if (MEMORY32_SIZE == '0 || (MEMORY32_SIZE & (MEMORY32_SIZE - 64'd1)) != '0 || (MEMORY32_BASE & (MEMORY32_SIZE - 64'd1)) != '0
        || (MEMORY32_BASE >> 32) != '0 || MEMORY32_SIZE > 64'h1_0000_0000)
        $error("pcie_root_complex: the 32-bit memory window is no aligned power of two below 4 GiB");
    if (MEMORY64_SIZE == '0 || (MEMORY64_SIZE & (MEMORY64_SIZE - 64'd1)) != '0 || (MEMORY64_BASE & (MEMORY64_SIZE - 64'd1)) != '0)
        $error("pcie_root_complex: the 64-bit memory window is no aligned power of two");
    if (LINK_SPEED < 1 || LINK_SPEED > 5) $error("pcie_root_complex: LINK_SPEED is %0d; expected 1 to 5", LINK_SPEED);
    if (LINK_WIDTH != 1 && LINK_WIDTH != 2 && LINK_WIDTH != 4 && LINK_WIDTH != 8 && LINK_WIDTH != 16)
        $error("pcie_root_complex: LINK_WIDTH is %0d; expected 1, 2, 4, 8 or 16", LINK_WIDTH);
    if (COUNTER_WIDTH < 1 || COUNTER_WIDTH > 32) $error("pcie_root_complex: COUNTER_WIDTH is %0d; expected 1 to 32", COUNTER_WIDTH);

    // Lengths of received TLPs come from their headers, and requests without data cannot be poisoned. The bus keeps the order of responses
    // with one ID.
    // verilator lint_off UNUSEDSIGNAL
    logic unused;
    // verilator lint_on UNUSEDSIGNAL
    assign unused = &{rx_p_end, rx_np_end, rx_np_data, rx_np_poisoned, m_axi_bid};

    // ---- settings and state ----
    logic enable, errors_as_ones, memory_enable, bus_master, extended_tags, rrs_visible, ari_forwarding;
    logic [2:0] max_read_request;
    logic [7:0] secondary_bus, subordinate_bus;
    logic [11:0] memory_base, memory_limit;
    logic [43:0] prefetch_base, prefetch_limit;
    logic [31:0] completion_timeout, bus_timeout;
    logic [15:0] retry_limit, retry_interval;
    logic msi_enable;
    logic [63:2] msi_target;
    logic upstream;
    assign upstream = bus_master && enable;

    logic [1:0] posted_waits;
    logic posted_leaves, writes_stalled, reads_stalled;
    logic [7:0] posted_begun, posted_done, cpu_queued, cpu_sent;

    // ---- windows ----
    // In two halves, for a short carry chain.
    function automatic logic at_least(input logic [43:0] a, input logic [43:0] b);
        at_least = a[43:22] > b[43:22] || (a[43:22] == b[43:22] && a[21:0] >= b[21:0]);
    endfunction
    // 0: reads of the CPU, 1: writes of the CPU, 2: writes of devices, 3: reads of devices
    logic [63:0] address[0:3];
    logic [3:0] in_registers, in_config, in_memory, forwarded;
    for (genvar n = 0; n < 4; n++) begin : windows
        pcie_root_complex_window #(
            .REGISTER_BASE(REGISTER_BASE),
            .ECAM_BASE(ECAM_BASE),
            .ECAM_BUSES(ECAM_BUSES),
            .MEMORY32_BASE(MEMORY32_BASE),
            .MEMORY32_SIZE(MEMORY32_SIZE),
            .MEMORY64_BASE(MEMORY64_BASE),
            .MEMORY64_SIZE(MEMORY64_SIZE)
        ) window (
            .address(address[n]),
            .in_registers(in_registers[n]),
            .in_config(in_config[n]),
            .in_memory(in_memory[n])
        );
        // The root port forwards what is in one of its windows (§7.5.1.3.8, §7.5.1.3.9).
        assign forwarded[n] = (address[n][63:32] == '0 && address[n][31:20] >= memory_base && address[n][31:20] <= memory_limit)
            || (at_least(address[n][63:20], prefetch_base) && at_least(prefetch_limit, address[n][63:20]));
    end
    // The MSI address has priority over the windows.
    logic [1:0] mapped, to_link;
    assign mapped = in_registers[3:2] | in_config[3:2] | in_memory[3:2] | (forwarded[3:2] & {2{memory_enable}});
    assign to_link = in_memory[1:0] & forwarded[1:0] & {2{memory_enable && enable}};

    // ---- the AXI4 slave ----
    logic [23:0] completion_events, posted_events, nonposted_events;
    logic read_send, read_send_ready, write_send, write_send_ready, config_send, config_send_ready, config_send_write, config_type1;
    logic [61:0] read_send_address, write_send_address;
    logic [9:0] read_send_length, write_send_length;
    logic [3:0] read_first_be, read_last_be, write_first_be, write_last_be, config_be;
    logic [7:0] read_tag, config_tag;
    logic [SLOT-1:0] read_send_slot, read_slot;
    logic [WORD-1:0] read_word;
    logic [READ_SLOTS-1:0] pending;
    logic [2:0] slot_status;
    logic [31:0] slot_data, write_word_data, config_send_data;
    logic write_data_take;
    logic [25:0] config_address;

    logic read_access, read_access_register, read_access_done, write_access, write_access_register, write_access_done;
    logic [25:0] read_access_word, write_access_word;
    logic [3:0] read_access_be, write_access_be;
    logic [31:0] write_access_data, access_data;
    logic [1:0] bad_address, bad_burst;
    logic [SLOT:0] cpu_reads;
    logic [DMA_ID:0] dma_reads;

    pcie_axi_read #(
        .CPU_WIDTH(CPU_WIDTH),
        .CPU_ID(CPU_ID),
        .READ_SLOTS(READ_SLOTS),
        .READ_BYTES(READ_BYTES)
    ) reads (
        .clk(clk),
        .rst(rst),
        .arvalid(s_axi_arvalid),
        .arready(s_axi_arready),
        .arid(s_axi_arid),
        .araddr(s_axi_araddr),
        .arlen(s_axi_arlen),
        .arsize(s_axi_arsize),
        .arburst(s_axi_arburst),
        .rvalid(s_axi_rvalid),
        .rready(s_axi_rready),
        .rid(s_axi_rid),
        .rdata(s_axi_rdata),
        .rresp(s_axi_rresp),
        .rlast(s_axi_rlast),
        .address(address[0]),
        .in_registers(in_registers[0]),
        .in_config(in_config[0]),
        .in_memory(to_link[0]),
        .max_read_request(max_read_request),
        .extended_tags(extended_tags),
        .errors_as_ones(errors_as_ones),
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
        .access_valid(read_access),
        .access_is_register(read_access_register),
        .access_word(read_access_word),
        .access_be(read_access_be),
        .access_done(read_access_done),
        .access_data(access_data),
        .bad_address(bad_address[0]),
        .bad_burst(bad_burst[0]),
        .outstanding(cpu_reads)
    );

    pcie_axi_write #(
        .CPU_WIDTH(CPU_WIDTH),
        .CPU_ID(CPU_ID),
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) writes (
        .clk(clk),
        .rst(rst),
        .awvalid(s_axi_awvalid),
        .awready(s_axi_awready),
        .awid(s_axi_awid),
        .awaddr(s_axi_awaddr),
        .awlen(s_axi_awlen),
        .awsize(s_axi_awsize),
        .awburst(s_axi_awburst),
        .wvalid(s_axi_wvalid),
        .wready(s_axi_wready),
        .wdata(s_axi_wdata),
        .wstrb(s_axi_wstrb),
        .wlast(s_axi_wlast),
        .bvalid(s_axi_bvalid),
        .bready(s_axi_bready),
        .bid(s_axi_bid),
        .bresp(s_axi_bresp),
        .address(address[1]),
        .in_registers(in_registers[1]),
        .in_config(in_config[1]),
        .in_memory(to_link[1]),
        .max_payload(max_payload),
        .send_valid(write_send),
        .send_ready(write_send_ready),
        .send_address(write_send_address),
        .send_length(write_send_length),
        .send_first_be(write_first_be),
        .send_last_be(write_last_be),
        .data(write_word_data),
        .data_take(write_data_take),
        .access_valid(write_access),
        .access_is_register(write_access_register),
        .access_word(write_access_word),
        .access_be(write_access_be),
        .access_data(write_access_data),
        .access_done(write_access_done),
        .bad_address(bad_address[1]),
        .bad_burst(bad_burst[1])
    );

    logic local_register, local_config, local_write, config_done, no_function, retry_limit_reached;
    logic [9:0] local_word;
    logic [3:0] local_be;
    logic [31:0] local_data, register_data, config_space_data, config_data;
    logic [2:0] config_status;
    pcie_root_complex_access #(
        .ECAM_BUSES(ECAM_BUSES)
    ) access (
        .clk(clk),
        .rst(rst),
        .read_valid(read_access),
        .read_is_register(read_access_register),
        .read_word(read_access_word),
        .read_be(read_access_be),
        .read_done(read_access_done),
        .write_valid(write_access),
        .write_is_register(write_access_register),
        .write_word(write_access_word),
        .write_be(write_access_be),
        .write_data(write_access_data),
        .write_done(write_access_done),
        .data(access_data),
        .link_up(link_up),
        .enable(enable),
        .secondary_bus(secondary_bus),
        .subordinate_bus(subordinate_bus),
        .ari_forwarding(ari_forwarding),
        .rrs_visible(rrs_visible),
        .extended_tags(extended_tags),
        .retry_limit(retry_limit),
        .retry_interval(retry_interval),
        .local_register(local_register),
        .local_config(local_config),
        .local_write(local_write),
        .local_word(local_word),
        .local_be(local_be),
        .local_data(local_data),
        .register_data(register_data),
        .config_space_data(config_space_data),
        .send_valid(config_send),
        .send_ready(config_send_ready),
        .send_write(config_send_write),
        .send_type1(config_type1),
        .send_address(config_address),
        .send_be(config_be),
        .send_tag(config_tag),
        .send_data(config_send_data),
        .config_done(config_done),
        .config_status(config_status),
        .config_data(config_data),
        .no_function(no_function),
        .retry_limit_reached(retry_limit_reached)
    );

    // ---- requests to TLPs: configuration first, then reads and writes in turn ----
    logic request_ready, write_turn, takes_config, takes_write, takes_read;
    assign takes_config = config_send;
    assign takes_write = !config_send && write_send && (write_turn || !read_send);
    assign takes_read = !config_send && read_send && !takes_write;
    assign config_send_ready = request_ready && takes_config;
    assign write_send_ready = request_ready && takes_write;
    assign read_send_ready = request_ready && takes_read;
    always_ff @(posedge clk)
        if (rst) write_turn <= 1'b0;
        else if (request_ready && (takes_write || takes_read)) write_turn <= takes_read;

    logic [1:0] part_valid, part_ready, part_eop;
    logic request_sop, reply_sop, request_posted;
    logic [LANE-1:0] request_end, reply_end;
    logic [DATA_WIDTH-1:0] request_beat, reply_beat;
    pcie_packetizer_request #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) requests (
        .clk(clk),
        .rst(rst),
        .request_valid(takes_config || takes_write || takes_read),
        .request_ready(request_ready),
        .request_kind(takes_config ? {2'b01, config_send_write} : {2'b00, takes_write}),
        .requester(16'd0),
        .request_type1(config_type1),
        .request_address(takes_config ? {36'd0, config_address} : takes_write ? write_send_address : read_send_address),
        .request_length(takes_config ? 10'd1 : takes_write ? write_send_length : read_send_length),
        .request_first_be(takes_config ? config_be : takes_write ? write_first_be : read_first_be),
        .request_last_be(takes_config ? 4'd0 : takes_write ? write_last_be : read_last_be),
        .request_tag(takes_config ? config_tag : takes_write ? 8'd0 : read_tag),
        .request_data(config_send_data),
        .data(write_word_data),
        .data_take(write_data_take),
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
            cpu_queued <= '0;
            cpu_sent <= '0;
        end else begin
            if (write_send && write_send_ready) cpu_queued <= cpu_queued + 1'b1;
            if (part_valid[0] && part_ready[0] && part_eop[0] && request_posted) cpu_sent <= cpu_sent + 1'b1;
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

    // ---- completions ----
    logic [5:0] completion_errors, posted_errors, nonposted_errors;
    logic [127:0] completion_header, posted_header, nonposted_header;
    pcie_packetizer_completion #(
        .DATA_WIDTH(DATA_WIDTH),
        .READ_SLOTS(READ_SLOTS),
        .READ_BYTES(READ_BYTES)
    ) completions (
        .clk(clk),
        .rst(rst),
        .link_up(link_up),
        .timed(1'b1),
        .timeout(completion_timeout),
        .requester(16'd0),
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
        .config_start(config_send && config_send_ready),
        .config_write(config_send_write),
        .config_tag(config_tag),
        .config_done(config_done),
        .config_status(config_status),
        .config_data(config_data),
        .posted_waits(posted_waits),
        .posted_leaves(posted_leaves),
        .posted_begun(posted_begun),
        .posted_done(posted_done),
        .stalled(writes_stalled),
        .events(completion_events),
        .errors(completion_errors),
        .error_header(completion_header)
    );

    // ---- the AXI4 master ----
    logic port_msi_request, port_msi_taken, p_valid, p_ready, p_sop, p_eop, p_poisoned;
    logic [DATA_WIDTH-1:0] p_data;
    logic [63:0] port_msi_address;
    logic [15:0] port_msi_data;
    pcie_root_complex_port_msi #(
        .DATA_WIDTH(DATA_WIDTH)
    ) port_msi (
        .clk(clk),
        .rst(rst),
        .request(port_msi_request && !port_msi_taken),
        .address(port_msi_address),
        .vector(port_msi_data),
        .taken(port_msi_taken),
        .rx_valid(rx_p_valid),
        .rx_ready(rx_p_ready),
        .rx_sop(rx_p_sop),
        .rx_eop(rx_p_eop),
        .rx_poisoned(rx_p_poisoned),
        .rx_data(rx_p_data),
        .valid(p_valid),
        .ready(p_ready),
        .sop(p_sop),
        .eop(p_eop),
        .poisoned(p_poisoned),
        .data(p_data)
    );

    logic msi_valid, message_valid;
    logic [31:0] msi_data;
    logic [7:0] message_code;
    logic [15:0] requester;
    assign m_axi_awid = '0;
    assign m_axi_awsize = BUS_SIZE;
    assign m_axi_awburst = 2'b01;
    assign m_axi_bready = 1'b1;
    assign m_axi_arsize = BUS_SIZE;
    assign m_axi_arburst = 2'b01;
    assign m_axi_rready = 1'b1;
    pcie_root_complex_posted #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .MAX_BURST(MAX_BURST)
    ) posted (
        .clk(clk),
        .rst(rst),
        .rx_valid(p_valid),
        .rx_ready(p_ready),
        .rx_sop(p_sop),
        .rx_eop(p_eop),
        .rx_data(p_data),
        .rx_poisoned(p_poisoned),
        .address(address[2]),
        .in_windows(mapped[0]),
        .bus_master(upstream),
        .msi_enable(msi_enable),
        .msi_address(msi_target),
        .bus_timeout(bus_timeout),
        .awvalid(m_axi_awvalid),
        .awready(m_axi_awready),
        .awaddr(m_axi_awaddr),
        .awlen(m_axi_awlen),
        .wvalid(m_axi_wvalid),
        .wready(m_axi_wready),
        .wdata(m_axi_wdata),
        .wstrb(m_axi_wstrb),
        .wlast(m_axi_wlast),
        .bvalid(m_axi_bvalid),
        .berror(m_axi_bresp[1]),
        .waits(posted_waits),
        .leaves(posted_leaves),
        .begun(posted_begun),
        .done(posted_done),
        .stalled(writes_stalled),
        .msi_valid(msi_valid),
        .msi_data(msi_data),
        .message_valid(message_valid),
        .message_code(message_code),
        .requester(requester),
        .events(posted_events),
        .errors(posted_errors),
        .error_header(posted_header)
    );

    pcie_root_complex_nonposted #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .SLOTS(DMA_SLOTS)
    ) nonposted (
        .clk(clk),
        .rst(rst),
        .rx_valid(rx_np_valid),
        .rx_ready(rx_np_ready),
        .rx_sop(rx_np_sop),
        .rx_eop(rx_np_eop),
        .rx_data(rx_np_data[127:0]),
        .address(address[3]),
        .in_windows(mapped[1]),
        .bus_master(upstream),
        .max_payload(max_payload),
        .bus_timeout(bus_timeout),
        .posted_waits(posted_waits),
        .posted_leaves(posted_leaves),
        .posted_begun(posted_begun),
        .posted_done(posted_done),
        .posted_stalled(writes_stalled),
        .cpu_queued(cpu_queued),
        .cpu_sent(cpu_sent),
        .arvalid(m_axi_arvalid),
        .arready(m_axi_arready),
        .arid(m_axi_arid),
        .araddr(m_axi_araddr),
        .arlen(m_axi_arlen),
        .rvalid(m_axi_rvalid),
        .rid(m_axi_rid),
        .rdata(m_axi_rdata),
        .rresp(m_axi_rresp),
        .rlast(m_axi_rlast),
        .tx_valid(part_valid[1]),
        .tx_ready(part_ready[1]),
        .tx_sop(reply_sop),
        .tx_eop(part_eop[1]),
        .tx_end(reply_end),
        .tx_data(reply_beat),
        .stalled(reads_stalled),
        .outstanding(dma_reads),
        .events(nonposted_events),
        .errors(nonposted_errors),
        .error_header(nonposted_header)
    );

    // ---- messages (§2.2.8) ----
    logic message_cor, message_nonfatal, message_fatal, message_intx, message_known, message_refused, port_intx, msi_bad;
    logic [3:0] wire_of_message, intx_set, intx_clear;
    assign message_cor = message_valid && message_code == 8'h30;
    assign message_nonfatal = message_valid && message_code == 8'h31;
    assign message_fatal = message_valid && message_code == 8'h33;
    assign message_intx = message_valid && message_code[7:3] == 5'b00100;
    assign wire_of_message = 4'd1 << message_code[1:0];
    assign intx_set = message_intx && !message_code[2] ? wire_of_message : '0;
    assign intx_clear = message_intx && message_code[2] ? wire_of_message : '0;
    // PM_PME, PME_TO_Ack and Vendor_Defined Type 1 are legal and have no effect here.
    assign message_known = message_code == 8'h18 || message_code == 8'h1b || message_code == 8'h7f;
    assign message_refused = message_valid && !message_intx && !message_cor && !message_nonfatal && !message_fatal && !message_known;

    always_comb begin
        events = completion_events | posted_events | nonposted_events;
        events[EVENT_DECODE] = |bad_address;
        events[EVENT_BURST] = |bad_burst;
        events[EVENT_NO_FUNCTION] = no_function;
        events[EVENT_RETRY_LIMIT] = retry_limit_reached;
        if (message_refused) events[EVENT_POSTED_UR] = 1'b1;
        if (msi_bad) begin
            events[EVENT_MSI] = 1'b0;
            events[EVENT_MSI_BAD] = 1'b1;
        end
        events[EVENT_MESSAGE] = message_cor || message_nonfatal || message_fatal;
        events[EVENT_IGNORED] = message_valid && message_known;
    end

    // ---- errors ----
    logic [5:0] errors, advisory_errors;
    logic [127:0] error_header;
    logic has_header, read_header, bus_slverr, bus_decerr;
    // A read that the bus refuses is not the latest one, so its header is not here.
    assign read_header = nonposted_events[EVENT_READ_UR] || nonposted_errors[ERROR_MALFORMED];
    assign bus_slverr = m_axi_bvalid && m_axi_bresp == SLVERR;
    assign bus_decerr = m_axi_bvalid && m_axi_bresp == DECERR;
    always_comb begin
        errors = posted_errors;
        errors[ERROR_UNSUPPORTED] = posted_errors[ERROR_UNSUPPORTED] || message_refused;
        has_header = errors != '0;
        error_header = has_header ? posted_header : read_header ? nonposted_header : completion_header;
        errors[ERROR_ABORT] = bus_slverr;
        errors[ERROR_UNSUPPORTED] = errors[ERROR_UNSUPPORTED] || bus_decerr;
        errors[ERROR_MALFORMED] = errors[ERROR_MALFORMED] || nonposted_errors[ERROR_MALFORMED] || completion_errors[ERROR_MALFORMED];
        errors[ERROR_POISONED] = errors[ERROR_POISONED] || completion_errors[ERROR_POISONED];
        errors[ERROR_TIMEOUT] = completion_errors[ERROR_TIMEOUT];
        advisory_errors = '0;
        advisory_errors[ERROR_UNSUPPORTED] = nonposted_errors[ERROR_UNSUPPORTED];
        advisory_errors[ERROR_ABORT] = nonposted_errors[ERROR_ABORT];
        advisory_errors[ERROR_UNEXPECTED] = completion_errors[ERROR_UNEXPECTED];
        if (read_header || completion_errors[ERROR_UNEXPECTED] || completion_errors[ERROR_MALFORMED] || completion_errors[ERROR_POISONED]) has_header = 1'b1;
    end

    pcie_root_complex_config #(
        .VENDOR_ID(VENDOR_ID),
        .DEVICE_ID(DEVICE_ID),
        .MAX_PAYLOAD(MAX_PAYLOAD),
        .LINK_SPEED(LINK_SPEED),
        .LINK_WIDTH(LINK_WIDTH)
    ) config_space (
        .clk(clk),
        .rst(rst),
        .select(local_config),
        .write(local_write),
        .word(local_word),
        .be(local_be),
        .write_data(local_data),
        .read_data(config_space_data),
        .link_up(link_up),
        .link_speed(link_speed),
        .link_width(link_width),
        .transactions_pending(cpu_reads != '0),
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
        .message_cor(message_cor),
        .message_nonfatal(message_nonfatal),
        .message_fatal(message_fatal),
        .message_requester(requester),
        .memory_enable(memory_enable),
        .bus_master(bus_master),
        .secondary_bus(secondary_bus),
        .subordinate_bus(subordinate_bus),
        .memory_base(memory_base),
        .memory_limit(memory_limit),
        .prefetch_base(prefetch_base),
        .prefetch_limit(prefetch_limit),
        .secondary_reset(hot_reset),
        .link_disable(link_disable),
        .max_payload(max_payload),
        .max_read_request(max_read_request),
        .extended_tags(extended_tags),
        .rrs_visible(rrs_visible),
        .ari_forwarding(ari_forwarding),
        .intx(port_intx),
        .msi_request(port_msi_request),
        .msi_address(port_msi_address),
        .msi_data(port_msi_data),
        .msi_taken(port_msi_taken),
        .system_error(system_error)
    );

    pcie_root_complex_registers #(
        .COUNTER_WIDTH(COUNTER_WIDTH),
        .COMPLETION_TIMEOUT(COMPLETION_TIMEOUT),
        .BUS_TIMEOUT(BUS_TIMEOUT)
    ) registers (
        .clk(clk),
        .rst(rst),
        .select(local_register),
        .write(local_write),
        .word(local_word),
        .be(local_be),
        .write_data(local_data),
        .read_data(register_data),
        .link_up(link_up),
        .link_speed(link_speed),
        .link_width(link_width),
        .reads_stalled(reads_stalled),
        .writes_stalled(writes_stalled),
        .cpu_reads(8'(cpu_reads)),
        .dma_reads(8'(dma_reads)),
        .dma_writes(posted_begun - posted_done),
        .events(events),
        .system_error(system_error),
        .msi_valid(msi_valid),
        .msi_data(msi_data),
        .msi_bad(msi_bad),
        .intx_set(intx_set),
        .intx_clear(intx_clear),
        .port_intx(port_intx),
        .enable(enable),
        .errors_as_ones(errors_as_ones),
        .completion_timeout(completion_timeout),
        .retry_limit(retry_limit),
        .retry_interval(retry_interval),
        .bus_timeout(bus_timeout),
        .msi_enable(msi_enable),
        .msi_address(msi_target),
        .msi_pending(msi_pending),
        .msi_pulse(msi_pulse),
        .msi_interrupt(msi_interrupt),
        .intx(intx),
        .event_interrupt(event_interrupt)
    );
endmodule
