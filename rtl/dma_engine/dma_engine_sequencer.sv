// SPDX-License-Identifier: Apache-2.0 OR MIT
// Processes the descriptors of all engines of all functions: one state machine that does one step at a time. The state
// of an engine is in words of small memories, so an additional engine needs memory and almost no logic. The order of
// priority is: an access of the host; a reset; and, while the request queue has room for all requests of a step, a
// delivered read, an interrupt, coalescing that is due, a read with complete data, a visit to an engine. In a visit an
// engine fetches descriptors, takes the next one, and requests pieces of it.
// Handshake: `request` goes to a queue with `queue_room`. `access` is answered by `access_done`. Each state takes one
// cycle. An access never waits for requests. An access that may stop an engine waits until all data that has left for
// user logic has arrived.
module dma_engine_sequencer #(
    parameter int DATA_WIDTH = 256,
    parameter int FUNCTIONS = 2,
    parameter int H2D_ENGINES = 1,
    parameter int D2H_ENGINES = 1,
    parameter int TAGS = 64,
    parameter int ROWS = 512,
    parameter int READ_BYTES = 512,
    parameter int DEVICE_ENTRIES = 8,
    parameter int LOOP_BYTES = 8192,
    parameter int CLOCK_MHZ = 250,
    parameter int FUNCTION = 1,  // bits of a function number
    parameter int PAIR = 1,      // bits of a loop-back number
    parameter int LENGTH = 10,   // bits of the size of a request, in bytes
    parameter int QUEUE = 4,     // bits of the length of the request queue
    parameter int HOLD_READS = 0,  // reads have their own queue
    localparam int BYTE = $clog2(DATA_WIDTH / 8),
    localparam int TAG = $clog2(TAGS),
    localparam int ROW = $clog2(ROWS),
    localparam int LOCAL = $clog2(H2D_ENGINES + D2H_ENGINES),  // bits of an engine number in its function
    localparam int ENGINES = FUNCTIONS << LOCAL,
    localparam int ENGINE = $clog2(ENGINES),
    localparam int SLOT = ENGINE + 3,
    localparam int NOTE = 2 + ENGINE + 4 + 4 + 67
) (
    input logic clk,
    input logic rst,

    // ---- configuration, from the block ----
    input logic [2:0] max_payload,
    input logic [2:0] max_read_request,
    input logic [FUNCTIONS-1:0] bus_master,
    input logic [FUNCTIONS-1:0] msix_enable,
    input logic [FUNCTIONS-1:0] msix_mask,
    input logic [FUNCTIONS-1:0] there,  // the function is enabled
    input logic [FUNCTIONS-1:0] flr,
    output logic [FUNCTIONS-1:0] flr_done,

    // ---- the host's accesses ----
    input logic access,
    input logic access_write,
    input logic [FUNCTION-1:0] access_function,
    input logic [13:0] access_address,
    input logic [3:0] access_enables,
    input logic [31:0] access_data,
    output logic access_done,
    output logic [31:0] access_read,

    // ---- requests ----
    input logic [QUEUE:0] queue_room,
    input logic [QUEUE:0] reads_queued,  // with HOLD_READS
    input logic sent,  // a queued request was sent; with HOLD_READS: a read
    output logic request,
    output logic [1:0] request_kind,
    output logic [1:0] request_logic,
    output logic [63:0] request_address,
    output logic [LENGTH-1:0] request_bytes,
    output logic [TAG-1:0] request_tag,
    output logic [PAIR-1:0] request_pair,
    output logic [72:0] request_given,
    input logic [7:0] asked,
    input logic [7:0] passed,

    // ---- the window ----
    output logic give,
    output logic give_read,
    output logic [LENGTH-1:0] give_bytes,
    output logic [1:0] give_offset,
    output logic [BYTE-3:0] give_lane,
    output logic [ROW:0] give_rows,
    output logic [NOTE-1:0] give_note,
    input logic window_room,
    input logic [ROW:0] rows_free,
    input logic [TAG-1:0] tail_tag,
    input logic window_ready,
    output logic step,
    output logic free,
    input logic window_empty,
    input logic window_quiet,
    input logic [TAG-1:0] next_tag,
    input logic [TAG-1:0] head_tag,
    output logic [TAG-1:0] look,
    input logic [NOTE-1:0] looked,
    input logic looked_failed,
    input logic looked_dropped,
    input logic [12:0] looked_bytes,
    output logic drop,

    // ---- delivery of data ----
    output logic job,
    input logic job_ready,
    output logic [3:0] job_code,
    output logic [2:0] job_kind,
    output logic [66:0] job_position,
    output logic [PAIR-1:0] job_pair,
    output logic [SLOT-1:0] job_slot,
    output logic job_unreadable,
    input logic slot_write,
    input logic [SLOT-1:0] slot,
    input logic slot_upper,
    input logic [108:0] lower_descriptor,
    input logic [108:0] upper_descriptor,
    input logic unreadable,
    input logic done,
    input logic [2:0] done_kind,
    input logic [3:0] done_code,
    input logic done_wrong,
    output logic done_taken
);
    `include "dma_engine_registers.svh"

    // Kinds of requests, of places in the window, and of consumers of data.
    localparam logic [1:0] READ = 2'd0, GIVEN = 2'd1, DATA_ROWS = 2'd2;
    localparam logic [1:0] DATA = 2'd0, FETCH = 2'd1, LOCAL_END = 2'd2;
    localparam logic [2:0] NOBODY = 3'd0, CHECK = 3'd1, LOOP = 3'd2, DESCRIPTORS = 3'd3, SINK = 3'd4;
    localparam logic [3:0] ENGINES_AT = R_ENGINES[5:2];
    localparam logic [3:0] FUNCTION_AT = R_FUNCTION[5:2];
    localparam int WRITE_BYTES = 512;    // maximum size of a data write
    localparam int SHARE_BYTES = 1024;   // per turn, for a weight of one
    localparam int MOST = $clog2(READ_BYTES > WRITE_BYTES ? READ_BYTES : WRITE_BYTES);  // bits of the maximum piece size less one
    localparam int ROOM = 4;             // maximum number of requests per step, plus one
    localparam int KINDS = $clog2(H2D_ENGINES > D2H_ENGINES ? H2D_ENGINES : D2H_ENGINES);
    localparam int PAIRS = FUNCTIONS << KINDS;
    localparam int POSITION = 17;        // bits of a position in a loop-back
    localparam int PLACE = $clog2(DEVICE_ENTRIES);
    localparam int DESCRIPTOR_WORDS = ENGINES * DEVICE_ENTRIES * 4;
    localparam int DESCRIPTOR_WORD = $clog2(DESCRIPTOR_WORDS);

    typedef enum logic [5:0] {
        IDLE, ACCESS, POSTED_NOW, POSTED_BUSY,
        START_SEED, START_POSTED, START_DONE, START_BYTES, START_CONTROL,
        ABORT_WALK, ABORT_END,
        RESET_WORDS, RESET_DESCRIPTORS, RESET_WEIGHTS, RESET_WALK, RESET_END,
        VISIT_CONTROL, VISIT_POSTED, VISIT_NEXT, ABORTED,
        FETCH_CHECK, FETCH_ASK, FETCH_ADDRESS, FETCH_BYTES, FETCH_FLAGS, STAND_STILL, LOAD, ISSUE,
        HAND_ON, ACCOUNT,
        TELL, TELL_RING, TELL_COUNTS, TELL_STATUS, TELL_CODE, TELL_MOVED, TELL_DONE, TELL_ERROR, TELL_BACK, TELL_INTERRUPT,
        INTERRUPT_DATA, INTERRUPT_SEND, DUE, SKIP
    } state_t;
    state_t state, next_state;

    // ---- the current engine ----
    logic [ENGINE-1:0] e, at_e;           // at_e: engine of this cycle
    logic [FUNCTION-1:0] f;
    logic [LOCAL-1:0] n;
    logic [LOCAL-1:0] of_kind;            // its number among the engines of its direction
    logic [PAIR-1:0] pair;
    logic d2h, may_master;

    assign f = FUNCTION'(at_e >> LOCAL);
    assign n = at_e[LOCAL-1:0];
    assign d2h = (LOCAL + 1)'(n) >= (LOCAL + 1)'(H2D_ENGINES);
    assign of_kind = n - (d2h ? LOCAL'(H2D_ENGINES) : '0);
    assign pair = (PAIR'(f) << KINDS) | PAIR'(of_kind);
    assign may_master = bus_master[f];

    // ---- memories ----
    logic [7:0] words_write, store_write;  // one bit per byte
    logic [3:0] word;
    logic [63:0] words_data, words_read;
    for (genvar b = 0; b < 8; b++) begin : words_bytes
        dma_engine_ram #(.WIDTH(8), .DEPTH(ENGINES * 16)) words_ram (
            .clk, .write(words_write[b]), .write_address({at_e, word}), .write_data(words_data[8*b+:8]),
            .read_address({at_e, word}), .read_data(words_read[8*b+:8])
        );
    end

    logic [DESCRIPTOR_WORD-1:0] store_at;
    logic [63:0] store_data, store_read;
    if (DESCRIPTOR_WORDS > 256) begin : big_store
        dma_engine_block_ram #(.WIDTH(64), .DEPTH(DESCRIPTOR_WORDS)) store_ram (
            .clk, .write(store_write), .write_address(store_at), .write_data(store_data),
            .read(1'b1), .read_address(store_at), .read_data(store_read)
        );
    end else begin : small_store
        logic [63:0] now;
        for (genvar b = 0; b < 8; b++) begin : store_bytes
            dma_engine_ram #(.WIDTH(8), .DEPTH(DESCRIPTOR_WORDS)) store_ram (
                .clk, .write(store_write[b]), .write_address(store_at), .write_data(store_data[8*b+:8]), .read_address(store_at),
                .read_data(now[8*b+:8])
            );
        end
        always_ff @(posedge clk) store_read <= now;
    end

    // The transfer that is being split into pieces is the first fetched descriptor. Its slot holds the part that is left.
    logic current_valid, current_first;
    logic [ENGINES-1:0] current_there;
    assign current_valid = current_there[at_e];

    // Position of the stream of an engine, in bytes.
    logic position_write;
    logic [66:0] position, position_data;
    dma_engine_ram #(.WIDTH(67), .DEPTH(ENGINES)) positions_ram (
        .clk, .write(position_write), .write_address(at_e), .write_data(position_data), .read_address(at_e), .read_data(position)
    );

    // Outcome of the descriptor whose data is being delivered (`code`), and of the one that ends next.
    logic outcome_write, chain_failed, data_wrong;
    logic [3:0] code;
    logic [40:0] moved;
    logic [46:0] outcome_data;
    dma_engine_ram #(.WIDTH(47), .DEPTH(ENGINES)) outcomes_ram (
        .clk, .write(outcome_write), .write_address(at_e), .write_data(outcome_data), .read_address(at_e),
        .read_data({code, data_wrong, chain_failed, moved})
    );

    // Number of fetched descriptors; `aborting`: those up to `taken` end.
    logic fetched_write, aborting, fetching;
    logic [3:0] ready_count;
    logic [2:0] ready_first;
    logic [31:0] fetched;
    logic [40:0] fetched_data;
    dma_engine_ram #(.WIDTH(41), .DEPTH(ENGINES)) fetches_ram (
        .clk, .write(fetched_write), .write_address(at_e), .write_data(fetched_data), .read_address(at_e),
        .read_data({aborting, fetching, ready_count, ready_first, fetched})
    );

    // Number of places in the window per engine.
    logic open_write;
    logic [TAG:0] open_count, open_data;
    dma_engine_ram #(.WIDTH(TAG + 1), .DEPTH(ENGINES)) opens_ram (
        .clk, .write(open_write), .write_address(at_e), .write_data(open_data), .read_address(at_e), .read_data(open_count)
    );

    // Interrupts that coalescing delays, and the time when they are due.
    logic held_write;
    logic [15:0] held;
    logic [16:0] due;
    logic [32:0] held_data;
    dma_engine_ram #(.WIDTH(33), .DEPTH(ENGINES)) helds_ram (
        .clk, .write(held_write), .write_address(at_e), .write_data(held_data), .read_address(at_e), .read_data({held, due})
    );

    // Loop-backs: bytes put in, and bytes taken out.
    logic put_write, took_write;
    logic [POSITION-1:0] put, took, put_data, took_data;
    dma_engine_ram #(.WIDTH(POSITION), .DEPTH(PAIRS)) puts_ram (
        .clk, .write(put_write), .write_address(pair), .write_data(put_data), .read_address(pair), .read_data(put)
    );
    dma_engine_ram #(.WIDTH(POSITION), .DEPTH(PAIRS)) tooks_ram (
        .clk, .write(took_write), .write_address(pair), .write_data(took_data), .read_address(pair), .read_data(took)
    );

    logic weight_write;
    logic [FUNCTION-1:0] weight_of;
    logic [7:0] weight, weight_data;
    dma_engine_ram #(.WIDTH(8), .DEPTH(FUNCTIONS)) weights_ram (
        .clk, .write(weight_write), .write_address(weight_of), .write_data(weight_data), .read_address(weight_of), .read_data(weight)
    );

    // Fetched descriptors: 8 per engine.
    logic slots_write, keeps_slot, cuts_slot;
    logic [SLOT-1:0] slot_to;
    logic [2:0] slot_next;
    logic [110:0] slot_data;
    logic slot_unreadable, slot_reserved, slot_more, slot_interrupts, slot_large;
    logic [40:0] slot_bytes;
    logic [63:0] slot_address;
    assign slots_write = slot_write || keeps_slot || cuts_slot;
    dma_engine_ram #(.WIDTH(111), .DEPTH(ENGINES * 8)) slots_ram (
        .clk, .write(slots_write), .write_address(slot_to),
        .write_data(slot_data),
        .read_address({at_e, ready_first}),
        .read_data({current_first, slot_unreadable, slot_reserved, slot_more, slot_interrupts, slot_large, slot_bytes, slot_address})
    );

    // ---- bits of engines and functions ----
    logic [ENGINES-1:0] active, pending, vector_masked, armed, scan, is_d2h_engine;
    logic [ENGINES-1:0] may_interrupt, drops_interrupt, one;  // one: the bit of `at_e`
    assign one = ENGINES'(1) << at_e;
    logic [FUNCTIONS-1:0] initial_reset, flr_seen, was_there, resets;
    always_comb
        for (int i = 0; i < ENGINES; i++) begin
            is_d2h_engine[i] = i % (2 ** LOCAL) >= H2D_ENGINES;
            drops_interrupt[i] = pending[i] && !(msix_enable[i>>LOCAL] && bus_master[i>>LOCAL]);
            may_interrupt[i] = pending[i] && msix_enable[i>>LOCAL] && bus_master[i>>LOCAL] && !msix_mask[i>>LOCAL] && !vector_masked[i];
        end
    assign resets = initial_reset | (flr & ~flr_seen);

    function automatic logic [ENGINE-1:0] first_of(input logic [ENGINES-1:0] bits);
        first_of = '0;
        for (int i = ENGINES - 1; i >= 0; i--) if (bits[i]) first_of = ENGINE'(i);
    endfunction

    // ---- values that a step keeps for its next states ----
    logic [31:0] seen_posted, seen_entries, seen_done, seen_failed;
    logic in_host, tells_status, enabled, stands_still;  // of word 0
    logic [3:0] logic_of;
    logic ring_legal;
    logic [3:0] tell_code;
    logic [40:0] tell_moved;
    logic tell_interrupts;
    logic [63:0] kept_address;
    logic [41:0] kept_bytes;  // the upper bit: any bit above the others is set
    logic [DESCRIPTOR_WORD-1:0] count;
    logic [TAG-1:0] walk;
    logic is_flr, is_initial, first_dropped, unsettled;
    logic [7:0] ticket;
    logic resetting;
    logic [QUEUE:0] unsent;  // queued requests from before the reset; with HOLD_READS: reads, as writes are counted by `passed`
    logic [QUEUE:0] queued;
    assign queued = HOLD_READS != 0 ? reads_queued : (QUEUE + 1)'(2 ** QUEUE) - queue_room;
    logic [FUNCTION-1:0] reset_of;
    logic direction;     // direction of the next visit: 0 H2D, 1 D2H
    logic [10:0] share, share_h2d, share_d2h;  // bytes left in the turn

    // ---- the map ----
    logic map_function, map_engine, map_weights, map_pending, map_descriptors, map_needs_quiet;
    logic [3:0] map_n, map_word;
    logic [31:0] map_writable, access_old, access_new;
    logic [7:0] access_bytes;  // bytes of the word that the access writes
    logic access_touches;
    dma_engine_map #(
        .H2D_ENGINES(H2D_ENGINES), .D2H_ENGINES(D2H_ENGINES), .DEVICE_ENTRIES(DEVICE_ENTRIES), .FUNCTIONS(FUNCTIONS)
    ) map (
        .address(access_address), .in_function(map_function), .in_engine(map_engine), .in_weights(map_weights),
        .in_pending(map_pending), .in_descriptors(map_descriptors), .engine(map_n), .word(map_word), .writable(map_writable),
        .needs_quiet(map_needs_quiet)
    );
    logic [12:0] payload_bytes, read_bytes, mrrs_bytes;
    assign payload_bytes = 13'd128 << max_payload;
    assign mrrs_bytes = 13'd128 << max_read_request;
    assign read_bytes = mrrs_bytes < 13'(READ_BYTES) ? mrrs_bytes : 13'(READ_BYTES);

    logic [31:0] function_value;
    always_comb begin
        case (access_address[3:0])
            R_ID[5:2]: function_value = R_ID_VALUE;
            R_VERSION[5:2]: function_value = R_VERSION_VALUE;
            ENGINES_AT: function_value = {16'(DEVICE_ENTRIES), 8'(D2H_ENGINES), 8'(H2D_ENGINES)};
            R_LIMITS[5:2]: function_value = {3'd0, read_bytes, 3'd0, payload_bytes};
            R_WINDOW[5:2]: function_value = {15'd0, 1'b1, 16'(TAGS)};
            FUNCTION_AT: function_value = {16'(FUNCTIONS), 16'(access_function)};
            R_WEIGHT[5:2]: function_value = {24'd0, turn_weight};
            default: function_value = '0;
        endcase
    end
    // Half a word of the descriptor store or of an engine. STATUS is read without the bits that the sequencer keeps in its word.
    logic shows_kind;
    assign shows_kind = map_engine && map_word == 4'd5 && access_address[0];
    dma_engine_choose #(.WIDTH(32)) access_choice (
        .select({map_descriptors, access_address[0]}), .a(words_read[31:0]), .b(words_read[63:32] & {map_word == 4'd0 ? 7'd0 : 7'h7f, 25'h1ffffff}),
        .c(store_read[31:0]), .d(store_read[63:32]), .out(access_old)
    );
    logic [15:0] pending_value;
    always_comb begin
        pending_value = '0;
        for (int i = 0; i < 2 ** LOCAL; i++) pending_value[i] = pending[(ENGINE'(access_function)<<LOCAL)|ENGINE'(i)];
    end
    // In a double-word with writable bits, all other bits are always 0.
    assign access_new = access_data & map_writable;
    assign access_touches = state == ACCESS && access_write && map_writable != '0;
    assign access_bytes = access_address[0] ? {access_enables, 4'd0} : {4'd0, access_enables};

    always_comb begin
        // At most one of these is selected. Other addresses read as 0.
        access_read = access_old & {32{map_engine || map_descriptors}};
        access_read |= function_value & {32{map_function}};
        access_read[7:0] |= weight & {8{map_weights && access_function == '0}};
        access_read[15:0] |= pending_value & {16{map_pending}};
        // These bits are 0 in the engine's word.
        access_read |= {12'd0, map_n, 15'd0, d2h} & {32{shows_kind}};
    end

    // ---- the next piece ----
    logic [12:0] piece_bytes;
    logic [MOST-1:0] piece_most;
    logic piece_last, piece_fits, loop_fits, few_reads;
    logic [63:0] piece_address;
    logic [40:0] piece_left;
    logic [66:0] piece_position;
    logic [40:0] goes_by;  // consumed bytes of the stream
    logic [BYTE-3:0] piece_lane;
    logic [ROW:0] piece_rows;
    logic [POSITION-1:0] loop_used;
    logic takes_all;
    assign takes_all = !may_master || state == SKIP;
    assign piece_bytes = 13'(goes_by[LENGTH-1:0]);

    assign piece_most = !d2h ? MOST'(read_bytes - 13'd1) : payload_bytes < 13'(WRITE_BYTES) ? MOST'(payload_bytes - 13'd1) : MOST'(WRITE_BYTES - 1);
    dma_engine_piece #(.ROW(ROW), .BYTE(BYTE), .MOST(MOST)) piece (
        .address(slot_address), .left(slot_bytes), .from(position[BYTE-1:0]), .most(piece_most), .all(takes_all), .bytes(goes_by),
        .is_last(piece_last), .next_address(piece_address), .next_left(piece_left), .lane(piece_lane), .rows(piece_rows)
    );
    assign piece_position = position + 67'(goes_by);
    // H2D: fill level of the loop-back after the piece; D2H: bytes that the loop-back lacks for the piece, -65536 to 4096.
    assign loop_used = piece_position[POSITION-1:0] - (d2h ? put : took);
    assign loop_fits = logic_of != 4'(LOGIC_KIND_LOOP_BACK) ||
                       (d2h ? loop_used[POSITION-1] || loop_used == '0 : loop_used <= POSITION'(LOOP_BYTES));
    // With HOLD_READS, few reads of data wait for a credit, so that a fetch of descriptors does not wait for long.
    assign few_reads = HOLD_READS == 0 || reads_queued[QUEUE:2] == '0;
    assign piece_fits = d2h ? loop_fits : window_room && rows_free >= piece_rows && loop_fits && few_reads;

    // ---- the next descriptor ----
    logic [3:0] fault;
    logic [64:0] slot_end;
    assign slot_end = {1'b0, slot_address} + 65'(slot_bytes);
    always_comb
        if (slot_unreadable) fault = ERROR_CODE_FETCH;
        else if (slot_reserved) fault = ERROR_CODE_FLAGS;
        else if (slot_large || slot_bytes == '0 || (slot_bytes[40] && slot_bytes[39:0] != '0)) fault = ERROR_CODE_SIZE;
        else if (slot_end[64] && slot_end[63:0] != '0) fault = ERROR_CODE_RANGE;
        else fault = ERROR_CODE_NONE;

    // Error code of a descriptor that never started.
    function automatic logic [3:0] unbegun(input logic [3:0] wrong, input logic failed);
        unbegun = wrong == ERROR_CODE_FETCH ? ERROR_CODE_FETCH : failed ? ERROR_CODE_ABORTED : wrong == ERROR_CODE_NONE ? ERROR_CODE_OK : wrong;
    endfunction

    // ---- the note of a place in the window ----
    logic [1:0] note_kind;
    logic note_first, note_last, note_interrupts, note_more;
    logic [3:0] note_fault, code_now;
    logic [ENGINE-1:0] note_e;
    logic [66:0] note_position;
    assign {note_kind, note_e, note_first, note_last, note_interrupts, note_more, note_fault, note_position} = looked;
    always_comb begin
        code_now = note_first ? unbegun(note_fault, chain_failed) : code;
        if (code_now == ERROR_CODE_OK && (looked_failed || note_fault == ERROR_CODE_READ)) code_now = ERROR_CODE_READ;
    end

    // ---- number of descriptors fetched by one read: up to 128 B, to the end of the ring, and as many as were posted ----
    logic [31:0] behind;
    logic [16:0] entries_less;
    logic [15:0] place;  // legal rings have at most 65536 descriptors
    logic [63:0] place_address;
    logic is_telling;
    logic [2:0] fetch_count, fetch_most;
    // Posted descriptors that are not fetched, or, in FETCH_CHECK, not done.
    assign behind = seen_posted - (state == FETCH_CHECK ? words_read[31:0] : fetched);
    assign entries_less = seen_entries[16:0] - 17'd1;
    // Place of the reported descriptor, or of the next descriptor to fetch.
    assign place = (is_telling ? seen_done[15:0] : fetched[15:0]) & entries_less[15:0];
    assign place_address = words_read + {43'd0, place, 5'd0};
    always_comb begin
        // Rings of four and more descriptors end at a multiple of four.
        fetch_most = 3'd4 - {1'b0, place_address[6:5] > place[1:0] ? place_address[6:5] : place[1:0]};
        fetch_count = seen_entries[0] ? 3'd1 : seen_entries[1] && fetch_most > 3'd2 ? 3'd2 : fetch_most;
        if (seen_entries[1] && place[0]) fetch_count = 3'd1;
        if (behind[31:2] == '0 && behind[2:0] < fetch_count) fetch_count = behind[2:0];
    end

    // ---- time ----
    localparam int TICK = $clog2(CLOCK_MHZ);
    logic [TICK-1:0] ticks;
    logic [16:0] now_us;
    logic us_over;
    assign us_over = ticks == TICK'(CLOCK_MHZ - 1);
    always_ff @(posedge clk)
        if (rst) begin
            ticks <= '0;
            now_us <= '0;
        end else begin
            ticks <= us_over ? '0 : ticks + 1'b1;
            now_us <= now_us + 17'(us_over);
        end

    // ---- turns ----
    logic [1:0] any_turn, spent, over;
    logic [ENGINE-1:0] turn_h2d, turn_d2h;
    logic [7:0] turn_weight;
    assign turn_weight = weight == 8'd0 ? 8'd1 : weight;
    dma_engine_turns #(.ENGINES(ENGINES)) turns_h2d (
        .clk, .rst, .wants(active & ~is_d2h_engine), .any(any_turn[0]), .engine(turn_h2d), .weight(turn_weight), .who(e),
        .spent(spent[0]), .over(over[0])
    );
    dma_engine_turns #(.ENGINES(ENGINES)) turns_d2h (
        .clk, .rst, .wants(active & is_d2h_engine), .any(any_turn[1]), .engine(turn_d2h), .weight(turn_weight), .who(e),
        .spent(spent[1]), .over(over[1])
    );

    `include "dma_engine_steps.svh"
endmodule
