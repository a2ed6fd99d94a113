// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_endpoint_write. AW and W stay until they are taken or the bus is reset. An access is aligned to its size. A marked burst has as
// many beats as its address says, also if the bus is given up. No beat comes without a burst. The assumptions are that TLPs have their
// Length, and that B comes after both channels.
    (* anyconst *) logic [2:0] f_mark;
    logic f_started, f_aw_waits, f_w_waits, f_aw_seen, f_w_seen;
    logic [74:0] f_aw;
    logic [BUS_WIDTH+BUS_WIDTH/8:0] f_w;
    logic [2:0] f_aws, f_ws, f_bs;
    logic [7:0] f_len, f_beats;
    logic [11:0] f_words, f_rest;
    logic [12:0] f_bytes;
    initial f_started = 1'b0;
    assign f_bytes = 13'(awlen + 9'd1) << awsize;
    // Double-words of the TLP from this beat on.
    assign f_words = rx_sop ? 12'(h0[29] ? 4 : 3) + (h0[30] ? 12'(h0[9:0]) : 12'd0) + 12'(h0[15]) : f_rest;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume (bus_timeout == 32'd1);
        if (rx_valid) begin
            assume (rx_sop == (f_rest == '0));
            assume (rx_eop == (f_words <= 12'(LANES)));
            if (rx_sop && h0[30]) assume (h0[9:0] != '0);
        end
        if (f_bs == f_aws || f_bs == f_ws) assume (!bvalid);
        // The marked burst is one of the first eight.
        assume (f_aws != '1 && f_ws != '1);
        if (rst || bus_rst) begin
            f_aws <= rst ? '0 : begun[2:0];
            f_ws <= rst ? '0 : begun[2:0];
            f_bs <= rst ? '0 : begun[2:0];
            f_aw_waits <= 1'b0;
            f_w_waits <= 1'b0;
            f_aw_seen <= 1'b0;
            f_w_seen <= 1'b0;
            f_beats <= '0;
        end else begin
            if (f_aw_waits) assert (awvalid && f_aw == {awaddr, awlen, awsize});
            if (f_w_waits) assert (wvalid && f_w == {wdata, wstrb, wlast});
            f_aw_waits <= awvalid && !awready;
            f_w_waits <= wvalid && !wready;
            if (wvalid) assert (f_ws != begun_kept[2:0]);
            if (awvalid) assert ((awaddr[12:0] & (f_bytes - 13'd1)) == '0);
            if (awvalid && awready) begin
                f_aws <= f_aws + 1'b1;
                if (f_aws == f_mark) begin
                    f_aw_seen <= 1'b1;
                    f_len <= awlen;
                    if (f_w_seen) assert (f_beats == awlen);
                end
            end
            if (wvalid && wready) begin
                if (wlast) f_ws <= f_ws + 1'b1;
                if (f_ws == f_mark) begin
                    if (f_aw_seen) assert (wlast == (f_beats == f_len));
                    if (wlast) f_w_seen <= 1'b1;
                    else f_beats <= f_beats + 1'b1;
                end
            end
            if (bvalid) f_bs <= f_bs + 1'b1;
        end
        if (rst) f_rest <= '0;
        else if (rx_valid && rx_ready) f_rest <= rx_eop ? '0 : f_words - 12'(LANES);
        f_aw <= {awaddr, awlen, awsize};
        f_w <= {wdata, wstrb, wlast};
    end
