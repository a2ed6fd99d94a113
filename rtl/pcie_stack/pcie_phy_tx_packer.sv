// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes the symbol stream of the link: packs frames without gaps, fills with logical idle, inserts SKP and training sets (PCIe 6.0 §4.2.1.2,
// §4.2.2.3.2, §4.2.8). One word of LANES * SYMBOLS bytes leaves in every cycle.
//
// The link never waits, so the stream is planned ahead. `slack` is what is planned beyond the word that leaves now. Each cycle plans up to a
// beat and at least as much as is missing for a word. The place of a frame in the stream is a running sum of lengths,
// so it is known at once, and the data follow in a pipeline of three stages: tokens; rotation to the place, sets and idle; read-out.
module pcie_phy_tx_packer #(
    parameter int DATA_WIDTH = 256,
    parameter int LANES = 8,
    parameter int SYMBOLS = 4,
    parameter int BLOCKS = 1,          // 128b/130b
    parameter int SKP_WORDS = 1500,    // words from one SKP to the next
    parameter logic [7:0] SKP_SYMBOL = 8'haa,
    parameter logic [7:0] SDS_SYMBOL = 8'h55,
    localparam int DWORDS = DATA_WIDTH / 32,
    localparam int LANE = $clog2(DWORDS),
    localparam int WORD_BYTES = LANES * SYMBOLS
) (
    input logic clk,
    input logic rst,                   // also while the link is down
    input logic [2:0] state,
    output logic set_sent,             // a training set or SDS began

    input logic valid,
    input logic sop,
    input logic eop,
    input logic dllp,
    input logic nullify,
    input logic [LANE-1:0] last,
    input logic [10:0] length,
    input logic [10:0] length_less_1,
    input logic [DATA_WIDTH-1:0] data,
    input logic [DWORDS-1:0] first_control,
    input logic [DWORDS-1:0] last_control,
    output logic take,

    output logic word_valid,
    output logic word_start,                      // first word of a block
    output logic [8*WORD_BYTES-1:0] word,         // in the order of the stream
    output logic [WORD_BYTES-1:0] word_control,   // 8b/10b: control symbol; 128b/130b: ordered set block

    output logic event_underrun,
    output logic event_length,
    output logic event_skp,
    output logic event_frame
);
    `include "pcie_phy.svh"
    localparam int D = WORD_BYTES / 4;                    // double-words of a word
    localparam int TIME = LANES > 4 ? LANES / 4 : 1;      // double-words of a symbol time
    localparam int BLOCK = 4 * LANES;                     // double-words of a block
    localparam int WORDS = 16 / SYMBOLS;                  // words of a block or a training set
    localparam int SKP_LENGTH = BLOCKS != 0 ? WORDS : (SYMBOLS > 4 ? 1 : 4 / SYMBOLS);
    localparam int PLACE = LANE + 1;
    localparam int N = LANE + 1;
    localparam int POSITION = $clog2(BLOCK);

    // ---- plan ----
    logic [PLACE:0] slack, slack_next;
    logic [PLACE-1:0] place;
    logic [POSITION-1:0] position;
    logic [N-1:0] n_data, n, to_word, used;
    logic in_frame, filling, discarding, owes_edb, streaming, set_follows, after_dllp;
    // verilator lint_off UNUSEDSIGNAL
    logic spoiled;  // 128b/130b
    // verilator lint_on UNUSEDSIGNAL
    logic [10:0] remaining, left;  // double-words of the frame that are to come, less 1
    logic [4:0] set_word;
    logic [1:0] set_kind, next_kind;
    logic [2:0] skp_due;
    logic skp_expired;
    logic room, low, trains, wants_set, at_end, may_begin, fits, crowded, begins, set_begins, sends_set, frame_word, fills, frame_last, frame_ends, has_edb, pads, eds;
    logic mismatch, nullified, ends, ended;

    assign used = N'(place) & N'(D - 1);
    assign to_word = N'(D) - used;
    assign room = slack <= (PLACE + 1)'(DWORDS);
    assign low = slack < (PLACE + 1)'(D);
    assign trains = state != PHY_L0;
    assign wants_set = trains || skp_due != '0;
    assign at_end = !in_frame && set_word == '0 && !set_follows;
    assign next_kind = !trains ? SET_SKP : state == PHY_TS1 ? SET_TS1 : state == PHY_TS2 ? SET_TS2 : SET_SDS;

    // A frame that fits before the end of the block may precede the SKP. 2: EDB and EDS.
    if (BLOCKS != 0) begin : fitting
        // length + 2 <= BLOCK - position
        assign fits = !trains && length < 11'(POSITION'(~position));
    end else begin : never
        assign fits = 1'b0;
    end
    // A second SDP in a symbol time is not allowed; only x16 has room for one.
    assign crowded = TIME == 4 && after_dllp && dllp && place[1];
    assign may_begin = at_end && valid && !discarding && sop && (!wants_set || fits) && (BLOCKS == 0 || streaming) && !trains;
    assign begins = may_begin && !crowded && room;

    assign left = in_frame ? remaining : length_less_1;
    assign fills = in_frame && !owes_edb && (filling || (!valid && low));
    assign frame_word = begins || (in_frame && room && !owes_edb && (valid || fills));
    if (BLOCKS != 0) begin : counted
        assign frame_last = left[10:LANE] == '0;
        assign n_data = owes_edb ? '0 : frame_last ? N'(left[LANE-1:0]) + N'(1) : N'(DWORDS);
        assign mismatch = !fills && (frame_last != eop || (eop && last != left[LANE-1:0]));
        assign nullified = (in_frame && spoiled) || mismatch || fills || (eop && nullify);
        assign has_edb = owes_edb || (frame_last && nullified && left[LANE-1:0] != '1);
        assign frame_ends = owes_edb || (frame_last && (!nullified || left[LANE-1:0] != '1));
    end else begin : marked
        assign frame_last = eop || fills;
        assign n_data = fills ? N'(1) : eop ? N'(last) + N'(1) : N'(DWORDS);
        assign mismatch = 1'b0;
        assign nullified = 1'b0;
        assign has_edb = 1'b0;
        assign frame_ends = frame_last;
    end

    // An ordered set begins at a word; in a data stream of blocks, at a block and after EDS.
    assign set_begins = room && (set_follows || (at_end && !begins && wants_set && (BLOCKS != 0 ? !streaming && trains : used == '0)));
    assign sends_set = room && (set_begins || set_word != '0);
    assign pads = at_end && !begins && !set_begins && room && (low || (wants_set && !may_begin) || (may_begin && crowded));
    assign eds = BLOCKS != 0 && streaming && pads && wants_set && !may_begin && (position | POSITION'(D - 1)) == '1;

    logic [N-1:0] n_frame, missing;
    assign n_frame = n_data + N'(has_edb);
    assign missing = N'(D) - N'(slack);
    always_comb begin
        if (sends_set) n = N'(D);
        else if (frame_word || (in_frame && owes_edb && room))
            n = frame_ends && low && n_frame < missing ? missing : n_frame;
        else if (pads) n = may_begin && crowded && !low ? N'(TIME) - (N'(place) & N'(TIME - 1)) : to_word;
        else n = '0;
    end
    logic [PLACE:0] slack_after;  // the word that leaves now
    assign slack_after = slack - (PLACE + 1)'(D);
    assign slack_next = slack_after + (PLACE + 1)'(n);
    assign take = valid && (discarding || (frame_word && !fills));

    always_ff @(posedge clk)
        if (rst) begin
            slack <= '0;
            place <= '0;
            position <= '0;
            in_frame <= 1'b0;
            filling <= 1'b0;
            discarding <= 1'b0;
            owes_edb <= 1'b0;
            spoiled <= 1'b0;
            streaming <= 1'b0;
            set_follows <= 1'b0;
            set_word <= '0;
            after_dllp <= 1'b0;
            skp_due <= '0;
        end else begin
            slack <= slack_next;
            place <= place + PLACE'(n);
            position <= position + POSITION'(n);
            if (frame_word || owes_edb) begin
                if (room) begin
                    in_frame <= !frame_ends;
                    owes_edb <= !owes_edb && frame_last && !frame_ends;
                end
                if (frame_word) begin
                    after_dllp <= dllp && begins;
                    spoiled <= !frame_ends && nullified;
                    // The data link layer ended early or paused: fill up to the promised length.
                    filling <= !frame_last && (fills || eop);
                    if (frame_last && !ends) discarding <= 1'b1;
                end else if (room) spoiled <= 1'b0;
            end
            if (discarding && valid && eop) discarding <= 1'b0;
            if (pads) after_dllp <= 1'b0;
            if (eds) begin
                set_follows <= 1'b1;
                streaming <= !trains;
            end
            if (sends_set) begin
                set_follows <= 1'b0;
                set_word <= set_begins ? (next_set == SET_SKP ? 5'(SKP_LENGTH - 1) : 5'(WORDS - 1)) : set_word - 5'd1;
                if (set_begins && next_set == SET_SDS) streaming <= 1'b1;
            end
            if (trains) skp_due <= '0;
            else skp_due <= skp_due + 3'(skp_expired && skp_due != '1) - 3'(set_begins && next_set == SET_SKP);
        end
    // Whether the frame has ended at the data link layer.
    assign ends = fills ? filling && ended : eop;
    always_ff @(posedge clk) if (frame_word) ended <= ends;
    always_ff @(posedge clk) if (frame_word) remaining <= {left[10:LANE] - 1'b1, left[LANE-1:0]};

    // A set that follows EDS is what was wanted then.
    logic [1:0] wanted_kind, next_set;
    always_ff @(posedge clk) if (eds) wanted_kind <= next_kind;
    assign next_set = set_follows && wanted_kind == SET_SKP ? SET_SKP : next_kind;
    always_ff @(posedge clk) if (set_begins) set_kind <= next_set;
    assign set_sent = set_begins && next_set != SET_SKP;
    assign event_skp = set_begins && next_set == SET_SKP;
    assign event_underrun = frame_word && fills && !filling;
    assign event_length = frame_word && mismatch && !(eop && nullify);
    assign event_frame = begins;

    localparam int TIMER = $clog2(SKP_WORDS);
    logic [TIMER-1:0] skp_timer;
    assign skp_expired = skp_timer == TIMER'(SKP_WORDS - 1);
    always_ff @(posedge clk)
        if (rst || trains) skp_timer <= '0;
        else skp_timer <= skp_expired ? '0 : skp_timer + 1'b1;

    // ---- stage 1: what was planned ----
    logic a_set, a_eds, a_edb, a_token, a_dllp, a_fill;
    logic [N-1:0] a_n, a_data_n;
    logic [PLACE-1:0] a_place;
    logic [1:0] a_kind;
    logic [3:0] a_symbol;
    logic [10:0] a_length;
    logic [DATA_WIDTH-1:0] a_data;
    logic [DWORDS-1:0] a_first, a_last;
    logic [3:0] set_symbol;
    always_ff @(posedge clk) if (sends_set) set_symbol <= (set_begins ? 4'd0 : set_symbol) + 4'(SYMBOLS);
    always_ff @(posedge clk)
        if (rst) a_n <= '0;
        else a_n <= n;
    always_ff @(posedge clk) begin
        a_place <= place;
        a_set <= sends_set;
        a_kind <= set_begins ? next_set : set_kind;
        a_symbol <= set_begins ? 4'd0 : set_symbol;
        a_eds <= eds;
        a_edb <= has_edb && (frame_word || owes_edb);
        a_data_n <= frame_word || owes_edb ? n_data : '0;
        a_token <= begins;
        a_dllp <= dllp;
        a_fill <= fills;
        a_length <= length;
        a_data <= data;
        a_first <= first_control;
        a_last <= last_control;
    end

    // ---- stage 2: tokens, sets and idle ----
    function automatic logic [8:0] symbol_of(input logic [1:0] kind, input logic [3:0] number);
        if (BLOCKS != 0)
            case (kind)
                SET_SKP: symbol_of = {1'b1, number < 4'd12 ? SKP_SYMBOL : number == 4'd12 ? OS_SKP_END : 8'd0};
                SET_SDS: symbol_of = {1'b1, number == '0 ? OS_SDS : SDS_SYMBOL};
                default: symbol_of = {1'b1, number == '0 ? (kind == SET_TS1 ? OS_TS1 : OS_TS2) : number < 4'd6 ? 8'd0 : kind == SET_TS1 ? TS1_IDENTIFIER : TS2_IDENTIFIER};
            endcase
        else if (number == '0) symbol_of = {1'b1, K_COM};
        else if (kind == SET_SKP) symbol_of = {1'b1, K_SKP};
        else if (number < 4'd3) symbol_of = {1'b1, K_PAD};
        else if (number < 4'd6) symbol_of = 9'd0;
        else symbol_of = {1'b0, kind == SET_TS1 ? TS1_IDENTIFIER : TS2_IDENTIFIER};
    endfunction
    logic [3:0] crc;
    logic parity;
    logic [31:0] stp;
    pcie_phy_frame_crc frame_crc (
        .length(a_length),
        .crc(crc),
        .parity(parity)
    );
    assign stp = {a_data[31:24], crc, a_data[19:16], parity, a_length, 4'hf};

    // The double-words of a frame rotate to their place in stage 3. Sets, EDB, EDS and PAD are added there, because their places are known here.
    logic [36*DWORDS-1:0] assembled, b_lanes, rotated;
    logic [9*SYMBOLS-1:0] b_symbols;
    logic [DWORDS-1:0] b_edb, b_eds, b_pad;
    logic [N-1:0] b_n;
    logic [PLACE-1:0] b_place;
    logic [LANE-1:0] idle_lane, last_lane;
    assign idle_lane = LANE'(a_place) + LANE'(a_data_n);
    assign last_lane = LANE'(a_place) + LANE'(a_n) - LANE'(1);
    always_comb begin
        for (int i = 0; i < DWORDS; i++) assembled[36*i+:36] = {a_last[i], 2'b00, a_first[i], a_data[32*i+:32]};
        if (BLOCKS != 0 && a_token) begin
            if (a_dllp) assembled[15:0] = TOKEN_SDP;
            else assembled[31:0] = stp;
        end
        if (BLOCKS == 0 && a_fill) assembled[35:0] = {4'b1000, K_EDB, 24'd0};
    end
    always_ff @(posedge clk)
        if (rst) b_n <= '0;
        else b_n <= a_n;
    always_ff @(posedge clk) begin
        for (int i = 0; i < DWORDS; i++)
            if (N'(i) >= a_data_n) b_lanes[36*i+:36] <= '0;
            else b_lanes[36*i+:36] <= assembled[36*i+:36];
        b_place <= a_place;
        for (int i = 0; i < DWORDS; i++) begin
            b_edb[i] <= BLOCKS != 0 && a_edb && idle_lane == LANE'(i);
            b_eds[i] <= BLOCKS != 0 && a_eds && last_lane == LANE'(i);
            // PAD up to the end of the symbol time in which the frame ended.
            b_pad[i] <= BLOCKS == 0 && !a_set && (idle_lane & LANE'(TIME - 1)) != '0
                && (LANE'(i) | LANE'(TIME - 1)) == (idle_lane | LANE'(TIME - 1)) && LANE'(i) >= idle_lane
                && N'(LANE'(i) - LANE'(a_place)) >= a_data_n;
        end
        for (int k = 0; k < SYMBOLS; k++)
            if (!a_set) b_symbols[9*k+:9] <= '0;
            else b_symbols[9*k+:9] <= symbol_of(a_kind, a_symbol + 4'(k));
    end

    // ---- stage 3: to the place in the stream ----
    always_comb begin
        rotated = b_lanes;
        for (int k = 0; k < LANE; k++) if (b_place[k]) rotated = (rotated << 36 * 2 ** k) | (rotated >> 36 * (DWORDS - 2 ** k));
        for (int i = 0; i < DWORDS; i++) begin
            if (b_edb[i]) rotated[36*i+:32] = rotated[36*i+:32] | TOKEN_EDB;
            if (b_eds[i]) rotated[36*i+:32] = rotated[36*i+:32] | TOKEN_EDS;
            if (b_pad[i]) rotated[36*i+:36] = rotated[36*i+:36] | {4'b1111, {4{K_PAD}}};
            // A set begins at a word.
            for (int k = 0; k < 4; k++)
                {rotated[36*i+32+k], rotated[36*i+8*k+:8]} = {rotated[36*i+32+k], rotated[36*i+8*k+:8]} | b_symbols[9*((4*(i%D)+k)/LANES)+:9];
        end
    end
    logic [72*DWORDS-1:0] stream;
    always_ff @(posedge clk)
        for (int p = 0; p < 2 * DWORDS; p++)
            if (PLACE'(p) - b_place < b_n) stream[36*p+:36] <= rotated[36*(p%DWORDS)+:36];

    // ---- read-out ----
    localparam int READ = $clog2(2 * DWORDS / D);
    logic [2:0] started;
    logic [READ-1:0] read;
    logic [4:0] block_word;
    logic [36*D-1:0] taken;
    assign taken = stream[36*D*read+:36*D];
    always_ff @(posedge clk)
        if (rst) begin
            started <= '0;
            read <= '0;
            block_word <= '0;
            word_valid <= 1'b0;
        end else begin
            started <= {started[1:0], 1'b1};
            word_valid <= started[2];
            if (started[2]) begin
                read <= read + 1'b1;
                block_word <= block_word == 5'(WORDS - 1) ? '0 : block_word + 1'b1;
            end
        end
    always_ff @(posedge clk) begin
        word_start <= block_word == '0;
        for (int i = 0; i < D; i++) begin
            word[32*i+:32] <= taken[36*i+:32];
            word_control[4*i+:4] <= taken[36*i+32+:4];
        end
    end

`ifdef PROVE_PACKER
`include "packer_properties.svh"
`endif
endmodule
