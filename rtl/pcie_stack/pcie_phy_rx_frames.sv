// SPDX-License-Identifier: Apache-2.0 OR MIT
// Turns words with several parts of frames into beats of one frame, which begin in lane 0. Words of the link are first gathered to the width of a
// beat. Each step takes a word up to the end of its first frame, or all of it.
//
// Size of the queue: a word takes one step for each frame that ends in it, and at least one. A word in which no frame ends is full of one
// TLP. So frames take at most as many steps as they have beats. The transmitter of this stack takes one beat per cycle. It stores
// 17 beats, and frames of one beat of slack, at most DATA_WIDTH / 64. A burst is thus less than 28 steps and less than 28 words.
// Another transmitter may send more short frames than one per cycle for long. The last place of the queue is then a word that cuts the open frame
// with an error, and words are lost until the queue is half empty. So the queue cannot overflow, and no frame is lost in part.
module pcie_phy_rx_frames #(
    parameter int DATA_WIDTH = 256,
    parameter int WORD_BYTES = 32,
    parameter int DEPTH = 32,
    parameter int BLOCKS = 1,
    localparam int DWORDS = DATA_WIDTH / 32,
    localparam int LANE = $clog2(DWORDS),
    localparam int D = WORD_BYTES / 4
) (
    input logic clk,
    input logic rst,
    input logic marked_valid,
    input logic [8*WORD_BYTES-1:0] marked,
    input logic [D-1:0] first,
    input logic [D-1:0] final_one,
    input logic [D-1:0] dllp,
    input logic [D-1:0] nullify,
    input logic [D-1:0] broken,
    input logic damaged,

    output logic frame_valid,
    output logic frame_sop,
    output logic frame_eop,
    output logic frame_dllp,
    output logic frame_nullify,
    output logic frame_error,
    output logic [LANE-1:0] frame_end,
    output logic [DATA_WIDTH-1:0] frame_data,

    output logic event_overflow,
    output logic event_damaged
);
    localparam int WIDTH = 37 * DWORDS + 1;
    localparam int GROUP = DWORDS / D;
    localparam int ADDRESS = $clog2(DEPTH);
    localparam int PLACE = LANE + 1;
    localparam int FILL = LANE + 2;

    // ---- words as wide as beats ----
    logic g_valid;
    logic [WIDTH-1:0] g_word;
    if (GROUP == 1) begin : same_width
        assign g_valid = marked_valid;
        assign g_word = {marked, first, final_one, dllp, nullify, broken, damaged};
    end else begin : gather
        localparam int TURN = $clog2(GROUP);
        logic [TURN-1:0] turn;
        logic [DATA_WIDTH-1:0] data;
        logic [DWORDS-1:0] firsts, finals, dllps, nullifies, brokens;
        logic damages;
        always_ff @(posedge clk)
            if (rst) begin
                turn <= '0;
                g_valid <= 1'b0;
            end else begin
                turn <= marked_valid ? turn + 1'b1 : '0;
                // The word is complete, or its last frame has ended.
                g_valid <= marked_valid ? turn == '1 : turn != '0;
            end
        always_ff @(posedge clk) begin
            if (turn == '0) begin
                firsts <= '0;
                finals <= '0;
                damages <= damaged && marked_valid;
            end else if (marked_valid) damages <= damages || damaged;
            for (int g = 0; g < GROUP; g++)
                if (marked_valid && turn == TURN'(g)) begin
                    data[32*D*g+:32*D] <= marked;
                    firsts[D*g+:D] <= first;
                    finals[D*g+:D] <= final_one;
                    dllps[D*g+:D] <= dllp;
                    nullifies[D*g+:D] <= nullify;
                    brokens[D*g+:D] <= broken;
                end
        end
        assign g_word = {data, firsts, finals, dllps, nullifies, brokens, damages};
    end

    // ---- the queue ----
    logic [ADDRESS:0] count;
    logic lossy, nearly_full, write;
    logic queue_valid, queue_take;
    logic [WIDTH-1:0] written, queue_front;
    assign nearly_full = count >= (ADDRESS + 1)'(DEPTH - 2);
    assign write = g_valid && !lossy;
    // The mark has any data.
    localparam int MARKS = WIDTH - DATA_WIDTH;
    assign written = {g_word[WIDTH-1:MARKS], nearly_full ? {DWORDS'(0), DWORDS'(1), DWORDS'(0), DWORDS'(0), DWORDS'(1), 1'b0} : g_word[MARKS-1:0]};
    assign event_overflow = write && nearly_full;
    always_ff @(posedge clk)
        if (rst) lossy <= 1'b0;
        else if (event_overflow) lossy <= 1'b1;
        else if (count <= (ADDRESS + 1)'(DEPTH / 2)) lossy <= 1'b0;
    pcie_phy_queue #(
        .WIDTH(WIDTH),
        .DEPTH(DEPTH)
    ) queue (
        .clk(clk),
        .rst(rst),
        .write(write),
        .word(written),
        .valid(queue_valid),
        .front(queue_front),
        .take(queue_take),
        .count(count)
    );

    // ---- the word at work ----
    logic x_valid, stall, x_done;
    logic [WIDTH-1:0] x;
    logic [DATA_WIDTH-1:0] x_data;
    logic [DWORDS-1:0] x_first, x_final, x_dllp, x_nullify, x_broken, gone, ends, lowest, up_to, starts_here, starts_after;
    logic x_damaged, x_any;
    assign queue_take = !x_valid || (x_done && !stall);
    assign {x_data, x_first, x_final, x_dllp, x_nullify, x_broken, x_damaged} = x;
    assign ends = x_final & ~gone;
    assign x_any = ends != '0;
    // No end is before them.
    always_comb for (int i = 0; i < DWORDS; i++) up_to[i] = (ends & ((DWORDS'(1) << i) - 1'b1)) == '0;
    assign lowest = ends & up_to;
    assign x_done = (ends & ~up_to) == '0;
    assign starts_here = x_first & ~gone & up_to;
    assign starts_after = x_any ? (x_done ? x_first & ~up_to : '0) : starts_here;
    always_ff @(posedge clk)
        if (rst) begin
            x_valid <= 1'b0;
            gone <= '0;
        end else begin
            if (queue_take) x_valid <= queue_valid;
            if (!stall) gone <= x_valid && !x_done ? up_to : '0;
        end
    always_ff @(posedge clk) if (queue_take) x <= queue_front;

    // ---- a step ----
    logic y_valid, y_new, y_any, y_here, y_after, y_dllp_here, y_dllp_after, y_nullify, y_broken, y_damaged;
    logic [DWORDS-1:0] y_lowest, y_start_here, y_start_after;
    logic [DATA_WIDTH-1:0] y_data;
    always_ff @(posedge clk)
        if (rst) y_valid <= 1'b0;
        else if (!stall) y_valid <= x_valid;
    always_ff @(posedge clk)
        if (!stall) begin
            y_new <= gone == '0;
            y_any <= x_any;
            y_lowest <= lowest;
            y_here <= x_any && starts_here != '0;
            y_start_here <= starts_here;
            y_dllp_here <= (starts_here & x_dllp) != '0;
            y_after <= starts_after != '0;
            y_start_after <= starts_after;
            y_dllp_after <= (starts_after & x_dllp) != '0;
            y_nullify <= (lowest & x_nullify) != '0;
            y_broken <= (lowest & x_broken) != '0;
            y_damaged <= x_damaged;
            y_data <= x_data;
        end

    function automatic logic [FILL-1:0] index(input logic [DWORDS-1:0] one_hot);
        index = '0;
        for (int i = 0; i < DWORDS; i++) if (one_hot[i]) index = index | FILL'(i);
    endfunction
    logic [PLACE-1:0] base, base_here, begin_at, emit_at, late_at;
    logic [FILL-1:0] fill, total;
    logic open, is_dllp, is_first, spoiled;
    logic emits, emits_final, over, full, late, z_valid;
    logic [LANE-1:0] late_end;
    logic late_dllp, late_nullify, late_error;
    assign base_here = y_new ? base + PLACE'(DWORDS) : base;
    assign total = y_here ? index(y_lowest) - index(y_start_here) + FILL'(1)
        : y_any ? fill + index(y_lowest) + FILL'(1)
        : y_after ? FILL'(DWORDS) - index(y_start_after) : fill + FILL'(DWORDS);
    // A word without an end fills a beat if its frame began in lane 0 or before it; the frame goes on.
    assign over = total > FILL'(DWORDS);
    assign full = !y_any && total >= FILL'(DWORDS);
    assign emits_final = y_any && (y_here || open) && !over;
    assign emits = y_valid && (y_any ? y_here || open : full && (open || y_after));
    assign stall = late && emits;
    assign emit_at = y_here ? base_here + PLACE'(index(y_start_here)) : y_after && !y_any ? base_here : begin_at;

    logic z_sop, z_eop, z_dllp, z_nullify, z_error;
    logic [PLACE-1:0] z_at;
    logic [LANE-1:0] z_end;
    logic error_here;
    assign error_here = y_damaged || y_broken || (!y_here && spoiled);
    always_ff @(posedge clk)
        if (rst) begin
            open <= 1'b0;
            late <= 1'b0;
            z_valid <= 1'b0;
            base <= '0;
        end else begin
            z_valid <= late || emits;
            late <= !stall && emits && y_any && over;
            if (y_valid && !stall) begin
                base <= base_here;
                if (y_any) open <= y_after;
                else open <= y_after || open;
            end
        end
    always_ff @(posedge clk) begin
        if (y_valid && !stall) begin
            if (y_after) begin
                begin_at <= base_here + (full ? PLACE'(DWORDS) : PLACE'(index(y_start_after)));
                fill <= full ? '0 : FILL'(DWORDS) - index(y_start_after);
                is_dllp <= y_dllp_after;
                is_first <= !full;
                spoiled <= y_damaged;
            end else begin
                fill <= full ? total - FILL'(DWORDS) : total;
                if (full) begin
                    begin_at <= begin_at + PLACE'(DWORDS);
                    is_first <= 1'b0;
                end
                spoiled <= spoiled || y_damaged;
            end
        end
        if (!stall) begin
            late_at <= begin_at + PLACE'(DWORDS);
            late_end <= LANE'(total - FILL'(DWORDS + 1));
            late_dllp <= is_dllp;
            late_nullify <= y_nullify;
            late_error <= error_here;
        end
        z_at <= late ? late_at : emit_at;
        z_sop <= !late && (y_here || (y_after && !y_any) || is_first);
        z_eop <= late || emits_final;
        z_dllp <= late ? late_dllp : y_here ? y_dllp_here : y_any ? is_dllp : y_after ? y_dllp_after : is_dllp;
        z_nullify <= late ? late_nullify : emits_final && y_nullify;
        z_error <= late ? late_error : emits_final && error_here;
        z_end <= late ? late_end : emits_final ? LANE'(total - FILL'(1)) : '1;
    end
    assign event_damaged = emits && !stall && y_any && (y_damaged || (!y_here && spoiled));

    // ---- the last words of the stream, from which beats are read ----
    logic [64*DWORDS-1:0] window;
    always_ff @(posedge clk)
        if (y_valid && !stall && y_new) begin
            if (base_here[LANE]) window[2*DATA_WIDTH-1:DATA_WIDTH] <= y_data;
            else window[DATA_WIDTH-1:0] <= y_data;
        end
    // The first step rotates by half a word and selects the word, one of four sources for each double-word; the others rotate by less.
    localparam int HALF = DWORDS / 2;
    logic [DWORDS-1:0] from_high;
    logic [DATA_WIDTH-1:0] picked;
    always_comb begin
        for (int i = 0; i < DWORDS; i++) from_high[i] = ((LANE'(i) ^ (z_at[LANE-1] ? LANE'(HALF) : '0)) >= LANE'(z_at)) == z_at[LANE];
        for (int i = 0; i < DWORDS; i++)
            case ({z_at[LANE-1], from_high[i]})
                2'b00: picked[32*i+:32] = window[32*i+:32];
                2'b01: picked[32*i+:32] = window[32*(i+DWORDS)+:32];
                2'b10: picked[32*i+:32] = window[32*(i^HALF)+:32];
                default: picked[32*i+:32] = window[32*((i^HALF)+DWORDS)+:32];
            endcase
        for (int k = 0; k < LANE - 1; k++) if (z_at[k]) picked = (picked >> 32 * 2 ** k) | (picked << 32 * (DWORDS - 2 ** k));
    end
    always_ff @(posedge clk)
        if (rst) frame_valid <= 1'b0;
        else frame_valid <= z_valid;
    always_ff @(posedge clk) begin
        frame_sop <= z_sop;
        frame_eop <= z_eop;
        frame_dllp <= z_dllp;
        frame_nullify <= z_nullify;
        frame_error <= z_error;
        frame_end <= z_end;
        frame_data <= picked;
        // The frame CRC was where the reserved bits of the sequence number are.
        if (BLOCKS != 0 && z_sop && !z_dllp) frame_data[23:20] <= '0;
    end

`ifdef PROVE_FRAMES
`include "frames_properties.svh"
`endif
endmodule
