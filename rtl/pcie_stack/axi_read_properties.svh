// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_axi_read. A beat of R stays until it is taken. A marked burst gets its ID, its number of beats and RLAST once.
// No beat comes without a burst. A slot, and so its tag, is not used for a second request before the first is answered.
    (* anyseq *) logic f_any;
    logic f_started, f_waits, f_marked, f_answered;
    logic [CPU_ID+CPU_WIDTH+2:0] f_beat;
    logic [5:0] f_bursts, f_ahead;
    logic [7:0] f_len, f_beats;
    logic [CPU_ID-1:0] f_id;
    logic [READ_SLOTS-1:0] f_used;
    logic f_ar, f_r;
    assign f_ar = arvalid && arready;
    assign f_r = rvalid && rready;
    initial f_started = 1'b0;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (!access_valid) assume (!access_done);
        if (rst) begin
            f_waits <= 1'b0;
            f_marked <= 1'b0;
            f_answered <= 1'b0;
            f_bursts <= '0;
            f_beats <= '0;
            f_used <= '0;
        end else begin
            if (f_waits) assert (rvalid && f_beat == {rid, rdata, rresp, rlast});
            f_waits <= rvalid && !rready;
            f_bursts <= f_bursts + 6'(f_ar) - 6'(f_r && rlast);
            if (rvalid) assert (f_bursts != '0);
            if (f_ar && f_any && !f_marked) begin
                f_marked <= 1'b1;
                f_ahead <= f_bursts - 6'(f_r && rlast);
                f_len <= arlen;
                f_id <= arid;
            end else if (f_marked && f_ahead != '0 && f_r && rlast) f_ahead <= f_ahead - 1'b1;
            if (f_marked && !f_answered && f_ahead == '0 && rvalid) begin
                assert (rid == f_id && rlast == (f_beats == f_len));
                if (rready) f_beats <= f_beats + 1'b1;
                if (rready && rlast) f_answered <= 1'b1;
            end
            if (send_valid && send_ready) begin
                assert (!f_used[send_slot]);
                f_used[send_slot] <= 1'b1;
            end
            if (frees) begin
                assert (f_used[slot] && !pending[slot]);
                f_used[slot] <= 1'b0;
            end
        end
        f_beat <= {rid, rdata, rresp, rlast};
    end
