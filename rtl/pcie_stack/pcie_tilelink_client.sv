// SPDX-License-Identifier: Apache-2.0 OR MIT
// From AXI4 to TileLink: the slave of an AXI4 bus that is a client of TL-UL or TL-UH (channels A and D). TILELINK.md describes parameters, ports and
// answers.
// Handshake: both buses valid/ready; d_ready is always set.
module pcie_tilelink_client #(
    parameter int DATA_WIDTH = 64,       // of both buses: 32 to 512
    parameter int ID_BITS = 4,           // of the AXI4 slave
    parameter int SIZE_BITS = 4,         // 2 to 4
    parameter int MAX_BYTES = 64,        // largest message; DATA_WIDTH / 8 makes it TL-UL
    parameter int SLOTS = 8,             // Gets in flight, and Puts in flight: a power of two from 2 to 64
    parameter int ORDERED = 1,           // 0: the TileLink bus keeps the order of Puts
    parameter int TIMEOUT = 100000,      // cycles without progress of the bus; 0: never
    parameter int COUNTER_WIDTH = 16,
    localparam int BYTES = DATA_WIDTH / 8,
    localparam int SLOT = $clog2(SLOTS)
) (
    input logic clk,
    input logic rst,

    // AXI4 slave
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

    // TileLink. Bit SLOT of a source is set for Puts.
    output logic a_valid,
    input logic a_ready,
    output logic [2:0] a_opcode,
    output logic [2:0] a_param,
    output logic [SIZE_BITS-1:0] a_size,
    output logic [SLOT:0] a_source,
    output logic [63:0] a_address,
    output logic [BYTES-1:0] a_mask,
    output logic [DATA_WIDTH-1:0] a_data,
    output logic a_corrupt,
    input logic d_valid,
    output logic d_ready,
    input logic [2:0] d_opcode,
    input logic [1:0] d_param,
    input logic [SIZE_BITS-1:0] d_size,
    input logic [SLOT:0] d_source,
    input logic d_sink,
    input logic d_denied,
    input logic [DATA_WIDTH-1:0] d_data,
    input logic d_corrupt,

    output logic [9:0] events,
    output logic [10*COUNTER_WIDTH-1:0] counts
);
    `include "pcie_tilelink.svh"
    localparam int BYTE = $clog2(BYTES);
    localparam int LONGEST = $clog2(MAX_BYTES);
    localparam int BEAT = LONGEST > BYTE ? LONGEST - BYTE : 1;

    if (DATA_WIDTH != 32 && DATA_WIDTH != 64 && DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512)
        $error("pcie_tilelink_client: DATA_WIDTH is %0d; expected 32, 64, 128, 256 or 512", DATA_WIDTH);
    if (ID_BITS < 1) $error("pcie_tilelink_client: ID_BITS is %0d; expected 1 or more", ID_BITS);
    if (SIZE_BITS < 2 || SIZE_BITS > 4) $error("pcie_tilelink_client: SIZE_BITS is %0d; expected 2 to 4", SIZE_BITS);
    if (MAX_BYTES < BYTES || MAX_BYTES > 2048 || MAX_BYTES > 128 * BYTES || 2 ** $clog2(MAX_BYTES) != MAX_BYTES || $clog2(MAX_BYTES) >= 2 ** SIZE_BITS)
        $error("pcie_tilelink_client: MAX_BYTES is %0d; expected a power of two from a beat to 128 beats and 2048, which SIZE_BITS can name", MAX_BYTES);
    if (SLOTS < 2 || SLOTS > 64 || 2 ** $clog2(SLOTS) != SLOTS) $error("pcie_tilelink_client: SLOTS is %0d; expected a power of two from 2 to 64", SLOTS);
    if (COUNTER_WIDTH < 1 || COUNTER_WIDTH > 32) $error("pcie_tilelink_client: COUNTER_WIDTH is %0d; expected 1 to 32", COUNTER_WIDTH);

    logic unused;
    assign unused = &{d_param, d_sink};  // of answers that no client of TL-UH gets

    // ---- the AXI4 slave ----
    logic get_valid, get_ready, put_valid, put_ready, put_last, put_full;
    logic [SLOT-1:0] get_slot, put_slot;
    logic [63:0] get_address, put_address;
    // verilator lint_off UNUSEDSIGNAL
    logic [3:0] get_size, put_size;  // SIZE_BITS may be fewer
    // verilator lint_on UNUSEDSIGNAL
    logic [3:0] get_owed_size, put_owed_size;
    logic [BYTES-1:0] put_mask, get_mask;
    logic [DATA_WIDTH-1:0] put_data;
    logic [SLOTS-1:0] get_owed, put_owed, put_sent;
    logic stalled, stall_begins, get_answer, put_answer, answer_last;
    logic [SLOT-1:0] answer_slot;
    logic [BEAT-1:0] answer_beat;
    logic [1:0] answer_response, bad_burst, given_up;

    pcie_tilelink_client_read #(
        .DATA_WIDTH(DATA_WIDTH),
        .ID_BITS(ID_BITS),
        .LONGEST(LONGEST),
        .SLOTS(SLOTS)
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
        .get_valid(get_valid),
        .get_ready(get_ready),
        .get_slot(get_slot),
        .get_address(get_address),
        .get_size(get_size),
        .stalled(stalled),
        .owed(get_owed),
        .owed_size(get_owed_size),
        .answer_valid(get_answer),
        .answer_last(answer_last),
        .answer_slot(answer_slot),
        .answer_beat(answer_beat),
        .answer_response(answer_response),
        .answer_data(d_data),
        .bad_burst(bad_burst[0]),
        .given_up(given_up[0])
    );

    pcie_tilelink_client_write #(
        .DATA_WIDTH(DATA_WIDTH),
        .ID_BITS(ID_BITS),
        .LONGEST(LONGEST),
        .SLOTS(SLOTS),
        .ORDERED(ORDERED)
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
        .put_valid(put_valid),
        .put_ready(put_ready),
        .put_last(put_last),
        .put_full(put_full),
        .put_slot(put_slot),
        .put_address(put_address),
        .put_size(put_size),
        .put_mask(put_mask),
        .put_data(put_data),
        .stalled(stalled),
        .owed(put_owed),
        .sent(put_sent),
        .owed_size(put_owed_size),
        .answer_valid(put_answer),
        .answer_slot(answer_slot),
        .answer_denied(d_denied),
        .bad_burst(bad_burst[1]),
        .given_up(given_up[1])
    );

    // ---- channel A: one Get, or all beats of a Put ----
    logic in_put, was_get, a_first, a_free;
    assign a_free = !a_valid || a_ready;
    assign get_ready = a_free && !in_put && !(put_valid && was_get);
    assign put_ready = a_free && (in_put || !get_valid || was_get);
    assign a_param = '0;
    assign a_corrupt = 1'b0;
    for (genvar n = 0; n < BYTES; n++) begin : lanes
        assign get_mask[n] = (BYTE'(n) >> get_size) == (get_address[BYTE-1:0] >> get_size) || 32'(get_size) >= BYTE;
    end
    always_ff @(posedge clk)
        if (rst) begin
            a_valid <= 1'b0;
            in_put <= 1'b0;
            was_get <= 1'b0;
        end else begin
            if ((get_valid && get_ready) || (put_valid && put_ready)) a_valid <= 1'b1;
            else if (a_ready) a_valid <= 1'b0;
            if (put_valid && put_ready) in_put <= !put_last;
            if (get_valid && get_ready) was_get <= 1'b1;
            else if (put_valid && put_ready) was_get <= 1'b0;
        end
    always_ff @(posedge clk)
        if (put_valid && put_ready) begin
            a_first <= !in_put;
            a_opcode <= put_full ? PUT_FULL : PUT_PARTIAL;
            a_size <= SIZE_BITS'(put_size);
            a_source <= {1'b1, put_slot};
            a_address <= put_address;
            a_mask <= put_mask;
            a_data <= put_data;
        end else if (get_valid && get_ready) begin
            a_first <= 1'b1;
            a_opcode <= GET;
            a_size <= SIZE_BITS'(get_size);
            a_source <= {1'b0, get_slot};
            a_address <= get_address;
            a_mask <= get_mask;
        end

    // ---- channel D ----
    logic is_put, known, right, mid, continues;
    logic [BEAT-1:0] beat, beats;
    logic [SLOT:0] source;  // of the answer in progress
    assign d_ready = 1'b1;
    assign {is_put, answer_slot} = d_source;
    // A message whose first beat has not left has no answer yet.
    assign known = (is_put ? put_owed[answer_slot] && put_sent[answer_slot] : get_owed[answer_slot]) && !(a_valid && a_first && a_source == d_source);
    assign right = d_opcode == (is_put ? ACCESS_ACK : ACCESS_ACK_DATA) && 4'(d_size) == (is_put ? put_owed_size : get_owed_size);
    assign continues = !mid || source == d_source;
    assign put_answer = d_valid && is_put && known && right && continues;
    assign get_answer = d_valid && !is_put && known && right && continues;
    for (genvar n = 0; n < BEAT; n++) begin : each_bit
        assign beats[n] = 32'(d_size) > BYTE + n;
    end
    assign answer_beat = mid ? beat : '0;
    assign answer_last = answer_beat == beats;
    assign answer_response = d_denied ? DECERR : d_corrupt ? SLVERR : OKAY;
    always_ff @(posedge clk)
        if (rst) mid <= 1'b0;
        else if (get_answer) mid <= !answer_last;
    always_ff @(posedge clk)
        if (get_answer) begin
            beat <= answer_beat + 1'b1;
            source <= d_source;
        end
    pcie_tilelink_timer #(
        .TIMEOUT(TIMEOUT)
    ) timer (
        .clk(clk),
        .rst(rst),
        .owing((get_owed | put_owed) != '0),
        .progress((a_valid && a_ready) || d_valid),
        .stalled(stalled),
        .begins(stall_begins)
    );

    // ---- events ----
    always_comb begin
        events = '0;
        events[EVENT_MALFORMED] = bad_burst != '0;
        events[EVENT_DECODE] = (put_answer || get_answer) && d_denied;
        events[EVENT_ERROR] = get_answer && d_corrupt && !d_denied;
        events[EVENT_STALL] = stall_begins;
        events[EVENT_GIVEN_UP] = given_up != '0;
        events[EVENT_UNEXPECTED] = d_valid && !put_answer && !get_answer;
    end
    pcie_dll_counters #(
        .NUMBER(EVENTS),
        .WIDTH(COUNTER_WIDTH)
    ) counters (
        .clk(clk),
        .rst(rst),
        .events(events),
        .counts(counts)
    );

`ifdef PROVE_TILELINK
`include "tilelink_client_properties.svh"
`endif
endmodule
