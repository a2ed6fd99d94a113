// SPDX-License-Identifier: Apache-2.0 OR MIT
// The replay buffer for proofs, with few numbers and short rows. The solver decides all else. It chooses the times and
// lengths of TLPs, and which TLPs are nullified, when the wire is ready, which of the sent TLPs are acknowledged, when
// to replay and when to hold.
//
// A row holds its TLP's sequence number and its place in the TLP. The assertions: each frame that leaves is one whole TLP; a replay begins at the
// oldest unacknowledged TLP; new TLPs leave in order, without a gap.
module buffer #(
    parameter int SEQ_BITS = 3,
    parameter int ROWS = 8,
    parameter int TLPS = 2,
    parameter int MAX_ROWS = 3,
    parameter int CUT_THROUGH = 1
) (
    input logic clk,
    input logic rst,
    input logic i_begin,
    input logic i_continue,
    input logic i_final,
    input logic i_nullify,
    input logic i_ready,
    input logic i_purge,
    input logic [SEQ_BITS-1:0] i_purge_seq,
    input logic i_replay,
    input logic i_hold
);
    localparam int WIDTH = SEQ_BITS + 2;

    // ---- the framer, in short: rows come two cycles after the question for room ----
    logic room, rewound, rewinding, begins, makes, final_row;
    logic [1:0] place;
    logic [SEQ_BITS-1:0] next_transmit_seq, acked_seq, unacknowledged;
    assign unacknowledged = next_transmit_seq - acked_seq - 1'b1;
    assign begins = place == '0 && i_begin && room && unacknowledged < SEQ_BITS'(TLPS) && !rewinding;
    assign makes = begins || (place != '0 && i_continue);
    assign final_row = i_final || place == 2'(MAX_ROWS - 1);

    logic first_valid, first_last, first_nullified, row_valid, row_last, row_nullified;
    logic [WIDTH-1:0] first_data, row_data;
    always_ff @(posedge clk)
        if (rst) begin
            place <= '0;
            rewinding <= 1'b0;
            next_transmit_seq <= '0;
            first_valid <= 1'b0;
            row_valid <= 1'b0;
        end else begin
            if (makes) place <= final_row ? '0 : place + 1'b1;
            if (makes && final_row) begin
                if (i_nullify) rewinding <= CUT_THROUGH != 0;
                else next_transmit_seq <= next_transmit_seq + 1'b1;
            end
            if (rewound) rewinding <= 1'b0;
            first_valid <= makes;
            first_last <= final_row;
            first_nullified <= i_nullify && final_row;
            first_data <= {place, next_transmit_seq};
            row_valid <= first_valid;
            row_last <= first_last;
            row_nullified <= first_nullified;
            row_data <= first_data;
        end

    // ---- Acks: of any TLP that was sent and is not acknowledged ----
    logic [SEQ_BITS-1:0] sent_seq;
    logic purge;
    assign purge = i_purge && SEQ_BITS'(i_purge_seq - acked_seq - 1'b1) < SEQ_BITS'(sent_seq - acked_seq);
    always_ff @(posedge clk)
        if (rst) acked_seq <= '1;
        else if (purge) acked_seq <= i_purge_seq;

    logic replay_taken, out_valid, out_last, out_nullified, out_take, tlp_sent, replaying;
    logic [WIDTH-1:0] out_data;
    assign out_take = out_valid && i_ready;
    pcie_dll_replay_buffer #(
        .DATA_WIDTH(WIDTH),
        .ROWS(ROWS),
        .TLPS(TLPS),
        .MAX_ROWS(MAX_ROWS),
        .CUT_THROUGH(CUT_THROUGH),
        .SEQ_BITS(SEQ_BITS)
    ) replay_buffer (
        .clk(clk),
        .rst(rst),
        .enable(1'b1),
        .row_valid(row_valid),
        .row_last(row_last),
        .row_nullified(row_nullified),
        .row_end(1'b0),
        .row_data(row_data),
        .room(room),
        .rewound(rewound),
        .purge(purge),
        .purge_seq(i_purge_seq[$clog2(TLPS)-1:0]),
        .acked_seq(acked_seq),
        .replay(i_replay),
        .replay_taken(replay_taken),
        .hold(i_hold),
        .out_valid(out_valid),
        .out_last(out_last),
        .out_nullified(out_nullified),
        .out_end(),
        .out_data(out_data),
        .out_take(out_take),
        .sent_seq(sent_seq),
        .tlp_sent(tlp_sent),
        .replaying(replaying)
    );

    // ---- what must hold ----
    logic f_started, f_within, f_replays;
    initial f_started = 1'b0;
    logic [SEQ_BITS-1:0] f_seq, f_sent;  // of the TLP that leaves; the newest that has left
    logic [1:0] f_place;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            f_within <= 1'b0;
            f_place <= '0;
            f_sent <= '1;
            f_replays <= 1'b0;
        end else begin
            assert (sent_seq == f_sent);
            assert (!(replay_taken && f_within));
            if (replay_taken) f_replays <= 1'b1;
            if (out_take) begin
                // Whole: places count up from 0, all of one TLP.
                assert (out_data[WIDTH-1-:2] == f_place);
                if (f_within) assert (out_data[SEQ_BITS-1:0] == f_seq);
                else begin
                    // Unacknowledged, and none left out; after a replay has begun, the oldest.
                    assert (SEQ_BITS'(out_data[SEQ_BITS-1:0] - acked_seq - 1'b1) <= SEQ_BITS'(f_sent - acked_seq));
                    if (f_replays) assert (out_data[SEQ_BITS-1:0] == SEQ_BITS'(acked_seq + 1'b1));
                    f_replays <= 1'b0;
                end
                f_within <= !out_last;
                f_place <= out_last ? '0 : f_place + 1'b1;
                f_seq <= out_data[SEQ_BITS-1:0];
                if (tlp_sent && out_data[SEQ_BITS-1:0] == SEQ_BITS'(f_sent + 1'b1)) f_sent <= f_sent + 1'b1;
            end
        end
    end
endmodule
