// SPDX-License-Identifier: Apache-2.0 OR MIT
// Translates the addresses of the root complex's DMA master, page by page, with the page tables of RISC-V Sv39 (LEVELS = 3). IOMMU.md describes tables, ports and
// answers. A burst stays in its page, as AXI demands. Page tables are read through the same memory port.
// Handshake: both buses valid/ready; arready and awready of the slave depend on the address.
module pcie_iommu #(
    parameter int DATA_WIDTH = 256,      // 64 to 512
    parameter int ID_BITS = 3,           // of the slave; reads of the master have one bit more
    parameter int ENTRIES = 8,           // of the TLB: 1 to 32
    parameter int LEVELS = 3,            // of the page table: 2 or 3; 1 GiB or 512 GiB
    parameter int COUNTER_WIDTH = 16,
    localparam int BYTES = DATA_WIDTH / 8
) (
    input logic clk,
    input logic rst,

    input logic enable,                  // 0: addresses stay
    input logic [43:0] root,             // page of the first table
    input logic flush,                   // pulse: forgets all translations
    output logic [63:0] fault_address,   // of the latest fault
    output logic fault_write,

    // AXI4 slave, for the root complex
    input logic s_axi_awvalid,
    output logic s_axi_awready,
    input logic [ID_BITS-1:0] s_axi_awid,
    input logic [63:0] s_axi_awaddr,
    input logic [7:0] s_axi_awlen,
    input logic [2:0] s_axi_awsize,
    input logic [1:0] s_axi_awburst,
    input logic s_axi_wvalid,
    output logic s_axi_wready,
    input logic [DATA_WIDTH-1:0] s_axi_wdata,
    input logic [BYTES-1:0] s_axi_wstrb,
    input logic s_axi_wlast,
    output logic s_axi_bvalid,
    input logic s_axi_bready,
    output logic [ID_BITS-1:0] s_axi_bid,
    output logic [1:0] s_axi_bresp,
    input logic s_axi_arvalid,
    output logic s_axi_arready,
    input logic [ID_BITS-1:0] s_axi_arid,
    input logic [63:0] s_axi_araddr,
    input logic [7:0] s_axi_arlen,
    input logic [2:0] s_axi_arsize,
    input logic [1:0] s_axi_arburst,
    output logic s_axi_rvalid,
    input logic s_axi_rready,
    output logic [ID_BITS-1:0] s_axi_rid,
    output logic [DATA_WIDTH-1:0] s_axi_rdata,
    output logic [1:0] s_axi_rresp,
    output logic s_axi_rlast,

    // AXI4 master, for the memory. Bit ID_BITS of a read's ID is set for page tables.
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [ID_BITS-1:0] m_axi_awid,
    output logic [63:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [DATA_WIDTH-1:0] m_axi_wdata,
    output logic [BYTES-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic [ID_BITS-1:0] m_axi_bid,
    input logic [1:0] m_axi_bresp,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [ID_BITS:0] m_axi_arid,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [ID_BITS:0] m_axi_rid,
    input logic [DATA_WIDTH-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,

    // Burst translated, page table walked, no translation, no permission, error in a table
    output logic [4:0] events,
    output logic [5*COUNTER_WIDTH-1:0] counts
);
    if (DATA_WIDTH < 64 || DATA_WIDTH > 512 || 2 ** $clog2(DATA_WIDTH) != DATA_WIDTH)
        $error("pcie_iommu: DATA_WIDTH is %0d; expected 64, 128, 256 or 512", DATA_WIDTH);
    if (ENTRIES < 1 || ENTRIES > 32) $error("pcie_iommu: ENTRIES is %0d; expected 1 to 32", ENTRIES);
    if (LEVELS != 2 && LEVELS != 3) $error("pcie_iommu: LEVELS is %0d; expected 2 or 3", LEVELS);
    localparam int VPN = 9 * LEVELS;
    localparam int ENTRY = ENTRIES > 1 ? $clog2(ENTRIES) : 1;
    localparam int BYTE = $clog2(BYTES);
    localparam logic [1:0] OKAY = 2'b00, SLVERR = 2'b10, DECERR = 2'b11;
    // Causes of faults
    localparam logic [1:0] UNMAPPED = 2'd0, PERMISSION = 2'd1, TABLE = 2'd2;
    function automatic logic [1:0] response(input logic [1:0] cause);
        response = cause == TABLE ? SLVERR : DECERR;
    endfunction

    // ---- TLB: a lookup for each of the two address channels ----
    logic [ENTRIES-1:0] used, writable, readable;
    logic [VPN-1:0] tags[0:ENTRIES-1];
    logic [43:0] pages[0:ENTRIES-1];
    logic [VPN-1:0] r_vpn, w_vpn;
    logic r_match, w_match, r_allowed, w_allowed, r_outside, w_outside;
    logic [43:0] r_page, w_page;
    assign r_vpn = s_axi_araddr[12+:VPN];
    assign w_vpn = s_axi_awaddr[12+:VPN];
    assign r_outside = s_axi_araddr[63:12+VPN] != '0;
    assign w_outside = s_axi_awaddr[63:12+VPN] != '0;
    always_comb begin
        {r_match, r_allowed, r_page} = '0;
        {w_match, w_allowed, w_page} = '0;
        for (int n = 0; n < ENTRIES; n++) begin
            if (used[n] && tags[n] == r_vpn) begin
                r_match = 1'b1;
                r_allowed = readable[n];
                r_page = pages[n];
            end
            if (used[n] && tags[n] == w_vpn) begin
                w_match = 1'b1;
                w_allowed = writable[n];
                w_page = pages[n];
            end
        end
    end

    // Result for the request at each address channel. A walk that failed leaves its cause.
    logic r_failed, w_failed, r_go, w_go, r_fault, w_fault, r_miss, w_miss;
    logic [1:0] r_cause, w_cause, r_failure, w_failure;
    assign r_go = s_axi_arvalid && (!enable || r_match && r_allowed && !r_outside && !r_failed);
    assign w_go = s_axi_awvalid && (!enable || w_match && w_allowed && !w_outside && !w_failed);
    assign r_fault = s_axi_arvalid && enable && (r_outside || r_failed || r_match && !r_allowed);
    assign w_fault = s_axi_awvalid && enable && (w_outside || w_failed || w_match && !w_allowed);
    assign r_cause = r_outside ? UNMAPPED : r_failed ? r_failure : PERMISSION;
    assign w_cause = w_outside ? UNMAPPED : w_failed ? w_failure : PERMISSION;
    assign r_miss = s_axi_arvalid && enable && !r_outside && !r_failed && !r_match;
    assign w_miss = s_axi_awvalid && enable && !w_outside && !w_failed && !w_match;

    // ---- walker: one page table walk at a time ----
    typedef enum logic [1:0] {
        IDLE,
        SEND,
        WAIT
    } walk_t;
    walk_t walk;
    logic walk_write, turn, stale, walk_sent, answered, done, filled, failed;
    logic [VPN-1:0] walk_vpn;
    logic [43:0] table_page;
    logic [1:0] level, failure;
    logic [8:0] index;
    // verilator lint_off UNUSEDSIGNAL
    logic [63:0] walk_address, pte;
    // verilator lint_on UNUSEDSIGNAL
    logic leaf, illegal;
    assign index = 9'(walk_vpn >> (5'd9 * 5'(level)));
    assign walk_address = {8'd0, table_page, index, 3'd0};
    if (BYTE == 3) begin : narrow
        assign pte = m_axi_rdata;
    end else begin : wide
        assign pte = m_axi_rdata[64*index[BYTE-4:0]+:64];
    end
    assign answered = walk == WAIT && m_axi_rvalid && m_axi_rid[ID_BITS];
    assign leaf = pte[3:1] != '0;
    assign illegal = m_axi_rresp != OKAY || pte[0] && (pte[2:1] == 2'b10 || leaf != (level == '0));
    assign failed = illegal || !pte[0];
    assign failure = illegal ? TABLE : UNMAPPED;
    assign done = answered && (failed || leaf || stale || flush);
    assign filled = done && !failed && !stale && !flush;
    logic [ENTRY-1:0] next;
    always_ff @(posedge clk) begin
        if (flush && walk != IDLE) stale <= 1'b1;
        if (walk == IDLE && (r_miss || w_miss) && !flush) begin
            walk <= SEND;
            walk_write <= w_miss && (turn || !r_miss);
            walk_vpn <= w_miss && (turn || !r_miss) ? w_vpn : r_vpn;
            turn <= !(w_miss && (turn || !r_miss));
            table_page <= root;
            level <= 2'(LEVELS - 1);
            stale <= 1'b0;
        end
        if (walk_sent) walk <= WAIT;
        if (answered) begin
            walk <= done ? IDLE : SEND;
            table_page <= pte[53:10];
            level <= level - 1'b1;
        end
        if (filled) begin
            used[next] <= 1'b1;
            tags[next] <= walk_vpn;
            pages[next] <= pte[53:10];
            readable[next] <= pte[1];
            writable[next] <= pte[2];
            next <= next == ENTRY'(ENTRIES - 1) ? '0 : next + 1'b1;
        end
        if (done && failed && !stale && !flush) begin
            if (walk_write) {w_failed, w_failure} <= {1'b1, failure};
            else {r_failed, r_failure} <= {1'b1, failure};
        end
        if (s_axi_arvalid && s_axi_arready) r_failed <= 1'b0;
        if (s_axi_awvalid && s_axi_awready) w_failed <= 1'b0;
        if (flush || rst) begin
            used <= '0;
            {r_failed, w_failed} <= '0;
        end
        if (rst) begin
            walk <= IDLE;
            {next, turn, stale} <= '0;
        end
    end

    // ---- reads: translated ones and page tables share the channel ----
    logic ar_room, ar_load, r_faulting, r_take;
    logic [7:0] reads, r_left;
    logic [ID_BITS-1:0] r_id;
    logic [1:0] r_resp;
    assign ar_room = !m_axi_arvalid || m_axi_arready;
    assign walk_sent = walk == SEND && ar_room;
    assign ar_load = r_go && ar_room && walk != SEND && !r_faulting && reads != '1;
    assign r_take = r_fault && !r_faulting && reads == '0;
    assign s_axi_arready = ar_load || r_take;
    assign s_axi_rvalid = r_faulting || m_axi_rvalid && !m_axi_rid[ID_BITS];
    assign s_axi_rid = r_faulting ? r_id : m_axi_rid[ID_BITS-1:0];
    assign s_axi_rdata = r_faulting ? '1 : m_axi_rdata;
    assign s_axi_rresp = r_faulting ? r_resp : m_axi_rresp;
    assign s_axi_rlast = r_faulting ? r_left == '0 : m_axi_rlast;
    assign m_axi_rready = m_axi_rid[ID_BITS] || s_axi_rready;
    always_ff @(posedge clk) begin
        if (ar_room) m_axi_arvalid <= ar_load || walk_sent;
        if (ar_load) begin
            m_axi_arid <= {1'b0, s_axi_arid};
            m_axi_araddr <= enable ? {8'd0, r_page, s_axi_araddr[11:0]} : s_axi_araddr;
            {m_axi_arlen, m_axi_arsize, m_axi_arburst} <= {s_axi_arlen, s_axi_arsize, s_axi_arburst};
        end
        if (walk_sent) begin
            m_axi_arid <= {1'b1, ID_BITS'(0)};
            m_axi_araddr <= {walk_address[63:BYTE], BYTE'(0)};
            {m_axi_arlen, m_axi_arsize, m_axi_arburst} <= {8'd0, 3'(BYTE), 2'b01};
        end
        reads <= reads + 8'(ar_load) - 8'(!r_faulting && s_axi_rvalid && s_axi_rready && s_axi_rlast);
        if (r_take) begin
            r_faulting <= 1'b1;
            r_id <= s_axi_arid;
            r_left <= s_axi_arlen;
            r_resp <= response(r_cause);
        end
        if (r_faulting && s_axi_rready) begin
            r_left <= r_left - 1'b1;
            if (r_left == '0) r_faulting <= 1'b0;
        end
        if (rst) {m_axi_arvalid, reads, r_faulting} <= '0;
    end

    // ---- writes: the data of a burst follow its address; those of a fault are dropped ----
    logic aw_room, aw_load, w_dropping, w_answering, w_take, w_ends;
    logic [7:0] writes, owed;
    logic [ID_BITS-1:0] w_id;
    logic [1:0] w_resp;
    assign aw_room = !m_axi_awvalid || m_axi_awready;
    assign aw_load = w_go && aw_room && !w_dropping && !w_answering && writes != '1;
    assign w_take = w_fault && !w_dropping && !w_answering && writes == '0 && !r_take;
    assign s_axi_awready = aw_load || w_take;
    assign m_axi_wvalid = s_axi_wvalid && owed != '0;
    assign {m_axi_wdata, m_axi_wstrb, m_axi_wlast} = {s_axi_wdata, s_axi_wstrb, s_axi_wlast};
    assign s_axi_wready = w_dropping || owed != '0 && m_axi_wready;
    assign w_ends = m_axi_wvalid && m_axi_wready && m_axi_wlast;
    assign s_axi_bvalid = w_answering || m_axi_bvalid;
    assign s_axi_bid = w_answering ? w_id : m_axi_bid;
    assign s_axi_bresp = w_answering ? w_resp : m_axi_bresp;
    assign m_axi_bready = s_axi_bready;
    always_ff @(posedge clk) begin
        if (aw_room) m_axi_awvalid <= aw_load;
        if (aw_load) begin
            m_axi_awid <= s_axi_awid;
            m_axi_awaddr <= enable ? {8'd0, w_page, s_axi_awaddr[11:0]} : s_axi_awaddr;
            {m_axi_awlen, m_axi_awsize, m_axi_awburst} <= {s_axi_awlen, s_axi_awsize, s_axi_awburst};
        end
        owed <= owed + 8'(aw_load) - 8'(w_ends);
        writes <= writes + 8'(aw_load) - 8'(!w_answering && s_axi_bvalid && s_axi_bready);
        if (w_take) begin
            w_dropping <= 1'b1;
            w_id <= s_axi_awid;
            w_resp <= response(w_cause);
        end
        if (w_dropping && s_axi_wvalid && s_axi_wlast) {w_dropping, w_answering} <= 2'b01;
        if (w_answering && s_axi_bready) w_answering <= 1'b0;
        if (rst) {m_axi_awvalid, owed, writes, w_dropping, w_answering} <= '0;
    end

    // ---- faults ----
    logic [1:0] cause;
    assign cause = r_take ? r_cause : w_cause;
    assign events[0] = enable && (ar_load || aw_load);
    assign events[1] = walk == IDLE && (r_miss || w_miss) && !flush;
    for (genvar n = 0; n < 3; n++) begin : causes
        assign events[2+n] = (r_take || w_take) && cause == 2'(n);
    end
    always_ff @(posedge clk) begin
        if (r_take) {fault_address, fault_write} <= {s_axi_araddr, 1'b0};
        else if (w_take) {fault_address, fault_write} <= {s_axi_awaddr, 1'b1};
        if (rst) {fault_address, fault_write} <= '0;
    end

    pcie_dll_counters #(
        .NUMBER(5),
        .WIDTH(COUNTER_WIDTH)
    ) counters (
        .clk(clk),
        .rst(rst),
        .events(events),
        .counts(counts)
    );

`ifdef PROVE_IOMMU
`include "iommu_properties.svh"
`endif
endmodule
