// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_phy_rx_frames: the queue never overflows, frames leave whole and never mixed, and each double-word of a frame leaves with its frame.
// Assumed: the reset, and marks as the parsers make them. The solver marks one frame by the highest bit of its double-words.
    logic f_started, f_open, f_opens, f_marked, f_marks, f_used, f_uses, f_within, f_mark, f_dllp;
    logic [5:0] f_in, f_ins, f_out, f_outs;
    initial f_started = 1'b0;
    always_comb begin
        f_opens = f_open;
        f_marks = f_marked;
        f_uses = f_used;
        f_ins = f_in;
        for (int i = 0; i < D; i++)
            if (marked_valid) begin
                if (first[i]) begin
                    f_opens = 1'b1;
                    f_marks = !f_uses && marked[32*i+31];
                    f_uses = f_uses || f_marks;
                end
                if (f_opens && f_marks) f_ins = f_ins + 1'b1;
                if (final_one[i]) f_opens = 1'b0;
            end
        f_outs = f_out;
        for (int i = 0; i < DWORDS; i++)
            if (frame_valid && frame_data[32*i+31] && (!frame_eop || LANE'(i) <= frame_end)) f_outs = f_outs + 1'b1;
    end
    logic f_open_here, f_mark_here, f_used_here;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            f_open <= 1'b0;
            f_marked <= 1'b0;
            f_used <= 1'b0;
            f_within <= 1'b0;
            f_in <= '0;
            f_out <= '0;
        end else begin
            f_open_here = f_open;
            f_mark_here = f_marked;
            f_used_here = f_used;
            if (f_open) assume (marked_valid);
            for (int i = 0; i < D; i++)
                if (marked_valid) begin
                    assume (!(first[i] && (f_open_here || final_one[i])));
                    if (first[i]) begin
                        f_open_here = 1'b1;
                        f_mark_here = !f_used_here && marked[32*i+31];
                        f_used_here = f_used_here || f_mark_here;
                    end
                    assume (marked[32*i+31] == (f_open_here && f_mark_here));
                    if (final_one[i]) f_open_here = 1'b0;
                end
            f_open <= f_opens;
            f_marked <= f_marks;
            f_used <= f_uses;
            f_in <= f_ins;
            f_out <= f_outs;
            assert (count <= (ADDRESS + 1)'(DEPTH - 1));
            if (frame_valid) begin
                assert (frame_sop == !f_within);
                if (!frame_sop) assert (frame_dllp == f_dllp);
                // All double-words of a beat are of one frame, and so are all beats.
                for (int i = 0; i < DWORDS; i++)
                    if (!frame_eop || LANE'(i) <= frame_end) begin
                        assert (frame_data[32*i+31] == frame_data[31] || (frame_eop && frame_error));
                        if (!frame_sop) assert (frame_data[32*i+31] == f_mark || (frame_eop && frame_error));
                    end
                f_within <= !frame_eop;
                f_mark <= frame_data[31];
                f_dllp <= frame_dllp;
                // The whole frame has left, or it has an error.
                if (frame_eop && frame_data[31] && !frame_error) assert (f_outs == f_in);
            end
        end
    end
