// SPDX-License-Identifier: Apache-2.0 OR MIT
// Non-posted requests from the link: memory reads become bursts on the read channels of the AXI4 master, cut at blocks of
// Max_Payload_Size, and each block becomes a completion. The bursts in flight have different IDs, so the bus may
// answer in any order and interleave. Completions leave in the order of the requests. All other requests are answered with Unsupported Request.
// Read requests wait for the writes that arrived before them, and completions for the writes of the CPU that were accepted before their data.
// A read that is not answered for `bus_timeout` cycles is completed with Completer Abort; its ID is used again when its data have come.
// Handshake: rx_* and tx_* are streams of whole TLPs; AXI4.
module pcie_root_complex_nonposted #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 256,
    parameter int SLOTS = 8,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES),
    localparam int SLOT = $clog2(SLOTS)
) (
    input logic clk,
    input logic rst,

    input logic rx_valid,
    output logic rx_ready,
    input logic rx_sop,
    input logic rx_eop,
    input logic [127:0] rx_data,  // the header

    output logic [63:0] address,  // of the request that is examined
    input logic in_windows,
    input logic bus_master,
    input logic [2:0] max_payload,
    input logic [31:0] bus_timeout,

    input logic [1:0] posted_waits,
    input logic posted_leaves,
    input logic [7:0] posted_begun,
    input logic [7:0] posted_done,
    input logic posted_stalled,
    input logic [7:0] cpu_queued,  // memory writes of the CPU: accepted
    input logic [7:0] cpu_sent,    // memory writes of the CPU: sent

    output logic arvalid,
    input logic arready,
    output logic [SLOT-1:0] arid,
    output logic [63:0] araddr,
    output logic [7:0] arlen,
    input logic rvalid,
    input logic [SLOT-1:0] rid,
    input logic [DATA_WIDTH-1:0] rdata,
    input logic [1:0] rresp,
    input logic rlast,

    output logic tx_valid,
    input logic tx_ready,
    output logic tx_sop,
    output logic tx_eop,
    output logic [LANE-1:0] tx_end,
    output logic [DATA_WIDTH-1:0] tx_data,

    output logic stalled,
    output logic [SLOT:0] outstanding,
    output logic [23:0] events,
    output logic [5:0] errors,
    output logic [127:0] error_header
);
    `include "pcie_root_complex.svh"
    localparam int BYTE = $clog2(DATA_WIDTH / 8);
    localparam int WORDS = MAX_PAYLOAD * 8 / DATA_WIDTH;  // of the bus, in a block
    localparam int WORD = $clog2(WORDS);
    localparam int COUNT = WORD + 2;

    // ---- the request ----
    // verilator lint_off UNUSEDSIGNAL
    logic [31:0] h0, h1, h2, h3;  // the fields that are not checked have no user
    // verilator lint_on UNUSEDSIGNAL
    assign h0 = {rx_data[7:0], rx_data[15:8], rx_data[23:16], rx_data[31:24]};
    assign h1 = {rx_data[39:32], rx_data[47:40], rx_data[55:48], rx_data[63:56]};
    assign h2 = {rx_data[71:64], rx_data[79:72], rx_data[87:80], rx_data[95:88]};
    assign h3 = {rx_data[103:96], rx_data[111:104], rx_data[119:112], rx_data[127:120]};

    typedef enum logic [2:0] {IDLE, CHECK, COUNT_BYTES, FENCE, SPLIT, REPLY} state_t;
    state_t state;
    logic take, open, eop_seen;
    assign rx_ready = state == IDLE || !eop_seen;
    assign take = rx_valid && rx_ready && rx_sop && state == IDLE;

    pcie_packetizer_fence fence (
        .clk(clk),
        .rst(rst),
        .capture(take),
        .posted_waits(posted_waits),
        .posted_leaves(posted_leaves),
        .posted_begun(posted_begun),
        .posted_done(posted_done),
        .stalled(posted_stalled),
        .open(open)
    );

    logic is_read, is_locked, unsupported, malformed, zero_length, refused;
    logic [9:0] length;
    logic [3:0] first_be, last_be;
    logic [15:0] requester;
    logic [7:0] tag;
    logic [2:0] traffic_class, attributes;
    logic [10:0] words;         // 1 to 1024
    logic [1:0] lead, trail;    // bytes that are not read in the first and the last double-word
    // verilator lint_off UNUSEDSIGNAL
    logic [10:0] page_last;     // only the carry counts
    // verilator lint_on UNUSEDSIGNAL
    logic crosses;
    assign words = {length == '0, length};
    assign page_last = {1'b0, address[11:2]} + words - 11'd1;
    assign crosses = page_last[10];
    always_comb begin
        lead = first_be[0] || first_be == '0 ? 2'd0 : first_be[1] ? 2'd1 : first_be[2] ? 2'd2 : 2'd3;
        if (last_be != '0) trail = last_be[3] ? 2'd0 : last_be[2] ? 2'd1 : last_be[1] ? 2'd2 : 2'd3;
        else trail = first_be[3] ? 2'd0 : first_be[2] ? 2'd1 : first_be[1] ? 2'd2 : 2'd3;
    end

    // ---- blocks ----
    // Numbers of double-words are kept less one. A request stays in its page, so only the address within the page counts up.
    logic [61:0] at;             // double-word address
    logic [9:0] left, block_words;
    logic [6:0] block_mask, block_room;
    logic [12:0] bytes;
    logic block_first, block_last, order_free, slot_found, may_issue, reads_stalled;
    logic [1:0] block_lead;
    logic [SLOTS-1:0] busy, abandoned, complete, bad, unmapped, passed;
    logic [SLOT-1:0] free_slot;
    assign block_mask = 7'(MAX_PAYLOAD / 4 - 1) & (max_payload == 3'd0 ? 7'h1f : max_payload == 3'd1 ? 7'h3f : 7'h7f);
    assign block_room = ~at[6:0] & block_mask;
    assign block_last = left <= {3'd0, block_room};
    assign block_words = block_last ? left : {3'd0, block_room};
    assign block_lead = block_first ? lead : 2'd0;
    always_comb begin
        slot_found = 1'b0;
        free_slot = '0;
        for (int n = SLOTS - 1; n >= 0; n--)
            if (!busy[n]) begin
                slot_found = 1'b1;
                free_slot = SLOT'(n);
            end
    end

    // verilator lint_off UNUSEDSIGNAL
    logic [9:0] span;  // rounded to words of the bus
    // verilator lint_on UNUSEDSIGNAL
    logic pushes_block, pushes_reply, pushes, gives_up;
    assign span = 10'(at[LANE-1:0]) + block_words;
    assign gives_up = reads_stalled || posted_stalled;
    assign may_issue = slot_found && (!arvalid || arready) && order_free;
    assign pushes_block = state == SPLIT && !gives_up && may_issue;
    assign pushes_reply = (state == REPLY || (state == SPLIT && gives_up)) && order_free;
    assign pushes = pushes_block || pushes_reply;

    logic ends;
    assign ends = pushes_reply || (pushes_block && block_last);
    always_ff @(posedge clk)
        if (rst) begin
            state <= IDLE;
            eop_seen <= 1'b1;
        end else begin
            case (state)
                IDLE: if (take) state <= CHECK;
                CHECK: state <= malformed ? IDLE : COUNT_BYTES;
                COUNT_BYTES: state <= refused ? REPLY : FENCE;
                FENCE: if (open) state <= zero_length ? REPLY : SPLIT;
                default: if (ends) state <= IDLE;
            endcase
            if (rx_valid && rx_ready) eop_seen <= rx_eop;
        end
    assign malformed = (is_read || is_locked) && (crosses || (length == 10'd1 ? last_be != '0 : first_be == '0 || last_be == '0));
    assign unsupported = !is_read || in_windows || !bus_master;

    logic [2:0] reply_status;
    always_ff @(posedge clk) begin
        if (take) begin
            is_read <= h0[31:30] == 2'b00 && h0[28:24] == 5'd0;
            is_locked <= h0[31:30] == 2'b00 && h0[28:24] == 5'd1;
            length <= h0[9:0];
            traffic_class <= h0[22:20];
            attributes <= {h0[18], h0[13:12]};
            {last_be, first_be} <= h1[7:0];
            requester <= h1[31:16];
            tag <= h1[15:8];
            address <= h0[29] ? {h2, h3[31:2], 2'd0} : {32'd0, h2[31:2], 2'd0};
            error_header <= rx_data;
        end
        if (state == CHECK) begin
            refused <= unsupported;
            zero_length <= is_read && length == 10'd1 && first_be == '0;
            at <= address[63:2];
            left <= length - 10'd1;
            block_first <= 1'b1;
        end
        // Byte Count (PCIe 6.0 §2.3.1.1): 1 for a read of no bytes, 4 for requests that read no memory.
        if (state == COUNT_BYTES)
            bytes <= !is_read ? 13'd4 : zero_length ? 13'd1 : {words, 2'd0} - 13'(lead) - 13'(trail);
        if (pushes_block) begin
            // If this is not the last block, it ends with its room: bytes less 4 times the double-words, and the lead was not read.
            at[9:0] <= (at[9:0] | {3'd0, block_mask}) + 10'd1;
            left <= left - {3'd0, block_room} - 10'd1;
            bytes <= bytes + ~{4'd0, block_room, ~block_lead};
            block_first <= 1'b0;
        end
    end
    assign reply_status = refused ? STATUS_UR : zero_length ? STATUS_SC : STATUS_CA;

    // ---- read addresses ----
    always_ff @(posedge clk)
        if (rst) arvalid <= 1'b0;
        else if (pushes_block) arvalid <= 1'b1;
        else if (arready) arvalid <= 1'b0;
    always_ff @(posedge clk)
        if (pushes_block) begin
            arid <= free_slot;
            araddr <= {at[61:LANE], BYTE'(0)};
            arlen <= 8'(span[9:LANE]);
        end

    // ---- the order of completions ----
    localparam int ORDERS = 2 * SLOTS;
    localparam int ORDER = $clog2(ORDERS);
    localparam int ENTRY = 16 + 8 + 3 + 3 + 12 + 7 + 10 + LANE + 2 + 1 + SLOT + 3 + 1;
    logic [ENTRY-1:0] orders[0:ORDERS-1];
    logic [ORDER:0] order_tail, order_head;
    logic order_pop;
    assign order_free = order_tail - order_head != (ORDER + 1)'(ORDERS);
    logic [6:0] lower_address;
    // Lower Address (§2.2.9): of a memory read, of the first byte; otherwise 0.
    assign lower_address = is_read ? {at[4:0], block_lead} : 7'd0;
    always_ff @(posedge clk)
        if (pushes)
            orders[order_tail[ORDER-1:0]] <= {
                requester, tag, traffic_class, attributes, bytes[11:0], lower_address, pushes_block ? block_words : 10'd0, at[LANE-1:0],
                block_first, pushes_block ? block_last : 1'b1, pushes_block, free_slot, reply_status, is_locked
            };

    // The oldest entry is in registers, with the numbers of beats that follow from it.
    logic [15:0] o_requester;
    logic [7:0] o_tag;
    logic [2:0] o_class, o_attributes, o_status;
    logic [11:0] o_bytes;
    logic [6:0] o_lower;
    logic [9:0] o_payload, n_words;  // double-words; less one
    logic [LANE-1:0] o_lane, o_end, n_lane;
    logic [COUNT-1:0] o_in, o_out;
    logic o_first, o_last, o_reads, o_locked, order_valid, order_load;
    logic [SLOT-1:0] o_slot;
    // verilator lint_off UNUSEDSIGNAL
    logic [9:0] in_span, out_span;  // rounded to beats
    // verilator lint_on UNUSEDSIGNAL
    localparam int LAST = LANE + 2 + 1 + SLOT + 3 + 1;  // bits of the fields after the number of double-words
    assign n_words = orders[order_head[ORDER-1:0]][LAST+:10];
    assign n_lane = orders[order_head[ORDER-1:0]][LAST-1-:LANE];
    assign in_span = 10'(n_lane) + n_words;
    assign out_span = 10'd3 + n_words;
    assign order_load = order_tail != order_head && (!order_valid || order_pop);
    always_ff @(posedge clk)
        if (rst) order_valid <= 1'b0;
        else order_valid <= order_load || (order_valid && !order_pop);
    always_ff @(posedge clk)
        if (order_load) begin
            {o_requester, o_tag, o_class, o_attributes, o_bytes, o_lower} <= orders[order_head[ORDER-1:0]][ENTRY-1:LAST+10];
            {o_lane, o_first, o_last, o_reads, o_slot, o_status, o_locked} <= orders[order_head[ORDER-1:0]][LAST-1:0];
            o_payload <= n_words + 10'd1;
            o_in <= COUNT'(in_span[9:LANE]) + COUNT'(1);
            o_out <= COUNT'(out_span[9:LANE]) + COUNT'(1);
            o_end <= out_span[LANE-1:0];
        end

    // ---- data from the bus ----
    logic [WORD-1:0] fill_at[0:SLOTS-1];
    logic [7:0] queued_at[0:SLOTS-1];
    (* ram_style = "distributed" *) logic [DATA_WIDTH-1:0] store[0:SLOTS*WORDS-1];
    logic [WORD-1:0] read_at;
    logic [DATA_WIDTH-1:0] read_word;
    always_ff @(posedge clk) if (rvalid) store[{rid, fill_at[rid]}] <= rdata;
    assign read_word = store[{o_slot, read_at}];

    // ---- completions ----
    // A failed block ends its request: later blocks of it are taken without a completion.
    logic aborted, skips, sends_error, sends_data, sends_zero, ready, waited_out;
    assign ready = order_valid && (!o_reads || complete[o_slot] || gives_up);
    assign skips = ready && aborted && !o_first;
    assign sends_error = ready && !skips && (o_reads ? !complete[o_slot] || bad[o_slot] : o_status != STATUS_SC);
    assign sends_zero = ready && !skips && !o_reads && o_status == STATUS_SC;
    assign sends_data = ready && !skips && o_reads && complete[o_slot] && !bad[o_slot] && passed[o_slot];

    logic align_ready, align_take, step, step_first, step_last, sending, streaming, command;
    logic [COUNT-1:0] words_in, words_out;
    logic [LANE-1:0] end_lane, step_end;
    logic [95:0] header, step_header;
    logic [DATA_WIDTH-1:0] aligned;
    logic [2:0] status;
    logic [9:0] payload;
    assign status = !o_reads ? o_status : !sends_error ? STATUS_SC : complete[o_slot] && unmapped[o_slot] ? STATUS_UR : STATUS_CA;
    assign payload = sends_error ? 10'd0 : o_payload;
    assign words_in = sends_data ? o_in : '0;
    assign words_out = sends_data ? o_out : COUNT'(1);
    assign end_lane = sends_error ? LANE'(2) : o_end;
    // Read in the order of bytes: each byte of a header is big-endian.
    assign header = {
        {1'b0, o_lower}, o_tag, o_requester[7:0], o_requester[15:8],
        o_bytes[7:0], {status, 1'b0, o_bytes[11:8]}, 16'd0,
        payload[7:0], {2'b00, o_attributes[1:0], 2'b00, payload[9:8]}, {1'b0, o_class, 1'b0, o_attributes[2], 2'b00}, {1'b0, !sends_error, 1'b0, 4'b0101, o_locked}
    };

    assign command = !sending && (sends_error || sends_zero || sends_data);
    pcie_packetizer_align #(
        .LANES(LANES),
        .COUNT(COUNT),
        .CONTEXT(96 + LANE)
    ) align (
        .clk(clk),
        .rst(rst),
        .cancel(1'b0),
        .command_valid(command),
        .command_ready(align_ready),
        .command_shift(LANE'(3) - o_lane),
        .command_skip(sends_data && (o_lane >> 2) != '0),
        .command_in(words_in),
        .command_out(words_out),
        .command_context({end_lane, header}),
        .in_valid(1'b1),
        .in_take(align_take),
        .in_data(read_word),
        .step(step),
        .step_first(step_first),
        .step_last(step_last),
        .step_context({step_end, step_header}),
        .out_valid(tx_valid),
        .out_ready(tx_ready),
        .out_data(aligned)
    );
    // While the aligner takes the words of a slot, the entry stays at the head.
    logic last_take;
    assign last_take = align_take && in_left == COUNT'(1);
    logic [COUNT-1:0] in_left, in_left_kept;
    assign in_left = sending ? in_left_kept : words_in;
    assign order_pop = (skips && !sending) || (align_ready && !sends_data) || last_take;
    assign streaming = align_take && !last_take;
    logic [95:0] first_lanes;
    always_ff @(posedge clk)
        if (step) begin
            tx_sop <= step_first;
            tx_eop <= step_last;
            tx_end <= step_end;
            first_lanes <= step_header;
        end
    always_comb begin
        tx_data = aligned;
        if (tx_sop) tx_data[95:0] = first_lanes;
    end

    logic frees, abandons;
    assign frees = order_pop && o_reads && complete[o_slot];
    assign abandons = order_pop && o_reads && !complete[o_slot];
    always_ff @(posedge clk)
        if (rst) begin
            order_tail <= '0;
            order_head <= '0;
            sending <= 1'b0;
            read_at <= '0;
            aborted <= 1'b0;
            busy <= '0;
            abandoned <= '0;
            complete <= '0;
        end else begin
            order_tail <= order_tail + (ORDER + 1)'(pushes);
            order_head <= order_head + (ORDER + 1)'(order_load);
            if (last_take) sending <= 1'b0;
            else if (streaming) sending <= 1'b1;
            if (order_pop) read_at <= '0;
            else if (align_take) read_at <= read_at + 1'b1;
            if (order_pop && !skips) aborted <= sends_error && !o_last;
            // By comparison: Yosys makes a subtractor of 32 bits for an indexed bit.
            for (int n = 0; n < SLOTS; n++) begin
                if (rvalid && rlast && rid == SLOT'(n)) begin
                    if (abandoned[n] || (abandons && o_slot == SLOT'(n))) begin
                        busy[n] <= 1'b0;
                        abandoned[n] <= 1'b0;
                    end else complete[n] <= 1'b1;
                end
                if (abandons && o_slot == SLOT'(n) && !(rvalid && rlast && rid == SLOT'(n))) abandoned[n] <= 1'b1;
                if (frees && o_slot == SLOT'(n)) begin
                    busy[n] <= 1'b0;
                    complete[n] <= 1'b0;
                end
                if (pushes_block && free_slot == SLOT'(n)) busy[n] <= 1'b1;
            end
        end
    always_ff @(posedge clk) begin
        for (int n = 0; n < SLOTS; n++) if (queued_at[n] == cpu_sent) passed[n] <= 1'b1;
        in_left_kept <= in_left - COUNT'(align_take);
        if (rvalid) begin
            fill_at[rid] <= fill_at[rid] + 1'b1;
            queued_at[rid] <= cpu_queued;
        end
        if (pushes_block) fill_at[free_slot] <= '0;
        for (int n = 0; n < SLOTS; n++) begin
            if (rvalid && rid == SLOT'(n)) begin
                bad[n] <= bad[n] || rresp[1];
                if (rresp[1]) unmapped[n] <= rresp == DECERR;
                passed[n] <= 1'b0;
            end
            if (pushes_block && free_slot == SLOT'(n)) bad[n] <= 1'b0;
        end
    end

    // ---- a bus that stalls ----
    logic [31:0] idle;
    logic stalls;
    assign waited_out = order_valid && o_reads && !complete[o_slot];
    assign stalls = !reads_stalled && idle >= bus_timeout && waited_out;
    assign stalled = reads_stalled;
    always_ff @(posedge clk)
        if (rst) begin
            idle <= '0;
            reads_stalled <= 1'b0;
        end else begin
            if ((arvalid && arready) || rvalid || !waited_out) idle <= '0;
            else if (idle < bus_timeout) idle <= idle + 1'b1;
            if (stalls) reads_stalled <= 1'b1;
            else if (busy == '0) reads_stalled <= 1'b0;
        end

    always_comb begin
        outstanding = '0;
        for (int n = 0; n < SLOTS; n++) outstanding = outstanding + (SLOT + 1)'(busy[n]);
        events = '0;
        events[EVENT_MALFORMED] = state == CHECK && malformed;
        events[EVENT_READ_UR] = state == CHECK && !malformed && unsupported;
        events[EVENT_READ_ERROR] = order_pop && o_reads && sends_error && complete[o_slot];
        events[EVENT_STALL_ABORT] = order_pop && sends_error && (o_reads ? !complete[o_slot] : o_status == STATUS_CA);
        events[EVENT_STALL] = stalls;
        errors = '0;
        errors[ERROR_MALFORMED] = events[EVENT_MALFORMED];
        errors[ERROR_UNSUPPORTED] = events[EVENT_READ_UR] || (events[EVENT_READ_ERROR] && status == STATUS_UR);
        errors[ERROR_ABORT] = (events[EVENT_READ_ERROR] && status == STATUS_CA) || events[EVENT_STALL_ABORT];
    end

`ifdef PROVE_ROOT_COMPLEX
`include "root_complex_nonposted_properties.svh"
`endif
endmodule
