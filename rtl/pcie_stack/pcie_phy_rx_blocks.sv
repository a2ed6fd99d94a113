// SPDX-License-Identifier: Apache-2.0 OR MIT
// Finds frames in a 128b/130b stream (PCIe 6.0 §4.2.2.3.3): checks block types, follows the chain of tokens, removes ordered sets, and marks the
// first and last double-words of frames. After a framing error it ignores the stream until the next SDS.
//
// The length of a token gives the place of the next one. For each double-word that might begin a token, stages 2 and 3 calculate which later
// double-words of the word begin tokens, and the place of the first token after the word. Stage 4 selects one of these results, so
// the loop from word to word is short. Tokens must begin on a double-word of the stream, also at x1 and x2.
module pcie_phy_rx_blocks #(
    parameter int LANES = 8,
    parameter int SYMBOLS = 4,
    parameter logic [7:0] SKP_SYMBOL = 8'haa,
    localparam int WORD_BYTES = LANES * SYMBOLS,
    localparam int D = WORD_BYTES / 4
) (
    input logic clk,
    input logic rst,
    input logic word_valid,
    input logic word_start,
    input logic [8*WORD_BYTES-1:0] word,
    input logic [WORD_BYTES-1:0] word_control,
    input logic word_bad,

    output logic marked_valid,                // the word has a part of a frame
    output logic [8*WORD_BYTES-1:0] marked,
    output logic [D-1:0] first,
    output logic [D-1:0] final_one,
    output logic [D-1:0] dllp,                // with first
    output logic [D-1:0] nullify,             // with final_one
    output logic [D-1:0] broken,              // with final_one: the frame was cut
    output logic damaged,                     // frames that touch this word have an error

    output logic streaming,
    output logic ts1,
    output logic ts2,
    output logic framing_error,
    output logic event_token,
    output logic event_stp,
    output logic event_block,
    output logic event_skp
);
    `include "pcie_phy.svh"
    localparam int WORDS = 16 / SYMBOLS;
    localparam int OUT = 12;
    localparam int LEVELS = $clog2(D);
    localparam int SPLIT = (LEVELS + 1) / 2;  // merges of stage 2; the rest is in stage 3

    // ---- stage 1: classes ----
    logic a_valid, a_start, a_data, a_set, a_damaged;
    logic [8*WORD_BYTES-1:0] a_word;
    logic [D-1:0] a_stp, a_sdp, a_edb, a_idle, a_eds, a_bad_stp;
    logic [OUT*D-1:0] a_out;
    logic [4:0] a_index;
    logic a_same;
    logic [7:0] a_symbol;

    logic [D-1:0] crc_right;
    for (genvar i = 0; i < D; i++) begin : check
        logic [3:0] crc;
        logic parity;
        pcie_phy_frame_crc frame_crc (
            .length(word[32*i+4+:11]),
            .crc(crc),
            .parity(parity)
        );
        assign crc_right[i] = crc == word[32*i+20+:4] && parity == word[32*i+15];
    end
    logic [LANES-1:0] same;
    always_comb for (int l = 0; l < LANES; l++) same[l] = word[8*l+:8] == word[7:0];
    always_ff @(posedge clk)
        if (rst) a_valid <= 1'b0;
        else a_valid <= word_valid;
    always_ff @(posedge clk) begin
        a_start <= word_start;
        a_data <= word_control == '0;
        a_set <= word_control == '1;
        a_damaged <= word_bad;
        a_word <= word;
        a_index <= word_start ? '0 : a_index + 1'b1;
        a_same <= &same;
        a_symbol <= word[7:0];
        for (int i = 0; i < D; i++) begin
            a_idle[i] <= word[32*i+:32] == '0;
            a_sdp[i] <= word[32*i+:16] == TOKEN_SDP;
            a_edb[i] <= word[32*i+:32] == TOKEN_EDB;
            a_eds[i] <= word[32*i+:32] == TOKEN_EDS;
            a_stp[i] <= word[32*i+:4] == 4'hf && crc_right[i] && word[32*i+4+:11] >= 11'd5 && word[32*i+4+:11] < 11'd1152;
            a_bad_stp[i] <= word[32*i+:4] == 4'hf && word[32*i+:32] != TOKEN_EDS;
            // Place of the next token, from the end of the word.
            a_out[OUT*i+:OUT] <= word[32*i+:4] == 4'hf ? OUT'(word[32*i+4+:11]) + OUT'(i - D) : word[32*i+:16] == TOKEN_SDP ? OUT'(i + 2 - D) : OUT'(i + 1 - D);
        end
    end

    // ---- stages 2 and 3: the chain of tokens from each possible begin ----
    // A wrong token and EDS end a chain.
    logic [D*D-1:0] a_chains, b_chains, c_chains;
    logic [OUT*D-1:0] b_outs, c_outs;
    logic [D-1:0] a_stops, b_stops, c_stops;
    always_comb begin
        a_chains = '0;
        for (int i = 0; i < D; i++) begin
            a_chains[D*i+i] = 1'b1;
            a_stops[i] = !(a_stp[i] || a_sdp[i] || a_edb[i] || a_idle[i]);
        end
    end
    for (genvar level = 0; level < LEVELS; level++) begin : merge
        logic [D*D-1:0] chains_in, chains;
        logic [OUT*D-1:0] outs_in, outs;
        logic [D-1:0] stops_in, stops;
        if (level == 0) begin : begin_of_stage_2
            assign {chains_in, outs_in, stops_in} = {a_chains, a_out, a_stops};
        end else if (level == SPLIT) begin : begin_of_stage_3
            assign {chains_in, outs_in, stops_in} = {b_chains, b_outs, b_stops};
        end else begin : go_on
            assign {chains_in, outs_in, stops_in} = {merge[level-1].chains, merge[level-1].outs, merge[level-1].stops};
        end
        pcie_phy_chain_merge #(
            .D(D),
            .HALF(2 ** level),
            .OUT(OUT)
        ) chain_merge (
            .chains_in(chains_in),
            .outs_in(outs_in),
            .stops_in(stops_in),
            .chains(chains),
            .outs(outs),
            .stops(stops)
        );
    end
    if (SPLIT == 0) begin : no_stage_2
        always_ff @(posedge clk) {b_chains, b_outs, b_stops} <= {a_chains, a_out, a_stops};
    end else begin : stage_2
        always_ff @(posedge clk) {b_chains, b_outs, b_stops} <= {merge[SPLIT-1].chains, merge[SPLIT-1].outs, merge[SPLIT-1].stops};
    end
    if (SPLIT == LEVELS) begin : no_stage_3
        always_ff @(posedge clk) {c_chains, c_outs, c_stops} <= {b_chains, b_outs, b_stops};
    end else begin : stage_3
        always_ff @(posedge clk) {c_chains, c_outs, c_stops} <= {merge[LEVELS-1].chains, merge[LEVELS-1].outs, merge[LEVELS-1].stops};
    end

    localparam int KEPT = 8 * WORD_BYTES + 5 * D + 4 + 5 + 1 + 8;
    logic b_valid, c_valid;
    logic [KEPT-1:0] b_kept, c_kept;
    always_ff @(posedge clk)
        if (rst) begin
            b_valid <= 1'b0;
            c_valid <= 1'b0;
        end else begin
            b_valid <= a_valid;
            c_valid <= b_valid;
        end
    always_ff @(posedge clk) begin
        b_kept <= {a_word, a_stp, a_sdp, a_edb, a_eds, a_bad_stp, a_start, a_data, a_set, a_damaged, a_index, a_same, a_symbol};
        c_kept <= b_kept;
    end

    // ---- stage 4: blocks and the chain from word to word ----
    logic [8*WORD_BYTES-1:0] c_word;
    logic [D-1:0] c_stp, c_sdp, c_edb, c_eds, c_bad_stp;
    logic c_start, c_data, c_set, c_damaged, c_same;
    logic [4:0] c_index;
    logic [7:0] c_symbol;
    assign {c_word, c_stp, c_sdp, c_edb, c_eds, c_bad_stp, c_start, c_data, c_set, c_damaged, c_index, c_same, c_symbol} = c_kept;

    logic ended;        // EDS was received: an ordered set follows
    logic after_sds;    // the first block of the stream must be a data block
    logic after_skp;    // so must the block after SKP
    logic in_set;       // within an ordered set block
    logic [OUT-1:0] rest, next_rest;
    logic last_word, is_skp, is_sds, bad_block, follows, stops_here, stray_edb, ends_here;
    logic [D-1:0] begins, final_here, tlp_end;
    logic tlp_ended;    // the last double-word before this word ended a TLP
    assign last_word = c_index == 5'(WORDS - 1);
    assign is_skp = c_same && c_symbol == SKP_SYMBOL;
    assign is_sds = c_same && c_symbol == OS_SDS;

    always_comb begin
        bad_block = 1'b0;
        if (streaming && c_valid) begin
            if (!c_data && !c_set) bad_block = 1'b1;
            else if (c_start) bad_block = c_set ? !ended || after_sds || after_skp : ended;
            else bad_block = c_set != in_set;
        end
    end
    assign follows = c_valid && streaming && c_data && !bad_block;

    always_comb begin
        begins = '0;
        next_rest = rest - OUT'(D);
        stops_here = 1'b0;
        for (int i = 0; i < D; i++)
            if (rest == OUT'(i)) begin
                begins = c_chains[D*i+:D];
                next_rest = c_outs[OUT*i+:OUT];
                stops_here = c_stops[i];
            end
    end
    // A double-word that begins no token is of a TLP or a DLLP: all other tokens are one double-word.
    always_comb
        for (int i = 0; i < D; i++) begin
            final_here[i] = (!begins[i] || c_stp[i] || c_sdp[i]) && (i == D - 1 ? !stops_here && next_rest == '0 : begins[(i+1)%D]);
            tlp_end[i] = final_here[i] && (i == 0 ? !after_sdp : !(begins[(i+D-1)%D] && c_sdp[(i+D-1)%D]));
        end
    logic after_sdp;    // the last double-word before this word was SDP
    logic [D-1:0] stray;  // EDB that does not follow a TLP
    always_comb
        for (int i = 0; i < D; i++) stray[i] = begins[i] && c_edb[i] && !(i == 0 ? tlp_ended : tlp_end[(i+D-1)%D]);
    assign stray_edb = stray != '0;
    assign ends_here = last_word && begins[D-1] && c_eds[D-1];

    // An error is known in this cycle; the frame that is open, if any, is cut at the next word.
    logic cut;
    logic good_chain;
    assign good_chain = !stray_edb && (!stops_here || ends_here);
    assign event_token = follows && !good_chain && (stray_edb || (begins & c_bad_stp & ~c_stp) == '0);
    assign event_stp = follows && !good_chain && !event_token;
    assign event_block = bad_block;
    assign framing_error = bad_block || (follows && !good_chain);
    assign event_skp = c_valid && c_start && c_set && streaming && ended && is_skp;
    assign ts1 = c_valid && c_start && c_set && c_same && c_symbol == OS_TS1;
    assign ts2 = c_valid && c_start && c_set && c_same && c_symbol == OS_TS2;

    always_ff @(posedge clk)
        if (rst) begin
            streaming <= 1'b0;
            ended <= 1'b0;
            after_sds <= 1'b0;
            after_skp <= 1'b0;
            in_set <= 1'b0;
            rest <= '0;
            tlp_ended <= 1'b0;
            after_sdp <= 1'b0;
            cut <= 1'b0;
        end else begin
            cut <= framing_error || (streaming && !c_valid);
            if (!c_valid) streaming <= 1'b0;
            else begin
                if (c_start) begin
                    in_set <= c_set;
                    after_skp <= c_set && is_skp && streaming && ended;
                    after_sds <= c_set && is_sds && !streaming;
                    if (c_set && streaming && !is_skp) streaming <= 1'b0;
                    if (c_set && !streaming && is_sds) streaming <= 1'b1;
                    ended <= 1'b0;
                    rest <= '0;
                    if (c_set) tlp_ended <= 1'b0;
                end
                if (follows) begin
                    rest <= next_rest;
                    ended <= ends_here;
                    tlp_ended <= tlp_end[D-1];
                    after_sdp <= begins[D-1] && c_sdp[D-1];
                end
                if (framing_error) streaming <= 1'b0;
            end
        end

    // ---- stage 5: marks; EDB may follow in the next word ----
    logic d_valid, d_damaged, d_cut_here;
    logic [D-1:0] d_first, d_final, d_dllp, d_nullify;
    logic [8*WORD_BYTES-1:0] d_word;
    always_ff @(posedge clk)
        if (rst) d_valid <= 1'b0;
        else d_valid <= follows || cut;
    always_ff @(posedge clk) begin
        d_word <= c_word;
        d_damaged <= c_damaged;
        d_cut_here <= cut && !follows;
        for (int i = 0; i < D; i++) begin
            d_first[i] <= follows && begins[i] && (c_stp[i] || c_sdp[i]) && (stray & ((D'(1) << i) - 1'b1)) == '0;
            d_final[i] <= follows ? final_here[i] : i == 0;
            d_dllp[i] <= c_sdp[i];
            d_nullify[i] <= i < D - 1 && begins[(i+1)%D] && c_edb[(i+1)%D];
        end
    end
    logic in_frame;
    always_ff @(posedge clk)
        if (rst) in_frame <= 1'b0;
        else if (d_valid) in_frame <= (in_frame && d_final == '0) || d_first > d_final;
    always_ff @(posedge clk)
        if (rst) marked_valid <= 1'b0;
        else marked_valid <= d_valid && (d_first != '0 || in_frame);
    always_ff @(posedge clk) begin
        marked <= d_word;
        first <= d_first;
        final_one <= d_final;
        dllp <= d_dllp;
        damaged <= d_damaged;
        for (int i = 0; i < D; i++) begin
            nullify[i] <= i == D - 1 ? d_final[i] && follows && begins[0] && c_edb[0] : d_nullify[i];
            broken[i] <= d_cut_here;
        end
    end
endmodule
