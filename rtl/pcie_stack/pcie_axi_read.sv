// SPDX-License-Identifier: Apache-2.0 OR MIT
// Read channels of the AXI4 slave. Reads of device memory become memory read requests, several at a time; a request covers at most
// READ_BYTES and Max_Read_Request_Size, and stays in an aligned block of that size. All bursts are answered in the order of their addresses,
// which is the order that AXI wants for each ID.
// Handshake: AXI4; send_* is a request to the packetizer; access_* is an access of one double-word. Slots are a ring.
module pcie_axi_read #(
    parameter int CPU_WIDTH = 64,
    parameter int CPU_ID = 4,
    parameter int READ_SLOTS = 8,
    parameter int READ_BYTES = 128,
    localparam int LANES = CPU_WIDTH / 32,
    localparam int LANE = $clog2(LANES),
    localparam int SLOT = $clog2(READ_SLOTS),
    localparam int WORD = $clog2(READ_BYTES / 4)
) (
    input logic clk,
    input logic rst,

    input logic arvalid,
    output logic arready,
    input logic [CPU_ID-1:0] arid,
    input logic [63:0] araddr,
    input logic [7:0] arlen,
    input logic [2:0] arsize,
    input logic [1:0] arburst,
    output logic rvalid,
    input logic rready,
    output logic [CPU_ID-1:0] rid,
    output logic [CPU_WIDTH-1:0] rdata,
    output logic [1:0] rresp,
    output logic rlast,

    // The address of the burst in progress and its region
    output logic [63:0] address,
    input logic in_registers,
    input logic in_config,
    input logic in_memory,       // and the root port forwards it

    input logic [2:0] max_read_request,
    input logic extended_tags,
    input logic errors_as_ones,

    output logic send_valid,
    input logic send_ready,
    output logic [61:0] send_address,
    output logic [9:0] send_length,
    output logic [3:0] send_first_be,
    output logic [3:0] send_last_be,
    output logic [7:0] send_tag,
    output logic [SLOT-1:0] send_slot,

    output logic [SLOT-1:0] slot,
    output logic [WORD-1:0] slot_word,
    input logic [READ_SLOTS-1:0] pending,
    input logic [2:0] slot_status,
    input logic [31:0] slot_data,

    output logic access_valid,
    output logic access_is_register,
    output logic [25:0] access_word,
    output logic [3:0] access_be,
    input logic access_done,
    input logic [31:0] access_data,

    output logic bad_address,
    output logic bad_burst,
    output logic [SLOT:0] outstanding
);
    `include "pcie_root_complex.svh"
    localparam logic [2:0] SIZE = 3'($clog2(CPU_WIDTH / 8));

    // ---- a burst arrives ----
    typedef enum logic [1:0] {IDLE, DECODE, SPLIT} state_t;
    state_t state;
    logic [CPU_ID-1:0] id;
    logic [7:0] len;
    logic [2:0] size;
    logic [1:0] burst;
    logic queue_free, queue_push;
    logic [1:0] region;
    logic wrong;

    assign arready = state == IDLE && queue_free;
    // A burst that leaves its page is illegal in AXI.
    assign wrong = size > SIZE || (burst != 2'b01 && len != '0) || burst == 2'b11 || page_end[15:12] != '0;
    assign region = wrong ? REGION_NONE : in_registers || in_config ? REGION_SLOW : in_memory ? REGION_MEMORY : REGION_NONE;
    assign bad_burst = state == DECODE && wrong;
    assign bad_address = state == DECODE && !wrong && region == REGION_NONE;
    assign queue_push = state == DECODE;

    // ---- its requests ----
    logic [15:0] page_end;  // last byte of the burst, from the begin of its page
    logic [6:0] mask;
    logic [9:0] word_at, last_word, block_last;  // within the page
    logic [6:0] piece_last, to_end;
    logic [6:0] new_mask, block_mask;
    logic first, last, one, ends_here;
    logic [1:0] last_offset;
    assign mask = beat_mask(size);
    assign page_end = (({4'd0, address[11:0]} & ~{9'd0, mask}) + (16'(len) << size)) | {9'd0, mask};
    // The smaller of READ_BYTES and Max_Read_Request_Size, in double-words, less one.
    assign new_mask = 7'(READ_BYTES / 4 - 1) & (max_read_request == 3'd0 ? 7'h1f : max_read_request == 3'd1 ? 7'h3f : 7'h7f);
    assign block_last = word_at | {3'd0, block_mask};
    assign ends_here = ((word_at ^ last_word) & ~{3'd0, block_mask}) == '0;
    assign piece_last = ends_here ? last_word[6:0] : block_last[6:0];
    assign to_end = piece_last - word_at[6:0];
    assign last = ends_here;
    assign one = to_end == '0;

    logic [3:0] be_first, be_last;
    assign be_first = first ? 4'hf << address[1:0] : 4'hf;
    assign be_last = last ? 4'hf >> (2'd3 - last_offset) : 4'hf;
    assign send_valid = state == SPLIT && piece_valid && !used[SLOT];
    // A piece is computed in one cycle and offered from the next.
    logic piece_valid, piece_is_last;
    logic [SLOT:0] head, tail;  // of the ring of slots
    logic [SLOT:0] used;
    assign used = tail - head;
    assign outstanding = used;
    assign send_slot = tail[SLOT-1:0];
    logic [5:0] generation;
    // Bit 4 (and bit 7) mark configuration requests.
    assign send_tag = extended_tags ? {1'b0, generation[5:4], 1'b0, generation[3:0]} : {4'd0, generation[3:0]};

    always_ff @(posedge clk)
        if (rst) begin
            state <= IDLE;
            piece_valid <= 1'b0;
            generation <= '0;
            tail <= '0;
        end else begin
            case (state)
                IDLE: if (arvalid && arready) state <= DECODE;
                DECODE: state <= region == REGION_MEMORY ? SPLIT : IDLE;
                default: if (send_valid && send_ready && piece_is_last) state <= IDLE;
            endcase
            if (state == SPLIT) piece_valid <= !(send_valid && send_ready);
            else piece_valid <= 1'b0;
            if (state == SPLIT && send_valid && send_ready) begin
                tail <= tail + 1'b1;
                generation <= generation + 1'b1;
            end
        end
    always_ff @(posedge clk) begin
        if (state == IDLE) begin
            id <= arid;
            address <= araddr;
            len <= arlen;
            size <= arsize;
            burst <= arburst;
        end
        if (state == DECODE) begin
            word_at <= address[11:2];
            last_word <= page_end[11:2];
            last_offset <= page_end[1:0];
            first <= 1'b1;
            block_mask <= new_mask;
        end
        if (state == SPLIT && !piece_valid) begin
            send_address <= {address[63:12], word_at};
            send_length <= 10'(to_end) + 10'd1;
            send_first_be <= one ? be_first & be_last : be_first;
            send_last_be <= one ? 4'd0 : be_last;
            piece_is_last <= last;
            word_at <= block_last + 1'b1;
            first <= 1'b0;
        end
    end

    // ---- the queue of bursts to answer ----
    localparam int ENTRY = CPU_ID + 28 + 8 + 3 + 2 + 2 + 7;
    logic [ENTRY-1:0] queue[0:READ_SLOTS-1];
    logic [SLOT:0] queue_tail, queue_head;
    logic queue_valid, queue_pop;
    assign queue_free = queue_tail - queue_head != (SLOT + 1)'(READ_SLOTS);
    assign queue_valid = queue_tail != queue_head;
    always_ff @(posedge clk) if (queue_push) queue[queue_tail[SLOT-1:0]] <= {id, address[27:0], len, size, region, in_registers, wrong, new_mask};
    always_ff @(posedge clk)
        if (rst) {queue_tail, queue_head} <= '0;
        else begin
            queue_tail <= queue_tail + (SLOT + 1)'(queue_push);
            queue_head <= queue_head + (SLOT + 1)'(queue_pop);
        end

    // ---- answers ----
    logic answering, is_register, is_wrong;
    logic [CPU_ID-1:0] answer_id;
    logic [27:0] at;        // address in this beat
    logic [7:0] beats_left;
    logic [2:0] beat_size;
    logic [1:0] answer_region;
    logic [27:0] beat_end;  // last byte of the beat
    logic same_word, may_fill, filled, beat_done, burst_done, slot_ready;
    logic [31:0] fill;
    logic [1:0] fill_response, response;
    logic [LANE-1:0] lane;
    logic begins;           // no double-word of this beat is filled

    assign queue_pop = !answering && queue_valid;
    assign beat_end = at | {21'd0, beat_mask(beat_size)};
    assign same_word = at[6:2] == beat_end[6:2];
    assign lane = at[2+:LANE];
    assign slot = head[SLOT-1:0];
    assign slot_word = at[2+:WORD];
    assign slot_ready = used != '0 && !pending[slot];
    assign may_fill = answering && (!rvalid || rready);
    assign filled = may_fill && (answer_region == REGION_NONE || (answer_region == REGION_MEMORY ? slot_ready : access_done));
    assign beat_done = filled && (same_word || answer_region == REGION_NONE);
    assign burst_done = beat_done && beats_left == '0;

    assign access_valid = may_fill && answer_region == REGION_SLOW;
    assign access_is_register = is_register;
    assign access_word = at[27:2];
    assign access_be = (4'hf << at[1:0]) & (same_word ? 4'hf >> (2'd3 - beat_end[1:0]) : 4'hf);

    // The status of a request to memory becomes the response (§2.3.2 leaves it to the complex).
    logic failed;
    assign failed = slot_status != STATUS_SC;
    always_comb begin
        fill_response = OKAY;
        fill = access_data;
        if (answer_region == REGION_NONE) begin
            fill_response = is_wrong ? SLVERR : DECERR;
            fill = '1;
        end else if (answer_region == REGION_MEMORY) begin
            fill = failed ? '1 : slot_data;
            if (failed && !errors_as_ones) fill_response = slot_status == STATUS_UR ? DECERR : SLVERR;
        end
    end

    // The slot is free after its last byte: at the end of its block or of the burst.
    logic [6:0] answer_mask;
    logic leaves_block, frees;
    assign leaves_block = (at[8:2] & answer_mask) == answer_mask && (!same_word || beat_end[1:0] == 2'd3);
    assign frees = filled && answer_region == REGION_MEMORY && (burst_done || leaves_block);

    always_ff @(posedge clk)
        if (rst) begin
            answering <= 1'b0;
            rvalid <= 1'b0;
            head <= '0;
        end else begin
            if (queue_pop) answering <= 1'b1;
            else if (burst_done) answering <= 1'b0;
            if (beat_done) rvalid <= 1'b1;
            else if (rready) rvalid <= 1'b0;
            head <= head + (SLOT + 1)'(frees);
        end
    always_ff @(posedge clk) begin
        if (queue_pop) begin
            {answer_id, at, beats_left, beat_size, answer_region, is_register, is_wrong, answer_mask} <= queue[queue_head[SLOT-1:0]];
            begins <= 1'b1;
        end else if (filled) begin
            // The next double-word of the beat, or the next beat.
            at <= answer_region == REGION_NONE ? at : (same_word ? beat_end : {at[27:2], 2'b11}) + 28'd1;
            if (beat_done) beats_left <= beats_left - 1'b1;
            begins <= beat_done;
        end
        if (filled) begin
            for (int n = 0; n < LANES; n++) if (begins || answer_region == REGION_NONE || lane == LANE'(n)) rdata[32*n+:32] <= fill;
            rresp <= begins ? fill_response : fill_response | response;
            response <= begins ? fill_response : fill_response | response;
            rid <= answer_id;
            rlast <= beats_left == '0;
        end
    end

`ifdef PROVE_AXI
`include "axi_read_properties.svh"
`endif
endmodule
