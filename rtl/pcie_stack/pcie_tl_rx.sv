// SPDX-License-Identifier: Apache-2.0 OR MIT
// Receives TLPs: checks, buffers per VC and type, order and credits (PCIe 6.0 §2.4.1, §2.6.1.2).
// Handshake: README.md.
module pcie_tl_rx #(
    parameter int DATA_WIDTH = 256,
    parameter int NUM_VCS = 1,
    parameter int P_HEADERS = 96,
    parameter int P_DATA = 736,
    parameter int NP_HEADERS = 64,
    parameter int NP_DATA = 32,
    parameter int CPL_HEADERS = 96,
    parameter int CPL_DATA = 736,
    parameter int INFINITE_COMPLETIONS = 1,
    parameter int BLOCK = 1,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = LANES > 1 ? $clog2(LANES) : 1
) (
    input logic clk,
    input logic rst,
    input logic clear,
    input logic active,  // DL_Active
    input logic [NUM_VCS-1:0] clear_vc,
    input logic [NUM_VCS-1:0] vc_init2,
    input logic [NUM_VCS-1:0] vc_ready,
    input logic scaled,
    input logic [23:0] tc_map,
    input logic [2:0] max_payload,
    input logic [15:0] update_latency_limit,
    input logic [23:0] update_period,

    input logic tlp_valid,
    input logic tlp_sop,
    input logic tlp_eop,
    input logic tlp_good,
    input logic [LANE-1:0] tlp_end,
    input logic [DATA_WIDTH-1:0] tlp_data,
    output logic [NUM_VCS-1:0] vc_seen,

    input logic init2_valid,  // an InitFC2 of a channel that is ready
    input logic [2:0] init2_vc,
    output logic [72*NUM_VCS-1:0] init_fc,
    output logic fc_valid,
    output logic fc_urgent,
    output logic [1:0] fc_type,
    output logic [2:0] fc_vc,
    output logic [23:0] fc_value,
    input logic fc_ready,

    // Streams P, NP and Cpl; stream n in field n
    output logic [2:0] out_valid,
    output logic [2:0] out_sop,
    output logic [2:0] out_eop,
    output logic [2:0] out_cut,
    output logic [2:0] out_poisoned,
    output logic [8:0] out_vc,
    output logic [3*LANE-1:0] out_end,
    output logic [3*DATA_WIDTH-1:0] out_data,
    input logic [2:0] out_ready,

    output logic [6:0] malformed,
    output logic overflow,
    output logic poisoned,
    output logic received,
    output logic [127:0] header
);
    `include "pcie_tl.svh"
    localparam int ALL = 3 * NUM_VCS;
    localparam int OTHERS = 2 ** $clog2(NP_HEADERS > CPL_HEADERS ? NP_HEADERS : CPL_HEADERS);

    logic row_valid, row_first, row_commit, row_discard, row_relaxed, row_poisoned;
    logic [1:0] row_kind;
    logic [2:0] row_vc;
    logic [8:0] row_credits, need;
    logic [LANE-1:0] row_end;
    logic [DATA_WIDTH-1:0] row_data;
    logic [ALL-1:0] fits;
    pcie_tl_receiver #(
        .DATA_WIDTH(DATA_WIDTH),
        .NUM_VCS(NUM_VCS)
    ) receiver (
        .clk(clk),
        .rst(rst || clear),
        .tc_map(tc_map),
        .vc_open(vc_init2),
        .max_payload(max_payload),
        .tlp_valid(tlp_valid),
        .tlp_sop(tlp_sop),
        .tlp_eop(tlp_eop),
        .tlp_good(tlp_good),
        .tlp_end(tlp_end),
        .tlp_data(tlp_data),
        .need(need),
        .fits(fits),
        .row_valid(row_valid),
        .row_first(row_first),
        .row_commit(row_commit),
        .row_discard(row_discard),
        .row_vc(row_vc),
        .row_kind(row_kind),
        .row_credits(row_credits),
        .row_relaxed(row_relaxed),
        .row_poisoned(row_poisoned),
        .row_end(row_end),
        .row_data(row_data),
        .vc_seen(vc_seen),
        .malformed(malformed),
        .overflow(overflow),
        .poisoned(poisoned),
        .received(received),
        .header(header)
    );

    // ---- streams ----
    logic [3*NUM_VCS-1:0] waits, window, started, freed;  // by type, then VC
    logic [26:0] freed_credits;
    assign waits[NUM_VCS-1:0] = '0;
    assign window[NUM_VCS-1:0] = '0;
    for (genvar t = 0; t < 3; t++) begin : streams
        pcie_tl_rx_stream #(
            .DATA_WIDTH(DATA_WIDTH),
            .NUM_VCS(NUM_VCS),
            .HEADERS(t == 0 ? P_HEADERS : t == 1 ? NP_HEADERS : CPL_HEADERS),
            .DATA(t == 0 ? P_DATA : t == 1 ? NP_DATA : CPL_DATA),
            .BLOCK(BLOCK)
        ) stream (
            .clk(clk),
            .rst(rst),
            .clear(clear),
            .clear_vc(clear_vc),
            .row_valid(row_valid && row_kind == 2'(t)),
            .row_first(row_first),
            .row_commit(row_commit && row_kind == 2'(t)),
            .row_vc(row_vc),
            .row_credits(row_credits),
            .row_relaxed(row_relaxed),
            .row_poisoned(row_poisoned),
            .row_end(row_end),
            .row_data(row_data),
            .waits(waits[NUM_VCS*t+:NUM_VCS]),
            .window(window[NUM_VCS*t+:NUM_VCS]),
            .started(started[NUM_VCS*t+:NUM_VCS]),
            .freed(freed[NUM_VCS*t+:NUM_VCS]),
            .freed_credits(freed_credits[9*t+:9]),
            .out_valid(out_valid[t]),
            .out_sop(out_sop[t]),
            .out_eop(out_eop[t]),
            .out_cut(out_cut[t]),
            .out_poisoned(out_poisoned[t]),
            .out_vc(out_vc[3*t+:3]),
            .out_end(out_end[LANE*t+:LANE]),
            .out_data(out_data[DATA_WIDTH*t+:DATA_WIDTH]),
            .out_ready(out_ready[t])
        );
    end

    // ---- order and credits of each VC ----
    logic refresh;
    logic [ALL-1:0] due, refreshes, taken;
    logic [24*ALL-1:0] values;
    for (genvar vc = 0; vc < NUM_VCS; vc++) begin : channels
        logic here;
        logic [2:1] order_waits, order_window;
        assign here = row_vc == 3'(vc);
        pcie_tl_order #(
            .POSTED(2 ** $clog2(P_HEADERS)),
            .OTHERS(OTHERS)
        ) order (
            .clk(clk),
            .rst(rst || clear_vc[vc]),
            .push({here && row_commit && row_kind == TYPE_CPL, here && row_commit && row_kind == TYPE_NP, here && row_commit && row_kind == TYPE_P}),
            .start({started[2*NUM_VCS+vc], started[NUM_VCS+vc]}),
            .posted_done(freed[vc]),
            .waits(order_waits),
            .window(order_window)
        );
        assign {waits[2*NUM_VCS+vc], waits[NUM_VCS+vc]} = order_waits;
        assign {window[2*NUM_VCS+vc], window[NUM_VCS+vc]} = order_window;
        for (genvar t = 0; t < 3; t++) begin : types
            logic mine, is_due;
            assign mine = here && row_kind == 2'(t);
            assign due[3*vc+t] = is_due && vc_ready[vc];
            pcie_tl_rx_credits #(
                .HEADERS(t == 0 ? P_HEADERS : t == 1 ? NP_HEADERS : CPL_HEADERS),
                .DATA(t == 0 ? P_DATA : t == 1 ? NP_DATA : CPL_DATA),
                .INFINITE(t == 2 ? INFINITE_COMPLETIONS : 0)
            ) rx_credits (
                .clk(clk),
                .rst(rst || clear_vc[vc]),
                .scaled(scaled),
                .need(need),
                .fits(fits[3*vc+t]),
                .stored(row_commit && mine),
                .discarded(row_discard && mine),
                .freed(freed[NUM_VCS*t+vc]),
                .freed_credits(freed_credits[9*t+:9]),
                .refresh(refresh && vc_ready[vc]),
                .repeat_(init2_valid && init2_vc == 3'(vc) && vc_ready[vc]),
                .due(is_due),
                .refreshes(refreshes[3*vc+t]),
                .update_taken(taken[3*vc+t]),
                .init(init_fc[24*(3*vc+t)+:24]),
                .value(values[24*(3*vc+t)+:24])
            );
        end
    end

    pcie_tl_updates #(
        .NUM_VCS(NUM_VCS)
    ) updates (
        .clk(clk),
        .rst(rst || clear || !active),
        .latency_limit(update_latency_limit),
        .period(update_period),
        .due(due),
        .refreshes(refreshes),
        .values(values),
        .refresh(refresh),
        .taken(taken),
        .fc_valid(fc_valid),
        .fc_urgent(fc_urgent),
        .fc_type(fc_type),
        .fc_vc(fc_vc),
        .fc_value(fc_value),
        .fc_ready(fc_ready)
    );
endmodule
