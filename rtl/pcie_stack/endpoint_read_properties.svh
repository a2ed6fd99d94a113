// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_endpoint_read. AR stays until it is taken or the bus is reset, and is aligned to its size. No read begins before the data of the last
// one have come, also if the bus is given up. TLPs stay until they are taken and do not pause. The assumption is that R follows the rules of AXI.
    logic f_started, f_ar_waits, f_tx_waits, f_in_tlp, f_out;
    logic [74:0] f_ar;
    logic [DATA_WIDTH+1:0] f_tx;
    logic [7:0] f_left;
    logic [12:0] f_bytes;
    initial f_started = 1'b0;
    assign f_bytes = 13'(arlen + 9'd1) << arsize;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume (bus_timeout == 32'd1);
        if (rvalid) assume (f_out && rlast == (f_left == '0));
        if (rst) begin
            f_tx_waits <= 1'b0;
            f_in_tlp <= 1'b0;
        end else begin
            if (f_tx_waits) assert (tx_valid && f_tx == {tx_sop, tx_eop, tx_data});
            if (f_in_tlp) assert (tx_valid);
            if (tx_valid) assert (tx_sop == !f_in_tlp);
            f_tx_waits <= tx_valid && !tx_ready;
            if (tx_valid && tx_ready) f_in_tlp <= !tx_eop;
        end
        if (rst || bus_rst) begin
            f_ar_waits <= 1'b0;
            f_out <= 1'b0;
        end else begin
            if (f_ar_waits) assert (arvalid && f_ar == {araddr, arlen, arsize});
            f_ar_waits <= arvalid && !arready;
            if (rvalid && rlast) f_out <= 1'b0;
            if (rvalid) f_left <= f_left - 1'b1;
            if (arvalid) assert (!f_out && (araddr[12:0] & (f_bytes - 13'd1)) == '0);
            if (arvalid && arready) begin
                f_out <= 1'b1;
                f_left <= arlen;
            end
        end
        f_ar <= {araddr, arlen, arsize};
        f_tx <= {tx_sop, tx_eop, tx_data};
    end
