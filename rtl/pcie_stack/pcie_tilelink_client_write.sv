// SPDX-License-Identifier: Apache-2.0 OR MIT
// Write channels of the AXI4 slave of pcie_tilelink_client. Bursts become Puts. A Put is offered when its last beat is here, so that a burst on
// channel A has no pauses. Up to SLOTS are in flight; slots are a ring. The response of a burst comes after the answers of its Puts.
// TileLink keeps no order of requests in flight. With ORDERED, the first Put of a burst waits until all earlier ones have been answered.
// Handshake: AXI4; put_* are beats of a Put to channel A; answer_* is an AccessAck for a slot that waits.
module pcie_tilelink_client_write #(
    parameter int DATA_WIDTH = 64,
    parameter int ID_BITS = 4,
    parameter int LONGEST = 6,
    parameter int SLOTS = 8,
    parameter int ORDERED = 1,
    localparam int BYTES = DATA_WIDTH / 8,
    localparam int BYTE = $clog2(BYTES),
    localparam int BEAT = LONGEST > BYTE ? LONGEST - BYTE : 1,
    localparam int BEATS = 2 ** (LONGEST - BYTE),
    localparam int SLOT = $clog2(SLOTS)
) (
    input logic clk,
    input logic rst,

    input logic awvalid,
    output logic awready,
    input logic [ID_BITS-1:0] awid,
    input logic [63:0] awaddr,
    input logic [7:0] awlen,
    input logic [2:0] awsize,
    input logic [1:0] awburst,
    input logic wvalid,
    output logic wready,
    input logic [DATA_WIDTH-1:0] wdata,
    input logic [BYTES-1:0] wstrb,
    input logic wlast,
    output logic bvalid,
    input logic bready,
    output logic [ID_BITS-1:0] bid,
    output logic [1:0] bresp,

    output logic put_valid,
    input logic put_ready,
    output logic put_last,
    output logic put_full,          // all lanes of all beats
    output logic [SLOT-1:0] put_slot,
    output logic [63:0] put_address,
    output logic [3:0] put_size,
    output logic [BYTES-1:0] put_mask,
    output logic [DATA_WIDTH-1:0] put_data,

    input logic stalled,            // the bus is given up
    output logic [SLOTS-1:0] owed,  // Puts without an answer, also those that are not sent yet
    output logic [SLOTS-1:0] sent,  // of these, the ones whose first beat has been sent
    output logic [3:0] owed_size,   // of answer_slot
    input logic answer_valid,
    input logic [SLOT-1:0] answer_slot,
    input logic answer_denied,

    output logic bad_burst,
    output logic given_up
);
    `include "pcie_tilelink.svh"

    // ---- a burst, cut into Puts ----
    typedef enum logic [1:0] {IDLE, DECODE, COLLECT} state_t;
    state_t state;
    logic [ID_BITS-1:0] id;
    logic [63:0] address;
    logic [7:0] left;
    logic [2:0] size;
    logic [1:0] burst;
    logic wrong, late_wrong, was_wrong, was_late, first, takes, ring_full, store_ready, enters;
    // verilator lint_off UNUSEDSIGNAL
    logic [15:0] page_end;          // only the carry counts
    // verilator lint_on UNUSEDSIGNAL
    logic [6:0] low_mask;
    logic [3:0] message_size;
    logic [BEAT-1:0] piece_last, piece_left, rest;
    logic piece_first, piece_ends, piece_full, full;
    logic [63:0] piece_address;
    logic [3:0] piece_size;
    logic [BYTES-1:0] lanes;
    assign awready = state == IDLE;
    assign low_mask = ~(7'h7f << size);
    assign page_end = ({4'd0, address[11:0]} & ~{9'd0, low_mask}) + (16'(left) << size) + {9'd0, low_mask};
    assign wrong = 32'(size) > BYTE || (burst != 2'b01 && left != '0) || burst == 2'b11 || page_end[15:12] != '0;
    assign late_wrong = wlast != (left == '0);
    assign bad_burst = (state == DECODE && wrong) || (takes && late_wrong);
    pcie_tilelink_client_split #(
        .BYTE(BYTE),
        .LONGEST(LONGEST)
    ) split (
        .address(address[11:0]),
        .left(left),
        .size(size),
        .last(piece_last),
        .message_size(message_size)
    );
    // A wrong burst is one message, which is not sent.
    assign rest = piece_first ? piece_last : piece_left;
    assign piece_ends = was_wrong ? left == '0 : rest == '0;
    assign wready = state == COLLECT && (was_wrong || store_ready) && (!piece_ends || !ring_full);
    assign takes = wvalid && wready;
    assign enters = takes && piece_ends;
    for (genvar n = 0; n < BYTES; n++) begin : each_lane
        assign lanes[n] = (BYTE'(n) >> size) == (address[BYTE-1:0] >> size) || 32'(size) >= BYTE;
    end
    assign full = (piece_first || piece_full) && wstrb == lanes;
    always_ff @(posedge clk)
        if (rst) state <= IDLE;
        else
            case (state)
                IDLE: if (awvalid) state <= DECODE;
                DECODE: state <= COLLECT;
                default: if (takes && left == '0) state <= IDLE;
            endcase
    always_ff @(posedge clk) begin
        if (state == IDLE) begin
            id <= awid;
            address <= awaddr;
            left <= awlen;
            size <= awsize;
            burst <= awburst;
        end
        if (state == DECODE) begin
            address[6:0] <= address[6:0] & ~low_mask;
            was_wrong <= wrong;
            first <= 1'b1;
            piece_first <= 1'b1;
        end
        if (takes) begin
            address[11:0] <= address[11:0] + (12'd1 << size);
            left <= left - 1'b1;
            piece_left <= rest - 1'b1;
            piece_first <= piece_ends;
            piece_full <= full;
            if (piece_first) begin
                piece_address <= address;
                piece_size <= message_size;
            end
            if (piece_ends) first <= 1'b0;
        end
    end

    // ---- slots ----
    logic [SLOT:0] head, tail;
    logic [SLOTS-1:0] failed, denied, ends, enter_slots, done_slots, drop_slots, send_slots;
    logic [ID_BITS-1:0] slot_id[0:SLOTS-1];
    logic [3:0] slot_size[0:SLOTS-1];
    logic [SLOTS-1:0] late;         // a wrong burst or WLAST: its answer is SLVERR
    logic queued, fill, drops, row_valid, row_last, row_pop, queue_valid, may_send, sending, next_first, early, was_early;
    assign ring_full = tail - head == (SLOT + 1)'(SLOTS);
    assign queued = enters && !was_wrong && !stalled;
    assign enter_slots = enters ? SLOTS'(1) << tail[SLOT-1:0] : '0;
    // The bus may answer a Put after its first beat. The slot is in use until its last beat has been sent.
    assign early = answer_valid && queue_valid && answer_slot == put_slot && !(row_pop && row_last);
    assign done_slots = (answer_valid && !early ? SLOTS'(1) << answer_slot : '0) | (was_early && row_pop && row_last ? SLOTS'(1) << put_slot : '0);
    assign drop_slots = drops && row_last ? SLOTS'(1) << put_slot : '0;
    assign send_slots = put_valid && put_ready ? SLOTS'(1) << put_slot : '0;
    assign owed_size = slot_size[answer_slot];
    always_ff @(posedge clk)
        if (rst) begin
            owed <= '0;
            sent <= '0;
            failed <= '0;
            was_early <= 1'b0;
            head <= '0;
            tail <= '0;
        end else begin
            owed <= (owed & ~done_slots & ~drop_slots) | (queued ? enter_slots : '0);
            sent <= (sent & ~done_slots) | (send_slots & ~done_slots);
            failed <= (failed & ~enter_slots) | (stalled ? owed & ~done_slots : '0) | (enters && stalled && !was_wrong ? enter_slots : '0);
            was_early <= (was_early || early) && !(row_pop && row_last);
            tail <= tail + (SLOT + 1)'(enters);
            head <= head + (SLOT + 1)'(fill);
        end
    always_ff @(posedge clk) begin
        denied <= (denied & ~(queued ? enter_slots : '0)) | (answer_valid && answer_denied ? SLOTS'(1) << answer_slot : '0);
        was_late <= state != DECODE && !enters && (was_late || (takes && late_wrong));
        if (enters) begin
            slot_id[tail[SLOT-1:0]] <= id;
            ends[tail[SLOT-1:0]] <= left == '0;
            late[tail[SLOT-1:0]] <= was_wrong || was_late || late_wrong;
        end
        // The bus may still answer an earlier Put of a slot that is not sent.
        if (queued) slot_size[tail[SLOT-1:0]] <= piece_first ? message_size : piece_size;
    end

    // ---- Puts to channel A ----
    // verilator lint_off PINCONNECTEMPTY
    pcie_stack_store #(
        .WIDTH(DATA_WIDTH + BYTES),
        .ROWS(BEATS > 2 ? 2 * BEATS : 4)
    ) store (
        .clk(clk),
        .rst(rst),
        .in_valid(takes && !was_wrong),
        .in_ready(store_ready),
        .in_eop(piece_ends),
        .in_cut(stalled),
        .in_row({wstrb & lanes, wdata}),
        .out_valid(row_valid),
        .out_ready(row_pop),
        .out_eop(row_last),
        .out_row({put_mask, put_data}),
        .tlps()
    );
    pcie_tl_fifo #(
        .WIDTH(SLOT + 4 + 64 + 2),
        .DEPTH(SLOTS)
    ) queue (
        .clk(clk),
        .rst(rst),
        .push(queued),
        .push_data({tail[SLOT-1:0], piece_first ? message_size : piece_size, piece_first ? address : piece_address, full, first}),
        .pop(row_pop && row_last),
        .valid(queue_valid),
        .head({put_slot, put_size, put_address, put_full, next_first}),
        .count()
    );
    // verilator lint_on PINCONNECTEMPTY
    assign may_send = sending || (!stalled && (ORDERED == 0 || !next_first || (owed & sent) == '0));
    assign put_valid = row_valid && may_send;
    assign put_last = row_last;
    assign drops = row_valid && stalled && !sending;
    assign row_pop = (put_valid && put_ready) || drops;
    always_ff @(posedge clk)
        if (rst) sending <= 1'b0;
        else if (put_valid && put_ready) sending <= !row_last;

    // ---- responses, in order ----
    logic fails;
    logic [1:0] worst, response;
    assign fails = failed[head[SLOT-1:0]];
    assign fill = tail != head && (fails || !owed[head[SLOT-1:0]]) && (!bvalid || bready);
    assign given_up = fill && fails;
    assign response = worst | (fails || late[head[SLOT-1:0]] ? SLVERR : denied[head[SLOT-1:0]] ? DECERR : OKAY);
    always_ff @(posedge clk)
        if (rst) begin
            bvalid <= 1'b0;
            worst <= OKAY;
        end else begin
            if (fill && ends[head[SLOT-1:0]]) bvalid <= 1'b1;
            else if (bready) bvalid <= 1'b0;
            if (fill) worst <= ends[head[SLOT-1:0]] ? OKAY : response;
        end
    always_ff @(posedge clk)
        if (fill) begin
            bid <= slot_id[head[SLOT-1:0]];
            bresp <= response;
        end
endmodule
