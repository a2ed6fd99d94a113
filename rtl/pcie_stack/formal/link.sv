// SPDX-License-Identifier: Apache-2.0 OR MIT
// A link for proofs: the transmit side (replay buffer and replay control), a channel, and the receive side (sequence
// check and acknowledge), with few numbers and short rows. The solver decides all free inputs. It chooses the times and
// lengths of TLPs, which TLPs are nullified, and when the wire is ready. It also chooses the frames that the channel
// loses, doubles or damages in both directions, when REPLAY_TIMER expires, and Recovery.
//
// Two TLPs are marked, 1 before 2. Data do not influence control, so a property of these two TLPs holds for any two. If
// 1 is accepted at most once, and 2 at most once and not before 1, then no TLP is lost, duplicated or reordered.
module link #(
    parameter int SEQ_BITS = 3,
    parameter int ROWS = 8,
    parameter int TLPS = 2,
    parameter int MAX_ROWS = 2,
    parameter int CUT_THROUGH = 1,
    localparam int WIDTH = SEQ_BITS + 2
) (
    input logic clk,
    input logic rst,
    input logic i_begin,
    input logic i_long,
    input logic i_continue,
    input logic i_nullify,
    input logic [1:0] i_mark,
    input logic i_ready,
    input logic i_expire,
    input logic i_recovery,
    input logic i_deliver,
    input logic i_damage,
    input logic i_double,
    input logic i_lose,
    input logic i_lose_ack,
    input logic i_ack_ready,
    input logic i_ack_deliver,
    input logic i_ack_double,
    input logic i_ack_lose
);
    // ---- the framer, in short: rows come two cycles after the question for room ----
    logic room, rewound, rewinding, within, begins, makes, final_row, nullifies;
    logic [SEQ_BITS-1:0] next_transmit_seq, acked_seq, unacknowledged;
    logic [1:0] mark, marks_used;
    assign unacknowledged = next_transmit_seq - acked_seq - 1'b1;
    assign begins = !within && i_begin && room && unacknowledged < SEQ_BITS'(TLPS) && !rewinding;
    assign makes = begins || (within && i_continue);
    assign final_row = within || !i_long || MAX_ROWS == 1;
    assign nullifies = i_nullify;
    // Marks are used in order, once each, and not by nullified TLPs: a TLP that turns out to be nullified has lost its mark for all.
    logic [1:0] new_mark;
    assign new_mark = i_mark == marks_used + 2'd1 && i_mark != 2'd3 ? i_mark : 2'd0;

    logic first_valid, first_last, first_nullified, row_valid, row_last, row_nullified;
    logic [WIDTH-1:0] first_data, row_data;
    always_ff @(posedge clk)
        if (rst) begin
            within <= 1'b0;
            rewinding <= 1'b0;
            next_transmit_seq <= '0;
            marks_used <= '0;
            first_valid <= 1'b0;
            row_valid <= 1'b0;
        end else begin
            if (makes) within <= !final_row;
            if (begins) mark <= new_mark;
            if (makes && final_row) begin
                if (nullifies) rewinding <= CUT_THROUGH != 0;
                else begin
                    next_transmit_seq <= next_transmit_seq + 1'b1;
                    if ((begins ? new_mark : mark) != '0) marks_used <= begins ? new_mark : mark;
                end
            end
            if (rewound) rewinding <= 1'b0;
            first_valid <= makes;
            first_last <= final_row;
            first_nullified <= nullifies;
            first_data <= {begins ? new_mark : mark, next_transmit_seq};
            row_valid <= first_valid;
            row_last <= first_last;
            row_nullified <= first_nullified;
            row_data <= first_data;
        end

    // ---- the transmit side ----
    logic purge, replay, replay_taken, hold, out_valid, out_last, out_nullified, out_take, tlp_sent, replaying;
    logic [SEQ_BITS-1:0] sent_seq, ack_seq;
    logic [WIDTH-1:0] out_data;
    logic ack_valid, ack_is_nak;
    assign out_take = out_valid && i_ready;
    pcie_dll_replay_buffer #(
        .DATA_WIDTH(WIDTH),
        .ROWS(ROWS),
        .TLPS(TLPS),
        .MAX_ROWS(MAX_ROWS),
        .CUT_THROUGH(CUT_THROUGH),
        .SEQ_BITS(SEQ_BITS)
    ) buffer (
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
        .purge_seq(ack_seq[$clog2(TLPS)-1:0]),
        .acked_seq(acked_seq),
        .replay(replay),
        .replay_taken(replay_taken),
        .hold(hold),
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
    pcie_dll_replay_control #(
        .SEQ_BITS(SEQ_BITS)
    ) control (
        .clk(clk),
        .rst(rst),
        .enable(1'b1),
        .replay_timer_limit({15'd0, !i_expire}),
        .phy_recovery(i_recovery),
        .retrain_request(),
        .hold(hold),
        .ack_valid(ack_valid),
        .ack_is_nak(ack_is_nak),
        .ack_seq(ack_seq),
        .acked_seq(acked_seq),
        .purge(purge),
        .sent_seq(sent_seq),
        .tlp_sent(tlp_sent),
        .replaying(replaying),
        .replay(replay),
        .replay_taken(replay_taken),
        .event_protocol_error(protocol_error),
        .event_timeout(),
        .event_rollover(),
        .event_nak(),
        .event_replay()
    );
    logic protocol_error;

    // ---- the channel there: two frames ----
    logic [1:0] way;
    logic [WIDTH-1:0] older, newer;
    logic pushes, pops, arrives;
    assign pushes = tlp_sent && !i_lose;
    assign arrives = way != '0 && i_deliver;
    assign pops = arrives && !i_double;
    always_ff @(posedge clk)
        if (rst) way <= '0;
        else begin
            if (pops) older <= newer;
            if (pushes && (way != 2'd2 || pops)) begin
                if (way == 2'(pops)) older <= out_data;
                else newer <= out_data;
            end
            way <= way - 2'(pops) + 2'(pushes && (way != 2'd2 || pops));
        end

    // ---- the receive side ----
    logic accepted, duplicate, gap, ack_request, nak_request, ack_taken, nak_taken;
    logic [SEQ_BITS-1:0] next_rcv_seq;
    pcie_dll_sequence #(
        .SEQ_BITS(SEQ_BITS)
    ) sequence_check (
        .clk(clk),
        .rst(rst),
        .sound(arrives && !i_damage),
        .seq(older[SEQ_BITS-1:0]),
        .accepted(accepted),
        .duplicate(duplicate),
        .gap(gap),
        .next_rcv_seq(next_rcv_seq)
    );
    pcie_dll_acknowledge acknowledge (
        .clk(clk),
        .rst(rst),
        .clear(1'b0),
        .ack_latency_limit(16'd0),
        .ack_count_limit(8'd0),
        .accepted(accepted),
        .duplicate(duplicate),
        .bad(gap || (arrives && i_damage)),
        .ack_request(ack_request),
        .nak_request(nak_request),
        .ack_taken(ack_taken),
        .nak_taken(nak_taken)
    );
    assign nak_taken = nak_request && i_ack_ready;
    assign ack_taken = ack_request && !nak_request && i_ack_ready;

    // ---- the channel back: two Acks or Naks ----
    logic [1:0] back;
    logic [SEQ_BITS:0] older_ack, newer_ack, new_ack;
    logic ack_pushes, ack_pops;
    assign new_ack = {nak_taken, SEQ_BITS'(next_rcv_seq - 1'b1)};
    assign ack_pushes = (nak_taken || ack_taken) && !i_lose_ack && (back != 2'd2 || ack_pops);
    assign ack_pops = back != '0 && i_ack_deliver && !i_ack_double;
    assign ack_valid = back != '0 && i_ack_deliver && !i_ack_lose;
    assign {ack_is_nak, ack_seq} = older_ack;
    always_ff @(posedge clk)
        if (rst) back <= '0;
        else begin
            if (ack_pops) older_ack <= newer_ack;
            if (ack_pushes) begin
                if (back == 2'(ack_pops)) older_ack <= new_ack;
                else newer_ack <= new_ack;
            end
            back <= back - 2'(ack_pops) + 2'(ack_pushes);
        end

    // ---- what must hold ----
    logic f_started, f_got_1, f_got_2, f_within;
    initial f_started = 1'b0;
    logic [WIDTH-1:0] f_data;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            f_got_1 <= 1'b0;
            f_got_2 <= 1'b0;
            f_within <= 1'b0;
        end else begin
            if (accepted && older[WIDTH-1-:2] == 2'd1) begin
                assert (!f_got_1 && !f_got_2);
                f_got_1 <= 1'b1;
            end
            if (accepted && older[WIDTH-1-:2] == 2'd2) begin
                assert (f_got_1 && !f_got_2);
                f_got_2 <= 1'b1;
            end
            // The rows of a frame are of one TLP.
            if (out_take) begin
                if (f_within) assert (out_data == f_data);
                f_within <= !out_last;
                f_data <= out_data;
            end
            assert (!protocol_error);
            // No TLP is dropped from the buffer before it was accepted, and none is accepted that was not sent.
            assert (SEQ_BITS'(next_rcv_seq - acked_seq - 1'b1) <= SEQ_BITS'(TLPS));
        end
    end
endmodule
