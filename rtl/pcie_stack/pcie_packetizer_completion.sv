// SPDX-License-Identifier: Apache-2.0 OR MIT
// Matches completions with outstanding requests (PCIe 6.0 §2.3.2), stores their data, and gives up requests without a completion (§2.8).
// Memory reads have slots of READ_BYTES; the one configuration request has a register. A completion has effect only after the writes
// that arrived before it are in memory.
// Handshake: `allocate` and `config_start` begin a request with a tag; the slot is pending until its status is known.
// `config_done` is a pulse.
module pcie_packetizer_completion #(
    parameter int DATA_WIDTH = 256,
    parameter int READ_SLOTS = 8,
    parameter int READ_BYTES = 128,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES),
    localparam int SLOT = $clog2(READ_SLOTS),
    localparam int WORD = $clog2(READ_BYTES / 4)
) (
    input logic clk,
    input logic rst,
    input logic link_up,
    input logic timed,           // requests without a completion are given up
    input logic [31:0] timeout,  // cycles; a request is given up between one and two of them
    input logic [15:0] requester,

    input logic rx_valid,
    output logic rx_ready,
    input logic rx_sop,
    input logic rx_eop,
    input logic [LANE-1:0] rx_end,
    input logic [DATA_WIDTH-1:0] rx_data,
    input logic rx_poisoned,

    input logic allocate,
    input logic [SLOT-1:0] allocate_slot,
    input logic [7:0] allocate_tag,
    input logic [WORD-1:0] allocate_word,
    input logic [9:0] allocate_length,
    input logic [SLOT-1:0] read_slot,
    input logic [WORD-1:0] read_word,
    output logic [READ_SLOTS-1:0] pending,
    output logic [2:0] read_status,
    output logic [31:0] read_data,

    input logic config_start,
    input logic config_write,
    input logic [7:0] config_tag,
    output logic config_done,
    output logic [2:0] config_status,
    output logic [31:0] config_data,

    input logic [1:0] posted_waits,
    input logic posted_leaves,
    input logic [7:0] posted_begun,
    input logic [7:0] posted_done,
    input logic stalled,

    output logic [23:0] events,
    output logic [5:0] errors,
    output logic [127:0] error_header
);
    `include "pcie_root_complex.svh"

    // ---- the beat ----
    typedef enum logic [2:0] {IDLE, CHECK, FENCE, DATA, NEXT, JUDGE} state_t;
    state_t state;
    logic [DATA_WIDTH-1:0] beat;
    logic beat_eop, poisoned, take;
    logic [LANE-1:0] beat_end, lane;
    assign rx_ready = state == IDLE || state == NEXT;
    assign take = rx_valid && rx_ready;

    // verilator lint_off UNUSEDSIGNAL
    logic [31:0] h0, h1, h2;  // the fields that are not checked have no user
    // verilator lint_on UNUSEDSIGNAL
    assign h0 = {beat[7:0], beat[15:8], beat[23:16], beat[31:24]};
    assign h1 = {beat[39:32], beat[47:40], beat[55:48], beat[63:56]};
    assign h2 = {beat[71:64], beat[79:72], beat[87:80], beat[95:88]};

    // ---- slots ----
    logic [7:0] tags[0:READ_SLOTS-1];
    logic [WORD-1:0] words[0:READ_SLOTS-1];
    logic [9:0] lefts[0:READ_SLOTS-1];
    logic [2:0] statuses[0:READ_SLOTS-1];
    logic [READ_SLOTS-1:0] old;
    logic config_pending, config_old, config_is_write;
    logic [7:0] config_pending_tag;
    assign read_status = statuses[read_slot];

    // ---- what the header says ----
    logic [7:0] tag;
    logic [SLOT-1:0] slot;
    logic [9:0] length, slot_left;
    // verilator lint_off UNUSEDSIGNAL
    logic [12:0] bytes;  // rounded up to double-words
    // verilator lint_on UNUSEDSIGNAL
    logic [2:0] status;
    logic is_config, is_read, has_data, fits_read, fits_config;
    assign tag = h2[15:8];
    assign slot = tag[SLOT-1:0];
    assign length = h0[9:0];
    assign status = h1[15:13];
    assign has_data = h0[30];
    assign slot_left = lefts[slot];
    assign bytes = {h1[11:0] == '0, h1[11:0]} + 13'(h2[1:0]) + 13'd3;
    assign is_config = config_pending && config_pending_tag == tag;
    assign is_read = pending[slot] && tags[slot] == tag;
    assign fits_read = has_data && length != '0 && length <= slot_left && h2[6:2] == 5'(words[slot]) && bytes[12:2] == {1'b0, slot_left};
    assign fits_config = has_data ? !config_is_write && length == 10'd1 : config_is_write;

    logic known;
    assign known = h0[31] == 1'b0 && h0[29] == 1'b0 && h0[28:24] == 5'b01010 && h2[31:16] == requester && (is_config || is_read);

    logic for_config, data_left_in_slot, expected;
    logic [2:0] verdict;
    logic [SLOT-1:0] target;
    logic [9:0] left;         // double-words of this TLP
    logic [9:0] after;        // double-words of the request after this TLP
    logic [WORD-1:0] word;
    logic [31:0] lane_data;
    assign lane_data = beat[32*lane+:32];

    logic open;
    pcie_packetizer_fence fence (
        .clk(clk),
        .rst(rst),
        .capture(take && rx_sop),
        .posted_waits(posted_waits),
        .posted_leaves(posted_leaves),
        .posted_begun(posted_begun),
        .posted_done(posted_done),
        .stalled(stalled),
        .open(open)
    );

    always_ff @(posedge clk)
        if (rst) state <= IDLE;
        else
            case (state)
                IDLE: if (rx_valid && rx_sop) state <= CHECK;
                CHECK: state <= FENCE;
                FENCE: if (open) state <= !expected || left == '0 ? (beat_eop ? JUDGE : NEXT) : DATA;
                DATA: if (left == 10'd1 || lane == beat_end) state <= beat_eop ? JUDGE : NEXT;
                NEXT: if (rx_valid) state <= expected && left != '0 ? DATA : rx_eop ? JUDGE : NEXT;
                default: state <= IDLE;
            endcase

    always_ff @(posedge clk) begin
        if (take) begin
            beat <= rx_data;
            beat_eop <= rx_eop;
            beat_end <= rx_eop ? rx_end : LANE'(LANES - 1);
            poisoned <= rx_eop && rx_poisoned;
            lane <= rx_sop ? LANE'(3) : '0;
            if (rx_sop) error_header <= rx_data[127:0];
        end
        if (state == CHECK) begin
            expected <= known;
            for_config <= is_config;
            target <= slot;
            word <= words[slot];
            left <= has_data && status == STATUS_SC ? length : '0;
            after <= slot_left - length;
            if (h0[14]) verdict <= STATUS_BAD;
            else if (status == STATUS_SC) verdict <= (is_config ? fits_config : fits_read) ? STATUS_SC : STATUS_BAD;
            else if (status == STATUS_RRS) verdict <= is_config ? STATUS_RRS : STATUS_BAD;
            else verdict <= status == STATUS_CA ? STATUS_CA : STATUS_UR;
            marked <= h0[14];
            // A completion that does not fit must not write into the slot.
            if (!(is_config ? fits_config : fits_read)) left <= '0;
        end
        if (state == DATA) begin
            lane <= lane + 1'b1;
            word <= word + 1'b1;
            left <= left - 1'b1;
        end
    end

    logic marked, judged, bad, counts;
    logic [2:0] final_status;
    assign judged = state == JUDGE;
    assign bad = marked || poisoned;
    assign counts = judged && expected;
    // A TLP that ends before its Length is malformed.
    assign final_status = bad || left != '0 ? STATUS_BAD : verdict;
    assign data_left_in_slot = after != '0;

    (* ram_style = "distributed" *) logic [31:0] store[0:READ_SLOTS*READ_BYTES/4-1];
    always_ff @(posedge clk) if (state == DATA && !for_config) store[{target, word}] <= lane_data;
    assign read_data = store[{read_slot, read_word}];

    // ---- the clock of timeouts: a slot is old at the first tick and given up at the second ----
    logic [31:0] elapsed;
    logic tick, ticks;  // a tick waits while a completion is examined
    assign ticks = (tick || !link_up) && state == IDLE && !take;
    always_ff @(posedge clk)
        if (rst) begin
            elapsed <= '0;
            tick <= 1'b0;
        end else begin
            elapsed <= elapsed >= timeout || !timed ? '0 : elapsed + 1'b1;
            if (elapsed >= timeout && timed) tick <= 1'b1;
            else if (ticks) tick <= 1'b0;
        end

    logic [READ_SLOTS-1:0] expires;
    logic config_expires, slot_ends, config_ends;
    assign expires = ticks ? pending & (old | {READ_SLOTS{!link_up}}) : '0;
    assign config_expires = ticks && config_pending && (config_old || !link_up);
    // A request is complete with its last data, or with any status but Successful Completion.
    assign slot_ends = counts && !for_config && (final_status != STATUS_SC || !data_left_in_slot);
    assign config_ends = counts && for_config;

    always_ff @(posedge clk) begin
        if (ticks) begin
            old <= pending;
            config_old <= config_pending;
        end
        if (counts && !for_config) begin
            words[target] <= word;
            lefts[target] <= after;
            statuses[target] <= final_status;
        end
        for (int n = 0; n < READ_SLOTS; n++) if (expires[n]) statuses[n] <= STATUS_TIMEOUT;
        if (allocate) begin
            tags[allocate_slot] <= allocate_tag;
            words[allocate_slot] <= allocate_word;
            lefts[allocate_slot] <= allocate_length;
            for (int n = 0; n < READ_SLOTS; n++) if (allocate_slot == SLOT'(n)) old[n] <= 1'b0;
        end
        if (config_start) begin
            config_pending_tag <= config_tag;
            config_is_write <= config_write;
            config_old <= 1'b0;
        end
        if (state == DATA && for_config) config_data <= lane_data;
        if (config_ends) config_status <= final_status;
        else if (config_expires) config_status <= STATUS_TIMEOUT;
    end
    always_ff @(posedge clk)
        if (rst) begin
            pending <= '0;
            config_pending <= 1'b0;
            config_done <= 1'b0;
        end else begin
            pending <= pending & ~expires;
            for (int n = 0; n < READ_SLOTS; n++) begin
                if (slot_ends && target == SLOT'(n)) pending[n] <= 1'b0;
                if (allocate && allocate_slot == SLOT'(n)) pending[n] <= 1'b1;
            end
            if (config_start) config_pending <= 1'b1;
            else if (config_ends || config_expires) config_pending <= 1'b0;
            config_done <= config_ends || config_expires;
        end

    always_comb begin
        events = '0;
        events[EVENT_UNEXPECTED] = judged && !expected;
        events[EVENT_TIMEOUT] = expires != '0 || config_expires;
        events[EVENT_CPL_POISONED] = counts && bad;
        events[EVENT_CPL_UR] = counts && !bad && verdict == STATUS_UR;
        events[EVENT_CPL_CA] = counts && !bad && verdict == STATUS_CA;
        events[EVENT_CPL_RRS] = counts && !bad && verdict == STATUS_RRS;
        events[EVENT_CPL_BAD] = counts && !bad && final_status == STATUS_BAD;
        errors = '0;
        errors[ERROR_UNEXPECTED] = judged && !expected;
        errors[ERROR_POISONED] = counts && bad;
        errors[ERROR_MALFORMED] = counts && !bad && final_status == STATUS_BAD;
        errors[ERROR_TIMEOUT] = link_up && (expires != '0 || config_expires);
    end
endmodule
