// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of dma_engine_transmit: the rules of AXI4-Stream on RQ (a valid beat stays unchanged), the number of beats matches the
// length, and there is no gap between the beats of a packet, unless user logic needs two rows for the first. Requests stay until they are
// taken.
    logic f_started, f_held;
    initial f_started = 1'b0;
    logic [DATA_WIDTH-1:0] f_data;
    logic [LANES-1:0] f_keep;
    logic f_last;
    logic [7:0] f_be;
    logic f_request_stays;
    logic [184:0] f_request;

    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        f_held <= !rst && rq_tvalid && !rq_tready;
        f_data <= rq_tdata;
        f_keep <= rq_tkeep;
        f_last <= rq_tlast;
        f_be <= {rq_last_be, rq_first_be};
        if (!rst && f_held) begin
            assert (rq_tvalid);
            assert (rq_tdata == f_data && rq_tkeep == f_keep && rq_tlast == f_last && {rq_last_be, rq_first_be} == f_be);
        end
        // Legal requests: not empty, at most 512 bytes, with contained data at most 12; and they stay.
        f_request_stays <= !rst && request && !taken;
        f_request <= {kind, logic_kind, address, bytes, given, target};
        if (f_request_stays) assume (request && f_request == {kind, logic_kind, address, bytes, given, target});
        if (request) assume (bytes != '0 && bytes <= 13'd512 && kind != 2'd3 && (kind == READ || kind == ROWS || bytes <= 13'd12));
        if (request) assume (kind != 2'd1 || address[1:0] == 2'd0);
    end

    // Counts the beats of a packet against the length in its first beat.
    logic [10:0] f_dwords, f_seen;
    logic f_in, f_write;
    always_ff @(posedge clk)
        if (rst) f_in <= 1'b0;
        else if (rq_tvalid && rq_tready) begin
            f_in <= !rq_tlast;
            if (!f_in) begin
                f_dwords <= rq_tdata[74:64];
                f_write <= rq_tdata[75];
                f_seen <= 11'(LANES);
                assert (rq_tlast == (!rq_tdata[75] || 11'd4 + rq_tdata[74:64] <= 11'(LANES)));
            end else begin
                f_seen <= f_seen + 11'(LANES);
                assert (f_write && rq_tlast == (f_seen + 11'(LANES) >= f_dwords + 11'd4));
            end
            if (!rq_tlast) assert (rq_tkeep == '1);
        end
