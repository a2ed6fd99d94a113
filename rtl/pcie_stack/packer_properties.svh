// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_phy_tx_packer's plan: each word of the link is planned in time, the plan fits in the stream's buffer, nothing comes between
// the parts of a frame, and each beat is planned once. Assumed: the reset, and beats that stay until they are taken and make whole frames. The
// link state is free.
    logic f_started, f_within, f_stays;
    initial f_started = 1'b0;
    logic [LANE+14:0] f_beat;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            f_within <= 1'b0;
            f_stays <= 1'b0;
        end else begin
            // The data link layer.
            if (valid) assume (sop == !f_within);
            if (valid && dllp) assume (sop && eop && length == 11'd2 && last == LANE'(1));
            if (valid) assume (length_less_1 == length - 11'd1);
            if (valid && sop && !dllp) assume (length >= 11'd5);
            if (f_stays) assume (valid && f_beat == {sop, eop, dllp, nullify, last, length});
            if (valid && take) f_within <= !eop;
            f_stays <= valid && !take;
            // A word leaves in each cycle, and the buffer has two beats.
            assert ((PLACE + 2)'(slack) + (PLACE + 2)'(n) >= (PLACE + 2)'(D));
            assert (slack <= (PLACE + 1)'(DWORDS) + (PLACE + 1)'(DWORDS - D));
            assert ((PLACE + 2)'(slack) + (PLACE + 2)'(n) <= (PLACE + 2)'(2 * DWORDS));
            assert (used == (N'(slack) & N'(D - 1)));
            // One source at a time; sets and idle only between frames.
            assert ($onehot0({frame_word, in_frame && owes_edb, sends_set, pads}));
            if (in_frame) assert (!pads && !sends_set && !begins);
            if (begins) assert (valid && sop && take);
            if (take && !discarding) assert (frame_word && !fills);
            if (in_frame && take && !discarding) assert (!sop);
        end
        f_beat <= {sop, eop, dllp, nullify, last, length};
    end
