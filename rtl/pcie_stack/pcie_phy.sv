// SPDX-License-Identifier: Apache-2.0 OR MIT
// The logical physical layer of one PCI Express port (PCIe 6.0 §4.2, non-FLIT mode), between the data link layer and the lanes. README.md describes
// the ports. Not modelled: the 8b/10b code, scrambling, the bits of the sync header, and all training except up, recovery and down.
//
// Each of LANES physical lanes has SYMBOLS logical lanes: a clock cycle carries SYMBOLS symbols of each lane. Symbol s of lane l is
// in bits 8n+7:8n of the link's data, with n = l * SYMBOLS + s, and in bit n of the link's control.
module pcie_phy #(
    parameter int DATA_WIDTH = 256,     // of the frame interface: 64, 128, 256 or 512
    parameter int LANES = 8,            // 1, 2, 4, 8 or 16
    parameter int SYMBOLS = 4,          // symbols of each lane per cycle: 1, 2, 4; from GENERATION 3 also 8, 16
    parameter int GENERATION = 3,       // 1, 2: 8b/10b; 3 to 5: 128b/130b
    parameter int SKP_INTERVAL = GENERATION < 3 ? 1538 : 375,  // symbol times (1180 to 1538) or blocks (370 to 375)
    parameter int TRAIN_CYCLES = 4096,  // time for an answer in training: more than a round trip
    parameter int QUEUE_WORDS = 32,     // receive queue
    parameter int COUNTER_WIDTH = 16,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1,
    localparam int LINK = LANES * SYMBOLS
) (
    input logic clk,
    input logic rst,

    input logic enable,                 // 0: electrical idle, link down
    input logic retrain_request,
    output logic phy_link_up,
    output logic phy_recovery,

    input logic phy_tx_valid,
    input logic phy_tx_sop,
    input logic phy_tx_eop,
    input logic phy_tx_dllp,
    input logic phy_tx_nullify,
    input logic [LANE-1:0] phy_tx_end,
    input logic [DATA_WIDTH-1:0] phy_tx_data,
    output logic phy_tx_ready,

    output logic phy_rx_valid,
    output logic phy_rx_sop,
    output logic phy_rx_eop,
    output logic phy_rx_dllp,
    output logic phy_rx_nullify,
    output logic phy_rx_error,
    output logic [LANE-1:0] phy_rx_end,
    output logic [DATA_WIDTH-1:0] phy_rx_data,

    output logic link_tx_valid,         // 0: electrical idle
    output logic link_tx_start,         // block alignment: first symbols of a block
    output logic [LINK-1:0] link_tx_control,
    output logic [8*LINK-1:0] link_tx_data,
    input logic link_rx_valid,
    input logic link_rx_start,
    input logic [LANES-1:0] link_rx_bad,  // lanes with a code or disparity error
    input logic [LINK-1:0] link_rx_control,
    input logic [8*LINK-1:0] link_rx_data,

    output logic [2:0] phy_state,       // down, TS1, TS2, SDS, L0
    output logic [15:0] phy_events,
    output logic [16*COUNTER_WIDTH-1:0] phy_counts
);
    `include "pcie_phy.svh"
    localparam int BLOCKS = GENERATION >= 3 ? 1 : 0;
    localparam logic [7:0] SKP_SYMBOL = GENERATION == 5 ? 8'h99 : 8'haa;
    localparam logic [7:0] SDS_SYMBOL = GENERATION == 5 ? 8'h87 : 8'h55;
    localparam int D = LINK / 4;

    if (DATA_WIDTH != 64 && DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512)
        $error("pcie_phy: DATA_WIDTH is %0d; expected 64, 128, 256 or 512", DATA_WIDTH);
    if (LANES != 1 && LANES != 2 && LANES != 4 && LANES != 8 && LANES != 16) $error("pcie_phy: LANES is %0d; expected 1, 2, 4, 8 or 16", LANES);
    if (GENERATION < 1 || GENERATION > 5) $error("pcie_phy: GENERATION is %0d; expected 1 to 5", GENERATION);
    if (SYMBOLS != 1 && SYMBOLS != 2 && SYMBOLS != 4 && (GENERATION < 3 || (SYMBOLS != 8 && SYMBOLS != 16)))
        $error("pcie_phy: SYMBOLS is %0d; expected 1, 2 or 4, or from GENERATION 3 also 8 or 16", SYMBOLS);
    if (LINK < 4 || 8 * LINK > DATA_WIDTH)
        $error("pcie_phy: LANES * SYMBOLS is %0d; expected at least 4 and at most DATA_WIDTH / 8 = %0d", LINK, DATA_WIDTH / 8);
    if (GENERATION < 3 && (SKP_INTERVAL < 1180 || SKP_INTERVAL > 1538))
        $error("pcie_phy: SKP_INTERVAL is %0d; expected 1180 to 1538 symbol times", SKP_INTERVAL);
    if (GENERATION >= 3 && (SKP_INTERVAL < 370 || SKP_INTERVAL > 375)) $error("pcie_phy: SKP_INTERVAL is %0d; expected 370 to 375 blocks", SKP_INTERVAL);
    if (TRAIN_CYCLES < 256) $error("pcie_phy: TRAIN_CYCLES is %0d; expected 256 or more", TRAIN_CYCLES);
    if (QUEUE_WORDS < 16 || 2 ** $clog2(QUEUE_WORDS) != QUEUE_WORDS) $error("pcie_phy: QUEUE_WORDS is %0d; expected a power of two, 16 or more", QUEUE_WORDS);
    if (COUNTER_WIDTH < 1) $error("pcie_phy: COUNTER_WIDTH is %0d; expected 1 or more", COUNTER_WIDTH);

    // ---- state ----
    logic down, clear, streaming, ts1, ts2, framing_error, set_sent;
    logic event_recovery, event_down, event_timeout, event_underrun, event_length, event_skp_sent, event_tx_frame;
    assign down = phy_state == PHY_DOWN;
    assign clear = rst || down;
    pcie_phy_state #(
        .TRAIN_CYCLES(TRAIN_CYCLES),
        .USE_SDS(BLOCKS)
    ) link_state (
        .clk(clk),
        .rst(rst),
        .enable(enable),
        .retrain(retrain_request || framing_error),
        .partner(link_rx_valid),
        .rx_ts1(ts1),
        .rx_ts2(ts2),
        .rx_streaming(streaming),
        .set_sent(set_sent),
        .state(phy_state),
        .link_up(phy_link_up),
        .recovery(phy_recovery),
        .event_recovery(event_recovery),
        .event_down(event_down),
        .event_timeout(event_timeout)
    );

    // ---- sending ----
    logic beat_valid, beat_sop, beat_eop, beat_dllp, beat_nullify, beat_take;
    logic [LANE-1:0] beat_last;
    logic [10:0] beat_length, beat_length_less_1;
    logic [DATA_WIDTH-1:0] beat_data;
    logic [DATA_WIDTH/32-1:0] beat_first_control, beat_last_control;
    logic word_valid, word_start;
    logic [8*LINK-1:0] word;
    logic [LINK-1:0] word_control;
    pcie_phy_tx_queue #(
        .DATA_WIDTH(DATA_WIDTH),
        .BLOCKS(BLOCKS)
    ) tx_queue (
        .clk(clk),
        .rst(rst || !phy_link_up),
        .frame_valid(phy_tx_valid),
        .frame_sop(phy_tx_sop),
        .frame_eop(phy_tx_eop),
        .frame_dllp(phy_tx_dllp),
        .frame_nullify(phy_tx_nullify),
        .frame_end(phy_tx_end),
        .frame_data(phy_tx_data),
        .frame_ready(phy_tx_ready),
        .valid(beat_valid),
        .sop(beat_sop),
        .eop(beat_eop),
        .dllp(beat_dllp),
        .nullify(beat_nullify),
        .last(beat_last),
        .length(beat_length),
        .length_less_1(beat_length_less_1),
        .data(beat_data),
        .first_control(beat_first_control),
        .last_control(beat_last_control),
        .take(beat_take)
    );
    pcie_phy_tx_packer #(
        .DATA_WIDTH(DATA_WIDTH),
        .LANES(LANES),
        .SYMBOLS(SYMBOLS),
        .BLOCKS(BLOCKS),
        .SKP_WORDS(SKP_INTERVAL * (BLOCKS != 0 ? 16 : 1) / SYMBOLS),
        .SKP_SYMBOL(SKP_SYMBOL),
        .SDS_SYMBOL(SDS_SYMBOL)
    ) packer (
        .clk(clk),
        .rst(clear),
        .state(phy_state),
        .set_sent(set_sent),
        .valid(beat_valid),
        .sop(beat_sop),
        .eop(beat_eop),
        .dllp(beat_dllp),
        .nullify(beat_nullify),
        .last(beat_last),
        .length(beat_length),
        .length_less_1(beat_length_less_1),
        .data(beat_data),
        .first_control(beat_first_control),
        .last_control(beat_last_control),
        .take(beat_take),
        .word_valid(word_valid),
        .word_start(word_start),
        .word(word),
        .word_control(word_control),
        .event_underrun(event_underrun),
        .event_length(event_length),
        .event_skp(event_skp_sent),
        .event_frame(event_tx_frame)
    );

    // ---- striping: byte b of the stream is symbol b / LANES of lane b % LANES ----
    logic [8*LINK-1:0] rx_word;
    logic [LINK-1:0] rx_control;
    assign link_tx_valid = word_valid;
    assign link_tx_start = word_start;
    for (genvar b = 0; b < LINK; b++) begin : stripe
        localparam int AT = b % LANES * SYMBOLS + b / LANES;
        assign link_tx_data[8*AT+:8] = word[8*b+:8];
        assign link_tx_control[AT] = word_control[b];
        assign rx_word[8*b+:8] = link_rx_data[8*AT+:8];
        assign rx_control[b] = link_rx_control[AT];
    end

    // ---- receiving ----
    logic marked_valid, damaged, event_token, event_stp, event_block, event_bad_frame, event_skp_received, event_overflow, event_damaged;
    logic [8*LINK-1:0] marked;
    logic [D-1:0] first, final_one, dllp, nullify, broken;
    if (BLOCKS != 0) begin : blocks
        pcie_phy_rx_blocks #(
            .LANES(LANES),
            .SYMBOLS(SYMBOLS),
            .SKP_SYMBOL(SKP_SYMBOL)
        ) parser (
            .clk(clk),
            .rst(clear),
            .word_valid(link_rx_valid),
            .word_start(link_rx_start),
            .word(rx_word),
            .word_control(rx_control),
            .word_bad(link_rx_bad != '0),
            .marked_valid(marked_valid),
            .marked(marked),
            .first(first),
            .final_one(final_one),
            .dllp(dllp),
            .nullify(nullify),
            .broken(broken),
            .damaged(damaged),
            .streaming(streaming),
            .ts1(ts1),
            .ts2(ts2),
            .framing_error(framing_error),
            .event_token(event_token),
            .event_stp(event_stp),
            .event_block(event_block),
            .event_skp(event_skp_received)
        );
        assign event_bad_frame = 1'b0;
    end else begin : symbols
        pcie_phy_rx_symbols #(
            .LANES(LANES),
            .SYMBOLS(SYMBOLS)
        ) parser (
            .clk(clk),
            .rst(clear),
            .word_valid(link_rx_valid),
            .word(rx_word),
            .word_control(rx_control),
            .word_bad(link_rx_bad != '0),
            .marked_valid(marked_valid),
            .marked(marked),
            .first(first),
            .final_one(final_one),
            .dllp(dllp),
            .nullify(nullify),
            .broken(broken),
            .damaged(damaged),
            .streaming(streaming),
            .ts1(ts1),
            .ts2(ts2),
            .event_frame(event_bad_frame),
            .event_skp(event_skp_received)
        );
        assign framing_error = 1'b0;
        assign event_token = 1'b0;
        assign event_stp = 1'b0;
        assign event_block = 1'b0;
        logic unused;
        assign unused = link_rx_start;
    end
    pcie_phy_rx_frames #(
        .DATA_WIDTH(DATA_WIDTH),
        .WORD_BYTES(LINK),
        .DEPTH(QUEUE_WORDS),
        .BLOCKS(BLOCKS)
    ) frames (
        .clk(clk),
        .rst(clear),
        .marked_valid(marked_valid),
        .marked(marked),
        .first(first),
        .final_one(final_one),
        .dllp(dllp),
        .nullify(nullify),
        .broken(broken),
        .damaged(damaged),
        .frame_valid(phy_rx_valid),
        .frame_sop(phy_rx_sop),
        .frame_eop(phy_rx_eop),
        .frame_dllp(phy_rx_dllp),
        .frame_nullify(phy_rx_nullify),
        .frame_error(phy_rx_error),
        .frame_end(phy_rx_end),
        .frame_data(phy_rx_data),
        .event_overflow(event_overflow),
        .event_damaged(event_damaged)
    );

    always_comb begin
        phy_events = '0;
        phy_events[EVENT_BAD_TOKEN] = event_token;
        phy_events[EVENT_BAD_STP] = event_stp;
        phy_events[EVENT_BAD_BLOCK] = event_block;
        phy_events[EVENT_BAD_SYMBOL] = event_damaged;
        phy_events[EVENT_BAD_FRAME] = event_bad_frame;
        phy_events[EVENT_RX_OVERFLOW] = event_overflow;
        phy_events[EVENT_TX_UNDERRUN] = event_underrun;
        phy_events[EVENT_TX_LENGTH] = event_length;
        phy_events[EVENT_SKP_SENT] = event_skp_sent;
        phy_events[EVENT_SKP_RECEIVED] = event_skp_received;
        phy_events[EVENT_RECOVERY] = event_recovery;
        phy_events[EVENT_LINK_DOWN] = event_down;
        phy_events[EVENT_TRAIN_TIMEOUT] = event_timeout;
        phy_events[EVENT_TX_FRAME] = event_tx_frame;
        phy_events[EVENT_RX_FRAME] = phy_rx_valid && phy_rx_eop;
        phy_events[EVENT_RX_ERROR] = phy_rx_valid && phy_rx_eop && phy_rx_error;
    end
    pcie_dll_counters #(
        .NUMBER(PHY_EVENTS),
        .WIDTH(COUNTER_WIDTH)
    ) counters (
        .clk(clk),
        .rst(rst),
        .events(phy_events),
        .counts(phy_counts)
    );
endmodule
