// SPDX-License-Identifier: Apache-2.0 OR MIT
// riser's DMA engine for any of the vendor's blocks with RQ, RC, CQ and CC streams. The top modules handle the differences between the blocks.
// Ports are plain vectors; streams are AXI4-Stream, with only the used parts of `tuser`. README.md has a block diagram.
module dma_engine_core #(
    parameter int DATA_WIDTH = 256,      // of the streams: 256 or 512
    parameter int FUNCTIONS = 2,         // the physical function, and the virtual ones
    parameter int H2D_ENGINES = 1,       // per function
    parameter int D2H_ENGINES = 1,
    parameter int TAGS = 64,             // outstanding reads: a power of two, at most 256
    parameter int BUFFER_BYTES = 16384,  // for the data of reads: a power of two
    parameter int READ_BYTES = 512,      // maximum size of a read: a power of two, 128 to 4096
    parameter int DEVICE_ENTRIES = 8,   // descriptors of an engine's ring in the device: a power of two
    parameter int LOOP_BYTES = 8192,     // per loop-back: a power of two, at most 65536
    parameter int CLOCK_MHZ = 250,
    parameter int FIRST_VF = 64,         // the block's number of the first virtual function
    parameter int NUMBER = 4,            // bits of a sequence number on RQ
    parameter int HOLD_READS = 0,        // 1: send a read only if the block has a credit for it: writes go on without credits for reads
    localparam int LANES = DATA_WIDTH / 32
) (
    input logic clk,
    input logic rst,

    output logic [DATA_WIDTH-1:0] rq_tdata,
    output logic [LANES-1:0] rq_tkeep,
    output logic rq_tlast,
    output logic rq_tvalid,
    input logic rq_tready,
    output logic [3:0] rq_first_be,
    output logic [3:0] rq_last_be,
    output logic [NUMBER-1:0] rq_number,
    input logic [1:0] rq_back,                  // returned sequence numbers, in order
    input logic [2*NUMBER-1:0] rq_back_numbers,
    input logic [3:0] rq_read_credits,          // with HOLD_READS: credits for non-posted headers, at most 3 or 15

    input logic [DATA_WIDTH-1:0] rc_tdata,
    input logic rc_tlast,
    input logic rc_tvalid,
    input logic rc_discontinue,

    input logic [DATA_WIDTH-1:0] cq_tdata,
    input logic cq_tlast,
    input logic cq_tvalid,
    output logic cq_tready,
    input logic [3:0] cq_first_be,
    input logic [3:0] cq_last_be,
    output logic cq_np_req,

    output logic [DATA_WIDTH-1:0] cc_tdata,
    output logic [LANES-1:0] cc_tkeep,
    output logic cc_tlast,
    output logic cc_tvalid,
    input logic cc_tready,

    input logic [2:0] max_payload,              // 128 << n bytes
    input logic [2:0] max_read_request,
    input logic [FUNCTIONS-1:0] there,          // the physical function first
    input logic [FUNCTIONS-1:0] bus_master,
    input logic [FUNCTIONS-1:0] msix_enable,
    input logic [FUNCTIONS-1:0] msix_mask,
    input logic [FUNCTIONS-1:0] flr,            // a reset of the function is in progress
    output logic [FUNCTIONS-1:0] flr_done       // for one cycle
);
    localparam int ROWS = BUFFER_BYTES / (DATA_WIDTH / 8);
    localparam int ROW = $clog2(ROWS);
    localparam int TAG = $clog2(TAGS);
    localparam int LANE = $clog2(LANES);
    localparam int FUNCTION = FUNCTIONS > 1 ? $clog2(FUNCTIONS) : 1;
    localparam int LOCAL = $clog2(H2D_ENGINES + D2H_ENGINES);
    localparam int ENGINE = $clog2(FUNCTIONS << LOCAL);
    localparam int KINDS = $clog2(H2D_ENGINES > D2H_ENGINES ? H2D_ENGINES : D2H_ENGINES);
    localparam int PAIRS = FUNCTIONS << KINDS;
    localparam int PAIR = PAIRS > 1 ? $clog2(PAIRS) : 1;
    localparam int LOOP_ROWS = LOOP_BYTES / (DATA_WIDTH / 8);
    localparam int LOOP_ROW = $clog2(LOOP_ROWS);
    localparam int SLOT = ENGINE + 3;
    localparam int NOTE = 2 + ENGINE + 4 + 4 + 67;
    localparam int QUEUE = 4;
    localparam int LENGTH = $clog2(READ_BYTES > 512 ? READ_BYTES : 512) + 1;  // bits of the size of a request, in bytes
    localparam int REQUEST = 2 + 2 + 64 + LENGTH + TAG + PAIR + 73;

    // ---- requests: from the sequencer through a queue to RQ ----
    logic request, first, first_taken, may_send;
    logic [QUEUE:0] queue_room, reads_queued;
    logic [1:0] request_kind, request_logic, first_kind, first_logic;
    logic [63:0] request_address, first_address;
    logic [LENGTH-1:0] request_bytes, first_bytes;
    logic [7:0] first_target, asked, passed;
    logic [TAG-1:0] request_tag, first_tag;
    logic [PAIR-1:0] request_pair, first_pair;
    logic [72:0] request_given, first_given;
    logic [NUMBER-2:0] number;
    logic first_reads;

    dma_engine_requests #(
        .HOLD_READS(HOLD_READS),
        .WIDTH(REQUEST),
        .DEPTH(2 ** QUEUE)
    ) requests (
        .clk,
        .rst,
        .push(request),
        .push_read(request_kind == 2'd0),
        .din({
            request_kind, request_logic, request_address, request_bytes, request_tag, request_pair, request_given
        }),
        .pop(first_taken),
        .dout({first_kind, first_logic, first_address, first_bytes, first_tag, first_pair, first_given}),
        .valid(first),
        .room(queue_room),
        .reads(reads_queued),
        .credits(rq_read_credits),
        .read_accepted(rq_tvalid && rq_tready && rq_number[NUMBER-1])
    );

    // The block's number of the pair's function.
    assign first_target = first_pair >> KINDS == '0 ? 8'd0 : 8'(FIRST_VF - 1) + (8'(first_pair) >> KINDS);

    // Reads use the upper half of the numbers. Completions and writes may pass reads, so these numbers are unordered with those of writes, and
    // no logic waits for them.
    assign first_reads = first_kind == 2'd0;
    dma_engine_order #(
        .NUMBER(NUMBER - 1)
    ) order (
        .clk,
        .rst,
        .ask(request && request_kind != 2'd0),
        .send(first_taken && !first_reads),
        .may_send,
        .number,
        .back(rq_back & ~{rq_back_numbers[2*NUMBER-1], rq_back_numbers[NUMBER-1]}),
        .back_numbers({rq_back_numbers[NUMBER+:NUMBER-1], rq_back_numbers[0+:NUMBER-1]}),
        .asked,
        .passed
    );

    logic loop_read;
    logic [PAIR+LOOP_ROW-1:0] loop_read_row, loop_write_row;
    logic [DATA_WIDTH-1:0] loop_read_data, loop_write_data;
    logic [DATA_WIDTH/8-1:0] loop_write;

    dma_engine_transmit #(
        .DATA_WIDTH(DATA_WIDTH),
        .NUMBER(NUMBER),
        .PAIR(PAIR),
        .LOOP_ROW(LOOP_ROW)
    ) transmit (
        .clk,
        .rst,
        .request(first),
        .kind(first_kind),
        .logic_kind(first_logic),
        .address(first_address),
        .bytes(13'(first_bytes)),
        .target(first_target),
        .tag(8'(first_tag)),
        .pair(first_pair),
        .given(96'(first_given)),
        .taken(first_taken),
        .loop_read,
        .loop_row(loop_read_row),
        .loop_data(loop_read_data),
        .may_send(may_send || first_reads),
        .number({first_reads, number}),
        .rq_tdata,
        .rq_tkeep,
        .rq_tlast,
        .rq_tvalid,
        .rq_tready,
        .rq_first_be,
        .rq_last_be,
        .rq_number
    );

    dma_engine_block_ram #(
        .WIDTH(DATA_WIDTH),
        .DEPTH(2 ** PAIR * LOOP_ROWS)
    ) loops (
        .clk,
        .write(loop_write),
        .write_address(loop_write_row),
        .write_data(loop_write_data),
        .read(loop_read),
        .read_address(loop_read_row),
        .read_data(loop_read_data)
    );

    // ---- reads: the window, the buffer, and the module that delivers their data ----
    logic give, give_read, window_room, window_ready, step, free, window_empty, window_quiet, drop;
    logic [LENGTH-1:0] give_bytes;
    logic [12:0] looked_bytes, completion_bytes;
    logic [1:0] give_offset, looked_offset, completion_offset;
    logic [LANE-1:0] give_lane;
    logic [ROW:0] give_rows, rows_free;
    logic [NOTE-1:0] give_note, looked;
    logic [TAG-1:0] tail_tag, next_tag, head_tag, look, completion_tag, ended_tag;
    logic looked_failed, looked_dropped, completion_open, ended, heard, heard_first, failed;
    logic [ROW-1:0] looked_row, row;
    logic [ROW+LANE-1:0] completion_place;

    dma_engine_window #(
        .TAGS(TAGS),
        .ROWS(ROWS),
        .NOTE(NOTE),
        .LANE(LANE),
        .LENGTH(LENGTH)
    ) window (
        .clk,
        .rst,
        .give,
        .give_read,
        .give_bytes,
        .give_offset,
        .give_lane,
        .give_rows,
        .give_note,
        .room(window_room),
        .rows_free,
        .tail_tag,
        .ready(window_ready),
        .step,
        .free,
        .is_empty(window_empty),
        .is_quiet(window_quiet),
        .next_tag,
        .head_tag,
        .look,
        .looked,
        .looked_failed,
        .looked_dropped,
        .looked_row,
        .looked_bytes,
        .looked_offset,
        .drop,
        .completion_tag,
        .completion_open,
        .completion_place,
        .completion_bytes,
        .completion_offset,
        .ended,
        .heard,
        .heard_first,
        .failed,
        .ended_tag
    );

    logic [LANES-1:0] buffer_write;
    logic [LANES*ROW-1:0] buffer_rows;
    logic [DATA_WIDTH-1:0] buffer_data, row_data;
    logic row_read;

    dma_engine_receive #(
        .DATA_WIDTH(DATA_WIDTH),
        .TAG(TAG),
        .ROW(ROW)
    ) receive (
        .clk,
        .rst,
        .rc_tdata,
        .rc_tlast,
        .rc_tvalid,
        .rc_discontinue,
        .tag(completion_tag),
        .open(completion_open),
        .place(completion_place),
        .bytes(completion_bytes),
        .offset(completion_offset),
        .write(buffer_write),
        .write_rows(buffer_rows),
        .write_data(buffer_data),
        .ended,
        .heard,
        .heard_first,
        .failed,
        .ended_tag
    );

    dma_engine_buffer #(
        .DATA_WIDTH(DATA_WIDTH),
        .ROWS(ROWS)
    ) buffer (
        .clk,
        .write(buffer_write),
        .write_rows(buffer_rows),
        .write_data(buffer_data),
        .read(row_read),
        .read_row(row),
        .read_data(row_data)
    );

    logic job, job_ready, job_unreadable, slot_write, unreadable, done, done_wrong, done_taken;
    logic [2:0] job_kind, done_kind;
    logic [3:0] job_code, done_code;
    logic [66:0] job_position;
    logic [PAIR-1:0] job_pair;
    logic [SLOT-1:0] job_slot, slot;
    logic slot_upper;
    logic [108:0] lower_descriptor, upper_descriptor;

    dma_engine_hand_on #(
        .DATA_WIDTH(DATA_WIDTH),
        .ROW(ROW),
        .PAIR(PAIR),
        .LOOP_ROW(LOOP_ROW),
        .SLOT(SLOT)
    ) hand_on (
        .clk,
        .rst,
        .job,
        .job_ready,
        .job_code,
        .job_kind,
        .job_position,
        .job_bytes(looked_bytes),
        .job_offset(looked_offset),
        .job_row(looked_row),
        .job_pair,
        .job_slot,
        .job_unreadable,
        .read(row_read),
        .read_row(row),
        .read_data(row_data),
        .loop_write,
        .loop_row(loop_write_row),
        .loop_data(loop_write_data),
        .slot_write,
        .slot,
        .slot_upper,
        .lower_descriptor,
        .upper_descriptor,
        .unreadable,
        .done,
        .done_kind,
        .done_code,
        .wrong(done_wrong),
        .done_taken
    );

    // ---- the host's accesses, and the sequencer ----
    logic access, access_write, access_done;
    logic [FUNCTION-1:0] access_function;
    logic [13:0] access_address;
    logic [3:0] access_enables;
    logic [31:0] access_data, access_read;

    dma_engine_target #(
        .DATA_WIDTH(DATA_WIDTH),
        .FUNCTIONS(FUNCTIONS),
        .FIRST_VF(FIRST_VF),
        .FUNCTION(FUNCTION)
    ) target (
        .clk,
        .rst,
        .cq_tdata,
        .cq_tlast,
        .cq_tvalid,
        .cq_tready,
        .cq_first_be,
        .cq_last_be,
        .np_req(cq_np_req),
        .cc_tdata,
        .cc_tkeep,
        .cc_tlast,
        .cc_tvalid,
        .cc_tready,
        .access,
        .access_write,
        .access_function,
        .access_address,
        .access_enables,
        .access_data,
        .access_done,
        .access_read,
        .asked,
        .passed
    );

    dma_engine_sequencer #(
        .DATA_WIDTH(DATA_WIDTH),
        .FUNCTIONS(FUNCTIONS),
        .H2D_ENGINES(H2D_ENGINES),
        .D2H_ENGINES(D2H_ENGINES),
        .TAGS(TAGS),
        .ROWS(ROWS),
        .READ_BYTES(READ_BYTES),
        .DEVICE_ENTRIES(DEVICE_ENTRIES),
        .LOOP_BYTES(LOOP_BYTES),
        .CLOCK_MHZ(CLOCK_MHZ),
        .FUNCTION(FUNCTION),
        .PAIR(PAIR),
        .QUEUE(QUEUE),
        .LENGTH(LENGTH),
        .HOLD_READS(HOLD_READS)
    ) sequencer (
        .clk,
        .rst,
        .max_payload,
        .max_read_request,
        .bus_master,
        .msix_enable,
        .msix_mask,
        .there,
        .flr,
        .flr_done,
        .access,
        .access_write,
        .access_function,
        .access_address,
        .access_enables,
        .access_data,
        .access_done,
        .access_read,
        .queue_room,
        .reads_queued,
        .sent(first_taken && (first_reads || HOLD_READS == 0)),
        .request,
        .request_kind,
        .request_logic,
        .request_address,
        .request_bytes,
        .request_tag,
        .request_pair,
        .request_given,
        .asked,
        .passed,
        .give,
        .give_read,
        .give_bytes,
        .give_offset,
        .give_lane,
        .give_rows,
        .give_note,
        .window_room,
        .rows_free,
        .tail_tag,
        .window_ready,
        .step,
        .free,
        .window_empty,
        .window_quiet,
        .next_tag,
        .head_tag,
        .look,
        .looked,
        .looked_failed,
        .looked_dropped,
        .looked_bytes,
        .drop,
        .job,
        .job_ready,
        .job_code,
        .job_kind,
        .job_position,
        .job_pair,
        .job_slot,
        .job_unreadable,
        .slot_write,
        .slot,
        .slot_upper,
        .lower_descriptor,
        .upper_descriptor,
        .unreadable,
        .done,
        .done_kind,
        .done_code,
        .done_wrong,
        .done_taken
    );
endmodule
