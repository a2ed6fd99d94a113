// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of dma_engine_target: the rules of AXI4-Stream on CC, and that no completion is sent before earlier writes
// have passed.
    logic f_started, f_held;
    initial f_started = 1'b0;
    logic [DATA_WIDTH-1:0] f_data;
    logic [LANES-1:0] f_keep;
    logic f_last, f_cq_held;
    logic [DATA_WIDTH-1:0] f_cq_data;
    logic [8:0] f_cq_rest;
    logic f_accessed;

    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        f_held <= !rst && cc_tvalid && !cc_tready;
        f_accessed <= !rst && access && !access_done;
        f_data <= cc_tdata;
        f_keep <= cc_tkeep;
        f_last <= cc_tlast;
        if (!rst && f_held) begin
            assert (cc_tvalid);
            assert (cc_tdata == f_data && cc_tkeep == f_keep && cc_tlast == f_last);
        end
        // The block follows the rules on CQ, and an access is answered only while it is pending.
        f_cq_held <= !rst && cq_tvalid && !cq_tready;
        f_cq_data <= cq_tdata;
        f_cq_rest <= {cq_tlast, cq_first_be, cq_last_be};
        if (f_cq_held) assume (cq_tvalid && cq_tdata == f_cq_data && {cq_tlast, cq_first_be, cq_last_be} == f_cq_rest);
        if (!rst) begin
            assume (!access_done || (access && f_accessed));
            // One read at a time.
            assert (!(beat_full && !read_busy));
            assert (!may_go || (beat_full && ticket_taken));
            assert (!ticket_taken || beat_full);
            assert (!reads || !beat_full);
            assert (!read_head || (read_busy && !beat_full));
            // Double-words of the descriptor and of the data never arrive in the same cycle.
            assert (!(read_head && read_done));
            assert (!(access && turn_read) || reads);
        end
    end
