// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_tl_order. The solver marks one TLP of a type that it chooses. The marked TLP waits exactly while an older posted
// request is present. No counter wraps.
    (* anyconst *) logic f_type;  // 0: non-posted, 1: completion
    (* anyseq *) logic f_mark;
    logic f_started, f_marked, f_left;
    initial f_started = 1'b0;
    logic [COUNT-1:0] f_before;          // TLPs of this type ahead of the marked one
    logic [$clog2(POSTED):0] f_posted, f_older;  // posted requests; those that are older than the marked TLP
    logic [1:0] f_start, f_push;
    assign f_start = start;
    assign f_push = push[2:1];
    logic [COUNT-1:0] f_inside_np, f_inside_cpl;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume ($onehot0(push));
        if (rst) begin
            f_marked <= 1'b0;
            f_left <= 1'b0;
            f_before <= '0;
            f_posted <= '0;
            f_older <= '0;
            f_inside_np <= '0;
            f_inside_cpl <= '0;
        end else begin
            // Users: queues are not overfilled; only TLPs that exist leave, and those that wait leave only if relaxed, in the window.
            assume (!push[0] || f_posted < POSTED);
            assume (!posted_done || f_posted != 0);
            assume (!push[1] || f_inside_np < OTHERS);
            assume (!push[2] || f_inside_cpl < OTHERS);
            assume (!start[1] || (f_inside_np != 0 && (!waits[1] || window[1])));
            assume (!start[2] || (f_inside_cpl != 0 && (!waits[2] || window[2])));
            f_inside_np <= f_inside_np + COUNT'(push[1]) - COUNT'(start[1]);
            f_inside_cpl <= f_inside_cpl + COUNT'(push[2]) - COUNT'(start[2]);
            f_posted <= f_posted + (push[0] ? 1'b1 : 1'b0) - (posted_done ? 1'b1 : 1'b0);

            if (!f_marked && f_mark && f_push[f_type]) begin
                f_marked <= 1'b1;
                f_before <= (f_type ? f_inside_cpl : f_inside_np) - COUNT'(f_start[f_type]);
                f_older <= f_posted - (posted_done ? 1'b1 : 1'b0);
            end else if (f_marked && !f_left) begin
                if (f_start[f_type]) begin
                    f_before <= f_before - 1'b1;
                    if (f_before == 0) f_left <= 1'b1;
                end
                if (posted_done && f_older != 0) f_older <= f_older - 1'b1;
                // The marked TLP is the oldest of its type: it waits if and only if an older posted request is there.
                if (f_before == 0) assert ((f_type ? waits[2] : waits[1]) == (f_older != 0));
            end
        end
    end
