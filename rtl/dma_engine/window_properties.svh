// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of dma_engine_window: no tag and no row in use is allocated. The user allocates only if there is room, delivers only ready
// places, and frees only delivered ones; completions arrive only for open tags.
    logic f_started;
    initial f_started = 1'b0;
    logic [TAG-1:0] f_tag;     // an arbitrary constant tag
    always_ff @(posedge clk) if (rst) f_tag <= completion_tag;
    logic [ROW-1:0] f_row;     // an arbitrary constant row
    always_ff @(posedge clk) if (rst) f_row <= give_rows[ROW-1:0];
    logic f_tag_used, f_row_used;             // derived only from allocations and frees
    logic [ROW:0] f_into, f_from_head, head_rows;
    assign head_rows = (ROW + 1)'(looked_end - row_head);
    // Tags that wait for completions, derived only from allocations and ends.
    logic [TAGS-1:0] open;
    always_ff @(posedge clk)
        if (rst) open <= '0;
        else begin
            if (ended) open[ended_tag] <= 1'b0;
            if (give) open[tail_tag] <= give_read;
        end
    logic f_gives_row, f_frees_row;
    assign f_into = {1'b0, ROW'(f_row - row_tail[ROW-1:0])};
    assign f_gives_row = give && f_into < give_rows;
    assign f_from_head = {1'b0, ROW'(f_row - row_head[ROW-1:0])};
    assign f_frees_row = free && f_from_head < head_rows;

    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) {f_tag_used, f_row_used} <= '0;
        else begin
            assume (!give || (room && give_rows <= rows_free));
            assume (!step || ready);
            assume (!free || (!is_quiet && look == head_tag));
            assume (!step || look == next_tag);
            assume (!(give && drop));
            assume (!ended || open[ended_tag]);
            assume (!failed || open[ended_tag]);
            if (give && tail_tag == f_tag) begin
                assert (!f_tag_used);
                f_tag_used <= 1'b1;
            end
            if (free && head_tag == f_tag) begin
                assert (f_tag_used);
                // A freed tag must not wait for completions.
                assert (!open[f_tag]);
                f_tag_used <= 1'b0;
            end
`ifdef BOUNDED
            if (f_gives_row) assert (!f_row_used);
            assert ((ROW + 1)'(row_tail - row_head) <= (ROW + 1)'(ROWS));
            assert (f_row_used == (f_from_head < (ROW + 1)'(row_tail - row_head)));
`endif
            f_row_used <= (f_row_used && !f_frees_row) || f_gives_row;
            assert (sweeps || completion_open == open[completion_tag]);
            assert (!ready || !open[next_tag]);
            // Invariants that connect the properties.
            assert ((TAG + 1)'(tail - head) <= (TAG + 1)'(TAGS));
            assert ((TAG + 1)'(next - head) <= (TAG + 1)'(tail - head));
            assert (f_tag_used == ({1'b0, TAG'(f_tag - head_tag)} < (TAG + 1)'(tail - head)));
            if (open[f_tag]) assert ({1'b0, TAG'(f_tag - next_tag)} < (TAG + 1)'(tail - next));
        end
    end
