// SPDX-License-Identifier: Apache-2.0 OR MIT
// The steps of dma_engine_sequencer: the writes and the next state of each state.

    // ---- selection of the next engine and step ----
    logic holds_on;          // an action that may stop an engine waits for data in flight
    logic has_room, turn_is_d2h, walk_ends, walk_matches;
    logic [ENGINE-1:0] idle_e;
    logic [3:0] account_code;
    logic [40:0] account_moved;
    logic [12:0] moved_bytes;
    logic is_data_taken, is_told, share_over;
    logic [ENGINE-1:0] due_e;

    assign holds_on = (access && access_write && map_needs_quiet) || (resets != '0 && !resetting);
    assign has_room = queue_room >= (QUEUE + 1)'(ROOM);
    assign turn_is_d2h = direction ? any_turn[1] : !any_turn[0];
    assign walk_ends = window_empty || TAG'(walk + 1'b1) == tail_tag;
    assign walk_matches = !window_empty && !looked_dropped && (state == ABORT_WALK ? note_e == e : FUNCTION'(note_e >> LOCAL) == reset_of);
    assign is_data_taken = done_kind == CHECK || done_kind == LOOP || done_kind == SINK;
    assign account_code = done_code == ERROR_CODE_OK && (data_wrong || done_wrong) ? ERROR_CODE_DATA : done_code;
    assign moved_bytes = state == ISSUE && may_master ? piece_bytes : state == ACCOUNT && is_data_taken ? looked_bytes : '0;
    assign account_moved = moved + 41'(moved_bytes);
    assign is_telling = state == TELL_STATUS || state == TELL_CODE || state == TELL_MOVED;
    assign is_told = tell_interrupts || tell_code != ERROR_CODE_OK;
    assign share = d2h ? share_d2h : share_h2d;
    assign share_over = share <= 11'(piece_bytes);
    assign due_e = first_of(scan);

    always_comb begin
        next_state = IDLE;
        idle_e = e;
        if (access && !(map_needs_quiet && access_write && !window_quiet)) begin
            next_state = ACCESS;
            idle_e = (ENGINE'(access_function) << LOCAL) | ENGINE'(map_n[LOCAL-1:0]);
        end else if (resets != '0 && !resetting && window_quiet) next_state = RESET_WORDS;
        else if (!has_room) next_state = IDLE;
        else if (may_interrupt != '0) begin
            next_state = INTERRUPT_DATA;
            idle_e = first_of(may_interrupt);
        end else if (done) begin
            next_state = ACCOUNT;
            idle_e = note_e;
        end else if (scan != '0) begin
            next_state = DUE;
            idle_e = due_e;
        end else if (window_ready && job_ready && !holds_on && !(unsettled && !window_quiet)) begin
            next_state = HAND_ON;
            idle_e = note_e;
        end else if (any_turn != 2'b00) begin
            next_state = VISIT_CONTROL;
            idle_e = turn_is_d2h ? turn_d2h : turn_h2d;
        end
    end

    // ---- reads of each state ----
    always_comb begin
        at_e = state == RESET_WORDS ? (ENGINE'(reset_of) << LOCAL) | ENGINE'(count[4+:LOCAL]) : e;
        case (state)
            ACCESS: word = map_word;
            RESET_WORDS: word = count[3:0];
            FETCH_ASK, TELL_STATUS: word = 4'd1;
            START_POSTED, ABORT_END, VISIT_POSTED, TELL_RING: word = 4'd2;
            POSTED_NOW, START_DONE, ABORTED, FETCH_CHECK, TELL_COUNTS, TELL_DONE: word = 4'd3;
            TELL_BACK: word = 4'd4;
            TELL_INTERRUPT: word = 4'd5;
            START_SEED: word = 4'd6;
            START_BYTES, ISSUE, ACCOUNT: word = 4'd7;
            INTERRUPT_DATA: word = 4'd9;
            INTERRUPT_SEND: word = 4'd8;
            default: word = 4'd0;
        endcase
        case (state)
            FETCH_ASK: store_at = DESCRIPTOR_WORD'({e, place[PLACE-1:0], 2'd0});
            FETCH_ADDRESS: store_at = DESCRIPTOR_WORD'({e, place[PLACE-1:0], 2'd1});
            FETCH_BYTES, FETCH_FLAGS: store_at = DESCRIPTOR_WORD'({e, place[PLACE-1:0], 2'd2});
            TELL_STATUS, TELL_CODE: store_at = DESCRIPTOR_WORD'({e, place[PLACE-1:0], 2'd2});
            TELL_MOVED: store_at = DESCRIPTOR_WORD'({e, place[PLACE-1:0], 2'd3});
            RESET_DESCRIPTORS: store_at = DESCRIPTOR_WORD'({reset_of, count[LOCAL+PLACE+1:0]});
            default: store_at = DESCRIPTOR_WORD'({access_function, access_address[1+:LOCAL+PLACE+2]});
        endcase
        case (state)
            ABORT_WALK, RESET_WALK: look = walk;
            HAND_ON: look = next_tag;
            ACCOUNT: look = head_tag;
            default: look = done ? head_tag : next_tag;
        endcase
        weight_of = state == RESET_WEIGHTS ? FUNCTION'(count) :
                    state != ACCESS ? f : map_weights ? FUNCTION'(access_address[7:0]) + 1'b1 : access_function;
    end

    // ---- writes of each state ----
    logic is_start, starts_d2h;
    assign is_start = state == START_SEED;
    assign starts_d2h = is_start && d2h;

    logic is_busy;
    logic [1:0] words_from, position_from;
    logic [63:0] words_rest, words_put;
    dma_engine_choose #(.WIDTH(64)) words_choice (
        .select(words_from), .a(words_rest), .b(words_put), .c(words_read + 64'(moved_bytes)), .d({failed_more, done_more}), .out(words_data)
    );
    dma_engine_choose #(.WIDTH(67)) position_choice (
        .select(position_from), .a({words_read, 3'd0}), .b(67'(put)), .c(piece_position), .d(note_position), .out(position_data)
    );
    assign is_busy = seen_posted != seen_done && !words_read[63];
    always_comb begin
        words_write = '0;
        words_rest = '0;
        case (state)
            ACCESS: words_write = access_touches && map_engine ? access_bytes : '0;
            POSTED_BUSY: begin
                words_write[4] = 1'b1;
                words_rest[32] = is_busy;
            end
            START_POSTED: words_write[7:4] = '1;
            START_DONE, START_BYTES: words_write = '1;
            START_CONTROL: begin
                words_write[7:4] = '1;
                words_rest[62:57] = {
                    words_read[R_ENGINE_CONTROL_HOST_RING_LOW],
                    words_read[R_ENGINE_CONTROL_WRITE_STATUS_LOW] || !words_read[R_ENGINE_CONTROL_HOST_RING_LOW],
                    words_read[R_ENGINE_CONTROL_LOGIC_LOW+:4]
                };
            end
            RESET_WORDS: begin
                words_write = {8{is_flr || !count[3]}};
                words_rest[32] = count[3:0] == 4'd9;
            end
            STAND_STILL: begin
                words_write = 8'b1011_0000;
                words_rest[63:57] = {1'b1, in_host, tells_status, logic_of};
                words_rest[43:40] = ERROR_CODE_RING;
            end
            ISSUE, ACCOUNT: words_write = {8{state == ISSUE ? request && d2h : !looked_dropped && is_data_taken}};
            TELL_DONE: words_write = '1;
            TELL_ERROR: begin
                words_write[4] = 1'b1;
                words_write[5] = tell_code != ERROR_CODE_OK;
                words_rest[32] = is_busy;
                words_rest[43:40] = tell_code;
            end
            default: ;
        endcase
        words_put = {2{access_new}};
        if (map_word == 4'd0) words_put[R_ENGINE_CONTROL_ABORT_LOW] = 1'b0;
        words_from[1] = state == ISSUE || state == ACCOUNT || state == TELL_DONE;
        words_from[0] = state == TELL_DONE || state == ACCESS;
    end

    always_comb begin
        store_write = '0;
        store_data = {2{access_new}};
        if (access_touches && map_descriptors) store_write = access_bytes;
        if (state == RESET_DESCRIPTORS || state == TELL_MOVED) begin
            store_write = '1;
            store_data = state == TELL_MOVED ? {23'd0, tell_moved} : '0;
        end
        if (state == TELL_CODE) begin
            store_write[7:4] = '1;
            store_data[63:32] = {28'd0, tell_code};
        end
    end

    always_comb begin
        position_write = is_start || (state == ABORT_WALK && walk_matches && !d2h && !first_dropped && note_kind != FETCH) ||
                         (state == ISSUE && (request || ends_refused)) ||
                         state == SKIP || (state == LOAD && !d2h && logic_of == 4'(LOGIC_KIND_LOOP_BACK));
        position_from[1] = state == ABORT_WALK || state == ISSUE || state == SKIP;
        position_from[0] = position_from[1] ? state == ABORT_WALK : state == LOAD || logic_now == 4'(LOGIC_KIND_LOOP_BACK);

        outcome_write = is_start || state == ABORT_END || (state == RESET_WORDS) || (state == ABORTED) ||
                        (state == ISSUE && d2h && (request || ends_refused)) || (state == LOAD && d2h) ||
                        (state == HAND_ON && !looked_dropped && note_kind != FETCH) ||
                        (state == ACCOUNT && !looked_dropped && note_kind != FETCH);
        case (state)
            ABORT_END: outcome_data = {ERROR_CODE_OK, 1'b0, 1'b0, moved};
            ISSUE: outcome_data = {ERROR_CODE_OK, 1'b0, ends_refused && slot_more, piece_last || ends_refused ? 41'd0 : account_moved};
            LOAD: outcome_data = {ERROR_CODE_OK, 1'b0, skips_d2h && slot_more, 41'd0};
            HAND_ON: outcome_data = {code_now, data_wrong, chain_failed, moved};
            ACCOUNT: outcome_data = note_last ? {code, 1'b0, note_more && account_code != ERROR_CODE_OK, 41'd0} :
                                                {code, data_wrong || done_wrong, chain_failed, account_moved};
            default: outcome_data = '0;
        endcase

        fetched_write = is_start || state == ABORT_END || state == RESET_WORDS || (state == ABORTED && words_read[31:0] == fetched) ||
                        (state == FETCH_ASK && in_host && ring_fits) || keeps_slot || pops ||
                        (state == ACCOUNT && !looked_dropped && note_kind == FETCH);
        case (state)
            ABORT_END: fetched_data = {!stands_still, 1'b0, 4'd0, 3'd0, words_read[63:32]};
            ABORTED: fetched_data = {1'b0, 1'b0, 4'd0, 3'd0, fetched};
            FETCH_ASK: fetched_data = {1'b0, 1'b1, ready_count, ready_first, fetched_next};
            FETCH_FLAGS: fetched_data = {1'b0, 1'b0, ready_then, ready_first, fetched_next};
            LOAD, SKIP, ISSUE: fetched_data = {1'b0, fetching, ready_then, ready_first + 3'd1, fetched};
            ACCOUNT: fetched_data = {aborting, 1'b0, ready_then, ready_first, fetched};
            default: fetched_data = '0;
        endcase

        open_write = is_start || state == ABORT_END || state == RESET_WORDS || (give && note_given != FETCH) ||
                     (state == ACCOUNT && !looked_dropped && note_kind != FETCH);
        open_data = state == ACCOUNT ? open_count - 1'b1 : state == ISSUE || state == LOAD ? open_count + 1'b1 : '0;

        held_write = state == START_CONTROL || state == RESET_WORDS || state == DUE || (state == TELL_INTERRUPT && is_told);
        held_data = state == TELL_INTERRUPT && !is_count_reached ? {held_more[15:0], held == '0 ? now_us + 17'(words_read[31:16]) : due} :
                    state == DUE && !is_due ? {held, due} : '0;

        put_write = state == RESET_WORDS || (state == ACCOUNT && !looked_dropped && done_kind == LOOP);
        put_data = state == ACCOUNT ? POSITION'(note_position[POSITION-1:0] + POSITION'(looked_bytes)) : '0;
        took_write = state == RESET_WORDS || starts_d2h || (state == ISSUE && request && d2h && logic_of == 4'(LOGIC_KIND_LOOP_BACK));
        took_data = state == ISSUE ? piece_position[POSITION-1:0] : is_start ? put : '0;

        weight_write = state == RESET_WEIGHTS || (state == ACCESS && access_write && access_enables[0] && access_function == '0 &&
                       (map_weights || (map_function && access_address[3:0] == R_WEIGHT[5:2])));
        weight_data = state == ACCESS ? access_data[7:0] : 8'd1;
    end

    // ---- conditions of single states ----
    logic [3:0] logic_now;
    logic ends_refused, skips_d2h, pops, ring_fits, is_count_reached, is_due;
    logic [3:0] load_code;
    assign logic_now = logic_of;
    // A fetched descriptor is written to its slot before the rest of the current one.
    logic issues;
    logic [3:0] ready_then;
    assign issues = state == ISSUE && !slot_write;
    assign ends_refused = issues && current_valid && !may_master && (d2h || window_room);
    assign pops = (state == LOAD && fault != ERROR_CODE_NONE && (d2h || window_room)) || state == SKIP || ends_refused ||
                  (state == ISSUE && request && piece_last);
    assign ready_then = ready_count + (state == ACCOUNT ? 4'(looked_bytes[7:5]) : state == FETCH_FLAGS ? 4'd1 : 4'hf);
    assign load_code = unbegun(fault, chain_failed);
    assign skips_d2h = load_code != ERROR_CODE_OK;
    logic ring_holds;
    logic [16:0] held_more;
    logic [31:0] fetched_next, failed_more, done_more;
    // Posted descriptors follow the fetched ones, unless POSTED went back.
    assign failed_more = words_read[63:32] + 32'(state == TELL_DONE && tell_code != ERROR_CODE_OK);
    assign done_more = words_read[31:0] + 32'(state == TELL_DONE);
    assign ring_holds = ring_legal && !behind[31];
    assign ring_fits = ring_holds && words_read[4:0] == 5'd0;
    assign held_more = {1'b0, held} + 17'd1;
    assign is_count_reached = held_more >= {1'b0, words_read[15:0]};
    // `due` is one microsecond early: now_us - due - 1 must not be negative.
    assign is_due = $signed(17'(now_us + ~due)) >= 0;
    assign fetched_next = fetched + (state == FETCH_ASK ? 32'(fetch_count) : 32'd1);

    // ---- requests, and places in the window ----
    logic [1:0] note_given;
    always_comb begin
        request = 1'b0;
        request_kind = GIVEN;
        request_logic = logic_of[1:0];
        // In other states, the engine's word is the address.
        request_address = state == ISSUE ? slot_address : state == FETCH_ASK ? place_address :
                          state == TELL_STATUS ? {place_address[63:5], R_DESCRIPTOR_STATUS[4:0]} : {words_read[63:2], 2'b00};
        request_bytes = LENGTH'(12);
        request_tag = tail_tag;
        request_pair = pair;
        request_given = state == ISSUE ? 73'(position) : state == TELL_STATUS ? {tell_moved, 28'd0, tell_code} : 73'({seen_failed, seen_done});
        give = 1'b0;
        give_read = may_master;
        give_bytes = piece_bytes[LENGTH-1:0];
        give_offset = slot_address[1:0];
        give_lane = piece_lane;
        give_rows = piece_rows;
        note_given = DATA;
        give_note = {DATA, e, current_first, piece_last, slot_interrupts, slot_more, ERROR_CODE_NONE, position};
        case (state)
            FETCH_ASK: begin
                give = in_host && ring_fits;
                request = give && may_master;
                request_kind = READ;
                request_bytes = LENGTH'(fetch_count) << 5;
                give_bytes = LENGTH'(fetch_count) << 5;
                give_offset = 2'd0;
                give_lane = '0;
                give_rows = (ROW + 1)'((13'(fetch_count) << 5) + 13'(2 ** BYTE - 1) >> BYTE);
                note_given = FETCH;
                give_note = {FETCH, e, 4'b0000, may_master ? ERROR_CODE_NONE : ERROR_CODE_FETCH, position[66:BYTE], BYTE'(0)};
            end
            LOAD: begin
                give = !d2h && fault != ERROR_CODE_NONE && window_room;
                give_read = 1'b0;
                give_bytes = '0;
                give_rows = '0;
                note_given = LOCAL_END;
                give_note = {LOCAL_END, e, 2'b11, slot_interrupts || slot_unreadable, slot_more && !slot_unreadable, fault, position};
            end
            ISSUE:
                if (ends_refused) begin
                    give = !d2h;
                    give_bytes = '0;
                    give_rows = '0;
                    note_given = LOCAL_END;
                    give_note = {LOCAL_END, e, current_first, 1'b1, slot_interrupts, slot_more, ERROR_CODE_READ, position};
                end else if (issues && current_valid && piece_fits && queue_room >= (QUEUE + 1)'(ROOM)) begin
                    request = may_master;
                    give = !d2h && may_master;
                    request_kind = d2h ? DATA_ROWS : READ;
                    request_bytes = piece_bytes[LENGTH-1:0];
                end
            TELL_STATUS: request = in_host && may_master;
            TELL_BACK: begin
                request = words_read != '0 && may_master;
                request_bytes = LENGTH'(8);
            end
            INTERRUPT_SEND: begin
                request = 1'b1;
                request_bytes = LENGTH'(4);
            end
            default: ;
        endcase
    end

    // ---- delivery of data ----
    always_comb begin
        job = state == HAND_ON;
        step = job;
        job_kind = NOBODY;
        if (!looked_dropped) begin
            if (note_kind == FETCH) job_kind = DESCRIPTORS;
            else if (note_kind == DATA && code_now == ERROR_CODE_OK)
                job_kind = words_read[58:57] == LOGIC_KIND_INTEGERS ? CHECK : words_read[58:57] == LOGIC_KIND_LOOP_BACK ? LOOP : SINK;
        end
        job_code = code_now;
        job_position = note_position;
        job_pair = pair;
        job_slot = {e, slot_next};
        job_unreadable = looked_failed || note_fault != ERROR_CODE_NONE;
        free = state == ACCOUNT;
        done_taken = state == ACCOUNT;
        drop = (state == ABORT_WALK || state == RESET_WALK) && walk_matches;
        // Descriptors from host memory have priority.
        keeps_slot = state == FETCH_FLAGS && !slot_write;
        cuts_slot = state == ISSUE && request;
        slot_to = slot_write ? slot : {e, cuts_slot ? ready_first : slot_next};
        access_done = state == ACCESS;
        is_spent = state == ISSUE && request && share_over;
        is_over = 1'b0;
        if (state == VISIT_NEXT && !current_valid && (ready_count == '0 || waits_for_loop)) is_over = 1'b1;
        if (issues && !loop_fits) is_over = 1'b1;
        // A descriptor without bytes also costs a turn.
        if (state == ABORTED || ends_refused || (state == LOAD && (d2h ? skips_d2h : fault != ERROR_CODE_NONE))) is_over = 1'b1;
    end
    logic is_spent, is_over;
    assign spent = {d2h, !d2h} & {2{is_spent}};
    assign over = {d2h, !d2h} & {2{is_over}};
    // In the device, reserved flags are 0. A descriptor that is being split has passed all checks.
    dma_engine_choose #(.WIDTH(111)) slot_choice (
        .select(slot_write ? {1'b1, slot_upper} : {1'b0, cuts_slot}), .a({2'b10, 1'b0, store_read[1:0], kept_bytes, kept_address}),
        .b({3'b000, slot_more, slot_interrupts, 1'b0, piece_left, piece_address}),
        .c({1'b1, unreadable, lower_descriptor}), .d({1'b1, unreadable, upper_descriptor}), .out(slot_data)
    );
    assign slot_next = ready_first + ready_count[2:0];
    logic waits_for_loop;  // an H2D descriptor whose position in the loop-back is not known yet
    assign waits_for_loop = !d2h && logic_of == 4'(LOGIC_KIND_LOOP_BACK) && open_count != '0;

    // ---- state transitions ----
    always_ff @(posedge clk) begin
        pending <= pending & ~drops_interrupt;
        flr_done <= '0;
        was_there <= there;
        if (us_over) scan <= armed;
        flr_seen <= flr_seen & flr;
        initial_reset <= initial_reset | (was_there & ~there);
        if (sent && unsent != '0) unsent <= unsent - 1'b1;
        if (resetting && unsent == '0 && $signed(8'(passed - ticket)) >= 0) begin
            resetting <= 1'b0;
            if (!is_initial) flr_done <= FUNCTIONS'(1) << reset_of;
        end
        if (state == ISSUE && request) begin
            if (d2h) share_d2h <= share - 11'(piece_bytes);
            else share_h2d <= share - 11'(piece_bytes);
        end
        if (spent[0] || over[0]) share_h2d <= 11'(SHARE_BYTES);
        if (spent[1] || over[1]) share_d2h <= 11'(SHARE_BYTES);
        case (state)
            IDLE: begin
                state <= next_state;
                e <= idle_e;
                count <= '0;
                walk <= head_tag;
                first_dropped <= 1'b0;
                if (next_state == RESET_WORDS) begin
                    is_flr <= 1'b1;
                    for (int i = FUNCTIONS - 1; i >= 0; i--)
                        if (resets[i]) begin
                            reset_of <= FUNCTION'(i);
                            is_initial <= initial_reset[i] && !(flr[i] && !flr_seen[i]);
                        end
                end
                if (next_state == VISIT_CONTROL) direction <= !turn_is_d2h;
            end
            ACCESS: begin
                state <= IDLE;
                {stands_still, in_host, tells_status, logic_of} <= words_read[63:57];
                // For a write of POSTED.
                for (int b = 0; b < 4; b++) seen_posted[8*b+:8] <= access_enables[b] ? access_data[8*b+:8] : words_read[32+8*b+:8];
                if (access_touches && map_engine) begin
                    if (map_word == 4'd0) begin
                        logic_of <= access_enables[1] ? access_data[R_ENGINE_CONTROL_LOGIC_LOW+:4] : words_read[R_ENGINE_CONTROL_LOGIC_LOW+:4];
                        if (access_enables[0] && !words_read[0] && access_data[0]) state <= START_SEED;
                        if (access_enables[0] && words_read[0] && (!access_data[0] || access_data[R_ENGINE_CONTROL_ABORT_LOW])) state <= ABORT_WALK;
                    end
                    if (map_word == 4'd2 && access_address[0] && access_enables != '0) state <= POSTED_NOW;
                    if (map_word == 4'd9 && access_address[0] && access_enables[0])
                        vector_masked <= access_data[0] ? vector_masked | one : vector_masked & ~one;
                end
                if (access_write && map_function && access_address[3:0] == R_CONTROL[5:2] && access_enables[0] && access_data[0]) begin
                    state <= RESET_WORDS;
                    is_flr <= 1'b0;
                    is_initial <= 1'b1;
                    reset_of <= access_function;
                end
            end
            POSTED_NOW: begin
                {seen_failed, seen_done} <= {failed_more, done_more};
                active <= active | one;
                state <= POSTED_BUSY;
            end
            POSTED_BUSY: state <= IDLE;
            START_SEED: begin
                current_there <= current_there & ~one;
                armed <= armed & ~one;
                state <= START_POSTED;
            end
            START_POSTED: state <= START_DONE;
            START_DONE: state <= START_BYTES;
            START_BYTES: state <= START_CONTROL;
            START_CONTROL: state <= IDLE;
            ABORT_WALK: begin
                walk <= walk + 1'b1;
                if (walk_matches && note_kind != FETCH) first_dropped <= 1'b1;
                if (walk_ends) state <= ABORT_END;
            end
            ABORT_END: begin
                current_there <= current_there & ~one;
                active <= active | one;
                state <= IDLE;
            end
            RESET_WORDS: begin
                count <= count + 1'b1;
                current_there <= current_there & ~one;
                armed <= armed & ~one;
                pending <= pending & ~drops_interrupt & ~one;
                active <= active & ~one;
                if (is_flr) vector_masked <= vector_masked | one;
                if (count == DESCRIPTOR_WORD'((16 << LOCAL) - 1)) begin
                    count <= '0;
                    state <= RESET_DESCRIPTORS;
                end
            end
            RESET_DESCRIPTORS: begin
                count <= count + 1'b1;
                if (count[LOCAL+PLACE+1:0] == '1) begin
                    count <= '0;
                    state <= reset_of == '0 ? RESET_WEIGHTS : RESET_WALK;
                end
            end
            RESET_WEIGHTS: begin
                count <= count + 1'b1;
                if (count == DESCRIPTOR_WORD'(FUNCTIONS - 1)) state <= RESET_WALK;
            end
            RESET_WALK: begin
                walk <= walk + 1'b1;
                if (walk_ends) state <= RESET_END;
            end
            RESET_END: begin
                ticket <= asked;
                unsent <= queued - (QUEUE + 1)'(sent);
                if (is_flr) begin
                    resetting <= 1'b1;
                    initial_reset <= (initial_reset | (was_there & ~there)) & ~(FUNCTIONS'(1) << reset_of);
                    if (!is_initial) flr_seen <= flr_seen & flr | FUNCTIONS'(1) << reset_of;
                    // Virtual functions cease to exist when their physical function is reset.
                    if (reset_of == '0 && !is_initial) initial_reset <= ~FUNCTIONS'(1);
                end
                state <= IDLE;
            end
            VISIT_CONTROL: begin
                enabled <= words_read[0];
                {stands_still, in_host, tells_status, logic_of} <= words_read[63:57];
                state <= VISIT_POSTED;
            end
            VISIT_POSTED: begin
                {seen_posted, seen_entries} <= words_read;
                if (aborting) state <= ABORTED;
                else if (enabled && !stands_still && words_read[63:32] != fetched &&
                         (in_host ? !fetching && ready_count <= 4'd4 && window_room && rows_free >= (ROW + 1)'(4) && !reads_queued[QUEUE] :
                                    ready_count == 4'(current_valid)))
                    state <= FETCH_CHECK;
                else state <= VISIT_NEXT;
            end
            VISIT_NEXT:
                if (current_valid) state <= ISSUE;
                else if (ready_count != '0 && !waits_for_loop) state <= LOAD;
                else begin
                    if (ready_count == '0 && (behind == '0 || fetching || !enabled || stands_still)) active <= active & ~one;
                    state <= IDLE;
                end
            ABORTED: begin
                tell_code <= ERROR_CODE_ABORTED;
                tell_moved <= account_moved;
                tell_interrupts <= 1'b1;
                state <= words_read[31:0] == fetched ? IDLE : TELL;
            end
            FETCH_CHECK: begin
                ring_legal <= behind[31:17] == '0 && behind[16:0] <= seen_entries[16:0] && logic_of <= 4'd2 &&
                              seen_entries[31:17] == '0 && seen_entries[16:0] != '0 && (seen_entries[16:0] & entries_less) == '0 &&
                              (in_host || seen_entries[16:PLACE+1] == '0);
                state <= FETCH_ASK;
            end
            FETCH_ASK: state <= !(ring_holds && (!in_host || words_read[4:0] == 5'd0)) ? STAND_STILL : in_host ? VISIT_NEXT : FETCH_ADDRESS;
            FETCH_ADDRESS: begin
                kept_address <= store_read;
                state <= FETCH_BYTES;
            end
            FETCH_BYTES: begin
                kept_bytes <= {store_read[63:41] != '0, store_read[40:0]};
                state <= FETCH_FLAGS;
            end
            FETCH_FLAGS: if (keeps_slot) state <= VISIT_NEXT;
            STAND_STILL: begin
                pending <= pending & ~drops_interrupt | one;
                state <= IDLE;
            end
            LOAD: begin
                state <= IDLE;
                if (d2h && skips_d2h) begin
                    tell_code <= load_code;
                    tell_moved <= '0;
                    tell_interrupts <= slot_interrupts || slot_unreadable;
                    // A descriptor that its chain prevents consumes its bytes of the stream.
                    state <= fault == ERROR_CODE_NONE ? SKIP : TELL;
                end else if (fault == ERROR_CODE_NONE) begin
                    current_there <= current_there | one;
                    state <= ISSUE;
                end else if (window_room) state <= VISIT_NEXT;
            end
            SKIP: state <= TELL;
            ISSUE: if (issues) begin
                tell_code <= ends_refused ? ERROR_CODE_WRITE : ERROR_CODE_OK;
                tell_moved <= account_moved;
                tell_interrupts <= slot_interrupts;
                if (ends_refused || (request && piece_last)) begin
                    current_there <= current_there & ~one;
                    state <= d2h ? TELL : share_over || ends_refused ? IDLE : VISIT_NEXT;
                end else if (!request || share_over) state <= IDLE;
            end
            HAND_ON: begin
                // Only the end of this descriptor decides whether the next one of its chain begins, whatever is delivered in
                // between.
                unsettled <= (unsettled && !window_quiet) || (note_kind != FETCH && note_last && (note_more || chain_failed));
                state <= IDLE;
            end
            ACCOUNT: begin
                if (!looked_dropped) active <= active | one;
                tell_code <= account_code;
                tell_moved <= account_moved;
                tell_interrupts <= note_interrupts;
                state <= !looked_dropped && note_kind != FETCH && note_last ? TELL : IDLE;
            end
            TELL: begin
                {stands_still, in_host, tells_status, logic_of} <= words_read[63:57];
                state <= TELL_RING;
            end
            TELL_RING: begin
                {seen_posted, seen_entries} <= words_read;
                state <= TELL_COUNTS;
            end
            TELL_COUNTS: begin
                {seen_failed, seen_done} <= {failed_more, done_more};
                state <= (tells_status || tell_code != ERROR_CODE_OK) && tell_code != ERROR_CODE_FETCH ? TELL_STATUS : TELL_DONE;
            end
            TELL_STATUS: state <= !in_host ? TELL_CODE : may_master ? TELL_DONE : IDLE;
            TELL_CODE: state <= TELL_MOVED;
            TELL_MOVED: state <= TELL_DONE;
            TELL_DONE: begin
                {seen_failed, seen_done} <= {failed_more, done_more};
                state <= TELL_ERROR;
            end
            TELL_ERROR: state <= TELL_BACK;
            TELL_BACK: state <= words_read != '0 && !may_master ? IDLE : TELL_INTERRUPT;
            TELL_INTERRUPT: begin
                if (is_told) begin
                    if (is_count_reached) pending <= pending & ~drops_interrupt | one;
                    if (is_count_reached) armed <= armed & ~one;
                    else if (words_read[31:16] != '0) armed <= armed | one;
                end
                state <= IDLE;
            end
            INTERRUPT_DATA: begin
                {seen_failed, seen_done} <= {failed_more, done_more};
                state <= INTERRUPT_SEND;
            end
            INTERRUPT_SEND: begin
                pending <= pending & ~drops_interrupt & ~one;
                state <= IDLE;
            end
            DUE: begin
                scan <= (us_over ? armed : scan) & ~one;
                if (is_due && (armed & one) != '0) begin
                    armed <= armed & ~one;
                    pending <= pending & ~drops_interrupt | one;
                end
                state <= IDLE;
            end
            default: state <= IDLE;
        endcase
        if (rst) begin
            state <= IDLE;
            initial_reset <= '1;
            {active, pending, armed, scan, current_there} <= '0;
            {flr_seen, flr_done} <= '0;
            was_there <= '0;
            {resetting, direction, unsettled} <= '0;
            {share_h2d, share_d2h} <= {2{11'(SHARE_BYTES)}};
        end
    end
