// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_root_complex_nonposted. AR and TLPs stay until they are taken, and a TLP does not pause. Bursts stay in 4 KiB. An ID is
// not used again before its data have come, also if the bus is given up. The assumption is that R follows the rules of AXI.
    logic f_started, f_ar_waits, f_tx_waits, f_in_tlp;
    logic [71+SLOT:0] f_ar;
    logic [DATA_WIDTH+1:0] f_tx;
    logic [SLOTS-1:0] f_out;
    logic [7:0] f_left[0:SLOTS-1];
    initial f_started = 1'b0;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume (bus_timeout == 32'd1);
        if (rx_valid) assume (rx_sop && rx_eop);
        if (rvalid) assume (f_out[rid] && rlast == (f_left[rid] == '0));
        if (rst) begin
            f_ar_waits <= 1'b0;
            f_tx_waits <= 1'b0;
            f_in_tlp <= 1'b0;
            f_out <= '0;
        end else begin
            if (f_ar_waits) assert (arvalid && f_ar == {arid, araddr, arlen});
            if (f_tx_waits) assert (tx_valid && f_tx == {tx_sop, tx_eop, tx_data});
            if (f_in_tlp) assert (tx_valid);
            if (tx_valid) assert (tx_sop == !f_in_tlp);
            f_ar_waits <= arvalid && !arready;
            f_tx_waits <= tx_valid && !tx_ready;
            if (tx_valid && tx_ready) f_in_tlp <= !tx_eop;
            if (rvalid && rlast) f_out[rid] <= 1'b0;
            if (rvalid) f_left[rid] <= f_left[rid] - 1'b1;
            assert ((f_out & ~busy) == '0);
            if (arvalid) begin
                assert (!f_out[arid]);
                assert (13'(araddr[11:BYTE]) + 13'(arlen) < 13'(4096 / (DATA_WIDTH / 8)));
            end
            if (arvalid && arready) begin
                f_out[arid] <= 1'b1;
                f_left[arid] <= arlen;
            end
        end
        f_ar <= {arid, araddr, arlen};
        f_tx <= {tx_sop, tx_eop, tx_data};
    end
