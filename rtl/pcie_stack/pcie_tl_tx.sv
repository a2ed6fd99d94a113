// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sends TLPs: queues per VC and type, credits, order, VC arbitration (PCIe 6.0 §2.4.1, §2.6.1, §6.3.3).
// Handshake: README.md. A TLP is sent when it is complete, without a pause.
//
// A TLP waits in its queue. Its credits are taken when it moves to the slot after the queue. From the slots, the arbiter takes the TLPs that may pass by Table 2-40.
// verilator lint_off PINCONNECTEMPTY
module pcie_tl_tx #(
    parameter int DATA_WIDTH = 256,
    parameter int NUM_VCS = 1,
    parameter int MAX_TLP_BYTES = 544,
    parameter int ROWS = 128,  // of each queue
    parameter int TLPS = 16,
    parameter int BLOCK = 1,
    parameter int PHASES = 32,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = LANES > 1 ? $clog2(LANES) : 1
) (
    input logic clk,
    input logic rst,
    input logic clear,
    input logic active,   // DL_Active
    input logic [NUM_VCS-1:0] clear_vc,
    input logic [NUM_VCS-1:0] vc_ready,
    input logic scaled,
    input logic [23:0] tc_map,
    input logic [1:0] vc_arbitration,
    input logic [3*PHASES-1:0] vc_phases,

    input logic tx_valid,
    input logic tx_sop,
    input logic tx_eop,
    input logic [LANE-1:0] tx_end,
    input logic [DATA_WIDTH-1:0] tx_data,
    input logic [2:0] tx_vc,
    output logic tx_ready,
    output logic [3*NUM_VCS-1:0] tx_room,

    output logic tlp_valid,
    output logic tlp_sop,
    output logic tlp_eop,
    output logic tlp_nullify,
    output logic [LANE-1:0] tlp_end,
    output logic [DATA_WIDTH-1:0] tlp_data,
    input logic tlp_ready,

    input logic fc_valid,
    input logic fc_is_update,
    input logic [1:0] fc_type,
    input logic [2:0] fc_vc,
    input logic [23:0] fc_value,

    output logic [3*NUM_VCS-1:0] starved,
    output logic event_update,
    output logic event_init,
    output logic event_refused,
    output logic event_sent
);
    `include "pcie_tl.svh"
    localparam int MAX_ROWS = (MAX_TLP_BYTES + DATA_WIDTH / 8 - 1) / (DATA_WIDTH / 8);
    localparam int ROW = $clog2(ROWS);
    localparam int NOTE = 10;  // credits, relaxed
    localparam int ALL = 3 * NUM_VCS;
    localparam int REGIONS = 4 * NUM_VCS;  // VC above type, of which there are three

    // ---- beats into the queues ----
    logic in_tlp, dropping, offered_relaxed, relaxed, is_defined;
    logic [1:0] offered_kind, kind;
    logic [11:0] dwords;
    logic [8:0] offered_credits, credits;
    pcie_tl_header offered (
        .word(tx_data[31:0]),
        .is_defined(is_defined),
        .kind(offered_kind),
        .four(),
        .has_data(),
        .length(),
        .dwords(dwords),
        .credits(offered_credits),
        .relaxed(offered_relaxed)
    );

    // Only the first beat needs room. If the link goes down within a TLP, its remaining beats are taken and dropped.
    logic room_here, take, starts;
    always_comb begin
        room_here = 1'b1;
        for (int n = 0; n < ALL; n++) if (tx_vc == 3'(n / 3) && offered_kind == 2'(n % 3)) room_here = tx_room[n];
    end
    assign tx_ready = in_tlp || (active && !clear && room_here);
    assign take = tx_valid && tx_ready;
    assign starts = take && !in_tlp;

    logic next_valid, next_first, next_eop;
    logic [LANE-1:0] next_end;
    logic [DATA_WIDTH-1:0] next_data;
    logic [2:0] next_vc;
    logic [11:LANE] next_beat;  // number of this beat in the TLP
    logic [11:0] last;  // index of the last double-word, by the header
    logic sendable;
    always_ff @(posedge clk)
        if (rst) begin
            in_tlp <= 1'b0;
            dropping <= 1'b0;
            next_valid <= 1'b0;
        end else begin
            if (take) in_tlp <= !tx_eop && (in_tlp || tx_sop);
            if (clear) dropping <= in_tlp && !(take && tx_eop);
            else if (take && tx_eop) dropping <= 1'b0;
            next_valid <= take && (in_tlp || tx_sop) && !clear && !dropping;
        end
    always_ff @(posedge clk) begin
        next_first <= !in_tlp;
        next_eop <= tx_eop;
        next_end <= tx_end;
        next_data <= tx_data;
        if (starts) begin
            next_vc <= tx_vc;
            kind <= offered_kind;
            credits <= offered_credits;
            relaxed <= offered_relaxed;
            last <= dwords - 12'd1;
            sendable <= is_defined && dwords <= 12'(MAX_TLP_BYTES / 4) && tc_map[3*tx_data[14:12]+:3] == tx_vc;
        end
        if (take) next_beat <= in_tlp ? next_beat + 1'b1 : '0;
    end

    logic stores, commits;
    assign stores = next_valid && sendable && next_beat <= last[11:LANE];
    assign commits = stores && next_eop && {next_beat, next_end} == last;
    assign event_refused = next_valid && next_eop && !commits;

    // ---- queues, credits and order ----
    logic [ALL-1:0] slot_valid, may_leave, picked, bad_update, bad_init;
    logic [NUM_VCS-1:0] requests;
    logic [ROW*ALL-1:0] write_rows, starts_of, ends_of;
    for (genvar vc = 0; vc < NUM_VCS; vc++) begin : channels
        logic clears;
        logic [2:0] pushed;
        logic [2:1] waits, window;
        assign clears = rst || clear_vc[vc];
        pcie_tl_order #(
            .POSTED(TLPS * 2),
            .OTHERS(TLPS * 2)
        ) order (
            .clk(clk),
            .rst(clears),
            .push(pushed),
            .start(picked[3*vc+1+:2]),
            .posted_done(picked[3*vc]),
            .waits(waits),
            .window(window)
        );
        for (genvar t = 0; t < 3; t++) begin : types
            localparam int Q = 3 * vc + t;
            logic here, head_valid, grant, slot_relaxed;
            logic [ROW-1:0] head_start, head_end, used, slot_start, slot_end;
            logic [NOTE-1:0] head_note;
            logic [$clog2(TLPS):0] count;
            assign here = next_vc == 3'(vc) && kind == 2'(t);
            assign pushed[t] = here && commits;
            pcie_tl_queue #(
                .ROWS(ROWS),
                .TLPS(TLPS),
                .NOTE(NOTE)
            ) queue (
                .clk(clk),
                .rst(clears),
                .row(here && stores),
                .first(next_first),
                .commit(here && commits),
                .note({credits, relaxed}),
                .write_row(write_rows[ROW*Q+:ROW]),
                .head_valid(head_valid),
                .head_start(head_start),
                .head_end(head_end),
                .head_note(head_note),
                .pop(grant),
                .used(used),
                .count(count)
            );
            // TLPs that are not in `used`: one in the slot, one that is read, and up to three that have just come, of which two are of one row.
            // TLPs that are not in `count`: one that ends now, and one that may begin before `tx_room` falls.
            localparam int COUNT = $clog2(TLPS) + 1;
            logic ends;
            assign ends = here && next_valid && next_eop;
            always_ff @(posedge clk)
                tx_room[Q] <= !clears && used < ROW'(ROWS - 4 * MAX_ROWS - 2) && count < COUNT'(TLPS - 1) && !(ends && count == COUNT'(TLPS - 2));

            pcie_tl_tx_credits #(
                .IS_POSTED(t == 0 ? 1 : 0)
            ) tx_credits (
                .clk(clk),
                .rst(clears),
                .scaled(scaled),
                .fc_valid(fc_valid && fc_vc == 3'(vc) && fc_type == 2'(t)),
                .fc_is_update(fc_is_update),
                .fc_value(fc_value),
                .tlp_valid(head_valid),
                .tlp_credits(head_note[9:1]),
                .slot_free(!slot_valid[Q] || picked[Q]),
                .grant(grant),
                .starved(starved[Q]),
                .bad_update(bad_update[Q]),
                .bad_init(bad_init[Q])
            );
            always_ff @(posedge clk)
                if (clears) slot_valid[Q] <= 1'b0;
                else if (grant) slot_valid[Q] <= 1'b1;
                else if (picked[Q]) slot_valid[Q] <= 1'b0;
            always_ff @(posedge clk)
                if (grant) begin
                    slot_start <= head_start;
                    slot_end <= head_end;
                    slot_relaxed <= head_note[0];
                end
            assign starts_of[ROW*Q+:ROW] = slot_start;
            assign ends_of[ROW*Q+:ROW] = slot_end;
            if (t == 0) begin : posted
                assign may_leave[Q] = slot_valid[Q] && vc_ready[vc];
                logic unused;
                assign unused = slot_relaxed;
            end else begin : others
                assign may_leave[Q] = slot_valid[Q] && vc_ready[vc] && (!waits[t] || (slot_relaxed && window[t]));
            end
        end
        assign requests[vc] = |may_leave[3*vc+:3];
    end
    assign event_update = |bad_update;
    assign event_init = |bad_init;

    // ---- arbitration: a VC, then a type in round-robin order ----
    logic pick_ready, pick_valid;
    logic [2:0] choice, leaves;
    logic [1:0] last_type, choice_type;
    logic [ROW-1:0] pick_start, pick_end, write_row;
    assign pick_valid = requests != '0 && !clear;
    pcie_tl_arbiter #(
        .NUM_VCS(NUM_VCS),
        .PHASES(PHASES)
    ) arbiter (
        .clk(clk),
        .rst(rst || clear),
        .mode(vc_arbitration),
        .phases(vc_phases),
        .requests(requests),
        .taken(pick_valid && pick_ready),
        .choice(choice)
    );
    always_comb begin
        leaves = '0;
        for (int n = 0; n < NUM_VCS; n++) if (choice == 3'(n)) leaves = may_leave[3*n+:3];
        case (last_type)
            TYPE_P: choice_type = leaves[1] ? TYPE_NP : leaves[2] ? TYPE_CPL : TYPE_P;
            TYPE_NP: choice_type = leaves[2] ? TYPE_CPL : leaves[0] ? TYPE_P : TYPE_NP;
            default: choice_type = leaves[0] ? TYPE_P : leaves[1] ? TYPE_NP : TYPE_CPL;
        endcase
        picked = '0;
        pick_start = '0;
        pick_end = '0;
        write_row = '0;
        for (int n = 0; n < ALL; n++) begin
            if (choice == 3'(n / 3) && choice_type == 2'(n % 3)) begin
                picked[n] = pick_valid && pick_ready;
                pick_start = starts_of[ROW*n+:ROW];
                pick_end = ends_of[ROW*n+:ROW];
            end
            if (next_vc == 3'(n / 3) && kind == 2'(n % 3)) write_row = write_rows[ROW*n+:ROW];
        end
    end
    always_ff @(posedge clk)
        if (rst) last_type <= TYPE_CPL;
        else if (pick_valid && pick_ready) last_type <= choice_type;
    assign event_sent = pick_valid && pick_ready;

    localparam int REGION = $clog2(REGIONS);
    logic cut;
    pcie_tl_reader #(
        .DATA_WIDTH(DATA_WIDTH),
        .QUEUES(REGIONS),
        .ROWS(ROWS),
        .NOTE(1),
        .BLOCK(BLOCK)
    ) reader (
        .clk(clk),
        .rst(rst),
        .clear(clear),
        .write(stores),
        .write_queue(REGION'({next_vc, kind})),
        .write_row(write_row),
        .write_end(next_end),
        .write_data(next_data),
        .pick_valid(pick_valid),
        .pick_ready(pick_ready),
        .pick_queue(REGION'({choice, choice_type})),
        .pick_start(pick_start),
        .pick_end(pick_end),
        .pick_note(1'b0),
        .out_valid(tlp_valid),
        .out_sop(tlp_sop),
        .out_eop(tlp_eop),
        .out_cut(cut),
        .out_end(tlp_end),
        .out_data(tlp_data),
        .out_queue(),
        .out_note(),
        .out_ready(tlp_ready)
    );
    assign tlp_nullify = cut;
endmodule
