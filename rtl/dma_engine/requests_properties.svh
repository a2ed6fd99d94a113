// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of dma_engine_requests: each read that leaves has a credit, also if the block's counter lags by two cycles and shows any smaller
// number. A request stays until it is popped. Each pushed request comes out once, in the order of its kind.
    logic f_started;
    initial f_started = 1'b0;
    logic [4:0] f_credits;   // credits of the block, after the reads that it has accepted
    logic [4:0] f_between;   // popped reads that the block has not accepted
    (* anyseq *) logic [3:0] f_returned;   // credits that the link partner returns
    (* anyconst *) logic [4:0] f_initial;  // credits after reset

    logic f_stays, f_is_read;
    (* anyconst *) logic f_kind;             // the kind, and a word of it to track
    (* anyconst *) logic [WIDTH-1:0] f_word;
    logic f_follows;
    logic [ADDRESS:0] f_place, f_head, f_tail;
    assign f_head = f_kind ? read_head : write_head;
    assign f_tail = f_kind ? read_tail : write_tail;

    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            f_credits <= f_initial;
            f_between <= '0;
            {f_stays, f_follows} <= '0;
        end else begin
            // The users' part, and the block's.
            assume (!push || (push_read ? reads : (ADDRESS + 1)'(DEPTH) - room) != (ADDRESS + 1)'(DEPTH));
            assume (!pop || valid);
            assume (!read_accepted || f_between != '0);
            assume (5'(credits) <= f_credits + 5'(accepted[0]) + 5'(accepted[1]));
            assume (6'(f_credits) + 6'(f_returned) < 6'd28);
            f_credits <= f_credits + 5'(f_returned) - 5'(read_accepted);
            f_between <= f_between + 5'(pop && is_read) - 5'(read_accepted);

            assert (f_between <= f_credits);
            assert (!(pop && is_read) || f_between < f_credits);
            assert (reads <= (ADDRESS + 1)'(DEPTH) && room <= (ADDRESS + 1)'(DEPTH));
            if (f_stays) assert (valid && is_read == f_is_read);
            f_stays <= valid && !pop;
            f_is_read <= is_read;
            if (f_follows) begin
                assert ((ADDRESS + 1)'(f_place - f_head) < (ADDRESS + 1)'(f_tail - f_head));
`ifdef BOUNDED
                if (is_read == f_kind && f_place == f_head) assert (dout == f_word);
`endif
                if (pop && is_read == f_kind && f_place == f_head) f_follows <= 1'b0;
            end else if (push && push_read == f_kind && din == f_word) begin
                f_follows <= 1'b1;
                f_place <= f_tail;
            end
        end
    end
