// SPDX-License-Identifier: Apache-2.0 OR MIT
// Decides on received Acks and Naks, and when to replay: ACKD_SEQ, REPLAY_TIMER, REPLAY_NUM (PCIe 6.0 §3.6.2.1, §3.6.2.2).
// Handshake: `replay` stays until replay_taken. retrain_request stays until the physical layer is in Recovery.
module pcie_dll_replay_control #(
    parameter int SEQ_BITS = 12  // less in proofs only
) (
    input logic clk,
    input logic rst,
    input logic enable,  // DL_Active

    input logic [15:0] replay_timer_limit,  // clock cycles
    input logic phy_recovery,
    output logic retrain_request,
    output logic hold,  // no TLP begins: the link must retrain first

    input logic ack_valid,  // an Ack or a Nak with a right CRC
    input logic ack_is_nak,
    input logic [SEQ_BITS-1:0] ack_seq,

    output logic [SEQ_BITS-1:0] acked_seq,  // ACKD_SEQ
    output logic purge,

    input logic [SEQ_BITS-1:0] sent_seq,
    input logic tlp_sent,
    input logic replaying,
    output logic replay,
    input logic replay_taken,

    output logic event_protocol_error,
    output logic event_timeout,
    output logic event_rollover,
    output logic event_nak,
    output logic event_replay
);
    // ---- Acks and Naks ----
    logic [SEQ_BITS-1:0] before_sent, after_acked;
    logic legal, current, nothing_left;

    // An Ack of a TLP that was never sent is a Data Link Protocol Error. An Ack before ACKD_SEQ is old and is dropped without an error.
    assign before_sent = sent_seq - ack_seq;
    assign after_acked = ack_seq - acked_seq;
    assign legal = before_sent <= SEQ_BITS'(2 ** (SEQ_BITS - 1));
    assign current = ack_valid && legal && !after_acked[SEQ_BITS-1];
    assign purge = current && after_acked != '0;
    assign nothing_left = ack_seq == sent_seq;
    assign event_protocol_error = enable && ack_valid && !legal;
    assign event_nak = enable && current && ack_is_nak;

    always_ff @(posedge clk)
        if (rst || !enable) acked_seq <= '1;
        else if (purge) acked_seq <= ack_seq;

    // ---- REPLAY_TIMER ----
    logic [15:0] timer;
    logic running, idle, expires;
    assign idle = acked_seq == sent_seq;
    // A replay that lasts longer than the timer is not interrupted: the timer then expires at its end.
    assign expires = running && timer >= replay_timer_limit && !replaying && !idle && !phy_recovery && !purge;
    assign event_timeout = enable && expires;

    always_ff @(posedge clk)
        if (rst || !enable) begin
            timer <= '0;
            running <= 1'b0;
        end else if (tlp_sent && !running) begin
            // Starts at the end of a TLP. After the start of a replay the timer does not run until the first TLP has
            // left again.
            timer <= '0;
            running <= 1'b1;
        end else if (purge) begin
            timer <= '0;
            running <= !nothing_left || tlp_sent;
        end else if (replay_taken || expires || (event_nak && !replaying) || (idle && !tlp_sent)) begin
            timer <= '0;
            running <= 1'b0;
        end else if (running && !phy_recovery && timer < replay_timer_limit) timer <= timer + 1'b1;

    // ---- REPLAY_NUM ----
    localparam logic [1:0] NORMAL = 2'd0;
    localparam logic [1:0] REQUEST = 2'd1;  // asks for Recovery
    localparam logic [1:0] RETRAIN = 2'd2;  // waits for its end
    localparam logic [1:0] DONE = 2'd3;     // the replay that waited for it may begin
    logic [1:0] replay_num, retrain;
    logic pending;

    assign replay = pending && !phy_recovery && (replay_num != 2'd3 || retrain == DONE);
    assign retrain_request = retrain == REQUEST;
    assign hold = retrain == REQUEST || retrain == RETRAIN;
    assign event_rollover = enable && pending && !idle && replay_num == 2'd3 && retrain == NORMAL && !purge;
    assign event_replay = enable && replay_taken && !idle;

    always_ff @(posedge clk)
        if (rst || !enable) begin
            pending <= 1'b0;
            replay_num <= '0;
            retrain <= NORMAL;
        end else begin
            if (expires || (event_nak && !nothing_left)) pending <= 1'b1;
            else if (replay_taken || idle) pending <= 1'b0;
            // Forward progress sets REPLAY_NUM back.
            if (purge) replay_num <= '0;
            else if (replay_taken && !idle) replay_num <= replay_num + 1'b1;
            case (retrain)
                NORMAL: if (event_rollover) retrain <= REQUEST;
                REQUEST: if (phy_recovery) retrain <= RETRAIN;
                RETRAIN: if (!phy_recovery) retrain <= DONE;
                default: if (replay_taken || !pending) retrain <= NORMAL;
            endcase
        end
endmodule
