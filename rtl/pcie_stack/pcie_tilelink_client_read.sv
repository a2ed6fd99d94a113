// SPDX-License-Identifier: Apache-2.0 OR MIT
// Read channels of the AXI4 slave of pcie_tilelink_client. Bursts become Gets, up to SLOTS in flight, and are answered in the order in which
// they came. Slots are a ring; a slot has the data of one Get.
// Handshake: AXI4; get_* to channel A; answer_* are beats of AccessAckData for a slot that waits.
module pcie_tilelink_client_read #(
    parameter int DATA_WIDTH = 64,
    parameter int ID_BITS = 4,
    parameter int LONGEST = 6,
    parameter int SLOTS = 8,
    localparam int BYTES = DATA_WIDTH / 8,
    localparam int BYTE = $clog2(BYTES),
    localparam int BEAT = LONGEST > BYTE ? LONGEST - BYTE : 1,
    localparam int SLOT = $clog2(SLOTS)
) (
    input logic clk,
    input logic rst,

    input logic arvalid,
    output logic arready,
    input logic [ID_BITS-1:0] arid,
    input logic [63:0] araddr,
    input logic [7:0] arlen,
    input logic [2:0] arsize,
    input logic [1:0] arburst,
    output logic rvalid,
    input logic rready,
    output logic [ID_BITS-1:0] rid,
    output logic [DATA_WIDTH-1:0] rdata,
    output logic [1:0] rresp,
    output logic rlast,

    output logic get_valid,
    input logic get_ready,
    output logic [SLOT-1:0] get_slot,
    output logic [63:0] get_address,
    output logic [3:0] get_size,

    input logic stalled,            // the bus is given up
    output logic [SLOTS-1:0] owed,  // Gets without an answer
    output logic [3:0] owed_size,   // of answer_slot
    input logic answer_valid,
    input logic answer_last,
    input logic [SLOT-1:0] answer_slot,
    input logic [BEAT-1:0] answer_beat,
    input logic [1:0] answer_response,
    input logic [DATA_WIDTH-1:0] answer_data,

    output logic bad_burst,
    output logic given_up
);
    `include "pcie_tilelink.svh"

    // ---- a burst, cut into Gets ----
    typedef enum logic [1:0] {IDLE, DECODE, SPLIT} state_t;
    state_t state;
    logic [ID_BITS-1:0] id;
    logic [63:0] address;
    logic [7:0] left;
    logic [2:0] size;
    logic [1:0] burst;
    logic wrong, takes, skips, queue_full, queue_push, ring_full;
    // verilator lint_off UNUSEDSIGNAL
    logic [15:0] page_end;          // only the carry counts
    // verilator lint_on UNUSEDSIGNAL
    logic [6:0] low_mask;
    logic [BEAT-1:0] piece_last;
    assign arready = state == IDLE && !queue_full;
    assign low_mask = ~(7'h7f << size);
    assign page_end = ({4'd0, address[11:0]} & ~{9'd0, low_mask}) + (16'(left) << size) + {9'd0, low_mask};
    assign wrong = 32'(size) > BYTE || (burst != 2'b01 && left != '0) || burst == 2'b11 || page_end[15:12] != '0;
    assign bad_burst = state == DECODE && wrong;
    assign queue_push = state == DECODE;
    pcie_tilelink_client_split #(
        .BYTE(BYTE),
        .LONGEST(LONGEST)
    ) split (
        .address(address[11:0]),
        .left(left),
        .size(size),
        .last(piece_last),
        .message_size(get_size)
    );

    // A bus that is given up gets no more of them.
    logic [SLOT:0] head, tail;
    assign ring_full = tail - head == (SLOT + 1)'(SLOTS);
    assign get_valid = state == SPLIT && !ring_full && !stalled;
    assign get_slot = tail[SLOT-1:0];
    assign get_address = address;
    assign skips = state == SPLIT && !ring_full && stalled;
    assign takes = (get_valid && get_ready) || skips;
    always_ff @(posedge clk)
        if (rst) state <= IDLE;
        else
            case (state)
                IDLE: if (arvalid && arready) state <= DECODE;
                DECODE: state <= wrong ? IDLE : SPLIT;
                default: if (takes && left == 8'(piece_last)) state <= IDLE;
            endcase
    always_ff @(posedge clk) begin
        if (state == IDLE) begin
            id <= arid;
            address <= araddr;
            left <= arlen;
            size <= arsize;
            burst <= arburst;
        end
        if (state == DECODE) address[6:0] <= address[6:0] & ~low_mask;
        if (takes) begin
            address[11:0] <= address[11:0] + ((12'(piece_last) + 12'd1) << size);
            left <= left - 8'(piece_last) - 8'd1;
        end
    end

    // ---- slots ----
    logic [SLOTS-1:0] failed, get_slots, done_slots;
    logic [BEAT-1:0] slot_last[0:SLOTS-1];
    logic [3:0] slot_size[0:SLOTS-1];
    logic frees;
    assign get_slots = get_valid && get_ready ? SLOTS'(1) << get_slot : '0;
    assign done_slots = answer_valid && answer_last ? SLOTS'(1) << answer_slot : '0;
    assign owed_size = slot_size[answer_slot];
    (* ram_style = "distributed" *) logic [DATA_WIDTH+1:0] rows[0:SLOTS*2**BEAT-1];
    always_ff @(posedge clk) if (answer_valid) rows[{answer_slot, answer_beat}] <= {answer_response, answer_data};
    always_ff @(posedge clk)
        if (rst) begin
            owed <= '0;
            failed <= '0;
            head <= '0;
            tail <= '0;
        end else begin
            owed <= (owed & ~done_slots) | get_slots;
            failed <= (failed & ~(takes ? SLOTS'(1) << get_slot : '0)) | (stalled ? owed & ~done_slots : '0) | (skips ? SLOTS'(1) << get_slot : '0);
            tail <= tail + (SLOT + 1)'(takes);
            head <= head + (SLOT + 1)'(frees);
        end
    always_ff @(posedge clk)
        if (takes) begin
            slot_last[get_slot] <= piece_last;
            // The bus may still answer an earlier Get of a slot that is skipped.
            if (!skips) slot_size[get_slot] <= get_size;
        end

    // ---- the queue of bursts to answer ----
    logic queue_valid, queue_pop, next_wrong;
    logic [SLOT:0] queue_count;
    logic [ID_BITS-1:0] next_id;
    logic [7:0] next_left;
    assign queue_full = queue_count == (SLOT + 1)'(SLOTS);
    pcie_tl_fifo #(
        .WIDTH(ID_BITS + 9),
        .DEPTH(SLOTS)
    ) queue (
        .clk(clk),
        .rst(rst),
        .push(queue_push),
        .push_data({id, left, wrong}),
        .pop(queue_pop),
        .valid(queue_valid),
        .head({next_id, next_left, next_wrong}),
        .count(queue_count)
    );

    // ---- answers ----
    logic answering, is_wrong, fill, has_data, fails, last_of_slot;
    logic [ID_BITS-1:0] answer_id;
    logic [7:0] answer_left;
    logic [BEAT-1:0] at;
    logic [1:0] row_response;
    logic [DATA_WIDTH-1:0] row_data;
    assign queue_pop = queue_valid && !answering;
    assign fails = failed[head[SLOT-1:0]];
    assign has_data = tail != head && (fails || !owed[head[SLOT-1:0]]);
    assign fill = answering && (is_wrong || has_data) && (!rvalid || rready);
    assign last_of_slot = at == slot_last[head[SLOT-1:0]];
    assign frees = fill && !is_wrong && last_of_slot;
    assign given_up = frees && fails;
    assign {row_response, row_data} = rows[{head[SLOT-1:0], at}];
    always_ff @(posedge clk)
        if (rst) begin
            answering <= 1'b0;
            rvalid <= 1'b0;
            at <= '0;
        end else begin
            if (queue_pop) answering <= 1'b1;
            else if (fill && answer_left == '0) answering <= 1'b0;
            if (fill) rvalid <= 1'b1;
            else if (rready) rvalid <= 1'b0;
            if (fill && !is_wrong) at <= last_of_slot ? '0 : at + 1'b1;
        end
    always_ff @(posedge clk) begin
        if (queue_pop) {answer_id, answer_left, is_wrong} <= {next_id, next_left, next_wrong};
        else if (fill) answer_left <= answer_left - 1'b1;
        if (fill) begin
            rid <= answer_id;
            rlast <= answer_left == '0;
            rresp <= is_wrong || fails ? SLVERR : row_response;
            rdata <= is_wrong || fails || row_response == DECERR ? '1 : row_data;
        end
    end
endmodule
