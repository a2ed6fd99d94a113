// SPDX-License-Identifier: Apache-2.0 OR MIT
// Finds frames in an 8b/10b stream (PCIe 6.0 §4.2.1.2) by their control symbols, removes ordered sets, and marks the first and last double-words
// of frames. The bytes of a frame move up by one, so that sequence number and DLLP are where the data link layer expects them. The
// 8b/10b code itself is not modelled: a control bit comes with each symbol.
module pcie_phy_rx_symbols #(
    parameter int LANES = 8,
    parameter int SYMBOLS = 4,
    localparam int WORD_BYTES = LANES * SYMBOLS,
    localparam int D = WORD_BYTES / 4
) (
    input logic clk,
    input logic rst,
    input logic word_valid,
    input logic [8*WORD_BYTES-1:0] word,
    input logic [WORD_BYTES-1:0] word_control,
    input logic word_bad,

    output logic marked_valid,
    output logic [8*WORD_BYTES-1:0] marked,
    output logic [D-1:0] first,
    output logic [D-1:0] final_one,
    output logic [D-1:0] dllp,
    output logic [D-1:0] nullify,
    output logic [D-1:0] broken,
    output logic damaged,

    output logic streaming,
    output logic ts1,
    output logic ts2,
    output logic event_frame,
    output logic event_skp
);
    `include "pcie_phy.svh"
    localparam int WORDS = 16 / SYMBOLS;

    // ---- stage 1: classes ----
    logic a_valid, a_damaged, a_com, a_skp;
    logic [8*WORD_BYTES-1:0] a_word;
    logic [7:0] a_last_symbol;
    logic [D-1:0] a_stp, a_sdp, a_end, a_edb, a_other;
    function automatic logic is_control(input logic [7:0] symbol, input logic control, input logic [7:0] wanted);
        is_control = control && symbol == wanted;
    endfunction
    always_ff @(posedge clk)
        if (rst) a_valid <= 1'b0;
        else a_valid <= word_valid;
    always_ff @(posedge clk) begin
        a_damaged <= word_bad;
        a_word <= word;
        // An ordered set begins a word. The receiver looks at lane 0.
        a_com <= is_control(word[7:0], word_control[0], K_COM);
        a_last_symbol <= word[8*LANES*(SYMBOLS-1)+:8];
        a_skp <= is_control(word[8*LANES*(SYMBOLS-1)+:8], word_control[LANES*(SYMBOLS-1)], K_SKP);
        for (int i = 0; i < D; i++) begin
            a_stp[i] <= is_control(word[32*i+:8], word_control[4*i], K_STP);
            a_sdp[i] <= is_control(word[32*i+:8], word_control[4*i], K_SDP);
            a_end[i] <= is_control(word[32*i+24+:8], word_control[4*i+3], K_END);
            a_edb[i] <= is_control(word[32*i+24+:8], word_control[4*i+3], K_EDB);
            // Control symbols where frames have none. PAD between frames is no error.
            a_other[i] <= (word_control[4*i] && word[32*i+:8] != K_STP && word[32*i+:8] != K_SDP) || word_control[4*i+1] || word_control[4*i+2]
                || (word_control[4*i+3] && word[32*i+24+:8] != K_END && word[32*i+24+:8] != K_EDB);
        end
    end

    // ---- ordered sets ----
    logic [4:0] set_words;  // words of a training set that are still to come
    logic in_skp, set_here;
    assign set_here = a_com || a_skp || set_words != '0;
    assign event_skp = a_valid && a_skp && !in_skp;
    always_ff @(posedge clk)
        if (rst || !a_valid) begin
            set_words <= '0;
            in_skp <= 1'b0;
            streaming <= 1'b0;
            ts1 <= 1'b0;
            ts2 <= 1'b0;
        end else begin
            // At one symbol per word, SKP follows COM in the next word.
            set_words <= a_skp ? '0 : a_com ? 5'(WORDS - 1) : set_words - 5'(set_words != '0);
            in_skp <= a_skp;
            ts1 <= set_words == 5'd1 && !a_com && a_last_symbol == TS1_IDENTIFIER;
            ts2 <= set_words == 5'd1 && !a_com && a_last_symbol == TS2_IDENTIFIER;
            if (ts1 || ts2) streaming <= 1'b0;
            else if (!set_here) streaming <= 1'b1;
        end

    // ---- stage 2: frames ----
    logic [D-1:0] b_first, b_final, b_broken, stray;
    logic opened, opens, follows;
    assign follows = a_valid && !set_here;
    always_comb begin
        opens = opened;
        for (int i = 0; i < D; i++) begin
            b_first[i] = !opens && (a_stp[i] || a_sdp[i]) && !a_other[i] && !a_end[i] && !a_edb[i];
            b_final[i] = opens && (a_stp[i] || a_sdp[i] || a_end[i] || a_edb[i] || a_other[i]);
            b_broken[i] = a_stp[i] || a_sdp[i] || a_other[i];
            stray[i] = opens ? b_final[i] && b_broken[i] : a_end[i] || a_edb[i];
            opens = opens ? !b_final[i] : b_first[i];
        end
    end
    assign event_frame = (follows && stray != '0) || (a_valid && set_here && opened);
    logic [7:0] carried;  // last byte of the word before
    always_ff @(posedge clk)
        if (rst) begin
            opened <= 1'b0;
            marked_valid <= 1'b0;
        end else begin
            opened <= follows && opens;
            marked_valid <= follows ? opened || b_first != '0 : opened;
        end
    always_ff @(posedge clk) begin
        if (a_valid) carried <= a_word[8*WORD_BYTES-1-:8];
        marked <= {a_word[8*WORD_BYTES-9:0], carried};
        damaged <= a_damaged;
        dllp <= a_sdp;
        for (int i = 0; i < D; i++) begin
            first[i] <= follows && b_first[i];
            final_one[i] <= follows ? b_final[i] : i == 0;
            nullify[i] <= a_edb[i];
            // An ordered set or electrical idle within a frame cuts it.
            broken[i] <= !follows || b_broken[i];
        end
    end
endmodule
