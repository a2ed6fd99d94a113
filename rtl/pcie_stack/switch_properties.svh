// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_switch_core: each received beat is presented once, unchanged and in order; a TLP leaves whole, to the ports of its route and to no other,
// which is one unless it is a broadcast; TLPs are never mixed at an egress port, and begin only with room; non-posted requests and completions do not
// pass posted requests. Assumed: the reset, and TLPs that begin with `sop`. Links, room and, with formal/any_switch_config.sv, settings are free.
    logic f_started;
    logic [STREAMS-1:0] f_in, f_within, f_loads, f_stays, f_first, f_older;
    logic [31*STREAMS-1:0] f_data;
    logic [(PORTS+1)*STREAMS-1:0] f_went, f_path;
    logic [PORTS-1:0] f_sending;
    logic [SOURCES*PORTS-1:0] f_source;
    initial f_started = 1'b0;
    always_comb
        for (int s = 0; s < STREAMS; s++) begin
            f_went[(PORTS+1)*s+PORTS] = ended[s];
            for (int n = 0; n < PORTS; n++) f_went[(PORTS+1)*s+n] = taken[SOURCES*n+s];
        end
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        for (int s = 0; s < STREAMS; s++) begin
            if (rst) begin
                f_in[s] <= 1'b0;
                f_within[s] <= 1'b0;
                f_loads[s] <= 1'b0;
                f_stays[s] <= 1'b0;
                f_older[s] <= 1'b0;
            end else begin
                // The user.
                if (rx_valid[s]) assume (rx_sop[s] == !f_in[s]);
                if (rx_valid[s] && rx_ready[s]) f_in[s] <= !rx_eop[s];
                // A beat is presented in the next cycle, and stays until it leaves.
                f_loads[s] <= rx_valid[s] && rx_ready[s];
                f_stays[s] <= valid[s] && !leaves[s];
                f_data[31*s+:31] <= rx_valid[s] && rx_ready[s] ? rx_data[DATA_WIDTH*s+1+:31] : data[DATA_WIDTH*s+1+:31];
                f_first[s] <= rx_valid[s] && rx_ready[s] ? rx_sop[s] : sop[s];
                // No beat takes the place of one that has not left.
                if (rx_valid[s] && rx_ready[s]) assert (!valid[s] || leaves[s]);
                assert (valid[s] == (f_loads[s] || f_stays[s]));
                if (valid[s]) assert (data[DATA_WIDTH*s+1+:31] == f_data[31*s+:31] && sop[s] == f_first[s]);
                // It leaves with its TLP, by its route.
                assert (leaves[s] == (f_went[(PORTS+1)*s+:PORTS+1] != '0));
                if (leaves[s]) begin
                    assert (valid[s] && sop[s] == !f_within[s]);
                    assert (f_went[(PORTS+1)*s+:PORTS+1] == (sop[s] ? to[(PORTS+1)*s+:PORTS+1] : f_path[(PORTS+1)*s+:PORTS+1]));
                    if (s != 0 || ended[s] || taken[s])
                        assert ((f_went[(PORTS+1)*s+:PORTS+1] & (f_went[(PORTS+1)*s+:PORTS+1] - 1'b1)) == '0);
                    f_within[s] <= !eop[s];
                    f_path[(PORTS+1)*s+:PORTS+1] <= f_went[(PORTS+1)*s+:PORTS+1];
                end
                // Order: the posted request was here first, and has not begun to leave.
                if (leaves[3*(s/3)]) f_older[s] <= 1'b0;
                else if (s % 3 != 0 && rx_valid[s] && rx_ready[s] && rx_sop[s]) f_older[s] <= valid[3*(s/3)];
                if (leaves[s] && sop[s]) assert (!f_older[s]);
            end
        end
        for (int n = 0; n < PORTS; n++) begin
            if (!rst) assert ((taken[SOURCES*n+:SOURCES] & (taken[SOURCES*n+:SOURCES] - 1'b1)) == '0);
            if (rst) f_sending[n] <= 1'b0;
            else if (tx_valid[n]) begin
                assert (tx_sop[n] == !f_sending[n]);
                if (f_sending[n]) assert (taken[SOURCES*n+:SOURCES] == f_source[SOURCES*n+:SOURCES]);
                for (int s = 0; s < STREAMS; s++)
                    if (taken[SOURCES*n+s]) begin
                        assert (tx_data[DATA_WIDTH*n+:32] == data[DATA_WIDTH*s+:32] && tx_eop[n] == eop[s]);
                        if (sop[s]) assert (tx_room[3*n+s%3]);
                    end
                f_sending[n] <= !tx_eop[n];
                f_source[SOURCES*n+:SOURCES] <= taken[SOURCES*n+:SOURCES];
            end
        end
    end
