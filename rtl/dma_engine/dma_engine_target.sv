// SPDX-License-Identifier: Apache-2.0 OR MIT
// Answers the host: turns requests from the CQ stream into register accesses of one double-word each, and sends read
// data on the CC stream (PG156, PG213: Completer Request, Completer Completion). A write of any length is done
// double-word by double-word. A read is answered in completions that end at multiples of 64 bytes (the smallest Read
// Completion Boundary). Any request other than a memory request to BAR 0 of an existing function is answered with
// Unsupported Request, or ignored if it is posted.
// Handshake: `access` stays until `access_done`, at least one cycle later; `access_read` comes with it. A completion is
// sent when all writes requested before its data was read have passed (`asked`, `passed`). One read is answered at a time: `np_req` asks the
// block for the next read (pcie_cq_np_req), so that no write ever waits for a read.
module dma_engine_target #(
    parameter int DATA_WIDTH = 256,
    parameter int FUNCTIONS = 2,
    parameter int FIRST_VF = 64,  // the block's number of the first virtual function
    parameter int FUNCTION = 1,   // bits of a function number
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,

    input logic [DATA_WIDTH-1:0] cq_tdata,
    input logic cq_tlast,
    input logic cq_tvalid,
    output logic cq_tready,
    input logic [3:0] cq_first_be,
    input logic [3:0] cq_last_be,
    output logic np_req,

    output logic [DATA_WIDTH-1:0] cc_tdata,
    output logic [LANES-1:0] cc_tkeep,
    output logic cc_tlast,
    output logic cc_tvalid,
    input logic cc_tready,

    output logic access,
    output logic access_write,
    output logic [FUNCTION-1:0] access_function,
    output logic [13:0] access_address,  // of a double-word in the BAR
    output logic [3:0] access_enables,
    output logic [31:0] access_data,
    input logic access_done,
    input logic [31:0] access_read,

    input logic [7:0] asked,
    input logic [7:0] passed
);
    localparam logic [3:0] MEMORY_READ = 4'd0;
    localparam logic [3:0] MEMORY_WRITE = 4'd1;

    // ---- the request's descriptor ----
    logic [10:0] cq_dwords;
    logic [3:0] cq_type;
    logic [7:0] cq_target, cq_vf;
    logic is_memory_write, is_posted, is_ours, is_there;

    assign cq_dwords = cq_tdata[74:64];
    assign cq_type = cq_tdata[78:75];
    assign cq_target = cq_tdata[111:104];
    assign cq_vf = cq_target - 8'(FIRST_VF);
    assign is_there = cq_target == 8'd0 || (cq_target >= 8'(FIRST_VF) && 9'(cq_vf) + 9'd1 < 9'(FUNCTIONS));
    assign is_ours = is_there && cq_tdata[114:112] == 3'd0;
    assign is_memory_write = cq_type == MEMORY_WRITE;
    // Messages (types 12 to 14) are posted too.
    assign is_posted = is_memory_write || cq_type[3:2] == 2'b11;

    // ---- writes: a beat stays on the stream until its double-words are written ----
    logic in_packet;              // the beat is not the first one
    logic write_busy, writes, lets_go, beat_ends, write_ends;
    logic [10:0] write_left;      // double-words left to write
    logic [LANE-1:0] write_lane;
    logic [13:0] write_address;
    logic [FUNCTION-1:0] write_function;
    logic [3:0] write_first_be, write_last_be;
    logic write_is_first, write_done, takes_first, read_busy;

    assign writes = cq_tvalid && (in_packet ? !lets_go : is_memory_write && is_ours && write_busy);
    assign write_done = access_done && access_write;
    assign write_ends = write_left == 11'd1;
    assign beat_ends = write_ends || write_lane == LANE'(LANES - 1);
    // The first beat of a write is decoded for a cycle before its double-words are written.
    assign cq_tready = in_packet ? lets_go || (write_done && beat_ends) :
                       is_memory_write && is_ours ? write_busy && write_done && beat_ends : is_posted || !read_busy;
    assign takes_first = cq_tvalid && cq_tready && !in_packet;

    always_ff @(posedge clk)
        if (rst) begin
            in_packet <= 1'b0;
            write_busy <= 1'b0;
        end else begin
            if (cq_tvalid && cq_tready) begin
                in_packet <= !cq_tlast;
                write_busy <= 1'b0;
            end else if (cq_tvalid && !in_packet && is_memory_write && is_ours) write_busy <= 1'b1;
        end
    always_ff @(posedge clk) begin
        if (cq_tvalid && !in_packet && !write_busy) begin
            lets_go <= !(is_memory_write && is_ours);
            write_left <= cq_dwords;
            write_address <= cq_tdata[15:2];
            write_function <= cq_target == 8'd0 ? '0 : FUNCTION'(cq_vf + 8'd1);
            write_first_be <= cq_first_be;
            write_last_be <= cq_last_be;
            write_is_first <= 1'b1;
            write_lane <= LANE'(4);
        end
        if (write_done) begin
            write_lane <= write_lane + 1'b1;
            write_left <= write_left - 1'b1;
            write_address <= write_address + 1'b1;
            write_is_first <= 1'b0;
        end
    end

    // ---- reads ----
    logic read_refused, read_head;  // the descriptor goes to the beat, one double-word per cycle
    logic [10:0] read_left;         // double-words left to read
    logic [4:0] chunk_left, chunk;  // double-words of this completion
    logic [12:0] read_bytes;        // Byte Count
    logic [13:0] read_address;
    logic [1:0] read_low;
    logic [7:0] read_target, read_tag;
    logic [15:0] read_requester;
    logic [5:0] read_attributes;    // of traffic class and attributes
    logic [1:0] read_at;
    logic [FUNCTION-1:0] read_function;
    logic [LANE-1:0] lane;
    logic beat_full, beat_last, ticket_taken;
    logic [7:0] ticket;
    logic reads, read_done, first_ask;
    logic [12:0] lead, trail, whole;
    logic [10:0] past;              // double-words up to the boundary

    // Bytes before the first requested byte, and after the last.
    function automatic logic [12:0] zeros_below(input logic [3:0] be);
        zeros_below = be[0] ? 13'd0 : be[1] ? 13'd1 : be[2] ? 13'd2 : be[3] ? 13'd3 : 13'd0;
    endfunction
    function automatic logic [12:0] zeros_above(input logic [3:1] be);
        zeros_above = be[3] ? 13'd0 : be[2] ? 13'd1 : be[1] ? 13'd2 : 13'd3;
    endfunction
    assign lead = zeros_below(cq_first_be);
    assign trail = zeros_above(cq_dwords == 11'd1 ? cq_first_be[3:1] : cq_last_be[3:1]);
    assign whole = {cq_dwords, 2'b00} - lead - trail;
    assign past = 11'd16 - {7'd0, read_address[3:0]};
    assign chunk = read_left < past ? read_left[4:0] : past[4:0];
    // The first access begins before the descriptor is complete, and ends after it.
    assign reads = read_busy && !head_begins && chunk_left != 5'd0 && !beat_full;
    assign read_done = access_done && !access_write;

    logic may_go, beat_goes;  // all earlier writes have passed; the beat is accepted
    logic [31:0] beat[0:LANES-1];
    logic [LANES-1:0] beat_keep;
    logic [95:0] head;
    logic head_begins, head_ends;
    logic [31:0] lane_data;
    assign cc_tvalid = beat_full && may_go;
    assign beat_goes = cc_tvalid && cc_tready;
    assign cc_tlast = beat_last;
    assign cc_tkeep = beat_keep;
    for (genvar l = 0; l < LANES; l++) begin : lanes
        assign cc_tdata[32*l+:32] = beat[l];
    end

    always_ff @(posedge clk) begin
        np_req <= 1'b0;
        if (rst) begin
            read_busy <= 1'b0;
            may_go <= 1'b0;
            first_ask <= 1'b1;
            beat_full <= 1'b0;
            read_head <= 1'b0;
        end else begin
            first_ask <= 1'b0;
            np_req <= first_ask;
            may_go <= beat_full && !beat_goes && (may_go || (ticket_taken && $signed(8'(passed - ticket)) >= 0));
            if (beat_goes) begin
                beat_full <= 1'b0;
                if (beat_last && (read_refused || read_left == 11'd0)) begin
                    read_busy <= 1'b0;
                    np_req <= 1'b1;
                end else if (beat_last) read_head <= 1'b1;
            end
            if (head_ends) begin
                read_head <= 1'b0;
                if (read_refused) beat_full <= 1'b1;
            end
            if (read_done && (chunk_left == 5'd1 || lane == LANE'(LANES - 1))) beat_full <= 1'b1;
            if (takes_first && !is_posted) begin
                read_busy <= 1'b1;
                read_head <= 1'b1;
            end
        end
    end

    assign head_begins = read_head && lane == '0;
    assign head_ends = read_head && lane == LANE'(2);
    assign head = {
        1'b0, read_attributes, 1'b0, 8'd0, read_target, read_tag,
        read_requester, 1'b0, 1'b0, read_refused ? 3'd1 : 3'd0, 6'd0, chunk_left,
        3'd0, read_bytes, 6'd0, read_at, 1'b0, read_address[4:0], read_low
    };
    dma_engine_choose #(.WIDTH(32)) lane_choice (
        .select(read_head ? lane[1:0] : 2'd3), .a(head[31:0]), .b(head[63:32]), .c(head[95:64]), .d(access_read), .out(lane_data)
    );
    always_ff @(posedge clk) begin
        ticket_taken <= !rst && beat_full && !beat_goes;
        if (beat_full && !ticket_taken) ticket <= asked;
        if (takes_first && !is_posted) begin
            read_refused <= cq_type != MEMORY_READ || !is_ours;
            read_left <= cq_type == MEMORY_READ ? cq_dwords : 11'd1;
            // A read of no bytes has a Byte Count of 1 (PCIe 5.0 §2.3.1.1); requests without data do not.
            read_bytes <= cq_type != MEMORY_READ ? 13'd4 : cq_first_be == 4'd0 ? 13'd1 : whole;
            read_address <= cq_tdata[15:2];
            read_low <= cq_type == MEMORY_READ ? lead[1:0] : 2'd0;
            read_at <= cq_tdata[1:0];
            read_target <= cq_target;
            read_tag <= cq_tdata[103:96];
            read_requester <= cq_tdata[95:80];
            read_attributes <= cq_tdata[126:121];
            read_function <= cq_target == 8'd0 ? '0 : FUNCTION'(cq_vf + 8'd1);
        end
        if (read_head || read_done) begin
            for (int l = 0; l < LANES; l++) if (lane == LANE'(l)) beat[l] <= lane_data;
            beat_keep <= lane == '0 ? LANES'(1) : beat_keep | (LANES'(1) << lane);
            lane <= lane + 1'b1;
        end
        if (!read_busy || (beat_goes && beat_last)) lane <= '0;
        if (head_begins) begin
            chunk_left <= read_refused ? 5'd0 : chunk;
            read_left <= read_left - {6'd0, chunk};
            read_bytes <= read_bytes - ({6'd0, chunk, 2'd0} - {11'd0, read_low});
            read_low <= 2'd0;
            beat_last <= read_refused;
        end
        if (read_done) begin
            chunk_left <= chunk_left - 1'b1;
            beat_last <= chunk_left == 5'd1;
            read_address <= read_address + 1'b1;
        end
    end

    // ---- accesses: reads first, since there is at most one ----
    logic turn_read;  // a read's access is in progress
    always_ff @(posedge clk)
        if (rst) access <= 1'b0;
        else if (access) access <= !access_done;
        else begin
            access <= reads || writes;
            turn_read <= reads;
        end
    assign access_write = !turn_read;
    assign access_function = turn_read ? read_function : write_function;
    assign access_address = turn_read ? read_address : write_address;
    assign access_enables = turn_read ? 4'hf : write_is_first ? write_first_be : write_left == 11'd1 ? write_last_be : 4'hf;
    logic [31:0] quarters[0:LANES/4-1];
    for (genvar q = 0; q < LANES / 4; q++) begin : quarter
        assign quarters[q] = write_lane[1] ? (write_lane[0] ? cq_tdata[128*q+96+:32] : cq_tdata[128*q+64+:32]) :
                                             write_lane[0] ? cq_tdata[128*q+32+:32] : cq_tdata[128*q+:32];
    end
    assign access_data = quarters[write_lane[LANE-1:2]];

`ifdef FORMAL
`include "target_properties.svh"
`endif
endmodule
