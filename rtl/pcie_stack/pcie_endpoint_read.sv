// SPDX-License-Identifier: Apache-2.0 OR MIT
// Non-posted requests of the host: memory reads become reads on the bus of the peripheral, configuration requests accesses of configuration space,
// and all others get UR. Each block of Max_Payload_Size becomes one completion. One request is in progress at a time, so completions leave in order.
// A bus that does not answer for `bus_timeout` cycles is given up: reads get CA until it has answered. A reset of the bus ends the read with CA.
// Handshake: rx_* is a stream of TLPs, of which the first beat is looked at; AXI4; tx_* is a stream of whole TLPs.
module pcie_endpoint_read #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 256,
    parameter int BUS_WIDTH = 64,
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    input logic clk,
    input logic rst,
    input logic bus_rst,
    input logic link_reset,          // the link went down: the request in progress gets no completion

    input logic rx_valid,
    output logic rx_ready,
    input logic rx_sop,
    input logic [127:0] rx_data,

    output logic [63:0] address,     // of the request that is examined
    input logic hit,                 // a BAR claims it
    input logic in_table,
    input logic [63:2] bus_address,
    input logic [2:0] max_payload,
    input logic [31:0] bus_timeout,

    // Configuration space and MSI-X table: an access of one cycle, answered in the same cycle
    output logic config_select,
    output logic config_write,
    output logic [9:0] config_word,
    output logic [3:0] config_be,
    output logic [31:0] config_data,
    input logic [31:0] config_read_data,
    output logic [9:0] table_word,
    input logic [31:0] table_read_data,
    output logic config_answered,    // the completion of a configuration write leaves
    output logic [15:0] function_id, // bus, device, function; captured from configuration writes

    // Order behind posted requests, in both directions
    input logic [1:0] posted_waits,
    input logic posted_leaves,
    input logic [7:0] posted_begun,
    input logic [7:0] posted_done,
    input logic posted_stalled,
    input logic [7:0] writes_queued, // DMA writes that have been answered
    input logic [7:0] writes_sent,   // those that have left as TLPs

    output logic arvalid,
    input logic arready,
    output logic [63:0] araddr,
    output logic [7:0] arlen,
    output logic [2:0] arsize,
    input logic rvalid,
    input logic [BUS_WIDTH-1:0] rdata,
    input logic [1:0] rresp,
    input logic rlast,

    output logic tx_valid,
    input logic tx_ready,
    output logic tx_sop,
    output logic tx_eop,
    output logic [LANE-1:0] tx_end,
    output logic [DATA_WIDTH-1:0] tx_data,

    output logic [23:0] events,
    output logic [5:0] errors,
    output logic [127:0] error_header
);
    `include "pcie_endpoint.svh"
    localparam int WORDS = BUS_WIDTH / 32;
    localparam int BYTES = BUS_WIDTH / 8;
    localparam int BYTE = $clog2(BYTES);
    localparam int ROWS = MAX_PAYLOAD / BYTES;
    localparam int ROW = $clog2(ROWS);

    function automatic logic [31:0] swapped(input logic [31:0] word);
        swapped = {word[7:0], word[15:8], word[23:16], word[31:24]};
    endfunction
    function automatic logic [31:0] enabled(input logic [31:0] word, input logic [3:0] bytes_of);
        enabled = word & {{8{bytes_of[3]}}, {8{bytes_of[2]}}, {8{bytes_of[1]}}, {8{bytes_of[0]}}};
    endfunction

    // ---- a request arrives ----
    typedef enum logic [3:0] {IDLE, CHECK, FENCE, ACCESS, BLOCK, PIECE, BUS, ORDER, HEADER, DATA} state_t;
    state_t state;
    // verilator lint_off UNUSEDSIGNAL
    logic [31:0] h0, h1, h2, h3;  // the fields that are not checked have no user
    // verilator lint_on UNUSEDSIGNAL
    assign h0 = {rx_data[7:0], rx_data[15:8], rx_data[23:16], rx_data[31:24]};
    assign h1 = {rx_data[39:32], rx_data[47:40], rx_data[55:48], rx_data[63:56]};
    assign h2 = {rx_data[71:64], rx_data[79:72], rx_data[87:80], rx_data[95:88]};
    assign h3 = {rx_data[103:96], rx_data[111:104], rx_data[119:112], rx_data[127:120]};

    logic take, is_read, is_locked, is_config, is_config_write, poisoned;
    logic [9:0] length;
    logic [2:0] traffic_class, attributes;
    logic [3:0] first_be, last_be;
    logic [15:0] requester, target;
    logic [7:0] tag;
    // Beats after the first are dropped; they come only before the first beat of the next TLP.
    assign rx_ready = state == IDLE || !rx_sop;
    assign take = state == IDLE && rx_valid && rx_sop;
    always_ff @(posedge clk)
        if (take) begin
            is_read <= h0[31:30] == 2'b00 && h0[28:24] == 5'd0;
            is_locked <= h0[31:30] == 2'b00 && h0[28:24] == 5'd1;
            is_config <= !h0[31] && !h0[29] && h0[28:24] == 5'b00100;
            is_config_write <= h0[30];
            poisoned <= h0[30] && h0[14];
            length <= h0[9:0];
            traffic_class <= h0[22:20];
            attributes <= {h0[18], h0[13:12]};
            {last_be, first_be} <= h1[7:0];
            requester <= h1[31:16];
            tag <= h1[15:8];
            target <= h2[31:16];
            address <= h0[29] ? {h2, h3[31:2], 2'd0} : {32'd0, h2[31:2], 2'd0};
            config_data <= rx_data[127:96];
            error_header <= rx_data;
        end

    // ---- the verdict ----
    logic [10:0] words;
    // verilator lint_off UNUSEDSIGNAL
    logic [10:0] page_last;  // last double-word in the page; only the carry counts
    // verilator lint_on UNUSEDSIGNAL
    logic malformed, unsupported, zero_length, open;
    logic [1:0] lead, trail;  // bytes of the first and last double-word that are not enabled
    assign words = {length == '0, length};
    assign page_last = {1'b0, address[11:2]} + words - 11'd1;
    assign malformed = ((is_read || is_locked) && (page_last[10] || (length == 10'd1 ? last_be != '0 : first_be == '0 || last_be == '0)))
        || (is_config && (length != 10'd1 || last_be != '0));
    // The function number must be 0; a device accepts any device number in a type 0 request.
    assign unsupported = is_read ? !hit : !is_config || target[2:0] != '0 || poisoned;
    assign zero_length = is_read && length == 10'd1 && first_be == '0;
    always_comb begin
        lead = first_be[0] || first_be == '0 ? 2'd0 : first_be[1] ? 2'd1 : first_be[2] ? 2'd2 : 2'd3;
        if (last_be != '0) trail = last_be[3] ? 2'd0 : last_be[2] ? 2'd1 : last_be[1] ? 2'd2 : 2'd3;
        else trail = first_be[3] ? 2'd0 : first_be[2] ? 2'd1 : first_be[1] ? 2'd2 : 2'd3;
    end
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

    // ---- blocks of Max_Payload_Size, and their bus accesses ----
    // Numbers of double-words in `left` are of the request, in `block_left` of the block.
    logic [63:12] page;
    logic [9:0] at;               // double-word in the page of the bus
    logic [10:0] left, room;
    logic [7:0] block_words, block_left, block_now;
    logic [12:0] bytes;           // Byte Count
    logic [3:0] be, piece_bytes, be_rest, final_be;
    logic [1:0] offset;
    logic [3:0] size;
    logic [7:0] piece_words;
    logic block_first, block_last, table_read, piece_done, given_up;
    logic [2:0] status;
    logic [6:0] host_at;          // low bits of the block's double-word address, as the host gave it
    logic [6:0] block_mask;
    assign block_mask = 7'(MAX_PAYLOAD / 4 - 1) & (max_payload == 3'd0 ? 7'h1f : max_payload == 3'd1 ? 7'h3f : 7'h7f);
    assign room = {4'd0, ~host_at & block_mask} + 11'd1;
    assign block_now = left > room ? room[7:0] : left[7:0];
    assign final_be = words == 11'd1 ? first_be : last_be;
    pcie_endpoint_piece #(
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) piece (
        .word(at),
        .left(11'(block_left)),
        .be(be),
        .last_full(!block_last || final_be == 4'hf),
        .offset(offset),
        .size(size),
        .bytes(piece_bytes),
        .words(piece_words)
    );
    assign be_rest = be & ~piece_bytes;
    assign given_up = posted_stalled || bus_rst || owed;

    logic block_done, ends;
    assign block_done = block_left == '0;
    // A zero-length read ends after the fence; a failed block ends its request.
    assign ends = status != STATUS_SC || left == '0;

    // ---- read addresses and data ----
    // `owed`: the answer of a read that was given up is still to come.
    logic owed, issues, data_beat, piece_error, waits_out;
    logic [ROW-1:0] fill_row;
    logic [BYTES-1:0] fill_bytes;
    logic [3:0] exponent;
    logic [7:0] beats;
    assign exponent = size > 4'(BYTE) ? 4'(BYTE) : size;
    assign beats = size > 4'(BYTE) ? 8'd1 << (size - 4'(BYTE)) : 8'd1;
    assign issues = state == PIECE && !block_done && !given_up;
    assign data_beat = state == BUS && rvalid && !owed;
    assign piece_done = data_beat && rlast;
    always_ff @(posedge clk)
        if (rst || bus_rst) arvalid <= 1'b0;
        else if (issues) arvalid <= 1'b1;
        else if (arready) arvalid <= 1'b0;
    logic [5:0] first_byte;
    assign first_byte = {at[3:0] & 4'(WORDS - 1), offset};
    always_ff @(posedge clk)
        if (issues) begin
            araddr <= {page, at, offset};
            arlen <= beats - 8'd1;
            arsize <= exponent[2:0];
            fill_row <= ROW'({at, 2'b00} >> BYTE);
            for (int n = 0; n < BYTES; n++) fill_bytes[n] <= 7'(n) >= 7'(first_byte) && 7'(n) < 7'(first_byte) + (7'd1 << exponent);
        end else if (data_beat) fill_row <= fill_row + 1'b1;

    (* ram_style = "distributed" *) logic [BUS_WIDTH-1:0] store[0:ROWS-1];
    always_ff @(posedge clk)
        if (data_beat)
            for (int n = 0; n < BYTES; n++) if (fill_bytes[n]) store[fill_row][8*n+:8] <= rdata[8*n+:8];

    // ---- flow ----
    logic stalls, put, ready, sends_data, header_last, data_last, order_open, stale;
    always_ff @(posedge clk)
        if (rst || state == IDLE) stale <= 1'b0;
        else if (link_reset) stale <= 1'b1;
    logic [1:0] index;
    logic [7:0] captured, behind, send_left;
    logic [9:0] send_at;
    assign behind = captured - writes_sent;
    assign order_open = behind == '0 || behind[7];
    assign header_last = state == HEADER && put && index == 2'd2;
    assign data_last = state == DATA && put && send_left == 8'd1;
    always_ff @(posedge clk)
        if (rst) state <= IDLE;
        else
            case (state)
                IDLE: if (take) state <= CHECK;
                CHECK: state <= malformed ? IDLE : FENCE;
                FENCE: if (open) state <= unsupported || zero_length ? ORDER : is_config ? ACCESS : BLOCK;
                ACCESS: state <= ORDER;
                BLOCK: state <= table_read ? ORDER : PIECE;
                PIECE: if (block_done || given_up) state <= ORDER;
                    else if (issues) state <= BUS;
                BUS: if (piece_done) state <= rresp[1] || piece_error ? ORDER : PIECE;
                    else if (stalls || bus_rst) state <= ORDER;
                ORDER: if (stale) state <= IDLE;
                    else if (order_open) state <= HEADER;
                HEADER: if (header_last && !sends_data) state <= IDLE;
                    else if (header_last) state <= DATA;
                default: if (data_last) state <= ends ? IDLE : BLOCK;
            endcase

    assign config_select = state == ACCESS;
    assign config_write = is_config_write;
    assign config_be = first_be;
    assign config_word = address[11:2];
    assign table_word = send_at;
    assign config_answered = header_last && is_config && is_config_write;
    always_ff @(posedge clk)
        if (rst) function_id <= '0;
        else if (config_select && is_config_write) function_id <= target;

    logic [31:0] small_data;  // of configuration space
    always_ff @(posedge clk) begin
        case (state)
            CHECK: begin
                // Byte Count (PCIe 6.0 §2.3.1.1): 1 for a read of no bytes, 4 for requests that read no memory.
                bytes <= !is_read ? 13'd4 : zero_length ? 13'd1 : {words, 2'd0} - 13'(lead) - 13'(trail);
                status <= unsupported ? STATUS_UR : STATUS_SC;
                page <= bus_address[63:12];
                at <= bus_address[11:2];
                host_at <= address[8:2];
                left <= words;
                table_read <= in_table;
                block_first <= 1'b1;
                be <= first_be;
                send_left <= 8'd1;
                send_at <= bus_address[11:2];
            end
            ACCESS: begin
                small_data <= config_read_data;
                left <= '0;
            end
            FENCE: if (zero_length) left <= '0;
            BLOCK: begin
                block_words <= block_now;
                block_left <= block_now;
                block_last <= left <= room;
                send_left <= block_now;
                send_at <= at;
                left <= left - 11'(block_now);
                if (table_read) at <= at + 10'(block_now);
                if (!block_first) be <= left == 11'd1 ? final_be : 4'hf;
            end
            PIECE:
                if (!block_done && given_up) status <= STATUS_CA;
                else if (issues) begin
                    be <= be_rest;
                    if (be_rest == '0) begin
                        // The next double-word is the last, or is enabled as a whole.
                        at <= at + 10'(piece_words);
                        block_left <= block_left - piece_words;
                        be <= left == '0 && block_left - piece_words == 8'd1 ? final_be : 4'hf;
                    end
                end
            BUS:
                if (piece_done) begin
                    if (rresp[1]) status <= rresp == DECERR ? STATUS_UR : STATUS_CA;
                end else if (stalls || bus_rst) status <= STATUS_CA;
            HEADER: if (put) index <= index + 1'b1;
            DATA:
                if (put) begin
                    send_left <= send_left - 8'd1;
                    send_at <= send_at + 1'b1;
                    if (data_last) begin
                        bytes <= bytes - {3'd0, block_words, 2'd0} + (block_first ? 13'(lead) : 13'd0);
                        host_at <= host_at + block_words[6:0];
                        block_first <= 1'b0;
                    end
                end
            default: ;
        endcase
        if (state == ORDER) index <= '0;
        if (state != ORDER) captured <= writes_queued;
        if (state == PIECE) piece_error <= 1'b0;
        if (data_beat && rresp[1] && !rlast) begin
            piece_error <= 1'b1;
            status <= rresp == DECERR ? STATUS_UR : STATUS_CA;
        end
    end

    // ---- completions ----
    logic [31:0] header, word, stored;
    logic [3:0] send_be;
    logic [7:0] payload;
    logic [BUS_WIDTH-1:0] row;
    assign sends_data = status == STATUS_SC && !(is_config && is_config_write);
    assign payload = sends_data ? send_left : '0;
    always_comb
        case (index)
            2'd0: header = {1'b0, sends_data, 1'b0, 4'b0101, is_locked, 1'b0, traffic_class, 1'b0, attributes[2], 4'd0, attributes[1:0], 4'd0, payload};
            2'd1: header = {function_id, status, 1'b0, bytes[11:0]};
            default: header = {requester, tag, 1'b0, is_read ? {host_at[4:0], block_first ? lead : 2'd0} : 7'd0};
        endcase
    assign row = store[ROW'({send_at, 2'b00} >> BYTE)];
    always_comb begin
        stored = row[31:0];
        for (int n = 1; n < WORDS; n++) if ((send_at[3:0] & 4'(WORDS - 1)) == 4'(n)) stored = row[32*n+:32];
    end
    always_comb begin
        send_be = 4'hf;
        if (block_first && send_left == block_words) send_be = first_be;
        else if (left == '0 && send_left == 8'd1) send_be = final_be;
    end
    assign word = state == HEADER ? swapped(header) : is_config ? small_data : zero_length ? '0 : table_read ? table_data : enabled(stored, send_be);
    assign put = (state == HEADER || state == DATA) && ready;

    // The table is read while the completion is made.
    logic [31:0] table_data;
    assign table_data = enabled(table_read_data, send_be);

    // verilator lint_off PINCONNECTEMPTY
    pcie_packetizer_beats #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) packets (
        .clk(clk),
        .rst(rst),
        .put(state == HEADER || state == DATA),
        .ready(ready),
        .word(word),
        .last(state == DATA ? send_left == 8'd1 : index == 2'd2 && !sends_data),
        .posted(1'b0),
        .tx_valid(tx_valid),
        .tx_ready(tx_ready),
        .tx_sop(tx_sop),
        .tx_eop(tx_eop),
        .tx_end(tx_end),
        .tx_data(tx_data),
        .tx_posted()
    );
    // verilator lint_on PINCONNECTEMPTY

    // ---- a bus that stalls ----
    logic [31:0] idle;
    assign waits_out = state == BUS;
    assign stalls = waits_out && idle >= bus_timeout && !rvalid;
    always_ff @(posedge clk)
        if (rst || bus_rst) begin
            idle <= '0;
            owed <= 1'b0;
        end else begin
            if ((arvalid && arready) || rvalid || !waits_out) idle <= '0;
            else if (idle < bus_timeout) idle <= idle + 1'b1;
            if (stalls) owed <= 1'b1;
            else if (rvalid && rlast) owed <= 1'b0;
        end

    always_comb begin
        events = '0;
        events[EVENT_MALFORMED] = state == CHECK && malformed;
        events[EVENT_READ_UR] = state == CHECK && !malformed && unsupported;
        events[EVENT_READ_ERROR] = piece_done && (rresp[1] || piece_error);
        events[EVENT_STALL] = stalls;
        events[EVENT_STALL_ABORT] = stalls || (state == PIECE && !block_done && given_up && !bus_rst);
        events[EVENT_BUS_RESET] = bus_rst && (state == BUS || (state == PIECE && !block_done));
        errors = '0;
        errors[ERROR_MALFORMED] = events[EVENT_MALFORMED];
        errors[ERROR_POISONED] = state == CHECK && !malformed && is_config && target[2:0] == '0 && poisoned;
        errors[ERROR_UNSUPPORTED] = header_last && status == STATUS_UR && !(is_config && poisoned);
        errors[ERROR_ABORT] = header_last && status == STATUS_CA;
    end

`ifdef PROVE_ENDPOINT
`include "endpoint_read_properties.svh"
`endif
endmodule
