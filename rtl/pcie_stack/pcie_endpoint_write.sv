// SPDX-License-Identifier: Apache-2.0 OR MIT
// Posted requests of the host. Memory writes become writes on the bus of the peripheral, in order and with one ID, or writes of the MSI-X table;
// messages become pulses. One double-word is moved per cycle.
// A bus that makes no progress for `bus_timeout` cycles is given up: further writes are dropped until it has answered all bursts, and the words that
// remain of a burst have no strobes. A reset of the bus ends all bursts at once.
// Handshake: rx_* is a stream of whole TLPs; AXI4.
module pcie_endpoint_write #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 256,
    parameter int BUS_WIDTH = 64,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,
    input logic bus_rst,

    input logic rx_valid,
    output logic rx_ready,
    input logic rx_sop,
    input logic rx_eop,
    input logic [DATA_WIDTH-1:0] rx_data,
    input logic rx_poisoned,

    output logic [63:0] address,       // of the request that is examined
    input logic hit,                   // a BAR claims it
    input logic in_table,              // it is in the BAR of the MSI-X table
    input logic [63:2] bus_address,    // where it is on the bus
    input logic [31:0] bus_timeout,

    output logic awvalid,
    input logic awready,
    output logic [63:0] awaddr,
    output logic [7:0] awlen,
    output logic [2:0] awsize,
    output logic wvalid,
    input logic wready,
    output logic [BUS_WIDTH-1:0] wdata,
    output logic [BUS_WIDTH/8-1:0] wstrb,
    output logic wlast,
    input logic bvalid,
    input logic berror,                // SLVERR or DECERR

    output logic table_write,          // pulse
    output logic [9:0] table_word,
    output logic [3:0] table_be,
    output logic [31:0] table_data,

    output logic [1:0] waits,          // TLPs that are here and not counted in `begun`
    output logic leaves,               // one of them is counted or dropped in this cycle
    output logic [7:0] begun,          // bursts, with those of this cycle
    output logic [7:0] done,           // responses
    output logic stalled,

    output logic slot_power_valid,     // Set_Slot_Power_Limit
    output logic [9:0] slot_power,
    output logic turn_off,             // PME_Turn_Off

    output logic [23:0] events,
    output logic [5:0] errors,
    output logic [127:0] error_header
);
    `include "pcie_endpoint.svh"
    localparam int WORDS = BUS_WIDTH / 32;
    localparam int BYTE = $clog2(BUS_WIDTH / 8);

    // ---- the beat, and the fields of its header ----
    // verilator lint_off UNUSEDSIGNAL
    logic [31:0] h0, h1, h2, h3;  // the fields that are not checked have no user
    // verilator lint_on UNUSEDSIGNAL
    assign h0 = {rx_data[7:0], rx_data[15:8], rx_data[23:16], rx_data[31:24]};
    assign h1 = {rx_data[39:32], rx_data[47:40], rx_data[55:48], rx_data[63:56]};
    assign h2 = {rx_data[71:64], rx_data[79:72], rx_data[87:80], rx_data[95:88]};
    assign h3 = {rx_data[103:96], rx_data[111:104], rx_data[119:112], rx_data[127:120]};

    typedef enum logic [1:0] {HEADER, JUDGE, WALK, DRAIN} state_t;
    state_t state;
    logic beat_valid, beat_sop, beat_eop, beat_poisoned, beat_take, take;
    logic [DATA_WIDTH-1:0] beat;
    logic is_write, is_message, marked, wide;
    logic [9:0] length;
    logic [7:0] bes;
    assign rx_ready = !beat_valid || beat_take;
    assign take = rx_valid && rx_ready;
    always_ff @(posedge clk)
        if (rst) beat_valid <= 1'b0;
        else if (rx_ready) beat_valid <= rx_valid;
    always_ff @(posedge clk)
        if (take) begin
            beat_sop <= rx_sop;
            beat_eop <= rx_eop;
            beat_poisoned <= rx_eop && rx_poisoned;
            beat <= rx_data;
            if (rx_sop) begin
                is_write <= !h0[31] && h0[30] && h0[28:24] == 5'd0;
                is_message <= !h0[31] && h0[29] && h0[28:27] == 2'b10;
                marked <= h0[14];
                wide <= h0[29];
                length <= h0[9:0];
                bes <= h1[7:0];
                address <= h0[29] ? {h2, h3[31:2], 2'd0} : {32'd0, h2[31:2], 2'd0};
                error_header <= rx_data[127:0];
            end
        end

    // ---- the verdict ----
    logic one, malformed, is_malformed, is_refused, is_table, is_slot_power, has_data;
    // verilator lint_off UNUSEDSIGNAL
    logic [10:0] page_last;  // last double-word in the page; only the carry counts
    // verilator lint_on UNUSEDSIGNAL
    assign one = length == 10'd1;
    assign page_last = {1'b0, address[11:2]} + 11'(length) - 11'd1;
    assign malformed = is_write && (length == '0 || length > 10'(MAX_PAYLOAD / 4) || page_last[10]
        || (one ? bes[7:4] != '0 : bes[3:0] == '0 || bes[7:4] == '0));
    // Messages for an endpoint (§2.2.8): these two, and those without effect: Unlock, PM_Active_State_Nak, the ignored ones of §2.2.8.7 and
    // Vendor_Defined Type 1.
    logic known_message, ignored;
    assign ignored = bes == 8'h00 || bes == 8'h14 || bes == 8'h7f || (bes[7:4] == 4'h4 && bes != 8'h42 && bes != 8'h46 && bes[3:0] < 4'h9);
    assign known_message = ignored || bes == 8'h50 || bes == 8'h19;
    assign has_data = length != '0;

    // ---- the walk over double-words ----
    logic [9:0] at;               // in the page
    logic [63:12] page;
    logic [10:0] left;
    logic [3:0] be, bytes, piece_bytes, last_be, be_next, be_rest;
    logic [LANE-1:0] lane;
    logic [1:0] offset;
    logic [3:0] size;
    logic [7:0] words, piece_left;
    logic in_piece, begins, steps, skips, table_steps, moves, ends_word, final_word, gives_up, aborts;
    pcie_endpoint_piece #(
        .MAX_PAYLOAD(MAX_PAYLOAD)
    ) piece (
        .word(at),
        .left(left),
        .be(be),
        .last_full(last_be == 4'hf),
        .offset(offset),
        .size(size),
        .bytes(bytes),
        .words(words)
    );
    logic [31:0] word_data;
    assign word_data = beat[32*lane+:32];
    assign gives_up = stalled || bus_rst;
    assign aborts = state == WALK && gives_up && !is_table && !is_slot_power;
    assign begins = state == WALK && !is_table && !is_slot_power && !in_piece && be != '0 && !gives_up && (!awvalid || awready) && w_left == '0 && !full;
    assign steps = state == WALK && in_piece && beat_valid && (!wvalid || wready) && !gives_up;
    assign skips = state == WALK && !in_piece && be == '0 && beat_valid && !gives_up;
    assign table_steps = state == WALK && (is_table || is_slot_power) && beat_valid;
    assign moves = steps || skips || table_steps;
    assign be_rest = be & ~(steps ? piece_bytes : be);
    assign ends_word = moves && be_rest == '0;
    assign final_word = ends_word && left == 11'd1;
    assign be_next = left == 11'd2 ? last_be : 4'hf;
    assign table_write = table_steps && is_table;
    assign table_word = at;
    assign table_be = be;
    assign table_data = word_data;
    assign slot_power_valid = table_steps && is_slot_power;
    assign slot_power = word_data[9:0];

    logic judged, accepted, finished;
    assign judged = state == JUDGE;
    assign accepted = (is_write && !is_malformed && !is_refused && !marked && (is_table || !gives_up)) || (is_slot_power && has_data && !marked);
    assign finished = (judged && !accepted) || final_word || aborts;
    // The beat of the header is used up if it has no data, and any beat with its last double-word.
    always_comb
        case (state)
            HEADER: beat_take = beat_valid && !beat_sop;
            JUDGE: beat_take = !accepted || (LANES == 4 && wide);
            WALK: beat_take = beat_valid && (final_word || aborts || (ends_word && lane == LANE'(LANES - 1)));
            default: beat_take = beat_valid;
        endcase
    always_ff @(posedge clk)
        if (rst) state <= HEADER;
        else
            case (state)
                HEADER: if (beat_valid && beat_sop) state <= JUDGE;
                JUDGE: if (accepted) state <= WALK;
                    else state <= beat_eop ? HEADER : DRAIN;
                WALK: if (final_word || aborts) state <= beat_valid && beat_eop ? HEADER : DRAIN;
                default: if (beat_valid && beat_eop) state <= HEADER;
            endcase
    always_ff @(posedge clk) begin
        if (state == HEADER) begin
            is_malformed <= malformed;
            is_refused <= is_write ? !hit : !is_message || !known_message;
            is_table <= is_write && hit && in_table;
            is_slot_power <= is_message && bes == 8'h50;
            page <= bus_address[63:12];
            at <= bus_address[11:2];
            left <= 11'(length);
            be <= bes[3:0];
            last_be <= one ? bes[3:0] : bes[7:4];
            lane <= wide ? LANE'(4) : LANE'(3);
        end
        if (moves) be <= ends_word ? be_next : be_rest;
        if (ends_word) begin
            at <= at + 1'b1;
            left <= left - 11'd1;
            lane <= lane + 1'b1;
        end
        if (begins) begin
            piece_bytes <= bytes;
            piece_left <= words;
        end else if (steps) piece_left <= piece_left - 1'b1;
    end
    always_ff @(posedge clk)
        if (rst || gives_up) in_piece <= 1'b0;
        else if (begins) in_piece <= 1'b1;
        else if (steps && piece_left == 8'd1) in_piece <= 1'b0;

    // ---- the bus ----
    logic [7:0] bus_words, w_left, begun_kept, in_flight;  // `w_left`: words of the burst that have not been offered
    logic full, last_in_word, fills;
    logic [3:0] out_lane;
    assign bus_words = size > 4'(BYTE) ? 8'd1 << (size - 4'(BYTE)) : 8'd1;
    assign out_lane = at[3:0] & 4'(WORDS - 1);
    assign last_in_word = out_lane == 4'(WORDS - 1) || piece_left == 8'd1;
    assign fills = stalled && w_left != '0 && (!wvalid || wready);
    always_ff @(posedge clk)
        if (rst || bus_rst) begin
            awvalid <= 1'b0;
            wvalid <= 1'b0;
            w_left <= '0;
        end else begin
            if (begins) awvalid <= 1'b1;
            else if (awready) awvalid <= 1'b0;
            if ((steps && last_in_word) || fills) wvalid <= 1'b1;
            else if (wready) wvalid <= 1'b0;
            if (begins) w_left <= bus_words;
            else if ((steps && last_in_word) || fills) w_left <= w_left - 1'b1;
        end
    logic word_open;  // a word is begun and not complete
    always_ff @(posedge clk) begin
        if (begins) begin
            awaddr <= {page, at, offset};
            awlen <= bus_words - 8'd1;
            awsize <= size > 4'(BYTE) ? 3'(BYTE) : size[2:0];
        end
        if (begins) word_open <= 1'b0;
        else if (steps) word_open <= !last_in_word;
        if (steps)
            for (int n = 0; n < WORDS; n++) begin
                if (4'(n) == out_lane) wdata[32*n+:32] <= word_data;
                if (4'(n) == out_lane) wstrb[4*n+:4] <= piece_bytes;
                else if (!word_open) wstrb[4*n+:4] <= '0;
            end
        if (fills) wstrb <= '0;
        if (steps || fills) wlast <= w_left == 8'd1;
    end

    // ---- bursts in flight, and a bus that stalls ----
    logic [31:0] idle;
    logic stalls;
    assign begun = begins ? begun_kept + 8'd1 : begun_kept;
    assign in_flight = begun_kept - done;
    assign full = in_flight >= 8'd64;
    assign stalls = !stalled && idle >= bus_timeout && in_flight != '0 && !begins;
    always_ff @(posedge clk)
        if (rst) begin
            begun_kept <= '0;
            done <= '0;
            idle <= '0;
            stalled <= 1'b0;
        end else begin
            begun_kept <= begun;
            if (bus_rst) done <= begun;
            else if (bvalid && in_flight != '0) done <= done + 1'b1;
            if ((awvalid && awready) || (wvalid && wready) || bvalid || in_flight == '0) idle <= '0;
            else if (idle < bus_timeout) idle <= idle + 1'b1;
            if (in_flight == '0 || bus_rst) stalled <= 1'b0;
            else if (stalls) stalled <= 1'b1;
        end

    // A TLP that is offered counts: it came before what is offered on the other streams.
    assign waits = 2'(rx_valid && rx_sop) + 2'(beat_valid && beat_sop && state == HEADER) + 2'(state == JUDGE || state == WALK);
    assign leaves = finished;
    assign turn_off = judged && is_message && bes == 8'h19;

    always_comb begin
        events = '0;
        events[EVENT_MALFORMED] = judged && is_malformed;
        events[EVENT_POSTED_UR] = judged && !is_malformed && is_refused;
        events[EVENT_POSTED_POISONED] = (judged && is_write && !is_refused && !is_malformed && marked) || (state == WALK && beat_take && beat_poisoned);
        events[EVENT_STALL_DROP] = (judged && is_write && !is_malformed && !is_refused && !marked && !is_table && stalled) || (aborts && stalled);
        events[EVENT_BUS_RESET] = (judged && is_write && !is_malformed && !is_refused && !marked && !is_table && bus_rst) || (bus_rst && in_flight != '0);
        events[EVENT_WRITE_ERROR] = bvalid && berror;
        events[EVENT_STALL] = stalls;
        events[EVENT_IGNORED] = judged && is_message && ignored;
        errors = '0;
        errors[ERROR_MALFORMED] = events[EVENT_MALFORMED];
        errors[ERROR_UNSUPPORTED] = events[EVENT_POSTED_UR];
        errors[ERROR_POISONED] = events[EVENT_POSTED_POISONED];
    end
endmodule
